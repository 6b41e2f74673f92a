"""What the guide to several machines tells people to type is taken, and what it points to is there."""

import re

import pytest
from tests.python.deployment.commands import ROOT, calls_in, parsed

PAGES = ["docs/cluster.md", "README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_every_call_in_the_text_is_one_that_the_command_takes(page):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    # What is built has the same name as what is called.
    calls = [call for block in blocks for call in calls_in(re.sub(r"^docker build.*$", "", block, flags=re.M))]
    assert len(calls) > 5
    for call in calls:
        parsed(call)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_is_right(page):
    text = (ROOT / page).read_text()
    targets = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target}
    missing = [target for target in targets if target and not ((ROOT / page).parent / target).exists()]
    assert not missing
