"""Features, predictions and classes of variability are those that are pinned; see `tests.digests.pins`."""

from functools import lru_cache

import numpy as np
import pytest

from jobcast import evaluate, generate_log, make_predictor, read_log, replay
from predictors.evaluation.evaluate import PROTOCOLS
from predictors.history.features import FEATURES
from predictors.history.history import AS_OF_RULES
from predictors.registry import PREDICTORS
from predictors.variability.classifiers.registry import CLASSIFIERS
from predictors.variability.classifiers.registry import seeded as seeded_classifier
from predictors.variability.features import FEATURES as INPUTS
from tests.digests.pins import digest, pinned
from tests.support.variability_data import dataset

KTH = "KTH-SP2-1996-2.1-cln"
LIBRARIES = ("forest", "boosted", "average", "stack", "chain", "censored")
"""Fitted by scikit-learn or XGBoost, whose sums another kind of processor may round otherwise."""
MIXED = ("average", "stack", "chain")
"""Of several models: in the fast tests they are pinned in the loop alone."""
pytestmark = pytest.mark.filterwarnings("ignore:.* missing in all jobs")
OWN = [name for name in PREDICTORS if name not in LIBRARIES]
SMALL = {
    "forest": {"n_estimators": 4, "max_nodes": 400, "refit_every": 86_400},
    "boosted": {"n_estimators": 6, "refit_every": 86_400},
    "average": {"n_boosted": 3, "n_forest": 3, "refit_every": 86_400},
    "stack": {"n_boosted": 3, "n_forest": 3, "refit_every": 86_400},
    "censored": {"n_estimators": 4, "refit_every": 86_400},
    "chain": {"settings": {"n_boosted": 3, "n_forest": 3, "refit_every": 86_400}},
}
"""In the loop, where models are fitted many times."""


def slow_if(longer):
    """Return the mark of slow tests where a case is one."""
    return [pytest.mark.slow] if longer else []


@lru_cache(maxsize=4)
def made(path=None, first=2000):
    """Return the first jobs of a log; without a path the synthetic one, in which a few users come back."""
    if path is None:
        return generate_log(first, seed=2, users=24)
    log = read_log(path)[0]
    return log.select(np.arange(min(first, len(log))))


def of_evaluation(found):
    """Return what is pinned of each predictor's score: its predictions, and the mean of them."""
    return {
        score.name: {"sha256": digest(score.predicted), "mean_s": round(float(score.predicted.mean()), 3)}
        for score in found.scores
    }


def evaluated(log, name, protocols=tuple(PROTOCOLS), **options):
    """Return what is pinned of a predictor by each protocol: fitted on the first jobs, scored on the rest."""
    return {
        protocol: of_evaluation(evaluate(log, [name], protocol=protocol, seed=3, **options)) for protocol in protocols
    }


def in_the_loop(log, name):
    """Return what is pinned of a predictor that learns as jobs end; made small where that is slow."""
    return of_evaluation(evaluate(log, {name: make_predictor(name, **SMALL.get(name, {}))}, train=None))


def of_features(log, rule):
    """Return one digest for each feature."""
    return {name: digest(column) for name, column in zip(FEATURES, replay(log, list(FEATURES), rule).T, strict=True)}


@pytest.mark.parametrize("rule", AS_OF_RULES)
def test_features_of_the_synthetic_log(rule):
    pinned("features", f"synthetic, {rule}", of_features(made(), rule))


@pytest.mark.parametrize("rule", AS_OF_RULES)
def test_features_of_the_first_2000_jobs_of_kth(trace, rule):
    pinned("features", f"kth 2000, {rule}", of_features(made(trace(KTH)), rule))


@pytest.mark.slow
@pytest.mark.parametrize("rule", AS_OF_RULES)
def test_features_of_kth(trace, rule):
    pinned("features", f"kth, {rule}", of_features(made(trace(KTH), 10**9), rule))


@pytest.mark.parametrize("name", OWN)
def test_predictions_of_the_synthetic_log(name):
    pinned("predictions", f"synthetic, {name}", evaluated(made(None, 1000), name))


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_if(name in MIXED)) for name in LIBRARIES])
def test_predictions_of_libraries_for_the_synthetic_log(name):
    pinned("predictions", f"synthetic, {name}", evaluated(made(None, 600), name, ["strict"]))


@pytest.mark.parametrize("name", OWN)
def test_predictions_in_the_loop(name):
    pinned("predictions", f"in the loop, {name}", in_the_loop(made(), name))


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_if(name in MIXED[1:])) for name in LIBRARIES])
def test_predictions_of_libraries_in_the_loop(name):
    pinned("predictions", f"in the loop, {name}", in_the_loop(made(None, 500), name))


@pytest.mark.parametrize("name", ["last-two", "similar", "online-linear"])
def test_predictions_within_a_budget(name):
    pinned("predictions", f"within a budget, {name}", evaluated(made(), name, budget=0.05))


@pytest.mark.slow
@pytest.mark.digests_whole
@pytest.mark.parametrize("name", OWN)
def test_predictions_of_kth(trace, name):
    pinned("predictions", f"kth, {name}", evaluated(made(trace(KTH), 10**9), name))


@pytest.mark.slow
@pytest.mark.digests_whole
@pytest.mark.parametrize("name", LIBRARIES)
def test_predictions_of_libraries_for_kth(trace, name):
    pinned("predictions", f"kth 5000, {name}", evaluated(made(trace(KTH), 5000), name))


@pytest.mark.parametrize("scheme", ["binary", "three"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_of_variability(name, scheme):
    data = dataset(seed=4)
    labels = data.labels(scheme=scheme)
    known = np.flatnonzero(labels.known)
    learnt, tested = known[: len(known) // 2], known[len(known) // 2 :]
    apps = data.runs.application
    model = seeded_classifier(name, 5)
    model.fit(data.rows[learnt], labels.classes[learnt], features=INPUTS, scheme=scheme, applications=apps[learnt])
    found = model.judge(data.rows[tested], features=INPUTS, applications=apps[tested])
    told = {"classes": digest(found.classes), "probabilities": digest(found.probabilities), "why": digest(found.why)}
    pinned("classes", f"{name}, {scheme}", told | {"counts": np.bincount(found.classes).tolist()})
