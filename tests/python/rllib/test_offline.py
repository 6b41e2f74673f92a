"""Samples in files, and simulators that ask over the network."""

import contextlib
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import eagleray as ray
from eagleray.rllib.algorithms.dqn import DQNConfig
from eagleray.rllib.algorithms.ppo import PPOConfig
from eagleray.rllib.algorithms.sac import SACConfig
from eagleray.rllib.env import _wire
from eagleray.rllib.env.policy_client import PolicyClient, PolicyServerError
from eagleray.rllib.env.policy_server_input import PolicyServerInput
from eagleray.rllib.offline import InputReader, JsonReader
from eagleray.rllib.utils.error import EnvError, NotFiniteError, SpaceMismatchError

SEEN = Box(-1.0, 1.0, (2,), np.float32)


class Signs(gym.Env):
    """Pays for the action that names the first number's sign. Episodes have ten steps."""

    observation_space = SEEN
    action_space = Discrete(2)

    def __init__(self, config=None):
        self.rng = np.random.default_rng(3)

    def show(self):
        self.seen = self.rng.uniform(-1, 1, 2).astype(np.float32)
        return self.seen

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.show(), {}

    def step(self, action):
        self.at += 1
        reward = float((self.seen[0] > 0) == bool(action))
        return self.show(), reward, self.at >= 10, False, {}


def read(folder):
    return [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]


def dqn(env=Signs):
    made = DQNConfig().environment(env).env_runners(num_env_runners=0, rollout_fragment_length=20)
    made.training(lr=2e-3, train_batch_size=64, gamma=0.0, num_steps_sampled_before_learning_starts=100)
    made.reporting(min_sample_timesteps_per_iteration=1000).rl_module(model_config={"fcnet_hiddens": [32]})
    return made.debugging(seed=1)


def test_what_is_sampled_is_written_step_by_step(tmp_path):
    made = dqn().env_runners(num_envs_per_env_runner=2).offline_data(output=str(tmp_path / "out"))
    algorithm = made.build_algo()
    result = algorithm.train()
    algorithm.stop()
    batches = read(tmp_path / "out")
    assert sum(len(batch["obs"]) for batch in batches) == result["timesteps_total"]
    episodes = {}
    for batch in batches:
        for at, name in enumerate(batch["eps_id"]):
            episodes.setdefault(name, []).append(
                {key: batch[key][at] for key in ("t", "obs", "new_obs", "rewards", "dones", "actions")}
            )
    whole = [steps for steps in episodes.values() if steps[-1]["dones"]]
    assert len(whole) == result["episodes_this_iter"]
    for steps in whole:
        assert [step["t"] for step in steps] == list(range(10))
        assert all(one["new_obs"] == other["obs"] for one, other in itertools.pairwise(steps))
        assert all(step["rewards"] == ((step["obs"][0] > 0) == bool(step["actions"])) for step in steps)


def test_a_policy_is_learned_from_files_alone(tmp_path):
    """What chance did in the environment is enough to learn which action pays."""
    made = dqn().env_runners(epsilon=1.0).training(num_steps_sampled_before_learning_starts=10**6)
    writer = made.offline_data(output=str(tmp_path)).build_algo()
    for _ in range(3):
        writer.train()
    writer.stop()
    reader = dqn(None).environment(observation_space=SEEN, action_space=Discrete(2)).offline_data(input_=str(tmp_path))
    algorithm = reader.build_algo()
    for _ in range(4):
        result = algorithm.train()
    assert result["timesteps_total"] >= 4000
    chosen = [
        algorithm.compute_single_action(np.array([x, 0.3], np.float32), explore=False) for x in (-0.8, -0.5, 0.5, 0.8)
    ]
    assert chosen == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="no environment was said"):
        algorithm.evaluate()


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_built_in_environments_are_written_and_read(tmp_path, env):
    kind = DQNConfig if env == "CartPole-v1" else SACConfig

    def made():
        config = kind().environment(env).env_runners(num_env_runners=0)
        config.training(num_steps_sampled_before_learning_starts=100, train_batch_size=32)
        return config.evaluation(evaluation_duration=3).reporting(min_sample_timesteps_per_iteration=300)

    writer = made().offline_data(output=str(tmp_path)).build_algo()
    writer.train()
    writer.evaluate()
    batches = read(tmp_path)
    assert sum(len(batch["obs"]) for batch in batches) == writer.timestep, "what was evaluated is not there"
    if env == "Pendulum-v1":
        actions = [abs(action[0]) for batch in batches for action in batch["actions"]]
        assert 1.0 < max(actions) <= 2.0, "as the environment got them"
    algorithm = made().offline_data(input_=[str(tmp_path)]).build_algo()
    result = algorithm.train()
    assert result["timesteps_total"] >= 300
    assert np.isfinite(result["info"]["learner"]["default_policy"]["total_loss"])
    assert algorithm.evaluate()["env_runners"]["num_episodes"] == 3


GOOD = {"obs": [[0.1, 0.2], [0.3, 0.4]], "actions": [0, 1], "rewards": [1, 0], "dones": [False, True]}


def test_files_of_others_need_not_say_what_follows(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(GOOD) + "\n")
    algorithm = dqn().offline_data(input_=str(tmp_path / "*.json")).build_algo()
    sample = algorithm.env_runner.sample(num_timesteps=10)
    assert sample.env_steps == 10
    cut = {**GOOD, "dones": [False, False]}
    (tmp_path / "a.json").write_text(json.dumps(cut) + "\n")
    algorithm = dqn().offline_data(input_=str(tmp_path / "a.json")).build_algo()
    assert algorithm.env_runner.sample(num_timesteps=10).env_steps == 10, "the last step of each is left out"


@pytest.mark.parametrize(
    ("over", "kind", "text"),
    [
        ({"obs": [[0.1], [0.2]]}, SpaceMismatchError, "a.json, line 1, step 0: the observation does not fit"),
        ({"obs": ["BCJN", "BCJN"]}, SpaceMismatchError, "compressed"),
        ({"obs": [[0.1, float("nan")], [0, 0]]}, NotFiniteError, "step 0: the observation is"),
        ({"actions": [7, 0]}, SpaceMismatchError, "the action 7 does not fit"),
        ({"actions": [[0, 1], 0]}, SpaceMismatchError, "the action .* does not fit"),
        ({"rewards": ["a", 0]}, ValueError, "the reward is 'a'"),
        ({"rewards": [float("inf"), 0]}, NotFiniteError, "the reward is inf"),
        ({"rewards": [1]}, ValueError, "the column 'rewards' has 1 rows"),
        ({"type": "MultiAgentBatch"}, ValueError, "several agents"),
    ],
)
def test_a_batch_that_is_none_is_refused_with_its_place(tmp_path, over, kind, text):
    (tmp_path / "a.json").write_text(json.dumps(GOOD | over) + "\n")
    with pytest.raises(kind, match=text):
        dqn().offline_data(input_=str(tmp_path)).build_algo().train()


@pytest.mark.parametrize(
    ("content", "text"),
    [('{"obs": [[1', "line 1: no JSON, or cut off"), ("", "there is no batch"), ("[1]", "an object")],
)
def test_a_file_that_is_cut_off_or_empty_says_so(tmp_path, content, text):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=text):
        JsonReader(tmp_path).next()


def test_inputs_and_outputs_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(ValueError, match="where there are no files"):
        dqn().offline_data(input_=str(tmp_path)).build_algo()
    with pytest.raises(ValueError, match="PPO learns from what its own policy does"):
        PPOConfig().environment(Signs).env_runners(num_env_runners=0).offline_data(input_=str(tmp_path)).build_algo()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder that can be written to"):
        dqn().offline_data(output=str(tmp_path / "file")).build_algo()
    with pytest.raises(ValueError, match="`input_` must be"):
        dqn().offline_data(input_={"sampler": 0.5}).build_algo()
    with pytest.raises(TypeError, match="must make an InputReader"):
        dqn().offline_data(input_=lambda ioctx: 5).build_algo()


def test_a_reader_of_ones_own_feeds_an_algorithm():
    class Reader(InputReader):
        def next(self):
            return GOOD

    algorithm = dqn().offline_data(input_=lambda ioctx: Reader()).build_algo()
    assert algorithm.train()["timesteps_total"] >= 1000


# Over the network.


def serving(kind=PPOConfig, **how):
    made = kind().environment(observation_space=SEEN, action_space=Discrete(2)).env_runners(num_env_runners=0)
    made.offline_data(input_=lambda ioctx: PolicyServerInput(ioctx, "127.0.0.1", 0, **how))
    if kind is PPOConfig:
        made.training(train_batch_size=200, minibatch_size=50, num_epochs=5, lr=5e-3, gamma=0.0)
        made.rl_module(model_config={"fcnet_hiddens": [32]})
    return made.debugging(seed=1)


CLIENT = """
import sys
import numpy as np
from eagleray.rllib.env.policy_client import PolicyClient, PolicyServerError

client = PolicyClient(f"http://127.0.0.1:{sys.argv[1]}", inference_mode="remote")
rng = np.random.default_rng(int(sys.argv[2]))
try:
    while True:
        episode = client.start_episode()
        for step in range(10):
            seen = rng.uniform(-1, 1, 2).astype(np.float32)
            if step % 5 == 4:
                action = int(rng.integers(2))
                client.log_action(episode, seen, action)
            else:
                action = client.get_action(episode, seen)
            client.log_returns(episode, float((seen[0] > 0) == bool(action)))
        client.end_episode(episode, seen)
except PolicyServerError as error:
    print("ended:", error)
"""


@pytest.mark.parametrize("kind", [PPOConfig, DQNConfig])
def test_clients_in_other_processes_are_learned_from(kind):
    made = serving(kind)
    if kind is DQNConfig:
        made.training(num_steps_sampled_before_learning_starts=200, lr=2e-3, gamma=0.0, train_batch_size=64)
        made.reporting(min_sample_timesteps_per_iteration=200).env_runners(rollout_fragment_length=20)
        made.rl_module(model_config={"fcnet_hiddens": [32]})
    algorithm = made.build_algo()
    port = str(algorithm.env_runner.env.port)
    clients = [
        subprocess.Popen([sys.executable, "-c", CLIENT, port, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    try:
        for _ in range(10):
            result = algorithm.train()
        assert result["timesteps_total"] >= 2000
        assert result["episode_len_mean"] == 10
        chosen = [algorithm.compute_single_action(np.array([x, 0.0], np.float32), explore=False) for x in (-0.8, 0.8)]
        assert chosen == [0, 1]
    finally:
        algorithm.stop()
        said = [client.communicate(timeout=30)[0] for client in clients]
    assert all(one.startswith("ended:") for one in said)


@pytest.fixture
def server():
    """One whose training goes on in a thread, until the test is over."""
    algorithm = serving(max_concurrent=3).build_algo()
    made = algorithm.env_runner.env
    thread = threading.Thread(target=_until_stopped, args=(algorithm,), daemon=True)
    thread.start()
    yield made
    made._is_stopped = True
    made.end()
    thread.join(20)


def _until_stopped(algorithm):
    try:
        while True:
            algorithm.train()
    except Exception as error:
        algorithm.ended_by = error


def post(server, data, kind="application/json"):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}", data, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_what_a_client_does_wrong_is_told_to_it_and_harms_nobody(server):
    client = PolicyClient(f"http://127.0.0.1:{server.port}")
    episode = client.start_episode()
    for wrong, text in [
        (lambda: client.get_action(episode, [1.0]), "has the shape"),
        (lambda: client.get_action(episode, [5.0, 5.0]), "lies outside of its bounds"),
        (lambda: client.get_action(episode, [float("nan")] * 2), "is not a number"),
        (lambda: client.get_action("nobody", [0.0, 0.0]), "Episode nobody not found"),
        (lambda: client.log_action(episode, [0.0, 0.0], 7), "the action 7 does not fit"),
        (lambda: client.log_action(episode, [0.0, 0.0], None), "the action None does not fit"),
        (lambda: client.log_returns(episode, float("inf")), "not a finite number"),
        (lambda: client.start_episode(episode), "already started"),
        (lambda: client._ask("FLY", episode_id=episode), "no command 'FLY'"),
    ]:
        with pytest.raises(PolicyServerError, match=text):
            wrong()
    with pytest.raises(_wire.WireError, match="cannot be sent"):
        client.get_action(episode, object())
    [client.start_episode() for _ in range(2)]
    with pytest.raises(PolicyServerError, match="3 episodes run already"):
        client.start_episode()
    assert client.get_action(episode, np.zeros(2, np.float32)) in (0, 1)


def test_only_json_of_numbers_is_read_and_never_a_pickle(server, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "bomb"), "w"))

    assert post(server, pickle.dumps(Bomb()))[0] == 400
    assert not (tmp_path / "bomb").exists()
    assert post(server, b"{}", kind="text/plain")[0] == 415
    assert post(server, b"[]")[0] == 400
    assert post(server, b"[" * 100_000)[0] == 400
    assert "neither an array" in post(server, b'{"command": {"a": 1, "b": 2}}')[1]
    assert "no array may be of" in post(server, b'{"command": {"array": ["|O", [1], "AAAAAAAAAAA="]}}')[1]
    assert "not of the shape" in post(server, b'{"command": {"array": ["<f4", [9], "AAAAAAAAAAA="]}}')[1]
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}", method="GET")
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=20)


def test_messages_come_back_as_they_went():
    message = {
        "seen": {"a": np.arange(6, dtype=np.int64).reshape(2, 3), 3: (1, [2.5, None, "x"])},
        "flag": np.bool_(True),
    }
    back = _wire.unpack(_wire.pack(message))
    assert (back["seen"]["a"] == message["seen"]["a"]).all()
    assert back["seen"]["a"].dtype == np.int64
    assert back["seen"][3] == (1, [2.5, None, "x"])
    assert back["flag"] is True


def test_a_port_that_is_taken_and_a_server_that_is_gone_are_told(server):
    made = serving().offline_data(input_=lambda ioctx: PolicyServerInput(ioctx, "127.0.0.1", server.port))
    with pytest.raises(EnvError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        made.build_algo()
    with pytest.raises(PolicyServerError, match="does not answer"):
        PolicyClient("http://127.0.0.1:9", timeout_s=5).start_episode()


def own_ports():
    """The ports at which this process listens. Another one may take any of them as soon as it is free."""
    held = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder's own is gone already
            held.add(os.readlink(f"/proc/self/fd/{fd}"))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in held}


def test_a_server_without_clients_ends_and_leaves_its_port():
    algorithm = serving().build_algo()
    assert algorithm.env_runner.env.port in own_ports()
    algorithm.stop()
    server = algorithm.env_runner.env
    assert not server.is_alive()
    assert server.port not in own_ports()


def test_the_old_door_leads_there_too():
    from eagleray.rllib.env import PolicyClient as Client
    from eagleray.rllib.env import PolicyServerInput as Server

    assert (Client, Server) == (PolicyClient, PolicyServerInput)
    assert ray.rllib.offline.JsonReader is JsonReader
