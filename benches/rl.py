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
    #: Multiplications and additions of networks per step.
    flops: float | None = None


def of_networks(hidden: int, outputs: list[int], learned: float, seen: float) -> float:
    """Multiplications and additions per step: `learned` samples go forward and back, `seen` more only forward, for CartPole's four numbers."""
    total = 0.0
    for last in outputs:
        first, rest = 4 * hidden, hidden * hidden + hidden * last
        # Forward, to the weights and to what went in; nothing asks for the gradient of observations.
        total += learned * (2 * 3 * (first + rest) - 2 * first) + seen * 2 * (first + rest)
    return total


CASES = {
    "sgemm": Case("numpy's product of 1,024 x 1,024, all cores; FLOP/s", None, ""),
    "ppo_64": Case(
        "PPO, CartPole, 64x64, batch 4,000, 10 epochs; steps/s", "rllib", "40 x", flops=of_networks(64, [2, 1], 10, 1)
    ),
    "ppo_256": Case("the same, 256x256; steps/s", "rllib", "10 x", flops=of_networks(256, [2, 1], 10, 1)),
    "ppo_python": Case("the first with gymnasium's CartPole; steps/s", "rllib", "15 x", peer_case="ppo_64"),
    "until_475": Case("PPO, CartPole: mean return 475, median of 10 seeds; s", "rllib", "<= 5 s", in_seconds=True),
    "ppo_zoo": Case("PPO, CartPole, SB3's zoo setting; steps/s", "sb3", "20 x", flops=of_networks(64, [2, 1], 20, 1)),
    # Half a step of the optimiser per step, of 64 rows, whose followers are valued as well.
    "dqn_zoo": Case("DQN, CartPole, SB3's zoo setting; steps/s", "sb3", "4 x", flops=of_networks(256, [2], 32, 33)),
    "env": Case("CartPole alone, one core; steps/s", None, ">= 10,000,000"),
    "bridge": Case("CartPole alone, stepped from Python; steps/s", None, ">= 90 % of it"),
}


class Missing(Exception):
    """A figure that could not be had, and why."""


def run(system: str, name: str, seconds: float) -> float:
    """One case on one system."""
    return measured(system, SCRIPTS[system], [name, str(seconds)])


def measured(system: str, script: str, said: list[str]) -> float:
    """What a script prints in a system's interpreter."""
    try:
        python = str(prepare(system))
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"{system} cannot be installed: {error}") from error
    told = f"{system}, {' '.join(said)}"
    try:
        done = subprocess.run(
            [python, str(HERE / script), *said], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{told}: not over after {LIMIT_S} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no text"])[-1]
        raise Missing(f"{told}: exit code {error.returncode}: {last}") from error
    return float(json.loads(done.stdout.strip().splitlines()[-1])["figure"])


def simulate(seconds: float, notes: list[str], *, alone: bool) -> None:
    """Steps of Pendulum over actors: ours native and in Python, and the peer's, each asynchronous and in rounds."""
    rows = []
    for actors in (1, 2, 4, 8):
        found: dict[tuple[str, str, str], float | None] = {}
        sides = [("eagleray", "native"), ("eagleray", "python")] + ([] if alone else [("ray", "python")])
        for module, environment in sides:
            for mode in ("async", "bulk"):
                python = "rllib" if module == "ray" else "eagleray"
                said = [module, environment, str(actors), mode, str(seconds)]
                try:
                    found[module, environment, mode] = measured(python, "actor_simulation.py", said)
                except Missing as error:
                    found[module, environment, mode] = None
                    notes.append(str(error))
        native, ours = found["eagleray", "native", "async"], found["eagleray", "python", "async"]
        rounds, theirs = found["eagleray", "python", "bulk"], found.get(("ray", "python", "async"))
        of = lambda one, other: times(one / other if one and other else None)  # noqa: E731
        rows.append(
            [str(actors), figure(native), figure(ours), figure(rounds), of(ours, rounds), figure(theirs)]
            + [figure(found.get(("ray", "python", "bulk"))), of(native, theirs), of(ours, theirs)]
        )
        print(f"{actors} actors: {figure(native)} native, {figure(ours)} in Python beside {figure(theirs)}", flush=True)
    print("Pendulum over actors, steps/s; episodes of 10 to 1,000 steps")
    heads = ["actors", "native", "Python", "in rounds", "async / rounds", "Ray", "Ray in rounds", "native / Ray"]
    print(plain([*heads, "Python / Ray"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["cases", "actors"])
    parser.add_argument("--alone", action="store_true", help="without the peers")
    options = parser.parse_args()
    rows: list[list[str]] = []
    notes: list[str] = []
    for name in options.cases if "cases" in options.parts else []:
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
        reached = "" if ours is None or case.flops is None else f"{ours * case.flops / 1e9:.0f} GFLOP/s"
        rows.append([case.what, figure(ours), figure(theirs), case.peer or "", times(ratio), case.asked, reached])
        print(f"{name}: {figure(ours)} beside {figure(theirs)}", flush=True)
    print(plain(["", "eagleray", "peer", "", "ratio", "asked for", "networks"], rows))
    if "actors" in options.parts:
        simulate(options.seconds, notes, alone=options.alone)
    for note in notes:
        print(f"note: {note}")


if __name__ == "__main__":
    main()
