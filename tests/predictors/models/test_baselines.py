"""`similar`: the most specific group speaks, and its median has less absolute error than what others offer for it."""

import numpy as np
import pytest

from jobcast import JobLog, evaluate
from predictors.models.baselines import Cesnet, Metastack, Similar, SimilarLow, SimilarMean

# User 1 asks for (4 processors, 600 s) four times, then for other things; one job a thousand seconds.
RUNS = [100, 20, 30, 40, 7, 7, 7, 7, 7]
PROCS = [4, 4, 4, 4, 4, 8, 4, 9, 4]
REQUESTS = [600, 600, 600, 600, 600, 600, 900, 901, 600]
USERS = [1, 1, 1, 1, 1, 1, 1, 1, 2]


@pytest.fixture(scope="module")
def by_hand():
    n = len(RUNS)
    columns = {
        "job_id": range(n), "submit": np.arange(n) * 1000, "wait": np.zeros(n), "run_time": RUNS,
        "requested_procs": PROCS, "requested_time": REQUESTS, "user": USERS,
    }  # fmt: skip
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


def test_production_rules_by_hand():
    """Hours: a ratio of 1/4 and then 1/2 of the request, padded; of more than a day, twice; alike jobs, then half."""
    hour = 3600
    columns = {
        "job_id": np.arange(6), "submit": np.arange(6) * 100 * hour, "wait": np.zeros(6),
        "run_time": np.array([1, 2, 1, 60, 1, 1]) * hour, "requested_procs": np.array([4, 4, 4, 4, 4, 8]),
        "requested_time": np.array([4, 4, 4, 100, 40, 4]) * hour, "user": np.array([1, 1, 1, 1, 1, 2]),
    }  # fmt: skip
    log = JobLog.from_columns({name: values.astype(np.int64) for name, values in columns.items()}, {})
    assert Cesnet().predict(log).tolist() == [4 * hour, hour + 900, 2 * hour + 900, 100 * hour, 40 * hour, 4 * hour]
    assert Cesnet().predict_rows(np.array([[100.0 * hour, 0.25]])).tolist() == [2 * (25 * hour + 900)]
    assert Metastack().predict(log).tolist() == [
        2 * hour, hour, 1.5 * hour, 4 / 3 * hour, 16 * hour, 2 * hour,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln"])
def test_similar_is_nearer_than_the_users_last_two_and_the_mean(trace, name):
    from predictors.data.formats.detect import read_log

    log, _ = read_log(trace(name))
    found = evaluate(log, ["similar", "similar-mean", "user-mean"])
    best = found["similar"].figures
    for other in ("last-two", "similar-mean", "user-mean"):
        figures = found[other].figures
        assert best.mae_s < figures.mae_s and best.median_ae_s < figures.median_ae_s
        assert best.mean_accuracy > figures.mean_accuracy
