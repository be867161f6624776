"""The protocol of gates: the engine's questions, and their answers."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from predictors.core.arrays import Ints, short_repr
from schedsim.machine.run_times import Progress


@dataclass(frozen=True, eq=False)
class Candidate:
    """A job that the policy would start now.

    Parameters
    ----------
    row : int
        Its row in the workload.
    now : int
        Time [s].
    free : int
        Processors free now.
    holds : int
        How often a gate has held it, where the verdict counts.
    by_end, by_timer : bool
        Whether this instant has ends, or a timer woke the scheduler; else it has only submissions.
    nodes : int64 array, optional
        The nodes that it would get, where there is an allocator; it holds none until the verdict.
    run_times : Progress, optional
        The model of run times as of now, where there is one, see `schedsim.machine.run_times`.
    held_at : int, optional
        When a gate last held it, where the verdict counts [s]; None: never.
    """

    row: int
    now: int
    free: int
    holds: int
    by_end: bool
    by_timer: bool
    nodes: Ints | None = None
    run_times: Progress | None = None
    held_at: int | None = None

    __repr__ = short_repr


class Verdict(NamedTuple):
    """A gate's answer.

    Parameters
    ----------
    recheck : int, optional
        Wake the scheduler in that many seconds, to ask about the job again.
    counts : bool
        Whether a hold is counted (`Candidate.holds`).
    """

    start: bool
    reason: str = ""
    recheck: int | None = None
    counts: bool = True


class Gate(Protocol):
    """Decides whether a job that could start is held.

    A held job keeps its rank and holds no reservation; the pass does not try it again and continues as if it were not
    there. The engine does not ask about jobs that do not fit.
    """

    def ask(self, candidate: Candidate) -> Verdict:
        """Return whether the candidate may start now."""
