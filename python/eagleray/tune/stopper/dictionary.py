"""Thresholds that end trials."""

from __future__ import annotations

import logging
import numbers
from typing import TYPE_CHECKING, Any

from eagleray._common.near import nearest
from eagleray.tune.error import TuneError
from eagleray.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

_MISSING = object()

#: How much two names must have in common, of 1, to be taken for one another.
_ALIKE = 0.75


class DictionaryStopper(Stopper):
    """Ends a trial as soon as one of its metrics is at least its threshold.

    Nested metrics are named by nested dicts or as "a/b/c". A metric that is not reported ends nothing; that is said once.
    """

    def __init__(self, thresholds: dict[str, Any]) -> None:
        self._thresholds = dict(_flat(thresholds, ()))
        self._warned: set[str] = set()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Compares."""
        for name, (path, threshold) in self._thresholds.items():
            value = result.get(name, _MISSING)
            if value is _MISSING and len(path) > 1:
                value = _nested(result, path)
            if value is _MISSING:
                self._warn(name, result)
            elif _reaches(name, value, threshold):
                return True
        return False

    def stop_all(self) -> bool:
        """No."""
        return False

    def _warn(self, name: str, result: dict[str, Any]) -> None:
        if name in self._warned:
            return
        self._warned.add(name)
        logger.warning(
            "Stopping criterion '%s' not found in result dict! Available values are %s. If '%s' is never reported, the run will continue until "
            "training is finished.%s",
            name,
            list(result),
            name,
            _hint(name, result),
        )


def _hint(name: str, result: dict[str, Any]) -> str:
    """Which number of the result was probably meant: one of the same name elsewhere, else one whose name looks alike."""
    # Settings are no measurements: no trial ends by them.
    known = list(_numbers({key: value for key, value in result.items() if key != "config"}, ()))
    last = name.rsplit("/", 1)[-1]
    same = [one for one in known if one.rsplit("/", 1)[-1] == last]
    near = min(same, key=len) if same else nearest(name, known, cutoff=_ALIKE)
    return f" Did you mean '{near}'?" if near else ""


def _numbers(result: dict[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    for key, value in result.items():
        path = (*above, str(key))
        if isinstance(value, dict):
            yield from _numbers(value, path)
        elif isinstance(value, numbers.Real):
            yield "/".join(path)


def _flat(thresholds: dict[str, Any], above: tuple[str, ...]) -> list[tuple[str, tuple[tuple[str, ...], Any]]]:
    flat = []
    for key, value in thresholds.items():
        path = (*above, *str(key).split("/"))
        if isinstance(value, dict):
            flat += _flat(value, path)
        else:
            flat.append(("/".join(path), (path, value)))
    return flat


def _nested(result: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(result, dict) or key not in result:
            return _MISSING
        result = result[key]
    return result


def _reaches(name: str, value: Any, threshold: Any) -> bool:
    if value is None:
        return False
    try:
        return bool(value >= threshold)
    except (TypeError, ValueError):
        raise TuneError(
            f"stop={{{name!r}: {threshold!r}}}: the trial reported {value!r}, which cannot be compared with that"
        ) from None
