"""Columns of a telemetry file, from an LDMS header or a mapping file.

LDMS writes `metric#instance` for each device of a node (ports of the network card, mounted file systems), or a row a
device with columns that name it. Either way a node's rate is the sum over its devices.

A mapping file has one table `[[files]]` for each kind of file, and may have `[nodes]`, the ids of the producers; see
docs/telemetry.md.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import Field

from predictors.core.declarations import Declaration, Text, Texts, declared, known_keys, read_toml
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.telemetry.counters import COUNTER_NAMES, COUNTERS, SAMPLERS

Kind = Literal["cumulative", "rate"]
Clock = Literal["s", "ms", "us", "ns", "ms+us", "datetime"]

_PREFIX: Final = re.compile(r"^(ib|client)\.")
_RATE: Final = re.compile(r"[._]rate$")
_SERVER: Final = re.compile(r"^(osc|mdc)\.|-(osc|mdc)-")
_DEVICE_COLUMNS: Final = ("ca_name", "port", "hfi", "hca", "fs_name", "llite", "instance")
_OURS: Final[Mapping[str, int]] = MappingProxyType({name: k for k, name in enumerate(COUNTER_NAMES)})


@dataclass(frozen=True)
class Metric:
    """A column that holds a counter."""

    column: int  # which column
    counter: int  # which counter: its position in `COUNTERS`
    kind: Kind = "cumulative"  # whether the column counts up, or holds rates per second
    bits: int = 64  # {32, 64}, width of a cumulative counter
    scale: float = 1.0  # one unit of the column in the counter's unit
    flag: int = -1  # column that is not 0 where LDMS flagged the value as not valid; -1: none


@dataclass(frozen=True)
class Layout:
    """What the columns of one file are."""

    names: tuple[str, ...]  # the columns
    clock: Clock  # what the time column is in; `ms+us`: milliseconds, and microseconds on top in the second time column
    time: tuple[int, ...]  # the time column or columns
    node: int  # the column with the node's id, or with a name that ends in it
    component: int = -1  # column with LDMS's component_id, the node's id where the name has no number; -1: none
    devices: tuple[int, ...] = ()  # columns that identify a node's devices
    metrics: tuple[Metric, ...] = ()  # the counters, by column
    ignored: tuple[str, ...] = field(default=(), compare=False)  # the other columns

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters that there are, positions in `COUNTERS`, ascending."""
        return tuple(sorted({metric.counter for metric in self.metrics}))


def header_names(line: str) -> tuple[str, ...]:
    """Return the names of columns in a header line, without LDMS's mark and any quotes.

    >>> header_names('#"Time","Time_usec","ProducerName"')
    ('Time', 'Time_usec', 'ProducerName')
    """
    return tuple(name.strip().strip('"').strip() for name in line.strip().removeprefix("#").split(","))


def is_ldms_header(line: str) -> bool:
    """Return whether a line is the header of a file that LDMS's CSV stores wrote."""
    return line.startswith("#") and header_names(line)[0] in ("Time", "Time_msec")


def ldms_layout(names: Sequence[str], source: str) -> Layout:
    """Return what the columns of a file by LDMS's `store_csv` or `store_function_csv` are.

    A counter is recognised by its name, with or without the sampler's prefix (`ib.`, `client.`), with `.sum` (the newer
    Lustre sampler) or `.value` behind it. With `.rate` or `_rate` behind it the column holds rates, and is ignored if
    the counter itself is there too. Metrics of Lustre's servers (`#osc.…`, `#mdc.…`) are ignored: they count what the
    mounted file system counts already. A file belongs to the sampler of most of its counters.

    >>> layout = ldms_layout(("Time", "Time_usec", "ProducerName", "ib.port_xmit_data#hfi1_0.1"), "a.csv")
    >>> [(COUNTER_NAMES[m.counter], m.kind) for m in layout.metrics]
    [('port_xmit_data', 'cumulative')]
    """
    at = {name: k for k, name in reversed(list(enumerate(names)))}
    node = at.get("ProducerName", at.get("node", -1))
    if node < 0 or names[0] not in ("Time", "Time_msec") or (names[0] == "Time_msec" and "Time_usec" not in at):
        raise JobcastError(
            f"{source}: the header begins {','.join(names[:4])!r}; LDMS begins it #Time,Time_usec,ProducerName or "
            "#Time_msec,Time_usec,ProducerName. Give a mapping file for other schemas."
        )
    metrics, ignored = _metrics(names, at)
    if not metrics:
        raise JobcastError(
            f"{source}: no column holds a counter that is known (columns {', '.join(names[3:8])}…); give a mapping "
            "file that says which are."
        )
    return Layout(
        names=tuple(names), clock="s" if names[0] == "Time" else "ms+us",
        time=(0,) if names[0] == "Time" else (0, at["Time_usec"]), node=node, component=at.get("component_id", -1),
        devices=tuple(at[name] for name in _DEVICE_COLUMNS if name in at), metrics=metrics, ignored=ignored,
    )  # fmt: skip


def _metrics(names: Sequence[str], at: Mapping[str, int]) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Return the columns that hold counters of the file's sampler, and the names of those that are ignored."""
    known: dict[int, tuple[int, str, Kind]] = {}
    for column, name in enumerate(names):
        metric, _, device = name.removesuffix(".value").partition("#")
        counter = _OURS.get(_PREFIX.sub("", _RATE.sub("", metric)).removesuffix(".sum"))
        if counter is not None and not _SERVER.search(device) and not name.endswith(".userdata"):
            known[column] = counter, device, "rate" if _RATE.search(metric) else "cumulative"
    votes = Counter[str](COUNTERS[counter].sampler for counter, _, _ in known.values())
    sampler = max(SAMPLERS, key=lambda name: votes[name])
    metrics = tuple(
        Metric(column, counter, kind, COUNTERS[counter].bits, flag=at.get(f"{names[column]}.Flag", -1))
        for column, (counter, device, kind) in known.items()
        if COUNTERS[counter].sampler == sampler
        and (kind == "cumulative" or (counter, device, "cumulative") not in known.values())
    )
    used = {metric.column for metric in metrics} | {metric.flag for metric in metrics}
    plumbing = {"Time", "Time_msec", "Time_usec", "DT", "DT_usec", "ProducerName", "node", "component_id", "job_id",
                "app_id", "TimeFlag", *_DEVICE_COLUMNS}  # fmt: skip
    return metrics, tuple(name for column, name in enumerate(names) if column not in used and name not in plumbing)


class CounterSource(Declaration):
    """Where a counter comes from: a column, whether it counts up or holds rates, its width, its unit in ours."""

    counter: int
    column: Text
    kind: Kind = "cumulative"
    bits: Literal[32, 64] = 64
    scale: float = Field(1.0, gt=0, allow_inf_nan=False)


class FileMapping(Declaration):
    """One table `[[files]]`."""

    match: Text
    time: Text
    node: Text
    counters: tuple[CounterSource, ...]
    clock: Literal["s", "ms", "us", "ns", "datetime"] = "s"
    devices: Texts = ()
    parallel: bool = False

    def layout(self, names: Sequence[str], source: str) -> Layout:
        at = {name: k for k, name in reversed(list(enumerate(names)))}
        for name in (self.time, self.node, *self.devices, *(one.column for one in self.counters)):
            if name not in at:
                raise JobcastError(
                    f"{source}: the mapping names a column that is missing. {unknown_name('column', name, names)}"
                )
        metrics = [Metric(at[one.column], one.counter, one.kind, one.bits, one.scale) for one in self.counters]
        used = {self.time, self.node, *self.devices, *(one.column for one in self.counters)}
        return Layout(
            names=tuple(names), clock=self.clock, time=(at[self.time],), node=at[self.node],
            devices=tuple(at[name] for name in self.devices),
            metrics=tuple(sorted(metrics, key=lambda metric: metric.column)),
            ignored=tuple(name for name in names if name not in used),
        )  # fmt: skip


@dataclass(frozen=True)
class SchemaMapping:
    """A mapping file."""

    files: tuple[FileMapping, ...]
    nodes: Mapping[str, int] | None = None


def read_mapping(path: str | os.PathLike[str]) -> SchemaMapping:
    return mapping_of(read_toml(path, "a mapping, a TOML file"), os.fspath(path))


def mapping_of(document: Mapping[str, Any], source: str = "mapping") -> SchemaMapping:
    """Return the mapping that such a document, as plain values, describes."""
    known_keys(document, ("nodes", "files"), source)
    tables = document.get("files")
    if not isinstance(tables, list) or not tables:
        raise JobcastError(f"{source}: needs at least one table [[files]].")
    nodes = None if "nodes" not in document else node_ids(document["nodes"], f"{source}: ")
    return SchemaMapping(tuple(_file(table, f"{source}: [[files]] {k + 1}") for k, table in enumerate(tables)), nodes)


def node_ids(table: Any, where: str = "") -> dict[str, int]:
    """Return a table `[nodes]`: the id of each host, where its name does not end in it.

    >>> node_ids({"login-a": 900})
    {'login-a': 900}
    """
    if not isinstance(table, dict) or not all(type(node) is int and node >= 0 for node in table.values()):
        raise JobcastError(f"{where}[nodes] must give an id, 0 or more, for each host.")
    return table


def _file(table: Any, where: str) -> FileMapping:
    known_keys(table, tuple(FileMapping.model_fields), where)
    given = table.get("counters")
    if not isinstance(given, dict) or not given:
        raise JobcastError(f"{where}: needs a table [files.counters] with at least one counter.")
    counters = tuple(_counter(name, value, f"{where}, counter {name}") for name, value in given.items())
    rest = {key: value for key, value in table.items() if key != "counters"}
    return declared(FileMapping, rest, where, hidden={"counters": counters})


def _counter(name: str, value: Any, where: str) -> CounterSource:
    if name not in COUNTER_NAMES:
        raise unknown_name("counter", name, COUNTER_NAMES)
    counter = COUNTER_NAMES.index(name)
    given = {"column": value} if isinstance(value, str) else value
    if isinstance(given, dict):
        given = {"bits": COUNTERS[counter].bits, **given}
    return declared(CounterSource, given, where, hidden={"counter": counter})
