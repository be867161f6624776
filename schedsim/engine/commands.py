"""Effects of commands on waiting jobs: holds, releases, alterations and big runs, and the years of the accounts."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Self

import numpy as np

import schedsim.kernels.records as at
from predictors.core.errors import JobcastError, counted
from schedsim.engine.state import State
from schedsim.kernels import dependant, dequeue, enqueue, hold, release_hold, score_now, set_timer, static_key_of
from schedsim.kernels.keys import SCORE, WFP3
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.rules import Rules
from schedsim.workload.workload import Workload

WHY_HELD: Final[Mapping[int, str]] = MappingProxyType(
    {
        at.BY_USER: "its user holds it",
        at.BY_PARENT: "the job that it waits for has not ended",
        at.BY_FAILURE: "the job that it waits for has failed",
        at.BY_ACCOUNT: "its account is spent",
        at.BY_PREEMPTION: "it was preempted, and Slurm lets it start again only after a pause",
    }
)


def why_held(bits: int) -> str:
    """Return why a job is held, in words.

    >>> why_held(at.BY_USER)
    'its user holds it'
    """
    return " and ".join(text for bit, text in WHY_HELD.items() if bits & bit)


class SiteCommands:
    """Carries out the commands of a site's rules, one second after the other."""

    def __init__(self, rules: Rules, workload: Workload) -> None:
        self.rules, self.workload = rules, workload
        self.row_of = {job: row for row, job in enumerate(workload.job_id.tolist())} if rules.commands else {}
        self.weights = rules.weights(workload) if rules.commands else np.empty(0)
        known = [c for c in rules.commands if c.action == "big-run" or not self._is_from_start(c)]
        last = int(workload.submit[-1]) + int(workload.requested.sum())
        calendar = [] if rules.accounts is None else rules.accounts.calendar(last)
        dated: list[tuple[int, Command | tuple[int, str]]] = [(c.time, c) for c in known]
        dated += [(second, (number, what)) for second, number, what in calendar]
        self.agenda = sorted(dated, key=lambda entry: entry[0])
        self.done = 0
        self.changed: dict[int, tuple[int, int]] = {}
        self.ignored: list[Command] = []

    def _is_from_start(self, command: Command) -> bool:
        return command.time <= int(self.workload.submit[self.row_of[command.job]])

    def fork(self) -> Self:
        new = copy(self)
        new.changed, new.ignored = dict(self.changed), list(self.ignored)
        return new

    def close(self) -> None:
        """Stop users' commands; big runs and the accounts' years, which are planned, stay."""
        ahead = self.agenda[self.done :]
        self.agenda = [entry for entry in ahead if not isinstance(entry[1], Command) or entry[1].action == "big-run"]
        self.done = 0

    def set_out(self, state: State) -> State:
        """Set the accounts to their state before the first second, and set the timer of the next event."""
        return self.act(state, accounts_only=True)

    def act(self, state: State, accounts_only: bool = False) -> State:
        """Carry out what is due now, and set the timer of the next event; return the state."""
        now = int(state.record.clock.now)
        while self.done < len(self.agenda) and self.agenda[self.done][0] <= now:
            entry = self.agenda[self.done][1]
            if isinstance(entry, Command) and accounts_only:
                break
            self.done += 1
            state.record.queue.stale = True  # a plan holds for the jobs as they were
            if isinstance(entry, Command):
                self._carry_out(state, entry)
            else:
                self._turn_account(state, *entry)
        if self.done < len(self.agenda):
            set_timer(state.arrays(), self.agenda[self.done][0], at.COMMAND, 0, 1)
        return state

    def _carry_out(self, state: State, command: Command) -> None:
        if command.action == "big-run":
            self._big_run(state)
            return
        slot = self._waiting(state, self.row_of[command.job])
        if slot is None:
            self.ignored.append(command)
        elif command.action == "hold":
            hold(state.arrays(), slot, at.BY_USER)
        elif command.action == "release":
            release_hold(state.arrays(), slot, at.BY_USER | at.BY_FAILURE)
        else:
            self._alter(state, slot, command)

    @staticmethod
    def _waiting(state: State, row: int) -> int | None:
        """Return the record of a waiting job, held or not."""
        slot = int(dependant(state.arrays(), row))
        if slot >= 0:
            job = state.jobs_now[slot]
            return slot if job.start < 0 and job.exit_state == at.NOT_ENDED else None
        slots = state.slots(at.QUEUE)
        found = slots[state.jobs_now["row"][slots] == row]
        return int(found[0]) if found.size else None

    def _alter(self, state: State, slot: int, command: Command) -> None:
        """Change a job's processors or requested time; in another queue its score starts again."""
        job, now = state.jobs_now[slot], int(state.record.clock.now)
        submitted = state.changing.site_jobs[int(job.row)]
        procs = int(job.procs) if command.procs is None else command.procs
        requested = int(job.requested_time) if command.requested is None else command.requested
        queue = self._queue_of(procs, requested, command)
        queued = job.hold_reasons == 0
        if queued:
            before = score_now(state.arrays(), slot, now - 1)
            dequeue(state.arrays(), slot)
            job.score, job.scored_from = before, now
        if job.tier == 0 and queue != job.queue_number:
            job.score = submitted.start_score
            job.eligible_since = job.scored_from = job.held_since = now
            job.queue_number, job.node_set = queue, int(self.rules.node_set[queue])
        weight = float(self.weights[job.row])
        job.score_gain = float(
            self.rules.score.growth(np.array(procs), np.array(requested), self.workload.machine_procs, weight)
        )
        asked = int(job.requested_time)
        for name in ("current_estimate", "first_estimate", "candidate_estimate", "order_estimate"):
            old = int(getattr(job, name))
            setattr(job, name, requested if old == asked else min(old, requested))
        job.procs, job.requested_time = procs, requested
        job.guaranteed_start = job.planned_start = at.NEVER
        self._rank(state, slot)
        self.changed[int(job.row)] = procs, requested
        if queued:
            enqueue(state.arrays(), slot)
        else:
            release_hold(state.arrays(), slot, at.BY_FAILURE)

    def _queue_of(self, procs: int, requested: int, command: Command) -> int:
        queue = int(self.rules.router.route(np.array([procs]), np.array([requested]))[0])
        if queue < 0 or procs > self.workload.machine_procs:
            raise JobcastError(
                f"Job {command.job} is altered at {command.time} s to {procs} processors for {requested} s, which no "
                f"queue of this machine of {self.workload.machine_procs} takes."
            )
        return queue

    @staticmethod
    def _rank(state: State, slot: int) -> None:
        """Compute the keys that do not change with time."""
        job, record = state.jobs_now[slot], state.record
        for code, kind in ((record.rules.order, at.QUEUE), (record.rules.backfill_order, at.BACKFILL)):
            if code < WFP3:
                job.keys[kind] = static_key_of(state.arrays(), slot, kind)

    def _big_run(self, state: State) -> None:
        """Raise the scores of the waiting capability jobs of accounts that are not spent, by size."""
        slots, now = state.slots(at.QUEUE), int(state.record.clock.now)
        if state.record.rules.order != SCORE or not slots.size:
            return
        arrays = state.arrays()
        scores = [score_now(arrays, slot, now) for slot in slots.tolist()]
        for slot, score in zip(slots.tolist(), scores, strict=True):
            job = state.jobs_now[slot]
            capable = self.rules.router.queues[int(job.queue_number)].capability
            if not capable or job.tier != 0 or self._is_overdrawn(state, int(job.row)):
                continue
            dequeue(arrays, slot)
            job.score = score + max(scores) * (1.0 + float(job.procs))
            job.scored_from = now + 1
            enqueue(arrays, slot)

    @staticmethod
    def _is_overdrawn(state: State, row: int) -> bool:
        number = int(state.changing.site_jobs[row].account)
        if number < 0:
            return False
        account = state.changing.accounts[number]
        return bool(account.spent >= account.granted)

    def _turn_account(self, state: State, number: int, what: str) -> None:
        """Begin a project's year, or begin or end its overburn."""
        account, arrays = state.changing.accounts[number], state.arrays()
        account.overburning = what == "overburn"
        if what != "year":
            return
        account.spent = 0
        for slot in [*state.slots(at.QUEUE).tolist(), *state.slots(at.DEPENDANTS).tolist()]:
            job = state.jobs_now[slot]
            submitted = state.changing.site_jobs[int(job.row)]
            if submitted.account != number or job.start >= 0:
                continue
            if job.hold_reasons & at.BY_ACCOUNT:
                release_hold(arrays, slot, at.BY_ACCOUNT)
            elif job.hold_reasons == 0 and job.tier == 1:
                dequeue(arrays, slot)
                job.tier, job.queue_number = 0, submitted.queue_number
                job.node_set = submitted.node_set
                enqueue(arrays, slot)

    def refuse_held(self, state: State) -> None:
        """Refuse to end with jobs that nothing will release."""
        held = int(state.record.site.n_held)
        if not held:
            return
        waiting = state.jobs_now[state.slots(at.DEPENDANTS)]
        first = waiting[int(np.argmax(waiting["hold_reasons"] != 0))]
        job, why = self.workload.job_id[first.row], why_held(int(first.hold_reasons))
        raise JobcastError(
            f"{counted(held, 'job')} held without end, first job {job}: {why}. Release or alter them by a command, let "
            "the children of failed jobs run, or leave them out."
        )

    def altered(self, workload: Workload) -> Workload:
        if not self.changed:
            return workload
        procs, requested = workload.procs.copy(), workload.requested.copy()
        for row, (width, limit) in self.changed.items():
            procs[row], requested[row] = width, limit
        return replace(workload, procs=procs, requested=requested)
