"""The client's side of a pause: what the engine asks, answered by the policy's Python parts."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.errors import JobcastError
from schedsim._kernels_doors import clear, clears, insert
from schedsim.eventlog import EventLog
from schedsim.gates import Candidate, Choice, Verdict
from schedsim.orders import Order, Waiting
from schedsim.policy import Policy
from schedsim.postponing import most_in_use, share_of
from schedsim.state import State
from schedsim.surroundings import Surroundings
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]


def write_policy(clock: Ints, policy: Policy) -> None:
    """Write a policy into the clock, as codes."""
    second = policy.backfill_order
    clock[at.ORDER], clock[at.BACKFILL_ORDER] = policy.order.code, second.code
    clock[at.CANDIDATES] = at.QUEUE if second == policy.order else at.BACKFILL
    clock[at.DEPTH] = at.ALL if policy.depth is None else policy.depth
    if policy.kind == "greedy":
        clock[at.DEPTH] = at.GREEDY
    clock[at.PROMISES], clock[at.SLACK] = policy.promise, policy.promise_slack
    clock[at.LIMITED] = policy.promise
    clock[at.GATED] = policy.gate is not None
    clock[at.PICKED] = policy.agent is not None
    clock[at.SEED], clock[at.BACKFILL_SEED] = policy.order.seed, second.seed
    clock[at.WINDOW] = policy.window
    clock[at.N_CLASSES] = int(clock[at.MACHINE]).bit_length()
    clock[at.REWARD] = at.CAPACITY if policy.reward == "capacity" else at.CAPABILITY
    machine, off = int(clock[at.MACHINE]), policy.postpone
    clock[at.RESERVE], clock[at.EXEMPT] = (
        machine - most_in_use(policy.ceiling, machine),
        share_of(policy.ceiling, machine),
    )
    clock[at.PASSED_OVER] = policy.refused == "passed over"
    clock[at.POSTPONES] = off is not None
    if off is not None:
        clock[at.LEAD], clock[at.IDLE] = off.lead, share_of(off.low, machine)
        clock[at.LOOKS], clock[at.PUT_OFF_START] = at.BEFORE * off.before + at.AFTER * off.after, off.backfill


def write_surroundings(clock: Ints, surroundings: Surroundings | None) -> None:
    """Write into the clock what the engine must ask because of nodes or a model of run times."""
    if surroundings is None:
        return
    nodes, failing = surroundings.nodes, surroundings.failing
    clock[at.PLACED] = nodes is not None and nodes.by_identity
    clock[at.DATED] = failing is not None and nodes is None
    clock[at.LIMITED] |= clock[at.DATED]
    clock[at.FRAGILE] = failing is not None and bool(failing.outages.changes)
    clock[at.GATED] |= clock[at.PLACED]
    clock[at.WORLD] = surroundings.progress is not None
    if surroundings.progress is not None:
        clock[at.KILL] = 0  # the surroundings see to it


def answer(stop: int, workload: Workload, policy: Policy, state: State, around: Surroundings | None) -> State:
    """Answer a pause in the state; return the state, which may have moved."""
    clock = state.clock
    if stop == at.BAD_ESTIMATE:
        job, submitted = (int(column[clock[at.ASKED]]) for column in (workload.job_id, workload.submit))
        raise JobcastError(f"The forecast gave no number for job {job}, submitted at {submitted} s.")
    if stop == at.ASK_ORDER:
        _rank(workload, policy.order, state, at.QUEUE, at.KEY)
        if clock[at.CANDIDATES] == at.BACKFILL:
            _rank(workload, policy.backfill_order, state, at.BACKFILL, at.BACKFILL_KEY)
            _rank(workload, policy.backfill_order, state, at.POSTPONED, at.BACKFILL_KEY)
        else:
            _rank(workload, policy.order, state, at.POSTPONED, at.KEY)
        return state
    if stop == at.ASK_GATE:
        return _ask_gate(policy, state, around)
    if stop == at.ASK_SHADOW:
        assert around is not None
        clock[at.SHADOW] = around.shadow(state, int(state.live[clock[at.HEAD], at.ROW]))
        clock[at.EXTRA], clock[at.STALE] = at.NEVER, 0
    if stop == at.ASK_WORLD:
        assert around is not None
        step = around.settle(workload, state)
        return state if step is None else with_timer(state, step, at.STEP, 0, False)
    if stop == at.ASK_PICK:
        _ask_agent(policy, state)
    return state


def begin_outages(workload: Workload, jobs: Ints, state: State, log: EventLog, around: Surroundings) -> State:
    """Take what is reserved or down before the first second, and set the timers of what is to come."""
    if around.failing is None:
        return state
    first = around.change(jobs, state, log)
    if around.nodes is not None:
        return state if first is None else with_change(state, first)
    seconds, levels = around.failing.outages.reserved(workload.machine_procs)
    before = 0
    for second, level in zip(seconds.tolist(), levels.tolist(), strict=True):
        if second <= 0:
            state.clock[at.FREE] -= level - before
        elif level != before:
            state = with_timer(state, second, at.CALENDAR, level - before, level < before)
        before = level
    return state if first is None else with_change(state, first)


def with_change(state: State, when: int) -> State:
    """Set the timer of the next change of the machine."""
    return with_timer(state, when, at.CHANGE, 0, True)


def _rank(workload: Workload, order: Order, state: State, which: int, column: int) -> None:
    """Write the keys of a user's own order."""
    if order.function is None:
        return
    slots = state.slots(which)
    if not slots.size:
        return
    records = state.live[slots]
    row, now = records[:, at.ROW], int(state.clock[at.NOW])
    waiting = Waiting(
        now=now,
        row=row,
        wait=now - workload.submit[row],
        requested=records[:, at.LIMIT],
        estimate=records[:, at.RANKING],
        procs=records[:, at.WIDTH],
    )
    state.live[slots, column] = order.keys(waiting)


def _ask_gate(policy: Policy, state: State, around: Surroundings | None) -> State:
    clock, slot = state.clock, int(state.clock[at.ASKED])
    nodes = None
    if around is not None and around.nodes is not None:
        nodes = around.place(state, slot)
        if nodes is None or policy.gate is None:
            clock[at.ANSWER] = at.NO_PLACE if nodes is None else at.MAY_START
            return state
    assert policy.gate is not None
    verdict = policy.gate.ask(
        Candidate(
            row=int(state.live[slot, at.ROW]),
            now=int(clock[at.NOW]),
            free=int(clock[at.FREE]),
            holds=int(state.live[slot, at.HOLDS]),
            by_end=bool(clock[at.CAUSE] & at.BY_END),
            by_timer=bool(clock[at.CAUSE] & at.BY_TIMER),
            nodes=nodes,
            world=None if around is None else around.progress,
        )
    )
    if not (isinstance(verdict, Verdict) and isinstance(verdict.start, bool | np.bool_)):
        raise JobcastError(
            f"A gate must answer a Verdict whose start is True or False; it answered {verdict!r} at {clock[at.NOW]} s."
        )
    clock[at.ANSWER] = at.MAY_START if verdict.start else at.HELD
    if verdict.start:
        return state
    state.live[slot, at.HOLDS] += verdict.counts
    if verdict.recheck is None:
        return state
    return with_timer(state, int(clock[at.NOW]) + verdict.recheck, at.RECHECK, 0, True)


def _ask_agent(policy: Policy, state: State) -> None:
    assert policy.agent is not None
    clock, live, level = state.clock, state.live, int(state.clock[at.ASKED])
    slots = state.slots(at.QUEUE if level == 1 else int(clock[at.CANDIDATES]))
    if level == 2:
        width, ends = live[slots, at.WIDTH], clock[at.NOW] + live[slots, at.CANDIDATE]
        slots = slots[(width <= clock[at.FREE]) & ((ends <= clock[at.SHADOW]) | (width <= clock[at.EXTRA]))]
    if clock[at.DATED]:
        may = [clears(live, clock, state.plan, int(slot)) for slot in slots] if level == 2 else [True] * len(slots)
        slots = slots[np.array(may, dtype=np.bool_)]
        if not slots.size:
            clock[at.ANSWER] = -1
            return
    slots = slots[: policy.window]
    choice = Choice(int(clock[at.NOW]), int(clock[at.FREE]), live[slots, at.ROW], level)
    place = policy.agent.pick(choice)
    if place is not None and not 0 <= place < len(slots):
        raise JobcastError(f"The agent picked place {place} of {len(slots)} jobs at {choice.now} s.")
    clock[at.ANSWER] = -1 if place is None else slots[place]


def with_timer(state: State, when: int, kind: int, argument: int, wakes: bool) -> State:
    """Set a timer; return the state, which may have moved."""
    if when <= state.clock[at.NOW]:
        raise JobcastError(f"A timer must lie after the present {state.clock[at.NOW]} s; got {when}.")
    if len(state.slots(at.TIMERS)) >= len(state.live):
        state = state.grown()
    clock = state.clock
    clock[at.N_TIMERS] += 1
    insert(state.blocks, clock, at.TIMERS, when, int(clock[at.N_TIMERS]), kind, argument, int(wakes))
    return state


def suppose(state: State, jobs: Ints, run_times: Mapping[int, int]) -> None:
    """Set how long live jobs, by row, will have taken [s]; a running one ends after the present second."""
    clock, live = state.clock, state.live
    kin = state.slots(at.KIN)
    held = kin[live[kin, at.HOLD] != 0]
    for slot in (*state.slots(at.QUEUE), *state.slots(at.POSTPONED), *held):
        live[slot, at.RUN] = run_times.get(int(live[slot, at.ROW]), live[slot, at.RUN])
    running = state.slots(at.ENDS)
    clear(state.blocks, clock, at.ENDS)
    for slot in running:
        row, begun, width = (int(live[slot, column]) for column in (at.ROW, at.START, at.WIDTH))
        run_time = run_times.get(row, int(live[slot, at.END]) - begun)
        if row in run_times:
            live[slot, at.RUN] = max(1, run_time)
        if clock[at.KILL]:
            run_time = min(run_time, int(live[slot, at.LIMIT]))
        end = max(begun + run_time, int(clock[at.NOW]) + 1)
        live[slot, at.END] = end
        tie = begun * len(jobs) + int(jobs[row, at.RANK])
        insert(state.blocks, clock, at.ENDS, end, tie, int(slot), width, 0)
