"""A checkpoint: weights and states as the engine writes them, counters as JSON, and what is needed to build the algorithm again.

metadata.json                                        which version wrote it, for which policies; what files must be; written last
algorithm_state.json                                 counters and the statistics of episodes
class_and_ctor_args.pkl                              class and configuration, which may hold functions
learner_group/learner/rl_module/POLICY/module_state.safetensors
learner_group/learner/rl_module/POLICY/class_and_ctor_args.pkl   what acting needs beside: `Policy.from_checkpoint` reads it
learner_group/learner/rl_module/POLICY/module.json   what the network looks like: `eagleray.rllib.export` reads both
learner_group/learner/state/POLICY.bin               optimiser, chance, coefficients
env_runner/{simulator,collector,about}.bin           of the runner in this process, where it can be written down: built-in environments
env_runner/NUMBER/{...,pending}.bin                  the same of actors; pending: a sample that nobody has learned from yet, pickled
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray import cloudpickle
from eagleray._common.version import VERSION
from eagleray.rllib._engine import _filters, _models
from eagleray.rllib.algorithms import _policies
from eagleray.rllib.utils.error import NotFiniteError
from eagleray.tune import registry
from eagleray.tune._checkpoint import Checkpoint

if TYPE_CHECKING:
    from eagleray.rllib.algorithms._deployed import Deployable, Deployed
    from eagleray.rllib.algorithms.algorithm import Algorithm

#: Raised when what the files mean changes.
FORMAT = 3

MODULES = "learner_group/learner/rl_module"
_STATES = "learner_group/learner/state"
_RUNNERS = "env_runner"
WEIGHTS = "module_state.safetensors"
_ABOUT = "module.json"
CONSTRUCTOR = "class_and_ctor_args.pkl"
_METADATA = "metadata.json"
_STATE = "algorithm_state.json"

#: How far a checkpoint is looked for below a folder that is none: results/experiment/trial/checkpoint, and one more.
_DEEP_MAX = 4
#: Files and folders looked at for it: some hundredths of a second.
_LOOKED_AT_MAX = 2000


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
    import numpy as np

    root = Path(folder)
    policies = sorted(algorithm.learners)
    for name, arrays in algorithm.get_weights().items():
        # A checkpoint that nobody can go on from must not take the place of one that is good.
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise NotFiniteError(f"weights of {name} are not finite any more: {folder} is not written")
    # While this file is missing there is no checkpoint, however much of one is there.
    (root / _METADATA).unlink(missing_ok=True)
    files: dict[str, list[int]] = {}

    def put(file: str, data: bytes) -> None:
        _write(root / file, data)
        files[file] = [len(data), zlib.crc32(data)]

    for name, learner in algorithm.learners.items():
        weights = learner.weights()
        put(f"{MODULES}/{name}/{WEIGHTS}", weights)
        put(f"{MODULES}/{name}/{_ABOUT}", _told(about(algorithm, name, weights)))
        put(f"{MODULES}/{name}/{CONSTRUCTOR}", cloudpickle.dumps(_deployable(algorithm, name)))
        put(f"{_STATES}/{name}.bin", learner.state())
    for name, data in algorithm.env_runner_group.get_state().items():
        put(f"{_RUNNERS}/{name}.bin", data)
    put(_STATE, json.dumps(_counted(algorithm)).encode())
    env = algorithm.config.env
    known = {name: creator for name, creator in registry.known_envs().items() if name == env}
    kind = _plain_class(algorithm)
    put(CONSTRUCTOR, cloudpickle.dumps((kind, algorithm.config, known)))
    metadata = {
        "type": "Algorithm",
        "format": FORMAT,
        "eagleray_version": VERSION,
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "policy_ids": policies,
        "engine": kind.config_class.ENGINE,
        "shapes": {name: _shapes(algorithm, name) for name in policies},
        "have_policies_changed": algorithm.have_policies_changed,
        "files": files,
    }
    _write(root / _METADATA, json.dumps(metadata, indent=2).encode())


def read(algorithm: Algorithm, folder: str) -> None:
    """Goes on from it. Refuses one of another version or shape before anything is changed."""
    root = Path(folder)
    metadata = _metadata(root)
    _verify(root, metadata)
    if metadata.get("have_policies_changed"):
        _fits(algorithm, folder, metadata, set(metadata["policy_ids"]))
        _, config, _ = _constructed(root)
        _change_policies(algorithm, config.policy_specs(), config.policy_mapping_fn, config.policies_to_train)
    _fits(algorithm, folder, metadata)
    policies = {}
    for name in algorithm.learners:
        weights = (root / MODULES / name / WEIGHTS).read_bytes()
        policies[name] = {"weights": weights, "state": (root / _STATES / f"{name}.bin").read_bytes()}
    # Those that it names: a folder that was written to before may have others.
    names = [name for name in metadata["files"] if name.startswith(f"{_RUNNERS}/")]
    runners = {name[len(_RUNNERS) + 1 : -len(".bin")]: (root / name).read_bytes() for name in names}
    _take_up(algorithm, {"policies": policies, "env_runner": runners, **json.loads((root / _STATE).read_text())})


def state_of(algorithm: Algorithm) -> dict[str, Any]:
    """What a checkpoint holds, in memory: all that is needed to go on from here."""
    names = sorted(algorithm.learners)
    config, changed = algorithm.config, {}
    if algorithm.have_policies_changed:
        now = (config.policy_specs(), config.policy_mapping_fn, config.policies_to_train)
        changed = {"changed_policies": now}
    return {
        **changed,
        "engine": type(algorithm).config_class.ENGINE,
        "policy_ids": names,
        "shapes": {name: _shapes(algorithm, name) for name in names},
        "policies": {
            name: {"weights": learner.weights(), "state": learner.state()}
            for name, learner in algorithm.learners.items()
        },
        "env_runner": algorithm.env_runner_group.get_state(),
        "training_iteration": algorithm._iteration,
        # What is counted goes on in the algorithm; this must not.
        **json.loads(json.dumps(_counted(algorithm))),
    }


def take_state(algorithm: Algorithm, state: dict[str, Any]) -> None:
    """Goes on from what `state_of` gave. Refuses that of another algorithm or shape before anything is changed."""
    missing = [name for name in ("engine", "policy_ids", "shapes", "policies") if name not in state]
    if missing:
        raise CheckpointError(f"the state has no {', '.join(missing)}: give what get_state() of an algorithm returned")
    if "changed_policies" in state:
        _fits(algorithm, "the state", state, set(state["policy_ids"]))
        _change_policies(algorithm, *state["changed_policies"])
    _fits(algorithm, "the state", state)
    _take_up(algorithm, state)
    algorithm._iteration = state["training_iteration"]


def _counted(algorithm: Algorithm) -> dict[str, Any]:
    return {
        "counters": algorithm.counters.lifetime,
        "episodes": algorithm._episodes.state(),
        "own": algorithm.own_state(),
    }


def _change_policies(algorithm: Algorithm, specs: dict[str, Any], mapping: Any, to_train: Any) -> None:
    """The algorithm gets the policies that the other one had in the end: some were added or removed while it trained."""
    config = algorithm.config.copy(copy_frozen=False)
    config.policies, config.policy_mapping_fn, config.policies_to_train = specs, mapping, to_train
    _policies.change(algorithm, config)


def _fits(algorithm: Algorithm, where: str, told: dict[str, Any], only: set[str] | None = None) -> None:
    """Refuses what is of another algorithm, or of other shapes; `only` of these policies."""
    then, now = told.get("engine"), type(algorithm).config_class.ENGINE
    if then is not None and then != now:
        raise CheckpointError(f"{where} is of {then}, not of {now}: use Algorithm.from_checkpoint, or {then}Config")
    for name in algorithm.learners if only is None else only & set(algorithm.learners):
        if name not in told["policy_ids"]:
            raise CheckpointError(f"{where} has no policy {name!r}; it has {told['policy_ids']}")
        was, is_now = told["shapes"][name], _shapes(algorithm, name)
        if was != is_now:
            raise CheckpointError(f"{where} is of another shape: policy {name!r} was {was}, and is {is_now} here")


def _take_up(algorithm: Algorithm, state: dict[str, Any]) -> None:
    for name, learner in algorithm.learners.items():
        learner.set_weights(state["policies"][name]["weights"])
        learner.restore(state["policies"][name]["state"])
    algorithm.env_runner_group.set_state(state["env_runner"])
    algorithm.counters.lifetime.update(state["counters"])
    algorithm._episodes.restore(state["episodes"])
    algorithm.restore_own(state["own"])


def verify(folder: str, kind: type[Algorithm] | None = None) -> None:
    """Refuses what is no whole checkpoint, or one of another algorithm than this kind."""
    root = Path(folder)
    metadata = _metadata(root)
    _verify(root, metadata)
    then, now = metadata.get("engine"), "" if kind is None else kind.config_class.ENGINE
    if now and then is not None and then != now:
        raise CheckpointError(f"{folder} is of {then}, not of {now}: use Algorithm.from_checkpoint, or {then}")


def rebuild(folder: str, **over: Any) -> Algorithm:
    """The algorithm that wrote a checkpoint, as new, with some settings otherwise."""
    root = Path(folder)
    _verify(root, _metadata(root))
    kind, config, known = _constructed(root)
    config = config.copy(copy_frozen=False).update_from_dict(
        {name: one for name, one in over.items() if one is not None}
    )
    # Models are in the configuration itself.
    made: Algorithm = kind.carrying(known, models={})(config=config)
    return made


def _constructed(root: Path) -> tuple[type[Algorithm], Any, dict[str, Any]]:
    """Class, configuration and known environments of what wrote a checkpoint."""
    try:
        found: tuple[type[Algorithm], Any, dict[str, Any]] = cloudpickle.loads((root / CONSTRUCTOR).read_bytes())
    except (ImportError, AttributeError) as error:
        raise CheckpointError(f"{root} needs what is not here: {error}; import or install it first") from error
    return found


def export(algorithm: Algorithm | Deployed, folder: str, policy_id: str) -> str:
    """Writes a policy's weights, and what its network looks like."""
    root = Path(folder)
    if policy_id not in algorithm.learners:
        raise KeyError(f"there is no policy {policy_id!r}; there are {sorted(algorithm.learners)}")
    weights = algorithm.learners[policy_id].weights()
    _write(root / WEIGHTS, weights)
    _write(root / _ABOUT, _told(about(algorithm, policy_id, weights)))
    _write(root / CONSTRUCTOR, cloudpickle.dumps(_deployable(algorithm, policy_id)))
    return str(root)


def _deployable(algorithm: Algorithm | Deployed, policy_id: str) -> Deployable:
    from eagleray.rllib.algorithms._deployed import Deployable

    config, exploration = algorithm.config, dict(algorithm.exploration_of(policy_id))
    plan, spaces = algorithm._plans[policy_id], algorithm._spaces[policy_id]
    return Deployable(plan, spaces, config.normalize_actions, config.clip_actions, exploration)


def _told(said: dict[str, Any]) -> bytes:
    return json.dumps(said, indent=2, default=str).encode()


def about(algorithm: Algorithm | Deployed, policy_id: str, weights: bytes) -> dict[str, Any]:
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
        metadata: dict[str, Any] = json.loads((root / _METADATA).read_text())
    except (FileNotFoundError, NotADirectoryError):
        why = f"it has no {_METADATA}" if root.is_dir() else "there is no such folder"
        raise CheckpointError(f"{root} is no checkpoint of an algorithm: {why}{_near(root)}") from None
    except ValueError as error:
        raise CheckpointError(f"{root / _METADATA} is damaged: {error}") from None
    if metadata.get("format") != FORMAT:
        wrote = metadata.get("eagleray_version", metadata.get("ray_version", "another program"))
        raise CheckpointError(
            f"{root} has the format {metadata.get('format')!r}, written by {wrote}; eagleray {VERSION} reads {FORMAT}"
        )
    return metadata


def _near(root: Path) -> str:
    """What was probably meant: a checkpoint inside of a trial's folder."""
    found = _inside(root)
    return f" (but {found} is one)" if found else ""


def _inside(root: Path) -> Path | None:
    """The last checkpoint below a folder. Somebody may have named a whole disk: only so much of it is looked at."""
    level, left = [root], _LOOKED_AT_MAX
    for _ in range(_DEEP_MAX):
        below: list[Path] = []
        for folder in level if left else ():
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in itertools.islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        below.append(folder / entry.name)
        found = [folder for folder in below if (folder / _METADATA).is_file() and (folder / CONSTRUCTOR).is_file()]
        if found:
            return max(found)
        level = below
    return None


def _verify(root: Path, metadata: dict[str, Any]) -> None:
    """Refuses a checkpoint of which a file is missing, cut off or changed."""
    for name, (size, check) in metadata.get("files", {}).items():
        try:
            data = (root / name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"{root} is damaged: {name}: {error.strerror}; go on from another one") from None
        if len(data) != size:
            raise CheckpointError(
                f"{root} is damaged: {name} has {len(data)} bytes, not {size}; go on from another checkpoint"
            )
        if zlib.crc32(data) != check:
            raise CheckpointError(f"{root} is damaged: {name} is not what was written; go on from another checkpoint")


def _shapes(algorithm: Algorithm | Deployed, policy_id: str) -> dict[str, Any]:
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
