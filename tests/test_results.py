"""What comes out of a simulation: step functions, placements, and the formats of other tools."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.data.detect import read_log
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log
from schedsim.engine import simulate
from schedsim.exports import BATSIM_COLUMNS, schedule_writer, to_log
from schedsim.metrics import utilisation
from schedsim.placement import place
from schedsim.policy import make_policy
from schedsim.timelines import mean_by_span, timeline
from schedsim.workload import Workload

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


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_placement_gives_each_job_its_processors_and_no_processor_two_jobs(schedule):
    placed = place(schedule)
    width = [sum(last - first + 1 for first, last in intervals) for intervals in placed]
    assert width == schedule.workload.procs.tolist()
    for second in np.unique(schedule.start):
        here = np.flatnonzero((schedule.start <= second) & (schedule.end > second))
        held = [p for row in here for first, last in placed[row] for p in range(first, last + 1)]
        assert len(held) == len(set(held)) and all(0 <= p < PROCS for p in held)


@settings(max_examples=100, deadline=None)
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


def test_spans_keep_the_area():
    schedule = _easy()
    line = timeline(schedule)
    means, _ = mean_by_span(line, line.busy_procs, 37)
    assert means.mean() / schedule.workload.machine_procs == pytest.approx(utilisation(schedule))


def _easy():
    log, _ = generate_log(300, seed=2, procs=64).for_simulation()
    return simulate(Workload.from_log(log), make_policy("easy"))


@pytest.fixture(scope="module")
def simulated():
    log, _ = generate_log(300, seed=2, procs=64).for_simulation()
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
    other, _ = generate_log(200, seed=3, procs=64).for_simulation()
    with pytest.raises(JobcastError, match="not the log of this schedule"):
        to_log(schedule, other)


def test_every_picture_of_a_schedule_is_drawn(simulated, tmp_path):
    from experiments.schedule_figures import draw_schedule

    paths = draw_schedule(tmp_path, simulated[1])
    assert {path.suffix for path in paths} == {".png", ".svg", ".csv"}
    assert len(paths) == 18 and all(path.stat().st_size for path in paths)
    classes = pd.read_csv(tmp_path / "slowdown_by_width.csv")
    assert classes["jobs"].sum() == 300
