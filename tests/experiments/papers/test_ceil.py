"""The study of CEIL: months, cases paired by seed, tables of six workloads; the log of a capability centre."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.compare.relative import over_seeds
from experiments.papers.ceil.cases import (
    BASE,
    OURS,
    PASSED,
    START,
    busiest,
    by_month,
    compared,
    like_the_papers,
    marked,
    month_runs,
    months_of,
    over_months,
    run_times_of,
)
from experiments.papers.ceil.study import KEYS, STEP, Work, days_of, runs_of, verdict
from jobcast import JobcastError, Workload, simulate
from predictors.data.synthetic.capability import DAY, HOUR, MONTH, NODES, generate_capability_log
from schedsim.results.site_metrics import user_figures

LOG = generate_capability_log([(700, 0.15), (1400, 0.5)], seed=3)


def test_a_capability_log_meets_its_load_and_has_a_daily_rhythm():
    log = generate_capability_log([(3000, 0.6), (6000, 0.9)], seed=1)
    assert log.digest() == generate_capability_log([(3000, 0.6), (6000, 0.9)], seed=1).digest()
    assert log.digest() != generate_capability_log([(3000, 0.6), (6000, 0.9)], seed=2).digest()
    submit = log["submit"] + log.origin - (log.origin // DAY) * DAY
    first = submit < MONTH
    area = log["run_time"] * log.procs
    for here, load, jobs in ((first, 0.6, 3000), (~first, 0.9, 6000)):
        assert here.sum() == jobs and area[here].sum() / (NODES * MONTH) == pytest.approx(load, rel=1e-3)
    hour = submit // HOUR % 24
    by_day, by_night = np.mean((hour >= 12) & (hour < 18)), np.mean(hour < 6)
    assert 2.5 < by_day / by_night < 4
    assert (log["run_time"] <= log["requested_time"]).all() and log.procs.max() == NODES
    assert 0.0005 < np.mean(log.procs >= 4173) < 0.006


def test_no_job_of_a_capability_log_overlaps_more_than_the_machine():
    start = LOG["submit"] + LOG["wait"]
    end = start + LOG["run_time"]
    for now in start:
        assert LOG.procs[(start <= now) & (now < end)].sum() <= NODES


@pytest.mark.parametrize(
    ("months", "about", "says"),
    [
        ([(0, 0.5)], {}, "1 job or more"),
        ([(10, 0.0)], {}, "load of 0.05 to 1.2; got 10 jobs and 0.0"),
        ([(10, 0.9)], {}, "The load is too high: 10 jobs ask for"),
        ([], {}, "needs a machine, a seed and a month"),
        ([(10, 0.5)], {"seed": -1}, "needs a machine, a seed and a month"),
        ([(10, 0.5)], {"procs": 0}, "needs a machine, a seed and a month"),
    ],
)
def test_a_capability_log_that_cannot_be(months, about, says):
    with pytest.raises(JobcastError, match=says):
        generate_capability_log(months, **about)


def test_the_busiest_months_in_the_order_of_time():
    months = busiest(generate_capability_log([(700, 0.2), (200, 0.06), (900, 0.3)], seed=1))
    assert [month.name for month in months] == ["2024-01", "2024-03"]  # months of 30 days: to 30 January, …
    undated = replace(LOG, epoch=None, origin=0)
    assert [len(month.cleaned) for month in busiest(undated)] == pytest.approx([700, 1400], abs=9)
    with pytest.raises(JobcastError, match="no month has 20 jobs"):
        busiest(LOG.select(slice(0, 15)))


def test_changes_are_those_of_means_seed_by_seed():
    own = {"makespan_s": 99, "mean_user_wait_s": 50.0, "mean_user_slowdown": 3.0, "time_above_share": 0.01,
           "mean_user_slowdown_undilated": 3.0, "mean_user_wait_regular_s": 1.0, "late": 1, "dilated": 2,
           "postponable": 3}  # fmt: skip
    base = own | {
        "makespan_s": 100,
        "mean_user_wait_s": 200.0,
        "mean_user_slowdown": 4.0,
        "mean_user_wait_regular_s": 0.0,
    }
    row = compared(own, base)
    assert row["makespan_change"] == pytest.approx(-1) and row["user_wait_change"] == -75
    assert row["slowdown_change"] == -25 and row["above"] == 1.0 and np.isnan(row["wait_regular_change"])
    runs = pd.DataFrame(
        [{"dilation": START, "month": "a", "share": 0.5, "case": "CEIL", "seed": s, "x": s} for s in range(10)]
    )
    found = over_seeds(runs, KEYS, ["x"]).iloc[0]
    assert (found["x"], found["x_low"], found["x_high"]) == (4.5, 1, 8)


def test_a_run_is_what_the_parts_say():
    """One row of the study made again by hand."""
    month = busiest(LOG)[1]
    runs = runs_of(Work([month], quick=True), seed=5)
    from schedsim.workload.shaking import shaken

    jobs = marked(Workload.from_log(shaken(month.cleaned, 5)), 0.7, 5)
    for case in (BASE, OURS):
        told = user_figures(simulate(jobs, case.policy, kill=False, run_times=run_times_of(START, 5)))
        row = runs[(runs["case"] == case.name) & (runs["share"] == 0.7)].iloc[0]
        assert row["user_wait"] == told["mean_user_wait_s"] and row["above"] == 100 * told["time_above_share"]
    assert (runs[runs["case"] == "WFP"]["user_wait_change"] == 0).all()


def test_every_month_is_the_unit():
    """Three made-up months: a month's figure is the median of its seeds, the mean is over months."""
    months = months_of(generate_capability_log([(200, 0.05), (220, 0.06), (240, 0.07)], seed=1))
    runs = pd.concat([month_runs(months, (place, seed)) for place in range(3) for seed in (1, 2)], ignore_index=True)
    assert runs["month"].nunique() == 3 and set(runs["case"]) == {BASE.name, OURS.name, PASSED.name}
    changes = {"2024-01": [-10, -30], "2024-02": [0, 10], "2024-03": [-40, -20]}
    ours = runs["case"] == OURS.name
    for month, pair in changes.items():
        runs.loc[ours & (runs["month"] == month), "user_wait_change"] = np.repeat(pair, 3)
    table = over_months(runs)
    row = table[(table["reading"] == "stopped head reserves") & (table["postponable"] == 0.5)].iloc[0]
    assert row["user_wait_%"].startswith("-15.0 [") and row["months_with_less_user_wait"] == 2
    by = by_month(runs, months)
    assert by["month"].tolist() == list(changes) and (by["jobs"] > 190).all()
    by["above_95_WFP_%"] = [20.0, 44.0, 90.0]
    near = like_the_papers(by)
    assert near["month"].tolist() == ["2024-01", "2024-02", "2024-02", "2024-01"]


def test_three_days_are_the_schedules_own():
    month = busiest(LOG)[1]
    workload = marked(Workload.from_log(month.cleaned), 0.5, 0)
    days = days_of(month, workload, seed=0)
    assert len(days) == 3 * DAY // STEP and days["CEIL"].between(0, 100).all() and days["log"].between(0, 100).all()
    unknown = {**LOG.unknown, "wait": np.ones(len(LOG), bool)}
    without = replace(month, log=replace(LOG, unknown=unknown))
    assert days_of(without, workload, seed=0)["log"].isna().all()


def test_the_verdict_counts_only_what_is_sure():
    rows = [
        {"dilation": START, "month": "a", "share": s, "case": case, "above": a, "makespan_change": 0.0,
         "user_wait_change": w, "user_wait_change_high": h, "slowdown_change": w}
        for s, w, h in ((0.3, -10.0, -1.0), (0.5, -5.0, 2.0)) for case, a in (("WFP", 20.0), ("CEIL", 0.5))
    ]  # fmt: skip
    said = next(verdict(pd.DataFrame(rows)))
    assert "a: 20.00 to 0.50 %" in said and "user wait -10.0 to -5.0 %" in said and "in 1 of 2 workloads" in said
