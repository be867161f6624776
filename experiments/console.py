"""What the command line prints: tables for people, one JSON document for programs, progress on a terminal only."""

import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from predictors.core.errors import JobcastError, printable

if TYPE_CHECKING:
    from predictors.data.report import ReadingReport
    from predictors.data.summary import Lack
    from predictors.tracking.describe import LoggedRun, Registered

USUAL: Final = 80  # characters of a line of a table where no terminal says how many it has
NARROWEST: Final = 40  # narrower terminals are taken for this wide
TALLEST: Final = 2  # lines of a heading, where there is room
_FIGURE: Final = re.compile(r"[^\w\s]?\d")  # how a text begins that is a figure and more: `0.4 to 0.6`, `<1 s`
LONG: Final = 24  # cells up to this length stand on one line; longer ones may go on, between words, on the next


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


def width() -> int | None:
    """Return how many characters a line may have: those that COLUMNS says, else the terminal's; None in a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return max(int(told), NARROWEST)
    return max(shutil.get_terminal_size().columns, NARROWEST) if sys.stdout.isatty() else None


def say(text: str) -> None:
    """Print sentences, each on lines of its own; on a terminal lines end between words."""
    room = width()
    for line in map(printable, text.split("\n")):
        sys.stdout.write("\n".join(_lines(line, room)) + "\n")


def _lines(text: str, room: int | None) -> list[str]:
    """Return a sentence as lines that end between words and keep its indentation.

    >>> _lines("  holds: never more processors than the machine has", 40)
    ['  holds: never more processors than the', '  machine has']
    """
    if room is None or len(text) <= room:
        return [text]
    begin = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, room, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, note: str = "") -> None:
    """Print a table that fits on the screen, of 80 columns in a pipe.

    No word is broken and no figure: a table that is too wide is printed as several, one below the other, each with the
    columns that name its rows. The first column, and texts that follow it, name the rows; figures are aligned to the
    right.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    values = [tuple(row) for row in rows]
    texts = [[cell(value) for value in row] for row in values]
    names = [all(isinstance(row[k], str) for row in values) for k in range(len(columns))]
    words = [k == 0 or (names[k] and not any(_FIGURE.match(row[k]) for row in texts)) for k in range(len(columns))]
    n_words = [*words, False].index(False)
    room = width() or USUAL
    console = Console(width=room, highlight=False, markup=False)
    console.print(title, style="bold")
    for block in _blocks(columns, texts, names, room):
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for k, wide in block:
            text = k < n_words or (names[k] and max((len(row[k]) for row in texts), default=0) > LONG)
            table.add_column(columns[k], justify="left" if text else "right", overflow="fold", width=wide)
        for row in texts:
            table.add_row(*(row[k] for k, _ in block))
        console.print(table)
        console.print()
    if note:
        say("\n".join(_lines(note, room)))


def _blocks(
    columns: Sequence[str], texts: Sequence[Sequence[str]], names: Sequence[bool], room: int
) -> list[list[tuple[int, int]]]:
    """Return which columns stand in which part of a table, and how wide each is.

    >>> _blocks(("case", "mean wait", "longest wait"), [("easy", "1,234", "5,678")], (True, False, False), 80)
    [[(0, 4), (1, 9), (2, 12)]]
    >>> _blocks(("case", "mean wait", "longest wait"), [("easy", "1,234", "5,678")], (True, False, False), 16)
    [[(0, 4), (1, 9)], [(0, 4), (2, 10)]]
    """
    cells = [[row[k] for row in texts] for k in range(len(columns))]
    least = [max([_longest(head), *(_size(c) if _size(c) <= LONG else _longest(c) for c in own)])
             for head, own in zip(columns, cells, strict=True)]  # fmt: skip
    most = [max([_size(head), *map(_size, own)]) for head, own in zip(columns, cells, strict=True)]
    head = [0]
    while len(head) < len(columns) - 1 and names[len(head)] and _frame(head, least) + least[len(head)] < room * 0.5:
        head.append(len(head))
    parts, part = [], [*head]
    for k in range(len(head), len(columns)):
        if len(part) > len(head) and _frame([*part, k], least) > room:
            parts.append(part)
            part = [*head]
        part.append(k)
    return [_widths(part, columns, least, most, room) for part in (*parts, part)]


def _frame(part: Sequence[int], wide: Sequence[int]) -> int:
    """Return how many characters a line of a table has: its columns, and two blanks between them."""
    return sum(wide[k] + 2 for k in part) - 2


def _widths(
    part: Sequence[int], heads: Sequence[str], least: Sequence[int], most: Sequence[int], room: int
) -> list[tuple[int, int]]:
    """Return each column with its width: what is left on the line goes to tall headings first, then to wide cells."""
    left, wide = max(room - _frame(part, least), 0), dict(zip(part, (least[k] for k in part), strict=True))
    for lines in (TALLEST, 1):
        for k in part:
            wanted = _room_for(heads[k], lines) if lines > 1 else most[k]
            more = min(max(wanted - wide[k], 0), left)
            left, wide[k] = left - more, wide[k] + more
    found = list(wide.items())
    beyond = _frame(part, least) - room
    if beyond > 0:  # a word that is longer than the line is the only thing that is ever broken
        widest = max(range(len(found)), key=lambda place: found[place][1])
        found[widest] = (found[widest][0], max(found[widest][1] - beyond, 1))
    return found


def _room_for(head: str, lines: int) -> int:
    """Return the width at which a heading takes so many lines at most.

    >>> _room_for("mean bounded slowdown", 2), _room_for("mean bounded slowdown", 3)
    (12, 8)
    """
    wide = max(_longest(head), 1)
    while len(textwrap.wrap(head, wide, break_long_words=False, break_on_hyphens=False)) > lines:
        wide += 1
    return wide


def _longest(text: str) -> int:
    return max(map(_size, text.split()), default=0)


def _size(text: str) -> int:
    """Return how many characters of a line a text takes: some letters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def print_account(account: "ReadingReport", *, listed: bool = False) -> None:
    """Print in one line what a reader or a cleaning dropped or changed; with `listed` each rule that was met, too."""
    listed = listed or "verbose" in _loudness
    if "quiet" in _loudness and not listed:
        return
    more = "" if listed or not account.findings else "; --account lists it by rule"
    say(f"{account.summary()}{more}")
    if listed and account.findings:
        columns = ("what", "times", "rule", "column", "how", "where")
        print_table("What was dropped or changed", columns, account.rows())


def print_lacks(lacks: "Iterable[Lack]") -> None:
    """Print what a log lacks for the answer that follows: the first lines of the answer."""
    for lack in lacks:
        say(lack.sentence())


def about_model(kept: "Registered", run: "LoggedRun") -> dict[str, Any]:
    """Return the part of `--json` on a model that was just kept."""
    names = {name: getattr(kept, name) for name in ("uri", "name", "version", "alias")}
    return names | {"run_id": run.run_id, "sha256": run.sha256}


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

    >>> [cell(value) for value in (28481, 92.687654, 0.6890, 0.0, float("nan"), None, "EASY", True)]
    ['28,481', '92.69', '0.689', '0', '-', '-', 'EASY', 'True']
    """
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        if abs(value) >= 1e9:
            return f"{value:.4e}"
        return f"{value:,.0f}" if abs(value) >= 1000 or not value else f"{value:.{'4g' if abs(value) >= 1 else '3f'}}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


class CompilingNotice(logging.Handler):
    """Says on stderr, once, that code is being compiled; on a terminal also what, through the logger of `core.jit`."""

    def __init__(self) -> None:
        super().__init__()
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        if "quiet" in _loudness:
            return
        if not self._said:
            self._said = True
            sys.stderr.write("jobcast: compiling for this machine; it takes up to half a minute, once.\n")
        what = record.getMessage() if record.args else ""  # without a name: it is done
        if _shown:
            _shown[-1](f" ({what})" if what else "")
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{what}")
        sys.stderr.flush()


def tell_what_is_compiled() -> None:
    """Let the user know on stderr when code must be compiled first; with a warm cache nothing is said."""
    logger = logging.getLogger("predictors.core.jit")
    if not logger.handlers:
        logger.addHandler(CompilingNotice())
        logger.setLevel(logging.INFO)
        logger.propagate = False


@contextmanager
def resumable() -> Iterator[None]:
    """Say at Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("jobcast: stopped; the same command goes on where it was.\n")
        raise


_loudness: list[str] = []  # what the user asked for: "quiet", "verbose" or nothing


def set_loudness(*, quiet: bool, verbose: bool) -> None:
    """Print results alone, or more than usual, from now on."""
    if quiet and verbose:
        raise JobcastError("--quiet and --verbose contradict each other; leave one of them out.")
    _loudness[:] = ["quiet"] * quiet + ["verbose"] * verbose


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal's stderr that `what` is being done; elsewhere say it with `--verbose` alone."""
    if "verbose" in _loudness:
        begin = perf_counter()
        sys.stderr.write(f"jobcast: {printable(what)}\n")
        yield
        sys.stderr.write(f"jobcast: {printable(what)}: done in {perf_counter() - begin:.1f} s\n")
        return
    if "quiet" in _loudness or not sys.stderr.isatty():
        yield
        return
    with _terminal().status(what) as status, _noting(lambda more: status.update(f"{what}{more}")):
        yield


_shown: list[Callable[[str], None]] = []  # what writes a remark behind each work that is shown, the innermost last


@contextmanager
def _noting(write: Callable[[str], None]) -> Iterator[None]:
    _shown.append(write)
    try:
        yield
    finally:
        _shown.pop()


@cache
def _terminal() -> Any:
    """Return the console of stderr: one for all, so that what is shown within something else goes below it."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal's stderr how far a long work is; what is yielded takes the number of tasks done since."""
    if _loudness or not sys.stderr.isatty():
        with working(what) if "verbose" in _loudness else nullcontext():
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
        with _noting(lambda more: shown.update(task, description=f"{what}{more}")):
            yield lambda more: shown.update(task, advance=more)
