"""Rule T9: an object that cannot be sent says which part of it is to blame."""

import functools
import io
import re
import threading

import pytest

from eagleray._errors import serialization_trace
from eagleray._errors.serialization_trace import argument_error, inspect_serializability, serialization_error, trace

GLOBAL_LOCK = threading.Lock()


class Pool:
    __slots__ = ("lock", "size")

    def __init__(self):
        self.lock = threading.Lock()
        self.size = 3


class Trainer:
    def __init__(self):
        self.name = "fine"
        self.pools = {"db": [1, Pool()]}
        self.me = self


def failing(obj, depth=6):
    out = io.StringIO()
    is_fine, failures = inspect_serializability(obj, depth=depth, print_file=out)
    assert is_fine == (not failures)
    return {one.path for one in failures}


def test_T9_good_objects_pass(capsys):
    assert inspect_serializability({"a": [1, lambda x: x]}) == (True, set())
    assert "can be serialized" in capsys.readouterr().out


def test_T9_path_through_attributes_and_containers():
    trainer = Trainer()

    def train():
        return trainer.pools

    assert failing(train) == {"train > trainer.pools['db'][1].lock"}


def test_T9_failures_name_object_and_parent(capsys):
    pool = Pool()
    is_fine, failures = inspect_serializability(pool, name="pool")
    (failure,) = failures
    assert not is_fine
    assert (failure.obj, failure.name, failure.parent) == (pool.lock, "lock", pool)
    assert "FailTuple(lock [obj=" in repr(failure)
    assert "!!! FAIL serialization" in capsys.readouterr().out


def test_T9_depth_bounds_the_search():
    assert failing(Trainer(), depth=0) == {"Trainer"}
    assert failing(Trainer(), depth=1) == {"Trainer.pools"}


def outer_global():
    def inner():
        return GLOBAL_LOCK

    return inner


def by_value(function):
    """As if it were defined in `__main__`: pickled with its globals."""
    import types

    copied = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__module__ = "__main__"
    copied.__qualname__ = "<locals>." + function.__name__
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def test_T9_global_variable_also_in_an_inner_function():
    assert failing(by_value(outer_global)) == {"outer_global > GLOBAL_LOCK"}


def test_T9_several_culprits_are_all_named():
    first, second = threading.Lock(), Pool()

    def f(a=GLOBAL_LOCK, *, b=GLOBAL_LOCK):
        return first, second

    assert failing(f) == {"f > first", "f > second.lock", "f > a"}


def test_T9_partial_bound_method_and_class():
    assert failing(functools.partial(print, Pool())) == {"partial.args[0].lock"}
    trainer = Trainer()
    del trainer.me
    assert failing(Trainer.__init__.__get__(trainer)) == {"__init__.__self__.pools['db'][1].lock"}

    class Local:
        shared = GLOBAL_LOCK

        def __init__(self):
            super().__init__()

        @property
        def value(self):
            return GLOBAL_LOCK

    assert failing(Local) == {"Local.shared"}
    assert failing(Local()) == {"Local > Local.shared"}


def test_T9_key_and_set():
    assert failing({GLOBAL_LOCK: 1}) == {f"dict[{GLOBAL_LOCK!r}]"}
    assert failing({GLOBAL_LOCK}) == {"set[0]"}


def test_T9_object_whose_repr_raises():
    class Shy(threading.local):
        def __repr__(self):
            raise RuntimeError

    assert "Shy" in trace([Shy(), GLOBAL_LOCK])


def test_T9_search_is_bounded(monkeypatch):
    monkeypatch.setattr(serialization_trace, "TRIES_MAX", 10)
    calls = []

    def dump(obj):
        calls.append(obj)
        raise TypeError("never")

    trace([[1, 2, 3] for _ in range(100)], dump=dump)
    assert len(calls) <= 12


def test_T9_text_for_an_argument():
    lock = threading.Lock()
    error = argument_error(lock, "module.Class.method")
    assert type(error) is TypeError
    assert str(error).startswith(
        f"Could not serialize the argument {lock!r} for a task or actor module.Class.method:\n"
    )
    assert "cannot pickle '_thread.lock' object" in str(error)


@pytest.mark.parametrize("what", ["the function m.f", "the actor class m.A", "the put value 1"])
def test_T9_text_for_others(what):
    assert re.match(
        f"Could not serialize {what}:\n=+\nChecking Serializability of ", str(serialization_error(what, Pool()))
    )


def test_T9_large_repr_is_cut():
    assert len(serialization_trace.short_repr("x" * 10**6)) < 2000


def test_numpy_arrays_are_not_copied_to_be_tried():
    numpy = pytest.importorskip("numpy")
    assert failing({"a": numpy.zeros(10), "b": GLOBAL_LOCK}) == {"dict['b']"}
