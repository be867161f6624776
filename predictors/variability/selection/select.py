"""Selection of the model for a scheduler: choose a classifier, choose its inputs, train it on three classes.

As for RUSH: the classifier with the best mean F1 with one application left out; then recursive feature elimination, the
set with the highest F1 kept; then the same classifier on these inputs, with three classes, on all runs.

The set that is kept has two F1. The honest one chooses the number of inputs separately in each fold, on the
applications learnt from, and judges the one left out by it. The paper's way ranks the inputs on all runs, takes the
number with the best F1, and reports that F1: it has seen what it is judged on, and is marked optimistic. So are the
figures of the three-class model wherever its inputs were selected: that was done on all runs, the judged ones included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from predictors.core.arrays import Floats, short_repr
from predictors.core.errors import JobcastError
from predictors.core.variation import CLASSES
from predictors.data.runs import Words
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.labels import Labels, Scheme
from predictors.variability.selection.compare import (
    Answer,
    Comparison,
    Judged,
    Map,
    Plan,
    Table,
    answer,
    compare,
    in_order,
    joined,
)
from predictors.variability.selection.eliminate import eliminate, sizes
from predictors.variability.selection.scores import f1_of, means_of_known, scores
from predictors.variability.splits import Fold, leave_one_application_out, random_folds

if TYPE_CHECKING:
    import pandas as pd

Sets = list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Elimination:
    """The inputs that elimination kept, and their worth."""

    sizes: tuple[int, ...]  # numbers of inputs that were tried, falling
    features: tuple[str, ...]  # the set that is kept
    honest: Judged  # the number of inputs chosen separately in each fold, without the application left out
    chosen: tuple[int, ...]  # the number chosen in each fold
    # shape (n_sizes,); mean F1 with one application left out, the ranking made without it: what the number that is kept
    # is chosen by
    by_size: Floats
    paper: Floats  # shape (n_sizes,); the same with one ranking on all runs: the paper's way, optimistic

    __repr__ = short_repr

    def table(self) -> "pd.DataFrame":
        """Return one row a number of inputs."""
        import pandas as pd

        columns = {"n_inputs": self.sizes, "f1_ranked_in_fold": self.by_size, "f1_optimistic": self.paper}
        return pd.DataFrame({**columns, "folds_that_chose_it": [self.chosen.count(size) for size in self.sizes]})


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of a selection."""

    comparison: Comparison  # comparison of all models
    winner: Judged  # the best of them
    elimination: Elimination | None  # what was kept of its inputs; None: all
    # the three-class model's figures by part of the cross-validation; `optimistic` if its inputs were selected, as that
    # has seen the runs that are judged
    three: "pd.DataFrame"
    classifier: Classifier  # the model, fitted on all labelled runs
    labels: Labels  # theirs
    dataset: Dataset  # what it learnt from

    __repr__ = short_repr

    def figures(self) -> dict[str, float]:
        judged = self.comparison.datasets[self.winner.scope]
        low, high = self.winner.interval(judged.runs.start, self.comparison.plan.seed)
        found = {"f1_leave_one_application_out": self.winner.mean_f1, "f1_low": low, "f1_high": high}
        for one in self.comparison.judged:
            if (one.scope, one.model, one.split) == (self.winner.scope, self.winner.model, "chronological"):
                found["f1_chronological"] = one.mean_f1
        if self.elimination is not None:
            found["f1_selected_inputs"] = self.elimination.honest.mean_f1
            found["f1_selected_inputs_optimistic"] = float(np.nanmax(self.elimination.paper))
        found["n_inputs"] = len(self.classifier.features_)
        mark = "" if self.elimination is None else "_optimistic"
        return found | {f"three_{name}{mark}": float(self.three[name].mean()) for name in ("f1", "pr_auc", "macro_f1")}


def select(
    datasets: Sequence[Dataset],  # one a node scope
    plan: Plan | None = None,  # by default the full one
    *,
    keep_all: bool = False,  # leave out the elimination
    map_tasks: Map = in_order,  # what does the tasks, here or in other processes; the results do not depend on it
) -> Selection:
    """Select model, node scope and inputs, and train."""
    plan = plan or Plan()
    comparison = compare(datasets, plan, map_tasks=map_tasks)
    winner = comparison.best()
    dataset = comparison.datasets[winner.scope]
    elimination = None if keep_all else eliminate_nested(dataset, winner.model, plan, map_tasks)
    features = FEATURES if elimination is None else elimination.features
    three = cross_validate(dataset, winner.model, features, plan, map_tasks).assign(optimistic=elimination is not None)
    whole = next(one for one in datasets if one.scope == winner.scope)
    classifier, labels = train(whole, winner.model, plan, features=features)
    return Selection(comparison, winner, elimination, three, classifier, labels, whole)


def train(
    dataset: Dataset,
    model: str,
    plan: Plan | None = None,
    *,
    features: tuple[str, ...] = FEATURES,
    scheme: Scheme = "three",
) -> tuple[Classifier, Labels]:
    """Fit a classifier on all labelled runs of a dataset; return it with labels by the norms of all."""
    plan = plan or Plan()
    labels = dataset.labels(np.ones(len(dataset), dtype=np.bool_), scheme=scheme)
    known = labels.known
    if not known.any():
        raise JobcastError(f"Not one run can be labelled: {labels.abstained()}.")
    rows = dataset.rows[:, [FEATURES.index(name) for name in features]]
    fresh = seeded(model, plan.seed, **plan.params.get(model, {}))
    applications = dataset.runs.application[known]
    fresh.fit(rows[known], labels.classes[known], features=features, scheme=scheme, applications=applications)
    return fresh, labels


# --- the inputs -------------------------------------------------------------------------------------------------------


class _Path(NamedTuple):
    """A task: eliminate on a fold's rows, judge the others with each set."""

    fold: int
    inner: int  # -1: the fold itself


class _Shared(NamedTuple):
    table: Table
    folds: list[Fold]
    applications: Words
    model: str
    plan: Plan
    sizes: list[int]


def eliminate_nested(dataset: Dataset, model: str, plan: Plan, map_tasks: Map = in_order) -> Elimination:
    """Choose the inputs of a model by recursive elimination, honestly and in the paper's way."""
    folds = [fold for fold in leave_one_application_out(dataset.runs) if fold.teaches]
    wanted = sizes(len(FEATURES), plan.step)
    shared = _Shared((dataset.rows, FEATURES), folds, dataset.runs.application, model, plan, wanted)
    tasks = [_Path(k, inner) for k in range(len(folds)) for inner in range(-1, plan.inner)]
    paths = dict(zip(tasks, map_tasks(_eliminate_and_judge, shared, tasks), strict=True))
    chosen = [_best(np.array([paths[_Path(k, inner)][1] for inner in range(plan.inner)])) for k in range(len(folds))]
    answers = [paths[_Path(k, -1)][0][size] for k, size in enumerate(chosen)]
    honest = joined(dataset.scope, "applications", f"{model}, inputs selected", folds, answers)
    by_size = np.array([paths[_Path(k, -1)][1] for k in range(len(folds))])

    taught = np.any([fold.train | fold.test for fold in folds], axis=0)
    labels = dataset.labels()
    rows, classes = dataset.rows[taught], labels.classes[taught]
    sets = eliminate(plan.fresh(model, -1), rows, classes, FEATURES, wanted, seed=plan.seed)
    grid = [(k, size) for k in range(len(folds)) for size in range(len(wanted))]
    f1 = np.array(map_tasks(_judge_set, (shared, sets), grid)).reshape(len(folds), len(wanted))
    return Elimination(
        tuple(wanted), sets[_best(by_size)], honest, tuple(wanted[size] for size in chosen),
        means_of_known(by_size, axis=0), means_of_known(f1, axis=0),
    )  # fmt: skip


def _eliminate_and_judge(shared: _Shared, task: _Path) -> tuple[list[Answer], list[float]]:
    """Return the answers and F1 for each number of inputs; elimination sees the rows learnt from only."""
    fold = shared.folds[task.fold]
    if task.inner >= 0:
        fold = _inner(fold, shared.applications, task.inner, shared.plan.inner)
    if not fold.teaches:
        return [], [float("nan")] * len(shared.sizes)
    rows, classes = shared.table[0][fold.train], fold.classes[fold.train]
    fresh = shared.plan.fresh(shared.model, task.fold)
    sets = eliminate(fresh, rows, classes, FEATURES, shared.sizes, seed=shared.plan.seed)
    answers = [answer(fresh.clone(), shared.table, fold, features) for features in sets]
    return answers, [scores(fold.classes[fold.test] == 1, predicted).f1 for predicted, _, _ in answers]


def _judge_set(shared: tuple[_Shared, Sets], task: tuple[int, int]) -> float:
    about, sets = shared
    k, size = task
    fold = about.folds[k]
    predicted, _, _ = answer(about.plan.fresh(about.model, k), about.table, fold, sets[size])
    return scores(fold.classes[fold.test] == 1, predicted).f1


def _inner(fold: Fold, applications: Words, k: int, n_groups: int) -> Fold:
    """Return a fold within the rows learnt from: every n-th application of theirs, from the k-th on, is judged."""
    names = np.unique(applications[fold.train])
    judged = fold.train & np.isin(applications, names[k::n_groups])
    return replace(fold, name=f"{fold.name}, inner {k + 1}", train=fold.train & ~judged, test=judged)


def _best(f1: Floats) -> int:
    """Return the size with the highest mean F1; of equals the one with the fewest inputs."""
    means = np.nan_to_num(means_of_known(f1, axis=0), nan=-1.0)
    return int(len(means) - 1 - np.argmax(means[::-1]))


# --- the three-class model --------------------------------------------------------------------------------------------


def cross_validate(
    dataset: Dataset, model: str, features: tuple[str, ...], plan: Plan, map_tasks: Map = in_order
) -> "pd.DataFrame":
    """Return the three-class model's figures, one row a part drawn by chance, labels as of the other parts."""
    import pandas as pd

    folds = [fold for fold in random_folds(dataset.runs, plan.folds, plan.seed, "three") if fold.teaches]
    if not folds:
        raise JobcastError(f"The runs cannot be cut into {plan.folds} parts that teach; give more runs.")
    return pd.DataFrame(map_tasks(_three, (dataset.rows, folds, model, features, plan), range(len(folds))))


def _three(shared: tuple[Floats, list[Fold], str, tuple[str, ...], Plan], k: int) -> dict[str, object]:
    from sklearn.metrics import confusion_matrix

    rows, folds, model, features, plan = shared
    fold, kept = folds[k], rows[:, [FEATURES.index(name) for name in features]]
    fresh = plan.fresh(model, "three", k)
    fresh.fit(kept[fold.train], fold.classes[fold.train], features=features, scheme="three")
    found, truth = fresh.judge(kept[fold.test], features=features), fold.classes[fold.test]
    matrix = confusion_matrix(truth, found.classes, labels=list(range(len(CLASSES))))
    right = np.diag(matrix)
    each = f1_of(right, matrix.sum(axis=0) - right, matrix.sum(axis=1) - right)
    about = scores(truth == 2, found.classes == 2, found.scores, int((found.why != "").sum())).to_dict()
    cells = {f"{a}_said_{b}": int(matrix[i, j]) for i, a in enumerate(CLASSES) for j, b in enumerate(CLASSES)}
    return {"part": fold.name, **about, "macro_f1": float(np.nanmean(each)), **cells}
