"""Folds: on which runs a classifier learns, and on which it is judged.

A fold holds which rows are learnt from, which are judged, and the class of each. But for `whole`, the classes of the
rows learnt from never depend on the rows judged:

* applications: one application is judged by a model of all others, as for RUSH. Only its own runs show what is normal
  for it; they label it, and nothing else.
* chronological: the first share of the runs, as far as they had ended when the first run to be judged began. All
  classes are measured against what was normal among them (`as_of`), or among all runs (`whole`).
* random: k parts drawn by chance, each with its share of every class; measured against what was normal in the others.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError, percent
from predictors.data.runs import Runs
from predictors.variability.labels import UNLABELLED, Labels, Scheme, label


@dataclass(frozen=True, eq=False)
class Fold:
    """One part to learn from, one to judge."""

    name: str  # of the application, or of the part
    # train, test: shape (n,); rows learnt from and rows judged; labelled ones only, and none in both
    train: Bools
    test: Bools
    classes: Ints  # shape (n,); `UNLABELLED` where the fold gives no label
    limits: Floats  # shape (n,); run time above which each row's run varies [s]; NaN without a label

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if (self.train & self.test).any() or (self.classes[self.train | self.test] == UNLABELLED).any():
            raise JobcastError(f"Fold {self.name!r}: no row may be learnt from and judged, and each needs a label.")

    @property
    def teaches(self) -> bool:
        """Whether there are at least two classes to learn from and a row to judge."""
        return bool(self.test.any()) and len(np.unique(self.classes[self.train])) > 1


def leave_one_application_out(runs: Runs, scheme: Scheme = "binary") -> list[Fold]:
    names = np.unique(runs.application).tolist()
    if len(names) < 2:
        raise JobcastError(
            f"To leave one application out there must be at least two; got {', '.join(names) or 'none'}."
        )
    folds = []
    for name in names:
        judged = runs.application == name
        learnt, own = _label(runs, ~judged, scheme), _label(runs, judged, scheme)
        classes = np.where(judged, own.classes, learnt.classes)
        limits = np.where(judged, _limits(runs, own), _limits(runs, learnt))
        folds.append(Fold(str(name), ~judged & learnt.known, judged & own.known, classes, limits))
    return folds


def chronological(
    runs: Runs,  # sorted by start
    share: float = 0.7,  # of the runs, the earliest, that come before the split
    scheme: Scheme = "binary",  # {"binary", "three"}: which classes
    # {"as_of", "whole"}: whether what is normal is measured among the runs learnt from, or among all
    labels: str = "as_of",
) -> list[Fold]:
    """Return one fold: the past learns, the future is judged."""
    if not 0 < share < 1:
        raise JobcastError(f"The share of runs to learn from must lie between 0 and 1; got {share!r}.")
    first = round(share * len(runs))
    if not 0 < first < len(runs):
        raise JobcastError(f"{len(runs)} runs cannot be split at {percent(share)}: a part is empty.")
    instant = runs.start[first]
    past, future = runs.end <= instant, runs.start >= instant
    past &= ~future
    if not past.any():
        raise JobcastError("No run had ended when the first run to be judged began.")
    found = _label(runs, past if labels == "as_of" else np.ones_like(past), scheme)
    return [Fold("last", past & found.known, future & found.known, found.classes, _limits(runs, found))]


def random_folds(runs: Runs, n_folds: int, seed: int, scheme: Scheme = "binary") -> list[Fold]:
    """Return `n_folds` folds drawn by chance, each class of the whole dealt out evenly."""
    whole = _label(runs, np.ones(len(runs), dtype=np.bool_), scheme)
    return _folds(runs, "part", deal(whole.classes, n_folds, seed), n_folds, scheme)


def days_left_out(runs: Runs, n_folds: int, seed: int) -> list[Fold]:
    """Return `n_folds` folds of whole days (UTC) drawn by chance: runs of one day are never on both sides."""
    day, place = np.unique(runs.start // 86_400, return_inverse=True)
    if len(day) < n_folds:
        raise JobcastError(f"{len(day)} days of runs cannot be dealt into {n_folds} parts; give runs of more days.")
    return _folds(runs, "days", deal(np.zeros(len(day)), n_folds, seed)[place], n_folds, "binary")


def _folds(runs: Runs, what: str, part: Ints, n_folds: int, scheme: Scheme) -> list[Fold]:
    folds = []
    for k in range(n_folds):
        judged = part == k
        found = _label(runs, ~judged, scheme)
        train, test = ~judged & found.known, judged & found.known
        folds.append(Fold(f"{what} {k + 1}", train, test, found.classes, _limits(runs, found)))
    return folds


def deal(classes: npt.ArrayLike, n_parts: int, seed: int) -> Ints:
    """Return a part, 0 … n_parts - 1, for each row: each class dealt out evenly, in an order drawn by chance.

    >>> np.bincount(deal([0] * 6 + [1] * 3, 3, seed=0)[6:]).tolist()
    [1, 1, 1]
    """
    given = np.asarray(classes)
    rng = np.random.default_rng(seed)
    part = np.zeros(len(given), dtype=np.int64)
    for class_ in np.unique(given):
        own = rng.permutation(np.flatnonzero(given == class_))
        part[own] = np.arange(len(own)) % n_parts
    return part


def _label(runs: Runs, train: Bools, scheme: Scheme) -> Labels:
    return label(runs.application, runs.node_count, runs.run_time, train, scheme=scheme)


def _limits(runs: Runs, labels: Labels) -> Floats:
    return labels.norms.limits(runs.application, runs.node_count)
