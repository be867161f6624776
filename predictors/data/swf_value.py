"""One field of an SWF row: the whole number it stands for, or the rule that it breaks."""

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

from predictors.data.joblog import UNKNOWN

_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = frozenset((b"nan", b"inf", b"infinity"))

LARGEST_QUANTITY: Final = 2**53
"""Times, processors and memory beyond this are no measurement; below it sums and floats stay exact."""
LARGEST_CODE: Final = 2**63 - 1
CODES: Final = frozenset(("job_id", "user", "group", "executable", "queue", "partition", "preceding_job"))
"""Columns that name something, so that any int64 will do."""


def parse_value(token: bytes, column: str) -> tuple[int, str]:
    """Return a field's value, and the rule that it met or "".

    Parameters
    ----------
    token : bytes
        The field, without blanks.
    column : str
        Its column in the job log.

    Returns
    -------
    value : int
        Rounded half up; `UNKNOWN` where the field is -1 or breaks a rule.
    rule : str
        `fraction` for a value that was rounded; `not-a-number`, `not-finite`, `negative` or `too-large` for one that
        is lost; "" for one that stands as it is.

    Examples
    --------
    >>> [parse_value(token, "wait") for token in (b"7", b"-1", b"7.5", b"1e3", b"-4", b"12:30", b"nan")]
    [(7, ''), (-1, ''), (8, 'fraction'), (1000, ''), (-1, 'negative'), (-1, 'not-a-number'), (-1, 'not-finite')]
    """
    if not _NUMBER.fullmatch(token):
        not_finite = token.lower().lstrip(b"+-") in _NOT_FINITE
        return UNKNOWN, "not-finite" if not_finite else "not-a-number"
    try:
        exact = Decimal(token.decode("ascii"))
    except InvalidOperation:  # an exponent of more digits than Decimal holds
        return UNKNOWN, "too-large"
    if exact == UNKNOWN:
        return UNKNOWN, ""
    if exact < 0:
        return UNKNOWN, "negative"
    if exact > (LARGEST_CODE if column in CODES else LARGEST_QUANTITY):
        return UNKNOWN, "too-large"
    value = int(exact.to_integral_value(ROUND_HALF_UP))
    return value, "" if value == exact else "fraction"
