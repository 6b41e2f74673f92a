"""The cases, each written once against Ray's API: a function takes the module and returns the job to time.

Remote functions and classes are defined inside the case, so that they travel by value: workers import nothing of ours.
"""

from cases import tasks  # noqa: I001 - the order of import is the order of the table
from cases import actors
from cases import groups
from cases import many
from cases import threads
from cases import graphs
from cases import objects
from cases import generators
from cases import owners
from cases import pressure
from cases import environment_loop
from cases import start
from cases.catalog import BATCH, CASES, MIB, Case

__all__ = [
    "BATCH",
    "CASES",
    "MIB",
    "Case",
    "actors",
    "environment_loop",
    "generators",
    "graphs",
    "groups",
    "many",
    "objects",
    "owners",
    "pressure",
    "start",
    "tasks",
    "threads",
]
