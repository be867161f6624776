"""Running jobs teach how long jobs run: fewer underestimates than from ended ones alone, and no look ahead."""

import numpy as np
import pytest

from jobcast import JobLog, forecast, generate_log, make_predictor
from predictors.history.history import Outcomes
from predictors.history.replay import LogHistory, log_events, still_running
from predictors.models.censored import Censored, correction, grow
from predictors.models.trees import compile_booster

FEW = {"n_estimators": 15, "learning_rate": 0.3, "refit_every": 12 * 3600}


@pytest.fixture(scope="module")
def log():
    return generate_log(400, seed=5, users=6)


def standing(log, now, lost=()):
    """The log as it stands at a second: later jobs absent, running ones without a run time, queued ones never started.

    Of the `lost` nobody has noted the end.
    """
    start = log.filled("submit") + log.filled("wait")
    unknown = {column: array.copy() for column, array in log.unknown.items()}
    unknown["wait"] |= start > now
    unknown["run_time"] |= start + log.filled("run_time") > now
    unknown["run_time"][list(lost)] = True
    there = np.flatnonzero(log.filled("submit") <= now)
    return JobLog(log.values, unknown, epoch=log.epoch, name="standing").select(there)


def running_in(log):
    """The jobs that the log says still run."""
    history, rows = LogHistory(log, Censored.features), np.full((len(log), len(Censored.features)), np.nan)
    history.consume(log_events(log), rows)
    return still_running(history, rows)


def lifetimes(n=3000, seed=2):
    """Rows that tell nothing, and run times half of which are cut off at 100 s: the median is 100 e^0 s."""
    random = np.random.default_rng(seed)
    seconds = 100 * np.exp(random.normal(size=n))
    rows = random.normal(size=(n, len(Censored.features)))
    runs = seconds > 100
    running = Outcomes(
        rows[runs], np.full(runs.sum(), np.nan), np.full(runs.sum(), 100.0), ~runs[runs], np.zeros(runs.sum(), int)
    )
    return rows[~runs], seconds[~runs], running


def test_the_correction_is_what_half_of_the_jobs_outrun_running_ones_included():
    random = np.random.default_rng(4)
    ran, cut = np.exp(random.normal(size=4000)) * 3, np.exp(random.normal(size=4000)) * 6
    ended = ran <= cut
    found = correction("median", ran[ended], np.ones(ended.sum()), cut[~ended])
    assert found == pytest.approx(3, rel=0.06)
    assert correction("median", ran[ended], np.ones(ended.sum()), np.empty(0)) < 2.6
    assert correction("median", np.zeros(3), np.ones(3), np.empty(0)) == 1, "nothing to go by"


@pytest.mark.filterwarnings("ignore:censored. of 1,480 jobs the request is 0 s or less")
def test_half_of_the_jobs_outrun_a_median_and_means_sum_up():
    random = np.random.default_rng(8)
    rows = random.normal(size=(4000, len(Censored.features)))
    seconds = 100 * np.exp(rows[:, 3] + random.normal(size=4000))
    few = {"n_estimators": 60, "learning_rate": 0.1, "max_depth": 2, "cap": False}
    median, mean = (Censored(predicts=what, **few).fit_rows(rows[:3000], seconds[:3000]) for what in ("median", "mean"))
    assert np.mean(median.predict_rows(rows[3000:]) < seconds[3000:]) == pytest.approx(0.5, abs=0.05)
    assert mean.predict_rows(rows[3000:]).sum() == pytest.approx(seconds[3000:].sum(), rel=0.3)


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_the_median_comes_back_though_the_longer_half_still_runs(distribution):
    rows, seconds, running = lifetimes()
    how = Censored(
        distribution=distribution, scale=0.6 if distribution == "logistic" else 1.0, max_depth=1, n_estimators=100
    )
    with_them, without = (np.median(grow(how, rows, seconds, some).predict(rows)) for some in (running, None))
    assert with_them == pytest.approx(100, rel=0.1)
    assert without < 60


def test_the_compiled_trees_are_xgboosts(log):
    import xgboost

    rows, seconds, running = lifetimes(500)
    estimator = grow(Censored(n_estimators=20), rows, seconds, running)
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(estimator.model))
    expected = booster.predict(xgboost.DMatrix(rows.astype(np.float32), nthread=1)) * estimator.factor
    assert estimator.factor != 1
    np.testing.assert_allclose(estimator.predict(rows), expected, rtol=1e-4)
    assert compile_booster(estimator.model)[1] == pytest.approx(np.log(np.median(seconds)))


def test_a_log_hands_over_the_jobs_that_run(log):
    now = int(log.filled("submit")[-100])
    start = log.filled("submit") + log.filled("wait")
    runs = (start <= now) & (start + log.filled("run_time") > now)
    assert runs.any()
    cut = standing(log, now)
    found = running_in(cut)
    assert sorted(found.seconds) == sorted(now - start[runs]) and not found.observed.any()
    assert running_in(log) is None
    lost = running_in(standing(log, now, lost=[0]))
    assert len(lost) == len(found), "job 0 would have outrun its request long ago"


def test_running_jobs_make_a_difference_to_a_fit(log):
    cut = standing(log, int(log.filled("submit")[-100]))
    fitted, told = Censored(**FEW).fit(cut), log.select(slice(200))
    beside = fitted.predict(told)
    ended = Censored(**FEW).fit_rows(*fitted.window_.newest()).predict(told)
    assert (beside != ended).any()
    assert not any(name in vars(fitted) for name in ("_beside", "_running"))


def test_the_loop_hands_over_those_that_run_as_of_then(log):
    live = forecast(Censored(**FEW), log)
    events, asked = log_events(log), []
    live.predictor.watch(lambda now: asked.append((now, found := live.running(now))) or found)
    live.advance(events, np.full(len(log), np.nan))
    assert any(len(found) for _, found in asked)
    start = log.filled("submit") + log.filled("wait")
    end = start + log.filled("run_time")
    for now, found in asked:
        assert (found.seconds >= 0).all()
        sure = (start < now) & (end > now)
        possible = (start <= now) & (end >= now)
        assert sure.sum() <= len(found) <= possible.sum()


@pytest.mark.parametrize("inside", [None, "chain", "with-budget"])
def test_an_evaluation_hands_over_those_that_run_at_the_split(log, monkeypatch, inside):
    from predictors.evaluation.evaluate import evaluate

    given, fit = [], Censored.fit_with_running
    monkeypatch.setattr(Censored, "fit_with_running", lambda self, *told: given.append(told[2]) or fit(self, *told))
    own = Censored(**FEW) if inside is None else make_predictor(inside, predictor="censored", settings=FEW)
    evaluate(log, {"it": own}, train=0.75)
    ran = log.select(log.filled("run_time") > 0)
    submit, start = ran.filled("submit"), ran.filled("submit") + ran.filled("wait")
    cut = int(0.75 * len(ran))
    runs = (np.arange(len(ran)) < cut) & (start <= submit[cut]) & (start + ran.filled("run_time") >= submit[cut])
    assert runs.any() and given[0].seconds.tolist() == (submit[cut] - start[runs]).tolist()
