"""The names that settings had through the years, and how values of older forms become those of today."""

from __future__ import annotations

from typing import Any

from eagleray._common.near import hint

#: Older name -> today's.
RENAMED: dict[str, str] = {
    "framework": "framework_str",
    "callbacks": "callbacks_class",
    "input": "input_",
    "lambda": "lambda_",
    "num_workers": "num_env_runners",
    "num_rollout_workers": "num_env_runners",
    "num_envs_per_worker": "num_envs_per_env_runner",
    "num_cpus_per_worker": "num_cpus_per_env_runner",
    "num_gpus_per_worker": "num_gpus_per_env_runner",
    "custom_resources_per_worker": "custom_resources_per_env_runner",
    "num_cpus_for_driver": "num_cpus_for_main_process",
    "num_cpus_for_local_worker": "num_cpus_for_main_process",
    "create_env_on_driver": "create_env_on_local_worker",
    "create_env_on_local_env_runner": "create_env_on_local_worker",
    "sample_batch_size": "rollout_fragment_length",
    "sgd_minibatch_size": "minibatch_size",
    "num_sgd_iter": "num_epochs",
    "shuffle_sequences": "shuffle_batch_per_epoch",
    "num_learner_workers": "num_learners",
    "num_gpus_per_learner_worker": "num_gpus_per_learner",
    "num_cpus_per_learner_worker": "num_cpus_per_learner",
    "evaluation_num_workers": "evaluation_num_env_runners",
    "evaluation_num_episodes": "evaluation_duration",
    "custom_eval_function": "custom_evaluation_function",
    "metrics_smoothing_episodes": "metrics_num_episodes_for_smoothing",
    "min_iter_time_s": "min_time_s_per_iteration",
    "min_time_s_per_reporting": "min_time_s_per_iteration",
    "timesteps_per_iteration": "min_sample_timesteps_per_iteration",
    "min_sample_timesteps_per_reporting": "min_sample_timesteps_per_iteration",
    "min_train_timesteps_per_reporting": "min_train_timesteps_per_iteration",
    "collect_metrics_timeout": "metrics_episode_collection_timeout_s",
    "ignore_worker_failures": "ignore_env_runner_failures",
    "recreate_failed_workers": "restart_failed_env_runners",
    "recreate_failed_env_runners": "restart_failed_env_runners",
    "max_num_worker_restarts": "max_num_env_runner_restarts",
    "delay_between_worker_restarts_s": "delay_between_env_runner_restarts_s",
    "num_consecutive_worker_failures_tolerance": "num_consecutive_env_runner_failures_tolerance",
    "worker_health_probe_timeout_s": "env_runner_health_probe_timeout_s",
    "worker_restore_timeout_s": "env_runner_restore_timeout_s",
    "validate_workers_after_construction": "validate_env_runners_after_construction",
    "max_requests_in_flight_per_sampler_worker": "max_requests_in_flight_per_env_runner",
    "learning_starts": "num_steps_sampled_before_learning_starts",
    "num_multi_gpu_tower_stacks": "learner_queue_size",
    "optimizer_class": "opt_type",
}

#: Older keys of the replay buffer that stood at the top -> their name in `replay_buffer_config`.
_BUFFER = {
    "buffer_size": "capacity",
    "prioritized_replay_alpha": "alpha",
    "prioritized_replay_beta": "beta",
    "prioritized_replay_eps": "eps",
    "replay_sequence_length": "replay_sequence_length",
    "replay_batch_size": "replay_batch_size",
}

#: Keys of `replay_buffer_config` itself that were called otherwise.
_IN_BUFFER = {"prioritized_replay_alpha": "alpha", "prioritized_replay_beta": "beta", "prioritized_replay_eps": "eps"}

#: How DQN once said for how long it explores, with the values of whoever says only a part.
_EXPLORATION: dict[str, float] = {
    "schedule_max_timesteps": 100_000,
    "exploration_fraction": 0.1,
    "exploration_final_eps": 0.02,
}

#: Settings of older versions that change nothing here: what they steered does not exist.
IGNORED = {
    "simple_optimizer",
    "synchronize_filters",
    "tf_session_options",
    "eager",
    "use_pytorch",
    "disable_execution_plan_api",
    "_disable_execution_plan_api",
    "_enable_new_api_stack",
    "_enable_learner_api",
    "_enable_rl_module_api",
    "_tf_policy_handles_more_than_one_loss",
    "extra_python_environs_for_driver",
    "extra_python_environs_for_worker",
    "memory",
    "object_store_memory",
    "memory_per_worker",
    "object_store_memory_per_worker",
    "replay_mode",
    "worker_side_prioritization",
    "tf_run_options",
    "record_env",
    "is_atari",
    "algo_class",
    "evaluation_sampling",
    "beta_annealing_fraction",
    "final_prioritized_replay_beta",
    "prioritized_replay_beta_annealing_timesteps",
}


def today(name: str) -> str:
    """The name of a setting that may be an older one."""
    return RENAMED.get(name, name)


def modern(given: dict[str, Any]) -> dict[str, Any]:
    """A configuration of any era in today's names and forms. What it does not know stays, for others to refuse."""
    settings: dict[str, Any] = {}
    buffer: dict[str, Any] = {}
    exploration: dict[str, Any] = {}
    for name, value in given.items():
        if name in IGNORED:
            continue
        if name == "multiagent":
            settings.update(_multi_agent(value))
        elif name in _BUFFER:
            if value is not None:
                buffer[_BUFFER[name]] = value
        elif name == "prioritized_replay":
            buffer["type"] = "PrioritizedEpisodeReplayBuffer" if value else "EpisodeReplayBuffer"
        elif name == "replay_buffer_config":
            buffer |= {_IN_BUFFER.get(str(key), str(key)): item for key, item in dict(value).items()}
        elif name in _EXPLORATION:
            exploration[name] = value
        elif name in ("lr_schedule", "entropy_coeff_schedule"):
            # Beside the plain value, the schedule was the one that counted.
            if value is not None:
                settings[name.removesuffix("_schedule")] = value
        elif name == "vf_share_layers":
            settings.setdefault("model", {})["vf_share_layers"] = value
        elif name == "model" and isinstance(value, dict):
            settings["model"] = settings.get("model", {}) | value
        else:
            settings[today(name)] = value
    for name in ("lr", "entropy_coeff"):
        # The order in which the two stand in the dictionary says nothing.
        if given.get(f"{name}_schedule") is not None:
            settings[name] = given[f"{name}_schedule"]
    # Programs that ignore failures were written when nobody replaced a runner.
    if settings.get("ignore_env_runner_failures") and "ignore_worker_failures" in given:
        settings.setdefault("restart_failed_env_runners", False)
    if buffer:
        settings["replay_buffer_config"] = buffer
    if exploration:
        settings.setdefault("epsilon", _annealed(_EXPLORATION | exploration))
    return settings


def _annealed(said: dict[str, Any]) -> list[list[float]]:
    """The schedule of the oldest form: from 1 to the last value, over a fraction of all steps."""
    steps = int(float(said["schedule_max_timesteps"]) * float(said["exploration_fraction"]))
    return [[0, 1.0], [max(1, steps), float(said["exploration_final_eps"])]]


def _multi_agent(given: dict[str, Any] | None) -> dict[str, Any]:
    known = {"policies", "policy_mapping_fn", "policies_to_train", "policy_map_capacity", "observation_fn"}
    known |= {"count_steps_by", "policy_map_cache"}
    settings = {}
    for name, value in (given or {}).items():
        if name not in known:
            raise ValueError(f"unknown key {name!r} in `multiagent`.{hint(name, known)}")
        # No policies said: there is the default one.
        if name == "policies" and not value:
            continue
        if name == "policy_map_cache" or (name == "policy_mapping_fn" and value is None):
            continue
        settings[name] = value
    return settings


def epsilon_of(exploration: Any) -> list[list[float]] | None:
    """The schedule that an older `exploration_config` of DQN describes."""
    if not isinstance(exploration, dict):
        return None
    if exploration.get("epsilon_schedule"):
        return [list(point) for point in exploration["epsilon_schedule"]]
    if not any(key.endswith("epsilon") or key == "epsilon_timesteps" for key in exploration):
        return None
    first = float(exploration.get("initial_epsilon", 1.0))
    last = float(exploration.get("final_epsilon", 0.02))
    return [[0, first], [int(exploration.get("epsilon_timesteps", 10000)), last]]
