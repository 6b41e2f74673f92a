"""Every exception that a program can catch, with Ray's names, tree and attributes.

An error of a task reaches its reader as an instance of two classes: `RayTaskError`, and the class that the task raised.
So `except ValueError` works across processes as it does within one, and `except RayTaskError` catches them all.

Each error can be pickled, and comes back with the same text and attributes.
"""

from __future__ import annotations

import os

from eagleray._errors import causes, dual_classes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorHandleNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "AsyncioActorExit",
    "AuthenticationError",
    "CrossLanguageError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "NodeDiedError",
    "ObjectFetchTimedOutError",
    "ObjectFreedError",
    "ObjectLostError",
    "ObjectReconstructionFailedError",
    "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError",
    "OufOfBandObjectRefSerializationException",
    "OutOfDiskError",
    "OutOfMemoryError",
    "OwnerDiedError",
    "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable",
    "RayActorError",
    "RayCgraphCapacityExceeded",
    "RayChannelError",
    "RayChannelTimeoutError",
    "RayDirectTransportError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "ReferenceCountingAssertionError",
    "RpcError",
    "RuntimeEnvSetupError",
    "StreamingGeneratorReplayInconsistentError",
    "TaskCancelledError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "UnserializableException",
    "UserCodeException",
    "WorkerCrashedError",
]


class RayError(Exception):
    """The base of all of them."""

    #: What the error says when it is raised without a text.
    _text = ""

    def __str__(self) -> str:
        return super().__str__() or self._text

    def __reduce__(self) -> tuple[Any, ...]:
        state = causes.attributes_of(self)
        return _restore, (type(self), causes.ARGS.__get__(self), causes.members(self)), state or None


class RayTaskError(RayError):
    """A task, or a method of an actor, raised.

    Attributes:
        cause: what it raised, where that can be pickled.
        function_name: which function it was.
        traceback_str: its traceback, without eagleray's own frames.
        pid: the process that ran it.
        ip: the node that ran it.
    """

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        if isinstance(cause, RayTaskError):
            cause = cause.cause
        super().__init__(cause)
        self.cause: BaseException = cause
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.proctitle = proctitle or f"ray::{function_name}"
        self.pid = pid or os.getpid()
        self.ip = ip or "127.0.0.1"
        self.actor_repr = actor_repr
        # Not `actor_id`: an error whose cause is a RayActorError has that actor's.
        self._task_actor_id = _hex(actor_id)

    @classmethod
    def from_exception(
        cls,
        exc: BaseException,
        function_name: str,
        pid: int,
        ip: str,
        actor_id: str | None = None,
        actor_repr: str | None = None,
    ) -> Self:
        """What to store for a task that raised `exc`.

        An error that the task itself got from another task keeps that task's cause, so that the type seen by the last
        reader is the one that was raised first.
        """
        cause = exc.cause if isinstance(exc, RayTaskError) else exc
        cause = _picklable(cause)
        error = cls(function_name, "", cause, None, pid, ip, actor_repr, actor_id)
        error.traceback_str = causes.report(exc, error._header())
        return error

    @classmethod
    def from_dependency(
        cls,
        error: BaseException,
        function_name: str,
        pid: int,
        ip: str,
        actor_id: str | None = None,
        actor_repr: str | None = None,
    ) -> Self:
        """What to store for a task that did not run, because `error` stands where an argument should."""
        made = cls(function_name, "", error, None, pid, ip, actor_repr, actor_id)
        # Of an error that is of two classes, the one that says whose it is.
        kind = RayTaskError if isinstance(error, RayTaskError) else type(error)
        lines = [
            made._header(),
            "  At least one of the input arguments for this task could not be computed:",
            causes.as_ray(f"{kind.__module__}.{kind.__qualname__}: {error}"),
        ]
        made.traceback_str = causes.shorten("\n".join(lines))
        return made

    def as_instanceof_cause(self) -> RayTaskError:
        """This error as an instance of the cause's class too; itself where Python allows no such class."""
        if isinstance(self, type(self.cause)):
            return self
        try:
            return self.make_dual_exception_instance()
        except Exception as error:
            import logging

            logging.getLogger(__name__).warning(
                "User exception type %s can't be subclassed! This exception is raised as RayTaskError only. "
                "You can use `ray_task_error.cause` to access the user exception. Reason: %s",
                type(self.cause),
                error,
            )
            return self

    def make_dual_exception_instance(self) -> RayTaskError:
        """A copy of this error that is an instance of the cause's class too. Raises where that cannot be."""
        dual_class = dual_classes.dual_class(RayTaskError, type(self.cause))
        state = causes.members(self.cause)
        dual = causes.blank(dual_class, state)
        assert isinstance(dual, RayTaskError)
        attributes = causes.attributes_of(self.cause) | causes.attributes_of(self)
        causes.fill(dual, (self.cause,), state, attributes)
        return dual

    def _header(self) -> str:
        where = f"pid={self.pid}, ip={self.ip}"
        if self._task_actor_id is not None:
            where += f", actor_id={self._task_actor_id}"
        if self.actor_repr is not None:
            where += f", repr={self.actor_repr}"
        return f"{self.proctitle}() ({where})"

    def __str__(self) -> str:
        text = self.traceback_str.strip("\n")
        if text.startswith("ray::"):
            return text
        # Made by hand from `traceback.format_exc()`.
        return f"{self._header()}\n{text.removeprefix(causes.TRACEBACK_LINE).lstrip(chr(10))}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        cause = _pickled(self.cause)
        is_dual = type(self) is not RayTaskError
        where = (self.proctitle, self.pid, self.ip, self.actor_repr, self._task_actor_id)
        return _restore_task_error, (is_dual, self.function_name, self.traceback_str, cause, *where)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        # Stands before whatever the cause's class says about its pickling.
        return RayTaskError.__reduce__(self)


class TaskCancelledError(RayError):
    """The task was cancelled, or a task that it needs."""

    def __init__(self, task_id: object = None, error_message: str | None = None) -> None:
        self.task_id = _hex(task_id)
        self.error_message = error_message or ""
        text = "This task or its dependency was cancelled." if self.task_id is None else self._named()
        super().__init__(f"{text} {self.error_message}".rstrip())

    def _named(self) -> str:
        return f"Task: {self.task_id} was cancelled."


class WorkerCrashedError(RayError):
    """The process that ran the task ended before the task did."""

    _text = (
        "The worker died unexpectedly while executing this task. Common causes: a crash in native code, "
        "a kill for want of memory, or a call of exit() in the task."
    )


class RayActorError(RayError):
    """An actor cannot be reached.

    Attributes:
        actor_id: its id in hex, where known.
        error_msg: why.
        actor_init_failed: whether its constructor raised.
        preempted: whether its node was taken away by whoever lent it.
    """

    def __init__(
        self,
        actor_id: object = None,
        error_msg: str = "The actor experienced an unexpected error.",
        *,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = _hex(actor_id)
        self.error_msg = error_msg
        self.actor_init_failed = actor_init_failed
        self.preempted = preempted
        super().__init__(error_msg)

    def __str__(self) -> str:
        return self.error_msg


class ActorDiedError(RayActorError):
    """The actor is dead and stays dead."""

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(
        self, cause: RayTaskError | str | None = None, actor_id: object = None, *, preempted: bool = False
    ) -> None:
        init_failed = isinstance(cause, RayTaskError)
        if init_failed:
            text = f"The actor died because of an error raised in its creation task, {cause}"
        else:
            text = str(cause) if cause else self.BASE_ERROR_MSG
        super().__init__(actor_id, text, actor_init_failed=init_failed, preempted=preempted)


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now, but may be again."""

    def __init__(
        self, error_message: str = "The actor is restarting", actor_id: object = None, *, may_have_run: bool = True
    ) -> None:
        who = f"The actor {_hex(actor_id)}" if actor_id is not None else "The actor"
        did = "may or may not have been executed" if may_have_run else "was not executed"
        reason = error_message.rstrip(".")
        super().__init__(actor_id, f"{who} is unavailable: {reason}. The task {did} on the actor.")


class RaySystemError(RayError):
    """Something in eagleray itself went wrong."""

    def __init__(self, client_exc: object = "", traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str
        super().__init__(client_exc)

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\ntraceback: {self.traceback_str}" if self.traceback_str else text


class RayChannelError(RaySystemError):
    """A channel of a compiled graph broke."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was not ready in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph holds as many unread results as it may."""


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator that ran again yielded another number of items than before."""


class RayDirectTransportError(RaySystemError):
    """A tensor did not get from one device to another. Nothing here raises it."""


class GetTimeoutError(RayError, TimeoutError):
    """`get` waited as long as it was told to."""

    _text = "Get timed out: some object(s) not ready."


class ObjectLostError(RayError):
    """The object's bytes are gone.

    Attributes:
        object_ref_hex: which object.
        owner_address: which process counted its references, where known.
        call_site: where its ref was made, where recorded.
    """

    _reason = "All copies are lost, and it cannot be made again."

    def __init__(self, object_ref_hex: object = None, owner_address: object = None, call_site: str = "") -> None:
        self.object_ref_hex = _hex(object_ref_hex)
        self.owner_address = owner_address
        self.call_site = call_site
        super().__init__(self.object_ref_hex)

    def __str__(self) -> str:
        which = "an object" if self.object_ref_hex is None else f"object {self.object_ref_hex}"
        text = f"Failed to retrieve {which}. {self._why()}"
        return f"{text}\nIts ref was made here:\n{self.call_site}" if self.call_site else text

    def _why(self) -> str:
        return self._reason


class ObjectFetchTimedOutError(ObjectLostError):
    """A copy exists, but it did not arrive in time."""

    _reason = "Fetching a copy of it took too long."


class OwnerDiedError(ObjectLostError):
    """The process that counted the object's references is gone, and nobody took its place."""

    _reason = "Its owner has died: the process that made its ref."


class ObjectFreedError(ObjectLostError):
    """The object was freed before it was asked for: nobody held a ref to it that its owner knew of."""

    _reason = "It was freed: no ref to it was held that its owner knew of."


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object went although somebody still held a ref to it."""

    _reason = "It was deleted while a ref to it was still held, for example one that passed through a crashed process."


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost, and running its task again was not possible or did not help."""

    def __init__(
        self, object_ref_hex: object = None, reason: str = "", owner_address: object = None, call_site: str = ""
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site)
        self.reason = reason

    def _why(self) -> str:
        return f"It was lost and could not be reconstructed: {self.reason or 'its task cannot run again'}"


class PlasmaObjectNotAvailable(RayError):
    """An object was not there in time. Nothing here raises it: see GetTimeoutError."""


class ObjectStoreFullError(RayError):
    """The object store has no room, also after dropping and spilling all that it may."""

    _text = "The object store is full and nothing in it can be dropped or spilled."


class OutOfDiskError(RayError):
    """The disk that takes the object store's overflow is full."""

    _text = "The local disk is full, so that objects can no longer be spilled to it."


class OutOfMemoryError(RayError):
    """The task was ended because its node ran low on memory."""

    _text = "The task was killed due to the node running low on memory."


class NodeDiedError(RayError):
    """The node that ran the task is gone."""

    _text = "The node of this task has died."


class LocalRayletDiedError(RayError):
    """The node daemon beside the caller is gone."""

    _text = "The task's local raylet died: the node daemon on this machine has ended."


class RuntimeEnvSetupError(RayError):
    """The runtime environment of a task or actor could not be made."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message or ""
        super().__init__(f"Failed to set up runtime environment.\n{self.error_message}".rstrip())


class TaskPlacementGroupRemoved(RayError):
    """The task's placement group was removed."""

    _text = "The placement group corresponding to this task has been removed."


class ActorPlacementGroupRemoved(RayError):
    """The actor's placement group was removed."""

    _text = "The actor died because its placement group was removed."


class PendingCallsLimitExceeded(RayError):
    """The actor has as many unfinished calls as `max_pending_calls` allows."""

    _text = "The actor's limit of pending calls (max_pending_calls) is reached."


class TaskUnschedulableError(RayError):
    """No node can ever run the task as it was asked for."""

    def __init__(self, error_message: str = "") -> None:
        self.error_message = error_message
        super().__init__(f"The task is not schedulable: {error_message}")


class ActorUnschedulableError(RayError):
    """No node can ever hold the actor as it was asked for."""

    def __init__(self, error_message: str = "") -> None:
        self.error_message = error_message
        super().__init__(f"The actor is not schedulable: {error_message}")


class AsyncioActorExit(RayError):
    """`exit_actor` in an async actor: unwinds the coroutine that called it."""


class UnserializableException(RayError):
    """A task raised something that cannot be read back; the text holds the traceback that it had there.

    Attributes:
        original_stack_trace: the task's error as text.
        reason: what went wrong with reading it.
    """

    def __init__(self, original_stack_trace: str = "", reason: str = "") -> None:
        self.original_stack_trace = original_stack_trace
        self.reason = reason
        super().__init__(original_stack_trace)

    def __str__(self) -> str:
        because = f" ({self.reason})" if self.reason else ""
        return f"Failed to deserialize exception{because}.\nOriginal exception:\n{self.original_stack_trace}"


class OufOfBandObjectRefSerializationException(RayError):
    """A ref was pickled where eagleray cannot count it, and that is switched off. The spelling is Ray's."""

    _text = "An ObjectRef was serialized out of band, which RAY_allow_out_of_band_object_ref_serialization=0 forbids."


class ObjectRefStreamEndOfStreamError(RayError):
    """A generator's refs have all been read."""


class ActorAlreadyExistsError(RayError, ValueError):
    """Another actor has this name."""


class ActorHandleNotFoundError(RayError, ValueError):
    """The handle's actor is not of this session."""


class RpcError(RayError):
    """A request to another process failed.

    Attributes:
        rpc_code: the kind of failure as a number, where there is one.
    """

    def __init__(self, message: str = "", rpc_code: int | None = None) -> None:
        self.rpc_code = rpc_code
        super().__init__(message)


class AuthenticationError(RayError):
    """Somebody has no right to join. Nothing here raises it: the file system says who may join a node."""


class CrossLanguageError(RayError):
    """Code of another language raised. Nothing here raises it: all code is Python's."""


class UserCodeException(RayError):
    """A library ran a user's function, and that raised: see `__cause__`."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Others lose their `__cause__` on the way, as all exceptions do; this one is about nothing else.
        rebuild, args, state = super().__reduce__()
        if self.__cause__ is None:
            return rebuild, args, state
        return rebuild, args, {**(state or {}), "__cause__": _picklable(self.__cause__)}


def _hex(value: Any) -> str | None:
    """An id as users see it. Takes hex text, bytes, or an id object."""
    if value is None or isinstance(value, str):
        return value
    return str(value.hex())


def _picklable(cause: BaseException) -> BaseException:
    """The cause, or a stand-in that says why it cannot be pickled."""
    try:
        causes.try_dump(cause)
    except Exception as error:
        return _stand_in(cause, error)
    return cause


def _pickled(cause: BaseException) -> bytes:
    """The pickle of the cause or of its stand-in."""
    try:
        return causes.dump(cause)
    except Exception as error:
        return causes.dump(_stand_in(cause, error))


def _stand_in(cause: BaseException, error: Exception) -> RayError:
    return RayError(f"The original cause of the RayTaskError ({type(cause)}) isn't serializable: {error}")


def _restore(cls: type[RayError], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = causes.blank(cls, state)
    causes.fill(error, args, state, {})
    return error


def _restore_task_error(
    is_dual: bool,  # noqa: FBT001
    function_name: str,
    traceback_str: str,
    cause: bytes,
    *where: Any,
) -> RayError:
    try:
        raised = causes.load(cause)
    except Exception as error:
        # The cause is a pickle within the pickle for this: whatever its class does, the text arrives.
        return UnserializableException(traceback_str, f"{type(error).__name__}: {error}")
    loaded = RayTaskError(function_name, traceback_str, raised, *where)
    return loaded.as_instanceof_cause() if is_dual else loaded
