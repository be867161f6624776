"""Checks of arguments: whole numbers, time zones, and parts of a simulation."""

from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints
from predictors.core.errors import JobcastError

LATEST: Final = 1 << 48  # no second, and no number of nodes, is larger


def check_whole(value: object, what: str, least: int = -LATEST, most: int = LATEST) -> None:
    """Refuse what is not a whole number within bounds.

    >>> check_whole(1.5, "the start")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: The start must be a whole number; got 1.5.
    """
    begin = what if ": " in what else what[0].upper() + what[1:]  # after a file and a line, go on
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise JobcastError(f"{begin} must be a whole number; got {value!r}.")
    if not least <= value <= most:
        raise JobcastError(f"{begin} must be from {least} to {most}; got {value}.")


def whole_numbers(values: npt.ArrayLike, what: str, unknown: Bools | None = None) -> Ints:
    """Return a column as int64; what stands in rows where `unknown` is True does not count and becomes 0.

    >>> whole_numbers([1, 2.0], "the wait").tolist()
    [1, 2]
    >>> whole_numbers([1, 2.5], "the wait")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: The wait must be whole numbers from -2^63 to 2^63 - 1; got 2.5 in row 1.
    """
    array = np.asarray(values)
    if array.dtype == np.int64:
        return array
    known = np.ones(array.shape, np.bool_) if unknown is None or unknown.shape != array.shape else ~unknown
    if array.dtype.kind in "biu":
        sound = array <= np.iinfo(np.int64).max
    elif array.dtype.kind == "f":
        sound = (np.abs(array) < 2.0**63) & (np.trunc(array) == array)
    else:
        sound = np.array([_is_int64(value) for value in array.ravel().tolist()], np.bool_).reshape(array.shape)
    bad = np.flatnonzero(known & ~sound)
    if len(bad):
        begin = what[0].upper() + what[1:]
        value = array.ravel()[bad[0]]
        shown = value.item() if isinstance(value, np.generic) else value
        raise JobcastError(
            f"{begin} must be whole numbers from -2^63 to 2^63 - 1; got {str(shown)[:40]} in row {bad[0]}."
        )
    return np.where(known, array, 0).astype(np.int64)


def _is_int64(value: object) -> bool:
    return isinstance(value, int | np.integer) and -(2**63) <= int(value) < 2**63


def check_part(value: object, needs: tuple[str, ...], what: str, way_out: str) -> None:
    """Refuse a part of a simulation that lacks what such parts have; None is no part.

    >>> check_part("first-fit", ("topology", "place"), "an allocator", "make one with make_allocator")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: 'first-fit' is not an allocator; make one with make_allocator.
    """
    if value is not None and not all(hasattr(value, name) for name in needs):
        raise JobcastError(f"{value!r} is not {what}; {way_out}.")


def known_zone(time_zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise JobcastError(f"No time zone {time_zone!r}; give an IANA name, such as Europe/Paris.") from error
