"""`similar`: the most specific group speaks, and its median has less absolute error than what others offer for it."""

import numpy as np
import pytest

from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import evaluate
from predictors.models.baselines import Similar, SimilarLow, SimilarMean

# User 1 asks for (4 processors, 600 s) four times, then for other things; one job a thousand seconds.
RUNS = [100, 20, 30, 40, 7, 7, 7, 7, 7]
PROCS = [4, 4, 4, 4, 4, 8, 4, 9, 4]
REQUESTS = [600, 600, 600, 600, 600, 600, 900, 901, 600]
USERS = [1, 1, 1, 1, 1, 1, 1, 1, 2]


@pytest.fixture(scope="module")
def by_hand():
    n = len(RUNS)
    columns = {
        "job_id": range(n),
        "submit": np.arange(n) * 1000,
        "wait": np.zeros(n),
        "run_time": RUNS,
        "requested_procs": PROCS,
        "requested_time": REQUESTS,
        "user": USERS,
    }
    return JobLog.from_columns({name: np.array(list(values), dtype=np.int64) for name, values in columns.items()}, {})


def test_the_most_specific_group_with_history_speaks(by_hand):
    predicted = Similar().predict(by_hand).tolist()
    assert predicted[4] == 35.0, "20, 30, 40, 100 of the same user, processors and request"
    assert predicted[5] == 30.0, "7, 20, 30, 40, 100 of the same user and request"
    assert predicted[6] == 30.0, "the same of user and processors"
    assert predicted[7] == 20.0, "7, 7, 7, 20, 30, 40, 100 of the user"
    assert predicted[8] == 30.0, "a new user: what others did with as many processors and the same request"
    assert predicted[0] == 600.0, "nothing known: the request"


def test_the_other_statistics(by_hand):
    assert SimilarLow().predict(by_hand)[4] == 27.5
    assert SimilarMean().predict(by_hand)[4] == 47.5


@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln"])
def test_similar_is_nearer_than_the_users_last_two_and_the_mean(trace, name):
    from predictors.data.formats.swf import read_swf

    log, _ = read_swf(trace(name))
    found = evaluate(log, ["similar", "similar-mean", "user-mean"])
    best = found["similar"].figures
    for other in ("last-two", "similar-mean", "user-mean"):
        figures = found[other].figures
        assert best.mae_s < figures.mae_s and best.median_ae_s < figures.median_ae_s
        assert best.mean_accuracy > figures.mean_accuracy
