"""Ray Data is not part of this version. Its names are here because libraries import them for what most programs never call."""

from __future__ import annotations

from typing import Any, NoReturn

from eagleray._alias.elsewhere import advice

_FUNCTIONS = frozenset(
    {
        "from_arrow",
        "from_arrow_refs",
        "from_blocks",
        "from_dask",
        "from_huggingface",
        "from_items",
        "from_modin",
        "from_numpy",
        "from_numpy_refs",
        "from_pandas",
        "from_pandas_refs",
        "from_spark",
        "from_torch",
        "range",
        "range_tensor",
        "read_binary_files",
        "read_csv",
        "read_datasource",
        "read_images",
        "read_json",
        "read_numpy",
        "read_parquet",
        "read_text",
    }
)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"ray.data.{name}: {advice('eagleray.data')}")


class Dataset:
    """What nothing is an instance of."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        _refuse("Dataset")


def __getattr__(name: str) -> Any:
    """Give a function that refuses."""
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'eagleray.data' has no attribute {name!r}: {advice('eagleray.data')}")

    def refusing(*_args: Any, **_kwargs: Any) -> NoReturn:
        _refuse(name)

    refusing.__name__ = refusing.__qualname__ = name
    return refusing
