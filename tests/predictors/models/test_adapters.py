"""Models of scikit-learn and river as predictors, and our learners under both libraries' own checks."""

import json

import numpy as np
import pytest
from river import checks as river_checks
from river import evaluate as river_evaluate
from river import linear_model, metrics, preprocessing
from river import tree as river_tree
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

from jobcast import JobcastError, evaluate, from_river, from_sklearn, generate_log, load, replay, save
from predictors.evaluation import checks
from predictors.evaluation.checks import PREDICTOR_CHECKS
from predictors.history.history import Outcome
from predictors.models.adapters import trusting
from predictors.models.adapters.estimators import (
    GradientRegressor,
    HistoryLearner,
    NormalisedGradient,
)
from predictors.models.adapters.river import described, rebuilt
from predictors.models.online.linear import OnlineLinear

SHORT = ("requested_time", "procs", "last_two_mean", "user")
TREE = "sklearn.tree._tree.Tree"


@pytest.fixture(scope="module")
def log():
    return generate_log(360, seed=7, users=6)


TREE_REGRESSOR = DecisionTreeRegressor(max_leaf_nodes=9, random_state=0)
ONE_HOT = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["user"]), remainder="passthrough"
)
PIPELINE = make_pipeline(ONE_HOT, TREE_REGRESSOR)
HOEFFDING = river_tree.HoeffdingTreeRegressor(grace_period=20, leaf_prediction="mean")
SCALED = preprocessing.StandardScaler() | linear_model.LinearRegression(l2=0.1)


def sklearn_tree():
    return from_sklearn(TREE_REGRESSOR, refit_every=7 * 86400)


def sklearn_pipeline():
    return from_sklearn(PIPELINE, SHORT, window=100)


def hoeffding():
    return from_river(HOEFFDING, SHORT, categories="text")


def river_pipeline():
    return from_river(SCALED, SHORT, window=50)


CHECKS = [check for check in PREDICTOR_CHECKS if check is not checks.check_saved_and_loaded_is_the_same]
"""That one compares parameters, and no model of scikit-learn or river equals its copy: see the next test but one."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [sklearn_tree, hoeffding, river_pipeline])
def test_an_adapted_model_keeps_the_contract(make, check, log):
    check(make, log)


@pytest.mark.parametrize("check", [checks.check_predictions_lie_in_range, checks.check_fit_forgets])
def test_a_pipeline_gets_a_table_with_names(check, log):
    check(sklearn_pipeline, log)


@pytest.mark.parametrize("make", [sklearn_tree, sklearn_pipeline, hoeffding, river_pipeline])
def test_saved_and_loaded_is_the_same(make, log, tmp_path):
    predictor = make().fit(log)
    with trusting(TREE):
        save(predictor, tmp_path)
        loaded = load(tmp_path)
    assert type(loaded) is type(predictor) and repr(loaded) == repr(predictor)
    np.testing.assert_array_equal(loaded.predict(log), predictor.predict(log))
    outcome = Outcome(replay(log, predictor.features)[-1], 60.0, 50.0, True, 0)
    for one in (loaded, predictor):  # what comes next is learnt alike
        one.learn_one(outcome)
    np.testing.assert_array_equal(loaded.predict(log), predictor.predict(log))


def test_adapted_models_are_evaluated_beside_the_registered_ones(log):
    found = evaluate(log, {"ridge": from_sklearn(Ridge()), "hoeffding": hoeffding()})
    assert [score.name for score in found.scores] == ["last-two", "ridge", "hoeffding"]
    assert all(np.isfinite(score.figures.sse_s2) for score in found.scores)


def test_the_regressor_itself_is_never_fitted(log):
    ridge, hoeffding = Ridge(), river_tree.HoeffdingTreeRegressor()
    from_sklearn(ridge).fit(log)
    from_river(hoeffding).fit(log)
    assert not hasattr(ridge, "coef_") and hoeffding.n_nodes is None


def test_a_model_of_plain_parts_is_saved_without_any_trust(log, tmp_path):
    predictor = from_sklearn(make_pipeline(StandardScaler(), Ridge())).fit(log)
    save(predictor, tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict(log), predictor.predict(log))


def test_a_type_that_nobody_vouches_for_is_neither_saved_nor_loaded(log, tmp_path):
    predictor = from_sklearn(RandomForestRegressor(3, random_state=0)).fit(log)
    with pytest.raises(JobcastError, match=r"holds 'sklearn.tree._tree.Tree'.*adapters.trusting\('sklearn.tree"):
        save(predictor, tmp_path)
    with trusting(TREE):
        save(predictor, tmp_path)
    with pytest.raises(JobcastError, match="which skops does not trust"):
        load(tmp_path)


class OwnRegressor(DummyRegressor):
    """Somebody's own class."""


def test_a_class_of_the_users_needs_an_opt_in(log, tmp_path):
    predictor = from_sklearn(OwnRegressor()).fit(log)
    with pytest.raises(JobcastError, match="OwnRegressor"):
        save(predictor, tmp_path)


def test_a_river_model_with_code_of_the_users_cannot_be_saved(log, tmp_path):
    from river import compose

    model = compose.FuncTransformer(len) | linear_model.LinearRegression()
    predictor = from_river(model, SHORT)
    with pytest.raises(JobcastError, match="cannot be saved: only river's own classes and plain values"):
        save(predictor, tmp_path)


@pytest.mark.parametrize("name", ["os.system", "river.checks.yield_checks", "river.base.typing.Any"])
def test_a_forged_river_file_runs_nothing(name, tmp_path):
    save(from_river(linear_model.LinearRegression(), SHORT), tmp_path)
    (tmp_path / "river.json").write_text(json.dumps({"class": name, "arguments": {}}))
    with pytest.raises(JobcastError, match=r"not loaded|cannot be read"):
        load(tmp_path)


def test_river_models_come_back_with_their_parameters():
    model = preprocessing.StandardScaler() | river_tree.HoeffdingAdaptiveTreeRegressor(seed=3, delta=0.25)
    assert repr(rebuilt(json.loads(json.dumps(described(model))))) == repr(model)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_sklearn(Ridge(), ["procs"]), "'requested_time' among them"),
        (lambda: from_sklearn(Ridge(), ["requested_tim"]), "'requested_time' among them"),
        (lambda: from_sklearn(StandardScaler()), "needs fit and predict"),
        (lambda: from_river(Ridge()), "needs learn_one and predict_one"),
        (lambda: from_river(river_tree.HoeffdingAdaptiveTreeRegressor()), "give it a seed"),
        (lambda: from_river(linear_model.LinearRegression(), categories="one-hot"), "one of codes, text"),
        (lambda: from_river(linear_model.LinearRegression(), window=1), "at least 2"),
    ],
)
def test_what_cannot_be_used_is_named(make, message):
    with pytest.raises(JobcastError, match=message):
        make()


def test_a_river_model_forgets_beyond_its_window():
    row = np.array([600.0])
    predictor = from_river(linear_model.LinearRegression(), ("requested_time",), window=10)
    for second in range(1, 100):
        predictor.learn_one(Outcome(row, 600.0, float(second), True, second))
        assert len(predictor._rows) <= 10
    assert predictor._seconds[-1] == 99.0


REGRESSORS = (GradientRegressor(),)

SKLEARN_CASES = [
    pytest.param(model, check, id=f"{type(model).__name__}-{getattr(check, 'func', check).__name__}-{k}")
    for regressor in REGRESSORS
    for k, (model, check) in enumerate(estimator_checks_generator(regressor))
]


@pytest.mark.parametrize(("model", "check"), SKLEARN_CASES)
def test_scikit_learns_checks(model, check):
    check(model)


def line():
    X = np.random.default_rng(0).normal(size=(400, 2)) * [1.0, 1e6] + [0.0, 1e3]
    return X, 3.0 * X[:, 0] - 2e-6 * X[:, 1] + 5.0


def test_units_do_not_matter():
    """The normalised gradient sees only how large an input is against its own greatest value."""
    X, y = line()
    one, other = GradientRegressor(passes=3).fit(X, y), GradientRegressor(passes=3).fit(X * [1e3, 1e-6], y)
    np.testing.assert_allclose(one.predict(X), other.predict(X * [1e3, 1e-6]), rtol=1e-9)
    minutes = GradientRegressor(passes=3).fit(X, 60 * y)
    np.testing.assert_allclose(minutes.predict(X), 60 * one.predict(X), rtol=1e-9)
    assert one.score(X, y) > 0.99


def test_partial_fits_add_up_to_one():
    X, y = line()
    whole = GradientRegressor(passes=1).fit(X, y)
    parts = GradientRegressor().partial_fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    np.testing.assert_array_equal(whole.predict(X), parts.predict(X))


def test_products_of_inputs_are_learnt():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    y = X[:, 0] * X[:, 1]
    assert GradientRegressor(quadratic=True, passes=20).fit(X, y).score(X, y) > 0.95
    assert GradientRegressor(passes=20).fit(X, y).score(X, y) < 0.2


def test_they_go_into_pipelines_and_searches():
    X, y = line()
    search = GridSearchCV(make_pipeline(StandardScaler(), GradientRegressor()), {"gradientregressor__passes": [1, 9]})
    assert search.fit(X, y).best_params_ == {"gradientregressor__passes": 9}


LEFT_OUT = {
    "check_bounded_memory_growth": "ten times the rows; the learners keep four numbers an input and nothing else"
}
"""Checks that are left out, and why."""


def name_of(check):
    return getattr(check, "__name__", None) or check.func.__name__


RIVER_CASES = [
    pytest.param(model, check, id=f"{type(model).__name__}-{name_of(check)}-{k}")
    for model in (NormalisedGradient(),)
    for k, check in enumerate(river_checks.yield_checks(model))
    if name_of(check) not in LEFT_OUT
]


@pytest.mark.parametrize(("model", "check"), RIVER_CASES)
def test_rivers_checks(model, check):
    check(model.clone())


def test_a_predictor_learns_in_rivers_loop():
    stream = [({"requested_time": 600.0, "user": float(k % 3)}, 100.0 * (1 + k % 3)) for k in range(600)]
    predictor = OnlineLinear()
    found = river_evaluate.progressive_val_score(stream, HistoryLearner(predictor), metrics.MAE())
    assert found.get() < 30 and not predictor.fitted
