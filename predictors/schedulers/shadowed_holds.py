"""Holds in shadow: which starts a classifier of variability would delay, until when, and what became of the jobs.

At each look every job that waits is judged as of then. What was said at the last look before a start counts for the
start: an adapter that holds jobs could have known no more. A job that would have been held is asked about again at each
look, though it runs by now, until it would have started. Nothing is changed.

The journal gets `would-start` or `would-hold` for each start, `would-have-started` with the delay, and at the job's end
`hold-outcome`: how long it ran compared with what was expected. Jobs that were never seen to wait are not judged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from predictors.core.errors import JobcastError
from predictors.schedulers.feed import has_ended, has_run
from predictors.schedulers.forecaster import Forecaster, described
from predictors.schedulers.hold import HOLD, Answer, HoldRules, decide_start
from predictors.schedulers.journal import (
    FORGOTTEN_AFTER,
    HOLD_OUTCOME,
    WOULD_HAVE_STARTED,
    WOULD_HOLD,
    WOULD_START,
    Journal,
    Record,
)
from predictors.schedulers.judge import Asked, Judge
from predictors.schedulers.soft_limit import MINUTE, PENDING, Decision, QueuedJob, SiteRules, SiteState

Key = tuple[str, int]  # a job's key and its submission


@dataclass(frozen=True)
class Judged:
    """What was said of a job that waits, and when."""

    at: int
    decision: Decision
    answer: Answer


@dataclass
class Begun:
    """A start that was judged, until the job has ended and its hold would be over."""

    job: QueuedJob  # as it was shown last
    held: bool  # whether it would have been held at its start
    expected: float | None  # the predicted run time [s]
    delay: int | None = None  # how long it would have been held [s]; None: not known yet
    ended: bool = False  # whether its end has been noted

    @property
    def start(self) -> int:
        """When it started, in Unix time."""
        return self.job.start or 0

    def record(self, now: int, what: str, **more: Any) -> dict[str, Any]:
        job = {"job": self.job.key, "submission": self.job.submit or 0, "start": self.start}
        return {"at": now, "what": what, **job, "held": int(self.held), **more}


class ShadowedHolds:
    """What holding jobs by a classifier would have done; goes on with the journal's open records of starts."""

    def __init__(
        self, judge: Judge, hold: HoldRules, rules: SiteRules, journal: Journal, forecaster: Forecaster
    ) -> None:
        self._judge, self._hold, self._rules, self._forecaster = judge, hold, rules, forecaster
        self._waiting: dict[Key, Judged] = {}
        self._begun: dict[Key, Begun] = {}
        for job, submission, start, held, expected, delay in journal.open_starts():
            known = QueuedJob(0, "UNKNOWN", start=start, submit=submission)
            self._begun[job, submission] = Begun(known, bool(held), expected, delay)

    def look(self, jobs: Iterable[QueuedJob], site: SiteState, troubles: list[str]) -> list[Record]:
        """Judge the jobs that wait, and those still held; return the records for the journal, and add to `troubles`."""
        shown = {(job.key, job.submit or 0): job for job in jobs}
        records = list(self._starts(shown, site.now, troubles))
        waiting = {key: job for key, job in shown.items() if self._is_asked_about(job, site.now)}
        for key, one in self._begun.items():
            one.job = shown.get(key, one.job)
        held = {key: one for key, one in self._begun.items() if one.held and one.delay is None and one.job.job_id}
        asked = [*waiting.values(), *(one.job for one in held.values())]
        given = dict(zip([*waiting, *held], self._answers(asked, site.now, troubles), strict=True))
        self._waiting = {
            key: Judged(site.now, decide_start(job, given[key], 0, site, self._rules, self._hold), given[key])
            for key, job in waiting.items()
        }
        records += self._released(held, given, site)
        records += self._ends(site.now)
        for key, one in list(self._begun.items()):  # requeued, or ended where no account tells it
            if key not in shown and site.now - one.start > FORGOTTEN_AFTER:
                del self._begun[key]
        return records

    @staticmethod
    def _is_asked_about(job: QueuedJob, now: int) -> bool:
        return job.state == PENDING and job.eligible is not None and job.eligible <= now

    def _starts(self, shown: Mapping[Key, QueuedJob], now: int, troubles: list[str]) -> Iterator[Record]:
        """Yield the records on jobs that waited at the last look and have started since."""
        begun = [(key, shown[key]) for key in self._waiting if key in shown and has_run(shown[key])]
        expected = self._expected([job for _, job in begun], troubles)
        for (key, job), seconds in zip(begun, expected, strict=True):
            judged = self._waiting[key]
            held, answer = judged.decision.action == HOLD, judged.answer
            self._begun[key] = one = Begun(job, held, seconds, None if held else 0)
            yield one.record(
                now, WOULD_HOLD if held else WOULD_START, asked=judged.at, code=judged.decision.code,
                probability=answer.probability, label=answer.label, model=answer.model, version=answer.version,
                why=judged.decision.why, expected=seconds,
            )  # fmt: skip

    def _released(self, held: Mapping[Key, Begun], given: Mapping[Key, Answer], site: SiteState) -> Iterator[Record]:
        """Yield the records on jobs that would be held no longer."""
        for key, one in held.items():
            waits = replace(one.job, state=PENDING)
            found = decide_start(waits, given[key], site.now - one.start, site, self._rules, self._hold)
            if found.action != HOLD:
                one.delay = min(max(site.now - one.start, 0), self._hold.most_minutes * MINUTE)
                yield one.record(site.now, WOULD_HAVE_STARTED, delay=one.delay, code=found.code, why=found.why)

    def _ends(self, now: int) -> Iterator[Record]:
        """Yield the records on jobs that have ended, and forget those of which nothing is to come."""
        for key, one in list(self._begun.items()):
            job = one.job
            if not one.ended and has_ended(job) and has_run(job):
                one.ended = True
                ran = (job.end or 0) - one.start
                yield one.record(now, HOLD_OUTCOME, ran=ran, expected=one.expected, state=job.state)
            if one.ended and one.delay is not None:
                del self._begun[key]

    def _answers(self, jobs: Sequence[QueuedJob], now: int, troubles: list[str]) -> list[Answer]:
        """Return the answers about jobs; equal starts are asked about once."""
        asked = [Asked(job.name, self._hold.workload_of(job.name)) for job in jobs]
        different = list(dict.fromkeys(asked))
        if not different:
            return []
        try:
            found = dict(zip(different, self._judge.answers(different, now), strict=True))
        except JobcastError as error:
            troubles.append(f"no answer about starts: {error}")
        except Exception as error:  # half a file, another service's answer: whatever it is, the cycles go on
            troubles.append(f"no answer about starts: {type(error).__name__}: {error}")
        else:
            return [found[one] for one in asked]
        return [Answer(None, why="no answer")] * len(jobs)

    def _expected(self, jobs: Sequence[QueuedJob], troubles: list[str]) -> list[float | None]:
        """Return the run times that are expected [s]; None where there is no prediction."""
        try:
            found = self._forecaster.runtime([described(job) for job in jobs]) if jobs else []
        except JobcastError as error:
            troubles.append(f"run times of jobs that started: {error}")
            return [None] * len(jobs)
        return [None if one.fallback else one.seconds for one in found]
