"""Which jobs of a log may be postponed, and until when? By a share, a rule on a column, or a file of deadlines."""

import csv
import operator
import re
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from predictors.data.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.sources import read_text
from schedsim.deadlines import drawn, with_deadlines
from schedsim.given import LATEST
from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]

COMPARISONS: Final[Mapping[str, Callable[[Any, int], Any]]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
)
_RULE: Final = re.compile(r"\s*(\w+)\s*(<=|>=|<|>|=)\s*(-?\d+)\s*")


def deadlines_by(what: str, log: JobLog, seed: int = 0) -> Ints:
    """Return the deadlines of a cleaned log's jobs on its clock from 0 [s], -1 for jobs that may not be postponed.

    Parameters
    ----------
    what : str
        A share from 0 to 1, drawn by seed; a rule such as `queue=2`; or a CSV file with the columns job_id and
        deadline, in seconds on the log's own clock. Share and rule give deadlines as `with_deadlines` does.
    log : JobLog
        Cleaned by `for_simulation`.
    seed : int
        Of a share.

    Raises
    ------
    JobcastError
        If it is none of these, or names no column, no job, or a deadline before its job's submission.

    Examples
    --------
    >>> from predictors.data.synthetic import generate_log
    >>> log = generate_log(100, seed=1)
    >>> int((deadlines_by("requested_time<=3600", log) >= 0).sum()), int((deadlines_by("0.3", log) >= 0).sum())
    (33, 30)
    """
    workload = Workload.from_log(log)
    if what.endswith(".csv"):
        return _from_file(Path(what), workload)
    rule = _RULE.fullmatch(what)
    if rule is not None:
        column, compare, value = rule[1], rule[2], int(rule[3])
        if column not in (*log.values, "procs"):
            raise unknown_name("column", column, (*log.values, "procs"))
        known = np.ones(len(log), np.bool_) if column == "procs" else log.known(column)
        values = log.procs if column == "procs" else log.filled(column)
        if not known.any():
            raise JobcastError(f"{log.name}: tells {column} of no job; --postponable {what!r} would mark none.")
        marks = known & COMPARISONS[compare](values, value)
    elif is_share(what):
        marks = drawn(workload, float(what), seed)
    else:
        raise JobcastError(
            f"--postponable {what!r}: a share (0.3), a rule (queue=2, procs<=64), or a file of deadlines (….csv)."
        )
    found = with_deadlines(workload, marks).deadline
    assert found is not None
    return found


def is_share(what: str) -> bool:
    """Return whether this is a number: a share of the jobs, drawn by seed.

    Examples
    --------
    >>> is_share("0.3"), is_share("queue=2"), is_share("late.csv")
    (True, False, False)
    """
    try:
        float(what)
    except ValueError:
        return False
    return True


def _from_file(path: Path, workload: Workload) -> Ints:
    """Read job_id and deadline."""
    row_of = {job: row for row, job in enumerate(workload.job_id.tolist())}
    deadline = np.full(len(workload), -1, dtype=np.int64)
    try:
        with StringIO(read_text(path, "a CSV file of deadlines"), newline="") as lines:
            table = csv.DictReader(lines)
            names = list(table.fieldnames or ())
            if (names.count("job_id"), names.count("deadline")) != (1, 1):
                raise JobcastError(f"{path}: the first line must name the columns job_id and deadline, each once.")
            for line in table:
                where = f"{path}:{table.line_num}"
                try:
                    job, second = int(line["job_id"]), int(line["deadline"])
                except (TypeError, ValueError):
                    raise JobcastError(f"{where}: job_id and deadline must be whole numbers; got {line}.") from None
                if None in line or None in line.values():
                    raise JobcastError(f"{where}: has not one value for each column of the first line.")
                if abs(second) > LATEST:
                    raise JobcastError(f"{where}: job {job} has a deadline that no log can reach: {second} s.")
                if job not in row_of:
                    raise JobcastError(f"{where}: {workload.name} has no job {job}.")
                row = row_of[job]
                if second - workload.origin < workload.submit[row]:
                    submitted = int(workload.submit[row]) + workload.origin
                    raise JobcastError(
                        f"{where}: job {job} has the deadline {second} s, before its submission at {submitted} s."
                    )
                if deadline[row] >= 0:
                    raise JobcastError(f"{where}: job {job} has a deadline already.")
                deadline[row] = second - workload.origin
    except csv.Error as error:
        raise JobcastError(f"{path}: is not CSV: {error}.") from error
    return deadline
