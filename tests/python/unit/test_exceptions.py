"""Errors of tasks keep the user's type, state and traceback, whatever the user's class does."""

import asyncio
import copy
import gc
import json
import logging
import pickle
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass

import cloudpickle
import pytest

from eagleray import exceptions
from eagleray._errors import causes, dual_classes
from eagleray.exceptions import RayActorError, RayError, RayTaskError, UnserializableException


def raised(exception, name="f", **where):
    """What a worker stores for a task that raised `exception`."""
    try:
        raise exception
    except BaseException as error:
        return RayTaskError.from_exception(error, name, 7, "10.0.0.1", **where)


def got(exception, name="f", **where):
    """What a reader in another process gets."""
    return pickle.loads(pickle.dumps(raised(exception, name, **where))).as_instanceof_cause()


class WithArguments(Exception):
    def __init__(self, code, detail):
        super().__init__(f"code {code}")
        self.code = code
        self.detail = detail

    def twice(self):
        return self.code * 2


class Slotted(Exception):
    __slots__ = ("where",)

    def __init__(self, where):
        super().__init__(where)
        self.where = where


class ReadOnlyArgs(Exception):
    @property
    def args(self):
        return ("mine",)


class SilentOSError(OSError):
    def __init__(self, arg):
        pass


@dataclass(frozen=True)
class Frozen(Exception):
    number: int


class Final(Exception):
    def __init_subclass__(cls):
        raise TypeError("this class is final")


class FailsToLoad(Exception):
    def __reduce__(self):
        return int, ("not a number",)


class Meta(type):
    pass


class WithMeta(Exception, metaclass=Meta):
    pass


class Shadowing(Exception):
    level = "class"

    def __init__(self):
        super().__init__()
        self.level = "instance"
        self.pid = -1

    @property
    def cause(self):
        return "the user's own"

    def __reduce_ex__(self, protocol):
        return Shadowing, ()

    def __str__(self):
        return "short"


class Group(ExceptionGroup):
    def __new__(cls, errors, code):
        self = super().__new__(cls, "several", errors)
        self.code = code
        return self

    def derive(self, excs):
        return Group(excs, self.code)


class CustomBase(BaseException):
    pass


@pytest.mark.parametrize("pickler", [pickle, cloudpickle, copy])
def test_E1_error_is_instance_of_both_types(pickler):
    error = raised(ValueError("bad")).as_instanceof_cause()
    loaded = copy.copy(error) if pickler is copy else pickler.loads(pickler.dumps(error))
    for one in (error, loaded):
        assert isinstance(one, ValueError)
        assert isinstance(one, RayTaskError)
        assert type(one).__name__ == type(one).__qualname__ == "RayTaskError(ValueError)"
        assert isinstance(one.cause, ValueError)
        assert not isinstance(one.cause, RayError)
        assert one.args == (one.cause,)
        assert one.cause.args == ("bad",)
        assert (one.function_name, one.pid, one.ip) == ("f", 7, "10.0.0.1")
    assert str(loaded) == str(error)
    with pytest.raises(ValueError, match="bad"):
        raise error


def test_E1_attributes_and_methods_of_a_class_with_required_arguments():
    error = got(WithArguments(5, ["x"]))
    assert isinstance(error, WithArguments)
    assert (error.code, error.detail, error.twice()) == (5, ["x"], 10)
    assert str(error.cause) == "code 5"
    assert str(error).endswith("WithArguments: code 5")


def test_E1_error_can_travel_again():
    error = pickle.loads(pickle.dumps(got(WithArguments(5, 6))))
    assert type(error).__name__ == "RayTaskError(WithArguments)"
    assert error.detail == 6


def test_E1_slots():
    assert got(Slotted("here")).where == "here"


def test_E2_read_only_args_property():
    error = got(ReadOnlyArgs("given"))
    assert isinstance(error, ReadOnlyArgs)
    assert error.args == (error.cause,)
    assert error.cause.args == ("mine",)


def test_E1_frozen_dataclass():
    error = got(Frozen(3))
    assert error.number == 3
    with pytest.raises(Frozen):
        raise error


def test_E1_metaclass():
    assert isinstance(got(WithMeta("x")), WithMeta)


def test_E1_fields_of_builtin_classes():
    error = got(FileNotFoundError(2, "No such file", "/nowhere"))
    assert (error.errno, error.strerror, error.filename) == (2, "No such file", "/nowhere")
    error = got(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"))
    assert (error.object, error.start, error.reason) == (b"\xff", 0, "invalid")
    assert got(KeyError("k")).cause.args == ("k",)
    assert got(StopIteration(4)).value == 4
    assert got(ImportError("x", name="module")).name == "module"
    assert isinstance(got(SilentOSError("arg")), SilentOSError)


def test_E1_instance_attribute_wins_over_class_attribute_and_own_names_over_the_users():
    error = got(Shadowing())
    assert error.level == "instance"
    assert isinstance(error.cause, Shadowing)
    assert error.pid == 7
    assert isinstance(pickle.loads(pickle.dumps(error)), RayTaskError)
    assert str(error).startswith("ray::f()")


def test_E1_unknown_attribute_is_an_attribute_error():
    error = got(ValueError("x"))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        error.nothing  # noqa: B018
    assert not hasattr(error, "__deepcopy__")


@pytest.mark.parametrize("exception", [Exception("x"), RayError("x"), BaseException("x")])
def test_E1_what_it_is_already_needs_no_second_class(exception):
    assert type(got(exception)) is RayTaskError


def test_E1_nested_chain_keeps_innermost_type():
    inner = got(WithArguments(1, 2), "inner")
    outer = got(got(inner, "middle"), "outer")
    assert type(outer).__name__ == "RayTaskError(WithArguments)"
    assert type(outer.cause) is WithArguments
    text = str(outer)
    assert text.startswith("ray::outer() (pid=7, ip=10.0.0.1)\n")
    assert text.index("ray::outer()") < text.index("ray::middle()") < text.index("ray::inner()")
    assert text.endswith("WithArguments: code 1")


def test_E1_internal_errors_as_causes():
    error = got(exceptions.ActorDiedError("it was killed", "ab"), actor_id="ff", actor_repr="A")
    assert isinstance(error, RayTaskError)
    assert isinstance(error, exceptions.ActorDiedError)
    assert isinstance(error, RayActorError)
    assert error.actor_id == "ab"
    assert error.error_msg == "it was killed"
    assert isinstance(got(exceptions.GetTimeoutError("late")), TimeoutError)


def test_E1_base_exceptions():
    error = got(CustomBase("x"))
    assert isinstance(error, CustomBase)
    with pytest.raises(CustomBase):
        raise error
    assert got(SystemExit(3)).code == 3


def test_E1_exception_group_works_with_except_star():
    error = got(ExceptionGroup("many", [ValueError("a"), WithArguments(1, 2), TypeError("b")]))
    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [ValueError, WithArguments, TypeError]
    caught = []
    try:
        raise error
    except* ValueError as values:
        caught += values.exceptions
    except* (TypeError, WithArguments) as others:
        caught += others.exceptions
    assert len(caught) == 3
    assert "ValueError: a" in str(error)
    assert str(error).startswith("ray::f() (pid=7, ip=10.0.0.1)\n")


def test_E1_exception_group_with_its_own_constructor():
    error = got(Group([ValueError("a"), TypeError("b")], 4))
    assert isinstance(error, Group)
    assert error.code == 4
    assert len(error.exceptions) == 2
    assert error.split(ValueError)[0].code == 4


def test_E1_single_error_works_with_except_star():
    caught = []
    try:
        raise got(ValueError("a"))
    except* ValueError as group:
        caught += group.exceptions
    assert [type(one).__name__ for one in caught] == ["RayTaskError(ValueError)"]


def test_E1_class_defined_in_a_function():
    class Local(Exception):
        def __init__(self, a, b):
            super().__init__()
            self.a = a

    error = got(Local(1, 2))
    assert isinstance(error, Local)
    assert error.a == 1


def test_E1_cycle_through_the_exception_itself():
    exception = WithArguments(1, 2)
    exception.me = exception
    error = got(exception)
    assert error.me is error.cause


def test_E1_notes_arrive():
    exception = ValueError("a")
    exception.add_note("remember")
    assert got(exception).__notes__ == ["remember"]
    assert "remember" in str(got(exception))


def test_dual_class_is_made_once_and_goes_with_the_users_class():
    class Local(Exception):
        pass

    error = raised(Local())
    assert type(error.as_instanceof_cause()) is type(error.as_instanceof_cause())
    seen = weakref.ref(Local)
    del Local, error
    gc.collect()
    assert seen() is None
    gc.collect()
    assert all(key.__name__ != "Local" for key in dual_classes._MADE)


def test_E2_final_class_gives_plain_error_and_a_warning(caplog):
    with caplog.at_level(logging.WARNING):
        error = got(Final("x"))
    assert type(error) is RayTaskError
    assert isinstance(error.cause, Final)
    assert "can't be subclassed" in caplog.text
    assert "raised as RayTaskError only" in caplog.text


def test_E2_unpicklable_exception():
    exception = ValueError("with a lock")
    exception.lock = threading.Lock()
    for error in (raised(exception), got(exception)):
        assert type(error) is RayTaskError
        assert type(error.cause) is RayError
        assert "isn't serializable" in str(error.cause)
        assert "ValueError: with a lock" in str(error)


def test_E2_unpicklable_cause_in_an_error_made_by_hand():
    exception = ValueError("x")
    exception.lock = threading.Lock()
    error = pickle.loads(pickle.dumps(RayTaskError("f", "trace", exception)))
    assert "isn't serializable" in str(error.cause)


def test_E2_exception_that_fails_to_load_keeps_its_trace():
    error = pickle.loads(pickle.dumps(raised(FailsToLoad("lost"))))
    assert type(error) is UnserializableException
    assert "test_exceptions.FailsToLoad: lost" in str(error)
    assert "ray::f() (pid=7, ip=10.0.0.1)" in error.original_stack_trace
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


def helper(number):
    raise ValueError(number)


def test_E3_text_of_a_task_error():
    def f():
        return helper(7)

    try:
        f()
    except ValueError as error:
        text = str(RayTaskError.from_exception(error, "f", 12, "10.0.0.2"))
    lines = text.splitlines()
    assert lines[0] == "ray::f() (pid=12, ip=10.0.0.2)"
    assert [line.split(", in ")[1] for line in lines if line.startswith("  File")][-2:] == ["f", "helper"]
    assert "Traceback" not in text
    assert lines[-1] == "ValueError: 7"


def test_E3_text_of_an_actor_error():
    error = raised(ValueError("x"), "A.f", actor_id=b"\xab\xcd", actor_repr="A(3)")
    assert str(error).splitlines()[0] == "ray::A.f() (pid=7, ip=10.0.0.1, actor_id=abcd, repr=A(3))"


def test_E3_frames_of_the_runtime_are_not_shown():
    try:
        causes.load(pickle.dumps("no exception"))
    except TypeError as error:
        text = str(RayTaskError.from_exception(error, "f", 1, "ip"))
    assert "test_exceptions.py" in text
    assert "causes.py" not in text


def test_E3_frames_of_a_library_are_shown_if_there_are_no_others():
    code = compile("def fail():\n    raise ValueError('x')\n", causes._PACKAGE_FOLDER + "tune/trial.py", "exec")
    namespace = {}
    exec(code, namespace)
    try:
        namespace["fail"]()
    except ValueError as error:
        error.__traceback__ = error.__traceback__.tb_next
        text = str(RayTaskError.from_exception(error, "f", 1, "ip"))
    assert "tune/trial.py" in text


def test_E3_chained_exceptions_put_the_last_one_last():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        text = str(RayTaskError.from_exception(error, "f", 1, "ip"))
    assert text.count("ray::f() (pid=1, ip=ip)") == 2
    assert text.index("KeyError: 'first'") < text.index("direct cause") < text.index("ValueError: second")


def test_E3_E5_failed_dependency_is_told_per_hop():
    first = got(ValueError("root"), "a")
    second = RayTaskError.from_dependency(first, "b", 8, "ip")
    third = RayTaskError.from_dependency(second, "c", 9, "ip", actor_id="ee", actor_repr="C")
    text = str(third)
    assert text.startswith("ray::c() (pid=9, ip=ip, actor_id=ee, repr=C)\n  At least one")
    assert text.count("At least one of the input arguments for this task could not be computed:") == 2
    assert text.endswith("ValueError: root")
    assert isinstance(third.as_instanceof_cause(), ValueError)


def test_E5_dependency_that_failed_by_the_system():
    error = RayTaskError.from_dependency(exceptions.ObjectLostError("ab"), "f", 1, "ip").as_instanceof_cause()
    assert isinstance(error, RayTaskError)
    assert isinstance(error, exceptions.ObjectLostError)
    assert error.object_ref_hex == "ab"


def test_text_is_bounded_and_keeps_its_end():
    error = got(ValueError("root"))
    for hop in range(3000):
        error = RayTaskError.from_dependency(error, f"f{hop}", 1, "ip")
    assert len(str(error)) < 2 * causes.TEXT_CHARS_MAX
    assert str(error).startswith("ray::f2999()")
    assert str(error).endswith("ValueError: root")


def test_error_made_by_hand_from_a_traceback():
    error = RayTaskError("f", "Traceback (most recent call last):\n  File x\nValueError: a\n", ValueError("a"), pid=1)
    assert str(error) == "ray::f() (pid=1, ip=127.0.0.1)\n  File x\nValueError: a"


def test_exception_whose_text_raises():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    assert "Broken" in str(raised(Broken()))


TREE = {
    "TaskCancelledError": (RayError,),
    "RayTaskError": (RayError,),
    "WorkerCrashedError": (RayError,),
    "RayActorError": (RayError,),
    "ActorDiedError": (RayActorError,),
    "ActorUnavailableError": (RayActorError,),
    "RayChannelError": (exceptions.RaySystemError,),
    "RayChannelTimeoutError": (exceptions.RayChannelError, TimeoutError),
    "RayCgraphCapacityExceeded": (exceptions.RaySystemError,),
    "StreamingGeneratorReplayInconsistentError": (exceptions.RaySystemError,),
    "GetTimeoutError": (RayError, TimeoutError),
    "ObjectFetchTimedOutError": (exceptions.ObjectLostError,),
    "OwnerDiedError": (exceptions.ObjectLostError,),
    "ObjectFreedError": (exceptions.ObjectLostError,),
    "ReferenceCountingAssertionError": (exceptions.ObjectLostError, AssertionError),
    "ObjectReconstructionFailedError": (exceptions.ObjectLostError,),
    "ActorAlreadyExistsError": (RayError, ValueError),
    "ActorHandleNotFoundError": (RayError, ValueError),
}


@pytest.mark.parametrize("name", exceptions.__all__)
def test_class_tree(name):
    assert issubclass(getattr(exceptions, name), TREE.get(name, (RayError,)))
    assert all(issubclass(getattr(exceptions, name), parent) for parent in TREE.get(name, (RayError,)))


@pytest.mark.parametrize("name", [name for name in exceptions.__all__ if name != "RayTaskError"])
@pytest.mark.parametrize("args", [(), ("some text",)])
def test_every_error_has_a_text_and_can_be_pickled(name, args):
    error = getattr(exceptions, name)(*args)
    error.extra = 1
    loaded = pickle.loads(pickle.dumps(error))
    assert type(loaded) is type(error)
    assert str(loaded) == str(error)
    assert vars(loaded) == vars(error)
    assert loaded.args == error.args
    if args and name != "RayActorError":  # whose first argument is the actor
        assert "some text" in str(error)
    assert isinstance(copy.deepcopy(error), type(error))
    assert isinstance(got(error), type(error))


def test_K4_cancelled_error_names_the_task():
    assert str(exceptions.TaskCancelledError(b"\x01\xff")) == "Task: 01ff was cancelled."
    assert str(exceptions.TaskCancelledError("01ff", "By a test.")) == "Task: 01ff was cancelled. By a test."
    assert "cancelled" in str(exceptions.TaskCancelledError())


def test_A10_actor_whose_constructor_raised():
    error = exceptions.ActorDiedError(raised(ValueError("no"), "A.__init__"), actor_id=b"\x12")
    assert error.actor_init_failed
    assert error.actor_id == "12"
    assert "an error raised in its creation task" in str(error)
    assert "ray::A.__init__() (pid=7, ip=10.0.0.1)" in str(error)
    assert str(error).endswith("ValueError: no")
    assert pickle.loads(pickle.dumps(error)).actor_init_failed


def test_E7_unavailable_actor():
    error = exceptions.ActorUnavailableError(actor_id="ab")
    assert "The actor is restarting" in str(error)
    assert "may or may not have been executed" in str(error)
    assert "was not executed" in str(exceptions.ActorUnavailableError("gone", may_have_run=False))


def test_E4_user_code_exception_keeps_its_cause():
    try:
        raise exceptions.UserCodeException("in a map") from WithArguments(1, 2)
    except exceptions.UserCodeException as raised_here:
        error = got(raised_here)
    assert isinstance(error, exceptions.UserCodeException)
    assert isinstance(error.cause.__cause__, WithArguments)
    assert isinstance(pickle.loads(pickle.dumps(exceptions.UserCodeException("x"))), exceptions.UserCodeException)


def test_E1_exceptions_of_the_standard_library():
    error = got(subprocess.CalledProcessError(3, "ls", stderr=b"no"))
    assert (error.returncode, error.cmd, error.stderr) == (3, "ls", b"no")
    error = got(json.JSONDecodeError("bad", "doc", 1))
    assert (error.pos, error.lineno) == (1, 1)
    assert isinstance(got(asyncio.CancelledError()), asyncio.CancelledError)
    assert isinstance(got(KeyboardInterrupt()), KeyboardInterrupt)


def test_reason_of_a_failed_reconstruction():
    error = exceptions.ObjectReconstructionFailedError("ab", "LINEAGE_EVICTED")
    assert error.reason == "LINEAGE_EVICTED"
    assert "LINEAGE_EVICTED" in str(error)


def test_import_is_light():
    """The package's own `__init__` is left out: this is about the module."""
    watched = "[name for name in ('cloudpickle', 'traceback', 'inspect', 'typing', 'logging') if name in sys.modules]"
    code = f"""
import sys, types
before = {watched}
package = types.ModuleType("eagleray")
package.__path__ = [{causes._PACKAGE_FOLDER!r}]
sys.modules["eagleray"] = package
import eagleray.exceptions, eagleray._calls.checking, eagleray._calls.signature
sys.exit(str([name for name in {watched} if name not in before] or ""))
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""
