"""Big Run Monday: every second Monday maintenance, then the waiting capability jobs, the largest first."""

import numpy as np
import pytest

from jobcast import JobcastError, Workload, make_policy, simulate
from schedsim.machine.outage_files import read_outages
from schedsim.machine.outages import Outages, Reservation
from schedsim.machine.partitions import Hierarchy, Partitions
from schedsim.sites.cobalt.big_run import big_run_commands, maintenance_ends, with_big_runs
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.validate import check
from tests.support.commands import invoke

K, HOUR, DAY = 1024, 3600, 86_400
MONDAYS = """
[[window]]
kind = "maintenance"
time = 32400
hours = 8
every_days = 14
until = 5000000
"""


@pytest.fixture
def mondays(tmp_path):
    """Every second Monday from 9 to 17 o'clock; second 0 is such a Monday."""
    path = tmp_path / "mondays.toml"
    path.write_text(MONDAYS)
    return read_outages(path)


def weeks():
    """Two fortnights on Mira: small jobs all the time, capability jobs of 8, 16, 24, 32 and 48 K before each window."""
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 27 * DAY, 400))
    procs = rng.choice([512, K, 2 * K, 4 * K], 400)
    hours = rng.integers(1, 7, 400)
    wide = [(14 * DAY + 8 * HOUR + i, size * K, 6) for i, size in enumerate((8, 16, 48, 24, 32))]
    submit = np.concatenate([submit, [w[0] for w in wide]])
    procs, hours = np.concatenate([procs, [w[1] for w in wide]]), np.concatenate([hours, [w[2] for w in wide]])
    order = np.argsort(submit, kind="stable")
    return Workload.from_columns(
        np.arange(1, len(order) + 1), submit=submit[order], procs=procs[order], requested=hours[order] * HOUR,
        run_time=(hours[order] * HOUR * 0.8).astype(int), machine_procs=48 * K,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["easy", "wfp3-easy", "easy-sjbf", "fcfs", "cobalt"])
def test_the_largest_capability_job_comes_first(mondays, name):
    """The machine drains, nothing runs in the window, and at its end the 48 K job starts, then 32 K, then 24 K."""
    workload, policy, rules = weeks(), make_policy(name), None
    if name == "cobalt":
        rules = Rules(mira_router(), commands=big_run_commands(mondays, 48 * K))
    else:
        policy = with_big_runs(policy, mondays, 48 * K)
    found = simulate(workload, policy, outages=mondays, rules=rules)
    for window in mondays.reservations:
        assert not ((found.start < window.end) & (found.end > window.start)).any()
    end = 14 * DAY + 17 * HOUR
    big = np.flatnonzero((workload.procs > 4 * K) & (workload.submit < end) & (found.start >= end))
    in_turn = big[np.lexsort((-workload.procs[big], found.start[big]))]
    assert (workload.procs[in_turn] // K).tolist() == ([48, 32, 24, 16, 8] if name == "fcfs" else [48, 32, 16, 24, 8])
    after = ((found.start[in_turn] - end) / HOUR).round(1).tolist()
    assert after == [0.0, 4.8, 9.6 if name == "fcfs" else 4.8, 9.6, 9.6]  # 16 K are backfilled beside 32 K
    check(found, policy, rules=rules)


def test_without_big_runs_the_first_come_stays_the_first(mondays):
    workload = weeks()
    found = simulate(workload, make_policy("fcfs"), outages=mondays)
    wide = np.flatnonzero(workload.procs == 48 * K)
    assert found.start[wide[0]] > 14 * DAY + 17 * HOUR


def test_windows_with_partitions(mondays):
    found = simulate(weeks(), make_policy("easy"), outages=mondays, allocator=Partitions(Hierarchy.mira()))
    for window in mondays.reservations:
        assert not ((found.start < window.end) & (found.end > window.start)).any()


def test_ends_and_commands(mondays):
    assert maintenance_ends(mondays, 48 * K)[:2].tolist() == [17 * HOUR, 17 * HOUR + 14 * DAY]
    assert big_run_commands(mondays, 48 * K)[0] == Command(17 * HOUR, "big-run")
    assert maintenance_ends(Outages([Reservation(0, 9, 4), Reservation(0, 5, 3)]), 4).tolist() == [9]


def test_what_does_not_go_together_is_named(mondays):
    with pytest.raises(JobcastError, match="none is planned"):
        with_big_runs(make_policy("easy"), Outages([Reservation(0, 9, 4)]), 8)
    with pytest.raises(JobcastError, match="before the order 'f1'"):
        with_big_runs(make_policy("f1-easy"), mondays, 8)


@pytest.mark.parametrize("policy", ["easy", "cobalt"])
def test_the_command(tmp_path, policy):
    log, outages = tmp_path / "log.swf", tmp_path / "o.csv"
    log.write_text("; MaxProcs: 24\n" + "".join(
        f"{i} {i} -1 20 {procs} -1 -1 {procs} 30 -1 1 1 1 1 1 1 -1 -1\n" for i, procs in enumerate((1, 6, 24, 12), 1)
    ))  # fmt: skip
    outages.write_text("time,until,kind\n0,90,maintenance\n")
    found = invoke("simulate", log, "--policy", policy, "--outages", outages, "--big-runs", "--explain", "3")
    assert found.exit_code == 0, found.exception
    assert "started at t=90" in found.output
    bare = invoke("simulate", log, "--big-runs")
    assert isinstance(bare.exception, JobcastError) and "--outages" in str(bare.exception)
