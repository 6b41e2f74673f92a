"""Turns what the engine says about a missing value into the exception that `get` raises."""

from __future__ import annotations

import os
from typing import Any

from eagleray import _native
from eagleray import exceptions as exc


def to_exception(about: dict[str, Any]) -> BaseException:
    """Make the exception for a failure; see `crates/python/src/errors.rs` for the dict."""
    error = _make(about, about["task_id"], about["object_id"])
    if isinstance(error, exc.RayTaskError):
        return error.as_instanceof_cause()
    return error


def _make(about: dict[str, Any], task_id: str | None, object_id: str | None) -> BaseException:
    kind = about["kind"]
    if kind == "raised":
        return _raised(about["error"])
    if kind == "argument":
        # The ids are those of the task that needed the argument; which one it could not get is not known here.
        from eagleray._driver.cluster import get_node_ip_address

        cause = _make(about["cause"], None, None)
        return exc.RayTaskError.from_dependency(cause, about["task"], 0, get_node_ip_address())
    if kind == "worker_died":
        return exc.WorkerCrashedError(f"The worker died unexpectedly while executing this task. {_how_it_ended(about)}")
    if kind == "its_node_died":
        return exc.NodeDiedError(f"The node of this task has died: {about['text']}.")
    if kind == "out_of_memory":
        return exc.OutOfMemoryError(f"Task was killed due to the node running low on memory.\n{about['text']}")
    if kind == "cancelled":
        return exc.TaskCancelledError(task_id)
    if kind == "actor_died":
        return _actor_died(about)
    if kind == "actor_unavailable":
        return exc.ActorUnavailableError(
            "The actor is restarting", about["actor_id"], may_have_run=about["may_have_run"]
        )
    if kind == "owner_died":
        return exc.OwnerDiedError(object_id, "", "")
    if kind == "group_removed":
        return exc.TaskPlacementGroupRemoved()
    if kind == "unschedulable":
        return exc.TaskUnschedulableError(about["text"])
    if kind == "freed":
        return exc.ObjectFreedError(object_id, "", "")
    if kind == "node_died":
        return exc.LocalRayletDiedError(f"The node died or was shut down before the task ended{_host_ended()}.")
    if kind == "replay":
        produced, expected = about["produced"], about["expected"]
        return exc.StreamingGeneratorReplayInconsistentError(
            f"The generator of {f'task {task_id}' if task_id else 'a task'} ran again and produced {produced} objects, expected {expected}: "
            "a generator that is tried again must yield the same values."
        )
    if kind == "store_full":
        return exc.ObjectStoreFullError(about["text"])
    if kind == "lost":
        return exc.ObjectReconstructionFailedError(object_id, reason=about["text"])
    return exc.RaySystemError(f"unknown failure: {about}")


def closed() -> BaseException:
    """Say why nothing can be asked of the node any more; where it has died, by the class that what was under way then raises."""
    if _native.is_driver() and not _native.is_joined():
        return exc.LocalRayletDiedError(
            f"The node that this program had joined is gone{_host_ended()}. Call shutdown(), then init() joins or starts another."
        )
    return exc.RaySystemError("Ray has not been started yet, or was shut down.")


def _host_ended() -> str:
    """Name the program that has taken the session with it, if another one hosted it."""
    from eagleray._driver.session import SESSION

    if SESSION.node is not None and (why := SESSION.node.left_because()):
        return f": it has left its cluster, {why}"
    if SESSION.host is None:
        return ""
    return f": the program that hosts this session (process {SESSION.host}) has ended it, or has ended"


def _how_it_ended(about: dict[str, Any]) -> str:
    """Tell how a process ended, and where to read what it printed; see `crates/node/src/logs.rs` for the files."""
    pid = about.get("pid")
    if not pid:
        return f"How its process ended: {about['text']}."
    parts = [f"Its process, {pid}, ended with {about['text']}."]
    if about["has_output"] and _native.is_joined():
        kept = os.path.join(_native.identity()["session_dir"], "logs", f"crashed-{pid}")
        # The files get these names a moment after the death is known.
        is_here = not _native.nodes() or any(map(os.path.exists, (f"{kept}.out", f"{kept}.err")))
        where = f"in {kept}.*" if is_here else f"on its node, in logs/crashed-{pid}.* of the session's folder there,"
        parts.append(f"What it printed is kept {where} while the session lasts.")
    return " ".join(parts) + (about["stack"] and f"\n{about['stack']}")


def undecodable(error: Exception) -> Exception:
    """Make the error for a value of which no object can be made: it names what was raised, and where."""
    if isinstance(error, exc.RayError):
        # Its own code has called `get`: what that says is the cause.
        return error
    import traceback

    from eagleray._errors import imports

    imports.advise(error)
    return exc.RaySystemError(error, "".join(traceback.format_exception(error)).rstrip())


def _raised(error: Any) -> BaseException:
    if isinstance(error, BaseException):
        return error
    return exc.RaySystemError(f"the worker answered with {error!r} instead of an exception")


_DEATHS = {
    "killed": "The actor is dead because it was killed by `ray.kill`.",
    "exited": "The actor is dead because it exited by itself (exit_actor or exit code 0, INTENDED_USER_EXIT).",
    "owner_died": "The actor is dead because its owner has died.",
    "out_of_scope": "The actor is dead because all references to it were removed.",
    "never_existed": "The actor is unknown here. It might be dead or it's from a different cluster.",
    "group_removed": "The actor died because its placement group was removed.",
}


def _actor_died(about: dict[str, Any]) -> BaseException:
    actor_id, death = about["actor_id"], about["death"]
    if death == "init_failed":
        return exc.ActorDiedError(about["error"], actor_id)
    if death == "out_of_memory":
        return exc.OutOfMemoryError(f"The actor was killed due to the node running low on memory.\n{about['text']}")
    if death == "unschedulable":
        return exc.ActorUnschedulableError(about["text"])
    if death == "group_removed_early":
        return exc.ActorUnschedulableError("it still waited for a place when its placement group was removed.")
    if death == "crashed":
        text = f"The actor is dead because its worker process has died. {_how_it_ended(about)}"
        return exc.ActorDiedError(text, actor_id)
    if death == "its_node_died":
        return exc.ActorDiedError(f"The actor died because its node has died. It was {about['text']}.", actor_id)
    if death == "node_died":
        return exc.ActorDiedError(f"The actor died because its node has died{_host_ended()}.", actor_id)
    return exc.ActorDiedError(_DEATHS[death], actor_id)
