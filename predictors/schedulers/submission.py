"""The table for submission, made of the classes of jobs that have ended, and written whole."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from predictors.core.files import whole_file
from predictors.data.joblog import JobLog
from predictors.schedulers import soft_limit
from predictors.schedulers.forecaster import Forecaster, bounds, described
from predictors.schedulers.journal import JobClass, Journal
from predictors.schedulers.table import ExpectedStart, Row, Table, table_of

_SINCE: Final = 90 * 86_400
_MOST: Final = 5000


class StartSource(Protocol):
    """Who tells when a job that is submitted now would start. The simulator that does lies above this package."""

    def learn(self, jobs: Iterable[soft_limit.QueuedJob]) -> None:
        """Take in the run times of those jobs that have ended; it may receive a job again."""

    def expected(self, classes: Sequence[JobClass]) -> list[ExpectedStart]:
        """Return when a job like these would start, by partition and width."""


@dataclass(frozen=True)
class TablePlan:
    """Where the table for submission goes, how long it holds [s], and who forecasts starts, if anyone."""

    path: Path
    lasts: int = 900
    starts: StartSource | None = None


def classes_in(journal: Journal, now: int) -> list[JobClass]:
    """Return the 5,000 newest classes of jobs of which one ended within 90 days."""
    return journal.classes(now - _SINCE, _MOST)


def classes_of(log: JobLog) -> list[JobClass]:
    """Return the 5,000 most frequent classes of a log's jobs; jobs without a user's name or a limit are in none.

    >>> columns = {"job_id": [1, 2], "submit": [0, 9], "user": [0, 0], "requested_procs": [4, 4],
    ...     "requested_time": [3600, 3600], "run_time": [60, 80]}
    >>> classes_of(JobLog.from_columns(columns, {}, categories={"user": ("eve",)}))
    [JobClass(user='eve', account='', partition='', procs=4, limit=60, name='', ended=2)]
    """
    texts = [_texts(log, name) for name in ("user", "group", "queue", "executable")]
    numbers = (log.procs.tolist(), log.filled("requested_time").tolist())
    counts = Counter(
        (user, group, queue, procs, limit // soft_limit.MINUTE, name)
        for user, group, queue, name, procs, limit in zip(*texts, *numbers, strict=True)
        if user and limit >= soft_limit.MINUTE and procs > 0
    )
    return [JobClass(*about, ended) for about, ended in counts.most_common(_MOST)]


def _texts(log: JobLog, column: str) -> list[str]:
    names = log.names(column)
    return [names[code] if 0 <= code < len(names) else "" for code in log.filled(column).tolist()]


def submission_table(
    classes: Sequence[JobClass],
    forecaster: Forecaster,
    cluster: str,
    now: int,
    reservations: Iterable[soft_limit.Reservation],
    outlived: soft_limit.Outlived,
    *,
    lasts: int = 900,  # how long it holds [s]
    sets: bool = False,  # whether plug-ins may set soft limits by it, or only give advice
    starts: Iterable[ExpectedStart] = (),
) -> Table:
    jobs = [
        soft_limit.QueuedJob(
            0, limit=one.limit * soft_limit.MINUTE, user=one.user, account=one.account, partition=one.partition,
            procs=one.procs, name=one.name,
        )
        for one in classes
    ]  # fmt: skip
    given = bounds(forecaster, [described(job) for job in jobs]) if jobs else []
    site, rows = soft_limit.SiteState(now), []
    rules = outlived.rules
    for one, job, quantile in zip(classes, jobs, given, strict=True):
        bound = outlived.raised(job, quantile)
        if quantile.seconds is None or bound.seconds is None or soft_limit.forbidden(job, site, rules) is not None:
            continue
        minutes = soft_limit.soft_minutes(bound.seconds, one.limit * soft_limit.MINUTE, rules)
        gains = soft_limit.gains(minutes, one.limit * soft_limit.MINUTE, rules)
        model = f"{bound.model}@{bound.version}" if bound.version is not None else bound.model
        rows.append(
            Row(
                one.user, one.partition, str(one.procs), one.limit, one.name, minutes if gains else one.limit,
                round(quantile.seconds), one.ended, "_".join(model.split()) or "-",
            )
        )  # fmt: skip
    margin = rules.reservation_margin_minutes * soft_limit.MINUTE
    everywhere = rules.partitions is None and not rules.without_partitions
    begins = soft_limit.earliest(reservations, now)
    return table_of(cluster, now, lasts, begins, margin, rows, sets=sets, wide=everywhere, starts=starts)


def write_table(table: Table, path: Path) -> None:
    """Write a table whole: a reader sees the old one or the new one."""
    with whole_file(path) as part:
        part.write_text(table.text(), encoding="utf-8", newline="\n")
