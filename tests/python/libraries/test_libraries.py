"""Libraries that are written for Ray run on eagleray: each in an environment of its own, by a small program through `eagleray run`.

Large ones are left to `make test-all`. What cannot be installed here is skipped.
"""

import os

import pytest
from tests.python.libraries.environments import LIBRARIES, NotToBeHadError, prepare, run

PROGRAMS = os.path.join(os.path.dirname(__file__), "programs")
#: Set by `make test-all`.
EVERYTHING = "EAGLERAY_TEST_ALL"
#: To install 5 GB, and to run.
_LIMIT_S = 1800
_RUN_S = 300

LARGE = pytest.mark.skipif(os.environ.get(EVERYTHING) != "1", reason="large: run by `make test-all`")


@pytest.mark.timeout(_LIMIT_S)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LARGE] if library.is_large else []) for name, library in LIBRARIES.items()]
)
def test_a_library_that_is_written_for_ray_runs_here(name):
    try:
        prepare(name)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    done = run(name, os.path.join(PROGRAMS, f"with_{name}.py"), _RUN_S)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    # Every program says what it found, so that one that does nothing does not pass.
    assert f"{name} ran on eagleray" in done.stdout
