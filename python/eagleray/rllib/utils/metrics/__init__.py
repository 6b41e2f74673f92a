"""What is measured: episodes, values that programs log, and results with the names of both eras."""

from eagleray.rllib.utils.metrics.metrics_logger import MetricsLogger

# The names of results that programs write instead of their texts.
ALL_MODULES = "__all_modules__"
AGENT_EPISODE_RETURNS_MEAN = "agent_episode_returns_mean"
ENV_RUNNER_RESULTS = "env_runners"
ENV_RUNNER_SAMPLING_TIMER = "env_runner_sampling_timer"
EPISODE_LEN_MEAN = "episode_len_mean"
EPISODE_RETURN_MAX = "episode_return_max"
EPISODE_RETURN_MEAN = "episode_return_mean"
EPISODE_RETURN_MIN = "episode_return_min"
EVALUATION_RESULTS = "evaluation"
FAULT_TOLERANCE_STATS = "fault_tolerance"
LEARNER_RESULTS = "learners"
LEARNER_UPDATE_TIMER = "learner_update_timer"
MODULE_EPISODE_RETURNS_MEAN = "module_episode_returns_mean"
NUM_ENV_STEPS_SAMPLED = "num_env_steps_sampled"
NUM_ENV_STEPS_SAMPLED_LIFETIME = "num_env_steps_sampled_lifetime"
NUM_ENV_STEPS_TRAINED = "num_env_steps_trained"
NUM_ENV_STEPS_TRAINED_LIFETIME = "num_env_steps_trained_lifetime"
NUM_EPISODES = "num_episodes"
NUM_EPISODES_LIFETIME = "num_episodes_lifetime"
TIMERS = "timers"
TRAINING_ITERATION_TIMER = "training_iteration"
TRAINING_STEP_TIMER = "training_step"

__all__ = ["MetricsLogger"]
