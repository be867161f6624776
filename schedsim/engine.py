"""What would the machine do? `simulate` runs a workload under a policy; `Simulation` can stop, branch and go on."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.errors import JobcastError
from schedsim.allocators import Allocator
from schedsim.corrections import correction_code
from schedsim.desk import Desk
from schedsim.estimates import Estimates, Outlook, Separate, Source
from schedsim.eventlog import EventLog
from schedsim.nodes import Nodes
from schedsim.outages import Outages
from schedsim.parts import check_parts
from schedsim.pauses import begin_outages, suppose, with_timer, write_policy, write_surroundings
from schedsim.policy import Policy
from schedsim.rules import Rules, rules_for
from schedsim.run_times import RunTimes
from schedsim.running import Running
from schedsim.schedule import Schedule
from schedsim.state import State
from schedsim.surroundings import Surroundings, allocator_for
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]
Setting = tuple[Allocator | None, RunTimes | None, bool, Rules | None, Outages | None]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a simulation; cheap to keep, valid for its workload only."""

    digest: str
    policy: Policy
    state: State
    log: EventLog
    handed: int
    source: Source
    told: int
    around: Surroundings | None
    desk: Desk | None
    setting: Setting


class Simulation(Running):
    """A simulation that can be run in steps, copied and continued.

    Parameters
    ----------
    workload : Workload
        Jobs and machine.
    policy : Policy
        See `make_policy`.
    estimates : int64 array of shape (n_jobs,), Forecast, Separate or Outlook
        What the scheduler believes, see `schedsim.estimates`; by default the requested times.
    correction : str
        What replaces an expired estimate, see `CORRECTIONS`.
    kill : bool
        Stop jobs at their requested time; else they run on, their estimate doubling.
    allocator : Allocator, optional
        Which nodes a job gets, see `schedsim.allocators`; without one, only numbers of processors count.
    world : RunTimes, optional
        How long started jobs really take, see `schedsim.run_times`; by default what the workload says. One that needs
        nodes comes with a scattering allocator, unless another is given.
    rules : Rules, optional
        Queues, dependencies, accounts and commands, see `schedsim.rules`; by default none.
    outages : Outages, optional
        What is reserved of the machine and which nodes fail, see `schedsim.outages`.

    Examples
    --------
    >>> from schedsim.policy import make_policy
    >>> w = Workload.from_columns([0, 1, 2, 3], submit=[0, 1, 2, 3], procs=[6, 8, 2, 2], requested=[10, 10, 8, 9],
    ...                           run_time=[10, 10, 8, 9], machine_procs=8)
    >>> simulation = Simulation(w, make_policy("easy"))
    >>> simulation.run(until=5)
    False
    >>> simulation.queued.tolist(), simulation.running.tolist()
    ([1, 3], [0, 2])
    >>> simulation.run()
    True
    >>> simulation.schedule().start.tolist()
    [0, 10, 2, 20]
    """

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        estimates: Estimates | Separate | Outlook | None = None,
        correction: str = "requested",
        kill: bool = True,
        allocator: Allocator | None = None,
        world: RunTimes | None = None,
        rules: Rules | None = None,
        outages: Outages | None = None,
    ) -> None:
        check_parts(workload, policy, kill, allocator, world, outages)
        self.workload = workload
        self.policy = policy
        self._source = Source.of(workload.requested if estimates is None else estimates, workload)
        self._refuse_outlook()
        columns = workload.machine_procs + 1 if policy.kind == "knapsack" else 0
        given, rules = rules, rules_for(policy, rules)
        self._jobs = workload.jobs if rules is None else rules.table(workload)
        cells = 0 if rules is None else len(rules.cells(workload))
        self._state = State.empty(columns, self._source.rungs, cells)
        self._log = EventLog.with_room(3 * len(workload))
        self._handed = self._told = 0
        self._closed = False
        self._seconds = 0.0
        self._allocator = allocator_for(allocator, world)
        self._outages = outages
        if rules is not None:
            rules.refuse_nodes(self._allocator, world)
        self._setting = self._allocator, world, kill, given, outages
        self._around = Surroundings.of(workload, policy, self._allocator, world, kill, outages)
        clock = self._state.clock
        clock[at.FREE] = clock[at.MACHINE] = workload.machine_procs
        clock[at.HEAD] = clock[at.ASKED] = -1
        clock[at.STALE] = 1
        clock[at.KILL] = kill
        clock[at.LAST_JOB] = len(workload)
        clock[at.ANSWER] = at.NOT_ANSWERED
        clock[at.CORRECTION] = correction_code(correction)
        write_policy(clock, policy)
        write_surroundings(clock, self._around)
        if self._around is not None:
            self._state = begin_outages(workload, self._jobs, self._state, self._log, self._around)
        self._write_source()
        self._desk = None
        if rules is not None:
            rules.write(self._state.clock, workload, policy)
            self._desk = Desk(rules, workload, self._jobs)
            self._state = self._desk.set_out(self._state)

    def _refuse_outlook(self) -> None:
        if self._source.outlook is not None and self.policy.kind == "compress":
            raise JobcastError(
                "conservative-compress keeps reservations by the estimates that they were made with: an outlook, which "
                "changes them, does not go with it; take conservative-replan or EASY."
            )

    def _write_source(self) -> None:
        """Write into the clock what kind of estimates there are."""
        clock, source = self._state.clock, self._source
        clock[at.SEVERAL] |= source.several
        clock[at.IN_LOOP] = source.in_loop
        clock[at.OUTLOOK] = source.outlook is not None
        clock[at.ANSWERS] = clock[at.ANSWERED] = 0

    def snapshot(self) -> Snapshot:
        """Return this moment, in time proportional to the live jobs.

        Raises
        ------
        JobcastError
            If a forecast is in the loop that cannot be copied: it has no method `fork`.
        """
        source, state = self._source.fork(), self._state.copy()
        around = None if self._around is None else self._around.fork()
        desk = None if self._desk is None else self._desk.fork()
        return Snapshot(
            self.workload.digest, self.policy, state, self._log, self._handed, source, self._told, around, desk,
            self._setting,
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a moment of this simulation, or of another one of the same workload and policy.

        Raises
        ------
        JobcastError
            If the snapshot is of another workload, policy, allocator, world, outages or rule about killing.
        """
        if snapshot.digest != self.workload.digest:
            raise JobcastError(f"This snapshot is not of {self.workload.name}: its jobs or machine differ.")
        if snapshot.policy != self.policy:
            raise JobcastError("This snapshot was taken under another policy; restore it under the same.")
        if snapshot.setting != self._setting:
            raise JobcastError(
                "This snapshot was taken with another allocator, world, rules, outages or rule about killing; take the "
                "same."
            )
        self._source = snapshot.source.fork()
        self._state, self._log, self._handed = snapshot.state.copy(), snapshot.log, snapshot.handed
        self._around = None if snapshot.around is None else snapshot.around.fork()
        self._told = snapshot.told
        self._desk = None if snapshot.desk is None else snapshot.desk.fork()
        self._branch_log()

    def fork(self, estimates: Estimates | Separate | Outlook | None = None) -> Self:
        """Return a copy that goes its own way, in time proportional to the live jobs.

        Parameters
        ----------
        estimates : optional
            What the copy believes of the jobs still to be submitted; by default the same, for which a forecast in the
            loop must have a method `fork`. A forecast given here is told first all that has happened so far, so give a
            fresh one. Memory is shared with the original: do not run both at once in threads.
        """
        new = copy.copy(self)
        new._source = self._source.fork() if estimates is None else Source.of(estimates, self.workload)
        new._refuse_outlook()
        new._around = None if self._around is None else self._around.fork()
        new._desk = None if self._desk is None else self._desk.fork()
        new._state = self._state.with_rungs(new._source.rungs)
        new._write_source()
        if estimates is not None:
            new._source.tell_past(self.events())
            new._handed = int(new._state.clock[at.LOGGED])
        new._branch_log()
        return new

    def close_submissions(self) -> None:
        """Let no further job be submitted or fail, no node fail or be repaired, and nobody command anything.

        All that is to come and not known yet. Jobs that then never start are no error.
        """
        self._closed = True
        self._state.clock[at.LAST_JOB] = self._state.clock[at.NEXT_JOB]
        if self._around is not None and self._around.failing is not None:
            self._around.failing.close()
        if self._desk is not None:
            self._jobs = self._jobs.copy()
            self._jobs[:, at.ENDS_BADLY] = 0
            self._jobs.flags.writeable = False  # as before: else the kernels are compiled once more
            self._desk.close(self._jobs)

    def suppose(self, run_times: Mapping[int, int]) -> None:
        """Let live jobs, by row, take so long [s], instead of what the workload says; for use in a fork.

        A running job ends after the present second at the earliest.
        """
        if self._around is not None and self._around.progress is not None:
            raise JobcastError("In a world that says how long jobs take, nothing else can be supposed.")
        suppose(self._state, self.workload.jobs, run_times)

    def add_timer(self, when: int, kind: int = at.RECHECK, argument: int = 0, wakes: bool = True) -> None:
        """Set a timer at a second after the present one; if it wakes, that is a scheduling instant."""
        self._state = with_timer(self._state, when, kind, argument, wakes)

    def nodes_by_identity(self) -> Nodes | None:
        """Return a copy of who has which nodes now, if the allocator decides by places."""
        if self._around is None or self._around.nodes is None or not self._around.nodes.by_identity:
            return None
        self._tell()
        return self._around.nodes.fork()


def simulate(
    workload: Workload,
    policy: Policy,
    estimates: Estimates | Separate | Outlook | None = None,
    correction: str = "requested",
    kill: bool = True,
    allocator: Allocator | None = None,
    world: RunTimes | None = None,
    rules: Rules | None = None,
    outages: Outages | None = None,
) -> Schedule:
    """Run a whole workload under a policy; parameters as of `Simulation`.

    Examples
    --------
    >>> from schedsim.policy import make_policy
    >>> w = Workload.from_columns([0, 1], submit=[0, 1], procs=[6, 8], requested=[10, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> simulate(w, make_policy("fcfs")).start.tolist()
    [0, 9]
    """
    simulation = Simulation(workload, policy, estimates, correction, kill, allocator, world, rules, outages)
    simulation.run()
    return simulation.schedule()
