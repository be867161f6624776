"""The rows of an SWF file as numbers, in the file's order, and where a value could not be taken as it stands."""

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.data.joblog import Ints
from predictors.data.swf_value import parse_value

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

MISSING: Final = np.iinfo(np.int64).min
"""Stands in a row that has too few fields to be read."""
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
    """The rows of a file in its order: values as read, and what to say about them.

    Parameters
    ----------
    text : bytes
        The file.
    kinds, starts : arrays of shape (n_lines,)
        What each line is (`BLANK`, `COMMENT`, `JOB`, `ODD`) and where it begins.
    lines : int64 array of shape (n_rows,)
        Line number of each row, from 1.
    values : int64 array of shape (n_rows, 18)
        The fields.
    fractions : int64 array of shape (n_rows,)
        Bit c is set where field c was rounded.
    problems : tuple of Problem
        In the file's order.
    """

    text: bytes
    kinds: npt.NDArray[np.uint8]
    starts: Ints
    lines: Ints
    values: Ints
    fractions: Ints
    problems: tuple[Problem, ...] = ()

    def line(self, index: int) -> bytes:
        """Return a line, counted from 0."""
        start = int(self.starts[index])
        return self.text[start : self.text.index(b"\n", start)]

    def tokens(self, row: int) -> list[bytes]:
        """Return the fields of a row as the file has them."""
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
    from predictors.data._swf_kernel import scan_lines  # numba, which other formats need not wait for

    data = np.frombuffer(text, dtype=np.uint8)
    n_lines = int(np.count_nonzero(data == ord("\n")))
    starts, kinds = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.uint8)
    values, fractions = np.empty((n_lines, len(FIELDS)), dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    scan_lines(data, starts, kinds, values, fractions)
    lines = np.flatnonzero(kinds >= JOB) + 1
    rows = Rows(text, kinds, starts, lines, values[: len(lines)], fractions[: len(lines)])
    return _with_odd_rows(rows, np.flatnonzero(kinds[lines - 1] >= (JOB if careful else ODD)))


def _with_odd_rows(rows: Rows, odd: Ints) -> Rows:
    """Return the rows with those that the scanner left open filled in by the careful parser."""
    problems: list[Problem] = []
    for row in odd.tolist():
        tokens = rows.tokens(row)
        rows.fractions[row] = 0
        if len(tokens) < len(FIELDS):
            rows.values[row] = MISSING
            continue
        for field, column in enumerate(FIELDS):
            value, rule = parse_value(tokens[field], column)
            rows.values[row, field] = value
            if rule == "fraction":
                rows.fractions[row] |= 1 << field
            elif rule:
                problems.append(Problem(row, rule, column, rows.token(row, field)))
        if len(tokens) > len(FIELDS):
            problems.append(Problem(row, "surplus-fields", "", rows.token(row, len(FIELDS))))
    return replace(rows, problems=tuple(problems))
