"""Values that go to an object store behind a URL: rules S2h to S2n."""

import gc
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.python.s3 import BUCKET, KEY_ID, S3, SECRET

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import (
    GetTimeoutError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    OutOfDiskError,
    RaySystemError,
    RayTaskError,
)

pytestmark = pytest.mark.one_node("fills the store of the only node")

MIB = 1 << 20
URL = f"s3://{BUCKET}/some/where"


def array(number, size=4 * MIB):
    return np.full(size, number % 251, dtype=np.uint8)


def is_array(value, number, size=4 * MIB):
    return value.nbytes == size and value[0] == value[-1] == number % 251


@ray.remote
def make(number, size=4 * MIB):
    return array(number, size)


@ray.remote
def make_marked(signs, number):
    signs.set(f"made-{number}")
    return array(number)


@ray.remote
def total(value):
    return int(value[0]), int(value[-1]), value.nbytes


@ray.remote
def first_of(refs):
    return [int(ray.get(ref)[0]) for ref in refs]


@ray.remote
class Holder:
    def put(self, count):
        self.refs = [ray.put(array(number)) for number in range(count)]

    def make(self, count):
        self.made = [make.remote(number) for number in range(count)]
        return [int(value[0]) for value in ray.get(self.made)]

    def read(self):
        return [int(ray.get(ref)[0]) for ref in self.refs]


def tell(server, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environ().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3(monkeypatch, no_session):
    server = S3()
    tell(server, monkeypatch)
    yield server
    ray.shutdown()
    server.stop()
    assert not server.refused


@pytest.fixture
def bucket(s3):
    """A session with a store of 40 MiB that spills to the bucket."""
    ray.init(num_cpus=2, object_store_memory=40 * MIB, object_spilling_directory=URL)
    return s3


def empty(bucket, wait_until):
    gc.collect()
    wait_until(lambda: _native.tally() and not bucket.names(), what="an empty bucket")


def test_S2h_values_go_to_a_bucket_and_are_read_back(bucket, wait_until):
    refs = [ray.put(array(number)) for number in range(30)]
    made = [make.remote(number) for number in range(30)]
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(made))
    assert bucket.names(), "240 MiB in a store of 40"
    assert all(key.startswith("some/where/eagleray-session_") for key in bucket.names())
    # As arguments, and inside of other values.
    assert ray.get([total.remote(ref) for ref in refs[:10]]) == [(number, number, 4 * MIB) for number in range(10)]
    assert ray.get(first_of.remote(made[:10])) == list(range(10))
    # proves: S2i
    views = [ray.get(ref) for ref in refs[:5]]
    del refs[:], made[:]
    empty(bucket, wait_until)
    assert all(is_array(view, number) for number, view in enumerate(views)), "who looks goes on"


def test_S2h_values_of_an_actor_that_borrows_and_owns(bucket, wait_until):
    holder = Holder.remote()
    ray.get(holder.put.remote(25))
    assert bucket.names()
    assert ray.get(holder.read.remote()) == list(range(25))
    assert ray.get(holder.make.remote(15)) == list(range(15))
    # proves: S2i
    ray.kill(holder)
    wait_until(lambda: not bucket.names(), what="an empty bucket")


def test_S2h_values_larger_than_the_store_go_up_in_parts(bucket, wait_until):
    size = 100 * MIB
    ref = ray.put(array(7, size))
    assert sum("partNumber" in path for _, path in bucket.requests) > 5
    assert not bucket.uploads, "all are complete"
    view = ray.get(ref)
    assert is_array(view, 7, size)
    assert view.ctypes.data % 64 == 0
    made = make.remote(8, size)
    assert is_array(ray.get(made), 8, size)
    del ref, made
    empty(bucket, wait_until)


def test_S2h_refs_inside_a_value_that_lies_in_a_bucket_hold_theirs(bucket):
    @ray.remote
    def pair(refs):
        return [array(3), *refs, ray.put(array(4))]

    outer = [pair.remote([ray.put(array(number))]) for number in range(12)]
    ray.wait(outer, num_returns=12)
    filling = [ray.put(array(number)) for number in range(20)]
    for number, ref in enumerate(outer):
        values, given, put = ray.get(ref)
        assert is_array(values, 3)
        assert is_array(ray.get(given), number)
        assert is_array(ray.get(put), 4)
    del filling


def test_S2h_small_values_share_an_object(bucket):
    refs = [ray.put(array(number, 150_000)) for number in range(1_000)]
    assert 0 < len(bucket.names()) < 100
    assert all(is_array(ray.get(ref), number, 150_000) for number, ref in enumerate(refs) if number % 5 == 0)


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGINT)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_S2i_the_bucket_is_empty_after_the_session(s3, drivers, wait_until, end):
    code = f"""
    import signal
    import numpy as np
    ray.init(num_cpus=1, object_store_memory=20 << 20, object_spilling_directory={URL!r})
    refs = [ray.put(np.zeros(4 << 20, dtype=np.uint8)) for _ in range(20)]

    @ray.remote
    class Holder:
        def put(self):
            self.refs = [ray.put(np.zeros(4 << 20, dtype=np.uint8)) for _ in range(10)]

    holder = Holder.remote()
    ray.get(holder.put.remote())
    print("full", flush=True)
    sys.stdin.readline()
    {end}
    """
    driver = drivers.start(code)
    driver.hear_until("full")
    assert len(s3.names()) > 2
    s3.objects["some/where/else"] = b"not ours"
    driver.say("go")
    driver.end()
    wait_until(lambda: s3.names() == ["some/where/else"], what="a bucket without our objects")


@pytest.fixture
def certified(tmp_path):
    """A certificate for localhost, its key, and the certificate of who made it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
    openssl("req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    (tmp_path / "more").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "more"]
    openssl("x509", "-req", "-in", "request.pem", *signing, "-out", "cert.pem")
    return tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"


def test_S2h_values_travel_by_tls_to_who_is_certified(no_session, monkeypatch, certified):
    certificate, key, maker = certified
    server = S3(certificate, key)
    tell(server, monkeypatch)
    # proves: S2k
    with pytest.raises(ValueError, match="cannot spill objects to s3://"):
        ray.init(num_cpus=1, object_spilling_directory=URL)
    assert not server.requests, "nothing is told to a server that anyone could be"
    monkeypatch.setenv("SSL_CERT_FILE", str(maker))
    ray.init(num_cpus=1, object_store_memory=20 * MIB, object_spilling_directory=URL)
    refs = [ray.put(array(number)) for number in range(15)]
    assert server.names()
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    assert ray.get(total.remote(refs[0])) == (0, 0, 4 * MIB)
    ray.shutdown()
    assert not server.names()
    assert not server.refused
    server.stop()


def test_S2j_a_server_without_tls_needs_no_certificates(s3, monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    ray.init(num_cpus=1, object_store_memory=20 * MIB, object_spilling_directory=URL)
    refs = [ray.put(array(number)) for number in range(10)]
    assert s3.names()
    assert is_array(ray.get(refs[0]), 0)


@pytest.mark.parametrize(
    "config",
    [
        {"type": "smart_open", "params": {"uri": f"s3://{BUCKET}/one"}},
        {"type": "smart_open", "params": {"uri": [f"s3://{BUCKET}/one/", f"s3://{BUCKET}/two"], "buffer_size": 1}},
    ],
)
def test_S2j_the_settings_that_name_a_bucket(s3, config):
    import json

    ray.init(num_cpus=1, object_store_memory=20 * MIB, _system_config={"object_spilling_config": json.dumps(config)})
    refs = [ray.put(array(number)) for number in range(20)]
    uris = config["params"]["uri"]
    expected = {"one", "two"} if isinstance(uris, list) else {"one"}
    assert {key.split("/")[0] for key in s3.names()} == expected
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    ray.shutdown()
    assert not s3.names()


def test_a_session_without_a_url_has_no_thread_for_one(no_session, wait_until):
    def names():
        threads = f"/proc/{os.getpid()}/task"
        return {(Path(threads) / thread / "comm").read_text().strip() for thread in os.listdir(threads)}

    # Those of earlier sessions end when nothing is left that uses them.
    wait_until(lambda: "eagleray-far" not in names(), what="no client of an earlier session")
    ray.init(num_cpus=1, object_store_memory=20 * MIB)
    refs = [ray.put(array(number)) for number in range(10)]
    assert is_array(ray.get(refs[0]), 0)
    assert "eagleray-spill" in names()
    assert "eagleray-far" not in names()


def test_S2j_a_file_url_is_a_folder(no_session, tmp_path):
    ray.init(num_cpus=1, object_store_memory=20 * MIB, object_spilling_directory=f"file://{tmp_path}/a%20b")
    refs = [ray.put(array(number)) for number in range(10)]
    (session,) = os.listdir(tmp_path / "a b")
    assert os.listdir(tmp_path / "a b" / session)
    assert is_array(ray.get(refs[0]), 0)


@pytest.mark.parametrize(
    "url",
    [
        "gs://bucket/x",
        "s3://",
        "s3:///prefix",
        f"s3://{KEY_ID}:{SECRET}@bucket/x",
        "s3://bucket/x?region=y",
        "s3://bucket/a//b",
        "s3://bucket/../x",
        "file://elsewhere/x",
    ],
)
def test_S2k_a_url_that_cannot_be_meant_raises(s3, url):
    with pytest.raises(ValueError, match="spill") as caught:
        ray.init(num_cpus=1, object_spilling_directory=url)
    assert SECRET not in str(caught.value)
    assert not ray.is_initialized()
    assert not s3.requests


@pytest.mark.parametrize("fault", ["denied", "gone", "no bucket"])
def test_S2k_a_bucket_that_cannot_be_used_raises_before_anything_starts(s3, fault, private_folder):
    url = URL
    if fault == "denied":
        s3.is_denied = True
    elif fault == "gone":
        s3.stop()
    else:
        url = "s3://another/some/where"
    before = set(os.listdir(private_folder))
    with pytest.raises(ValueError, match="cannot spill objects to s3://") as caught:
        ray.init(num_cpus=1, object_spilling_directory=url)
    assert url in str(caught.value)
    assert KEY_ID not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert not ray.is_initialized()
    assert set(os.listdir(private_folder)) == before
    assert not s3.names()


def test_S2l_a_server_that_fails_a_few_times_is_asked_again(bucket):
    bucket.faults = 3
    refs = [ray.put(array(number)) for number in range(15)]
    bucket.faults = 3
    assert all(is_array(ray.get(ref), number) for number, ref in enumerate(refs))
    assert not bucket.faults


def test_S2m_a_server_that_is_gone_is_a_full_disk_for_who_writes_and_a_loss_for_who_reads(bucket):
    refs = [ray.put(array(number)) for number in range(20)]
    assert bucket.names()
    bucket.stop()
    with pytest.raises(OutOfDiskError) as caught:
        for number in range(20):
            refs.append(ray.put(array(number)))
    assert URL in str(caught.value)
    assert SECRET not in str(caught.value)
    lost = 0
    for ref in refs[:20]:
        try:
            ray.get(ref, timeout=30)
        except ObjectLostError:
            lost += 1
        if lost:
            break
    assert lost


def test_S2m_a_task_whose_result_finds_no_room_fails(bucket):
    holding = [ray.put(array(number, 3 * MIB)) for number in range(10)]
    looking = [ray.get(ref) for ref in holding]
    bucket.stop()
    with pytest.raises(RayTaskError, match="Connection refused") as caught:
        ray.get(make.remote(1, 60 * MIB))
    assert isinstance(caught.value.cause, OutOfDiskError)
    assert len(looking) == 10


def test_S2m_a_server_that_does_not_answer_holds_nobody_for_ever(bucket, monkeypatch, wait_until):
    # Whoever puts after the end of the session is not to start one.
    monkeypatch.setenv("RAY_ENABLE_AUTO_CONNECT", "0")
    refs = [ray.put(array(number)) for number in range(20)]
    assert bucket.names()
    bucket.goes_on.clear()
    with pytest.raises(GetTimeoutError):
        ray.get(refs, timeout=0.1)

    def put():
        with pytest.raises(RaySystemError, match="has not been started yet") as caught:
            for _ in range(20):
                refs.append(ray.put(array(1)))
        errors.append(caught.value)

    errors = []
    putting = threading.Thread(target=put)
    putting.start()
    wait_until(lambda: "PUT" in bucket.held, what="a value on its way")
    ray.shutdown()
    putting.join()
    assert errors


def test_S2i_the_objects_of_a_killed_driver_go_and_the_rest_with_the_daemon(s3, drivers, monkeypatch, wait_until):
    monkeypatch.setenv("RAY_object_spilling_directory", URL)
    started = drivers.command("start", "--head", "--num-cpus", "2", "--object-store-memory", str(40 * MIB))
    assert started.returncode == 0, started.stderr
    program = """
    import numpy as np
    ray.init(address="auto")
    refs = [ray.put(np.full(4 << 20, number, dtype=np.uint8)) for number in range(20)]
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(20))
    print("ready", flush=True)
    sys.stdin.readline()
    assert [int(ray.get(ref)[-1]) for ref in refs] == list(range(20))
    print("read", flush=True)
    sys.stdin.readline()
    """
    one, two = drivers.start(program), drivers.start(program)
    one.hear_until("ready")
    two.hear_until("ready")
    before = len(s3.names())
    one.process.send_signal(signal.SIGKILL)
    wait_until(lambda: 0 < len(s3.names()) < before, what="objects of the killed driver that go")
    two.say("go")
    two.hear_until("read")
    assert s3.names()
    stopped = drivers.command("stop")
    assert stopped.returncode == 0, stopped.stderr
    wait_until(lambda: not s3.names(), what="an empty bucket")


@pytest.mark.parametrize("how", ["lose", "damage"])
def test_S2n_a_lost_or_damaged_object_is_made_again(bucket, signs, how):
    ref = make_marked.remote(signs, 7)
    assert ray.get(ref)[0] == 7
    put = ray.put(array(9))
    gc.collect()
    filling = [ray.put(array(0)) for _ in range(20)]
    getattr(bucket, how)()
    assert (ray.get(ref) == 7).all()
    assert signs.count("made-7") == 2
    with pytest.raises(ObjectReconstructionFailedError, match="no task can make it again"):
        ray.get(put)
    del filling


@pytest.mark.parametrize("how", ["lose", "damage"])
def test_S2n_an_argument_is_made_again(bucket, signs, how):
    ref = make_marked.remote(signs, 7)
    assert ray.get(ref)[0] == 7
    gc.collect()
    filling = [ray.put(array(0)) for _ in range(20)]
    getattr(bucket, how)()
    assert ray.get(total.remote(ref)) == (7, 7, 4 * MIB)
    assert ray.get(first_of.remote([ref])) == [7]
    assert signs.count("made-7") == 2
    del filling


@ray.remote
def same(value):
    return value


@pytest.mark.parametrize("who_misses_it", ["a call", "a borrower"])
def test_S2n_others_are_served_while_a_lost_object_is_looked_for(bucket, signs, wait_until, who_misses_it):
    # Its owner looked for itself whether the object was lost, for three seconds where the bucket did not answer, and held a lock meanwhile: no
    # other thread got, put or called anything.
    ref = make_marked.remote(signs, 7)
    assert ray.get(ref)[0] == 7
    gc.collect()
    filling = [ray.put(array(0)) for _ in range(20)]
    assert ray.get([same.remote(number) for number in range(4)]) == [0, 1, 2, 3]
    bucket.lose()
    # The worker hears that there is no such object; the driver, who looks next, hears nothing.
    bucket.reads_left = 1
    waiting = total.remote(ref) if who_misses_it == "a call" else first_of.remote([ref])
    wait_until(lambda: "GET" in bucket.held, what="a look at the bucket")
    assert ray.get(same.remote(1)) == 1
    assert ray.get(ray.put(2)) == 2
    assert signs.count("made-7") == 1, (
        "they were served only when the look was over, and the object was being made again"
    )
    bucket.goes_on.set()
    assert ray.get(waiting) == ((7, 7, 4 * MIB) if who_misses_it == "a call" else [7])
    del filling
