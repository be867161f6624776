"""Experiments by name."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final

from experiments.reports.page import write_report
from experiments.reports.report import Report
from experiments.runs.checkpoints import with_checkpoints
from experiments.runs.setting import WITHOUT_LOG, Setting
from predictors.core.errors import unknown_name

EXPERIMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reis": "experiments.papers.reis.study",
        "runtime": "experiments.studies.runtime",
        "backfilling": "experiments.studies.backfilling",
        "stress": "experiments.studies.stress",
        "start-times": "experiments.studies.start_times",
        "live": "experiments.studies.closed_loop",
        "logstudy": "experiments.papers.logstudy.study",
        "rush": "experiments.papers.rush.study",
        "rush-dose": "experiments.papers.rush.dose",
        "repeated-runs": "experiments.studies.repeated_runs",
        "ceil": "experiments.papers.ceil.study",
        "cobalt": "experiments.papers.cobalt.study",
        "dras": "experiments.papers.dras.study",
    }
)
"""Experiments by name: the module with the `run(setting)` that makes the report."""


MANY: Final = ("reis", "runtime", "backfilling", "stress", "live", "rush", "rush-dose", "ceil", "cobalt", "dras")
"""Experiments of many independent runs: several workers can do them, and started again they go on where they were."""

NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # packages of extras that experiments import late
    {
        **dict.fromkeys(("reis", "runtime", "rush", "rush-dose", "repeated-runs"), ("sklearn", "xgboost")),
        "dras": ("cma",),
    }
)

OWN_LOGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ceil": "experiments.papers.ceil.cases",
        "cobalt": "experiments.papers.cobalt.cases",
        "dras": "experiments.papers.dras.job_sets",
    }
)
"""Experiments that need another log than the usual synthetic one if none is given: modules with `default_log(seed)`."""


def experiment_by_name(name: str) -> "Callable[[Setting], Report]":
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    run: Callable[[Setting], Report] = import_module(EXPERIMENTS[name]).run
    return run


def perform(name: str, setting: Setting) -> Report:
    """Run an experiment by its name, and leave in its folder the page to read and what that is made from."""
    run = experiment_by_name(name)
    with with_checkpoints(name, setting) if name in MANY else nullcontext(setting) as kept:
        begin = perf_counter()
        report = run(kept)
        question: str = import_module(EXPERIMENTS[name]).QUESTION
        facts = dict(report.facts or _facts(name, setting))
        if setting.requests_from is not None:
            facts["requested times made from"] = setting.requests_from
        report = replace(report, experiment=name, question=report.question or question, facts=facts)
        return write_report(setting.folder, report, begin)


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
