"""What control groups leave a process of its machine, read from folders that look like the kernel's."""

import pytest

from eagleray._node import cgroups, hosting


class Groups:
    def __init__(self, folder):
        self.root, self.own = folder / "cgroup", folder / "own"
        self.root.mkdir()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def cpus(self):
        return cgroups.cpus(self.root, self.own)

    def memory(self):
        return cgroups.memory(self.root, self.own)


@pytest.fixture
def groups(tmp_path):
    return Groups(tmp_path)


def test_a_container_that_is_the_root_of_what_it_sees_has_its_own_limits(groups):
    groups.own.write_text("0::/\n")
    groups.write("cpu.max", "150000 100000")
    groups.write("memory.max", 2**30)
    assert (groups.cpus(), groups.memory()) == (1.5, 2**30)


def test_the_tightest_limit_of_a_job_and_its_steps_counts(groups):
    # Slurm limits the memory of the job, and its cores by the step; below both nothing is said.
    groups.own.write_text("0::/slurm/job_7/step_0/task_0\n")
    groups.write("slurm/memory.max", "max")
    groups.write("slurm/job_7/memory.max", 8 * 2**30)
    groups.write("slurm/job_7/step_0/memory.max", 16 * 2**30)
    groups.write("slurm/job_7/step_0/task_0/memory.max", "max")
    groups.write("slurm/job_7/cpu.max", "max 100000")
    groups.write("slurm/job_7/step_0/cpu.max", "400000 100000")
    assert (groups.cpus(), groups.memory()) == (4.0, 8 * 2**30)


def test_the_older_version_has_a_folder_for_each_controller(groups):
    groups.own.write_text("4:memory:/pod/a:b\n2:cpuacct,cpu:/pod\n1:name=systemd:/\n0::/\n")
    groups.write("memory/pod/a:b/memory.limit_in_bytes", 3 * 2**30)
    groups.write("memory/memory.limit_in_bytes", 9223372036854771712)
    groups.write("cpu/pod/cpu.cfs_quota_us", 50_000)
    groups.write("cpu/pod/cpu.cfs_period_us", 100_000)
    groups.write("cpu/cpu.cfs_quota_us", -1)
    groups.write("cpu/cpu.cfs_period_us", 100_000)
    assert (groups.cpus(), groups.memory()) == (0.5, 3 * 2**30)


def test_a_path_that_a_container_does_not_see_means_its_root(groups):
    groups.own.write_text("4:memory:/docker/abc\n0::/../other\n")
    groups.write("memory/memory.limit_in_bytes", 2**30)
    groups.write("cpu.max", "200000 100000")
    assert (groups.cpus(), groups.memory()) == (2.0, 2**30)


@pytest.mark.parametrize("text", ["", "nonsense", "0", "0::", "a:b:c:d\n\n"])
def test_where_nothing_is_said_nothing_is_limited(groups, text):
    groups.own.write_text(text)
    groups.write("cpu.max", "much")
    groups.write("memory.max", "")
    assert (groups.cpus(), groups.memory()) == (None, None)
    groups.own.unlink()
    assert (groups.cpus(), groups.memory()) == (None, None)


def test_a_node_offers_what_its_groups_leave_and_a_core_at_least(monkeypatch):
    whole = hosting.usable_memory()
    monkeypatch.setattr(cgroups, "memory", lambda: 2**30)
    assert hosting.usable_memory() == 2**30
    monkeypatch.setattr(cgroups, "memory", lambda: 2**62)
    assert hosting.usable_memory() >= whole
    for quota, cores in {0.5: 1, 1.9: 1, None: hosting.usable_cpus()}.items():
        monkeypatch.setattr(cgroups, "cpus", lambda quota=quota: quota)
        assert hosting.usable_cpus() == cores
