"""What columns of batches are called, as newer programs say it."""

from __future__ import annotations


class Columns:
    """Names of columns."""

    OBS = "obs"
    NEXT_OBS = "new_obs"
    ACTIONS = "actions"
    REWARDS = "rewards"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_LOGP = "action_logp"
    VF_PREDS = "vf_preds"
    EMBEDDINGS = "embeddings"
    ADVANTAGES = "advantages"
    VALUE_TARGETS = "value_targets"
    STATE_IN = "state_in"
    STATE_OUT = "state_out"


__all__ = ["Columns"]
