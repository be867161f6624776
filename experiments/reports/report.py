"""What an experiment gives back: its question, tables, pictures and facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.reports.figures import Picture
from predictors.core.arrays import short_repr

if TYPE_CHECKING:
    import pandas as pd

    from predictors.data.report import ReadingReport


@dataclass(frozen=True)
class FirstScreen:
    """What a page answers on its first screen; everything else stands below, folded."""

    sentence: str  # the answer
    table: str  # title of the table of five figures, among the report's tables
    # stem of the picture of who gains and who pays, among the report's files; empty where nothing was gained or paid
    picture: str = ""
    remedy: str = ""  # what to do, where there is no answer


@dataclass(frozen=True, kw_only=True)
class Report:
    """An experiment's tables, by name, and the files that it wrote."""

    experiment: str = ""  # its name; of a study `experiments.registry.perform` sets it, and the seconds
    log: str
    seeds: tuple[int, ...]  # of everything drawn by chance
    tables: Mapping[str, "pd.DataFrame"]  # the results, under their titles
    # what `experiments.reports.page.write_report` writes: further tables by the stem of their file, and pictures
    data: Mapping[str, "pd.DataFrame"] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    figures: tuple[Path, ...] = ()  # every file written: of each picture PNG, SVG and CSV, and further tables
    seconds: float = 0.0  # how long it took
    notes: tuple[str, ...] = field(default=())  # what else the reader must know, a sentence each
    verdict: tuple[str, ...] = field(default=())  # what came out, a sentence each: the page begins with it
    question: str = ""  # what was asked, in a line
    facts: Mapping[str, Any] = field(default_factory=dict)  # what was run: jobs, processors, digest of the log
    # the verdict in detail, a sentence or two each: it stands apart, so that the verdict stays short
    details: tuple[str, ...] = field(default=())
    # what the first screen of the page holds; None: the page begins with the verdict, and nothing is folded
    first: FirstScreen | None = None
    # what became of the jobs that the experiment was given; None: it used them all
    account: "ReadingReport | None" = None

    __repr__ = short_repr

    def to_json(self) -> dict[str, Any]:
        """Return the document that `jobcast experiment --json` prints."""
        return {
            "experiment": self.experiment,
            "log": self.log,
            "seeds": list(self.seeds),
            "tables": {name: table.to_dict(orient="records") for name, table in self.tables.items()},
            "figures": [str(path) for path in self.figures],
            "sentence": None if self.first is None else self.first.sentence,
            "verdict": list(self.verdict),
            "details": list(self.details),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
