"""The native learners behind one face each."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, cast

from eagleray._native import rl
from eagleray.rllib._engine import _filters, _models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eagleray.rllib._engine.protocol import Plan, Rollout


class _Learner:
    """What all have in common: a native learner, its weights and the rest of its state."""

    _native: Any

    def __init__(self, plan: Plan) -> None:
        self._settings = dict(plan.settings)
        self._threads = _models.threads()
        spec = _filters.spec_of(plan)
        self._filter = None if spec is None else rl.Filter(spec, plan.observed.size)

    def weights(self) -> bytes:
        """The weights as a safetensors file, behind what filters have seen where there are any."""
        moments = None if self._filter is None else self._filter.moments()
        return _filters.joined(moments, self._native.weights())

    def travelling(self) -> bytes:
        """The same for runners, in the form that is read and written fastest."""
        moments = None if self._filter is None else self._filter.moments()
        return _filters.joined(moments, self._native.flat_weights())

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""
        moments, weights = _filters.parted(weights)
        self._native.set_weights(weights)
        if self._filter is not None and moments is not None:
            self._filter.set_moments(moments)

    def state(self) -> bytes:
        """All else that its next updates depend on."""
        return cast("bytes", self._native.save())

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self._native.restore(state)

    def _taken(self, rollouts: Sequence[Rollout]) -> list[Any]:
        """The native rollouts; what their runners saw counts from now on."""
        native: list[Any] = []
        for rollout in rollouts:
            if isinstance(rollout, _filters.Filtered):
                if self._filter is not None:
                    self._filter.merge(rollout.delta)
                native.append(rollout.native)
            else:
                native.append(rollout)
        return native

    def _now(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return self._settings | dict(settings)


def _of_gradient(found: dict[str, float]) -> dict[str, float]:
    """What algorithms that follow the policy's gradient say, under the names of both eras."""
    said = {name: found[name] for name in ("total_loss", "policy_loss", "vf_loss", "entropy", "vf_explained_var")}
    return said | {
        "gradients_default_optimizer_global_norm": found["gradient_norm"],
        "grad_gnorm": found["gradient_norm"],
    }


class PpoLearner(_Learner):
    """Proximal policy optimisation, of networks with a memory too."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        kl_weight = float(self._settings.get("kl_coeff", 0.2))
        epsilon = float(self._settings.get("adam_epsilon", 1e-8))
        if _models.remembers(plan) and self._settings["advantage_scaling"] == "minibatch":
            raise ValueError('`advantage_scaling` must be "batch" with `use_lstm`: minibatches are of sequences there')
        kind = rl.RecurrentPpoLearner if _models.remembers(plan) else rl.PpoLearner
        self._native = kind(_models.actor_critic(plan), kl_weight, epsilon, plan.seed)

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        now = self._now(settings)
        bound = now["vf_clip_param"]
        native = {
            "gamma": now["gamma"],
            "lambda": now["lambda"],
            "rate": now["lr"],
            "epochs": now["num_epochs"],
            "minibatch": now["minibatch_size"] or 2**31,
            "clip": now["clip_param"],
            "value_weight": now["vf_loss_coeff"],
            "value_clip": _models.UNBOUNDED if bound is None else min(bound, _models.UNBOUNDED),
            "entropy_weight": now["entropy_coeff"],
            "uses_kl": now["use_kl_loss"],
            "kl_target": now["kl_target"],
            "gradient_max": now.get("grad_clip"),
            "scales_minibatches": now["advantage_scaling"] == "minibatch",
            "threads": self._threads,
        }
        found = self._native.update(self._taken(rollouts), json.dumps(native))
        more = {"mean_kl_loss": found["kl"], "kl": found["kl"]}
        return _of_gradient(found) | more | {"curr_kl_coeff": found["kl_coeff"], "cur_kl_coeff": found["kl_coeff"]}


class A2cLearner(_Learner):
    """Advantage actor-critic."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._native = rl.A2cLearner(_models.actor_critic(plan), _models.optimiser(self._settings), plan.seed)

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        now = self._now(settings)
        native = {
            "gamma": now["gamma"],
            "lambda": now["lambda"],
            "rate": now["lr"],
            "minibatch": now.get("microbatch_size"),
            "value_weight": now["vf_loss_coeff"],
            "entropy_weight": now["entropy_coeff"],
            "gradient_max": now.get("grad_clip"),
            "threads": self._threads,
        }
        return _of_gradient(self._native.update(self._taken(rollouts), json.dumps(native)))


class ImpalaLearner(_Learner):
    """Policy gradients of rollouts that older policies made."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._native = rl.ImpalaLearner(_models.actor_critic(plan), _models.optimiser(self._settings), plan.seed)

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        now = self._now(settings)
        native = {
            "gamma": now["gamma"],
            "rho_max": now["vtrace_clip_rho_threshold"],
            "rho_max_choice": now["vtrace_clip_pg_rho_threshold"],
            "rate": now["lr"],
            "value_weight": now["vf_loss_coeff"],
            "entropy_weight": now["entropy_coeff"],
            "gradient_max": now.get("grad_clip"),
            "threads": self._threads,
        }
        found = self._native.update(self._taken(rollouts), json.dumps(native))
        return _of_gradient(found) | {"mean_kl_loss": found["kl"], "mean_ratio": found["mean_ratio"]}


class _Replaying(_Learner):
    """What remembers steps and learns from some of them."""

    def _remember(self, rollouts: Sequence[Rollout], now: Mapping[str, Any]) -> dict[str, Any]:
        """Keep these; returns what drawing depends on."""
        steps = now["n_step"]
        ahead = max(steps) if isinstance(steps, tuple | list) else int(steps)
        for rollout in self._taken(rollouts):
            self._native.add(rollout, ahead, now["gamma"])
        buffer = now["replay_buffer_config"]
        return {
            "batch": now.get("train_batch_size_per_learner") or now["train_batch_size"],
            "gradient_max": now.get("grad_clip"),
            "alpha": buffer.get("alpha", 0.6),
            "beta": buffer.get("beta", 0.4),
            "threads": self._threads,
        }

    def state(self) -> bytes:
        """All else that its next updates depend on; with the replay where settings ask for it."""
        return cast("bytes", self._native.save(bool(self._settings.get("store_buffer_in_checkpoints"))))

    def _buffer(self) -> tuple[int, bool]:
        """How many steps are kept, and whether surprising ones are drawn more often."""
        buffer = self._settings["replay_buffer_config"]
        return int(buffer["capacity"]), "Prioritized" in str(buffer.get("type", ""))


def _of_values(found: dict[str, float]) -> dict[str, float]:
    """What algorithms that value actions say, under the names of both eras."""
    said = {name: found[name] for name in ("total_loss", "qf_mean", "qf_max", "qf_min", "td_error_mean")}
    old = {"mean_q": found["qf_mean"], "max_q": found["qf_max"], "min_q": found["qf_min"]}
    return said | old | {"mean_td_error": found["td_error_mean"]}


class DqnLearner(_Replaying):
    """Q-learning with replay."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        epsilon = float(self._settings.get("adam_epsilon", 1e-8))
        self._native = rl.DqnLearner(_models.q_function(plan), epsilon, plan.seed, *self._buffer())
        #: The timestep at which the older networks were last brought up to date.
        self._followed_at = 0

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Remember these, and learn as often as the settings say from what is remembered."""
        now = self._now(settings)
        native = self._remember(rollouts, now) | {"rate": now["lr"], "is_double": now["double_q"]}
        # Steps that stand for several may all still wait for the last of theirs.
        if now["updates"] <= 0 or not len(self._native):
            return {}
        found = self._native.update(json.dumps(native), now["updates"])
        if now["timestep"] - self._followed_at >= now["target_network_update_freq"]:
            self._native.follow(now["tau"])
            self._followed_at = now["timestep"]
        more = {"qf_loss": found["total_loss"], "gradients_default_optimizer_global_norm": found["gradient_norm"]}
        return _of_values(found) | more

    def state(self) -> bytes:
        """All else that its next updates depend on, and when the older networks were last brought up to date."""
        return self._followed_at.to_bytes(8, "little") + super().state()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        super().restore(state[8:])
        self._followed_at = int.from_bytes(state[:8], "little")


class SacLearner(_Replaying):
    """Soft actor-critic."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        temperature = float(self._settings.get("initial_alpha", 1.0))
        epsilon = float(self._settings.get("adam_epsilon", 1e-8))
        self._native = rl.SacLearner(_models.soft(plan), temperature, epsilon, plan.seed, *self._buffer())

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Remember these, and learn as often as the settings say from what is remembered."""
        now = self._now(settings)
        target = now["target_entropy"]
        native = self._remember(rollouts, now) | {
            "actor_rate": now["actor_lr"],
            "critic_rate": now["critic_lr"],
            "temperature_rate": now["alpha_lr"],
            "tau": now["tau"],
            "temperature": None,
            "target_entropy": None if target in (None, "auto") else float(target),
            # Networks this large reach another core no sooner than they are computed.
            "threads": 1,
        }
        if now["updates"] <= 0 or not len(self._native):
            return {}
        found = self._native.update(json.dumps(native), now["updates"])
        names = ("actor_loss", "critic_loss", "alpha_loss", "alpha_value", "entropy")
        more = {"qf_loss": found["critic_loss"], "policy_loss": found["actor_loss"]}
        return _of_values(found) | {name: found[name] for name in names} | more


class EsLearner(_Learner):
    """Evolution strategies."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._native = rl.EsLearner(_models.actor_critic(plan), plan.seed)
        #: Of the pairs that were asked for since the last time.
        self._seeds: list[int] = []

    def _said(self, now: Mapping[str, Any]) -> str:
        return json.dumps({"rate": now["stepsize"], "noise": now["noise_stdev"], "decay": now["l2_coeff"]})

    def ask(self, count: int) -> list[bytes]:
        """Weights to try, each with its mirror image beside it."""
        seeds = self._native.ask(count // 2)
        self._seeds += seeds
        said = self._said(self._settings)
        return [self._native.candidate(seed, is_other, said) for seed in seeds for is_other in (False, True)]

    def tell(self, returns: Sequence[float], lengths: Sequence[int], settings: Mapping[str, Any]) -> dict[str, float]:
        """What came of them, in their order; nan where it failed: then the pair does not count."""
        # Those before were asked for in a generation that was broken off.
        seeds, self._seeds = self._seeds[len(self._seeds) - len(returns) // 2 :], []
        whole = [at for at in range(len(seeds)) if not any(math.isnan(value) for value in returns[2 * at : 2 * at + 2])]
        if not whole:
            raise RuntimeError("no candidate of this generation could be tried: see the runners' errors above")
        told_returns = [value for at in whole for value in returns[2 * at : 2 * at + 2]]
        told_lengths = [value for at in whole for value in lengths[2 * at : 2 * at + 2]]
        found = self._native.tell(
            [seeds[at] for at in whole], told_returns, told_lengths, self._said(self._now(settings))
        )
        return {name: float(found[name]) for name in ("grad_norm", "weights_norm", "update_ratio")}


LEARNERS: dict[str, type[_Learner]] = {
    "PPO": PpoLearner,
    "A2C": A2cLearner,
    "IMPALA": ImpalaLearner,
    "DQN": DqnLearner,
    "SAC": SacLearner,
    "ES": EsLearner,
}
