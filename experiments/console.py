"""What the command line prints: tables for people, one JSON document for programs, progress on a terminal only."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from predictors.core.errors import JobcastError, printable

if TYPE_CHECKING:
    from predictors.data.report import ReadingReport


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout; figures that do not exist (NaN, infinite) become null."""
    sys.stdout.write(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays as lists, figures that do not exist as None, all else as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (str, bytes)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if isinstance(value, (bool, int)) else str(value)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, note: str = "") -> None:
    """Print a table; the first column is text, the others are figures aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", caption=note or None, caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False, markup=False).print(table)


def print_account(account: "ReadingReport") -> None:
    """Print what a reader or a cleaning dropped or changed, by rule."""
    sys.stdout.write(f"{account.summary()}\n")
    if account.findings:
        columns = ("what", "times", "rule", "column", "how", "where")
        print_table("What was dropped or changed", columns, account.rows())


@contextmanager
def after_reading(account: "ReadingReport") -> Iterator[None]:
    """Add to an error within the block what reading the log dropped or changed: it may be the reason."""
    try:
        yield
    except JobcastError as error:
        lost = [f for f in account.findings if f.effect != "noted"]
        if not lost:
            raise
        losses = "; ".join(f"{f.count:,} {f.effect} by rule {f.rule}{f' of {f.column}' * bool(f.column)}" for f in lost)
        raise JobcastError(f"{error} While {account.source} was read: {losses}.") from error


def cell(value: Any) -> str:
    """Return a value as a table shows it.

    Examples
    --------
    >>> [cell(value) for value in (28481, 92.687654, 0.6890, float("nan"), None, "EASY", True)]
    ['28,481', '92.69', '0.689', '-', '-', 'EASY', 'True']
    """
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        if abs(value) >= 1e9:
            return f"{value:.4e}"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal's stderr that `what` is being done; say nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    with _terminal().status(what):
        yield


@cache
def _terminal() -> Any:
    """Return the console of stderr: one for all, so that what is shown within something else goes below it."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal's stderr how much of a long work is done and how long the rest may take; else say nothing.

    Yields
    ------
    callable of int
        Takes the number of tasks that have been done since.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=_terminal(), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda more: shown.update(task, advance=more)
