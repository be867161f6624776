"""Tables I to IV and Figures 2 to 9 of DRAS, and a verdict on each of the paper's claims.

After Fan et al. [1]_: agents are trained on three kinds of job sets made of a log's first months, chosen by the next
month, and tested on the others, and compared with the paper's baselines, random picks in the same frame, and good
rules. Every seed draws other job sets and another network, and shakes the months; all methods of a seed see the same
months. The machine is scaled to a tenth of Theta's nodes. Medians over the seeds; intervals are order statistics that
hold the median with at least 95 % confidence.

References
----------
.. [1] Fan, Li, Singh, Taylor, Allcock, Lan. Deep reinforcement agent for scheduling in HPC. IPDPS 2021.
   doi:10.1109/IPDPS49936.2021.00090
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pandas as pd

from experiments.papers.dras.cases import (
    AGAIN,
    BINPACKING,
    DECIMA,
    DQL,
    FCFS,
    FROZEN,
    KEPT,
    OLDEST,
    OPTIMIZATION,
    PAPER,
    PG,
    RANDOM,
    WINDOW,
)
from experiments.papers.dras.checks import controls, copied, look_ahead, openness, train_and_test, upper_bounds
from experiments.papers.dras.claims import claims, learnt
from experiments.papers.dras.figures import (
    by_week,
    curves_of,
    kiviat,
    logged_waits,
    modes_of,
    paint_curves,
    paint_kiviat,
    paint_modes,
    paint_rings,
    paint_scatter,
    paint_weeks,
    patterns_of,
    patterns_painted,
    sizes_of,
)
from experiments.papers.dras.job_sets import HOUR, ORDERS, Parts, split
from experiments.papers.dras.linear import linear_runs, linear_tasks, tunable
from experiments.papers.dras.runs import (
    CURVE,
    FULL,
    JOBS,
    QUICK,
    RUN,
    SIZES,
    VALIDATION,
    WEEKS,
    WHOLE,
    Plan,
    Work,
    table_of,
    untrained_runs,
)
from experiments.papers.dras.tables import tables_of
from experiments.papers.dras.training import tasks_of, trained_runs, training_of
from experiments.reports.figures import draw, write_table
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport

QUESTION: Final = (
    "Does deep reinforcement learning schedule better than a good rule, and than random picks in its frame?"
)

TRAIN: Final = "2mo"
TEST: Final = "rest"
PAPERS_JOB_SETS: Final = 100
FRAME: Final = (KEPT, OLDEST, AGAIN)


def run(setting: Setting) -> Report:
    """Run all methods and trainings by seed, ten (quick: three, fewer job sets), and make tables and figures."""
    plan, train = plan_of(setting), setting.train or TRAIN
    log, account = clean(setting.jobs(), setting.procs, drop_wide=True)
    parts = split(log, train, setting.test or TEST, plan.nodes)
    seeds = tuple(range(setting.seed + 1, setting.seed + 1 + plan.seeds))
    folder = None if setting.checkpoints is None or not plan.agents else setting.checkpoints / "agents"
    work = Work(parts, plan, seeds[0], folder)
    rules = run_all(setting, "Rules by seed", untrained_runs, work, seeds)
    agents = run_all(setting, "Training agents", trained_runs, work, tasks_of(work))
    linear = run_all(setting, "Tuning linear agents", linear_runs, work, linear_tasks(work))
    everything = pd.concat([*rules, *agents, *linear], ignore_index=True)
    runs, curve = table_of(everything, RUN), table_of(everything, CURVE)
    training = training_of(everything)
    tables = dict(tables_of(runs, training, log, parts, train, plan, WINDOW))
    tables["Agents and controls, compared with random picks in the same frame"] = controls(runs)
    tables["Look-ahead, compared with random picks made again at each pass"] = look_ahead(runs)
    tables["Agents that see true run times, compared with those that do not"] = upper_bounds(runs)
    tables["On the months learnt from and on those to test, compared with random picks"] = train_and_test(runs)
    tables["Agents that learnt from the very jobs of the test"] = copied(runs)
    tables["Entropy of agents' picks on the validation month"] = openness(curve)
    found = list(claims(runs, curve))
    tables["The paper's claims"] = pd.DataFrame(
        {"claim": claim.text, "verdict": claim.found, "evidence": claim.evidence} for claim in found
    )
    written = [write_table(runs, setting.folder / f"runs_{log.name}.csv")]
    if len(curve):
        written.append(write_table(curve, setting.folder / "curves.csv"))
    written += [*_pictures_of_log(setting.folder, parts), *_pictures(setting.folder, everything, runs, curve, parts)]
    _, first = learnt(runs)
    return Report(
        log=log.name,
        seeds=seeds,
        tables=tables,
        figures=tuple(map(Path, written)),
        notes=tuple(_notes(plan, parts, log)),
        verdict=(first, *_counted([claim.found for claim in found])),
        details=tuple(claim.sentence for claim in found),
        facts={"jobs": parts.used, "nodes of the scaled machine": int(parts.train.max_procs or 0),
               "job sets": plan.counts.total, "orders of job sets": plan.orders, "mode": _mode(setting)},
        account=_account(account, len(log), parts, log.name),
    )  # fmt: skip


def plan_of(setting: Setting) -> Plan:
    """Return how much is done, as the options say."""
    if setting.scale not in ("", "tenth", "full"):
        raise unknown_name("scale", setting.scale, ("tenth", "full"))
    if setting.scale and setting.quick:
        raise JobcastError("--quick has a hundredth of the machine; leave --quick or --scale out.")
    plan = QUICK if setting.quick else WHOLE if setting.scale == "full" else FULL
    seeds = plan.seeds if setting.seeds is None else setting.seeds
    orders = plan.orders if setting.orders is None else setting.orders
    if seeds < 1:
        raise JobcastError(f"dras needs 1 seed or more; got --seeds {seeds}.")
    if not 1 <= orders <= len(ORDERS):
        raise JobcastError(f"Job sets have 1 to {len(ORDERS)} orders; got --orders {orders}.")
    counts = plan.counts if setting.job_sets is None else plan.counts.of_total(setting.job_sets)
    return replace(plan, counts=counts, seeds=seeds, orders=orders, control_seeds=min(seeds, plan.control_seeds))


def _mode(setting: Setting) -> str:
    return "quick" if setting.quick else "full machine" if setting.scale == "full" else "full"


def _account(account: ReadingReport, cleaned: int, parts: Parts, name: str) -> ReadingReport:
    """Return what became of the log's jobs: those after the months to test are left out."""
    later = cleaned - parts.used
    text = "submitted after the months to test"
    findings = (Finding("other-months", "dropped", text, later, place="job"),) if later else ()
    return (account + ReadingReport(name, findings)).using(parts.used)


def _pictures_of_log(folder: Path, parts: Parts) -> Iterator[Path]:
    """Draw Figures 2 and 3: the training months."""
    yield from draw(folder, "figure2", sizes_of(parts.train), paint_rings, width=6.4, height=4.6)
    painted = patterns_painted()
    for name, table in patterns_of(parts.train).items():
        yield from draw(folder, name, table, painted[name], width=6.0, height=3.4)


def _pictures(
    folder: Path, everything: pd.DataFrame, runs: pd.DataFrame, curve: pd.DataFrame, parts: Parts
) -> Iterator[Path]:
    """Draw Figures 4 to 9."""
    rows = runs[runs["part"] == VALIDATION].groupby("case")[["capability_reward", "mean_wait_s"]].mean()
    beside = rows.loc[[case for case in (FCFS, OPTIMIZATION, KEPT, OLDEST) if case in rows.index]]
    if len(curve):
        orders = [case for case in curve["case"].unique() if case == PG or case.startswith(f"{PG}, ")]
        few = curve[curve["case"].isin(orders)]
        yield from draw(folder, "figure4", curves_of(few, "reward_a_start"),
                        paint_curves("reward (1) a start", "Figure 4: DRAS-PG by order of job sets, validation month"),
                        width=9.0)  # fmt: skip
        main = curve[curve["case"].isin((PG, DQL, DECIMA))]
        yield from draw(folder, "figure5", curves_of(main, "reward_a_start"),
                        paint_curves("reward (1) a start", "Figure 5: reward on the validation month",
                                     _named(beside["capability_reward"])), width=9.0)  # fmt: skip
        waits = curves_of(main.assign(wait_h=main["mean_wait_s"] / HOUR), "wait_h")
        yield from draw(folder, "figure5_wait", waits,
                        paint_curves("mean wait [h]", "Next to Figure 5: mean wait on the validation month",
                                     _named(beside["mean_wait_s"] / HOUR)), width=9.0)  # fmt: skip
    shown = (*PAPER, KEPT, OLDEST)
    yield from draw(folder, "figure6", kiviat(runs, shown), paint_kiviat, width=10.4, height=5.2)
    jobs = table_of(everything, JOBS)
    if len(logged := logged_waits(parts)):
        jobs = pd.concat([jobs, logged.assign(case="trace")], ignore_index=True)
    names = ("trace", *shown)
    jobs = jobs[jobs["case"].isin(names)][["case", "nodes", "wait_h", "mode"]]
    yield from draw(folder, "figure7", jobs, paint_scatter(names), width=9.5, height=8.4)
    sizes = table_of(everything, SIZES)
    yield write_table(sizes[sizes["case"].isin(names)], folder / "figure7_by_size.csv")
    yield from draw(folder, "figure8", modes_of(runs, (FCFS, *FRAME[:2], PG, DQL)), paint_modes, width=8.6)
    weeks = by_week(table_of(everything, WEEKS), (FCFS, RANDOM, KEPT, PG, PG + FROZEN, DQL, DQL + FROZEN))
    yield from draw(folder, "figure9", weeks, paint_weeks, width=10.0, height=5.4)


def _named(column: "pd.Series[float]") -> dict[str, float]:
    return {str(name): float(value) for name, value in column.items()}


def _counted(found: list[str]) -> Iterator[str]:
    """Yield how many of the paper's claims hold."""
    if found:
        told = ", ".join(f"{found.count(kind)} {kind}" for kind in ("holds", "does not hold", "open"))
        yield f"Of {len(found)} tests of the paper's claims: {told}."


def _notes(plan: Plan, parts: Parts, log: JobLog) -> Iterator[str]:
    nodes = int(parts.train.max_procs or 0)
    if log.max_procs != nodes:
        yield f"The machine of {log.max_procs:,} nodes is scaled to {nodes}: jobs keep their share, at least one node."
    yield (
        f"Agents learn from {plan.counts.sampled} sampled, {plan.counts.real} real and {plan.counts.synthetic} "
        f"synthetic job sets; the state with most reward on the validation month is tested. Rewards are measured at "
        f"every start of a job, so that more selections do not earn more."
    )
    if plan.counts.total < PAPERS_JOB_SETS:
        yield (
            f"The paper trains on {PAPERS_JOB_SETS} job sets: a claim about agents that does not hold after "
            f"{plan.counts.total} is not refuted."
        )
    if not tunable():
        yield "The linear agent is left out: tuning needs the package cma; pip install 'jobcast[rl]'."
    yield (
        "cqsim estimates let waiting jobs be tested by their true run times, as the simulator CQSim does: results by "
        f"them look ahead. {BINPACKING}, {RANDOM}, {OPTIMIZATION} and {DECIMA} have no reservation."
    )
