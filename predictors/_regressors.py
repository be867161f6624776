"""Kernels of the linear learners over rows of any numbers, without the history's inputs."""

import math

import numpy as np
import numpy.typing as npt

from predictors._nag import NORM, SEEN, descend, dot, quadratic, rescale, squared_loss_rate
from predictors.data.compiled import compiled

Floats = npt.NDArray[np.float64]


@compiled
def write_inputs(row: Floats, products: bool, x: Floats) -> None:
    """Write the constant, the row and, if asked, all products of two of its numbers into x."""
    if products:
        z = np.empty(1 + len(row))
        z[0] = 1.0
        z[1:] = row
        quadratic(z, x)
    else:
        x[0] = 1.0
        x[1:] = row


@compiled
def predict(rows: Floats, products: bool, weights: Floats, out: Floats) -> None:
    """Write the model's value for each row."""
    x = np.empty(len(weights))
    for i in range(len(rows)):
        write_inputs(rows[i], products, x)
        out[i] = dot(x, weights)


@compiled
def learn_squared(
    rows: Floats, targets: Floats, products: bool, rate: float,
    weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Learn from each row in turn under the squared loss."""
    x = np.empty(len(weights))
    for i in range(len(rows)):
        write_inputs(rows[i], products, x)
        norm = rescale(x, weights, scales)
        error = dot(x, weights) - targets[i]
        step = squared_loss_rate(rate, error, norm, sums)
        descend(x, error, step, 0.0, weights, scales, squares)


@compiled
def learn_asymmetric(
    rows: Floats, targets: Floats, products: bool, rate: float, ridge: float,
    weights: Floats, scales: Floats, squares: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Learn from each row in turn under a loss that is squared above the target and linear below."""
    x = np.empty(len(weights))
    for i in range(len(rows)):
        write_inputs(rows[i], products, x)
        sums[NORM] += rescale(x, weights, scales)
        sums[SEEN] += 1.0
        error = dot(x, weights) - targets[i]
        slope = 2.0 * error if error > 0 else (-1.0 if error < 0 else 0.0)
        descend(x, slope, rate * math.sqrt(sums[SEEN] / sums[NORM]), ridge, weights, scales, squares)
