"""Job sets to train on, and the months to validate and to test on, of any log.

After Fan et al. (IPDPS 2021): the first months of a log train, the next validate, the others test. Three kinds of job
sets are made of the training months: jobs sampled from them with Poisson arrivals, their weeks as they were, and
synthetic jobs with their pattern of arrivals, sizes and run times. Every job set begins on an idle machine. The machine
is scaled to a tenth of Theta's: jobs keep their share of it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from predictors.core.arrays import Floats, Ints
from predictors.core.errors import JobcastError
from predictors.data.cleaning import within_requests
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.synthetic.capability import generate_capability_log
from schedsim.workload.workload import Workload

THETA_NODES: Final = 4360  # nodes of Theta for users' jobs
TENTH: Final = 436
HUNDREDTH: Final = 44  # nodes of a tenth and a hundredth of it

HOUR: Final = 3600
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
MONTH: Final = 30 * DAY  # where a log has no date
LEAST: Final = 20  # jobs of a part of a log that can be studied

Kind = Literal["sampled", "real", "synthetic"]

ORDERS: Final[Mapping[str, tuple[Kind, ...]]] = MappingProxyType(  # of the kinds of job sets; the first is the paper's
    {
        "sampled, real, synthetic": ("sampled", "real", "synthetic"),
        "real, sampled, synthetic": ("real", "sampled", "synthetic"),
        "synthetic, sampled, real": ("synthetic", "sampled", "real"),
    }
)

_SPAN: Final = re.compile(r"([1-9]\d{0,3})(d|w|mo)", re.ASCII)
_PURPOSE: Final[Mapping[Kind, int]] = MappingProxyType({"sampled": 1, "real": 2, "synthetic": 3})


@dataclass(frozen=True)
class Counts:
    """How many job sets of each kind (the paper: 9, 9, 82), and how many jobs in those that are drawn."""

    sampled: int = 9
    real: int = 9
    synthetic: int = 82
    jobs: int = 3200

    def of(self, kind: Kind) -> int:
        return {"sampled": self.sampled, "real": self.real, "synthetic": self.synthetic}[kind]

    def of_total(self, total: int) -> "Counts":
        """Return so many job sets in the proportion of the paper, each of as many jobs as here.

        >>> Counts().of_total(11)
        Counts(sampled=1, real=1, synthetic=9, jobs=3200)
        """
        if total < len(_PURPOSE):
            raise JobcastError(f"There are {len(_PURPOSE)} kinds of job sets, one of each at least; got {total}.")
        some = max(1, round(0.09 * total))
        return replace(self, sampled=some, real=some, synthetic=total - 2 * some)

    @property
    def total(self) -> int:
        return self.sampled + self.real + self.synthetic


@dataclass(frozen=True)
class Span:
    """A length of time as users write it: days, weeks or months.

    >>> Span("2mo").after(0, None) // DAY, Span("6w").after(100, None) == 100 + 6 * WEEK
    (60, True)

    From a date on, months are those of the calendar:

    >>> Span("2mo").after(0, 1_640_995_200) // DAY  # 1 January 2022
    59
    """

    text: str  # `45d`, `6w` or `2mo`: at most four digits and the unit

    def __post_init__(self) -> None:
        if _SPAN.fullmatch(self.text) is None:
            raise JobcastError(f"A part of a log is so many days, weeks or months (45d, 6w, 2mo); got {self.text!r}.")

    def after(self, second: int, epoch: int | None) -> int:
        """Return the second this span after another of a log's clock; months have 30 days where its date is unknown."""
        number, unit = self._parts
        if unit != "mo":
            return second + number * (DAY if unit == "d" else WEEK)
        if epoch is None:
            return second + number * MONTH
        begin = np.datetime64(epoch + second, "s")
        month = begin.astype("M8[M]")
        end = (month + np.timedelta64(number, "M")).astype("M8[s]") + (begin - month.astype("M8[s]"))
        return int(end.astype(np.int64)) - epoch

    @property
    def half(self) -> "Span":
        """Half of it, in whole days where the number is odd."""
        number, unit = self._parts
        if number % 2 == 0:
            return Span(f"{number // 2}{unit}")
        return Span(f"{max(1, number * {'d': 1, 'w': 7, 'mo': 30}[unit] // 2)}d")

    @property
    def _parts(self) -> tuple[int, str]:
        found = _SPAN.fullmatch(self.text)
        assert found is not None  # it was checked
        return int(found[1]), found[2]


@dataclass(frozen=True)
class Parts:
    """Cleaned jobs on the scaled machine to train, validate and test on; `later` are those of the latter two."""

    train: JobLog
    validation: JobLog
    test: JobLog
    later: JobLog

    @property
    def used(self) -> int:
        return len(self.train) + len(self.validation) + len(self.test)


def default_log(seed: int) -> tuple[JobLog, ReadingReport]:
    """Return the log of those who give none: six months of a machine like Theta, without debug jobs."""
    months = ((4000, 0.72), (4000, 0.76), (4000, 0.80), (4000, 0.84), (4000, 0.78), (4000, 0.84))
    log = generate_capability_log(months, seed=seed, procs=THETA_NODES)
    users = replace(log.select(log.procs >= 128 * THETA_NODES // 4392), name=f"theta-like-{seed}")
    return users, ReadingReport("synthetic log of a capability centre")


def scaled(log: JobLog, nodes: int) -> JobLog:
    """Return a cleaned log on a machine of so many nodes: each job keeps its share of the machine, at least one node.

    A machine that is not larger stays as it is.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5], "run_time": [9, 9], "requested_time": [60, 60],
    ...                            "requested_procs": [128, 4360]}, {}, max_procs=4360)
    >>> scaled(log, 436)["requested_procs"].tolist(), scaled(log, 436).max_procs
    ([13, 436], 436)
    """
    machine = log.max_procs
    if machine is None or machine <= nodes:
        return log
    procs = np.clip(np.rint(log.procs * (nodes / machine)), 1, nodes).astype(np.int64)
    narrower = log.replaced({"requested_procs": procs, "allocated_procs": procs})
    return replace(narrower, max_procs=nodes, max_nodes=nodes)


def split(
    log: JobLog,  # cleaned for simulation
    train: str = "2mo",  # how long to train on, see `Span`
    test: str = "rest",  # how long to test on, or "rest"
    nodes: int = TENTH,  # nodes of the scaled machine
) -> Parts:
    """Split a cleaned log by submission: to train on, half as long to validate on, and to test on."""
    span = Span(train)
    log = scaled(within_requests(log), nodes)
    submit = log.values["submit"]
    first = int(submit[0]) if len(log) else 0
    trained = span.after(first, log.epoch)
    validated = span.half.after(trained, log.epoch)
    end = int(submit[-1]) + 1 if test == "rest" else Span(test).after(validated, log.epoch)
    bounds = (first, trained, validated, end)
    parts = [log.select((submit >= low) & (submit < high)) for low, high in pairwise(bounds)]
    for part, what in zip(parts, ("train", "validate", "test"), strict=True):
        if len(part) < LEAST:
            days = (int(submit[-1]) - first) / DAY if len(log) else 0.0
            raise JobcastError(
                f"{log.name}: too short to split: of its {days:.0f} days {train} train, half of that validates and "
                f"{test} tests, which leaves {len(part)} jobs to {what} on, and {LEAST} are needed. Give a longer log "
                "or a shorter --train."
            )
    return Parts(parts[0], parts[1], parts[2], later=log.select((submit >= trained) & (submit < end)))


def job_sets(train: JobLog, counts: Counts, order: str, seed: int) -> Iterator[tuple[Kind, Workload]]:
    """Yield job sets with their kind, in an order of `ORDERS`; each depends on seed, kind and number alone.

    >>> log = split(default_log(1)[0], nodes=44).train
    >>> few = Counts(sampled=1, real=2, synthetic=1, jobs=300)
    >>> [(kind, len(jobs)) for kind, jobs in job_sets(log, few, "real, sampled, synthetic", seed=1)]
    [('real', 732), ('real', 775), ('sampled', 300), ('synthetic', 300)]
    """
    if order not in ORDERS:
        raise JobcastError(f"An order of job sets is one of {'; '.join(ORDERS)}; got {order!r}.")
    weeks = _weeks(train)
    for kind in ORDERS[order]:
        number = counts.of(kind)
        if kind == "real":
            yield from (("real", week) for week in _spread(weeks, number))
            continue
        for n in range(number):
            rng = np.random.default_rng((seed, _PURPOSE[kind], n))
            draw = _sampled if kind == "sampled" else _synthetic
            yield kind, draw(train, counts.jobs, rng)


def _weeks(train: JobLog) -> list[Workload]:
    """Return the jobs of each week from the first submission on; weeks without a job are left out."""
    submit = train.values["submit"]
    number = (submit - submit[0]) // WEEK
    return [Workload.from_log(train.select(number == week)) for week in np.unique(number)]


def _spread(weeks: list[Workload], number: int) -> list[Workload]:
    """Return so many weeks, evenly spread in the order of time; all of them again where there are fewer."""
    if number <= len(weeks):
        return [weeks[i * len(weeks) // number] for i in range(number)]
    return [weeks[i % len(weeks)] for i in range(number)]


def _sampled(train: JobLog, jobs: int, rng: np.random.Generator) -> Workload:
    """Draw jobs of the training months, and submit them at random with the average time between."""
    rows = rng.choice(len(train), jobs, replace=jobs > len(train))
    submit = train.values["submit"]
    gap = float(submit[-1] - submit[0]) / max(1, len(train) - 1)
    seconds = np.cumsum(rng.exponential(gap, jobs))
    return _workload(train, seconds, train.procs[rows], *_times(train, rows), name="sampled")


def _synthetic(train: JobLog, jobs: int, rng: np.random.Generator) -> Workload:
    """Draw arrivals, sizes, requests and accuracies of requests by their patterns in the training months.

    A job has the size of one training job, the request of another one of like size, and the accuracy of a third one of
    like size: so jobs come together that were never seen.
    """
    procs, (requested, run_time) = train.procs, _times(train, slice(None))
    size_class = np.floor(np.log2(procs)).astype(np.int64)
    rows = rng.integers(len(train), size=jobs)
    asked, accurate = np.empty((2, jobs), dtype=np.int64)
    for one in np.unique(size_class[rows]):
        like, here = np.flatnonzero(size_class == one), size_class[rows] == one
        asked[here] = rng.choice(like, int(here.sum()))
        accurate[here] = rng.choice(like, int(here.sum()))
    accuracy = (run_time / requested)[accurate]
    runs = np.clip(np.rint(accuracy * requested[asked]), 1, requested[asked]).astype(np.int64)
    return _workload(train, _arrivals(train, jobs, rng), procs[rows], requested[asked], runs, name="synthetic")


def _times(train: JobLog, rows: Ints | slice) -> tuple[Ints, Ints]:
    return train.values["requested_time"][rows], train.values["run_time"][rows]


def rates(train: JobLog) -> Floats:
    """Return submissions of each hour of the week relative to the average hour, shape (7, 24): by day times by hour.

    The first day is a Monday where the log has a date, else the day of its first submission.
    """
    day, hour = calendar(train)
    by_day = np.bincount(day, minlength=7).astype(np.float64)
    by_hour = np.bincount(hour, minlength=24).astype(np.float64)
    span = int(train.values["submit"][-1] - train.values["submit"][0])
    there = np.bincount((day[0] + np.arange(max(1, span // DAY + 1))) % 7, minlength=7)
    by_day = np.divide(by_day, there, out=np.zeros(7), where=there > 0)
    table: Floats = np.outer(by_day, by_hour)
    table /= table.mean()
    return table


def calendar(log: JobLog) -> tuple[Ints, Ints]:
    """Return the day of the week (0 is Monday where the log has a date) and the hour (UTC) of each submission."""
    seconds = log.values["submit"] + (log.epoch if log.epoch is not None else 0)
    day = seconds // DAY + (3 if log.epoch is not None else 0)  # 1 January 1970 was a Thursday
    return (day - (0 if log.epoch is not None else day[0])) % 7, seconds % DAY // HOUR


def _arrivals(train: JobLog, jobs: int, rng: np.random.Generator) -> Floats:
    """Draw submissions with the average rate of the training months and their pattern of days and hours."""
    submit = train.values["submit"]
    gap = float(submit[-1] - submit[0]) / max(1, len(train) - 1)
    pattern = rates(train).ravel()
    even = np.cumsum(rng.exponential(gap, jobs)) / HOUR  # in hours of average rate
    weeks = int(even[-1] // len(pattern)) + 2
    passed = np.concatenate([[0.0], np.cumsum(np.tile(pattern, weeks))])
    return np.asarray(np.interp(even, passed, np.arange(len(passed))) * HOUR)


def _workload(train: JobLog, seconds: Floats, procs: Ints, requested: Ints, run_time: Ints, name: str) -> Workload:
    submit = np.floor(seconds - seconds[0]).astype(np.int64)
    return Workload(
        job_id=np.arange(1, len(submit) + 1), submit=submit, procs=procs, requested=requested, run_time=run_time,
        machine_procs=int(train.max_procs or procs.max()), name=name,
    )  # fmt: skip
