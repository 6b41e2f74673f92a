"""Values that are lost and made again: rules R5, R6 and G7. What is lost here are files that the full store was emptied into."""

import gc
import os
import signal

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import GetTimeoutError, ObjectReconstructionFailedError, RayTaskError

pytestmark = pytest.mark.one_node("loses files of the session whose folder it knows")

MIB = 1 << 20
SIZE = 4 * MIB


def array(number, size=SIZE):
    return np.full(size, number, dtype=np.uint8)


@ray.remote
def make(signs, number, size=SIZE):
    signs.set(f"made-{number}")
    return array(number, size)


@ray.remote
def plus_one(signs, value, name):
    signs.set(name)
    return value + np.uint8(1)


@ray.remote
class Maker:
    def make(self, signs, number):
        signs.set(f"called-{number}")
        return array(number)


class Disk:
    """Where values go that the store has no room for, and what can happen to them there."""

    def __init__(self, folder):
        self.folder = folder

    def paths(self):
        return [os.path.join(self.folder, name) for name in os.listdir(self.folder)]

    def fill(self):
        """Everything that nobody looks at leaves the store."""
        gc.collect()
        filling = [ray.put(array(0)) for _ in range(20)]
        assert self.paths()
        return filling

    def lose(self, how="remove", but=()):
        filling = self.fill()
        for path in set(self.paths()) - set(but):
            if how == "remove":
                os.unlink(path)
            elif how == "cut":
                os.truncate(path, 100)
            else:
                with open(path, "r+b") as file:
                    file.seek(SIZE // 2)
                    file.write(b"damaged")
        del filling


@pytest.fixture
def disk(no_session):
    context = ray.init(num_cpus=2, object_store_memory=40 * MIB)
    yield Disk(os.path.join(context["session_dir"], "spill"))
    ray.shutdown()


@pytest.mark.parametrize("how", ["remove", "cut", "damage"])
def test_R6a_a_lost_value_is_made_again(disk, signs, how):
    ref = make.remote(signs, 7)
    assert ray.get(ref)[0] == 7
    disk.lose(how)
    assert (ray.get(ref) == 7).all()
    assert signs.count("made-7") == 2
    assert ray.get(ref)[0] == 7
    assert signs.count("made-7") == 2, "it is there again"


def test_R5a_R5c_R6b_a_chain_is_made_again_from_its_start(disk, signs):
    ref = make.remote(signs, 1)
    for step in range(19):
        ref = plus_one.remote(signs, ref, f"step-{step}")
    assert ray.get(ref)[0] == 20
    gc.collect()
    # Only the last value is held: the others' bytes are free, and what made them is remembered.
    used = _native.status()["store_used"]
    assert used <= 40 * MIB
    disk.lose()
    assert (ray.get(ref) == 20).all()
    assert signs.count("made-1") == 2
    assert all(signs.count(f"step-{step}") == 2 for step in range(19))


def test_R5b_lineage_goes_with_the_last_ref(disk, signs, wait_until):
    ref = make.remote(signs, 1)
    for step in range(5):
        ref = plus_one.remote(signs, ref, f"step-{step}")
    ray.get(ref)
    del ref
    gc.collect()
    wait_until(lambda: _native.tally() == (0, 0), what="nothing kept")


def test_R6c_a_shared_upstream_task_runs_once(disk, signs):
    root = make.remote(signs, 1)
    leaves = [plus_one.remote(signs, root, f"leaf-{leaf}") for leaf in range(4)]
    assert [int(value[0]) for value in ray.get(leaves)] == [2] * 4
    del root
    disk.lose()
    assert [int(value[0]) for value in ray.get(leaves)] == [2] * 4
    assert signs.count("made-1") == 2


def test_R6d_of_several_values_only_the_lost_one_changes(disk, signs):
    @ray.remote(num_returns=3)
    def three():
        signs.set("three")
        return [array(number + 10 * signs.count("three")) for number in range(3)]

    refs = three.remote()
    kept = ray.get(refs[1])
    assert [int(value[0]) for value in ray.get(refs)] == [10, 11, 12]
    disk.lose()
    assert int(ray.get(refs[0])[0]) == 20
    assert int(ray.get(refs[1])[0]) == 11, "it was looked at, and never left"
    assert int(kept[-1]) == 11
    assert int(ray.get(refs[2])[0]) == 22
    assert signs.count("three") == 2, "once for both"


def test_R6e_a_call_on_an_actor_runs_again_if_it_may(disk, signs):
    patient, strict = Maker.options(max_task_retries=1).remote(), Maker.remote()
    may, must_not = patient.make.remote(signs, 1), strict.make.remote(signs, 2)
    ray.get([may, must_not])
    disk.lose()
    assert ray.get(may)[0] == 1
    assert signs.count("called-1") == 2
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again"):
        ray.get(must_not)
    assert signs.count("called-2") == 1


def test_R6f_what_was_put_cannot_be_made_again(disk):
    ref = ray.put(array(3))
    disk.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again") as caught:
        ray.get(ref)
    assert "no task can make it again" in caught.value.reason
    assert ref.hex() in str(caught.value)


def test_R6g_a_task_without_retries_left_cannot_run_again(disk, signs):
    never = make.options(max_retries=0).remote(signs, 1)
    once = make.options(max_retries=1).remote(signs, 2)
    ray.get([never, once])
    disk.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again"):
        ray.get(never)
    assert ray.get(once)[0] == 2
    disk.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="retries"):
        ray.get(once)
    assert (signs.count("made-1"), signs.count("made-2")) == (1, 2)


def test_R6h_a_task_that_needs_a_lost_value_fails_and_does_not_run(disk, signs):
    ref = ray.put(array(3))
    disk.lose()
    user = plus_one.remote(signs, ref, "used")
    with pytest.raises(RayTaskError, match="no task can make it again"):
        ray.get(user)
    assert signs.count("used") == 0


def test_R6i_get_with_a_timeout_while_it_is_made_again(disk, signs):
    @ray.remote
    def slow():
        if signs.count("slow"):
            signs.set("again")
            signs.wait("go")
        signs.set("slow")
        return array(5)

    ref = slow.remote()
    ray.get(ref)
    disk.lose()
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.5)
    signs.wait("again")
    assert ray.wait([ref], timeout=0) == ([], [ref])
    signs.set("go")
    assert ray.get(ref)[0] == 5


def test_R6j_small_for_large_and_large_for_small(disk, signs):
    @ray.remote
    def changing(first, second):
        signs.set("changing")
        return array(6, first if signs.count("changing") == 1 else second)

    ref = changing.remote(SIZE, 100)
    user = plus_one.remote(signs, ref, "user")
    assert ray.get(user)[0] == 7
    disk.lose()
    assert ray.get(ref).nbytes == 100
    assert int(ray.get(user)[0]) == 7


def test_R6k_another_process_gets_the_new_value(disk, signs):
    @ray.remote
    class Holder:
        def hold(self, refs):
            self.ref = refs[0]
            return int(ray.get(self.ref)[0])

        def read(self):
            return int(ray.get(self.ref)[0])

    holder = Holder.remote()
    ref = make.remote(signs, 9)
    assert ray.get(holder.hold.remote([ref])) == 9
    disk.lose()
    assert ray.get(holder.read.remote()) == 9
    assert signs.count("made-9") == 2


def test_R6l_a_task_that_is_sent_a_lost_argument_waits_for_it(disk, signs):
    refs = [make.remote(signs, number) for number in range(8)]
    ray.wait(refs, num_returns=8)
    disk.lose()
    used = [plus_one.remote(signs, ref, f"used-{number}") for number, ref in enumerate(refs)]
    assert [int(value[0]) for value in ray.get(used)] == list(range(1, 9))
    assert all(signs.count(f"used-{number}") == 1 for number in range(8))


@ray.remote
class User:
    def __init__(self, signs):
        self.signs = signs
        self.used = []

    def use(self, value, number):
        self.signs.set(f"used-{number}")
        self.used.append(number)
        return int(value[0])

    def in_order(self):
        return self.used


def test_R6m_a_call_on_an_actor_with_a_lost_argument_waits_for_it(disk, signs):
    refs = [make.remote(signs, number) for number in range(4)]
    ray.wait(refs, num_returns=4)
    disk.lose()
    user = User.remote(signs)
    assert [ray.get(user.use.remote(ref, number)) for number, ref in enumerate(refs)] == [0, 1, 2, 3]
    assert all(signs.count(f"made-{number}") == 2 for number in range(4))
    assert ray.get(user.in_order.remote()) == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{"max_concurrency": 3}, {"max_task_retries": 1}], ids=str)
def test_R6m_so_do_many_at_once_where_their_order_may_change(disk, signs, options):
    refs = [make.remote(signs, number) for number in range(8)]
    ray.wait(refs, num_returns=8)
    disk.lose()
    user = User.options(**options).remote(signs)
    assert ray.get([user.use.remote(ref, number) for number, ref in enumerate(refs)]) == list(range(8))
    assert all(signs.count(f"used-{number}") == 1 for number in range(8))


def test_R6m_so_does_one_whose_argument_its_owner_has_moved_meanwhile(disk, signs):
    @ray.remote
    class Keeper:
        def put(self, number):
            return [ray.put(array(number))]

    keeper = Keeper.remote()
    (ref,) = ray.get(keeper.put.remote(5))
    assert int(ray.get(ref)[0]) == 5  # so that its place is known here
    disk.fill()
    user = User.remote(signs)
    assert ray.get(user.use.remote(ref, 5)) == 5


def test_K3c_a_cancelled_task_is_not_made_again(disk, signs):
    @ray.remote(num_returns=2)
    def stubborn():
        try:
            signs.set("runs")
            signs.wait("an interrupt")
        except KeyboardInterrupt:
            pass
        return array(1), array(2)

    refs = stubborn.remote()
    signs.wait("runs")
    ray.cancel(refs[0])
    assert [int(value[0]) for value in ray.get(refs)] == [1, 2], "it caught the interrupt"
    disk.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again"):
        ray.get(refs[0])
    assert signs.count("runs") == 1


# Arguments of so many bytes: what a kept task takes beside a few hundred bytes.
PADDING = "x" * 5_000


@ray.remote
def padded(signs, number, padding, *inner):
    signs.set(f"made-{number}")
    return array(number + len(inner))


@pytest.fixture
def capped(no_session):
    """No arguments of kept tasks may stay in memory."""
    context = ray.init(num_cpus=2, object_store_memory=40 * MIB, _system_config={"max_lineage_bytes": 1})
    yield Disk(os.path.join(context["session_dir"], "spill"))
    ray.shutdown()


def lineage_files(disk, wait_until, tasks):
    """Wait until the arguments of so many tasks lie on disk, where nothing else does yet."""
    size = tasks * len(PADDING)
    wait_until(lambda: sum(map(os.path.getsize, disk.paths())) >= size, what="arguments on disk")
    return disk.paths()


def test_R5d_what_is_too_much_for_memory_can_still_be_made_again(capped, signs, wait_until):
    first = [padded.remote(signs, number, PADDING) for number in range(3)]
    last = [padded.remote(signs, 10 + number, PADDING, ref) for number, ref in enumerate(first)]
    ray.wait(last, num_returns=3)
    del first
    kept = lineage_files(capped, wait_until, 6)
    for _ in range(2):
        capped.lose(but=kept)
        assert [int(value[0]) for value in ray.get(last)] == [11, 12, 13]
    assert [signs.count(f"made-{number}") for number in (0, 1, 2, 10, 11, 12)] == [3] * 6


def test_R5e_files_of_lineage_go_with_the_last_ref(capped, signs, wait_until):
    refs = [padded.remote(signs, number, PADDING) for number in range(4)]
    ray.wait(refs, num_returns=4)
    lineage_files(capped, wait_until, 4)
    del refs
    gc.collect()
    wait_until(lambda: not capped.paths(), what="no files")
    assert _native.tally() == (0, 0)


def test_R5f_arguments_whose_file_is_lost_as_well(capped, signs, wait_until):
    ref = padded.remote(signs, 1, PADDING)
    ray.wait([ref])
    lineage_files(capped, wait_until, 1)
    capped.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="arguments"):
        ray.get(ref)
    assert signs.count("made-1") == 1


def test_R5g_what_no_folder_takes_is_forgotten_and_a_later_loss_says_so(capped, signs, wait_until):
    os.rename(capped.folder, capped.folder + "-away")
    small = ray.put(1)
    ref = padded.remote(signs, 1, PADDING, [small])
    ray.wait([ref])
    del small
    gc.collect()
    # The task holds its argument as long as it is kept.
    wait_until(lambda: _native.tally()[0] == 1, what="the task is forgotten")
    os.rename(capped.folder + "-away", capped.folder)
    assert ray.get(ref)[0] == 2
    capped.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="LINEAGE_EVICTED"):
        ray.get(ref)
    assert signs.count("made-1") == 1


@pytest.mark.parametrize("cap", [1, 1 << 20])
def test_R5h_with_spilling_off_the_oldest_is_forgotten(no_session, signs, wait_until, cap):
    config = {"max_lineage_bytes": cap, "automatic_object_spilling_enabled": False}
    ray.init(num_cpus=2, object_store_memory=40 * MIB, _system_config=config)
    small = ray.put(1)
    ref = padded.remote(signs, 1, PADDING, [small])
    ray.wait([ref])
    del small
    gc.collect()
    if cap == 1:
        wait_until(lambda: _native.tally()[0] == 1, what="the task is forgotten")
    else:
        assert _native.tally()[0] == 2
    assert ray.get(ref)[0] == 2
    ray.shutdown()


def test_R5i_the_heir_of_a_dead_process_reads_its_lineage(capped, signs, wait_until):
    @ray.remote(num_cpus=0)
    class Owner:
        def make(self):
            self.refs = [padded.remote(signs, number, PADDING) for number in range(2)]
            ray.wait(self.refs, num_returns=2)

        def give(self):
            return self.refs

        def pid(self):
            return os.getpid()

    owner = Owner.remote()
    ray.get(owner.make.remote())
    theirs = set(lineage_files(capped, wait_until, 2))
    # What is given away now is recorded with its arguments in a file.
    refs = ray.get(owner.give.remote())
    os.kill(ray.get(owner.pid.remote()), signal.SIGKILL)
    wait_until(lambda: not theirs & set(capped.paths()), what="files of the heir")
    kept = capped.paths()
    capped.lose(but=kept)
    assert [int(value[0]) for value in ray.get(refs)] == [0, 1]
    assert [signs.count(f"made-{number}") for number in range(2)] == [2, 2]


@ray.remote
def numbers(signs, *counts):
    """Yields as many arrays as the count of this run says; the tens of their numbers are the run."""
    signs.set("run")
    run = signs.count("run")
    for number in range(counts[min(run, len(counts)) - 1]):
        yield array(10 * run + number)


def firsts(refs):
    return [int(value[0]) for value in ray.get(refs)]


def test_G7b_G7c_a_lost_value_of_a_generator_is_made_again(disk, signs):
    refs = list(numbers.remote(signs, 4))
    kept = ray.get(refs[1])
    disk.lose()
    assert int(ray.get(refs[2])[0]) == 22
    assert firsts(refs) == [20, 11, 22, 23], "what was looked at never left"
    assert int(kept[-1]) == 11
    assert signs.count("run") == 2, "once for all that were lost"


@pytest.mark.parametrize("ahead", [-1, 2])
def test_G7b_G7c_a_lost_value_is_made_again_while_the_generator_runs(disk, signs, ahead):
    @ray.remote(_generator_backpressure_num_objects=ahead)
    def slow():
        signs.set("run")
        run = signs.count("run")
        for number in range(6):
            if run == 1 and number == 4:
                signs.wait("go")
            yield array(10 * run + number)

    generator = slow.remote()
    refs = [next(generator), next(generator)]
    assert firsts(refs) == [10, 11]
    disk.lose()
    # The first run waits for us, or for its reader.
    assert firsts(refs) == [20, 21]
    signs.set("go")
    rest = firsts(list(generator))
    assert [number % 10 for number in rest] == [2, 3, 4, 5], "each once and in order"
    assert rest[2:] == [14, 15], "which the first run gave"
    assert signs.count("run") == 2


def test_G7d_what_does_not_come_again_fails(disk, signs):
    refs = list(numbers.remote(signs, 4, 2))
    disk.lose()
    assert firsts(refs[:2]) == [20, 21]
    for ref in refs[2:]:
        with pytest.raises(ObjectReconstructionFailedError, match="2 values only"):
            ray.get(ref)


def test_G7e_max_retries_bounds_how_often_a_generator_runs_again(disk, signs):
    refs = list(numbers.options(max_retries=1).remote(signs, 2))
    disk.lose()
    assert firsts(refs) == [20, 21]
    disk.lose()
    for ref in refs:
        with pytest.raises(ObjectReconstructionFailedError, match="retries"):
            ray.get(ref)
    assert signs.count("run") == 2


def test_G7e_a_generator_without_retries_never_runs_again(disk, signs):
    refs = list(numbers.options(max_retries=0).remote(signs, 2))
    disk.lose()
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again"):
        ray.get(refs)
    assert signs.count("run") == 1


def test_G7f_values_of_an_actors_generator_and_of_a_dynamic_one(disk, signs):
    @ray.remote(max_task_retries=1)
    class Source:
        def numbers(self, count):
            signs.set("called")
            for number in range(count):
                yield array(10 * signs.count("called") + number)

    source = Source.remote()
    refs = list(source.numbers.remote(2))
    listed = list(ray.get(numbers.options(num_returns="dynamic").remote(signs, 3)))
    disk.lose()
    assert firsts(refs) == [20, 21]
    assert firsts(listed) == [20, 21, 22]


def test_G7g_lineage_of_a_generator_goes_with_its_values(disk, signs, wait_until):
    refs = list(numbers.remote(signs, 3))
    ray.wait(refs, num_returns=3)
    refs.pop(0)
    disk.lose()
    assert firsts(refs) == [21, 22]
    del refs
    gc.collect()
    wait_until(lambda: _native.tally() == (0, 0), what="nothing kept")
