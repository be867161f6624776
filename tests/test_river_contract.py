"""Our learners pass river's own checks as regressors, and go into its pipelines and evaluations."""

import pytest
from river import checks as river_checks
from river import datasets, evaluate, metrics, preprocessing

from predictors.online_linear import OnlineLinear
from predictors.river_regressors import AsymmetricGradient, HistoryLearner, NormalisedGradient

SLOW = {"check_bounded_memory_growth": "ten times the rows; the learners keep four numbers an input and nothing else"}
"""Checks that are left out, and why."""

KNOWN_EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(learner, check): reason; one that passes after all fails the test."""


def name_of(check):
    return getattr(check, "__name__", None) or check.func.__name__


CASES = [
    pytest.param(model, check, id=f"{type(model).__name__}-{name_of(check)}-{k}")
    for model in (NormalisedGradient(), AsymmetricGradient())
    for k, check in enumerate(river_checks.yield_checks(model))
    if name_of(check) not in SLOW
]


@pytest.mark.parametrize(("model", "check"), CASES)
def test_rivers_checks(model, check):
    if (type(model).__name__, name_of(check)) not in KNOWN_EXCEPTIONS:
        check(model.clone())
        return
    with pytest.raises(Exception):  # noqa: B017 - checks raise what they like
        check(model.clone())


class Writes(NormalisedGradient):
    """Changes what it is asked about."""

    def predict_one(self, x):
        """Add an input."""
        x["asked"] = 1.0
        return 0.0


def test_the_checks_bite():
    check = next(c for c in river_checks.yield_checks(Writes()) if name_of(c) == "check_predict_one_pure")
    with pytest.raises(AssertionError):
        check(Writes())


def test_progressive_validation_and_pipelines():
    data = datasets.TrumpApproval()
    plain = evaluate.progressive_val_score(data, NormalisedGradient(), metrics.MAE())
    scaled = evaluate.progressive_val_score(data, preprocessing.MinMaxScaler() | NormalisedGradient(), metrics.MAE())
    assert 0 < plain.get() < 2 and 0 < scaled.get() < 2


def test_a_predictor_learns_in_rivers_loop():
    stream = [({"requested_time": 600.0, "user": float(k % 3)}, 100.0 * (1 + k % 3)) for k in range(600)]
    predictor = OnlineLinear()
    found = evaluate.progressive_val_score(stream, HistoryLearner(predictor), metrics.MAE())
    assert found.get() < 30 and not predictor.fitted
