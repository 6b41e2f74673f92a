"""What programs look at beside their results: loggers, metrics, progress, memory."""

import json
import logging

import pytest

import eagleray as ray
from eagleray.experimental import tqdm_ray
from eagleray.util.metrics import Counter, Gauge, Histogram
from eagleray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)

LOGS = """
ray.init(num_cpus=1, logging_config=ray.LoggingConfig(encoding={encoding!r}, additional_log_standard_attrs=["name"]))
import logging

@ray.remote
def say():
    logging.getLogger("task").info("hello from a task")
    logging.getLogger("task").debug("not to be seen")
    return ray.get_runtime_context().get_task_id()

@ray.remote
class Actor:
    def say(self):
        try:
            1 / 0
        except ZeroDivisionError:
            logging.getLogger("actor").exception("it failed")

print(ray.get(say.remote()))
ray.get(Actor.options(name="speaker").remote().say.remote())
logging.getLogger("driver").info("hello from the driver")
"""


def test_X5a_loggers_write_text_with_the_ids_of_the_task(drivers):
    out, err = drivers.run(LOGS.format(encoding="TEXT"))
    (said,) = [line for line in err.splitlines() if "hello from a task" in line]
    assert " INFO <string>:" in said.replace("\t", " ")
    assert f"task_id={out.splitlines()[0]}" in said
    assert "task_name=say" in said
    assert "name=task" in said
    assert "hello from the driver name=driver" in err
    assert "ZeroDivisionError" in err
    assert "not to be seen" not in err


def test_X5a_loggers_write_json(drivers):
    out, err = drivers.run(LOGS.format(encoding="JSON"))
    lines = [json.loads(line[line.index("{") :]) for line in err.splitlines() if '"message"' in line]
    by_message = {line["message"]: line for line in lines}
    said = by_message["hello from a task"]
    assert (said["levelname"], said["name"], said["task_id"]) == ("INFO", "task", out.splitlines()[0])
    assert by_message["it failed"]["actor_name"] == "speaker"
    assert "ZeroDivisionError" in by_message["it failed"]["exc_text"]
    assert "task_id" not in by_message["hello from the driver"]


def test_X5a_a_configuration_is_checked():
    with pytest.raises(ValueError, match="Invalid encoding type: XML"):
        ray.LoggingConfig(encoding="XML")
    with pytest.raises(ValueError, match="Unknown python logging standard attribute: nothing"):
        ray.LoggingConfig(additional_log_standard_attrs=["nothing"])
    config = ray.LoggingConfig(log_level="DEBUG")
    assert ray.LoggingConfig.from_dict({**config.to_dict(), "unknown": 1}) == config
    assert not [handler for handler in logging.getLogger().handlers if "eagleray" in type(handler.formatter).__module__]


def test_X5b_counters_gauges_and_histograms_keep_what_is_recorded():
    counter = Counter("requests", description="how many", tag_keys=("route",))
    counter.inc(2, tags={"route": "/a"})
    counter.inc(tags={"route": "/a", "more": "allowed"})
    counter.inc(tags={"route": "/a"})
    assert counter.recorded == {(("route", "/a"),): 3.0, (("more", "allowed"), ("route", "/a")): 1.0}
    gauge = Gauge("level", tag_keys=("who",)).set_default_tags({"who": "me"})
    gauge.set(3)
    gauge.set(None)
    gauge.set(1.5)
    assert gauge.recorded == {(("who", "me"),): 1.5}
    histogram = Histogram("seconds", boundaries=[1, 10])
    for value in (0.5, 1, 5, 100):
        histogram.observe(value)
    assert histogram.recorded == {(): [2, 1, 1]}
    assert counter.info == {"name": "requests", "description": "how many", "tag_keys": ("route",), "default_tags": {}}


def test_X5b_metrics_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="Empty name"):
        Counter("")
    with pytest.warns(UserWarning, match="invalid characters"):
        Counter("a name")
    with pytest.raises(TypeError, match="tag_keys should be a tuple"):
        Counter("a", tag_keys=["b"])
    counter = Counter("a", tag_keys=("b",))
    with pytest.raises(ValueError, match="value must be >0"):
        counter.inc(0, tags={"b": "c"})
    with pytest.raises(ValueError, match=r"Missing value for tag key\(s\): b"):
        counter.inc()
    with pytest.raises(TypeError, match="Tag values must be str"):
        counter.inc(tags={"b": 1})
    with pytest.raises(ValueError, match="Unrecognized tag key"):
        counter.set_default_tags({"c": "d"})
    with pytest.raises(ValueError, match="boundaries argument should be provided"):
        Histogram("h")
    with pytest.raises(ValueError, match="Invalid `boundaries`"):
        Histogram("h", boundaries=[0, 1])


def test_X5b_a_metric_may_be_passed_to_tasks(shared_ray):
    counter = Counter("calls", tag_keys=("where",)).set_default_tags({"where": "there"})

    @ray.remote
    def count(metric):
        metric.inc()
        return metric.recorded

    assert ray.get(count.remote(counter)) == {(("where", "there"),): 1.0}
    assert counter.recorded == {}


def test_X5c_a_bar_is_shown_in_the_driver(capsys, no_session):
    assert list(tqdm_ray.tqdm(range(3), desc="here")) == [0, 1, 2]
    assert capsys.readouterr().err == "here: 100%|####################| 3/3 it\n"
    bar = tqdm_ray.tqdm(total=4, unit="files")
    bar.update(2)
    bar.set_description("half")
    bar.close()
    bar.close()
    assert (bar.n, bar.total) == (2, 4)
    assert capsys.readouterr().err == "half:  50%|##########          | 2/4 files\n"


def test_X5c_a_workers_bar_is_lines_of_its_output(drivers):
    program = """
    ray.init(num_cpus=1)
    from eagleray.experimental.tqdm_ray import tqdm

    @ray.remote
    def work():
        for _ in tqdm(range(2), desc="there", flush_interval_s=0):
            pass

    ray.get(work.remote())
    """
    out, _ = drivers.run(program)
    lines = [line.partition(") ")[2] for line in out.splitlines()]
    assert lines == ["there:  50%|##########          | 1/2 it", "there: 100%|####################| 2/2 it"]


def test_X5d_memory_summary_tells_of_objects(shared_ray):
    held = ray.put(b"x" * 300_000)
    summary = ray._private.internal_api.memory_summary()
    assert held.hex() in summary
    assert "object store:" in summary
    assert held.hex() not in ray._private.internal_api.memory_summary(stats_only=True)
    assert "object store:" in ray._private.internal_api.memory_summary(stats_only=True)
    assert len(ray._private.internal_api.memory_summary(num_entries=0)) < len(summary)


def test_X5e_log_once_says_yes_once():
    ray.util.debug.reset_log_once()
    assert [ray.util.log_once("a"), ray.util.log_once("a"), ray.util.log_once("b")] == [True, False, True]
    ray.util.debug.reset_log_once("a")
    assert [ray.util.log_once("a"), ray.util.log_once("b")] == [True, False]
    ray.util.debug.reset_log_once()


def test_X5f_strategies_by_labels_check_what_they_are_given(shared_ray):
    strategy = NodeLabelSchedulingStrategy({"zone": In("a", "b"), "gpu": Exists()}, soft={"old": DoesNotExist()})
    assert (strategy.hard["zone"].values, list(strategy.soft)) == (["a", "b"], ["old"])
    for bad, text in [
        (lambda: NodeLabelSchedulingStrategy({}), "cannot both be empty"),
        (lambda: NodeLabelSchedulingStrategy(["zone"]), "must be a map"),
        (lambda: NodeLabelSchedulingStrategy({"zone": "a"}), "must be one of the `In`, `NotIn`, `Exists`"),
        (lambda: In(), "must be a non-empty tuple"),
        (lambda: NotIn(1), "must be str"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()
    with pytest.raises(ValueError, match="Invalid node_id"):
        ray.remote(lambda: None).options(scheduling_strategy=NodeAffinitySchedulingStrategy("zz", soft=False)).remote()
