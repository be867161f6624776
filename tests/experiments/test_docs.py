"""The pages say what the code does."""

import re

import pytest

import jobcast
from docs.generate import command_line, interfaces, names
from experiments.cli.demo import RUNS
from experiments.compare.measures import MEASURES
from experiments.registry import EXPERIMENTS
from predictors.data.telemetry.counters import COUNTER_NAMES
from predictors.registry import PREDICTORS
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.policies.orders import ORDERS
from tests.support.commands import invoke
from tests.support.places import ROOT


def test_the_pages_made_from_the_code_tell_every_name():
    made = interfaces.pages() | command_line.pages() | {"names.md": names.page()}
    for name, told in (
        ("names.md", (*ORDERS, *PREDICTORS, *CORRECTIONS)),
        ("reference/experiments.md", EXPERIMENTS),
        ("reference/counters.md", COUNTER_NAMES),
        ("reference/measures.md", MEASURES),
        ("reference/metrics.md", ("jobcast_ready", "jobcast_predictions_total", "labels `role`, `why`")),
        ("reference/http.md", ("POST /v1/events", "GET /v1/start-time/{job_id}", "requested_time")),
        ("reference/json.md", ("jobcast evaluate", "jobcast simulate, ceil", "GET /v1/models", "mean_wait_s")),
        ("reference/command-line/simulate.md", ("--policy TEXT", "default `easy`", "--kill, --no-kill")),
        ("reference/python/jobcast.md", jobcast.__all__),
    ):
        assert [text for text in told if text not in made[name]] == [], name


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 50


def rows_of(text):
    """Return the rows of tables in a text as their words, whatever lines are drawn around them."""
    rows = (re.sub(r"[│┃|]", " ", line).split() for line in text.splitlines())
    return [tuple(row) for row in rows if len(row) > 4]


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    printed = invoke("demo", "--out", tmp_path, env={"COLUMNS": "80", "TERM": "dumb"}).output
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [row for row in rows_of(re.findall(r"```text\n(.*?)```", readme, re.DOTALL)[0]) if row[-1][-1].isdigit()]
    assert len(shown) == len(RUNS)
    assert [row for row in shown if row not in rows_of(printed)] == []


def test_pages_that_name_a_file_of_outages_lead_to_its_format():
    for path in (ROOT / "docs").rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert "--outages" not in text or "#reservations-and-maintenance)" in text, path.name


def test_links_of_pages_at_the_top_lead_somewhere():
    """Those of the site are checked when it is built."""
    for path in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path.name}: {link}"
