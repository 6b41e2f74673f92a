"""How the machine's cores are shared between an algorithm and its runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.rllib._engine.custom import policies_with_own

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory


def _runners(config: AlgorithmConfig) -> int:
    return int(config.num_env_runners + (config.evaluation_num_env_runners if config.evaluation_interval else 0))


def _scale(config: AlgorithmConfig, total: float) -> float:
    """How much of what was asked for there is. Programs written for larger machines run here too, taking turns."""
    asked = config.num_cpus_for_main_process + _runners(config) * config.num_cpus_per_env_runner
    return min(1.0, total / asked) if asked else 1.0


def _share(amount: float, scale: float) -> float:
    # Resources are counted in ten-thousandths; rounded down, the parts never exceed the whole.
    return int(amount * scale * 10_000) / 10_000 if scale < 1.0 else float(amount)


def runner_cpus(config: AlgorithmConfig) -> float:
    """The cores of one runner."""
    if not eagleray.is_initialized():
        eagleray.init()
    total = eagleray.cluster_resources().get("CPU", 0.0)
    return _share(config.num_cpus_per_env_runner, _scale(config, total))


def trial_bundles(config: AlgorithmConfig) -> PlacementGroupFactory:
    """What a trial of Tune sets aside: for the algorithm itself, and for each runner."""
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory

    total = eagleray.cluster_resources().get("CPU", 0.0)
    scale = _scale(config, total)
    main: dict[str, Any] = {"CPU": _share(config.num_cpus_for_main_process, scale)}
    # Built-in networks learn on the CPU, whatever is asked for.
    if policies_with_own(config):
        main["GPU"] = float(config.num_gpus or 0) + float(config.num_gpus_per_learner or 0)
    bundles = [main]
    runner = {
        "CPU": _share(config.num_cpus_per_env_runner, scale),
        "GPU": config.num_gpus_per_env_runner,
        **config.custom_resources_per_env_runner,
    }
    bundles += [dict(runner) for _ in range(_runners(config))]
    return PlacementGroupFactory(bundles, config.placement_strategy)
