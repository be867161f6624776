"""A backtest: jobs of each month in both schedules, learnt only from before, kept as it is done; and its page."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation
from experiments.site.backtest.backtest import Backtest, Months
from jobcast import JobcastError, JobLog, generate_log
from predictors.data.formats.swf import write_swf
from predictors.registry import make_predictor
from predictors.tracking.model_folder import Origin, save_model
from tests.support.commands import printed

SEPTEMBER = 1_756_684_800  # 2025-09-01 00:00 UTC


@pytest.fixture(scope="module")
def log():
    """Ten users over some two months from 20 September 2025 on, a machine in high demand."""
    made = generate_log(700, seed=5, users=10)
    stretch = 60 * 86400 / int(made.values["submit"][-1])
    submit = np.round(made.values["submit"] * stretch).astype(np.int64)
    run = np.maximum(1, np.round(made.values["run_time"] * stretch)).astype(np.int64)
    asked = np.maximum(run, np.round(made.values["requested_time"] * stretch).astype(np.int64))
    values = {**made.values, "submit": submit, "run_time": run, "requested_time": asked}
    return replace(made, values=values, epoch=SEPTEMBER + 19 * 86400, name="site")


@pytest.fixture(scope="module")
def found(log, tmp_path_factory):
    return Backtest(log, seeds=5).run(tmp_path_factory.mktemp("backtest"))


def test_what_looks_ahead_is_refused(log, tmp_path):
    with pytest.raises(JobcastError, match="knows the run times"):
        Backtest(log, "clairvoyant")
    model = make_predictor("last-two").fit(log)
    (tmp_path / "model").mkdir()
    save_model(model, tmp_path / "model", Origin.of("last-two", log, None))
    with pytest.raises(JobcastError, match="has learnt from this log, so its soft limits would look ahead"):
        Backtest(log, str(tmp_path / "model"))
    cleaned = log.select(slice(1, None))
    with pytest.raises(JobcastError, match="has learnt from this log"):
        Backtest(cleaned, str(tmp_path / "model"), as_read=log)


def test_months_follow_the_calendar_and_the_clock_of_the_machine(log):
    months = Months.of(log)
    assert months.names == ("2025-09", "2025-10", "2025-11")
    assert (np.diff(months.of_job) >= 0).all() and months.of_job[0] == 0
    eve = {"job_id": [1, 2], "submit": [0, 3600]}  # 30 September, 23:30 and 00:30 UTC
    at = {"epoch": SEPTEMBER + 30 * 86400 - 1800}
    assert Months.of(JobLog.from_columns(eve, {}, **at)).of_job.tolist() == [0, 1]
    assert Months.of(JobLog.from_columns(eve, {}, time_zone="Europe/Oslo", **at)).names == ("2025-10",)
    undated = Months.of(JobLog.from_columns({"job_id": [1, 2], "submit": [0, 31 * 86400]}, {}))
    assert undated.names == ("days 1-30", "days 31-60") and undated.of_job.tolist() == [0, 1]


def test_each_month_counts_its_jobs_in_both_schedules(log, found):
    """Two plain simulations: who starts earlier or later by more than a minute, and whose limit is too short."""
    before, _ = NamedSimulation(log, NamedPolicy.of("easy")).run()
    after, figures = NamedSimulation(log, NamedPolicy.of("easy"), "cesnet", "slurm", soft_limits="slurm").run()
    month, moved = Months.of(log).of_job, after.start - before.start
    table = found.months[found.months["seed"] == -1]
    assert table["jobs"].tolist() == np.bincount(month).tolist()
    assert table["earlier"].tolist() == [int((moved[month == k] < -60).sum()) for k in range(3)]
    assert table["later"].tolist() == [int((moved[month == k] > 60).sum()) for k in range(3)]
    assert table["set"].sum() == round(figures["soft_set"] * len(log)) > 0
    assert table["short"].sum() == round(figures["soft_too_short"] * table["set"].sum()) > 0
    assert table["after_mean_wait_s"].iloc[2] == pytest.approx(after.wait[month == 2].mean())
    whole = found.runs[(found.runs["seed"] == -1) & (found.runs["case"] == "requests")]
    assert whole["mean_wait_s"].item() == pytest.approx(before.wait[month > 0].mean()), "the first month stands apart"


def test_nothing_is_learnt_from_later_months(log, found, tmp_path):
    """Other run times in November change nothing before."""
    other = {**log.values}
    late = Months.of(log).of_job == 2
    other["run_time"] = np.where(late, log.values["requested_time"], log.values["run_time"])
    changed = Backtest(replace(log, values=other), seeds=5).run(tmp_path)
    same = [t.months[(t.months["seed"] == -1)].iloc[:1].drop(columns="table") for t in (found, changed)]
    assert same[0].equals(same[1])
    shorts = [t.months[t.months["seed"] == -1]["short"].tolist() for t in (found, changed)]
    assert shorts[0][:2] == shorts[1][:2] and shorts[0][2] < shorts[1][2]


def test_it_goes_on_where_it_was(log, tmp_path, monkeypatch):
    from experiments.site.backtest import backtest

    whole, real = [], backtest._compared

    def stops(shared, seed):
        whole.append(seed)
        if len(whole) == 3:
            raise KeyboardInterrupt
        return real(shared, seed)

    monkeypatch.setattr(backtest, "_compared", stops)
    with pytest.raises(KeyboardInterrupt):
        Backtest(log, seeds=5).run(tmp_path)
    Backtest(log, seeds=5).run(tmp_path)
    assert whole == [-1, 1, 2, 2, 3, 4, 5]


@pytest.mark.slow
def test_the_page_begins_with_the_last_month(log, tmp_path):
    write_swf(log, tmp_path / "site.swf")
    document = json.loads(printed("backtest", tmp_path / "site.swf", "--seeds", 5, "--out", tmp_path / "out", "--json"))
    assert document["verdict"][0].startswith("Had it been on in 2025-11: of ")
    assert "2025-09" in document["verdict"][3] and "nothing to learn from" in document["verdict"][3]
    assert {"month by month", "by width", "by user"} <= set(document["tables"])
    assert all(row["group"].startswith("user ") for row in document["tables"]["by user"])
    page = (tmp_path / "out" / "backtest-site" / "report.html").read_text(encoding="utf-8")
    assert "Had it been on in 2025-11" in page and "<img" in page
    assert len([name for name in document["files"] if name.endswith(".svg")]) == 3


def test_what_cannot_be_asked(log):
    with pytest.raises(JobcastError, match="Of 3 shaken copies"):
        Backtest(log, seeds=3)
    with pytest.raises(JobcastError, match="one soft limit per job; the estimates careful are several"):
        Backtest(log, predictor="careful")
    with pytest.raises(JobcastError, match="did you mean 'slurm'"):
        Backtest(log, soft_limits="slrum")
