"""Messages that programs match, with places for the names."""

UNRESOLVED_SEARCH_SPACE = (
    "You passed a `{par}` parameter to {cls} that contained unresolved search space definitions. {cls} should however "
    "be instantiated with fully configured search spaces only. To use Ray Tune's automatic search space conversion, "
    "pass the space definition as part of the `param_space` argument to `tune.Tuner()` instead."
)
UNDEFINED_SEARCH_SPACE = (
    "Trying to sample a configuration from {cls}, but no search space has been defined. Either pass the `{space}` "
    "argument when instantiating the search algorithm, or pass a `param_space` to `tune.Tuner()`."
)
UNDEFINED_METRIC_MODE = (
    "Trying to sample a configuration from {cls}, but the `metric` ({metric}) or `mode` ({mode}) parameters have not "
    "been set. Either pass these arguments when instantiating the search algorithm, or pass them to "
    "`tune.TuneConfig()`."
)
