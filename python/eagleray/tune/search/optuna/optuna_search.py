"""Optuna as a searcher, for those who have it installed: any of its samplers, on any space, also with conditions."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from eagleray.tune.search._draw import fresh_seed
from eagleray.tune.search._space import ConvertedSpace, Param
from eagleray.tune.search.native import metric_of
from eagleray.tune.search.sample import Categorical, Normal, Quantized
from eagleray.tune.search.searcher import Searcher

if TYPE_CHECKING:
    from collections.abc import Callable


def _import_optuna() -> Any:
    try:
        import optuna  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        text = "OptunaSearch needs Optuna, which is not installed: run `pip install optuna`."
        raise ImportError(text) from error
    return optuna


#: Optuna draws evenly from ranges only. So of what is normally distributed it draws which share of all values is less, and that decides the
#: value: up to six deviations away from the mean.
_SHARES = (1e-9, 1.0 - 1e-9)


class OptunaSearch(Searcher):
    """Suggests what a sampler of Optuna suggests.

    Of a normally distributed parameter `x` the study has `x (quantile)`: the share of all values that are less.

    Args:
        space: a nested dict of domains; or a function that is given Optuna's trial, suggests on it, and may return
            constants; without one, the Tuner's space is taken.
        metric: what is optimised; a list for several.
        mode: "min" or "max"; a list for several.
        points_to_evaluate: configurations to begin with.
        sampler: a sampler of Optuna; without one, its TPE with `seed`.
        study_name: the study's name.
        storage: where Optuna keeps the study; by default in memory.
        seed: of the default sampler.
        evaluated_rewards: values of `points_to_evaluate`, which are then not tried again.
    """

    def __init__(
        self,
        space: dict[str, Any] | Callable[[Any], dict[str, Any] | None] | None = None,
        metric: Any = None,
        mode: Any = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: list[Any] | None = None,
    ) -> None:
        self._optuna = _import_optuna()
        super().__init__(metric=metric, mode=mode)
        if sampler is not None and not isinstance(sampler, self._optuna.samplers.BaseSampler):
            raise TypeError(
                f"You passed an object of type {type(sampler)} as sampler. Make sure to pass an Optuna sampler."
            )
        self.seed = fresh_seed() if seed is None else int(seed)
        self._sampler = sampler
        self._study_name = study_name or "optuna"
        self._storage = storage
        self._points = list(points_to_evaluate or [])
        self._rewards = list(evaluated_rewards or [])
        self._space = space or None
        self._converted: ConvertedSpace | None = None
        self._study: Any = None
        self._trials: dict[str, Any] = {}
        self._told: set[str] = set()
        if self._space is not None and self._mode:
            self._start()

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Hears of the experiment. False if it has a space already."""
        self._hear(metric, mode)
        is_new = self._space is None
        if is_new:
            self._space = config
        if self._study is None and self._mode:
            self._start()
        return is_new

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """What the sampler suggests."""
        is_told = bool(self._metric and self._mode and self._study is not None)
        self._refuse_without(space=self._space is not None, metric=is_told)
        if trial_id not in self._trials:
            self._trials[trial_id] = self._study.ask()
        trial = self._trials[trial_id]
        if self._converted is None:
            assert callable(self._space)
            constants = self._space(trial) or {}
            return _nested({**trial.params, **constants})
        values: list[Any] = [None] * len(self._converted.params)
        for at, param in enumerate(self._converted.params):
            if all(values[parent] in chosen for parent, chosen in param.when):
                values[at] = _suggest(trial, param)
        return self._converted.build(values)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tells the study an intermediate value."""
        value = metric_of(result, self._metric)
        step = result.get("training_iteration")
        if value is not None and step is not None and trial_id in self._trials:
            self._trials[trial_id].report(value, int(step))

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Tells the study how a trial ended."""
        trial = self._trials.get(trial_id)
        if trial is None or trial_id in self._told:
            return
        self._told.add(trial_id)
        metrics = self._metric if isinstance(self._metric, list) else [self._metric]
        modes = self._mode if isinstance(self._mode, list) else [self._mode]
        wanted = [metric for metric, mode in zip(metrics, modes, strict=True) if mode != "obs"]
        values = [metric_of(result, metric) for metric in wanted]
        if error or None in values:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, values if len(values) > 1 else values[0])

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,  # noqa: FBT001, FBT002
        pruned: bool = False,  # noqa: FBT001, FBT002
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Adds a finished trial to the study."""
        self._refuse_without(space=self._converted is not None and self._study is not None)
        assert self._converted is not None
        values = self._converted.parse(parameters)
        if values is None:
            raise ValueError(f"{parameters} does not lie in the search space")
        known = [(param, each) for param, each in zip(self._converted.params, values, strict=True) if each is not None]
        states = self._optuna.trial.TrialState
        state = states.FAIL if error else states.PRUNED if pruned else states.COMPLETE
        frozen = self._optuna.trial.create_trial(
            state=state,
            value=None if error else value,
            params={_name(param): _told_value(param, each) for param, each in known},
            distributions={_name(param): _distribution(self._optuna, param) for param, _ in known},
            intermediate_values=dict(enumerate(intermediate_values or [])),
        )
        self._study.add_trial(frozen)

    def get_state(self) -> dict[str, Any]:
        """The study and what is known of its trials."""
        return {key: value for key, value in vars(self).items() if key != "_optuna"}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up a state."""
        self._optuna = _import_optuna()
        vars(self).update(state)

    __getstate__ = get_state
    __setstate__ = set_state

    def _start(self) -> None:
        modes = self._mode if isinstance(self._mode, list) else [self._mode]
        directions = ["minimize" if mode == "min" else "maximize" for mode in modes if mode != "obs"]
        sampler = self._sampler or self._optuna.samplers.TPESampler(seed=self.seed)
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        self._study = self._optuna.create_study(
            study_name=self._study_name,
            storage=self._storage,
            sampler=sampler,
            directions=directions,
            load_if_exists=True,
        )
        if isinstance(self._space, dict):
            self._converted = ConvertedSpace(self._space, who=type(self).__name__)
        if self._rewards:
            for point, reward in zip(self._points, self._rewards, strict=True):
                self.add_evaluated_point(point, reward)
            return
        for point in self._points:
            values = None if self._converted is None else self._converted.parse(point)
            if values is None or self._converted is None:
                self._study.enqueue_trial(point)
                continue
            known = zip(self._converted.params, values, strict=True)
            told = {_name(param): _told_value(param, each) for param, each in known if each is not None}
            self._study.enqueue_trial(told)


def _suggest(trial: Any, param: Param) -> Any:
    """The value of a parameter; of a choice, its index."""
    domain = param.domain
    if isinstance(domain, Categorical):
        names = _names(domain)
        return names.index(trial.suggest_categorical(param.name, names))
    bell = _bell(param)
    if bell is not None:
        return bell.inv_cdf(trial.suggest_float(_name(param), *_SHARES))
    is_int, low, high, step, log = _numbers(param)
    if is_int:
        return trial.suggest_int(param.name, int(low), int(high), step=1 if log else int(step), log=log)
    return trial.suggest_float(param.name, low, high, step=None if log else step, log=log)


def _distribution(optuna: Any, param: Param) -> Any:
    domain = param.domain
    if isinstance(domain, Categorical):
        return optuna.distributions.CategoricalDistribution(_names(domain))
    if _bell(param) is not None:
        return optuna.distributions.FloatDistribution(*_SHARES)
    is_int, low, high, step, log = _numbers(param)
    if is_int:
        return optuna.distributions.IntDistribution(int(low), int(high), log=log, step=1 if log else int(step))
    return optuna.distributions.FloatDistribution(low, high, log=log, step=None if log else step)


def _numbers(param: Param) -> tuple[bool, float, float, Any, bool]:
    """Whether integers are meant, the least, the greatest, the step, and whether orders of magnitude matter."""
    from eagleray.tune.search._space import native_kind

    kind, numbers = native_kind(param)
    low, high, step = numbers
    return kind.endswith("int"), low, high, step or None, kind.startswith("log_")


def _names(domain: Categorical) -> list[Any]:
    """What Optuna can store of the categories: plain values as they are, of others the index."""
    plain = (str, int, float, bool, type(None))
    is_plain = all(isinstance(each, plain) for each in domain.categories)
    return list(domain.categories) if is_plain else list(range(len(domain.categories)))


def _bell(param: Param) -> NormalDist | None:
    """The distribution of a parameter that is normally distributed."""
    sampler = param.domain.get_sampler()
    inner = sampler.sampler if isinstance(sampler, Quantized) else sampler
    return NormalDist(inner.mean, inner.sd) if isinstance(inner, Normal) else None


def _name(param: Param) -> str:
    """What a parameter is called in the study."""
    return param.name if _bell(param) is None else f"{param.name} (quantile)"


def _told_value(param: Param, value: Any) -> Any:
    """A value as the study has it."""
    if isinstance(param.domain, Categorical):
        return _names(param.domain)[value]
    bell = _bell(param)
    if bell is None:
        return value
    low, high = _SHARES
    return min(max(bell.cdf(value), low), high)


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split("/")
        place = config
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return config
