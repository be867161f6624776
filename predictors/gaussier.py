"""SC'15's predictor: online polynomial regression with a loss that forgives predictions that are too short."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors import _gaussier as kernel
from predictors.data.joblog import Ints
from predictors.online import Gradient, OnlinePredictor
from predictors.params import ABOVE_0, FROM_0

Floats = npt.NDArray[np.float64]

FEATURES: Final = (
    "requested_time",
    "last_run_time",
    "second_last_run_time",
    "last_two_mean",
    "procs",
    "ended_mean",
    "procs_held",
    "longest_running",
    "running_sum",
    "running_count",
    "think_time",
    "hour",
    "weekday",
)
"""Columns, in the order that the kernel knows."""


@dataclass(frozen=True, eq=False)
class PolynomialEstimator:
    """The polynomial as it was at one moment; immutable.

    Parameters
    ----------
    weights : float64 array
        Of the inputs and their products.
    sums : float64 array of shape (4,)
        How many jobs it has learnt from.
    """

    weights: Floats
    sums: Floats

    def predict(self, rows: Floats) -> Floats:
        """Return seconds, shape (n_rows,)."""
        out = np.empty(len(rows))
        kernel.estimates(rows, self.weights, self.sums, out)
        return out

    def predict_one(self, row: Floats) -> float:
        """Return seconds for one row."""
        return kernel.estimate(row, self.weights, self.sums)


class Gaussier(OnlinePredictor):
    """Polynomial of degree two, learnt job by job under the E-Loss of Gaussier et al.

    The loss of predicting f for a job that ran p on q processors is log(p q) (f - p)² where f is above p and
    log(p q) (p - f) where it is below: long and wide jobs weigh more, and too short a prediction costs far less than
    too long a one. Expect it to underestimate most jobs and to have a large squared error: it is made for backfilling.
    The optimiser is the normalised adaptive gradient, with a ridge penalty on the weights.

    What the paper leaves open, and how it is settled here:

    * The step and the ridge: 5000 and 4·10⁹, as in the authors' published program (predictsim). Its gradient is that
      of ridge / 2 times the squared weights.
    * A value below 0 counts as its absolute value, as in that program; an area of at most 1 s weighs nothing.
    * What is missing: run times of the past are the request, where there are none, and count at most as much; all else
      is 0. An unknown request counts as an hour.
    * Its inputs are those of the paper's Table 2 that the history here knows. The run time of the last job but two, the
      mean of the last three and the mean of the user's processors are left out. Processors held and elapsed times
      are those of running jobs at the submission.
    * A job's lesson is learnt from the inputs that its prediction was made from.

    Parameters
    ----------
    rate : float
        Length of the steps [s].
    ridge : float
        Weight of the penalty.
    cap, as_of
        As in `Predictor`.

    References
    ----------
    .. [1] E. Gaussier, D. Glesser, V. Reis, D. Trystram. Improving backfilling by using machine learning to predict
       running times. SC 2015. doi:10.1145/2807591.2807646
    .. [2] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(300, seed=1)
    >>> predicted, run_time = Gaussier().fit(log).predict(log), log.filled("run_time")
    >>> bool((predicted < run_time).mean() > 0.5)
    True
    """

    name = "gaussier"
    features = FEATURES

    rules = MappingProxyType({"rate": ABOVE_0, "ridge": FROM_0})

    def __init__(self, *, rate: float = 5000.0, ridge: float = 4e9, cap: bool = True, as_of: str = "strict") -> None:
        super().__init__(cap=cap, as_of=as_of)
        self.rate = rate
        self.ridge = ridge

    def begin(self) -> Gradient:
        """Return a model that has learnt nothing."""
        return Gradient.empty(kernel.N_DENSE)

    def snapshot(self, weights: Floats, sums: Floats) -> PolynomialEstimator:
        """Return the estimator of these weights."""
        return PolynomialEstimator(weights, sums)

    def step(self, rows: Floats, seconds: Floats, gradient: Gradient) -> None:
        """Learn from jobs in their order."""
        kernel.learn_rows(rows, seconds, float(self.rate), float(self.ridge), *gradient.arrays)

    def follow(self, events: Ints, seconds: Floats, rows: Floats, jobs: Ints, learns: bool, gradient: Gradient) -> None:
        """Go through events: predict the submitted jobs, learn from the ended ones."""
        about = (learns, self.cap, float(self.rate), float(self.ridge))
        kernel.advance(events, seconds, rows, jobs, *about, *gradient.arrays)
