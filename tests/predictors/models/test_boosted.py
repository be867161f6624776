"""Boosted trees: the compiled walk is XGBoost's, targets and objectives do what they say, odd logs do no harm."""

import json

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.synthetic.generate import generate_log
from predictors.history.replay import replay
from predictors.models.boosted import MODEL, Boosted
from predictors.serialise import load, save


@pytest.fixture(scope="module")
def learnt():
    """Rows and run times of a synthetic log."""
    log = generate_log(800, seed=5, users=12)
    ran = log.filled("run_time") > 0
    return replay(log, Boosted.features)[ran], log.filled("run_time")[ran].astype(float)


def test_compiled_trees_walk_as_xgboost_does(learnt):
    """Missing values included; our sum is made in float64."""
    import xgboost

    rows, seconds = learnt
    boosted = Boosted(n_estimators=40, cap=False).fit_rows(rows, seconds)
    booster = xgboost.Booster(model_file=bytearray(boosted.estimator_.model))
    holes = rows.copy()
    holes[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    for given in (rows, holes):
        expected = booster.predict(xgboost.DMatrix(given.astype(np.float32)))
        np.testing.assert_allclose(boosted.estimator_.predict(given), expected, rtol=1e-4, atol=0.5)


def test_quantiles_stand_in_order_and_cover(learnt):
    rows, seconds = learnt
    found = {
        q: Boosted(objective="quantile", quantile=q, n_estimators=40, cap=False).fit_rows(rows, seconds)
        for q in (0.1, 0.9)
    }
    low, high = (found[q].predict_rows(rows) for q in (0.1, 0.9))
    assert np.mean(seconds <= low) < 0.3 < 0.7 < np.mean(seconds <= high)
    assert np.mean(low <= high) > 0.95


def test_a_logarithm_needs_smearing_to_be_unbiased(learnt):
    rows, seconds = learnt
    plain, smeared = (
        Boosted(target="log", smear=smear, n_estimators=40, cap=False).fit_rows(rows, seconds).predict_rows(rows)
        for smear in (False, True)
    )
    assert plain.sum() < 0.95 * seconds.sum()
    assert smeared.sum() == pytest.approx(seconds.sum(), rel=1e-6)


def test_residuals_follow_similar_jobs_and_survive_unlimited_requests(learnt):
    rows, seconds = learnt
    boosted = Boosted(target="residual", n_estimators=20).fit_rows(rows, seconds)
    odd = rows.copy()
    odd[:, Boosted.features.index("requested_time")] = 1e9
    odd[:, Boosted.features.index("similar_weighted")] = np.nan
    assert boosted.predict_rows(odd).max() <= 3 * seconds.max()


def odd_log(**changes):
    """A log of 150 jobs with some columns replaced; a value of None is unknown."""
    made = generate_log(150, seed=2, users=5)
    values = {column: array.copy() for column, array in made.values.items()}
    unknown = {column: array.copy() for column, array in made.unknown.items()}
    for column, value in changes.items():
        if value is None:
            unknown[column][:] = True
        else:
            values[column][:], unknown[column][:] = value, False
    return JobLog(values, unknown, epoch=made.epoch, name="odd")


ODD = {
    "constant targets": {"run_time": 60},
    "one user": {"user": 1},
    "nobody": {"user": None, "group": None, "queue": None, "executable": None},
    "all requests missing": {"requested_time": None},
    "requests of 0 s": {"requested_time": 0},
    "requests of 1e9 s": {"requested_time": 10**9},
    "no processors": {"requested_procs": None, "allocated_procs": None},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("target", ["seconds", "residual", "log"])
def test_odd_logs_give_predictions_in_range(name, target):
    log = odd_log(**ODD[name])
    boosted = Boosted(n_estimators=5, target=target).fit(log)
    for given in (log, odd_log(user=10**6, **{k: v for k, v in ODD[name].items() if k != "user"})):
        found = boosted.predict(given)
        assert np.isfinite(found).all() and (found >= 1).all()
        requested = given.filled("requested_time")
        limited = given.known("requested_time") & (requested > 0)
        assert (found <= requested)[limited].all()


def test_one_job_is_enough_to_learn_from():
    log = odd_log().select(slice(1))
    assert np.isfinite(Boosted(n_estimators=3).fit(log).predict(log)).all()


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"objective": "cubed"}, "objective must be one of squared"),
        ({"target": "days"}, "target must be one of seconds"),
        ({"quantile": 1.0}, "quantile must be a share between 0 and 1"),
        ({"n_estimators": 0}, "n_estimators must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be a share above 0"),
        ({"window": 0}, "window must be a whole number, at least 1"),
    ],
)
def test_bad_parameters_are_refused(params, told, learnt):
    with pytest.raises(JobcastError, match=told):
        Boosted(**params).fit_rows(*learnt)


def test_damaged_trees_are_refused(learnt, tmp_path):
    boosted = Boosted(n_estimators=3).fit_rows(*learnt)
    save(boosted, tmp_path)
    whole = (tmp_path / MODEL).read_text()
    model = json.loads(whole)
    model["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"][0] = 0
    for text in (json.dumps(model), whole[:200], "{}"):
        (tmp_path / MODEL).write_text(text)
        with pytest.raises(JobcastError, match=r"points? outside|cannot be read"):
            load(tmp_path)
