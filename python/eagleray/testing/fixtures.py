"""Fixtures for pytest. Say `pytest_plugins = ["eagleray.testing.fixtures"]` in the topmost conftest.py."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import pytest

import eagleray
from eagleray.cluster_utils import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a session of a test has if nothing else is asked for.
DEFAULTS: dict[str, Any] = {"address": "local", "num_cpus": 2}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "eagleray(**options): what init() gets for this test's or module's session, such as num_cpus=4; or the head of a cluster",
    )


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("eagleray")
    return dict(marker.kwargs) if marker is not None else {}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Leave no session of before, and none behind; a daemon of the user's own is neither joined nor disturbed."""
    eagleray.shutdown()
    hidden = {name: os.environ.pop(name) for name in ("RAY_ADDRESS", "EAGLERAY_ADDRESS") if name in os.environ}
    try:
        yield
    finally:
        eagleray.shutdown()
        os.environ.update(hidden)


def _session(request: pytest.FixtureRequest) -> Iterator[Any]:
    with _alone():
        yield eagleray.init(**{**DEFAULTS, **_options(request)})


@pytest.fixture
def eagleray_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the context of a fresh session on a node of its own, which ends with the test."""
    yield from _session(request)


@pytest.fixture(scope="module")
def eagleray_module_session(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give the context of a session that all tests of a module share."""
    yield from _session(request)


@pytest.fixture
def eagleray_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give a cluster of a head without CPUs, to which the test adds nodes; it ends with the test, and the test's session with it."""
    with _alone(), Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **_options(request)}) as cluster:
        yield cluster
        eagleray.shutdown()
