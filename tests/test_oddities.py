"""What is odd about the jobs to learn from is said, once, with what is done about it."""

import warnings

import numpy as np
import pytest

from predictors.last_two import LastTwo
from predictors.oddities import OddJobsWarning, oddities
from predictors.online_linear import OnlineLinear

FEATURES = ("requested_time", "user", "hour")
ROWS = np.array([[600.0, 1.0, 3.0], [900.0, 2.0, 4.0]])
SECONDS = np.array([50.0, 60.0])


def test_ordinary_jobs_are_passed_over_in_silence():
    assert list(oddities(FEATURES, ROWS, SECONDS)) == []


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 0.0, "2 jobs request 0 s or less: their request counts as unknown"),
        (0, 1e9, "2 jobs request more than 30 days"),
        (1, 7.0, "all jobs are of one user"),
        (2, np.nan, "hour missing in all jobs: learnt without"),
    ],
)
def test_each_oddity_is_named(column, value, message):
    rows = ROWS.copy()
    rows[:, column] = value
    (found,) = oddities(FEATURES, rows, SECONDS)
    assert message in found


def test_constant_targets_and_single_jobs_are_named():
    assert "all 2 jobs ran for 60 s" in next(oddities(FEATURES, ROWS, np.full(2, 60.0)))
    assert "only one job" in next(oddities(FEATURES, ROWS[:1], SECONDS[:1]))


def test_a_fit_warns_and_goes_on():
    rows = np.tile(np.arange(1.0, 1.0 + len(OnlineLinear.features)), (3, 1))
    with pytest.warns(OddJobsWarning, match="online-linear: all 3 jobs ran for 60 s"):
        model = OnlineLinear().fit_rows(rows, np.full(3, 60.0))
    assert model.fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LastTwo().fit_rows(np.array([[600.0, 50.0], [900.0, 60.0]]), SECONDS)
