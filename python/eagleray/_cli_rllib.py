"""`eagleray rllib train|evaluate`: algorithms from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_GIF_MS = 33
_FRAMES_MAX = 2000


def add_parser(commands: Any) -> None:
    """Add the commands to those of `eagleray`."""
    rllib = commands.add_parser("rllib", help="train policies and try them")
    actions = rllib.add_subparsers(title="commands", metavar="COMMAND", required=True)

    train = actions.add_parser("train", help="train a policy: eagleray rllib train --run PPO --env CartPole-v1")
    train.add_argument("--run", dest="algorithm", metavar="NAME", help="the algorithm: PPO, DQN, A2C, SAC, IMPALA, ES")
    train.add_argument("--env", help="the environment's name")
    train.add_argument("--stop", type=_json, default={}, help="when to stop, as JSON: '{\"timesteps_total\": 100000}'")
    train.add_argument("--config", type=_json, default={}, help="settings as JSON: '{\"lr\": 0.001}'")
    train.add_argument("-f", "--config-file", metavar="FILE", help="experiments in a file of YAML or JSON")
    train.add_argument("--checkpoint-freq", type=int, default=0, metavar="N", help="save after every N iterations")
    train.add_argument("--local-dir", metavar="DIR", help="where results go; ~/ray_results if not given")
    train.add_argument("--experiment-name", metavar="NAME", help="the name of the experiment and its folder")
    train.add_argument("--num-samples", type=int, default=1, metavar="N", help="trials of each configuration")
    train.set_defaults(run=_train)

    for name in ("evaluate", "rollout"):
        evaluate = actions.add_parser(name, help="try the policy of a checkpoint")
        evaluate.add_argument("checkpoint", metavar="CKPT", help="the checkpoint's folder")
        evaluate.add_argument("--run", dest="algorithm", metavar="NAME", help="the algorithm; the checkpoint knows it")
        evaluate.add_argument("--env", help="another environment than that of the training")
        evaluate.add_argument("--episodes", type=int, default=10, metavar="N", help="episodes to play (10)")
        evaluate.add_argument(
            "--explore", action="store_true", help="explore as in training; else take the best action"
        )
        evaluate.add_argument("--render", metavar="FILE", help="draw the first episodes into a .gif file")
        evaluate.add_argument("--json", action="store_true", help="as JSON")
        evaluate.set_defaults(run=_evaluate)


def _json(text: str) -> Any:
    import argparse

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None


def _train(options: Any) -> int:
    from eagleray import tune
    from eagleray.tune.error import TuneError

    try:
        for name, experiment in _experiments(options).items():
            run = experiment.pop("run")
            config = dict(experiment.pop("config", {}))
            if "env" in experiment:
                config["env"] = experiment.pop("env")
            analysis = tune.run(run, name=name, config=config, checkpoint_at_end=True, **experiment)
            for trial in analysis.trials:
                if trial.checkpoint is not None:
                    print(f"Checkpoint: {trial.checkpoint.path}")
    except TuneError as error:
        raise ValueError(str(error)) from error
    return 0


def _experiments(options: Any) -> dict[str | None, dict[str, Any]]:
    if options.config_file:
        found: dict[str | None, dict[str, Any]] = {}
        for name, experiment in _read(options.config_file).items():
            if not isinstance(experiment, dict) or "run" not in experiment:
                raise ValueError(f"{options.config_file}: experiment {name!r} does not say what to `run`")
            found[name] = dict(experiment)
        return found
    if not options.algorithm:
        raise ValueError("say which algorithm: --run PPO; or give a file with experiments: -f FILE")
    experiment = {
        "run": options.algorithm,
        "stop": options.stop or None,
        "config": options.config,
        "checkpoint_freq": options.checkpoint_freq,
        "local_dir": options.local_dir,
        "num_samples": options.num_samples,
    }
    if options.env:
        experiment["env"] = options.env
    return {options.experiment_name: experiment}


def _read(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if path.endswith(".json"):
        found = json.loads(text)
    else:
        try:
            import yaml
        except ImportError:
            raise ValueError(f"reading {path} needs PyYAML: pip install pyyaml, or write it as .json") from None
        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold experiments by name")
    return found


def _evaluate(options: Any) -> int:
    from eagleray.rllib.algorithms import _checkpoints

    algorithm = _checkpoints.rebuild(
        options.checkpoint,
        env=options.env,
        num_env_runners=0,
        evaluation_duration=options.episodes,
        evaluation_duration_unit="episodes",
        evaluation_num_env_runners=0,
        evaluation_config={"explore": options.explore},
    )
    if options.algorithm and options.algorithm not in {kind.__name__ for kind in type(algorithm).__mro__}:
        raise ValueError(f"{options.checkpoint} is of {type(algorithm).__name__}, not of {options.algorithm}")
    algorithm.restore(options.checkpoint)
    try:
        found = algorithm.evaluate()["env_runners"]
        keys = ("num_episodes", "episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean")
        if options.json:
            print(json.dumps({key: found[key] for key in keys}))
        else:
            for key in keys:
                print(f"{key:<20} {found[key]:g}")
        if options.render:
            print(f"Drawn: {_render(algorithm, options)}")
    finally:
        algorithm.stop()
    return 0


def _render(algorithm: Any, options: Any) -> str:
    """Plays episodes in an environment that draws itself."""
    try:
        import gymnasium
        from PIL import Image
    except ImportError as error:
        raise ValueError(f"--render needs gymnasium and pillow: {error}") from None
    env: Any = gymnasium.make(algorithm.config.env, render_mode="rgb_array", **algorithm.config.env_config)
    frames: list[Any] = []
    for _ in range(options.episodes):
        seen, _info = env.reset()
        is_over = False
        while not is_over and len(frames) < _FRAMES_MAX:
            frames.append(Image.fromarray(env.render()))
            action = algorithm.compute_single_action(seen, explore=options.explore)
            seen, _reward, terminated, truncated, _info = env.step(action)
            is_over = terminated or truncated
        if len(frames) >= _FRAMES_MAX:
            break
    env.close()
    frames[0].save(options.render, save_all=True, append_images=frames[1:], duration=_GIF_MS, loop=0)
    return str(options.render)
