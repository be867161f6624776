"""JobLog: a validated, immutable table of jobs, one row a job, sorted by (submit, job id)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Ints, jobs_in
from predictors.core.errors import JobcastError, printable, unknown_name
from predictors.core.validation import whole_numbers

if TYPE_CHECKING:
    import pandas as pd


UNKNOWN: Final = -1  # what an unknown value reads as in a plain array; in a `JobLog` it is masked

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job_id": "number of the job in its log, unique",
        "submit": "submission [s since the log's first submission]",
        "wait": "start - submit [s]",
        "run_time": "end - start [s]",
        "requested_time": "walltime that the user asked for; jobs are killed there [s]",
        "requested_procs": "processors asked for",
        "allocated_procs": "processors given",
        "cpu_time": "mean CPU time used a processor [s]",
        "requested_memory": "memory asked for a processor [KB]",
        "used_memory": "memory used a processor [KB]",
        "user": "who submitted it (code)",
        "group": "the user's group or account (code)",
        "executable": "application (code)",
        "queue": "queue (code)",
        "partition": "partition of the machine (code)",
        "status": "0 failed, 1 completed, 2-4 partial, 5 cancelled",
        "preceding_job": "job id that must end before this one may start",
        "think_time": "pause between the preceding job's end and this submission [s]",
    }
)
FURTHER: Final[Mapping[str, str]] = MappingProxyType(  # columns that SWF lacks, where the source has them
    {
        "project": "project or account that pays (code)",
        "exit_code": "exit code of the job's script; 128 + n where signal n ended it",
        "state": "the scheduler's own last word on the job (code)",
        "mode": "how it was submitted, such as script or c16 (code)",
        "qos": "quality of service (code)",
        "nice": "nice value: what Slurm takes off its priority, below 0 what it adds",
        "site_factor": "what a site's own plugin adds to its priority under Slurm",
        "nodes": "nodes given",
        "requested_nodes": "nodes asked for",
        "cores": "cores given, where processors are nodes",
        "location": "where it ran: nodes or partition as the log writes them (code)",
        "directory": "working directory (code)",
        "command": "command line (code)",
        "eligible_wait": "part of the wait in which nothing but other jobs held it back [s]",
        "overburn": "1 where it ran on time beyond its project's allocation, else 0",
        "array": "number of the job array that it is part of",
        "restarts": "how often it was put back into the queue",
        "label": "its id in the scheduler's own words (code), where that is no plain number",
        "requested_gpus": "GPUs asked for, of the whole job",
        "allocated_gpus": "GPUs given, of the whole job",
        "gpu_type": "types of the GPUs asked for, commas between them (code)",
        "requested_job_memory": "memory asked for, of the whole job [KB]",
        "used_job_memory": "largest memory used at a time, of the whole job [KB]",
        "constraint": "features that its nodes must have (code)",
        "exclusive": "1 where it asked for nodes of its own, 2 for nodes of its user's, 0 where it shares them",
        "reservation": "reservation that it ran in (code)",
        "dependency": "kinds of its dependencies, such as afterok (code)",
        "parents": "scheduler's ids of the jobs that it depends on, with : between them (code)",
        "licenses": "licences asked for (code)",
        "soft_walltime": "run time that the site's own system predicted for it [s]",
        "descriptor": "the site's own words on what it ran on (code)",
        "signature": "first 52 of the 104 signs of its vector, see predictors.data.formats.tables.vectors",
        "signature_2": "the other 52",
    }
)

SIGNATURE_BITS: Final = 52  # signs in each word of a signature; a word of a vector's signature has the next bit set too
KNOWN_COLUMNS: Final = (*COLUMNS, *FURTHER)
CODED: Final = tuple(name for name, text in {**COLUMNS, **FURTHER}.items() if "(code)" in text)
"""Columns of codes that may have names."""
OWN_NODES: Final = 1  # in the column `exclusive`: it asks for nodes that it shares with no other job
NODES_OF_USER: Final = 2  # for nodes that it shares with jobs of its user alone
SIGNED: Final = ("nice", "site_factor")  # columns of numbers that may be below 0
_NEVER_UNKNOWN: Final = ("job_id", "submit")


@dataclass(frozen=True, eq=False)
class JobLog:
    """A job log in memory.

    Parameters
    ----------
    values : mapping of str to int64 array of shape (n_jobs,)
        Columns of `COLUMNS` and `FURTHER`; an absent column is unknown for every job. Rows must be sorted by
        (submit, job id) and `submit` must begin at 0: `JobLog.from_columns` sorts and rebases.
    unknown : mapping of str to bool array of shape (n_jobs,)
        True where a value is unknown; an absent entry means that every value is known.
    origin : int
        The first submission in the file's own clock [s]; writers add it back.
    epoch : int or None
        The first submission as Unix time [s], where known.
    time_zone : str or None
        IANA name of the machine's time zone, where known.
    max_procs, max_nodes, max_gpus : int or None
        Size of the machine, where known; `max_gpus` 0 says that it has no GPU.
    header : tuple of (str, str)
        The log's own header, label and text, in order.
    categories : mapping of str to tuple of str
        Names behind the codes of `user`, `group`, … for logs that have names: code i is `categories[column][i]`.
    name : str
        The log's name in tables: its file's name.
    """

    values: Mapping[str, Ints]
    unknown: Mapping[str, Bools] = field(default_factory=dict)
    origin: int = 0
    epoch: int | None = None
    time_zone: str | None = None
    max_procs: int | None = None
    max_nodes: int | None = None
    max_gpus: int | None = None
    header: tuple[tuple[str, str], ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = "log"

    def __post_init__(self) -> None:
        for column in (*self.values, *self.unknown):
            if column not in KNOWN_COLUMNS:
                raise unknown_name("job log column", column, KNOWN_COLUMNS)
        n_jobs = len(self.values["job_id"])
        values, unknown = {}, {}
        for column in (*COLUMNS, *(column for column in FURTHER if column in self.values)):
            mask = _copied(self.unknown.get(column), column not in self.values, n_jobs, np.bool_)
            array = _copied(_whole(self.values.get(column), column, mask), UNKNOWN, n_jobs, np.int64)
            if array.shape != (n_jobs,) or mask.shape != (n_jobs,):
                raise JobcastError(f"Job log column {column!r} has shape {array.shape}; all must have ({n_jobs},).")
            array[mask] = UNKNOWN
            array.flags.writeable = mask.flags.writeable = False
            values[column], unknown[column] = array, mask
        object.__setattr__(self, "values", MappingProxyType(values))
        object.__setattr__(self, "unknown", MappingProxyType(unknown))
        object.__setattr__(self, "categories", MappingProxyType(dict(self.categories)))
        object.__setattr__(self, "name", printable(self.name))  # the name of a file can hold anything
        self._validate()

    def _validate(self) -> None:
        for column in _NEVER_UNKNOWN:
            if self.unknown[column].any():
                raise JobcastError(f"Job log column {column!r} must be known for every job.")
        submit, job_id = self.values["submit"], self.values["job_id"]
        if len(submit) and submit[0] != 0:
            raise JobcastError(f"A job log's first submission must be at 0 s; got {submit[0]}.")
        step = np.diff(submit)
        if (step < 0).any() or (np.diff(job_id)[step == 0] <= 0).any():
            raise JobcastError("A job log must be sorted by (submit, job id), without two equal ids.")
        if (np.diff(job_id) <= 0).any() and (np.diff(np.sort(job_id)) == 0).any():
            raise JobcastError("A job log must not hold the same job id twice.")
        for column in ("requested_gpus", "allocated_gpus") if self.max_gpus == 0 else ():
            if (rows := np.flatnonzero(self.filled(column) > 0)).size:
                raise JobcastError(
                    f"{self.name}: {column} of job {job_id[rows[0]]} is {self.filled(column)[rows[0]]}, but its "
                    "machine is said to have no GPU; leave max_gpus out, or give the number of its GPUs."
                )

    @classmethod
    def from_columns(
        cls,
        values: "Mapping[str, npt.ArrayLike] | pd.DataFrame",
        unknown: Mapping[str, npt.ArrayLike] = MappingProxyType({}),
        **about: object,
    ) -> Self:
        """Sort rows by (submit, job id), rebase times to the first submission, and build the log.

        Parameters
        ----------
        values : mapping of str to array, or pandas frame
            The columns. Submissions may be dates, those without a zone in UTC: then the log's epoch is known. Empty
            cells of a frame are unknown.
        unknown : mapping of str to bool array
            Where further values are unknown.
        **about
            The other parameters of the class; `origin` is set from the first submission.

        Examples
        --------
        >>> log = JobLog.from_columns({"job_id": [7, 5], "submit": [130, 100], "run_time": [3, 4]}, {})
        >>> log["submit"].tolist(), log["job_id"].tolist(), log.origin
        ([0, 30], [5, 7], 100)
        """
        if not isinstance(values, Mapping):
            values, unknown, dated = _of_frame(values, unknown)
            about |= {"epoch": dated} if "epoch" not in about and dated is not None else {}
        values = {**values, **{column: _whole(values[column], column) for column in _NEVER_UNKNOWN}}
        order = _order(np.asarray(values["submit"]), np.asarray(values["job_id"]))
        sorted_values = {column: np.asarray(array)[order] for column, array in values.items()}
        masks = {column: np.asarray(array)[order] for column, array in unknown.items()}
        origin = int(sorted_values["submit"][0]) if len(sorted_values["submit"]) else 0
        sorted_values["submit"] = sorted_values["submit"] - origin
        return cls(sorted_values, masks, origin=origin, **about)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        sizes = {"processors": self.max_procs, "nodes": self.max_nodes, "GPUs": self.max_gpus}
        machine = [f"{size:,} {unit}" for unit, size in sizes.items() if size]
        return f"JobLog({', '.join([repr(self.name), jobs_in(len(self), self.filled('submit')), *machine])})"

    def __len__(self) -> int:
        return len(self.values["job_id"])

    def __getitem__(self, column: str) -> "np.ma.MaskedArray[tuple[int], np.dtype[np.int64]]":
        """Return a column, unknown values masked; one of `FURTHER` that the log lacks is unknown for every job."""
        return np.ma.MaskedArray(self.filled(column), mask=~self.known(column))

    def filled(self, column: str, unknown: int = UNKNOWN) -> Ints:
        """Return a column as a plain read-only int64 array, `unknown` where the log has no value."""
        if column not in KNOWN_COLUMNS:
            raise unknown_name("job log column", column, KNOWN_COLUMNS)
        if column not in self.values:
            return np.full(len(self), unknown, dtype=np.int64)
        if unknown == UNKNOWN:
            return self.values[column]
        return np.where(self.unknown[column], unknown, self.values[column])

    def known(self, column: str) -> Bools:
        """Return where a column is known, shape (n_jobs,)."""
        if column not in KNOWN_COLUMNS:
            raise unknown_name("job log column", column, KNOWN_COLUMNS)
        if column not in self.values:
            return np.zeros(len(self), dtype=np.bool_)
        return ~self.unknown[column]

    def names(self, column: str) -> tuple[str, ...]:
        """Return the names behind the codes of a column; code i is `names[i]`, and codes beyond have none."""
        return self.categories.get(column, ())

    @property
    def partition_column(self) -> str:
        """The column that tells partitions: `partition`, or `queue`, as in Slurm's accounting; one with names first."""
        told = [column for column in ("partition", "queue") if self.known(column).any()]
        return next((column for column in told if self.names(column)), (*told, "partition")[0])

    @property
    def procs(self) -> Ints:
        """Processors of each job: requested if > 0, else allocated; `UNKNOWN` if neither is known."""
        requested = self.values["requested_procs"]
        return np.where(requested > 0, requested, self.values["allocated_procs"])

    def replaced(self, columns: Mapping[str, Ints]) -> Self:
        """Return the log with other values in some columns, known for every job.

        >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 5]}, {})
        >>> log.replaced({"wait": np.array([3, 4])})["wait"].tolist()
        [3, 4]
        """
        known = {column: np.zeros(len(self), dtype=np.bool_) for column in columns}
        return replace(self, values={**self.values, **columns}, unknown={**self.unknown, **known})

    def select(self, rows: Bools | Ints | slice) -> Self:
        """Return the log of some rows, its clock and machine unchanged except that times stay based on this log.

        The first row kept becomes second 0; `origin` and `epoch` move with it.
        """
        values = {column: array[rows] for column, array in self.values.items()}
        shift = int(values["submit"][0]) if len(values["submit"]) else 0
        values["submit"] = values["submit"] - shift
        return replace(
            self, values=values, unknown={column: mask[rows] for column, mask in self.unknown.items()},
            origin=self.origin + shift, epoch=None if self.epoch is None else self.epoch + shift,
        )  # fmt: skip

    def to_frame(self) -> "pd.DataFrame":
        """Return the table as a pandas frame of nullable integers, unknown values `<NA>`."""
        import pandas as pd

        columns = {c: pd.arrays.IntegerArray(self.values[c].copy(), self.unknown[c].copy()) for c in self.values}
        return pd.DataFrame(columns)

    def digest(self) -> str:
        """Return the SHA-256 of the table's values: equal logs have equal digests, whatever their files look like."""
        sha = hashlib.sha256(str(len(self)).encode())
        for column in self.values:
            if column in FURTHER:
                sha.update(column.encode())
            sha.update(np.ascontiguousarray(self.values[column], dtype="<i8").tobytes())
            sha.update(np.packbits(self.unknown[column]).tobytes())
        return sha.hexdigest()


def _of_frame(
    frame: "pd.DataFrame", unknown: Mapping[str, npt.ArrayLike]
) -> tuple[dict[str, npt.ArrayLike], dict[str, npt.ArrayLike], int | None]:
    """Return the columns of a frame, where they are unknown, and the first submission as Unix time if it is a date."""
    import pandas as pd

    values: dict[str, npt.ArrayLike] = {}
    masks, epoch = dict(unknown), None
    for name, column in frame.items():
        column, empty = pd.Series(column), column.isna().to_numpy()
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            if name != "submit":
                raise JobcastError(
                    f"Job log column {name!r} holds dates; only submit may, other times are seconds: give wait and "
                    "run_time as differences."
                )
            utc = column.dt.tz_localize("UTC") if column.dt.tz is None else column.dt.tz_convert("UTC")
            column = utc.dt.tz_localize(None).astype("datetime64[s]").astype("int64")
            epoch = int(column[~empty].min()) if not empty.all() else None
        elif pd.api.types.is_timedelta64_dtype(column.dtype):
            column = column.dt.total_seconds().floordiv(1)
        if empty.any():
            masks[str(name)] = empty | np.asarray(masks.get(str(name), False))
            column = column.mask(empty, UNKNOWN)
        values[str(name)] = column.to_numpy()
    return values, masks, epoch


def _whole(values: npt.ArrayLike | None, column: str, unknown: Bools | None = None) -> Any:
    return None if values is None else whole_numbers(values, f"job log column {column!r}", unknown)


def _copied(array: npt.NDArray[Any] | None, missing: int, n_jobs: int, dtype: type[Any]) -> npt.NDArray[Any]:
    """Return a copy of a column, or `missing` for every job where there is none."""
    return np.full(n_jobs, missing, dtype=dtype) if array is None else np.array(array, dtype=dtype)


def _order(submit: npt.NDArray[Any], job_id: npt.NDArray[Any]) -> Ints | slice:
    """Return the order by (submit, job id); all rows if they are in it already."""
    step = np.diff(submit)
    if (step > 0).all() or ((step >= 0).all() and (np.diff(job_id)[step == 0] > 0).all()):
        return slice(None)
    return np.lexsort((job_id, submit))
