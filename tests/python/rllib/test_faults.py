"""Bad input and faults, with the real engine: what is refused, what stops training, what goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text

import eagleray as ray
from eagleray.rllib.algorithms import _checkpoints
from eagleray.rllib.algorithms._interruptible import Interruptible
from eagleray.rllib.algorithms.algorithm import Algorithm
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.impala import IMPALAConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig
from eagleray.rllib.env import _samplers
from eagleray.rllib.utils.error import EnvError, NotFiniteError, SpaceMismatchError, UnsupportedSpaceException


def zeros():
    return np.zeros(2, np.float32)


class Wrong(gym.Env):
    """Does what it is configured to from a given step on; episodes have ten."""

    observation_space = Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, config):
        self.config, self.steps = config, 0
        self.action_space = config.get("action_space", Discrete(2))
        if config.get("init"):
            raise RuntimeError("cannot be made")

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.config["reset"] if "reset" in self.config else (zeros(), {})

    def step(self, action):
        self.at += 1
        self.steps += 1
        if self.steps > self.config.get("after", 0) and "step" in self.config:
            said = self.config["step"]
            if isinstance(said, BaseException):
                raise said
            return said
        is_over = self.at >= 10 and not self.config.get("endless")
        return zeros(), 1.0, is_over, False, {}


def config(kind=PPOConfig, runners=0, **env_config):
    made = kind().environment(Wrong, env_config=env_config).env_runners(num_env_runners=runners)
    made = made.reporting(min_time_s_per_iteration=0)
    return made.training(train_batch_size=100, **({"minibatch_size": 50, "num_epochs": 1} if kind is PPOConfig else {}))


@pytest.fixture(scope="module")
def session():
    ray.shutdown()
    ray.init(num_cpus=3)
    yield
    ray.shutdown()


# What environments say.


@pytest.mark.parametrize("after", [0, 50])
@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ((np.zeros(3, np.float32), 1.0, False, False, {}), SpaceMismatchError, "3|\\(3,\\)"),
        ((np.zeros(1, np.float32), 1.0, False, False, {}), SpaceMismatchError, "1 numbers|\\(1,\\)"),
        ((0.5, 1.0, False, False, {}), SpaceMismatchError, "0.5|shape"),
        ((None, 1.0, False, False, {}), SpaceMismatchError, "None|shape"),
        (([0.0, float("nan")], 1.0, False, False, {}), EnvError, "nan"),
        (([0.0, float("inf")], 1.0, False, False, {}), EnvError, "inf"),
        ((zeros(), float("nan"), False, False, {}), NotFiniteError, "the reward is nan"),
        ((zeros(), float("-inf"), False, False, {}), NotFiniteError, "the reward is -inf"),
        ((zeros(), None, False, False, {}), EnvError, "the reward is None"),
        ((zeros(), 1.0, True), EnvError, "four or five parts"),
        (None, EnvError, "four or five parts, not None"),
    ],
)
def test_a_step_that_contradicts_the_space_stops_training_and_says_where(said, kind, text, after):
    algorithm = config(step=said, after=after).build_algo()
    with pytest.raises(kind, match=text) as caught:
        algorithm.train()
    assert f"runner 0, sub-environment 0, step (vector step {after + 1})" in str(caught.value)
    assert "in iteration 1, after 0 steps" in caught.value.__notes__[-1]


def test_a_value_beyond_the_bounds_is_refused_at_the_first_steps():
    with pytest.raises(SpaceMismatchError, match="lies outside of its bounds; the declared observation_space is Box"):
        config(step=(zeros() + 5, 1.0, False, False, {})).build_algo().train()
    unchecked = config(step=(zeros() + 5, 1.0, False, False, {})).environment(disable_env_checking=True)
    assert unchecked.build_algo().train()["timesteps_this_iter"] == 100


@pytest.mark.parametrize("said", [None, (zeros(), {}, 1)])
def test_a_reset_of_the_wrong_form_says_what_it_should_return(said):
    with pytest.raises(EnvError, match=r"sub-environment 0, reset .*must return an observation"):
        config(reset=said).build_algo().train()


def test_environments_that_raise_say_where():
    with pytest.raises(RuntimeError, match="cannot be made") as caught:
        config(init=True).build_algo()
    assert "while runner 0 made sub-environment 0" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="boom") as caught:
        config(step=RuntimeError("boom"), after=7).build_algo().train()
    assert "in runner 0, sub-environment 0, step (vector step 8)" in caught.value.__notes__


@pytest.mark.parametrize("runners", [0, 1])
@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda made: made.environment("CartPol-v1"), EnvError, "there is no environment 'CartPol-v1'"),
        (lambda made: setattr(made, "env", None), ValueError, "no environment was said"),
        (lambda made: made.environment(env_config={"init": True}), RuntimeError, "cannot be made"),
        (lambda made: made.training(model={"fcnet_activation": "swoosh"}), ValueError, "'swoosh' is not built in"),
    ],
    ids=["name", "none", "raises", "activation"],
)
def test_what_cannot_be_built_says_so_in_the_same_way_with_actors(session, change, kind, text, runners):
    made = config(runners=runners)
    change(made)
    with pytest.raises(kind, match=text) as caught:
        made.build_algo()
    assert not isinstance(caught.value, ray.exceptions.RayError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (4, 0, 3)])
def test_spaces_that_hold_nothing_are_refused_in_words(monkeypatch, shape):
    with pytest.raises(UnsupportedSpaceException, match="action_space .* holds no actions"):
        config(action_space=Box(0.0, 1.0, shape)).build_algo()
    monkeypatch.setattr(Wrong, "observation_space", Box(0.0, 1.0, shape))
    with pytest.raises(UnsupportedSpaceException, match="observation_space .* holds no numbers"):
        config().build_algo()


def test_a_runner_whose_process_always_ends_is_given_up_by_name(session):
    algorithm = config(runners=1, step=SystemExit(3), after=3).build_algo()
    with pytest.raises(
        EnvError, match="runner 1 ended 3 times in a row before it gave a sample of the environment Wrong"
    ):
        algorithm.train()
    algorithm.stop()


def test_words_among_other_actions_are_refused_in_words():
    both = Dict(a=Discrete(2), b=Box(-1.0, 1.0, (2,)), c=Text(3))
    with pytest.raises(UnsupportedSpaceException, match="action_space Text.* cannot be acted in: Box, Discrete, "):
        config(action_space=both).build_algo()


def test_episodes_of_one_step_are_episodes():
    result = config(step=(zeros(), 1.0, True, False, {})).build_algo().train()
    assert (result["episodes_this_iter"], result["episode_len_mean"]) == (100, 1.0)


@pytest.mark.parametrize("how", ["batch", "evaluation"])
def test_whole_episodes_of_an_environment_without_end_are_not_waited_for_for_ever(monkeypatch, how):
    monkeypatch.setattr(_samplers, "ENDLESS_STEPS", 2000)
    made = config(endless=True)
    if how == "batch":
        made.env_runners(batch_mode="complete_episodes")
    else:
        made.evaluation(evaluation_interval=1, evaluation_duration=2)
    with pytest.raises(EnvError, match="no episode has ended in 2000 steps.*set `horizon`"):
        made.build_algo().train()
    result = made.environment(horizon=20).build_algo().train()
    assert result["episode_len_mean"] == 20


# Runners.


def test_what_a_new_process_would_do_again_is_not_tried_again(session):
    algorithm = config(runners=2, step=(zeros(), float("nan"), False, False, {}), after=30).build_algo()
    with pytest.raises(NotFiniteError, match=r"runner [12], sub-environment 0, step .*the reward is nan"):
        algorithm.train()
    assert algorithm.env_runner_group.num_restarts == 0
    algorithm.stop()


def test_runners_that_never_worked_are_not_replaced_a_hundred_times(session):
    algorithm = config(runners=2, step=RuntimeError("boom"), after=30).build_algo()
    with pytest.raises(RuntimeError, match="boom"):
        algorithm.train()
    assert algorithm.env_runner_group.num_restarts <= 6
    algorithm.stop()


@pytest.mark.parametrize("kind", [PPOConfig, IMPALAConfig])
@pytest.mark.parametrize("how", ["replaced", "left out"])
def test_a_runner_killed_while_it_samples(session, kind, how):
    made = kind().environment("CartPole-v1").env_runners(num_env_runners=2).reporting(min_time_s_per_iteration=0)
    made.training(train_batch_size=40_000, **({"minibatch_size": 4000, "num_epochs": 1} if kind is PPOConfig else {}))
    if kind is IMPALAConfig:
        made.env_runners(rollout_fragment_length=2000)
    if how == "left out":
        made.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=True)
    algorithm = made.build_algo()
    algorithm.train()
    pid = algorithm.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)[0]
    killer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
    killer.start()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        result = algorithm.train()
        if result["num_remote_worker_restarts"] or result["num_healthy_workers"] == 1:
            break
    killer.join()
    assert result["num_healthy_workers"] == (2 if how == "replaced" else 1)
    assert result["num_remote_worker_restarts"] == (1 if how == "replaced" else 0)
    assert algorithm.train()["timesteps_this_iter"] >= 40_000
    algorithm.stop()


# Checkpoints.


def test_a_loss_that_is_no_number_names_the_last_good_checkpoint(tmp_path):
    made = PPOConfig().environment("Pendulum-v1").env_runners(num_env_runners=0)
    algorithm = made.training(lr=1e30, train_batch_size=200, minibatch_size=50, num_epochs=1).build_algo()
    folder = algorithm.save_to_path(tmp_path / "good")
    with pytest.raises(NotFiniteError, match=f"after .* steps, in iteration .*{folder} of iteration 0, is good"):
        for _ in range(5):
            algorithm.train()
    with pytest.raises(NotFiniteError, match="weights of default_policy are not finite"):
        algorithm.save_to_path(folder)
    assert np.isfinite(Algorithm.from_checkpoint(folder).compute_single_action([1.0, 0.0, 0.0])).all()


@pytest.fixture
def checkpoint(tmp_path):
    made = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    algorithm = made.training(train_batch_size=200, minibatch_size=50, num_epochs=1).build_algo()
    return algorithm.save_to_path(tmp_path / "checkpoint")


WEIGHTS = "learner_group/learner/rl_module/default_policy/module_state.safetensors"


def cut(folder):
    file = os.path.join(folder, WEIGHTS)
    with open(file, "r+b") as opened:
        opened.truncate(os.path.getsize(file) // 2)


def flip(folder):
    with open(os.path.join(folder, WEIGHTS), "r+b") as opened:
        opened.seek(2000)
        byte = opened.read(1)
        opened.seek(2000)
        opened.write(bytes([byte[0] ^ 1]))


def drop(folder):
    os.remove(os.path.join(folder, "class_and_ctor_args.pkl"))


def scribble(folder):
    with open(os.path.join(folder, "metadata.json"), "w") as file:
        file.write('{"format": 1,')


def age(folder):
    with open(os.path.join(folder, "metadata.json")) as file:
        said = json.load(file)
    with open(os.path.join(folder, "metadata.json"), "w") as file:
        json.dump(said | {"format": 99, "eagleray_version": "9.9"}, file)


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (cut, "module_state.safetensors has .* bytes, not"),
        (flip, "module_state.safetensors is not what was written"),
        (drop, "class_and_ctor_args.pkl: No such file"),
        (scribble, "metadata.json is damaged"),
        (age, "has the format 99, written by 9.9"),
        (shutil.rmtree, "there is no such folder"),
        (lambda folder: os.remove(os.path.join(folder, "metadata.json")), "it has no metadata.json"),
    ],
)
def test_a_checkpoint_that_is_damaged_or_foreign_is_refused_by_name(checkpoint, harm, text):
    Algorithm.from_checkpoint(checkpoint)
    harm(checkpoint)
    with pytest.raises(_checkpoints.CheckpointError, match=text) as caught:
        Algorithm.from_checkpoint(checkpoint)
    assert checkpoint in str(caught.value)


def test_a_checkpoint_of_another_shape_or_algorithm_changes_nothing(checkpoint):
    base = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    other = base.rl_module(model_config={"fcnet_hiddens": [32]}).build_algo()
    before = other.get_weights()["default_policy"]
    with pytest.raises(_checkpoints.CheckpointError, match="another shape"):
        other.restore(checkpoint)
    after = other.get_weights()["default_policy"]
    assert all((before[name] == after[name]).all() for name in before)
    with pytest.raises(_checkpoints.CheckpointError, match="is of PPO, not of DQN"):
        DQNConfig().environment("CartPole-v1").build_algo().restore(checkpoint)


def test_the_folder_of_a_trial_is_told_from_its_checkpoint(checkpoint, tmp_path):
    with pytest.raises(_checkpoints.CheckpointError, match=f"but {checkpoint} is one"):
        Algorithm.from_checkpoint(tmp_path)


# Settings.


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (PPOConfig, {"lr": -1}, "`lr` must be a number >= 0"),
        (PPOConfig, {"lr": None}, "`lr` must be"),
        (PPOConfig, {"lr": float("nan")}, "`lr` must be"),
        (PPOConfig, {"lr": [[0, 1e-3], [100, -1]]}, "`lr` must be a number >= 0, not -1"),
        (PPOConfig, {"gamma": "x"}, r"`gamma` must be a number in \[0, 1\]"),
        (PPOConfig, {"gamma": 2}, "`gamma` must be"),
        (PPOConfig, {"lambda_": 2}, "`lambda_` must be"),
        (PPOConfig, {"minibatch_size": "a"}, "`minibatch_size` must be a whole number > 0 or None"),
        (PPOConfig, {"minibatch_size": 5000}, "must be <= `train_batch_size_per_learner`"),
        (PPOConfig, {"num_epochs": 1.5}, "`num_epochs` must be a whole number"),
        (PPOConfig, {"train_batch_size": "x"}, "`train_batch_size` must be"),
        (PPOConfig, {"train_batch_size": 0}, "`train_batch_size` must be"),
        (PPOConfig, {"clip_param": -1}, "`clip_param` must be"),
        (PPOConfig, {"num_env_runners": -1}, "`num_env_runners` must be a whole number >= 0"),
        (PPOConfig, {"num_env_runners": True}, "`num_env_runners` must be"),
        (PPOConfig, {"sample_timeout_s": "x"}, "`sample_timeout_s` must be"),
        (PPOConfig, {"seed": -1}, "`seed` must be"),
        (PPOConfig, {"min_sample_timesteps_per_iteration": "x"}, "`min_sample_timesteps_per_iteration`"),
        (PPOConfig, {"grad_clip": 1.0, "grad_clip_by": "value"}, "global_norm"),
        (PPOConfig, {"advantage_scaling": "rows"}, r"`advantage_scaling` must be one of \['batch', 'minibatch'\]"),
        (PPOConfig, {"advantage_scaling": "minibatch", "model": {"use_lstm": True}}, "minibatches are of sequences"),
        (PPOConfig, {"model": {"fcnet_hiddens": [0]}}, r"`model\['fcnet_hiddens'\]` must be a whole number > 0"),
        (PPOConfig, {"model": {"fcnet_hiddens": 64}}, "must be a list of sizes"),
        (PPOConfig, {"model": {"fcnet_activation": "swish"}}, "fcnet_activation='swish' is not built in"),
        (PPOConfig, {"model": {"use_lstm": True, "lstm_cell_size": 0}}, "lstm_cell_size"),
        (PPOConfig, {"model": {"custom_model": "x"}}, "no model was registered as 'x'"),
        (PPOConfig, {"model": {"conv_filters": [16, 4]}}, "conv_filters"),
        (PPOConfig, {"model_config": {"fcnet_hidens": [4]}}, "Did you mean 'fcnet_hiddens'"),
        (PPOConfig, {"callbacks": "x"}, "`callbacks` must be classes"),
        (DQNConfig, {"replay_buffer_config": {"capcity": 9}}, "Did you mean 'capacity'"),
        (DQNConfig, {"replay_buffer_config": {"capacity": "x"}}, r"\['capacity'\]` must be a whole number > 0"),
        (DQNConfig, {"replay_buffer_config": {"type": "Foo"}}, "is no replay"),
        (DQNConfig, {"exploration_config": {"type": "SoftQ"}}, "must be one of"),
        (DQNConfig, {"epsilon": 2.0}, "`epsilon` must be"),
        (DQNConfig, {"num_atoms": 51}, "`num_atoms` is not available"),
        (DQNConfig, {"noisy": True}, "`noisy` is not available"),
        (DQNConfig, {"td_error_loss_fn": "mse"}, "td_error_loss_fn"),
        (DQNConfig, {"tau": 0}, "`tau` must be"),
        (SACConfig, {"target_entropy": "x"}, "target_entropy"),
        (SACConfig, {"policy_model_config": {"fcnet_hiden": [3]}}, "Did you mean 'fcnet_hiddens'"),
        (IMPALAConfig, {"vtrace_clip_rho_threshold": -1}, "vtrace_clip_rho_threshold"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(kind, given, text):
    env = "Pendulum-v1" if kind is SACConfig else "CartPole-v1"
    made = kind.from_dict({"env": env, "num_env_runners": 0} | given)
    with pytest.raises((ValueError, TypeError), match=text):
        made.build_algo()


def test_numbers_of_other_types_are_numbers():
    made = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=np.int64(0))
    made.training(
        train_batch_size=2e2, minibatch_size=np.int32(50), num_epochs=1.0, gamma=np.float32(0.5), clip_param=1
    )
    algorithm = made.training(vf_clip_param=float("inf"), model={"fcnet_hiddens": []}).build_algo()
    assert algorithm.train()["timesteps_this_iter"] == 200
    assert type(algorithm.config.train_batch_size) is int
    assert type(algorithm.config.gamma) is float


@pytest.mark.parametrize("seen", [[1, 2], None, [float("nan")] * 4, 9, "x"])
def test_an_observation_that_nothing_showed_is_refused(seen):
    algorithm = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()
    with pytest.raises(SpaceMismatchError, match="the observation"):
        algorithm.compute_single_action(seen)


# Ctrl-C, and what is not installed.

INTERRUPTED = """
import sys
from eagleray.rllib.algorithms.ppo import PPOConfig

config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=int(sys.argv[1]))
config.training(train_batch_size=8000, num_epochs=25)
algorithm = config.build_algo()
learner = algorithm.learners["default_policy"]
update = learner._inner.update

def told(*arguments):
    print("learning", flush=True)
    return update(*arguments)

learner._inner.update = told
try:
    algorithm.train()
except KeyboardInterrupt:
    print("busy" if learner.is_busy else "idle", flush=True)
    if sys.argv[2] == "raise":
        raise
    # Programs save what they have when they are interrupted.
    algorithm.save_to_path(sys.argv[3])
    print("saved", flush=True)
"""


@pytest.mark.parametrize("runners", ["0", "2"])
@pytest.mark.parametrize("then", ["raise", "save"])
def test_ctrl_c_does_not_wait_for_an_update(tmp_path, runners, then):
    """An update of half a minute held Ctrl-C up to its end."""
    command = [sys.executable, "-c", INTERRUPTED, runners, then, str(tmp_path / "saved")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "learning\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)
    assert out.split() == ["busy"] + (["saved"] if then == "save" else []), err
    assert process.returncode == (0 if then == "save" else -signal.SIGINT)
    if then == "save":
        Algorithm.from_checkpoint(tmp_path / "saved").stop()
    # The zygote's command names the session, which names its driver.
    assert [line for line in _processes() if f"_{process.pid}_" in line] == []


def _processes():
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/cmdline") as file:
                    yield file.read().replace("\0", " ")
            except OSError:
                continue


def test_an_update_that_fails_in_its_thread_raises_where_it_was_asked_for():
    class Failing:
        def update(self, rollouts, settings):
            raise RuntimeError("cannot learn")

        def weights(self):
            return b"here"

    learner = Interruptible(Failing())
    with pytest.raises(RuntimeError, match="cannot learn"):
        learner.update([], {})
    assert learner.weights() == b"here"


BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[2].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from eagleray.rllib.algorithms.ppo import PPOConfig

config = PPOConfig().environment(sys.argv[1]).env_runners(num_env_runners=0)
try:
    config.training(train_batch_size=200, minibatch_size=50, num_epochs=1).build_algo().train()
except ImportError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(
    ("env", "missing", "text"),
    [
        ("CartPole-v1", "gymnasium", ""),
        ("LunarLander-v3", "gymnasium", "MissingPackageError: the environment 'LunarLander-v3' is neither built in"),
        ("CartPole-v1", "numpy,gymnasium", "MissingPackageError: reinforcement learning needs numpy: pip install"),
    ],
)
def test_a_package_that_is_missing_is_named(env, missing, text):
    ran = subprocess.run([sys.executable, "-c", BLOCKED, env, missing], capture_output=True, text=True, timeout=50)
    assert (ran.returncode != 0) == bool(text), ran.stderr
    assert text in ran.stderr


SILENT = """
import gc, time
from eagleray.rllib.algorithms.ppo import PPOConfig
for config in (PPOConfig(), PPOConfig().environment("Nowhere-v1")):
    try:
        config.env_runners(num_env_runners=2).build_algo()
    except Exception as error:
        print(type(error).__name__)
    gc.collect()
    time.sleep(0.5)
"""


def test_what_one_runner_has_said_is_not_told_again_for_the_others():
    """The others' errors were printed as unhandled, some twenty lines each, after the short one."""
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout.split()) == 2, done
    assert "Unhandled" not in done.stderr, done.stderr
