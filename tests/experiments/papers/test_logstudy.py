"""The studies of logs: what is planted comes out, what is missing is said, and a slow way agrees with the fast one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from experiments.papers.logstudy import applications as li
from experiments.papers.logstudy import observations as study
from experiments.papers.logstudy.jobs import study_jobs
from experiments.papers.logstudy.observations import by_place, by_queue, hits
from experiments.papers.logstudy.study import observations, run
from experiments.reports.figures import write_table
from experiments.runs.setting import Setting
from jobcast import JobcastError, JobLog, read_log
from predictors.data.formats.alcf import read_failures
from tests.support.commands import printed

NODES = 1000
EPOCH_H = 6
EPOCH = 1_600_000_000


def planted(increase: float, apps: int = 5, epochs: int = 160, seed: int = 0) -> JobLog:
    """Return a log whose machine is filled to 0.85 and 0.98 in turns; applications run longer while it is full.

    In every epoch of six hours one job of background fills the machine up, beside one run of each application.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, list[int]] = {name: [] for name in ("submit", "run_time", "allocated_procs", "user", "executable")}
    for epoch in range(epochs):
        full, at = epoch % 2 == 1, epoch * EPOCH_H * 3600

        def job(submit: int, run_time: int, procs: int, user: int, executable: int) -> None:
            for name, value in zip(rows, (submit, run_time, procs, user, executable), strict=True):
                rows[name].append(value)

        level = 0.98 if full else 0.85
        job(at, EPOCH_H * 3600, round(level * NODES) - 24 * apps, 99, epoch + 100)
        for k in range(apps):
            length = (3000 + 500 * k) * (1 + increase * full) * rng.lognormal(0, 0.05)
            job(at, round(length), 24, k, 7)
            job(at + round(length), EPOCH_H * 3600 - round(length), 24, 98, epoch + 100)
    n = len(rows["submit"])
    columns = {name: np.array(values) for name, values in rows.items()} | {
        "job_id": np.arange(n),
        "wait": np.zeros(n, int),
    }
    columns["status"] = np.where(np.arange(n) % 997 == 5, 0, 1)
    return JobLog.from_columns(columns, {}, max_procs=NODES, epoch=EPOCH, name="planted")


# Li et al. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("increase", [0.067, 0.12, 0.211])
def test_a_planted_increase_is_given_back(increase: float) -> None:
    found = li.applications(study_jobs(planted(increase)))
    assert found.key == ("user", "nodes", "executable")
    assert found.runs["application"].nunique() == 5
    table = li.comparisons(found.runs)
    assert len(table) == 5
    assert table["increase"].mean() == pytest.approx(increase, abs=0.012)
    assert (table["low"] < increase).sum() >= 3
    assert (table["high"] > increase).sum() >= 3
    assert (table[["p_z", "p_rank"]] < li.SIGNIFICANCE).all(axis=None)
    assert (table["effect"] > 0.3).all()
    told = li.verdict(table)
    assert (told["longer_by_z"], told["shorter_by_z"]) == (5, 0)
    assert told["p_chance"] == pytest.approx(1e-5)
    assert told["longer_within_weeks"] == 5
    assert table["within_weeks"].mean() == pytest.approx(increase, abs=0.012)


def test_a_planted_null_is_accepted_nine_times_in_ten() -> None:
    tables = [li.comparisons(li.applications(study_jobs(planted(0, 8, 90, seed))).runs) for seed in range(12)]
    table = pd.concat(tables)
    assert len(table) == 96
    for test in ("p_z", "p_rank"):
        assert 0.04 <= (table[test] < li.SIGNIFICANCE).mean() <= 0.18, test
    rng = np.random.default_rng(1)
    refused = [li.compare(rng.lognormal(6, 0.2, 60), rng.lognormal(6, 0.2, 60)).p_z < 0.10 for _ in range(600)]
    assert np.mean(refused) == pytest.approx(0.10, abs=0.04)


def test_a_program_that_changes_while_the_machine_fills_up_is_seen_through() -> None:
    week = np.repeat(np.arange(20), 10)
    full = week >= 10
    above = np.random.default_rng(3).random(200) < np.where(full, 0.8, 0.2)
    times = np.random.default_rng(4).normal(np.where(full, 1500.0, 1000.0), 50)
    found = li.compare(times[above], times[~above])
    assert found.increase > 0.2
    assert found.p_z < 1e-6
    slope, p_weeks = li.within_weeks(times, above, week)
    assert abs(slope) < 20
    assert 0.05 < p_weeks < 0.95
    assert np.isnan(li.within_weeks(times, full, week)[0])


def test_groups_are_cut_above_the_boundary() -> None:
    runs = pd.DataFrame(
        {
            "application": "A", "nodes": 32, "run_time": np.arange(40) + 100, "utilisation": [0.95] * 20 + [0.951] * 20,
            "start": 0,
        }
    )  # fmt: skip
    (row,) = li.comparisons(runs).to_dict("records")
    assert (row["n_high"], row["n_normal"]) == (20, 20)
    assert (row["mean_high"], row["mean_normal"]) == (129.5, 109.5)
    assert li.comparisons(runs.head(29)).empty
    assert li.verdict(li.comparisons(runs.head(29)))["applications"] == 0


def test_equal_run_times_are_no_difference() -> None:
    found = li.compare(np.full(12, 60.0), np.full(12, 60.0))
    assert (found.increase, found.z, found.p_z, found.effect) == (0, 0, 0.5, 0)


def test_a_user_s_runs_of_large_spread_or_few_nodes_are_left_out() -> None:
    log = planted(0.1, apps=2)
    narrow = log.replaced({"allocated_procs": np.minimum(log.filled("allocated_procs"), 16)})
    assert li.applications(study_jobs(narrow)).runs.empty
    run_time = log.filled("run_time").copy()
    run_time[np.flatnonzero(log.filled("user") == 0)[0]] = 20_000
    found = li.applications(study_jobs(log.replaced({"run_time": run_time})))
    assert found.runs["application"].nunique() == 1
    assert found.funnel["runs"].is_monotonic_decreasing


JOBS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=12)


@given(JOBS)
def test_mean_utilisation_by_the_second(jobs: list[tuple[int, int, int]]) -> None:
    start, length, procs = (np.array(column) for column in zip(*jobs, strict=True))
    busy = np.zeros(100)
    for s, n, p in jobs:
        busy[s : s + n] += p
    slow = [busy[s : s + n].mean() / 50 for s, n, _ in jobs]
    assert li.mean_utilisation(start, start + length, procs, 50) == pytest.approx(slow)


def accounting(path: Path, log: JobLog) -> Path:
    """Write a planted log as sacct's text: each run with a job name and an input of its own, beside lines of no use."""
    rows = [
        "JobIDRaw|JobID|User|AllocCPUS|AllocNodes|TimelimitRaw|Submit|Start|End|ElapsedRaw|State|JobName|SubmitLine"
    ]
    columns = (log.filled(name).tolist() for name in ("submit", "run_time", "allocated_procs", "user"))
    for k, (submit, length, procs, user) in enumerate(zip(*columns, strict=True)):
        at = EPOCH + submit
        name = f"run{k:05d}"
        line = (f"sbatch -N {procs} --job-name {name} app.sh", f"srun -N {procs} -J {name} ./app -in in.{k:04d}")[
            user % 2
        ]
        line = line if user < 90 else ("srun --pty bash", "")[user % 2]
        rows.append(
            f"{k + 1}|{k + 1}|u{user}|{procs}|{procs}|360|{at}|{at}|{at + length}|{length}|COMPLETED|{name}|{line}"
        )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_runs_of_other_job_names_are_one_application_by_their_lines(tmp_path: Path) -> None:
    log, _ = read_log(accounting(tmp_path / "sacct.txt", planted(0.12)))
    jobs = study_jobs(log, NODES)
    found = li.applications(jobs)
    assert found.key == ("user", "nodes", "executable", "command")
    table = li.comparisons(found.runs)
    assert len(table) == 5
    assert table["increase"].mean() == pytest.approx(0.12, abs=0.012)
    assert (table["p_z"] < li.SIGNIFICANCE).all()
    assert dict(zip(found.sources["source"], found.sources["jobs"], strict=True)) == {
        "batch script": 480, "launcher": 320, li.NOT_TOLD: 800, li.NO_LINE: 160,
    }  # fmt: skip
    assert "of 800 of 1,760 jobs" in found.notes[-1]
    by_name = replace(jobs, table=jobs.table.drop(columns="command"))
    assert li.applications(by_name).runs.empty  # each job name is another application
    assert li.applications(by_name).sources.empty
    report = run(Setting(log, tmp_path, procs=NODES))
    assert report.tables["executables are read from"]["jobs"].sum() == len(log)


# Allcock et al. -------------------------------------------------------------------------------------------------------

NAMES = "COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,RUNTIME_SECONDS,WALLTIME_SECONDS,NODES_USED,NODES_REQUESTED,CORES_USED,USERNAME_GENID,PROJECT_NAME_GENID,QUEUE_NAME,MODE,EXIT_STATUS,IS_OVERBURN,LOCATION"  # noqa: E501
QUEUES = (("prod-short", 512, 1), ("backfill", 1024, 1), ("prod-capability", 16_384, 3), ("prod-long", 512, 7))
WAITS = {"prod-short": 4, "backfill": 6, "prod-capability": 20, "prod-long": 19}


def mira(path: Path, days: int = 760) -> Path:
    """Write a log of two years with what the paper saw: busy Wednesdays, a surge in backfill, modes, overburn."""
    rows, number = [], 0
    for day in range(days):
        date = pd.Timestamp("2014-01-01") + pd.Timedelta(days=day)
        for queue, nodes, hours in (
            ("prod-short", 512, 1),
            ("backfill", 1024, 1),
            ("prod-capability", 16_384, 3),
            ("prod-long", 512, 7),
        ):
            surge = queue == "backfill" and date.strftime("%Y-%m") == "2014-09"
            repeats = (15 if surge else 1) * (2 if date.day_of_week == 2 else 1) * (2 if queue == "prod-short" else 1)
            for k in range(repeats):
                number += 1
                queued = date + pd.Timedelta(hours=9, minutes=k)
                start = queued + pd.Timedelta(hours=WAITS[queue] * (3 if surge else 1))
                mode = "script" if number % 3 else "c16"
                code = 0 if number % 10 < (8 if mode == "script" else 4) else 143
                user = "u1" if surge else f"u{2 + number % 10}"
                burn = int(date.month in (7, 8) and queue == "prod-capability")
                times = f"{queued},{start},{start + pd.Timedelta(hours=hours)},{hours * 3600},{hours * 7200}"
                size = f"{nodes},{nodes},{nodes * 16}"
                rows.append(
                    f"{number},{times},{size},{user},p{int(nodes == 16_384)},{queue},{mode},{code},{burn},R{nodes}-{k}"
                )
    path.write_text("\n".join((NAMES, *rows)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def mira_log(tmp_path_factory: pytest.TempPathFactory) -> JobLog:
    return read_log(mira(tmp_path_factory.mktemp("mira") / "mira.csv"))[0]


def answers(rows: list[study.Row], number: int) -> list[str]:
    return [answer for n, _, _, answer in rows if n == number]


def test_queues_users_exits_modes_cycles_overburn(mira_log: JobLog) -> None:
    jobs = study_jobs(mira_log, 49_152)
    rows = observations(jobs)
    assert {n for n, *_ in rows} == set(range(1, 19))
    assert answers(rows, 1) == [
        "prod-short: 36%",
        "prod-capability: 89%",
        "prod-long: 25,200 s",
        "prod-capability: 16,384 nodes",
    ]
    assert answers(rows, 2) == [f"{study.queue_table(jobs).set_index('queue')['mean_wait_s']['backfill'] / 14_400:.2f}"]
    assert answers(rows, 3) == [f"{20 / 19:.2f}"]
    assert set(answers(rows, 4)) == {"unknown: the log has 1 whole year"}
    assert "user u1 in 2014-09: 510 jobs" in answers(rows, 5)[0]
    assert "100% in backfill, median 1,024 nodes" in answers(rows, 5)[0]
    assert answers(rows, 6) == ["backfill 3.00; prod-capability 1.00; prod-long 1.00; prod-short 1.00"]
    assert answers(rows, 9)[0] == "66.7%"
    assert answers(rows, 11)[0] == "script: 67%"
    assert answers(rows, 12) == ["script 80%; c16 40%"]
    assert "Wednesday" in answers(rows, 16)[0]
    assert "Sep" in answers(rows, 16)[1]
    assert answers(rows, 17)[2].split(", ")[0][-2:] in ("07", "08")
    assert answers(rows, 18)[0].startswith("project p1, 2014-0")
    assert answers(rows, 18)[0].endswith("100% of jobs, 100% of core-hours")
    assert all("no failure log" in answer for n in (13, 14, 15) for answer in answers(rows, n))


def test_a_queue_that_has_no_job_in_the_month_of_a_surge(mira_log: JobLog) -> None:
    jobs = study_jobs(mira_log)
    month = jobs.table["time"].dt.strftime("%Y-%m")
    for gone in (["2014-09"], ["2014-08", "2014-10"]):
        less = replace(jobs, table=jobs.table[~((jobs.table["queue"] == "prod-long") & month.isin(gone))])
        assert study.surge_waits(less, "2014-09") == "backfill 3.00; prod-capability 1.00; prod-short 1.00"


def test_table_2_by_hand(mira_log: JobLog) -> None:
    table = study.queue_table(study_jobs(mira_log)).set_index("queue")
    raw = mira_log.to_frame().assign(name=[mira_log.names("queue")[q] for q in mira_log["queue"]])
    own = raw[raw["name"] == "prod-capability"]
    row = table.loc["prod-capability"]
    assert row["jobs"] == len(own)
    assert (row["mean_used_nodes"], row["mean_wait_s"], row["mean_runtime_s"]) == (16_384, 72_000, 10_800)
    assert row["mean_walltime_s"] == 21_600
    assert row["mean_used_core_hours"] == 16_384 * 16 * 3
    assert row["mean_requested_core_hours"] == 16_384 * 16 * 6
    assert row["total_used_core_hours"] == pytest.approx(len(own) * 16_384 * 16 * 3)
    assert table["share_of_jobs"].sum() == pytest.approx(1)


def test_failures_beside_jobs(mira_log: JobLog, tmp_path: Path) -> None:
    start = mira_log.filled("submit") + mira_log.filled("wait")
    wide = np.flatnonzero(mira_log.filled("nodes") == 16_384)[:40]
    names = [mira_log.names("location")[code].split("-")[1] for code in mira_log.filled("location").tolist()]
    lines = ["EVENT_TIME,JOBID,LOCATION,SEVERITY"]
    for k, row in enumerate(wide.tolist()):
        at = pd.Timestamp(int(mira_log.epoch + start[row]) + (300 if k < 30 else 9000), unit="s")
        lines.append(f"{at},{mira_log['job_id'][row] if k % 2 else ''},R16384-{names[row]},{'FATAL' if k else 'WARN'}")
    lines += ["soon,1,R512-0,FATAL", "1999-01-01 00:00:00,,R512-0,FATAL"]
    (tmp_path / "ras.csv").write_text("\n".join(lines) + "\n")
    failures, account = read_failures(tmp_path / "ras.csv", mira_log)
    assert {f.rule: f.count for f in account.findings} == {"no-time": 1, "not-fatal": 1, "no-job": 1}
    assert failures.row[failures.row >= 0].tolist() == wide[1:].tolist()
    jobs = study_jobs(mira_log, 49_152)
    found = hits(jobs, failures)
    assert sorted(found["after_s"].tolist()) == [300.0] * 29 + [9000.0] * 10
    assert by_place(jobs, failures)["failures"].tolist()[:2] == [34, 5]
    assert by_queue(jobs, failures)["queue"].tolist()[0] == "prod-capability"
    rows = observations(jobs, failures)
    assert answers(rows, 14) == ["74%; in its first ten minutes 74%"]
    assert answers(rows, 15)[0].startswith("prod-capability: ")
    for text, says in (
        ("A,B\n1,2\n", "lacks the column EVENT_TIME"),
        ("EVENT_TIME,X\n,\n", "lacks the column JOBID or"),
    ):
        (tmp_path / "ras.csv").write_text(text)
        with pytest.raises(JobcastError, match=says):
            read_failures(tmp_path / "ras.csv", mira_log)


def test_the_wall_clock_of_the_machine() -> None:
    # Midnight between Tuesday and Wednesday, 1 September 2020, in Chicago is 05:00 in Greenwich.
    columns = {"job_id": [1, 2], "submit": [0, 7200], "run_time": [60, 60], "allocated_procs": [1, 1]}
    log = JobLog.from_columns(columns, {}, epoch=1_599_022_800 - 3600, time_zone="America/Chicago", max_procs=4)
    table = study_jobs(log).table
    assert table["time"].dt.hour.tolist() == [23, 1]
    assert table["time"].dt.day_name().tolist() == ["Tuesday", "Wednesday"]


def painted(folder: Path, name: str, table: pd.DataFrame, paint: Callable[..., None], **_: float) -> list[Path]:
    """Paint a picture and write its table, without the time that a PNG and an SVG take."""
    figure = Figure()
    paint(figure.add_subplot(), table)
    return [write_table(table, folder / f"{name}.csv")]


def test_a_log_that_tells_next_to_nothing(tmp_path: Path) -> None:
    columns = {"job_id": [1, 2, 3], "submit": [0, 10, 20], "run_time": [50, 60, 0], "allocated_procs": [2, 3, 4]}
    log = JobLog.from_columns(columns, {})
    jobs = study_jobs(log)
    assert jobs.machine == 5
    told = " ".join(jobs.notes)
    for part in ("1 of 3 jobs never ran", "waits are unknown", "most that was in use, 5", "router"):
        assert part in told
    for number in (5, 6, 7, 8, 11, 12, 17, 18):
        assert all("unknown" in answer for answer in answers(observations(jobs), number)), number
    report = run(Setting(log, tmp_path))
    for one in report.pictures:
        one.paint(Figure().add_subplot(), one.table)
    assert report.verdict == ("No application has 30 runs that pass Li et al.'s rules.",)
    with pytest.raises(JobcastError, match="no job has both a run time and processors"):
        study_jobs(log.replaced({"run_time": np.zeros(3, dtype=np.int64)}))


def test_a_status_that_is_always_the_same_tells_nothing() -> None:
    columns = {
        "job_id": [1, 2], "submit": [0, 10], "run_time": [50, 60], "requested_time": [60, 60],
        "allocated_procs": [2, 3],
    }  # fmt: skip
    jobs = study_jobs(JobLog.from_columns(columns | {"status": [0, 0]}, {}, max_procs=8))
    assert study.normal_exit(jobs).tolist() == [True, False]
    jobs = study_jobs(JobLog.from_columns(columns | {"status": [0, 1]}, {}, max_procs=8))
    assert study.normal_exit(jobs).tolist() == [False, True]


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.reports.page.draw", painted)
    (tmp_path / "ras.csv").write_text("EVENT_TIME,JOBID\n2014-01-01 14:00:00,1\n")
    log = mira(tmp_path / "mira.csv", days=70)
    about = ["--log", log, "--out", tmp_path, "--failures", tmp_path / "ras.csv"]
    told = json.loads(printed("experiment", "logstudy", *about, "--json"))
    assert (told["experiment"], told["log"]) == ("logstudy", "mira")
    assert {"observations", "queues (Table 2)", "choice of runs"} <= set(told["tables"])
    names = {Path(path).name for path in told["figures"]}
    assert {
        "fig7_widest_user.csv", "fig8_jobs_around.csv", "fig9_core_hours_around.csv", "fig11_exits.csv",
        "fig12_exits_by_queue.csv", "fig16_failures_by_place.csv", "fig21_overburn.csv",
    } <= names  # fmt: skip
    assert all(Path(path).exists() for path in told["figures"])
    files = {Path(path).name for path in told["files"]}
    assert names | {"observations.csv", "report.html", "report.json"} <= files
    assert files == {path.name for path in (tmp_path / "logstudy").iterdir()}


def test_theta(trace, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log, _ = read_log(trace("ALCF-Theta-2022.cqsim"))
    jobs = study_jobs(log)
    table = study.queue_table(jobs).set_index("queue")
    assert table["jobs"].to_dict() == {"prod-capability": 2102, "prod-short": 20_571, "prod-long": 1238}
    utilisation = li.mean_utilisation(
        jobs.table["start"].to_numpy(), jobs.table["end"].to_numpy(), jobs.table["procs"].to_numpy(), jobs.machine
    )
    assert 0 < utilisation.min() <= utilisation.max() < 1.1  # the header's 4,360 nodes are not all of the machine
