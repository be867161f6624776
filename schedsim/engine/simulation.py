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
from schedsim.engine import learning
from schedsim.engine.commands import SiteCommands
from schedsim.engine.companions import Companions
from schedsim.engine.composition import check_parts, jobs_may_change, lists_groups, needs_estimates, traits_of
from schedsim.engine.look_ahead import rank_by_look_ahead
from schedsim.engine.machine_state import MachineState, allocator_for, failures_of
from schedsim.engine.placing import Placing
from schedsim.engine.requests import candidates_of, suppose, write_agent, write_policy
from schedsim.engine.state import EventLog, State, changes_of
from schedsim.kernels import dissolve_groups, list_singly, rank
from schedsim.kernels.corrections import correction_code
from schedsim.kernels.passes import conservative, easy, knapsack
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.reasons import Reasons, no_reasons
from schedsim.kernels.records import Arrays, Picker
from schedsim.machine.allocators import Allocator
from schedsim.machine.nodes import placed
from schedsim.machine.outages import Outages
from schedsim.machine.reserved_nodes import in_processors, reserving
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
from schedsim.workload.estimates import Estimates, PolledEstimates, RevisedEstimates, Separate, Source
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
        self._traits = traits_of(workload, self._allocator, run_times, rules, self._outages)
        self._refuse()
        sets = policy.backfill
        columns = sets.sums(workload.machine_procs, policy.window) if isinstance(sets, Knapsack) else 0
        groups = None if given is not None else self._source.groups(workload)
        n_groups = 0 if groups is None else len(groups[1])
        if groups is not None and policy.postpone is not None:  # those of postponed jobs stand behind
            groups = groups[0], np.tile(groups[1], 2)
        agent = None if policy.agent is None else AgentArrays.of(policy.agent, policy.window)
        changes = None
        if jobs_may_change(policy, self._source, rules):
            site = (None, None, None) if rules is None else (rules.table(workload), rules.node_sets(), rules.ledger())
            changes = changes_of(self._source.n_steps, groups, *site)
        self._companions = Companions(
            MachineState.of(workload, policy, self._allocator, run_times, kill, outages),
            Placing.of(workload),
            None if rules is None else SiteCommands(rules, workload),
            LoopsNow.of(policy, workload),
        )
        self._state = State.empty(workload.jobs, columns, changes, agent)
        self._log = EventLog.with_room(3 * len(workload))
        self._read_by_forecasts = 0
        self._closed = False
        self._reasons: Reasons | None = None
        self._seconds = 0.0
        self._setting = self._allocator, run_times, kill, given, outages
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
        self._companions.write(record)
        if groups is not None:
            record.queue.grouped, record.queue.n_groups = True, n_groups
            if lists_groups(policy, self.nodes is not None, outages):
                record.queue.candidates = at.GROUPED
                record.queue.finds_first = policy.order != FCFS
            record.queue.lists_estimates = record.queue.candidates != at.GROUPED and needs_estimates(policy)
        elif self._source.revised is not None:
            record.queue.by_row = policy.order != FCFS
        self._write_source()
        self._state = self._companions.begun(workload, policy, rules, self._state, self._log)

    def run(self, until: int | None = None) -> bool:
        """Go on to the end, or until all up to second `until` has happened; return whether the end is reached."""
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
            machine = self._companions.machine
            why = machine.why_held() if machine is not None else ""
            if self._companions.loops is not None:
                why += self._companions.loops.why_held(self.queued.tolist())
            raise JobcastError(
                f"{counted(self.queued.size, 'job')} held without end: nothing will wake the scheduler again.{why}"
            )
        if stop == at.FINISHED and self._companions.commands is not None:
            self._companions.commands.refuse_held(self._state)
        return stop == at.FINISHED

    def learn(self, learner: learning.Learner) -> None:
        """Tell a learner what the policy's network picks from now on; it may change the weights as picks come.

        The agent of the policy stays what it was: ask the learner for the weights. A fork does not learn.
        """
        if not isinstance(self.policy.agent, Dras):
            raise JobcastError(f"Only a Dras agent learns during a simulation; this one is {self.policy.agent!r}.")
        self._companions.learner = learner
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
        return () if self._companions.commands is None else tuple(self._companions.commands.ignored)

    @property
    def running(self) -> Ints:
        """Rows of the running jobs, by the time of their end."""
        return self._state.rows(at.ENDS)

    @property
    def picks(self) -> int:
        """How many jobs the policy's agent has picked so far."""
        return 0 if self._state.agent is None else int(self._state.picking.n_picks)

    @property
    def planned_ends(self) -> Ints:
        """When the running jobs end by their estimates [s], earliest first."""
        jobs = self._state.jobs_now[self._state.slots(at.RUNNING)]
        return np.asarray(jobs["start"] + jobs["current_estimate"])

    @property
    def run_times(self) -> Progress | None:
        """The state of the run-time model, if there is one."""
        return self._companions.run_times

    def events(self) -> Ints:
        """Return what has happened so far, rows (time, kind, job row), shape (n, 3)."""
        return self._log.read(int(self._state.record.clock.n_logged))[0]

    def schedule(self) -> Schedule:
        """Return the schedule of a finished simulation."""
        events, notes = self._log.read(int(self._state.record.clock.n_logged))
        outages, demands, along = self._outages, self.workload.demands, self._companions
        failing = along.failing
        nodes = None
        if self._allocator is not None:
            nodes = placed(self._allocator, self.workload, events, failures_of(outages, self._allocator, self.workload))
        stopped = None if self.run_times is None or along.machine is None else along.machine.stopped
        disturbed = None
        if outages is not None and (failing is not None or demands is not None):
            counted = outages if demands is None else in_processors(demands, outages)
            stopped_runs, dropped = ([], []) if failing is None else (failing.stopped, failing.dropped)
            disturbed = Disturbed.of(counted, stopped_runs, dropped, len(self.workload))
        workload = self.workload if along.commands is None else along.commands.altered(self.workload)
        placements = None
        if along.placing is not None:
            placements = along.placing.placements()
            nodes = placements.node_sets()
        preempted = None
        if along.loops is not None and self.policy.preempts:
            preempted = Preempted.of(along.loops.stops, along.loops.cancelled, len(workload))
            stopped = None if stopped is None else [row for row in stopped if not preempted.cancelled[row]]
        return Schedule.from_events(
            workload, events, notes, self._seconds, nodes, stopped, disturbed, placements, preempted
        )

    def snapshot(self) -> Snapshot:
        """Return this moment, in time proportional to the live jobs."""
        return Snapshot(self.fork())

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a moment of this simulation, or of another one of the same workload and policy."""
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

    def fork(
        self,
        # what the copy believes of the jobs still to be submitted; by default the same, for which a forecast in the
        # loop must have a method `fork`; a forecast given here first reads all that has happened so far, so give a
        # fresh one; memory is shared with the original: do not run both at once in threads
        estimates: Estimates | Separate | RevisedEstimates | None = None,
    ) -> Self:
        """Return an independent copy, in time proportional to the live jobs."""
        new = copy.copy(self)
        new._source = self._source.fork() if estimates is None else Source.of(estimates, self.workload)
        new._refuse()
        new._companions = self._companions.fork()
        new._state = self._state.with_steps(new._source.n_steps)
        if estimates is not None and new._state.record.queue.grouped:
            dissolve_groups(new._state.arrays(), candidates_of(self.policy))
        if new._source is not self._source:
            new._write_source()
        if estimates is not None:
            new._source.read_past(self.events())
            new._read_by_forecasts = int(new._state.record.clock.n_logged)
        if self._companions.learner is not None:
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
        new._companions.write(new._state.record)
        return new

    def submit_only(self, first: int, end: int) -> None:
        """Let the jobs of the rows `first` to `end` - 1 be submitted from now on, and no others."""
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
        return self._companions.nodes

    def settle(self, stop: int) -> None:
        """Do what a pause of a kernel asks for, but for a pick."""
        self._answer(stop)

    def close_submissions(self) -> None:
        """Let no further job be submitted or fail, no node fail or be repaired, and no command come.

        What is not known yet does not happen. Jobs that then never start are no error.
        """
        self._closed = True
        self._state.record.clock.end_of_submissions = self._state.record.clock.next_submission
        self._companions.close(self._state)

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

    def _list_singly(self) -> None:
        """Give each waiting job a place of its own in the lists, by its own estimates."""
        record = self._state.record
        if record.queue.candidates == at.GROUPED:
            list_singly(self._state.arrays(), candidates_of(self.policy))
        elif record.queue.grouped and not record.queue.lists_estimates:
            record.queue.lists_estimates = record.queue.outdated = True

    def _write_source(self) -> None:
        record, source = self._state.record, self._source
        record.rules.several_estimates |= source.several
        record.rules.in_loop = source.in_loop
        record.queue.revises = source.revised is not None
        record.queue.poll_every = source.revised.every if isinstance(source.revised, PolledEstimates) else 0
        if source.revised is not None:
            self._state.let_change()
        record.queue.n_revisions = record.queue.n_revised = 0

    def _run(self) -> int:
        kernel: Kernel = KERNELS[self.policy.kind]
        forecasts, revised = self._source.forecasts, self._source.revised
        polled = revised if isinstance(revised, PolledEstimates) else None
        while True:
            machine: tuple[Any, ...] = () if kernel is knapsack.run else (self.nodes,)
            if kernel is easy.run:
                machine += (self._state.agent,)
            elif self._companions.loops is not None:
                loops = self._companions.loops
                machine = (loops.arrays, self.nodes, loops.cycle, loops.preemption)
            state, events, answers = self._state, self._log.events, self._source.answers
            arguments = state.arrays(self._log), self._source.estimates, self._room_for_reasons(), *machine
            n_revisions, n_revised = state.one["queue"]["n_revisions"], state.one["queue"]["n_revised"]
            now, causes = state.one["clock"]["now"], state.one["clock"]["causes"]
            stop = kernel(*arguments)
            go_on = machine_code(kernel) if stop >= 0 else kernel
            while stop >= 0:
                fresh = events[self._read_by_forecasts : stop]
                for forecast, target in forecasts:
                    forecast.advance(fresh, target)
                if polled is not None and causes[0] & at.BY_POLL:
                    n_revisions[0], n_revised[0] = polled.poll(int(now[0]), fresh, answers), 0
                elif revised is not None:
                    n_revisions[0], n_revised[0] = revised.advance(fresh, answers), 0
                self._read_by_forecasts = stop
                stop = go_on(*arguments)
            if stop == at.FINISHED and self._companions.learner is not None and state.picking.n_choices > 0:
                self._companions.tell_learner(state)  # what is left of the last instants
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

    def _answer(self, stop: int) -> None:
        look_ahead, along = self.policy.order.look_ahead, self._companions
        if stop == at.GROW_JOBS:
            self._state = self._state.grown()
        elif stop == at.GROW_LOG:
            self._branch_log()
        elif stop == at.GROW_REVISIONS:
            self._source = self._source.grown()
        elif stop == at.ASK_ORDER and look_ahead is not None:
            rank_by_look_ahead(self._state, self._source.estimates, along.placing, look_ahead)
        else:
            self._state = along.answer(stop, self.workload, self.policy, self._state, self._log)

    def limit_on(self, row: int) -> str | None:
        """Return the limit that held a job when a pass last reached it, or None; see `schedsim.sites.slurm.limits`."""
        return None if self._companions.loops is None else self._companions.loops.limit_on(row)

    def _branch_log(self) -> None:
        """Continue in a new chunk of the log, leaving the old one to those who share it."""
        record = self._state.record
        used = int(record.clock.n_logged)
        by_forecasts = self._read_by_forecasts if self._source.in_loop else used
        done = min(by_forecasts, self._companions.read_up_to(used))
        room = 64 + 4 * (len(self._state.jobs_now) + int(record.clock.next_submission - record.clock.next_queued))
        self._log = self._log.continued(used, done, room)
        record.clock.n_logged = used - done
        self._read_by_forecasts = by_forecasts - done
        self._companions.drop(done, used)


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

    >>> from schedsim.policies.policy import make_policy
    >>> w = Workload.from_columns([0, 1], submit=[0, 1], procs=[6, 8], requested=[10, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> simulate(w, make_policy("fcfs")).start.tolist()
    [0, 9]
    """
    simulation = Simulation(workload, policy, estimates, correction, kill, allocator, run_times, rules, outages)
    simulation.run()
    return simulation.schedule()
