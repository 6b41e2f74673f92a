"""The object store under pressure: rules S1 to S3."""

import gc
import os
import random
import signal
import threading

import numpy as np
import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import OutOfDiskError, RayTaskError

pytestmark = pytest.mark.one_node("fills the store of the only node")

MIB = 1 << 20


@ray.remote
def make(number, size=4 * MIB):
    return np.full(size, number % 251, dtype=np.uint8)


@ray.remote
def total(array):
    return int(array[0]), int(array[-1]), array.nbytes


@ray.remote
class Holder:
    def hold(self, refs):
        self.refs = refs
        return self.read()

    def put(self, count):
        self.refs = [ray.put(np.full(4 * MIB, number, dtype=np.uint8)) for number in range(count)]

    def read(self):
        return [int(ray.get(ref)[0]) for ref in self.refs]


def array(number, size=4 * MIB):
    return np.full(size, number % 251, dtype=np.uint8)


def is_array(value, number, size=4 * MIB):
    return value.nbytes == size and value[0] == value[-1] == number % 251


class Session:
    def __init__(self, folders):
        self.folders = folders

    def files(self):
        """Names of all files with values."""
        return [name for folder in self.folders for name in os.listdir(folder)]


@pytest.fixture
def small(no_session):
    """A store of 40 MiB."""
    context = ray.init(num_cpus=2, object_store_memory=40 * MIB)
    yield Session([os.path.join(context["session_dir"], "spill")])
    ray.shutdown()


def drop(*, until, wait_until):
    """Everything dropped is let go, also by other processes."""
    gc.collect()
    wait_until(lambda: _native.tally() and until(), what="files that go")


def test_S1a_put_goes_on_and_every_value_is_read_back(small):
    refs = [ray.put(array(number)) for number in range(50)]
    assert small.files(), "200 MiB in a store of 40"
    for number, ref in enumerate(refs):
        assert is_array(ray.get(ref), number)
    made = [make.remote(number) for number in range(50)]
    for number, ref in enumerate(made):
        assert is_array(ray.get(ref), number)
    # And they are good as arguments, from memory or from disk.
    assert ray.get([total.remote(ref) for ref in refs + made]) == [
        (number % 251, number % 251, 4 * MIB) for number in [*range(50), *range(50)]
    ]


def test_S1b_what_is_looked_at_stays_and_puts_find_room_elsewhere(small):
    refs = [ray.put(array(number)) for number in range(30)]
    views = [ray.get(ref) for ref in refs]
    where = [view.ctypes.data for view in views]
    more = [ray.put(array(number)) for number in range(30)]
    also = [ray.get(ref) for ref in more]
    assert all(is_array(view, number) for number, view in enumerate(views))
    assert all(is_array(view, number) for number, view in enumerate(also))
    assert [view.ctypes.data for view in views] == where
    assert all(address % 64 == 0 for address in where)


def test_S1c_get_works_while_others_fill_the_store(small):
    refs = [ray.put(array(number)) for number in range(20)]
    errors, is_over = [], threading.Event()

    def read():
        while not is_over.is_set():
            number = random.randrange(20)
            if not is_array(ray.get(refs[number]), number):
                errors.append(number)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(100):
        assert ray.get(total.remote(make.remote(number)))[0] == number % 251
        ray.put(array(number))
    is_over.set()
    for reader in readers:
        reader.join()
    assert not errors


def test_S1d_random_reads_over_ten_times_the_store(small):
    sizes = [random.Random(number).choice([200_000, MIB, 3 * MIB + 17]) for number in range(280)]
    refs = [
        ray.put(array(number, size)) if number % 2 else make.remote(number, size) for number, size in enumerate(sizes)
    ]
    assert sum(sizes) > 350 * MIB
    chance = random.Random(1)
    for _ in range(600):
        number = chance.randrange(len(refs))
        assert is_array(ray.get(refs[number]), number, sizes[number])


def test_S1e_a_value_larger_than_the_store(small):
    size = 100 * MIB
    ref = ray.put(array(7, size))
    assert is_array(ray.get(ref), 7, size)
    assert ray.get(total.remote(ref)) == (7, 7, size)
    assert is_array(ray.get(make.remote(8, size)), 8, size)
    assert ray.get(total.remote(array(9, size))) == (9, 9, size)


def test_S1f_a_borrowed_ref_stays_readable_when_its_value_moves(small):
    holder = Holder.remote()
    refs = [make.remote(number) for number in range(6)] + [ray.put(array(number)) for number in range(6)]
    expected = [*range(6), *range(6)]
    assert ray.get(holder.hold.remote(refs)) == expected
    for _ in range(3):
        fill = [ray.put(array(number)) for number in range(20)]
        assert ray.get(holder.read.remote()) == expected
        del fill
    # The other way round: what an actor put is moved by the actor.
    ray.get(holder.put.remote(25))
    assert ray.get(holder.read.remote()) == list(range(25))


def test_S2a_a_file_goes_with_the_last_ref(small, wait_until):
    refs = [ray.put(array(number)) for number in range(30)] + [make.remote(number) for number in range(30)]
    views = [ray.get(ref) for ref in refs]
    assert small.files()
    del refs
    assert all(is_array(view, number % 30) for number, view in enumerate(views)), "who looks goes on"
    del views
    drop(until=lambda: not small.files(), wait_until=wait_until)


def test_S2b_files_of_an_actor_that_dies_go(small, wait_until):
    holder = Holder.remote()
    ray.get(holder.put.remote(30))
    assert small.files()
    ray.kill(holder)
    wait_until(lambda: not small.files(), what="files that go")


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGINT)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_S2c_files_go_with_the_driver(drivers, tmp_path, wait_until, end):
    code = f"""
    import signal
    import numpy as np
    ray.init(num_cpus=1, object_store_memory=20 << 20, object_spilling_directory={str(tmp_path)!r})
    refs = [ray.put(np.zeros(4 << 20, dtype=np.uint8)) for _ in range(20)]
    folder, = os.listdir({str(tmp_path)!r})
    print("files", len(os.listdir(os.path.join({str(tmp_path)!r}, folder))), flush=True)
    {end}
    """
    driver = drivers.start(code)
    assert int(driver.hear_until("files")) > 0
    driver.end()
    wait_until(lambda: not os.listdir(tmp_path), what="an empty folder")


def test_S2d_small_values_share_a_file(small):
    refs = [ray.put(array(number, 150_000)) for number in range(1_000)]
    files = small.files()
    assert len(files) < 100, "150 MB in values of 150 kB"
    assert all(is_array(ray.get(ref), number, 150_000) for number, ref in enumerate(refs))


def test_S2e_several_folders_are_used_in_turn(no_session, tmp_path):
    folders = [str(tmp_path / name) for name in ("one", "two", "three")]
    ray.init(num_cpus=1, object_store_memory=20 * MIB, object_spilling_directory=folders)
    refs = [ray.put(array(number)) for number in range(40)]
    for folder in folders:
        (session,) = os.listdir(folder)
        assert os.listdir(os.path.join(folder, session))
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    ray.shutdown()
    assert [os.listdir(folder) for folder in folders] == [[], [], []]


@pytest.mark.parametrize(
    "wrong",
    [
        {"object_spilling_directory": "relative/path"},
        {"object_spilling_directory": ["/tmp", 5]},
        {"object_spilling_directory": []},
        {"object_spilling_directory": "/proc/nothing/here"},
        {"_system_config": {"object_spilling_config": "{not json"}},
        {"_system_config": {"object_spilling_config": '{"type": "tape", "params": {}}'}},
        {"_system_config": {"object_spilling_config": '{"type": "filesystem", "params": {}}'}},
        {"_system_config": {"local_fs_capacity_threshold": "much"}},
        {"_system_config": {"local_fs_capacity_threshold": 1.5}},
    ],
)
def test_S2f_a_bad_setting_raises_before_anything_starts(no_session, wrong):
    with pytest.raises(ValueError, match=r"spill|local_fs_capacity_threshold"):
        ray.init(num_cpus=1, **wrong)
    assert not ray.is_initialized()


def test_S2g_which_setting_counts(no_session, tmp_path, monkeypatch):
    json = f'{{"type": "filesystem", "params": {{"directory_path": "{tmp_path}/json"}}}}'
    config = {"object_spilling_config": json}
    ray.init(num_cpus=1, _system_config=config)
    assert os.listdir(tmp_path) == ["json"]
    ray.shutdown()
    monkeypatch.setenv("RAY_object_spilling_directory", f"{tmp_path}/env")
    ray.init(num_cpus=1, _system_config=config)
    assert sorted(os.listdir(tmp_path)) == ["env", "json"]
    ray.shutdown()
    ray.init(num_cpus=1, _system_config=config, object_spilling_directory=f"{tmp_path}/given")
    assert os.listdir(tmp_path / "given")
    assert not os.listdir(tmp_path / "env")


def test_S3a_polling_gets_the_value_and_keeps_the_cpu(small):
    refs = [ray.put(array(number)) for number in range(30)]
    assert small.files()
    for number, ref in enumerate(refs):
        assert is_array(ray.get(ref, timeout=0), number)

    @ray.remote(num_cpus=2)
    def read(refs):
        free = set()
        for ref in refs:
            ray.get(ref)
            free.add(ray.available_resources().get("CPU", 0))
        return free

    assert ray.get(read.remote(refs)) == {0}


def test_S3b_S3c_a_full_disk_is_an_error_until_there_is_room(no_session, monkeypatch, wait_until):
    # Nothing may be written to a disk that may be filled to none of it.
    ray.init(num_cpus=1, object_store_memory=40 * MIB, _system_config={"local_fs_capacity_threshold": 0.0})
    refs = []
    with pytest.raises(OutOfDiskError):
        while len(refs) < 100:
            refs.append(ray.put(array(len(refs))))
    assert 5 <= len(refs) <= 10
    with pytest.raises(RayTaskError, match="object store is full") as caught:
        ray.get(make.remote(1))
    assert isinstance(caught.value.cause, OutOfDiskError)
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    del refs[:]
    gc.collect()
    assert is_array(ray.get(make.remote(3)), 3)
    assert is_array(ray.get(ray.put(array(4))), 4)


def test_two_drivers_share_a_full_store_and_a_killed_one_leaves_room(drivers, wait_until):
    started = drivers.command("start", "--head", "--num-cpus", "2", "--object-store-memory", str(40 * MIB))
    assert started.returncode == 0, started.stderr
    program = """
    import numpy as np
    ray.init(address="auto")
    refs = [ray.put(np.full(4 << 20, number, dtype=np.uint8)) for number in range(30)]
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(30))
    print("ready", flush=True)
    sys.stdin.readline()
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(30))
    """
    one, two = drivers.start(program), drivers.start(program)
    one.hear_until("ready")
    two.hear_until("ready")
    spill = [path / "spill" for path in drivers.folder.glob("session_*")]
    before = len(os.listdir(spill[0]))
    one.process.send_signal(signal.SIGKILL)
    wait_until(lambda: 0 < len(os.listdir(spill[0])) < before, what="files of the killed driver that go")
    two.say("go")
    code, _, err = two.end()
    assert code == 0, err
    wait_until(lambda: not os.listdir(spill[0]), what="no files")
