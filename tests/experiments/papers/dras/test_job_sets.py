"""The parts of a log and its job sets: nothing of later months in them, the pattern kept, the same for any order."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.papers.dras.job_sets import (
    DAY,
    HOUR,
    ORDERS,
    WEEK,
    Counts,
    Span,
    calendar,
    default_log,
    job_sets,
    rates,
    scaled,
    split,
)
from jobcast import JobcastError, clean, generate_log

LOG = clean(default_log(3)[0])[0]
PARTS = split(LOG, nodes=44)
FEW = Counts(2, 2, 3, jobs=400)


def columns(jobs):
    return np.stack([jobs.submit, jobs.procs, jobs.requested, jobs.run_time])


def test_parts_follow_one_another_and_keep_every_job():
    train, validation, test = PARTS.train, PARTS.validation, PARTS.test
    ids = np.concatenate([part.values["job_id"] for part in (train, validation, test)])
    assert ids.tolist() == LOG.values["job_id"].tolist() and PARTS.used == len(LOG)
    begin = np.datetime64(LOG.epoch, "s")
    assert np.datetime64(validation.epoch, "s") - begin >= np.timedelta64(60, "D")  # January and February 2024
    assert (validation.origin - train.origin) // DAY == 60 and (test.origin - train.origin) // DAY == 91
    assert PARTS.later.values["job_id"].tolist() == ids[len(train) :].tolist()
    assert (train.values["run_time"] <= train.values["requested_time"]).all()


def test_a_months_test_leaves_later_ones_out():
    short = split(LOG, "1mo", "1mo", 44)
    assert len(short.test) < len(PARTS.test)
    assert short.test.values["submit"][-1] < 31 * DAY


def test_a_scaled_machine_offers_the_same_load():
    for nodes in (436, 44):
        small = scaled(LOG, nodes)
        area, whole = (float((log.procs * log.values["run_time"]).sum()) for log in (small, LOG))
        assert area / nodes == pytest.approx(whole / LOG.max_procs, rel=0.06)
        assert small.procs.max() == nodes and small.procs.min() >= 1
    assert scaled(LOG, 5000) is LOG


@pytest.mark.parametrize(
    ("train", "test", "says"),
    [
        ("2 months", "rest", "days, weeks or months"),
        ("0mo", "rest", "45d, 6w, 2mo"),
        ("2mo", "all", "45d, 6w, 2mo"),
        ("9mo", "rest", "too short to split"),
        ("4mo", "rest", "0 jobs to test on"),
    ],
)
def test_a_log_that_cannot_be_split_so(train, test, says):
    with pytest.raises(JobcastError, match=says):
        split(LOG, train, test, 44)


def test_half_of_a_span():
    assert [Span(text).half.text for text in ("2mo", "3mo", "5w", "1d")] == ["1mo", "45d", "17d", "1d"]


def test_every_order_has_the_same_job_sets():
    found = {order: list(job_sets(PARTS.train, FEW, order, seed=5)) for order in ORDERS}
    kinds = {order: [kind for kind, _ in sets] for order, sets in found.items()}
    assert kinds["real, sampled, synthetic"] == ["real"] * 2 + ["sampled"] * 2 + ["synthetic"] * 3
    digests = [sorted(jobs.digest for _, jobs in sets) for sets in found.values()]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests[0])) == FEW.total
    other = sorted(jobs.digest for _, jobs in job_sets(PARTS.train, FEW, next(iter(ORDERS)), seed=6))
    assert len(set(digests[0]) & set(other)) == FEW.real  # weeks are no draws


def test_sampled_jobs_are_jobs_of_the_training_months():
    train = PARTS.train
    known = set(zip(train.procs, train.values["requested_time"], train.values["run_time"], strict=True))
    for kind, jobs in job_sets(train, FEW, next(iter(ORDERS)), seed=5):
        drawn = set(zip(jobs.procs, jobs.requested, jobs.run_time, strict=True))
        assert jobs.submit[0] == 0 and (jobs.run_time <= jobs.requested).all() and jobs.machine_procs == 44
        if kind != "synthetic":
            assert drawn <= known
        else:
            assert drawn - known
            assert set(jobs.procs) <= set(train.procs) and set(jobs.requested) <= set(train.values["requested_time"])


def test_later_months_change_no_job_set():
    """The future is not looked at: other jobs after the training months, the same job sets."""
    later = np.arange(len(LOG)) >= len(PARTS.train)
    other = replace(LOG, values={**LOG.values, "run_time": np.where(later, 7, LOG.values["run_time"])})
    for first, second in zip(
        job_sets(PARTS.train, FEW, next(iter(ORDERS)), 5),
        job_sets(split(other, nodes=44).train, FEW, next(iter(ORDERS)), 5),
        strict=True,
    ):
        assert np.array_equal(columns(first[1]), columns(second[1]))


def test_synthetic_arrivals_keep_rate_and_rhythm():
    train = PARTS.train
    (_, jobs), *_ = job_sets(train, Counts(0, 0, 1, jobs=20_000), next(iter(ORDERS)), 1)
    span = (train.values["submit"][-1]) / (len(train) - 1)
    assert jobs.submit[-1] / len(jobs) == pytest.approx(span, rel=0.05)
    by_hour = np.bincount(jobs.submit // HOUR % 24, minlength=24)
    assert np.corrcoef(by_hour, rates(train).mean(axis=0))[0, 1] > 0.95  # they begin at a Monday's midnight
    sampled = next(iter(job_sets(train, Counts(1, 0, 0, jobs=20_000), next(iter(ORDERS)), 1)))[1]
    flat = np.bincount(sampled.submit // HOUR % 24, minlength=24)
    assert flat.std() / flat.mean() < 0.1 < by_hour.std() / by_hour.mean()


def test_days_and_hours_are_those_of_the_date():
    day, hour = calendar(PARTS.train)
    first = np.datetime64(PARTS.train.epoch, "s")
    assert day[0] == (first.astype("M8[D]").astype(int) + 3) % 7
    assert hour[0] == (first - first.astype("M8[D]")) // np.timedelta64(1, "h")
    undated = replace(PARTS.train, epoch=None)
    assert calendar(undated)[0][0] == 0 and rates(undated).shape == (7, 24)


def test_a_machine_of_any_size():
    log = clean(generate_log(3000, seed=2, procs=64))[0]
    parts = split(log, "2w", "rest")
    assert parts.test.max_procs == 64 and len(list(job_sets(parts.train, FEW, next(iter(ORDERS)), 1))) == FEW.total
    assert parts.train.values["submit"][-1] < 2 * WEEK
