"""What can be seen of a simulation? Its time, its jobs, what happened, and in the end the schedule."""

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from schedsim.allocators import Allocator
from schedsim.commands import Command
from schedsim.desk import Desk
from schedsim.eventlog import EventLog
from schedsim.nodes import placed
from schedsim.outages import Outages
from schedsim.run_times import Progress
from schedsim.schedule import Disturbed, Schedule
from schedsim.state import State
from schedsim.surroundings import Surroundings, failing_of
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]


class View:
    """The part of `schedsim.engine.Simulation` that looks and changes nothing."""

    workload: Workload
    _state: State
    _log: EventLog
    _allocator: Allocator | None
    _around: Surroundings | None
    _desk: Desk | None
    _seconds: float
    _outages: Outages | None

    @property
    def now(self) -> int:
        """Time that the simulation has reached [s]."""
        return int(self._state.clock[at.NOW])

    @property
    def free(self) -> int:
        """Processors free."""
        return int(self._state.clock[at.FREE])

    @property
    def queued(self) -> Ints:
        """Rows of the waiting jobs, in the queue's order."""
        return self._state.rows(at.QUEUE)

    @property
    def postponed(self) -> Ints:
        """Rows of the jobs that are put off, in the order in which they would be backfilled when last sorted."""
        return self._state.rows(at.POSTPONED)

    @property
    def held(self) -> Ints:
        """Rows of the jobs that wait, but are held: by their user, for another job, or for an account."""
        slots = self._state.slots(at.KIN)
        return np.asarray(self._state.live[slots[self._state.live[slots, at.HOLD] != 0], at.ROW])

    @property
    def ignored(self) -> tuple[Command, ...]:
        """Commands so far that came when their job did not wait any more."""
        return () if self._desk is None else tuple(self._desk.ignored)

    @property
    def running(self) -> Ints:
        """Rows of the running jobs, by the time of their end."""
        return self._state.rows(at.ENDS)

    @property
    def planned_ends(self) -> Ints:
        """When the running jobs end by their estimates [s], earliest first."""
        live = self._state.live[self._state.slots(at.RUNNING)]
        return np.asarray(live[:, at.START] + live[:, at.ESTIMATE])

    @property
    def kills(self) -> int:
        """Jobs started so far that are stopped at their requested time; in a world, those stopped so far."""
        if self.world is not None and self._around is not None:
            return len(self._around.stopped)
        return int(self._state.clock[at.KILLS])

    @property
    def world(self) -> Progress | None:
        """The model of run times as it stands, if there is one."""
        return None if self._around is None else self._around.progress

    def struck(self, second: int) -> frozenset[int]:
        """Return the rows of the jobs that failures stopped at a second."""
        failing = None if self._around is None else self._around.failing
        return frozenset() if failing is None else frozenset(row for row, _, end in failing.stopped if end == second)

    def gone(self) -> frozenset[int]:
        """Return the rows of the jobs that failures stopped for good."""
        failing = None if self._around is None else self._around.failing
        return frozenset() if failing is None else frozenset(failing.dropped)

    def closed(self, second: int) -> int:
        """Return how many processors are reserved or down at the present second."""
        failing, machine = None if self._around is None else self._around.failing, self.workload.machine_procs
        if failing is None:
            return 0
        if failing.site is not None:
            return int(np.count_nonzero(failing.closed(second, second + 1) & failing.site.usable))
        seconds, levels = failing.outages.reserved(machine)
        reserved = np.concatenate([[0], levels])[np.searchsorted(seconds, second, side="right")]
        return len(failing.down) + int(reserved)

    def events(self) -> Ints:
        """Return what has happened so far, rows (time, kind, job row), shape (n, 3)."""
        return self._log.read(int(self._state.clock[at.LOGGED]))[0]

    def schedule(self) -> Schedule:
        """Return the schedule of a finished simulation."""
        events, notes = self._log.read(int(self._state.clock[at.LOGGED]))
        outages, machine = self._outages, self.workload.machine_procs
        nodes = None
        if self._allocator is not None:
            nodes = placed(self._allocator, self.workload, events, failing_of(outages, self._allocator, machine))
        stopped = None if self.world is None or self._around is None else self._around.stopped
        disturbed = None
        if outages is not None and self._around is not None and self._around.failing is not None:
            failing = self._around.failing
            disturbed = Disturbed.of(outages, failing.stopped, failing.dropped, len(self.workload))
        workload = self.workload if self._desk is None else self._desk.altered(self.workload)
        return Schedule.from_events(workload, events, notes, self._seconds, nodes, stopped, disturbed)
