"""Months of a log: by its calendar where its date is known, else thirty days each."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.validation import known_zone
from predictors.data.joblog import JobLog

DAYS: Final = 30  # days of a month where the log does not tell its date


@dataclass(frozen=True, eq=False)
class Months:
    """The months of a log, and the one in which each of its jobs was submitted.

    Examples
    --------
    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 40 * 86400]}, {}, epoch=1_756_684_800)
    >>> Months.of(log).names, Months.of(log).of_job.tolist()
    (('2025-09', '2025-10'), [0, 1])
    """

    names: tuple[str, ...]  # such as 2025-09, or days 1-30
    of_job: Ints  # number of each job's month, from 0, shape (n_jobs,)

    @classmethod
    def of(cls, log: JobLog) -> Self:
        """Return the months of a log, in its time zone, UTC if that is unknown."""
        submit = log.values["submit"]
        if log.epoch is None:
            number = submit // (DAYS * 86400)
            names = [f"days {DAYS * k + 1}-{DAYS * (k + 1)}" for k in range(int(number.max(initial=0)) + 1)]
            return cls(tuple(names), number)
        zone = UTC if log.time_zone is None else known_zone(log.time_zone)
        first = datetime.fromtimestamp(log.epoch + int(submit.min(initial=0)), zone)
        last = log.epoch + int(submit.max(initial=0))
        names, begins, year, month = list[str](), list[int](), first.year, first.month
        while not begins or begins[-1] <= last:
            names.append(f"{year}-{month:02}")
            begins.append(int(datetime(year, month, 1, tzinfo=zone).timestamp()))
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        number = np.searchsorted(np.array(begins), submit + log.epoch, side="right") - 1
        return cls(tuple(names[: int(number.max(initial=0)) + 1]), number.astype(np.int64))
