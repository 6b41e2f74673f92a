"""`eagleray.testing`: what it tells is true, and the page about it works."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eagleray as ray
from eagleray import testing

ROOT = Path(__file__).parents[3]


def test_the_pages_example_runs(tmp_path):
    page = (ROOT / "docs/testing.md").read_text()
    files = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in files] == ["conftest.py", "test_words.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_a_module_shares_one_session(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["eagleray.testing.fixtures"]\n')
    (tmp_path / "test_shared.py").write_text(
        "import os, pytest\n"
        "import eagleray as ray\n"
        "pytestmark = [pytest.mark.eagleray(num_cpus=3), pytest.mark.usefixtures('eagleray_module_session')]\n"
        "seen = []\n"
        "def test_one():\n"
        "    assert ray.cluster_resources()['CPU'] == 3\n"
        "    seen.append(ray.get_runtime_context().get_session_name())\n"
        "def test_two():\n"
        "    assert seen == [ray.get_runtime_context().get_session_name()]\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environ = {**os.environ, "RAY_ADDRESS": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False, env=environ)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.usefixtures("shared_ray")
class TestInside:
    def test_small_values_are_kept_here_and_large_ones_in_shared_memory(self):
        before = testing.memory_store_size()
        small, large = ray.put(1), ray.put(np.zeros(1_000_000))
        assert testing.memory_store_size() == before + 1
        assert (testing.object_exists(small), testing.object_exists(large)) == (False, True)
        summary = testing.memory_summary()
        row = next(line for line in summary.splitlines() if line.startswith(large.hex()))
        assert int(row.split()[1]) >= 8_000_000
        assert row.split()[2:] == ["LOCAL_REFERENCE", str(os.getpid())]
        assert small.hex() in summary

    def test_the_node_tells_of_itself(self, wait_until):
        ref = ray.put(np.zeros(1_000_000))
        node = testing.local_node()
        assert node["node_id"] == ray.get_runtime_context().get_node_id()
        assert Path(node["session_dir"]).is_dir()
        assert node["pid"] == os.getpid()
        assert node["resources"]["CPU"] == 2
        assert 8_000_000 <= node["store_used"] <= node["store_capacity"]
        assert node["processes"][os.getpid()] == "driver"
        del ref

    def test_warnings_are_heard_until_closed(self):
        heard, closed = testing.error_subscriber(), testing.error_subscriber()
        closed.close()
        assert heard.poll() is None

        @ray.remote(max_retries=0)
        def crash():
            os._exit(1)

        with pytest.raises(ray.exceptions.WorkerCrashedError, match="exit code 1"):
            ray.get(crash.remote())
        kind, text = heard.poll(timeout=30)
        assert (kind, "died" in text) == ("worker_died", True)
        heard.close()
        assert closed.poll() is None

    def test_lines_are_heard_with_who_said_them(self):
        @ray.remote
        def speak(stream, text):
            print(text, file=getattr(sys, stream))
            return os.getpid()

        with testing.log_subscriber() as lines:
            pid = ray.get(speak.remote("stderr", "careful"))
            heard = lines.poll(timeout=30)
        assert heard == {"name": "speak", "pid": pid, "is_error": True, "lines": ["careful"]}

    def test_garbage_is_collected_in_workers_too(self, wait_until):
        @ray.remote(num_cpus=0)
        class Hoarder:
            def __init__(self):
                gc.disable()

            def hang(self, refs):
                cycle = [refs]
                cycle.append(cycle)

        hoarder = Hoarder.remote()
        ref = ray.put(np.zeros(1_000_000))
        ray.get(hoarder.hang.remote([ref]))
        name = ref.hex()

        def borrowers():
            return next((row.borrowers for row in testing.objects() if row.id == name), 0)

        wait_until(lambda: borrowers() == 1)
        testing.global_gc()
        wait_until(lambda: borrowers() == 0)
