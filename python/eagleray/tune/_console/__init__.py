"""What is seen of an experiment while it runs.

`board` keeps counts and the best result as things happen, `frame` and `table` turn a moment of it into lines, `text` knows
how wide those are, `screen` puts them on a terminal, into a log or into a notebook, and `view` is what the engine talks to.
"""

from eagleray.tune._console.verbosity import AirVerbosity, Verbosity, verbosity_of
from eagleray.tune._console.view import ConsoleView, ReporterView, SilentView, View, make_view

__all__ = [
    "AirVerbosity",
    "ConsoleView",
    "ReporterView",
    "SilentView",
    "Verbosity",
    "View",
    "make_view",
    "verbosity_of",
]
