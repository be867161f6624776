"""Machine state in addition to the kernel's records: node allocation, run-time model, failures.

All three read the engine's events in their order, and answer when the engine pauses.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, RETURNED, STARTED
from schedsim.engine.placing import Placing
from schedsim.engine.state import EventLog, State
from schedsim.kernels.interrupt import interrupt, move_ends
from schedsim.machine.allocators import Allocator, Scattered
from schedsim.machine.failures import FailureProcess, Site, count_of
from schedsim.machine.nodes import Nodes
from schedsim.machine.outages import Outages, where
from schedsim.machine.run_times import Progress, RunTimes
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload


@dataclass(eq=False)
class MachineState:
    """The nodes and the progress of the running jobs."""

    nodes: Nodes | None  # the nodes of running jobs, where a gate, the allocator, the run times or failures need them
    progress: Progress | None  # state of the run-time model
    kill: bool  # whether jobs are stopped at their requested time
    step: int | None = None  # latest second of the next question to the run-time model [s]
    stopped: list[int] = field(default_factory=list)  # rows of the jobs stopped so far with work left
    failing: FailureProcess | None = None  # reservations and failures
    at_shadow: tuple[tuple[int, int], Bools] | None = None  # moment and nodes free at the shadow time
    closed: Bools | None = None  # nodes that are reserved or down, and do not count as free for that
    overrun: Bools | None = None  # nodes that are reserved, where a job still runs beyond its request

    @classmethod
    def of(
        cls,
        workload: Workload,
        policy: Policy,
        allocator: Allocator | None,
        run_times: RunTimes | None,
        kill: bool,
        outages: Outages | None = None,
    ) -> "MachineState | None":
        """Return the machine state of a simulation; None if it needs none."""
        failing = failures_of(outages, allocator, workload)
        needed = policy.gate is not None or (allocator is not None and allocator.by_identity)
        on_nodes = run_times is not None and run_times.topology is not None
        nodes = Nodes(allocator, workload) if allocator is not None and (needed or on_nodes or failing) else None
        if nodes is not None:
            nodes.failing = failing
        if nodes is None and run_times is None and failing is None:
            return None
        return cls(nodes, None if run_times is None else run_times.begun(workload), kill, failing=failing)

    def advance(self, events: Ints, now: int) -> None:
        """Read the events since the last call, and advance to now."""
        if self.progress is not None:
            self.progress.advance(now)
        for time, kind, row in events.tolist():
            if self.nodes is not None:
                self.nodes.now = time
            if kind == STARTED:
                given = None if self.nodes is None else self.nodes.start(row)
                if self.progress is not None:
                    self.progress.started(row, given)
            elif kind == ENDED:
                gone = self.failing is not None and row in self.failing.dropped
                if self.progress is not None and not self.progress.ended(row) and not gone:
                    self.stopped.append(row)
                if self.nodes is not None:
                    self.nodes.end(row)
            elif kind == RETURNED:
                if self.progress is not None:
                    self.progress.ended(row)
                if self.nodes is not None:
                    self.nodes.end(row)

    def change(self, state: State, log: EventLog, placing: Placing | None) -> int | None:
        """Apply the failures and repairs of now; return the second of the next change, or None."""
        assert self.failing is not None
        now, seconds = state.record.clock.now, self.failing.outages.seconds
        if placing is not None:
            self._change_places(state, log, placing, now)
        elif self.nodes is not None:
            self._change_nodes(state, log, now)
            seconds = self.failing.site.seconds if self.failing.site is not None else seconds
        else:
            for change in self.failing.due(now):
                for _ in range(count_of(change)):
                    self._change_count(state, log, change.kind == "fail")
        place = int(np.searchsorted(seconds, now + 1))
        return int(seconds[place]) if place < len(seconds) else None

    def _change_count(self, state: State, log: EventLog, fails: bool) -> None:
        """Fail or repair one node; numbers go through the nodes of the running jobs, by row, then the idle ones."""
        assert self.failing is not None
        record, down = state.record, self.failing.down
        if not fails:
            down.pop()
            record.queue.free += 1
        else:
            node = self.failing.draw(int(record.rules.machine_procs) - len(down))
            slots = state.slots(at.RUNNING)
            slots = slots[np.argsort(state.jobs_now["row"][slots])]
            place = int(np.searchsorted(np.cumsum(state.jobs_now["procs"][slots]), node, side="right"))
            if place < len(slots):
                self._interrupt(state, log, int(slots[place]))
            down.append(node)
            record.queue.free -= 1
        record.queue.stale = True

    def _change_places(self, state: State, log: EventLog, placing: Placing, now: int) -> None:
        """Close and open nodes of a machine file; a job on one that fails is stopped."""
        assert self.failing is not None
        before = self.failing.is_down
        self.failing.advance(now)
        after, slots = self.failing.is_down, state.slots(at.RUNNING)
        for slot in slots[placing.on(state.jobs_now["row"][slots], after & ~before)].tolist():
            self._interrupt(state, log, slot, placing)
        state.record.queue.free -= placing.change(after & ~before, before & ~after)
        state.record.queue.stale = True

    def _change_nodes(self, state: State, log: EventLog, now: int) -> None:
        """Close and open nodes where each node has a number."""
        assert self.failing is not None and self.nodes is not None
        record, self.nodes.now = state.record, now
        usable = self.nodes.allocator.topology.usable
        struck = set(self.nodes.on(np.array(self.failing.advance(now), dtype=np.int64)))
        for slot in state.slots(at.RUNNING).tolist():
            if int(state.jobs_now[slot].row) in struck:
                self._interrupt(state, log, slot)
        before = np.zeros_like(usable) if self.closed is None else self.closed
        free = self.nodes.free_once_ended(np.array(sorted(struck), dtype=np.int64))
        closed = self.failing.closed(now, now + 1) & usable
        self.closed, self.overrun = closed & (before | free), closed & ~(before | free)
        record.queue.free -= int(np.count_nonzero(self.closed)) - int(np.count_nonzero(before))
        record.queue.stale = True

    def close_overrun(self, state: State) -> None:
        """Stop counting reserved nodes as free once the jobs that ran on them beyond their requests have ended."""
        if self.overrun is None or self.closed is None or self.nodes is None or not self.overrun.any():
            return
        left = self.overrun & self.nodes.free
        state.record.queue.free -= int(np.count_nonzero(left))
        self.closed, self.overrun = self.closed | left, self.overrun & ~left

    def _interrupt(self, state: State, log: EventLog, slot: int, placing: Placing | None = None) -> None:
        assert self.failing is not None
        job = state.jobs_now[slot]
        row = int(job.row)
        again = self.failing.outages.interrupted == "requeue"
        self.failing.stopped.append((row, int(job.start), int(state.record.clock.now)))
        if not again:
            self.failing.dropped.append(row)
        interrupt(state.arrays(log), None if placing is None else placing.arrays, slot, again)

    def why_held(self) -> str:
        """Return a sentence on nodes that stay down, or an empty text."""
        down = 0 if self.failing is None else len(self.failing.down)
        return f" {down} nodes are down and never repaired; the jobs may ask for more than is left." if down else ""

    def settle(self, state: State) -> int | None:
        """Set the ends of the running jobs; return the second of the model's next step, or None if that is set."""
        assert self.progress is not None
        rows, ends = self.progress.ends()
        if rows.size:
            move_ends(state.arrays(), rows, ends, self.kill)
        now, step = int(state.record.clock.now), self.progress.next_step() if state.record.clock.n_running else None
        if step is None or (self.step is not None and now < self.step <= step):
            return None
        self.step = step
        return step

    def shadow(self, state: State, head: int) -> int:
        """Return the shadow time: the first planned end at which the head of the queue, by row, has a place."""
        assert self.nodes is not None
        slots = state.slots(at.RUNNING)
        ends = (state.jobs_now["start"] + state.jobs_now["current_estimate"])[slots]
        rows = state.jobs_now["row"][slots]
        now, site = int(state.record.clock.now), None if self.failing is None else self.failing.site
        if site is not None:
            ends = np.append(ends, site.ends[site.ends > now])
            rows = np.append(rows, np.full(len(ends) - len(rows), -1))
        self.nodes.now = now
        need, free, order = int(self.nodes.procs[head]), self.nodes.free.copy(), np.argsort(ends, kind="stable")
        count = int(np.count_nonzero(free))
        for i, (row, end) in enumerate(zip(rows[order].tolist(), ends[order].tolist(), strict=True), start=1):
            if row >= 0:
                free[self.nodes.held[row]] = True
                count += len(self.nodes.held[row])
            together = i < len(order) and ends[order[i]] == end
            if not together and count >= need and self.nodes.place(head, free, end) is not None:
                return int(end)
        if self.failing is not None and self.failing.down:
            return at.NEVER
        raise JobcastError(
            f"{type(self.nodes.allocator).__name__} has no place for job {self.nodes.job_id[head]} even on an "
            "empty machine; drop such jobs, or take another allocator."
        )

    def place(self, state: State, slot: int) -> Ints | None:
        """Return the nodes that a job would get now; None if it has no place."""
        assert self.nodes is not None
        self.nodes.now = int(state.record.clock.now)
        return self.nodes.place(int(state.jobs_now[slot].row))

    def takes_heads_place(self, state: State, slot: int, nodes: Ints) -> bool:
        """Return whether a job on these nodes would take the head's place at its shadow time."""
        assert self.nodes is not None
        job, record = state.jobs_now[slot], state.record
        head, shadow = int(record.queue.head), int(record.queue.shadow_time)
        if not self.nodes.by_identity or record.clock.phase != at.AT_BACKFILL or head < 0:
            return False
        if record.clock.now + job.candidate_estimate <= shadow:
            return False
        free = self._free_at_shadow(state, shadow).copy()
        free[nodes] = False
        return self.nodes.place(int(state.jobs_now[head].row), free, shadow) is None

    def _free_at_shadow(self, state: State, shadow: int) -> Bools:
        """Return the nodes free once the jobs that end by then have ended; the same until a job starts."""
        assert self.nodes is not None
        moment = int(state.record.clock.n_passes), int(state.record.clock.n_events)
        if self.at_shadow is None or self.at_shadow[0] != moment:
            running = state.slots(at.RUNNING)
            jobs = state.jobs_now[running]
            ended = jobs["start"] + jobs["current_estimate"] <= shadow
            self.at_shadow = moment, self.nodes.free_once_ended(jobs["row"][ended])
        return self.at_shadow[1]

    def fork(self) -> Self:
        nodes = None if self.nodes is None else self.nodes.fork()
        failing = self.failing.fork() if nodes is None and self.failing is not None else None
        return replace(
            self,
            nodes=nodes,
            progress=None if self.progress is None else self.progress.fork(),
            stopped=list(self.stopped),
            failing=failing if nodes is None else nodes.failing,
        )


def allocator_for(allocator: Allocator | None, run_times: RunTimes | None) -> Allocator | None:
    """Return the allocator given, else a scattering one where the run-time model needs nodes."""
    if run_times is None or run_times.topology is None:
        return allocator
    if allocator is None:
        return Scattered(run_times.topology, run_times.seed)
    if allocator.topology != run_times.topology:
        raise JobcastError(
            f"The allocator is for the machine {allocator.topology}, the model of run times for {run_times.topology}; "
            "give both the same topology."
        )
    return allocator


def failures_of(outages: Outages | None, allocator: Allocator | None, workload: Workload) -> FailureProcess | None:
    """Return the outages of a machine before its first second; None if there are none.

    Nodes of a machine file keep their own reservations.
    """
    if outages is None or not (outages.parts if workload.demands is None else outages.changes):
        return None
    if workload.demands is not None:
        failing = FailureProcess.of_nodes(outages, len(workload.demands.nodes))
    elif allocator is None:
        outages.check_machine(workload.machine_procs)
        if outages.by_name is not None:
            named = outages.by_name
            raise JobcastError(
                f"{where(named)}nodes are named, but this simulation counts processors: give it an allocator, such as "
                "first-fit, or numbers of nodes."
            )
        return FailureProcess(outages, workload.machine_procs)
    else:
        outages.check_machine(allocator.topology.nodes)
        failing = FailureProcess(outages, workload.machine_procs, Site.of(outages, allocator))
    if outages.changes:
        failing.fork().advance(outages.changes[-1].time)  # refuses what cannot be
    return failing
