"""The child: runs one case on one system in this interpreter and writes what came of it to a JSON file."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cases import CASES, Case
from measure import LIMIT_SECONDS, Job, OutOfTime, Rounds, Timing, measure, time_limit
from outcome import Outcome
from systems import SYSTEMS, Session, job_of, open_session

CLOSE_LIMIT_SECONDS = 15.0


def run_case(system: str, name: str, timing: Timing) -> tuple[Outcome, Session | None]:
    """Open the system and measure."""
    case = CASES[name]
    prepare = job_of(system, name)
    if prepare is None:
        return Outcome(absent=True), None
    return time_case(case, prepare, lambda: open_session(system, start=case.needs_session), timing)


def time_case(
    case: Case, prepare: Callable[[Any], Job], open_it: Callable[[], Session], timing: Timing
) -> tuple[Outcome, Session | None]:
    """Open a session and measure; every failure becomes part of the outcome and never an exception."""
    timed = Rounds()
    outcome = Outcome()
    session = None
    try:
        began = time.perf_counter()
        with time_limit(LIMIT_SECONDS, "starting the system"):
            session = open_it()
        outcome.session_seconds = time.perf_counter() - began
        with time_limit(LIMIT_SECONDS, "the case"):
            measure(prepare(session.handle), timing, repeats_min=case.repeats_min, into=timed)
    except OutOfTime as late:
        # Rounds that did finish are a measurement all the same.
        if not timed.seconds:
            outcome.error = str(late)
    except BaseException as error:
        outcome.error = "".join(traceback.format_exception_only(error)).strip()
        traceback.print_exc()
    if timed.seconds and outcome.error is None:
        outcome.rounds = [case.value(each) for each in timed.seconds]
    return outcome, session


def main() -> None:
    """Parse, run, write; the file is complete before the system is asked to end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--case", choices=sorted(CASES), required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    outcome, session = run_case(options.system, options.case, Timing(options.seconds, options.rounds))
    options.out.write_text(json.dumps(asdict(outcome)))
    if session is not None:
        close(session)


def close(session: Session) -> None:
    """End the system, which must not take for ever; whoever started this process ends what is left."""
    try:
        with time_limit(CLOSE_LIMIT_SECONDS, "ending the system"):
            session.close()
    except Exception as error:
        print(f"ending the system: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
