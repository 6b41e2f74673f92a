"""Processes that die while they pass references of others on."""

import gc
import os
import random
import signal
import time

import eagleray as ray
from eagleray import testing


@ray.remote
class Owner:
    def make(self):
        self.refs = [ray.put(number) for number in range(50)]
        return self.refs

    def drop(self):
        self.refs = None


@ray.remote
class Giver:
    def __init__(self, refs):
        self.refs = refs

    def give(self):
        return self.refs

    def pid(self):
        return os.getpid()


def test_what_a_giver_announced_and_never_gave_is_not_counted(no_session, wait_until):
    """Of some hundred givers killed while they give, one dies between its word to the owners and the value: before, that was for good."""
    ray.init(num_cpus=8, object_store_memory=64 << 20)
    chance = random.Random(5)
    owners = [Owner.remote() for _ in range(2)]
    refs = [ref for owner in owners for ref in ray.get(owner.make.remote())]
    end, given = time.monotonic() + 4, 0
    while time.monotonic() < end:
        givers = [Giver.remote(refs) for _ in range(3)]
        pids = ray.get([giver.pid.remote() for giver in givers])
        calls = [giver.give.remote() for giver in givers for _ in range(60)]
        time.sleep(chance.random() * 0.006)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for call in calls:
            try:
                assert len(ray.get(call)) == 100
                given += 1
            except ray.exceptions.ActorDiedError:
                pass
        del givers, calls, call
    assert given, "some had time to give"
    # What came is held, whoever brought it.
    assert ray.get(refs) == list(range(50)) * 2
    ray.get([owner.drop.remote() for owner in owners])
    del refs
    gc.collect()
    # The owners live: if one died, everything would be counted anew.
    wait_until(lambda: "Owner" not in str(testing.audit()), what="owners that keep nothing")
    del owners
    wait_until(lambda: not testing.audit(), what="an empty audit")
    ray.shutdown()
