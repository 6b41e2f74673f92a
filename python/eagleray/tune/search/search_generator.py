"""Configurations from a searcher: its suggestions, together with what is the same for all trials."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from eagleray.tune.search.search_algorithm import SearchAlgorithm, Suggestion
from eagleray.tune.search.searcher import Searcher, retraced, trace_of
from eagleray.tune.search.variant_generator import (
    format_vars,
    generate_variants,
    has_unresolved_values,
)

_ALREADY_A_SPACE = (
    "You passed a `param_space` parameter to `Tuner(...)` with unresolved parameters, but the search algorithm was "
    "already instantiated with a search space. Make sure that `config` does not contain any more parameter "
    "definitions - include them in the search algorithm's search space if necessary."
)


class SearchGenerator(SearchAlgorithm):
    """Gives what a searcher suggests, `num_samples` times."""

    CKPT_FILE_TMPL = "search_gen_state-{}.json"

    def __init__(self, searcher: Any) -> None:
        self.searcher = searcher
        self._constant: dict[str, Any] = {}
        self._total = 0
        self._given = 0

    @property
    def metric(self) -> Any:
        """What its searcher optimises."""
        return self.searcher.metric

    @property
    def seed(self) -> int | None:
        """Its searcher's seed, if that has one: made anew with it, it suggests the same."""
        return getattr(self.searcher, "seed", None)

    @property
    def total_samples(self) -> int:
        """How many trials there will be; -1 for no end."""
        return self._total

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Tells its searcher. One that has a space of its own must be told of no other."""
        try:
            is_taken = self.searcher.set_search_properties(metric, mode, config, **spec)
        except TypeError as error:
            if not spec or "unexpected keyword argument" not in str(error):
                raise
            is_taken = self.searcher.set_search_properties(metric, mode, config)
        if not is_taken and config and has_unresolved_values(config):
            kind = type(self.searcher)
            if getattr(kind, "set_search_properties", None) is Searcher.set_search_properties:
                raise ValueError(
                    f"{kind.__name__} takes no space from `param_space`, since it does not override `set_search_properties`: give it "
                    "what it searches by itself, and leave only values in `param_space`."
                )
            raise ValueError(_ALREADY_A_SPACE)
        return True

    def set_space(self, param_space: dict[str, Any], *, num_samples: int = 1) -> None:
        """Hears what is the same for all trials and how many there will be; -1 for no end."""
        self._constant = param_space
        self._total = num_samples
        self._given = 0
        self._finished = False

    def next_config(self, trial_id: str | None = None) -> Suggestion | None:
        """What the searcher suggests now."""
        if self.is_finished():
            return None
        suggested = self.searcher.suggest(f"{self._given:05d}" if trial_id is None else trial_id)
        if not self._is_given(suggested):
            return None
        config = _merged(self._constant, suggested)
        if has_unresolved_values(config):
            _, spec = next(iter(generate_variants({"config": config}, random_state=self._given)))
            config = spec["config"]
        tag = f"{self._given}_{format_vars(_paths(config))}"
        return Suggestion(config, _flat(suggested), tag, trace=trace_of(self.searcher))

    def retrace(self, trial_id: str, trace: Any) -> None:
        """Lets its searcher move on as it did."""
        if type(self).next_config is not SearchGenerator.next_config:
            # A user's own: what it does beside asking the searcher is not known.
            self.next_config(trial_id)
        elif not self.is_finished():
            self._is_given(retraced(self.searcher, trial_id, trace))

    def _is_given(self, suggested: Any) -> bool:
        """Whether the searcher's answer is a configuration."""
        if isinstance(suggested, str) and suggested == Searcher.FINISHED:
            self._finished = True
            return False
        if suggested is None:
            return False
        if not isinstance(suggested, dict):
            raise TypeError(
                f"{type(self.searcher).__name__}.suggest must return a dictionary, None or Searcher.FINISHED; got {suggested!r}"
            )
        self._given += 1
        return True

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tells its searcher."""
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Tells its searcher."""
        self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def is_finished(self) -> bool:
        """Whether all were given, or its searcher has no more."""
        return self._finished or (self._total >= 0 and self._given >= self._total)

    def get_state(self) -> dict[str, Any]:
        """Its own state."""
        return {"given": self._given, "total": self._total, "finished": self._finished}

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes up its own state."""
        self._given, self._total, self._finished = state["given"], state["total"], state["finished"]

    def has_checkpoint(self, dirpath: str) -> bool:
        """Whether `restore_from_dir` would find something."""
        return any(Path(dirpath).glob(self.CKPT_FILE_TMPL.format("*")))

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Writes its state, and that of the searcher and of what is wrapped around it."""
        state = self.get_state()
        searcher = self.searcher
        while hasattr(searcher, "searcher"):
            state[f"name:{type(searcher).__name__}"] = searcher.get_state()
            searcher = searcher.searcher
        searcher.save_to_dir(dirpath, session_str)
        path = Path(dirpath) / self.CKPT_FILE_TMPL.format(session_str)
        partial = path.with_name(f"tmp-{path.name}")
        partial.write_bytes(pickle.dumps(state))
        partial.replace(path)

    def restore_from_dir(self, dirpath: str) -> None:
        """Takes all of these up again."""
        files = sorted(Path(dirpath).glob(self.CKPT_FILE_TMPL.format("*")), key=lambda path: path.stat().st_mtime)
        if not files:
            raise RuntimeError(f"Unable to find checkpoint in {dirpath}.")
        state = pickle.loads(files[-1].read_bytes())
        searcher = self.searcher
        while hasattr(searcher, "searcher"):
            own = state.get(f"name:{type(searcher).__name__}")
            if own is not None:
                searcher.set_state(own)
            searcher = searcher.searcher
        searcher.restore_from_dir(dirpath)
        self.set_state(state)


def _merged(base: Any, over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        own = merged.get(key)
        is_both = isinstance(own, dict) and isinstance(value, dict) and not has_unresolved_values({key: own})
        merged[key] = _merged(own, value) if is_both else value
    return merged


def _paths(tree: dict[str, Any], above: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    paths: dict[tuple[Any, ...], Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            paths.update(_paths(value, (*above, key)))
        else:
            paths[*above, key] = value
    return paths


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    return {"/".join(str(part) for part in path): value for path, value in _paths(tree).items()}
