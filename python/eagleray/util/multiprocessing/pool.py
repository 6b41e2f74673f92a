"""A pool of worker processes with the interface of `multiprocessing.Pool`."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import eagleray
from eagleray._common.settings import from_env
from eagleray.util.multiprocessing.results import AsyncResult, Failed, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Call = tuple[tuple[Any, ...], dict[str, Any]]
    Callback = Callable[[Any], Any] | None


class _Runner:
    """Runs a pool's calls, one after another."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def ping(self) -> None:
        """Answer once the initializer has run."""

    def run(self, func: Callable[..., Any], calls: list[Call]) -> list[Any]:
        values: list[Any] = []
        for args, kwargs in calls:
            try:
                values.append(func(*args, **kwargs))
            except Exception as error:
                values.append(Failed(error))
        return values


class _Member:
    """One worker, what it has to do, and how many calls it was given."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.refs: list[Any] = []
        self.calls = 0


class Pool:
    """A pool of processes that run functions; starts a session if there is none."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        """Start the processes: one for each CPU unless told otherwise.

        Returns when the initializer has run in each of them; raises what it raised. They hold no CPUs, so that what they
        call in turn finds some, unless `ray_remote_args` says otherwise. `context` is taken for the sake of programs that
        give one, and ignored. `maxtasksperchild`: after so many calls a process is replaced by a new one.
        """
        del context
        if processes is not None and processes <= 0:
            raise ValueError("Processes in the pool must be >0.")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if not eagleray.is_initialized():
            address = ray_address or from_env("ADDRESS")
            eagleray.init(address=address) if address else eagleray.init(num_cpus=processes)
        cpus = int(eagleray.cluster_resources().get("CPU", 0))
        options = {"num_cpus": 0, **(ray_remote_args or {})}
        count = max(1, cpus) if processes is None else processes
        if count * max(1, options["num_cpus"] or 0) > max(1, cpus):
            raise ValueError(
                f"Tried to start a pool with {count} processes on an existing ray cluster, but there are only {cpus} CPUs in the ray "
                "cluster."
            )
        self._calls_max = maxtasksperchild or math.inf
        self._runner: Any = eagleray.remote(**options)(_Runner)
        self._begin = (initializer, tuple(initargs or ()))
        self._members = [self._new_member() for _ in range(count)]
        self._is_open = True
        if initializer is not None:
            eagleray.get([member.actor.ping.remote() for member in self._members])

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call the function in a process of the pool; give its value or raise what it raised."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> AsyncResult:
        """Call the function without waiting for it."""
        self._check()
        ref = self._submit(func, [(tuple(args or ()), kwargs or {})])
        return AsyncResult([ref], is_single=True, callback=callback, error_callback=error_callback)

    def map(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """Call the function for each item; give the values in order."""
        return list(self.map_async(func, iterable, chunksize).get())

    def map_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> AsyncResult:
        """Do what `map` does without waiting. A callback is called once, with the whole list or the first error."""
        return self._all(func, [((item,), {}) for item in iterable], chunksize, callback, error_callback)

    def starmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """Do what `map` does, where each item is the arguments of a call."""
        return list(self.starmap_async(func, iterable, chunksize).get())

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback = None,
        error_callback: Callback = None,
    ) -> AsyncResult:
        """Do what `starmap` does without waiting."""
        return self._all(func, [(tuple(item), {}) for item in iterable], chunksize, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = 1) -> Results:
        """Give the values one by one, in order; items are taken a few ahead. What a call raises is given as a value."""
        return self._results(func, iterable, chunksize, is_ordered=True)

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = 1) -> Results:
        """Do what `imap` does, in the order in which values are there."""
        return self._results(func, iterable, chunksize, is_ordered=False)

    def close(self) -> None:
        """Take no more calls; those that were made go on."""
        self._is_open = False

    def terminate(self) -> None:
        """Take no more calls and end the processes at once; calls that have not ended fail."""
        self._is_open = False
        for member in self._members:
            eagleray.kill(member.actor)

    def join(self) -> None:
        """Wait until all calls have ended and the processes are gone; the pool must be closed."""
        if self._is_open:
            raise ValueError("Pool is still running")
        refs = [ref for member in self._members for ref in member.refs]
        if refs:
            eagleray.wait(refs, num_returns=len(refs))
        self.terminate()
        self._members = []

    def __enter__(self) -> Self:
        """Give the pool itself."""
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self.terminate()

    def _check(self) -> None:
        if not self._is_open:
            raise ValueError("Pool not running")

    def _new_member(self) -> _Member:
        return _Member(self._runner.remote(*self._begin))

    def _submit(self, func: Callable[..., Any], calls: list[Call]) -> Any:
        """Give the calls to the process that has least to do."""
        for member in self._members:
            if member.refs:
                _, member.refs = eagleray.wait(member.refs, num_returns=len(member.refs), timeout=0)
        at = min(range(len(self._members)), key=lambda at: len(self._members[at].refs))
        if self._members[at].calls >= self._calls_max:
            # The old one goes when its calls have ended: nobody has a handle any more.
            self._members[at] = self._new_member()
        member = self._members[at]
        ref = member.actor.run.remote(func, calls)
        member.refs.append(ref)
        member.calls += len(calls)
        return ref

    def _all(
        self,
        func: Callable[..., Any],
        calls: list[Call],
        chunksize: int | None,
        callback: Callback,
        error_callback: Callback,
    ) -> AsyncResult:
        self._check()
        size = chunksize or max(1, math.ceil(len(calls) / (4 * len(self._members))))
        refs = [self._submit(func, calls[at : at + size]) for at in range(0, len(calls), size)]
        return AsyncResult(refs, is_single=False, callback=callback, error_callback=error_callback)

    def _results(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None, *, is_ordered: bool
    ) -> Results:
        self._check()
        if chunksize is not None and chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize:n}")
        return Results(
            self._chunks(func, iter(iterable), chunksize or 1),
            ahead=len(self._members),
            is_ordered=is_ordered,
        )

    def _chunks(self, func: Callable[..., Any], items: Iterator[Any], size: int) -> Iterator[Any]:
        calls: Iterator[Call] = (((item,), {}) for item in items)
        while chunk := list(islice(calls, size)):
            yield self._submit(func, chunk)
