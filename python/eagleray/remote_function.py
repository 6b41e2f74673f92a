"""`@remote` functions."""

from __future__ import annotations

from typing import Any, NoReturn

from eagleray import _native
from eagleray._calls import checking
from eagleray._calls.grouped_yields import NAME as GROUPED
from eagleray._calls.grouped_yields import check_unchanged, grouped
from eagleray._calls.placement import place_of, wish_of
from eagleray._calls.signature import compile_signature

_TOO_LARGE = 10**8
_LARGE = 10**7


class RemoteFunction:
    """A function that runs as a task. Call `.remote(...)`; it returns at once."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        """Check the options and compile the signature; the body is pickled at the first call."""
        import inspect

        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ValueError(
                "'async def' should not be used for remote tasks. You can wrap the async function with `asyncio.run`."
            )
        self._function = function
        self._default_options = options
        self._function_name = (
            f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(function))}"
        )
        self._is_generator = inspect.isgeneratorfunction(function)
        self._signature = compile_signature(function, skip_self=False)
        self._bodies: dict[tuple[int, Any], bytes] = {}
        self._native = self._make(options)
        self.remote = self._native.remote
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    def _make(self, options: dict[str, Any]) -> Any:
        retry = options.get("retry_exceptions", False)
        retry_filter = tuple(retry) if isinstance(retry, (list, tuple)) else None
        returns, yields, ahead_max = checking.returns_of(options, is_generator=self._is_generator)
        retries = options.get("max_retries")
        needs = checking.fixed_resources(options)
        return _native.Function(
            signature=self._signature,
            prepare=lambda: self._prepared(options, retry_filter),
            name=options.get("name") or getattr(self._function, "__qualname__", "task").rpartition("<locals>.")[2],
            callee=self._function_name,
            needs=needs,
            env=checking.env_vars(options),
            at=place_of(options, needs),
            wish=wish_of(options),
            returns=returns,
            yields=yields,
            ahead_max=ahead_max,
            retries_max=checking.default_max_retries() if retries is None else retries,
            retry_exceptions=bool(retry),
            calls_max=options.get("max_calls") or 0,
        )

    def _prepared(self, options: dict[str, Any], retry_filter: Any) -> Any:
        """Give what native code asks for before calls: what `_export` gives, and the packages that they find if there are any."""
        body = self._export(options, retry_filter)
        packages = checking.packages(options) if isinstance(body, bytes) else None
        return (body, packages) if packages else body

    def _export(self, options: dict[str, Any], retry_filter: Any) -> Any:
        """Give the id under which workers find the body; in local mode, what calls do instead."""
        from eagleray._driver.session import SESSION
        from eagleray._values import pickling

        _native.ensure_started()
        if SESSION.local is not None:
            from eagleray._driver import local_mode

            return local_mode.task(self, options)
        if options.get("label_selector") or options.get("scheduling_strategy") is not None:
            from eagleray._calls import labels

            lacking = labels.missing(options)
            if lacking is not None:
                return self._make(labels.unplaceable({**options, "label_selector": None}, lacking)).remote
        key = (SESSION.number, retry_filter)
        if key in self._bodies:
            return self._bodies[key]
        try:
            body = pickling.dumps_function((grouped(self._function, self._default_options), retry_filter))
        except Exception as error:
            from eagleray._errors.serialization_trace import serialization_error

            raise serialization_error(f"the function {self._function_name}", self._function) from error
        _check_size(body, "remote function", self._function_name)
        exported: bytes = _native.export(body)
        self._bodies[key] = exported
        return exported

    def options(self, **overrides: Any) -> _Configured:
        """Give the same function under other options."""
        check_unchanged(self._default_options.get(GROUPED), overrides, of="task", decorator="ray.remote")
        return _Configured(self, checking.merge_task_options(self._default_options, overrides))

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Call it under these options; those that are None stay as they are. Libraries call this."""
        options = {name: value for name, value in options.items() if value is not None}
        return (self.options(**options) if options else self).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Make a node of a task graph."""
        raise NotImplementedError("task graphs made by bind() are not available in this version")

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse: a remote function is called by `.remote()`."""
        name = getattr(self._function, "__name__", "f")
        raise TypeError(
            f"Remote functions cannot be called directly. Instead of running '{name}()', try '{name}.remote()'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as function and options."""
        return RemoteFunction, (self._function, checking.travelling(self._default_options))

    def __repr__(self) -> str:
        """Show the function."""
        return f"<remote function {self._function_name}>"


class _Configured:
    """A remote function under other options than its own."""

    def __init__(self, function: RemoteFunction, options: dict[str, Any]) -> None:
        self._remote_function = function
        self._options = options
        self._native = function._make(options)
        self.remote = self._native.remote

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Make a node of a task graph."""
        raise NotImplementedError("task graphs made by bind() are not available in this version")

    def options(self, **overrides: Any) -> _Configured:
        """Give the same function under yet other options."""
        check_unchanged(self._options.get(GROUPED), overrides, of="task", decorator="ray.remote")
        return _Configured(self._remote_function, checking.merge_task_options(self._options, overrides))


def _check_size(body: bytes, what: str, name: str) -> None:
    size = len(body)
    if size > _TOO_LARGE:
        raise ValueError(
            f"The {what} {name} is too large ({size / 2**20:.0f} MiB > FUNCTION_SIZE_ERROR_THRESHOLD={_TOO_LARGE / 2**20:.0f} MiB). "
            "Check that its definition is not implicitly capturing a large array or other object in scope. Tip: use ray.put() to put "
            "large objects in the Ray object store."
        )
    if size > _LARGE:
        from eagleray._driver import notices

        text = f"The {what} {name} is very large ({size / 2**20:.0f} MiB): it may capture a large array; put large objects with ray.put()."
        notices.publish("pickling_large_object", text)
        import warnings

        warnings.warn(text, stacklevel=4)
