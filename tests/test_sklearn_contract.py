"""Our learners pass scikit-learn's own checks as regressors, and go into its pipelines and searches."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from predictors.data.synthetic import generate_log
from predictors.forest import Forest
from predictors.regressors import AsymmetricRegressor, CompiledForestRegressor, GradientRegressor, HistoryRegressor
from predictors.replay import replay

REGRESSORS = (GradientRegressor(), AsymmetricRegressor(), CompiledForestRegressor(n_estimators=5))

KNOWN_EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(regressor, check): reason; one that passes after all fails the test."""

CASES = [
    pytest.param(model, check, id=f"{type(model).__name__}-{getattr(check, 'func', check).__name__}-{k}")
    for regressor in REGRESSORS
    for k, (model, check) in enumerate(estimator_checks_generator(regressor))
]


@pytest.mark.parametrize(("model", "check"), CASES)
def test_scikit_learns_checks(model, check):
    reason = KNOWN_EXCEPTIONS.get((type(model).__name__, getattr(check, "func", check).__name__))
    if reason is None:
        check(model)
        return
    with pytest.raises(Exception):  # noqa: B017 - checks raise what they like
        check(model)


class Forgetful(GradientRegressor):
    """Predicts without having learnt."""

    def predict(self, X):
        """Return zeros."""
        return np.zeros(len(X))


def test_the_checks_bite():
    with pytest.raises(Exception):  # noqa: B017 - checks raise what they like
        for model, check in estimator_checks_generator(Forgetful()):
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


def test_the_asymmetric_loss_stays_below():
    X, y = line()
    noisy = y + np.random.default_rng(1).normal(size=len(y)) * 3
    predicted = AsymmetricRegressor(passes=20).fit(X, noisy).predict(X)
    assert (predicted < noisy).mean() > 0.6 > (GradientRegressor(passes=20).fit(X, noisy).predict(X) < noisy).mean()


def test_products_of_inputs_are_learnt():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    y = X[:, 0] * X[:, 1]
    assert GradientRegressor(quadratic=True, passes=20).fit(X, y).score(X, y) > 0.95
    assert GradientRegressor(passes=20).fit(X, y).score(X, y) < 0.2


def test_they_go_into_pipelines_and_searches():
    X, y = line()
    search = GridSearchCV(make_pipeline(StandardScaler(), GradientRegressor()), {"gradientregressor__passes": [1, 9]})
    assert search.fit(X, y).best_params_ == {"gradientregressor__passes": 9}


def test_a_predictors_parameters_are_searched():
    log = generate_log(200, seed=3)
    table = pd.DataFrame(replay(log), columns=list(Forest.features))
    search = GridSearchCV(
        HistoryRegressor(Forest(n_estimators=3)), {"predictor__min_samples_leaf": [1, 50]}, cv=3, error_score="raise"
    )
    search.fit(table, log.filled("run_time"))
    assert search.best_params_["predictor__min_samples_leaf"] in (1, 50)
    assert np.isfinite(search.predict(table)).all()
