"""The pages say what the code does."""

import re

from experiments.cli.names import page
from experiments.registry import EXPERIMENTS
from tests.support.places import ROOT


def test_the_page_of_names_is_the_registries():
    shown = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    assert shown == page(), "run: python -m experiments.cli.names > docs/names.md"


def test_every_experiment_is_told_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in EXPERIMENTS if f"experiment {name}" not in readme] == []


def test_links_between_pages_lead_somewhere():
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path.name}: {link}"
