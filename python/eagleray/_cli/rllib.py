"""`eagleray rllib train|evaluate`: algorithms from the command line."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIF_MS = 33
_FRAMES_MAX = 2000


def add_parser(commands: Any) -> None:
    """Add the commands to those of `eagleray`."""
    rllib = commands.add_parser("rllib", help="train policies and try them")
    actions = rllib.add_subparsers(title="commands", metavar="COMMAND", required=True)

    train = actions.add_parser(
        "train",
        help="train a policy: eagleray rllib train --run PPO --env CartPole-v1",
        description="Train a policy, show how it goes, and save it. The last line says where; `eagleray rllib evaluate` tries it.",
        epilog="Without --stop it goes on until Ctrl-C. A file of experiments: "
        "NAME: {run: PPO, env: CartPole-v1, stop: {episode_reward_mean: 450}, config: {num_workers: 0, lr: 0.001}}",
    )
    train.add_argument("file", nargs="*", metavar="file FILE", help="experiments in a file of YAML or JSON")
    train.add_argument(
        "--run", "--algo", dest="algorithm", metavar="NAME", help="the algorithm: PPO, DQN, A2C, SAC, IMPALA, ES"
    )
    train.add_argument("--env", help="the environment's name")
    train.add_argument("--stop", type=_json, default={}, help="when to stop, as JSON: '{\"timesteps_total\": 100000}'")
    train.add_argument("--config", type=_json, default={}, help="settings as JSON: '{\"lr\": 0.001}'")
    train.add_argument("-f", "--config-file", metavar="FILE", help="the same as `file FILE`")
    train.add_argument("--checkpoint-at-end", action="store_true", help="save at the end, which is always done")
    train.add_argument("--checkpoint-freq", type=int, default=0, metavar="N", help="save after every N iterations")
    train.add_argument("--local-dir", metavar="DIR", help="where results go; ~/ray_results if not given")
    train.add_argument("--experiment-name", metavar="NAME", help="the name of the experiment and its folder")
    train.add_argument("--num-samples", type=_samples, default=1, metavar="N", help="trials of each configuration")
    train.set_defaults(run=_train, parser=train)

    for name in ("evaluate", "rollout"):
        evaluate = actions.add_parser(
            name,
            help="try the policy of a checkpoint",
            description="Play exactly N episodes with the policy of a checkpoint, without learning, and say what they brought.",
            epilog="Pictures of built-in environments need pillow only; others draw themselves, gymnasium's with pygame.",
        )
        evaluate.add_argument("checkpoint", metavar="CKPT", help="the checkpoint's folder")
        evaluate.add_argument(
            "--run", "--algo", dest="algorithm", metavar="NAME", help="the algorithm; the checkpoint knows it"
        )
        evaluate.add_argument("--env", help="another environment than that of the training")
        much = evaluate.add_mutually_exclusive_group()
        much.add_argument("--episodes", type=_positive, default=10, metavar="N", help="episodes to play (10)")
        much.add_argument("--steps", type=_positive, metavar="N", help="steps to play instead, ended episodes or not")
        evaluate.add_argument(
            "--explore", action="store_true", help="explore as in training; else take the best action"
        )
        evaluate.add_argument(
            "--render", metavar="FILE", type=_gif, help="play them again into a .gif file (needs pillow)"
        )
        evaluate.add_argument("--json", action="store_true", help="as JSON")
        evaluate.set_defaults(run=_evaluate, parser=evaluate)


def _positive(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number > 0")
    return int(text)


def _samples(text: str) -> int:
    """How many trials; -1, which Tune takes for no end."""
    return -1 if text == "-1" else _positive(text)


def _gif(text: str) -> str:
    import argparse

    if not text.endswith(".gif"):
        raise argparse.ArgumentTypeError(f"{text!r} must end with .gif")
    if not Path(text).absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {Path(text).absolute().parent}")
    return text


def _json(text: str) -> Any:
    import argparse

    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'{text!r} must be a JSON object, as {{"lr": 0.001}}')
    return found


def _train(options: Any) -> int:
    from eagleray import tune
    from eagleray.tune.error import TuneError

    file = _file(options)
    for name, experiment in _experiments(options, file).items():
        run = experiment.pop("run")
        config = dict(experiment.pop("config", {}))
        if "env" in experiment:
            config["env"] = experiment.pop("env")
        # The last line says where it is.
        experiment["checkpoint_at_end"] = True
        try:
            analysis = tune.run(run, name=name, config=config, **experiment)
        except (TuneError, ValueError) as error:
            raise ValueError(f"{_where(file, name)}{_said(error)}") from error
        for trial in analysis.trials:
            if trial.checkpoint is not None:
                print(f"Checkpoint: {trial.checkpoint.path}")
    return 0


def _experiments(options: Any, file: str | None) -> dict[str | None, dict[str, Any]]:
    """By name. All are checked before the first one runs."""
    if file is not None:
        found: dict[str | None, dict[str, Any]] = {}
        for name, experiment in _read(file).items():
            found[name] = _checked(experiment, _where(file, name))
        if not found:
            raise ValueError(f"{file} holds no experiment: write NAME: {{run: PPO, env: CartPole-v1}}")
        return found
    if not options.algorithm:
        options.parser.error("say which algorithm: --run PPO; or give a file with experiments: file FILE")
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


def _said(error: Exception) -> str:
    """What an error says. Tune's may come with a list of the trials that failed."""
    if len(error.args) == 2 and isinstance(error.args[1], list):
        return f"{error.args[0]}: {', '.join(map(str, error.args[1]))}"
    return str(error)


def _where(file: str | None, name: str | None) -> str:
    return "" if file is None else f"{file}: experiment {name!r}: "


def _checked(experiment: Any, where: str) -> dict[str, Any]:
    """An experiment of a file, if it is one: `run`, `env`, and what `tune.run` takes."""
    from eagleray import tune
    from eagleray._common.near import hint
    from eagleray.tune.tune import OLD_ARGUMENTS

    if not isinstance(experiment, dict):
        raise ValueError(f"{where}it must be settings by name, not {experiment!r}")
    known = set(inspect.signature(tune.run).parameters) - {"run_or_experiment", "name", "old"} | {"run", "env"}
    for key in experiment:
        if key not in known and key not in OLD_ARGUMENTS:
            raise ValueError(f"{where}there is no setting {key!r}.{hint(str(key), known)}")
    if "run" not in experiment:
        raise ValueError(f"{where}it does not say what to `run`")
    if (count := experiment.get("num_samples", 1)) != -1 and (not isinstance(count, int) or count < 1):
        raise ValueError(f"{where}`num_samples` must be a whole number > 0, or -1 for no end, not {count!r}")
    return dict(experiment)


def _file(options: Any) -> str | None:
    """The file with experiments, if one was given: `file FILE` or `-f FILE`."""
    words: list[str] = options.file
    if words and (len(words) != 2 or words[0] != "file" or options.config_file):
        options.parser.error(f"what to do with {' '.join(words)}? Experiments come from one file: file FILE")
    path: str | None = words[1] if words else options.config_file
    return path


def _read(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if path.endswith(".json"):
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is no JSON: {error}") from None
    else:
        try:
            import yaml
        except ImportError:
            raise ValueError(f"reading {path} needs PyYAML: pip install pyyaml, or write it as .json") from None
        try:
            found = _with_numbers(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is no YAML: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold experiments by name")
    return found


def _with_numbers(value: Any) -> Any:
    """YAML reads `1e-4` as text, because it has no point. Files of experiments mean the number."""
    if isinstance(value, dict):
        return {key: _with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
        return float(value)
    return value


def _evaluate(options: Any) -> int:
    from eagleray.rllib.algorithms import _checkpoints
    from eagleray.rllib.utils.error import EnvError, MissingPackageError

    try:
        algorithm = _checkpoints.rebuild(
            options.checkpoint,
            env=options.env,
            num_env_runners=0,
            evaluation_duration=options.steps or options.episodes,
            evaluation_duration_unit="timesteps" if options.steps else "episodes",
            evaluation_num_env_runners=0,
            evaluation_config={"explore": options.explore},
        )
    except (EnvError, MissingPackageError) as error:
        # What is wrong is in the message; where in here it was noticed helps nobody.
        raise ValueError(str(error)) from error
    if options.algorithm and options.algorithm not in {kind.__name__ for kind in type(algorithm).__mro__}:
        raise ValueError(f"{options.checkpoint} is of {type(algorithm).__name__}, not of {options.algorithm}")
    algorithm.restore(options.checkpoint)
    try:
        found = algorithm.evaluate()["env_runners"]
        keys = ("num_episodes", "episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean")
        if options.json:
            # Where no episode ended there are no means: null, which every reader of JSON takes.
            print(json.dumps({key: found.get(key) for key in keys}))
        elif not found["num_episodes"]:
            print(f"no episode ended in {found['num_env_steps_sampled']} steps")
        else:
            for key in keys:
                print(f"{key:<20} {found[key]:g}")
        if options.render:
            print(f"Drawn: {_render(algorithm, options)}")
    finally:
        algorithm.stop()
    return 0


def _render(algorithm: Any, options: Any) -> str:
    """Plays episodes again and writes them as moving pictures."""
    try:
        import PIL.Image  # noqa: F401 - whether it is there is asked before anything is played
    except ImportError:
        raise ValueError("--render needs pillow: pip install pillow") from None
    played = _play_built_in(algorithm, options) if _is_drawn_here(algorithm) else _play_drawn(algorithm, options)
    most = min(_FRAMES_MAX, options.steps or _FRAMES_MAX)
    frames = list(itertools.islice(played, most))
    if not frames:
        raise ValueError("--render: no episode was played, so that there is nothing to draw")
    frames[0].save(options.render, save_all=True, append_images=frames[1:], duration=_GIF_MS, loop=0)
    return f"{options.render} ({len(frames)} pictures{', and no more' if len(frames) == _FRAMES_MAX else ''})"


def _is_drawn_here(algorithm: Any) -> bool:
    from eagleray.rllib import _pictures
    from eagleray.tune import registry

    env = algorithm.config.env
    return isinstance(env, str) and registry.env_creator(env) is None and _pictures.can_draw(env)


def _play_built_in(algorithm: Any, options: Any) -> Iterator[Any]:
    """Episodes of a built-in environment, drawn from what it shows."""
    from eagleray.rllib import _pictures
    from eagleray.rllib._engine import engine

    config, policy = algorithm.config, algorithm.acting("default_policy")
    simulator = engine().simulator(config.env, config.env_config, 1, config.seed or 0, config.bounded)
    assert simulator is not None, "there are pictures of built-in environments only"
    shape = simulator.observed.shape
    for episode in range(options.episodes):
        seen, state, total, is_over = simulator.look(), None, 0.0, False
        while not is_over:
            yield _pictures.draw(config.env, seen[0].tolist(), shape, f"episode {episode + 1}, reward {total:g}")
            actions, state = policy.act(seen, explore=options.explore, state=state)
            stepped = simulator.step(actions)
            total += float(stepped.rewards[0])
            is_over = bool(stepped.terminated[0] or stepped.truncated[0])


def _play_drawn(algorithm: Any, options: Any) -> Iterator[Any]:
    """Episodes of an environment that draws itself."""
    from PIL import Image

    from eagleray.rllib.env import _make, _single
    from eagleray.rllib.env.env_context import EnvContext
    from eagleray.tune import registry

    config = algorithm.config
    is_id = isinstance(config.env, str) and registry.env_creator(config.env) is None
    env = _make.make(config.env, EnvContext(config.env_config | ({"render_mode": "rgb_array"} if is_id else {})))
    try:
        for _ in range(options.episodes):
            seen, _info = _single.reset(env, config.seed)
            state: Any = None
            is_over = False
            while not is_over:
                yield Image.fromarray(_picture(env))
                action = algorithm.compute_single_action(seen, state, explore=options.explore, full_fetch=True)
                seen, _reward, terminated, truncated, _info = _single.parts(env.step(action[0]))
                state, is_over = action[1], terminated or truncated
    finally:
        env.close()


def _picture(env: Any) -> Any:
    try:
        drawn = env.render()
    except Exception as error:
        # gymnasium says DependencyNotInstalled, others as they like.
        raise ValueError(f"--render: the environment cannot draw itself: {error}") from error
    if getattr(drawn, "ndim", 0) != 3:
        raise ValueError(
            "--render: render() of the environment must return an array of (height, width, 3) bytes; "
            f"it returned {type(drawn).__name__}. Many want render_mode='rgb_array' when they are made."
        )
    return drawn
