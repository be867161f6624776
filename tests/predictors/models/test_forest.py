"""The forest: what it is made of, when it is fitted again, and which files it refuses."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from jobcast import JobcastError, forecast, generate_log, load, replay, save
from predictors.core.model_files import TREE, save_sklearn, write_arrays
from predictors.history.features import CATEGORIES
from predictors.history.history import Outcome
from predictors.history.replay import log_events
from predictors.models.forest import BELOW_ALL, Encoding, Forest, fit_encoding
from predictors.models.refit import FIRST_FIT, Window


@pytest.fixture(scope="module")
def log():
    return generate_log(400, seed=5, users=8)


@pytest.fixture(scope="module")
def forest(log):
    return Forest(n_estimators=5, max_nodes=500).fit(log)


@pytest.mark.parametrize("one_hot", [None, 2])
def test_it_predicts_what_scikit_learns_forest_does_to_the_last_bit(log, one_hot):
    fitted = Forest(n_estimators=5, one_hot=one_hot, cap=False).fit(log)
    rows = replay(log, fitted.features)
    learnt = fitted.estimator_
    np.testing.assert_array_equal(fitted.predict_rows(rows), learnt.model.predict(learnt.encoding.for_fit(rows)))


def test_exactly_the_last_five_features_are_one_hot():
    assert [name in CATEGORIES for name in Forest.features] == [False] * 11 + [True] * 5


def test_the_forest_keeps_within_its_nodes(forest, log):
    assert len(forest.estimator_.compiled.nodes) <= 500
    assert len(Forest(n_estimators=5, max_nodes=50).fit(log).estimator_.compiled.nodes) <= 50


def test_equal_seeds_equal_forests(forest, log):
    again = Forest(n_estimators=5, max_nodes=500).fit(log)
    other = Forest(n_estimators=5, max_nodes=500, random_state=1).fit(log)
    np.testing.assert_array_equal(again.predict(log), forest.predict(log))
    assert (other.predict(log) != forest.predict(log)).any()


def test_importances_are_summed_by_feature(forest, log):
    shares = forest.importances()
    assert tuple(shares) == Forest.features and sum(shares.values()) == pytest.approx(1)
    weekday = [s == "weekday" for s in forest.estimator_.encoding.sources(Forest.features)]
    assert shares["weekday"] == pytest.approx(forest.estimator_.model.feature_importances_[weekday].sum())
    with pytest.raises(JobcastError, match="has not been fitted"):
        Forest().importances()


# --- keeping up with a stream ---


def outcome(seconds, time, observed=True):
    row = np.full(16, np.nan)
    row[1] = 10_000.0
    return Outcome(row, np.nan, float(seconds), observed, time)


def test_when_it_is_fitted_again():
    """After `FIRST_FIT` outcomes, then when they have doubled, or `refit_every` seconds later."""
    stream = Forest(n_estimators=1, refit_every=1000)
    for k in range(FIRST_FIT - 1):
        stream.learn_one(outcome(50, k))
    assert not stream.fitted
    stream.learn_one(outcome(50, 99))
    assert stream.fits_ == 1 and stream.predict_one(outcome(1, 0).row).seconds == 50
    for k in range(FIRST_FIT - 1):
        stream.learn_one(outcome(90, 100 + k))
    assert stream.fits_ == 1
    stream.learn_one(outcome(90, 200))  # the 200th
    assert stream.fits_ == 2
    stream.learn_one(outcome(90, 1199))
    assert stream.fits_ == 2
    stream.learn_one(outcome(90, 1200))
    assert stream.fits_ == 3


def test_censored_and_zero_run_times_are_not_learnt_from():
    stream = Forest(n_estimators=1)
    stream.learn_one(outcome(50, 0, observed=False))
    stream.learn_one(outcome(0, 0))
    assert not hasattr(stream, "window_")
    never = Forest(n_estimators=1, refit_every=None)
    for k in range(3 * FIRST_FIT):
        never.learn_one(outcome(50, k))
    assert not never.fitted


def test_after_a_fit_the_stream_goes_on_from_the_same_jobs(log):
    stream = Forest(n_estimators=1, refit_every=1000, max_nodes=5).fit(log)
    n_before = stream.window_.total
    assert n_before == (log.filled("run_time") > 0).sum()
    stream.learn_one(outcome(50, 5_000_000))
    assert stream.fits_ == 0
    stream.learn_one(outcome(50, 5_001_000))
    assert stream.fits_ == 1 and len(stream.window_.newest()[1]) == n_before + 2


def test_a_full_window_drops_the_oldest():
    window = Window(3, 1)
    window.extend(np.arange(5.0)[:, None], np.arange(5.0))
    window.add(np.array([9.0]), 9.0)
    rows, seconds = window.newest()
    assert seconds.tolist() == rows[:, 0].tolist() == [3.0, 4.0, 9.0]


def test_in_the_loop_it_learns_only_from_what_has_ended_in_that_clock(log):
    """Each fit sees exactly the jobs that ended, with the run times of the loop's clock, not those of the log."""
    seen = []

    class Spy(Forest):
        """Remembers what it learns from."""

        def learn(self, rows, seconds):
            """Grow, and remember the run times."""
            seen.append(sorted(seconds))
            return super().learn(rows, seconds)

    events = log_events(log)
    slow = events.copy()
    slow[:, 0] *= 2  # another clock: everything takes twice as long
    live = forecast(Spy(n_estimators=1, max_nodes=9, refit_every=6 * 3600), log)
    live.advance(slow, np.empty(len(log)))
    ends = slow[slow[:, 1] == 2]
    run = 2.0 * log.filled("run_time")[ends[:, 2]]
    ends, run = ends[run > 0], run[run > 0]
    assert len(seen) == live.predictor.fits_ > 2
    for fit in seen:
        assert fit == sorted(run[: len(fit)])


# --- files ---


@pytest.fixture
def folder(forest, tmp_path):
    save(forest, tmp_path)
    return tmp_path


def test_what_it_writes_is_no_pickle(folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["codes.json", "encoding.npz", "forest.skops", "history.npz", "predictor.json", "window.npz"]
    for path in folder.glob("*.npz"):
        np.load(path, allow_pickle=False).close()
    with zipfile.ZipFile(folder / "forest.skops") as parts:
        assert not any(name.endswith((".pkl", ".pickle")) for name in parts.namelist())


def test_a_loaded_forest_goes_on_learning_where_it_stopped(folder, forest):
    loaded = load(folder)
    assert loaded.window_.total == forest.window_.total
    for mine, theirs in zip(loaded.window_.newest(), forest.window_.newest(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_another_kind_of_model_is_refused(folder, log):
    rows = np.zeros((10, 16))
    for model in (LinearRegression().fit(rows, rows[:, 0]), ExtraTreesRegressor(1).fit(rows, rows[:, 0])):
        save_sklearn(folder / "forest.skops", model, (TREE,))
        with pytest.raises(JobcastError, match=r"forest\.skops: holds"):
            load(folder)


def test_a_type_that_is_not_on_our_list_is_refused_before_it_is_made(folder, forest):
    """The file names a type of somebody else's where ours are expected."""
    with zipfile.ZipFile(folder / "forest.skops") as parts:
        content = {name: parts.read(name) for name in parts.namelist()}
    content["schema.json"] = content["schema.json"].replace(b"RandomForestRegressor", b"SomebodyElsesRegressor")
    with zipfile.ZipFile(folder / "forest.skops", "w") as parts:
        for name, data in content.items():
            parts.writestr(name, data)
    with pytest.raises(JobcastError, match=r"holds .*SomebodyElsesRegressor', which no model of ours does"):
        load(folder)


def test_a_forest_whose_nodes_point_outside_is_refused_before_it_is_walked(folder):
    with zipfile.ZipFile(folder / "forest.skops") as parts:
        content = {name: parts.read(name) for name in parts.namelist()}
    hurt = 0
    for name, data in content.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(data), allow_pickle=False)
            if array.dtype.names and "left_child" in array.dtype.names and not hurt:
                array["left_child"][0] = 10**9
                buffer = io.BytesIO()
                np.save(buffer, array)
                content[name] = buffer.getvalue()
                hurt += 1
    assert hurt
    with zipfile.ZipFile(folder / "forest.skops", "w") as parts:
        for name, data in content.items():
            parts.writestr(name, data)
    with pytest.raises(JobcastError, match="nodes that point outside"):
        load(folder)


def test_arrays_with_objects_are_neither_written_nor_read(folder):
    with pytest.raises(JobcastError, match="Python objects"):
        write_arrays(folder / "encoding.npz", {"codes": np.array([print])})
    np.savez(folder / "encoding.npz", codes=np.array([{}]))
    with pytest.raises(JobcastError, match=r"encoding\.npz: cannot be read"):
        load(folder)


@pytest.mark.parametrize("name", ["encoding.npz", "forest.skops", "history.npz", "window.npz", "predictor.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "pickle"])
def test_a_missing_or_damaged_file_is_named(folder, name, damage):
    path = folder / name
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.write_bytes(pickle.dumps({"name": "forest"}))
    with pytest.raises(JobcastError, match=name.replace(".", r"\.")):
        load(folder)


def test_an_encoding_of_another_forest_is_refused(folder, log):
    other = Forest(n_estimators=1, one_hot=1).fit(log)
    write_arrays(folder / "encoding.npz", other.estimator_.encoding.arrays())
    with pytest.raises(JobcastError, match="do not fit together"):
        load(folder)


NAN = np.nan
# feature 0 is a number, feature 1 a category: 7 three times, 5 twice, 9 twice, 8 once, once missing
ROWS = np.array([[1, 7], [2, 5], [3, 7], [NAN, 9], [4, 8], [5, 5], [6, 7], [7, 9], [8, NAN]], dtype=float)


def test_every_category_gets_its_column_in_the_order_of_codes():
    encoding = fit_encoding(ROWS, [False, True])
    assert encoding.sources(["number", "category"]) == ("number", *["category"] * 4)
    expected = {
        5: [1, 0, 0, 0], 7: [0, 1, 0, 0], 8: [0, 0, 1, 0], 9: [0, 0, 0, 1], 6: [0] * 4, 10: [0] * 4, NAN: [0] * 4,
    }  # fmt: skip
    for code, columns in expected.items():
        assert encoding.transform([[2.5, code]]).tolist() == [[2.5, *columns]]


def test_only_the_most_frequent_categories_get_a_column_ties_by_code():
    encoding = fit_encoding(ROWS, [False, True], most=2)
    assert encoding.codes.tolist() == [5, 7]
    assert encoding.transform([[0, 7], [0, 5], [0, 9]]).tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_missing_numbers_stay_missing_unless_rows_become_sparse():
    assert np.isnan(fit_encoding(ROWS, [False, True], most=4).transform(ROWS)[3, 0])
    full = fit_encoding(ROWS, [False, True])
    assert full.transform(ROWS)[3, 0] == BELOW_ALL
    np.testing.assert_array_equal(full.for_fit(ROWS).toarray(), full.transform(ROWS))


def test_a_category_that_is_never_known_keeps_an_empty_column():
    encoding = fit_encoding(np.full((3, 2), NAN), [False, True])
    assert encoding.transform([[1, 2], [1, NAN]]).tolist() == [[1, 0], [1, 0]]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20), st.sampled_from([None, 1, 3])
)
def test_a_row_marks_at_most_one_column_an_attribute(pairs, most):
    rows = np.array(pairs, dtype=float)
    encoding = fit_encoding(rows, [True, True], most)
    sources = np.array(encoding.sources(["a", "b"]))
    encoded = encoding.transform(rows)
    for name, column in (("a", 0), ("b", 1)):
        marks = encoded[:, sources == name].sum(axis=1)
        assert set(marks) <= ({1.0} if most is None else {0.0, 1.0})
        n_columns = (sources == name).sum()
        assert n_columns == min(most or 6, len(np.unique(rows[:, column])))


@pytest.mark.parametrize(
    "change",
    [
        {"starts": np.array([0, 0, 9])},  # beyond the codes
        {"starts": np.array([0, 2, 1])},  # backwards
        {"starts": np.array([1, 1, 4])},
        {"places": np.array([0, 7])},  # beyond the columns
        {"n_columns": np.array(3)},
        {"codes": np.zeros((2, 2))},
    ],
)
def test_damaged_tables_are_refused(change):
    with pytest.raises(JobcastError, match="points outside its tables"):
        Encoding.from_arrays(fit_encoding(ROWS, [False, True]).arrays() | change)


def test_incomplete_tables_are_refused():
    arrays = fit_encoding(ROWS, [False, True]).arrays()
    del arrays["codes"]
    with pytest.raises(JobcastError, match="cannot be read"):
        Encoding.from_arrays(arrays)
    with pytest.raises(JobcastError, match=r"2 features; got shape \(1, 3\)"):
        fit_encoding(ROWS, [False, True]).transform([[1, 2, 3]])
