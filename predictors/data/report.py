"""ReadingReport: what a reader or a cleaning dropped or changed, by rule, with counts and the first places.

Every function that makes a `JobLog` from something else also returns a `ReadingReport`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from predictors.core.errors import LONGEST_NAME, JobcastError, counted, printable, unknown_name

Effect = Literal["dropped", "changed", "noted"]

EFFECTS: Final = MappingProxyType(
    {
        "dropped": "the row is not in the log",
        "changed": "the row is kept, a value of it is lost or made",
        "noted": "nothing is lost, but the log differs from the file's text",
    }
)
N_PLACES: Final = 5  # how many places a finding keeps
_MOST_NAMED: Final = 12


@dataclass(frozen=True)
class Finding:
    """One rule that some rows met."""

    rule: str  # short name of the rule, such as `negative`
    effect: Effect  # {"dropped", "changed", "noted"}: what was done to those rows: see `EFFECTS`
    text: str  # the rule, and what was done
    count: int = 1  # how often, at least 1
    # the first few places, ascending: line numbers of the file, or job ids; empty where a place makes no sense
    places: tuple[int, ...] = ()
    place: Literal["line", "job"] = "line"  # what a place is
    column: str = ""  # the column concerned, empty where it is the whole row
    example: str = ""  # the value at the first place, empty if there is none

    def __post_init__(self) -> None:
        if self.effect not in EFFECTS:
            raise unknown_name("effect", self.effect, EFFECTS)
        if self.count < 1:
            raise JobcastError(f"A finding of rule {self.rule!r} must count at least one row; got {self.count}.")
        object.__setattr__(self, "places", tuple(sorted(self.places)[:N_PLACES]))

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key by which findings are joined when reports are added."""
        return self.effect, self.rule, self.column or self.text, self.place

    def __add__(self, other: "Finding") -> "Finding":
        """Join two findings of the same rule; the text and the example are those of the first place."""
        first = min(self, other, key=lambda finding: finding.places[:1] or (0,))
        return Finding(
            self.rule, self.effect, first.text, self.count + other.count, self.places + other.places, self.place,
            self.column, first.example,
        )  # fmt: skip

    def where(self) -> str:
        """Return the places as text.

        >>> Finding("blank", "noted", "", 7, (3, 4, 9, 12, 15, 16)).where()
        'lines 3, 4, 9, 12, 15, …'
        """
        if not self.places:
            return ""
        more = ", …" if self.count > len(self.places) else ""
        plural = "s" if self.count > 1 else ""
        return f"{self.place}{plural} {', '.join(map(str, self.places))}{more}"

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain values for JSON."""
        return {
            "effect": self.effect, "rule": self.rule, "column": self.column or None, "count": self.count,
            "place": self.place, "first": list(self.places), "example": self.example or None, "text": self.text,
        }  # fmt: skip


@dataclass(frozen=True)
class ReadingReport:
    """What a reader dropped, changed or noted.

    >>> negative = Finding("negative", "changed", "read as unknown", 2, (31, 40), column="wait")
    >>> no_run_time = Finding("no-run-time", "dropped", "run time is 0 or unknown", 3, (5,), "job")
    >>> both = ReadingReport("kth.swf", (negative,)) + ReadingReport("kth.swf", (no_run_time,))
    >>> both.dropped, both.changed, both.noted
    (3, 2, 0)
    >>> print(both)
    kth.swf: 3 dropped, 2 changed
      dropped  3  no-run-time           run time is 0 or unknown  (jobs 5, …)
      changed  2  negative        wait  read as unknown           (lines 31, 40)
    >>> print(both.using(95).summary())
    kth.swf: 98 jobs read, 95 used, 3 dropped (no-run-time 3); of those used 2 values changed
    """

    source: str = "log"  # the file or log that was read
    findings: tuple[Finding, ...] = ()  # in the order dropped, changed, noted; equal rules are joined
    # rows that are used, those with changed values among them. So read = used + dropped. None: not counted yet.
    used: int | None = None

    def __post_init__(self) -> None:
        joined: dict[tuple[str, str, str, str], Finding] = {}
        for finding in self.findings:
            joined[finding.key] = joined[finding.key] + finding if finding.key in joined else finding
        rank = list(EFFECTS).index
        object.__setattr__(self, "findings", tuple(sorted(joined.values(), key=lambda f: rank(f.effect))))

    def __add__(self, other: "ReadingReport") -> "ReadingReport":
        """Return the report of both, equal rules joined, under this one's source; the second is the later step."""
        used = self.used if other.used is None else other.used
        return ReadingReport(self.source, self.findings + other.findings, used)

    def using(self, used: int) -> "ReadingReport":
        """Return the report of a command that uses so many jobs."""
        return replace(self, used=used)

    @property
    def read(self) -> int | None:
        """Rows read: used and dropped; None if those used are not counted."""
        return None if self.used is None else self.used + self.dropped

    @property
    def dropped(self) -> int:
        """Rows dropped."""
        return self._total("dropped")

    @property
    def changed(self) -> int:
        """Values lost of rows that were kept."""
        return self._total("changed")

    @property
    def noted(self) -> int:
        """Values or rows that differ from the file's text, without loss."""
        return self._total("noted")

    def _total(self, effect: Effect) -> int:
        return sum(finding.count for finding in self.findings if finding.effect == effect)

    def count(self, rule: str) -> int:
        """Return how often a rule was met, over all columns."""
        return sum(finding.count for finding in self.findings if finding.rule == rule)

    def require_clean(self) -> None:
        """Raise at the first place where a row was dropped or changed: this is what `strict` means."""
        bad = [finding for finding in self.findings if finding.effect != "noted"]
        if not bad:
            return
        first = min(bad, key=lambda finding: finding.places[:1] or (0,))
        place = f"{first.places[0]}" if first.places else ""
        at = f":{place}" if place and first.place == "line" else f" job {place}" * bool(place)
        column = f" {first.column}" if first.column else ""
        value = f", found {first.example!r}" if first.example else ""
        raise JobcastError(
            f"{self.source}{at}: {first.rule}{column}{value} ({first.text}). "
            "Mend the row, or read without strict to have it handled so."
        )

    def summary(self) -> str:
        """Return one line.

        >>> ReadingReport("a.swf").summary()
        'a.swf: nothing dropped, nothing changed'
        """
        if self.used is not None:
            return f"{self.source}: {self._sum()}"
        totals = ((self.dropped, "dropped"), (self.changed, "changed"), (self.noted, "noted"))
        parts = [f"{count:,} {effect}" for count, effect in totals if count]
        return f"{self.source}: {', '.join(parts) or 'nothing dropped, nothing changed'}"

    def _sum(self) -> str:
        """Return what was read, used and dropped, by rule, in one line."""
        reasons = [f"{f.rule} {f.count:,}" for f in self.findings if f.effect == "dropped"]
        kept = [f"{self.changed:,} values changed"] if self.changed else []
        kept += [f"{self.noted:,} noted"] if self.noted else []
        first = f"{counted(self.read or 0, 'job')} read, {self.used or 0:,} used"
        lost = f", {self.dropped:,} dropped ({', '.join(reasons)})" if reasons else ", nothing dropped"
        return first + lost + (f"; of those used {', '.join(kept)}" if kept else "")

    def rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Return the table's rows: effect, count, rule, column, text, first places."""
        return [(f.effect, f"{f.count:,}", f.rule, f.column, f.text, f.where()) for f in self.findings]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(5)]
        lines = [self.summary()]
        for effect, count, rule, column, text, where in rows:
            cells = (effect, f"{count:>{widths[1]}}", rule, column, text)
            padded = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
            lines.append(f"  {padded}  {f'({where})' if where else ''}".rstrip())
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return the account as plain values for JSON."""
        return {
            "source": self.source, "read": self.read, "used": self.used, "dropped": self.dropped,
            "changed": self.changed, "noted": self.noted, "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


class ReportBuilder:
    """Collects the findings of a reader while it reads.

    >>> report = ReportBuilder("a.swf", {"negative": ("changed", "read as unknown")})
    >>> report.add("negative", [7, 3], "wait", "-4")
    >>> print(report.close().summary())
    a.swf: 2 changed
    """

    def __init__(
        self, source: str, rules: Mapping[str, tuple[Effect, str]], place: Literal["line", "job"] = "line"
    ) -> None:
        self._source, self._rules, self._place = source, rules, place
        self._findings: list[Finding] = []

    def add(self, rule: str, places: npt.ArrayLike, column: str = "", example: str = "") -> None:
        """Add a finding of `rule` at `places`, `example` being the value at the first; without places, none."""
        where = np.sort(np.atleast_1d(np.asarray(places, dtype=np.int64)))
        if len(where):
            effect, text = self._rules[rule]
            first = tuple(where[:N_PLACES].tolist())
            self._findings.append(Finding(rule, effect, text, len(where), first, self._place, column, example))

    def note(self, rule: str, text: str, count: int = 1) -> None:
        """Add a finding that concerns no single place, met `count` times."""
        self._findings.append(Finding(rule, self._rules[rule][0], text, count, place=self._place))

    def note_unused(self, names: Iterable[str], used: Iterable[str]) -> None:
        """Count the columns of a file, by their `names`, of which nothing goes into the log; case makes no difference.

        >>> report = ReportBuilder("a.csv", {"unused": ("noted", "")})
        >>> report.note_unused(["JobID", "Comment", "Flags"], ["jobid"])
        >>> report.close().findings[0].count, report.close().findings[0].text
        (2, 'columns of which nothing is used: Comment, Flags')
        """
        known = {name.lower() for name in used}
        left = [name for name in names if name and name.lower() not in known]
        if left:
            shown = ", ".join(printable(name)[:LONGEST_NAME] for name in left[:_MOST_NAMED])
            more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
            self.note("unused", f"columns of which nothing is used: {shown}{more}", len(left))

    def close(self) -> ReadingReport:
        return ReadingReport(self._source, tuple(self._findings))
