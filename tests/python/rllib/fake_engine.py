"""An engine of a few lines of numpy: a linear policy that learns by REINFORCE. It proves what stands around the real one."""

import pickle
from dataclasses import dataclass

import numpy as np

from eagleray.rllib._engine.protocol import Acted, Ended, Observed, Stepped


@dataclass
class FakeRollout:
    seen: np.ndarray  # steps, environments, numbers
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    last: np.ndarray

    @property
    def steps(self):
        return self.rewards.size


class FakeCollector:
    def __init__(self, policy, count):
        self.policy, self.count = policy, count
        self.columns = []
        self.open = None
        self.ended = []
        self.totals, self.lengths = np.zeros(count), np.zeros(count, int)

    def act(self, observed, *, explore):
        assert self.open is None, "act after act"
        actions, _ = self.policy.act(observed, explore=explore)
        self.open = (observed.copy(), actions.copy())
        return actions

    def told(self, observed, actions):
        assert self.open is None
        self.open = (observed.copy(), actions.copy())

    def observe(self, rewards, terminated, truncated, observed, last):
        seen, actions = self.open
        assert observed.dtype == last.dtype == rewards.dtype == np.float32
        assert terminated.dtype == truncated.dtype == np.bool_
        assert len(rewards) == len(terminated) == len(observed) == self.count
        self.open = None
        self.totals, self.lengths = self.totals + rewards, self.lengths + 1
        over = terminated | truncated
        self.ended = [Ended(float(self.totals[at]), int(self.lengths[at])) for at in np.flatnonzero(over)]
        self.totals, self.lengths = self.totals * ~over, self.lengths * ~over
        self.columns.append((seen, actions, rewards.copy(), terminated.copy(), truncated.copy(), last.copy()))

    def run(self, simulator, steps, *, explore):
        ended = []
        for _ in range(steps):
            stepped = simulator.step(self.act(simulator.look(), explore=explore))
            self.observe(stepped.rewards, stepped.terminated, stepped.truncated, stepped.observed, stepped.last)
            ended += self.ended
        return ended

    def forget(self):
        self.columns, self.open, self.ended = [], None, []
        self.totals, self.lengths = np.zeros(self.count), np.zeros(self.count, int)

    def take(self):
        assert self.open is None, "taken in the middle of a step"
        columns, self.columns = self.columns, []
        return FakeRollout(*(np.array(part) for part in zip(*columns, strict=True)))

    def state(self):
        return pickle.dumps(self.policy.rng)

    def restore(self, state):
        self.policy.rng = pickle.loads(state)


class FakePolicy:
    def __init__(self, plan):
        self.plan = plan
        self.rng = np.random.default_rng(plan.seed)
        self.weights = np.zeros((plan.observed.size + 1, sum(plan.acted.sizes)))
        self.epsilon = 0.0
        self.loads = 0

    def load(self, weights, exploration):
        self.weights = pickle.loads(weights)
        self.epsilon = exploration.get("epsilon", 0.0)
        self.loads += 1

    state_size = 0

    def written(self):
        return pickle.dumps(self.weights)

    def inputs(self, observed, state=None):
        ones = np.ones((len(observed), 1), np.float32)
        return np.concatenate([observed, ones], 1) @ self.weights

    def act(self, observed, *, explore, state=None):
        logits = self.inputs(observed)
        if self.plan.acted.kind == "box":
            noise = self.rng.normal(size=logits.shape) if explore else 0.0
            return np.tanh(logits + noise).astype(np.float32), state
        rows, start = [], 0
        for size in self.plan.acted.sizes:
            part = logits[:, start : start + size]
            if explore:
                part = part + self.rng.gumbel(size=part.shape)
            rows.append(part.argmax(1))
            start += size
        return np.stack(rows, 1).astype(np.float32), state

    def collector(self, count):
        return FakeCollector(self, count)


class FakeLearner:
    def __init__(self, plan):
        self.plan = plan
        self.values = np.zeros((plan.observed.size + 1, sum(plan.acted.sizes)))
        self.count = 0
        self.asked = []
        self.rng = np.random.default_rng(plan.seed)

    def update(self, rollouts, settings):
        self.count += 1
        steps = sum(rollout.steps for rollout in rollouts)
        if self.plan.settings["env_config"].get("spoil") == self.count:
            return {"total_loss": float("nan")}
        if self.plan.acted.kind == "discrete" and len(self.plan.acted.sizes) == 1:
            for rollout in rollouts:
                self._learn(rollout, settings.get("lr", 0.0))
        return {"total_loss": 0.5, "steps": float(steps), "updates": float(settings.get("updates", 0))}

    def _learn(self, rollout, lr):
        gamma, carry = self.plan.settings["gamma"], np.zeros(rollout.rewards.shape[1])
        returns = np.zeros(rollout.rewards.shape)
        for t in reversed(range(len(returns))):
            carry = rollout.rewards[t] + gamma * carry * ~(rollout.terminated[t] | rollout.truncated[t])
            returns[t] = carry
        x = rollout.seen.reshape(-1, rollout.seen.shape[2])
        x = np.concatenate([x, np.ones((len(x), 1))], 1)
        logits = x @ self.values
        chosen = np.exp(logits - logits.max(1, keepdims=True))
        chosen /= chosen.sum(1, keepdims=True)
        wanted = np.eye(self.values.shape[1])[rollout.actions.reshape(-1).astype(int)]
        advantage = (returns - returns.mean()).reshape(-1, 1)
        self.values = self.values + lr * x.T @ ((wanted - chosen) * advantage) / len(x) * 1000

    def weights(self):
        return pickle.dumps(self.values)

    def set_weights(self, weights):
        self.values = pickle.loads(weights)

    def state(self):
        return pickle.dumps(self.count)

    def restore(self, state):
        self.count = pickle.loads(state)

    def ask(self, count):
        noise = self.rng.normal(size=(count // 2, *self.values.shape))
        made = [self.values + sign * one for one in noise for sign in (1, -1)]
        self.asked += made
        return [pickle.dumps(one) for one in made]

    def tell(self, returns, lengths, settings):
        asked, self.asked = self.asked, []
        assert len(returns) == len(lengths) == len(asked)
        self.values = asked[int(np.nanargmax(returns))]
        return {"best": float(np.nanmax(returns))}


class FakeSimulator:
    """Says a sign, and pays for the action that names it. Episodes have ten steps."""

    observed = Observed((1,))
    acted = Acted("discrete", (2,))

    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)
        self.at = 0
        self.sign = self.rng.choice([-1.0, 1.0], count)

    def look(self):
        return self.sign.reshape(-1, 1).astype(np.float32)

    def step(self, actions):
        rewards = ((self.sign > 0) == (actions[:, 0] > 0)).astype(np.float32)
        self.at += 1
        self.sign = self.rng.choice([-1.0, 1.0], self.count)
        is_over = np.full(self.count, self.at == 10)
        self.at %= 10
        return Stepped(rewards, is_over, np.zeros(self.count, np.bool_), self.look(), self.look())

    def state(self):
        return pickle.dumps((self.rng, self.at, self.sign))

    def restore(self, state):
        self.rng, self.at, self.sign = pickle.loads(state)


class FakeEngine:
    def learner(self, plan):
        return FakeLearner(plan)

    def policy(self, plan):
        return FakePolicy(plan)

    def simulator(self, name, env_config, count, seed, bounded="spread"):
        return FakeSimulator(count, seed) if name == "Signs-v0" else None

    def columns(self, rollout):
        rows = {"obs": rollout.seen, "actions": rollout.actions, "rewards": rollout.rewards}
        rows |= {"terminateds": rollout.terminated, "truncateds": rollout.truncated}
        shape = (*rollout.rewards.shape, -1)
        return {name: part.reshape(shape).swapaxes(0, 1).reshape(rollout.steps, -1) for name, part in rows.items()}

    def arrays(self, weights):
        return {"w": pickle.loads(weights)}

    def packed(self, arrays):
        return pickle.dumps(arrays["w"])
