"""Ray Data's names can be imported, as libraries do that hardly ever use them, and say what to do instead when they are called."""

import pytest

import eagleray.data
from eagleray.data import Dataset, from_pandas_refs


def test_names_of_ray_data_can_be_imported_and_refuse_to_work():
    with pytest.raises(NotImplementedError, match="ray.data.from_pandas_refs: it is not part of this version"):
        from_pandas_refs([])
    with pytest.raises(NotImplementedError, match="ray.data.Dataset: it is not part of this version"):
        Dataset()
    assert not isinstance([], Dataset)


def test_a_name_that_ray_data_does_not_have_is_missing():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(eagleray.data, "nothing")  # noqa: B009
