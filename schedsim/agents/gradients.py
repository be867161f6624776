"""DRAS's networks for training: first weights, scores of a batch, gradients by hand, Adam.

The scores are those of the compiled pass, bit for bit: both run the layers of
`schedsim.kernels.agents.scoring`. Weights and arrays are float32 in use; the functions take float64 as well, to
compare gradients with differences.
"""

from typing import Any, Final

import numpy as np

from predictors.core.arrays import Floats, Ints, Singles
from predictors.core.hash_random import uniform
from predictors.core.jit import compiled
from schedsim.kernels.agents.scoring import FILTER, LEAK, first_layer, leaky, sum_columns
from schedsim.policies.networks import Shape

WEIGHTS: Final = 101  # purpose of the draws of first weights
DECAYS: Final = (0.9, 0.999)  # of Adam's two moments
SMALLEST: Final = 1e-8  # added to its denominator


def first_weights(shape: Shape, seed: int) -> Singles:
    """Return uniform weights by Glorot and Bengio (AISTATS 2010), biases of zero, shape (shape.parameters,).

    >>> weights = first_weights(Shape(44, dense=(40, 10)), seed=1)
    >>> weights.dtype.name, len(weights), bool(abs(weights[3:]).max() < 0.35)
    ('float32', 6713, True)
    """
    rows, first, second, outputs = shape.layers
    units = np.empty(shape.parameters)
    uniform(seed, np.arange(shape.parameters), WEIGHTS, units)
    units = 2 * units - 1
    begin = 0
    for inputs, n in ((2, 2), (rows, first), (first, second), (second, outputs)):
        size = 2 if begin == 0 else inputs * n
        units[begin : begin + size] *= np.sqrt(6 / (inputs + n))
        begin += FILTER if begin == 0 else size
    units[2] = 0.0
    units[begin:] = 0.0
    return units.astype(np.float32)


class Network:
    """A network's layers for a batch, and their gradients, in float32 or float64."""

    def __init__(self, shape: Shape, kind: Any = np.float32) -> None:
        self.shape = shape
        rows, first, second, outputs = shape.layers
        self._neurons = np.empty((0, 4 * first + second + outputs), kind)
        self._begin = 2 if shape.kind == "dql" else 0  # a job's rows, which the pass adds last
        self._transposed = np.empty((second, first), kind), np.empty((outputs, second), kind)
        self._matrix = slice(FILTER, FILTER + rows * first)  # of the weights: the first dense layer
        self._total = np.empty(first, kind)
        self._behind = np.empty(shape.parameters - self._matrix.stop, kind)
        self._filter = np.empty(FILTER, kind)

    def scores(self, weights: Any, seen: Any) -> Any:
        """Return the outputs for a batch of observations, shape (n, rows, 2) in, (n, outputs) out."""
        n = len(seen)
        if n > len(self._neurons):
            self._neurons = np.empty((n, self._neurons.shape[1]), self._neurons.dtype)
        rows, first, second, outputs = self.shape.layers
        sum_columns(weights, rows, first, self._neurons[0])
        run(weights, seen, self._neurons[:n], rows, first, second, outputs, self._begin)
        return self._neurons[:n, 4 * first + second :]

    def gradient(
        self,
        weights: Any,
        seen: Any,  # shape (n, rows, 2); the observations
        wanted: Any,  # shape (n, outputs); derivative of the objective by each output
        gradient: Any,  # shape (parameters,); it is overwritten
    ) -> None:
        """Write the gradient of sum(wanted * scores) by the weights, just after `scores` for the same batch."""
        below = self._go_back(weights, wanted)
        gradient[:FILTER], gradient[self._matrix.stop :] = self._filter, self._behind
        rows, first = self.shape.layers[:2]
        write_rows(weights, seen, below, self._total, gradient[self._matrix].reshape(rows, first))

    def climb(self, weights: Any, seen: Any, wanted: Any, adam: "Adam") -> None:
        """Take a step of Adam up that gradient: the same bits as in two calls, in less time.

        It never stores the gradient of the first dense layer, which is most of a network.
        """
        below = self._go_back(weights, wanted)
        rows, first = self.shape.layers[:2]
        numbers, end = adam.next_step(weights.dtype), self._matrix.stop
        matrix, mean, square = (array[self._matrix].reshape(rows, first) for array in (weights, adam.mean, adam.square))
        climb_rows(weights[:FILTER].copy(), seen, below, self._total, matrix, mean, square, numbers)
        for part, found in ((slice(0, FILTER), self._filter), (slice(end, None), self._behind)):
            climb(weights[part], found, adam.mean[part], adam.square[part], numbers)

    def _go_back(self, weights: Any, wanted: Any) -> Any:
        """Write the gradient of all but the first dense layer; return that of its outputs, shape (n, first)."""
        rows, first, second, outputs = self.shape.layers
        below_first, below_second = (np.empty((len(wanted), n), wanted.dtype) for n in (first, second))
        go_back(
            weights, self._neurons, wanted, self._filter, self._total, self._behind, rows, first, second, outputs,
            *self._transposed, below_second, below_first,
        )  # fmt: skip
        return below_first


@compiled
def run(weights: Any, seen: Any, neurons: Any, rows: int, first: int, second: int, outputs: int, begin: int) -> None:
    """Write all layers for a batch; the first row of `neurons` begins with the sums of the columns.

    Each sum is made in the order of the pass, so that it has the same bits.
    """
    n = len(seen)
    matrix = weights[FILTER : FILTER + rows * first].reshape((rows, first))
    for k in range(n):
        for j in range(first):
            neurons[k, j] = neurons[0, j]
        for j in range(first, 3 * first):
            neurons[k, j] = 0
    for step in range(rows):
        i = step + begin if step + begin < rows else step + begin - rows
        for k in range(n):
            one, two = seen[k, i, 0], seen[k, i, 1]
            if one != 0:
                add(neurons[k, first : 2 * first], one, matrix[i])
            if two != 0:
                add(neurons[k, 2 * first : 3 * first], two, matrix[i])
    for k in range(n):
        first_layer(weights, neurons[k], first)
        for j in range(4 * first, 4 * first + second + outputs):
            neurons[k, j] = 0
    middle = FILTER + rows * first
    last = middle + first * second
    target = 4 * first
    add_dense(weights[middle:last].reshape((first, second)), neurons[:, 3 * first : target], neurons[:, target:], n)
    for k in range(n):
        for j in range(target, target + second):
            neurons[k, j] = leaky(neurons[k, j])
    end = last + second * outputs
    add_dense(weights[last:end].reshape((second, outputs)), neurons[:, target:], neurons[:, target + second :], n)
    for k in range(n):
        for j in range(outputs):
            neurons[k, target + second + j] += weights[end + j]


@compiled
def add(target: Any, value: Any, row: Any) -> None:
    """Add a multiple of a row."""
    for j in range(len(row)):
        target[j] += value * row[j]


@compiled
def add_dense(matrix: Any, source: Any, target: Any, n: int) -> None:
    """Add a dense layer's outputs for a batch; each row of its weights is read once."""
    for i in range(len(matrix)):
        row = matrix[i]
        for k in range(n):
            add(target[k], source[k, i], row)


@compiled
def go_back(
    weights: Any, neurons: Any, wanted: Any, filtering: Any, total: Any, behind: Any, rows: int, first: int,
    second: int, outputs: int, to_first: Any, to_second: Any, below_second: Any, below_first: Any,
) -> None:  # fmt: skip
    """Write the gradient, layer by layer from the last; transposed matrices make its loops run along memory.

    `filtering` is that of the filter, `behind` that of the layers after the first dense one, `below_first` that of its
    outputs, `total` the filter's bias in each of its rows.
    """
    n, end = len(wanted), FILTER + rows * first
    last = end + first * second
    transpose(weights[end:last].reshape((first, second)), to_first)
    transpose(weights[last : last + second * outputs].reshape((second, outputs)), to_second)
    behind[:] = 0
    size = first * second
    bias = behind[size + second * outputs :]
    for k in range(n):
        for j in range(outputs):
            bias[j] += wanted[k, j]
    target = 4 * first
    middle, outer = behind[:size].reshape((first, second)), behind[size : size + second * outputs]
    outer_matrix = outer.reshape((second, outputs))
    go_below(neurons[:, target : target + second], wanted, outer_matrix, to_second, below_second)
    go_below(neurons[:, 3 * first : target], below_second, middle, to_first, below_first)
    c = weights[2]
    filtering[:] = 0
    total[:] = 0
    for k in range(n):
        below = below_first[k]
        for j in range(first):
            total[j] += c * below[j]
            filtering[0] += below[j] * neurons[k, first + j]
            filtering[1] += below[j] * neurons[k, 2 * first + j]
            filtering[2] += below[j] * neurons[k, j]


@compiled
def go_below(layer: Any, above: Any, gradient: Any, transposed: Any, below: Any) -> None:
    """Add the gradient of a dense layer's weights, and write that of the layer before its leaky ReLU, for a batch."""
    for i in range(len(gradient)):
        for k in range(len(above)):
            add(gradient[i], layer[k, i], above[k])
    below[:] = 0
    for j in range(len(transposed)):
        for k in range(len(above)):
            value = above[k, j]
            if value != 0:
                add(below[k], value, transposed[j])
    for k in range(len(above)):
        for i in range(len(gradient)):
            if layer[k, i] <= 0:
                below[k, i] *= LEAK


@compiled
def write_row(filtering: Any, seen: Any, below: Any, total: Any, i: int, row: Any) -> None:
    row[:] = total
    for k in range(len(below)):
        value = filtering[0] * seen[k, i, 0] + filtering[1] * seen[k, i, 1]
        if value != 0:
            add(row, value, below[k])


@compiled
def write_rows(weights: Any, seen: Any, below: Any, total: Any, gradient: Any) -> None:
    """Write the gradient of the first dense layer, shape (rows, first)."""
    for i in range(len(gradient)):
        write_row(weights, seen, below, total, i, gradient[i])


@compiled
def climb_rows(
    filtering: Any, seen: Any, below: Any, total: Any, matrix: Any, mean: Any, square: Any, numbers: Any
) -> None:
    """Take a step of Adam up the gradient of the first dense layer, row by row."""
    row = np.empty_like(total)
    for i in range(len(matrix)):
        write_row(filtering, seen, below, total, i, row)
        climb(matrix[i], row, mean[i], square[i], numbers)


@compiled
def transpose(matrix: Any, out: Any) -> None:
    """Write a matrix transposed, in blocks that stay in the cache."""
    n, m = matrix.shape
    for i0 in range(0, n, 32):
        for j0 in range(0, m, 32):
            for i in range(i0, min(n, i0 + 32)):
                for j in range(j0, min(m, j0 + 32)):
                    out[j, i] = matrix[i, j]


@compiled
def climb(weights: Any, gradient: Any, mean: Any, square: Any, numbers: Any) -> None:
    """Take a step of Adam (Kingma & Ba, ICLR 2015) up the gradient; `numbers` are those of `Adam.next_step`."""
    decay, other, square_decay, other_square, rate, root, smallest = numbers
    for i in range(len(weights)):
        mean[i] = decay * mean[i] + other * gradient[i]
        square[i] = square_decay * square[i] + other_square * gradient[i] * gradient[i]
        weights[i] += rate * mean[i] / (np.sqrt(square[i]) * root + smallest)


class Adam:
    """Adam's moments of each weight.

    The first step has the length of the rate:

    >>> weights = np.zeros(2)
    >>> Adam(2, 0.001, np.float64).climb(weights, np.array([5.0, -7.0]))
    >>> weights.round(6).tolist()
    [0.001, -0.001]
    """

    def __init__(
        self,
        n: int,  # weights
        rate: float,
        kind: Any = np.float32,
    ) -> None:
        self.rate, self.steps = rate, 0
        self.mean, self.square = np.zeros(n, kind), np.zeros(n, kind)

    def climb(self, weights: Any, gradient: Any) -> None:
        climb(weights, gradient, self.mean, self.square, self.next_step(weights.dtype))

    def next_step(self, kind: Any) -> Any:
        self.steps += 1
        first, second = DECAYS
        rate, root = self.rate / (1 - first**self.steps), 1 / np.sqrt(1 - second**self.steps)
        return np.array([first, 1 - first, second, 1 - second, rate, root, SMALLEST], kind)


def softmax(scores: Any, of: Ints) -> Floats:
    """Return the chances of each job, shape (n, window): zero behind the first `of` places, and summing to 1.

    >>> softmax(np.zeros((2, 4)), np.array([2, 4])).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]
    """
    known = np.arange(scores.shape[1]) < of[:, None]
    top = np.where(known, scores, -np.inf).max(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.where(known, np.exp(np.where(known, scores, top).astype(np.float64) - top), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def entropy(chances: Floats, of: Ints) -> Floats:
    """Return the entropy of chances relative to the largest for as many jobs, shape (n,); 1 for a single job.

    >>> entropy(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), np.array([2, 3])).round(3).tolist()
    [1.0, 0.0]
    """
    logs = np.log(np.where(chances > 0, chances, 1.0))
    found = 0.0 - (chances * logs).sum(axis=1)
    return np.where(of > 1, found / np.log(np.maximum(of, 2)), 1.0)
