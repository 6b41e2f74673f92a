"""The page of mutations is read as what it says, and refused where it no longer fits."""

import pytest

import mutants

PAGE = """
# Mutations

## 1. Off by one

`crates/owner/src/pool.rs`, OWN-1: why.

```diff
     let a = 1;
-    let b = a;
+    let b = a + 1;
```

Caught by `tests::b_is_a`.

## 2. Another

`crates/scheduler/src/place.rs`

```diff
-x
+y
```

Caught by `x_is_x`.
"""


def test_a_section_is_a_file_a_diff_and_a_test():
    first, second = mutants.parse(PAGE)
    assert (first.number, first.title, first.path, first.test) == (
        1,
        "Off by one",
        "crates/owner/src/pool.rs",
        "tests::b_is_a",
    )
    assert (first.package, second.package) == ("eagleray-owner", "eagleray-scheduler")
    assert (
        first.planted("fn f() {\n    let a = 1;\n    let b = a;\n}\n")
        == "fn f() {\n    let a = 1;\n    let b = a + 1;\n}\n"
    )


@pytest.mark.parametrize("text", ["nothing of it\n", "    let a = 1;\n    let b = a;\n" * 2])
def test_a_diff_that_does_not_fit_one_place_is_refused(text: str):
    with pytest.raises(mutants.Malformed, match="not one"):
        mutants.parse(PAGE)[0].planted(text)


@pytest.mark.parametrize("missing", ["Caught by `x_is_x`.", "```diff", "`crates/scheduler/src/place.rs`"])
def test_a_section_that_lacks_something_is_refused(missing: str):
    with pytest.raises(mutants.Malformed, match="mutation 2 lacks"):
        mutants.parse(PAGE.replace(missing, "", 1) if missing != "```diff" else PAGE[: PAGE.rindex("```diff")])


def test_numbers_have_no_gaps():
    with pytest.raises(mutants.Malformed, match="numbered"):
        mutants.parse(PAGE.replace("## 2.", "## 3."))


def test_each_of_ours_fits_and_names_a_test_of_its_crate_or_of_the_simulation():
    ours = mutants.parse((mutants.ROOT / mutants.PAGE).read_text())
    assert len(ours) >= 20
    for mutation in ours:
        assert mutation.planted((mutants.ROOT / mutation.path).read_text())
        crate = mutants.ROOT.joinpath(*mutation.path.split("/")[:2])
        function = f"fn {mutation.test.rsplit('::', maxsplit=1)[-1]}("
        simulation = mutants.ROOT / "crates" / "sim" / "tests" / "seeds.rs"
        files = [simulation, *crate.rglob("*.rs")]
        assert any(function in file.read_text() for file in files), mutation.test
