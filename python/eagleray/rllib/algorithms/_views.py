"""A policy and a network as programs of either era ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from eagleray.rllib.algorithms import _memory
from eagleray.rllib.algorithms._built_in import BuiltInModel
from eagleray.rllib.core.rl_module.rl_module import RLModule
from eagleray.rllib.policy.policy import Policy
from eagleray.rllib.utils.error import SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eagleray.rllib._engine.protocol import Floats, Plan
    from eagleray.rllib._engine.protocol import Policy as EnginePolicy
    from eagleray.rllib.algorithms._distributions import Distribution
    from eagleray.rllib.algorithms.algorithm import Algorithm
    from eagleray.rllib.env.env_runner import PolicySpaces
    from eagleray.rllib.env.spaces import ActionForm, ObservationForm


class Holder(Protocol):
    """Who has policies: an algorithm those that learn, a runner those that act."""

    config: Any

    _plans: dict[str, Plan]

    def acting(self, policy_id: str) -> EnginePolicy:
        """One policy, with the weights of now."""

    def get_weights(self, policies: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """Weights by the names of their tensors."""

    def set_weights(self, weights: Any) -> None:
        """Take weights."""


class PolicyView(Policy):
    """One policy of an algorithm or of a runner, with the weights that it has now."""

    def __init__(self, holder: Holder, policy_id: str, spaces: PolicySpaces) -> None:
        self._holder = holder
        self.policy_id = policy_id
        self._spaces = spaces
        # Built-in environments have none of gymnasium's: then those of what the network sees and does.
        self.observation_space, self.action_space = spaces.public()
        self._made: tuple[ObservationForm, ActionForm] | None = None
        self.config = holder.config.get_config_for_module(policy_id).to_dict()

    @property
    def model(self) -> Any:
        """The program's own module as it acts in this process, with the weights of now; where networks are built in, a look at those."""
        own = self.own_module()
        return BuiltInModel(self) if own is None else own

    def own_module(self) -> Any:
        """The program's own module, or None where networks are built in."""
        return getattr(self._holder.acting(self.policy_id), "module", None)

    def get_weights(self) -> dict[str, Any]:
        """Its weights by the names of their tensors."""
        return self._holder.get_weights([self.policy_id])[self.policy_id]

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Take weights."""
        self._holder.set_weights({self.policy_id: weights})

    def get_state(self) -> dict[str, Any]:
        """What another policy of the same network goes on from: `set_state`, or `add_policy(policy_state=...)`."""
        return {"weights": self.get_weights()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what `get_state` of such a policy gave."""
        self.set_weights(state["weights"])

    def is_recurrent(self) -> bool:
        """Whether it remembers."""
        return self._acting().state_size > 0

    def get_initial_state(self) -> list[Floats]:
        """What it remembers in the beginning: `[h, c]`, and nothing where it has no memory."""
        import numpy as np

        size = self._acting().state_size
        return list(_memory.parts(np.zeros(size, np.float32))) if size else []

    def compute_single_action(
        self, obs: Any, state: Any = None, *, explore: bool = True, **_: Any
    ) -> tuple[Any, Any, Any]:
        """What it does when it sees this, its next state, and what the choice was made of."""
        actions, next_state, inputs = self._act(self.rows([_memory.as_numpy(obs)]), state, explore=explore)
        return self._actions(actions)[0], [part[0] for part in next_state], {"action_dist_inputs": inputs[0]}

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, *, explore: bool = True, **_: Any) -> Any:
        """What it does for each of several."""
        import numpy as np

        rows = self.rows(list(_memory.as_numpy(obs_batch)))
        actions, next_state, inputs = self._act(rows, state_batches, explore=explore)
        made = self._actions(actions)
        # Choices beside numbers fit into no array.
        batch = made if self._spaces.acted.kind == "mixed" else np.asarray(made)
        return batch, next_state, {"action_dist_inputs": inputs}

    def compute_log_likelihoods(
        self, actions: Any, obs_batch: Any, state_batches: Any = None, *, actions_normalized: bool = True, **_: Any
    ) -> Floats:
        """The logarithm of each action's probability, or density, when it sees these.

        Numbers are taken as the network chooses them, between -1 and 1, unless `actions_normalized=False` says that they are the environment's.
        """
        import numpy as np

        from eagleray.rllib._engine._dist import dist_of
        from eagleray.rllib.env.spaces import ActionForm, acted_space, kind_of

        plan, acted = self.plan(), self._spaces.acted
        if plan.algorithm in ("DQN", "SAC") or plan.model.get("use_sde"):
            raise ValueError(
                f"compute_log_likelihoods is not available for {plan.algorithm}{' with use_sde' if plan.model.get('use_sde') else ''}: "
                "it needs scores of choices, or means and deviations of numbers"
            )
        rows = self.rows(list(_memory.as_numpy(obs_batch)))
        policy = self._acting()
        inputs = policy.inputs(rows, _memory.taken(state_batches, len(rows), policy.state_size))
        given = _memory.as_numpy(actions)
        space = self.action_space if self.action_space is not None else acted_space(acted)
        if kind_of(space) == "Box" and actions_normalized:
            taken = np.asarray(given, np.float32).reshape(len(rows), -1)
        else:
            form = ActionForm(space, normalize=self._holder.config.normalize_actions and not actions_normalized)
            taken = np.concatenate([form.row(action) for action in given])
        if taken.shape != (len(rows), acted.size):
            raise SpaceMismatchError(f"there are {len(rows)} observations, and actions of the shape {taken.shape}")
        return dist_of(acted).logp(inputs, taken)

    def _act(self, rows: Floats, state: Any, *, explore: bool) -> tuple[Floats, list[Floats], Floats]:
        """Actions, the next state as `[h, c]`, and what the choice was made of."""
        policy = self._acting()
        before = _memory.taken(state, len(rows), policy.state_size)
        inputs = policy.inputs(rows, before)
        actions, after = policy.act(rows, explore=explore, state=before)
        return actions, [] if after is None else list(_memory.parts(after)), inputs

    def plan(self) -> Plan:
        """What its network was planned from."""
        found: Plan = self._holder._plans[self.policy_id]
        return found

    def _acting(self) -> EnginePolicy:
        return self._holder.acting(self.policy_id)

    def export_model(self, export_dir: str, **_: Any) -> str:
        """Write its weights and what its network looks like."""
        export = getattr(self._holder, "export_policy_model", None)
        if export is None:
            raise ValueError("a runner exports no policies: call `export_policy_model` of the algorithm")
        return str(export(export_dir, self.policy_id))

    def rows(self, observations: list[Any]) -> Floats:
        """Observations as the network sees them."""
        import numpy as np

        if self._spaces.observation_space is None:
            # Built-in environments: numbers as they are, states one-hot.
            size = self._spaces.observed.size
            rows = np.zeros((len(observations), size), np.float32)
            for row, observation in zip(rows, observations, strict=True):
                _write(observation, row)
            return rows
        form = self._forms()[0]
        return np.concatenate([form.row(observation) for observation in observations])

    def inputs(self, observations: Any) -> Floats:
        """What the distribution of actions is made of, of those with a memory in the beginning."""
        return self._acting().inputs(self.rows(list(observations)))

    def remembering(self, observations: Any, state: Any) -> tuple[Floats, tuple[Floats, Floats]]:
        """What the distribution of actions is made of, going on from a state; and h and c of the next one.

        Observations are a batch, or a batch of steps one after the other, which then have a dimension of their own in what comes out.
        """
        import numpy as np

        policy, seen = self._acting(), np.asarray(observations)
        now = _memory.taken(state, len(seen), policy.state_size)
        is_of_steps = self._has_steps(seen)
        found: list[Floats] = []
        for step in np.moveaxis(seen, 1, 0) if is_of_steps else [seen]:
            rows = self.rows(list(step))
            found.append(policy.inputs(rows, now))
            _, now = policy.act(rows, explore=False, state=now)
        if now is None:
            raise ValueError("a batch of no steps leads to no state: give at least one")
        return np.stack(found, 1) if is_of_steps else found[0], _memory.parts(now)

    def _has_steps(self, seen: Any) -> bool:
        """Whether there is a dimension of steps behind that of the batch."""
        space, size = self.observation_space, self._spaces.observed.size
        if space is not None and getattr(space, "shape", None) is not None:
            return bool(seen.ndim == len(space.shape) + 2)
        # A state of a built-in environment is its number, or a row.
        is_numbers = seen.dtype.kind in "iu" and seen.ndim == 2 and seen.shape[-1] != size
        return bool(is_numbers or seen.ndim == len(self._spaces.observed.shape) + 2)

    def _actions(self, rows: Floats) -> list[Any]:
        import numpy as np

        config, acted = self._holder.config, self._spaces.acted
        if self._spaces.action_space is None:
            if acted.kind == "discrete":
                return [int(row[0]) if len(row) == 1 else row.astype(np.int64) for row in rows]
            low, high = np.asarray(acted.low), np.asarray(acted.high)
            if config.normalize_actions and np.isfinite(low).all() and np.isfinite(high).all():
                rows = low + (np.clip(rows, -1.0, 1.0) + 1.0) * 0.5 * (high - low)
            elif config.clip_actions:
                rows = np.clip(rows, low, high)
            return list(np.asarray(rows, np.float32))
        return self._forms()[1].actions(rows)

    def _forms(self) -> tuple[ObservationForm, ActionForm]:
        """How observations become rows and rows actions, made once."""
        if self._made is None:
            from eagleray.rllib.env.spaces import ActionForm, ObservationForm

            config = self._holder.config
            actions = ActionForm(self.action_space, normalize=config.normalize_actions, clip=config.clip_actions)
            self._made = (ObservationForm(self.observation_space), actions)
        return self._made


def _write(observation: Any, row: Floats) -> None:
    """Writes what somebody says a built-in environment showed."""
    import numpy as np

    try:
        values = np.asarray(observation, np.float64)
    except (TypeError, ValueError):
        raise SpaceMismatchError(f"the observation {observation!r} is not made of numbers") from None
    if values.ndim == 0 and len(row) > 1 and values in range(len(row)):
        row[int(values)] = 1.0
    elif values.size == len(row) and np.isfinite(values).all():
        row[:] = values.reshape(-1)
    else:
        what = f"{len(row)} finite numbers, or the number of a state below {len(row)}"
        raise SpaceMismatchError(f"the observation {observation!r} is not what the environment shows: {what}")


class ModuleView(RLModule):
    """One network."""

    def __init__(self, policy: PolicyView) -> None:
        self._policy = policy
        self.observation_space, self.action_space = policy.observation_space, policy.action_space

    def forward_inference(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """What the distribution of actions is made of, for a batch of observations. Nothing is kept between two calls.

        Networks with a memory go on from `state_in`, or begin anew without it, and give `state_out`. Tensors are answered with tensors.
        """
        given = batch["obs"]
        seen = _memory.as_numpy(given)
        if not self.is_stateful():
            return {"action_dist_inputs": _memory.like(given, self._policy.inputs(seen))}
        inputs, (memory, kept) = self._policy.remembering(seen, batch.get("state_in"))
        after = {"h": _memory.like(given, memory), "c": _memory.like(given, kept)}
        return {"action_dist_inputs": _memory.like(given, inputs), "state_out": after}

    forward_exploration = forward_inference

    def is_stateful(self) -> bool:
        """Whether it remembers."""
        return self._policy.is_recurrent()

    def get_initial_state(self) -> dict[str, Any]:
        """What one that remembers begins with: `h` and `c` of one observation, and nothing for others."""
        return dict(zip(("h", "c"), self._policy.get_initial_state(), strict=False))

    def get_exploration_action_dist_cls(self) -> type[Distribution]:
        """What actions are drawn from: `from_logits(found["action_dist_inputs"]).sample()`."""
        from eagleray.rllib.algorithms._distributions import class_for

        plan = self._policy.plan()
        if plan.algorithm == "SAC":
            raise ValueError("SAC's distribution is not available: use compute_single_action, or eagleray.rllib.export")
        return class_for(plan.acted)

    get_inference_action_dist_cls = get_exploration_action_dist_cls

    def get_state(self) -> dict[str, Any]:
        """The weights by the names of their tensors."""
        return self._policy.get_weights()

    def set_state(self, state: dict[str, Any]) -> None:
        """Take weights."""
        self._policy.set_weights(state)


def module_of(view: PolicyView) -> Any:
    """The network of a policy: the program's own module, where it has one."""
    own = view.own_module()
    return ModuleView(view) if own is None else own


class LearnerGroupView:
    """The learners of an algorithm: one for each policy, in its process."""

    is_local = True
    is_remote = False

    def __init__(self, algorithm: Algorithm) -> None:
        self._holder = algorithm

    def get_weights(self, module_ids: Any = None) -> dict[str, dict[str, Any]]:
        """Weights of policies, by the names of their tensors."""
        return self._holder.get_weights(module_ids)

    def set_weights(self, weights: dict[str, dict[str, Any]]) -> None:
        """Take weights, and hand them to all runners."""
        self._holder.set_weights(weights)
