"""Where do the running jobs lie, and when will they end? What accompanies a simulation beside the engine's own arrays.

Both are told by the engine's events, in their order, and answer at its pauses.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.errors import JobcastError
from predictors.data.events import ENDED, STARTED
from schedsim._kernels_world import move_ends
from schedsim.allocators import Allocator, Scattered
from schedsim.nodes import Nodes
from schedsim.policy import Policy
from schedsim.run_times import Progress, RunTimes
from schedsim.state import State
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]


@dataclass(eq=False)
class Surroundings:
    """The nodes and the progress of the running jobs.

    Parameters
    ----------
    nodes : Nodes, optional
        Who has which; kept up only where somebody asks.
    progress : Progress, optional
        Of the model of run times.
    kill : bool
        Whether jobs are stopped at their requested time.
    step : int, optional
        When the model is asked next, at the latest [s].
    stopped : list of int
        Rows of the jobs that were stopped so far, their work not done.
    """

    nodes: Nodes | None
    progress: Progress | None
    kill: bool
    step: int | None = None
    stopped: list[int] = field(default_factory=list)

    @classmethod
    def of(
        cls, workload: Workload, policy: Policy, allocator: Allocator | None, world: RunTimes | None, kill: bool
    ) -> "Surroundings | None":
        """Return what a simulation needs; None if it needs nothing.

        Raises
        ------
        JobcastError
            If allocator, world, policy and workload do not go together.
        """
        refuse_places(policy, allocator)
        asked = policy.gate is not None or (allocator is not None and allocator.by_identity)
        on_nodes = world is not None and world.topology is not None
        nodes = Nodes(allocator, workload) if allocator is not None and (asked or on_nodes) else None
        if nodes is None and world is None:
            return None
        return cls(nodes, None if world is None else world.begun(workload), kill)

    def take_in(self, events: Ints, now: int) -> None:
        """Take in what happened since the last time, up to now."""
        if self.progress is not None:
            self.progress.advance(now)
        for _, kind, row in events.tolist():
            if kind == STARTED:
                given = None if self.nodes is None else self.nodes.start(row)
                if self.progress is not None:
                    self.progress.started(row, given)
            elif kind == ENDED:
                if self.progress is not None and not self.progress.ended(row):
                    self.stopped.append(row)
                if self.nodes is not None:
                    self.nodes.end(row)

    def settle(self, workload: Workload, state: State) -> int | None:
        """Give the running jobs their ends; return the second of the model's next step, if it is to be set."""
        assert self.progress is not None
        clock = state.clock
        rows, ends = self.progress.ends()
        if rows.size:
            move_ends(workload.jobs, state.live, state.blocks, clock, rows, ends, self.kill)
        now, step = int(clock[at.NOW]), self.progress.next_step() if clock[at.N_RUNNING] else None
        if step is None or (self.step is not None and now < self.step <= step):
            return None
        self.step = step
        return step

    def shadow(self, state: State, head: int) -> int:
        """Return the first planned end at which the head of the queue, by row, has a place."""
        assert self.nodes is not None
        slots = state.slots(at.RUNNING)
        ends = state.live[slots, at.START] + state.live[slots, at.ESTIMATE]
        rows = state.live[slots, at.ROW]
        for end in np.unique(ends):
            if self.nodes.place(head, self.nodes.free_once_ended(rows[ends <= end])) is not None:
                return int(end)
        raise JobcastError(
            f"{type(self.nodes.allocator).__name__} has no place for job {self.nodes.job_id[head]} even on an "
            "empty machine; drop such jobs, or take another allocator."
        )

    def place(self, state: State, slot: int) -> Ints | None:
        """Return the nodes that a job would get now; None if it has no place, or would take the head's."""
        assert self.nodes is not None
        nodes = self.nodes.place(int(state.live[slot, at.ROW]))
        if nodes is None or not self.nodes.allocator.by_identity:
            return nodes
        clock, live = state.clock, state.live
        head, shadow = int(clock[at.HEAD]), int(clock[at.SHADOW])
        if clock[at.PHASE] != at.AT_BACKFILL or head < 0 or clock[at.NOW] + live[slot, at.CANDIDATE] <= shadow:
            return nodes
        running = state.slots(at.RUNNING)
        ended = live[running, at.START] + live[running, at.ESTIMATE] <= shadow
        free = self.nodes.free_once_ended(live[running[ended], at.ROW])
        free[nodes] = False
        return nodes if self.nodes.place(int(live[head, at.ROW]), free) is not None else None

    def fork(self) -> Self:
        """Return a copy that goes its own way."""
        return replace(
            self,
            nodes=None if self.nodes is None else self.nodes.fork(),
            progress=None if self.progress is None else self.progress.fork(),
            stopped=list(self.stopped),
        )


def allocator_for(allocator: Allocator | None, world: RunTimes | None) -> Allocator | None:
    """Return the allocator of a simulation: the one given, else the scattering one where a world needs nodes.

    Raises
    ------
    JobcastError
        If it is for another machine than the world's.
    """
    if world is None or world.topology is None:
        return allocator
    if allocator is None:
        return Scattered(world.topology, world.seed)
    if allocator.topology != world.topology:
        raise JobcastError(f"The allocator's machine, {allocator.topology}, is not the world's, {world.topology}.")
    return allocator


def refuse_places(policy: Policy, allocator: Allocator | None) -> None:
    """Refuse an allocator that decides who fits where a policy plans by counts.

    Raises
    ------
    JobcastError
        If they do not go together.
    """
    if allocator is None or not allocator.by_identity:
        return
    counted = policy.promise or policy.agent is not None or policy.is_ceil
    if policy.kind not in ("counts", "greedy") or counted:
        raise JobcastError(
            f"{type(allocator).__name__} decides by places, not by counts: it goes with no or one reservation or a "
            "greedy policy, without promises, agents, ceilings on utilisation and postponed jobs."
        )
