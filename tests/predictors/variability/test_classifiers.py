"""What every classifier of variability promises, and that compiled trees say what scikit-learn and XGBoost say."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pandas as pd
import pytest

from predictors.core.errors import JobcastError
from predictors.variability.classifiers.registry import CLASSIFIERS, load, make_classifier, seeded
from predictors.variability.features import IS_WORKLOAD

NAMES = ("mean_busy", "max_busy", "min_noise", "mean_noise", "max_send_wait", *IS_WORKLOAD)
SMALL = {
    "adaboost": {"n_estimators": 8}, "extra-trees": {"n_estimators": 8}, "decision-forest": {"n_estimators": 8},
    "knn": {}, "boosted": {"n_estimators": 30, "learning_rate": 0.3},
    "calibrated": {"inner": "extra-trees", "inner_params": {"n_estimators": 8}, "folds": 3},
}  # fmt: skip


def runs(n=240, seed=0, missing=0.05):
    """Inputs of which the first two tell the class, and classes for both schemes."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0, 1, n)
    kind = rng.integers(0, 3, n)
    rows = np.column_stack([load + rng.normal(0, 0.05, n), load, rng.normal(size=(n, 3)), np.eye(3)[kind]])
    rows[:, :5][rng.random((n, 5)) < missing] = np.nan
    three = (load > 0.7).astype(int) + (load > 0.8)
    return rows, three, np.array(["AMG", "LBANN", "SWFFT"])[kind]


def made(name, **params):
    return make_classifier(name, **{**SMALL[name], **params})


def freshly_fitted(name, scheme="binary", **params):
    rows, three, apps = runs()
    classes = three if scheme == "three" else (three == 2).astype(int)
    return made(name, **params).fit(rows, classes, features=NAMES, scheme=scheme, applications=apps)


fitted = cache(freshly_fitted)  # for tests that leave it alone
each = pytest.mark.parametrize("name", CLASSIFIERS)


@each
def test_parameters_are_stored_and_cloned(name):
    from sklearn.base import clone

    model = fitted(name)
    for copy in (model.clone(), clone(model)):
        assert type(copy) is type(model) and copy.get_params() == model.get_params()
        assert set(vars(copy)) == set(copy.get_params()) and not copy.fitted


@each
@pytest.mark.parametrize("scheme", ["binary", "three"])
def test_it_learns_and_its_probabilities_sum_to_one(name, scheme):
    model = fitted(name, scheme)
    rows, three, _ = runs(seed=1)
    truth = three if scheme == "three" else (three == 2).astype(int)
    found = model.judge(rows)
    assert found.probabilities.shape == (len(rows), len(model.class_names))
    judged = found.why == ""
    np.testing.assert_allclose(found.probabilities[judged].sum(axis=1), 1)
    assert (found.probabilities[judged] >= 0).all()
    assert np.mean(found.classes == truth) > 0.8


@each
def test_equal_seeds_give_equal_classifiers(name):
    rows = runs(seed=2)[0]
    np.testing.assert_array_equal(fitted(name).predict_proba(rows), freshly_fitted(name).predict_proba(rows))


@pytest.mark.parametrize("name", ["extra-trees", "decision-forest", "boosted", "calibrated"])
def test_other_seeds_give_other_classifiers(name):
    rows = runs(seed=2)[0]
    assert (fitted(name).predict_proba(rows) != fitted(name, random_state=1).predict_proba(rows)).any()
    assert seeded(name, 7).get_params()["random_state"] == 7


@each
@pytest.mark.parametrize("scheme", ["binary", "three"])
def test_it_comes_back_exactly(tmp_path, name, scheme):
    model = fitted(name, scheme, threshold=0.4)
    model.save(tmp_path)
    back = load(tmp_path)
    rows = runs(seed=3)[0]
    np.testing.assert_array_equal(back.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(back.predict(rows), model.predict(rows))
    assert back.get_params() == model.get_params() and type(back) is type(model)
    for kept in ("features_", "ignored_", "applications_", "scheme_"):
        assert getattr(back, kept) == getattr(model, kept)
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".npz", ".skops"}


@each
def test_judging_changes_nothing(name):
    model = fitted(name)
    rows = runs(seed=4)[0]
    before, copy = pickle.dumps(vars(model)), rows.copy()
    first = model.predict_proba(rows)
    model.judge_one(rows[0])
    assert pickle.dumps(vars(model)) == before
    np.testing.assert_array_equal(rows, copy)
    np.testing.assert_array_equal(model.predict_proba(rows), first)


@each
def test_threads_get_the_same(name):
    model, rows = fitted(name), runs(seed=5)[0]
    expected = model.predict_proba(rows)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.predict_proba(rows), range(6)):
            np.testing.assert_array_equal(found, expected)


@each
def test_one_by_one_equals_all_at_once(name):
    model, rows = fitted(name), runs(40, seed=6)[0]
    found = model.judge(rows)
    for k, row in enumerate(rows):
        one = model.judge_one(row)
        assert (one.class_, one.why, one.filled) == (found.classes[k], found.why[k], found.filled[k])
        assert one.label == model.class_names[one.class_] and one.model == name
        np.testing.assert_array_equal(one.probability, found.probabilities[k, -1])


@each
def test_fitting_forgets(name):
    rows, three, _ = runs(seed=7)
    fresh = made(name).fit(rows, three == 2, features=NAMES)
    used = freshly_fitted(name).fit(rows, three == 2, features=NAMES)
    np.testing.assert_array_equal(fresh.predict_proba(rows), used.predict_proba(rows))


@each
def test_columns_are_known_by_name(name):
    """Tables in any order, with columns beyond: the same; one that lacks an input: an error that names it."""
    model, rows = fitted(name), runs(seed=8)[0]
    table = pd.DataFrame(rows, columns=list(NAMES))
    expected = model.predict_proba(rows)
    shuffled = table[list(reversed(NAMES))].assign(other=1.0)
    np.testing.assert_array_equal(model.predict_proba(shuffled), expected)
    np.testing.assert_array_equal(model.predict_proba(shuffled.to_numpy(), features=tuple(shuffled.columns)), expected)
    with pytest.raises(JobcastError, match="'max_busy'"):
        model.predict(table.drop(columns="max_busy"))
    with pytest.raises(JobcastError, match="'mean_busy'"):
        model.predict(rows[:, :2], features=("a", "b"))
    with pytest.raises(JobcastError, match="8 inputs; got shape"):
        model.predict(rows[:, :3])


@each
def test_one_class_teaches_nothing(name):
    rows = runs()[0]
    with pytest.raises(JobcastError, match=r"one class teaches nothing"):
        made(name).fit(rows, np.zeros(len(rows)), features=NAMES)
    with pytest.raises(JobcastError, match="without a label"):
        made(name).fit(rows, np.full(len(rows), -1), features=NAMES)


@each
def test_a_class_that_was_never_seen_has_no_probability(name):
    rows, three, _ = runs()
    model = made(name).fit(rows[three != 1], three[three != 1], features=NAMES, scheme="three")
    found = model.judge(rows)
    np.testing.assert_allclose(found.probabilities[found.why == ""][:, 1], 0, atol=1e-12)


@each
def test_it_abstains_rather_than_guess(name):
    model = fitted(name, seen_only=True)
    row = runs(missing=0)[0][0]
    window = row.copy()
    window[:4] = np.nan
    workload = row.copy()
    workload[5:] = np.nan
    cases = {"window": window, "workload": workload, "unseen": row, "": row}
    for why, one in cases.items():
        said = model.judge_one(one, application="new" if why == "unseen" else "AMG")
        assert (said.why, said.abstained) == (why, why != "")
        if why:
            assert said.class_ == 0 and said.label == "none" and np.isnan(said.probability) and said.reason
    strict = fitted(name, most_missing=0.2)
    gap = row.copy()
    gap[[0, 2]] = np.nan
    assert strict.judge_one(gap).why == "missing" and not fitted(name).judge_one(gap).abstained
    assert fitted(name).judge_one(gap).filled == 2
    with pytest.raises(JobcastError, match="seen_only"):
        model.predict(row[None])


@each
def test_the_training_parts_median_stands_in_for_what_is_missing(name):
    model, (rows, *_) = fitted(name), runs(missing=0)
    gap, filled = rows[:5].copy(), rows[:5].copy()
    gap[:, 1] = np.nan
    filled[:, 1] = model.medians_[1]
    np.testing.assert_array_equal(model.predict_proba(gap), model.predict_proba(filled))
    np.testing.assert_allclose(model.medians_, np.nanmedian(runs()[0], axis=0))


@each
def test_an_input_that_was_never_known_is_left_out_not_filled(name):
    rows, three, _ = runs(missing=0)
    rows[:, 4] = np.nan
    model = made(name).fit(rows, three == 2, features=NAMES)
    assert model.ignored_ == ("max_send_wait",) and "max_send_wait" not in model.features_
    known = rows.copy()
    known[:, 4] = 1e6
    np.testing.assert_array_equal(model.predict_proba(rows, features=NAMES), model.predict_proba(known, features=NAMES))


@each
def test_truth_of_a_world_is_never_learnt_from(name):
    rows, three, _ = runs()
    with pytest.raises(JobcastError, match="truth"):
        made(name).fit(rows, three == 2, features=(*NAMES[:-1], "true_load"))


@each
def test_parameters_that_cannot_be_used_are_told(name):
    rows, three, _ = runs()
    wrong = {"threshold": 2.0, "most_missing": -1, "seen_only": 1}
    wrong |= {"n_neighbors": 0} if name == "knn" else {"random_state": -1}
    for parameter, value in wrong.items():
        with pytest.raises(JobcastError, match=rf"{name}: {parameter} must be .*; got"):
            made(name, **{parameter: value}).fit(rows, three == 2, features=NAMES)
    with pytest.raises(JobcastError, match="did you mean"):
        made(name, treshold=0.5)


@each
def test_a_threshold_says_variation_from_its_probability_on(name):
    rows = runs(seed=9)[0]
    eager, shy = fitted(name, threshold=0.05), fitted(name, threshold=1.0)
    p = eager.predict_proba(rows)[:, 1]
    np.testing.assert_array_equal(eager.predict(rows), np.nan_to_num(p) >= 0.05)
    assert shy.predict(rows).sum() <= eager.predict(rows).sum()


@pytest.mark.parametrize("name", ["adaboost", "extra-trees", "decision-forest"])
@pytest.mark.parametrize("scheme", ["binary", "three"])
def test_compiled_trees_say_what_scikit_learn_says(name, scheme):
    model = fitted(name, scheme)
    rows = runs(500, seed=10, missing=0)[0].astype(np.float32)
    inner = model.voter_.model
    np.testing.assert_allclose(model.predict_proba(rows), inner.predict_proba(rows), atol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), inner.predict(rows))
    assert model.importances().sum() == pytest.approx(1) and model.importances()[:2].sum() > 0.5


def test_compiled_boosted_trees_say_what_xgboost_says():
    import xgboost

    model = fitted("boosted")
    rows = runs(500, seed=10, missing=0)[0].astype(np.float32)
    booster = xgboost.Booster(model_file=bytearray(model.voter_.models[0]))
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], booster.predict(xgboost.DMatrix(rows)), atol=1e-6)
    assert model.importances()[:2].sum() > 0.5


def test_two_classes_and_three_say_the_same_of_variation_when_boosted():
    rows = runs(seed=11)[0]
    two, three = fitted("boosted").predict_proba(rows)[:, -1], fitted("boosted", "three").predict_proba(rows)[:, -1]
    raw = fitted("boosted", "three").predict_proba(rows)
    below = np.nan_to_num(raw[:, 1]) > 0
    np.testing.assert_array_equal(two[below], three[below])


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_probabilities_mean_what_they_say(method):
    """AdaBoost's own all lie near one half; calibrated, the mean one is the share of runs with variation."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 4))
    y = (rng.random(1500) < 1 / (1 + np.exp(3 - 2 * rows[:, 0]))).astype(int)
    names = ("a", "b", "c", "d")
    plain = make_classifier("adaboost", n_estimators=20).fit(rows[:1000], y[:1000], features=names)
    model = make_classifier("calibrated", inner_params={"n_estimators": 20}, method=method)
    model.fit(rows[:1000], y[:1000], features=names)
    brier = [np.mean((m.predict_proba(rows[1000:])[:, 1] - y[1000:]) ** 2) for m in (plain, model)]
    assert brier[1] < 0.8 * brier[0]
    assert model.predict_proba(rows[1000:])[:, 1].mean() == pytest.approx(y[1000:].mean(), abs=0.04)


@pytest.mark.parametrize("name", ["adaboost", "boosted", "calibrated"])
def test_damaged_files_are_refused(tmp_path, name):
    fitted(name).save(tmp_path)
    about = json.loads((tmp_path / "classifier.json").read_text())
    for change in ({"features": about["features"][:-1]}, {"name": "other"}, {"format": 9}, {"scheme": "four"}):
        (tmp_path / "classifier.json").write_text(json.dumps({**about, **change}))
        with pytest.raises(JobcastError):
            load(tmp_path)
    (tmp_path / "classifier.json").write_text("{")
    with pytest.raises(JobcastError, match="train the model again"):
        load(tmp_path)


def test_a_pickle_in_the_place_of_a_model_is_not_opened(tmp_path):
    fitted("knn").save(tmp_path)
    (tmp_path / "classifier.skops").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(JobcastError, match="cannot be read"):
        load(tmp_path)


def test_a_tree_that_points_outside_itself_is_refused(tmp_path):
    model = freshly_fitted("extra-trees")
    model.voter_.model.estimators_[0].tree_.children_left[0] = 10_000
    from predictors.variability.classifiers.trees import TreeVoter

    with pytest.raises(JobcastError, match="point outside"):
        TreeVoter.from_sklearn(model.voter_.model, 2)
