"""One page to read: a folder's report as a single HTML file that needs no network, no fonts and no build step.

All its text comes from `report.json` and is escaped; pictures are embedded as images, in which no script
can run, and the page's own policy forbids whatever is not in it.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from experiments.console import cell
from experiments.reports.figures import draw, write_table
from experiments.reports.manifest import MANIFEST, keep, read_manifest
from experiments.reports.report import Report
from predictors.core.files import whole_file

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE: Final = "report.html"

MAX_SVG: Final = 400_000  # bytes up to which a picture is shown as SVG; bigger ones as PNG

LONGEST_LEAD: Final = 80
COMMAND: Final = "command"  # column that is shown below the name of its row
MOST_COLUMNS: Final = 4  # columns of a table that a phone shows side by side; rows with more are shown stacked

_UNITS: Final = {"_s": "s", "_s2": "s²", "_h": "h", "_us": "µs", "_pct": "%"}
_PERCENT: Final = re.compile(r"(?<=\d) %")  # a sign that must not begin a line
_UNSEEN: Final = dict.fromkeys(  # control characters, surrogates, and marks that turn the direction of text
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x200E, 0x200F, *range(0x202A, 0x202F),
     *range(0x2066, 0x206A), *range(0xD800, 0xE000)],
    "\ufffd",
)  # fmt: skip


def write_page(folder: Path) -> Path:
    """Make the page of a folder from its `report.json`, whole or not at all, and return its path."""
    text = page_of(read_manifest(folder), folder)
    path = folder / PAGE
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def write_report(folder: Path, report: Report, begin: float | None = None) -> Report:
    """Write what a finished run leaves in its folder: tables, pictures, `report.json` and the page.

    Return the report with its files, and how long the work took that began at `begin`, as of `perf_counter`.
    """
    written = [write_table(table, folder / f"{stem}.csv") for stem, table in report.data.items()]
    for one in report.pictures:
        written += draw(folder, one.name, one.table, one.paint, width=one.width, height=one.height)
    seconds = report.seconds if begin is None else perf_counter() - begin
    report = replace(report, figures=(*report.figures, *written), data={}, pictures=(), seconds=seconds)
    keep(folder, report)
    write_page(folder)
    return report


def files_of(folder: Path) -> list[str]:
    """Return every file of a report that was just written, tables and pictures among them, the page first."""
    names = [PAGE, MANIFEST, *(file["name"] for file in read_manifest(folder)["files"])]
    return [str(folder / name) for name in names]


def page_of(document: Mapping[str, Any], folder: Path) -> str:
    """Return the page of a checked document, with the pictures of its folder."""
    asset = {name: _asset(name) for name in ("report.css", "report.js")}
    tables = [_table(number, table) for number, table in enumerate(document["tables"], 1)]
    pictures = [picture | {"src": _src(folder, picture)} for picture in document["pictures"]]
    first = document.get("first")
    on_top = {
        "tables": [table for table in tables if first and table["title"] == first["table"]],
        "pictures": [picture for picture in pictures if first and picture["svg"] == f"{first['picture']}.svg"],
    }
    return _environment().get_template("report.html.jinja").render(
        report=document,
        first=first and first | on_top,
        tables=[table for table in tables if table not in on_top["tables"]],
        pictures=[picture for picture in pictures if picture not in on_top["pictures"]],
        style=asset["report.css"],
        script=asset["report.js"],
        style_hash=_hash(asset["report.css"]),
        script_hash=_hash(asset["report.js"]),
        manifest=MANIFEST,
    )  # fmt: skip


def shown(value: object) -> object:
    r"""Return text from outside without what cannot or must not be shown; escaping comes after.

    >>> ascii(shown("log\x00 \u202egnp.exe")), shown("50 %"), ascii(shown("\udce9\x9b"))
    ("'log\\ufffd \\ufffdgnp.exe'", '50\xa0%', "'\\ufffd\\ufffd'")
    """
    is_text = isinstance(value, str) and not hasattr(value, "__html__")  # else a number, or markup of the page's own
    return _PERCENT.sub("\u00a0%", str(value).translate(_UNSEEN)) if is_text else value


def led(sentence: str) -> tuple[str, str]:
    """Return the subject of a sentence, if it stands before a colon, and the rest.

    >>> led("Keep EASY: nothing is better."), led("P50 was off by 3 s.")
    (('Keep EASY', 'nothing is better.'), ('', 'P50 was off by 3 s.'))
    """
    lead, colon, rest = sentence.partition(": ")
    return (lead, rest) if colon and len(lead) <= LONGEST_LEAD else ("", sentence)


def label(column: str) -> str:
    """Return a column's name as a heading, its unit in brackets.

    >>> label("mean_wait_s"), label("sse_s2"), label("gap_closed"), label("ratio to last-two")
    ('mean wait [s]', 'sse [s²]', 'gap closed', 'ratio to last-two')
    """
    for ending, unit in _UNITS.items():
        if column.endswith(ending) and column != ending:
            return f"{column.removesuffix(ending).replace('_', ' ')} [{unit}]"
    return column.replace("_", " ")


def ranges(numbers: Sequence[int]) -> str:
    """Return whole numbers in few words.

    >>> ranges([1, 2, 3, 7, 9, 10]), ranges([0]), ranges([])
    ('1-3, 7, 9, 10', '0', 'none')
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = [f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts]
    return ", ".join(words) or "none"


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(0.5), duration(75), duration(7260)
    ('0.5 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _table(number: int, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table ready to be written: which columns are numbers, and each cell's text with what to sort by."""
    names, rows = table["columns"], table["rows"]
    commands = [""] * len(rows)
    if COMMAND in names:  # a column as long as this is read below the name of its row
        at = names.index(COMMAND)
        commands = [str(row[at]) for row in rows]
        names, *rows = ([*row[:at], *row[at + 1 :]] for row in (names, *rows))
    columns = list(zip(*rows, strict=True)) or [() for _ in names]
    numeric = [_is_numeric(values) for values in columns]
    cells = [
        [
            {"text": cell(value), "sort": value if is_number else None}
            for value, is_number in zip(row, numeric, strict=True)
        ]
        for row in rows
    ]
    for row, command in zip(cells, commands, strict=True):
        row[0]["command"] = command
    heads = [{"label": label(name), "numeric": n} for name, n in zip(names, numeric, strict=True)]
    title = table["title"].replace("_", " ")
    more = {"long": len(cells) > 15, "wide": len(heads) > MOST_COLUMNS}
    return {**table, **more, "title": title, "id": f"table-{number}", "heads": heads, "cells": cells}


def _is_numeric(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in there)


def _src(folder: Path, picture: Mapping[str, str]) -> str:
    path, kind = folder / picture["svg"], "svg+xml"
    if path.stat().st_size > MAX_SVG:
        path, kind = folder / picture["png"], "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _asset(name: str) -> str:
    return (files("experiments.reports") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a page's policy names an inline script or style that it allows."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("experiments.reports", "templates"), autoescape=True, finalize=shown,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"ranges": ranges, "duration": duration, "fact": cell, "led": led, "address": quote}
    return made
