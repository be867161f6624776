"""The queue: a job enters it and leaves it; its record is given back; events are logged."""

import schedsim.kernels.records as at
from predictors.core.jit import step
from schedsim.kernels.keys import SCORE, score_key, static_key
from schedsim.kernels.ordered_lists import insert, remove
from schedsim.kernels.records import Arrays, JobNow, State


@step
def enqueue(sim: Arrays, slot: int) -> None:
    """Put a waiting job into the queue, by its keys."""
    job, lists, state = sim.jobs_now[slot], sim.lists, sim.state[0]
    if state.order == SCORE:
        job.keys[at.QUEUE] = score_key(job, state)
    insert(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row, slot, job.procs, job.candidate_estimate)
    if state.candidates == at.BACKFILL:
        if state.backfill_order == SCORE:
            job.keys[at.BACKFILL] = score_key(job, state)
        insert(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row, slot, job.procs, job.candidate_estimate)
    state.n_queued += 1


@step
def leave_queue(sim: Arrays, job: JobNow) -> None:
    """Take a job that starts, or waits no more, out of the lists of waiting jobs."""
    lists, state = sim.lists, sim.state[0]
    remove(lists, state, at.QUEUE, job.keys[at.QUEUE], job.row)
    if state.candidates == at.BACKFILL:
        remove(lists, state, at.BACKFILL, job.keys[at.BACKFILL], job.row)
    state.n_queued -= 1


@step
def dequeue(sim: Arrays, slot: int) -> None:
    """Take a job that goes on waiting out of the queue; if it was the head, there is none for now."""
    state = sim.state[0]
    leave_queue(sim, sim.jobs_now[slot])
    if state.head == slot:
        state.head = -1
        state.stale = True


@step
def candidate_key(job: JobNow, state: State) -> int:
    """Return a waiting job's key in the list that is searched for backfills."""
    return job.keys[state.candidates]


@step
def give_back(sim: Arrays, slot: int) -> None:
    """Give a record back."""
    state = sim.state[0]
    sim.jobs_now[slot].next_spare = state.spare_slot
    state.spare_slot = slot


@step
def record(sim: Arrays, kind: int, row: int, note: int) -> None:
    """Append an event to the log."""
    state = sim.state[0]
    i = state.n_logged
    sim.log[i, 0] = state.now
    sim.log[i, 1] = kind
    sim.log[i, 2] = row
    sim.start_notes[i] = note
    state.n_logged += 1
    state.n_events += 1


@step
def end_tie(sim: Arrays, job: JobNow) -> int:
    """Return the place of a running job among those that end at the same second: by start, then by job id."""
    return job.start * len(sim.jobs) + sim.jobs[job.row].rank


@step
def static_key_of(sim: Arrays, job: JobNow, kind: int) -> int:
    """Return a job's key in the queue, or in the list searched for backfills, under an order that does not change."""
    state, since = sim.state[0], max(1, sim.jobs[job.row].submit - sim.jobs[0].submit)
    code, seed = state.order, state.seed
    if kind == at.BACKFILL:
        code, seed = state.backfill_order, state.backfill_seed
    return static_key(code, job.row, since, job.procs, job.order_estimate, seed, sim.jobs[job.row].job_id)
