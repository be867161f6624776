"""Scores by hand; splits that split; elimination that never sees what it is judged on; equal for any workers."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import make_classifier
from predictors.variability.features import FEATURES
from predictors.variability.labels import label
from predictors.variability.selection import compare as comparison
from predictors.variability.selection import select as selection
from predictors.variability.selection.compare import NEVER, ORACLE, PRESENT, Plan, compare
from predictors.variability.selection.eliminate import eliminate, importance, sizes
from predictors.variability.selection.scores import blocks_in_time, f1_interval, f1_of, scores
from predictors.variability.selection.select import select, train
from predictors.variability.splits import Fold, chronological, leave_one_application_out, random_folds
from tests.support.variability_data import APPS, BUSY, dataset

DATA = dataset()
FEW = {name: {"n_estimators": 8} for name in ("adaboost", "extra-trees", "decision-forest", "boosted")}
SMALL = Plan(models=("extra-trees", "knn"), params=FEW, step=0.7, inner=2, folds=2)

marks = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


# --- scores -----------------------------------------------------------------------------------------------------------


@given(marks)
def test_f1_is_that_of_scikit_learn_and_of_the_paper(pairs):
    from sklearn.metrics import accuracy_score, f1_score

    truth, said = (np.array(side) for side in zip(*pairs, strict=True))
    found = scores(truth, said)
    if truth.any() or said.any():
        assert found.f1 == pytest.approx(f1_score(truth, said))
    else:
        assert np.isnan(found.f1)
    assert found.accuracy == pytest.approx(accuracy_score(truth, said))


def test_the_rule_that_always_says_none_is_right_nine_times_in_ten_and_finds_nothing():
    truth = label(["a"] * 100, [16] * 100, np.r_[np.random.default_rng(0).normal(300, 3, 94), [350] * 6]).classes == 1
    found = scores(truth, np.zeros(100), np.zeros(100))
    assert found.accuracy == found.none_accuracy > 0.9 and found.f1 == 0
    assert found.pr_auc == pytest.approx(found.base_rate)


def test_figures_that_do_not_exist_are_nan():
    found = scores([0, 0], [0, 0], [0.1, 0.2])
    assert np.isnan([found.f1, found.precision, found.recall, found.pr_auc]).all()


def test_an_interval_holds_the_f1_and_draws_blocks_not_runs():
    rng = np.random.default_rng(0)
    truth = rng.random(400) < 0.2
    said = np.where(rng.random(400) < 0.9, truth, ~truth)
    fold, start = np.arange(400) % 4, np.arange(400)
    low, high = f1_interval(truth, said, fold, blocks_in_time(start))
    mean = np.mean([scores(truth[fold == k], said[fold == k]).f1 for k in range(4)])
    assert low < mean < high
    assert f1_interval(truth, said, fold, blocks_in_time(start)) == (low, high)
    # errors that come together count as fewer than they are: drawn run by run, the interval would be too narrow
    burst = np.where((start // 40) % 2 == 0, truth, ~truth)
    wide = f1_interval(truth, burst, fold, blocks_in_time(start, 10))
    narrow = f1_interval(truth, burst, fold, np.arange(400))
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


def test_a_perfect_classifier_has_an_interval_of_one():
    truth = np.arange(60) % 5 == 0
    assert f1_interval(truth, truth, np.zeros(60), blocks_in_time(np.arange(60))) == (1.0, 1.0)
    assert f1_of(0, 0, 3) == 0


# --- splits -----------------------------------------------------------------------------------------------------------


def test_an_application_left_out_is_nowhere_in_what_is_learnt_from():
    folds = leave_one_application_out(DATA.runs)
    assert [fold.name for fold in folds] == sorted(APPS)
    for fold in folds:
        assert set(DATA.runs.application[fold.test]) == {fold.name}
        assert fold.name not in set(DATA.runs.application[fold.train])
        assert (fold.train | fold.test).all()
    assert np.sum([fold.test for fold in folds], axis=0).tolist() == [1] * len(DATA)


def test_labels_learnt_from_do_not_change_with_the_application_left_out():
    fold = leave_one_application_out(DATA.runs)[0]
    end = np.where(fold.test, DATA.runs.end * 2, DATA.runs.end)
    moved = leave_one_application_out(replace(DATA.runs, end=end))[0]
    np.testing.assert_array_equal(fold.classes[fold.train], moved.classes[fold.train])


def test_the_chronological_split_learns_only_from_runs_that_had_ended():
    (fold,) = chronological(DATA.runs, 0.6)
    instant = DATA.runs.start[fold.test].min()
    assert DATA.runs.end[fold.train].max() <= instant and fold.test.sum() == round(0.4 * len(DATA))
    longer = replace(DATA.runs, end=np.where(np.arange(len(DATA)) == 90, 1e6, DATA.runs.end))
    assert not chronological(longer, 0.6)[0].train[90]


def test_as_of_labels_do_not_move_with_the_future_and_whole_ones_do():
    (fold,) = chronological(DATA.runs, 0.6)
    later = replace(DATA.runs, end=np.where(fold.test, DATA.runs.start + 2000, DATA.runs.end))
    for labels, same in (("as_of", True), ("whole", False)):
        one, two = (chronological(runs, 0.6, labels=labels)[0].classes[fold.train] for runs in (DATA.runs, later))
        assert np.array_equal(one, two) == same


def test_random_parts_hold_every_run_once_and_their_share_of_variation():
    folds = random_folds(DATA.runs, 4, seed=3, scheme="three")
    assert np.sum([fold.test for fold in folds], axis=0).tolist() == [1] * len(DATA)
    shares = [np.mean(DATA.labels().classes[fold.test]) for fold in folds]
    assert max(shares) - min(shares) < 0.05


def test_what_cannot_be_split_is_told():
    with pytest.raises(JobcastError, match="at least two"):
        leave_one_application_out(dataset(apps=("AMG",)).runs)
    for share in (0, 1, 0.001):
        with pytest.raises(JobcastError, match=r"between 0 and 1|a part is empty"):
            chronological(DATA.runs, share)
    everywhere = np.ones(3, dtype=bool)
    with pytest.raises(JobcastError, match="learnt from and judged"):
        Fold("a", everywhere, everywhere, np.zeros(3, dtype=np.int64), np.zeros(3))


# --- comparison -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison_spied():
    """A comparison; and of each fit, the model and the names of its inputs."""
    fit, seen = Classifier.fit, []

    def spy(self, table, classes, **about):
        seen.append((self.name, about["features"]))
        return fit(self, table, classes, **about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classifier, "fit", spy)
        return compare([DATA, dataset(scope="job", seed=0, noise=0.3)], SMALL), seen


@pytest.fixture(scope="module")
def compared(comparison_spied):
    return comparison_spied[0]


def test_every_model_is_judged_on_every_scope_and_split(compared):
    table = compared.summary()
    assert len(table) == 2 * 3 * (2 + 3)
    assert set(table["model"]) == {"extra-trees", "knn", NEVER, ORACLE, PRESENT}
    apps = table[table["split"] == "applications"]
    assert (apps["n_folds"] == 4).all() and (apps["n_test"] == len(DATA)).all()
    folds = compared.folds()
    assert set(folds.loc[folds["split"] == "applications", "fold"]) == set(APPS)


def test_the_oracle_is_above_and_the_always_none_rule_below(compared):
    table = compared.summary().query("split == 'applications' and scope == 'all'").set_index("model")
    assert table.loc[NEVER, "f1"] == 0 and table.loc[NEVER, "accuracy"] > 0.85
    assert table.loc["extra-trees", "f1"] > 0.3 > 2 * table.loc["extra-trees", "base_rate"]
    assert table.loc[ORACLE, "f1"] >= table.loc["extra-trees", "f1"] - 0.05
    assert table.loc[PRESENT, "f1"] > 0.8, "here the present does last"
    assert (table["f1_low"] <= table["f1"]).all() and (table["f1"] <= table["f1_high"]).all()


def test_the_best_is_the_best_with_one_application_left_out(compared):
    best = compared.best()
    table = compared.summary().query("split == 'applications'")
    assert best.model in SMALL.models and best.mean_f1 == table[table["model"].isin(SMALL.models)]["f1"].max()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_for_any_number_of_workers():
    data, plan = dataset(60), replace(SMALL, models=("extra-trees",))
    one = compare([data], plan).summary()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        two = compare([data], plan, map_tasks=lambda task, shared, tasks: list(pool.map(partial(task, shared), tasks)))
    assert one.equals(two.summary())
    other = compare([data], replace(plan, seed=5))
    assert not other.summary()["pr_auc"].equals(one["pr_auc"])


def test_without_true_loads_there_is_no_oracle():
    found = compare([dataset(90, truth=False)], replace(SMALL, models=("knn",)))
    assert {one.model for one in found.judged} == {"knn", NEVER}


def test_no_model_but_the_oracle_ever_sees_the_truth(comparison_spied):
    seen = comparison_spied[1]
    assert {features for name, features in seen if name in SMALL.models} == {FEATURES}
    assert {features for name, features in seen if name == "decision-forest"} == {
        ("load_at_start", "slowdown_at_start", "is_compute", "is_network", "is_io")
    }


def test_a_plan_that_cannot_be_followed_is_told():
    with pytest.raises(JobcastError, match="did you mean 'adaboost'"):
        Plan(models=("adabost",))
    with pytest.raises(JobcastError, match="oracle is"):
        Plan(oracle="knn")
    with pytest.raises(JobcastError, match="at least 50"):
        Plan(most_runs=3)
    with pytest.raises(JobcastError, match="one dataset a node scope"):
        compare([DATA, DATA], SMALL)


def test_a_quick_plan_keeps_runs_evenly_over_time():
    plan = replace(SMALL, most_runs=50)
    kept = plan.thinned(DATA)
    assert len(kept) == 50 and np.ptp(np.diff(kept.runs.start)) <= 400
    assert SMALL.quick().most_runs == 1200 and SMALL.thinned(DATA) is DATA


# --- elimination ------------------------------------------------------------------------------------------------------


def test_sizes_fall_to_the_least():
    assert sizes(5, 0.5) == [5] and sizes(6, 0.01) == [6, 5]
    with pytest.raises(JobcastError):
        sizes(10, 1.0)


@pytest.mark.parametrize("name", ["extra-trees", "knn"])
def test_elimination_keeps_what_matters(name):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(150, 12))
    rows[:, 7] = np.nan
    classes = (rows[:, 3] + rows[:, 9] > 1).astype(int)
    names = tuple("abcdefghijkl")
    fresh = make_classifier(name, **({} if name == "knn" else {"n_estimators": 30}))
    sets = eliminate(fresh, rows, classes, names, [12, 6, 2])
    assert [len(one) for one in sets] == [12, 6, 2] and sets[-1] == ("d", "j")
    assert set(sets[2]) <= set(sets[1]) <= set(names) and "h" not in sets[1]
    assert importance(fresh, rows, classes, "binary", 0)[7] == -1


@pytest.fixture(scope="module")
def selection_spied():
    """A selection, and the rows that each elimination in it was given."""
    given, real = [], selection.eliminate

    def spy(fresh, rows, classes, *rest, **about):
        given.append(rows)
        return real(fresh, rows, classes, *rest, **about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "eliminate", spy)
        return select([DATA], replace(SMALL, models=("extra-trees",))), given


def test_elimination_sees_only_what_is_learnt_from(selection_spied):
    """Whatever is given to `eliminate` in a fold has no row of the application left out."""
    folds, given = leave_one_application_out(DATA.runs), selection_spied[1]
    assert len(given) == len(folds) * 3 + 1
    for k, fold in enumerate(folds):
        for rows in given[3 * k : 3 * k + 3]:
            judged = {row.tobytes() for row in DATA.rows[fold.test]}
            assert not judged & {row.tobytes() for row in rows}
    assert len(given[-1]) == len(DATA)


def test_the_inner_groups_do_not_hold_the_application_left_out():
    fold = leave_one_application_out(DATA.runs)[1]
    names = DATA.runs.application
    tested = set()
    for k in range(2):
        inner = selection._inner(fold, names, k, 2)
        assert not (inner.train | inner.test)[fold.test].any() and not (inner.train & inner.test).any()
        assert not set(names[inner.test]) & set(names[inner.train])
        tested |= set(names[inner.test])
    assert tested == set(APPS) - {fold.name}


# --- the whole --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def selected(selection_spied):
    return selection_spied[0]


@pytest.fixture(scope="module")
def unselected():
    """A selection that keeps all inputs, of few runs."""
    return select([DATA], replace(SMALL, models=("knn",), most_runs=100), keep_all=True)


@pytest.mark.slow
def test_the_whole_selection(selected):
    found = selected.elimination
    assert found.sizes[0] == 282 and found.sizes[-1] == 5 and len(found.features) in found.sizes
    assert len(found.table()) == len(found.sizes) and len(found.chosen) == 4
    assert found.table()["folds_that_chose_it"].sum() == 4
    assert selected.classifier.features_ == found.features and selected.classifier.scheme_ == "three"
    assert set(selected.classifier.applications_) == set(APPS)
    assert len(selected.three) == 2 and selected.three["n_test"].sum() == len(DATA)
    names = {"f1_leave_one_application_out", "f1_selected_inputs", "f1_selected_inputs_optimistic"}
    assert names <= set(selected.figures()) and selected.figures()["f1_chronological"] >= 0


def test_the_three_class_figures_are_marked_where_the_inputs_were_ranked_on_the_judged_runs(selected, unselected):
    names = {"three_f1", "three_pr_auc", "three_macro_f1"}
    assert {name for name in selected.figures() if name.startswith("three_")} == {f"{n}_optimistic" for n in names}
    assert selected.three["optimistic"].all()
    assert {name for name in unselected.figures() if name.startswith("three_")} == names
    assert not unselected.three["optimistic"].any()


def test_the_model_learns_from_all_runs_though_few_were_compared(unselected):
    found = unselected
    assert len(found.dataset) == len(DATA) == len(found.labels.classes) and found.elimination is None
    low, high = found.figures()["f1_low"], found.figures()["f1_high"]
    assert low <= found.winner.mean_f1 <= high and len(found.winner.fold) == 100


def test_the_confusion_matrix_counts_every_run(selected):
    cells = [name for name in selected.three if "_said_" in name]
    assert len(cells) == 9
    np.testing.assert_array_equal(selected.three[cells].sum(axis=1), selected.three["n_test"])


def test_training_learns_from_all_labelled_runs():
    model, labels = train(DATA, "extra-trees", SMALL, features=tuple(FEATURES[k] for k in BUSY))
    assert labels.known.all() and model.features_ == tuple(FEATURES[k] for k in BUSY)
    np.testing.assert_array_equal(labels.classes, DATA.labels(scheme="three").classes)


def test_runs_of_one_class_are_told():
    calm = dataset(60)
    same = replace(calm, runs=replace(calm.runs, end=calm.runs.start + 300))
    with pytest.raises(JobcastError, match=r"Not one run can be labelled.*constant"):
        train(same, "extra-trees", SMALL)
    with pytest.raises(JobcastError, match="No application can be left out"):
        comparison.compare([same], SMALL)
