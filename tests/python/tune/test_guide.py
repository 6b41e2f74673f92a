"""The guide is true: what it quotes of the example stands there, and all other code in it runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = (ROOT / "examples" / "tune_network.py").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "tune.md").read_text(), re.MULTILINE | re.DOTALL)


def is_quoted(block):
    return block in EXAMPLE


@pytest.mark.usefixtures("shared_ray")
def test_code_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    names = {"__name__": "guide"}
    for block in BLOCKS:
        if not is_quoted(block):
            exec(compile(block, "docs/tune.md", "exec"), names)
    assert abs(names["results"].get_best_result().config["x"] - 3) < 3
    assert names["analysis"].best_config == {"lr": 0.4}
    again = names["Descent"]({"lr": 0.4})
    again.restore(names["analysis"].best_checkpoint)
    assert again.x == pytest.approx(10 * 0.2**20)


def test_the_guide_quotes_the_example_as_it_is():
    """Code of the guide that is the example's, by its indentation or its names, is the example's to the letter."""
    of_example = [block for block in BLOCKS if block.startswith(("    ", "SPACE", "def train(config: dict"))]
    assert len(of_example) == 6
    assert all(is_quoted(block) for block in of_example)


def test_pictures_and_pages_of_the_guide_are_there():
    text = (ROOT / "docs" / "tune.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("#")]
    assert len(links) > 6
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
