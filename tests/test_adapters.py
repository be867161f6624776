"""Regressors of scikit-learn and river keep the contract as predictors, are saved without pickles, or say why not."""

import json

import numpy as np
import pytest
from river import linear_model, preprocessing
from river import tree as river_tree
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from predictors import checks
from predictors.adapters import trusting
from predictors.base import Predictor
from predictors.checks import PREDICTOR_CHECKS
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log
from predictors.evaluate import evaluate
from predictors.history import Outcome
from predictors.replay import replay
from predictors.river_predictor import described, rebuilt

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
    return Predictor.from_sklearn(TREE_REGRESSOR, refit_every=86400)


def sklearn_pipeline():
    return Predictor.from_sklearn(PIPELINE, SHORT, window=100)


def hoeffding():
    return Predictor.from_river(HOEFFDING, SHORT, categories="text")


def river_pipeline():
    return Predictor.from_river(SCALED, SHORT, window=50)


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
        predictor.save(tmp_path)
        loaded = Predictor.load(tmp_path)
    assert type(loaded) is type(predictor) and repr(loaded) == repr(predictor)
    np.testing.assert_array_equal(loaded.predict(log), predictor.predict(log))
    outcome = Outcome(replay(log, predictor.features)[-1], 60.0, 50.0, True, 0)
    for one in (loaded, predictor):  # what comes next is learnt alike
        one.learn_one(outcome)
    np.testing.assert_array_equal(loaded.predict(log), predictor.predict(log))


def test_adapted_models_are_evaluated_beside_the_registered_ones(log):
    found = evaluate(log, {"ridge": Predictor.from_sklearn(Ridge()), "hoeffding": hoeffding()})
    assert [score.name for score in found.scores] == ["last-two", "ridge", "hoeffding"]
    assert all(np.isfinite(score.figures.sse_s2) for score in found.scores)


def test_the_regressor_itself_is_never_fitted(log):
    ridge, hoeffding = Ridge(), river_tree.HoeffdingTreeRegressor()
    Predictor.from_sklearn(ridge).fit(log)
    Predictor.from_river(hoeffding).fit(log)
    assert not hasattr(ridge, "coef_") and hoeffding.n_nodes is None


def test_a_model_of_plain_parts_is_saved_without_any_trust(log, tmp_path):
    predictor = Predictor.from_sklearn(make_pipeline(StandardScaler(), Ridge())).fit(log)
    predictor.save(tmp_path)
    np.testing.assert_array_equal(Predictor.load(tmp_path).predict(log), predictor.predict(log))


def test_a_type_that_nobody_vouches_for_is_neither_saved_nor_loaded(log, tmp_path):
    predictor = Predictor.from_sklearn(RandomForestRegressor(3, random_state=0)).fit(log)
    with pytest.raises(JobcastError, match=r"holds 'sklearn.tree._tree.Tree'.*adapters.trusting\('sklearn.tree"):
        predictor.save(tmp_path)
    with trusting(TREE):
        predictor.save(tmp_path)
    with pytest.raises(JobcastError, match="which skops does not trust"):
        Predictor.load(tmp_path)


class OwnRegressor(DummyRegressor):
    """Somebody's own class."""


def test_a_class_of_the_users_needs_an_opt_in(log, tmp_path):
    predictor = Predictor.from_sklearn(OwnRegressor()).fit(log)
    with pytest.raises(JobcastError, match="OwnRegressor"):
        predictor.save(tmp_path)


def test_a_river_model_with_code_of_the_users_cannot_be_saved(log, tmp_path):
    from river import compose

    model = compose.FuncTransformer(len) | linear_model.LinearRegression()
    predictor = Predictor.from_river(model, SHORT)
    with pytest.raises(JobcastError, match="cannot be saved: only river's own classes and plain values"):
        predictor.save(tmp_path)


@pytest.mark.parametrize("name", ["os.system", "river.checks.yield_checks", "river.base.typing.Any"])
def test_a_forged_river_file_runs_nothing(name, tmp_path):
    Predictor.from_river(linear_model.LinearRegression(), SHORT).save(tmp_path)
    (tmp_path / "river.json").write_text(json.dumps({"class": name, "arguments": {}}))
    with pytest.raises(JobcastError, match=r"not loaded|cannot be read"):
        Predictor.load(tmp_path)


def test_river_models_come_back_with_their_parameters():
    model = preprocessing.StandardScaler() | river_tree.HoeffdingAdaptiveTreeRegressor(seed=3, delta=0.25)
    assert repr(rebuilt(json.loads(json.dumps(described(model))))) == repr(model)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Predictor.from_sklearn(Ridge(), ["procs"]), "'requested_time' in it"),
        (lambda: Predictor.from_sklearn(Ridge(), ["requested_tim"]), "did you mean 'requested_time'"),
        (lambda: Predictor.from_sklearn(StandardScaler()), "needs fit and predict"),
        (lambda: Predictor.from_river(Ridge()), "needs learn_one and predict_one"),
        (lambda: Predictor.from_river(river_tree.HoeffdingAdaptiveTreeRegressor()), "give it a seed"),
        (lambda: Predictor.from_river(linear_model.LinearRegression(), categories="one-hot"), "one of codes, text"),
        (lambda: Predictor.from_river(linear_model.LinearRegression(), window=1), "at least 2"),
    ],
)
def test_what_cannot_be_used_is_named(make, message):
    with pytest.raises(JobcastError, match=message):
        make()


def test_a_river_model_forgets_beyond_its_window():
    row = np.array([600.0])
    predictor = Predictor.from_river(linear_model.LinearRegression(), ("requested_time",), window=10)
    for second in range(1, 100):
        predictor.learn_one(Outcome(row, 600.0, float(second), True, second))
        assert len(predictor._rows) <= 10
    assert predictor._seconds[-1] == 99.0
