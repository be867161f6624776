"""The tables that experiments write from a small log are those that are pinned; see `tests.digests.pins`."""

import csv
import hashlib

import pytest

from experiments.registry import EXPERIMENTS, WITHOUT_LOG
from jobcast import generate_log, write_log
from tests.digests.pins import pinned
from tests.support.commands import invoke
from tests.support.repeated_runs import table

WALL = (
    "figure_cost.csv", "online_forests.csv", "category_splits.csv", "costs.csv", "table2.csv", "papers_forest.csv",
)  # fmt: skip
"""Tables that tell how long this machine took: only their headers and lengths are pinned."""


def of_file(path):
    """Return what is pinned of a table."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    told = {"columns": rows[0], "rows": len(rows) - 1}
    return told if path.name in WALL else told | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "dras"])  # which trains for minutes
def test_tables_of_an_experiment(home, name):
    write_log(generate_log(400, seed=1, procs=64, users=8), home / "log.swf")
    log = [] if name in WITHOUT_LOG else ["--log", str(home / "log.swf")]
    if name == "repeated-runs":
        table(days=30, storms=[(3, 4), (20, 20.5), (27, 27.5)]).to_csv(home / "runs.csv", index=False)
        log = ["--runs", str(home / "runs.csv")]
    out = home / "reports"
    found = invoke("experiment", name, "--quick", "--out", out, *log)
    assert found.exit_code == 0, found.output
    tables = {str(path.relative_to(out)): of_file(path) for path in sorted(out.rglob("*.csv"))}
    assert tables
    pinned("experiments", name, tables)
