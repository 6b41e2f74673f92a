"""The native learners behind one face each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from eagleray._native import rl
from eagleray.rllib._engine import _models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eagleray.rllib._engine.protocol import Plan, Rollout


class PpoLearner:
    """Proximal policy optimisation."""

    def __init__(self, plan: Plan) -> None:
        self._settings = dict(plan.settings)
        kl_weight = float(self._settings.get("kl_coeff", 0.2))
        epsilon = float(self._settings.get("adam_epsilon", 1e-8))
        self._native = rl.PpoLearner(_models.actor_critic(plan), kl_weight, epsilon, plan.seed)

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Learn from these."""
        now = self._settings | dict(settings)
        native = {
            "gamma": now["gamma"],
            "lambda": now["lambda"],
            "rate": now["lr"],
            "epochs": now["num_epochs"],
            "minibatch": now["minibatch_size"] or 2**31,
            "clip": now["clip_param"],
            "value_weight": now["vf_loss_coeff"],
            "value_clip": _models.UNBOUNDED
            if now["vf_clip_param"] is None
            else min(now["vf_clip_param"], _models.UNBOUNDED),
            "entropy_weight": now["entropy_coeff"],
            "uses_kl": now["use_kl_loss"],
            "kl_target": now["kl_target"],
            "gradient_max": now.get("grad_clip"),
            "scales_minibatches": False,
            "threads": _models.threads(),
        }
        found = self._native.update(cast("Any", rollouts), json.dumps(native))
        return {
            "total_loss": found["total_loss"],
            "policy_loss": found["policy_loss"],
            "vf_loss": found["vf_loss"],
            "entropy": found["entropy"],
            "mean_kl_loss": found["kl"],
            "kl": found["kl"],
            "curr_kl_coeff": found["kl_coeff"],
            "cur_kl_coeff": found["kl_coeff"],
            "vf_explained_var": found["vf_explained_var"],
            "gradients_default_optimizer_global_norm": found["gradient_norm"],
        }

    def weights(self) -> bytes:
        """The weights as a safetensors file."""
        return self._native.weights()

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""
        self._native.set_weights(weights)

    def state(self) -> bytes:
        """All else that its next updates depend on."""
        return self._native.save()

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self._native.restore(state)


class DqnLearner:
    """Q-learning with replay."""

    def __init__(self, plan: Plan) -> None:
        self._settings = dict(plan.settings)
        buffer = self._settings["replay_buffer_config"]
        self._native = rl.DqnLearner(
            _models.q_function(plan),
            float(self._settings.get("adam_epsilon", 1e-8)),
            plan.seed,
            int(buffer["capacity"]),
            "Prioritized" in str(buffer.get("type", "")),
        )
        #: The timestep at which the older networks were last brought up to date.
        self._followed_at = 0

    def update(self, rollouts: Sequence[Rollout], settings: Mapping[str, Any]) -> dict[str, float]:
        """Remember these, and learn as often as the settings say from what is remembered."""
        now = self._settings | dict(settings)
        steps = now["n_step"]
        ahead = max(steps) if isinstance(steps, tuple | list) else int(steps)
        for rollout in rollouts:
            self._native.add(cast("Any", rollout), ahead, now["gamma"])
        if now["updates"] <= 0:
            return {}
        buffer = now["replay_buffer_config"]
        native = {
            "rate": now["lr"],
            "batch": now.get("train_batch_size_per_learner") or now["train_batch_size"],
            "is_double": now["double_q"],
            "gradient_max": now.get("grad_clip"),
            "alpha": buffer.get("alpha", 0.6),
            "beta": buffer.get("beta", 0.4),
        }
        found = self._native.update(json.dumps(native), now["updates"])
        if now["timestep"] - self._followed_at >= now["target_network_update_freq"]:
            self._native.follow(now["tau"])
            self._followed_at = now["timestep"]
        return {
            "total_loss": found["total_loss"],
            "qf_loss": found["total_loss"],
            "qf_mean": found["qf_mean"],
            "qf_max": found["qf_max"],
            "qf_min": found["qf_min"],
            "mean_q": found["qf_mean"],
            "max_q": found["qf_max"],
            "min_q": found["qf_min"],
            "td_error_mean": found["td_error_mean"],
            "mean_td_error": found["td_error_mean"],
            "gradients_default_optimizer_global_norm": found["gradient_norm"],
        }

    def weights(self) -> bytes:
        """The weights as a safetensors file."""
        return self._native.weights()

    def set_weights(self, weights: bytes) -> None:
        """Take other weights of the same shapes."""
        self._native.set_weights(weights)

    def state(self) -> bytes:
        """All else that its next updates depend on; with the replay where settings ask for it."""
        saved = self._native.save(bool(self._settings.get("store_buffer_in_checkpoints")))
        return self._followed_at.to_bytes(8, "little") + saved

    def restore(self, state: bytes) -> None:
        """Go on from such a state."""
        self._native.restore(state[8:])
        self._followed_at = int.from_bytes(state[:8], "little")


LEARNERS = {"PPO": PpoLearner, "DQN": DqnLearner}
