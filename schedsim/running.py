"""How does a simulation go on? From one pause of its kernel to the next; at each it answers what the kernel asks."""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import schedsim._kernels_compress as compress
import schedsim._kernels_counts as counts
import schedsim._kernels_knapsack as knapsack
import schedsim._kernels_layout as at
import schedsim._kernels_profile as profile
from predictors.data.errors import JobcastError
from schedsim.estimates import Source
from schedsim.pauses import answer, with_change
from schedsim.policy import Kind, Policy
from schedsim.view import View

Ints = npt.NDArray[np.int64]
Kernel = Callable[..., int]

KERNELS: Final[Mapping[Kind, Kernel]] = MappingProxyType(
    {
        "counts": counts.run,
        "greedy": counts.run,
        "profile": profile.run,
        "compress": compress.run,
        "knapsack": knapsack.run,
    }
)


class Running(View):
    """The part of `schedsim.engine.Simulation` that goes on in time."""

    policy: Policy
    _jobs: Ints
    _source: Source
    _handed: int
    _told: int
    _closed: bool

    def run(self, until: int | None = None) -> bool:
        """Go on to the end, or until all up to second `until` has happened; return whether the end is reached.

        Raises
        ------
        JobcastError
            If a forecast gives no number, a user's order or an agent answers wrongly, or a gate holds jobs for ever.
        """
        began = time.perf_counter()
        self._state.clock[at.UNTIL] = at.NEVER - 1 if until is None else until
        try:
            stop = self._run()
        finally:
            self._seconds += time.perf_counter() - began
        if stop == at.REACHED:
            self._state.clock[at.NOW] = max(self.now, until or 0)
        if stop == at.FINISHED and self._closed:
            return True
        if stop == at.FINISHED and self.queued.size:
            why = self._around.why_held() if self._around is not None else ""
            raise JobcastError(
                f"{self.queued.size} jobs are held for ever: nothing will wake the scheduler again.{why}"
            )
        if stop == at.FINISHED and self._desk is not None:
            self._desk.refuse_held(self._state)
        return stop == at.FINISHED

    def _run(self) -> int:
        kernel, forecasts, outlook = KERNELS[self.policy.kind], self._source.forecasts, self._source.outlook
        while True:
            state, log, seconds = self._state, self._log, self._source.seconds
            arguments = (
                self._jobs,
                seconds,
                state.live,
                state.blocks,
                state.clock,
                log.events,
                log.notes,
                state.plan,
            )
            events = log.events
            stop = kernel(*arguments)
            while stop >= 0:
                fresh = self._heard(events[self._handed : stop])
                for forecast, target in forecasts:
                    forecast.advance(fresh, target)
                if outlook is not None:
                    state.clock[at.ANSWERS] = outlook.advance(fresh, seconds)
                    state.clock[at.ANSWERED] = 0
                self._handed = stop
                stop = kernel(*arguments)
            if stop in (at.FINISHED, at.REACHED):
                return stop
            self._answer(stop)

    def _heard(self, events: Ints) -> Ints:
        """Return what forecasts hear of events."""
        failing = None if self._around is None else self._around.failing
        return events if failing is None else failing.heard(events)

    def _change(self) -> None:
        """Let nodes fail, or be repaired."""
        assert self._around is not None
        self._state.clock[at.ASKED], self._state.clock[at.ANSWER] = -1, at.NOT_ANSWERED
        following = self._around.change(self._jobs, self._state, self._log)
        if following is not None:
            self._state = with_change(self._state, following)

    def _answer(self, stop: int) -> None:
        """Do what a pause asks for."""
        if stop == at.GROW_LIVE:
            self._state = self._state.grown()
        elif stop == at.GROW_LOG:
            self._branch_log()
        elif stop == at.GROW_ANSWERS:
            self._source = self._source.grown()
        else:
            self._tell()
            if stop == at.ASK_TIMER and self._state.clock[at.ASKED] == at.CHANGE:
                self._change()
                return
            if stop == at.ASK_TIMER and self._desk is not None and self._state.clock[at.ASKED] == at.COMMAND:
                self._state = self._desk.act(self._state)
                return
            self._state = answer(stop, self.workload, self.policy, self._state, self._around)

    def _tell(self) -> None:
        """Let the surroundings take in what has happened."""
        if self._around is not None:
            used = int(self._state.clock[at.LOGGED])
            self._around.take_in(self._log.events[self._told : used], self.now)
            self._told = used

    def _branch_log(self) -> None:
        """Continue in a new chunk of the log, leaving the old one to those who share it."""
        clock = self._state.clock
        used = int(clock[at.LOGGED])
        handed = self._handed if self._source.in_loop else used
        told = self._told if self._around is not None else used
        done = min(handed, told)
        room = 64 + 4 * (len(self._state.live) + int(clock[at.NEXT_JOB] - clock[at.NEXT_QUEUED]))
        self._log = self._log.continued(used, done, room)
        clock[at.LOGGED] = used - done
        self._handed, self._told = handed - done, told - done
