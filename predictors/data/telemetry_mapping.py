"""Mapping files: what the columns of another program's telemetry are, in a few lines of TOML.

One table `[[files]]` for each kind of file, and perhaps `[nodes]`, the ids of the producers:

    [nodes]
    login-a = 900

    [[files]]
    match = "fabric/*.csv"      # below the folder; in order of name, the files follow one another …
    parallel = false            # … unless they are of the same time, say one file a node
    time = "timestamp"
    clock = "ms"                # s (default), ms, us, ns, or datetime (ISO 8601, UTC unless it says otherwise)
    node = "host"               # the node's id, or a name that ends in it
    devices = ["port"]          # columns that tell a node's devices apart; they are added up

    [files.counters]            # ours = theirs
    port_xmit_data = { column = "tx_bytes", scale = 0.25, kind = "cumulative", bits = 32 }
    port_rcv_data = "rx_words"  # cumulative, the width that the table of counters says, scale 1
    read_bytes = { column = "read_rate", kind = "rate" }
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from predictors.data.counters import COUNTER_NAMES, COUNTERS
from predictors.data.errors import JobcastError, unknown_name
from predictors.data.sources import read_text
from predictors.data.telemetry_layout import Clock, Kind, Layout, Metric

_TOP: Final = ("nodes", "files")
_FILES: Final = ("match", "parallel", "time", "clock", "node", "devices", "counters")
_COUNTER: Final = ("column", "scale", "kind", "bits")
_CLOCKS: Final = ("s", "ms", "us", "ns", "datetime")


@dataclass(frozen=True)
class CounterSource:
    """Where a counter comes from: a column, whether it counts up or holds rates, its width, its unit in ours."""

    counter: int
    column: str
    kind: Kind = "cumulative"
    bits: int = 64
    scale: float = 1.0


@dataclass(frozen=True)
class FileMapping:
    """One table `[[files]]`."""

    match: str
    time: str
    node: str
    counters: tuple[CounterSource, ...]
    clock: Clock = "s"
    devices: tuple[str, ...] = ()
    parallel: bool = False

    def layout(self, names: Sequence[str], source: str) -> Layout:
        """Return what the columns of a file are.

        Raises
        ------
        JobcastError
            If a column that the mapping names is not there.
        """
        at = {name: k for k, name in reversed(list(enumerate(names)))}
        for name in (self.time, self.node, *self.devices, *(one.column for one in self.counters)):
            if name not in at:
                raise JobcastError(
                    f"{source}: the mapping names a column that is missing. {unknown_name('column', name, names)}"
                )
        metrics = [Metric(at[one.column], one.counter, one.kind, one.bits, one.scale) for one in self.counters]
        used = {self.time, self.node, *self.devices, *(one.column for one in self.counters)}
        return Layout(
            names=tuple(names),
            clock=self.clock,
            time=(at[self.time],),
            node=at[self.node],
            devices=tuple(at[name] for name in self.devices),
            metrics=tuple(sorted(metrics, key=lambda metric: metric.column)),
            ignored=tuple(name for name in names if name not in used),
        )


@dataclass(frozen=True)
class SchemaMapping:
    """A mapping file."""

    files: tuple[FileMapping, ...]
    nodes: Mapping[str, int] | None = None


def read_mapping(path: str | os.PathLike[str]) -> SchemaMapping:
    """Read a mapping file.

    Raises
    ------
    JobcastError
        If it cannot be read, is no TOML, has a key that is not known, or lacks one that is needed.
    """
    source = os.fspath(path)
    try:
        document = tomllib.loads(read_text(path, "a mapping, a TOML file"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{source}: is no TOML file ({error}); see the page on telemetry for an example.") from error
    return mapping_of(document, source)


def mapping_of(document: Mapping[str, Any], source: str = "mapping") -> SchemaMapping:
    """Return the mapping that such a document, as plain values, describes."""
    _check_keys(document, _TOP, source)
    tables = document.get("files")
    if not isinstance(tables, list) or not tables:
        raise JobcastError(f"{source}: needs at least one table [[files]].")
    nodes = document.get("nodes")
    if nodes is not None and not (
        isinstance(nodes, dict) and all(type(node) is int and node >= 0 for node in nodes.values())
    ):
        raise JobcastError(f"{source}: [nodes] must give an id, 0 or more, for each producer.")
    return SchemaMapping(tuple(_file(table, f"{source}: [[files]] {k + 1}") for k, table in enumerate(tables)), nodes)


def _file(table: Any, where: str) -> FileMapping:
    _check_keys(table, _FILES, where)
    words = {key: table.get(key) for key in ("match", "time", "node")}
    for key, word in words.items():
        if not isinstance(word, str) or not word:
            raise JobcastError(f"{where}: {key} must be a text; got {word!r}.")
    clock, devices = table.get("clock", "s"), table.get("devices", [])
    if clock not in _CLOCKS:
        raise unknown_name("clock", str(clock), _CLOCKS)
    if not isinstance(devices, list) or not all(isinstance(name, str) for name in devices):
        raise JobcastError(f"{where}: devices must be a list of columns; got {devices!r}.")
    parallel = table.get("parallel", False)
    if not isinstance(parallel, bool):
        raise JobcastError(f"{where}: parallel must be true or false; got {parallel!r}.")
    counters = table.get("counters")
    if not isinstance(counters, dict) or not counters:
        raise JobcastError(f"{where}: needs a table [files.counters] with at least one counter.")
    return FileMapping(
        **words, clock=clock, devices=tuple(devices), parallel=parallel,
        counters=tuple(_counter(name, value, f"{where}, counter {name}") for name, value in counters.items()),
    )  # fmt: skip


def _counter(name: str, value: Any, where: str) -> CounterSource:
    if name not in COUNTER_NAMES:
        raise unknown_name("counter", name, COUNTER_NAMES)
    given: Any = {"column": value} if isinstance(value, str) else value
    _check_keys(given, _COUNTER, where)
    counter = COUNTER_NAMES.index(name)
    column, kind = given.get("column"), given.get("kind", "cumulative")
    bits, scale = given.get("bits", COUNTERS[counter].bits), given.get("scale", 1.0)
    if not isinstance(column, str) or not column:
        raise JobcastError(f"{where}: column must be a text; got {column!r}.")
    if kind not in get_args(Kind):
        raise unknown_name("kind", str(kind), get_args(Kind))
    if bits not in (32, 64):
        raise JobcastError(f"{where}: bits must be 32 or 64; got {bits!r}.")
    if type(scale) not in (int, float) or not 0 < scale < float("inf"):
        raise JobcastError(f"{where}: scale must be a number above 0; got {scale!r}.")
    return CounterSource(counter, column, kind, bits, float(scale))


def _check_keys(table: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise JobcastError(f"{where}: must be a table; got {table!r}.")
    for key in table:
        if key not in known:
            raise JobcastError(f"{where}: {unknown_name('key', str(key), known)}")
