"""A model in use: P10 to P90 hold what they promise, only ended jobs teach, and worse is told from noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, evaluate, generate_log, read_log
from predictors.evaluation.monitoring import LEAST, RECENT, Monitor, monitored, refuse_worse, standing_of
from predictors.models.conformal import ConformalQuantiles
from predictors.models.prediction import in_range

REAL = (
    "ALCF-Theta-2022.cqsim", "CEA-Curie-2011-2.1-cln", "HPC2N-2002-2.2-cln", "KTH-SP2-1996-2.1-cln",
    "LLNL-Thunder-2007-1.1-cln", "NASA-iPSC-1993-3.1-cln", "SDSC-SP2-1998-4.2-cln",
)  # fmt: skip


def noisy(n=6000, seed=1, spread=1.0, overrun=False):
    """Return a log of independent jobs with predictions that know nothing but the median, and last-two's."""
    random = np.random.default_rng(seed)
    run_time = np.exp(random.normal(6, spread, n)).round().clip(1).astype(np.int64)
    submit = np.cumsum(random.integers(1, 120, n))
    requested = np.full(n, 900) if overrun else run_time * random.integers(1, 20, n)
    columns = {"job_id": np.arange(n), "submit": submit, "wait": random.integers(0, 900, n), "run_time": run_time}
    log = JobLog.from_columns(columns | {"requested_time": requested}, {})
    return log, np.full(n, 400.0), np.exp(random.normal(6, spread, n))


# --- quantiles


@pytest.mark.parametrize("overrun", [False, True])
def test_p10_to_p90_hold_four_jobs_of_five(overrun):
    """Also where a fifth of the jobs runs beyond the request: nobody kills them, so P90 lies beyond it."""
    log, predicted, baseline = noisy(overrun=overrun)
    found = monitored(log, in_range(predicted, log.filled("requested_time"), cap=True), baseline)
    assert found.covered == pytest.approx(0.8, abs=0.02)
    late = np.arange(len(log)) >= 1000
    low, middle, high = found.quantiles[late].T
    ran = log.filled("run_time")[late]
    assert np.mean(ran < low) == pytest.approx(0.1, abs=0.02) and np.mean(ran > high) == pytest.approx(0.1, abs=0.02)
    assert np.mean(ran <= middle) == pytest.approx(0.5, abs=0.03)
    if overrun:
        assert np.mean(ran > 900) > 0.15 and np.mean(high > 900) > 0.9


def test_the_synthetic_log_is_covered_by_every_kind_of_predictor():
    scores = evaluate(generate_log(12_000, seed=3), ["requested", "similar"], intervals=True).scores
    covered = {score.name: score.followed.covered for score in scores}
    assert covered == pytest.approx(dict.fromkeys(("last-two", "requested", "similar"), 0.8), abs=0.04)


def test_a_drift_is_followed():
    """The jobs become ten times as long in the middle, and spread more: the second half is covered like the first."""
    log, predicted, baseline = noisy(12_000)
    random = np.random.default_rng(2)
    run_time = log.filled("run_time").copy()
    run_time[6000:] = np.exp(random.normal(8.3, 1.6, 6000)).round().clip(1)
    log = replace(log, values={**log.values, "run_time": run_time, "requested_time": run_time * 3})
    found = monitored(log, predicted, baseline)
    held = (found.quantiles[:, 0] <= run_time) & (run_time <= found.quantiles[:, 2])
    assert held[7500:].mean() == pytest.approx(0.8, abs=0.03)


def test_no_quantile_lies_beyond_the_request_of_a_site_that_kills():
    log, predicted, baseline = noisy(2000, overrun=True)
    run_time = np.minimum(log.filled("run_time"), 900)
    log = replace(log, values={**log.values, "run_time": run_time})
    found = monitored(log, predicted, baseline, layer=ConformalQuantiles(kills=True))
    assert np.nanmax(found.quantiles) == 900 and found.covered > 0.78


def test_only_what_has_ended_is_known():
    """Other run times from a second on change no quantile that was issued before the first of these jobs ended."""
    log, predicted, baseline = noisy(1500)
    ends = log.filled("submit") + log.filled("wait") + log.filled("run_time")
    changed = log.filled("submit") > log.filled("submit")[1000]
    run_time = np.where(changed, log.filled("run_time") * 7 + 50, log.filled("run_time"))
    other = replace(log, values={**log.values, "run_time": run_time})
    here, there = (monitored(one, predicted, baseline).quantiles for one in (log, other))
    before = log.filled("submit") < ends[changed].min()
    assert before.sum() > 1000 and np.array_equal(here[before], there[before], equal_nan=True)
    assert not np.array_equal(here, there, equal_nan=True)


def test_an_end_in_the_second_of_a_submission_counts_by_the_rule():
    for as_of, known in (("strict", True), ("reis", False)):
        monitor = Monitor(as_of=as_of)
        for job in range(40):
            monitor.submitted(job, 60.0, 60.0, 600.0)
            monitor.ended(job, 100, 70.0)
        monitor.catch_up(100)
        assert (monitor.submitted(99, 60.0, 60.0, 600.0) is not None) == known
        assert monitor.quantiles_at(100).outcomes == 40 * known and monitor.quantiles_at(101).outcomes == 40
        monitor.catch_up(101)
        assert monitor.submitted(100, 60.0, 60.0, 600.0) == (70.0, 70.0, 70.0)


@given(st.integers(0, 2**32), st.booleans())
def test_the_quantiles_of_many_are_those_of_each_and_in_order(seed, kills):
    """Whatever it has learnt, also from quantiles that were all too low or all too high."""
    random = np.random.default_rng(seed)
    layer, n = ConformalQuantiles(kills=kills), 400
    predicted, ran = np.exp(random.normal(6, 2, n)), np.exp(random.normal(6 + random.normal(0, 4), 2, n)).round()
    request = np.where(random.random(n) < 0.3, np.nan, np.exp(random.normal(7, 2, n)).round())
    for one, asked, seconds in zip(predicted.tolist(), request.tolist(), ran.tolist(), strict=True):
        layer.learn(one, asked, seconds, layer.one(one, asked))
    many = layer.now.many(predicted, request)
    each = [layer.now.one(one, asked) for one, asked in zip(predicted.tolist(), request.tolist(), strict=True)]
    assert np.array_equal(many, each) and (np.diff(many, axis=1) >= 0).all() and (many >= 1).all()
    assert each[0] == layer.one(float(predicted[0]), float(request[0]))
    assert not kills or (many[request > 0] <= np.maximum(request[request > 0], 1)[:, None]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_every_public_log_is_covered(trace, name):
    """80 ± 2 % of the last fifth, learnt from the first four fifths, and of a whole log in a stream."""
    log, _ = read_log(trace(name))
    split = evaluate(log, ["similar", "boosted"], intervals=True).scores
    stream = evaluate(log, [], train=None, intervals=True).scores
    covered = {(score.name, kind): score.followed.covered for kind, found in (("split", split), ("stream", stream))
               for score in found}  # fmt: skip
    assert len(covered) == 4 and all(abs(share - 0.8) <= 0.02 for share in covered.values()), covered


# --- beside last-two


def test_the_figures_are_those_of_the_newest_jobs_by_hand():
    monitor = Monitor()
    for job in range(RECENT + 10):
        monitor.submitted(job, 130.0, baseline=110.0, request=600.0)
        monitor.ended(job, job, 100.0)
    predicted, baseline, ran, held = monitor.errors()
    assert len(ran) == RECENT and monitor.outcomes == RECENT + 10
    assert (predicted[0], baseline[0], ran[0]) == (130.0, 110.0, 100.0) and held[-1] == 1.0
    assert monitor.standing.squared == (9.0, 9.0, 9.0) and monitor.standing.absolute.value == 3.0
    assert monitor.standing.worse


@pytest.mark.parametrize("n", [LEAST, 1000, RECENT])
def test_noise_is_not_called_worse_and_worse_is_not_called_noise(n):
    """Of 300 models that err as last-two does, hardly one is called worse; of 300 that err by half more, most are."""
    alike = worse = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        ran = np.exp(random.normal(8, 1.5, n))
        ours, theirs = (ran + ran**0.5 * 20 * random.standard_t(4, n) for _ in range(2))
        alike += standing_of(ours, theirs, ran).worse
        worse += standing_of(ran + 1.8 * (ours - ran), theirs, ran).worse
    assert alike <= 6 and worse >= 200


def test_one_job_does_not_make_a_model_worse():
    """A single job holds nearly all of the squared error: that is no proof."""
    ran = np.full(1000, 100.0)
    predicted, baseline = ran + 9.0, ran + 10.0
    predicted[500] += 1e6
    found = standing_of(predicted, baseline, ran)
    assert found.squared.value > 1000 and not found.worse


def test_a_model_that_errs_less_in_one_way_is_not_worse():
    """It errs by 100 s on one job of ten and by nothing on the others, last-two by 20 s on each."""
    ran = np.full(2000, 500.0)
    found = standing_of(ran + 100.0 * (np.arange(2000) % 10 == 0), ran + 20.0, ran)
    assert found.absolute.high < 1 < found.squared.low and not found.worse
    assert standing_of(ran + 300.0 * (np.arange(2000) % 10 == 0), ran + 20.0, ran).worse


def test_no_figure_that_does_not_exist():
    ran = np.full(500, 60.0)
    flawless = standing_of(ran + 1, ran, ran)
    assert flawless.worse and flawless.to_json()["squared_error_ratio_to_last_two"] is None
    assert not standing_of(ran, ran, ran).worse
    assert standing_of(ran[: LEAST - 1], ran[: LEAST - 1], ran[: LEAST - 1]) is None


def test_a_log_without_ends_is_predicted_and_not_judged():
    log = generate_log(600, seed=1)
    unknown = np.ones(len(log), dtype=np.bool_)
    log = replace(log, unknown={**log.unknown, "run_time": unknown})
    found = monitored(log, np.full(600, 60.0), np.full(600, 60.0))
    assert found.standing is None and np.isnan(found.quantiles).all() and np.isnan(found.covered)
    assert found.sentences("it") == [] and not found.worse


def test_what_does_not_beat_last_two_is_refused():
    refuse_worse("it", 0.999, "champion")
    for ratio in (1.0, 1.39, float("inf"), float("nan")):
        with pytest.raises(JobcastError, match=r"does not get the alias 'champion'.*--even-if-worse"):
            refuse_worse("it", ratio, "champion")


# --- state


def test_a_monitor_goes_on_where_it_was():
    log, predicted, baseline = noisy(900)
    one = Monitor(as_of="reis")
    run_time, submit = log.filled("run_time").tolist(), log.filled("submit").tolist()
    for job in range(800):
        one.catch_up(submit[job])
        one.submitted(job, predicted[job], baseline[job], float("nan"))
        if job >= 20:
            one.ended(job - 20, submit[job], run_time[job - 20])
    other = Monitor(as_of="reis")
    other.set_state(one.get_state())
    for monitor in (one, other):
        for job in range(780, 800):
            monitor.ended(job, submit[799] + job, run_time[job])
            monitor.catch_up(submit[799] + job + 1)
    here, there = one.get_state(), other.get_state()
    assert here.keys() == there.keys() and all(np.array_equal(here[k], there[k], equal_nan=True) for k in here)
    assert one.standing == other.standing and one.quantiles.now == other.quantiles.now
    with pytest.raises((JobcastError, KeyError, ValueError)):
        other.set_state({**here, "quantiles_ratios": here["quantiles_ratios"][1:]})


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": np.array([0, 0]), "ratios": np.empty(0)},  # nothing behind 60 outcomes
        {"counts": np.array([60, 0]), "ratios": np.ones(60)},  # a group without a job
        {"groups": np.array([0, 0]), "counts": np.array([60, 60, 60]), "ratios": np.ones(180)},  # one group twice
        {"levels": np.array([0.1, 0.5, 1e6])},  # e to its power is no number
        {"levels": np.array([0.1, 0.5, np.nan])},
        {"levels": np.array([0.9, 0.5, 0.1])},
        {"about": np.array([10**6, 0])},
        {"ratios": -np.ones(120)},
    ],
)
def test_damaged_quantiles_are_refused(changes):
    layer = ConformalQuantiles()
    for _ in range(60):
        layer.learn(300.0, 3600.0, 400.0, layer.one(300.0, 3600.0))
    state = layer.get_state()
    assert ConformalQuantiles.from_state(state).now.one(300.0, 3600.0) == layer.now.one(300.0, 3600.0)
    with pytest.raises(JobcastError, match=r"quantiles of a saved model are damaged; train it again"):
        ConformalQuantiles.from_state(state | changes)
