"""How a model's numbers choose actions. Drawing is numpy's, on rows that runners have; losses are torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from eagleray.rllib._engine import _dist
from eagleray.rllib._engine._dist import HALF_LN_TAU

if TYPE_CHECKING:
    from eagleray.rllib._engine.protocol import Acted


class Categorical(_dist.Categorical):
    """One choice of each of `sizes`, from a score per choice."""

    def terms(self, inputs: Any, actions: Any, older: Any) -> tuple[Any, Any, Any]:
        """Logarithms of probabilities, entropies, and how far the older rows are: KL(older || these)."""
        logp, entropy, kl = 0.0, 0.0, 0.0
        pairs = zip(inputs.split(self.sizes, -1), older.split(self.sizes, -1), strict=True)
        for index, (scores, before) in enumerate(pairs):
            # Scores of minus infinity forbid a choice; they must not make zero times infinity.
            least = torch.finfo(scores.dtype).min
            now, then = (torch.log_softmax(each, -1).clamp(min=least) for each in (scores, before))
            logp = logp + now.gather(-1, actions[:, index : index + 1].long()).squeeze(-1)
            entropy = entropy - (now.exp() * now).sum(-1)
            kl = kl + (then.exp() * (then - now)).sum(-1)
        return logp, entropy, kl


class Gaussian(_dist.Gaussian):
    """Numbers, from a mean of each and then the logarithm of each deviation."""

    def terms(self, inputs: Any, actions: Any, older: Any) -> tuple[Any, Any, Any]:
        """Logarithms of densities, entropies, and how far the older rows are: KL(older || these)."""
        (means, logs), (means_then, logs_then) = inputs.chunk(2, -1), older.chunk(2, -1)
        away = (actions - means) * (-logs).exp()
        logp = -(0.5 * away**2 + logs + HALF_LN_TAU).sum(-1)
        entropy = (logs + 0.5 + HALF_LN_TAU).sum(-1)
        ratio, apart = (logs_then - logs).exp(), (means_then - means) * (-logs).exp()
        kl = (logs - logs_then + 0.5 * (ratio**2 + apart**2) - 0.5).sum(-1)
        return logp, entropy, kl


def dist_of(acted: Acted) -> Categorical | Gaussian:
    """The one for these actions."""
    return Categorical(acted.sizes) if acted.kind == "discrete" else Gaussian(acted.size)
