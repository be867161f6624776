"""Protocol of run-time models: how long a job takes on a machine that may disturb it.

Without a model a job runs as long as the workload says. With one, that run time is its work: how long it takes on a
quiet machine. The engine reports starts and ends to the model. After each second with a start or end, and whenever the
model asks for it, the model says when the running jobs will end in the present state.

Ends are whole seconds, rounded up to the first second by which the work is done. With `kill=True` the engine stops a
job at its requested time, whatever the model says; `Schedule.killed` has these jobs.
"""

from typing import Protocol, Self

from predictors.core.arrays import Ints
from schedsim.machine.topology import Topology
from schedsim.workload.workload import Workload


class Progress(Protocol):
    """The running jobs of one simulation, at one moment; made by `RunTimes.begun`."""

    def advance(self, now: int) -> None:
        """Advance to `now` [s], with no start or end until then."""

    def started(self, row: int, nodes: Ints | None) -> None:
        """Take in the start of a job, by row, on these nodes if there is an allocator."""

    def ended(self, row: int) -> bool:
        """Take in the end of a job; return whether its work was done, not stopped."""

    def ends(self) -> tuple[Ints, Ints]:
        """Return rows, ascending, and their new ends [s], later than now; unchanged ones may be left out."""

    def next_step(self) -> int | None:
        """Return the second, later than now, by which the engine must ask the model again, or None."""

    def fork(self) -> Self:
        """Return an independent copy."""


class RunTimes(Protocol):
    """A model of run times: a value for any number of simulations."""

    @property
    def topology(self) -> Topology | None:
        """The machine on which jobs must be placed, or None if places do not matter."""

    @property
    def seed(self) -> int:
        """The seed of its random numbers, which also depend on job ids."""

    def begun(self, workload: Workload) -> Progress:
        """Return the state before the first second."""
