"""Boosted trees: the compiled walk is XGBoost's, targets and objectives do what they say, odd logs do no harm."""

import json

import numpy as np
import pytest

from jobcast import JobcastError, generate_log, load, replay, save
from predictors.models.boosted import MODEL, Boosted


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
