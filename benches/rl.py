"""How fast RLlib's algorithms train here, beside Ray's RLlib and Stable-Baselines3, in one run: `make bench-rl`.

Each case runs in a process of its own, one after the other. A peer that is not to be had here, or fails, leaves its column empty, with a note.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import dataclass

from environments import REPOSITORY, prepare
from table import figure, plain, times

HERE = REPOSITORY / "benches"
LIMIT_S = 600
SCRIPTS = {"eagleray": "rl_cases.py", "rllib": "against/rllib_cases.py", "sb3": "against/sb3_cases.py"}


@dataclass(frozen=True)
class Case:
    """What is counted, the peer that it is counted beside, and what is asked for."""

    what: str
    peer: str | None
    asked: str
    #: The figure is how long it took, not how many there were in a second.
    in_seconds: bool = False
    #: Where the peer's figure is another case's: its environment is in Python anyway.
    peer_case: str | None = None


CASES = {
    "ppo_64": Case("PPO, CartPole, 64x64, batch 4,000, 10 epochs; steps/s", "rllib", "40 x"),
    "ppo_256": Case("the same, 256x256; steps/s", "rllib", "10 x"),
    "ppo_python": Case("the first with gymnasium's CartPole; steps/s", "rllib", "15 x", peer_case="ppo_64"),
    "until_475": Case("PPO, CartPole: mean return 475, median of 10 seeds; s", "rllib", "<= 5 s", in_seconds=True),
    "ppo_zoo": Case("PPO, CartPole, SB3's zoo setting; steps/s", "sb3", "20 x"),
    "dqn_zoo": Case("DQN, CartPole, SB3's zoo setting; steps/s", "sb3", "4 x"),
    "env": Case("CartPole alone, one core; steps/s", None, ">= 10,000,000"),
    "bridge": Case("CartPole alone, stepped from Python; steps/s", None, ">= 90 % of it"),
}


class Missing(Exception):
    """A figure that could not be had, and why."""


def run(system: str, name: str, seconds: float) -> float:
    """One case on one system."""
    try:
        python = str(prepare(system))
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"{system} cannot be installed: {error}") from error
    command = [python, str(HERE / SCRIPTS[system]), name, str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{system}, {name}: not over after {LIMIT_S} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no text"])[-1]
        raise Missing(f"{system}, {name}: exit code {error.returncode}: {last}") from error
    return float(json.loads(done.stdout.strip().splitlines()[-1])["figure"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    rows: list[list[str]] = []
    notes: list[str] = []
    for name in options.cases:
        case = CASES[name]
        ours = theirs = None
        try:
            ours = run("eagleray", name, options.seconds)
            if case.peer is not None and not options.alone:
                # A slow peer needs longer for its first iterations.
                theirs = run(case.peer, case.peer_case or name, 120.0 if case.in_seconds else 2 * options.seconds)
        except Missing as error:
            notes.append(str(error))
        ratio = None if ours is None or theirs is None else (theirs / ours if case.in_seconds else ours / theirs)
        rows.append([case.what, figure(ours), figure(theirs), case.peer or "", times(ratio), case.asked])
        print(f"{name}: {figure(ours)} beside {figure(theirs)}", flush=True)
    print(plain(["", "eagleray", "peer", "", "ratio", "asked for"], rows))
    for note in notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main()
