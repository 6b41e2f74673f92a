"""What `get` raises for a task that failed: its classes, its parts, its text (E1, E2, E3, E5)."""

import logging
import pickle
import re

import pytest

import eagleray as ray
from eagleray.exceptions import (
    ActorDiedError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    UnserializableException,
    WorkerCrashedError,
)

pytestmark = pytest.mark.usefixtures("shared_ray")


class TooCold(ValueError):
    """An error with a constructor, attributes and a method of its own."""

    def __init__(self, place, degrees):
        super().__init__(f"{degrees} degrees at {place}")
        self.place = place
        self.degrees = degrees

    def in_words(self):
        return f"cold at {self.place}"


@ray.remote
def freeze():
    raise TooCold("the pole", -40)


@ray.remote
def identity(value):
    return value


def caught(ref):
    """What `get` raises."""
    with pytest.raises(RayError) as info:  # noqa: PT011 - whoever calls this looks at it
        ray.get(ref)
    return info.value


def test_E1a_error_is_a_task_error_and_the_users_class():
    error = caught(freeze.remote())
    assert isinstance(error, RayTaskError)
    assert isinstance(error, TooCold)
    assert isinstance(error, ValueError)


def test_E1b_class_is_named_after_both():
    error = caught(freeze.remote())
    assert type(error).__name__ == "RayTaskError(TooCold)"
    assert type(error).__qualname__ == "RayTaskError(TooCold)"


def test_E1c_attributes_and_methods_of_the_original_are_there():
    error = caught(freeze.remote())
    assert (error.place, error.degrees) == ("the pole", -40)
    assert error.in_words() == "cold at the pole"


def test_E1d_cause_is_the_original_and_args_hold_it():
    error = caught(freeze.remote())
    assert type(error.cause) is TooCold
    assert error.cause.args == ("-40 degrees at the pole",)
    assert error.args == (error.cause,)


def test_E1e_error_can_be_pickled_again():
    error = caught(freeze.remote())
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, RayTaskError)
    assert isinstance(again, TooCold)
    assert str(again) == str(error)
    assert again.degrees == -40
    # Also as a value that travels through a task.
    back = ray.get(identity.remote(error))
    assert isinstance(back, TooCold)
    assert isinstance(back, RayTaskError)


def test_E1f_innermost_type_stays_through_nested_gets():
    @ray.remote(num_cpus=0)
    def nested(depth):
        return ray.get(freeze.remote() if depth == 0 else nested.remote(depth - 1))

    error = caught(nested.remote(3))
    assert type(error).__name__ == "RayTaskError(TooCold)"
    assert type(error.cause) is TooCold
    assert error.degrees == -40


def test_E1g_the_systems_own_errors_pass_through_nested_gets():
    @ray.remote
    class Mortal:
        def die(self):
            import os

            os._exit(3)

    @ray.remote(max_retries=0)
    def crash():
        import os

        os._exit(4)

    @ray.remote
    def get_inside(refs):
        return ray.get(refs[0])

    mortal = Mortal.remote()
    error = caught(get_inside.remote([mortal.die.remote()]))
    assert isinstance(error, RayTaskError)
    assert isinstance(error, RayActorError)
    assert isinstance(error.cause, ActorDiedError)
    assert error.actor_id == mortal._actor_id.hex()
    error = caught(get_inside.remote([crash.remote()]))
    assert isinstance(error, WorkerCrashedError)
    assert isinstance(error, RayTaskError)


def test_E1h_base_exceptions_arrive():
    class Stop(BaseException):
        pass

    @ray.remote
    def stop():
        raise Stop("now")

    error = caught(stop.remote())
    assert isinstance(error, RayTaskError)
    assert type(error.cause).__name__ == "Stop"
    assert isinstance(error, Stop)
    # The worker lives on.
    assert ray.get(identity.remote(1)) == 1


def test_E1i_exception_groups_keep_their_exceptions():
    @ray.remote
    def fail():
        raise ExceptionGroup("two at once", [ValueError("a"), KeyError("b")])

    ref = fail.remote()
    error = caught(ref)
    assert isinstance(error, ExceptionGroup)
    assert [type(one) for one in error.exceptions] == [ValueError, KeyError]
    assert error.message == "two at once"
    seen = []
    try:
        ray.get(ref)
    except* ValueError as group:
        seen += group.exceptions
    except* KeyError as group:
        seen += group.exceptions
    assert [repr(one) for one in seen] == ["ValueError('a')", "KeyError('b')"]


def test_E2a_class_that_cannot_be_subclassed_arrives_as_plain_task_error(caplog):
    class Final(Exception):
        def __init_subclass__(cls, **_):
            raise TypeError("final")

    @ray.remote
    def fail():
        raise Final("the end")

    with caplog.at_level(logging.WARNING):
        error = caught(fail.remote())
    assert type(error) is RayTaskError
    assert type(error.cause).__name__ == "Final"
    assert str(error.cause) == "the end"
    assert "can't be subclassed" in caplog.text


def test_E2b_exception_that_cannot_be_pickled_is_told_by_text():
    class Clingy(Exception):
        def __init__(self):
            super().__init__("clings to its lock")
            import threading

            self.lock = threading.Lock()

    @ray.remote
    def fail():
        raise Clingy

    error = caught(fail.remote())
    assert isinstance(error, RayTaskError)
    assert type(error.cause) is RayError
    assert "isn't serializable" in str(error.cause)
    assert "Clingy" in str(error.cause)
    assert "clings to its lock" in str(error)


def test_E2c_exception_that_cannot_be_unpickled_keeps_its_trace():
    class Fickle(Exception):
        def __reduce__(self):
            return _refuse, ("not here",)

    @ray.remote
    def fail():
        raise Fickle("only there")

    error = caught(fail.remote())
    assert isinstance(error, UnserializableException)
    assert "only there" in str(error)
    assert "in fail" in str(error)


def _refuse(text):
    raise RuntimeError(text)


def test_E2d_read_only_args_property_is_no_obstacle():
    class Odd(Exception):
        @property
        def args(self):
            return ("always", "these")

    @ray.remote
    def fail():
        raise Odd("text")

    error = caught(fail.remote())
    assert isinstance(error, RayTaskError)
    assert isinstance(error, Odd)
    assert error.cause.args == ("always", "these")


def test_E3a_text_of_a_tasks_error_begins_with_task_pid_and_ip():
    text = str(caught(freeze.remote()))
    assert re.match(r"ray::freeze\(\) \(pid=\d+, ip=[\d.]+\)\n", text), text


def test_E3b_text_of_an_actors_error_names_actor_and_repr():
    @ray.remote
    class Oven:
        def __repr__(self):
            return "Oven(hot)"

        def burn(self):
            raise ValueError("smoke")

    oven = Oven.remote()
    text = str(caught(oven.burn.remote()))
    actor_id = oven._actor_id.hex()
    pattern = rf"ray::Oven\.burn\(\) \(pid=\d+, ip=[\d.]+, actor_id={actor_id}, repr=Oven\(hot\)\)\n"
    assert re.match(pattern, text), text


def test_E3c_only_the_users_frames_follow_and_the_root_cause_is_last():
    def helper():
        raise KeyError("deep")

    @ray.remote
    def fail():
        try:
            helper()
        except KeyError as error:
            raise ValueError("outer") from error

    text = str(caught(fail.remote()))
    assert "in fail" in text
    assert "in helper" in text
    assert "eagleray/" not in text.replace(__file__, "")
    assert text.rstrip().endswith("ValueError: outer")

    @ray.remote
    def outer():
        return ray.get(fail.remote())

    text = str(caught(outer.remote()))
    assert text.startswith("ray::outer()")
    assert text.rstrip().endswith("ValueError: outer"), text
    assert text.index("ray::outer()") < text.index("ray::fail()") < text.rindex("ValueError: outer")


def test_E3d_each_hop_over_a_failed_argument_is_told():
    first = identity.options(name="first").remote(freeze.remote())
    second = identity.options(name="second").remote(first)
    text = str(caught(second))
    told = "At least one of the input arguments for this task could not be computed:"
    assert text.count(told) == 2, text
    assert text.index("ray::second()") < text.index("ray::first()") < text.index("ray::freeze()")
    assert "TooCold: -40 degrees" in text.splitlines()[-1]
    for line in text.splitlines():
        if line.startswith("ray::"):
            assert re.match(r"ray::\w+\(\) \(pid=\d+, ip=[\d.]+\)", line), line


def test_E5a_E5b_task_with_a_failed_argument_raises_and_never_runs(tmp_path):
    ran = tmp_path / "ran"

    @ray.remote
    def consume(_):
        ran.touch()

    error = caught(consume.remote(freeze.remote()))
    assert isinstance(error, RayTaskError)
    assert isinstance(error, TooCold)

    @ray.remote
    class Consumer:
        def consume(self, _):
            ran.touch()

        def ready(self):
            return True

    consumer = Consumer.remote()
    error = caught(consumer.consume.remote(freeze.remote()))
    assert isinstance(error, RayTaskError)
    assert isinstance(error, TooCold)
    assert ray.get(consumer.ready.remote())
    assert not ran.exists()


# K5 of the rules: what a task that raises one of Python's own ways out of a program looks like from outside.
def test_raising_keyboard_interrupt_counts_as_cancelled():
    @ray.remote
    def interrupt():
        raise KeyboardInterrupt

    assert isinstance(caught(interrupt.remote()), TaskCancelledError)
    assert ray.get(identity.remote(2)) == 2


@pytest.mark.parametrize("code", [0, 1, None, "a text"])
def test_system_exit_in_a_task_is_a_crashed_worker(code):
    @ray.remote(max_retries=0)
    def leave():
        import sys

        sys.exit(code)

    assert isinstance(caught(leave.remote()), WorkerCrashedError)
    assert ray.get(identity.remote(3)) == 3


class Locked(Exception):
    def __init__(self, lock):
        super().__init__("locked")
        self.lock = lock


def test_E2e_a_registered_serializer_is_used_for_exceptions():
    @ray.remote
    def fail():
        import threading

        ray.util.register_serializer(Locked, serializer=lambda _: "a key", deserializer=Locked)
        raise Locked(threading.Lock())

    error = caught(fail.remote())
    assert isinstance(error, Locked)
    assert error.cause.lock == "a key"


def lines_of(ref):
    import re

    return [re.sub(r"\(pid=.*\)", "(where)", line) for line in str(caught(ref)).splitlines()]


def test_E3d_a_failed_argument_of_a_constructor_is_told_too():
    @ray.remote
    def fail():
        raise ValueError("no")

    @ray.remote
    class Needs:
        def __init__(self, value):
            pass

        def ready(self):
            pass

    text = str(caught(Needs.remote(fail.remote()).ready.remote()))
    assert "ray::Needs.__init__() (pid=" in text
    assert (
        "  At least one of the input arguments for this task could not be computed:\nray.exceptions.RayTaskError: "
        in text
    )
    assert text.splitlines()[-1] == "ValueError: no"


def test_E3e_chains_of_exceptions_are_told_each_under_the_tasks_line():
    @ray.remote
    def fail():
        raise ValueError("first")

    @ray.remote
    def wrap():
        try:
            ray.get(fail.remote())
        except ValueError as error:
            raise KeyError("second") from error

    @ray.remote
    def during():
        try:
            raise ValueError("first")
        except ValueError:
            raise KeyError("second")  # noqa: B904 - so that it has a context only

    lines = lines_of(wrap.remote())
    assert lines[0] == "ray::wrap() (where)"
    assert "ray.exceptions.RayTaskError(ValueError): ray::fail() (where)" in lines
    at = lines.index("The above exception was the direct cause of the following exception:")
    assert lines[at + 2] == "ray::wrap() (where)"
    assert lines[-1] == "KeyError: 'second'"
    lines = lines_of(during.remote())
    at = lines.index("During handling of the above exception, another exception occurred:")
    assert (lines[0], lines[at - 2], lines[at + 2]) == (
        "ray::during() (where)",
        "ValueError: first",
        "ray::during() (where)",
    )
    lines = lines_of(ray.remote(lambda value: value).options(name="use").remote(fail.remote()))
    assert lines[:3] == [
        "ray::use() (where)",
        "  At least one of the input arguments for this task could not be computed:",
        "ray.exceptions.RayTaskError: ray::fail() (where)",
    ]


def test_callables_and_exceptions_with_opinions_of_their_attributes_work():
    class Odd(Exception):
        def __getattr__(self, name):
            raise KeyError(name)

    class OddCallable:
        def __getattr__(self, name):
            if name == "__module__":
                raise KeyError(name)
            raise AttributeError(name)

        def __call__(self):
            return "called"

    @ray.remote
    def fail():
        raise Odd("odd")

    assert isinstance(caught(fail.remote()), RayTaskError)
    assert ray.get(ray.remote(OddCallable()).remote()) == "called"
