"""What columns of samples are called, as older programs say it."""

from __future__ import annotations

from typing import Any

DEFAULT_POLICY_ID = "default_policy"


class SampleBatch(dict[str, Any]):
    """Columns by name. Models are called with one that has observations."""

    OBS = "obs"
    CUR_OBS = "obs"
    NEXT_OBS = "new_obs"
    ACTIONS = "actions"
    REWARDS = "rewards"
    PREV_ACTIONS = "prev_actions"
    PREV_REWARDS = "prev_rewards"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    DONES = "dones"
    INFOS = "infos"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_LOGP = "action_logp"
    VF_PREDS = "vf_preds"
    SEQ_LENS = "seq_lens"
    EPS_ID = "eps_id"
    T = "t"


__all__ = ["DEFAULT_POLICY_ID", "SampleBatch"]
