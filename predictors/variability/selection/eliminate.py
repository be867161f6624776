"""Recursive feature elimination.

Trees tell how much each input lessens the impurity. Neighbours tell nothing: there an input's importance is what the
probability of the true class loses, on runs held out of the part learnt from, when the input is shuffled among them.
It uses nothing outside the part learnt from.
"""

from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.variability.classifiers.base import Classifier
from predictors.variability.labels import Scheme
from predictors.variability.splits import deal

LEAST: Final = 5  # inputs at which elimination ends

HELD_OUT: Final = 3  # to measure importances by shuffling, every third run is held out


def sizes(n_features: int, step: float, least: int = LEAST) -> list[int]:
    """Return how many inputs are left after each step that drops a share `step` of them, down to `least`.

    >>> sizes(282, 1 / 3)
    [282, 188, 125, 83, 55, 37, 25, 17, 11, 7, 5]
    """
    if not 0 < step < 1 or least < 1:
        raise JobcastError(
            f"Elimination drops a share between 0 and 1 and leaves at least 1 input; got {step}, {least}."
        )
    found = [n_features]
    while found[-1] > least:
        found.append(max(least, min(found[-1] - 1, round(found[-1] * (1 - step)))))
    return found


def eliminate(
    fresh: Classifier,  # cloned for every fit
    rows: Floats,  # shape (n, n_features); the part learnt from
    classes: Ints,
    features: tuple[str, ...],
    wanted: list[int],  # sizes of the sets, falling, from `sizes`
    scheme: Scheme = "binary",
    seed: int = 0,  # of the shuffling
) -> list[tuple[str, ...]]:
    """Return sets of inputs, one for each size, each the former's most important ones in the order of `features`."""
    kept = np.arange(len(features))
    sets = []
    for size in wanted:
        if size < len(kept):
            shares = importance(fresh, rows[:, kept], classes, scheme, seed)
            best = np.argsort(-shares, kind="stable")[:size]
            kept = np.sort(kept[best])
        sets.append(tuple(features[k] for k in kept))
    return sets


def importance(fresh: Classifier, rows: Floats, classes: Ints, scheme: Scheme, seed: int) -> Floats:
    """Return how much each column matters, shape (n_columns,); columns of which nothing is known matter least."""
    names = tuple(f"{k}" for k in range(rows.shape[1]))
    model = fresh.clone().fit(rows, classes, features=names, scheme=scheme)
    found = np.full(len(names), -1.0)
    learnt = [int(name) for name in model.features_]
    own = model.importances()
    found[learnt] = own if own is not None else _shuffled(fresh, rows[:, learnt], classes, scheme, seed)
    return found


def _shuffled(fresh: Classifier, rows: Floats, classes: Ints, scheme: Scheme, seed: int) -> Floats:
    """Return what the mean probability of the true class loses when a column is shuffled among rows held out."""
    part = deal(classes, HELD_OUT, seed)
    names, out = tuple(f"{k}" for k in range(rows.shape[1])), part == 0
    if len(np.unique(classes[~out])) < 2 or not out.any():
        return np.zeros(len(names))
    model = fresh.clone().fit(rows[~out], classes[~out], features=names, scheme=scheme)
    held, truth = np.where(np.isnan(rows[out]), np.nanmedian(rows, axis=0), rows[out]), classes[out]
    order = np.random.default_rng(seed).permutation(len(held))

    def rightness(table: Floats) -> float:
        found = model.voter_.probabilities(table[:, [int(name) for name in model.features_]])
        return float(found[np.arange(len(truth)), truth].mean())

    best, lost = rightness(held), np.zeros(len(names))
    for k in range(len(names)):
        column = held[:, k].copy()
        held[:, k] = column[order]
        lost[k] = best - rightness(held)
        held[:, k] = column
    return lost
