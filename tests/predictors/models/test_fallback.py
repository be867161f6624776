"""The chain of answers: who is asked after whom, what each prediction tells of it, and what a file may hold."""

import numpy as np
import pytest

from jobcast import JobcastError, forecast, generate_log, load, make_predictor, replay, save
from predictors.history.replay import log_events
from predictors.models.fallback import ChainEstimator

INSIDE = {"predictor": "boosted", "settings": {"n_estimators": 4}}


@pytest.fixture(scope="module")
def log():
    return generate_log(300, seed=11, users=5)


class _Knows:
    """Knows an even first column, tells infinity of 7."""

    def predict(self, rows):
        return np.where(rows[:, 0] == 7, np.inf, np.where(rows[:, 0] % 2, np.nan, 5.0))

    def predict_one(self, row):
        return float(self.predict(row[None])[0])


def test_the_first_finite_answer_counts():
    rows = np.array([[2, 30, 40], [1, 30, 40], [7, np.inf, 40], [1, np.nan, 40], [1, np.nan, np.nan]], dtype=float)
    chain = ChainEstimator(_Knows(), np.array([0]), np.array([1, 2]))
    np.testing.assert_array_equal(chain.predict(rows), [5, 30, 40, 40, np.nan])
    assert [chain.predict_one_with_source(row)[1] for row in rows] == [0, 1, 2, 2, -1]
    np.testing.assert_array_equal([chain.predict_one(row) for row in rows], chain.predict(rows))


def test_a_prediction_tells_who_answered(log):
    cold, fitted = make_predictor("chain", **INSIDE), make_predictor("chain", **INSIDE).fit(log)
    rows = replay(log, cold.features)
    known = np.isfinite(rows[:, cold.features.index("similar_median")])
    assert set(cold.answered_by(rows[known])) == {"similar"}
    first = cold.predict_one(rows[0])
    assert (first.fallback, first.answered_by) == (True, "requested")
    assert set(fitted.answered_by(rows)) == {"boosted"}
    only_last_two = np.full((1, rows.shape[1]), np.nan)
    only_last_two[0, cold.features.index("last_two_mean")] = 70.0
    assert (cold.predict_rows(only_last_two)[0], cold.answered_by(only_last_two)[0]) == (70.0, "last-two")


def test_in_the_loop_the_similar_answer_until_the_first_fit(log):
    chain, similar = np.full(len(log), np.nan), np.full(len(log), np.nan)
    events = log_events(log)
    forecast(make_predictor("chain", **INSIDE), log).advance(events, chain)
    from predictors.models.baselines import Similar

    forecast(Similar(), log).advance(events, similar)
    from predictors.models.baselines import LastTwo

    rows = replay(log, make_predictor("chain", **INSIDE).features)
    last_two = LastTwo().predict(log)
    expected = np.where(
        np.isfinite(rows[:, list(make_predictor("chain", **INSIDE).features).index("similar_median")]),
        similar,
        last_two,
    )
    np.testing.assert_array_equal(chain[:90], expected[:90])
    assert (chain[-90:] != expected[-90:]).any(), "the predictor inside never answered"


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"predictor": "chain"}, "cannot be chain itself"),
        ({"predictor": "averge"}, "No predictor 'averge'; did you mean 'average'"),
        ({"settings": {"n_boosted": 0}}, "n_boosted must be"),
    ],
)
def test_bad_parameters_are_refused(params, told, log):
    with pytest.raises(JobcastError, match=told):
        make_predictor("chain", **params).fit(log)


def test_another_predictor_in_the_file_is_refused(log, tmp_path):
    save(make_predictor("chain", predictor="similar").fit(log), tmp_path)
    about = (tmp_path / "predictor.json").read_text().replace('"predictor": "similar"', '"predictor": "similar-mean"')
    (tmp_path / "predictor.json").write_text(about)
    with pytest.raises(JobcastError):
        load(tmp_path)
