"""The client's side of a pause: the policy's Python parts answer what the engine asks."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import schedsim.kernels.records as at
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from schedsim.engine.machine_state import MachineState
from schedsim.engine.placing import Placing
from schedsim.engine.state import EventLog, State
from schedsim.kernels import answer_place, renew_ends, set_timer
from schedsim.kernels.keys import UNICEP, WFP3
from schedsim.kernels.records import State as Record
from schedsim.machine.failures import FailureProcess
from schedsim.policies.agents import RESERVES, Choice, Observation, RandomPicks, code_of
from schedsim.policies.backfilling import REWARDS, Knapsack, Promise
from schedsim.policies.ceil import most_in_use, share_of
from schedsim.policies.gates import Candidate, Verdict
from schedsim.policies.networks import ACTIVATIONS, Dras, Shared
from schedsim.policies.orders import Order, Priority, Waiting
from schedsim.policies.policy import Policy
from schedsim.workload.workload import Workload


def candidates_of(policy: Policy) -> int:
    return at.QUEUE if policy.backfill_order == policy.order else at.BACKFILL


def write_policy(record: Record, policy: Policy) -> None:
    """Write a policy into the state of a simulation, as codes."""
    second, machine, postpone = policy.backfill_order, int(record.rules.machine_procs), policy.postpone
    record.rules.order = policy.order.code
    record.queue.finds_first = _only_first_counts(policy)
    record.rules.seed = policy.order.seed
    record.rules.backfill_order = second.code
    record.rules.backfill_seed = second.seed
    record.queue.candidates = record.rules.candidate_kind = candidates_of(policy)
    record.rules.depth = at.ALL if policy.depth is None else policy.depth
    if policy.kind == "greedy":
        record.rules.depth = at.GREEDY
    record.rules.promises = record.rules.keeps_limits = policy.promise is not None
    promise = policy.promise or Promise()
    record.rules.promise_slack, record.rules.promise_growth = promise.slack, promise.growth
    record.rules.least_slack, record.rules.most_slack = promise.least, promise.most
    record.rules.keeps_head = promise.kept
    priority = policy.order.priority or second.priority or Priority()
    record.rules.head_start, record.rules.estimate_weight = priority.head_start, priority.estimate
    record.rules.procs_weight, record.rules.share = priority.procs, priority.share
    record.rules.grace = math.inf if priority.grace is None else priority.grace
    record.rules.gated = policy.gate is not None
    record.rules.window = policy.window
    record.queue.n_classes = machine.bit_length()
    record.rules.reward = REWARDS[policy.backfill.reward] if isinstance(policy.backfill, Knapsack) else at.CAPABILITY
    record.rules.exempt_from = machine
    if policy.ceiling is not None:
        record.rules.exempt_only = machine - most_in_use(policy.ceiling.share, machine)
        record.rules.exempt_from = share_of(policy.ceiling.share, machine)
        record.rules.passes_over = policy.ceiling.refused == "passed over"
    record.rules.release_lead = at.NEVER
    if postpone is not None:
        record.rules.release_lead = postpone.lead
        record.rules.idle_below = share_of(postpone.low, machine)
        record.rules.release_looks = at.BEFORE * postpone.before + at.AFTER * postpone.after
        record.rules.backfills_postponed = postpone.backfill


def write_agent(state: State, policy: Policy) -> None:
    """Write the policy's agent, if it has one, into the state of a simulation."""
    agent: Any = policy.agent
    if agent is None:
        return
    one = state.picking
    one.kind = code_of(agent)
    one.reserve = RESERVES[policy.reserve or "kept"]
    if isinstance(agent, RandomPicks | Dras):
        one.seed = agent.seed
    if isinstance(agent, Shared):
        one.activation = ACTIVATIONS[agent.activation]
    if isinstance(agent, Dras):
        one.by_value = agent.shape.kind == "dql"
        one.is_drawn, one.is_raw = bool(agent.drawn), agent.raw
        one.explore, one.is_permuted = agent.explore, agent.permuted


def _only_first_counts(policy: Policy) -> bool:
    """Return whether only the first job of the queue matters, under an order that changes with time."""
    order, plain = policy.order.code, policy.agent is None and policy.gate is None and not policy.is_ceil
    return order in (WFP3, UNICEP) and policy.kind == "counts" and policy.depth == 0 and plain


def write_machine_state(record: Record, machine_state: MachineState | None) -> None:
    """Write into the state which questions nodes or a model of run times require."""
    if machine_state is None:
        return
    nodes, failing = machine_state.nodes, machine_state.failing
    record.queue.finds_first = False
    record.rules.placed = nodes is not None and nodes.by_identity
    record.rules.dated = failing is not None and failing.site is None
    record.rules.keeps_limits |= record.rules.dated
    record.rules.restarts = failing is not None and bool(failing.outages.changes)
    record.rules.gated |= record.rules.placed
    record.rules.asks_ends = machine_state.progress is not None
    if machine_state.progress is not None:
        record.rules.kill = False  # the machine state stops jobs at their requested time


def answer(
    stop: int,
    workload: Workload,
    policy: Policy,
    state: State,
    machine_state: MachineState | None,
    placing: Placing | None,
) -> State:
    """Answer a pause in the state; return the state, which may have moved."""
    record = state.record
    if stop == at.BAD_ESTIMATE:
        job, submitted = (int(column[record.clock.asked_about]) for column in (workload.job_id, workload.submit))
        raise JobcastError(f"The forecast gave no number for job {job}, submitted at {submitted} s.")
    if stop == at.ASK_ORDER:
        _rank(workload, policy.order, state, at.QUEUE, at.QUEUE)
        if record.queue.candidates == at.BACKFILL:
            _rank(workload, policy.backfill_order, state, at.BACKFILL, at.BACKFILL)
            _rank(workload, policy.backfill_order, state, at.POSTPONED, at.BACKFILL)
        else:
            _rank(workload, policy.order, state, at.POSTPONED, at.QUEUE)
        return state
    if stop == at.ASK_GATE:
        return _ask_gate(policy, state, machine_state, placing)
    if stop == at.ASK_SHADOW:
        assert machine_state is not None
        record.queue.shadow_time = machine_state.shadow(state, int(state.jobs_now[record.queue.head].row))
        record.queue.extra_procs = at.NEVER
        record.queue.stale = False
    if stop == at.ASK_ENDS:
        assert machine_state is not None
        step = machine_state.settle(state)
        return state if step is None else with_timer(state, step, at.STEP, 0, False)
    if stop == at.ASK_PICK and state.picking.kind == at.ENCODED:
        _show_agent(policy, state)
    elif stop == at.ASK_PICK:
        _ask_agent(policy, state)
    return state


def begin_outages(
    workload: Workload, state: State, log: EventLog, machine_state: MachineState, placing: Placing | None
) -> State:
    """Apply reservations and failures before the first second, and set the timers of later ones."""
    if machine_state.failing is None:
        return state
    first = machine_state.change(state, log, placing)
    if machine_state.failing.site is not None:
        return state if first is None else with_change(state, first, machine_state.failing)
    seconds, levels = machine_state.failing.outages.reserved(workload.machine_procs)
    before = 0
    for second, level in zip(seconds.tolist(), levels.tolist(), strict=True):
        if second <= 0:
            state.record.queue.free -= level - before
        elif level != before:
            state = with_timer(state, second, at.CALENDAR, level - before, level < before)
        before = level
    return state if first is None else with_change(state, first, machine_state.failing)


def open_nodes(state: State, windows: Ints) -> State:
    """Set the timers of the ends of reservations of nodes: each is an instant."""
    for second in np.unique(windows[:, 1]).tolist() if len(windows) else ():
        if second > 0:
            state = with_timer(state, second, at.CALENDAR, 0, True)
    return state


def with_change(state: State, when: int, failing: FailureProcess) -> State:
    return with_timer(state, when, at.CHANGE, 0, failing.wakes(when))


def _rank(workload: Workload, order: Order, state: State, which: int, kind: int) -> None:
    """Write the keys of a user's own order, of the kind QUEUE or BACKFILL, for the jobs of a list."""
    if order.function is None:
        return
    slots = state.slots(which)
    if not slots.size:
        return
    jobs, now = state.jobs_now[slots], int(state.record.clock.now)
    row = jobs["row"]
    waiting = Waiting(
        now=now,
        row=row,
        wait=now - workload.submit[row],
        requested=jobs["requested_time"],
        estimate=jobs["order_estimate"],
        procs=jobs["procs"],
    )
    state.jobs_now["keys"][slots, kind] = order.keys(waiting)


def _ask_gate(policy: Policy, state: State, machine_state: MachineState | None, placing: Placing | None) -> State:
    record, slot = state.record, int(state.record.clock.asked_about)
    job = state.jobs_now[slot]
    nodes = None if placing is None else placing.found
    if machine_state is not None and machine_state.nodes is not None:
        nodes = machine_state.place(state, slot)
        taken = nodes is not None and machine_state.takes_heads_place(state, slot, nodes)
        if nodes is None or taken or policy.gate is None:
            record.clock.answer = at.NO_PLACE if nodes is None else at.HEADS_PLACE if taken else at.MAY_START
            return state
    assert policy.gate is not None
    verdict = policy.gate.ask(
        Candidate(
            row=int(job.row),
            now=int(record.clock.now),
            free=int(record.queue.free),
            holds=int(job.times_held),
            held_at=state.held_at.get(int(job.row)),
            by_end=bool(record.clock.causes & at.BY_END),
            by_timer=bool(record.clock.causes & at.BY_TIMER),
            nodes=nodes,
            run_times=None if machine_state is None else machine_state.progress,
        )
    )
    if not (isinstance(verdict, Verdict) and isinstance(verdict.start, bool | np.bool_)):
        raise JobcastError(
            f"A gate must answer a Verdict whose start is True or False; it answered {verdict!r} "
            f"at {record.clock.now} s."
        )
    record.clock.answer = at.MAY_START if verdict.start else at.HELD
    if verdict.start:
        state.held_at.pop(int(job.row), None)
        return state
    if verdict.counts:
        job.times_held += 1
        state.held_at[int(job.row)] = int(record.clock.now)
    if verdict.recheck is None:
        return state
    return with_timer(state, int(record.clock.now) + verdict.recheck, at.RECHECK, 0, True)


def _ask_agent(policy: Policy, state: State) -> None:
    agent: Any = policy.agent
    record = state.record
    slots = state.scratch[: record.clock.picked_of].copy()
    choice = Choice(
        int(record.clock.now), int(record.queue.free), state.jobs_now["row"][slots], int(record.clock.asked_about)
    )
    place = agent.pick(choice)
    if place is not None:
        _check_place(place, len(slots), choice.now, ", or None")
    record.clock.answer = -1 if place is None else slots[place]
    record.clock.picked_place, record.clock.picked_score = 0 if place is None else place + 1, np.nan


def _show_agent(policy: Policy, state: State) -> None:
    agent: Any = policy.agent
    record, n = state.record, int(state.record.clock.picked_of)
    seen = Observation.of(
        state.picker.observation.copy(), policy.window, n, int(record.clock.now), int(record.clock.asked_about)
    )
    place = agent.choose(seen)
    _check_place(place, n, seen.now)
    answer_place(state.arrays(), int(place))


def _check_place(place: Any, n: int, now: int, or_none: str = "") -> None:
    if not isinstance(place, int | np.integer) or isinstance(place, bool) or not 0 <= place < n:
        raise JobcastError(
            f"The agent picked place {place!r} of {n} jobs at {now} s; "
            f"a place is a whole number from 0 on, below that of the jobs{or_none}."
        )


def with_timer(state: State, when: int, kind: int, argument: int, wakes: bool) -> State:
    """Set a timer; return the state, which may have moved."""
    if when <= state.record.clock.now:
        raise JobcastError(f"A timer must lie after the present {state.record.clock.now} s; got {when}.")
    if len(state.slots(at.TIMERS)) >= len(state.jobs_now):
        state = state.grown()
    set_timer(state.arrays(), when, kind, argument, int(wakes))
    return state


def suppose(state: State, run_times: Mapping[int, int]) -> None:
    """Set the run times of waiting and running jobs, by row [s]; a running one ends after the present."""
    record, jobs_now = state.record, state.jobs_now
    dependants = state.slots(at.DEPENDANTS)
    held = dependants[jobs_now["hold_reasons"][dependants] != 0]
    for slot in (*state.slots(at.QUEUE), *state.slots(at.POSTPONED), *held):
        job = jobs_now[slot]
        job.run_time = run_times.get(int(job.row), job.run_time)
    for slot in state.slots(at.ENDS):
        job = jobs_now[slot]
        run_time = run_times.get(int(job.row), int(job.end - job.start))
        if job.row in run_times:
            job.run_time = max(1, run_time)
        if record.rules.kill:
            run_time = min(run_time, int(job.requested_time))
        job.end = max(int(job.start) + run_time, int(record.clock.now) + 1)
    renew_ends(state.arrays())
