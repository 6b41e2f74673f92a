"""The comparison of rewards: what is said of which scores, and that jobs end, go on and are kept."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from rl_compare import compare, iqm, missing, table
from rl_curves import draw
from rl_reward_cases import CASES
from rl_reward_jobs import fitting, seeds

BENCHES = Path(__file__).resolve().parents[2] / "benches"

# Trains in no time, but for seed 1, which ends only where it goes on from what an earlier run left.
PROGRAM = """
import sys, time
sys.path.insert(0, {benches!r})
from rl_reward_jobs import main

def train(job):
    job.note(job.case.steps // 2, 3.0)
    if job.state is None:
        # More than a pipe holds: a job that left this much once hung until it was killed.
        job.state = bytes(200_000)
    else:
        return [float(len(job.state))]
    while job.seed == 1:
        time.sleep(0.01)
        job.check()
    job.note(job.case.steps, 5.0)
    return [1.0, 2.0, 6.0 + job.seed]

main("fake", train, lambda: {{"fake": "1"}})
"""


def results(scores, share=1.0):
    jobs = []
    for (case, seed), score in scores.items():
        curve = [[1000, 1.0], [CASES[case].steps, float(score or 0.0)]]
        job = {"case": case, "seed": seed, "steps": 7, "complete": score is not None, "score": score, "curve": curve}
        jobs.append(job)
    return {"share": share, "jobs": jobs}


def of(case, *scores):
    return {(case, seed): score for seed, score in enumerate(scores)}


def test_the_middle_half_counts_as_many_whole_scores_as_that_is():
    assert iqm([1.0, 100.0, 2.0, 3.0, -100.0]) == 2.0
    assert iqm([1.0, 3.0]) == 2.0
    assert iqm([0.0, 10.0, 20.0, 1000.0]) == 15.0


@pytest.mark.parametrize(
    ("ours", "peers", "verdict"),
    [
        ([500.0] * 5, [500.0] * 5, "includes 0"),
        ([19.0, 500.0, 500.0, 192.0, 480.0], [290.0, 177.0, 500.0, 486.0, 494.0], "includes 0"),
        ([500.0, 490.0, 495.0, 500.0, 480.0], [100.0, 110.0, 97.0, 113.0, 105.0], "favours us"),
        ([-200.0, -190.0, -195.0, -180.0, -200.0], [-100.0, -110.0, -97.0, -113.0, -105.0], "favours the peer"),
    ],
)
def test_what_is_favoured_is_told_only_where_the_interval_has_no_zero(ours, peers, verdict):
    (found,) = compare(results(of("ppo_cartpole", *ours)), results(of("ppo_cartpole", *peers)))
    assert found.verdict == verdict
    assert found.low <= found.difference <= found.high
    again = compare(results(of("ppo_cartpole", *ours)), results(of("ppo_cartpole", *peers)))
    assert again == [found], "chance is seeded"
    assert f"{verdict} (5 seeds)" in table([found])


def test_unfinished_jobs_and_single_seeds_are_compared_with_nothing_and_named():
    ours = results(of("ppo_cartpole", 500.0, None) | of("dqn_acrobot", -80.0, -90.0))
    peers = results(of("ppo_cartpole", 500.0, 500.0))
    assert compare(ours, peers) == []
    said = missing(ours, peers)
    assert "eagleray ended ppo_cartpole seed 1 after 7 steps" in said
    assert "SB3 has not run dqn_acrobot seed 0" in said
    assert len(said) == 3


def test_other_budgets_are_not_compared():
    with pytest.raises(ValueError, match="budgets differ"):
        compare(results({}), results({}, share=0.1))


def test_a_picture_has_a_line_and_a_band_for_each_system_and_case():
    ours = results(of("ppo_cartpole", 500.0, 400.0) | of("dqn_acrobot", -80.0))
    picture = ET.fromstring(draw({"eagleray": ours, "peer": results(of("ppo_cartpole", 300.0))}))
    tags = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert tags.count("polyline") == tags.count("polygon") == 3


def test_seeds_are_ranges_and_lists():
    assert seeds("0-4") == [0, 1, 2, 3, 4]
    assert seeds("1,7") == [1, 7]


def test_jobs_that_cannot_be_gone_on_with_begin_only_where_there_is_time_for_them():
    left = [("dqn_lunarlander", 0), ("sac_pendulum", 0), ("dqn_cartpole", 0), ("ppo_lunarlander", 0)]
    costs = [CASES[name].cost_s for name, _ in left]
    assert fitting(left, costs[0] + 1.0, 1.0) == 0
    assert fitting(left, costs[0] - 1.0, 1.0) == 1
    assert fitting(left, costs[0] - 1.0, 0.5) == 0
    assert fitting(left, 1.0, 1.0) == 3
    assert fitting(left[:3], 1.0, 1.0) is None
    assert fitting(left, 0.0, 1.0) is None


def run(tmp_path, *more):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(benches=str(BENCHES)))
    out = tmp_path / "out.json"
    command = [sys.executable, str(program), str(out), "--cases", "ppo_cartpole", *more]
    said = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    return json.loads(out.read_text()), said.stdout


def test_jobs_run_to_their_ends_and_those_that_the_limit_ends_say_how_far_they_came(tmp_path):
    found, said = run(tmp_path, "--seeds", "0-2", "--processes", "3", "--limit-s", "4", "--share", "0.5")
    assert (found["system"], found["share"], found["versions"]) == ("fake", 0.5, {"fake": "1"})
    whole = {job["seed"]: job for job in found["jobs"]}
    assert [whole[seed]["complete"] for seed in range(3)] == [True, False, True]
    assert (whole[0]["score"], whole[0]["episodes"], whole[0]["steps"]) == (3.0, 3, 50_000)
    assert whole[0]["curve"] == [[25_000, 3.0], [50_000, 5.0]]
    assert (whole[1]["score"], whole[1]["steps"]) == (None, 25_000)
    assert "state" not in whole[0]
    assert "ppo_cartpole seed 1: unfinished at 25000 steps" in said
    # What is done stays, what is not is gone on with.
    found, said = run(tmp_path, "--seeds", "0-3", "--processes", "2", "--limit-s", "4", "--share", "0.5")
    assert "seed 0" not in said
    assert "ppo_cartpole seed 1: score 200000.0" in said
    assert not any("state" in job for job in found["jobs"])
    assert "ppo_cartpole seed 3: score 4.0" in said
    assert [job["seed"] for job in found["jobs"]] == [0, 1, 2, 3]
