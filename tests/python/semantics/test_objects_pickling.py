"""Pickling by the user's own rules."""

import numpy as np
import pytest

import eagleray as ray
from eagleray import cloudpickle
from eagleray.util import deregister_serializer, inspect_serializability, register_serializer


@pytest.mark.usefixtures("ray_session")
class TestReduce:
    def test_O8a_unpickling_may_call_get_ten_levels_deep(self):
        def load(ref, depth):
            return ray.get(ref), depth

        class Nested:
            def __init__(self, inner, depth):
                self.ref = ray.put(inner)
                self.depth = depth

            def __reduce__(self):
                return load, (self.ref, self.depth)

        value = "core"
        for depth in range(10):
            value = Nested(value, depth)

        def peel(value):
            depths = []
            while isinstance(value, tuple):
                value, depth = value
                depths.append(depth)
            return depths, value

        wanted = (list(range(9, -1, -1)), "core")
        assert peel(ray.get(ray.put(value))) == wanted

        @ray.remote
        def there(value):
            return peel(value)

        assert ray.get(there.remote(value)) == wanted
        assert ray.get(there.remote(ray.put(value))) == wanted
        assert ray.get(there.remote(value=[value][0])) == wanted

    def test_O8a_unpickling_may_wait_for_a_task(self):
        @ray.remote(num_cpus=0)
        def make(number):
            return number + 1

        class Late:
            def __init__(self, number):
                self.ref = make.remote(number)

            def __reduce__(self):
                return ray.get, (self.ref,)

        @ray.remote
        def read(*values):
            return values

        assert ray.get(ray.put([Late(1), Late(2)])) == [2, 3]
        assert ray.get(read.remote(Late(3), Late(4))) == (4, 5)


def make_class():
    import threading

    class Locked:
        def __init__(self, number):
            self.number = number
            self.lock = threading.Lock()

    return Locked


class TestRegistered:
    def test_O8b_a_serializer_may_be_registered_before_init(self, no_session):
        cls = make_class()
        with pytest.raises(TypeError, match="serialize"):
            ray.put(cls(1))
        ray.shutdown()
        register_serializer(cls, serializer=lambda one: one.number, deserializer=lambda number: cls(number + 1))
        try:
            ray.init(num_cpus=2)
            assert ray.get(ray.put(cls(1))).number == 2
            assert ray.get(ray.put({"deep": [cls(5)]}))["deep"][0].number == 6

            @ray.remote
            def number(one):
                return one.number

            assert ray.get(number.remote(cls(10))) == 11
            captured = cls(20)
            assert ray.get(ray.remote(lambda: captured.number).remote()) == 21
            ray.shutdown()
            ray.init(num_cpus=1)
            assert ray.get(ray.put(cls(1))).number == 2, "it holds for the process, not for a session"
        finally:
            deregister_serializer(cls)

    def test_O8b_a_registration_holds_for_its_process_only(self, ray_session):
        cls = make_class()
        register_serializer(cls, serializer=lambda one: one.number, deserializer=lambda number: cls(number))

        @ray.remote
        def send_back(one):
            return one

        @ray.remote
        def send_back_registered(one):
            register_serializer(
                type(one), serializer=lambda one: one.number * 100, deserializer=lambda number: ("there", number)
            )
            return one

        try:
            with pytest.raises(TypeError, match="Could not serialize the return value"):
                ray.get(send_back.remote(cls(1)))
            assert ray.get(send_back_registered.remote(cls(1))) == ("there", 100)
            assert ray.get(ray.put(cls(7))).number == 7, "this process goes on with its own"
        finally:
            deregister_serializer(cls)

    def test_O8b_a_registered_class_wins_over_its_own_reduce(self, ray_session):
        class Plain:
            def __reduce__(self):
                return str, ("its own",)

        assert ray.get(ray.put(Plain())) == "its own"
        register_serializer(Plain, serializer=lambda _: "registered", deserializer=str.upper)
        assert ray.get(ray.put(Plain())) == "REGISTERED"
        deregister_serializer(Plain)
        assert ray.get(ray.put(Plain())) == "its own"

    def test_O8b_arrays_too_may_have_a_serializer(self, ray_session):
        register_serializer(
            np.ndarray, serializer=lambda array: array.tolist(), deserializer=lambda items: ("array", items)
        )
        try:
            assert ray.get(ray.put(np.arange(3))) == ("array", [0, 1, 2])
            assert ray.get(ray.put([np.arange(2)])) == [("array", [0, 1])]
        finally:
            deregister_serializer(np.ndarray)
        assert ray.get(ray.put(np.arange(3))).tolist() == [0, 1, 2]

    def test_O8c_deregistering_twice_does_no_harm(self, ray_session):
        cls = make_class()
        register_serializer(cls, serializer=lambda one: one.number, deserializer=cls)
        assert ray.get(ray.put(cls(1))).number == 1
        deregister_serializer(cls)
        deregister_serializer(cls)
        with pytest.raises(TypeError, match="serialize"):
            ray.put(cls(1))

    def test_O8d_a_registration_does_not_reach_the_next_driver(self, drivers):
        assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
        code = """
            import fractions
            from eagleray.util import register_serializer

            ray.init(address="auto")

            @ray.remote
            def there():
                return fractions.Fraction(1, 3)

            @ray.remote
            def register():
                register_serializer(fractions.Fraction, serializer=str, deserializer=lambda text: "registered there")

            if sys.argv[1] == "first":
                register_serializer(fractions.Fraction, serializer=str, deserializer=lambda text: "registered here")
                ray.get(register.remote())
                time.sleep(1)  # longer than an idle lease is kept
            print(ray.get(ray.put(fractions.Fraction(1, 3))), ray.get(there.remote()))
        """
        assert drivers.run(code, "first")[0].strip() == "registered here registered there"
        assert drivers.run(code, "second")[0].strip() == "1/3 1/3"


def test_eaglerays_own_cloudpickle_knows_registered_classes():
    cls = make_class()
    register_serializer(cls, serializer=lambda one: one.number, deserializer=lambda number: cls(number))
    try:
        assert cloudpickle.loads(cloudpickle.dumps(cls(3))).number == 3
        assert cloudpickle.loads(cloudpickle.dumps(lambda: 5))() == 5
    finally:
        deregister_serializer(cls)
    with pytest.raises(TypeError, match="lock"):
        cloudpickle.dumps_debug(cls(3))
    assert issubclass(cloudpickle.PicklingError, Exception)


def test_inspect_serializability_names_the_culprit(capsys):
    cls = make_class()
    is_good, failures = inspect_serializability({"a": [cls(1)]}, name="given")
    assert not is_good
    assert [failure.name for failure in failures] == ["lock"]
    assert "lock" in capsys.readouterr().out
    assert inspect_serializability([1, 2]) == (True, set())
