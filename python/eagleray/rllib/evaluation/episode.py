"""Episodes, under the older path."""

from eagleray.rllib.env._episode import Episode

MultiAgentEpisode = Episode

__all__ = ["Episode", "MultiAgentEpisode"]
