"""Comparison of models × node scopes × splits, with rules and an oracle for comparison.

Models compete with the rule that always predicts none, and with the oracle: a classifier that sees the true loads at
the start where the simulation gives them. What the oracle misses lies in the future of the loads; models that see only
counters can hardly do better, but for what the last five minutes show of the next. The rule "present lasts" also knows
how much each application suffers, and learns nothing.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.runs import TRUTH
from predictors.variability.classifiers.base import Classifier
from predictors.variability.classifiers.registry import CLASSIFIERS, OF_THE_PAPER, seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES, IS_WORKLOAD
from predictors.variability.selection.scores import Scores, blocks_in_time, f1_interval, scores
from predictors.variability.splits import Fold, chronological, leave_one_application_out

if TYPE_CHECKING:
    import pandas as pd

Task = TypeVar("Task")
Result = TypeVar("Result")

NEVER: Final = "always none"
ORACLE: Final = "oracle"
PRESENT: Final = "present lasts"  # takes the true slow-down at the start to last, and knows undisturbed run times
AT_START: Final = "_at_start"
ORACLE_PARAMS: Final[Mapping[str, Any]] = MappingProxyType({"min_samples_leaf": 5})
"""The oracle has few inputs and no noise in them: its leaves may be larger than those of the others."""
PAPER_F1: Final[Mapping[str, float]] = MappingProxyType({"adaboost": 0.95})
"""Mean F1 with one application left out, as the paper gives it; for the other models it only draws bars."""

SPLITS: Final = MappingProxyType(
    {
        "applications": "one application left out, labels by its own runs",
        "chronological": "the earliest runs learnt from, labels as of then",
        "chronological, whole labels": "the same, labels by the mean and std of all runs",
    }
)


class Map(Protocol):
    """A map of many small tasks over the same data, here or in other processes; results in the order of the tasks."""

    def __call__(
        self, function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task], /
    ) -> Sequence[Result]:
        """Return `function(shared, task)` for each task, in order.

        The function is one of a module's top level and draws nothing by chance but by seeds in its task; tasks are
        small.
        """
        ...


def in_order(function: Callable[[Any, Task], Result], shared: Any, tasks: Sequence[Task]) -> list[Result]:
    """Do tasks one after the other, in this process."""
    return [function(shared, task) for task in tasks]


def seed_of(seed: int, *names: object) -> int:
    """Return a seed for what these names predict, the same in every process.

    >>> seed_of(0, "adaboost", 3) == seed_of(0, "adaboost", 3) != seed_of(1, "adaboost", 3)
    True
    """
    return zlib.crc32("/".join(str(name) for name in (seed, *names)).encode())


@dataclass(frozen=True)
class Plan:
    """Plan of a selection: its models and its thoroughness."""

    models: tuple[str, ...] = (*OF_THE_PAPER, "boosted")  # names of classifiers to compare
    # parameters of theirs that are not the default
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    oracle: str = "decision-forest"  # {"decision-forest", "extra-trees"}: what learns from the true loads
    train: float = 0.7  # share of the runs, the earliest, that the chronological split learns from
    step: float = 1 / 3  # share of the inputs that each step of elimination drops
    inner: int = 3  # groups of applications on which the number of inputs is chosen, within each fold
    folds: int = 5  # parts of the three-class model's cross-validation
    most_runs: int | None = None  # keep no more runs than this, evenly over time
    seed: int = 0  # of everything drawn by chance

    def __post_init__(self) -> None:
        for name in self.models:
            if name not in CLASSIFIERS:
                raise unknown_name("classifier", name, CLASSIFIERS)
        if self.oracle not in ("decision-forest", "extra-trees"):
            raise JobcastError(f"The oracle is a decision-forest or extra-trees; got {self.oracle!r}.")
        if not self.models or len(set(self.models)) < len(self.models):
            raise JobcastError("A selection needs at least one model, each once.")
        if self.inner < 2 or self.folds < 2 or self.seed < 0:
            raise JobcastError("A selection needs at least 2 inner groups and 2 folds, and a seed from 0 on.")
        if self.most_runs is not None and self.most_runs < 50:
            raise JobcastError(f"A selection needs at least 50 runs; most_runs is {self.most_runs}.")

    def quick(self) -> "Plan":
        """Return a plan that is through in a minute or two: fewer runs, trees and steps."""
        few = {name: {"n_estimators": 25} for name in ("adaboost", "extra-trees", "decision-forest", "boosted")}
        params = {name: {**few.get(name, {}), **self.params.get(name, {})} for name in self.models}
        return replace(self, params=params, step=0.5, inner=2, folds=3, most_runs=self.most_runs or 1200)

    def fresh(self, model: str, *names: object) -> Classifier:
        """Return an unfitted classifier of this plan; it draws by a seed of its own for what these names predict."""
        return seeded(model, seed_of(self.seed, model, *names), **self.params.get(model, {}))

    def thinned(self, dataset: Dataset) -> Dataset:
        """Return the dataset with no more than `most_runs` runs, evenly over time."""
        if self.most_runs is None or len(dataset) <= self.most_runs:
            return dataset
        return dataset.select(np.linspace(0, len(dataset) - 1, self.most_runs).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions of one model in one split of one dataset."""

    # scope, split, model: which
    scope: str
    split: str
    model: str
    folds: tuple[str, ...]  # names of the folds that could be judged
    fold: Ints  # shape (n,); which fold each row was judged in, -1 where in none
    # truth, predicted: shape (n,); which rows vary, and which were predicted to
    truth: npt.NDArray[np.bool_]
    predicted: npt.NDArray[np.bool_]
    probability: Floats  # shape (n,); of variation; 0 where the model abstained
    abstained: Ints  # shape (n_folds,); how often

    __repr__ = short_repr

    def by_fold(self) -> list[Scores]:
        found = []
        for k in range(len(self.folds)):
            own = self.fold == k
            found.append(scores(self.truth[own], self.predicted[own], self.probability[own], int(self.abstained[k])))
        return found

    @property
    def mean_f1(self) -> float:
        """Mean of the folds' F1, of those that have one."""
        return _mean([one.f1 for one in self.by_fold()])

    def interval(self, start: npt.ArrayLike, seed: int = 0) -> tuple[float, float]:
        """Return the 95 % interval of the mean F1, blocks of runs in time drawn with replacement."""
        own = self.fold >= 0
        block = blocks_in_time(start)
        return f1_interval(self.truth[own], self.predicted[own], self.fold[own], block[own], seed=seed)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The predictions of every model, and the datasets, by scope."""

    judged: tuple[Judged, ...]
    datasets: Mapping[str, Dataset]
    plan: Plan

    def best(self) -> Judged:
        """Return the model with the highest mean F1 with one application left out; the first of equals."""
        found = [one for one in self.judged if one.split == "applications" and one.model in self.plan.models]
        return max(found, key=lambda one: -1.0 if np.isnan(one.mean_f1) else one.mean_f1)

    def folds(self) -> "pd.DataFrame":
        """Return one row a model, scope, split and fold."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"scope": one.scope, "split": one.split, "model": one.model, "fold": name, **figures.to_dict()}
                for one in self.judged
                for name, figures in zip(one.folds, one.by_fold(), strict=True)
            ]
        )

    def summary(self) -> "pd.DataFrame":
        """Return one row a model, scope and split: means over folds, F1 with its interval, and the paper's F1."""
        import pandas as pd

        rows = []
        for one in self.judged:
            found = one.by_fold()
            low, high = one.interval(self.datasets[one.scope].runs.start, self.plan.seed)
            rows.append({
                "scope": one.scope, "split": one.split, "model": one.model, "n_folds": len(found), "f1": one.mean_f1,
                "f1_low": low, "f1_high": high,
                "f1_paper": PAPER_F1.get(one.model, np.nan) if one.split == "applications" else np.nan,
                **{name: _mean([getattr(figures, name) for figures in found]) for name in _MEANS},
                **{name: sum(getattr(figures, name) for figures in found) for name in _SUMS},
            })  # fmt: skip
        return pd.DataFrame(rows)


_MEANS: Final = ("pr_auc", "base_rate", "precision", "recall", "accuracy", "none_accuracy")
_SUMS: Final = ("n_test", "n_variation", "n_abstained")


def splits_of(dataset: Dataset, plan: Plan) -> dict[str, list[Fold]]:
    """Return the folds of each split of `SPLITS` that the dataset allows; a single application cannot be left out."""
    runs = dataset.runs
    found = {
        "applications": leave_one_application_out(runs),
        "chronological": chronological(runs, plan.train),
        "chronological, whole labels": chronological(runs, plan.train, labels="whole"),
    }
    usable = {name: [fold for fold in folds if fold.teaches] for name, folds in found.items()}
    if not usable["applications"]:
        raise JobcastError(
            "No application can be left out: every application needs runs with and without variation in the "
            "remaining data; give more runs."
        )
    return usable


def compare(
    datasets: Sequence[Dataset],  # one a node scope
    plan: Plan | None = None,  # by default the full one
    *,
    map_tasks: Map = in_order,  # what does the tasks, here or in other processes; the results do not depend on it
) -> Comparison:
    """Judge every model of the plan in every split, on each dataset."""
    plan = plan or Plan()
    by_scope = {dataset.scope: plan.thinned(dataset) for dataset in datasets}
    if len(by_scope) < len(datasets) or not datasets:
        raise JobcastError("Give one dataset a node scope: all, job or both.")
    judged = []
    for scope, dataset in by_scope.items():
        folds = splits_of(dataset, plan)
        tables = tables_of(dataset)
        models = [*plan.models, *([ORACLE] if ORACLE in tables else [])]
        tasks = [(model, split, k) for split in folds for model in models for k in range(len(folds[split]))]
        answers = dict(zip(tasks, map_tasks(_judge, (tables, folds, plan), tasks), strict=True))
        for split, of_split in folds.items():
            for model in models:
                parts = [answers[model, split, k] for k in range(len(of_split))]
                judged.append(joined(scope, split, model, of_split, parts))
            for rule, predict in rules_of(dataset).items():
                judged.append(joined(scope, split, rule, of_split, [predict(fold) for fold in of_split]))
    return Comparison(tuple(judged), MappingProxyType(by_scope), plan)


Table = tuple[Floats, tuple[str, ...]]
Answer = tuple[npt.NDArray[np.bool_], Floats, int]


def tables_of(dataset: Dataset) -> dict[str, Table]:
    """Return rows and names of the inputs and, where known, of the loads at the start, which the oracle sees."""
    tables: dict[str, Table] = {"": (dataset.rows, FEATURES)}
    loads = {name: column for name, column in dataset.runs.truth.items() if name.endswith(AT_START)}
    if loads:
        names = tuple(name.removeprefix(TRUTH) for name in loads)
        kinds = dataset.rows[:, -len(IS_WORKLOAD) :]
        tables[ORACLE] = (np.column_stack([*loads.values(), kinds]), (*names, *IS_WORKLOAD))
    return tables


def answer(fresh: Classifier, table: Table, fold: Fold, features: tuple[str, ...] | None = None) -> Answer:
    """Learn from a fold's rows and judge its others: which are predicted to vary, how probable it is, abstentions."""
    rows, names = table
    kept = names if features is None else features
    rows = rows[:, [names.index(name) for name in kept]]
    fresh.fit(rows[fold.train], fold.classes[fold.train], features=kept)
    found = fresh.judge(rows[fold.test], features=kept)
    return found.classes == 1, found.scores, int((found.why != "").sum())


def _judge(shared: tuple[Mapping[str, Table], Mapping[str, list[Fold]], Plan], task: tuple[str, str, int]) -> Answer:
    tables, folds, plan = shared
    model, split, k = task
    if model == ORACLE:
        fresh = seeded(plan.oracle, seed_of(plan.seed, model, k), **ORACLE_PARAMS)
        return answer(fresh, tables[ORACLE], folds[split][k])
    return answer(plan.fresh(model, k), tables[""], folds[split][k])


def rules_of(dataset: Dataset) -> dict[str, Callable[[Fold], Answer]]:
    """Return the rules that learn nothing: always none and, if slow-downs are known, that the present lasts."""
    truth, n = dataset.runs.truth, len(dataset)
    foreseen = {NEVER: np.zeros(n)}
    if "true_alone" in truth and f"true_slowdown{AT_START}" in truth:
        foreseen[PRESENT] = truth["true_alone"] * truth[f"true_slowdown{AT_START}"]

    def predict(seconds: Floats, fold: Fold) -> Answer:
        share = seconds[fold.test] / fold.limits[fold.test]
        return share > 1, share, 0

    return {rule: partial(predict, seconds) for rule, seconds in foreseen.items()}


def joined(scope: str, split: str, model: str, folds: Sequence[Fold], answers: Sequence[Answer]) -> Judged:
    """Put the answers for the folds of a split together."""
    n = len(folds[0].classes) if folds else 0
    fold = np.full(n, -1, dtype=np.int64)
    truth, predicted, probability = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), np.zeros(n)
    for k, (one, (verdict, p, _)) in enumerate(zip(folds, answers, strict=True)):
        fold[one.test], predicted[one.test], probability[one.test] = k, verdict, p
        truth[one.test] = one.classes[one.test] == 1
    abstained = np.array([count for _, _, count in answers], dtype=np.int64)
    return Judged(scope, split, model, tuple(f.name for f in folds), fold, truth, predicted, probability, abstained)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
