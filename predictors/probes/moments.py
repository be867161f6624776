"""When is each application run? Two to three times a day, at random times that a seed fixes.

The times of a day hang on (seed, application, day) alone: a program that is started again goes on with the same ones,
and an application that is added moves no other's.
"""

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

DAY: Final = 86_400
"""Days begin at midnight UTC [s]."""


def moments(seed: int, application: str, day: int, per_day: Sequence[int] = (2, 3)) -> list[int]:
    """Return when an application is run on a day.

    Parameters
    ----------
    seed : int
        At least 0.
    application : str
        Its name.
    day : int
        Days since 1 January 1970, UTC.
    per_day : two int
        Least and most runs a day; the number is drawn as well.

    Returns
    -------
    list of int
        Unix seconds, ascending, each once.

    Examples
    --------
    >>> [second % DAY // 3600 for second in moments(1, "AMG", 20_000)]
    [0, 15]
    """
    draw = np.random.default_rng([seed, zlib.crc32(application.encode()), day])
    number = int(draw.integers(per_day[0], per_day[1] + 1))
    return [day * DAY + int(second) for second in np.sort(draw.choice(DAY, number, replace=False))]


def due(
    seed: int, applications: Sequence[str], after: float, until: float, per_day: Sequence[int] = (2, 3)
) -> list[tuple[int, str]]:
    """Return (Unix second, application) of all runs with after < second <= until, in the order of time."""
    days = range(int(after // DAY), int(until // DAY) + 1)
    found = [(second, name) for day in days for name in applications for second in moments(seed, name, day, per_day)]
    return sorted(one for one in found if after < one[0] <= until)
