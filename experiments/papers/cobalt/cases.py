"""Cases of the study of Cobalt: policies, queues, logs; one simulation of each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.runs.simulate import estimates_by_name
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.synthetic.capability import OF_SPENT, mira_like_log
from schedsim.engine.simulation import simulate
from schedsim.machine.allocators import Allocator
from schedsim.machine.partitions import Hierarchy, Partitions
from schedsim.policies.policy import make_policy
from schedsim.results.metrics import figures
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import by_queue, capability_share, delivered
from schedsim.results.timelines import in_use
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.files import rules_of_log
from schedsim.sites.cobalt.rules import Rules, within_shares
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

HOUR: Final = 3600
SYNTHETIC: Final = "mira-like-"
PLACED_SEEDS: Final = 5
JOBS: Final = 2_500  # of the log of those who give none: about twelve days
POLICIES: Final = {"FCFS": "easy", "WFP": "wfp3-easy", "Cobalt": "cobalt"}  # what tables call a policy, and its name
RESTRICTED: Final = {"a third": True, "all": False}  # how much of the machine prod-long's jobs may use
ESTIMATES: Final = ("requested", "careful")
COUNTED: Final = "counted"
PARTITIONS: Final = "in partitions"


@dataclass(frozen=True)
class Case:
    """A policy, whether prod-long is kept to a third, and what the backfilling believes."""

    policy: str
    restricted: str
    estimates: str
    nodes: str = COUNTED


CASES: Final = tuple(Case(p, r, e) for e in ESTIMATES for r in RESTRICTED for p in POLICIES)
PLACED: Final = tuple(Case(p, r, "requested", PARTITIONS) for r in RESTRICTED for p in ("FCFS", "Cobalt"))
"""On Mira's partitions, where it matters which nodes a small job has; a hundred times slower, so on fewer jobs."""


def default_log(seed: int) -> tuple[JobLog, ReadingReport]:
    """Return the log of those who give none: Mira's mix of queues."""
    return mira_like_log(JOBS, seed=seed), ReadingReport("synthetic log like Mira's")


def log_of(given: JobLog, seed: int, quick: bool) -> JobLog:
    """Return the jobs of a seed: another synthetic log, or the log given, shaken."""
    if given.name.startswith(SYNTHETIC):
        return clean(mira_like_log(JOBS // 4 if quick else JOBS, seed=seed))[0]
    return shaken(given, seed)


def rules_of(log: JobLog) -> tuple[Rules, JobLog, ReadingReport]:
    """Return Mira's rules for a log, and in the synthetic one the projects that have spent their allocations."""
    rules, left, account = rules_of_log(log, "mira")
    if not log.name.startswith(SYNTHETIC):
        return rules, left, account
    groups = np.unique(left.values["group"][left.values["group"] > OF_SPENT]).tolist()
    number = {group: i for i, group in enumerate(groups)}
    projects = tuple(Project(f"spent {group}", "incite", granted=1.0, spent=2.0) for group in groups)
    jobs = zip(left.values["job_id"].tolist(), left.values["group"].tolist(), strict=True)
    accounts = Accounts(projects, {job: number[group] for job, group in jobs if group in number})
    return replace(rules, accounts=accounts), left, account


def run_case(log: JobLog, workload: Workload, rules: Rules, case: Case) -> Schedule:
    if not RESTRICTED[case.restricted]:
        rules = replace(rules, router=rules.router.without_shares())
    allocator: Allocator | None = None
    if case.nodes == PARTITIONS:
        allocator = within_shares(Partitions(Hierarchy.mira()), rules, workload)
    estimated = estimates_by_name(case.estimates, log, workload)
    return simulate(workload, make_policy(POLICIES[case.policy]), estimated, allocator=allocator, rules=rules)


def figures_of(schedule: Schedule, rules: Rules) -> dict[str, Any]:
    """Return a schedule's figures: of the time until the last submission where all would be equal in the end."""
    workload, last = schedule.workload, int(schedule.workload.submit[-1])
    done = delivered(schedule, last)
    capacity = workload.machine_procs * last / HOUR
    wide, long = rules.routes(workload) == 0, rules.routes(workload) == 2
    widest = workload.procs >= 2 * workload.machine_procs // 3
    row = {
        "utilisation": float(done.sum() / capacity),
        "capability_share": capability_share(schedule, last),
        "capability_hours": float(done[wide].sum() / capacity),
        "bounded_slowdown": figures(schedule)["mean_bounded_slowdown"],
        "wait_widest_h": float(schedule.wait[widest].mean() / HOUR) if widest.any() else float("nan"),
        "longest_wait_h": float(schedule.wait.max() / HOUR),
        "long_above_a_third": _time_above(schedule, long, workload.machine_procs // 3, last),
    }
    queues = by_queue(schedule, rules)
    return row | {f"wait_{name}_h": table["mean_wait_s"] / HOUR for name, table in queues.items()}


def _time_above(schedule: Schedule, mine: Any, limit: int, until: int) -> float:
    """Return the part of the time in which these jobs use more than so many processors."""
    if not mine.any():
        return 0.0
    time, used = in_use(schedule.start[mine], schedule.end[mine], schedule.workload.procs[mine])
    edges = np.append(np.minimum(time, until), until)
    return float((np.diff(edges) * (used > limit)).sum() / until)


def runs_of(shared: tuple[JobLog, bool, int], seed: int) -> pd.DataFrame:
    """Return a row for each case of a seed."""
    return pd.DataFrame(_runs(*shared, seed))


def _runs(given: JobLog, quick: bool, first: int, seed: int) -> Iterator[dict[str, Any]]:
    parts = [(log_of(given, seed, quick), CASES)]
    if given.name.startswith(SYNTHETIC) and seed <= first + PLACED_SEEDS:
        parts.append((clean(mira_like_log(JOBS // 20 if quick else JOBS // 4, seed=seed))[0], PLACED))
    for log, cases in parts:
        rules, left, _ = rules_of(log)
        workload = Workload.from_log(left)
        for case in cases:
            schedule = run_case(left, workload, rules, case)
            yield {
                "seed": seed, "nodes": case.nodes, "estimates": case.estimates, "prod_long": case.restricted,
                "policy": case.policy, **figures_of(schedule, rules),
            }  # fmt: skip
