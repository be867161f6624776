"""RUSH's gate: it skips a job, up to a number of times, if a classifier expects its run to vary.

Algorithms 1 and 2 of Nichols et al. [1]_ on any order and any backfilling that asks gates. Read here as follows:

* It asks the classifier after the tentative placement, with its nodes; only classes in `labels` delay.
* A skipped job keeps its rank, holds no reservation, and its skip count grows by one. A pass tries it once.
* It asks again when a job ends, or when new counters have arrived: every `recheck` seconds of the simulation's clock,
  so that an idle machine does not wait without end. A submission changes nothing that the classifier sees: the job
  stays skipped, without a call and without a count. With `count_on="pass"` every pass asks and counts, as the algorithm
  is printed; while many jobs arrive, a job then uses up its skips in a minute or two.
* With `count_on="window"` patience is a time: the gate asks as often as before, but only the first skip and the first
  of each new window of counters (`window` seconds) count, whenever the job fits within the window. Asking again within
  a window gives no new evidence.
* After `threshold` skips it asks no more: the job starts if it fits, and is blocked like any other.
* An ask takes `ask_seconds`. Meanwhile as many nodes as the job needs stay idle for it: no job that needs them starts
  or leads to an ask. The answer is based on what was known, and on the nodes that were free, at the time of the ask. If
  the job cannot start when the answer comes, the gate asks again later. The model of run times keeps the asks under
  way, see `Asking`.

All decisions depend on the engine's state alone, so a simulation may be copied or set back. `Tally` counts all asks,
those of copies too.

.. [1] D. Nichols, A. Marathe, K. Shoga, T. Gamblin, A. Bhatele. Resource utilization aware job scheduling to mitigate
   performance variability. IPDPS 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from predictors.core.arrays import Ints, short_repr
from predictors.core.errors import JobcastError
from predictors.core.variation import CLASSES, NONE, VARIATION
from schedsim.policies.gates import Candidate, Verdict
from schedsim.policies.policy import Policy

THRESHOLD: Final = 10
RECHECK: Final = 60
LONGEST_RECHECK: Final = 86400
COUNT_ON: Final = ("release", "pass", "window")
COUNTER_WINDOW: Final = 300  # window over which counters are averaged [s]
LONGEST_ASK: Final = 3600

CountOn = Literal["release", "pass", "window"]


class Classifier(Protocol):
    """Predicts how much a run would vary."""

    def foresee(self, candidate: Candidate) -> str:
        """Return one of `CLASSES` for a job that would start now, on these nodes."""


class Ask(NamedTuple):
    """An ask under way."""

    until: int  # when its answer comes [s]
    label: str
    nodes: Ints  # the nodes that the job was to get, shape (k,)


@runtime_checkable
class Asking(Protocol):
    """A model of run times that keeps the asks under way, by row, and copies them when it is forked."""

    asks: dict[int, Ask]


@dataclass(eq=False)
class Tally:
    """What a gate was asked and did."""

    calls: int = 0  # how often the classifier was called
    skips: int = 0  # how often a job was skipped because of it
    met: int = 0  # jobs that started because they had been skipped as often as they may be


@dataclass(frozen=True, eq=False)
class Rush:
    """The gate of RUSH.

    >>> from schedsim.engine.simulation import simulate
    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> class Busy:
    ...     def foresee(self, candidate):
    ...         return "variation" if candidate.now < 100 else "none"
    >>> w = Workload.from_columns([1], submit=[0], procs=[4], requested=[50], run_time=[50], machine_procs=8)
    >>> policy = rush(make_policy("easy"), Busy())
    >>> simulate(w, policy).start.tolist(), policy.gate.tally
    ([120], Tally(calls=3, skips=2, met=0))
    """

    classifier: Classifier  # predicts how much a run would vary
    # how often a job may be skipped, for all or by row of the workload, shape (n_jobs,); 0: never
    threshold: int | Ints = THRESHOLD
    labels: Sequence[str] = (VARIATION,)  # classes that delay a job
    recheck: int = RECHECK  # time between new counters [s]
    # {"release", "pass", "window"}: when to ask about skipped jobs again: when a job ends or counters arrive, or at
    # every pass. "window" is like "release", but a job's skips count once per window of counters
    count_on: CountOn = "release"
    tally: Tally = field(default_factory=Tally)  # what was asked and done so far
    # how long a window of counters is, for `count_on="window"`; a multiple of `recheck` [s]
    window: int = COUNTER_WINDOW
    ask_seconds: int = 0  # how long an ask takes; 0: no time [s]

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if not _are_counts(self.threshold):
            raise JobcastError(
                "RUSH: a skip threshold must be a whole number, 0 or more, or an int64 array of one for each job; got "
                f"{self.threshold!r}."
            )
        if not (isinstance(self.recheck, int | np.integer) and 1 <= self.recheck <= LONGEST_RECHECK):
            raise JobcastError(
                f"RUSH: counters arrive every 1 s or more, up to {LONGEST_RECHECK}; got recheck={self.recheck!r}."
            )
        if self.count_on not in COUNT_ON:
            raise JobcastError(f"RUSH: count_on must be one of {', '.join(COUNT_ON)}; got {self.count_on!r}.")
        if self.count_on == "window" and not (_is_whole(self.window, 1) and self.window % self.recheck == 0):
            raise JobcastError(
                f"RUSH: a window of counters must be a multiple of recheck={self.recheck} s; got {self.window!r}."
            )
        if not (_is_whole(self.ask_seconds, 0) and self.ask_seconds <= LONGEST_ASK):
            raise JobcastError(f"RUSH: an ask takes 0 to {LONGEST_ASK} whole seconds; got {self.ask_seconds!r}.")
        if isinstance(self.labels, str) or not all(label in CLASSES for label in self.labels):
            raise JobcastError(f"RUSH: labels must be of {', '.join(CLASSES)}; got {self.labels!r}.")

    def ask(self, candidate: Candidate) -> Verdict:
        """Return whether the candidate may start now, see `schedsim.policies.gates.Gate`."""
        most, holds = self.most(candidate.row), candidate.holds
        if self.ask_seconds:
            busy = self._under_way(candidate)
            if busy is not None:
                return busy
        if holds >= most:
            self.tally.met += most > 0
            return Verdict(True, f"skipped {holds} times, as often as it may be")
        if self.count_on != "pass" and holds and not self._news(candidate):
            return Verdict(False, "nothing has ended and no new counters have come since it was skipped", counts=False)
        self.tally.calls += 1
        found = self.classifier.foresee(candidate)
        if found not in CLASSES:
            raise JobcastError(f"RUSH: the classifier must say one of {', '.join(CLASSES)}; it said {found!r}.")
        if not self.ask_seconds:
            return self._answered(candidate, found)
        assert candidate.nodes is not None
        _asks(candidate)[candidate.row] = Ask(candidate.now + self.ask_seconds, found, candidate.nodes)
        return Verdict(False, "its classifier has been asked", recheck=self.ask_seconds, counts=False)

    def _answered(self, candidate: Candidate, found: str) -> Verdict:
        if found not in self.labels:
            return Verdict(True)
        holds, most = candidate.holds, self.most(candidate.row)
        counts = self.count_on != "window" or self._in_new_window(candidate)
        self.tally.skips += counts
        until_counters = self.recheck - candidate.now % self.recheck
        why = f"RUSH foresees {found}: skip {holds + counts} of {most}"
        return Verdict(False, why, recheck=until_counters, counts=counts)

    def _under_way(self, candidate: Candidate) -> Verdict | None:
        """Return the verdict if an ask of the job has its answer or still runs, or if other asks need the nodes."""
        asks, now = _asks(candidate), candidate.now
        assert candidate.nodes is not None
        own = asks.get(candidate.row)
        if own is not None and now < own.until:
            return Verdict(False, "its classifier has not answered yet", recheck=own.until - now, counts=False)
        for row in [row for row, ask in asks.items() if ask.until < now or row == candidate.row]:
            del asks[row]  # its own, and answers that came when their jobs had no place: it asks for those again
        if own is not None and own.until == now:
            return self._answered(candidate, own.label)
        kept = sum(len(ask.nodes) for ask in asks.values())
        if not kept or candidate.free - kept >= len(candidate.nodes):
            return None
        soonest = min(ask.until for ask in asks.values())
        why = "the free nodes are kept for jobs that still wait for their classifier's answer"
        return Verdict(False, why, recheck=max(1, soonest - now), counts=False)

    def most(self, row: int) -> int:
        """Return how often a job, by row, may be skipped."""
        return int(self.threshold[row] if isinstance(self.threshold, np.ndarray) else self.threshold)

    def fresh(self) -> Self:
        return replace(self, tally=Tally())

    def _in_new_window(self, candidate: Candidate) -> bool:
        """Return whether this is a later window of counters than that of the job's last counted skip."""
        if candidate.held_at is None:
            return True
        last, asked = candidate.held_at - self.ask_seconds, candidate.now - self.ask_seconds
        return asked // self.window > last // self.window

    def _news(self, candidate: Candidate) -> bool:
        """Return whether something has changed for a skipped job: a job ended, or counters arrived."""
        return candidate.by_end or (candidate.by_timer and candidate.now % self.recheck == 0)


def rush(base: Policy, classifier: Classifier, *, threshold: int | Ints = THRESHOLD,
         labels: Sequence[str] = (VARIATION,), recheck: int = RECHECK,
         count_on: CountOn = "release", window: int = COUNTER_WINDOW, ask_seconds: int = 0) -> Policy:  # fmt: skip
    """Return a policy with RUSH's gate in front of it; parameters as of `Rush`."""
    if base.gate is not None:
        raise JobcastError("RUSH: the policy has a gate already; one gate a policy.")
    return replace(base, gate=Rush(classifier, threshold, labels, recheck, count_on, Tally(), window, ask_seconds))


def _asks(candidate: Candidate) -> dict[int, Ask]:
    if candidate.nodes is None or not isinstance(candidate.run_times, Asking):
        raise JobcastError(
            "RUSH: asks that take time need a machine with nodes and a model of run times that keeps them, such as "
            "schedsim.contention's ContentionModel; leave ask_seconds at 0."
        )
    return candidate.run_times.asks


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def _are_counts(threshold: object) -> bool:
    if isinstance(threshold, np.ndarray):
        return threshold.ndim == 1 and threshold.dtype.kind in "iu" and bool((threshold >= 0).all())
    return isinstance(threshold, int | np.integer) and not isinstance(threshold, bool) and int(threshold) >= 0


@dataclass(frozen=True, eq=False)
class Scripted:
    """Predicts variation until a job has been skipped `skips[row]` times, then none. For controls and tests.

    With the skips of another run dealt to other jobs, this makes exactly as many delays as that run had.
    """

    skips: Ints

    __repr__ = short_repr

    def foresee(self, candidate: Candidate) -> str:
        return VARIATION if candidate.holds < self.skips[candidate.row] else NONE
