"""Figures of a schedule, against cases worked by hand, and the schedule's file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Workload, clean, figures, generate_log, make_policy, read_log, simulate
from schedsim.results.exports import BATSIM_COLUMNS, place, schedule_writer, to_frame, to_log
from schedsim.results.metrics import (
    ORDER,
    bounded_slowdown,
    by_group,
    by_run_time,
    by_size,
    by_user,
    figures_as_logged,
    how_started,
    share_worse_off,
    slowdown,
    utilisation,
    widest,
)
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import delivered
from schedsim.results.timelines import mean_by_span, timeline
from tests.support.engine_runs import jobs_of

# Two processors. FCFS: job 1 0-100, job 2 (2 wide) 100-120, job 3 120-125, job 4 120-320.
JOBS = Workload.from_columns(
    [1, 2, 3, 4], submit=[0, 10, 20, 20], procs=[1, 2, 1, 1], requested=[100, 60, 60, 200], run_time=[100, 20, 5, 200],
    user=[7, 7, 8, 8], machine_procs=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def schedule():
    return simulate(JOBS, make_policy("fcfs"))


def test_work_beyond_what_whole_numbers_hold():
    """Two runs that each fill a machine for 2^36 s: 2^65 processor seconds."""
    whole, long = 1 << 28, 1 << 36
    columns = {"submit": [0, 0], "procs": [whole] * 2, "requested": [long] * 2, "run_time": [long] * 2}
    found = simulate(Workload.from_columns([1, 2], machine_procs=whole, **columns), make_policy("fcfs"))
    assert utilisation(found) == 1 and figures(found)["utilisation"] == 1
    assert figures(found)["area_weighted_mean_wait_s"] == long / 2
    assert sum(part["core_hours"] for part in how_started(found).values()) == 2 * whole * long / 3600
    assert delivered(found, 2 * long).sum() == 2 * whole * long / 3600


def test_figures_by_hand(schedule):
    assert schedule.start.tolist() == [0, 100, 120, 120]
    found = figures(schedule)
    assert found == {
        "n_jobs": 4,
        "mean_wait_s": (0 + 90 + 100 + 100) / 4,
        "mean_bounded_slowdown": (1 + 110 / 20 + 105 / 10 + 300 / 200) / 4,
        "median_bounded_slowdown": (1.5 + 5.5) / 2,
        "p99_wait_s": 100.0,
        "max_wait_s": 100,
        "widest5_mean_wait_s": 90.0,
        "makespan_s": 320,
        "utilisation": (100 + 40 + 5 + 200) / (2 * 320),
        "mean_response_s": (100 + 110 + 105 + 300) / 4,
        "mean_stretch": (1 + 110 / 20 + 105 / 5 + 300 / 200) / 4,
        "max_stretch": 21.0,
        "area_weighted_mean_wait_s": (100 * 0 + 40 * 90 + 5 * 100 + 200 * 100) / 345,
        "area_weighted_mean_response_s": (100 * 100 + 40 * 110 + 5 * 105 + 200 * 300) / 345,
        "area_weighted_mean_bounded_slowdown": pytest.approx((100 * 1 + 40 * 5.5 + 5 * 10.5 + 200 * 1.5) / 345),
        # of 320 s, 100 with one of two processors busy, 20 with both, 5 with both, 195 with one; the mean is 345 / 640
        "throughput_std": pytest.approx(np.sqrt((295 * 0.25 + 25) / 320 - (345 / 640) ** 2)),
        "user_slowdown_gini": pytest.approx((6 - 3.25) / (4 * (6 + 3.25) / 2)),  # users 7 and 8: 3.25 and 6
        "killed": 0,
    }


def test_no_job_is_left_out():
    """A job that ran 1 s counts like any other; the bound keeps its slowdown from ruling the mean."""
    assert bounded_slowdown(np.array([99, 0]), np.array([1, 1])).tolist() == [10.0, 1.0]
    assert slowdown(np.array([99, 0, 5, 0]), np.array([1, 1, 0, 0])).tolist() == [100.0, 1.0, np.inf, 1.0]


@pytest.mark.parametrize(("n_jobs", "expected"), [(1, 1), (10, 1), (20, 1), (30, 2), (40, 2), (200, 10)])
def test_widest_five_percent(n_jobs, expected):
    procs = np.arange(n_jobs)
    chosen = widest(procs)
    assert chosen.sum() == expected
    assert procs[chosen].min() == n_jobs - expected


def test_by_user_and_size(schedule):
    assert by_user(schedule) == {
        7: {"n_jobs": 2, "mean_wait_s": 45.0, "mean_bounded_slowdown": 3.25, "max_wait_s": 90},
        8: {"n_jobs": 2, "mean_wait_s": 100.0, "mean_bounded_slowdown": 6.0, "max_wait_s": 100},
    }
    assert sum(row["n_jobs"] for row in by_run_time(schedule).values()) == len(schedule.start)
    assert {name: row["n_jobs"] for name, row in by_size(schedule).items()} == {"1": 3, "2": 1}
    with pytest.raises(JobcastError, match="names no users"):
        by_user(Schedule(**{**vars(schedule), "workload": Workload.from_columns(
            [1, 2, 3, 4], submit=JOBS.submit, procs=JOBS.procs, requested=JOBS.requested, run_time=JOBS.run_time,
            machine_procs=2,
        )}))  # fmt: skip


def test_how_jobs_started(schedule):
    assert how_started(schedule)["ready"] == {"jobs": 4, "core_hours": 345 / 3600}
    assert how_started(schedule)["backfilled"] == {"jobs": 0, "core_hours": 0.0}


def test_utilisation_of_an_empty_span():
    """Jobs of length zero, submitted at one second: nothing is used, and nothing divided by zero."""
    jobs = jobs_of((0, 1, 5, 0), machine=1)
    done = simulate(jobs, make_policy("easy"))
    assert utilisation(done) == 0.0
    found = figures(done)
    assert found["throughput_std"] == 0.0
    assert np.isnan([found["area_weighted_mean_wait_s"], found["area_weighted_mean_response_s"]]).all()


def test_the_file(schedule, tmp_path):
    shifted = Workload(**{**{k: getattr(JOBS, k) for k in JOBS.__dataclass_fields__}, "origin": 1000})
    path = tmp_path / "schedule.csv"
    simulate(shifted, make_policy("easy")).write_csv(path)
    assert path.read_text().splitlines() == [
        "job_id,submit,start,end,procs,estimate,last_estimate,started_by,wait,run_time",
        "1,1000,1000,1100,1,100,100,ready,0,100",
        "2,1010,1100,1120,2,60,60,reserved,90,20",
        "3,1020,1020,1025,1,60,60,backfilled,0,5",
        "4,1020,1120,1320,1,200,200,reserved,100,200",
    ]
    assert path.read_text().splitlines()[0].split(",") == list(to_frame(schedule))
    with pytest.raises(JobcastError, match="cannot be written"):
        schedule.write_csv(tmp_path / "no" / "folder.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["schedule.csv"]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"procs": [3, 1]}, "job 5 has procs 3; the machine has 2"),
        ({"procs": [1, 0]}, "job 6 has procs 0; must be at least 1"),
        ({"requested": [0, 1]}, "job 5 has requested 0; must be at least 1"),
        ({"run_time": [-1, 1]}, "job 5 has run_time -1; must be at least 0"),
        ({"submit": [3, 1]}, r"job 6 has submit 1; jobs must be sorted by \(submit, job id\)"),
        ({"submit": [1]}, r"submit has shape \(1,\)"),
        ({"machine_procs": 0}, "needs at least 1 processor; got 0"),
        ({"job_id": [5, 5], "submit": [0, 1]}, "two jobs have the same job id"),
        ({"job_id": [], "submit": [], "procs": [], "requested": [], "run_time": []}, "there are no jobs to simulate"),
    ],
)
def test_a_wrong_workload_is_an_error(columns, text):
    good = {
        "job_id": [5, 6], "submit": [0, 0], "procs": [1, 1], "requested": [9, 9], "run_time": [1, 1],
        "machine_procs": 2,
    }  # fmt: skip
    with pytest.raises(JobcastError, match=text):
        Workload.from_columns(**{**good, **columns})


def test_classes_of_run_time_begin_where_the_one_before_ends():
    run_time = [59, 60, 599, 600, 24 * 3600 - 1, 24 * 3600]
    n = len(run_time)
    workload = Workload.from_columns(
        job_id=range(n), submit=[0] * n, procs=[1] * n, requested=run_time, run_time=run_time, machine_procs=n
    )
    found = by_run_time(simulate(workload, make_policy("easy"), workload.requested))
    assert {name: row["n_jobs"] for name, row in found.items()} == {
        "< 1 min": 1, "< 10 min": 2, "< 1 h": 1, "< 24 h": 1, "longer": 1
    }  # fmt: skip


def test_groups_are_told_as_by_masks(schedule):
    """An independent, slow way: a mask a group; equal to the last bit."""
    groups = np.array([3, 1, 3, 1])
    bounded = bounded_slowdown(schedule.wait, schedule.run_time)
    assert by_group(schedule, groups) == {
        group: {
            "n_jobs": int((groups == group).sum()),
            "mean_wait_s": float(schedule.wait[groups == group].mean()),
            "mean_bounded_slowdown": float(bounded[groups == group].mean()),
            "max_wait_s": int(schedule.wait[groups == group].max()),
        }
        for group in (1, 3)
    }


PROCS = 8


@st.composite
def schedules(draw):
    """EASY schedules of up to a dozen jobs on a coarse time grid, zero-length jobs among them."""
    few = st.integers(0, 4)
    rows = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, PROCS), few), min_size=1, max_size=12))
    submit, procs, run = np.array(sorted(rows)).T
    workload = Workload.from_columns(
        np.arange(len(rows)), submit=submit, procs=procs, requested=run + 1, run_time=run, machine_procs=PROCS
    )
    return simulate(workload, make_policy("easy"))


@given(schedules())
def test_a_placement_gives_each_job_its_processors_and_no_processor_two_jobs(schedule):
    placed = place(schedule)
    width = [sum(last - first + 1 for first, last in intervals) for intervals in placed]
    assert width == schedule.workload.procs.tolist()
    for second in np.unique(schedule.start):
        here = np.flatnonzero((schedule.start <= second) & (schedule.end > second))
        held = [p for row in here for first, last in placed[row] for p in range(first, last + 1)]
        assert len(held) == len(set(held)) and all(0 <= p < PROCS for p in held)


@given(schedules())
def test_a_timeline_counts_what_a_slow_loop_counts(schedule):
    line, workload = timeline(schedule), schedule.workload
    for index, second in enumerate(line.time):
        running = (schedule.start <= second) & (schedule.end > second)
        waiting = (workload.submit <= second) & (schedule.start > second)
        assert line.busy_procs[index] == workload.procs[running].sum()
        assert line.queued_jobs[index] == waiting.sum()
        assert line.queued_procs[index] == workload.procs[waiting].sum()
    assert line.busy_procs[-1] == line.queued_jobs[-1] == 0


@given(schedules(), st.lists(st.integers(-1, 3), min_size=12, max_size=12))
def test_spread_and_weights_are_those_of_slow_loops(schedule, users):
    """Second by second, job by job, pair by pair of users."""
    workload = replace(schedule.workload, user=np.array(users[: len(schedule.start)]))
    found = figures(replace(schedule, workload=workload))
    seconds = range(int(workload.submit.min()), int(schedule.end.max()))
    busy = [workload.procs[(schedule.start <= t) & (schedule.end > t)].sum() / PROCS for t in seconds]
    assert found["throughput_std"] == pytest.approx(np.std(busy) if busy else 0.0)
    jobs = list(zip(workload.procs.tolist(), schedule.run_time.tolist(), schedule.wait.tolist(), strict=True))
    if area := sum(n * run for n, run, _ in jobs):
        assert found["area_weighted_mean_wait_s"] == pytest.approx(sum(n * run * wait for n, run, wait in jobs) / area)
        assert found["area_weighted_mean_response_s"] == pytest.approx(
            sum(n * run * (wait + run) for n, run, wait in jobs) / area
        )
    slowed = {}
    for user, (_, run, wait) in zip(users, jobs, strict=False):
        if user >= 0:
            slowed.setdefault(user, []).append(max(1, (wait + run) / max(run, 10)))
    means = [sum(each) / len(each) for each in slowed.values()]
    if not means:
        assert np.isnan(found["user_slowdown_gini"])
        return
    apart = sum(abs(one - other) for one in means for other in means) / len(means) ** 2
    assert found["user_slowdown_gini"] == pytest.approx(apart / (2 * sum(means) / len(means)), abs=1e-12)


def test_a_log_that_does_not_tell_its_users_has_no_spread_over_them(schedule):
    assert np.isnan(figures(replace(schedule, workload=replace(JOBS, user=None)))["user_slowdown_gini"])


@pytest.mark.parametrize(
    ("now", "before", "share"),
    [
        ([1000.0], [0.0], 1.0),
        ([600.0], [0.0], 0.0),  # ten minutes are not more than ten minutes
        ([100_000.0], [96_000.0], 0.0),  # an hour more, but by 4 % alone
        ([100_800.0], [96_000.0], 0.0),  # by 5 %, not by more
        ([100_801.0, 0.0], [96_000.0, 500.0], 0.5),
    ],
)
def test_who_is_worse_off(now, before, share):
    assert share_worse_off(now, before) == share


def test_the_spread_of_what_the_site_itself_did(simulated):
    """The same figures from a log's own waits: the log that a schedule makes has the figures of that schedule."""
    log, schedule = simulated
    logged, found = figures_as_logged(to_log(schedule, log)), figures(schedule)
    assert {name: logged[name] for name in ORDER} == {name: pytest.approx(found[name]) for name in ORDER}
    assert found["throughput_std"] > 0 and 0 < found["user_slowdown_gini"] < 1


def test_spans_keep_the_area(simulated):
    _, schedule = simulated
    line = timeline(schedule)
    means, _ = mean_by_span(line, line.busy_procs, 37)
    assert means.mean() / schedule.workload.machine_procs == pytest.approx(utilisation(schedule))


@pytest.fixture(scope="module")
def simulated():
    log, _ = clean(generate_log(300, seed=2, procs=64))
    return log, simulate(Workload.from_log(log), make_policy("easy"))


def test_swf_and_parquet_give_back_the_simulated_waits(simulated, tmp_path):
    log, schedule = simulated
    for name in ("out.swf", "out.swf.gz"):
        schedule_writer(name)(schedule, log, tmp_path / name)
        back, account = read_log(tmp_path / name)
        assert back.filled("wait").tolist() == schedule.wait.tolist()
        assert not account.dropped
    schedule_writer("out.parquet")(schedule, log, tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table["start"].tolist() == (schedule.start + log.origin).tolist()


def test_batsim_jobs_csv_has_the_columns_that_its_tools_read(simulated, tmp_path):
    log, schedule = simulated
    schedule_writer("jobs.csv")(schedule, log, tmp_path / "jobs.csv")
    table = pd.read_csv(tmp_path / "jobs.csv")
    assert tuple(table.columns) == BATSIM_COLUMNS
    assert (table["starting_time"] - table["submission_time"] == table["waiting_time"]).all()
    assert (table["turnaround_time"] == table["waiting_time"] + table["execution_time"]).all()


def test_our_csv_is_not_taken_for_batsims():
    assert schedule_writer("schedule.csv") is not schedule_writer("schedule.jobs.csv")
    assert schedule_writer("jobs.csv") is schedule_writer("x.jobs.csv")


def test_a_schedule_of_another_log_is_refused(simulated):
    _, schedule = simulated
    other, _ = clean(generate_log(200, seed=3, procs=64))
    with pytest.raises(JobcastError, match="not the log of this schedule"):
        to_log(schedule, other)


def test_every_picture_of_a_schedule_is_drawn(simulated, tmp_path):
    from experiments.reports.schedules import draw_schedule

    paths = draw_schedule(tmp_path, simulated[1])
    assert {path.suffix for path in paths} == {".png", ".svg", ".csv"}
    assert len(paths) == 18 and all(path.stat().st_size for path in paths)
    classes = pd.read_csv(tmp_path / "slowdown_by_width.csv")
    assert classes["jobs"].sum() == 300
