"""Episodes and runners, under the older path."""

from eagleray.rllib.env._episode import Episode
from eagleray.rllib.env.env_runner import EnvRunner

MultiAgentEpisode = Episode
RolloutWorker = EnvRunner

__all__ = ["Episode", "MultiAgentEpisode", "RolloutWorker"]
