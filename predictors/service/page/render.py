"""HTML of the page: formats of values, rows of jobs, sections, and what changed between two moments.

Every value that comes from elsewhere is escaped: by Jinja in the sections, by `html.escape` in the rows.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from predictors.service.page.overview import JobRow, Overview

NONE: Final = "–"
SECTIONS: Final = ("health", "figures", "rate", "models", "weeks", "forecasts", "history")
OVER: Final = ' class="over"'
MOST_STATES: Final = 8  # rendered states that are kept, to tell a page what changed since its own


def duration(seconds: float | None) -> str:
    """Return seconds for people.

    >>> [duration(one) for one in (42.4, 90, 5400, 360000, None, float("nan"))]
    ['42 s', '1 min 30 s', '1 h 30 min', '4 d 4 h', '–', '–']
    """
    if seconds is None or not math.isfinite(seconds):
        return NONE
    whole = round(seconds)
    for size, unit, part, small in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if abs(whole) >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def utc(seconds: float | None) -> str:
    """Return a Unix time, to the second.

    >>> utc(1700000000.9), utc(None), utc(1e18)
    ('2023-11-14 22:13:20 UTC', '–', '1000000000000000000 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return NONE
    try:
        return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"


def moment(seconds: float | None, overview: Overview) -> str:
    """Return a time by the clock of events: UTC, or seconds where the clock counts from an unknown moment."""
    if seconds is None:
        return NONE
    return utc(seconds) if overview.unix else f"{seconds:,.0f} s"


def minute(seconds: float | None, overview: Overview) -> str:
    """Return a time by the clock of events, to the minute."""
    told = moment(seconds, overview)
    return told[:16] if told.endswith("UTC") else told


def clock(seconds: float) -> str:
    """Return the time of day of a Unix time, to the minute.

    >>> clock(1700000000.9)
    '22:13'
    """
    return utc(seconds)[11:16]


def interval(times: tuple[int, int, int], overview: Overview) -> str:
    """Return P50, with P10 and P90; the day is said once where it is the same."""
    p10, p50, p90 = (minute(one, overview) for one in times)
    day_of = p50[:11]
    return (
        f"{p50} ({p10.removeprefix(day_of)} to {p90.removeprefix(day_of)})"
        if overview.unix
        else f"{p50} ({p10} to {p90})"
    )


def day(seconds: int, overview: Overview) -> str:
    return moment(seconds, overview)[:10] if overview.unix else moment(seconds, overview)


def count(n: float) -> str:
    return f"{n:,.0f}"


def share(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{100 * value:.0f} %"


def figure(value: float | None) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:.2f}"


@dataclass(frozen=True)
class State:
    """What the page shows at one moment, as HTML."""

    number: int  # counts on with each state, from the second at which the process began
    overview: Overview
    sections: dict[str, str]  # HTML by the section's id
    tables: dict[str, dict[str, str]]  # HTML of each job's row, by table and job

    @property
    def title(self) -> str:
        return f"jobcast: {self.overview.state}"

    def since(self, before: "State | None") -> dict[str, Any] | None:
        """Return what changed since another state, whole tables if there is none; None if nothing did."""
        old = {} if before is None else before.sections
        sections = {name: html for name, html in self.sections.items() if old.get(name) != html}
        tables = {}
        for name, rows in self.tables.items():
            there: Mapping[str, str] = {} if before is None else before.tables[name]
            fresh = [(job, html) for job, html in rows.items() if there.get(job) != html]
            gone = [job for job in there if job not in rows]
            if fresh or gone or before is None:
                tables[name] = {"whole": before is None, "rows": fresh, "gone": gone}
        if not sections and not tables:
            return None
        return {"at": utc(self.overview.at), "title": self.title, "sections": sections, "tables": tables}


class Renderer:
    """Renders states; rows that did not change are rendered once. For one thread at a time."""

    def __init__(self) -> None:
        environment = Environment(
            loader=PackageLoader("predictors.service.page", "."), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True,
        )  # fmt: skip
        for one in (duration, utc, moment, clock, day, count, share, figure):
            environment.filters[one.__name__] = one
        self._page: Final = environment.get_template("page.html.jinja")
        self._parts: Any = environment.get_template("sections.html.jinja").module
        self._version: Final = version("jobcast")
        self._rows: dict[tuple[JobRow, bool], str] = {}
        self._states: OrderedDict[int, State] = OrderedDict()
        self._number = int(time.time())  # a page updated by the previous process finds no number of its own

    def state(self, overview: Overview) -> State:
        """Return the state of a view; the same view gives the same state."""
        newest = self._states[self._number] if self._states else None
        if newest is not None and newest.overview is overview:
            return newest
        rows: dict[tuple[JobRow, bool], str] = {}
        tables: dict[str, dict[str, str]] = {}
        for name, jobs in (("waiting", overview.waiting), ("running", overview.running)):
            table = tables[name] = {}
            for job in jobs:
                over = job.expected_end is not None and job.expected_end < overview.now
                html = self._rows.get((job, over)) or _row(job, over, overview)
                rows[job, over] = table[job.job] = html
        self._rows = rows
        sections = {name: str(getattr(self._parts, name)(overview)) for name in SECTIONS}
        self._number += 1
        found = State(self._number, overview, sections, tables)
        self._states[found.number] = found
        while len(self._states) > MOST_STATES:
            self._states.popitem(last=False)
        return found

    def kept(self, number: int) -> State | None:
        """Return an earlier state; None if it is not kept any more."""
        return self._states.get(number)

    def page(self, state: State) -> str:
        tables = {name: Markup("".join(rows.values())) for name, rows in state.tables.items()}
        return self._page.render(o=state.overview, from_state=state.number, version=self._version, **tables)


def _row(job: JobRow, over: bool, overview: Overview) -> str:
    since = minute(job.submitted if job.started is None else job.started, overview)
    if job.started is not None:
        expected = minute(job.expected_end, overview) + (" (passed)" if over else "")
    else:
        expected = NONE if job.start_forecast is None else interval(job.start_forecast, overview)
    procs = NONE if job.procs is None else count(job.procs)
    cells = (duration(job.predicted), expected, procs, since, duration(job.requested), job.user)
    name = escape(job.job)
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr data-job="{name}"{OVER if over else ""}><th scope="row">{name}</th>{told}</tr>'
