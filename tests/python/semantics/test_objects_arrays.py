"""Arrays of every kind come as they went: by put, as an argument and as a return value, alone and beside others."""

import pytest

import eagleray as ray

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.usefixtures("shared_ray")


@ray.remote
def echo(value):
    return value


@ray.remote(num_returns=3)
def three(value):
    return value, (value, 1.5), 7


BASE = np.arange(24)
KINDS = {
    **{name: BASE.astype(name) for name in "?bBhHiIlLqQefdgFDG"},
    "empty": np.zeros((0, 3)),
    "no dimension": np.array(2.5),
    "three dimensions": BASE.reshape(2, 3, 4).astype("f4"),
    "by columns": np.asfortranarray(BASE.reshape(4, 6)),
    "every second": BASE[::2],
    "big-endian": BASE.astype(">i4"),
    "texts": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"),
    "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "objects": np.array([1, "x", None], dtype=object),
    "unaligned": np.frombuffer(b"\0" + bytes(range(16)), dtype="u1")[1:].view("<i4"),
    "large": np.arange(300_000, dtype="i2"),
}


@pytest.mark.parametrize("array", KINDS.values(), ids=KINDS.keys())
def test_an_array_keeps_its_dtype_shape_and_items_on_every_way(array):
    alone, beside, number = ray.get(three.remote(array))
    assert number == 7
    for got in (
        ray.get(ray.put(array)),
        ray.get(echo.remote(array)),
        alone,
        beside[0],
        ray.get(ray.put((array, 1)))[0],
    ):
        assert type(got) is np.ndarray
        assert got.shape == array.shape
        # The two names of a number of eight bytes are one.
        assert got.dtype.str == array.dtype.str
        assert got.dtype.names == array.dtype.names
        np.testing.assert_array_equal(got, array)


class Matrix(np.ndarray):
    pass


def test_a_subclass_of_arrays_stays_one():
    matrix = BASE.view(Matrix)
    assert type(ray.get(echo.remote(matrix))).__name__ == "Matrix"


SCALARS = (None, True, False, 0, -1, 2**63 - 1, 2**63, 10**30, 0.5, float("inf"), "", "text", "\ud800", b"", b"bytes")


def test_many_returns_of_every_plain_kind_come_as_they_went():
    values = (*SCALARS, "x" * 200_000, b"y" * 200_000, (1, "a"), [1], {"k": 2})

    @ray.remote(num_returns=len(values))
    def spread():
        return values

    got = ray.get(spread.remote())
    assert got == list(values)
    assert [type(value) for value in got] == [type(value) for value in values]
