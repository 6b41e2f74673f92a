"""Where tasks and actors ask to be placed."""

import pytest

import eagleray as ray
from eagleray.exceptions import ActorUnschedulableError, TaskUnschedulableError
from eagleray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

pytestmark = pytest.mark.one_node("names its own node")

NOWHERE = "ab" * 28


@ray.remote
def node():
    return ray.get_runtime_context().get_node_id()


@ray.remote
class Actor:
    def node(self):
        return ray.get_runtime_context().get_node_id()


def here():
    return ray.get_runtime_context().get_node_id()


@pytest.mark.usefixtures("shared_ray")
def test_D5a_default_and_spread_are_taken_and_other_words_refused():
    for word in ("DEFAULT", "SPREAD"):
        assert ray.get(node.options(scheduling_strategy=word).remote(), timeout=30) == here()
        assert ray.get(Actor.options(scheduling_strategy=word).remote().node.remote(), timeout=30) == here()
    with pytest.raises(ValueError, match="scheduling_strategy"):
        node.options(scheduling_strategy="SOMEWHERE")


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.usefixtures("shared_ray")
def test_D5b_affinity_to_this_node_runs_here(soft):
    strategy = NodeAffinitySchedulingStrategy(here(), soft=soft)
    assert ray.get(node.options(scheduling_strategy=strategy).remote(), timeout=30) == here()
    assert ray.get(Actor.options(scheduling_strategy=strategy).remote().node.remote(), timeout=30) == here()


@pytest.mark.usefixtures("shared_ray")
def test_D5c_hard_affinity_to_an_unknown_node_fails_a_task():
    strategy = NodeAffinitySchedulingStrategy(NOWHERE, soft=False)
    refs = [node.options(scheduling_strategy=strategy).remote() for _ in range(5)]
    for ref in refs:
        with pytest.raises(TaskUnschedulableError, match=NOWHERE):
            ray.get(ref, timeout=30)


@pytest.mark.usefixtures("shared_ray")
def test_D5d_hard_affinity_to_an_unknown_node_fails_an_actors_calls():
    actor = Actor.options(scheduling_strategy=NodeAffinitySchedulingStrategy(NOWHERE, soft=False)).remote()
    for _ in range(2):
        with pytest.raises(ActorUnschedulableError, match=NOWHERE):
            ray.get(actor.node.remote(), timeout=30)


@pytest.mark.usefixtures("shared_ray")
def test_D5e_soft_affinity_to_an_unknown_node_runs_elsewhere():
    strategy = NodeAffinitySchedulingStrategy(NOWHERE, soft=True)
    assert ray.get(node.options(scheduling_strategy=strategy).remote(), timeout=30) == here()
    assert ray.get(Actor.options(scheduling_strategy=strategy).remote().node.remote(), timeout=30) == here()
