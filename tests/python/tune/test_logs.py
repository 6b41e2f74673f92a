"""The files of a trial: each read back by somebody else's reader, or one written here for it."""

import csv
import json
import math
import os
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagleray._native import tune as native

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def _logs(folder, **kinds):
    return native.TrialLogs(folder, **{"csv": True, "json": True, "tensorboard": True, **kinds})


@settings(max_examples=150, deadline=None)
@given(result=st.dictionaries(st.text(), _PLAIN, max_size=6))
def test_the_line_is_what_python_writes(result):
    # proves: N8b
    line = native.TrialLogs("", csv=False, json=False, tensorboard=False).result(result)
    # Python's own reader has the last word; a lone half of a pair of code units is no text.
    assert line.decode() == json.dumps(result)


@settings(max_examples=150, deadline=None)
@given(number=st.floats())
def test_numbers_are_written_as_python_writes_them(number):
    line = native.TrialLogs("", csv=False, json=False, tensorboard=False).result({"x": number})
    assert line.decode() == json.dumps({"x": number})


def test_numpy_and_odd_values(tmp_path):
    # proves: N8b
    class Odd:
        def __str__(self):
            return "odd"

    class Worse:
        def __str__(self):
            raise RuntimeError("never shown")

    result = {
        "f32": np.float32(0.5),
        "f64": np.float64(0.1),
        "i64": np.int64(-3),
        "bool": np.bool_(True),
        "array": np.arange(4).reshape(2, 2),
        "nan": float("nan"),
        "inf": np.float32("-inf"),
        "big": 10**30,
        "tuple": (1, "a"),
        "odd": Odd(),
        "set": {1},
        3: "a number as key",
        "none": None,
    }
    result["self"] = {"deeper": [Odd()]}
    logs = _logs(tmp_path)
    line = json.loads(logs.result(result))
    logs.close()
    assert line["f32"] == 0.5
    assert line["f64"] == 0.1
    assert line["i64"] == -3
    assert line["bool"] is True
    assert line["array"] == [[0, 1], [2, 3]]
    assert math.isnan(line["nan"])
    assert line["inf"] == -math.inf
    assert line["big"] == 10**30
    assert line["tuple"] == [1, "a"]
    assert line["odd"] == "odd"
    assert line["set"] == "{1}"
    assert line["3"] == "a number as key"
    assert line["none"] is None
    assert line["self"] == {"deeper": ["odd"]}
    endless = {}
    endless["me"] = endless
    plain = native.TrialLogs("", csv=False, json=False, tensorboard=False)
    assert plain.result(endless).startswith(b'{"me": {"me": ')
    assert b"Worse" in plain.result({"x": Worse()})


def test_the_table_is_read_by_pythons_csv(tmp_path):
    # proves: N8a
    logs = _logs(tmp_path)
    logs.result(
        {"loss": 0.25, "say": 'a, "b"\nc', "deep": {"x": 1, "y": {"z": None}}, "l": [1, "two"]},
        {"trial_id": "t", "config": {"lr": 1}},
    )
    logs.result({"loss": float("nan"), "new": 1}, {"trial_id": "t"})
    logs.flush()
    with open(tmp_path / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"loss": "0.25", "say": 'a, "b"\nc', "deep/x": "1", "deep/y/z": "", "l": "[1, 'two']", "trial_id": "t"},
        {"loss": "nan", "say": "", "deep/x": "", "deep/y/z": "", "l": "", "trial_id": "t"},
    ]


def test_static_fields_are_in_every_line_and_results_win(tmp_path):
    logs = _logs(tmp_path, tensorboard=False)
    static = {"trial_id": "a", "config": {"lr": 0.1}, "loss": 99}
    first = json.loads(logs.result({"loss": 1}, static))
    second = json.loads(logs.result({"loss": 2}, static))
    third = json.loads(logs.result({"loss": 3}, {"trial_id": "b"}))
    fourth = json.loads(logs.result({"loss": 4}))
    assert first == {"loss": 1, "trial_id": "a", "config": {"lr": 0.1}}
    assert second == {**first, "loss": 2}
    assert third == {"loss": 3, "trial_id": "b"}
    assert fourth == {"loss": 4}
    logs.close()
    with pytest.raises(ValueError, match="closed"):
        logs.result({"loss": 5})
    logs.close()
    logs.flush()
    assert [json.loads(line)["loss"] for line in (tmp_path / "result.json").open()] == [1, 2, 3, 4]


def test_a_run_that_was_killed_is_gone_on_with(tmp_path):
    logs = _logs(tmp_path)
    logs.result({"loss": 1, "x": 2})
    logs.close()
    for name in ("result.json", "progress.csv"):
        with open(tmp_path / name, "a") as file:
            file.write("half a li")
    logs = _logs(tmp_path)
    logs.result({"x": 3, "loss": 4})
    logs.close()
    assert [json.loads(line) for line in (tmp_path / "result.json").open()] == [
        {"loss": 1, "x": 2},
        {"x": 3, "loss": 4},
    ]
    assert (tmp_path / "progress.csv").read_text() == "loss,x\n1,2\n4,3\n"
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
    logs = _logs(tmp_path, fresh=True)
    logs.result({"y": 1})
    logs.close()
    assert (tmp_path / "progress.csv").read_text() == "y\n1\n"
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1


def test_a_full_disk_is_an_oserror_that_names_the_file(tmp_path):
    # proves: N8m
    code = textwrap.dedent("""
        import json, resource, sys
        from eagleray._native import tune
        logs = tune.TrialLogs(sys.argv[1], csv=False, json=True, tensorboard=False)
        logs.result({"n": 0}); logs.flush()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        for n in range(1, 30):
            logs.result({"n": n})
        try:
            logs.flush()
            told = None
        except OSError as error:
            told = [str(error.filename), error.errno]
        size = len(open(sys.argv[1] + "/result.json").read())
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        logs.close()
        print(json.dumps([told, size]))
    """)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    told, size = json.loads(done.stdout)
    assert told == [str(tmp_path / "result.json"), 27]
    assert size == len('{"n": 0}\n')
    assert [json.loads(line)["n"] for line in (tmp_path / "result.json").open()] == list(range(30))


def test_more_trials_than_files_may_be_open(tmp_path):
    trials = []
    for number in range(400):
        folder = tmp_path / str(number)
        folder.mkdir()
        trials.append(_logs(folder))
    for iteration in range(1, 3):
        for logs in trials:
            logs.result({"training_iteration": iteration, "loss": 1.0})
            logs.flush()
    assert len(os.listdir("/proc/self/fd")) < 300
    for number in range(400):
        assert (tmp_path / str(number) / "progress.csv").read_text() == "training_iteration,loss\n1,1.0\n2,1.0\n"


# Event files.


def _crc32c(data):
    """Bit by bit, from the polynomial: shares nothing with what wrote the file."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _masked(data):
    crc = _crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def _fields(data):
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = struct.unpack_from("<d", data, at)[0], at + 8
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = struct.unpack_from("<f", data, at)[0], at + 4
            case other:
                raise AssertionError(f"wire type {other}")
        yield key >> 3, value


def _events(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == _masked(data[at : at + 8])
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == _masked(body)
        at += 16 + length
        event = {"values": {}, "step": 0}
        for field, value in _fields(body):
            if field == 1:
                event["time"] = value
            elif field == 2:
                event["step"] = value
            elif field == 3:
                event["version"] = value.decode()
            elif field == 5:
                for _, part in _fields(value):
                    parts = dict(_fields(part))
                    event["values"][parts[1].decode()] = parts.get(2, parts.get(9))
        yield event


def _write_events(folder):
    logs = _logs(folder, csv=False, json=False)
    for iteration in range(1, 4):
        logs.result(
            {
                "training_iteration": iteration,
                "loss": 1 / iteration,
                "info": {"lr": np.float32(0.5), "note": "text"},
                "nan": float("nan"),
                "pid": 7,
            }
        )
    logs.hparams({"lr": 0.5, "net": "small", "deep": {"on": True}})
    logs.close()
    (file,) = folder.glob("events.out.tfevents.*")
    return file


def test_event_files_have_the_format(tmp_path):
    # proves: N8c
    file = _write_events(tmp_path)
    assert file.name.split(".", 4)[4] == os.uname().nodename
    head, *events, hparams = _events(file)
    assert head["version"] == "brain.Event:2"
    assert [event["step"] for event in events] == [1, 2, 3]
    assert events[1]["values"] == {"ray/tune/loss": 0.5, "ray/tune/info/lr": 0.5}
    (told,) = hparams["values"].items()
    assert told[0] == "_hparams_/session_start_info"
    assert b"hparams" in told[1]
    assert b"small" in told[1]
    assert b"deep/on" in told[1]


def test_tensorboard_reads_the_event_files(tmp_path):
    # proves: N8c
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    _write_events(tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["ray/tune/info/lr", "ray/tune/loss"]
    assert [(one.step, one.value) for one in events.Scalars("ray/tune/loss")][:2] == [(1, 1.0), (2, 0.5)]
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    told = plugin.HParamsPluginData.FromString(content).session_start_info.hparams
    assert told["lr"].number_value == 0.5
    assert told["net"].string_value == "small"
    assert told["deep/on"].bool_value is True
