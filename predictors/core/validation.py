"""Checks of arguments: whole numbers, time zones, and parts of a simulation."""

from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from predictors.core.errors import JobcastError

LATEST: Final = 1 << 48
"""No second, and no number of nodes, is larger."""


def check_whole(value: object, what: str, least: int = -LATEST, most: int = LATEST) -> None:
    """Refuse what is not a whole number within bounds.

    Raises
    ------
    JobcastError
        Naming the value.

    Examples
    --------
    >>> check_whole(1.5, "the start")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: The start must be a whole number; got 1.5.
    """
    begin = what if ": " in what else what[0].upper() + what[1:]  # after a file and a line, go on
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise JobcastError(f"{begin} must be a whole number; got {value!r}.")
    if not least <= value <= most:
        raise JobcastError(f"{begin} must be from {least} to {most}; got {value}.")


def check_part(value: object, needs: tuple[str, ...], what: str, way_out: str) -> None:
    """Refuse a part of a simulation that lacks what such parts have; None is no part.

    Raises
    ------
    JobcastError
        Naming what was given, and the way out.

    Examples
    --------
    >>> check_part("first-fit", ("topology", "place"), "an allocator", "make one with make_allocator")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: 'first-fit' is not an allocator; make one with make_allocator.
    """
    if value is not None and not all(hasattr(value, name) for name in needs):
        raise JobcastError(f"{value!r} is not {what}; {way_out}.")


def known_zone(time_zone: str) -> ZoneInfo:
    """Return a time zone by its IANA name.

    Raises
    ------
    JobcastError
        If the system does not know it.
    """
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise JobcastError(f"No time zone {time_zone!r}; give an IANA name, such as Europe/Paris.") from error
