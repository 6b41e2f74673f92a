"""The journal from Python: what is written is read, whoever dies, whatever is full."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagleray._native import tune as native
from eagleray.tune.error import JournalDamaged, JournalError, JournalLocked, TuneError

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.eagleray"


def test_events_come_back_in_order(path):
    with native.Journal(path) as journal:
        journal.append("experiment", {"name": "a", "metric": None})
        journal.append("trial", {"number": 0, "config": {"lr": 0.1, "deep": {"x": [1, 2]}}})
        journal.append_result(0, b'{"loss": NaN}')
        journal.append("something else", {"y": True})
        journal.append(200, {"z": 1})
        journal.flush()
        seen = list(journal.events())
    assert seen[:2] == [
        ("experiment", {"name": "a", "metric": None}),
        ("trial", {"number": 0, "config": {"lr": 0.1, "deep": {"x": [1, 2]}}}),
    ]
    assert seen[2][:2] == ("result", 0)
    assert math.isnan(seen[2][2]["loss"])
    assert seen[3:] == [("something else", {"y": True}), (200, {"z": 1})]
    assert len(native.read_journal(path)) == 5


@settings(max_examples=60, deadline=None)
@given(events=st.lists(st.tuples(st.text(min_size=1, max_size=20), st.dictionaries(st.text(), _PLAIN, max_size=4))))
def test_any_event_is_read_as_it_was_written(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("journal") / "j"
    events = [(kind, fields) for kind, fields in events if kind != "result"]
    with native.Journal(path) as journal:
        for kind, fields in events:
            journal.append(kind, fields)
    assert list(native.read_journal(path)) == events


def test_nothing_is_written_before_flush_and_everything_at_close(path):
    journal = native.Journal(path)
    journal.append("trial", {"number": 1})
    assert len(native.read_journal(path)) == 0
    assert native.read_journal(path).writer_pid == os.getpid()
    journal.close()
    journal.close()
    assert len(native.read_journal(path)) == 1
    assert native.read_journal(path).writer_pid is None
    with pytest.raises(JournalError, match="closed"):
        journal.append("trial", {})


def test_misuse_is_told(path):
    with native.Journal(path) as journal:
        with pytest.raises(ValueError, match="append_result"):
            journal.append("result", {})
        with pytest.raises(ValueError, match="give the name"):
            journal.append(3, {})
        with pytest.raises(OverflowError, match="out of range"):
            journal.append(256, {})
        with pytest.raises(TypeError, match="'float' object"):
            journal.append(1.5, {})
        with pytest.raises(ValueError, match="255 bytes"):
            journal.append("k" * 256, {})
    assert len(native.read_journal(path)) == 0


def test_a_second_program_is_told_who_works_on_the_experiment(path):
    # proves: N8k
    code = textwrap.dedent("""
        import sys
        from eagleray._native import tune
        journal = tune.Journal(sys.argv[1])
        print("open", flush=True)
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", code, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(JournalLocked, match=f"another program, pid {holder.pid}, works on this experiment") as raised:
        native.Journal(path)
    assert raised.value.pid == holder.pid
    assert isinstance(raised.value, TuneError)
    holder.kill()
    holder.communicate()
    native.Journal(path).close()


def test_a_killed_writer_loses_nothing_that_was_flushed(path):
    # proves: N8l
    code = textwrap.dedent("""
        import sys
        from eagleray._native import tune
        journal = tune.Journal(sys.argv[1])
        for number in range(100_000_000):
            journal.append_result(number % 7, b'{"n": %d}' % number)
            if number % 10 == 9:
                journal.flush()
                sys.stdout.write(f"{number}\\n")
                sys.stdout.flush()
    """)
    for lines in (1, 37, 400):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        last = -1
        for _ in range(lines):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        last = max([last, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))])
        journal = native.Journal(path)
        numbers = [fields["n"] for _, _, fields in journal.events()]
        journal.close()
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last


def test_a_torn_tail_is_reported_and_cut(path):
    # proves: N8l
    with native.Journal(path) as journal:
        journal.append("trial", {"number": 0})
        journal.append("trial", {"number": 1})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    reader = native.read_journal(path)
    assert reader.torn_bytes > 0
    assert reader.damaged_at is None
    assert [fields["number"] for _, fields in reader] == [0]
    with native.Journal(path) as journal:
        assert journal.torn_bytes == reader.torn_bytes
        journal.append("trial", {"number": 2})
    assert [fields["number"] for _, fields in native.read_journal(path)] == [0, 2]


def test_damage_in_the_middle_names_its_place(path):
    # proves: N8l
    with native.Journal(path) as journal:
        for number in range(10):
            journal.append("trial", {"number": number})
    data = bytearray(path.read_bytes())
    at = data.index(b'{"number": 4}')
    data[at + 11] = ord("5")
    path.write_bytes(data)
    with pytest.raises(JournalDamaged, match="damaged at byte") as raised:
        native.read_journal(path)
    assert at - 20 < raised.value.offset < at
    with pytest.raises(JournalDamaged):
        native.Journal(path)
    reader = native.read_journal(path, until_damage=True)
    assert reader.damaged_at == raised.value.offset
    assert [fields["number"] for _, fields in reader] == [0, 1, 2, 3]
    assert path.read_bytes() == data


def test_missing_files_and_other_files(tmp_path, path):
    with pytest.raises(FileNotFoundError):
        native.Journal(path, create=False)
    with pytest.raises(FileNotFoundError):
        native.read_journal(path)
    assert not path.exists()
    other = tmp_path / "notes.txt"
    other.write_text("remember the milk")
    with pytest.raises(JournalError, match="not a journal"):
        native.Journal(other)
    assert other.read_text() == "remember the milk"


def test_a_full_disk_leaves_whole_events_and_can_be_tried_again(tmp_path, path):
    """The limit on a file's size stands for the disk: the write that reaches it is cut short, as on a full disk."""
    # proves: N8m
    code = textwrap.dedent("""
        import errno, json, resource, sys
        from eagleray._native import tune
        from eagleray.tune.error import JournalError
        path = sys.argv[1]
        journal = tune.Journal(path)
        journal.append("trial", {"number": 0})
        journal.flush()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        for number in range(1, 50):
            journal.append("trial", {"number": number, "note": "x" * 20})
        told = None
        try:
            journal.flush()
        except JournalError as error:
            told = [str(error), error.__cause__.errno]
        full = [fields["number"] for _, fields in tune.read_journal(path)]
        torn = tune.read_journal(path).torn_bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.flush()
        journal.close()
        after = [fields["number"] for _, fields in tune.read_journal(path)]
        print(json.dumps([told, full, torn, after]))
    """)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    told, full, torn, after = json.loads(done.stdout)
    assert told[1] == errno.EFBIG
    assert "cannot write" in told[0]
    assert str(path) in told[0]
    assert "at byte" in told[0]
    assert full == [0]
    assert torn == 0
    assert after == list(range(50))


def test_ten_thousand_trials_are_read(path):
    config = {"lr": 0.001, "layers": [64, 64], "act": "relu"}
    with native.Journal(path) as journal:
        for number in range(10_000):
            journal.append("trial", {"number": number, "id": f"{number:05d}", "config": config, "params": config})
            journal.append("status", {"number": number, "status": "RUNNING"})
            journal.append_result(number, b'{"loss": 0.5, "training_iteration": 1, "done": true}')
            journal.append("status", {"number": number, "status": "TERMINATED"})
    counts = {}
    for kind, *_ in native.read_journal(path):
        counts[kind] = counts.get(kind, 0) + 1
    assert counts == {"trial": 10_000, "status": 20_000, "result": 10_000}
