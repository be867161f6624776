"""Scores of classifiers: F1, precision, recall, PR-AUC, with intervals.

Variation is rare: a rule that always predicts none is right nine times in ten and has an F1 of 0. A figure that is not
defined (F1 with nothing to find and nothing predicted, PR-AUC without variation) is NaN, never a made-up number.
"""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.core.intervals import drawn_times, percentiles

N_BLOCKS: Final = 50  # intervals draw so many blocks of consecutive runs, which share their machine's state


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The figures of one classifier on one set of runs."""

    n_test: int  # runs judged
    n_variation: int  # runs with variation among them
    base_rate: float  # their share: the PR-AUC of a classifier that knows nothing
    f1: float  # tp / (tp + (fp + fn) / 2) for variation; NaN if there is none and none is predicted
    # precision, recall: share of runs predicted to vary that do; share of runs that vary that are predicted to
    precision: float
    recall: float
    pr_auc: float  # average precision over all thresholds of the probability; NaN without variation
    accuracy: float  # share of runs judged rightly, as varying or not
    none_accuracy: float  # the same for the rule that always predicts none; its F1 is 0
    n_abstained: int  # runs for which the classifier abstained; they count as predicted not to vary

    def to_dict(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def scores(
    truth: npt.ArrayLike,  # truth, predicted: shape (n,); which runs vary, and which were predicted to
    predicted: npt.ArrayLike,
    probability: npt.ArrayLike | None = None,  # shape (n,); of variation, for the PR-AUC; absent: NaN
    n_abstained: int = 0,  # handed on
) -> Scores:
    """Return every figure.

    >>> found = scores([1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [0.9, 0.2, 0.6, 0.1, 0.1, 0.1])
    >>> found.f1, found.pr_auc.__round__(3), found.accuracy.__round__(3), found.none_accuracy.__round__(3)
    (0.5, 0.833, 0.667, 0.667)
    """
    t, s = np.asarray(truth, dtype=np.bool_), np.asarray(predicted, dtype=np.bool_)
    if t.shape != s.shape or t.ndim != 1:
        raise JobcastError(f"Truth and verdicts must have one shape (n,); got {t.shape} and {s.shape}.")
    tp, fp, fn = int((t & s).sum()), int((~t & s).sum()), int((t & ~s).sum())
    return Scores(
        n_test=len(t), n_variation=int(t.sum()), base_rate=_share(t),
        f1=float(f1_of(np.array(tp), np.array(fp), np.array(fn))),
        precision=tp / (tp + fp) if tp + fp else float("nan"), recall=tp / (tp + fn) if tp + fn else float("nan"),
        pr_auc=float("nan") if probability is None else average_precision(t, probability), accuracy=_share(t == s),
        none_accuracy=_share(~t), n_abstained=n_abstained,
    )  # fmt: skip


def f1_of(tp: npt.ArrayLike, fp: npt.ArrayLike, fn: npt.ArrayLike) -> Floats:
    """Return F1 from counts, elementwise; NaN where all three are 0.

    >>> f1_of([3, 0, 0], [1, 2, 0], [2, 1, 0]).round(3).tolist()
    [0.667, 0.0, nan]
    """
    right = np.asarray(tp, dtype=np.float64)
    below = right + (np.asarray(fp, dtype=np.float64) + np.asarray(fn, dtype=np.float64)) / 2
    return np.asarray(np.divide(right, below, out=np.full_like(below, np.nan), where=below > 0))


def average_precision(truth: npt.ArrayLike, probability: npt.ArrayLike) -> float:
    """Return the area under precision over recall, summed over thresholds; NaN without variation."""
    t = np.asarray(truth, dtype=np.bool_)
    if not t.any():
        return float("nan")
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(t, np.asarray(probability, dtype=np.float64)))


def blocks_in_time(start: npt.ArrayLike, n_blocks: int = N_BLOCKS) -> Ints:
    """Return each run's block, shape (n,): runs in order of start, cut into blocks of as many runs each.

    >>> blocks_in_time([5.0, 1.0, 9.0, 3.0], 2).tolist()
    [1, 0, 1, 0]
    """
    order = np.argsort(np.asarray(start, dtype=np.float64), kind="stable")
    block = np.empty(len(order), dtype=np.int64)
    block[order] = np.arange(len(order)) * min(n_blocks, len(order)) // max(len(order), 1)
    return block


def f1_interval(
    truth: npt.ArrayLike,  # truth, predicted: shape (n,); as in `scores`
    predicted: npt.ArrayLike,
    # fold, block: shape (n,); which fold each run was judged in, and which block in time it belongs to
    fold: npt.ArrayLike,
    block: npt.ArrayLike,
    *,
    level: float = 0.95,  # share of the resamples that lies within
    seed: int = 0,  # equal seeds, equal intervals
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean of the folds' F1, blocks resampled; NaN if no resample has an F1."""
    t, s = np.asarray(truth, dtype=np.bool_), np.asarray(predicted, dtype=np.bool_)
    if not len(t):
        return float("nan"), float("nan")
    folds, in_fold = np.unique(np.asarray(fold), return_inverse=True)
    blocks, in_block = np.unique(np.asarray(block), return_inverse=True)
    times = drawn_times(len(blocks), seed=seed)
    totals = []
    for mark in (t & s, ~t & s, t & ~s):
        counts = np.zeros((len(blocks), len(folds)))
        np.add.at(counts, (in_block, in_fold), mark)
        totals.append(times @ counts)
    return percentiles(means_of_known(f1_of(*totals), axis=1), level)


def means_of_known(values: Floats, axis: int) -> Floats:
    """Return means along an axis of the values that are not NaN; NaN where all are.

    >>> means_of_known(np.array([[1.0, np.nan], [3.0, np.nan]]), axis=0).tolist()
    [2.0, nan]
    """
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def _share(marks: npt.NDArray[np.bool_]) -> float:
    return float(marks.mean()) if len(marks) else float("nan")
