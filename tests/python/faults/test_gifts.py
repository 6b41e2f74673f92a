"""Processes that die while they pass references of others on."""

import gc
import os
import random
import signal
import time

import pytest

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


@ray.remote(num_cpus=0)
class Parent:
    """Hands a ref to a child of its own, of which the ref's owner has never heard."""

    def pass_on(self, refs):
        self.child = Giver.options(num_cpus=0).remote(refs)
        return ray.get(self.child.pid.remote())


@pytest.mark.parametrize("is_large", [False, True])
def test_what_a_process_held_that_its_owner_knew_by_name_only_is_given_back_when_it_dies(
    no_session, wait_until, is_large
):
    """A death is told to those who had to do with the dead. This owner was told of a share of its object, by somebody else, and of nothing more."""
    ray.init(num_cpus=1, object_store_memory=64 << 20)
    value = b"x" * (1 << 20 if is_large else 10)
    ref = ray.put(value)
    parents = [Parent.remote() for _ in range(2)]
    pids = ray.get([parent.pass_on.remote([ref]) for parent in parents])
    name = ref.hex()

    def borrowers():
        return [row.borrowers for row in testing.objects() if row.id == name]

    # A parent keeps its child's arguments.
    wait_until(lambda: borrowers() == [4], what="two parents and their children to hold it")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: borrowers() == [2], what="the dead to hold nothing")
    assert ray.get(ref) == value
    del ref, parents
    gc.collect()
    wait_until(lambda: testing.audit() == [], what="everything to be given back")
