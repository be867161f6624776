"""A network as an agent, independent of the order of the jobs, the window and the machine.

One layer, the same for all jobs of the window, makes an *embedding* of a job's twelve features. The mean of the
embeddings describes what else waits; with the context of the machine and the queue it goes into the second layer, which
scores each job. So the scores follow the jobs wherever they stand in the window (Zaheer et al.,
Deep Sets, NeurIPS 2017), and an agent that was trained on one machine can pick on any other.
`schedsim.agents.pooled_gradients` has the gradients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats, short_repr
from predictors.core.errors import JobcastError
from predictors.core.jit import compiled
from predictors.core.validation import check_whole
from schedsim.kernels.agents.observation import N_CONTEXT, N_FEATURES
from schedsim.policies.agents import Observation
from schedsim.policies.networks import StoredNetwork, weights_of

MOST_HIDDEN: Final = 4_096  # neurons of one layer


@dataclass(frozen=True, eq=False)
class Pooled(StoredNetwork):
    """Picks the job with the greatest score of a network that all jobs share and that sees their mean.

    >>> Pooled.count((16, 16))
    1184
    >>> Pooled(np.zeros(1184)) == Pooled(np.zeros(1184)), Pooled(np.zeros(1184)) == Pooled(np.ones(1184))
    (True, False)
    """

    # shape (n,); from the features to the embedding, its biases; from the embedding, the mean embedding and the context
    # to the second layer, its biases; from that to the score; see `sizes`
    weights: Floats
    hidden: tuple[int, int] = (16, 16)  # neurons of the embedding and of the second layer, both with tanh

    __repr__ = short_repr

    def __post_init__(self) -> None:
        sizes = tuple(self.hidden)
        if len(sizes) != 2:
            raise JobcastError(f"A pooled network has two hidden layers; got sizes {self.hidden!r}.")
        for size in sizes:
            check_whole(size, "a layer of a pooled network", 1, MOST_HIDDEN)
        object.__setattr__(self, "hidden", tuple(int(size) for size in sizes))
        what = f"A pooled network with hidden layers of {sizes[0]} and {sizes[1]} neurons"
        object.__setattr__(self, "weights", weights_of(self.weights, np.float64, self.count(sizes), what))

    @staticmethod
    def sizes(hidden: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Return the shape of each part of the weights, in their order; biases are parts of one row."""
        first, second = hidden
        return (
            (N_FEATURES, first), (1, first), (first, second), (first, second), (N_CONTEXT, second), (1, second),
            (second, 1),
        )  # fmt: skip

    @classmethod
    def count(cls, hidden: tuple[int, ...]) -> int:
        """Return the number of parameters."""
        return sum(rows * columns for rows, columns in cls.sizes(hidden))

    def scores(self, jobs: npt.NDArray[Any], context: npt.NDArray[Any]) -> Floats:
        """Return the scores of jobs, shape (n,), from features of shape (n, 12).

        >>> network = Pooled(np.linspace(-1, 1, 1184))
        >>> jobs, context = np.linspace(0, 1, 36, dtype=np.float32).reshape(3, 12), np.ones(27, np.float32)
        >>> bool(np.allclose(network.scores(jobs[::-1], context)[::-1], network.scores(jobs, context)))
        True
        """
        first, second = self.hidden
        scores = np.empty(len(jobs))
        layers = np.empty((len(jobs), first + second))
        score_jobs(self.weights, jobs, context, first, second, layers, np.empty(first + second), scores)
        return scores

    def choose(self, observation: Observation) -> int:
        """Return the place of the job with the greatest score; of equal ones the first."""
        return int(self.scores(observation.jobs[: observation.n], observation.context).argmax())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that there is to store of it: arrays of numbers."""
        return {"weights": self.weights, "hidden": np.array(self.hidden)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return what was stored."""
        return cls(arrays["weights"], tuple(np.atleast_1d(arrays["hidden"]).tolist()))


@compiled
def score_jobs(
    weights: Any, jobs: Any, context: Any, first: int, second: int, layers: Any, shared: Any, scores: Any
) -> None:
    """Write the scores of the jobs, and what the gradient needs: their layers, and the mean embedding in `shared`."""
    n, features, n_context = len(scores), jobs.shape[1], len(context)
    bias = features * first
    own, mean = bias + first, bias + first + first * second
    outer = mean + first * second
    last = outer + (n_context + 1) * second
    for j in range(first):
        shared[j] = 0.0
    for k in range(n):
        for j in range(first):
            layers[k, j] = weights[bias + j]
        for i in range(features):
            value = jobs[k, i]
            for j in range(first):
                layers[k, j] += value * weights[i * first + j]
        for j in range(first):
            layers[k, j] = np.tanh(layers[k, j])
            shared[j] += layers[k, j] / n
    for j in range(second):
        shared[first + j] = weights[last - second + j]
    for i in range(first):
        for j in range(second):
            shared[first + j] += shared[i] * weights[mean + i * second + j]
    for i in range(n_context):
        value = context[i]
        for j in range(second):
            shared[first + j] += value * weights[outer + i * second + j]
    for k in range(n):
        for j in range(second):
            layers[k, first + j] = shared[first + j]
        for i in range(first):
            value = layers[k, i]
            for j in range(second):
                layers[k, first + j] += value * weights[own + i * second + j]
        scores[k] = 0.0
        for j in range(second):
            layers[k, first + j] = np.tanh(layers[k, first + j])
            scores[k] += layers[k, first + j] * weights[last + j]
