"""Two builds measured in pairs: which cases count as slower."""

import random
from pathlib import Path

import pytest

import ab
import pairing
from cases import CASES
from outcome import Outcome

OLD, NEW = Path("old"), Path("new")


def test_the_interval_leaves_out_as_many_as_the_tables_of_wilcoxon_say():
    # The critical values of the two-sided test at 5 %, from any book's table.
    assert [pairing._left_out(pairs) for pairs in (6, 8, 10, 15, 20, 30)] == [0, 3, 8, 25, 52, 137]


def test_the_interval_holds_the_true_ratio_in_about_95_of_100_draws():
    chance = random.Random(1)
    held = 0
    for _ in range(1000):
        verdict = pairing.judge([1.1 * chance.lognormvariate(0, 0.1) for _ in range(15)])
        held += verdict.low <= 1.1 <= verdict.high
    assert 935 <= held <= 985


def test_a_few_disturbed_pairs_do_not_hide_a_slower_build():
    ratios = [0.9 + 0.001 * number for number in range(13)] + [5.0, 0.1]
    assert pairing.judge(ratios).word == "SLOWER"


def test_a_slower_build_within_three_percent_counts_as_the_same():
    assert pairing.judge([0.98 + 0.0001 * number for number in range(15)]).word == "same"


def test_what_may_or_may_not_be_slower_counts_as_the_same():
    assert pairing.judge([0.8, 1.2] * 8).word == "same"


def test_too_few_pairs_have_no_interval():
    with pytest.raises(ValueError, match="needs 6 pairs"):
        pairing.judge([1.0] * 5)


def figures(old, new):
    chance = random.Random(2)
    asked = []

    def measure(tree, _case):
        asked.append(tree)
        value = old if tree == OLD else new
        return Outcome(rounds=[value * chance.uniform(0.99, 1.01)]) if value else Outcome(error="it broke")

    return measure, asked


@pytest.mark.parametrize(
    ("name", "old", "new", "word", "code"),
    [
        ("sync_task", 1000.0, 900.0, "SLOWER", 1),
        ("sync_task", 1000.0, 1100.0, "faster", 0),
        ("sync_task", 1000.0, 1000.0, "same", 0),
        # A duration: more is worse.
        ("start_to_first_result", 0.1, 0.2, "SLOWER", 1),
        ("start_to_first_result", 0.2, 0.1, "faster", 0),
    ],
)
def test_pairs_decide_which_build_is_slower(name, old, new, word, code):
    result = ab.Result(CASES[name])
    measure, asked = figures(old, new)
    ab.compare(result, OLD, NEW, 15, random.Random(3), measure)
    assert result.row[-1] == word
    assert ab.report([result]) == code
    # Both sides are measured equally often, each pair together, and either comes first now and then.
    assert len(asked) == 30
    firsts = asked[::2]
    assert all({first, second} == {OLD, NEW} for first, second in zip(firsts, asked[1::2], strict=True))
    assert set(firsts) == {OLD, NEW}


def test_a_case_that_fails_on_the_new_build_fails_the_comparison():
    result = ab.Result(CASES["sync_task"])
    ab.compare(result, OLD, NEW, 15, random.Random(3), figures(1000.0, None)[0])
    assert result.error == "new: it broke"
    assert ab.report([result]) == 1


def test_a_case_that_the_old_build_cannot_run_is_no_failure_of_the_new_one():
    result = ab.Result(CASES["sync_task"])
    ab.compare(result, OLD, NEW, 15, random.Random(3), figures(None, 1000.0)[0])
    assert result.error == "old: it broke"
    assert ab.report([result]) == 0
