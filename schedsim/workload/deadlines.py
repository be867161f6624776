"""Deadlines: which jobs may be postponed, and until when.

.. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
   2019. doi:10.1145/3322789.3328743
.. [2] N'takpe, Suter. Don't hurry be happy: a deadline-based backfilling approach. JSSPP 2017.
   doi:10.1007/978-3-319-77398-8_4
"""

import csv
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import read_text
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.hash_random import unit
from predictors.core.validation import LATEST, check_whole
from predictors.data.joblog import JobLog
from schedsim.workload.workload import Workload

LEAST: Final = 24 * 3600  # least time from submission to deadline [s]
TIMES: Final = 10  # this many requested times, if that is longer

_PURPOSE: Final = 73


def drawn(workload: Workload, share: float, seed: int = 0) -> Bools:
    """Draw which jobs may be postponed: each with the same chance, by (seed, job id).

    By one seed, a smaller share's jobs are among a larger one's.

    >>> w = Workload.from_columns(range(1, 101), submit=[0] * 100, procs=[1] * 100, requested=[60] * 100,
    ...                           run_time=[60] * 100, machine_procs=8)
    >>> int(drawn(w, 0.3).sum()), bool((drawn(w, 0.3) <= drawn(w, 0.5)).all())
    (30, True)
    """
    if not 0 <= share <= 1:
        raise JobcastError(f"The share of jobs that may be postponed is from 0 to 1; got {share}.")
    check_whole(seed, "the seed of which jobs may be postponed", 0, (1 << 62) - 1)
    return np.array([unit(seed, job, _PURPOSE) < share for job in workload.job_id.tolist()], dtype=np.bool_)


def with_deadlines(
    workload: Workload,
    postponable: Bools,  # shape (n_jobs,); which jobs may be postponed
    least: int = LEAST,  # from the submission to the deadline at least [s]
    times: float = TIMES,  # this many requested times, if that is longer
) -> Workload:
    """Return the workload with deadlines: submission + max(least, times x requested time) for jobs marked.

    >>> w = Workload.from_columns([1, 2, 3], submit=[0, 0, 5], procs=[1] * 3, requested=[3600, 36000, 60],
    ...                           run_time=[60] * 3, machine_procs=8)
    >>> (with_deadlines(w, np.array([True, True, False])).deadline / 3600).round(2).tolist()
    [24.0, 100.0, -0.0]
    """
    if least < 0 or not 0 <= times < float("inf"):
        raise JobcastError(f"A deadline lies 0 s or more after the submission; got {least} s and {times} requests.")
    after = np.maximum(least, np.floor(times * workload.requested)).astype(np.int64)
    return replace(workload, deadline=np.where(postponable, workload.submit + after, -1))


COMPARISONS: Final[Mapping[str, Callable[[Any, int], Any]]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
)
_RULE: Final = re.compile(r"\s*(\w+)\s*(<=|>=|<|>|=)\s*(-?\d+)\s*")


def deadlines_by(
    # a share from 0 to 1, drawn by seed; a rule such as `queue=2`; or a CSV file with the columns job_id and deadline,
    # in seconds on the log's own clock; share and rule give deadlines as `with_deadlines` does
    what: str,
    log: JobLog,  # cleaned by `predictors.data.cleaning.clean`
    seed: int = 0,  # of a share
) -> Ints:
    """Return the deadlines of a cleaned log's jobs on its clock from 0 [s], -1 for jobs that may not be postponed.

    >>> from predictors.data.synthetic.generate import generate_log
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

    >>> is_share("0.3"), is_share("queue=2"), is_share("late.csv")
    (True, False, False)
    """
    try:
        float(what)
    except ValueError:
        return False
    return True


def _from_file(path: Path, workload: Workload) -> Ints:
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
