"""Values come back as they went: arrays without a copy, everything else with its exact type."""

import collections
import dataclasses
import datetime as dt
import enum
import fractions
import io
import pickle
import re
import uuid
from pathlib import Path

import numpy as np
import pytest

import eagleray as ray

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def give(value):
    return value


def address(array):
    return array.__array_interface__["data"][0]


SIZES = {"small": 100, "inline": 10_000, "large": 2_000_000}


@pytest.fixture(params=SIZES.values(), ids=SIZES.keys())
def array(request):
    return np.arange(request.param, dtype=np.int64)


class TestArrays:
    def test_O7a_an_array_comes_back_as_a_view_without_copy(self):
        ref = ray.put(np.arange(2_000_000))
        first, second = ray.get(ref), ray.get(ref)
        assert not first.flags.owndata
        assert address(first) == address(second)
        assert np.array_equal(first, np.arange(2_000_000))

    @pytest.mark.parametrize("wrap", [lambda a: a, lambda a: [a], lambda a: {"a": a}, lambda a: (1, a)])
    @pytest.mark.one_node("asks for one memory")
    def test_O7a_arrays_inside_other_values_are_views_too(self, wrap):
        def unwrap(value):
            while not isinstance(value, np.ndarray):
                value = value["a"] if isinstance(value, dict) else value[-1]
            return value

        ref = give.remote(wrap(np.arange(1_000_000)))
        first, second = (unwrap(value) for value in ray.get([ref, ref]))
        assert address(first) == address(second)
        assert np.array_equal(first, np.arange(1_000_000))

    @pytest.mark.one_node("asks for one memory")
    def test_O7a_two_processes_see_the_same_memory(self):
        @ray.remote
        def inode(array):
            """Which file the array's memory is mapped from."""
            at = array.__array_interface__["data"][0]
            for line in Path("/proc/self/maps").read_text().splitlines():
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if start <= at < end:
                    return line.split()[4], at - start + int(line.split()[2], 16)
            return None

        ref = ray.put(np.zeros(1_000_000))
        here = inode._function(ray.get(ref))
        assert here[0] != "0"
        assert ray.get(inode.remote(ref)) == here

    def test_O7b_writing_to_it_raises(self, array):
        for got in (ray.get(ray.put(array)), ray.get(give.remote(array)), ray.get(give.remote([array]))[0]):
            with pytest.raises(ValueError, match="assignment destination is read-only"):
                got[0] = 1
            assert np.array_equal(got, array)
        array[0] = 5

    def test_O7b_an_argument_is_read_only_too(self, array):
        @ray.remote
        def write(array):
            array[0] = 1

        for argument in (array, ray.put(array)):
            with pytest.raises(ValueError, match="assignment destination is read-only"):
                ray.get(write.remote(argument))

    def test_O7c_large_arrays_are_aligned_to_64_bytes(self):
        for size in (200_001, 1_000_003, 5_000_007):
            values = [np.ones(size, dtype=np.uint8), [np.ones(size, dtype=np.uint8)] * 2, {"a": np.ones(size), "b": 1}]
            for value in values:
                got = ray.get(ray.put(value))
                arrays = [got] if isinstance(got, np.ndarray) else list(got.values() if isinstance(got, dict) else got)
                for array in arrays:
                    if isinstance(array, np.ndarray):
                        assert address(array) % 64 == 0

    def test_O7c_small_arrays_are_aligned_to_64_bytes(self):
        @ray.remote
        def misaligned(*args, **kwargs):
            return [a for a in (*args, *kwargs.values()) if a.__array_interface__["data"][0] % 64]

        for size in (*range(1, 40), 1_000, 12_000):
            one = np.ones(size)
            assert address(ray.get(ray.put(one))) % 64 == 0
            assert address(ray.get(ray.put([b"x" * size, one]))[1]) % 64 == 0
            assert address(ray.get(give.remote(one))) % 64 == 0
            assert ray.get(misaligned.remote(one, one, odd=one)) == []
            assert ray.get(misaligned.remote(ray.put(one))) == []

    def test_O7d_argument_buffers_stay_intact_after_the_call(self, array):
        @ray.remote(num_cpus=0)
        class Keeper:
            def __init__(self, first):
                self.kept = [first]

            def keep(self, array, more):
                self.kept += [array, more["array"]]

            def sums(self):
                return [int(array.sum()) for array in self.kept]

        keeper = Keeper.remote(array)
        for _ in range(3):
            keeper.keep.remote(array, {"array": array})
            ray.get(keeper.keep.remote(ray.put(array), {"array": array}))
        # Much traffic over the same rings and the same arena.
        noise = np.full_like(array, 255)
        for _ in range(30):
            ray.get([give.remote(noise), give.remote([noise])])
            ray.put(noise)
        assert ray.get(keeper.sums.remote()) == [int(array.sum())] * 13

    def test_O7d_a_view_outlives_its_ref(self, array):
        got = ray.get(ray.put(array))
        for _ in range(30):
            ray.put(np.full_like(array, 7))
        assert np.array_equal(got, array)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: np.arange(12).reshape(3, 4).T,
            lambda: np.arange(100)[::3],
            lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
            lambda: np.array(["text", "longer text"]),
            lambda: np.array([1, "two", None], dtype=object),
            lambda: np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
            lambda: np.array(5.0),
            lambda: np.zeros((0, 3)),
            lambda: np.arange(4, dtype=">i4"),
            lambda: np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
            lambda: np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
            lambda: np.float32(1.5),
            lambda: np.bool_(True),
            lambda: np.zeros(1_000_000)[::2],
        ],
    )
    def test_O7f_awkward_arrays_keep_dtype_shape_and_values(self, make):
        value = make()
        for got in (ray.get(ray.put(value)), ray.get(give.remote(value)), ray.get(ray.put([value]))[0]):
            assert type(got) is type(value)
            assert got.dtype == value.dtype
            assert got.shape == value.shape
            assert np.array_equal(np.ma.filled(got), np.ma.filled(value), equal_nan=False) or "NaT" in str(value)

    def test_O7e_an_array_subclass_stays_one(self):
        class Marked(np.ndarray):
            pass

        value = np.arange(500_000).view(Marked)
        got = ray.get(ray.put(value))
        assert type(got).__name__ == "Marked"
        assert np.array_equal(got, value)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_O7e_objects_that_offer_buffers_use_them(size):
    data = bytearray(b"ab" * size)

    class Offers:
        def __init__(self, data):
            self.data = data

        def __reduce_ex__(self, protocol):
            assert protocol >= 5
            return type(self), (pickle.PickleBuffer(self.data),)

    ref = ray.put(Offers(data))
    first, second = ray.get(ref), ray.get(ref)
    view = memoryview(first.data)
    assert view.readonly
    assert bytes(view) == data
    if size > 10:
        # Small ones are copied to where they are aligned.
        assert address(np.frombuffer(first.data, np.uint8)) == address(np.frombuffer(second.data, np.uint8))
    data[0] = 0
    assert bytes(view)[:1] == b"a", "it was copied once, when it was put"

    @ray.remote
    def read(offers):
        return bytes(memoryview(offers.data)) == b"ab" * size

    assert ray.get(read.remote(Offers(bytearray(b"ab" * size))))


Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Point:
    x: int
    y: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ("extra",)


EXACT = [
    True, False, None, 0, 1, -1, 2**63 - 1, -(2**63), 2**63, 2**200, -(2**200), 0.0, -0.0, 1e308, float("inf"), 1 + 2j,
    "", "text", "ünï\U0001f600", "\ud800", b"", b"bytes", bytearray(b"array"), range(3), slice(1, 2), Ellipsis,
    (), (1,), [], {}, set(), frozenset({1}), [1, [2, (3, {"a": {4}})]], {1: "a", "b": 2, (1, 2): 3, None: 4},
    list(range(1000)), dict.fromkeys(range(1000)), tuple(range(1000)), ((((((1,),),),),),), [True, 1, 1.0],
    collections.Counter("hello"), collections.OrderedDict(b=1, a=2), collections.deque([1, 2], maxlen=3),
    Pair(1, [2]), Point(1, [2]), Frozen(3), Colour.RED, Level.HIGH, fractions.Fraction(1, 3),
    dt.datetime(2020, 1, 2, tzinfo=dt.UTC), dt.timedelta(1), uuid.UUID(int=5), re.compile("a+", re.I),
    int, list, Pair, len, "x" * 200_000, b"y" * 200_000, [b"z" * 200_000, 1], {"k": "v" * 200_000},
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT, ids=lambda value: repr(value)[:30].encode("ascii", "replace").decode())
def test_O7f_values_keep_their_exact_type(value):
    for got in (ray.get(ray.put(value)), ray.get(give.remote(value)), ray.get(give.remote([value]))[0]):
        assert type(got) is type(value)
        assert got == value
        assert repr(got) == repr(value)


def test_O7f_items_keep_their_exact_types_too():
    value = [True, 1, 1.0, "1", b"1", None, (True, 1), {True: False, 2: 2.0}]
    for got in (ray.get(ray.put(value)), ray.get(give.remote(value))):
        assert repr(got) == repr(value)


def test_O7f_nan_and_text_streams_come_back():
    assert str(ray.get(ray.put(float("nan")))) == "nan"
    stream = io.StringIO("first\nsecond")
    stream.readline()
    got = ray.get(ray.put(stream))
    assert type(got) is io.StringIO
    assert got.read() == "second"
    assert got.getvalue() == "first\nsecond"
    binary = ray.get(give.remote(io.BytesIO(b"bytes")))
    assert binary.getvalue() == b"bytes"


def test_O7f_a_subclass_of_a_plain_type_stays_one():
    text = Text("text")
    text.extra = "more"
    got = ray.get(ray.put(text))
    assert type(got) is Text
    assert (got, got.extra) == ("text", "more")

    class Numbers(list):
        pass

    got = ray.get(give.remote(Numbers([1, 2])))
    assert (type(got).__name__, list(got)) == ("Numbers", [1, 2])


def test_O7g_a_defaultdict_with_a_lambda_comes_back():
    value = collections.defaultdict(lambda: "default", a=1)
    for got in (ray.get(ray.put(value)), ray.get(give.remote(value))):
        assert type(got) is collections.defaultdict
        assert dict(got) == {"a": 1}
        assert got["missing"] == "default"


def test_O7g_recursive_containers_come_back():
    inside = [1]
    inside.append(inside)
    mapping = {"list": inside}
    mapping["self"] = mapping
    for send in (ray.put, give.remote):
        got = ray.get(send(inside))
        assert got[0] == 1
        assert got[1] is got
        got = ray.get(send(mapping))
        assert got["self"] is got
        assert got["list"][1] is got["list"]


def test_O7g_what_is_one_object_stays_one():
    shared = [1, 2]
    array = np.arange(3)
    for send in (ray.put, give.remote):
        left, right = ray.get(send([shared, shared]))
        assert left is right
        left, right = ray.get(send((shared, shared)))
        assert left is right
        left, right = ray.get(send((array, array)))
        assert left is right


def test_O7g_two_classes_of_one_name_stay_two():
    def define(word):
        class Same:
            def word(self):
                return word

        return Same

    first, second = define("first"), define("second")
    got = ray.get([ray.put(first()), give.remote(second()), ray.put([first(), second()])])
    assert [got[0].word(), got[1].word(), *(one.word() for one in got[2])] == ["first", "second", "first", "second"]
    assert type(got[2][0]) is not type(got[2][1])


def test_O7g_functions_classes_and_instances_defined_here_come_back():
    base = 10

    class Local:
        def __init__(self, number):
            self.number = number

        def total(self):
            return self.number + base

    def function(value):
        return value * base

    assert ray.get(ray.put(Local(5))).total() == 15
    assert ray.get(ray.put(function))(3) == 30
    assert ray.get(give.remote(Local))(1).total() == 11
    assert ray.get(give.remote(lambda: base))() == 10


@pytest.mark.one_node("fills the store of the only node")
def test_a_value_that_does_not_fit_the_store_says_so(no_session):
    ray.init(
        num_cpus=1,
        object_store_memory=20 * 2**20,
        _system_config={"automatic_object_spilling_enabled": False},
    )

    @ray.remote
    def large():
        return np.zeros(40 * 2**20, dtype=np.uint8)

    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        ray.put(np.zeros(40 * 2**20, dtype=np.uint8))
    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        give.remote(np.zeros(40 * 2**20, dtype=np.uint8))
    with pytest.raises(ray.exceptions.ObjectStoreFullError):
        ray.get(large.remote())
    assert ray.get(give.remote(np.zeros(2**20, dtype=np.uint8))).size == 2**20
