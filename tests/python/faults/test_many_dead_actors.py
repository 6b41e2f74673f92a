"""What is kept of actors that are dead is bounded, and enough to say how they died."""

import pytest

import eagleray as ray
from eagleray.exceptions import ActorDiedError


@ray.remote(num_cpus=0)
class Counter:
    def count(self):
        return 1


#: It waits for a place for ever: making and killing it starts no process.
Unplaced = Counter.options(resources={"nowhere": 1})


@pytest.mark.parametrize(("many", "why"), [(1_500, "ray.kill"), (4_000, "It might be dead")])
def test_a_call_on_an_actor_that_died_long_ago_fails_as_one_on_a_dead_actor(ray_session, many, why):
    # Every actor ever called was known for ever. Now this process forgets some, and asks the node when one of them is called after all.
    actor = Counter.options(name="first").remote()
    weak, kept = ray.get_actor("first"), Counter.remote()
    assert ray.get([weak.count.remote(), kept.count.remote()]) == [1, 1]
    ray.kill(actor)
    ray.kill(kept)
    del actor
    for _ in range(many):
        ray.kill(Unplaced.remote())
    with pytest.raises(ActorDiedError, match=why):
        ray.get(weak.count.remote(), timeout=30)
    with pytest.raises(ActorDiedError, match=r"ray\.kill"):
        ray.get(kept.count.remote(), timeout=30)
