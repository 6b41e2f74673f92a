"""`cluster_utils.Cluster` and the fixture of it: nodes on one machine that work as if each had one to itself."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import eagleray as ray
from eagleray.cluster_utils import Cluster

pytestmark = pytest.mark.one_node("it brings clusters of its own")


@pytest.fixture
def cluster(no_session):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as made:
        yield made


def test_nodes_come_and_go(cluster, leaks):
    first = cluster.add_node(num_cpus=2, resources={"licence": 1}, labels={"zone": "north"}, node_name="first")
    second = cluster.add_node(num_cpus=1)
    assert cluster.list_all_nodes() == [cluster.head_node, first, second]
    assert len({node.node_id for node in cluster.list_all_nodes()}) == 3
    cluster.wait_for_nodes()
    cluster.connect(namespace="mine")
    assert ray.get_runtime_context().get_node_id() == cluster.head_node.node_id
    assert ray.get_runtime_context().namespace == "mine"
    assert ray.cluster_resources()["CPU"] == 3
    (shown,) = (node for node in ray.nodes() if node["NodeID"] == first.node_id)
    assert (shown["NodeName"], shown["Labels"]["zone"], shown["Resources"]["licence"]) == ("first", "north", 1)
    everyone = [first.pid, *(process.pid for process in leaks.descendants(first.pid))]
    cluster.remove_node(first)
    leaks.check(everyone)
    cluster.wait_for_nodes()
    assert [node["Alive"] for node in ray.nodes() if node["NodeID"] == first.node_id] == [False]
    assert ray.cluster_resources()["CPU"] == 1
    folder = cluster.head_node.folder.parent
    everyone = [node.pid for node in cluster.list_all_nodes()]
    cluster.shutdown()
    leaks.check(everyone, folder)
    assert not ray.is_initialized()
    cluster.shutdown()  # once more does no harm


def test_a_killed_node_is_missed(cluster):
    node = cluster.add_node(num_cpus=1)
    cluster.remove_node(node, allow_graceful=False)
    cluster.wait_for_nodes()
    (gone,) = (known for known in cluster.head_node.status()["nodes"] if not known["alive"])
    assert gone["node_id"] == node.node_id
    assert gone["gone"]


def test_programs_find_it_by_its_address_only(cluster):
    with pytest.raises(ConnectionError, match="Could not find any running"):
        ray.init("auto")
    with ray.init(num_cpus=1) as context:
        assert context["node_id"] != cluster.head_node.node_id
    with ray.init(cluster.address) as context:
        assert context["node_id"] == cluster.head_node.node_id


def test_what_cannot_be_is_refused(no_session):
    with pytest.raises(RuntimeError, match="Cannot connect to uninitialized cluster"):
        Cluster(connect=True)
    with Cluster() as cluster:
        assert cluster.address is None
        with pytest.raises(RuntimeError, match="Cannot connect to uninitialized cluster"):
            cluster.connect()
        with pytest.raises(TypeError, match="unexpected keyword argument 'num_cpu'; it takes num_cpus, "):
            cluster.add_node(num_cpu=1)
        with pytest.raises(
            RuntimeError, match=r"(?s)the node ended with exit code 1 before it was ready; .*cannot be negative"
        ):
            cluster.add_node(num_cpus=-1)
        head = cluster.add_node(num_cpus=0, dashboard_port=1)
        other = cluster.add_node(num_cpus=0, wait=False)
        cluster.connect()
        with pytest.raises(RuntimeError, match="has been called already"):
            cluster.connect()
        with pytest.raises(ValueError, match="is not allowed because it will break the driver"):
            cluster.remove_node(head)
        assert not ray.is_initialized()
        cluster.remove_node(other)
        with pytest.raises(ValueError, match="is not, or no longer, a node of this cluster"):
            cluster.remove_node(other)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_cluster_whose_program_is_killed(drivers, leaks, number):
    program = drivers.start(
        """
        from eagleray.cluster_utils import Cluster
        cluster = Cluster(initialize_head=True, connect=True)
        cluster.add_node(num_cpus=1)
        print("ready", cluster.head_node.folder.parent, flush=True)
        time.sleep(600)
        """
    )
    folder = program.hear_until("ready")
    everyone = [process.pid for process in leaks.descendants(program.pid)]
    assert len(everyone) > 3
    program.kill(number)
    program.end()
    leaks.check(everyone, folder)


def test_the_fixture_gives_a_cluster_and_ends_it(tmp_path, drivers):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["eagleray.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import eagleray as ray
            import pytest

            KEPT = []

            @pytest.mark.eagleray(resources={"licence": 2})
            def test_it(eagleray_cluster):
                eagleray_cluster.add_node(num_cpus=1)
                ray.init(address=eagleray_cluster.address)
                assert {name: ray.cluster_resources()[name] for name in ("CPU", "licence")} == {"CPU": 1, "licence": 2}
                KEPT.extend(eagleray_cluster.list_all_nodes())

            def test_that_it_is_over():
                assert not ray.is_initialized()
                assert len(KEPT) == 2 and not any(node.is_alive() for node in KEPT)
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, env=drivers.environ(), cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert os.listdir(drivers.folder) in ([], ["nodes"])
