"""What commands do to waiting jobs: holds, releases, alterations and big runs, and the years of the accounts."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

import schedsim._kernels_layout as at
from predictors.data.errors import JobcastError, counted
from schedsim._kernels_doors import hold, insert, kin_of, lift, line_up, step_out
from schedsim._kernels_orders import SCORE, WFP3, static_key
from schedsim._kernels_score import score_at
from schedsim.commands import Command
from schedsim.rules import Rules
from schedsim.state import State
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]

WHY_HELD: Final[Mapping[int, str]] = MappingProxyType(
    {
        at.BY_USER: "its user holds it",
        at.BY_PARENT: "the job that it waits for has not ended",
        at.BY_FAILURE: "the job that it waits for has failed",
        at.BY_ACCOUNT: "its account is spent",
    }
)


def why_held(bits: int) -> str:
    """Return why a job is held, in words.

    >>> why_held(at.BY_USER)
    'its user holds it'
    """
    return " and ".join(text for bit, text in WHY_HELD.items() if bits & bit)


class Desk:
    """Carries out the commands of a simulation, one second after the other.

    Parameters
    ----------
    rules : Rules
        With the commands and accounts.
    workload : Workload
        The jobs.
    jobs : int64 array
        The same as the kernels read them.
    """

    def __init__(self, rules: Rules, workload: Workload, jobs: Ints) -> None:
        self.rules, self.workload, self.jobs = rules, workload, jobs
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
        """Return a copy that goes its own way."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__, changed=dict(self.changed), ignored=list(self.ignored))
        return new

    def close(self, jobs: Ints) -> None:
        """Let users command nothing more; big runs and the accounts' years, which are planned, go on."""
        self.jobs = jobs
        ahead = self.agenda[self.done :]
        self.agenda = [entry for entry in ahead if not isinstance(entry[1], Command) or entry[1].action == "big-run"]
        self.done = 0

    def set_out(self, state: State) -> State:
        """Begin: do what is to be done before the first second, and set the timer of what follows."""
        while (
            self.done < len(self.agenda) and self.agenda[self.done][0] == 0 and self._is_date(self.agenda[self.done][1])
        ):
            self._turn(state, self.agenda[self.done][1])
            self.done += 1
        return self._wind(state)

    @staticmethod
    def _is_date(entry: Command | tuple[int, str]) -> bool:
        return not isinstance(entry, Command)

    def _wind(self, state: State) -> State:
        """Set the timer of the next command; it may be due in the first second."""
        if self.done < len(self.agenda):
            clock = state.clock
            clock[at.N_TIMERS] += 1
            when = self.agenda[self.done][0]
            insert(state.blocks, clock, at.TIMERS, when, int(clock[at.N_TIMERS]), at.COMMAND, 0, 1)
        return state

    def act(self, state: State) -> State:
        """Carry out what is due now; return the state."""
        now = int(state.clock[at.NOW])
        while self.done < len(self.agenda) and self.agenda[self.done][0] <= now:
            entry = self.agenda[self.done][1]
            self.done += 1
            if isinstance(entry, Command):
                self._obey(state, entry)
            else:
                self._turn(state, entry)
        return self._wind(state)

    def _obey(self, state: State, command: Command) -> None:
        if command.action == "big-run":
            self._big_run(state)
            return
        slot = self._waiting(state, self.row_of[command.job])
        if slot is None:
            self.ignored.append(command)
        elif command.action == "hold":
            hold(state.live, state.blocks, state.clock, slot, at.BY_USER)
        elif command.action == "release":
            lift(self.jobs, state.live, state.blocks, state.clock, slot, at.BY_USER | at.BY_FAILURE)
        else:
            self._alter(state, slot, command)

    @staticmethod
    def _waiting(state: State, row: int) -> int | None:
        """Return the record of a waiting job, held or not."""
        slot = int(kin_of(state.live, state.blocks, state.clock, row))
        if slot >= 0:
            waits = state.live[slot, at.START] < 0 and state.live[slot, at.FATE] == 0
            return slot if waits else None
        slots = state.slots(at.QUEUE)
        found = slots[state.live[slots, at.ROW] == row]
        return int(found[0]) if found.size else None

    def _alter(self, state: State, slot: int, command: Command) -> None:
        """Change a job's width or requested time; if that is another queue, its score begins anew."""
        live, clock, row = state.live, state.clock, int(state.live[slot, at.ROW])
        now, machine = int(clock[at.NOW]), self.workload.machine_procs
        procs = int(live[slot, at.WIDTH]) if command.procs is None else command.procs
        requested = int(live[slot, at.LIMIT]) if command.requested is None else command.requested
        queue = self._queue_of(procs, requested, command)
        queued = live[slot, at.HOLD] == 0
        if queued:
            before = score_at(live, clock, slot, now - 1)
            step_out(live, state.blocks, clock, slot)
            live[slot, at.SCORE], live[slot, at.FROM] = _bits(before), now
        if live[slot, at.TIER] == 0 and queue != live[slot, at.QUEUE_NUMBER]:
            live[slot, at.SCORE] = self.jobs[row, at.START_SCORE]
            live[slot, at.SINCE] = live[slot, at.FROM] = live[slot, at.HELD_AT] = now
            live[slot, at.QUEUE_NUMBER], live[slot, at.SET] = queue, self.rules.set_cells[queue]
        growth = self.rules.score.growth(np.array(procs), np.array(requested), machine, float(self.weights[row]))
        live[slot, at.GAIN] = _bits(float(growth))
        for column in (at.ESTIMATE, at.FIRST, at.CANDIDATE, at.RANKING):
            old = int(live[slot, column])
            live[slot, column] = requested if old == live[slot, at.LIMIT] else min(old, requested)
        live[slot, at.WIDTH], live[slot, at.LIMIT] = procs, requested
        live[slot, at.PROMISE] = live[slot, at.PLANNED] = at.NEVER
        self._rank(live, clock, slot)
        self.changed[row] = procs, requested
        if queued:
            line_up(live, state.blocks, clock, slot)
        else:
            lift(self.jobs, live, state.blocks, clock, slot, at.BY_FAILURE)

    def _queue_of(self, procs: int, requested: int, command: Command) -> int:
        queue = int(self.rules.router.route(np.array([procs]), np.array([requested]))[0])
        if queue < 0 or procs > self.workload.machine_procs:
            raise JobcastError(
                f"Job {command.job} is altered at {command.time} s to {procs} processors for {requested} s, which no "
                f"queue of this machine of {self.workload.machine_procs} takes."
            )
        return queue

    def _rank(self, live: Ints, clock: Ints, slot: int) -> None:
        """Compute the keys that do not change with time."""
        row = int(live[slot, at.ROW])
        since = max(1, int(self.workload.submit[row] - self.workload.submit[0]))
        for order, seed, column in (
            (at.ORDER, at.SEED, at.KEY),
            (at.BACKFILL_ORDER, at.BACKFILL_SEED, at.BACKFILL_KEY),
        ):
            if clock[order] < WFP3:
                live[slot, column] = static_key(
                    int(clock[order]), row, since, int(live[slot, at.WIDTH]), int(live[slot, at.RANKING]),
                    int(clock[seed]), int(self.workload.job_id[row]),
                )  # fmt: skip

    def _big_run(self, state: State) -> None:
        """Raise the scores of the waiting capability jobs of accounts that are not spent: the largest above all."""
        live, clock, slots = state.live, state.clock, state.slots(at.QUEUE)
        if clock[at.ORDER] != SCORE or not slots.size:
            return
        now = int(clock[at.NOW])
        scores = [score_at(live, clock, slot, now) for slot in slots]
        for slot, score in zip(slots.tolist(), scores, strict=True):
            capable = self.rules.router.queues[int(live[slot, at.QUEUE_NUMBER])].capability
            if not capable or live[slot, at.TIER] != 0 or self._is_overdrawn(clock, int(live[slot, at.ROW])):
                continue
            step_out(live, state.blocks, clock, slot)
            live[slot, at.SCORE] = _bits(score + max(scores) * (1.0 + float(live[slot, at.WIDTH])))
            live[slot, at.FROM] = now + 1
            line_up(live, state.blocks, clock, slot)

    def _is_overdrawn(self, clock: Ints, row: int) -> bool:
        account = int(self.jobs[row, at.ACCOUNT])
        return account >= 0 and bool(clock[account + at.SPENT] >= clock[account + at.GRANTED])

    def _turn(self, state: State, date: tuple[int, str] | Command) -> None:
        """Let a project's year begin, or its overburn begin or end."""
        assert not isinstance(date, Command)
        number, what = date
        clock, live = state.clock, state.live
        cell = self.rules.account_cells + at.ACCOUNT_CELLS * number
        clock[cell + at.OVERBURNING] = what == "overburn"
        if what != "year":
            return
        clock[cell + at.SPENT] = 0
        slots = [*state.slots(at.QUEUE).tolist(), *state.slots(at.KIN).tolist()]
        for slot in slots:
            row = int(live[slot, at.ROW])
            if self.jobs[row, at.ACCOUNT] != cell or live[slot, at.START] >= 0:
                continue
            if live[slot, at.HOLD] & at.BY_ACCOUNT:
                lift(self.jobs, live, state.blocks, clock, slot, at.BY_ACCOUNT)
            elif live[slot, at.HOLD] == 0 and live[slot, at.TIER] == 1:
                step_out(live, state.blocks, clock, slot)
                live[slot, at.TIER], live[slot, at.QUEUE_NUMBER] = 0, self.jobs[row, at.ROUTED]
                live[slot, at.SET] = self.jobs[row, at.IN_SET]
                line_up(live, state.blocks, clock, slot)

    def refuse_held(self, state: State) -> None:
        """Refuse to end with jobs that nothing will release.

        Raises
        ------
        JobcastError
            Naming the first of them and why it is held.
        """
        held = int(state.clock[at.N_HELD])
        if not held:
            return
        slots = state.slots(at.KIN)
        slot = int(slots[np.argmax(state.live[slots, at.HOLD] != 0)])
        job, bits = self.workload.job_id[state.live[slot, at.ROW]], int(state.live[slot, at.HOLD])
        why = why_held(bits)
        raise JobcastError(
            f"{counted(held, 'job')} held for ever, first job {job}: {why}. Release or alter them by a command, let "
            "the children of failed jobs run, or leave them out."
        )

    def altered(self, workload: Workload) -> Workload:
        """Return the workload as altered."""
        if not self.changed:
            return workload
        procs, requested = workload.procs.copy(), workload.requested.copy()
        for row, (width, limit) in self.changed.items():
            procs[row], requested[row] = width, limit
        return replace(workload, procs=procs, requested=requested)


def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))
