"""Figures of predictions: squared error, absolute error, accuracy, underestimates.

All functions take the true run times and the predictions as float arrays of shape (n_jobs,), in seconds. A figure that
is not defined (no jobs, a job without a prediction, a constant target for R²) is NaN, never a made-up number.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one predictor on one set of jobs."""

    n_test: int  # jobs predicted
    sse_s2: float  # sum of squared errors [s²]
    sse_ratio_to_last_two: float  # `sse_s2` over the baseline's on the same jobs
    mae_s: float  # mae_s, rmse_s, median_ae_s: mean absolute, root mean squared and median absolute error [s]
    rmse_s: float
    median_ae_s: float
    r2: float  # share of the run times' variance explained; NaN for a constant target
    mean_accuracy: float  # mean of min(p, r) / max(p, r); 1 where both are 0
    underestimation_rate: float  # share of jobs that ran longer than predicted
    within_1_min: float  # within_1_min, within_10_min: share of jobs predicted to within 60 and 600 s
    within_10_min: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def figures(run_time: npt.ArrayLike, predicted: npt.ArrayLike, baseline: npt.ArrayLike) -> Figures:
    """Return every figure of `predicted`, the ratio being to the squared error of `baseline`.

    >>> found = figures([100, 200], [100, 100], baseline=[0, 200])
    >>> found.sse_s2, found.sse_ratio_to_last_two, found.mae_s, found.mean_accuracy, found.underestimation_rate
    (10000.0, 1.0, 50.0, 0.75, 0.5)
    """
    r, p = _pair(run_time, predicted)
    error = np.abs(p - r)
    squares, base_squares = float(np.sum(error**2)), float(np.sum((_pair(run_time, baseline)[1] - r) ** 2))
    spread = float(np.sum((r - r.mean()) ** 2)) if len(r) else 0.0
    low, high = np.minimum(p, r), np.maximum(p, r)
    return Figures(
        n_test=len(r),
        sse_s2=squares,
        sse_ratio_to_last_two=ratio(squares, base_squares),
        mae_s=_mean(error),
        rmse_s=float(np.sqrt(_mean(error**2))),
        median_ae_s=float(np.median(error)) if len(r) else float("nan"),
        r2=1.0 - squares / spread if spread > 0 else float("nan"),
        mean_accuracy=_mean(np.divide(low, high, out=np.ones_like(high), where=high != 0)),
        underestimation_rate=_share(p < r, error),
        within_1_min=_share(error <= 60.0, error),
        within_10_min=_share(error <= 600.0, error),
    )


def ratio(part: float, whole: float) -> float:
    """Return part / whole: 1 if both are 0, infinite if only `whole` is (nothing else matches a flawless baseline)."""
    if whole == 0 and not np.isnan(part):
        return 1.0 if part == 0 else np.inf
    return part / whole if whole else np.nan


def pinball_loss(run_time: npt.ArrayLike, predicted: npt.ArrayLike, quantile: float) -> float:
    """Mean of q (r - p) where r >= p, and (1 - q)(p - r) elsewhere [s]: least for the true `quantile` of r.

    >>> pinball_loss([100, 100], [80, 110], quantile=0.9)
    9.5
    """
    if not 0 < quantile < 1:
        raise JobcastError(f"A quantile must lie between 0 and 1; got {quantile!r}.")
    r, p = _pair(run_time, predicted)
    return _mean(np.maximum(quantile * (r - p), (quantile - 1) * (r - p)))


def coverage(run_time: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike) -> float:
    """Share of jobs with lower <= r <= upper: a 90 % interval should cover .9."""
    r, low = _pair(run_time, lower)
    _, high = _pair(run_time, upper)
    return _share((low <= r) & (r <= high), low + high)


def _pair(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[Floats, Floats]:
    r, p = np.asarray(run_time, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if r.shape != p.shape or r.ndim != 1:
        raise JobcastError(f"Run times and predictions must have one shape (n_jobs,); got {r.shape} and {p.shape}.")
    return r, p


def _share(met: npt.NDArray[np.bool_], known: Floats) -> float:
    """Return the share of jobs that meet a condition; NaN if one of `known` is NaN."""
    return float("nan") if np.isnan(known).any() else _mean(met)


def _mean(values: Floats | npt.NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
