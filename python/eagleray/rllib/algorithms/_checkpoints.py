"""A checkpoint: weights and states as the engine writes them, counters as JSON, and what is needed to build the algorithm again.

metadata.json                                        which version wrote it, for which algorithm and policies
algorithm_state.json                                 counters and the statistics of episodes
class_and_ctor_args.pkl                              class and configuration, which may hold functions
learner_group/learner/rl_module/POLICY/module_state.safetensors
learner_group/learner/rl_module/POLICY/module.json   what the network looks like: `eagleray.rllib.export` reads both
learner_group/learner/state/POLICY.bin               optimiser, chance, coefficients
env_runner/{simulator,collector}.bin                 of the runner in this process, where it can be written down
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import __version__, cloudpickle
from eagleray.rllib._engine import _filters, _models
from eagleray.tune import registry
from eagleray.tune._checkpoint import Checkpoint

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm import Algorithm

#: Raised when what the files mean changes.
FORMAT = 1

_MODULES = "learner_group/learner/rl_module"
_STATES = "learner_group/learner/state"
_WEIGHTS = "module_state.safetensors"
_ABOUT = "module.json"
_CONSTRUCTOR = "class_and_ctor_args.pkl"


class CheckpointError(ValueError):
    """A checkpoint that cannot be gone on from here."""


class Saved(Checkpoint):
    """A checkpoint that was just written. Programs of either era take it for a path, or ask for `.checkpoint`."""

    __slots__ = ()

    @property
    def checkpoint(self) -> Checkpoint:
        """Itself."""
        return self

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


def write(algorithm: Algorithm, folder: str) -> None:
    """Writes all of it."""
    root = Path(folder)
    policies = sorted(algorithm.learners)
    for name, learner in algorithm.learners.items():
        export(algorithm, str(root / _MODULES / name), name)
        _write(root / _STATES / f"{name}.bin", learner.state())
    local = algorithm.env_runner_group.local_env_runner
    if local is not None:
        for name, data in local.get_state().items():
            _write(root / "env_runner" / f"{name}.bin", data)
    state = {
        "counters": algorithm.counters.lifetime,
        "episodes": algorithm._episodes.state(),
        "own": algorithm.own_state(),
    }
    (root / "algorithm_state.json").write_text(json.dumps(state))
    kind = _plain_class(algorithm)
    metadata = {
        "type": "Algorithm",
        "format": FORMAT,
        "eagleray_version": __version__,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "policy_ids": policies,
        "shapes": {name: _shapes(algorithm, name) for name in policies},
    }
    (root / "metadata.json").write_text(json.dumps(metadata, indent=2))
    env = algorithm.config.env
    known = {name: creator for name, creator in registry.known_envs().items() if name == env}
    (root / _CONSTRUCTOR).write_bytes(cloudpickle.dumps((kind, algorithm.config, known)))


def read(algorithm: Algorithm, folder: str) -> None:
    """Goes on from it. Refuses one of another version or shape before anything is changed."""
    root = Path(folder)
    metadata = _metadata(root)
    for name in algorithm.learners:
        if name not in metadata["policy_ids"]:
            raise CheckpointError(f"{folder} has no policy {name!r}; it has {metadata['policy_ids']}")
        then, now = metadata["shapes"][name], _shapes(algorithm, name)
        if then != now:
            raise CheckpointError(f"{folder} is of another shape: policy {name!r} was {then}, and is {now} here")
    for name, learner in algorithm.learners.items():
        learner.set_weights((root / _MODULES / name / _WEIGHTS).read_bytes())
        learner.restore((root / _STATES / f"{name}.bin").read_bytes())
    local = algorithm.env_runner_group.local_env_runner
    runner = root / "env_runner"
    if local is not None and runner.is_dir():
        local.set_state({file.stem: file.read_bytes() for file in sorted(runner.glob("*.bin"))})
    state = json.loads((root / "algorithm_state.json").read_text())
    algorithm.counters.lifetime.update(state["counters"])
    algorithm._episodes.restore(state["episodes"])
    algorithm.restore_own(state["own"])


def rebuild(folder: str, **over: Any) -> Algorithm:
    """The algorithm that wrote a checkpoint, as new, with some settings otherwise."""
    root = Path(folder)
    _metadata(root)
    kind, config, known = cloudpickle.loads((root / _CONSTRUCTOR).read_bytes())
    config = config.copy(copy_frozen=False).update_from_dict(
        {name: one for name, one in over.items() if one is not None}
    )
    # Models are in the configuration itself.
    made: Algorithm = kind.carrying(known, models={})(config=config)
    return made


def export(algorithm: Algorithm, folder: str, policy_id: str) -> str:
    """Writes a policy's weights, and what its network looks like."""
    root = Path(folder)
    if policy_id not in algorithm.learners:
        raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(algorithm.learners)}")
    weights = algorithm.learners[policy_id].weights()
    _write(root / _WEIGHTS, weights)
    (root / _ABOUT).write_text(json.dumps(about(algorithm, policy_id, weights), indent=2, default=str))
    return str(root)


def about(algorithm: Algorithm, policy_id: str, weights: bytes) -> dict[str, Any]:
    """What a policy's network looks like: enough to build it anew, without the program that trained it."""
    plan = algorithm._plans[policy_id]
    kind, network = ("custom", "null") if plan.custom is not None else _models.described(plan)
    spec, (moments, _) = _filters.spec_of(plan), _filters.parted(weights)
    scale = None
    if spec is not None and moments is not None and json.loads(spec)["observes"]:
        from eagleray.rllib._engine._moments import observed_of

        seen = observed_of(moments)
        scale = {
            "means": seen.means.tolist(),
            "factors": seen.factors().tolist(),
            "most": json.loads(spec)["observed_max"],
        }
    space = algorithm._spaces[policy_id].observation_space
    return {
        "algorithm": plan.algorithm,
        "kind": kind,
        "network": json.loads(network),
        "observation_filter": scale,
        "observation_start": int(getattr(space, "start", 0)) if type(space).__name__ == "Discrete" else 0,
        "model": dict(plan.model),
        **_shapes(algorithm, policy_id),
    }


def _metadata(root: Path) -> dict[str, Any]:
    try:
        metadata: dict[str, Any] = json.loads((root / "metadata.json").read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{root} is no checkpoint of an algorithm: it has no metadata.json") from None
    if metadata.get("format") != FORMAT:
        wrote = metadata.get("eagleray_version", metadata.get("ray_version", "another program"))
        raise CheckpointError(
            f"{root} has the format {metadata.get('format')!r}, written by {wrote}; eagleray {__version__} reads {FORMAT}"
        )
    return metadata


def _shapes(algorithm: Algorithm, policy_id: str) -> dict[str, Any]:
    plan = algorithm._plans[policy_id]
    sizes = ("fcnet_hiddens", "conv_filters", "use_lstm", "lstm_cell_size", "vf_share_layers", "head_fcnet_hiddens")
    shape = {name: plan.model.get(name) for name in sizes}
    shape |= {"observed": list(plan.observed.shape), "acted": [plan.acted.kind, list(plan.acted.sizes)]}
    made: dict[str, Any] = json.loads(json.dumps(shape))
    return made


def _plain_class(algorithm: Algorithm) -> type[Algorithm]:
    """Without the environments and models that it carries; those are kept apart."""
    kind = type(algorithm)
    if "known_envs" in vars(kind) and (kind.known_envs or kind.known_models):
        kind = kind.__bases__[0]
    return kind


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
