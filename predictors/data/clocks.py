"""One clock for a file of records: Unix time from times written with an offset, without one, or as Unix time."""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from predictors.data.errors import JobcastError
from predictors.data.joblog import Ints
from predictors.data.moments import MISSING, check_one_clock, moments, unix_time
from predictors.data.records import Draft

_NOTE: Final = (
    "times tell no zone and are taken as UTC, so that hours and days are those of the clock that wrote them; "
    "give its zone to have Unix time"
)


def clocked(columns: Mapping[str, Any], draft: Draft, time_zone: str | None) -> dict[str, Ints]:
    """Return columns of text as Unix time [s], `MISSING` where unknown.

    Parameters
    ----------
    columns : mapping of str to arrow array of text
        By what they are in the draft.
    draft : Draft
        Told what is no time, and that local times are taken as UTC.
    time_zone : str or None
        IANA name of the zone that local times are in.

    Raises
    ------
    JobcastError
        If some times tell their offset from UTC and others do not, or the zone is not known.
    """
    if time_zone is not None:
        known_zone(time_zone)
    read = {name: moments(column) for name, column in columns.items()}
    for name, found in read.items():
        draft.report("not-a-time", found.bad, name, columns[name][int(found.bad[0])].as_py() if len(found.bad) else "")

    def place(name: str, row: int) -> str:
        line = int(np.asarray(draft.places(np.array([row])))[0])
        return f"{draft.source}:{line}: {name} {columns[name][row].as_py()!r}"

    fixed = check_one_clock(read, place)
    if fixed or not any((found.seconds != MISSING).any() for found in read.values()):
        return {name: found.seconds for name, found in read.items()}
    if time_zone is None:
        draft.ledger.note("local-time", _NOTE)
        return {name: found.seconds for name, found in read.items()}
    return {name: unix_time(found.seconds, time_zone) for name, found in read.items()}


def known_zone(time_zone: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    JobcastError
        If the system knows none of that name.
    """
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise JobcastError(f"No time zone {time_zone!r}; give an IANA name, such as Europe/Paris.") from error
