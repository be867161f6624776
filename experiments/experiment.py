"""What an experiment gives back, and which experiments there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from experiments.crew import HERE
from experiments.hiring import Crew
from predictors.data.errors import JobcastError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from predictors.data.joblog import JobLog


@dataclass(frozen=True)
class Setting:
    """What every experiment is told.

    Attributes
    ----------
    log : JobLog
        The job log, as read.
    folder : Path
        Where tables and figures go; it exists.
    seed : int
        Of everything drawn by chance.
    quick : bool
        Smaller models and fewer seeds, to see the whole in a minute or two.
    partition : int or None
        Keep only the jobs of one partition of the machine.
    procs : int or None
        Processors of the machine to simulate; by default as the log tells.
    predictors : tuple of str
        Names of those to study, where an experiment studies predictors; none: all, or what the experiment chooses.
    crew : Crew
        Who works, for the experiments of `MANY`; what comes out does not depend on it.
    failures : Path or None
        A log of failures beside the job log, for logstudy.
    unfinished : Path or None
        Where those keep runs as they are done, see `experiments.trials`; None: nowhere.
    """

    log: "JobLog"
    folder: Path
    seed: int = 0
    quick: bool = False
    partition: int | None = None
    procs: int | None = None
    predictors: tuple[str, ...] = ()
    crew: Crew = HERE
    failures: Path | None = None
    unfinished: Path | None = None

    def jobs(self) -> "JobLog":
        """Return the log, or of it the jobs of the partition.

        Raises
        ------
        JobcastError
            If the log has no job in that partition.
        """
        from experiments.simulation import of_partition

        return of_partition(self.log, self.partition)


@dataclass(frozen=True)
class Report:
    """An experiment's tables, by name, and the files that it wrote.

    Attributes
    ----------
    experiment, log : str
        Names.
    seeds : tuple of int
        Of everything drawn by chance.
    tables : mapping of str to DataFrame
        The results, under their titles.
    figures : tuple of Path
        Every file written: of each picture PNG, SVG and CSV, and the tables.
    seconds : float
        How long it took.
    notes : tuple of str
        What else the reader must know, a sentence each.
    verdict : tuple of str
        What came out, a sentence each: the page begins with it.
    question : str
        What was asked, in a line.
    facts : mapping of str to str or number
        What was run: jobs, processors, digest of the log.
    details : tuple of str
        The verdict in detail, a sentence or two each: it stands apart, so that the verdict stays short.
    """

    experiment: str
    log: str
    seeds: tuple[int, ...]
    tables: Mapping[str, "pd.DataFrame"]
    figures: tuple[Path, ...]
    seconds: float
    notes: tuple[str, ...] = field(default=())
    verdict: tuple[str, ...] = field(default=())
    question: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    details: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the document that `jobcast experiment --json` prints."""
        return {
            "experiment": self.experiment,
            "log": self.log,
            "seeds": list(self.seeds),
            "tables": {name: table.to_dict(orient="records") for name, table in self.tables.items()},
            "figures": [str(path) for path in self.figures],
            "verdict": list(self.verdict),
            "details": list(self.details),
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


EXPERIMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reis": "experiments.reis",  # learning run times: V. Reis's Table 2 and Figures 1 to 4
        "runtime": "experiments.runtime",  # every predictor: errors, where they fall, costs, what they buy
        "backfilling": "experiments.backfilling",  # what predictions gain in backfilling, and who pays
        "start-times": "experiments.start_times",  # can a waiting job be told when it will start?
        "logstudy": "experiments.logstudy",  # what a log tells: Allcock et al.'s observations, Li et al.'s section 3
        "rush": "experiments.rush",  # delaying jobs that would vary: Nichols et al., Table II, Figures 1 and 4 to 11
        "rush-dose": "experiments.rush_dose",  # what that hangs on: how slowly the machine changes, and placement
        "ceil": "experiments.ceil",  # a ceiling on utilisation, postponable jobs: Li et al., Table 6, Figures 4 and 5
        "cobalt": "experiments.cobalt",  # a score, and a queue kept to a third: Allcock et al., Table 2, section 4.3
    }
)
"""Experiments by name: the module whose `run(setting)` makes the report."""

WITHOUT_LOG: Final = frozenset({"rush", "rush-dose"})
"""Experiments in a model world, which look at no job log."""

MANY: Final = ("backfilling", "runtime", "rush", "rush-dose", "ceil", "cobalt")
"""Experiments of many independent runs: several workers can do them, and started again they go on where they were."""

OWN_LOGS: Final[Mapping[str, str]] = MappingProxyType(
    {"ceil": "experiments.ceil_months", "cobalt": "experiments.cobalt_cases"}
)
"""Experiments that need another log than the usual synthetic one where none is given: whose `default_log(seed)`."""


_SIMULATING: Final = ("runtime", "backfilling", "start-times", "logstudy", "ceil", "cobalt")
USED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "partition": ("reis", *_SIMULATING),
        "procs": _SIMULATING,
        "predictors": ("runtime", "rush"),
        "failures": ("logstudy",),
    }
)
"""Options of `jobcast experiment` that not every experiment has a use for, and which have."""


def check_options(name: str, given: Mapping[str, object]) -> None:
    """Refuse options that an experiment would ignore.

    Raises
    ------
    JobcastError
        Naming the option, and the experiments that it is for.

    Examples
    --------
    >>> check_options("reis", {"partition": 1, "procs": None})
    >>> check_options("reis", {"procs": 64})
    Traceback (most recent call last):
    predictors.data.errors.JobcastError: reis has no use for --procs, which is for runtime, backfilling, ...
    """
    for option, value in given.items():
        if value not in (None, "", ()) and name not in USED_BY[option]:
            raise JobcastError(f"{name} has no use for --{option}, which is for {', '.join(USED_BY[option])}.")


def experiment_by_name(name: str) -> "Callable[[Setting], Report]":
    """Return an experiment by its name.

    Raises
    ------
    JobcastError
        If there is none of that name.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    run: Callable[[Setting], Report] = import_module(EXPERIMENTS[name]).run
    return run


def perform(name: str, setting: Setting) -> Report:
    """Run an experiment by its name, and leave in its folder the page to read and what that is made from.

    Raises
    ------
    JobcastError
        If there is none of that name, or it cannot be run so.
    """
    run = experiment_by_name(name)
    if name in MANY:
        from experiments.trials import unfinished

        with unfinished(name, setting) as kept:
            return _written(name, kept, run(kept))
    check_shared(name, setting.crew)
    return _written(name, setting, run(setting))


def check_shared(name: str, crew: Crew) -> None:
    """Raise JobcastError if an experiment cannot be done by this crew."""
    if not crew.alone and name not in MANY:
        raise JobcastError(
            f"{name} is one long run, which several workers cannot share; leave --workers and its like out. "
            f"They share {', '.join(MANY)}."
        )


def _written(name: str, setting: Setting, report: Report) -> Report:
    """Return a report with what its page tells besides, and write it down."""
    from experiments.page import write_report

    question = (import_module(EXPERIMENTS[name]).__doc__ or "").splitlines()[0]
    report = replace(report, question=report.question or question, facts=report.facts or _facts(name, setting))
    write_report(setting.folder, report)
    return report


def _facts(name: str, setting: Setting) -> dict[str, Any]:
    """Return what was run, as the page tells it."""
    if name in WITHOUT_LOG:
        return {"mode": "quick"} if setting.quick else {}
    log = setting.log
    told: dict[str, Any] = {"jobs in the log": len(log), "processors": setting.procs or log.max_procs or "not told"}
    if setting.partition is not None:
        told["partition"] = setting.partition
    if setting.quick:
        told["mode"] = "quick"
    return told | {"SHA-256 of the log's values": log.digest()}
