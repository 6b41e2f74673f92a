"""Episodes, under their newer path."""

from eagleray.rllib.env._episode import Episode

MultiAgentEpisode = Episode

__all__ = ["MultiAgentEpisode"]
