"""Public data sets with a known map of their tables, each recognised by the names of its columns.

| data set | what its columns mean |
|---|---|
| F-DATA (Fugaku) | Antici et al., F-DATA: A Fugaku Workload Dataset, 2024, doi 10.5281/zenodo.11467483 |
| PM100 (Marconi100) | Antici et al., PM100, SC 2023 workshops, doi 10.1145/3624062.3624263 |
| Eagle (NREL) | Open Energy Data Initiative, submission 5860 |
| MIT Supercloud | Samsi et al., The MIT Supercloud Dataset, HPEC 2021, doi 10.1109/HPEC49654.2021.9622850 |
| Helios (SenseTime), Acme | Hu et al., SC 2021, doi 10.1145/3458817.3476223; Hu et al., NSDI 2024 |
| LUMOS collection | https://github.com/DIR-LAB/lumos |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from predictors.core.parquet import MAGIC
from predictors.data.formats._delimited import Table, header_names
from predictors.data.formats.columns import known_texts
from predictors.data.formats.parquet import flag_array, is_own
from predictors.data.formats.records import RULES
from predictors.data.formats.slurm import STATES
from predictors.data.formats.tables.read import parquet_names, table_log, table_of
from predictors.data.formats.tables.table_map import UNUSED, Column, TableMap
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport, ReportBuilder

_SLURM: Final[Mapping[str, str]] = {
    state: {1: "completed", 0: "failed", 5: "cancelled"}.get(status, "unended") for state, status in STATES.items()
}
_NUMBERED_STATES: Final[Mapping[str, str]] = {  # Slurm's states as its database numbers them
    **dict.fromkeys(("0", "1", "2"), "unended"),
    "3": "completed",
    "4": "cancelled",
    **dict.fromkeys(("5", "6", "7", "8", "9", "10", "11"), "failed"),
}
LUMOS_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("pass", "completed"), "completed"),
    **dict.fromkeys(("failed", "timeout", "node_fail"), "failed"),
    **dict.fromkeys(("killed", "cancelled"), "cancelled"),
}
_WEEK_IN_MINUTES: Final = 7 * 24 * 60


@dataclass(frozen=True)
class KnownTable:
    """A public data set."""

    title: str  # its name, for messages
    marks: frozenset[str]  # names of columns, in small letters, that tell it from other tables
    table_map: TableMap  # what its columns are; those that a release lacks are left out
    note: str = ""  # what a reader of its figures must know; goes into the account
    # the map for what this file's columns hold, where releases differ
    adapt: Callable[[TableMap, Table], TableMap] | None = None

    def recognises(self, data: bytes) -> bool:
        """Return whether a file is of this data set, by the names of its columns."""
        if data.startswith(MAGIC) and is_own(data):
            return False
        return self.marks <= {name.lower() for name in self._names(data)}

    def parse(
        self, data: bytes, source: str, strict: bool = False, time_zone: str | None = None
    ) -> tuple[JobLog, ReadingReport]:
        """Return the job log of such a file, and the account; see `predictors.data.formats.tables.read.table_log`."""
        there = {name.lower() for name in self._names(data)}
        columns = {name: what for name, what in self.table_map.columns.items() if name.lower() in there}
        table_map, report = with_columns(self.table_map, columns), ReportBuilder(source, RULES)
        table_map.require_complete(source)
        table = table_of(data, source, table_map, report)
        if self.adapt is not None:
            table_map = self.adapt(table_map, table)
        if self.note:
            report.note("columns", f"{self.title}: {self.note}")
        if lacking := [name for name in self.table_map.columns if name not in columns]:
            report.note("columns", f"no column {', '.join(lacking)}", len(lacking))
        return table_log(table, source, table_map, report, strict, time_zone)

    def _names(self, data: bytes) -> tuple[str, ...]:
        if data.startswith(MAGIC):
            return parquet_names(data)
        return header_names(data[:50_000], self.table_map.delimiter)


def with_columns(table_map: TableMap, columns: Mapping[str, Any]) -> TableMap:
    kept = {field: getattr(table_map, field) for field in TableMap.model_fields if field != "columns"}
    return TableMap(columns=columns, **kept)


def _pm100_limits(table_map: TableMap, table: Table) -> TableMap:
    """Take limits for seconds where one is beyond a week of minutes."""
    from pyarrow import compute as pc

    if "time_limit" not in table.columns:
        return table_map
    texts = table.columns["time_limit"]
    plain = texts.filter(pc.match_substring_regex(texts, r"^\d{1,15}(\.\d*)?$"))
    longest = pc.max(pc.cast(plain, "double")).as_py()
    unit = "s" if longest is not None and longest > _WEEK_IN_MINUTES else "min"
    return with_columns(table_map, table_map.columns | _columns(requested_time=("time_limit", unit)))


def _lumos_ends(table_map: TableMap, table: Table) -> TableMap:
    """Take `state` for exit codes where it holds numbers; its words count where there is no `new_status`."""
    from pyarrow import compute as pc

    if "state" not in table.columns:
        return table_map
    told = table.columns["state"].filter(flag_array(known_texts(table.columns["state"])))
    if pc.all(pc.match_substring_regex(told, r"^\s*-?\d+(\.0)?\s*$")).as_py():
        target = "exit_code"
    else:
        target = UNUSED if "new_status" in table.columns else "state"
    return with_columns(table_map, table_map.columns | {"state": target})


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
            _pm100_limits,
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
        "lumos": KnownTable(
            "CSV of the LUMOS collection",
            frozenset(("submit_time", "wait_time", "wall_time", "node_num", "cpu_num")),
            TableMap(
                columns=_columns(
                    job_id="job", user="user", project="project", exit_code="state", requested_gpus="gpu_num",
                    cores="cpu_num", requested_nodes="node_num", submit="submit_time", wait="wait_time",
                    run_time="run_time", requested_time="wall_time", state="new_status",
                ),
                status=LUMOS_WORDS,
            ),
            adapt=_lumos_ends,
        ),
    }
)  # fmt: skip
