"""Labels of the node, and tasks and actors that ask for some: rule X6."""

import pytest

import eagleray as ray
from eagleray._calls.labels import read
from eagleray.util.scheduling_strategies import DoesNotExist, Exists, In, NodeLabelSchedulingStrategy, NotIn

pytestmark = pytest.mark.one_node("the only node has the labels, and is the one that is asked for")


@pytest.fixture(scope="module", autouse=True)
def labelled():
    ray.shutdown()
    yield ray.init(num_cpus=2, labels={"zone": "north", "gpu": "none"})
    ray.shutdown()


@ray.remote
def run():
    return "ran"


@ray.remote(num_cpus=0)
class Actor:
    def run(self):
        return "ran"

    def labels(self):
        return ray.get_runtime_context().get_node_labels()


def test_X6a_the_node_has_the_labels_that_it_was_given():
    expected = {"zone": "north", "gpu": "none", "ray.io/node-id": ray.get_runtime_context().get_node_id()}
    assert ray.get_runtime_context().get_node_labels() == expected
    assert ray.nodes()[0]["Labels"] == expected
    assert ray.get(Actor.remote().labels.remote()) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"label_selector": {"zone": "north"}},
        {"label_selector": {"zone": "!south", "gpu": "in(none, some)"}},
        {"label_selector": {"zone": "!in(south,west)", "unknown": "!x"}},
        {"label_selector": {"zone": "south"}, "fallback_strategy": [{"label_selector": {"zone": "north"}}]},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In("north", "south"), "gpu": Exists()})},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": NotIn("south"), "cloud": DoesNotExist()})},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({}, soft={"zone": In("south")})},
    ],
)
def test_X6b_what_asks_for_labels_that_are_there_runs(options):
    assert ray.get(run.options(**options).remote(), timeout=30) == "ran"
    assert ray.get(Actor.options(**options).remote().run.remote(), timeout=30) == "ran"


@pytest.mark.parametrize(
    "options",
    [
        {"label_selector": {"zone": "south"}},
        {"label_selector": {"zone": "!north"}},
        {"label_selector": {"zone": "south"}, "fallback_strategy": [{"label_selector": {"zone": "west"}}]},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": In("south")})},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"cloud": Exists()})},
        {"scheduling_strategy": NodeLabelSchedulingStrategy({"zone": DoesNotExist()})},
    ],
)
def test_X6c_what_asks_for_others_waits(options):
    task = run.options(**options).remote()
    actor = Actor.options(**options).remote()
    call = actor.run.remote()
    # Whoever was asked later and can run has run, and these have not.
    assert ray.get([run.remote() for _ in range(5)]) == ["ran"] * 5
    assert ray.wait([task, call], timeout=0) == ([], [task, call])
    ray.cancel(task)
    ray.kill(actor)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(task, timeout=30)


def test_X6d_bundles_may_ask_for_labels():
    fits = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], bundle_label_selector=[{"zone": "north"}, {}])
    assert fits.wait(30)
    ray.util.remove_placement_group(fits)
    waits = ray.util.placement_group([{"CPU": 1}], bundle_label_selector=[{"zone": "south"}])
    assert not waits.wait(0.1)
    ray.util.remove_placement_group(waits)
    with pytest.raises(ValueError, match="should equal the length of `bundles`, 1"):
        ray.util.placement_group([{"CPU": 1}], bundle_label_selector=[{}, {}])


@pytest.mark.parametrize(
    ("labels", "error"), [([], TypeError), ({"a": 1}, TypeError), ({"ray.io/node-id": "x"}, ValueError)]
)
def test_X6a_labels_are_checked(no_session, labels, error):
    with pytest.raises(error, match="label"):
        ray.init(labels=labels)


def test_X6a_a_command_may_be_given_them_as_json():
    assert read('{"zone": "north.south"}') == {"zone": "north.south"}
    assert read("zone=north,gpu=") == {"zone": "north", "gpu": ""}
    assert read("") == {}
