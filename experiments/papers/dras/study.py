"""Tables I to IV and Figures 2 to 9 of DRAS, and a verdict on each of the paper's claims.

After Fan et al. (IPDPS 2021): agents are trained on three kinds of job sets made of a log's first months, chosen by the
next month, and tested on the others, and compared with the paper's baselines, random picks in the same frame, and good
rules. Every seed draws other job sets and another network, and shakes the months; all methods of a seed see the same
months. The machine is scaled to a tenth of Theta's nodes. Medians over the seeds; intervals are order statistics that
hold the median with at least 95 % confidence.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pandas as pd

from experiments.papers.dras.cases import BINPACKING, DECIMA, OPTIMIZATION, PARTS, RANDOM, SHORT, WINDOW
from experiments.papers.dras.checks import controls, copied, learnt, look_ahead, openness, train_and_test, upper_bounds
from experiments.papers.dras.claims import claims
from experiments.papers.dras.figures import SHOWN, TRACE, pictures
from experiments.papers.dras.job_sets import ORDERS, Parts, split
from experiments.papers.dras.runs import CURVE, FULL, QUICK, RUN, SIZES, WHOLE, Plan, Work, table_of, untrained_runs
from experiments.papers.dras.tables import tables_of
from experiments.papers.dras.training import linear_runs, linear_tasks, tasks_of, trained_runs, training_of, tunable
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


def run(setting: Setting) -> Report:
    """Run all methods and trainings by seed, ten (quick: three, fewer job sets), and make tables and figures."""
    plan, train = plan_of(setting), setting.train or TRAIN
    log, account = clean(setting.jobs(), setting.procs, drop_wide=True)
    parts = split(log, train, setting.test or TEST, plan.nodes)
    seeds = tuple(range(setting.seed + 1, setting.seed + 1 + plan.seeds))
    folder = setting.checkpoints / "agents" if setting.checkpoints is not None and setting.scale == "full" else None
    work = Work(parts, plan, seeds[0], folder)
    rules = run_all(setting, "Rules by seed", untrained_runs, work, seeds)
    agents = run_all(setting, "Training agents", trained_runs, work, tasks_of(work))
    linear = run_all(setting, "Tuning linear agents", linear_runs, work, linear_tasks(work))
    everything = pd.concat([*rules, *agents, *linear], ignore_index=True)
    runs, curve = table_of(everything, RUN), table_of(everything, CURVE)
    training = training_of(everything)
    tables = dict(tables_of(runs, training, log, parts, train, plan, WINDOW))
    tables["Agents and controls, compared with random picks in the same frame"] = compared = controls(runs)
    tables["Look-ahead, compared with random picks made again at each pass"] = look_ahead(runs)
    tables["Agents that see true run times, compared with those that do not"] = upper_bounds(runs)
    tables["On the months learnt from and on those to test, compared with random picks"] = train_and_test(runs)
    tables["Agents that learnt from the very jobs of the test"] = copied(runs)
    tables["Entropy of agents' picks on the validation month"] = openness(curve)
    found = list(claims(runs, curve))
    tables["The paper's claims"] = pd.DataFrame(
        {"claim": claim.text, "verdict": claim.found, "evidence": claim.evidence} for claim in found
    )
    sizes = table_of(everything, SIZES)
    return Report(
        log=log.name,
        seeds=seeds,
        tables=tables,
        data={f"runs_{log.name}": runs, **({"curves": curve} if len(curve) else {}),
              "figure7_by_size": sizes[sizes["case"].isin((TRACE, *SHOWN))]},
        pictures=tuple(pictures(everything, curve, parts)),
        notes=tuple(_notes(plan, parts, log)),
        verdict=(*learnt(compared), *_counted([claim.found for claim in found])),
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
    for part in setting.experiments:
        if part not in PARTS:
            raise unknown_name("part of dras", part, PARTS)
    if setting.experiments:
        agents = tuple(dict.fromkeys(name for part in setting.experiments for name in PARTS[part]))
        plan, orders = replace(plan, agents=agents), orders if "paper" in setting.experiments else 1
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


def _counted(found: list[str]) -> Iterator[str]:
    if found:
        told = ", ".join(f"{found.count(kind)} {kind}" for kind in ("holds", "does not hold", "open"))
        yield f"Of {len(found)} tests of the paper's claims: {told}."


def _notes(plan: Plan, parts: Parts, log: JobLog) -> Iterator[str]:
    nodes = int(parts.train.max_procs or 0)
    if log.max_procs != nodes:
        yield f"The machine of {log.max_procs:,} nodes is scaled to {nodes}: jobs keep their share, at least one node."
    yield (
        f"Agents learn from {plan.counts.sampled} sampled, {plan.counts.real} real and {plan.counts.synthetic} "
        f"synthetic job sets; the state with most reward on the validation month is tested, of {SHORT} that with least "
        "wait. Rewards are measured at every start of a job, so that more selections do not earn more. Intervals are "
        "over seeds, which all shake the same months."
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
