"""Fixtures for pytest. Say `pytest_plugins = ["eagleray.testing.fixtures"]` in the topmost conftest.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import eagleray

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a session of a test has if nothing else is asked for.
DEFAULTS: dict[str, Any] = {"address": "local", "num_cpus": 2}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "eagleray(**options): what init() gets for this test's or module's session, such as num_cpus=4"
    )


def _session(request: pytest.FixtureRequest) -> Iterator[Any]:
    marker = request.node.get_closest_marker("eagleray")
    options = {**DEFAULTS, **(marker.kwargs if marker is not None else {})}
    eagleray.shutdown()
    # A daemon of the user's own is neither joined nor disturbed.
    hidden = {name: os.environ.pop(name) for name in ("RAY_ADDRESS", "EAGLERAY_ADDRESS") if name in os.environ}
    try:
        yield eagleray.init(**options)
    finally:
        eagleray.shutdown()
        os.environ.update(hidden)


@pytest.fixture
def eagleray_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the context of a fresh session on a node of its own, which ends with the test."""
    yield from _session(request)


@pytest.fixture(scope="module")
def eagleray_module_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the context of a session that all tests of a module share."""
    yield from _session(request)
