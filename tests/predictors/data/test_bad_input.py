"""Logs that nobody wishes for: every predictor learns and predicts all the same, in range, and says what is odd."""

import contextlib
import warnings
from functools import cache

import numpy as np
import pytest

from jobcast import JobHistory, JobLog, forecast, generate_log, make_predictor
from predictors.history.history import Job, LateEventWarning
from predictors.history.replay import log_events
from predictors.models.warnings import TrainingDataWarning
from predictors.registry import PREDICTORS
from tests.support.small_models import SMALL

pytestmark = pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")

MODELS = SMALL | {f"boosted, {target}": {"n_estimators": 4, "target": target} for target in ("residual", "log")}
NAMES = dict.fromkeys([*PREDICTORS, *MODELS])
ODD = {
    "constant targets": ({"run_time": 60}, "all .* jobs ran for 60 s"),
    "one user": ({"user": 1}, "one user"),
    "nobody": ({"user": None, "group": None, "queue": None, "executable": None}, "missing in all jobs"),
    "all requests missing": ({"requested_time": None}, "requested_time.* missing in all jobs"),
    "requests of 0 s": ({"requested_time": 0}, "request is 0 s or less"),
    "requests of 1e9 s": ({"requested_time": 10**9}, "request is more than 30 days"),
    "one such request": ({"requested_time": np.where(np.arange(100) == 9, 10**9, 600)}, "request is more than 30 days"),
    "run times of 1e9 s": ({"run_time": 10**9, "requested_time": 10**9}, "all .* jobs ran for 1e9 s|more than 30 days"),
    "no processors": ({"requested_procs": None, "allocated_procs": None}, "procs.* missing in all jobs"),
}
NEEDS = {"one user": "user", "nobody": "user", "no processors": "procs"}
"""The feature that a predictor must look at for the oddity to matter to it."""
MADE = generate_log(100, seed=2, users=5)


def odd_log(made=MADE, **changes):
    """A log with some columns replaced; a value of None is unknown."""
    values = {column: array.copy() for column, array in made.values.items()}
    unknown = {column: array.copy() for column, array in made.unknown.items()}
    for column, value in changes.items():
        if value is None:
            unknown[column][:] = True
        else:
            values[column][:], unknown[column][:] = value, False
    return JobLog(values, unknown, epoch=made.epoch, name="odd")


def made(name):
    return make_predictor(name.partition(",")[0], **MODELS.get(name, {}))


@cache
def usual(name):
    """Return a predictor that has learnt from usual jobs."""
    return made(name).fit(MADE)


def check_range(found, log):
    assert np.isfinite(found).all() and (found >= 1).all()
    requested = log.filled("requested_time")
    limited = log.known("requested_time") & (requested > 0)
    assert (found <= requested)[limited].all()


@pytest.mark.parametrize("oddity", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_odd_logs_give_predictions_in_range_and_a_warning(name, oddity):
    changes, told = ODD[oddity]
    log, predictor = odd_log(**changes), made(name)
    matters = NEEDS.get(oddity, "requested_time") in predictor.features
    with pytest.warns(TrainingDataWarning, match=told) if matters else contextlib.nullcontext():
        predictor.fit(log)
    check_range(predictor.predict(log), log)
    check_range(usual(name).predict(log), log)
    check_range(predictor.predict(MADE), MADE)
    strange = odd_log(**{"user": 10**6, "group": 10**6, "executable": 10**6, "queue": 999} | changes)
    check_range(predictor.predict(strange), strange)
    seconds = np.full(len(log), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecast(made(name), log).advance(log_events(log), seconds)
    check_range(seconds, log)


@pytest.mark.parametrize("name", PREDICTORS)
def test_one_job_is_enough_to_learn_from(name):
    with pytest.warns(TrainingDataWarning, match="only one job"):
        predictor = made(name).fit(MADE.select(slice(1)))
    check_range(predictor.predict(MADE), MADE)


@pytest.mark.parametrize("name", PREDICTORS)
def test_clocks_that_go_back(name):
    """Events that arrive with the time of an hour ago: rows, predictions and lessons go on, and it is said once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingDataWarning)
        predictor = made(name).fit(MADE)
    history = JobHistory(predictor.features)
    with pytest.warns(LateEventWarning, match="arrived 3650 s late.*as of the newest") as caught:
        for i in range(6):
            now = 10_000 - 3600 * (i % 2)
            row = history.submitted(Job(i, now, procs=4, requested_time=600, user=i % 2), now)
            said = predictor.predict_one(row)
            assert 1 <= said.seconds <= 600
            history.issue(i, said.seconds)
            history.started(i, now)
            predictor.learn_one(history.ended(i, now + 50))
    assert sum(issubclass(w.category, LateEventWarning) for w in caught) == 1
    assert history.late_events > 1
