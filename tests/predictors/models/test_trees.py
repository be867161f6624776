"""Compiled forests equal scikit-learn's to the last bit, and damaged ones are refused before they are walked."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from predictors.core.errors import JobcastError
from predictors.models.trees import CompiledForest, _rounded_down, check_tree


def rows_and_seconds(seed, n_rows=300, missing=0.1, n_features=4):
    """Features on a coarse grid, so that thresholds fall between equal values, some of them missing."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 12, (n_rows, n_features)) / 3.0
    seconds = rng.gamma(1.0, 1000.0, n_rows) * (1 + rows[:, 0])
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, seconds


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    n_trees=st.integers(1, 20),
    missing=st.sampled_from([0.0, 0.02, 0.5]),
    leaves=st.sampled_from([None, 2, 20]),
    kind=st.sampled_from([RandomForestRegressor, ExtraTreesRegressor]),
)
def test_predictions_equal_scikit_learns_to_the_last_bit(seed, n_trees, missing, leaves, kind):
    rows, seconds = rows_and_seconds(seed, missing=missing)
    forest = kind(n_trees, max_leaf_nodes=leaves, random_state=seed, n_jobs=1).fit(rows, seconds)
    new, _ = rows_and_seconds(seed + 1, missing=0.3)
    new = np.vstack([new, new + 1e-7, rows])  # thresholds and their neighbours in float64
    compiled = CompiledForest.from_sklearn(forest)
    expected = forest.predict(new)
    np.testing.assert_array_equal(compiled.predict(new), expected)
    one = [compiled.predict_one(row) for row in new[:20].astype(np.float32)]
    np.testing.assert_array_equal(one, expected[:20])


def test_missing_against_all_others_is_a_split_that_sends_known_values_left():
    """scikit-learn then stores the threshold +inf."""
    rows = np.array([[1.0], [2.0], [np.nan], [np.nan]] * 5)
    seconds = np.where(np.isnan(rows[:, 0]), 100.0, 5.0)
    forest = RandomForestRegressor(3, random_state=0).fit(rows, seconds)
    assert np.isinf(forest.estimators_[0].tree_.threshold[0])
    compiled = CompiledForest.from_sklearn(forest)
    assert compiled.predict([[3.0e38], [np.nan]]).tolist() == [5.0, 100.0]


def test_a_threshold_just_above_a_single_is_rounded_down():
    t = np.float64(np.float32(0.1)) + np.array([-1e-12, 0.0, 1e-12])
    below, equal, above = _rounded_down(t)
    assert below < np.float32(0.1) and equal == above == np.float32(0.1)


def test_a_row_of_another_width_is_refused():
    rows, seconds = rows_and_seconds(0)
    compiled = CompiledForest.from_sklearn(RandomForestRegressor(2, random_state=0).fit(rows, seconds))
    with pytest.raises(JobcastError, match="rows of 4 features; got shape"):
        compiled.predict(rows[:, :3])


def test_arrays_of_a_compiled_forest_cannot_be_written():
    rows, seconds = rows_and_seconds(0)
    compiled = CompiledForest.from_sklearn(RandomForestRegressor(2, random_state=0).fit(rows, seconds))
    with pytest.raises(ValueError, match="read-only"):
        compiled.values[0] = 1.0


def three_nodes(**changes):
    """A sound stump: root 0, leaves 1 and 2."""
    sound = {
        "children_left": np.array([1, -1, -1]),
        "children_right": np.array([2, -1, -1]),
        "feature": np.array([0, -2, -2]),
        "value": np.ones((3, 1, 1)),
    }
    return SimpleNamespace(**(sound | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"children_left": np.array([3, -1, -1])},  # outside
        {"children_left": np.array([0, -1, -1])},  # a loop
        {"children_right": np.array([1, -1, -1])},  # both children the same
        {"children_right": np.array([-1, -1, -1])},  # one child only
        {"children_right": np.array([-5, -1, -1])},  # outside, below
        {"feature": np.array([4, -2, -2])},  # no such feature
        {"feature": np.array([-1, -2, -2])},
        {"value": np.ones((2, 1, 1))},  # a node without a value
        {"value": np.full((3, 1, 1), np.nan)},
    ],
)
def test_a_damaged_tree_is_refused(changes):
    check_tree(three_nodes(), n_features=4, where="tree 0")
    with pytest.raises(JobcastError, match="tree 7 has nodes that point outside"):
        check_tree(three_nodes(**changes), n_features=4, where="tree 7")


def test_hundreds_of_sparse_columns():
    """Slots of more than 255 columns once overflowed the byte in which scikit-learn keeps where missing values go."""
    rng = np.random.default_rng(3)
    rows = (rng.random((500, 400)) < 0.02).astype(float)
    forest = RandomForestRegressor(3, random_state=0).fit(csr_matrix(rows), rng.gamma(1.0, 100.0, 500))
    np.testing.assert_array_equal(CompiledForest.from_sklearn(forest).predict(rows), forest.predict(csr_matrix(rows)))
