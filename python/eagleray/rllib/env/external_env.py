"""Simulators that drive themselves, and ask the policy when they need an action."""

from __future__ import annotations

import queue
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from eagleray.rllib.utils.error import EnvError


@dataclass
class Request:
    """What a simulator wants to be done: an action, a note of one, the end of its episode."""

    kind: str  # "act", "told", "end"
    episode: ExternalEpisode
    observation: Any
    action: Any = None
    reply: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)


@dataclass
class ExternalEpisode:
    """One episode of a simulator."""

    episode_id: str
    is_training: bool = True
    #: Logged since the last step.
    reward: float = 0.0
    total: float = 0.0
    length: int = 0
    info: Any = None
    #: What the runner keeps with it.
    held: Any = None


class StoppedError(Exception):
    """Ends the simulator's thread at its next question."""


class ExternalEnv(threading.Thread):
    """Subclass it: `run` is a loop that starts episodes, asks for actions and logs what they bring."""

    def __init__(self, action_space: Any, observation_space: Any, max_concurrent: int = 100) -> None:
        """Keep the spaces. The thread is started by the runner that samples from it."""
        super().__init__(daemon=True)
        self.action_space = action_space
        self.observation_space = observation_space
        self.max_concurrent = max_concurrent
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._episodes: dict[str, ExternalEpisode] = {}
        self._failure: BaseException | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Drive the simulator; never returns, as a rule."""
        raise NotImplementedError

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:  # noqa: FBT001, FBT002
        """Begin an episode. Returns its id."""
        self._check()
        name = episode_id or uuid.uuid4().hex
        if name in self._episodes:
            raise ValueError(f"Episode {name} is already started")
        if len(self._episodes) >= self.max_concurrent:
            raise ValueError(f"{self.max_concurrent} episodes run already; end one, or raise max_concurrent")
        self._episodes[name] = ExternalEpisode(name, training_enabled)
        return name

    def get_action(self, episode_id: str, observation: Any) -> Any:
        """Ask the policy what to do, and wait for it."""
        request = self._ask("act", episode_id, observation)
        said = request.reply.get()
        if isinstance(said, BaseException):
            raise said
        return said

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Say what was done without asking."""
        request = self._ask("told", episode_id, observation, action)
        said = request.reply.get()
        if isinstance(said, BaseException):
            raise said

    def log_returns(
        self,
        episode_id: str,
        reward: float,
        info: Any = None,
        multiagent_done_dict: Any = None,
    ) -> None:
        """Say what the last action brought. Several add up."""
        episode = self._episode(episode_id)
        episode.reward += float(reward)
        episode.total += float(reward)
        if info is not None:
            episode.info = info

    def end_episode(self, episode_id: str, observation: Any) -> None:
        """Say that the episode is over, and what was seen last."""
        self._ask("end", episode_id, observation)
        del self._episodes[episode_id]

    def _ask(self, kind: str, episode_id: str, observation: Any, action: Any = None) -> Request:
        self._check()
        request = Request(kind, self._episode(episode_id), observation, action)
        self._requests.put(request)
        # `end` may have emptied the queue between the two lines above.
        self._check()
        return request

    def _episode(self, episode_id: str) -> ExternalEpisode:
        try:
            return self._episodes[episode_id]
        except KeyError:
            raise ValueError(f"Episode {episode_id} not found: it was not started, or has ended") from None

    def _check(self) -> None:
        if self._is_stopped:
            raise StoppedError

    # What the runner does.

    def begin(self) -> None:
        """Starts the simulator."""
        inner = self.run

        def guarded() -> None:
            try:
                inner()
            except StoppedError:
                pass
            except BaseException as error:
                self._failure = error
            else:
                self._failure = None

        self.run = guarded  # type: ignore[method-assign]
        self.start()

    def next_request(self, seconds: float) -> Request:
        """What the simulator asks next."""
        waited = 0.0
        while True:
            try:
                return self._requests.get(timeout=min(0.2, seconds))
            except queue.Empty:
                waited += min(0.2, seconds)
            if not self.is_alive():
                if self._failure is not None:
                    raise self._failure
                raise EnvError(
                    "run() of the ExternalEnv returned: it drives the simulator for as long as there is training"
                )
            if waited >= seconds:
                raise TimeoutError(f"the ExternalEnv asked for nothing in {seconds:g} s")

    def end(self) -> None:
        """Ends the simulator at its next question."""
        self._is_stopped = True
        while True:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return
            request.reply.put(StoppedError())
