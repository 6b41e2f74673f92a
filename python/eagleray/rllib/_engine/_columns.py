"""What is asked of whole columns of numbers at each step: natively, as numpy would take longer to be called than to compute."""

from __future__ import annotations

from eagleray._native import rl

#: Whether each number of a column of single precision is one, and finite.
is_finite = rl.is_finite
