"""report.json: a report as data, written and read.

Every file is listed with its size and digest, so that a page is never made of files that belong to another run.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn
from xml.etree import ElementTree

from pydantic import Field

from experiments.console import plain
from experiments.reports.figures import write_table
from experiments.reports.provenance import provenance
from predictors.core.declarations import Declaration, declared
from predictors.core.errors import JobcastError, counted
from predictors.core.files import whole_file

if TYPE_CHECKING:
    import pandas as pd

    from experiments.reports.report import Report

MANIFEST: Final = "report.json"
FORMAT: Final = "jobcast report"
VERSION: Final = 1
MAX_ROWS: Final = 1000  # rows of a table that a page shows; its CSV has them all
MAX_BYTES: Final = 64 * 2**20  # size up to which a report is read
LONGEST: Final = 1e12  # seconds that no run takes


class _Table(Declaration):
    title: str
    file: str
    n_rows: int
    columns: list[str]
    rows: list[list[str | int | float | bool | None]]


class _Picture(Declaration):
    title: str
    alt: str
    svg: str
    png: str
    csv: str


class _File(Declaration):
    name: str
    bytes: int
    sha256: str


class _First(Declaration):
    sentence: str
    table: str
    picture: str
    remedy: str


class Document(Declaration, extra="ignore"):
    """What `report.json` holds."""

    format: Literal["jobcast report"]
    version: Literal[1]
    experiment: str
    question: str
    log: str
    seeds: list[int]
    seconds: Annotated[float, Field(ge=0, lt=LONGEST)]
    verdict: list[str]
    details: list[str]
    notes: list[str]
    facts: dict[str, str | int | float]
    provenance: dict[str, str]
    tables: list[_Table]
    pictures: list[_Picture]
    files: list[_File]
    first: _First | None = None


def keep(folder: Path, report: "Report") -> Path:
    """Write `report.json`, and the CSVs of those tables that have none yet, into the folder of a report."""
    names = [path.name for path in report.figures]
    tables = []
    for title, table in report.tables.items():
        name = f"{slug(title)}.csv"
        if name not in names:
            names.append(write_table(table, folder / name).name)
        tables.append(_table(title, name, table))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "experiment": report.experiment,
        "question": report.question,
        "log": report.log,
        "seeds": report.seeds,
        "seconds": report.seconds,
        "first": None if report.first is None else asdict(report.first),
        "verdict": report.verdict,
        "details": report.details,
        "notes": report.notes,
        "facts": report.facts,
        "provenance": provenance(),
        "tables": tables,
        "pictures": list(_pictures(folder, names)),
        "files": [_file(folder / name) for name in dict.fromkeys(names)],
    }
    path = folder / MANIFEST
    with whole_file(path) as part:
        part.write_text(json.dumps(plain(document), indent=1, allow_nan=False) + "\n", encoding="ascii")
    return path


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the document of a folder, checked: a part that is missing, cut short or of another run is an error."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise JobcastError(
            f"{folder}: is no folder; name the one that an experiment wrote, such as reports/backfilling."
        )
    if not path.is_file():
        raise JobcastError(
            f"{folder}: has no {MANIFEST}, so no finished experiment or sweep wrote into it; run it (again) into there."
        )
    if path.stat().st_size > MAX_BYTES:
        raise JobcastError(
            f"{path}: is too big for a page, {path.stat().st_size:,} bytes where at most {MAX_BYTES:,} are read."
        )
    try:
        document = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise JobcastError(f"{path}: is no whole JSON document ({error}); run the experiment again.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise JobcastError(f"{path}: is not a report of jobcast (its format is not {FORMAT!r}).")
    if document.get("version") != VERSION:
        raise JobcastError(
            f"{path}: is of version {document.get('version')!r}, this jobcast reads version {VERSION}; "
            "use the jobcast that wrote it, or run the experiment again."
        )
    try:
        declared(Document, document, str(path))
    except JobcastError as error:
        raise JobcastError(f"{error} Run the experiment again.") from error
    for table in document["tables"]:
        if any(len(row) != len(table["columns"]) for row in table["rows"]):
            raise JobcastError(f"{path}: table {table['title']!r} has rows of other lengths than its columns.")
    _check_files(folder, document)
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is none of JSON's numbers")


def slug(title: str) -> str:
    """Return a title as the stem of a file's name.

    >>> slug("all logs: lower ends")
    'all_logs_lower_ends'
    """
    return re.sub(r"[^A-Za-z0-9]+", "_", title).strip("_")[:80] or "table"


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _table(title: str, name: str, table: "pd.DataFrame") -> dict[str, Any]:
    shown = table.head(MAX_ROWS)
    rows = [list(row) for row in shown.itertuples(index=False, name=None)]
    return {"title": title, "file": name, "n_rows": len(table), "columns": list(map(str, table.columns)), "rows": rows}


def _pictures(folder: Path, names: Iterable[str]) -> Iterable[dict[str, str]]:
    """Yield each picture that is there as SVG and as PNG, with the words that `draw` wrote into it."""
    there = set(names)
    for name in names:
        stem = name.removesuffix(".svg")
        if stem == name or f"{stem}.png" not in there:
            continue
        tags = {tag: "{http://purl.org/dc/elements/1.1/}" + tag for tag in ("title", "description")}
        about = ElementTree.parse(folder / name).find(".//{http://creativecommons.org/ns#}Work")
        texts = {key: (about.findtext(tag) or "") if about is not None else "" for key, tag in tags.items()}
        title = texts["title"] or stem.replace("_", " ")
        data = f"{stem}.csv" if f"{stem}.csv" in there else ""
        yield {"title": title, "alt": texts["description"] or title, "svg": name, "png": f"{stem}.png", "csv": data}


def _file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise JobcastError(f"{path}: the report names this file, but it is not there.")
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest_of(path)}


def _is_plain(name: str) -> bool:
    r"""Return whether a name can be that of a file in a folder, and nowhere else.

    >>> [_is_plain(name) for name in ("a b.csv", "", "../a.csv", "/a.csv", ".lock", "a\\b.csv", "a\nb.csv", "x" * 300)]
    [True, False, False, False, False, False, False, False]
    """
    plain = name.isprintable() and Path(name).name == name and not name.startswith(".") and "\\" not in name
    return bool(name) and plain and len(name.encode()) <= 255


def _check_files(folder: Path, document: Mapping[str, Any]) -> None:
    known = {file["name"]: file for file in document["files"]}
    used = [table["file"] for table in document["tables"]]
    used += [name for picture in document["pictures"] for name in (picture["svg"], picture["png"])]
    used += [picture["csv"] for picture in document["pictures"] if picture["csv"]]
    for name in used:
        if name not in known:
            raise JobcastError(f"{folder / MANIFEST}: uses {name[:80]!r}, which is not among its files.")
    for name, file in known.items():
        path = folder / name
        if not _is_plain(name):
            raise JobcastError(f"{folder / MANIFEST}: {name[:80]!r} is not the name of a file in its folder.")
        if not path.is_file():
            raise JobcastError(f"{path}: is missing, though {MANIFEST} names it; run the experiment again.")
        if path.stat().st_size != file["bytes"] or digest_of(path) != file["sha256"]:
            raise JobcastError(
                f"{path}: is not the file that {MANIFEST} was written with: another run has begun and not finished, or "
                "somebody changed it. Run the experiment again."
            )
    total = sum(min(known[picture[kind]]["bytes"] for kind in ("svg", "png")) for picture in document["pictures"])
    if total > MAX_BYTES:
        n_pictures = counted(len(document["pictures"]), "picture")
        raise JobcastError(f"{folder}: {n_pictures} of {total:,} bytes are too big for a page; at most {MAX_BYTES:,}.")
