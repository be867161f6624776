"""Learning of the pooled network: first weights, draws by the softmax of its scores, and the gradient by hand.

A batch has features of shape (n, window, 12), contexts of shape (n, 27), and the number of jobs in each window. The
same compiled layers as in `schedsim.policies.pooled` give the scores.
"""

from typing import Any, Final

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.hash_random import uniform
from predictors.core.jit import compiled
from schedsim.policies.pooled import Pooled, score_jobs

WEIGHTS: Final = 107  # purpose of the draws of first weights


def first_pooled(seed: int, hidden: tuple[int, int] = (16, 16)) -> Pooled:
    """Return an untrained network: uniform weights by Glorot and Bengio (AISTATS 2010), biases of zero.

    >>> first_pooled(1) == first_pooled(1), first_pooled(1) == first_pooled(2)
    (True, False)
    """
    sizes = Pooled.sizes(hidden)
    units = np.empty(Pooled.count(hidden))
    uniform(seed, np.arange(len(units)), WEIGHTS, units)
    units, begin = 2 * units - 1, 0
    for part, (rows, columns) in enumerate(sizes):
        size = rows * columns
        units[begin : begin + size] *= 0.0 if part in (1, 5) else np.sqrt(6 / (rows + columns))
        begin += size
    return Pooled(units, hidden)


class PooledBatch:
    """The two layers of a pooled network for many windows, and their gradient."""

    def __init__(self, hidden: tuple[int, int]) -> None:
        self.hidden = hidden

    def chances(self, weights: Floats, jobs: Any, contexts: Any, of: Ints) -> Floats:
        """Return the chance of each job by the softmax of the scores, shape (n, window): zero behind the last job."""
        chances = np.zeros(jobs.shape[:2])
        layers, shared = self._room(jobs.shape[1])
        batch_chances(weights, jobs, contexts, of, *self.hidden, layers, shared, chances)
        return chances

    def gradient(
        self, weights: Floats, jobs: Any, contexts: Any, of: Ints, places: Ints, worth: Floats, entropy: float = 0.0
    ) -> Floats:
        """Return the gradient of the sum of worth x log(chance of the place) + entropy x entropy of the chances."""
        layers, shared = self._room(jobs.shape[1])
        gradient = np.zeros(len(weights))
        room = np.empty(jobs.shape[1]), np.empty(jobs.shape[1]), np.empty(sum(self.hidden)), np.empty(self.hidden[0])
        climb_log_chances(
            weights, jobs, contexts, of, places, worth, entropy, *self.hidden, layers, shared, *room, gradient
        )
        return gradient

    def _room(self, window: int) -> tuple[Floats, Floats]:
        return np.empty((window, sum(self.hidden))), np.empty(sum(self.hidden))


@compiled
def batch_chances(
    weights: Any, jobs: Any, contexts: Any, of: Any, first: int, second: int, layers: Any, shared: Any, chances: Any
) -> None:
    """Write the chances of each window."""
    for b in range(len(of)):
        n = of[b]
        scores = chances[b, :n]
        score_jobs(weights, jobs[b, :n], contexts[b], first, second, layers, shared, scores)
        to_chances(scores)


@compiled
def to_chances(scores: Any) -> None:
    top, total = scores.max(), 0.0
    for k in range(len(scores)):
        scores[k] = np.exp(scores[k] - top)
        total += scores[k]
    for k in range(len(scores)):
        scores[k] /= total


@compiled
def climb_log_chances(
    weights: Any, jobs: Any, contexts: Any, of: Any, places: Any, worth: Any, entropy: float, first: int, second: int,
    layers: Any, shared: Any, chances: Any, below: Any, wanted: Any, mean_below: Any, gradient: Any,
) -> None:  # fmt: skip
    """Add the gradient of each window; a window of one job has none."""
    features, n_context = jobs.shape[2], contexts.shape[1]
    bias = features * first
    own, mean = bias + first, bias + first + first * second
    outer = mean + first * second
    last = outer + (n_context + 1) * second
    for b in range(len(of)):
        n = of[b]
        if n < 2:
            continue
        window, context, scores = jobs[b, :n], contexts[b], chances[:n]
        score_jobs(weights, window, context, first, second, layers, shared, scores)
        to_chances(scores)
        open_ = 0.0
        for k in range(n):
            if scores[k] > 0:
                open_ -= scores[k] * np.log(scores[k])
        for k in range(n):
            below[k] = -worth[b] * scores[k]
            if scores[k] > 0:
                below[k] -= entropy * scores[k] * (np.log(scores[k]) + open_)
        below[places[b]] += worth[b]
        total = wanted[first:]
        for j in range(second):
            total[j] = 0.0
        for i in range(first):
            mean_below[i] = 0.0
        for k in range(n):  # layers[k, first:] becomes the gradient of the second layer before its tanh
            for j in range(second):
                value = layers[k, first + j]
                gradient[last + j] += below[k] * value
                layers[k, first + j] = below[k] * weights[last + j] * (1.0 - value * value)
                total[j] += layers[k, first + j]
        for j in range(second):
            gradient[last - second + j] += total[j]
        for i in range(n_context):
            for j in range(second):
                gradient[outer + i * second + j] += context[i] * total[j]
        for i in range(first):
            for j in range(second):
                gradient[mean + i * second + j] += shared[i] * total[j]
                mean_below[i] += weights[mean + i * second + j] * total[j]
        for k in range(n):
            for i in range(first):
                value, back = layers[k, i], mean_below[i] / n
                for j in range(second):
                    gradient[own + i * second + j] += value * layers[k, first + j]
                    back += weights[own + i * second + j] * layers[k, first + j]
                back *= 1.0 - value * value
                gradient[bias + i] += back
                for f in range(features):
                    gradient[f * first + i] += window[k, f] * back
