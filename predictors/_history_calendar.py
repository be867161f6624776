"""How far a time zone's clocks are from UTC, as a small table that compiled code can search."""

from datetime import datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints

_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(2100, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
_WEEK = 7 * 86400  # no zone has ever changed its clocks forth and back within a week


@cache
def utc_offsets(time_zone: str | None) -> Ints:
    """Return the offsets of a zone's local time from UTC, as (from Unix time [s], offset [s]) of shape (n, 2).

    Parameters
    ----------
    time_zone : str or None
        IANA name, such as Europe/Paris; None is UTC. Changes are known from 1970 to 2100; later seconds keep the last.

    Raises
    ------
    JobcastError
        If the name is not in the time-zone database.

    Examples
    --------
    >>> utc_offsets("Europe/Paris")[1:3].tolist()  # summer time was introduced on 28 March 1976, at 01:00
    [[196819200, 7200], [212540400, 3600]]
    """
    if time_zone is None:
        return _frozen([(0, 0)])
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise JobcastError(f"No time zone {time_zone!r} is known; give a name such as Europe/Paris.") from error

    def offset(unix: int) -> int:
        shift = datetime.fromtimestamp(unix, zone).utcoffset() or timedelta(0)
        return int(shift.total_seconds())

    table = [(0, offset(0))]
    for later in range(int(_FIRST.timestamp()) + _WEEK, int(_LAST.timestamp()), _WEEK):
        if offset(later) != table[-1][1]:
            before, after = later - _WEEK, later
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset(middle) == table[-1][1] else (before, middle)
            table.append((after, offset(after)))
    return _frozen(table)


def _frozen(table: list[tuple[int, int]]) -> Ints:
    array = np.array(table, dtype=np.int64)
    array.flags.writeable = False
    return array
