"""The adapter's cycle: read the queue, tell the service, decide on each job, write, read back, and keep the journal.

In mode `watch` it only sends events to the service; in `shadow` it decides and keeps the journal; in `write` it changes
soft limits. Each cycle reads the scheduler again, its options included. If the option that makes soft limits soft is
gone, it sets nothing and clears what it had set.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from predictors.core.errors import JobcastError, counted
from predictors.schedulers.feed import Feed, has_ended, has_run
from predictors.schedulers.forecaster import Forecaster, bounds, described
from predictors.schedulers.journal import (
    CLEARED,
    INTENDED,
    JUDGED,
    LOST,
    NOT_DONE,
    OUTCOME,
    WAS_SET,
    WOULD_CLEAR,
    WOULD_SET,
    BaseBehindError,
    JobClass,
    Journal,
    Record,
    read_journal,
)
from predictors.schedulers.shadowed_holds import ShadowedHolds
from predictors.schedulers.slurm import WAITING, Scheduler, called
from predictors.schedulers.slurm_text import Config, Rows
from predictors.schedulers.soft_limit import (
    CLEAR,
    COUNTS,
    LEAVE,
    MINUTE,
    PENDING,
    SET,
    Bound,
    Decision,
    Ended,
    Outlived,
    QueuedJob,
    SiteRules,
    SiteState,
    decide,
)
from predictors.schedulers.submission import TablePlan, classes_in, submission_table, write_table
from predictors.schedulers.table import ExpectedStart, table_of

WATCH: Final = "watch"
SHADOW: Final = "shadow"
WRITE: Final = "write"
MODES: Final = (WATCH, SHADOW, WRITE)
_BACKWARDS: Final = 60  # a clock that went back by more than this [s] is not to be trusted in this cycle
_ATTEMPTS: Final = 3  # of a soft limit that the scheduler did not take, then again after an hour; clearing always
_AGAIN_AFTER: Final = 3600
_ACCOUNTS_EVERY: Final = 600
_OVERLAP: Final = 900
MOST_WAITING: Final = 10_000  # records waiting in memory for a journal that cannot be written, at most
_QUIET: Final = frozenset(("not-pending", "unchanged"))


@dataclass
class Cycle:
    """What one cycle did."""

    now: int = 0
    jobs: int = 0
    pending: int = 0
    events: int = 0
    ended: int = 0
    seconds: float = 0.0
    capped: int = 0  # pending jobs of which P90 lies above the limit, which counts in its place
    refusal: str = ""
    decisions: dict[str, int] = field(default_factory=dict)  # jobs by the decision's word, such as `predicted`
    # changes by what became of them: set, cleared, not-done, would-set, would-clear
    changed: dict[str, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)  # what could not be done, and why

    def count(self, counts: dict[str, int], word: str) -> None:
        counts[word] = counts.get(word, 0) + 1


@dataclass(frozen=True)
class Case:
    """A change that may be made: the id that it names, the rows in the queue that it concerns, and the decision."""

    target: int
    jobs: tuple[QueuedJob, ...]
    bound: Bound
    decision: Decision
    whole: bool = True  # whether the id names them; else other tasks of the array have a user's soft limit

    @property
    def names(self) -> str:
        """What scontrol calls them."""
        return called(self.target, self.jobs, whole=self.whole)

    @property
    def minutes(self) -> int:
        """The soft limit to be set [min]; 0: none."""
        return self.decision.minutes or 0 if self.decision.action == SET else 0

    def record(self, now: int, what: str) -> dict[str, Any]:
        return about(self.jobs[0], now, what, self.minutes) | {
            "quantile": self.bound.seconds, "model": self.bound.model, "version": self.bound.version,
            "why": self.decision.why,
        }  # fmt: skip


def about(job: QueuedJob, now: int, what: str, minutes: int) -> dict[str, Any]:
    """Return what each line of the journal on a job's soft limit [min] begins with."""
    found: dict[str, Any] = {
        "at": now, "what": what, "job": job.target, "submission": job.submit or 0, "minutes": minutes,
        "limit": None if job.limit is None else job.limit // MINUTE,
    }  # fmt: skip
    if job.task:
        found["array"] = True
    if job.restarts or job.task:
        found["requeued"] = True
    return found


def _ran(job: QueuedJob) -> int | None:
    """Return how long an ended job ran [s]; None: it never did."""
    return (job.end or 0) - (job.start or 0) if has_run(job) else None


def combined(decisions: Sequence[Decision]) -> Decision:
    """Return the one decision on rows that can only be changed together: the most conservative one.

    >>> combined([Decision(SET, "predicted", "", 5), Decision(SET, "predicted", "", 9)]).minutes
    9
    >>> combined([Decision(SET, "predicted", "", 5), Decision(LEAVE, "user-soft-limit", "")]).code
    'user-soft-limit'
    """
    clear = [one for one in decisions if one.action == CLEAR]
    leave = [one for one in decisions if one.action == LEAVE and one.code != "unchanged"]
    longest = max(decisions, key=lambda one: one.minutes or 0)
    return (clear or leave or [longest])[0]


class Adapter:
    """Adapter of one cluster."""

    def __init__(
        self,
        scheduler: Scheduler,
        forecaster: Forecaster,  # a service, or a model in this process
        journal: Journal,
        rules: SiteRules,
        mode: str = SHADOW,  # {"watch", "shadow", "write"}: what may be done
        *,
        feeds: bool = True,  # whether it sends events to the service; False where another program does that
        table: TablePlan | None = None,  # for plug-ins that act at submission
        holds: ShadowedHolds | None = None,  # judges starts by a classifier of variability; in `shadow` alone
        # changes of one cycle, beyond which nothing is set; what must be cleared is cleared, however much it is
        most_changes: int = 2000,
    ) -> None:
        if mode not in MODES:
            raise JobcastError(f"An adapter's mode is one of {', '.join(MODES)}; got {mode!r}.")
        if holds is not None and mode != SHADOW:
            raise JobcastError(f"Jobs are held in shadow alone, so that nothing is held; got the mode {mode}.")
        self._scheduler, self._forecaster, self._journal, self._holds = scheduler, forecaster, journal, holds
        self._rules, self._mode, self._feeds, self._table = rules, mode, feeds, table
        self._most_changes = most_changes
        self._feed: Feed | None = None
        self._last = 0
        self._accounts_until: int | None = 0
        self._left: dict[int, str] = {}
        self._attempts: dict[tuple[int, int], tuple[int, int]] = {}
        self._was_refused = ""
        self._advises = False
        self._unkept: list[Record] = []
        self._lost = 0
        self._marks = True
        self._outlived = Outlived(rules)
        for one in read_journal(journal.folder):
            # without a user, or by other counts, it is of an earlier version
            if one["what"] == JUDGED and "user" in one and len(one["by_count"]) == len(COUNTS):
                self._outlived.learn(Ended(one["user"], tuple(one["by_count"]), one["limit"] * MINUTE, one["ran"]))

    def cycle(self) -> Cycle:
        """Look once, and do what is to be done.

        It raises JobcastError if the scheduler does not answer. Nothing has been set that the journal does not have as
        an intention; where it cannot be written, what must be cleared is cleared all the same.
        """
        begin, done = time.perf_counter(), Cycle()
        config = self._scheduler.config()
        if self._table is not None and config.refusal and not self._advises:
            self._empty_table(self._table, config, done)
        rows = self._scheduler.queue()
        done.now, done.jobs = config.now, len(rows.jobs)
        if rows.problems:
            done.troubles.append(f"squeue: rows that cannot be read: {rows.problems}")
        backwards = self._last - config.now > _BACKWARDS
        if backwards:
            done.troubles.append(f"the scheduler's clock went back by {self._last - config.now} s: nothing is set")
        self._last = config.now
        is_kept = self._is_kept(done)
        accounted = self._accounts(config, done)
        self._tell(config, [*accounted, *rows.jobs], done)
        self._note_outcomes([*accounted, *rows.jobs], config, done)
        if self._mode != WATCH:
            site = self._judge(config, rows, done, may_set=is_kept and not backwards)
            if self._holds is not None and site is not None and not backwards:
                self._keep_now_or_later(self._holds.look([*accounted, *rows.jobs], site, done.troubles), done)
        if self._table is not None:
            if self._table.starts is not None:
                self._table.starts.learn([*accounted, *rows.jobs])
            self._write_table(self._table, config, done)
        done.seconds = time.perf_counter() - begin
        return done

    # --- telling the service ------------------------------------------------------------------------------------------

    def _accounts(self, config: Config, done: Cycle) -> tuple[QueuedJob, ...]:
        """Return the jobs that ended since the last look at the accounts; squeue may have forgotten them."""
        if self._accounts_until is None or config.now - self._accounts_until < _ACCOUNTS_EVERY:
            return ()
        since = (self._accounts_until or config.now - 86_400) - _OVERLAP
        try:
            found = self._scheduler.ended_since(since)
        except JobcastError as error:
            done.troubles.append(str(error))
            return ()
        self._accounts_until = None if found is None else config.now
        if found is not None and found.problems:
            done.troubles.append(f"sacct: rows that cannot be read: {found.problems}")
        return () if found is None else found.jobs

    def _tell(self, config: Config, jobs: Sequence[QueuedJob], done: Cycle) -> None:
        if not self._feeds:
            return
        self._feed = self._feed or Feed(config.cluster)
        try:
            done.events = self._feed.send(jobs, self._forecaster)
        except JobcastError as error:
            done.troubles.append(f"the service did not receive the events: {error}")
        self._feed.forget(config.now)

    def _is_kept(self, done: Cycle) -> bool:
        """Return whether the journal can be continued; without it nothing is set."""
        if self._journal.trouble:
            done.troubles.append(self._journal.trouble)
        try:
            self._journal.catch_up()
        except JobcastError as error:
            done.troubles.append(f"nothing is set: {error}")
            return False
        return True

    def _keep(self, records: Sequence[Record], done: Cycle, *, text_suffices: bool = False) -> bool:
        """Add records to the journal; return whether they are there. One that cannot be written stops no clearing."""
        try:
            self._journal.add(records)
        except BaseBehindError as error:
            done.troubles.append(str(error))
            return text_suffices
        except JobcastError as error:
            done.troubles.append(str(error))
            return False
        return True

    def _keep_now_or_later(self, records: Sequence[Record], done: Cycle) -> None:
        """Add records on what passes and does not come again; what cannot be written waits for the next look."""
        unkept = [*self._unkept, *records]
        lost = [{"at": done.now, "what": LOST, "records": self._lost}] if self._lost else []
        try:
            self._journal.add([*lost, *unkept])
        except BaseBehindError as error:  # the text has them
            done.troubles.append(str(error))
        except JobcastError as error:
            self._lost += max(len(unkept) - MOST_WAITING, 0)
            self._unkept = unkept[-MOST_WAITING:]
            waiting = f"{counted(len(self._unkept), 'record')} on starts wait in memory, and go with this process"
            done.troubles.append(f"{error} {waiting}; lost so far: {self._lost:,}.")
            return
        self._unkept, self._lost = [], 0
        for one in unkept:
            done.count(done.changed, one["what"])

    def _note_outcomes(self, jobs: Sequence[QueuedJob], config: Config, done: Cycle) -> None:
        """Keep what became of jobs that ended: the length of their run, and whether their soft limit was too short."""
        try:
            ended = self._journal.not_counted([job for job in jobs if has_ended(job)])
            runs = [(job, _ran(job)) for job in sorted(ended, key=lambda one: (one.end or 0, one.job_id))]
            records = [*self._outcomes(ended, config), *self._judged(runs, config)]
            if not self._keep(records, done, text_suffices=True):  # all of it comes again
                return
            for job, ran in runs:
                self._outlived.ended(job, ran)
            self._journal.add_ended(ended)  # after it: what ends in between is read again
        except JobcastError as error:
            done.troubles.append(str(error))
        else:
            done.ended = len(ended)

    def _judged(self, runs: Sequence[tuple[QueuedJob, int | None]], config: Config) -> list[Record]:
        """Return what later soft limits learn from jobs that ended, to be known after a restart."""
        records: list[Record] = []
        for job, ran in runs:
            found = self._outlived.judged(job, ran)
            if found is not None and found.minutes:
                about = {"at": config.now, "what": JUDGED, "job": job.key, "submission": job.submit or 0}
                about |= {"user": found.user, "by_count": found.minutes}
                records.append(about | {"limit": found.limit // MINUTE, "ran": found.ran})
        return records

    def _outcomes(self, ended: Sequence[QueuedJob], config: Config) -> list[Record]:
        records: list[Record] = []
        for job in ended:
            known = self._journal.limit_of(job)
            if known is None or known.minutes is None or not has_run(job) or self._journal.has_outcome(job):
                continue
            ran = _ran(job) or 0
            records.append(
                {
                    "at": config.now, "what": OUTCOME, "job": job.key, "target": known.job,
                    "submission": job.submit or 0, "shadow": int(known.what in (WOULD_SET, WOULD_CLEAR)),
                    "minutes": known.minutes, "ran": ran,
                    "too_short": int(ran > known.minutes * MINUTE), "state": job.state, "procs": job.procs,
                    "limit": None if job.limit is None else job.limit // MINUTE,
                    "wait": (job.start or 0) - (job.submit or 0),
                }
            )  # fmt: skip
        return records

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _judge(self, config: Config, rows: Rows, done: Cycle, may_set: bool) -> SiteState | None:
        """Decide on the soft limits, and carry it out; return what decisions depend on, as far as it is known."""
        done.refusal = config.refusal
        self._note_gate(config, done)
        self._note_shown(rows.jobs, config, done)
        site = self._site(config, done)
        pending = [job for job in rows.jobs if job.state == PENDING]
        done.pending = len(pending)
        cases = self._cases(rows.jobs, pending, site or SiteState(config.now), done)
        if config.refusal and self._mode == WRITE:
            cases = [replace(one, decision=self._without_option(one, config)) for one in cases]
            cases += self._held(rows.jobs, config)
        for one in cases:
            done.count(done.decisions, one.decision.code)
        self._note_left(cases, config, done)
        may_set = may_set and site is not None
        self._carry_out([one for one in cases if one.decision.action in ((SET, CLEAR) if may_set else (CLEAR,))], done)
        return site

    def _site(self, config: Config, done: Cycle) -> SiteState | None:
        """Return what decisions depend on; None where reservations are not known: then nothing may be set."""
        try:
            return SiteState(config.now, self._scheduler.reservations(), self._scheduler.partitions())
        except JobcastError as error:
            done.troubles.append(f"nothing is set: {error}")
            return None

    def _cases(
        self, jobs: Sequence[QueuedJob], pending: Sequence[QueuedJob], site: SiteState, done: Cycle
    ) -> list[Case]:
        """Return each job with the decision on it; the tasks of an array have one in common."""
        try:
            given = bounds(self._forecaster, [described(job) for job in pending])
        except JobcastError as error:
            done.troubles.append(f"no predictions: {error}")
            given = [Bound(None, why="no answer")] * len(pending)
        done.capped = sum(one.is_capped for one in given)
        grouped: dict[int, list[tuple[QueuedJob, Bound, Decision]]] = {}
        for job, quantile in zip(pending, given, strict=True):
            self._outlived.asked(job, quantile)
            bound = self._outlived.raised(job, quantile)
            seen, ours = self._as_if_written(job)
            decision = decide(seen, bound, site, self._rules, ours)
            grouped.setdefault(job.target, []).append((job, bound, decision))
        self._outlived.forget(jobs, site.now)
        kept, found = self._users(jobs), []
        for target, those in grouped.items():
            free = [one for one in those if one[2].code != "user-soft-limit"] or those
            decision = combined([one for _, _, one in free])
            found.append(Case(target, tuple(job for job, _, _ in free), free[0][1], decision, target not in kept))
        return found

    def _users(self, jobs: Sequence[QueuedJob]) -> frozenset[int]:
        """Return the ids of which a job, or a task, has a soft limit of its user's own; held ones count."""
        return frozenset(job.target for job in jobs if self._journal.is_users(job) and not has_ended(job))

    def _as_if_written(self, job: QueuedJob) -> tuple[QueuedJob, frozenset[int]]:
        """Return a job, and which soft limits of it are ours; in shadow, with the one that it would have by now."""
        ours = self._journal.ours(job)
        known = self._journal.limit_of(job) if self._mode == SHADOW and not self._journal.is_users(job) else None
        if known is not None and known.what == WOULD_SET and known.minutes:
            return replace(job, soft=known.minutes * MINUTE), ours | {known.minutes}
        if known is not None and known.what == WOULD_CLEAR:
            return replace(job, soft=None), ours
        return job, ours

    def _without_option(self, case: Case, config: Config) -> Decision:
        """Return what is to be done where soft limits are not soft: clear ours, set nothing."""
        if any(self._journal.is_ours(job) for job in case.jobs):
            return Decision(CLEAR, "option-gone", config.refusal)
        return case.decision if case.decision.action == LEAVE else Decision(LEAVE, "refused", config.refusal)

    def _held(self, jobs: Sequence[QueuedJob], config: Config) -> list[Case]:
        """Return held jobs that have a soft limit of ours, where the option is gone: they would be ended there."""
        kept, decision = self._users(jobs), Decision(CLEAR, "option-gone", config.refusal)
        held = [job for job in jobs if job.state in WAITING - {PENDING} and self._journal.is_ours(job)]
        return [Case(job.target, (job,), Bound(None), decision, job.target not in kept) for job in held]

    def _note_gate(self, config: Config, done: Cycle) -> None:
        if config.refusal != self._was_refused:
            why = config.refusal or "soft limits are soft"
            self._keep([{"at": config.now, "what": "gate", "why": why}], done)
        self._was_refused = config.refusal

    def _note_shown(self, jobs: Sequence[QueuedJob], config: Config, done: Cycle) -> None:
        """Keep that a soft limit is set which was only intended: an adapter that ended then did not read it back."""
        records: dict[int, Record] = {}
        for job in jobs:
            known = self._journal.limit_of(job)
            if known is None or known.what not in (INTENDED, NOT_DONE) or has_ended(job):
                continue
            if self._journal.is_ours(job) and job.soft != (known.minutes or 0) * MINUTE:
                minutes = (job.soft or 0) // MINUTE
                records[job.target] = about(job, config.now, WAS_SET, minutes) | {"why": "the queue shows it"}
        self._keep(list(records.values()), done)

    def _note_left(self, cases: Sequence[Case], config: Config, done: Cycle) -> None:
        """Keep why jobs are left as they are, once for each reason."""
        records = []
        for one in cases:
            decision, before = one.decision, self._left.get(one.target)
            if decision.action == LEAVE and decision.code not in _QUIET and decision.code != before:
                records.append(one.record(config.now, "left") | {"code": decision.code})
        if self._keep(records, done, text_suffices=True):  # else they are said at the next look
            self._left = {one.target: one.decision.code for one in cases if one.decision.action == LEAVE}

    # --- writing ------------------------------------------------------------------------------------------------------

    def _carry_out(self, cases: Sequence[Case], done: Cycle) -> None:
        """Make the changes, clearing first; in shadow, keep what they would be."""
        if self._mode == SHADOW:
            would = [(WOULD_SET if one.decision.action == SET else WOULD_CLEAR, one) for one in cases]
            is_kept = self._keep([one.record(done.now, what) for what, one in would], done, text_suffices=True)
            for what, _ in would if is_kept else ():  # else the next cycle decides again
                done.count(done.changed, what)
            return
        tried = [one for one in cases if self._may_try(one, done.now)]
        clears = [one for one in tried if one.decision.action == CLEAR]
        sets = [one for one in tried if one.decision.action == SET]
        tried = clears + sets[: max(self._most_changes - len(clears), 0)]
        if tried:
            tried = self._intended(self._still_so(tried), done)
        if not tried:
            return
        marked = [one for one in tried if self._marks or not one.minutes]
        marks = {one.names: self._scheduler.mark(one.jobs, one.minutes) for one in marked}
        try:
            refused = self._scheduler.write({one.names: one.minutes for one in tried}, marks)
        except JobcastError as error:  # some changes may have been made: what is there is read below
            done.troubles.append(str(error))
            refused = {}
        self._read_back(tried, refused, marks, done)

    def _still_so(self, cases: Sequence[Case]) -> list[Case]:
        """Leave out what has changed since the queue was read: predictions and accounts may have taken a minute.

        That is a soft limit of another value, a job that does not wait any more, and the option. Who has given a task a
        soft limit meanwhile keeps it, as the next look sees that.
        """
        refused = bool(self._scheduler.config().refusal)
        jobs = self._scheduler.queue().jobs
        seen, kept, found = {job.key: job for job in jobs}, self._users(jobs), []
        for one in cases:
            pending = tuple(job for job in one.jobs if job.key in seen and seen[job.key].state == job.state)
            moved = any(seen[job.key].soft != job.soft for job in pending)
            if pending and not moved and not (one.whole and one.target in kept):
                found.append(replace(one, jobs=pending))
        return [one for one in found if one.decision.action == CLEAR or not refused]

    def _intended(self, cases: Sequence[Case], done: Cycle) -> list[Case]:
        """Keep what is about to be done. What the journal does not take is not set; it is cleared all the same."""
        clears = [one for one in cases if one.decision.action == CLEAR]
        sets = [one for one in cases if one.decision.action == SET]
        self._keep([one.record(done.now, INTENDED) for one in clears], done)
        return clears + (sets if self._keep([one.record(done.now, INTENDED) for one in sets], done) else [])

    def _may_try(self, case: Case, now: int) -> bool:
        n, last = self._attempts.get((case.target, case.minutes), (0, 0))
        return case.minutes == 0 or n < _ATTEMPTS or now - last >= _AGAIN_AFTER

    def _read_back(
        self, tried: Sequence[Case], refused: Mapping[str, str], marks: Mapping[str, str], done: Cycle
    ) -> None:
        """Look at the queue again: only what it shows has been changed."""
        shown = {job.key: job for job in self._scheduler.queue().jobs}
        records = []
        for one in tried:
            own = [shown[job.key] for job in one.jobs if job.key in shown]
            pending = [job for job in own if job.state in WAITING]
            attempt = (one.target, one.minutes)
            changed = pending or own  # one that has started since shows the change, too
            if changed and all((job.soft or 0) == one.minutes * MINUTE for job in changed):
                what, why = WAS_SET if one.minutes else CLEARED, one.decision.why
                self._attempts.pop(attempt, None)
                unmarked = not all(one.minutes in job.marked for job in changed)
                if self._marks and one.minutes and marks.get(one.names) and unmarked:
                    self._marks = False
                    field = marks[one.names].partition("=")[0]
                    done.troubles.append(
                        f"job {one.target}: {field} was refused: jobs are not marked, and what is ours is known by the "
                        "journal alone; see --mark"
                    )
            else:
                what = NOT_DONE
                told = [refused[name] for name in (str(one.target), *(job.key for job in one.jobs)) if name in refused]
                why = (
                    told[0]
                    if told
                    else "the scheduler took the change and did not make it"
                    if pending
                    else "it is not pending any more"
                )
                self._attempts[attempt] = (self._attempts.get(attempt, (0, 0))[0] + 1, done.now)
                if pending:
                    done.troubles.append(f"job {one.target}: {why}")
            records.append(one.record(done.now, what) | {"why": why})
            done.count(done.changed, what)
        self._keep(records, done)

    def _empty_table(self, plan: TablePlan, config: Config, done: Cycle) -> None:
        """Withdraw the table for submission at once, without asking the service, where soft limits are not soft."""
        try:
            write_table(table_of(config.cluster, config.now, plan.lasts, None, 0, []), plan.path)
            self._advises = True
        except JobcastError as error:
            done.troubles.append(f"the table for submission: {error}")
            with contextlib.suppress(OSError):  # none at all is as good
                plan.path.unlink(missing_ok=True)

    def _write_table(self, plan: TablePlan, config: Config, done: Cycle) -> None:
        """Write the table for submission; if that fails, the old one expires by itself."""
        try:
            classes = classes_in(self._journal, config.now)
            made = submission_table(
                classes, self._forecaster, config.cluster, config.now, self._scheduler.reservations(), self._outlived,
                lasts=plan.lasts, sets=self._mode == WRITE and not config.refusal,
                starts=self._starts(plan, classes, done),
            )  # fmt: skip
            write_table(made, plan.path)
            self._advises = not made.sets
        except JobcastError as error:
            done.troubles.append(f"the table for submission: {error}")

    @staticmethod
    def _starts(plan: TablePlan, classes: Sequence[JobClass], done: Cycle) -> list[ExpectedStart]:
        """Return when jobs submitted now would start; the table is written without starts that cannot be forecast."""
        try:
            return [] if plan.starts is None else plan.starts.expected(classes)
        except JobcastError as error:
            done.troubles.append(f"expected starts: {error}")
            return []
