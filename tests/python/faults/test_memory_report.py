"""`eagleray memory`: which objects there are and who holds them, and an audit that finds what is left over."""

import json
import re

import numpy as np
import pytest

import eagleray as ray
from eagleray import testing

PROGRAM = """
import numpy as np
ray.init(address="auto")

@ray.remote
class Holder:
    def hold(self, refs):
        self.refs = refs
        self.own = ray.put(np.zeros(300_000, dtype=np.uint8))

big = ray.put(np.zeros(2_000_000, dtype=np.uint8))  # here
small = ray.put(1)
holder = Holder.remote()
ray.get(holder.hold.remote([big]))
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
del big, small
ray.kill(holder)
del holder
print("dropped", 0, flush=True)
sys.stdin.readline()
"""


def test_memory_lists_objects_with_their_owner_place_and_holders(drivers, wait_until):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    driver = drivers.start(PROGRAM, env={"EAGLERAY_record_ref_creation_sites": "1"})
    pid = int(driver.hear_until("ready"))
    inventory = json.loads(drivers.command("memory", "--json").stdout)
    held = {process["pid"]: process for process in inventory["processes"]}
    (big,) = [row for row in held[pid]["objects"] if row["bytes"] > 1_000_000]
    assert (big["state"], big["is_owner"], big["local"], big["borrowers"]) == ("stored", True, 1, 1)
    assert re.search(r":\d+ in <module>$", big["site"]), big["site"]
    others = [(process, row) for process in held.values() for row in process["objects"] if process["pid"] != pid]
    assert [row["owner_pid"] for _, row in others if row["object_id"] == big["object_id"]] == [pid]
    assert any(row["is_owner"] and row["bytes"] > 200_000 for _, row in others), "what the actor put"
    shown = drivers.command("memory").stdout
    assert re.search(rf"^{big['object_id']} +\d+ +stored +{pid} +{pid} +1 ", shown, re.MULTILINE), shown
    audit = drivers.command("memory", "--audit")
    assert audit.returncode == 1
    assert f"process {pid} (driver) keeps 3 objects" in audit.stdout

    driver.say("drop")
    driver.hear_until("dropped")
    wait_until(lambda: drivers.command("memory", "--audit").returncode == 0, what="an audit without findings")
    assert drivers.command("memory", "--audit").stdout.startswith("Nothing is held")
    driver.say("end")
    assert driver.end()[0] == 0


def test_a_stopped_process_is_named_and_does_not_hold_the_others_up(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    driver = drivers.start("""
    import signal
    ray.init(address="auto")
    kept = ray.put(5)
    print("ready", os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    """)
    pid = int(driver.hear_until("ready"))
    shown = drivers.command("memory")
    assert shown.returncode == 0
    assert f"no answer from {pid}" in shown.stdout
    assert drivers.command("memory", "--audit").returncode == 1
    driver.kill()


def test_audit_in_a_program(no_session, wait_until):
    ray.init(num_cpus=2, object_store_memory=40 << 20)

    @ray.remote
    def make(number):
        return np.full(4 << 20, number, dtype=np.uint8)

    refs = [make.remote(number) for number in range(30)]
    assert sum(int(ray.get(ref)[0]) for ref in refs) == sum(range(30))
    assert any("files" in finding for finding in testing.audit())
    del refs
    wait_until(lambda: testing.audit() == [], what="nothing held")


@pytest.mark.parametrize("command", ["memory", "status"])
def test_without_a_node_it_says_so(drivers, command):
    done = drivers.command(command)
    assert done.returncode == 1
    assert "no node of yours is running" in done.stderr
