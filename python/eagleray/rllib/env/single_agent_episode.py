"""Episodes, under their newer path."""

from eagleray.rllib.env._episode import Episode

SingleAgentEpisode = Episode

__all__ = ["SingleAgentEpisode"]
