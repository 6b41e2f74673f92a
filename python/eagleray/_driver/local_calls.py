"""One call in local mode: its arguments, its run in this process, the refs of its results."""

from __future__ import annotations

import contextlib
import contextvars
import os
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray import _native
from eagleray._worker import async_context
from eagleray.exceptions import RayError, RayTaskError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The function that runs, for `runtime_context`.
FUNCTION: contextvars.ContextVar[Any] = contextvars.ContextVar("eagleray_local_function", default=None)


class Call:
    """A call of a task, a constructor or a method."""

    def __init__(
        self,
        name: str,
        env_vars: dict[str, str],
        *,
        actor: Any = None,
        function: Any = None,
        returns: tuple[int, str, int] = (1, "", 0),
        retries: int = 0,
        retry: Any = False,
    ) -> None:
        """Take what its options say; `retry` are the exceptions that are worth another run."""
        self.name = name
        self.env_vars = env_vars
        self.actor = actor
        self.function = function
        self.returns, self.yields, _ = returns
        self.retries = retries
        self.retry: Any = BaseException if retry is True else tuple(retry or ())

    def run(self, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run it to its end; a generator only to its beginning. Gives the refs of its results."""
        value, error = self.begin(body, args, kwargs)
        if error is not None:
            return self.failed(error)
        if self.yields == "streaming":
            return LocalGenerator(self, iter(value))
        if self.yields == "dynamic":
            from eagleray._values.generators import DynamicObjectRefGenerator

            return eagleray.put(DynamicObjectRefGenerator(list(LocalGenerator(self, iter(value)))))
        return self._refs(value)

    def begin(
        self, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """Run it; gives its value, or the error that its refs shall raise."""
        try:
            args = tuple(_copied(value) for value in args)
            kwargs = {name: _copied(value) for name, value in kwargs.items()}
        except RayError as error:
            return None, RayTaskError.from_dependency(error, self.name, *self._where())
        left = self.retries
        while True:
            try:
                with self._surroundings():
                    return self._value(lambda: body(*args, **kwargs)), None
            except KeyboardInterrupt:
                raise
            except SystemExit as error:
                return None, WorkerCrashedError(
                    f"The task ended its process with {error!r}; in local mode that is this error."
                )
            except BaseException as error:
                from eagleray._driver.local_mode import LocalExit

                if isinstance(error, LocalExit):
                    return None, self._died()
                if left != 0 and self.retry and isinstance(error, self.retry):
                    left -= 1
                    continue
                return None, RayTaskError.from_exception(error, self.name, *self._where())

    def failed(self, error: BaseException) -> Any:
        """Give refs that raise this."""
        if self.yields == "streaming":
            return LocalGenerator(self, iter(()), error)
        if self.returns == 0:
            return None
        refs = [_native.put_error(error) for _ in range(self.returns)]
        return refs[0] if self.returns == 1 else refs

    def _value(self, body: Callable[[], Any]) -> Any:
        return body() if self.actor is None or self.actor.loop is None else self.actor.loop.run(body)

    def _refs(self, value: Any) -> Any:
        if self.returns == 0:
            return None
        if self.returns == 1:
            return self._ref(value)
        count = len(value) if hasattr(value, "__len__") else "no sequence"
        if count != self.returns:
            error = ValueError(f"Task returned {count} objects, but num_returns={self.returns}.")
            return self.failed(RayTaskError.from_exception(error, self.name, *self._where()))
        return [self._ref(one) for one in value]

    def _ref(self, value: Any) -> Any:
        try:
            return _native.put_result(value)
        except Exception as error:
            return _native.put_error(RayTaskError.from_exception(error, self.name, *self._where()))

    def _where(self) -> tuple[Any, ...]:
        if self.actor is None:
            return os.getpid(), "127.0.0.1"
        return os.getpid(), "127.0.0.1", self.actor.actor_id.hex(), f"<{self.actor.cls.__name__}>"

    def _died(self) -> BaseException:
        from eagleray.exceptions import ActorDiedError

        why = self.actor.death
        self.actor.death = None
        self.actor.die(why)
        return ActorDiedError(why, self.actor.actor_id)

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Let the code that runs find what it finds in a worker: its ids, and its environment variables."""
        from eagleray._driver.local_mode import CURRENT

        task_id = os.urandom(20).hex() + _native.identity()["job_id"]
        variables: list[tuple[Any, Any]] = [
            (async_context.TASK, task_id),
            (async_context.NAME, self.name),
            (CURRENT, self.actor),
            (FUNCTION, self.function),
        ]
        set_vars = [(variable, variable.set(value)) for variable, value in variables]
        before = {name: os.environ.get(name) for name in self.env_vars}
        os.environ.update(self.env_vars)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            for variable, token in set_vars:
                variable.reset(token)


def _copied(value: Any) -> Any:
    """Give an argument as a worker would get it: a ref's value, or a copy."""
    return eagleray.get(value if isinstance(value, _native.ObjectRef) else eagleray.put(value))


class LocalGenerator:
    """The refs of a generator that runs in this process, a step each time that one is asked for."""

    def __init__(self, call: Call, items: Iterator[Any], error: BaseException | None = None) -> None:
        """Take the generator, or the error that came in its place."""
        self._call = call
        self._items = items
        self._error = error
        self._is_over = False

    def __iter__(self) -> LocalGenerator:
        """Give itself."""
        return self

    def __next__(self) -> Any:
        """Run to the next value; what the generator raises is the last ref."""
        if self._is_over:
            raise StopIteration
        if self._error is None:
            try:
                with self._call._surroundings():
                    value = next(self._items)
            except StopIteration:
                self._is_over = True
                raise
            except Exception as error:
                self._error = RayTaskError.from_exception(error, self._call.name, *self._call._where())
            else:
                return self._call._ref(value)
        self._is_over = True
        return _native.put_error(self._error)

    def __aiter__(self) -> LocalGenerator:
        """Give itself."""
        return self

    async def __anext__(self) -> Any:
        """Do what `__next__` does."""
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def completed(self) -> Any:
        """Give a ref that is ready at once: in local mode a generator runs when its values are asked for."""
        return eagleray.put(None) if self._error is None else _native.put_error(self._error)

    def next_ready(self) -> bool:
        """Tell whether the next ref would be there at once."""
        return not self._is_over

    def is_finished(self) -> bool:
        """Tell whether all refs were given."""
        return self._is_over
