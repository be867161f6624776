"""Kernels of the normalised adaptive gradient: a linear model that learns one example at a time, whatever its units.

Ross, Mineiro and Langford's algorithm NAG: each weight is divided by the greatest absolute value that its input has
had, and its steps shrink with the root of the sum of its squared slopes. A model is four arrays: weights, scales (of
the dense inputs), squares, and `sums` at the positions below. Weights beyond the dense inputs belong to marks: inputs
that are 1 or absent.

S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646
"""

import math
from typing import Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.jit import compiled

SEEN: Final = 0  # examples learnt from
NORM: Final = 1  # sum over examples of the squared normalised inputs
SQUARED_ERRORS: Final = 2
LONGEST: Final = 3  # greatest target so far
N_SUMS: Final = 4

HOURS: Final = 2.0 * math.pi / 24.0  # the angle of an hour of the day


@compiled
def quadratic(z: Floats, x: Floats) -> None:
    """Write the inputs z, of which the first is the constant, and all products of two others into x."""
    n = len(z)
    x[:n] = z
    k = n
    for i in range(1, n):
        for j in range(i, n):
            x[k] = z[i] * z[j]
            k += 1


@compiled
def write_time(hour: float, weekday: float, z: Floats, first: int) -> None:
    """Write the time of the day and of the week, each as a point on a circle, into four inputs; 0 where missing."""
    day, week = hour * HOURS, (hour + 24.0 * weekday) * HOURS / 7.0
    z[first : first + 4] = 0.0
    if not np.isnan(day):
        z[first], z[first + 1] = math.cos(day), math.sin(day)
    if not np.isnan(week):
        z[first + 2], z[first + 3] = math.cos(week), math.sin(week)


@compiled
def dot(x: Floats, weights: Floats) -> float:
    total = 0.0
    for i in range(len(x)):
        total += weights[i] * x[i]
    return total


@compiled
def rescale(x: Floats, weights: Floats, scales: Floats) -> float:
    """Take in the inputs' magnitudes; return the sum of the squared normalised inputs."""
    norm = 0.0
    for i in range(len(x)):
        size = abs(x[i])
        if size > scales[i]:
            weights[i] *= scales[i] / size
            scales[i] = size
        if scales[i] > 0:
            norm += (x[i] / scales[i]) ** 2
    return norm


@compiled
def descend(
    x: Floats, slope: float, rate: float, ridge: float, weights: Floats, scales: Floats, squares: Floats
) -> None:
    """Step down the loss (`slope` by the prediction) plus ridge / 2 times the squared weights."""
    for i in range(len(x)):
        down = slope * x[i] + ridge * weights[i]
        squares[i] += down * down
        if squares[i] > 0 and scales[i] > 0:
            weights[i] -= rate * down / (scales[i] * np.sqrt(squares[i]))


@compiled
def descend_marks(marks: Ints, slope: float, rate: float, weights: Floats, squares: Floats) -> None:
    """Step down the loss in the marks that are there; a negative one is absent."""
    for k in marks:
        if k >= 0:
            squares[k] += slope * slope
            if squares[k] > 0:
                weights[k] -= rate * slope / np.sqrt(squares[k])


@compiled
def squared_loss_rate(rate: float, error: float, norm: float, sums: Floats) -> float:
    """Count one example of the squared loss; return the step's length in the target's unit.

    NAG's steps do not know the target's unit: here it is the root mean square of the errors so far.
    """
    sums[SEEN] += 1.0
    sums[NORM] += norm
    sums[SQUARED_ERRORS] += error * error
    return rate * np.sqrt(sums[SQUARED_ERRORS] / sums[NORM]) if sums[NORM] > 0 else 0.0
