"""Errors and coverage of a model by week, and last-two's on the same jobs.

A week runs from Monday to Monday, by Unix time; on another clock it is seven days from the clock's second 0. A job
counts in the week of its end.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from predictors.core.arrays import Floats

WEEK: Final = 7 * 86_400
MOST_WEEKS: Final = 26  # newest weeks that are kept
_MONDAY: Final = 4 * 86_400  # 1970-01-05, the first Monday of Unix time


class Week(NamedTuple):
    """Figures of one week."""

    begin: int  # its first second
    n_jobs: int  # jobs that ended in it
    # error, last_two_error: mean absolute errors [s]
    error: float
    last_two_error: float
    squared_ratio: float  # sum of squared errors over last-two's; NaN where last-two makes no error
    covered: float  # share of the jobs within P10 to P90; NaN if none had quantiles


class WeeklyErrors:
    """Sums by week, of the newest weeks.

    >>> errors = WeeklyErrors()
    >>> errors.add(1_700_000_000, predicted=60.0, baseline=80.0, seconds=70.0, held=1.0)
    >>> errors.add(1_700_000_500, predicted=90.0, baseline=80.0, seconds=70.0, held=float("nan"))
    >>> [(week.n_jobs, week.error, week.last_two_error, week.squared_ratio, week.covered) for week in errors]
    [(2, 15.0, 10.0, 2.5, 1.0)]
    """

    def __init__(self) -> None:
        self._weeks: dict[int, list[float]] = {}

    def add(self, time: int, predicted: float, baseline: float, seconds: float, held: float) -> None:
        """Count an ended job; `held` is 1 where P10 to P90 held, 0 where not, NaN where there were none."""
        number = (time - _MONDAY) // WEEK
        sums = self._weeks.get(number)
        if sums is None:
            sums = self._weeks[number] = [0.0] * 7
            if len(self._weeks) > MOST_WEEKS:
                del self._weeks[min(self._weeks)]
        ours, theirs = predicted - seconds, baseline - seconds
        told = held == held
        for place, value in enumerate((1.0, abs(ours), abs(theirs), ours * ours, theirs * theirs, float(told))):
            sums[place] += value
        sums[6] += held if told else 0.0

    def __iter__(self) -> Iterator[Week]:
        """Yield the weeks, oldest first; any thread may, while another adds."""
        for number, sums in sorted(self._weeks.copy().items()):
            n, ours, theirs, squared, theirs_squared, told, held = sums
            yield Week(
                begin=number * WEEK + _MONDAY, n_jobs=int(n), error=ours / n, last_two_error=theirs / n,
                squared_ratio=squared / theirs_squared if theirs_squared else float("nan"),
                covered=held / told if told else float("nan"),
            )  # fmt: skip

    def table(self) -> Floats:
        return np.array([[number, *sums] for number, sums in self._weeks.items()], dtype=np.float64).reshape(-1, 8)

    @classmethod
    def from_table(cls, table: Floats) -> "WeeklyErrors":
        found = cls()
        found._weeks = {int(number): sums for number, *sums in table.tolist()}
        return found
