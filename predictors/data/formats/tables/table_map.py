"""TableMap: which column of a table is which column of a job log, in which unit; written as TOML."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from predictors.core.declarations import Declaration, Text, Texts, declared
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.joblog import CODED, FURTHER, SIGNED

UNUSED: Final = "unused"  # what a column is called in a map that goes into no column of the job log

TIMES: Final = ("submit", "eligible", "start", "end")
SPANS: Final = ("wait", "run_time", "requested_time", "soft_walltime", "eligible_wait", "cpu_time")
MEMORY: Final = ("requested_memory", "used_memory", "requested_job_memory", "used_job_memory")
COUNTS: Final = (
    "requested_procs", "allocated_procs", "requested_nodes", "nodes", "cores", "requested_gpus", "allocated_gpus",
    "restarts", "array",
)  # fmt: skip
NAMES: Final = tuple(name for name in CODED if name not in ("label", "parents"))
LISTS: Final = ("requested_tres", "allocated_tres")  # Slurm's lists of resources, with GPUs and memory

VECTOR: Final = "vector"  # a list of numbers of each job, such as an embedding of its names: see `tables.vectors`

TARGETS: Final[Mapping[str, str]] = MappingProxyType(  # what a map may call a column, and the kind of its values
    {
        "job_id": "id",
        **dict.fromkeys(TIMES, "time"),
        **dict.fromkeys(SPANS, "span"),
        **dict.fromkeys(MEMORY, "memory"),
        **dict.fromkeys(COUNTS, "count"),
        **dict.fromkeys(SIGNED, "number"),
        "exit_code": "code",
        "exclusive": "flag",
        "overburn": "flag",
        **dict.fromkeys(NAMES, "name"),
        **dict.fromkeys(LISTS, "list"),
        VECTOR: "vector",
        UNUSED: "unused",
    }
)

UNITS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "time": ("s", "ms", "us", "ns"),
        "span": ("us", "ms", "s", "min", "h", "d"),
        "memory": ("B", "KB", "MB", "GB", "TB", "slurm"),
        "count": ("milli",),
    }
)
"""The units of each kind of value; a time may also have a pattern of strptime such as `%d.%m.%Y %H:%M`."""

SECONDS: Final[Mapping[str, float]] = MappingProxyType(
    {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
)
KILOBYTES: Final[Mapping[str, float]] = MappingProxyType(
    {"B": 1.0 / 1024, "KB": 1.0, "MB": 1024.0, "GB": 1024.0**2, "TB": 1024.0**3}
)
STATUS: Final = ("completed", "failed", "cancelled", "unended")

assert set(NAMES) <= {"user", "group", "executable", "queue", "partition", *FURTHER}


class Column(Declaration):
    """What one column of the table is."""

    column: Text  # one of `TARGETS`
    # one of `UNITS` for its kind. Without one, times are texts with a date or Unix time [s], spans are
    # `[days-]hh:mm:ss` or seconds, memory is in KB, counts are whole; one in `milli`, of thousandths, is rounded up.
    unit: str = ""
    # what memory is asked for; by default what the column of the job log says
    per: Literal["", "job", "node", "processor"] = ""


class TableMap(Declaration):
    """A map from a table's columns to those of a job log.

    >>> table_map = TableMap(columns={"Id": "job_id", "Limit": {"column": "requested_time", "unit": "min"}})
    >>> table_map.by_target["requested_time"]
    ('Limit', 'min', '')
    """

    # what each column of the table is; columns that are not named are not used, and counted
    columns: dict[str, Text | Column]
    # the letter between fields of a text
    delimiter: Annotated[str, Field(min_length=1, max_length=1, pattern=r"[\x01-\x7f]")] = ","
    decimal: Literal[".", ","] = "."  # the decimal mark, `.` or `,`
    unknown: Texts = ()  # texts that stand for an unknown value, such as -1, in addition to the usual ones
    time_zone: str = ""  # IANA name of the zone of times without an offset; empty if not known
    # how a job ended by its word in the column `state`: completed, failed, cancelled or unended
    status: dict[str, Literal["completed", "failed", "cancelled", "unended"]] = Field(default_factory=dict)
    # procs, nodes, gpus: size of the machine; `gpus` 0 says that it has none
    procs: Annotated[int, Field(ge=1)] | None = None
    nodes: Annotated[int, Field(ge=1)] | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None

    def model_post_init(self, _: Any) -> None:
        """Refuse columns that are not known, two for one, and units of another kind."""
        if not self.by_target:
            raise JobcastError(
                "columns names no column of a job log; give at least submit, start or wait, and end or run_time."
            )

    @cached_property
    def by_target(self) -> Mapping[str, tuple[str, str, str]]:
        """The table's column, its unit and what it is per, by column of the job log."""
        found: dict[str, tuple[str, str, str]] = {}
        for name, given in self.columns.items():
            about = Column(column=given) if isinstance(given, str) else given
            if about.column not in TARGETS:
                raise JobcastError(f'columns: "{name}": {unknown_name("column", about.column, TARGETS)}')
            kind = TARGETS[about.column]
            _check_unit(name, about, kind)
            if kind == "unused":
                continue
            if about.column in found:
                raise JobcastError(
                    f'columns: "{found[about.column][0]}" and "{name}" are both called {about.column}; one column of '
                    f'the table fills one of the job log: call one of them "{UNUSED}".'
                )
            found[about.column] = name, about.unit, about.per
        return found

    def require_complete(self, source: str) -> None:
        """Refuse a map without the columns that a job log needs."""
        given = set(self.by_target)
        lacking = [] if "submit" in given else ["submit"]
        lacking += [] if given & {"start", "wait"} else ["start (or wait)"]
        lacking += [] if given & {"end", "run_time"} else ["end (or run_time)"]
        if lacking:
            raise JobcastError(f"{source}: its map names no column for {', '.join(lacking)}.")


def _check_unit(name: str, about: Column, kind: str) -> None:
    units = UNITS.get(kind, ())
    pattern = kind == "time" and "%" in about.unit
    if about.unit and not pattern and about.unit not in units:
        known = f"one of {', '.join(units)}" if units else "left out"
        raise JobcastError(f'columns: "{name}": the unit of {about.column} must be {known}; got {about.unit!r}.')
    if about.per and kind != "memory":
        raise JobcastError(f'columns: "{name}": per is for memory alone; {about.column} is none.')


def read_map(document: Mapping[str, Any], where: str) -> TableMap:
    """Return the map that a TOML document holds; `where` names it in messages.

    >>> read_map({"columns": {"A": "submit", "B": "submit"}}, "map.toml")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: map.toml: columns: "A" and "B" are both called submit; one column of the ...
    """
    return declared(TableMap, document, where)


def header_of(text: str) -> tuple[tuple[str, str], ...]:
    r"""Return the header of a log that was read by a map: the map's lines, so that it travels with the log.

    >>> header_of('# mine\ndelimiter = ";"\n')
    (('Conversion', 'by a map of columns'), ('Map', 'delimiter = ";"'))
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return (("Conversion", "by a map of columns"), *(("Map", line) for line in lines))
