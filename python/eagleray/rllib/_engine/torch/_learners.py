"""Learning with a program's model, an algorithm each. What they say has the names that the native learners use."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from eagleray.rllib._engine import _filters
from eagleray.rllib._engine.torch._columns import Columns, Trust, explained, generalised, v_trace
from eagleray.rllib._engine.torch._dist import dist_of
from eagleray.rllib._engine.torch._losses import Batch, Clipped, Plain, q_loss, q_targets, scaled
from eagleray.rllib._engine.torch._network import Network, device_of, pack, unpack
from eagleray.rllib._engine.torch._policy import filter_of
from eagleray.rllib._engine.torch._replay import Replay
from eagleray.rllib._engine.torch._threads import threads, worth
from eagleray.rllib.models.modelv2 import ModelV2
from eagleray.rllib.utils.error import CustomModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from eagleray.rllib._engine.protocol import Plan, Rollout

#: Rows that are judged at once where nothing is learned.
_ROWS_JUDGED = 4096


class _Learner:
    """What all have in common: the network, its optimiser, chance, and what filters have seen."""

    def __init__(self, plan: Plan) -> None:
        self._settings = dict(plan.settings)
        self._device = device_of(self._settings, acts=False)
        self._filter = filter_of(plan, 1)
        self._chance = np.random.default_rng(plan.seed)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(plan.seed)
            self.network = Network(plan).to(self._device)
            #: Of what draws within the model, as dropout does.
            self._torch_chance = torch.get_rng_state()
        #: The same on a GPU, which draws from chance of its own.
        self._device_chance: Any = None
        if self._device.type == "cuda":
            self._device_chance = torch.Generator(self._device).manual_seed(plan.seed).get_state()
        self._parameters = [one for one in self.network.parameters() if one.requires_grad]
        self._optimiser = self._make_optimiser()
        self._extra: dict[str, Any] = {}

    def _make_optimiser(self) -> Any:
        settings = self._settings
        if settings.get("opt_type", "adam") == "adam":
            return torch.optim.Adam(self._parameters, eps=float(settings.get("adam_epsilon", 1e-8)))
        return torch.optim.RMSprop(
            self._parameters,
            alpha=float(settings["decay"]),
            momentum=float(settings["momentum"]),
            eps=float(settings["epsilon"]),
        )

    # As the protocol has it.

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        now = self._settings | dict(settings)
        taken = [rollout for rollout in rollouts if isinstance(rollout, Columns)]
        for rollout in taken:
            if self._filter is not None and rollout.delta is not None:
                self._filter.merge(rollout.delta)
        for group in self._optimiser.param_groups:
            group["lr"] = float(now.get("lr") or 0.0)
        self.network.train()
        rows = int(now.get("minibatch_size") or now.get("train_batch_size_per_learner") or now["train_batch_size"])
        with self._own_chance(), threads(worth(self._parameters, rows)):
            said = self._learn(taken, now)
        if said and isinstance(self.network.model, ModelV2):
            said |= {name: float(value) for name, value in self.network.model.metrics().items()}
        return said

    def _learn(self, rollouts: list[Columns], now: dict[str, Any]) -> dict[str, float]:
        raise NotImplementedError

    def weights(self) -> bytes:
        """The weights as a safetensors file, behind what filters have seen where there are any."""
        moments = None if self._filter is None else self._filter.moments()
        return _filters.joined(moments, pack(self.network.tensors()))

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""
        moments, weights = _filters.parted(weights)
        self.network.load(unpack(weights)[0])
        if self._filter is not None and moments is not None:
            self._filter.set_moments(moments)

    def state(self) -> bytes:
        """All else that its next updates depend on."""
        tensors: dict[str, Any] = {"torch_chance": self._torch_chance}
        if self._device_chance is not None:
            tensors["device_chance"] = self._device_chance
        numbers: dict[str, Any] = {}
        for index, kept in self._optimiser.state_dict()["state"].items():
            for name, value in kept.items():
                key = f"optimiser.{index}.{name}"
                (tensors if isinstance(value, torch.Tensor) else numbers)[key] = value
        tensors |= self._more_tensors()
        said = {"chance": self._chance.bit_generator.state, "numbers": numbers, "extra": self._extra}
        return pack(tensors, json.dumps(said))

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        tensors, about = unpack(state)
        said = json.loads(about or "{}")
        self._chance.bit_generator.state = said["chance"]
        self._torch_chance = tensors.pop("torch_chance")
        drawn = tensors.pop("device_chance", None)
        # What was kept on one kind of device says nothing about chance on another.
        if self._device_chance is not None and drawn is not None:
            self._device_chance = drawn
        self._extra = said["extra"]
        kept: dict[int, dict[str, Any]] = {}
        for key, value in [*tensors.items(), *said["numbers"].items()]:
            part, _, rest = key.partition(".")
            if part == "optimiser":
                index, _, name = rest.partition(".")
                kept.setdefault(int(index), {})[name] = value
        whole = self._optimiser.state_dict()
        self._optimiser.load_state_dict({"state": kept, "param_groups": whole["param_groups"]})
        self._take_tensors(tensors)

    def ask(self, count: int) -> list[bytes]:
        """Refuse: these learn by gradients."""
        raise NotImplementedError

    def tell(self, returns: Sequence[float], lengths: Sequence[int], settings: Mapping[str, Any]) -> dict[str, float]:
        """Refuse: these learn by gradients."""
        raise NotImplementedError

    # What learners are made of.

    def _more_tensors(self) -> dict[str, Any]:
        return {}

    def _take_tensors(self, tensors: dict[str, Any]) -> None:
        pass

    @contextlib.contextmanager
    def _own_chance(self) -> Iterator[None]:
        """Lets the model draw from this learner's chance, so that learning can go on as it would have."""
        before = torch.get_rng_state()
        torch.set_rng_state(self._torch_chance)
        on_device = None
        if self._device_chance is not None:
            on_device = torch.cuda.get_rng_state(self._device)
            torch.cuda.set_rng_state(self._device_chance, self._device)
        try:
            yield
        finally:
            self._torch_chance = torch.get_rng_state()
            torch.set_rng_state(before)
            if on_device is not None:
                self._device_chance = torch.cuda.get_rng_state(self._device)
                torch.cuda.set_rng_state(on_device, self._device)

    def _on_device(self, array: Any) -> Any:
        # A copy: what came from other processes lies in shared memory, and models may write into what they are given.
        return torch.tensor(np.asarray(array, np.float32), device=self._device)

    def _descend(self, loss: Any, now: Mapping[str, Any]) -> Any:
        """One step of the optimiser. Returns the length of the gradient."""
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        most = now.get("grad_clip")
        length = torch.nn.utils.clip_grad_norm_(self._parameters, math.inf if most is None else float(most))
        if not now.get("torch_skip_nan_gradients") or bool(torch.isfinite(length)):
            self._optimiser.step()
        return length


class _OnPolicy(_Learner):
    """Learns from what its newest weights did, in passes over the batch."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._dist = dist_of(plan.acted)

    def _batch(self, rollouts: list[Columns], advantages: list[Any], targets: list[Any]) -> Batch:
        def flat(columns: list[Any], width: bool = True) -> Any:  # noqa: FBT001, FBT002 - here only
            rows = [one.reshape(-1, one.shape[-1]) if width else one.reshape(-1) for one in columns]
            return self._on_device(np.concatenate(rows))

        return Batch(
            flat([one.observed for one in rollouts]),
            flat([one.actions for one in rollouts]),
            flat([one.inputs for one in rollouts]),
            flat([one.logp for one in rollouts], width=False),
            flat(advantages, width=False),
            flat(targets, width=False),
        )

    def _passes(self, batch: Batch, loss: Any, now: dict[str, Any], epochs: int, size: int | None) -> dict[str, float]:
        """Goes through the batch, step by step of the optimiser. Gives means over the last epoch's rows."""
        rows = len(batch.logp)
        size = rows if size is None else min(max(1, size), rows)
        sums: dict[str, Any] = {}
        for epoch in range(epochs):
            # Where all rows are one minibatch their order is nothing to learn from.
            order = self._chance.permutation(rows) if size < rows else np.arange(rows)
            # At once: a GPU is waited for with each copy.
            for chosen in torch.from_numpy(order).to(self._device).split(size):
                part = Batch(*(getattr(batch, name)[chosen] for name in Batch.__dataclass_fields__))
                inputs, values = self.network(part.observed)
                total, parts = loss(self._dist, inputs, values, part)
                total = self._with_own_loss(total, part)
                length = self._descend(total, now)
                if epoch + 1 == epochs:
                    share = len(chosen) / rows
                    for name, value in (parts | {"total_loss": total, "gradient": length}).items():
                        sums[name] = sums.get(name, 0.0) + share * value.detach()
        return {name: float(value) for name, value in sums.items()}

    def _with_own_loss(self, total: Any, part: Batch) -> Any:
        """What a model of the older kind makes of the loss."""
        model = self.network.model
        if not isinstance(model, ModelV2):
            return total
        given = {"obs": part.observed, "actions": part.actions, "advantages": part.advantages}
        made = model.custom_loss([total], given)
        return sum(made) if isinstance(made, list | tuple) else made

    def _judge(self, rows: Any) -> tuple[Any, Any]:
        """What the network says of rows, without learning."""
        inputs, values = [], []
        with torch.no_grad():
            for part in self._on_device(rows).split(_ROWS_JUDGED):
                said, worth = self.network(part)
                inputs.append(said)
                values.append(worth)
        return torch.cat(inputs), torch.cat(values)

    def _said(self, found: dict[str, float], values: list[Any], targets: list[Any]) -> dict[str, float]:
        said = {name: found[name] for name in ("total_loss", "policy_loss", "vf_loss", "entropy")}
        whole = [np.concatenate([one.reshape(-1) for one in each]) for each in (values, targets)]
        said["vf_explained_var"] = explained(*whole)
        said["gradients_default_optimizer_global_norm"] = said["grad_gnorm"] = found["gradient"]
        return said


class PpoLearner(_OnPolicy):
    """Proximal policy optimisation."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._extra["kl_weight"] = float(self._settings.get("kl_coeff", 0.2))

    def _learn(self, rollouts: list[Columns], now: dict[str, Any]) -> dict[str, float]:
        found = [generalised(one, now["gamma"], now["lambda"]) for one in rollouts]
        batch = self._batch(rollouts, [one[0] for one in found], [one[1] for one in found])
        scales_parts = now["advantage_scaling"] == "minibatch"
        if not scales_parts:
            batch.advantages = scaled(batch.advantages)
        uses_kl, bound = bool(now["use_kl_loss"]), now["vf_clip_param"]
        loss = Clipped(
            clip=float(now["clip_param"]),
            value_weight=float(now["vf_loss_coeff"]),
            value_clip=math.inf if bound is None else float(bound),
            entropy_weight=float(now["entropy_coeff"]),
            kl_weight=self._extra["kl_weight"] if uses_kl else 0.0,
            scales=scales_parts,
        )
        told = self._passes(batch, loss, now, int(now["num_epochs"]), now["minibatch_size"])
        if uses_kl:
            far, near = told["kl"] > 2.0 * now["kl_target"], told["kl"] < 0.5 * now["kl_target"]
            self._extra["kl_weight"] *= 1.5 if far else 0.5 if near else 1.0
        weight = self._extra["kl_weight"]
        more = {"mean_kl_loss": told["kl"], "kl": told["kl"], "curr_kl_coeff": weight, "cur_kl_coeff": weight}
        return self._said(told, [one.values for one in rollouts], [one[1] for one in found]) | more


class A2cLearner(_OnPolicy):
    """Advantage actor-critic."""

    def _learn(self, rollouts: list[Columns], now: dict[str, Any]) -> dict[str, float]:
        found = [generalised(one, now["gamma"], now["lambda"]) for one in rollouts]
        batch = self._batch(rollouts, [one[0] for one in found], [one[1] for one in found])
        loss = Plain(float(now["vf_loss_coeff"]), float(now["entropy_coeff"]))
        told = self._passes(batch, loss, now, 1, now.get("microbatch_size"))
        return self._said(told, [one.values for one in rollouts], [one[1] for one in found])


class ImpalaLearner(_OnPolicy):
    """Policy gradients of rollouts that older policies made."""

    def _learn(self, rollouts: list[Columns], now: dict[str, Any]) -> dict[str, float]:
        trust = Trust(
            now["gamma"], now["vtrace_clip_rho_threshold"] or math.inf, now["vtrace_clip_pg_rho_threshold"] or math.inf
        )
        advantages, targets, valued, ratio = [], [], [], 0.0
        for one in rollouts:
            shape = one.rewards.shape
            inputs, values = self._judge(one.observed.reshape(one.steps, -1))
            actions, older = (self._on_device(each.reshape(one.steps, -1)) for each in (one.actions, one.inputs))
            logp = self._dist.terms(inputs, actions, older)[0].cpu().numpy().reshape(shape)
            ratios = np.exp(logp - one.logp)
            worth = values.cpu().numpy().reshape(shape)
            following = one.following_of(self._judge(one.behind())[1].cpu().numpy())
            advantage, target = v_trace(one, ratios, worth, following, trust)
            advantages.append(advantage)
            targets.append(target)
            valued.append(worth)
            ratio += float(ratios.sum())
        batch = self._batch(rollouts, advantages, targets)
        loss = Plain(float(now["vf_loss_coeff"]), float(now["entropy_coeff"]))
        told = self._passes(batch, loss, now, 1, None)
        more = {"mean_kl_loss": told["kl"], "mean_ratio": ratio / len(batch.logp)}
        return self._said(told, valued, targets) | more


class DqnLearner(_Learner):
    """Q-learning with replay."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        if plan.acted.kind != "discrete" or len(plan.acted.sizes) != 1:
            raise CustomModelError("DQN chooses one of several actions (a Discrete space); for others use PPO")
        if int(self._settings.get("num_atoms", 1)) > 1 or self._settings.get("noisy"):
            raise CustomModelError("`num_atoms` and `noisy` are not available with a model of your own")
        self._older = copy.deepcopy(self.network).eval()
        buffer = self._settings["replay_buffer_config"]
        is_prioritised = "Prioritized" in str(buffer.get("type", ""))
        self._replay = Replay(int(buffer["capacity"]), is_prioritised=is_prioritised)
        #: The timestep at which the older network was last brought up to date.
        self._extra["followed_at"] = 0

    def _learn(self, rollouts: list[Columns], now: dict[str, Any]) -> dict[str, float]:
        steps = now["n_step"]
        ahead = max(steps) if isinstance(steps, tuple | list) else int(steps)
        for one in rollouts:
            self._replay.add(one, ahead, float(now["gamma"]))
        if now["updates"] <= 0 or not len(self._replay):
            return {}
        for _ in range(now["updates"]):
            found = self._step(now)
        if now["timestep"] - self._extra["followed_at"] >= now["target_network_update_freq"]:
            self._follow(float(now["tau"]))
            self._extra["followed_at"] = now["timestep"]
        # Here and not in each step: a GPU is waited for with each number.
        numbers = {name: float(value) for name, value in found.items()}
        older_names = {"mean_q": "qf_mean", "max_q": "qf_max", "min_q": "qf_min", "mean_td_error": "td_error_mean"}
        return numbers | {older: numbers[name] for older, name in older_names.items()}

    def _step(self, now: dict[str, Any]) -> dict[str, Any]:
        buffer = now["replay_buffer_config"]
        count = int(now.get("train_batch_size_per_learner") or now["train_batch_size"])
        places, drawn, weights = self._replay.draw(count, float(buffer.get("beta", 0.4)), self._chance)
        rows = {name: self._on_device(column) for name, column in drawn.items()}
        with torch.no_grad():
            older, _ = self._older(rows["following"], values=False)
            is_double = bool(now["double_q"])
            newest = self.network(rows["following"], values=False)[0] if is_double else older
            targets = q_targets(newest, older, rows["rewards"], rows["discounts"], is_double=is_double)
        every, _ = self.network(rows["observed"], values=False)
        worth = every.gather(-1, rows["actions"].long()).squeeze(-1)
        is_huber = now.get("td_error_loss_fn", "huber") == "huber"
        loss, errors = q_loss(worth, targets, self._on_device(weights), is_huber=is_huber)
        length = self._descend(loss, now)
        surprises = errors.detach().cpu().numpy()
        self._replay.set_priorities(places, surprises, float(buffer.get("alpha", 0.6)))
        loss, worth = loss.detach(), worth.detach()
        return {
            "total_loss": loss,
            "qf_loss": loss,
            "qf_mean": worth.mean(),
            "qf_max": worth.max(),
            "qf_min": worth.min(),
            "td_error_mean": np.abs(surprises).mean(),
            "gradients_default_optimizer_global_norm": length,
        }

    def _follow(self, share: float) -> None:
        """The older network moves this far towards the learning one; at one it becomes it."""
        with torch.no_grad():
            for older, newest in zip(self._older.tensors().values(), self.network.tensors().values(), strict=True):
                if older.is_floating_point():
                    older.lerp_(newest, share)
                else:
                    older.copy_(newest)

    def _more_tensors(self) -> dict[str, Any]:
        tensors = {f"older.{name}": value for name, value in self._older.tensors().items()}
        if self._settings.get("store_buffer_in_checkpoints"):
            arrays, self._extra["replay"] = self._replay.state()
            tensors |= {f"replay.{name}": torch.from_numpy(np.ascontiguousarray(one)) for name, one in arrays.items()}
        return tensors

    def _take_tensors(self, tensors: dict[str, Any]) -> None:
        parts: dict[str, dict[str, Any]] = {"older": {}, "replay": {}}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            if part in parts:
                parts[part][name] = value
        self._older.load(parts["older"])
        said = self._extra.pop("replay", None)
        if said is not None:
            self._replay.restore({name: value.numpy() for name, value in parts["replay"].items()}, said)


LEARNERS: dict[str, type[_Learner]] = {
    "PPO": PpoLearner,
    "A2C": A2cLearner,
    "IMPALA": ImpalaLearner,
    "DQN": DqnLearner,
}
