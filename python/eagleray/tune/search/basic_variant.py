"""Grid and random search: what is used if no searcher is named."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagleray.tune.search._draw import as_draw, fresh_seed
from eagleray.tune.search.search_algorithm import SearchAlgorithm, Suggestion
from eagleray.tune.search.variant_generator import (
    count_variants,
    flatten_resolved_vars,
    format_vars,
    generate_variants,
    preset_variants,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray.tune.search.variant_generator import Variant


class BasicVariantGenerator(SearchAlgorithm):
    """Every combination of grids, as many times as there are samples, with the rest drawn at random.

    Args:
        points_to_evaluate: values to begin with; each takes the place of one sample, what it does not say is drawn.
        max_concurrent: how many of its trials may be under way; 0 for as many as there is room for.
        constant_grid_search: whether what is drawn stays the same over one grid.
        random_state: a seed, or a generator of numpy's. Without one, what the program seeded itself decides.
    """

    CKPT_FILE_TMPL = "basic-variant-state-{}.json"

    def __init__(
        self,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,  # noqa: FBT001, FBT002
        random_state: Any = None,
    ) -> None:
        self.max_concurrent = max_concurrent
        #: Set if chance comes from a seed, own or drawn: made anew with it, it gives the same configurations.
        self.seed: int | None = fresh_seed() if random_state is None else None
        if isinstance(random_state, int):
            self.seed = random_state
        self._draw = as_draw(random_state if self.seed is None else self.seed)
        self._points = list(points_to_evaluate or [])
        self._is_constant = constant_grid_search
        self._total = 0
        self._given = 0
        self._live: set[str] = set()
        self._space: dict[str, Any] = {}
        self._num_samples = 1
        self._variants: Iterator[Variant] | None = None

    @property
    def total_samples(self) -> int:
        """How many trials there will be; -1 for no end."""
        return self._total

    def set_space(self, param_space: dict[str, Any], *, num_samples: int = 1) -> None:
        """Hears the space and how many samples of it are wanted; -1 for no end."""
        self._space = {"config": param_space, "num_samples": num_samples}
        self._num_samples = num_samples
        self._total = -1 if num_samples < 0 else count_variants(self._space, self._points)
        self._given = 0
        self._finished = False
        self._variants = self._all()

    def next_config(self, trial_id: str | None = None) -> Suggestion | None:
        """The next configuration; None if too many are under way, or all were given."""
        if self._finished or self._variants is None:
            return None
        if self.max_concurrent > 0 and len(self._live) >= self.max_concurrent:
            return None
        try:
            chosen, spec = next(self._variants)
        except StopIteration:
            self._finished = True
            return None
        tag = str(self._given)
        if chosen:
            tag += f"_{format_vars(chosen)}"
        self._given += 1
        if trial_id is not None:
            self._live.add(trial_id)
        return Suggestion(spec["config"], flatten_resolved_vars(chosen), tag)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """One less is under way."""
        self._live.discard(trial_id)

    def get_state(self) -> dict[str, Any]:
        """What `set_state` goes on from."""
        return {"seed": self.seed, "given": self._given, "live": sorted(self._live)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on where another one, of the same space, was. That one's chance must have come from a seed."""
        if state["seed"] is None:
            raise ValueError("a generator of numpy's was given as random_state: where it was is not known")
        self.seed = state["seed"]
        self._draw = as_draw(self.seed)
        self.set_space(self._space["config"], num_samples=self._num_samples)
        self._live = set()
        limit, self.max_concurrent = self.max_concurrent, 0
        for _ in range(state["given"]):
            self.next_config()
        self.max_concurrent = limit
        self._live = set(state["live"])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_variants"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._variants = None
        if self._space and self._given:
            self.set_state(self.get_state())
        elif self._space:
            self._variants = self._all()

    def has_checkpoint(self, dirpath: str) -> bool:
        """Whether `restore_from_dir` would find something."""
        return any(Path(dirpath).glob(self.CKPT_FILE_TMPL.format("*")))

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Writes how far it is."""
        path = Path(dirpath) / self.CKPT_FILE_TMPL.format(session_str)
        partial = path.with_name(f"tmp-{path.name}")
        partial.write_bytes(pickle.dumps(self.get_state()))
        partial.replace(path)

    def restore_from_dir(self, dirpath: str) -> None:
        """Goes on from the newest file in a folder."""
        files = sorted(Path(dirpath).glob(self.CKPT_FILE_TMPL.format("*")))
        if not files:
            raise RuntimeError(f"Unable to find checkpoint in {dirpath}.")
        self.set_state(pickle.loads(files[-1].read_bytes()))

    def _all(self) -> Iterator[Variant]:
        left = self._num_samples
        for point in self._points:
            left -= 1
            yield from preset_variants(self._space, point, self._is_constant, self._draw)
        while left > 0 or self._num_samples < 0:
            left -= 1
            yield from generate_variants(self._space, self._is_constant, self._draw)
