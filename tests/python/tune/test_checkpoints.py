"""Checkpoints: folders that are passed around as paths, and which of them a trial keeps."""

import math
import os
import pickle
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.tune._checkpoint import Checkpoint
from eagleray.tune._checkpoints import Checkpoints, Kept, Rule, fallen, persist, ranked, score


def _folder(path, text="x"):
    path.mkdir(parents=True)
    (path / "model.bin").write_text(text)
    (path / "deep").mkdir()
    (path / "deep" / "part").write_text(text)
    return path


def test_a_checkpoint_is_its_folder(tmp_path):
    # proves: N8i
    made = Checkpoint.from_directory(_folder(tmp_path / "a"))
    assert made.path == str(tmp_path / "a")
    assert made.filesystem.type_name == "local"
    with made.as_directory() as folder:
        assert folder == made.path
    copy = made.to_directory(tmp_path / "b")
    assert copy == str(tmp_path / "b")
    assert (tmp_path / "b" / "deep" / "part").read_text() == "x"
    temporary = made.to_directory()
    assert os.path.exists(os.path.join(temporary, "model.bin"))
    assert made.to_directory(made.path) == made.path
    assert repr(made) == f"Checkpoint(filesystem=local, path={tmp_path / 'a'})"


def test_relative_paths_and_gone_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Checkpoint.from_directory("later")
    assert made.path == str(tmp_path / "later")
    with pytest.raises(FileNotFoundError, match="no longer there"), made.as_directory():
        pass
    with pytest.raises(ValueError, match="elsewhere"):
        Checkpoint("s3://bucket/x")
    assert Checkpoint("file:///tmp/x").path == "/tmp/x"
    assert Checkpoint.from_directory("file:///tmp/x").path == "/tmp/x"


def test_equal_paths_are_equal_and_pickles_are_small(tmp_path):
    # proves: N8i
    one, other = Checkpoint("/a/b"), Checkpoint("/a/b")
    assert one == other
    assert len({one, other}) == 1
    assert one != Checkpoint("/a/c")
    assert one != "/a/b"
    made = Checkpoint.from_directory(_folder(tmp_path / "a", "y" * 100_000))
    pickled = pickle.dumps(made)
    assert len(pickled) < 500
    assert pickle.loads(pickled) == made


def test_metadata(tmp_path):
    # proves: N8i
    made = Checkpoint.from_directory(_folder(tmp_path / "a"))
    assert made.get_metadata() == {}
    made.set_metadata({"a": 1, "b": [2]})
    made.update_metadata({"b": 3})
    assert Checkpoint(made.path).get_metadata() == {"a": 1, "b": 3}


def test_dictionaries_of_the_old_api(tmp_path):
    # proves: N8i
    made = Checkpoint.from_dict({"step": 3, "f": len})
    assert made.to_dict() == {"step": 3, "f": len}
    moved = Checkpoint(persist(made.path, tmp_path, 0))
    assert moved.to_dict()["step"] == 3
    with pytest.raises(ValueError, match="from_dict"):
        Checkpoint.from_directory(_folder(tmp_path / "a")).to_dict()
    with pytest.raises(ValueError, match="dictionary"):
        Checkpoint.from_dict([1])


def test_persisted_whole_under_its_number(tmp_path):
    # proves: N8j
    source = _folder(tmp_path / "mine")
    kept = persist(source, tmp_path / "trial", 7)
    assert kept == str(tmp_path / "trial" / "checkpoint_000007")
    assert (tmp_path / "trial" / "checkpoint_000007" / "deep" / "part").read_text() == "x"
    assert source.exists()
    # Once more, after a run that was cut short: what lies there is replaced, half copies too.
    half = tmp_path / "trial" / "checkpoint_000007.part"
    _folder(half, "half")
    (source / "model.bin").write_text("newer")
    persist(source, tmp_path / "trial", 7)
    assert (tmp_path / "trial" / "checkpoint_000007" / "model.bin").read_text() == "newer"
    assert sorted(os.listdir(tmp_path / "trial")) == ["checkpoint_000007"]
    assert persist(kept, tmp_path / "trial", 7) == kept
    with pytest.raises(ValueError, match="not a folder"):
        persist(tmp_path / "nowhere", tmp_path / "trial", 8)


def test_a_copy_that_fails_leaves_no_checkpoint(tmp_path):
    """The limit on a file's size stands for a full disk."""
    # proves: N8j
    source = _folder(tmp_path / "mine", "y" * 10_000)
    code = textwrap.dedent("""
        import resource, sys
        from eagleray.tune._checkpoints import persist
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            persist(sys.argv[1], sys.argv[2], 0)
        except OSError:
            print("told")
    """)
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "trial")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "told\n"
    assert not (tmp_path / "trial" / "checkpoint_000000").exists()


def _keep(tmp_path, rule, scores):
    keeper = Checkpoints(rule)
    for value in scores:
        path = persist(_source(tmp_path), tmp_path / "trial", keeper.next_number)
        keeper.add(path, {"score": value, "deep": {"score": value}})
    return keeper


def _source(tmp_path):
    source = tmp_path / "mine"
    return source if source.exists() else _folder(source)


def _numbers(tmp_path):
    return [int(name.removeprefix("checkpoint_")) for name in sorted(os.listdir(tmp_path / "trial"))]


@pytest.mark.parametrize(
    ("rule", "left", "best"),
    [
        (Rule(), [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
        (Rule(2), [4, 5], [4, 5]),
        (Rule(2, "score"), [1, 3, 5], [5, 3, 1]),
        (Rule(2, "deep/score"), [1, 3, 5], [5, 3, 1]),
        (Rule(2, "score", is_max=False), [0, 2, 5], [5, 2, 0]),
        (Rule(2, "nothing"), [4, 5], [4, 5]),
    ],
)
def test_what_is_kept(tmp_path, rule, left, best):
    # proves: N8h
    keeper = _keep(tmp_path, rule, [1, 9, 2, 8, math.nan, math.nan])
    assert _numbers(tmp_path) == left
    assert [int(one.path[-1]) for one, _ in keeper.best()] == best
    assert keeper.latest().path.endswith("checkpoint_000005")
    assert keeper.best_checkpoint().path == keeper.best()[-1][0].path
    assert keeper.metrics_of(keeper.latest().path)["deep"].keys() == {"score"}
    assert keeper.metrics_of("elsewhere") is None


def test_the_rule_of_both_apis():
    # proves: N8h
    new = SimpleNamespace(num_to_keep=3, checkpoint_score_attribute="loss", checkpoint_score_order="min")
    assert Rule.of(new) == Rule(3, "loss", is_max=False)
    old = SimpleNamespace(num_to_keep=1, checkpoint_score_attribute="min-loss", checkpoint_score_order="max")
    assert Rule.of(old) == Rule(1, "loss", is_max=False)
    assert Rule.of(None) == Rule()


def test_numbers_are_not_used_twice(tmp_path):
    keeper = Checkpoints(Rule(1))
    keeper.count("checkpoint_000011")
    keeper.count("something")
    assert keeper.next_number == 12
    keeper.add(persist(_source(tmp_path), tmp_path / "trial", keeper.next_number), {})
    assert keeper.next_number == 13


def test_what_another_trial_goes_on_from_stays_until_it_has(tmp_path):
    keeper = _keep(tmp_path, Rule(1), [1])
    first = keeper.latest().path
    keeper.hold(first)
    keeper.hold(first)
    for _ in range(2):
        keeper.add(persist(_source(tmp_path), tmp_path / "trial", keeper.next_number), {})
    assert _numbers(tmp_path) == [0, 2]
    assert keeper.let_go(first) == []
    assert keeper.let_go(first) == [first]
    assert _numbers(tmp_path) == [2]


def test_what_was_removed_by_hand_is_no_trouble(tmp_path):
    keeper = Checkpoints(Rule(1))
    assert keeper.add(str(tmp_path / "checkpoint_000000"), {}) == []
    assert keeper.add(str(tmp_path / "checkpoint_000001"), {}) == [str(tmp_path / "checkpoint_000000")]


_SCORES = st.one_of(st.none(), st.integers(-3, 3), st.floats(), st.just("text"))


@given(
    values=st.lists(_SCORES, max_size=12),
    count=st.none() | st.integers(1, 5),
    attribute=st.none() | st.just("a/b"),
    is_max=st.booleans(),
)
def test_the_decision_keeps_its_promises(values, count, attribute, is_max):
    rule = Rule(count, attribute, is_max)
    kept = [Kept(order, f"c{order}", {"a": {"b": value}}) for order, value in enumerate(values)]
    gone = fallen(kept, rule)
    left = [one for one in kept if one not in gone]
    assert len(gone) + len(left) == len(kept)
    if not kept:
        return
    # The latest is never among those that go.
    assert kept[-1] in left
    if count is None:
        assert gone == []
        return
    # As many as asked for stay, and at most the latest besides.
    assert min(count, len(kept)) <= len(left) <= count + 1
    # Nothing that goes is better than anything that stays for its score.
    by_score = [one for one in left if one is not kept[-1]]
    for one in gone:
        assert all(score(one.metrics, rule) <= score(other.metrics, rule) for other in by_score)
    # Deciding again changes nothing but what a lone latest had taken beyond the number.
    assert fallen(left, rule) == []
    assert sorted(ranked(kept, rule), key=lambda one: one.order) == kept


@given(values=st.lists(_SCORES, min_size=1, max_size=12), count=st.integers(1, 4))
def test_one_after_the_other_the_best_stays(values, count):
    """Whatever comes in whatever order, the best of all that ever came is still there at the end."""
    rule = Rule(count, "s")
    kept = []
    for order, value in enumerate(values):
        kept.append(Kept(order, str(order), {"s": value}))
        gone = fallen(kept, rule)
        kept = [one for one in kept if one not in gone]
    best = max(score({"s": value}, rule) for value in values)
    assert max(score(one.metrics, rule) for one in kept) == best
