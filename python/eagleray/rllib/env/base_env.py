"""A name that older callbacks write in their signatures."""

from __future__ import annotations


class BaseEnv:
    """Environments as older versions of RLlib held them. Callbacks get the environment, with `get_sub_environments` beside it."""
