"""Tables of jobs read by a map: text with any delimiter, or Parquet of another program."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Bools, Ints
from predictors.core.compressed import log_name
from predictors.core.errors import JobcastError, percent, unknown_name
from predictors.core.parquet import MAGIC, parquet_table
from predictors.core.validation import known_zone
from predictors.data.formats import slurm
from predictors.data.formats._delimited import Table, picked_names, quoted_table, without_utf16
from predictors.data.formats._swf_scan import LARGEST_QUANTITY
from predictors.data.formats.columns import MISSING, by_name, ids, known_texts, matches, names, numbers, spans_of
from predictors.data.formats.parquet import flag_array, plain_array, text_array
from predictors.data.formats.records import CANCELLED, COMPLETED, FAILED, RULES, Draft, clocked, finish
from predictors.data.formats.swf_header import SMALLEST_UNIX_TIME
from predictors.data.formats.tables.table_map import (
    COUNTS,
    KILOBYTES,
    MEMORY,
    NAMES,
    SECONDS,
    SPANS,
    TARGETS,
    TIMES,
    UNITS,
    VECTOR,
    TableMap,
)
from predictors.data.formats.tables.vectors import sign_vectors
from predictors.data.joblog import NODES_OF_USER, SIGNED, JobLog
from predictors.data.report import ReadingReport, ReportBuilder

MOST_CONTRADICTIONS: Final = 0.01  # share of the rows that may end before they start, or start before their submission
MOST_OVERRUNS: Final = 0.5  # share of the jobs that may run for twice their request: with more, a unit is wrong
_PARTS: Final[Mapping[str, float]] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_WORDS: Final = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED, "unended": MISSING}
_YES: Final = frozenset(("1", "true", "yes", "y", "exclusive", "t"))
_NO: Final = frozenset(("0", "false", "no", "n", "shared", "ok", "f"))


def parse_table(
    data: bytes,  # text with one line of names, or Parquet
    source: str,
    table_map: TableMap,  # which column is what
    strict: bool = False,
    time_zone: str | None = None,  # IANA name of the zone of times without an offset; goes before the map's
    header: tuple[tuple[str, str], ...] = (),  # what the log's header says
) -> tuple[JobLog, ReadingReport]:
    r"""Return the job log that a table holds by a map, and the account.

    >>> text = b"Id;Submit;Begin;Minutes\n7;1616835600;1616835660;2\n"
    >>> about = TableMap(delimiter=";", columns={"Id": "job_id", "Submit": "submit", "Begin": "start",
    ...                                          "Minutes": {"column": "run_time", "unit": "min"}})
    >>> log, account = parse_table(text, "jobs.csv", about)
    >>> log["wait"].tolist(), log["run_time"].tolist(), log.epoch
    ([60], [120], 1616835600)
    """
    report = ReportBuilder(source, RULES)
    return table_log(table_of(data, source, table_map, report), source, table_map, report, strict, time_zone, header)


def table_of(data: bytes, source: str, table_map: TableMap, report: ReportBuilder) -> Table:
    """Return the mapped columns of a text or a Parquet file as text, without the texts that mean unknown."""
    wanted = list(table_map.columns)
    if data.startswith(MAGIC):
        vectors = [name for target, (name, _, _) in table_map.by_target.items() if target == VECTOR]
        table = parquet_texts(data, source, wanted, [name for name, _, _ in table_map.by_target.values()], vectors)
    else:
        table = quoted_table(without_utf16(data, source), source, wanted, report, table_map.delimiter)
    lacking = [name for name in wanted if name.lower() not in table.columns]
    if lacking:
        raise JobcastError(
            f"{source}: its map names a column that the table lacks. {unknown_name('column', lacking[0], table.names)}"
        )
    return table


def parquet_texts(
    data: bytes, source: str, wanted: Sequence[str], needed: Sequence[str] = (), vectors: Sequence[str] = ()
) -> Table:
    """Return columns of a Parquet file as texts, whatever the case of their names; a place is the row, from 1.

    Columns that have no texts, such as records and pictures, are empty; lists of `vectors` stay lists.
    """
    import pyarrow as pa

    names = parquet_names(data)
    whole = parquet_table(data, source, columns=picked_names(names, wanted, source))
    required, as_lists = ({name.lower() for name in some} for some in (needed, vectors))
    texts: dict[str, Any] = {}
    for name in whole.column_names:
        column = whole.column(name).combine_chunks()
        if name.lower() in as_lists and _is_list(column):
            texts[name.lower()] = column
            continue
        try:
            texts[name.lower()] = _as_text(column)
        except pa.ArrowException as error:
            if name.lower() in required:
                raise JobcastError(
                    f'{source}: its column "{name}" of type {str(column.type)[:60]} cannot be read as text; write it '
                    "as text or numbers, or call it unused."
                ) from error
            texts[name.lower()] = text_array([""] * len(column))
    return Table(names, texts, lambda rows: rows + 1)


def _is_list(column: Any) -> bool:
    import pyarrow as pa

    kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    if not any(kind(column.type) for kind in kinds):
        return False
    return bool(pa.types.is_floating(column.type.value_type) or pa.types.is_integer(column.type.value_type))


def _as_text(column: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    elif pa.types.is_timestamp(column.type) and column.type.tz:
        column = column.cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64())
    elif pa.types.is_floating(column.type):
        column = _without_zeros(column)
    text = pc.fill_null(column.cast(pa.string()), "")
    text.validate(full=True)  # Parquet's texts may be no UTF-8
    return text


def _without_zeros(column: Any) -> Any:
    """Return floats as whole numbers where all of them are, since texts of large floats have exponents."""
    import pyarrow as pa
    from pyarrow import compute as pc

    empty = pc.if_else(pc.is_finite(pc.fill_null(column, 0.0)), column, None)
    try:
        return empty.cast(pa.int64())
    except pa.ArrowInvalid:
        return empty.cast(pa.decimal128(38, 6)) if _is_small(empty) else empty


def _is_small(column: Any) -> bool:
    from pyarrow import compute as pc

    most = pc.max(pc.abs(column)).as_py()
    return most is None or most < 1e30


def parquet_names(data: bytes) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file; () if it is none."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return tuple(parquet.read_schema(pa.BufferReader(data)).names)
    except (pa.ArrowException, OSError, ValueError):
        return ()


def table_log(
    table: Table,
    source: str,
    table_map: TableMap,
    report: ReportBuilder,
    strict: bool = False,
    time_zone: str | None = None,
    header: tuple[tuple[str, str], ...] = (),
    more: Mapping[str, Ints] = MappingProxyType({}),
) -> tuple[JobLog, ReadingReport]:
    """Return the job log of a table by its map, and the account; `more` are further columns of whole numbers."""
    table_map.require_complete(source)
    zone = (table_map.time_zone or None) if time_zone is None else time_zone
    if zone is not None:
        known_zone(zone)
    used = {
        target: _cleaned(table.columns[name.lower()], target, table_map)
        for target, (name, _, _) in _of(table_map).items()
    }
    report.note_unused(table.names, [name for name, _, _ in _of(table_map).values()])
    draft = Draft(source, _ids(used, table, report), table.places, report)
    fixed = _times(draft, used, table_map, zone)
    for target in SPANS:
        if target in used:
            draft.numbers[target] = _span(used[target], target, _of(table_map)[target][1], draft)
    _check_units(draft, table_map)
    if "wait" in draft.numbers:
        _start_from_wait(draft)
    for target in (*COUNTS, *SIGNED):
        if target in used:
            values = numbers(used[target], target, draft.report)
            in_thousandths = _of(table_map)[target][1] == "milli"
            draft.numbers[target] = np.where(values > 0, -(-values // 1000), values) if in_thousandths else values
    if "array" in used:  # databases write 0 for a job of no array
        draft.numbers["array"][draft.numbers["array"] == 0] = MISSING
    draft.numbers |= more
    if VECTOR in used:
        sign_vectors(used[VECTOR], _of(table_map)[VECTOR][0], draft)
    _texts(draft, used)
    _sizes(draft)
    _memory(draft, used, table_map)
    _status(draft, used, table_map)
    about = {"max_procs": table_map.procs, "max_nodes": table_map.nodes, "max_gpus": table_map.gpus}
    return finish(draft, log_name(source), strict, epoch_known=fixed, time_zone=zone, header=header, **about)


def _of(table_map: TableMap) -> Mapping[str, tuple[str, str, str]]:
    return table_map.by_target


def _cleaned(column: Any, target: str, table_map: TableMap) -> Any:
    """Return a column of text without the texts that mean unknown, and with points as decimal marks of its numbers."""
    from pyarrow import compute as pc

    if target == VECTOR and _is_list(column):
        return column
    if table_map.unknown:
        known = np.ones(len(column), dtype=np.bool_)
        for text in table_map.unknown:
            known &= ~plain_array(pc.equal(column, text).cast("int8")).astype(np.bool_)
        if not known.all():
            column = pc.if_else(flag_array(known), column, "")
    if table_map.decimal == "," and TARGETS[target] in ("time", "span", "count", "memory"):
        column = pc.replace_substring_regex(column, r"^(\s*[+-]?\d+),(\d+)", r"\1.\2")
    return column


def _ids(used: Mapping[str, Any], table: Table, report: ReportBuilder) -> list[str]:
    if "job_id" not in used:
        report.note("columns", "no column of ids; jobs are numbered by their rows")
        return [str(number) for number in range(1, len(table) + 1)]
    return ids(used["job_id"])


# --- times and spans --------------------------------------------------------------------------------------------------


def _times(draft: Draft, used: Mapping[str, Any], table_map: TableMap, zone: str | None) -> bool:
    """Fill in the points in time; return whether they are dates, not seconds since some start."""
    texts: dict[str, Any] = {}
    dates = True
    for target in TIMES:
        if target not in used:
            continue
        unit = _of(table_map)[target][1]
        if unit in _PARTS:
            draft.numbers[target] = _scaled(used[target], target, draft, 1.0 / _PARTS[unit])
            happened = draft.numbers[target] > 0 if target != "submit" else draft.numbers[target] != MISSING
            dates &= not happened.any() or int(draft.numbers[target][happened].min()) >= SMALLEST_UNIX_TIME
        else:
            texts[target] = _dated(used[target], target, unit, draft) if "%" in unit else used[target]
    numeric = [target for target in TIMES if target in used and target not in texts]
    if dates:
        _without_noughts(draft, numeric)
    if texts:
        unix = {target: draft.numbers[target] for target in numeric} if dates and zone is None else {}
        draft.numbers |= clocked(texts, draft, zone, unix)
        if dates:
            _without_noughts(draft, list(texts))
    if "eligible" in draft.numbers:
        draft.numbers["eligible_wait"] = slurm.eligible_wait(draft.numbers.pop("eligible"), draft.number("start"))
    return dates


def _without_noughts(draft: Draft, targets: list[str]) -> None:
    """Let dates of second 0 be unknown: databases write 0 for what has not happened."""
    for target in targets:
        if target != "submit":
            draft.numbers[target][draft.numbers[target] == 0] = MISSING


def _dated(column: Any, target: str, pattern: str, draft: Draft) -> Any:
    from pyarrow import compute as pc

    known = known_texts(column)
    stamps = pc.strptime(column, format=pattern, unit="s", error_is_null=True)
    bad = known & plain_array(stamps.is_null().cast("int8")).astype(np.bool_)
    draft.report("not-a-time", bad, target, column[int(np.argmax(bad))].as_py() if bad.any() else "")
    universal = "Z" if "%z" in pattern else ""  # strptime has taken the offset off
    return pc.fill_null(pc.strftime(stamps, f"%Y-%m-%dT%H:%M:%S{universal}"), "")


def _start_from_wait(draft: Draft) -> None:
    """Set the start by the wait where the table has no start of its own."""
    wait, submit, start = draft.numbers.pop("wait"), draft.number("submit"), draft.number("start")
    known = (wait != MISSING) & (submit != MISSING) & (start == MISSING)
    draft.numbers["start"] = np.where(known, submit + np.where(known, wait, 0), start)


def _span(column: Any, target: str, unit: str, draft: Draft) -> Ints:
    if unit in ("ms", "us"):
        return _scaled(column, target, draft, SECONDS[unit])
    seconds = int(SECONDS[unit or "s"])
    return spans_of(column, target, draft.report, seconds, slurm.NO_LIMIT)


def _scaled(column: Any, target: str, draft: Draft, factor: float) -> Ints:
    """Return a column of numbers times a factor as whole numbers, rounded down; `MISSING` where there is none."""
    import pyarrow as pa
    from pyarrow import compute as pc

    result = np.full(len(column), MISSING, dtype=np.int64)
    known = known_texts(column)
    is_number = known & matches(column, _NUMBER)
    bad = known & ~is_number
    draft.report("not-a-number", bad, target, column[int(np.argmax(bad))].as_py() if bad.any() else "")
    if not is_number.any():
        return result
    picked = pc.utf8_trim_whitespace(column.filter(flag_array(is_number)))
    try:  # nanoseconds since 1970 are beyond what a float holds
        whole = plain_array(pc.cast(picked, pa.int64()))
        parts = round(1.0 / factor) if factor < 1 else 0
        values = whole // parts if parts else np.minimum(whole * factor, 2.0**62).astype(np.int64)
    except pa.ArrowInvalid:
        floats = plain_array(pc.cast(picked, pa.float64())) * factor
        values = np.floor(np.clip(floats, -(2.0**62), 2.0**62) + 1e-9).astype(np.int64)
    result[is_number] = values
    large = is_number & (result > LARGEST_QUANTITY)
    draft.report("too-large", large, target, column[int(np.argmax(large))].as_py() if large.any() else "")
    result[large] = MISSING
    return result


# --- units that contradict one another --------------------------------------------------------------------------------


def _check_units(draft: Draft, table_map: TableMap) -> None:
    """Refuse units by which too many jobs end before they start, or run for far longer than they may."""
    for earlier, later in (("submit", "start"), ("start", "end")):
        share, row = _share(draft.number(later) < draft.number(earlier), draft, earlier, later)
        if share > MOST_CONTRADICTIONS:
            raise _contradiction(draft, table_map, (earlier, later), share, row, f"{later} lies before {earlier}")
    run_time = draft.number("run_time")
    if "run_time" not in draft.numbers:
        known = (draft.number("start") != MISSING) & (draft.number("end") != MISSING)
        run_time = np.where(known, draft.number("end") - np.where(known, draft.number("start"), 0), MISSING)
    asked = draft.number("requested_time")
    both = (run_time > 0) & (asked > 0)
    over = both & (run_time > 2 * np.where(both, asked, 0))
    if both.any() and over.sum() > MOST_OVERRUNS * both.sum():
        fitting = _fitting_span(run_time[both], asked[both], _of(table_map)["requested_time"][1] or "s")
        raise JobcastError(
            f"{draft.source}: {percent(over.sum() / both.sum())} of the jobs run for more than twice their "
            f'requested_time; the unit of "{_of(table_map)["requested_time"][0]}" is wrong{fitting}.'
        )
    between = np.where(draft.number("start") == MISSING, MISSING, draft.number("end") - draft.number("start"))
    both = (draft.number("end") != MISSING) & (between > 60) & (draft.number("run_time") > 0)
    if both.sum() >= 20:
        ratio = float(np.median(between[both] / draft.number("run_time")[both]))
        if not 0.5 < ratio < 2:
            own = _of(table_map)["run_time"][1] or "s"
            fitting = next((u for u, s in SECONDS.items() if 0.5 < ratio * SECONDS[own] / s < 2), "")
            advice = f"; {fitting} would fit" if fitting else ""
            raise JobcastError(
                f"{draft.source}: end - start is {ratio:.3g} times the run_time, at the median; the unit of "
                f'"{_of(table_map)["run_time"][0]}" is wrong{advice}.'
            )


def _share(bad: Bools, draft: Draft, *columns: str) -> tuple[float, int]:
    """Return the share of the rows with both values that are bad, and the first such row."""
    both = np.logical_and.reduce([draft.number(column) != MISSING for column in columns])
    bad = bad & both
    return float(bad.sum() / max(int(both.sum()), 1)), int(np.argmax(bad)) if bad.any() else 0


def _contradiction(
    draft: Draft, table_map: TableMap, pair: tuple[str, str], share: float, row: int, what: str
) -> JobcastError:
    line = int(np.asarray(draft.places(np.array([row])))[0])
    values = ", ".join(f"{column} {draft.number(column)[row]}" for column in pair)
    fitting = ""
    for column, other in (pair, pair[::-1]):
        unit = _of(table_map).get(column, ("", "", ""))[1]
        if unit not in _PARTS:
            continue
        for candidate in UNITS["time"]:
            factor = _PARTS[unit] / _PARTS[candidate]
            both = (draft.number(column) != MISSING) & (draft.number(other) != MISSING)
            scaled = draft.number(column)[both] * factor
            gap = draft.number(other)[both] - scaled if column == pair[0] else scaled - draft.number(other)[both]
            if candidate != unit and (gap < -1).mean() <= MOST_CONTRADICTIONS and np.median(gap) < 366 * 86_400:
                fitting = f' For "{_of(table_map)[column][0]}" the unit {candidate} would fit.'
    way_out = fitting or " Check which column is which, and their units and zones."
    return JobcastError(f"{draft.source}:{line}: {what} in {percent(share)} of the rows (here {values}).{way_out}")


def _fitting_span(run_time: Ints, asked: Ints, unit: str) -> str:
    for candidate, seconds in SECONDS.items():
        scaled = asked * (seconds / SECONDS[unit])
        if candidate != unit and (run_time > 1.1 * scaled + 60).mean() < 0.1:
            return f"; {candidate} would fit"
    return ""


# --- sizes, memory, names, ends ---------------------------------------------------------------------------------------


def _texts(draft: Draft, used: Mapping[str, Any]) -> None:
    for target in NAMES:
        if target in used and target not in ("dependency", "state"):
            draft.names[target] = names(used[target])
    if "project" in draft.names and "group" not in draft.names:
        draft.names["group"] = draft.names["project"]
    if "dependency" in used:
        draft.names |= slurm.dependencies(names(used["dependency"]))
    for target, kind in TARGETS.items():
        if kind == "flag" and target in used:
            coded = names(used[target])
            value_of = _exclusive if target == "exclusive" else _flag
            draft.numbers[target] = found = by_name(coded, value_of, MISSING)
            unread = by_name(coded, lambda _: True, unknown=False) & (found == MISSING)
            draft.report("not-a-number", unread, target)
    for target, gpus in (("requested_tres", "requested_gpus"), ("allocated_tres", "allocated_gpus")):
        if target in used:
            lists = names(used[target])
            if gpus not in draft.numbers:
                draft.numbers[gpus] = by_name(lists, slurm.gpus_of, MISSING)
            if target == "requested_tres":
                draft.names.setdefault("gpu_type", slurm.named_by(lists, slurm.gpu_type_of))
            if target == "requested_tres" and "requested_job_memory" not in used:
                draft.numbers["requested_job_memory"] = by_name(lists, slurm.memory_of, MISSING)


def _flag(text: str) -> int:
    word = text.strip().lower()
    return 1 if word in _YES else 0 if word in _NO else MISSING


def _exclusive(text: str) -> int:
    return NODES_OF_USER if text.strip().lower() in ("user", str(NODES_OF_USER)) else _flag(text)


def _sizes(draft: Draft) -> None:
    """Let nodes be the processors where the table has no others."""
    has = {target for target in COUNTS if (draft.number(target) > 0).any()}
    if has & {"requested_procs", "allocated_procs"}:
        return
    for asked, given in (("requested_nodes", "nodes"), ("cores", "cores"), ("requested_gpus", "allocated_gpus")):
        if has & {asked, given}:
            what = {"requested_nodes": "node", "cores": "core", "requested_gpus": "GPU"}[asked]
            draft.ledger.note("columns", f"no processors are known; a processor is a {what}")
            if asked in has:
                draft.numbers["requested_procs"] = draft.numbers[asked]
            if given in has:
                draft.numbers["allocated_procs"] = draft.numbers[given]
            return


def _memory(draft: Draft, used: Mapping[str, Any], table_map: TableMap) -> None:
    procs = np.maximum(np.maximum(draft.number("requested_procs"), draft.number("allocated_procs")), 1)
    nodes = np.maximum(np.maximum(draft.number("requested_nodes"), draft.number("nodes")), 1)
    times: dict[str, Any] = {"processor": procs, "node": nodes, "job": 1}
    letters = {"processor": "c", "node": "n", "job": ""}
    for target in MEMORY:
        if target not in used:
            continue
        unit, per = _of(table_map)[target][1:]
        own = "job" if "job" in target else "processor"
        if unit == "slurm":
            total = values = slurm.memory_of_jobs(used[target], procs, nodes, draft, target, letters[per or own])
        else:
            values = _scaled(used[target], target, draft, KILOBYTES[unit or "KB"])
            total = np.where(values >= 0, values, 0) * times[per or own]
        known = values >= 0
        draft.numbers[target] = np.where(known, total // times[own], values)
        whole = {"requested_memory": "requested_job_memory", "used_memory": "used_job_memory"}.get(target)
        if whole and whole not in used and per == "job":
            draft.numbers[whole] = np.where(known, total, MISSING)


def _status(draft: Draft, used: Mapping[str, Any], table_map: TableMap) -> None:
    """Set exit code, state and status: by the map's words, else by the exit code."""
    ended = (draft.number("end") != MISSING) | (draft.number("run_time") != MISSING)
    if "exit_code" in used:
        coded = names(used["exit_code"])
        if any(":" in text for text in coded[1]):
            draft.numbers["exit_code"] = by_name(coded, slurm.exit_code, MISSING)
        else:
            draft.numbers["exit_code"] = numbers(used["exit_code"], "exit_code", draft.report)
        code = draft.number("exit_code")
        status = np.where(code == 0, COMPLETED, FAILED)
        draft.numbers["status"] = np.where(ended & (code != MISSING), status, MISSING)
    if "state" in used:
        states = slurm.named_by(names(used["state"]), slurm.without_user)
        word = {key.strip().lower(): _WORDS[value] for key, value in table_map.status.items()}
        read: Callable[[str], int] = lambda text: word.get(text.strip().lower(), MISSING)  # noqa: E731
        draft.names["state"] = states
        if odd := [text for text in states[1] if text.strip().lower() not in word]:
            draft.ledger.note("columns", f"words of state without a status in the map: {', '.join(odd)[:80]}", len(odd))
        if word:
            draft.numbers["status"] = by_name(states, read, MISSING)
    never = (draft.number("start") == MISSING) & (draft.number("end") != MISSING)
    draft.waiting = never & (draft.number("status") == CANCELLED)
