"""Accounts: projects, the rules of their programs, allocations and overburn."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, unknown_name
from schedsim.workload.workload import Workload

HOUR: Final = 3600


MOST: Final = 1e15  # largest number of processor-hours, weight or start score


@dataclass(frozen=True)
class Program:
    """A kind of allocation."""

    start_score: float = 0.0  # score with which its jobs start
    # once its allocation is spent, its jobs go behind all others, with a start score that falls with the overdraft; or
    # they are held
    once_spent: Literal["backfill", "blocked"] = "backfill"
    # the month in which its year begins; it may overburn in the third quarter of that year. None: no such year.
    year_begins: int | None = None


PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "incite": Program(start_score=10.0, year_begins=1),
        "alcc": Program(start_score=10.0, year_begins=7),
        "discretionary": Program(once_spent="blocked"),
    }
)
"""The programs of the Argonne Leadership Computing Facility by name; the start scores are ours."""

LAST_YEAR: Final = 9998  # last year of calendars


@dataclass(frozen=True)
class Project:
    """An account that pays for jobs."""

    name: str
    program: str  # see `PROGRAMS`
    granted: float  # processor-hours of a year
    spent: float = 0.0  # processor-hours spent before the first submission
    weight: float = 1.0  # how fast its jobs' scores grow, relative to others'
    start_score: float | None = None  # score with which its jobs start; None: that of its program

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise JobcastError(f"A project needs a name, a text; got {self.name!r}.")
        if self.program not in PROGRAMS:
            raise unknown_name("program", self.program, PROGRAMS)
        for what in ("granted", "spent", "weight", "start_score"):
            value = getattr(self, what)
            if value is not None and not 0 <= value <= MOST:
                raise JobcastError(f"Project {self.name!r}: {what} must be from 0 to {MOST:g}; got {value}.")
        if self.granted == 0:
            raise JobcastError(f"Project {self.name!r}: granted must be more than 0 processor-hours.")

    @property
    def begins_with(self) -> float:
        """Score with which its jobs start."""
        return PROGRAMS[self.program].start_score if self.start_score is None else self.start_score


@dataclass(frozen=True, eq=False)
class Accounts:
    """Projects, and the jobs of each."""

    projects: tuple[Project, ...]
    project_of: Mapping[int, int]  # the number of a job's project, by job id; no project pays for other jobs
    # second 0 as Unix time, for the years of the programs; without it no project overburns and no year ends
    epoch: int | None = None

    def __post_init__(self) -> None:
        names = [project.name for project in self.projects]
        if len(set(names)) < len(names):
            raise JobcastError(f"Two projects are called {max(names, key=names.count)!r}.")
        for job, number in self.project_of.items():
            if not 0 <= number < len(names):
                raise JobcastError(f"Job {job} is charged to project {number}; there are {len(names)}, from 0.")

    def rows(self, workload: Workload) -> Ints:
        """Return the number of each job's project, or -1."""
        return np.array([self.project_of.get(job, -1) for job in workload.job_id.tolist()], dtype=np.int64)

    def calendar(self, until: int) -> list[tuple[int, int, str]]:
        """Return the events of projects: (second, number, `year`, `overburn` or `no overburn`).

        Those of second 0 are the initial state.

        >>> august = int(datetime(2016, 8, 1, tzinfo=UTC).timestamp())
        >>> accounts = Accounts((Project("one", "incite", 1000.0),), {}, august)
        >>> accounts.calendar(200 * 86_400)
        [(0, 0, 'overburn'), (5270400, 0, 'no overburn'), (13219200, 0, 'year')]
        """
        if self.epoch is None:
            return []
        found = []
        last = min(self.epoch + until, int(datetime(LAST_YEAR - 2, 1, 1, tzinfo=UTC).timestamp()))
        years = range(datetime.fromtimestamp(self.epoch, UTC).year - 2, datetime.fromtimestamp(last, UTC).year + 2)
        for number, project in enumerate(self.projects):
            month = PROGRAMS[project.program].year_begins
            if month is None:
                continue
            for year in years:
                for later, what in ((0, "year"), (6, "overburn"), (9, "no overburn")):
                    at_month = month - 1 + later
                    date = datetime(year + at_month // 12, at_month % 12 + 1, 1, tzinfo=UTC)
                    found.append((int(date.timestamp()) - self.epoch, number, what))
        begun = {number: what for second, number, what in sorted(found) if second <= 0}
        at_first = [(0, number, "overburn") for number, what in begun.items() if what == "overburn"]
        return sorted(at_first + [event for event in found if 0 < event[0] <= until])
