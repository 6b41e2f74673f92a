"""Models of a program's own: torch acts and learns, all else is as for built-in networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagleray.rllib.utils.framework import torch_needed

torch_needed("framework='torch' with a custom model")

import torch  # noqa: E402 - said in words first if it is missing

from eagleray.rllib._engine.torch._learners import LEARNERS  # noqa: E402
from eagleray.rllib._engine.torch._policy import TorchPolicy  # noqa: E402

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Learner, Plan, Policy

#: Threads that torch had before this process was found to only act; None where nothing was changed.
_threads: int | None = None
_learns = False


def learner(plan: Plan) -> Learner:
    """One that learns by the plan's algorithm. The process it is in may use all its threads."""
    global _threads, _learns
    _learns = True
    if _threads is not None:
        torch.set_num_threads(_threads)
        _threads = None
    return LEARNERS[plan.algorithm](plan)


def policy(plan: Plan) -> Policy:
    """One that acts. A process that only acts uses one thread: batches are small, and runners share the cores."""
    global _threads
    if not _learns and _threads is None:
        _threads = torch.get_num_threads()
        torch.set_num_threads(1)
    return TorchPolicy(plan)
