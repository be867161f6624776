"""The simulation of a machine: `simulate` runs a workload under a policy; `Simulation` can stop, branch and go on."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, counted
from predictors.core.jit import machine_code
from predictors.core.validation import check_part
from schedsim.engine import learning
from schedsim.engine.commands import SiteCommands
from schedsim.engine.look_ahead import rank_by_look_ahead
from schedsim.engine.machine_state import MachineState, allocator_for, failures_of
from schedsim.engine.placing import Placing
from schedsim.engine.requests import (
    answer,
    begin_outages,
    candidates_of,
    open_nodes,
    suppose,
    with_change,
    write_agent,
    write_machine_state,
    write_policy,
)
from schedsim.engine.state import EventLog, State, changes_of
from schedsim.kernels import dissolve_groups, list_singly, rank
from schedsim.kernels.corrections import correction_code
from schedsim.kernels.keys import FCFS as FIRST_COME
from schedsim.kernels.keys import RANDOM, UNICEP, WFP3, WIDEST
from schedsim.kernels.nodes.records import NodeArrays
from schedsim.kernels.passes import conservative, easy, knapsack
from schedsim.kernels.reasons import Reasons, no_reasons
from schedsim.kernels.records import Arrays, Picker
from schedsim.machine.allocators import Allocator
from schedsim.machine.failures import FailureProcess, first_runs
from schedsim.machine.node_groups import in_processors, reserving
from schedsim.machine.nodes import placed
from schedsim.machine.outages import Outages
from schedsim.machine.run_times import Progress, RunTimes
from schedsim.policies import traits
from schedsim.policies.agents import AgentArrays, ObservingAgent, Reserve
from schedsim.policies.backfilling import Knapsack, Pass
from schedsim.policies.networks import Dras
from schedsim.policies.policy import FCFS, Policy
from schedsim.policies.traits import refuse
from schedsim.results.schedule import Disturbed, Preempted, Schedule
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules, rules_for
from schedsim.sites.slurm import passes
from schedsim.sites.slurm.state import LoopsNow
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate, Source
from schedsim.workload.workload import Workload

Kernel = Callable[..., int]

KERNELS: Final[Mapping[Pass, Kernel]] = MappingProxyType(
    {
        "counts": easy.run,
        "greedy": easy.run,
        "profile": conservative.replan,
        "compress": conservative.compress,
        "knapsack": knapsack.run,
        "loops": passes.run,
    }
)

Setting = tuple[Allocator | None, RunTimes | None, bool, Rules | None, Outages | None]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a simulation, kept as a fork that never runs; cheap to keep."""

    simulation: "Simulation"


class Simulation:
    """A simulation that can be run in steps, copied and continued.

    Parameters
    ----------
    workload : Workload
        Jobs and machine.
    policy : Policy
        See `make_policy`.
    estimates : int64 array of shape (n_jobs,), Forecast, Separate or RevisedEstimates
        What the scheduler believes, see `schedsim.workload.estimates`; by default the requested times.
    correction : str
        What replaces an expired estimate, see `CORRECTIONS`.
    kill : bool
        Stop jobs at their requested time; else they run on, their estimate doubling.
    allocator : Allocator, optional
        Which nodes a job gets, see `schedsim.machine.allocators`; without one, only numbers of processors count.
    run_times : RunTimes, optional
        How long started jobs really take, see `schedsim.machine.run_times`; by default what the workload says. One that
        needs nodes comes with a scattering allocator, unless another is given.
    rules : Rules, optional
        Queues, dependencies, accounts and commands, see `schedsim.sites.cobalt.rules`; by default none.
    outages : Outages, optional
        What is reserved of the machine and which nodes fail, see `schedsim.machine.outages`.

    Examples
    --------
    >>> from schedsim.policies.policy import make_policy
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
        estimates: Estimates | Separate | RevisedEstimates | None = None,
        correction: str = "requested",
        kill: bool = True,
        allocator: Allocator | None = None,
        run_times: RunTimes | None = None,
        rules: Rules | None = None,
        outages: Outages | None = None,
    ) -> None:
        check_parts(workload, policy, kill, allocator, run_times, outages)
        if outages is not None and workload.demands is not None:
            workload = replace(workload, demands=reserving(workload.demands, outages))
        self.workload = workload
        self.policy = policy
        self._source = Source.of(workload.requested if estimates is None else estimates, workload)
        given, rules = rules, rules_for(policy, rules)
        self._allocator = allocator_for(allocator, run_times)
        self._outages = outages
        self._traits = _traits_of(workload, self._allocator, run_times, rules, self._outages)
        self._refuse()
        sets = policy.backfill
        columns = sets.sums(workload.machine_procs, policy.window) if isinstance(sets, Knapsack) else 0
        self._placing = Placing.of(workload)
        self._loops = LoopsNow.of(policy, workload)
        groups = None if given is not None else self._source.groups(workload)
        n_groups = 0 if groups is None else len(groups[1])
        if groups is not None and policy.postpone is not None:  # those of postponed jobs stand behind
            groups = groups[0], np.tile(groups[1], 2)
        agent = None if policy.agent is None else AgentArrays.of(policy.agent, policy.window)
        changes = None
        if self._jobs_may_change(rules):
            site = (None, None, None) if rules is None else (rules.table(workload), rules.node_sets(), rules.ledger())
            changes = changes_of(self._source.n_steps, groups, *site)
        self._state = State.empty(workload.jobs, columns, changes, agent)
        self._log = EventLog.with_room(3 * len(workload))
        self._read_by_forecasts = self._read_by_machine = 0
        self._returned: set[int] = set()  # rows of jobs that returned to the queue after forecasts had read their start
        self._closed = False
        self._reasons: Reasons | None = None
        self._learner: learning.Learner | None = None
        self._seconds = 0.0
        self._look_aheads = 0
        self._setting = self._allocator, run_times, kill, given, outages
        self._machine_state = MachineState.of(workload, policy, self._allocator, run_times, kill, outages)
        record = self._state.record
        record.queue.free = record.rules.machine_procs = workload.machine_procs
        record.clock.origin = workload.origin
        record.queue.head = record.clock.asked_about = record.queue.first_moved = -1
        record.queue.stale = True
        record.rules.kill = kill
        record.clock.end_of_submissions = len(workload)
        record.clock.answer = at.NOT_ANSWERED
        record.rules.correction = correction_code(correction)
        write_policy(record, policy)
        write_agent(self._state, policy)
        write_machine_state(record, self._machine_state)
        record.rules.restarts |= self._preempts
        if groups is not None:
            record.queue.grouped, record.queue.n_groups = True, n_groups
            if self._lists_groups(outages):
                record.queue.candidates = at.GROUPED
                record.queue.finds_first = policy.order != FCFS
            record.queue.lists_estimates = record.queue.candidates != at.GROUPED and _needs_estimates(policy)
        elif self._source.revised is not None:
            record.queue.by_row = policy.order != FCFS
        if self._machine_state is not None:
            self._state = begin_outages(workload, self._state, self._log, self._machine_state, self._placing)
        self._write_source()
        self._commands = None
        if self._placing is not None:
            record.queue.finds_first = False
            self._state = open_nodes(self._state, self._placing.arrays.windows)
        if rules is not None:
            record.queue.finds_first = False
            rules.write(self._state.record, policy)
            self._commands = SiteCommands(rules, workload)
            self._state = self._commands.set_out(self._state)

    def run(self, until: int | None = None) -> bool:
        """Go on to the end, or until all up to second `until` has happened; return whether the end is reached.

        Raises
        ------
        JobcastError
            If a forecast gives no number, a user's order or an agent answers wrongly, or waiting jobs can never start.
        """
        began = time.perf_counter()
        self._state.record.clock.until = at.NEVER - 1 if until is None else until
        try:
            stop = self._run()
        finally:
            self._seconds += time.perf_counter() - began
        if stop == at.REACHED:
            self._state.record.clock.now = max(self.now, until or 0)
        if stop == at.FINISHED and self._closed:
            return True
        if stop == at.FINISHED and self._state.record.queue.n_queued > 0:
            why = self._machine_state.why_held() if self._machine_state is not None else ""
            raise JobcastError(
                f"{counted(self.queued.size, 'job')} held without end: nothing will wake the scheduler again.{why}"
            )
        if stop == at.FINISHED and self._commands is not None:
            self._commands.refuse_held(self._state)
        return stop == at.FINISHED

    def learn(self, learner: learning.Learner) -> None:
        """Tell a learner what the policy's network picks from now on; it may change the weights as picks come.

        The agent of the policy stays what it was: ask the learner for the weights. A fork does not learn.

        Raises
        ------
        JobcastError
            If the policy's agent is no network of DRAS.
        """
        if not isinstance(self.policy.agent, Dras):
            raise JobcastError(f"Only a Dras agent learns during a simulation; this one is {self.policy.agent!r}.")
        self._learner = learner
        learning.begin(self._state, learner)

    @property
    def now(self) -> int:
        """Time that the simulation has reached [s]."""
        return int(self._state.record.clock.now)

    @property
    def free(self) -> int:
        """Processors free."""
        return int(self._state.record.queue.free)

    @property
    def queued(self) -> Ints:
        """Rows of the waiting jobs, in the queue's order."""
        if not self._state.record.queue.finds_first:
            return self._state.rows(at.QUEUE)
        return np.asarray(self._state.jobs_now["row"][self._state.scratch[: rank(self._state.arrays())]])

    @property
    def postponed(self) -> Ints:
        """Rows of the postponed jobs, in the order in which they would be backfilled when last sorted."""
        return self._state.rows(at.POSTPONED)

    @property
    def held(self) -> Ints:
        """Rows of the jobs that wait, but are held: by their user, for another job, or for an account."""
        jobs = self._state.jobs_now[self._state.slots(at.DEPENDANTS)]
        return np.asarray(jobs["row"][jobs["hold_reasons"] != 0])

    @property
    def ignored(self) -> tuple[Command, ...]:
        """Commands so far that came when their job did not wait any more."""
        return () if self._commands is None else tuple(self._commands.ignored)

    @property
    def running(self) -> Ints:
        """Rows of the running jobs, by the time of their end."""
        return self._state.rows(at.ENDS)

    @property
    def picks(self) -> int:
        """How many jobs the policy's agent has picked so far."""
        return 0 if self._state.agent is None else int(self._state.picking.n_picks)

    @property
    def look_aheads(self) -> int:
        """How often so far a look-ahead had to try its orders."""
        return self._look_aheads

    @property
    def planned_ends(self) -> Ints:
        """When the running jobs end by their estimates [s], earliest first."""
        jobs = self._state.jobs_now[self._state.slots(at.RUNNING)]
        return np.asarray(jobs["start"] + jobs["current_estimate"])

    @property
    def run_times(self) -> Progress | None:
        """The state of the run-time model, if there is one."""
        return None if self._machine_state is None else self._machine_state.progress

    @property
    def _preempts(self) -> bool:
        return self._loops is not None and self._loops.preemption is not None

    @property
    def _failing(self) -> FailureProcess | None:
        return None if self._machine_state is None else self._machine_state.failing

    def events(self) -> Ints:
        """Return what has happened so far, rows (time, kind, job row), shape (n, 3)."""
        return self._log.read(int(self._state.record.clock.n_logged))[0]

    def schedule(self) -> Schedule:
        """Return the schedule of a finished simulation."""
        events, notes = self._log.read(int(self._state.record.clock.n_logged))
        outages, demands, failing = self._outages, self.workload.demands, self._failing
        nodes = None
        if self._allocator is not None:
            nodes = placed(self._allocator, self.workload, events, failures_of(outages, self._allocator, self.workload))
        stopped = None if self.run_times is None or self._machine_state is None else self._machine_state.stopped
        disturbed = None
        if outages is not None and (failing is not None or demands is not None):
            counted = outages if demands is None else in_processors(demands, outages)
            stopped_runs, dropped = ([], []) if failing is None else (failing.stopped, failing.dropped)
            disturbed = Disturbed.of(counted, stopped_runs, dropped, len(self.workload))
        workload = self.workload if self._commands is None else self._commands.altered(self.workload)
        placements = None
        if self._placing is not None:
            placements = self._placing.placements()
            nodes = placements.node_sets()
        preempted = None
        if self._loops is not None and self.policy.preempts:
            preempted = Preempted.of(self._loops.stops, self._loops.cancelled, len(workload))
            stopped = None if stopped is None else [row for row in stopped if not preempted.cancelled[row]]
        return Schedule.from_events(
            workload, events, notes, self._seconds, nodes, stopped, disturbed, placements, preempted
        )

    def snapshot(self) -> Snapshot:
        """Return this moment, in time proportional to the live jobs.

        Raises
        ------
        JobcastError
            If a forecast is in the loop that cannot be copied: it has no method `fork`.
        """
        return Snapshot(self.fork())

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a moment of this simulation, or of another one of the same workload and policy.

        Raises
        ------
        JobcastError
            If the snapshot is of another workload, policy, allocator, run-time model, rules, outages or rule about
            killing.
        """
        kept = snapshot.simulation
        if kept.workload.digest != self.workload.digest:
            raise JobcastError(f"This snapshot is not of {self.workload.name}: its jobs or machine differ.")
        if kept.policy != self.policy:
            raise JobcastError("This snapshot was taken under another policy; restore it under the same.")
        if kept._setting != self._setting:
            raise JobcastError(
                "This snapshot was taken with another allocator, run-time model, rules, outages or rule about killing; "
                "take the same."
            )
        vars(self).update(vars(kept.fork()) | {"workload": self.workload})

    def fork(self, estimates: Estimates | Separate | RevisedEstimates | None = None) -> Self:
        """Return an independent copy, in time proportional to the live jobs.

        Parameters
        ----------
        estimates : optional
            What the copy believes of the jobs still to be submitted; by default the same, for which a forecast in the
            loop must have a method `fork`. A forecast given here first reads all that has happened so far, so give a
            fresh one. Memory is shared with the original: do not run both at once in threads.
        """
        new = copy.copy(self)
        new._source = self._source.fork() if estimates is None else Source.of(estimates, self.workload)
        new._refuse()
        new._machine_state = None if self._machine_state is None else self._machine_state.fork()
        new._commands = None if self._commands is None else self._commands.fork()
        new._placing = None if self._placing is None else self._placing.fork()
        new._loops = None if self._loops is None else self._loops.fork()
        new._returned = set(self._returned) if estimates is None else set()
        new._state = self._state.with_steps(new._source.n_steps)
        if estimates is not None and new._state.record.queue.grouped:
            dissolve_groups(new._state.arrays(), candidates_of(self.policy))
        if new._source is not self._source:
            new._write_source()
        if estimates is not None:
            new._source.read_past(new._for_forecasts(self.events()))
            new._read_by_forecasts = int(new._state.record.clock.n_logged)
        if new._learner is not None:
            new._learner = None
            learning.end(new._state)
        new._branch_log()
        return new

    def with_agent(self, agent: ObservingAgent, reserve: Reserve | None = None, window: int = 50) -> Self:
        """Return a fork in which an agent picks from now on, in place of the policy's orders."""
        new = self.fork()
        new.policy = replace(self.policy, agent=agent, reserve=reserve, window=window)
        new._refuse()
        new._list_singly()
        new._state.let_change()
        new._state.let_pick(AgentArrays.of(agent, window))
        write_policy(new._state.record, new.policy)
        write_agent(new._state, new.policy)
        write_machine_state(new._state.record, new._machine_state)
        return new

    def submit_only(self, first: int, end: int) -> None:
        """Let the jobs of the rows `first` to `end` - 1 be submitted from now on, and no others.

        Raises
        ------
        JobcastError
            If there are no such jobs, or one was submitted already.
        """
        record = self._state.record.clock
        if not record.next_submission <= first < end <= len(self.workload):
            raise JobcastError(
                f"{self.workload.name}: rows from {record.next_submission} up to {len(self.workload)} are still to be "
                f"submitted at {self.now} s; got {first} to {end}."
            )
        record.next_submission = record.next_queued = first
        record.end_of_submissions = end

    def arrays(self) -> tuple[Arrays, at.Estimates]:
        """Return the arrays as the kernels take them, for a client that calls these itself, and the estimates.

        They hold until something else is called.
        """
        return self._state.arrays(self._log), self._source.estimates

    @property
    def picker(self) -> Picker:
        """The arrays of the policy's agent, for such a client."""
        return self._state.picker

    @property
    def nodes(self) -> NodeArrays | None:
        """The arrays of the nodes, for such a client; None where jobs ask for processors alone."""
        return None if self._placing is None else self._placing.arrays

    def settle(self, stop: int) -> None:
        """Do what a pause of a kernel asks for, but for a pick."""
        self._answer(stop)

    def close_submissions(self) -> None:
        """Let no further job be submitted or fail, no node fail or be repaired, and no command come.

        What is not known yet does not happen. Jobs that then never start are no error.
        """
        self._closed = True
        self._state.record.clock.end_of_submissions = self._state.record.clock.next_submission
        if self._failing is not None:
            self._failing.close()
        if self._commands is not None:
            self._state.close_failures()
            self._commands.close()

    def suppose(self, run_times: Mapping[int, int]) -> None:
        """Let live jobs, by row, take so long [s], instead of what the workload says; for use in a fork.

        A running job ends after the present second at the earliest.
        """
        if self.run_times is not None:
            raise JobcastError("A model of run times says how long jobs take; leave it out to suppose other run times.")
        suppose(self._state, run_times)

    def _refuse(self) -> None:
        revised = {traits.REVISED} if self._source.revised is not None else set()
        refuse(self.policy.traits | self._traits | revised)

    def _jobs_may_change(self, rules: Rules | None) -> bool:
        """Return whether jobs may change while they wait, or the kernel is one that is compiled for this case alone.

        The pass of EASY is also compiled without what changes them, for its first run to begin soon.
        """
        policy, source = self.policy, self._source
        plain = policy.kind in ("counts", "greedy") and policy.agent is None
        by_time = max(policy.order.code, policy.backfill_order.code) >= WFP3
        return not plain or by_time or policy.postpone is not None or rules is not None or source.revised is not None

    def _lists_groups(self, outages: Outages | None) -> bool:
        """Return whether candidates for backfills are searched by group: then a revision costs nothing for each job.

        So it is under EASY, or none, where both orders leave jobs that are alike in the order of submission, and with
        several reservations first come, first served. Jobs that failures stop have estimates of their own.
        """
        policy = self.policy
        first_come, second = policy.order == FCFS, policy.backfill_order
        if policy.agent is not None or self._placing is not None or (outages is not None and outages.changes):
            return False
        if policy.kind == "profile":
            return first_come and second == FCFS and outages is None and policy.promise is None
        plain = policy.depth == 0 and first_come and policy.postpone is None  # then no estimate of a waiting job counts
        if policy.kind != "counts" or second.code >= WFP3 or second.code == RANDOM or plain:
            return False
        return first_come or (policy.order == second and policy.postpone is None)

    def _list_singly(self) -> None:
        """Give each waiting job a place of its own in the lists, by its own estimates."""
        record = self._state.record
        if record.queue.candidates == at.GROUPED:
            list_singly(self._state.arrays(), candidates_of(self.policy))
        elif record.queue.grouped and not record.queue.lists_estimates:
            record.queue.lists_estimates = record.queue.outdated = True

    def _write_source(self) -> None:
        """Write into the state what kind of estimates there are."""
        record, source = self._state.record, self._source
        record.rules.several_estimates |= source.several
        record.rules.in_loop = source.in_loop
        record.queue.revises = source.revised is not None
        if source.revised is not None:
            self._state.let_change()
        record.queue.n_revisions = record.queue.n_revised = 0

    def _run(self) -> int:
        kernel: Kernel = KERNELS[self.policy.kind]
        forecasts, revised = self._source.forecasts, self._source.revised
        while True:
            machine: tuple[Any, ...] = () if kernel is knapsack.run else (self.nodes,)
            if kernel is easy.run:
                machine += (self._state.agent,)
            elif self._loops is not None:
                machine = (self._loops.arrays, self.nodes, self._loops.cycle, self._loops.preemption)
            state, events, answers = self._state, self._log.events, self._source.answers
            arguments = state.arrays(self._log), self._source.estimates, self._room_for_reasons(), *machine
            n_revisions, n_revised = state.one["queue"]["n_revisions"], state.one["queue"]["n_revised"]
            stop = kernel(*arguments)
            go_on = machine_code(kernel) if stop >= 0 else kernel
            while stop >= 0:
                fresh = self._for_forecasts(events[self._read_by_forecasts : stop])
                for forecast, target in forecasts:
                    forecast.advance(fresh, target)
                if revised is not None:
                    n_revisions[0], n_revised[0] = revised.advance(fresh, answers), 0
                self._read_by_forecasts = stop
                stop = go_on(*arguments)
            if stop == at.FINISHED and self._learner is not None and state.picking.n_choices > 0:
                learning.tell(state, self._learner)  # what is left of the last instants
            if stop in (at.FINISHED, at.REACHED):
                return stop
            self._answer(stop)

    def run_noting(self, until: int) -> Reasons:
        """Go on like `run`; return what the passes note of each waiting job, see `schedsim.kernels.reasons`."""
        self._list_singly()
        self._state.let_change()
        self._reasons, self._state.record.queue.finds_first = no_reasons(0), False
        try:
            self.run(until)
            return self._reasons
        finally:
            self._reasons = None

    def _room_for_reasons(self) -> Reasons | None:
        """Return where the kernel is to note reasons, if it is to; what it has noted so far is kept."""
        slots = len(self._state.jobs_now)
        if self._reasons is not None and len(self._reasons) <= slots:
            room, n = no_reasons(slots), len(self._reasons) - 1
            room[:n], room[slots:] = self._reasons[:n], self._reasons[n:]
            self._reasons = room
        return self._reasons

    def _for_forecasts(self, events: Ints) -> Ints:
        """Return the events that forecasts read: all, but what follows when a job has returned to the queue."""
        return first_runs(events, self._returned) if self._state.record.rules.restarts else events

    def _change(self) -> None:
        """Let nodes fail, or be repaired."""
        assert self._machine_state is not None
        following = self._machine_state.change(self._state, self._log, self._placing)
        if following is not None:
            assert self._failing is not None
            self._state = with_change(self._state, following, self._failing)

    def _answer(self, stop: int) -> None:
        """Do what a pause asks for."""
        if stop == at.GROW_JOBS:
            self._state = self._state.grown()
        elif stop == at.GROW_LOG:
            self._branch_log()
        elif stop == at.GROW_SPOTS:
            assert self._placing is not None
            self._placing = self._placing.with_room_for_starts()
        elif stop == at.GROW_STOPS:
            assert self._loops is not None
            self._loops = self._loops.with_room_for_stops()
        elif stop == at.GROW_PLAN:
            assert self._placing is not None
            self._placing = self._placing.with_larger_plan()
            self._state.record.queue.profile_size = 0
        elif stop == at.GROW_REVISIONS:
            self._source = self._source.grown()
        elif stop == at.GROW_CHOICES:
            learning.make_room(self._state)
        elif stop == at.ASK_ORDER and self.policy.order.look_ahead is not None:
            look_ahead, estimates = self.policy.order.look_ahead, self._source.estimates
            self._look_aheads += rank_by_look_ahead(self._state, estimates, self._placing, look_ahead)
        elif stop == at.ASK_LEARNER:
            assert self._learner is not None
            learning.tell(self._state, self._learner)
        else:
            self._advance_machine()
            if stop == at.ASK_TIMER:
                self._act_on_timer()
                return
            self._state = answer(stop, self.workload, self.policy, self._state, self._machine_state, self._placing)

    def _act_on_timer(self) -> None:
        """Do what is due now; the pass takes no answer from it, as a gate or an agent gives one."""
        record = self._state.record
        kind = int(record.clock.asked_about)
        record.clock.asked_about, record.clock.answer = -1, at.NOT_ANSWERED
        if kind == at.CHANGE:
            self._change()
        else:
            assert self._commands is not None
            self._state = self._commands.act(self._state)

    def limit_on(self, row: int) -> str | None:
        """Return the limit that held a job when a pass last reached it, or None; see `schedsim.sites.slurm.limits`."""
        return None if self._loops is None else self._loops.limit_on(row)

    def _advance_machine(self) -> None:
        """Let the machine state read what has happened."""
        if self._machine_state is not None:
            used = int(self._state.record.clock.n_logged)
            self._machine_state.advance(self._log.events[self._read_by_machine : used], self.now)
            self._machine_state.close_overrun(self._state)
            self._read_by_machine = used

    def _branch_log(self) -> None:
        """Continue in a new chunk of the log, leaving the old one to those who share it."""
        record = self._state.record
        used = int(record.clock.n_logged)
        by_forecasts = self._read_by_forecasts if self._source.in_loop else used
        by_machine = self._read_by_machine if self._machine_state is not None else used
        by_order = used if self._loops is None else self._loops.read_up_to(used)
        done = min(by_forecasts, by_machine, by_order)
        room = 64 + 4 * (len(self._state.jobs_now) + int(record.clock.next_submission - record.clock.next_queued))
        self._log = self._log.continued(used, done, room)
        record.clock.n_logged = used - done
        self._read_by_forecasts, self._read_by_machine = by_forecasts - done, by_machine - done
        if self._loops is not None:
            self._loops.read(by_order - done)


def simulate(
    workload: Workload,
    policy: Policy,
    estimates: Estimates | Separate | RevisedEstimates | None = None,
    correction: str = "requested",
    kill: bool = True,
    allocator: Allocator | None = None,
    run_times: RunTimes | None = None,
    rules: Rules | None = None,
    outages: Outages | None = None,
) -> Schedule:
    """Run a whole workload under a policy; the parameters are those of `Simulation`.

    Examples
    --------
    >>> from schedsim.policies.policy import make_policy
    >>> w = Workload.from_columns([0, 1], submit=[0, 1], procs=[6, 8], requested=[10, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> simulate(w, make_policy("fcfs")).start.tolist()
    [0, 9]
    """
    simulation = Simulation(workload, policy, estimates, correction, kill, allocator, run_times, rules, outages)
    simulation.run()
    return simulation.schedule()


def _traits_of(
    workload: Workload,
    allocator: Allocator | None,
    run_times: RunTimes | None,
    rules: Rules | None,
    outages: Outages | None,
) -> frozenset[str]:
    """Return what of the parts of a simulation decides with which others they go."""
    demands, disturbed = workload.demands, outages is not None and bool(outages.parts)
    given = {
        traits.NODES: demands is not None,
        traits.ALLOCATOR: allocator is not None,
        traits.PLACES: allocator is not None and (allocator.by_identity or disturbed),
        traits.RUN_TIMES: run_times is not None,
        traits.OUTAGES: disturbed,
    }
    parts = frozenset(trait for trait, holds in given.items() if holds)
    return parts if rules is None else parts | rules.traits


def _needs_estimates(policy: Policy) -> bool:
    """Return whether the places of waiting jobs, or who is backfilled, follow from their estimates."""
    plain = policy.agent is None and policy.backfill_order == policy.order
    by_width = policy.order.code in (FIRST_COME, WIDEST, RANDOM, WFP3, UNICEP)
    return not (plain and by_width and (policy.kind == "greedy" or policy.depth == 0))


def check_parts(
    workload: Workload,
    policy: Policy,
    kill: bool,
    allocator: Allocator | None,
    run_times: RunTimes | None,
    outages: Outages | None,
) -> None:
    """Refuse names and other things in the place of parts.

    Raises
    ------
    JobcastError
        Naming what was given, and the way out.
    """
    if not isinstance(workload, Workload):
        raise JobcastError(f"{workload!r} is not a workload; make one with Workload.from_log or from_columns.")
    if not isinstance(policy, Policy):
        raise JobcastError(f"{policy!r} is not a policy; make one with schedsim.policies.policy.make_policy(NAME).")
    if not isinstance(kill, bool | np.bool_):
        raise JobcastError(f"kill is True or False; got {kill!r}.")
    allocators = "make one with schedsim.machine.partitions.allocator_named(NAME, NODES)"
    check_part(allocator, ("topology", "by_identity", "place"), "an allocator", allocators)
    check_part(run_times, ("topology", "seed", "begun"), "a model of run times", "see schedsim.machine.run_times")
    if isinstance(policy.agent, Dras):
        policy.agent.check_machine(workload.machine_procs, policy.window)
    if outages is not None and not isinstance(outages, Outages):
        raise JobcastError(
            f"{outages!r} are no outages; make them with schedsim.machine.outages.Outages or read_outages(FILE)."
        )
