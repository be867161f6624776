"""A folder of telemetry files as rates in order of time.

`Scan` yields parts and keeps little, for months of data; `read_telemetry` returns one dense block. Both tell, in an
account, what was dropped, changed or taken otherwise than it stands.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
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
    Plan,
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
    """Yield the rows of several streams of the same counters as one, in order of time.

    Raises
    ------
    JobcastError
        If two streams hold the same node at the same time.
    """
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

    Examples
    --------
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


MOST_VALUES: Final = 2_000_000_000
"""A dense block has no more values than this (8 GB)."""


class Scan:
    """Telemetry on its way out of files: iterate over its parts, then ask for the account.

    Parameters
    ----------
    folder : path-like
        The folder that LDMS's store writes to, or any one file of it.
    mapping : path-like or SchemaMapping, optional
        For files of another schema.
    nodes : mapping of str to int, optional
        Id of each producer's node; producers that are not in it are dropped. Absent: the mapping file's, else the
        number that ends the producer's name (`nid00012` is 12), else component_id.
    how : Reading
        Period, gaps, tolerances.
    strict : bool
        Raise at the first thing that would be dropped or changed.
    between : array of shape (n, 2), optional
        Times from and to [s]: what surely holds nothing of these is not worked on, be it a whole file by its epoch, a
        piece of a CSV file, or a row group of a Parquet file. What is yielded reaches further.

    Raises
    ------
    JobcastError
        If nothing there is telemetry, two sets of files hold the same readings, or a file is damaged.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        mapping: str | os.PathLike[str] | SchemaMapping | None = None,
        nodes: Mapping[str, int] | None = None,
        how: Reading | None = None,
        strict: bool = False,
        between: npt.ArrayLike | None = None,
    ) -> None:
        schema = mapping if mapping is None or isinstance(mapping, SchemaMapping) else read_mapping(mapping)
        self.source, self.how = os.fspath(folder), how or Reading()
        self.nodes = nodes if nodes is not None or schema is None else schema.nodes
        self._losses = Losses(self.source, strict)
        self._plans = _ldms_plans(folder, self._losses) if schema is None else _mapped_plans(Path(folder), schema)
        _check_plans(self._plans, self.source)
        self._between = None if between is None else joined_intervals(between)
        self._planned = self._losses
        missing = len(COUNTER_NAMES) - len({counter for plan in self._plans for counter in plan.counters})
        self._losses.add("no-counter", "", n=missing)

    def __iter__(self) -> Iterator[Samples]:
        self._losses = deepcopy(self._planned)
        alike: dict[tuple[int, ...], list[Plan]] = {}
        for plan in self._plans:
            alike.setdefault(plan.counters, []).append(plan)
        for plans in alike.values():
            yield from in_step([self._read(plan) for plan in plans], self.source)

    def _read(self, plan: Plan) -> Iterator[Samples]:
        stream: Stream | None = None
        devices, files = Devices(self.nodes), plan.files.files
        for k, file in enumerate(files):
            if not self._wanted(file, files[k + 1] if k + 1 < len(files) else None, plan):
                if stream is not None:
                    yield stream.forget()
                continue
            source, rows = str(file.path), 0
            for piece in self._pieces(file, plan):
                if piece is None:
                    if stream is not None:
                        yield stream.forget()
                    continue
                frame, lines, layout, texts = piece
                if stream is None:
                    stream = Stream(layout, plan.counters, devices, self.how, self._losses)
                elif layout != stream.layout:
                    yield stream.change(layout)
                if not stream.files or stream.files[-1] != source:
                    stream.files.append(source)
                at = len(stream.files) - 1, source
                rows += len(frame)
                yield stream.take(rows_of(frame, layout, lines, at, devices, self._losses, texts))
            if not rows and self._between is None:
                self._losses.add("empty-file", source, n=1)
        if stream is not None:
            yield stream.finish()

    def _wanted(self, file: TelemetryFile, following: TelemetryFile | None, plan: Plan) -> bool:
        """Return whether a file, which ends when the next one begins, may hold what is asked for."""
        if self._between is None or (begins := began(file, plan)) is None:
            return True
        ends = None if following is None else began(following, plan)
        low, high = self._between.T
        return bool(((low <= (np.inf if ends is None else ends + MARGIN)) & (high >= begins - MARGIN)).any())

    def _pieces(self, file: TelemetryFile, plan: Plan) -> Iterator[Piece | None]:
        known: Layout | None = None
        if is_parquet(file.path):
            pieces = parquet_pieces(file, plan, self._between)
        else:
            pieces = csv_pieces(file, plan, self._losses, self._between)
        for piece in pieces:
            if piece is None:
                yield None
                continue
            layout = piece.layout
            if layout is not known:
                known = layout
                foreign = [COUNTER_NAMES[one] for one in layout.counters if one not in plan.counters]
                if foreign:
                    raise JobcastError(f"{file.path}: holds {foreign[0]}, which the files before it of its set do not.")
                self._losses.add(
                    "other-column", str(file.path), n=len(layout.ignored), example=", ".join(layout.ignored[:3])
                )
            yield piece

    def account(self) -> ReadingReport:
        """Return what was dropped, changed or noted in the iteration so far."""
        return self._losses.account()


def read_telemetry(
    folder: str | os.PathLike[str],
    mapping: str | os.PathLike[str] | SchemaMapping | None = None,
    nodes: Mapping[str, int] | None = None,
    how: Reading | None = None,
    strict: bool = False,
) -> tuple[Telemetry, ReadingReport]:
    """Read the telemetry of a folder as one dense block, its samplers joined by node and time.

    Parameters are those of `Scan`; readings less than `how.tolerance` apart are of one instant.

    Raises
    ------
    JobcastError
        As `Scan`; and if there is no rate at all, or too many for a block.
    """
    parts = Scan(folder, mapping, nodes, how, strict)
    rows, values = [], 0
    for part in parts:
        rows.append(part)
        values += len(part) * len(COUNTER_NAMES)
        if values > 3 * MOST_VALUES:
            raise JobcastError(f"{parts.source}: holds too much for one block; use `Scan`, which goes part by part.")
    if not any(map(len, rows)):
        raise JobcastError(f"{parts.source}: gives no rate at all. {parts.account().summary()}.")
    return Telemetry.of_samples(rows, parts.how.tolerance), parts.account()


def _ldms_plans(folder: str | os.PathLike[str], losses: Losses) -> list[Plan]:
    plans = []
    for files in file_sets(folder):
        layout = _first_layout(files, losses)
        if layout is not None:
            sampler = COUNTERS[layout.counters[0]].sampler
            plans.append(Plan(files, tuple(k for k, counter in enumerate(COUNTERS) if counter.sampler == sampler)))
    return plans


def _first_layout(files: FileSet, losses: Losses) -> Layout | None:
    """Return the layout of the first file that has one; None if the files are no telemetry."""
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


def _mapped_plans(folder: Path, schema: SchemaMapping) -> list[Plan]:
    plans = []
    for mapping in schema.files:
        paths = sorted(path for path in folder.glob(mapping.match) if path.is_file())
        if not paths:
            raise JobcastError(f"{folder}: no file matches {mapping.match!r} of the mapping; check it.")
        counters = tuple(sorted(one.counter for one in mapping.counters))
        groups = [[path] for path in paths] if mapping.parallel else [paths]
        for group in groups:
            name = str(group[0].relative_to(folder)) if mapping.parallel else mapping.match
            files = FileSet(name, tuple(TelemetryFile(path) for path in group))
            plans.append(Plan(files, counters, mapping, share=len(groups)))
    return plans


def _check_plans(plans: list[Plan], source: str) -> None:
    if not plans:
        raise JobcastError(
            f"{source}: holds no telemetry. LDMS's files begin #Time,Time_usec,ProducerName, or have that line in "
            "NAME.HEADER beside them; give a mapping file for other schemas."
        )
    owners: dict[int, Plan] = {}
    for plan in plans:
        for counter in plan.counters:
            if owners.setdefault(counter, plan).counters != plan.counters:
                raise JobcastError(
                    f"{source}: both {owners[counter].files.name!r} and {plan.files.name!r} give "
                    f"{COUNTER_NAMES[counter]}, but not the same counters throughout; map each counter once."
                )
