"""Experiments by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final

from experiments.reports.page import write_report
from experiments.reports.report import Report
from experiments.runs.checkpoints import with_checkpoints
from experiments.runs.clusters import Pool
from experiments.runs.setting import WITHOUT_LOG, Setting
from predictors.core.errors import JobcastError, unknown_name

EXPERIMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # learning run times: V. Reis's Table 2 and Figures 1 to 4
        "reis": "experiments.papers.reis.study",
        # every predictor: errors, where they fall, costs, what they buy
        "runtime": "experiments.studies.runtime",
        # what predictions gain in backfilling, and who pays
        "backfilling": "experiments.studies.backfilling",
        # what they do when users game them, load grows, or nothing is known yet
        "stress": "experiments.studies.stress",
        # can the start of a waiting job be forecast?
        "start-times": "experiments.studies.start_times",
        # soft limits on a small cluster, as a real Slurm can run it
        "live": "experiments.studies.closed_loop",
        # what a log tells: Allcock et al.'s observations, Li et al.'s section 3
        "logstudy": "experiments.papers.logstudy.study",
        # delaying jobs that would vary: Nichols et al., Table II, Figures 1 and 4 to 11
        "rush": "experiments.papers.rush.study",
        # what that depends on: how slowly the machine changes, and placement
        "rush-dose": "experiments.papers.rush.dose",
        # do slow runs come together, and can they be foreseen without counters?
        "repeated-runs": "experiments.studies.repeated_runs",
        # a ceiling on utilisation, postponable jobs: Li et al., Table 6, Figures 4 and 5
        "ceil": "experiments.papers.ceil.study",
        # a score, and a queue kept to a third: Allcock et al., Table 2, section 4.3
        "cobalt": "experiments.papers.cobalt.study",
        # agents that learn to schedule: Fan et al., Tables I to IV, Figures 2 to 9
        "dras": "experiments.papers.dras.study",
    }
)
"""Experiments by name: the module with the `run(setting)` that makes the report."""


MANY: Final = ("backfilling", "stress", "runtime", "rush", "rush-dose", "ceil", "cobalt", "dras")
"""Experiments of many independent runs: several workers can do them, and started again they go on where they were."""

OWN_LOGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ceil": "experiments.papers.ceil.cases",
        "cobalt": "experiments.papers.cobalt.cases",
        "dras": "experiments.papers.dras.job_sets",
    }
)
"""Experiments that need another log than the usual synthetic one if none is given: modules with `default_log(seed)`."""


_SIMULATING: Final = ("runtime", "backfilling", "stress", "start-times", "logstudy", "ceil", "cobalt", "dras")
USED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "partition": ("reis", *_SIMULATING),
        "procs": _SIMULATING,
        "machine": ("backfilling",),
        "requests_from": ("reis", *_SIMULATING),
        "predictors": ("runtime", "rush"),
        "failures": ("logstudy",),
        "train": ("dras",),
        "test": ("dras",),
        "seeds": ("stress", "dras"),
        "orders": ("dras",),
        "job_sets": ("dras",),
        "scale": ("dras",),
        "runs": ("repeated-runs",),
        "experiments": ("rush", "rush-dose"),
        "ask_seconds": ("rush",),
        "probe_seconds": ("rush",),
        "counter_lag": ("rush",),
        "thresholds": ("rush",),
    }
)
"""Options of `jobcast experiment` that not every experiment has a use for, and which have."""


def check_options(name: str, given: Mapping[str, object]) -> None:
    """Refuse options that an experiment would ignore.

    Examples
    --------
    >>> check_options("reis", {"partition": 1, "procs": None})
    >>> check_options("reis", {"procs": 64})
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: reis has no use for --procs, which is for runtime, backfilling, ...
    """
    for option, value in given.items():
        if value not in (None, "", ()) and name not in USED_BY[option]:
            raise JobcastError(
                f"{name} has no use for --{option.replace('_', '-')}, which is for {', '.join(USED_BY[option])}."
            )


def experiment_by_name(name: str) -> "Callable[[Setting], Report]":
    """Return an experiment by its name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    run: Callable[[Setting], Report] = import_module(EXPERIMENTS[name]).run
    return run


def perform(name: str, setting: Setting) -> Report:
    """Run an experiment by its name, and leave in its folder the page to read and what that is made from."""
    run = experiment_by_name(name)
    if name in MANY:
        with with_checkpoints(name, setting) as kept:
            return _written(name, kept, run)
    check_shared(name, setting.pool)
    return _written(name, setting, run)


def check_shared(name: str, pool: Pool) -> None:
    """Raise JobcastError if an experiment cannot be done by this pool of workers."""
    if not pool.alone and name not in MANY:
        raise JobcastError(
            f"{name} is one long run, which several workers cannot share; leave --workers and its like out. "
            f"They share {', '.join(MANY)}."
        )


def _written(name: str, setting: Setting, run: "Callable[[Setting], Report]") -> Report:
    begin = perf_counter()
    report = run(setting)
    seconds = perf_counter() - begin
    question: str = import_module(EXPERIMENTS[name]).QUESTION
    facts = dict(report.facts or _facts(name, setting))
    if setting.requests_from is not None:
        facts["requested times made from"] = setting.requests_from
    report = replace(report, experiment=name, seconds=seconds, question=report.question or question, facts=facts)
    write_report(setting.folder, report)
    return report


def _facts(name: str, setting: Setting) -> dict[str, Any]:
    if name in WITHOUT_LOG:
        return {"mode": "quick"} if setting.quick else {}
    log = setting.log
    facts: dict[str, Any] = {"jobs in the log": len(log), "processors": setting.procs or log.max_procs or "unknown"}
    if setting.machine is not None:
        facts |= {"processors": setting.machine.procs, "nodes": setting.machine.words}
    if setting.partition is not None:
        facts["partition"] = setting.partition
    if setting.quick:
        facts["mode"] = "quick"
    return facts | {"SHA-256 of the log's values": log.digest()}
