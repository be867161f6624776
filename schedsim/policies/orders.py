"""Queue orders: FCFS, SJF, WFP3, UNICEP, F1 to F4, and user-defined ones.

Orders rank the waiting jobs by a key, smaller first; ties by (submit, job id). The formulas stand in
`schedsim.kernels.keys`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import schedsim.kernels.keys as codes
from predictors.core.arrays import Floats, Ints, short_repr
from predictors.core.errors import JobcastError, unknown_name
from predictors.entry_points import Registry


@dataclass(frozen=True, eq=False)
class Waiting:
    """The waiting jobs at one instant, as a user's order function sees them; arrays of shape (n_waiting,).

    Parameters
    ----------
    now : int
        Time [s].
    row : int64 array
        Rows in the workload, to look up the user's own data.
    wait, requested, estimate : int64 array
        Time waited, asked for, estimated [s].
    procs : int64 array
        Processors.
    """

    now: int
    row: Ints
    wait: Ints
    requested: Ints
    estimate: Ints
    procs: Ints

    __repr__ = short_repr


OrderFunction = Callable[[Waiting], npt.ArrayLike]


@dataclass(frozen=True)
class Priority:
    """A priority of waiting jobs that grows with the wait, and a due date that bounds the wait.

    The priority is log10(wait + head_start) - estimate x log10(estimated run time) + procs x log10(processors); the
    greatest comes first. A job is *due* at its submission + grace + share x work ahead / processors of the machine: the
    work ahead is what the running and queued jobs will still take by their estimates [processor-seconds]. Overdue jobs
    come before all others, in the order of submission.

    >>> Priority(estimate=float("nan"))
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: A priority's estimate lies within -100 and 100; got nan.
    """

    head_start: float = 3600.0  # added to the wait [s], above 0, at most 1e9
    # estimate, procs: weights, within -100 and 100
    estimate: float = 0.7
    procs: float = 0.0
    grace: int | None = None  # least time from submission to due date [s]; None: no job is ever due
    share: float = 0.0  # 0 or more, at most 1e6

    def __post_init__(self) -> None:
        ranges = {"head_start": (1e-9, 1e9), "estimate": (-100, 100), "procs": (-100, 100), "share": (0, 1e6)}
        if self.grace is not None:
            ranges["grace"] = (0, 1e12)
        for name, (least, most) in ranges.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise JobcastError(f"A priority's {name} lies within {least:g} and {most:g}; got {value!r}.")
        if self.grace is None and self.share != 0:
            raise JobcastError(
                f"A priority's share needs a grace: without one no job is due; got share={self.share} and grace=None."
            )


AIMS: Final = ("wait-slowdown", "wait", "slowdown", "squared-wait")
"""What a look-ahead minimises: the sum over the jobs of wait x wait / estimate, of waits, of bounded slowdowns by the
estimates, or of squared waits."""


@dataclass(frozen=True)
class LookAhead:
    """The orders to try at each scheduling pass, see `schedsim.engine.look_ahead`.

    >>> LookAhead(("fcfs", "sfj"))
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: No order of a look-ahead 'sfj'; did you mean 'sjf'? Known: fcfs, ...
    """

    # names of our own `ORDERS`, each once; of equally good ones the first is taken
    orders: tuple[str, ...] = ("fcfs", "sjf", "saf", "wfp3", "unicep")
    aim: str = "wait-slowdown"  # what the best order minimises, one of `AIMS`

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(self.orders))
        if not self.orders or len(set(self.orders)) < len(self.orders):
            raise JobcastError(f"A look-ahead tries orders, each once; got {self.orders!r}.")
        for name in self.orders:
            if name not in ORDERS.built_in:
                raise unknown_name("order of a look-ahead", name, ORDERS.built_in)
        if self.aim not in AIMS:
            raise unknown_name("aim of a look-ahead", str(self.aim), AIMS)


@dataclass(frozen=True)
class Order:
    """A rule of precedence.

    Parameters
    ----------
    code : int
        The kernels' code.
    function : callable, optional
        A user's own order: one vectorised function from `Waiting` to keys of shape (n_waiting,), called at every
        scheduling pass.
    seed : int
        For the random order.
    priority : Priority, optional
        Of an order by priority.
    look_ahead : LookAhead, optional
        For the order that takes the best of several at each pass.
    ranking : optional
        For an order by which a site's own pass sorts the queue: what that pass takes, see `schedsim.sites.slurm`.

    Examples
    --------
    >>> Order.by(lambda w: -w.wait * w.procs).name
    '<lambda>'
    """

    name: str
    code: int
    function: OrderFunction | None = None
    seed: int = 0
    priority: Priority | None = None
    look_ahead: LookAhead | None = None
    ranking: object | None = None

    @classmethod
    def by_ranking(cls, ranking: object, name: str) -> "Order":
        """Return an order by which a site's own pass sorts the queue."""
        return cls(name, codes.RANKED, ranking=ranking)

    @classmethod
    def by_look_ahead(cls, look_ahead: LookAhead) -> "Order":
        """Return the order that looks best at each pass."""
        return cls("look-ahead", codes.USER, look_ahead=look_ahead)

    @classmethod
    def by_priority(cls, priority: Priority) -> "Order":
        """Return an order by a priority that grows with the wait."""
        return cls("priority", codes.PRIORITY, priority=priority)

    @classmethod
    def by(cls, function: OrderFunction, name: str | None = None) -> "Order":
        """Return an order by a user's own function."""
        return cls(name or str(getattr(function, "__name__", "user")), codes.USER, function)

    def keys(self, waiting: Waiting) -> Ints:
        """Call a user's function, which must return one number a job; return its keys as int64 that sort alike."""
        assert self.function is not None
        try:
            keys = np.asarray(self.function(waiting), dtype=np.float64)
        except Exception as error:
            raise JobcastError(f"Order {self.name!r} failed at {waiting.now} s: {error!r}.") from error
        if keys.shape != waiting.row.shape:
            raise JobcastError(
                f"Order {self.name!r} gave keys of shape {keys.shape} at {waiting.now} s; "
                f"one number for each of {len(waiting.row)} jobs is {waiting.row.shape}."
            )
        if np.isnan(keys).any():
            raise JobcastError(f"Order {self.name!r} gave NaN at {waiting.now} s; every job needs a number.")
        return sortable(keys)


def sortable(keys: Floats) -> Ints:
    """Return int64 that sort like the numbers; -0.0 counts as 0.0.

    >>> sortable(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0])).argsort(kind="stable").tolist()
    [0, 1, 2, 3, 4]
    """
    bits = (keys + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(0x7FFFFFFFFFFFFFFF))


# p estimated, s = max(1, submit - first submit) [s]; n processors
_TABLE: Final[Mapping[str, tuple[int, OrderFunction | None]]] = MappingProxyType(
    {
        "fcfs": (codes.FCFS, lambda w: w.now - w.wait),
        "sjf": (codes.SJF, lambda w: w.estimate),
        "ljf": (codes.LJF, lambda w: -w.estimate),
        "saf": (codes.SAF, lambda w: w.estimate * w.procs),
        "laf": (codes.LAF, lambda w: -w.estimate * w.procs),
        # Tang, Lan, Desai, Buettner (CLUSTER 2009, doi:10.1109/CLUSTR.2009.5289206)
        "wfp3": (codes.WFP3, lambda w: -((w.wait / w.requested) ** 3) * w.procs),
        "unicep": (codes.UNICEP, lambda w: -w.wait / (np.maximum(1.0, np.log2(w.procs)) * w.requested)),
        # Carastan-Santos & de Camargo (SC 2017, doi:10.1145/3126908.3126955)
        "f1": (codes.F1, None),  # log10(p) n + 870 log10(s)
        "f2": (codes.F2, None),  # sqrt(p) n + 25,600 log10(s)
        "f3": (codes.F3, None),  # p n + 6,860,000 log10(s)
        "f4": (codes.F4, None),  # p sqrt(n) + 530,000 log10(s)
        "widest": (codes.WIDEST, lambda w: -w.procs),
    }
)
"""Orders: the kernels' code, and the same key as a formula where the waiting jobs suffice for one."""


def _accepted(name: str, found: object) -> Order:
    if isinstance(found, type) or not callable(found):
        raise JobcastError(f"it must be a function of the waiting jobs, jobcast.Waiting; got {found!r}.")
    return Order.by(found, name)


TAKEN: Final = (
    *("balanced", "binpacking", "bold", "careful", "ceil", "cobalt", "conservative-compress", "conservative-replan"),
    *("default", "easy", "knapsack", "look-ahead", "priority", "random", "rush", "score", "user", "widest"),
)
"""Names of other policies and orders; `widest` serves passes alone. An order of your own has another name."""

ORDERS: Final[Registry[Order]] = Registry(
    "order",
    {name: Order(name, code) for name, (code, _) in _TABLE.items() if name != "widest"},
    _accepted,
    lambda name: name in TAKEN or name.endswith("-easy") or re.fullmatch(r"(hybrid|cobalt)-\d+", name) is not None,
)
"""Orders by name."""

FORMULAS: Final[Mapping[str, OrderFunction]] = MappingProxyType(
    {name: formula for name, (_, formula) in _TABLE.items() if formula is not None}
)
"""Keys of orders as formulas of the waiting jobs, by the name of the order; smaller keys first."""

SCORE: Final = Order("score", codes.SCORE)
"""Highest score first; see `schedsim.sites.cobalt.score` and, for its beginning, `schedsim.sites.cobalt.rules`."""

WIDEST: Final = Order("widest", codes.WIDEST)  # most processors first, as in bin packing; it is no policy of its own


def random_order(seed: int = 0) -> Order:
    """Return the order by a hash of (seed, job id)."""
    return Order("random", codes.RANDOM, seed=seed)
