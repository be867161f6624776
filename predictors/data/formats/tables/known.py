"""Public data sets with a known map of their tables, each recognised by the names of its columns.

| data set | what its columns mean |
|---|---|
| F-DATA (Fugaku) | Antici et al., F-DATA: A Fugaku Workload Dataset, 2024, doi 10.5281/zenodo.11467483 |
| PM100 (Marconi100) | Antici et al., PM100, SC 2023 workshops, doi 10.1145/3624062.3624263 |
| Eagle (NREL) | Open Energy Data Initiative, submission 5860 |
| MIT Supercloud | Samsi et al., The MIT Supercloud Dataset, HPEC 2021, doi 10.1109/HPEC49654.2021.9622850 |
| Helios (SenseTime), Acme | Hu et al., SC 2021, doi 10.1145/3458817.3476223; Hu et al., NSDI 2024 |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from predictors.core.parquet import MAGIC
from predictors.data.formats._delimited import header_names
from predictors.data.formats.parquet import is_own
from predictors.data.formats.slurm import STATES
from predictors.data.formats.tables.read import parquet_names, parquet_texts, parse_table
from predictors.data.formats.tables.table_map import Column, TableMap
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport

_SLURM: Final[Mapping[str, str]] = {
    state: {1: "completed", 0: "failed", 5: "cancelled"}.get(status, "unended") for state, status in STATES.items()
}
_NUMBERED_STATES: Final[Mapping[str, str]] = {  # Slurm's states as its database numbers them
    **dict.fromkeys(("0", "1", "2"), "unended"),
    "3": "completed",
    "4": "cancelled",
    **dict.fromkeys(("5", "6", "7", "8", "9", "10", "11"), "failed"),
}
_WEEK_IN_MINUTES: Final = 7 * 24 * 60


@dataclass(frozen=True)
class KnownTable:
    """A public data set."""

    title: str  # its name, for messages
    marks: frozenset[str]  # names of columns, in small letters, that tell it from other tables
    table_map: TableMap  # what its columns are; those that a release lacks are left out
    note: str = ""  # what a reader of its figures must know; goes into the account
    # a column of limits that releases give in either: seconds where one is beyond a week of minutes
    minutes_or_seconds: str = ""

    def recognises(self, data: bytes) -> bool:
        """Return whether a file is of this data set, by the names of its columns."""
        if data.startswith(MAGIC) and is_own(data):
            return False
        names = parquet_names(data) if data.startswith(MAGIC) else header_names(data[:50_000], self.table_map.delimiter)
        return self.marks <= {name.lower() for name in names}

    def parse(
        self, data: bytes, source: str, strict: bool = False, time_zone: str | None = None
    ) -> tuple[JobLog, ReadingReport]:
        """Return the job log of such a file, and the account; see `predictors.data.formats.tables.read.parse_table`."""
        is_parquet = data.startswith(MAGIC)
        names = parquet_names(data) if is_parquet else header_names(data[:50_000], self.table_map.delimiter)
        there = {name.lower() for name in names}
        columns = {name: what for name, what in self.table_map.columns.items() if name.lower() in there}
        if self.minutes_or_seconds in columns:
            columns[self.minutes_or_seconds] = Column(column="requested_time", unit=self._unit(data, is_parquet))
        kept = {field: getattr(self.table_map, field) for field in TableMap.model_fields if field != "columns"}
        table_map = TableMap(columns=columns, **kept)
        log, account = parse_table(data, source, table_map, strict, time_zone)
        own = (Finding("columns", "noted", f"{self.title}: {self.note}"),) if self.note else ()
        return log, account + ReadingReport(source, own)

    def _unit(self, data: bytes, is_parquet: bool) -> str:
        from pyarrow import compute as pc

        if not is_parquet:
            return "min"
        texts = parquet_texts(data, self.title, [self.minutes_or_seconds]).columns[self.minutes_or_seconds]
        plain = texts.filter(pc.match_substring_regex(texts, r"^\d{1,15}(\.\d*)?$"))
        longest = pc.max(pc.cast(plain, "double")).as_py()
        return "s" if longest is not None and longest > _WEEK_IN_MINUTES else "min"


def _columns(**plain: str | tuple[str, str]) -> dict[str, Any]:
    """Return the columns of a map: what each of ours is called in the table, with its unit where it has one."""
    return {
        (name if isinstance(name, str) else name[0]): target
        if isinstance(name, str)
        else Column(column=target, unit=name[1])
        for target, name in plain.items()
    }


KNOWN: Final[Mapping[str, KnownTable]] = MappingProxyType(  # the data sets by name
    {
        "f-data": KnownTable(
            "F-DATA (Fugaku)",
            frozenset(("usr", "jnam", "cnumr", "nnumr", "adt", "sdt", "edt")),
            TableMap(
                columns=_columns(
                    job_id="jid", user="usr", executable="jnam", requested_procs="cnumr", allocated_procs="cnumat",
                    requested_nodes="nnumr", nodes="nnuma", submit="adt", eligible="qdt", start="sdt", end="edt",
                    run_time=("duration", "s"), requested_time=("elpl", "s"), exit_code="ec", state="exit state",
                    descriptor="jobenv_req", vector="embedding",
                ),
                status={"completed": "completed", "failed": "failed"},
                time_zone="Asia/Tokyo",
            ),
            "a processor is a core; names are anonymised, so that stems of them say nothing; power and performance are "
            "not used",
        ),
        "pm100": KnownTable(
            "PM100 (Marconi100)",
            frozenset(("num_nodes_alloc", "num_gpus_alloc", "num_cores_alloc", "submit_time", "time_limit")),
            TableMap(
                columns=_columns(
                    job_id="job_id", user="user_id", group="group_id", partition="partition", qos="qos",
                    submit="submit_time", eligible="eligible_time", start="start_time", end="end_time",
                    run_time=("run_time", "s"), requested_time=("time_limit", "min"), requested_procs="num_cores_req",
                    allocated_procs="num_cores_alloc", requested_nodes="num_nodes_req", nodes="num_nodes_alloc",
                    requested_gpus="num_gpus_req", allocated_gpus="num_gpus_alloc", state="job_state",
                    location="nodes",
                ),
                status=dict(_SLURM),
            ),
            "a processor is a core of 4 threads; only jobs that had their nodes to themselves are in it; time_limit is "
            "in minutes unless one of them is beyond a week of minutes",
            "time_limit",
        ),
        "eagle": KnownTable(
            "Eagle (NREL)",
            frozenset(("wallclock_req", "processors_req", "nodes_req", "submit_time", "start_time")),
            TableMap(
                columns={
                    **_columns(
                        job_id="job_id", user="user", project="account", queue="partition", qos="qos", state="state",
                        requested_time="wallclock_req", requested_nodes="nodes_req", requested_procs="processors_req",
                        requested_gpus="gpus_req", submit="submit_time", start="start_time", end="end_time",
                        run_time="run_time", executable="name", directory="work_dir", command="submit_line",
                        nodes="nodes_used", allocated_procs="processors_used",
                    ),
                    "mem_req": Column(column="requested_job_memory", unit="slurm"),
                },
                status=dict(_SLURM),
                time_zone="America/Denver",
            ),
            "a processor is a core; memory without a letter counts megabytes, as in Slurm",
        ),
        "mit-supercloud": KnownTable(
            "MIT Supercloud",
            frozenset(("id_job", "time_submit", "time_start", "time_end", "cpus_req", "tres_req")),
            TableMap(
                columns=_columns(
                    job_id="id_job", array="id_array_job", user="id_user", queue="partition", submit="time_submit",
                    eligible="time_eligible", start="time_start", end="time_end", requested_time=("timelimit", "min"),
                    requested_procs="cpus_req", nodes="nodes_alloc", state="state", constraint="constraints",
                    requested_tres="tres_req", allocated_tres="tres_alloc", location="nodelist",
                ),
                status=dict(_NUMBERED_STATES),
                unknown=("4294967295", "4294967294"),
            ),
            "a processor is a CPU; limits are in minutes, states Slurm's numbers; exit_code is a wait status and "
            "mem_req has a flag in its highest bit, so that neither is used: memory is taken from tres_req",
        ),
        "helios": KnownTable(
            "Helios or Acme",
            frozenset(("job_id", "user", "gpu_num", "cpu_num", "node_num", "duration", "submit_time", "start_time")),
            TableMap(
                columns=_columns(
                    job_id="job_id", user="user", project="vc", requested_gpus="gpu_num", requested_procs="cpu_num",
                    requested_nodes="node_num", state="state", submit="submit_time", start="start_time", end="end_time",
                    run_time=("duration", "s"), mode="type",
                ),
                status={**_SLURM, "SUSPENDED": "unended"},
            ),
            "a processor is a CPU; the column queue is a wait, and times have no zone; no requested times are given",
        ),
    }
)  # fmt: skip
