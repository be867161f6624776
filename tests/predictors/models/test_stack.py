"""The stack: weights by recent errors, known when a job has ended and not before."""

import warnings

import numpy as np
import pytest

from jobcast import JobcastError, evaluate, generate_log, load, replay, save
from predictors.core.model_files import read_arrays, write_arrays
from predictors.history.history import Outcome
from predictors.models import stack as module
from predictors.models.boosted import Average
from predictors.models.stack import MEMBERS, N_AVERAGE, USERS, Stack, StackEstimator, take_in_all, weighted
from predictors.models.warnings import TrainingDataWarning

SMALL = {"n_boosted": 3, "n_forest": 2}


@pytest.fixture(scope="module")
def log():
    return generate_log(400, seed=4, users=8)


@pytest.fixture(scope="module")
def stack(log):
    return Stack(**SMALL).fit(log.select(slice(0, 250)))


def nothing_known():
    return np.zeros(MEMBERS + 1), np.zeros((USERS, MEMBERS + 1))


def test_before_the_first_error_it_is_the_plain_mean_of_average():
    answers = np.arange(1.0, MEMBERS + 1)
    assert weighted(answers, 3.0, *nothing_known()) == pytest.approx(np.arange(1, N_AVERAGE + 1).mean())


def test_weights_follow_the_formula():
    """Worked out once more with NumPy: two jobs of the user, one of another, one of nobody known."""
    rng = np.random.default_rng(1)
    answers, users = rng.uniform(100, 900, (5, MEMBERS)), np.array([7.0, 8.0, 7.0, np.nan, 7.0])
    seconds = rng.uniform(100, 900, 4)
    errors = nothing_known()
    take_in_all(answers[:4], users[:4], seconds, *errors)
    squares = (answers[:4] - seconds[:, None]) ** 2
    age = np.array([3, 2, 1, 0])
    everybody = (squares * module.KEPT_EVERYBODY ** age[:, None]).sum(0) / (module.KEPT_EVERYBODY**age).sum()
    own = squares[0] * module.KEPT_USER + squares[2]
    mean = (3 * everybody + own) / (3 + 1 + module.KEPT_USER)
    weights = ((mean.min() + 1) / (mean + 1)) ** 12
    expected = 0.5 * answers[4, :N_AVERAGE].mean() + 0.5 * np.average(answers[4], weights=weights)
    assert weighted(answers[4], 7.0, *errors) == pytest.approx(expected, rel=1e-12)
    stranger = ((everybody.min() + 1) / (everybody + 1)) ** 12
    expected = 0.5 * answers[4, :N_AVERAGE].mean() + 0.5 * np.average(answers[4], weights=stranger)
    assert weighted(answers[4], np.nan, *errors) == pytest.approx(expected, rel=1e-12)


def test_a_member_that_was_right_and_goes_wrong_loses_its_weight():
    """The first cheap mean is exact for 300 jobs, then the second: after 100 more, the answer is the second's."""
    answers = np.tile(np.full(MEMBERS, 5000.0), (400, 1))
    answers[:, N_AVERAGE], answers[:, N_AVERAGE + 1] = 1000.0, 2000.0
    seconds = np.where(np.arange(400) < 300, 1000.0, 2000.0)
    errors = nothing_known()
    take_in_all(answers[:300], np.zeros(300), seconds[:300], *errors)
    assert weighted(answers[0], 0.0, *errors) == pytest.approx(0.5 * 5000 + 0.5 * 1000)
    take_in_all(answers[300:], np.zeros(100), seconds[300:], *errors)
    assert weighted(answers[0], 0.0, *errors) == pytest.approx(0.5 * 5000 + 0.5 * 2000, abs=5)


def test_an_error_counts_from_the_end_of_its_job_on(log, stack):
    """Run times that were not over at a second change no prediction up to it, but later ones."""
    jobs = log.select(slice(250, 400))
    rows, ran = stack.rows(jobs), jobs.filled("run_time").astype(float)
    submit = jobs.filled("submit")
    end = submit + jobs.filled("wait", 0) + jobs.filled("run_time")
    now = int(np.median(submit))
    other = np.where(end > now, ran + 40_000.0, ran)
    first, second = (stack.predict_as_they_end(rows, submit, seconds, end) for seconds in (ran, other))
    np.testing.assert_array_equal(first[submit <= now], second[submit <= now])
    assert (first[submit > now] != second[submit > now]).any()


@pytest.mark.parametrize(("rule", "knows"), [("strict", True), ("reis", False)])
def test_an_end_of_the_same_second_is_known_by_the_rule_in_use(log, rule, knows):
    """The second job is submitted when the first ends."""
    one = Stack(**SMALL, as_of=rule).fit(log.select(slice(0, 250)))
    rows = one.rows(log)[[300, 300]]
    said = one.predict_as_they_end(rows, np.array([0, 100]), np.array([100.0, 1.0]), np.array([100, 200]))
    assert (said[0] != said[1]) == knows


def test_the_first_weights_come_from_jobs_that_the_members_have_not_seen(log):
    """Errors of the newest fifth by members grown on the jobs before: grown here a second time."""
    first = log.select(slice(0, 250))
    ran = first.filled("run_time")
    rows, seconds = Stack().rows(first)[ran > 0], ran[ran > 0].astype(float)
    older, held = len(rows) - int(0.2 * len(rows)) - int(0.05 * len(rows)), len(rows) - int(0.2 * len(rows))
    members = Average(**SMALL).fit_rows(rows[:older], seconds[:older]).members
    expected = StackEstimator.of(members).after(rows[held:], seconds[held:])
    fitted = Stack(**SMALL).fit_rows(rows, seconds).stacked
    np.testing.assert_array_equal(fitted.everybody, expected.everybody)
    np.testing.assert_array_equal(fitted.by_user, expected.by_user)


def test_a_refit_grows_members_and_keeps_the_errors(log):
    fresh = Stack(**SMALL, refit_every=10).fit(log.select(slice(0, 250)))
    rows = fresh.rows(log)[250:253]
    for time, row in enumerate(rows):
        before = fresh.stacked
        fresh.learn_one(Outcome(row, 60.0, 500.0, True, 20 * time))
        expected = before.after(row[None], np.array([500.0]))
        np.testing.assert_array_equal(fresh.stacked.everybody, expected.everybody)
    assert fresh.fits_ == 2 and fresh.members is not before.average
    assert before.everybody[-1] < fresh.stacked.everybody[-1], "an estimator never changes"


def test_evaluate_moves_the_weights_while_jobs_are_scored(log):
    found = evaluate(log, {"stack": Stack(**SMALL)})["stack"]
    still = found.predictor
    rows = still.rows(log)[int(0.8 * len(log)) :]
    assert (found.predicted != still.predict_rows(rows)).any()


def test_broken_errors_are_refused(stack, tmp_path):
    save(stack, tmp_path)
    (path,) = tmp_path.rglob(module.ERRORS)
    kept = read_arrays(path)
    for broken in ({"everybody": -kept["everybody"]}, {"by_user": kept["by_user"][:3]}):
        write_arrays(path, {**kept, **broken})
        with pytest.raises(JobcastError, match=r"errors.npz|digest|hash|changed"):
            load(tmp_path)


def test_few_jobs_are_learnt_from_without_a_warning_of_the_library(log):
    rows, seconds = replay(log, Average.features)[:6], log.filled("run_time")[:6].astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", TrainingDataWarning)
        assert np.isfinite(Average(**SMALL).fit_rows(rows, seconds).predict_rows(rows)).all()
