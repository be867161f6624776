"""What did the scheduler see at one instant? The queue, the running jobs and the policy's memory, before its pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

import schedsim._kernels_layout as at
from schedsim._kernels_doors import next_tick
from schedsim._kernels_orders import UNICEP, WFP3, dynamic_key
from schedsim.desk import why_held
from schedsim.engine import Simulation
from schedsim.gates import Candidate, Gate, Verdict
from schedsim.nodes import Nodes
from schedsim.state import State
from schedsim.workload import Workload

NEVER: Final = at.NEVER


@dataclass(frozen=True)
class Queued:
    """A waiting job as a pass sees it; times and lengths in seconds.

    Parameters
    ----------
    row, procs, requested : int
        Its row in the workload, its processors, its request.
    running, candidate : int
        Its estimate, for planning with it once it runs and for asking whether it may start.
    key, backfill_key : int
        Its rank in the queue and among the candidates; smaller first, ties by row.
    instantaneous : bool
        Whether it ends in the second of its start.
    promise : int
        Its latest start as promised, or `NEVER`.
    planned : int
        The reservation that it keeps, or `NEVER`.
    due : int
        When it joins the queue at the latest, if it is put off as the instant begins; else `NEVER`.
    """

    row: int
    procs: int
    requested: int
    running: int
    candidate: int
    key: int
    backfill_key: int
    instantaneous: bool
    promise: int
    planned: int
    due: int = NEVER


@dataclass(frozen=True)
class Running:
    """A running job: its processors, and when it ends by its estimate and at the latest [s]."""

    procs: int
    end: int
    limit: int


@dataclass(frozen=True, eq=False)
class Shares:
    """What queues that may use a share of the machine have left before a pass.

    Parameters
    ----------
    left : mapping of int to int
        Processors that the jobs of a node set may still use.
    of : mapping of int to int
        The node set of each waiting job, by row; jobs of others are not named.
    ends : mapping of int to list of (end, processors)
        When by the estimates the running jobs of a set end [s].
    """

    left: Mapping[int, int]
    of: Mapping[int, int]
    ends: Mapping[int, list[tuple[int, int]]]


@dataclass(frozen=True, eq=False)
class Ground:
    """Which nodes are whose before a pass, and when the running jobs, by row, should give them back [s]."""

    nodes: Nodes
    planned: Mapping[int, int]


@dataclass(frozen=True)
class Instant:
    """One scheduling instant, just before its pass, and whom the engine then started.

    Parameters
    ----------
    now : int
        Time [s].
    free : int
        Processors free.
    queue : tuple of Queued
        In the queue's order.
    running : tuple of Running
        In no order.
    ended : bool
        Whether jobs ended at this instant.
    slack : int
        How much later than the shadow time by requested times a promise lies [s].
    verdicts : mapping
        What the gate answered, by row.
    started : frozenset of int
        Rows of the jobs that the engine started.
    ground : Ground, optional
        Where the allocator decides by places.
    put_off : tuple of Queued
        Jobs that are put off as the instant begins, those submitted at it included, in the backfill order.
    shares : Shares, optional
        Where queues may use a share of the machine.
    held : mapping of int to str
        Why jobs that are in no queue are held, by row.
    dated : bool
        Whether processors may be reserved or fail, and only their numbers count.
    dates : tuple of (second, processors)
        When more of the machine will be reserved, or less (negative).
    """

    now: int
    free: int
    queue: tuple[Queued, ...]
    running: tuple[Running, ...]
    ended: bool
    slack: int
    verdicts: Mapping[int, Verdict]
    started: frozenset[int]
    ground: Ground | None = None
    put_off: tuple[Queued, ...] = ()
    shares: Shares | None = None
    held: Mapping[int, str] = field(default_factory=dict)
    dated: bool = False
    dates: tuple[tuple[int, int], ...] = ()

    @property
    def candidates(self) -> list[Queued]:
        """The queue in the backfill order."""
        return sorted(self.queue, key=lambda job: (job.backfill_key, job.row))


@dataclass(eq=False)
class Recorded:
    """A gate that writes down what another answers."""

    gate: Gate
    answers: dict[int, Verdict] = field(default_factory=dict)

    def ask(self, candidate: Candidate) -> Verdict:
        """Ask the other gate."""
        self.answers[candidate.row] = verdict = self.gate.ask(candidate)
        return verdict


class Stepper:
    """Walks a simulation from one scheduling instant to the next and looks at those it is told to.

    Examples
    --------
    >>> from schedsim.policy import make_policy
    >>> from schedsim.workload import Workload
    >>> w = Workload.from_columns([1, 2], submit=[0, 1], procs=[6, 8], requested=[10, 10], run_time=[9, 10],
    ...                           machine_procs=8)
    >>> stepper = Stepper(Simulation(w, make_policy("easy")))
    >>> while (now := stepper.next_time()) is not None:
    ...     instant = stepper.look()
    ...     print(now, instant.free, [job.row for job in instant.queue], sorted(instant.started))
    0 8 [0] [0]
    1 2 [1] []
    9 8 [1] [1]
    19 8 [] []
    """

    def __init__(self, simulation: Simulation, recorded: Recorded | None = None) -> None:
        self.simulation = simulation
        self._recorded = recorded

    def next_time(self) -> int | None:
        """Return the second of the next instant, or None at the end.

        Timers that wake nobody are gone through, since they may move the ends of running jobs.
        """
        simulation = self.simulation
        while True:
            state, workload = simulation._state, simulation.workload
            times = [int(state.live[slot, at.END]) for slot in state.slots(at.ENDS)[:1]]
            if state.clock[at.NEXT_JOB] < state.clock[at.LAST_JOB]:
                times.append(int(workload.submit[state.clock[at.NEXT_JOB]]))
            clock = state.clock
            wakes, due = (state.entries(at.TIMERS, field) for field in (at.E_LENGTH, at.E_KEY))
            times += [int(key) for key in due[wakes == 1][:1]]
            time = min(times, default=None)
            if time is not None and clock[at.SCORED] == 1 and clock[at.N_QUEUED] > 0:
                time = int(next_tick(state.live, state.blocks, clock, time))
            asleep = [int(key) for key in due[wakes != 1][:1]]
            if time is None or not asleep or asleep[0] >= time:
                return time
            self.skip(asleep[0])

    def skip(self, until: int) -> None:
        """Go on to just after all that happens up to a second."""
        self.simulation.run(until=until)

    def look(self) -> Instant:
        """Go through the next instant and return what the scheduler saw.

        Raises
        ------
        ValueError
            If nothing is left to happen.
        """
        now = self.next_time()
        if now is None:
            raise ValueError("The simulation is at its end.")
        simulation = self.simulation
        before, nodes = simulation._state.copy(), simulation.nodes_by_identity()
        if self._recorded is not None:
            self._recorded.answers.clear()
        simulation.run(until=now)
        after = simulation._state
        struck = simulation.struck(now)
        held = {row: why_held(int(after.live[slot, at.HOLD])) for row, slot in _held(after).items()}
        waiting = [
            job
            for job in _waiting(before, after, simulation.workload, struck - simulation.gone())
            if job.row not in held
        ]
        left = frozenset(after.rows(at.QUEUE).tolist() + after.rows(at.POSTPONED).tolist())
        started = frozenset(job.row for job in waiting) - left
        queue = tuple(sorted((job for job in waiting if job.due == NEVER), key=lambda job: (job.key, job.row)))
        put_off = [job for job in waiting if job.due != NEVER]
        put_off.sort(key=lambda job: (job.backfill_key, job.row))
        running, ended = _running(before, after, now, struck)
        answers = {} if self._recorded is None else dict(self._recorded.answers)
        free = simulation.workload.machine_procs - sum(job.procs for job in running) - simulation.closed(now)
        slack = int(after.clock[at.SLACK])
        ground = None if nodes is None else _ground(nodes, before, after, now, struck)
        shares = _shares(before, after, now) if after.clock[at.N_SETS] else None
        dated = bool(after.clock[at.DATED])
        if dated:
            ended = ended or bool(_due_timers(before, now))
        return Instant(
            now,
            free,
            queue,
            running,
            ended,
            slack,
            answers,
            started,
            ground,
            tuple(put_off),
            shares,
            held,
            dated,
            _dates(after),
        )


def _due_timers(before: State, now: int) -> int:
    """Return how many timers woke the scheduler at this instant."""
    wakes, due = (before.entries(at.TIMERS, column) for column in (at.E_LENGTH, at.E_KEY))
    return int(np.count_nonzero((due == now) & (wakes == 1)))


def _dates(after: State) -> tuple[tuple[int, int], ...]:
    """Return when what is reserved of the machine will change, and by how much."""
    kind, when, more = (after.entries(at.TIMERS, column) for column in (at.E_SLOT, at.E_KEY, at.E_WIDTH))
    chosen = kind == at.CALENDAR
    return tuple(zip(when[chosen].tolist(), more[chosen].tolist(), strict=True))


def _held(state: State) -> dict[int, int]:
    """Return the records of the held jobs, by row."""
    slots = state.slots(at.KIN)
    slots = slots[state.live[slots, at.HOLD] != 0]
    return dict(zip(state.live[slots, at.ROW].tolist(), slots.tolist(), strict=True))


def _shares(before: State, after: State, now: int) -> Shares:
    """Return what the node sets have left before the pass, and who is of which."""
    running = before.slots(at.ENDS)
    running = running[before.live[running, at.END] > now]
    left, ends = {}, {}
    for number in range(int(after.clock[at.N_SETS])):
        cell = at.CELLS + at.SET_CELLS * number
        mine = after.live[running[after.live[running, at.SET] == cell]]
        left[cell] = int(after.clock[cell + at.SET_LIMIT] - mine[:, at.WIDTH].sum())
        planned = mine[:, at.START] + mine[:, at.ESTIMATE]
        ends[cell] = list(zip(planned.tolist(), mine[:, at.WIDTH].tolist(), strict=True))
    used = after.live[: after.clock[at.HIGH_SLOT]]
    of = {int(row): int(cell) for row, cell in used[:, [at.ROW, at.SET]] if cell >= 0}
    return Shares(left, of, ends)


def _waiting(before: State, after: State, workload: Workload, struck: frozenset[int]) -> list[Queued]:
    """Return the jobs that waited before this instant, those submitted at it, and those that a failure stopped.

    Estimates and keys are those of this instant, so they are read after it, also from records given back by then.
    """
    known = {
        row: slot
        for which in (at.QUEUE, at.POSTPONED)
        for row, slot in zip(before.rows(which).tolist(), before.slots(which).tolist(), strict=True)
    } | _held(before)
    fresh = {*range(int(before.clock[at.NEXT_QUEUED]), int(after.clock[at.NEXT_QUEUED])), *struck}
    used = after.live[: after.clock[at.HIGH_SLOT], at.ROW].tolist()
    place = known | ({row: slot for slot, row in enumerate(used) if row in fresh} if fresh else {})
    own_list, at_now = before.clock[at.CANDIDATES] == at.BACKFILL, int(after.clock[at.NOW])
    slots = np.fromiter(place.values(), dtype=np.int64, count=len(place))
    records = after.live[slots].tolist()
    earlier = before.live[[known.get(row, 0) for row in place]].tolist()
    due = {row: _due(after, workload, row) for row in place}
    return [
        Queued(
            row=row,
            procs=record[at.WIDTH],
            requested=record[at.LIMIT],
            running=record[at.ESTIMATE],
            candidate=record[at.CANDIDATE],
            key=_key(after, workload, record, at.ORDER, at.KEY),
            backfill_key=_key(after, workload, record, *(_OWN if own_list else (at.ORDER, at.KEY))),
            instantaneous=record[at.RUN] == 0,
            promise=memory[at.PROMISE] if row in known else NEVER,
            planned=memory[at.PLANNED] if row in known else NEVER,
            due=due[row] if (memory[at.DUE] != NEVER if row in known else True) and due[row] > at_now else NEVER,
        )
        for row, record, memory in zip(place, records, earlier, strict=True)
    ]


_OWN: Final = (at.BACKFILL_ORDER, at.BACKFILL_KEY)


def _due(after: State, workload: Workload, row: int) -> int:
    """Return when a job joins the queue at the latest, or -1 if it is not to be put off."""
    deadline = int(workload.jobs[row, at.DEADLINE])
    if not after.clock[at.POSTPONES] or deadline < 0:
        return -1
    return deadline - int(workload.requested[row]) - int(after.clock[at.LEAD])


def _key(after: State, workload: Workload, record: list[int], order: int, column: int) -> int:
    """Return a job's key now: those of jobs that are put off may not have been computed at this instant."""
    code = int(after.clock[order])
    if code not in (WFP3, UNICEP):
        return record[column]
    waited = int(after.clock[at.NOW]) - int(workload.submit[record[at.ROW]])
    return dynamic_key(code, waited, record[at.WIDTH], record[at.LIMIT])


def _ground(nodes: Nodes, before: State, after: State, now: int, struck: frozenset[int]) -> Ground:
    """Return the nodes as the pass finds them: those of jobs that end now are free."""
    slots = before.slots(at.ENDS)
    gone = (before.live[slots, at.END] <= now) | np.isin(before.live[slots, at.ROW], list(struck))
    nodes.now = now
    if nodes.failing is not None:
        nodes.failing.advance(now)
    for row in before.live[slots[gone], at.ROW].tolist():
        nodes.end(row)
    left = after.live[slots[~gone]]
    planned = left[:, at.START] + left[:, at.ESTIMATE]
    return Ground(nodes, dict(zip(left[:, at.ROW].tolist(), planned.tolist(), strict=True)))


def _running(
    before: State, after: State, now: int, struck: frozenset[int] = frozenset()
) -> tuple[tuple[Running, ...], bool]:
    """Return the running jobs as the pass sees them, their estimates corrected, and whether any ended now."""
    slots = before.slots(at.ENDS)
    left = slots[(before.live[slots, at.END] > now) & ~np.isin(before.live[slots, at.ROW], list(struck))]
    running = [
        Running(width, begun + estimate, begun + max(limit, estimate))
        for width, begun, estimate, limit in after.live[left][:, [at.WIDTH, at.START, at.ESTIMATE, at.LIMIT]].tolist()
    ]
    return tuple(running), len(left) < len(slots)
