"""A folder of telemetry files as rates in order of time.

`Scan` yields parts and keeps little, for months of data; `read_telemetry` returns one dense block. Both report what
they dropped, changed or noted.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.data.report import ReadingReport
from predictors.data.telemetry.counters import COUNTER_NAMES, COUNTERS
from predictors.data.telemetry.file_sets import (
    MARGIN,
    FileSet,
    TelemetryFile,
    began,
    csv_pieces,
    file_sets,
    is_parquet,
    names_of,
    parquet_pieces,
)
from predictors.data.telemetry.layout import Layout, SchemaMapping, ldms_layout, read_mapping
from predictors.data.telemetry.parse import Devices, Losses, Piece, rows_of
from predictors.data.telemetry.rates import Reading, Stream
from predictors.data.telemetry.samples import Samples, Telemetry


def in_step(streams: Sequence[Iterable[Samples]], source: str) -> Iterator[Samples]:
    """Yield the rows of several streams of the same counters as one, by time; at a time a node stands in one."""
    if len(streams) == 1:
        yield from streams[0]
        return
    rest = [(part for part in stream if len(part)) for stream in streams]
    heads = [(head, stream) for stream in rest if (head := next(stream, None)) is not None]
    while heads:
        until = min(head.time[-1] for head, _ in heads)
        ready, waiting = [], []
        for head, stream in heads:
            end = int(np.searchsorted(head.time, until, side="right"))
            ready.append(_slice(head, 0, end))
            left = _slice(head, end, len(head)) if end < len(head) else next(stream, None)
            if left is not None:
                waiting.append((left, stream))
        yield _sorted(ready, source)
        heads = waiting


def _slice(part: Samples, first: int, last: int) -> Samples:
    return Samples(part.time[first:last], part.node[first:last], part.rates[first:last], part.counters)


def _sorted(parts: Sequence[Samples], source: str) -> Samples:
    time = np.concatenate([part.time for part in parts])
    node = np.concatenate([part.node for part in parts])
    order = np.lexsort((node, time))
    time, node = time[order], node[order]
    twice = np.flatnonzero((np.diff(time) == 0) & (np.diff(node) == 0))
    if len(twice):
        raise JobcastError(
            f"{source}: two sets of files hold node {node[twice[0]]} at {time[twice[0]]:.6f} s; give one of them."
        )
    return Samples(time, node, np.concatenate([part.rates for part in parts])[order], parts[0].counters)


def joined_intervals(intervals: npt.ArrayLike) -> Floats:
    """Return the union of intervals (from, to), ascending, of shape (n, 2).

    >>> joined_intervals([[5, 8], [0, 2], [7, 9]]).tolist()
    [[0.0, 2.0], [5.0, 9.0]]
    """
    given = np.asarray(intervals, dtype=np.float64).reshape(-1, 2)
    if np.isnan(given).any() or (given[:, 0] > given[:, 1]).any():
        raise JobcastError("Intervals must be pairs (from, to), the first not above the second.")
    union: list[list[float]] = []
    for low, high in given[np.argsort(given[:, 0], kind="stable")].tolist():
        if union and low <= union[-1][1]:
            union[-1][1] = max(union[-1][1], high)
        else:
            union.append([low, high])
    return np.array(union, dtype=np.float64).reshape(-1, 2)


MOST_VALUES: Final = 2_000_000_000  # a dense block has no more values than this (8 GB)


class Scan:
    """Rates in telemetry files: iterate over the parts, then call `account`; no two sets may hold equal readings."""

    def __init__(
        self,
        folder: str | os.PathLike[str],  # the folder that LDMS's store writes to, or any one file of it
        mapping: str | os.PathLike[str] | SchemaMapping | None = None,  # for files of another schema
        # id of each producer's node; producers that are not in it are dropped. Absent: the mapping file's, else the
        # number that ends the producer's name (`nid00012` is 12), else component_id
        nodes: Mapping[str, int] | None = None,
        how: Reading | None = None,  # period, gaps, tolerances
        strict: bool = False,  # raise at the first row or value that would be dropped or changed
        # shape (n, 2); times from and to [s]. Files with an epoch outside, pieces of CSV files and row groups of
        # Parquet files outside are skipped; the parts that are yielded reach further than `between`
        between: npt.ArrayLike | None = None,
    ) -> None:
        schema = mapping if mapping is None or isinstance(mapping, SchemaMapping) else read_mapping(mapping)
        self.source, self.how = os.fspath(folder), how or Reading()
        self.nodes = nodes if nodes is not None or schema is None else schema.nodes
        self._losses = Losses(self.source, strict)
        self._sets = _ldms_sets(folder, self._losses) if schema is None else _mapped_sets(Path(folder), schema)
        _check_sets(self._sets, self.source)
        self._between = None if between is None else joined_intervals(between)
        missing = len(COUNTER_NAMES) - len({counter for files in self._sets for counter in files.counters})
        self._losses.add("no-counter", "", n=missing)
        self._planned = deepcopy(self._losses)

    def __iter__(self) -> Iterator[Samples]:
        self._losses = deepcopy(self._planned)
        alike: dict[tuple[int, ...], list[FileSet]] = {}
        for files in self._sets:
            alike.setdefault(files.counters, []).append(files)
        for group in alike.values():
            yield from in_step([self._read(files) for files in group], self.source)

    def _read(self, files: FileSet) -> Iterator[Samples]:
        devices = Devices(self.nodes)
        stream = Stream(files.counters, devices, self.how, self._losses)
        for file, following in zip_longest(files.files, files.files[1:]):
            if not self._wanted(file, following, files):
                yield stream.forget()
                continue
            source, number, rows = str(file.path), len(stream.files), 0
            stream.files.append(source)
            for piece in self._pieces(file, files):
                if piece is None:
                    yield stream.forget()
                    continue
                if piece.layout != stream.layout:
                    yield stream.change(piece.layout)
                rows += len(piece.frame)
                yield stream.take(rows_of(piece, (number, source), devices, self._losses))
            if not rows and self._between is None:
                self._losses.add("empty-file", source, n=1)
        yield stream.finish()

    def _wanted(self, file: TelemetryFile, following: TelemetryFile | None, files: FileSet) -> bool:
        """Return whether a file, which ends when the next one begins, may hold a time within `between`."""
        if self._between is None or (begins := began(file, files)) is None:
            return True
        ends = None if following is None else began(following, files)
        low, high = self._between.T
        return bool(((low <= (np.inf if ends is None else ends + MARGIN)) & (high >= begins - MARGIN)).any())

    def _pieces(self, file: TelemetryFile, files: FileSet) -> Iterator[Piece | None]:
        """Yield the pieces of a file; refuse counters that the files before it do not have."""
        known: Layout | None = None
        if is_parquet(file.path):
            pieces = parquet_pieces(file, files, self._between)
        else:
            pieces = csv_pieces(file, files, self._losses, self._between)
        for piece in pieces:
            if piece is not None and piece.layout is not known:
                known = piece.layout
                foreign = [COUNTER_NAMES[one] for one in known.counters if one not in files.counters]
                if foreign:
                    raise JobcastError(f"{file.path}: holds {foreign[0]}, which the files before it of its set do not.")
                ignored = known.ignored
                self._losses.add("other-column", str(file.path), n=len(ignored), example=", ".join(ignored[:3]))
            yield piece

    def account(self) -> ReadingReport:
        return self._losses.account()


def read_telemetry(
    folder: str | os.PathLike[str],
    mapping: str | os.PathLike[str] | SchemaMapping | None = None,
    nodes: Mapping[str, int] | None = None,
    how: Reading | None = None,
    strict: bool = False,
) -> tuple[Telemetry, ReadingReport]:
    """Read the telemetry of a folder as one dense block, its samplers joined by node and time.

    Parameters are those of `Scan`; readings within less than `how.tolerance` belong to one instant. More rates than a
    block holds are refused.
    """
    parts = Scan(folder, mapping, nodes, how, strict)
    rows, values = [], 0
    for part in parts:
        rows.append(part)
        values += len(part) * len(COUNTER_NAMES)
        if values > 3 * MOST_VALUES:
            raise JobcastError(f"{parts.source}: holds too much for one block; use `Scan`, which reads part by part.")
    if not any(map(len, rows)):
        raise JobcastError(f"{parts.source}: gives no rate at all. {parts.account().summary()}.")
    return Telemetry.of_samples(rows, parts.how.tolerance), parts.account()


def _ldms_sets(folder: str | os.PathLike[str], losses: Losses) -> list[FileSet]:
    """Return the sets by LDMS; a set has the counters of its sampler."""
    sets = []
    for files in file_sets(folder):
        layout = _first_layout(files, losses)
        if layout is not None:
            sampler = COUNTERS[layout.counters[0]].sampler
            counters = tuple(k for k, counter in enumerate(COUNTERS) if counter.sampler == sampler)
            sets.append(replace(files, counters=counters))
    return sets


def _first_layout(files: FileSet, losses: Losses) -> Layout | None:
    """Return the layout of the first file that has a header; None if the files are no telemetry."""
    problem = ""
    for file in files.files:
        names = names_of(file)
        if names:
            try:
                return ldms_layout(names, str(file.path))
            except JobcastError as error:
                problem = str(error)
                break
    losses.add("other-file", "", n=len(files.files), example=problem or str(files.files[0].path))
    return None


def _mapped_sets(folder: Path, schema: SchemaMapping) -> list[FileSet]:
    """Return the sets by a mapping file: one for each table, or for each file of a table with `parallel`."""
    sets = []
    for mapping in schema.files:
        paths = sorted(path for path in folder.glob(mapping.match) if path.is_file())
        if not paths:
            raise JobcastError(f"{folder}: no file matches {mapping.match!r} of the mapping; check it.")
        counters = tuple(sorted(one.counter for one in mapping.counters))
        groups = [[path] for path in paths] if mapping.parallel else [paths]
        for group in groups:
            name = str(group[0].relative_to(folder)) if mapping.parallel else mapping.match
            sets.append(FileSet(name, tuple(map(TelemetryFile, group)), counters, mapping, len(groups)))
    return sets


def _check_sets(sets: list[FileSet], source: str) -> None:
    """Refuse a folder without telemetry, and a counter that sets of different counters share."""
    if not sets:
        raise JobcastError(
            f"{source}: holds no telemetry. LDMS's files begin #Time,Time_usec,ProducerName, or have that line in "
            "NAME.HEADER next to them; give a mapping file for other schemas."
        )
    owners: dict[int, FileSet] = {}
    for files in sets:
        for counter in files.counters:
            if owners.setdefault(counter, files).counters != files.counters:
                raise JobcastError(
                    f"{source}: both {owners[counter].name!r} and {files.name!r} give "
                    f"{COUNTER_NAMES[counter]}, but not the same counters throughout; map each counter once."
                )
