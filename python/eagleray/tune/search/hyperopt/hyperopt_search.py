"""HyperOpt's tree of Parzen estimators as a searcher, for those who have it installed."""

from __future__ import annotations

import math
from typing import Any

from eagleray.tune.search._package import PackageSearcher, clipped, numbers_of, plain
from eagleray.tune.search.sample import Categorical


class HyperOptSearch(PackageSearcher):
    """Suggests what HyperOpt's TPE suggests.

    Args:
        space: a nested dict of domains, or a space of `hyperopt.hp`; without one, the Tuner's is taken.
        metric: what is optimised.
        mode: "min" or "max".
        points_to_evaluate: configurations to begin with; of a space of HyperOpt's own, by its labels, a choice by its index.
        n_initial_points: how many random trials come first.
        random_state_seed: decides everything that is drawn.
        gamma: which share of the trials counts as good.
    """

    _package = "hyperopt"
    _pip = "hyperopt"

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
    ) -> None:
        self._options = {"n_startup_jobs": n_initial_points, "gamma": gamma}
        super().__init__(space, metric, mode, points_to_evaluate, random_state_seed)

    @classmethod
    def convert_search_space(cls, spec: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        """A nested dict of domains as HyperOpt has it: flat, what counts under a condition below its choice."""
        return _tree(cls._imported().hp, cls._convert(spec).params, prefix)

    def _is_own(self, space: Any) -> bool:
        apply = self._library.pyll.base.Apply
        if isinstance(space, dict):
            return any(self._is_own(value) for value in space.values())
        if isinstance(space, list | tuple):
            return any(self._is_own(value) for value in space)
        return isinstance(space, apply)

    def _make(self) -> Any:
        space = self._space if self._converted is None else _tree(self._library.hp, self._converted.params)
        self._domain = self._library.Domain(_unused, space)
        return self._library.Trials()

    def _next(self) -> Any:
        trials = self._optimizer
        ids = trials.new_trial_ids(1)
        trials.refresh()
        # Its chance is of this number alone, so that it does not matter what was asked for in between.
        seed = (self.seed + 7919 * self._count) % (2**31 - 1)
        docs = self._library.tpe.suggest(ids, self._domain, trials, seed, verbose=False, **self._options)
        labels = {name: each[0] for name, each in docs[0]["misc"]["vals"].items() if len(each)}
        return self._insert(docs), self._found(labels)

    def _give(self, point: Any) -> Any:
        trials = self._optimizer
        (number,) = trials.new_trial_ids(1)
        vals = self._labels(point)
        known = {name: [vals[name]] if vals.get(name) is not None else [] for name in self._domain.params}
        misc = {
            "tid": number,
            "cmd": self._domain.cmd,
            "workdir": self._domain.workdir,
            "vals": known,
            "idxs": {name: [number] * len(each) for name, each in known.items()},
        }
        return self._insert(trials.new_trial_docs([number], [None], [self._domain.new_result()], [misc]))

    def _insert(self, docs: list[Any]) -> int:
        self._optimizer.insert_trial_docs(docs)
        self._optimizer.refresh()
        number: int = docs[0]["tid"]
        self._doc(number)["state"] = self._library.JOB_STATE_RUNNING
        return number

    def _doc(self, number: int) -> Any:
        return next(doc for doc in reversed(self._optimizer._dynamic_trials) if doc["tid"] == number)

    def _drop(self, asked: Any) -> None:
        self._learn(asked, None, {})

    def _learn(self, asked: Any, loss: float | None, result: dict[str, Any]) -> None:
        doc = self._doc(asked)
        if loss is None:
            doc["state"] = self._library.JOB_STATE_ERROR
            doc["misc"]["error"] = ("failed", "without a result")
        else:
            doc["state"] = self._library.JOB_STATE_DONE
            doc["result"] = {"loss": loss, "status": self._library.STATUS_OK}
        self._optimizer.refresh()

    def _labels(self, point: Any) -> dict[str, Any]:
        if self._converted is None:
            return dict(point)
        return {param.name: value for param, value in zip(self._converted.params, point, strict=True)}

    def _found(self, labels: dict[str, Any]) -> Any:
        if self._converted is None:
            return {name: plain(value) for name, value in labels.items()}
        found = []
        for param in self._converted.params:
            value = plain(labels.get(param.name))
            if value is not None and not isinstance(param.domain, Categorical):
                value = clipped(param, value)
            found.append(value)
        return found

    def _given(self, trial_id: str, asked: Any, point: Any) -> dict[str, Any]:
        config = super()._given(trial_id, asked, point)
        if self._converted is None:
            config = self._library.space_eval(self._space, point)
        return config


def _unused(_config: Any) -> float:
    return 0.0


def _tree(hp: Any, params: list[Any], prefix: str = "") -> dict[str, Any]:
    def under(condition: tuple[int, int] | None) -> dict[str, Any]:
        found = {}
        for at, param in enumerate(params):
            last = (param.when[-1][0], param.when[-1][1][0]) if param.when else None
            if last == condition:
                found[param.name] = node(at, param)
        return found

    def node(at: int, param: Any) -> Any:
        label = f"{prefix}{param.name}"
        if isinstance(param.domain, Categorical):
            return hp.choice(label, [{"": branch, **under((at, branch))} for branch in range(len(param.branches))])
        kind, low, high, step = numbers_of(param)
        if kind == "normal":
            return hp.qnormal(label, low, high, step) if step else hp.normal(label, low, high)
        if kind.startswith("log_"):
            ends = (math.log(low), math.log(high))
            return hp.qloguniform(label, *ends, step) if step else hp.loguniform(label, *ends)
        if kind == "int" and step == 1:
            return hp.randint(label, int(low), int(high) + 1)
        return hp.quniform(label, low, high, step) if step else hp.uniform(label, low, high)

    return under(None)
