"""The protocol of gates: the engine's questions, and their answers."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from predictors.core.arrays import Ints, short_repr
from schedsim.machine.run_times import Progress


@dataclass(frozen=True, eq=False)
class Candidate:
    """A job that the policy would start now."""

    row: int  # its row in the workload
    now: int  # time [s]
    free: int  # processors free now
    holds: int  # how often a gate has held it, where the verdict counts
    # by_end, by_timer: whether this instant has ends, or a timer woke the scheduler; else it has only submissions
    by_end: bool
    by_timer: bool
    # the nodes that it would get, where there is an allocator; it holds none until the verdict
    nodes: Ints | None = None
    # the model of run times as of now, where there is one, see `schedsim.machine.run_times`
    run_times: Progress | None = None
    held_at: int | None = None  # when a gate last held it, where the verdict counts [s]; None: never

    __repr__ = short_repr


class Verdict(NamedTuple):
    """A gate's answer."""

    start: bool
    reason: str = ""
    recheck: int | None = None  # wake the scheduler in that many seconds, to ask about the job again
    counts: bool = True  # whether a hold is counted (`Candidate.holds`)


class Gate(Protocol):
    """Decides whether a job that could start is held.

    A held job keeps its rank and holds no reservation; the pass does not try it again and continues as if it were not
    there. The engine does not ask about jobs that do not fit.
    """

    def ask(self, candidate: Candidate) -> Verdict:
        """Return whether the candidate may start now."""
