"""A named actor, shared by tasks that find it by its name."""

import eagleray as ray


@ray.remote
class Scores:
    """Keeps the best score."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.best = 0

    def offer(self, score: int) -> None:
        """Keep it if it is better."""
        self.best = max(self.best, score)

    def read(self) -> int:
        """Say the best one."""
        return self.best


@ray.remote
def play(seed: int) -> None:
    """Play a game and offer the score."""
    scores = ray.get_actor("scores")
    ray.get(scores.offer.remote(seed * 7919 % 101))


if __name__ == "__main__":
    ray.init(namespace="games")
    scores = Scores.options(name="scores").remote()
    ray.get([play.remote(seed) for seed in range(20)])
    best = ray.get(scores.read.remote())
    assert best == max(seed * 7919 % 101 for seed in range(20)), best
    print("best score:", best)
