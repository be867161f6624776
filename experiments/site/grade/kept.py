"""The grade of a site as `jobcast site grade` keeps it, next to the site's file: it is read where figures are given."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from predictors.core.declarations import declared
from predictors.core.errors import JobcastError, printable
from predictors.core.files import whole_file
from predictors.data.slurm.site import sha256

GOOD: Final = ("A", "B")  # grades from which on figures are given


@dataclass(frozen=True)
class KeptGrade:
    """What is kept of a grade."""

    site: str  # SHA-256 of the site's file
    grade: str
    worst: str  # the group that disagrees most; empty: none
    helps: str  # the input that would help
    page: str  # the report with every figure


def place_of(site: Path) -> Path:
    """Return where the grade of a site's file is kept.

    >>> str(place_of(Path("sites/big.site")))
    'sites/big.grade'
    """
    return site.with_name(f"{site.name.removesuffix('.site')}.grade")


def keep_grade(site: Path, grade: str, worst: str, helps: str, page: Path) -> None:
    made = KeptGrade(sha256(site.read_bytes()), grade, worst, helps, str(page))
    with whole_file(place_of(site)) as part:
        part.write_text(json.dumps(asdict(made), indent=1) + "\n", encoding="utf-8")


def kept_grade(site: Path) -> KeptGrade | None:
    """Return the grade of a site's file; None where none is kept, or that of another state of the file."""
    path = place_of(site)
    if not path.is_file():
        return None
    try:
        made = declared(KeptGrade, json.loads(path.read_bytes()), str(path))
    except (OSError, ValueError, RecursionError) as error:
        raise JobcastError(f"{path}: cannot be read ({error}); grade again: jobcast site grade {site}.") from error
    return made if made.site == sha256(site.read_bytes()) else None


def caution_of(site: Path, ungraded: bool) -> str:
    """Return what a page must say of figures from a site's twin; nothing from grade B on.

    Below B they are refused, if not asked for with `ungraded`.
    """
    found = kept_grade(site)
    if found is not None and found.grade in GOOD:
        return ""
    if found is None:
        why = f"{site}: its twin is not graded as the file is now"
        way = f"run jobcast site grade {site}"
    else:
        worst = f", worst {found.worst}" if found.worst else ""
        why = printable(f"{site}: the grade of its twin is {found.grade}{worst}")
        way = printable(f"see {found.page} ({found.helps.rstrip('.')})")
    if not ungraded:
        raise JobcastError(f"{why}; figures need A or B: {way}, or take --ungraded.")
    return f"{why}: only A or B allows figures, and these may mislead; {way}."
