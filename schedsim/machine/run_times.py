"""Protocol of run-time models: how long a started job takes on a machine that may disturb it.

Without a model a job takes its run time from the workload. With one, that run time is its work: how long it takes on
a quiet machine. The engine tells the model what starts and ends, and after each second in which something
did, or in which the model wished to be asked, the model says when the running jobs end as things stand.

Ends are whole seconds: a job ends in the first second by which its work is done, fractions are rounded up. With
`kill=True` the engine stops a job at its requested time, whatever the model says; `Schedule.killed` tells which.
"""

from typing import Protocol, Self

from predictors.core.arrays import Ints
from schedsim.machine.topology import Topology
from schedsim.workload.workload import Workload


class Progress(Protocol):
    """The running jobs of one simulation, at one moment; made by `RunTimes.begun`."""

    def advance(self, now: int) -> None:
        """Go on to a second, `now` [s], with nothing starting or ending until then."""

    def started(self, row: int, nodes: Ints | None) -> None:
        """Take in that a job, by its row in the workload, starts now, on these nodes if there is an allocator."""

    def ended(self, row: int) -> bool:
        """Take in that a job ends now; return whether its work was done, or it was stopped."""

    def ends(self) -> tuple[Ints, Ints]:
        """Return rows, ascending, and their ends from now on [s], later than now; those that stay may be left out."""

    def next_step(self) -> int | None:
        """Return the second, later than now, by which the model must be asked again, if it must."""

    def fork(self) -> Self:
        """Return an independent copy."""


class RunTimes(Protocol):
    """A model of run times: a value, that may be used in any number of simulations."""

    @property
    def topology(self) -> Topology | None:
        """The machine on which jobs must be placed, or None if it does not matter where they lie."""

    @property
    def seed(self) -> int:
        """The seed of its random numbers, which depend on it and on job ids."""

    def begun(self, workload: Workload) -> Progress:
        """Return the state before the first second."""
