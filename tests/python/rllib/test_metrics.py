"""Episode statistics, logged values, and results with the keys of both eras."""

import math

import pytest

from eagleray.rllib.utils.metrics import MetricsLogger, _load
from eagleray.rllib.utils.metrics._episodes import EpisodeRecord, EpisodeStatistics
from eagleray.rllib.utils.metrics._results import Counters, Faults, Parts, Timers, result_of


def record(total, length=1, **more):
    return EpisodeRecord(total, length, agents={"default_agent": total}, policies={"default_policy": [total]}, **more)


def parts(**more):
    statistics = EpisodeStatistics(3)
    statistics.add([record(1.0, 10), record(2.0, 20), record(3.0, 30), record(4.0, 40)])
    counters = Counters()
    counters.add("env_steps_sampled", 100)
    counters.next_iteration()
    counters.add("env_steps_sampled", 50)
    counters.add("env_steps_trained", 40)
    timers = Timers()
    with timers.measure("learner_update_timer"):
        pass
    return Parts(statistics, counters, timers, Faults(healthy=2, restarts=1), {"lr": 1}, **more)


def test_means_are_over_the_window_and_counts_over_all():
    result = result_of(parts())
    assert result["episode_reward_mean"] == result["env_runners"]["episode_return_mean"] == 3.0
    assert (result["episode_reward_min"], result["episode_reward_max"]) == (2.0, 4.0)
    assert result["episode_len_mean"] == result["env_runners"]["episode_len_mean"] == 30.0
    assert (result["episodes_this_iter"], result["episodes_total"]) == (4, 4)
    assert result["hist_stats"] == {"episode_reward": [2.0, 3.0, 4.0], "episode_lengths": [20, 30, 40]}
    assert result["env_runners"]["num_episodes_lifetime"] == 4


def test_both_families_of_keys_are_there():
    said = {"policy_loss": 0.5, "mean_kl_loss": 0.25, "default_optimizer_learning_rate": 1e-3}
    result = result_of(parts(learners={"default_policy": said}, evaluation={"episode_reward_mean": 7}))
    assert (result["timesteps_this_iter"], result["timesteps_total"]) == (50, 150)
    assert result["num_env_steps_sampled_lifetime"] == 150
    assert result["learners"]["default_policy"] == said
    assert result["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] == 40
    old = result["info"]["learner"]["default_policy"]
    assert (old["policy_loss"], old["kl"], old["cur_lr"]) == (0.5, 0.25, 1e-3)
    assert old["learner_stats"]["kl"] == 0.25
    assert (result["info"]["num_steps_sampled"], result["info"]["num_steps_trained"]) == (150, 40)
    assert result["fault_tolerance"] == {
        "num_healthy_workers": 2,
        "num_in_flight_async_sample_reqs": 0,
        "num_remote_worker_restarts": 1,
        "num_env_restarts": 0,
    }
    assert {"learner_update_timer", "learn_time_ms"} <= result["timers"].keys()
    assert result["evaluation"]["episode_reward_mean"] == 7
    assert result["config"] == {"lr": 1}


def test_keys_that_only_some_versions_had():
    result = result_of(parts(load={"cpu_util_percent": 3.0}, rounds=5))
    assert result["sampler_results"]["episode_reward_mean"] == 3.0
    assert result["sampler_results"]["hist_stats"] == result["hist_stats"]
    assert result["num_steps_trained_this_iter"] == 40
    assert result["num_training_step_calls_per_iteration"] == 5
    assert result["perf"] == {"cpu_util_percent": 3.0}


def test_the_load_is_what_the_kernel_counted(tmp_path, monkeypatch):
    stat, memory = tmp_path / "stat", tmp_path / "meminfo"
    monkeypatch.setattr(_load, "_STAT", stat)
    monkeypatch.setattr(_load, "_MEMINFO", memory)
    assert _load.Load().percents() == {}, "not every system tells"
    stat.write_text("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1 1 1 1\n")
    memory.write_text("MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  250 kB\n")
    load = _load.Load()
    # 30 busy ones of 80. What guests use is counted in the first number already.
    stat.write_text("cpu  110 5 105 740 110 4 3 3 99 0\n")
    expected = {"cpu_util_percent": 37.5, "ram_util_percent": 75.0}
    monkeypatch.setattr(_load, "_GOOD_S", 1e9)
    assert load.percents() == expected
    memory.write_text("MemTotal:  1000 kB\nMemAvailable:  900 kB\n")
    assert load.percents() == expected, "it is not measured again at once"
    monkeypatch.setattr(_load, "_GOOD_S", 0.0)
    assert load.percents() == {"cpu_util_percent": 37.5, "ram_util_percent": pytest.approx(10.0)}


def test_several_policies_and_agents_have_means_of_their_own():
    statistics = EpisodeStatistics(10)
    statistics.add([EpisodeRecord(3.0, 5, agents={0: 1.0, 1: 2.0}, policies={"a": [1.0], "b": [2.0]})])
    assert statistics.old_keys()["policy_reward_mean"] == {"a": 1.0, "b": 2.0}
    assert statistics.old_keys()["hist_stats"]["policy_a_reward"] == [1.0]
    assert statistics.new_keys()["agent_episode_returns_mean"] == {"0": 1.0, "1": 2.0}
    assert statistics.new_keys()["module_episode_returns_mean"] == {"a": 1.0, "b": 2.0}


def test_before_the_first_episode_ended_there_is_no_mean():
    statistics = EpisodeStatistics(10)
    assert math.isnan(statistics.old_keys()["episode_reward_mean"])
    assert "episode_return_mean" not in statistics.new_keys()
    assert statistics.new_keys()["num_episodes"] == 0


def test_what_callbacks_wrote_into_episodes_is_summed_up():
    statistics = EpisodeStatistics(10)
    statistics.add(
        [record(1.0, custom={"angle": 1}, hist={"h": [1]}), record(1.0, custom={"angle": 3}, hist={"h": [2]})]
    )
    old = statistics.old_keys()
    assert old["custom_metrics"] == {"angle_mean": 2.0, "angle_min": 1.0, "angle_max": 3.0}
    assert old["hist_stats"]["h"] == [1, 2]
    assert statistics.old_keys(keep_custom=True)["custom_metrics"] == {"angle": [1, 3]}


def test_statistics_survive_a_checkpoint():
    statistics = EpisodeStatistics(3)
    statistics.add([record(1.0, 10), record(2.0, 20)])
    again = EpisodeStatistics(3)
    again.restore(statistics.state())
    assert again.old_keys()["episode_reward_mean"] == 1.5
    assert (again.lifetime, again.this_iteration) == (2, 0)


def test_logged_values_are_reduced_as_asked():
    logger = MetricsLogger()
    for value in (1.0, 2.0, 6.0):
        logger.log_value("mean", value)
        logger.log_value("last two", value, window=2)
        logger.log_value(("deep", "sum"), value, reduce="sum", clear_on_reduce=True)
        logger.log_value("most", value, reduce="max")
        logger.log_value("all", value, reduce=None)
    assert logger.peek("mean") == 3.0
    assert logger.peek(("deep", "sum")) == 9.0
    assert logger.peek("deep") == {"sum": 9.0}
    found = logger.reduce()
    assert found == {"mean": 3.0, "last two": 4.0, "deep": {"sum": 9.0}, "most": 6.0, "all": [1.0, 2.0, 6.0]}
    assert logger.reduce()["deep"] == {"sum": 0}
    with pytest.raises(KeyError):
        logger.peek("nothing")
    assert logger.peek("nothing", default=3) == 3
    with pytest.raises(ValueError, match="reduce"):
        logger.log_value("x", 1, reduce="median")


def test_what_one_logger_gives_away_another_takes():
    one, other = MetricsLogger(), MetricsLogger()
    one.log_value("a", 1.0)
    other.log_value("a", 3.0)
    other.take(one.logged())
    assert other.peek("a") == 2.0
    assert one.reduce() == {}
    with other.log_time("t"):
        pass
    assert other.peek("t") >= 0
    other.log_dict({"x": {"y": 1}}, reduce="sum")
    assert other.peek(("x", "y")) == 1
