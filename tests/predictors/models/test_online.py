"""The predictors that learn job by job: exact definitions, snapshots, odd input, and what they reach on real logs."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from jobcast import JobcastError, forecast, generate_log, load, replay, save
from predictors.history.history import Outcome
from predictors.history.replay import log_events
from predictors.models.adapters.hoeffding import OnlineTree
from predictors.models.baselines import LastTwo
from predictors.models.online import _linear as _online_linear
from predictors.models.online import _nag
from predictors.models.online import gaussier as _gaussier
from predictors.models.online.gaussier import Gaussier
from predictors.models.online.linear import OnlineLinear
from predictors.models.stream import LearningForecast

ONLINE = (OnlineLinear, Gaussier, OnlineTree)
COMPILED = (OnlineLinear, Gaussier)


@pytest.fixture(scope="module")
def log():
    return generate_log(300, seed=5, users=6)


def in_the_loop(predictor, log):
    seconds = np.full(len(log), np.nan)
    forecast(predictor, log).advance(log_events(log), seconds)
    return seconds


# --- the algorithm, by hand ---


def test_the_normalised_adaptive_gradient_by_hand():
    """Two examples of one input, worked out from the paper's algorithm 2 in exact steps."""
    weights, scales, squares = np.zeros(1), np.zeros(1), np.zeros(1)
    x = np.array([2.0])
    assert _nag.rescale(x, weights, scales) == 1.0 and scales[0] == 2.0
    _nag.descend(x, -3.0, 0.5, 0.0, weights, scales, squares)  # slope -6, squared 36: step .5 * 6 / (2 * 6)
    assert weights[0] == 0.25 and squares[0] == 36.0
    x[0] = 4.0
    assert _nag.rescale(x, weights, scales) == 1.0
    assert weights[0] == 0.125 and scales[0] == 4.0  # the weight gives the same value for a double unit
    _nag.descend(x, 2.0, 0.5, 0.0, weights, scales, squares)  # slope 8, squares 36 + 64: step .5 * 8 / (4 * 10)
    assert weights[0] == pytest.approx(0.125 - 0.1) and squares[0] == 100.0


def test_products_stand_once_each():
    x = np.empty(6)
    _nag.quadratic(np.array([1.0, 2.0, 3.0]), x)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]


@pytest.mark.parametrize(
    ("predicted", "procs", "slope"),
    [(110.0, 4.0, 20 * math.log(400)), (90.0, 4.0, -math.log(400)), (100.0, 4.0, 0.0), (90.0, np.nan, -math.log(100))],
)
def test_the_asymmetric_loss_by_hand(predicted, procs, slope):
    assert _gaussier.slope_of_loss(predicted, 100.0, procs) == pytest.approx(slope)


def test_a_job_of_one_processor_second_weighs_nothing():
    assert _gaussier.slope_of_loss(50.0, 1.0, 1.0) == 0.0


def test_an_unknown_user_shares_a_weight_with_nobody():
    row = np.full(len(OnlineLinear.features), np.nan)
    row[_online_linear.PROCS], row[_online_linear.REQUESTED] = 4.0, 600.0
    marks = np.empty(_online_linear.N_MARKS, dtype=np.int64)
    _online_linear.write_marks(row, marks)
    assert (marks[:-1] == -1).all() and marks[-1] >= _online_linear.N_DENSE


def test_an_unset_request_does_not_drown_the_others():
    z = np.empty(_online_linear.N_INPUTS)
    row = np.full(len(OnlineLinear.features), np.nan)
    row[0] = 1e9
    assert _online_linear.write_inputs(row, z) == 30 * 86400 and z.max() == 30 * 86400
    assert np.isfinite(z).all()


# --- one code for streams, simulations and logs ---


@pytest.mark.parametrize("kind", COMPILED)
def test_the_compiled_loop_equals_one_outcome_after_the_other(kind, log):
    predictor = kind()
    slow = LearningForecast(predictor, log, learns=True)
    seconds = np.full(len(log), np.nan)
    slow.advance(log_events(log), seconds)
    np.testing.assert_array_equal(in_the_loop(kind(), log), seconds)
    rows = replay(log, predictor.features)
    live = forecast(kind(), log)
    live.advance(log_events(log), np.empty(len(log)))
    np.testing.assert_array_equal(live.learnt().predict_rows(rows), predictor.predict_rows(rows))


@pytest.mark.parametrize("kind", COMPILED)
def test_a_snapshot_never_changes_while_others_learn(kind, log):
    predictor = kind().fit(log)
    rows = replay(log, predictor.features)
    held, before = predictor.estimator_, predictor.estimator_.predict(rows)
    outcome = Outcome(rows[-1], 600.0, 5e5, True, 0)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(held.predict, rows) for _ in range(6)]
        for _ in range(50):
            predictor.learn_one(outcome)
    for one in asked:
        np.testing.assert_array_equal(one.result(), before)
    assert predictor.estimator_ is not held and (predictor.estimator_.predict(rows) != before).any()
    with pytest.raises(ValueError, match="read-only"):
        held.weights[0] = 1.0


@pytest.mark.parametrize("kind", ONLINE)
def test_running_and_zero_length_jobs_teach_nothing(kind):
    predictor = kind()
    row = np.full(len(predictor.features), 600.0)
    predictor.learn_one(Outcome(row, 600.0, 50.0, False, 0))
    predictor.learn_one(Outcome(row, 600.0, 0.0, True, 0))
    assert not predictor.fitted
    predictor.learn_one(Outcome(row, 600.0, 50.0, True, 0))
    assert predictor.fitted and not predictor.predict_one(row).fallback


# --- odd input ---


def test_a_damaged_model_is_refused(log, tmp_path):
    from predictors.core.model_files import read_arrays, write_arrays

    save(OnlineLinear().fit(log), tmp_path)
    arrays = read_arrays(tmp_path / "online.npz")
    for name, bad in (("weights", arrays["weights"][:-1]), ("sums", np.full(4, np.nan))):
        write_arrays(tmp_path / "online.npz", {**arrays, name: bad})
        with pytest.raises(JobcastError, match=f"The model's {name} cannot be used"):
            load(tmp_path)


def test_a_forest_of_online_trees(log):
    found = OnlineTree(trees=3).fit(log.select(slice(100))).predict(log)
    assert np.isfinite(found).all()


def test_online_linear_beats_last_two_on_a_real_log(trace):
    """KTH-SP2, learnt online, squared error of the last fifth: less than half of last-two's."""
    from predictors.data.formats.detect import read_log

    log = read_log(trace("KTH-SP2-1996-2.1-cln"))[0]
    log = log.select(log.known("run_time") & (log.filled("run_time") > 0))
    last, ran = slice(int(0.8 * len(log)), None), log.filled("run_time")
    errors = [((p - ran)[last] ** 2).sum() for p in (in_the_loop(OnlineLinear(), log), LastTwo().predict(log))]
    assert errors[0] / errors[1] == pytest.approx(0.345, abs=0.005)


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_a_user_who_is_a_hash_of_a_name_is_learnt_as_one_who_is_a_number():
    """As the service has them, from 2^52 on; a code that no float64 tells from its neighbour marks nothing."""
    rows = np.full((60, len(OnlineLinear.features)), np.nan)
    column = {name: rows[:, k] for k, name in enumerate(OnlineLinear.features)}
    column["requested_time"][:], seconds = 3600.0, np.where(np.arange(60) % 2, 1000.0, 50.0)
    found = []
    for users in ((1.0, 2.0), (2.0**52 + 1, 2.0**53 - 1), (2.0**53, 2.0**60), (np.nan, np.nan)):
        column["user"][:] = np.where(np.arange(60) % 2, *users)
        found.append(np.ptp(OnlineLinear().fit_rows(rows, seconds).predict_rows(rows)))
    assert found[0] > 500 and found[1] > 500 and found[2] == found[3] == 0
