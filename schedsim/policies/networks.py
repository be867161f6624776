"""Networks as agents: values with the weights by which the compiled pass scores the jobs of the window.

`Shared` is one small network for all jobs, over `schedsim.kernels.agents.picks.FEATURES`, with the layers of
RLScheduler's kernel [1]_ by default. `Dras` is a network of DRAS [2]_, over the numbers of the jobs in the window and
of every node of the machine; `Shape` says its sizes. `schedsim.agents.learning` trains it.

.. [1] Zhang, Dai, He, Bao, Xie. RLScheduler: an automated HPC batch job scheduler using reinforcement learning. SC
   2020. doi:10.1109/SC41405.2020.00035
.. [2] Fan, Li, Singh, Taylor, Allcock, Lan. Deep reinforcement agent for scheduling in HPC. IPDPS 2021.
   doi:10.1109/IPDPS49936.2021.00090
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

import schedsim.kernels.records as at
from predictors.core.arrays import Floats, Singles, short_repr
from predictors.core.errors import JobcastError
from predictors.core.validation import check_whole
from schedsim.kernels.agents.scoring import FILTER

Activation = Literal["relu", "tanh"]
Kind = Literal["pg", "dql"]

ACTIVATIONS: Final[Mapping[str, int]] = MappingProxyType({"relu": at.RELU, "tanh": at.TANH})
KINDS: Final[tuple[Kind, ...]] = ("pg", "dql")
N_FEATURES: Final = 12
MOST_NEURONS: Final = 1_000_000  # of one layer

NO_NET: Final = np.empty(0, np.float32)
NO_NET.flags.writeable = False  # as the others are, or the kernels would be compiled again


class StoredNetwork:
    """Base of networks as agents: two are equal where all that is stored of them is."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        raise NotImplementedError

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        stored = self.arrays().items()
        return tuple((name, array.shape, hashlib.sha256(array.tobytes()).digest()) for name, array in stored)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True, eq=False)
class Shared(StoredNetwork):
    """Picks the job with the greatest score of one network, which sees one job at a time.

    RLScheduler's network has eight features and 961 parameters; over twelve features it has more:

    >>> Shared.count((32, 16, 8)), Shared.count((32, 16, 8), features=8)
    (1089, 961)
    >>> Shared(np.zeros(13), hidden=()).layers
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: A shared network has 1 to 5 hidden layers; got 0.
    """

    # shape (n,); layer by layer: the weights from each input to all outputs, then the biases; see `count`
    weights: Floats
    hidden: tuple[int, ...] = (32, 16, 8)  # neurons of the hidden layers, one to five of them
    activation: Activation = "relu"  # {"relu", "tanh"}: of the hidden layers

    __repr__ = short_repr

    def __post_init__(self) -> None:
        sizes = tuple(self.hidden)
        if not 1 <= len(sizes) <= at.LAYERS - 2:
            raise JobcastError(f"A shared network has 1 to {at.LAYERS - 2} hidden layers; got {len(sizes)}.")
        for size in sizes:
            check_whole(size, "a layer of a shared network", 1, MOST_NEURONS)
        if self.activation not in ACTIVATIONS:
            raise JobcastError(f"A shared network's activation is relu or tanh; got {self.activation!r}.")
        object.__setattr__(self, "hidden", sizes)
        what = f"A shared network with hidden layers of {', '.join(map(str, sizes))} neurons"
        object.__setattr__(self, "weights", weights_of(self.weights, np.float64, self.count(sizes), what))

    @staticmethod
    def count(hidden: tuple[int, ...], features: int = N_FEATURES) -> int:
        """Return the number of parameters."""
        return sum((n + 1) * m for n, m in pairwise((features, *hidden, 1)))

    @property
    def layers(self) -> tuple[int, ...]:
        """Neurons in each layer, the features first."""
        return (N_FEATURES, *self.hidden, 1)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that there is to store of it: arrays of numbers."""
        activation = np.array(ACTIVATIONS[self.activation])
        return {"weights": self.weights, "hidden": np.array(self.hidden), "activation": activation}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return what was stored."""
        activation: Any = _at_place(tuple(ACTIVATIONS), arrays["activation"], "activation")
        return cls(arrays["weights"], tuple(arrays["hidden"].tolist()), activation)


@dataclass(frozen=True)
class Shape:
    """The sizes of a network of DRAS.

    The paper's networks; its count for DRAS-DQL on Cori, 161,764,004, is that of 12,176 rows in place of 12,078, and
    its convolution of 4,368 neurons for DRAS-DQL on Theta has 4,362:

    >>> Shape(4360, "pg", dense=(4000, 1000)).parameters, Shape(4360, "dql", dense=(4000, 1000)).parameters
    (21890053, 21449004)
    >>> Shape(12076, "pg", dense=(10000, 4000)).parameters, Shape(12076, "dql", dense=(10000, 4000)).parameters
    (161960053, 160784004)
    """

    nodes: int  # nodes of the machine, one row each
    kind: Kind = "pg"  # whether it scores the whole window at once, or gives the value of one job
    window: int = 50  # jobs that it sees
    dense: tuple[int, int] = (400, 100)  # neurons of the two dense layers

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise JobcastError(f"A network of DRAS is of the kind pg or dql; got {self.kind!r}.")
        check_whole(self.nodes, "a network's nodes", 1, MOST_NEURONS)
        check_whole(self.window, "a network's window", 1, MOST_NEURONS)
        if len(self.dense) != 2:
            raise JobcastError(f"A network of DRAS has two dense layers; got sizes {self.dense!r}.")
        for size in self.dense:
            check_whole(size, "a dense layer", 1, MOST_NEURONS)
        object.__setattr__(self, "dense", tuple(int(size) for size in self.dense))

    @property
    def rows(self) -> int:
        """Rows of two numbers that it sees: two a job and one a node."""
        return (2 * self.window if self.kind == "pg" else 2) + self.nodes

    @property
    def layers(self) -> tuple[int, int, int, int]:
        """Rows, neurons of the dense layers, outputs."""
        return self.rows, *self.dense, self.window if self.kind == "pg" else 1

    @property
    def parameters(self) -> int:
        """Weights in all."""
        rows, first, second, outputs = self.layers
        return FILTER + rows * first + first * second + (second + 1) * outputs


@dataclass(frozen=True, eq=False)
class Dras(StoredNetwork):
    """Picks by a network of DRAS, by the greatest score or drawn by the scores' softmax.

    It sees the nodes of first fit, whatever the allocator: a job gets the free nodes of the lowest numbers. So the
    machine must have as many processors as the network sees nodes, and none may fail.
    """

    shape: Shape
    weights: Singles  # shape (shape.parameters,); as `schedsim.kernels.agents.scoring` says
    seed: int = 0  # of the draws, which depend on the job and the number of the pick alone: 0 to 2**63 - 1
    drawn: bool | None = None  # whether a job is drawn by the softmax of the scores; by default with the kind "pg"
    explore: float = 0.0  # chance of picking any job of the window, whatever the scores
    raw: bool = False  # whether its inputs are seconds and processors instead of days and shares of the machine
    # whether it sees each job's numbers at the place of another job, drawn at each pick: a control that can learn
    # nothing from them
    permuted: bool = False

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_whole(self.seed, "the seed of a network's draws", 0, (1 << 63) - 1)
        if not 0 <= self.explore <= 1:
            raise JobcastError(f"The chance that an agent explores is 0 to 1; got {self.explore!r}.")
        what = f"A network of DRAS with layers of {', '.join(map(str, self.shape.layers))}"
        object.__setattr__(self, "weights", weights_of(self.weights, np.float32, self.shape.parameters, what))
        if self.drawn is None:
            object.__setattr__(self, "drawn", self.shape.kind == "pg")

    def check_machine(self, machine_procs: int, window: int) -> None:
        """Refuse a machine other than the network's, or a policy's window that it cannot see."""
        if machine_procs != self.shape.nodes:
            raise JobcastError(
                f"This network sees a machine of {self.shape.nodes} nodes, and this one has {machine_procs} "
                "processors: train one for it."
            )
        if window > self.shape.window:
            raise JobcastError(
                f"This network sees a window of {self.shape.window} jobs, and the policy's has {window}: give the "
                "policy that window."
            )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that there is to store of it: arrays of numbers."""
        shape = self.shape
        return {
            "weights": self.weights,
            "sizes": np.array([shape.nodes, shape.window, *shape.dense]),
            "kind": np.array(KINDS.index(shape.kind)),
            "seed": np.array(self.seed),
            "flags": np.array([bool(self.drawn), self.raw, self.permuted], dtype=np.int64),
            "explore": np.array(float(self.explore)),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return what was stored."""
        nodes, window, first, second = arrays["sizes"].tolist()
        kind: Any = _at_place(KINDS, arrays["kind"], "kind")
        drawn, raw, permuted = map(bool, arrays["flags"].tolist())
        shape = Shape(nodes, kind, window, (first, second))
        return cls(shape, arrays["weights"], int(arrays["seed"]), drawn, float(arrays["explore"]), raw, permuted)


def _at_place(known: tuple[str, ...], place: npt.NDArray[Any], what: str) -> str:
    """Return the name at the place that an array of one number holds."""
    if place.shape != () or place.dtype.kind not in "iu" or not 0 <= place < len(known):
        raise JobcastError(
            f"A network's {what} is stored as a number from 0 to {len(known) - 1}; got {place.tolist()}."
        )
    return known[int(place)]


def weights_of(given: npt.ArrayLike, kind: type[np.floating[Any]], count: int, what: str) -> npt.NDArray[Any]:
    """Return weights as a read-only copy."""
    try:
        weights = np.array(given, dtype=kind)
    except (TypeError, ValueError) as error:
        raise JobcastError(f"{what} has {count} weights that are numbers; got {given!r}.") from error
    if weights.shape != (count,):
        raise JobcastError(f"{what} has {count} weights in one row; got an array of shape {weights.shape}.")
    wrong = np.flatnonzero(~np.isfinite(weights))
    if wrong.size:
        raise JobcastError(
            f"{what} has weights that are finite numbers; that at place {wrong[0]} is {weights[wrong[0]]}."
        )
    weights.flags.writeable = False
    return weights
