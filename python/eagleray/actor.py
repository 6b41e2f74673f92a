"""Actors: classes whose instances live in worker processes of their own."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NoReturn

from eagleray import _native
from eagleray._calls import checking
from eagleray._calls.actor_meta import (
    BUILTIN_METHODS,
    META_OPTIONS,
    ActorMeta,
    check_groups,
    meta_of,
    methods_of,
    own_options,
    unpacked,
)
from eagleray._calls.grouped_yields import check_unchanged
from eagleray._calls.placement import place_of, wish_of
from eagleray._calls.retries import export_filter, filter_of
from eagleray._calls.signature import compile_constructor

#: What bounds a generator.
_AHEAD = ("_generator_backpressure_num_objects", "_num_objects_per_yield")


class ActorClassInheritanceException(TypeError):
    """A class inherits from an actor class."""


def exit_actor() -> NoReturn:
    """End the actor that calls this, on purpose: no restart, exit handlers run."""
    from eagleray._worker import process

    worker = process.WORKER
    if worker is None and "eagleray._driver.local_mode" in sys.modules:
        sys.modules["eagleray._driver.local_mode"].exit_actor()
    if worker is None or worker.actor_id is None:
        raise TypeError("exit_actor API is called on a non-actor worker")
    from eagleray._worker import actor_end

    actor_end.leave(worker)


def method(*_args: Any, **options: Any) -> Any:
    """Give an actor's method options of its own."""
    if _args or not options:
        raise ValueError("The @ray.method decorator must be applied using at least one of the arguments in the list.")
    checked = checking.method_options(**options)

    def decorate(function: Any) -> Any:
        function.__ray_method_options__ = checked
        return function

    return decorate


#: A method of a handle, as programs name its type.
ActorMethod = _native.Method


class ActorHandle(_native.ActorCore):
    """A handle on an actor: call its methods by `handle.method.remote(...)`."""

    def __new__(cls, actor_id: bytes, meta: ActorMeta, life: Any) -> ActorHandle:
        """Make a handle; `life` keeps the actor alive, None makes a weak one."""
        made: ActorHandle = super().__new__(cls, actor_id, meta.core, life, meta)
        return made

    def __init__(self, *_: Any) -> None:
        """Nothing is left to do."""

    @property
    def _ray_actor_id(self) -> Any:
        from eagleray._values.ids import ActorID

        return ActorID(self._actor_id)

    _actor_id_hex = property(lambda self: self._actor_id.hex())

    @property
    def _ray_method_signatures(self) -> dict[str, list[Any]]:
        """The parameters of each method, by its name."""
        cls = _CLASSES.get(self._meta.class_id)
        if cls is None:
            raise NotImplementedError("handles carry no signatures; look at the class itself, by inspect.signature")
        return {name: list(_parameters(cls, name)) for name in self._method_names() if name not in BUILTIN_METHODS}

    def __dir__(self) -> list[str]:
        """List the methods."""
        return sorted(
            {*(name for name in self._method_names() if not name.startswith("__")), "__init__", *BUILTIN_METHODS}
        )

    def __repr__(self) -> str:
        """Show class and id."""
        return f"Actor({self._meta.class_name}, {self._actor_id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as id and class facts. Nobody can count what leaves by plain pickle, so that is a weak handle."""
        return self._reduce(is_counted=_native.is_encoding())

    def _reduce(self, *, is_counted: bool) -> tuple[Any, ...]:
        """Pickle with the object that keeps the actor alive, or without."""
        return _rebuild_handle, (self._actor_id, self._meta.packed, self._life if is_counted else None)


def _rebuild_handle(actor_id: bytes, packed_meta: bytes, life: Any) -> ActorHandle:
    return ActorHandle(actor_id, unpacked(packed_meta), life)


def handle_from_spec(actor_id: bytes, spec: bytes, life: Any = None) -> ActorHandle:
    """Make a handle on an actor that was made elsewhere; it is weak, unless it is told what keeps the actor alive."""
    return ActorHandle(actor_id, unpacked(_native.spec_meta(spec)), life)


def _rebuild_method(handle: ActorHandle, name: str, changed: tuple[Any, ...] | None) -> Any:
    bound = getattr(handle, name)
    return bound if changed is None else bound._with(*changed)


#: Classes of which this process has made actors.
_CLASSES: weakref.WeakValueDictionary[bytes, type] = weakref.WeakValueDictionary()


def _parameters(cls: type, name: str) -> Any:
    import inspect

    found = inspect.getattr_static(cls, name)
    parameters = list(inspect.signature(getattr(found, "__func__", found)).parameters.values())
    return parameters if isinstance(found, staticmethod) else parameters[1:]


def _signature_of(bound: Any) -> Any:
    import inspect

    cls = _CLASSES.get(bound._handle._meta.class_id)
    if cls is None or bound._name in BUILTIN_METHODS:
        raise AttributeError("__signature__")
    return inspect.Signature(_parameters(cls, bound._name))


def _doc_of(bound: Any) -> str | None:
    cls = _CLASSES.get(bound._handle._meta.class_id)
    return getattr(getattr(cls, bound._name, None), "__doc__", None)


# A getter of native code would give way to the documentation of the native class.
_native.Method.__doc__ = property(_doc_of)  # type: ignore[assignment]


def _call_method(bound: Any, args: Any, kwargs: Any, options: dict[str, Any] | None) -> Any:
    """Call a method under these options; those that are None, and an empty name, stay as they are."""
    given = {name: value for name, value in (options or {}).items() if value is not None and value != ""}
    return (bound.options(**given) if given else bound).remote(*(args or ()), **(kwargs or {}))


def _method_options(bound: Any, **options: Any) -> Any:
    checked = checking.method_options(**options)
    meta = bound._handle._meta
    check_unchanged(meta.groups_of_values.get(bound._name), checked, of="actor method", decorator="ray.method")
    retry = checked.get("retry_exceptions")
    # Also for True: it may stand against a list that the method was decorated with.
    retry_filter = export_filter(retry) if retry else None
    returns = None
    if not checked.keys().isdisjoint(("num_returns", *_AHEAD)):
        is_generator, ahead = bound._generator
        returns = meta.bounded(checking.returns_of({_AHEAD[0]: ahead, **checked}, is_generator=is_generator))
    group = checked.get("concurrency_group")
    return bound._with(
        returns,
        checked.get("max_task_retries"),
        None if retry is None else bool(retry),
        retry_filter,
        checked.get("name"),
        None if group is None else meta.group_number(group),
    )


class ActorClass:
    """A class whose instances are actors. Call `.remote(...)` to make one."""

    def __init__(self, cls: type, options: dict[str, Any]) -> None:
        """Check the options; the class is pickled when the first actor is made."""
        import inspect

        self._cls = cls
        self._default_options = options
        self._is_async = any(
            inspect.iscoroutinefunction(getattr(value, "__func__", value)) or inspect.isasyncgenfunction(value)
            for value in methods_of(cls).values()
        )
        self._constructor = compile_constructor(cls)
        check_groups(cls, options.get("concurrency_groups"))
        self._ids: dict[Any, bytes] = {}
        self._metas: dict[tuple[Any, ...], ActorMeta] = {}
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(cls, name))

    @property
    def __ray_actor_class__(self) -> type:
        """The plain class."""
        return self._cls

    @property
    def __ray_metadata__(self) -> Any:
        """What libraries ask about the class."""
        import types

        given = dict.fromkeys(("num_cpus", "num_gpus", "memory", "resources", "max_restarts", "max_task_retries"))
        known = {name: self._default_options.get(name) for name in given}
        return types.SimpleNamespace(modified_class=self._cls, class_name=self._cls.__name__, **known)

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: actors are made by `.remote()`."""
        name = self._cls.__name__
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{name}()', use '{name}.remote()'.")

    def __mro_entries__(self, _bases: Any) -> NoReturn:
        """Refuse to be inherited from."""
        raise ActorClassInheritanceException(
            f"Attempted to define subclass of actor class '{self._cls.__name__}'. Inheriting from actor classes is not currently "
            "supported. You can instead inherit from a non-actor base class and make the derived class an actor class."
        )

    def __getattr__(self, name: str) -> Any:
        """Give class attributes, classmethods and staticmethods of the plain class."""
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "_cls"), name)

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor."""
        return self._create(self._default_options, args, kwargs)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> ActorHandle:
        """Make an actor under these options; those that are None stay as they are. Libraries call this."""
        options = {name: value for name, value in options.items() if value is not None}
        return (self.options(**options) if options else self).remote(*(args or ()), **(kwargs or {}))

    def options(self, **overrides: Any) -> _ConfiguredActor:
        """Give the same class under other options."""
        return _ConfiguredActor(self, checking.merge_actor_options(self._default_options, overrides))

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Make a node of a task graph."""
        raise NotImplementedError("task graphs made by bind() are not available in this version")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as class and options."""
        return ActorClass, (self._cls, checking.travelling(self._default_options))

    def __repr__(self) -> str:
        """Show the class."""
        return f"ActorClass({self._cls.__name__})"

    def _export(self) -> bytes:
        from eagleray._driver.session import SESSION
        from eagleray._values import pickling
        from eagleray.remote_function import _check_size

        _native.ensure_started()
        if SESSION.number in self._ids:
            return self._ids[SESSION.number]
        name = f"{self._cls.__module__}.{self._cls.__qualname__}"
        filters = {}
        for method_name, value in methods_of(self._cls).items():
            retry = own_options(value).get("retry_exceptions", self._default_options.get("retry_exceptions"))
            filters[method_name] = filter_of(retry)
        try:
            body = pickling.dumps_function((self._cls, filters))
        except Exception as error:
            from eagleray._errors.serialization_trace import serialization_error

            raise serialization_error(f"the actor class {name}", self._cls) from error
        _check_size(body, "actor", name)
        exported: bytes = _native.export(body)
        self._ids[SESSION.number] = exported
        _CLASSES[exported] = self._cls
        return exported

    def _meta(self, options: dict[str, Any], class_id: bytes) -> ActorMeta:
        key = (class_id, *(repr(options.get(name)) for name in META_OPTIONS))
        found = self._metas.get(key)
        if found is None:
            found = self._metas[key] = meta_of(self._cls, options, class_id, is_async=self._is_async)
        return found

    def _create(self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle:
        self._constructor.check(args, kwargs)
        checking.check_creation(options, is_async=self._is_async)
        name = _checked_name(options.get("name"))
        from eagleray._driver.session import SESSION

        _native.ensure_started()
        if SESSION.local is not None:
            return SESSION.local.create(self, options, args, kwargs)  # type: ignore[no-any-return]
        if options.get("label_selector") or options.get("scheduling_strategy") is not None:
            from eagleray._calls import labels

            lacking = labels.missing(options)
            if lacking is not None:
                options = labels.unplaceable(options, lacking)
        class_id = self._export()
        meta = self._meta(options, class_id)
        to_place, to_hold = checking.actor_resources(options)
        at = place_of(options, to_place)
        namespace = options.get("namespace") or _native.identity()["namespace"]
        restarts = options.get("max_restarts") or 0
        is_detached = _is_detached(options.get("lifetime"))
        actor_id, life, found = _native.create_actor(
            class_id=class_id,
            class_name=meta.class_name,
            callee=f"{self._cls.__module__}.{self._cls.__qualname__}",
            name=name,
            namespace=namespace,
            is_detached=is_detached,
            restarts_max=restarts,
            to_place=to_place,
            to_hold=to_hold,
            env=checking.env_vars(options) | checking.packages(options),
            at=at,
            wish=wish_of(options),
            concurrency=meta.concurrency,
            is_async=self._is_async,
            get_if_exists=bool(options.get("get_if_exists")),
            args=args,
            kwargs=kwargs,
            meta=meta.packed,
        )
        if found is not None:
            return handle_from_spec(actor_id, found, life)
        if is_detached:
            from eagleray._driver.notices import warn_of_anonymous

            warn_of_anonymous(name, namespace)
        return ActorHandle(actor_id, meta, None if is_detached else life)


class _ConfiguredActor:
    """An actor class under other options than its own."""

    def __init__(self, actor_class: ActorClass, options: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = options

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Make an actor."""
        return self._actor_class._create(self._options, args, kwargs)

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Make a node of a task graph."""
        raise NotImplementedError("task graphs made by bind() are not available in this version")

    def options(self, **overrides: Any) -> _ConfiguredActor:
        """Give the same class under yet other options."""
        return _ConfiguredActor(self._actor_class, checking.merge_actor_options(self._options, overrides))


def _is_detached(lifetime: str | None) -> bool:
    """Tell whether an actor outlives its maker: as it says, or as its job does."""
    if lifetime is not None:
        return lifetime == "detached"
    from eagleray._worker.surroundings import of_job

    return of_job().detaches_actors


def _checked_name(name: Any) -> str:
    if name is None:
        return ""
    if not isinstance(name, str):
        raise TypeError(f"name must be None or a string, got: '{type(name)}'.")
    if name == "":
        raise ValueError("Actor name cannot be an empty string.")
    return name


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Find an actor by name. The handle is weak: it does not keep the actor alive."""
    if not name or type(name) is not str or not name.strip():
        raise ValueError("Please supply a non-empty value to get_actor")
    if namespace is not None:
        from eagleray._node.hosting import checked_namespace

        namespace = checked_namespace(namespace, None)
    _native.ensure_started()
    namespace = namespace or _native.identity()["namespace"]
    from eagleray._driver.session import SESSION

    if SESSION.local is not None:
        known = SESSION.local.find(namespace, name)
        if known is not None:
            return known  # type: ignore[no-any-return]
    found = _native.find_actor(namespace, name)
    if found is None:
        raise ValueError(
            f"Failed to look up actor with name '{name}'. This could because 1. You are trying to look up a named actor you didn't "
            "create. 2. The named actor died. 3. You did not use a namespace matching the namespace of the actor."
        )
    return handle_from_spec(*found)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """End an actor at once; with `no_restart=False` it may come back."""
    if not isinstance(actor, ActorHandle):
        raise ValueError(f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(actor)}.")
    if not actor._is_current():
        from eagleray.exceptions import ActorHandleNotFoundError

        raise ActorHandleNotFoundError(
            f"ActorHandle objects are not valid across Ray sessions. The actor handle {actor!r} was created in an earlier session."
        )
    actor._kill(no_restart)
