"""The table of promises finds claims, refuses unknown ones and knows what is unproven."""

import pytest

import semantics

RULES = """
[later]
A1b = "several nodes"
[T2]
about = "references"
a = "resolved"
b = "nested stay"
[A1]
about = "order"
a = "kept"
b = "everywhere"
"""


def report(source: str) -> semantics.Report:
    return semantics.match(semantics.Rules.parse(RULES), list(semantics.tests_in("t.py", source)))


def proofs(source: str) -> dict[str, list[str]]:
    return {clause: [test.name for test in tests] for clause, tests in report(source).proofs.items()}


def test_a_name_claims_its_leading_clauses():
    assert proofs("def test_T2a_works(): ...\nasync def test_T2a_A1a_x(): ...\n") == {
        "T2a": ["test_T2a_works", "test_T2a_A1a_x"],
        "A1a": ["test_T2a_A1a_x"],
    }


def test_a_comment_above_or_inside_claims_too():
    source = (
        "# proves: T2a, T2b\n@mark\ndef test_one():\n    pass\n"
        "class TestIt:\n    def test_two(self):\n        # proves: A1a\n        pass\n"
    )
    assert proofs(source) == {"T2a": ["test_one"], "T2b": ["test_one"], "A1a": ["test_two"]}


def test_text_that_looks_like_a_claim_is_none():
    assert proofs("def test_one():\n    return '# proves: T2a'\n") == {}


def test_an_unknown_clause_is_an_error():
    assert "claims T2z" in report("def test_T2z_x(): ...\n").errors[0]
    assert "claims Q9a" in report("# proves: Q9a\ndef test_x(): ...\n").errors[0]


def test_a_whole_rule_proves_nothing_and_is_noted():
    found = report("def test_T2_x(): ...\n")
    assert not found.proofs
    assert "T2a, T2b" in found.notes[0]


@pytest.mark.parametrize("mark", ["@pytest.mark.skip", "@pytest.mark.skip(reason='x')", "@pytest.mark.xfail"])
def test_a_test_that_never_runs_proves_nothing(mark):
    found = report(f"{mark}\ndef test_T2a_x(): ...\n")
    assert not found.proofs
    assert len(found.notes) == 1


def test_a_conditional_skip_still_proves():
    assert proofs("@pytest.mark.skipif(x, reason='y')\ndef test_T2a_x(): ...\n") == {"T2a": ["test_T2a_x"]}


def test_a_stray_comment_is_malformed():
    with pytest.raises(semantics.Malformed, match=r"t\.py:1"):
        report("# proves: T2a\n\nx = 1\n")


def test_clauses_of_a_later_part_are_not_missed():
    assert report("def test_T2a_x(): ...\n").unproven() == ["T2b", "A1a"]


@pytest.mark.parametrize("text", ["[T1]\na = 'x'\n", "[T1]\nabout = 'x'\n", "[T1]\nabout = 'x'\nab = 'y'\n"])
def test_a_malformed_rule_is_refused(text):
    with pytest.raises(semantics.Malformed):
        semantics.Rules.parse(text)


def test_later_names_real_clauses():
    with pytest.raises(semantics.Malformed):
        semantics.Rules.parse("[later]\nT9z = 'x'\n")


def test_the_exit_status_tells_strict_from_plain(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/semantics.toml").write_text(RULES)
    tests = tmp_path / "tests/python/deep"
    tests.mkdir(parents=True)
    (tests / "test_a.py").write_text("def test_T2a_x(): ...\n")
    assert semantics.main([], tmp_path) == 0
    assert "unproven: T2b A1a" in capsys.readouterr().out
    assert semantics.main(["--strict"], tmp_path) == 1
    (tests / "test_b.py").write_text("def test_T2b_A1a_x(): ...\n")
    assert semantics.main(["--strict", "--summary"], tmp_path) == 0
    (tests / "test_c.py").write_text("def test_T2z_x(): ...\n")
    assert semantics.main([], tmp_path) == 1


def test_the_committed_rules_can_be_read():
    rules = semantics.Rules.parse((semantics.ROOT / "docs/semantics.toml").read_text())
    assert len(rules.rules) > 50
