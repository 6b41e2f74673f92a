"""Buffers that programs make and fill themselves. Algorithms have their own, in the native engine."""

from eagleray.rllib.utils.replay_buffers.base import ReplayBufferInterface
from eagleray.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from eagleray.rllib.utils.replay_buffers.fifo_replay_buffer import FifoReplayBuffer
from eagleray.rllib.utils.replay_buffers.multi_agent_prioritized_replay_buffer import MultiAgentPrioritizedReplayBuffer
from eagleray.rllib.utils.replay_buffers.multi_agent_replay_buffer import MultiAgentReplayBuffer
from eagleray.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer
from eagleray.rllib.utils.replay_buffers.prioritized_replay_buffer import PrioritizedReplayBuffer
from eagleray.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit
from eagleray.rllib.utils.replay_buffers.reservoir_replay_buffer import ReservoirReplayBuffer

__all__ = [
    "EpisodeReplayBuffer",
    "FifoReplayBuffer",
    "MultiAgentPrioritizedReplayBuffer",
    "MultiAgentReplayBuffer",
    "PrioritizedEpisodeReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "ReplayBufferInterface",
    "ReservoirReplayBuffer",
    "StorageUnit",
]
