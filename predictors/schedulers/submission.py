"""The table for submission, made of the classes of jobs that have ended, and written whole."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from predictors.core.files import whole_file
from predictors.schedulers.forecaster import Forecaster, bounds, described
from predictors.schedulers.journal import Journal
from predictors.schedulers.slurm_text import Config
from predictors.schedulers.soft_limit import (
    MINUTE,
    QueuedJob,
    Reservation,
    SiteRules,
    SiteState,
    earliest,
    forbidden,
    soft_minutes,
)
from predictors.schedulers.table import Row, Table, table_of

_SINCE: Final = 90 * 86_400
_MOST: Final = 5000


@dataclass(frozen=True)
class TablePlan:
    """Where the table for submission goes, and how long it holds [s]."""

    path: Path
    lasts: int = 900


def submission_table(
    journal: Journal,
    forecaster: Forecaster,
    config: Config,
    reservations: Iterable[Reservation],
    rules: SiteRules,
    *,
    lasts: int = 900,
    sets: bool = False,
) -> Table:
    """Return the table of the 5,000 newest classes of jobs of which one ended within 90 days.

    Parameters
    ----------
    lasts : int
        How long it holds [s].
    sets : bool
        Whether plug-ins may set soft limits by it, or only give advice.

    Raises
    ------
    JobcastError
        If nobody answers for the predictions.
    """
    classes = journal.classes(config.now - _SINCE, _MOST)
    jobs = [
        QueuedJob(
            0, limit=one.limit * MINUTE, user=one.user, account=one.account, partition=one.partition, procs=one.procs,
            name=one.name,
        )
        for one in classes
    ]  # fmt: skip
    given = bounds(forecaster, [described(job) for job in jobs]) if jobs else []
    site, rows = SiteState(config.now), []
    for one, job, bound in zip(classes, jobs, given, strict=True):
        if bound.seconds is None or forbidden(job, site, rules) is not None:
            continue
        minutes = soft_minutes(bound.seconds, one.limit * MINUTE, rules)
        gains = minutes <= one.limit - rules.least_gain_minutes
        model = f"{bound.model}@{bound.version}" if bound.version is not None else bound.model
        rows.append(
            Row(
                one.user, one.partition, str(one.procs), one.limit, one.name, minutes if gains else one.limit,
                round(bound.seconds), one.ended, "_".join(model.split()) or "-",
            )
        )  # fmt: skip
    margin = rules.reservation_margin_minutes * MINUTE
    return table_of(config.cluster, config.now, lasts, earliest(reservations, config.now), margin, rows, sets=sets)


def write_table(table: Table, path: Path) -> None:
    """Write a table whole: a reader sees the old one or the new one.

    Raises
    ------
    JobcastError
        If it cannot be written.
    """
    with whole_file(path) as part:
        part.write_text(table.text(), encoding="utf-8", newline="\n")
