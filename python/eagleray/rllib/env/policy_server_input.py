"""A policy that simulators elsewhere ask over HTTP: an input for `offline_data(input_=lambda ioctx: PolicyServerInput(...))`."""

from __future__ import annotations

import logging
import math
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from eagleray.rllib.env import _wire
from eagleray.rllib.env.external_env import ExternalEnv, StoppedError
from eagleray.rllib.env.spaces import ActionForm, ObservationForm
from eagleray.rllib.utils.error import EnvError

if TYPE_CHECKING:
    from eagleray.rllib.env.external_env import Request
    from eagleray.rllib.offline.io_context import IOContext

_logger = logging.getLogger("eagleray.rllib")

#: A client that sends or reads nothing for so long is hung up on.
_SOCKET_S = 30.0


class PolicyServerInput(ExternalEnv):
    """Answers `PolicyClient`s. What they log is what is learned from.

    It listens on this machine only, unless another address is given; whoever reaches the port can take part in the training.
    Training waits for clients as long as it takes: with runners that are actors set `sample_timeout_s=None`.

    Args:
        ioctx: whose input it is.
        address: where to listen.
        port: the port; 0 for any that is free, which `port` then says.
        idle_timeout: seconds between two words in the log while nobody asks.
        max_concurrent: episodes, and requests, at a time. More are told to come back later.
    """

    def __init__(
        self,
        ioctx: IOContext,
        address: str = "127.0.0.1",
        port: int = 9900,
        idle_timeout: float = 60.0,
        max_sample_queue_size: int = 20,
        *,
        max_concurrent: int = 100,
    ) -> None:
        """Take the port. It is listened to once something is sampled."""
        observation_space, action_space = ioctx.worker._declared_spaces()
        super().__init__(action_space, observation_space, max_concurrent)
        self._form, self._actions = ObservationForm(observation_space), ActionForm(action_space)
        self._idle_s = idle_timeout
        self._room = threading.BoundedSemaphore(max_concurrent)
        try:
            self._server = _Server((address, port), self)
        except OSError as error:
            raise EnvError(f"cannot listen on {address}:{port}: {error.strerror}; choose another port") from error
        self.address, self.port = address, int(self._server.server_address[1])

    def run(self) -> None:
        """Serve until it is ended."""
        self._server.serve_forever(poll_interval=0.1)

    def next_request(self, seconds: float) -> Request:
        """What a client asks next. There may be none for a long time."""
        while True:
            try:
                return super().next_request(self._idle_s)
            except TimeoutError:
                _logger.info("no client asks at %s:%d", self.address, self.port)

    def end(self) -> None:
        """Hang up."""
        super().end()
        if self.is_alive():
            self._server.shutdown()
        self._server.server_close()

    # What clients ask, each in a thread of its own.

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Does what a message says."""
        command = message.get("command")
        if command == "START_EPISODE":
            return {
                "episode_id": self.start_episode(_name(message, none=True), bool(message.get("training_enabled", True)))
            }
        episode = _name(message)
        if command == "GET_ACTION":
            return {"action": self.get_action(episode, self._seen(message))}
        if command == "LOG_ACTION":
            self._actions.row(message.get("action"))
            self.log_action(episode, self._seen(message), message["action"])
        elif command == "LOG_RETURNS":
            reward = message.get("reward")
            if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
                raise ValueError(f"the reward is {reward!r}, not a finite number")
            self.log_returns(episode, reward, message.get("info"))
        elif command == "END_EPISODE":
            self.end_episode(episode, self._seen(message))
        else:
            raise ValueError(f"there is no command {command!r}")
        return {}

    def _seen(self, message: dict[str, Any]) -> Any:
        """The observation, checked here: a wrong one is its client's fault, and must not end the training of all others."""
        seen = message.get("observation")
        self._form.check(seen)
        return seen


def _name(message: dict[str, Any], *, none: bool = False) -> Any:
    name = message.get("episode_id")
    if not (isinstance(name, str) or (none and name is None)):
        raise ValueError(f"`episode_id` must be a text, not {name!r}")
    return name


class _Server(ThreadingHTTPServer):
    """One thread for each request, which holds no process up."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], owner: PolicyServerInput) -> None:
        self.owner = owner
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    timeout = _SOCKET_S

    def do_POST(self) -> None:
        """Answer a message."""
        owner = self.server.owner
        if not owner._room.acquire(blocking=False):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many ask at once; ask again later"})
            return
        try:
            self._say(*self._answer())
        finally:
            owner._room.release()

    def _answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
        # A page in a browser cannot send this type to another site without asking first, which is not answered.
        if self.headers.get_content_type() != "application/json":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, {"error": "messages are application/json"}
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            return HTTPStatus.LENGTH_REQUIRED, {"error": "a message says its length"}
        if int(length) > _wire.MESSAGE_BYTES_MAX:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"{length} bytes are too many"}
        try:
            message = _wire.unpack(self.rfile.read(int(length)))
            return HTTPStatus.OK, self.server.owner.answer(message)
        except StoppedError:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the training has ended"}
        except (ValueError, EnvError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception as error:
            _logger.exception("a request failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}

    def _say(self, status: HTTPStatus, message: dict[str, Any]) -> None:
        data = _wire.pack(message)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Not a line for each request."""
        _logger.debug(format, *args)
