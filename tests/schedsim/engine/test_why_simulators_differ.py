"""The figures in docs/why-simulators-differ.md are those that the commands beside them give."""

import re

import pytest

from experiments.runs.simulate import run_by_name
from jobcast import clean, read_log
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "why-simulators-differ.md"
ARCHIVES = {"KTH-SP2": ("KTH-SP2-1996-2.1-cln", 100), "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", 128)}


def table():
    """Rows of the page's table, by log: policy, estimates, jobs, and the three figures as printed."""
    rows, log, n_jobs = [], "", 0
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or not re.fullmatch(r"[\d,]+", cells[4]):
            continue
        if cells[0]:
            log, jobs = cells[0].split(", ")
            n_jobs = int(jobs.removesuffix(" jobs").replace(",", ""))
        rows.append((log, n_jobs, cells[1], cells[2], *cells[3:]))
    return rows


def test_the_table_is_read():
    assert len(table()) == 9 and {row[0] for row in table()} == {*ARCHIVES, "CEA-Curie"}


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_figures_are_ours(trace, name):
    archive, procs = ARCHIVES[name]
    log, _ = read_log(trace(archive))
    cleaned, _ = clean(log, procs)
    for _, n_jobs, policy, estimates, *printed in (row for row in table() if row[0] == name):
        found = run_by_name(cleaned, policy, estimates)[1]
        assert len(cleaned) == n_jobs
        shown = (f"{found['mean_bounded_slowdown']:.2f}", f"{found['mean_wait_s']:,.0f}")
        assert (*shown, f"{found['widest5_mean_wait_s']:,.0f}") == tuple(printed), policy
