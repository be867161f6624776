"""The protocol of gates: what the engine asks them, and what they answer."""

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
        How often a gate has held it, as counted by the verdicts.
    by_end, by_timer : bool
        Whether this instant has ends, or a timer that woke the scheduler; else only submissions.
    nodes : int64 array, optional
        The nodes that it would get, where there is an allocator; nothing is held until the verdict.
    run_times : Progress, optional
        The model of run times as of now, where there is one, see `schedsim.machine.run_times`.
    held_at : int, optional
        When a gate held it last, as counted by the verdicts [s]; None: never.
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
        Wake the scheduler in that many seconds, so that the job is asked again.
    counts : bool
        Whether a hold is counted (`Candidate.holds`).
    """

    start: bool
    reason: str = ""
    recheck: int | None = None
    counts: bool = True


class Gate(Protocol):
    """Something that may hold a job that could start.

    A held job keeps its rank, is not tried again within the pass, and holds no reservation; the pass goes on as if it
    were not there. A job that does not fit is not asked about.
    """

    def ask(self, candidate: Candidate) -> Verdict:
        """Return whether the candidate may start now."""
