"""Experiments as dictionaries: what `run_experiments` takes."""

from __future__ import annotations

from typing import Any

from eagleray.tune.error import TuneError


class Experiment:
    """What `tune.run` takes, under a name."""

    def __init__(self, name: str, run: Any, **arguments: Any) -> None:
        """Keep the arguments of `tune.run`."""
        self.name = name
        self.spec: dict[str, Any] = {"run": run, **arguments}

    @classmethod
    def from_json(cls, name: str, spec: dict[str, Any]) -> Experiment:
        """Of a dictionary with "run", "config", "stop" and so on."""
        if "run" not in spec:
            raise TuneError(f"No trainable specified: the experiment {name!r} has no 'run'")
        spec = dict(spec)
        # RLlib's files of old have the environment beside the configuration.
        if "env" in spec:
            spec["config"] = {**spec.get("config", {}), "env": spec.pop("env")}
        return cls(name, **spec)


def as_experiments(given: Any) -> list[Experiment]:
    """One experiment, several, or dictionaries of them by name."""
    if isinstance(given, Experiment):
        return [given]
    if isinstance(given, dict):
        return [Experiment.from_json(name, spec) for name, spec in given.items()]
    if isinstance(given, list) and given and all(isinstance(one, Experiment) for one in given):
        return list(given)
    raise TuneError(f"Invalid experiments: {given!r}. Pass an Experiment, a list of them, or a dictionary.")
