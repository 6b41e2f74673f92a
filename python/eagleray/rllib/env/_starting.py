"""Runners that are actors, while they start: what keeps one from being made is told as if it happened here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagleray._private import state
from eagleray.rllib.env.env_runner import EnvRunner

if TYPE_CHECKING:
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig


def has_process(actor: Any) -> bool:
    """Whether an actor has a process, and so all that it waits for is its own code. One without waits for cores, however long."""
    return bool(state.actors(actor._actor_id.hex()).get("Pid"))


class RunnerActor(EnvRunner):
    """A runner in a process of its own. Configuration and known environments come as one stored object."""

    def __init__(
        self,
        given: tuple[AlgorithmConfig, dict[str, Any]],
        index: int,
        recreated: bool,  # noqa: FBT001
        is_asked: bool,  # noqa: FBT001 - whether a ping comes before anything else
    ) -> None:
        config, known = given
        self._failure: Exception | None = None
        try:
            super().__init__(config, index, known, recreated=recreated)
        except Exception as error:
            # Raised here it would arrive as text: the death of an actor. The answer to the ping is the error itself.
            if not is_asked:
                raise
            self._failure = error

    def ping(self) -> str:
        """Answer, or raise what kept it from being made."""
        if self._failure is not None:
            raise self._failure
        return super().ping()
