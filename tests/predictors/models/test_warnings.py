"""What is odd about the jobs to learn from is said, once, with what is done about it."""

import warnings

import numpy as np
import pytest

from experiments.cli.main import plain_warnings
from predictors.models.baselines import LastTwo, UserMean
from predictors.models.warnings import TrainingDataWarning, training_warnings

FEATURES = ("requested_time", "user", "hour")
ROWS = np.array([[600.0, 1.0, 3.0], [900.0, 2.0, 4.0]])
SECONDS = np.array([50.0, 60.0])


def test_ordinary_jobs_are_passed_over_in_silence():
    assert list(training_warnings(FEATURES, ROWS, SECONDS)) == []


def test_a_warning_points_at_who_called_into_the_predictors():
    rows = np.array([[600.0, 50.0], [0.0, 60.0]])
    with pytest.warns(TrainingDataWarning) as caught:
        LastTwo().fit_rows(rows, SECONDS)
    assert caught[0].filename == __file__


def test_the_command_line_tells_each_oddity_once_in_one_line(capsys):
    rows = np.array([[600.0, 50.0], [0.0, 60.0]])
    with pytest.warns(UserWarning, match="something else"), plain_warnings():
        warnings.simplefilter("always")
        for _ in range(3):
            LastTwo().fit_rows(rows, SECONDS)
        UserMean().fit_rows(rows, SECONDS)
        warnings.warn("something else", UserWarning, stacklevel=1)
    told = capsys.readouterr().err.splitlines()
    note = "jobcast: note on the jobs learnt from: of 1 job the request is 0 s or less: it counts as unknown"
    assert len(told) == 1 and told[0].startswith(note)
