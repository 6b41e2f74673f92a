"""A simulator's side of a `PolicyServerInput`: asks a policy elsewhere, and logs what came of it."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

from eagleray.rllib.env import _wire
from eagleray.rllib.utils.error import EnvError


class PolicyServerError(EnvError):
    """The server refused, or cannot be reached."""


class PolicyClient:
    """Episodes of a simulator that runs wherever it likes.

    Args:
        address: the server, as `http://localhost:9900`.
        inference_mode: taken for Ray's sake. Actions come from the server in either mode.
        update_interval: taken for Ray's sake.
        timeout_s: how long an answer is waited for. The server does not answer while it learns.
    """

    def __init__(
        self,
        address: str,
        inference_mode: str = "remote",
        update_interval: float = 10.0,
        *,
        timeout_s: float = 120.0,
    ) -> None:
        """Keep the address; the first episode shows whether somebody is there."""
        if not address.startswith("http://"):
            raise ValueError(f"the address must be as http://localhost:9900, not {address!r}")
        if inference_mode not in ("local", "remote"):
            raise ValueError(f'`inference_mode` must be "local" or "remote", not {inference_mode!r}')
        self.address = address
        self._timeout_s = timeout_s

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:  # noqa: FBT001, FBT002 - RLlib's signature
        """Begin an episode. Returns its id."""
        said = self._ask("START_EPISODE", episode_id=episode_id, training_enabled=training_enabled)
        return str(said["episode_id"])

    def get_action(self, episode_id: str, observation: Any) -> Any:
        """What the policy does when it sees this."""
        return self._ask("GET_ACTION", episode_id=episode_id, observation=observation)["action"]

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Say what was done without asking."""
        self._ask("LOG_ACTION", episode_id=episode_id, observation=observation, action=action)

    def log_returns(
        self, episode_id: str, reward: float, info: dict[str, Any] | None = None, multiagent_done_dict: Any = None
    ) -> None:
        """Say what the last action brought. Several add up."""
        if multiagent_done_dict is not None:
            raise ValueError("an episode has one agent here: leave `multiagent_done_dict` out")
        self._ask("LOG_RETURNS", episode_id=episode_id, reward=reward, info=info)

    def end_episode(self, episode_id: str, observation: Any) -> None:
        """Say that the episode is over, and what was seen last."""
        self._ask("END_EPISODE", episode_id=episode_id, observation=observation)

    def _ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        data = _wire.pack({"command": command, **arguments})
        request = urllib.request.Request(self.address, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                return _wire.unpack(answer.read(_wire.MESSAGE_BYTES_MAX))
        except urllib.error.HTTPError as error:
            raise PolicyServerError(f"{self.address}: {_reason(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise PolicyServerError(
                f"{self.address} does not answer: {reason}. Is the training running there?"
            ) from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(_wire.unpack(error.read(_wire.MESSAGE_BYTES_MAX))["error"])
    except (_wire.WireError, KeyError, OSError):
        return f"{error.code} {error.reason}"


__all__ = ["PolicyClient", "PolicyServerError"]
