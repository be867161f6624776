"""What the scheduler saw at one instant: the reasons that its passes noted, and which jobs are held."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

import schedsim.kernels.records as at
from schedsim.engine.commands import why_held
from schedsim.engine.simulation import Simulation
from schedsim.explain.reasons import Reason, reason_of
from schedsim.kernels import next_tick
from schedsim.kernels.reasons import GATE, STARTS, TURN, Reasons
from schedsim.policies.gates import Candidate, Gate, Verdict
from schedsim.sites.slurm.loops import Loops


@dataclass(frozen=True, eq=False)
class Instant:
    """One scheduling instant: what its passes noted on each waiting job."""

    # time [s], and the processors free after it
    now: int
    free: int
    notes: Reasons  # what the passes noted, in order
    is_ceil: bool  # whether utilisation is limited, or jobs are postponed
    on_nodes: bool  # whether jobs take GPUs and memory of nodes
    said: Mapping[int, str]  # the gate's reasons for the jobs that it holds, by row
    held: Mapping[int, str]  # why jobs outside the queue are held, by row

    def reason(self, row: int) -> Reason | None:
        """Return what happened to a job, or None if it did not wait."""
        if row in self.held:
            return Reason("held", self.free, reason=self.held[row])
        place = np.flatnonzero(self.notes["row"] == row)
        if not place.size:
            return None
        found = reason_of(self.notes[int(place[0])], self.notes, self.is_ceil, self.on_nodes)
        return replace(found, reason=self.said.get(row, "")) if found.rule in ("gate", "turn") else found

    def would_end(self, row: int) -> int:
        """Return when a job would have ended by its estimate, had it started now [s]; for a held one, now."""
        estimates = self.notes["estimate"][self.notes["row"] == row]
        return self.now + (int(estimates[0]) if estimates.size and row not in self.held else 0)

    @property
    def reasons(self) -> dict[int, Reason]:
        """What happened to each waiting job, by row."""
        rows = [*self.notes["row"].tolist(), *self.held]
        return {row: found for row in rows if (found := self.reason(row)) is not None}

    @property
    def started(self) -> frozenset[int]:
        """Rows of the jobs that started."""
        return frozenset(self.notes["row"][self.notes["rule"] == STARTS].tolist())


@dataclass(eq=False)
class Recorded:
    """A gate that records the answers of another."""

    gate: Gate
    answers: dict[int, Verdict] = field(default_factory=dict)

    def ask(self, candidate: Candidate) -> Verdict:
        self.answers[candidate.row] = verdict = self.gate.ask(candidate)
        return verdict


class Stepper:
    """Walk a simulation from one scheduling instant to the next and examine those asked for.

    >>> from schedsim.policies.policy import make_policy
    >>> from schedsim.workload.workload import Workload
    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 1, 2], procs=[6, 8, 2], requested=[10, 10, 9],
    ...                           run_time=[10, 10, 9], machine_procs=8)
    >>> stepper = Stepper(Simulation(w, make_policy("easy")))
    >>> stepper.skip(1)
    >>> for row, reason in stepper.look().reasons.items():
    ...     print(row, reason.rule, reason.free, reason.head, reason.shadow, reason.extra)
    1 head 2 1 10 0
    2 shadow 2 1 10 0
    """

    def __init__(self, simulation: Simulation, recorded: Recorded | None = None) -> None:
        self.simulation = simulation
        self._recorded = recorded

    def next_time(self) -> int | None:
        """Return the second of the next instant, or None at the end.

        Timers that start no pass fire too, since they may move the ends of running jobs.
        """
        simulation = self.simulation
        while True:
            state, workload = simulation._state, simulation.workload
            times = [int(state.jobs_now[slot].end) for slot in state.slots(at.ENDS)[:1]]
            if state.record.clock.next_submission < state.record.clock.end_of_submissions:
                times.append(int(workload.submit[state.record.clock.next_submission]))
            wakes, due = (state.entries(at.TIMERS, field) for field in ("length", "key"))
            times += [int(key) for key in due[wakes == 1][:1]]
            time = min(times, default=None)
            if time is not None:
                time = int(next_tick(state.arrays(), state.changes, time))
            asleep = [int(key) for key in due[wakes != 1][:1]]
            if not asleep or (time is not None and asleep[0] >= time):
                return time
            self.skip(asleep[0])

    def skip(self, until: int) -> None:
        """Go on to just after all that happens up to a second."""
        self.simulation.run(until=until)

    def look(self) -> Instant:
        """Go through the next instant, which there must be, with passes that note reasons; return the notes."""
        now, simulation = self.next_time(), self.simulation
        if now is None:
            raise ValueError("The simulation is at its end.")
        answers = {} if self._recorded is None else self._recorded.answers
        answers.clear()
        notes = simulation.run_noting(now)
        notes = notes[np.flatnonzero(notes["rule"])]
        state = simulation._state
        held = notes["row"][notes["rule"] == GATE].tolist()
        limits = {row: f"by the limit {limit}" for row in held if (limit := simulation.limit_on(row)) is not None}
        if isinstance(simulation.policy.backfill, Loops) and simulation.policy.backfill.backfills:
            limits |= dict.fromkeys(notes["row"][notes["rule"] == TURN].tolist(), "backfilling did not run then")
        waiting = [state.jobs_now[slot] for slot in state.slots(at.DEPENDANTS).tolist()]
        return Instant(
            now=now,
            free=simulation.free,
            notes=notes[np.argsort(notes["number"])],
            is_ceil=simulation.policy.is_ceil,
            on_nodes=simulation.workload.demands is not None,
            said=limits | {row: answer.reason for row, answer in answers.items()},
            held={int(job.row): why_held(int(job.hold_reasons)) for job in waiting if job.hold_reasons},
        )
