"""Budgets and intervals: jobs outrun a prediction as often as allowed, in every month, and drift is followed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, evaluate, forecast, generate_log, load, make_predictor, replay, save
from predictors.evaluation.metrics import coverage
from predictors.history.history import Outcome
from predictors.history.replay import log_events
from predictors.models.conformal import WithBudget, at_share, conformal_share, moved, shares

SECONDS = st.floats(1, 1e7)


@given(seconds=SECONDS, predicted=SECONDS, limit=SECONDS)
def test_the_share_of_a_job_is_the_least_that_would_have_been_enough(seconds, predicted, limit):
    one = np.array([seconds]), np.array([predicted]), np.array([limit])
    share = float(shares(*one)[0])
    assert -1 <= share <= 1
    if seconds <= max(limit, predicted):
        assert at_share(one[1], one[2], share)[0] >= seconds * (1 - 1e-6)
    if share > -1 and seconds < max(predicted, limit):
        assert at_share(one[1], one[2], share - 0.01)[0] <= seconds * (1 + 1e-6)


@given(predicted=SECONDS, limit=SECONDS, low=st.floats(-1, 1), high=st.floats(-1, 1))
def test_a_greater_share_is_never_a_smaller_estimate(predicted, limit, low, high):
    low, high = sorted((low, high))
    p, r = np.array([predicted]), np.array([limit])
    lower, upper = at_share(p, r, low)[0], at_share(p, r, high)[0]
    assert 1 - 1e-9 <= lower <= upper * (1 + 1e-9) and upper <= max(predicted, limit) * (1 + 1e-9)


def test_every_outcome_moves_the_share_by_its_side():
    assert moved(0.5, True, 0.05) == pytest.approx(0.519)
    assert moved(0.5, False, 0.05) == pytest.approx(0.499)
    assert (moved(2.0, True, 0.05), moved(-2.0, False, 0.05)) == (2.0, -2.0)
    assert conformal_share(np.array([0.2, 0.9, -0.5]), 0.5) == 0.2


def drifting(n=12_000, seed=3):
    """Rows, submissions, run times, ends: logarithms of run times are normal, and twice as wide from the middle on."""
    random = np.random.default_rng(seed)
    width = np.where(np.arange(n) < n // 2, 0.5, 1.0)
    seconds = np.exp(5 + width * random.normal(size=n)).clip(1, 80_000)
    rows = np.column_stack([np.full(n, 86_400.0), np.full(n, np.exp(5.0))])
    submit = np.cumsum(random.integers(300, 900, n))
    return rows, submit, seconds, submit + seconds.astype(np.int64)


def block_band(outran, nominal, blocks=24, seed=0):
    """Band of 99 % around the nominal rate, by resampling blocks of neighbours."""
    random, size = np.random.default_rng(seed), max(len(outran) // blocks, 1)
    parts = outran[: size * blocks].reshape(blocks, size).mean(axis=1)
    means = parts[random.integers(0, blocks, (2000, blocks))].mean(axis=1) - parts.mean() + nominal
    return np.percentile(means, [0.5, 99.5])


@pytest.mark.parametrize("budget", [0.05, 0.25])
def test_the_budget_is_kept_in_every_month_though_the_log_drifts(budget):
    """The months in which jobs become more erratic included, each of at least 500 jobs; frozen calibration fails it."""
    rows, submit, seconds, end = drifting()
    careful = make_predictor("with-budget", predictor="similar", budget=budget).fit_rows(rows[:3000], seconds[:3000])
    rolling = careful.predict_as_they_end(rows[3000:], submit[3000:], seconds[3000:], end[3000:])
    month = (submit[3000:] - submit[3000]) // (30 * 86400 // 4)
    low, high = block_band((rolling[0] < seconds[3000:]).astype(float), budget)
    slack = 0.02  # one step of the calibration
    frozen_inside = []
    for m in np.unique(month):
        there = month == m
        if there.sum() >= 500:
            rate = np.mean(rolling[0][there] < seconds[3000:][there])
            assert low - slack <= rate <= high + slack, f"month {m}: {rate:.3f}"
            frozen = np.mean(careful.predict_rows(rows[3000:][there]) < seconds[3000:][there])
            frozen_inside.append(low - slack <= frozen <= high + slack)
    assert not all(frozen_inside)
    assert coverage(seconds[3000:], rolling[1], rolling[2]) == pytest.approx(0.9, abs=0.02)


def test_the_estimate_is_the_smallest_that_keeps_the_budget():
    """With a looser budget predictions fall."""
    rows, _, seconds, _ = drifting(4000)
    found = [
        make_predictor("with-budget", budget=b).fit_rows(rows, seconds).predict_rows(rows).mean()
        for b in (0.01, 0.05, 0.3)
    ]
    assert found[0] > found[1] > found[2]


@pytest.fixture(scope="module")
def log():
    return generate_log(1500, seed=11, users=10)


def test_predictions_carry_an_interval(log):
    careful = make_predictor("with-budget", predictor="similar", budget=None).fit(log)
    rows = replay(log, careful.features)
    low, high = careful.predict_interval(rows)
    assert (low <= high).all() and (low >= 1).all()
    assert coverage(log.filled("run_time"), low, high) > 0.8
    one = careful.predict_one(rows[-1])
    assert (one.lower, one.upper) == (low[-1], high[-1])
    assert one.seconds == careful.base_.predict_one(rows[-1]).seconds, "no budget: as the one inside"


def test_boosted_is_asked_for_the_quantile():
    careful = make_predictor("with-budget", predictor="boosted", settings={"n_estimators": 5}, budget=0.1)
    assert (careful.made().objective, careful.made().quantile) == ("quantile", 0.9)


def test_a_stream_calibrates(log):
    """Unfitted, it learns from the issued predictions as jobs end."""
    found = evaluate(log, ["similar"], train=None, budget=0.1)
    assert 0.03 < found["similar within 0.1"].figures.underestimation_rate < 0.2


def test_evaluating_with_a_budget(log):
    found = evaluate(log, ["similar", "user-mean"], budget=0.1)
    for name in ("similar within 0.1", "user-mean within 0.1"):
        assert found[name].figures.underestimation_rate < 0.2


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"budget": 0.0}, "budget must be a share between 0 and 1"),
        ({"coverage": 1.0}, "coverage must be a share"),
        ({"predictor": "similer"}, "No predictor 'similer'; did you mean 'similar'"),
        ({"predictor": "with-budget"}, "cannot be with-budget itself"),
    ],
)
def test_bad_parameters_are_refused(params, told, log):
    with pytest.raises(JobcastError, match=told):
        make_predictor("with-budget", **params).fit(log)


def test_damaged_shares_are_refused(log, tmp_path):
    save(WithBudget().fit(log), tmp_path)
    np.savez(tmp_path / "shares.npz", shares=np.array([np.nan, 0, 0]))
    with pytest.raises(JobcastError, match="three shares"):
        load(tmp_path)


def test_the_prediction_lies_inside_its_interval():
    """Whatever the shares: a careful prediction is not above its upper end, a bold one not below its lower."""
    rows, _, seconds, _ = drifting(3000)
    for budget, coverage_ in ((0.02, 0.5), (0.9, 0.5), (None, 0.9)):
        model = make_predictor("with-budget", budget=budget, coverage=coverage_).fit_rows(rows[:2000], seconds[:2000])
        said = model.predict_rows(rows[2000:])
        low, high = model.predict_interval(rows[2000:])
        assert (low <= said).all() and (said <= high).all()
    assert (low < said).any() and (said < high).any()


def test_calibration_asks_only_for_what_was_issued(monkeypatch):
    """The predictor inside, which may have learnt from the very job by now, is not asked of its row again."""
    rows, _, seconds, _ = drifting(2000)
    model = make_predictor("with-budget", predictor="similar", budget=0.1).fit_rows(rows[:1000], seconds[:1000])
    monkeypatch.setattr(type(model.base_), "predict_rows", lambda *_: pytest.fail("asked again"))
    before = model.shares_
    model.learn_one(Outcome(rows[0], 100.0, 500.0, True, 9))
    assert model.shares_[0] == pytest.approx(before[0] + 0.018)
    model.learn_one(Outcome(rows[0], np.nan, 500.0, True, 9))
    assert model.shares_[0] == pytest.approx(before[0] + 0.018), "nothing was issued, nothing is calibrated"


def test_a_job_counts_as_soon_as_it_outruns_its_prediction_and_only_once():
    model = make_predictor("with-budget", predictor="similar", budget=0.1)
    row = np.array([600.0, 50.0])
    model.learn_one(Outcome(row, 100.0, 60.0, False, 60))
    assert model.shares_ == (0.0, 0.0, 0.0), "it may still end in time"
    model.learn_one(Outcome(row, 100.0, 101.0, False, 101))
    assert model.shares_[0] == pytest.approx(0.018)
    beyond = make_predictor("with-budget", predictor="similar", budget=0.1)
    beyond.learn_one(Outcome(row, 600.0, 601.0, False, 601))
    assert beyond.shares_[0] == pytest.approx(-0.002), "no prediction could have been long enough"


@pytest.mark.parametrize("budget", [0.3, None])
def test_the_interval_holds_in_the_loop_whatever_the_budget(budget):
    """How far a job that outran its prediction went is known at its end alone, and moves the interval then."""
    jobs = generate_log(6000, seed=3, users=30)
    live = forecast(make_predictor("with-budget", predictor="similar", budget=budget), jobs)
    issued, predict = [], live.predictor.predict_one
    live.predictor.predict_one = lambda row: issued.append(predict(row)) or issued[-1]
    live.advance(log_events(jobs), np.full(len(jobs), np.nan))
    ran, (low, high) = jobs.filled("run_time"), np.array([(one.lower, one.upper) for one in issued], dtype=float).T
    known = np.isfinite(low) & (np.arange(len(jobs)) > 1500)
    assert np.mean(ran[known] > high[known]) == pytest.approx(0.05, abs=0.015)
    assert coverage(ran[known], low[known], high[known]) == pytest.approx(0.9, abs=0.02)


def test_the_loop_tells_of_overruns_once_each(log):
    """As many outcomes calibrate as jobs end, those that outran as of the first event after that."""
    live = forecast(make_predictor("with-budget", predictor="similar", budget=0.25), log)
    heard, learn = [], live.predictor.learn_one
    live.predictor.learn_one = lambda outcome: heard.append(outcome) or learn(outcome)
    seconds = np.full(len(log), np.nan)
    live.advance(log_events(log), seconds)
    assert sum(not o.told for o in heard) == len(log)
    early = [o for o in heard if not o.observed]
    assert len(early) > 20 and all(o.seconds > o.issued for o in early)
    assert sum(o.told for o in heard) == len(early), "their ends say that it was told"
    last = {}
    forked = forecast(make_predictor("with-budget", predictor="similar", budget=0.25), log)
    for event in np.array_split(log_events(log), 50):
        forked.advance(event, last.setdefault("seconds", np.full(len(log), np.nan)))
    np.testing.assert_array_equal(last["seconds"], seconds)


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
@pytest.mark.parametrize("rule", ["strict", "reis"])
def test_what_happens_in_the_second_of_a_submission_is_known_by_the_strict_rule_only(rule):
    """The one job that was outrun is known to have been at second 51, in which the second job is submitted."""
    rows = np.array([[600.0, 50.0], [600.0, 50.0]])
    model = make_predictor("with-budget", predictor="similar", budget=0.1, as_of=rule).fit_rows(
        np.tile(rows[:1], (9, 1)), np.full(9, 50.0)
    )
    said = model.predict_as_they_end(rows, np.array([0, 51]), np.array([90.0, 1.0]), np.array([90, 52]))[0]
    assert (said[1] > said[0]) == (rule == "strict")
