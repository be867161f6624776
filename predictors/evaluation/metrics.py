"""Figures of predictions: squared error, absolute error, accuracy, underestimates.

Every prediction figure, once.

All functions take the true run times and the predictions as float arrays of shape (n_jobs,), in seconds. A figure that
is not defined (no jobs, a constant target for R²) is NaN, never a made-up number.
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one predictor on one set of jobs.

    Attributes
    ----------
    n_test : int
        Jobs predicted.
    sse_s2 : float
        Sum of squared errors [s²].
    sse_ratio_to_last_two : float
        `sse_s2` over the baseline's on the same jobs.
    mae_s, rmse_s, median_ae_s : float
        Mean absolute, root mean squared and median absolute error [s].
    r2 : float
        Share of the run times' variance explained; NaN for a constant target.
    mean_accuracy : float
        Mean of min(p, r) / max(p, r); 1 where both are 0.
    underestimation_rate : float
        Share of jobs that ran longer than predicted.
    within_1_min, within_10_min : float
        Share of jobs predicted to within 60 and 600 s.
    """

    n_test: int
    sse_s2: float
    sse_ratio_to_last_two: float
    mae_s: float
    rmse_s: float
    median_ae_s: float
    r2: float
    mean_accuracy: float
    underestimation_rate: float
    within_1_min: float
    within_10_min: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def figures(run_time: npt.ArrayLike, predicted: npt.ArrayLike, baseline: npt.ArrayLike) -> Figures:
    """Return every figure of `predicted`, the ratio being to the squared error of `baseline`.

    Examples
    --------
    >>> found = figures([100, 200], [100, 100], baseline=[0, 200])
    >>> found.sse_s2, found.sse_ratio_to_last_two, found.mae_s, found.mean_accuracy, found.underestimation_rate
    (10000.0, 1.0, 50.0, 0.75, 0.5)
    """
    r, p = _pair(run_time, predicted)
    return Figures(
        n_test=len(r),
        sse_s2=sum_of_squared_errors(r, p),
        sse_ratio_to_last_two=ratio(sum_of_squared_errors(r, p), sum_of_squared_errors(r, baseline)),
        mae_s=mean_absolute_error(r, p),
        rmse_s=root_mean_squared_error(r, p),
        median_ae_s=median_absolute_error(r, p),
        r2=r_squared(r, p),
        mean_accuracy=mean_accuracy(r, p),
        underestimation_rate=underestimation_rate(r, p),
        within_1_min=share_within(r, p, 60.0),
        within_10_min=share_within(r, p, 600.0),
    )


def sum_of_squared_errors(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Σ (p - r)² [s²]; 0 for no jobs."""
    r, p = _pair(run_time, predicted)
    return float(np.sum((p - r) ** 2))


def ratio(part: float, whole: float) -> float:
    """Return part / whole: 1 if both are 0, infinite if only `whole` is (nothing else matches a flawless baseline)."""
    if whole == 0:
        return 1.0 if part == 0 else np.inf
    return part / whole


def mean_absolute_error(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Mean |p - r| [s]."""
    r, p = _pair(run_time, predicted)
    return _mean(np.abs(p - r))


def root_mean_squared_error(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Root of the mean (p - r)² [s]."""
    r, p = _pair(run_time, predicted)
    return float(np.sqrt(_mean((p - r) ** 2)))


def median_absolute_error(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Median |p - r| [s]."""
    r, p = _pair(run_time, predicted)
    return float(np.median(np.abs(p - r))) if len(r) else float("nan")


def r_squared(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """1 - Σ (p - r)² / Σ (r - mean r)²; NaN for a constant target."""
    r, p = _pair(run_time, predicted)
    spread = float(np.sum((r - r.mean()) ** 2)) if len(r) else 0.0
    return 1.0 - sum_of_squared_errors(r, p) / spread if spread > 0 else float("nan")


def mean_accuracy(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Mean of min(p, r) / max(p, r), for values >= 0; 1 where both are 0."""
    r, p = _pair(run_time, predicted)
    low, high = np.minimum(p, r), np.maximum(p, r)
    return _mean(np.divide(low, high, out=np.ones_like(high), where=high > 0))


def underestimation_rate(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Share of jobs with p < r: those a scheduler would have planned too short."""
    r, p = _pair(run_time, predicted)
    return _mean(p < r)


def share_within(run_time: npt.ArrayLike, predicted: npt.ArrayLike, seconds: float) -> float:
    """Share of jobs with |p - r| <= `seconds`."""
    r, p = _pair(run_time, predicted)
    return _mean(np.abs(p - r) <= seconds)


def pinball_loss(run_time: npt.ArrayLike, predicted: npt.ArrayLike, quantile: float) -> float:
    """Mean of q (r - p) where r >= p, and (1 - q)(p - r) elsewhere [s]: least for the true `quantile` of r.

    Examples
    --------
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
    return _mean((low <= r) & (r <= high))


def _pair(run_time: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[Floats, Floats]:
    r, p = np.asarray(run_time, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if r.shape != p.shape or r.ndim != 1:
        raise JobcastError(f"Run times and predictions must have one shape (n_jobs,); got {r.shape} and {p.shape}.")
    return r, p


def _mean(values: Floats | npt.NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
