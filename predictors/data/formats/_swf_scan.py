"""Rows of SWF: a compiled scanner, and a careful parser for what it refuses."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Ints
from predictors.core.jit import compiled
from predictors.data.joblog import UNKNOWN

_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = frozenset((b"nan", b"inf", b"infinity"))

LARGEST_QUANTITY: Final = 2**53
"""Times, processors and memory beyond this are no measurement; below it sums and floats stay exact."""
LARGEST_CODE: Final = 2**63 - 1
CODES: Final = frozenset(("job_id", "user", "group", "executable", "queue", "partition", "preceding_job"))
"""Columns that name something, so that any int64 will do."""


def parse_value(token: bytes, column: str) -> tuple[int, str]:
    """Return a field's value, `UNKNOWN` where it is -1 or breaks a rule, and the rule that it met or "".

    `fraction` is of a value that was rounded, half up; the values of other rules are lost.

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


BLANK: Final = 0
COMMENT: Final = 1
JOB: Final = 2
ODD: Final = 3

FIELDS: Final = (
    "job_id",
    "submit",
    "wait",
    "run_time",
    "allocated_procs",
    "cpu_time",
    "used_memory",
    "requested_procs",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)
"""The job log's column behind each field, in the format's order."""

MISSING: Final = np.iinfo(np.int64).min  # stands in a row that has too few fields to be read
_BLANKS: Final = b" \t\r"
_BLANK_RUN: Final = re.compile(rb"[ \t\r]+")


class Problem(NamedTuple):
    """A value that the careful parser could not take as it is."""

    row: int
    rule: str
    column: str
    token: str


@dataclass(frozen=True)
class Rows:
    """The rows of a file in its order: values as read, and what to say about them."""

    text: bytes  # the file
    # kinds, starts: shape (n_lines,); what each line is (`BLANK`, `COMMENT`, `JOB`, `ODD`) and where it begins
    kinds: npt.NDArray[np.uint8]
    starts: Ints
    lines: Ints  # shape (n_rows,); line number of each row, from 1
    values: Ints  # shape (n_rows, 18); the fields
    fractions: Ints  # shape (n_rows,); bit c is set where field c was rounded
    problems: tuple[Problem, ...] = ()  # in the file's order
    # fields 19 to 21 of the rows that have 21: GPUs, soft walltime and the site's descriptor
    more: Mapping[int, tuple[bytes, bytes, bytes]] = field(default_factory=dict)
    # field 19 of the rows that have 19 and no number there: the queue's name, as MetaCentrum writes it
    queues: Mapping[int, bytes] = field(default_factory=dict)

    def line(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.text[start : self.text.index(b"\n", start)]

    def tokens(self, row: int) -> list[bytes]:
        line = self.line(int(self.lines[row]) - 1).strip(_BLANKS)
        return _BLANK_RUN.split(line) if line else []

    def token(self, row: int, field: int) -> str:
        """Return one field of a row for a message."""
        tokens = self.tokens(row)
        return tokens[field][:40].decode("ascii", "backslashreplace") if field < len(tokens) else ""


def parse_rows(text: bytes, careful: bool = False) -> Rows:
    """Return the rows of a file that ends in a newline.

    Every row that the compiled scanner does not understand to the letter goes to the careful parser; with `careful`
    all rows do, slowly and with the same result.
    """
    data = np.frombuffer(text, dtype=np.uint8)
    n_lines = int(np.count_nonzero(data == ord("\n")))
    starts, kinds = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.uint8)
    values, fractions = np.empty((n_lines, len(FIELDS)), dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    tails = np.zeros(n_lines, dtype=np.int64)
    scan_lines(data, starts, kinds, values, fractions, tails)
    lines = np.flatnonzero(kinds >= JOB) + 1
    rows = Rows(text, kinds, starts, lines, values[: len(lines)], fractions[: len(lines)])
    wide = np.flatnonzero(tails[: len(lines)])
    if len(wide):
        rows = replace(rows, more=_more(text, tails, wide, kinds, lines))
    return _with_odd_rows(rows, np.flatnonzero(kinds[lines - 1] >= (JOB if careful else ODD)))


def _more(text: bytes, tails: Ints, wide: Ints, kinds: Any, lines: Ints) -> dict[int, tuple[bytes, bytes, bytes]]:
    """Return the last three of 21 fields by row; a row where the first two are no numbers becomes an odd one."""
    found = {}
    for row, tail in zip(wide.tolist(), tails[wide].tolist(), strict=True):
        fields = text[tail : text.index(b"\n", tail)].split()
        if _is_more(fields):
            found[row] = fields[0], fields[1], fields[2]
        else:
            kinds[lines[row] - 1] = ODD
    return found


def _is_more(fields: Sequence[bytes]) -> bool:
    return len(fields) == N_MORE and all(_NUMBER.fullmatch(field) for field in fields[:2])


def _with_odd_rows(rows: Rows, odd: Ints) -> Rows:
    """Return the rows with those that the scanner left open filled in by the careful parser."""
    problems: list[Problem] = []
    more, queues = dict(rows.more), dict[int, bytes]()
    for row in odd.tolist():
        tokens = rows.tokens(row)
        rows.fractions[row] = 0
        if len(tokens) < len(FIELDS):
            rows.values[row] = MISSING
            continue
        for place, column in enumerate(FIELDS):
            value, rule = parse_value(tokens[place], column)
            rows.values[row, place] = value
            if rule == "fraction":
                rows.fractions[row] |= 1 << place
            elif rule:
                problems.append(Problem(row, rule, column, rows.token(row, place)))
        if _is_more(tokens[len(FIELDS) :]):
            more[row] = tokens[len(FIELDS)], tokens[len(FIELDS) + 1], tokens[len(FIELDS) + 2]
        elif len(tokens) == len(FIELDS) + 1 and not _NUMBER.fullmatch(tokens[-1]):
            queues[row] = tokens[-1]
        elif len(tokens) > len(FIELDS):
            problems.append(Problem(row, "surplus-fields", "", rows.token(row, len(FIELDS))))
    return replace(rows, problems=tuple(problems), more=more, queues=queues)


N_FIELDS: Final = len(FIELDS)
N_MORE: Final = 3
_DIGITS: Final = 15
_TAB, _NEWLINE, _RETURN, _SPACE, _MINUS, _DOT, _ZERO, _NINE, _SEMICOLON = 9, 10, 13, 32, 45, 46, 48, 57, 59


@compiled
def scan_lines(
    data: npt.NDArray[np.uint8],  # the file, ending in a newline
    starts: npt.NDArray[np.int64],  # starts, kinds: shape (n_lines,); written: where each line begins, what it is
    kinds: npt.NDArray[np.uint8],
    # shape (n_lines, 18); written: the fields of the k-th line that is a JOB or ODD in row k; nothing useful for an ODD
    # one
    values: npt.NDArray[np.int64],
    # shape (n_lines,); written, same rows: bit c is set where field c had a fraction other than 0
    fractions: npt.NDArray[np.int64],
    tails: npt.NDArray[np.int64],  # shape (n_lines,); written, same rows: where the 19th field of a row of 21 begins
) -> int:
    """Parse every line; return the number of lines.

    A line is a JOB if it has 18 fields, each `-1` or up to 15 digits, perhaps with a fraction, which is rounded half
    up, and perhaps three more of any kind. Whatever else is not blank or a comment is ODD and left to the careful
    parser.
    """
    n = data.size
    line = 0
    row = 0
    i = 0
    while i < n:
        starts[line] = i
        kind = BLANK
        field = 0
        rounded = 0
        while True:
            c = data[i]
            while c in (_SPACE, _TAB, _RETURN):
                i += 1
                c = data[i]
            if c == _NEWLINE:
                break
            if field == 0 and c == _SEMICOLON:
                kind = COMMENT
                break
            kind = JOB
            if field == N_FIELDS:
                tail, more = i, 0
                while data[i] != _NEWLINE:
                    if data[i] not in (_SPACE, _TAB, _RETURN):
                        more += 1
                        while data[i] not in (_SPACE, _TAB, _RETURN, _NEWLINE):
                            i += 1
                    else:
                        i += 1
                if more == N_MORE:
                    tails[row] = tail
                else:
                    kind = ODD
                break
            negative = c == _MINUS
            if negative:
                i += 1
                c = data[i]
            first = i
            value = np.int64(0)
            while c >= _ZERO and c <= _NINE:
                value = value * 10 + np.int64(c) - _ZERO
                i += 1
                c = data[i]
            digits = i - first
            if c == _DOT and digits > 0 and not negative:
                i += 1
                c = data[i]
                if c >= _ZERO + 5 and c <= _NINE:
                    value += 1
                while c >= _ZERO and c <= _NINE:
                    if c != _ZERO:
                        rounded |= 1 << field
                    i += 1
                    c = data[i]
            ended = c in (_SPACE, _NEWLINE, _TAB, _RETURN)
            if digits == 0 or digits > _DIGITS or not ended or (negative and value != 1):
                kind = ODD
                break
            values[row, field] = -1 if negative else value
            field += 1
        while data[i] != _NEWLINE:
            i += 1
        i += 1
        if kind == JOB and field != N_FIELDS:
            kind = ODD
        kinds[line] = kind
        if kind >= JOB:
            fractions[row] = rounded if kind == JOB else 0
            row += 1
        line += 1
    return line
