"""What RUSH's gain depends on: how fast the machine changes, and where jobs are placed.

*How slowly*: the correlation time of the load from outside, as a multiple of a job's length. Where it is short, the
last five minutes do not predict the next; where it is long, nothing has changed when a job has been skipped ten times.
*Placement*: a job inside one leaf switch sends nothing through the uplinks but its I/O. *Source*: the load from
outside, or the noise job alone, as in a pod that is reserved as a whole. *Episodes*: how well control jobs are foreseen
where runs are slow for days. Control jobs, norms and model are made for every case; the model sees the counters of all
nodes. RUSH is compared with the oracle of the present, also with a hundred skips instead of ten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush import episodes
from experiments.papers.rush.control import MODEL, collect, judged, learn
from experiments.papers.rush.episodes import beside_none, foreseen_with, over_campaigns
from experiments.papers.rush.jobs import EXPERIMENTS, jobs_of
from experiments.papers.rush.measures import EASY, ORACLE, RUSH, means_over_seeds, with_z
from experiments.papers.rush.study import TRIAL_SEEDS
from experiments.papers.rush.trials import Environment, Inputs, Learnt, Oracle, contention_of, run_trial
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.errors import unknown_name
from schedsim.contention.applications import ALONE
from schedsim.contention.background import Background, Noise

QUESTION: Final = (
    "What does RUSH's gain depend on? How slowly the machine changes, how jobs are placed, who loads it; ADAA, all "
    "else alike. And what F1 means where runs are slow for days."
)

LENGTH: Final = float(np.mean(list(ALONE.values())))  # mean length of an undisturbed job [s]
RATIOS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
QUICK_RATIOS: Final = (0.5, 4.0)
PLACEMENTS: Final = ("scattered", "first-fit", "best-fit")
"""Contiguous is not among them: between the noise job's nodes, two in each leaf, never more than 15 lie in a row."""
QUICK_PLACEMENTS: Final = ("scattered", "best-fit")
SEEDS: Final = 8
QUICK_SEEDS: Final = 2
DAYS: Final = 30
QUICK_DAYS: Final = 16
PATIENT: Final = 100
POLICIES: Final = (RUSH, ORACLE, f"{ORACLE}, {PATIENT} skips")
PATIENT_RUSH: Final = f"{RUSH}, {PATIENT} skips"
SCOPE: Final = "all"
BOTH: Final = "load from outside, and the noise job"
SOURCES: Final[dict[str, Noise]] = {
    BOTH: Noise(),
    "the noise job alone": Noise(),
    "the noise job alone, four times as strong, for ten minutes": Noise(amplitude=5e10, period=600),
}
"""Sources of traffic in addition to the jobs: in the paper's experiment the noise job alone has a pod of its own."""
PARTS: Final = ("tau", "placement", "source", "episodes")  # parts of the study, as `--experiments` names them


@dataclass(frozen=True)
class Case:
    """A machine."""

    ratio: float = 2.0  # correlation time of the load from outside / length of a job
    placement: str = "scattered"  # see `schedsim.machine.allocators`
    source: str = BOTH  # what loads the machine in addition to the jobs, one of `SOURCES`

    @property
    def environment(self) -> Environment:
        """The machine as trials meet it."""
        if self.source != BOTH:
            return Environment(Background.none(), SOURCES[self.source], allocator=self.placement)
        tau = self.ratio * LENGTH
        return Environment(Background(tau=tau, step=min(60, max(10, 10 * int(tau / 20)))), allocator=self.placement)

    @property
    def policies(self) -> tuple[str, ...]:
        """What is tried in addition to FCFS+EASY."""
        return (*POLICIES, PATIENT_RUSH) if self.source != BOTH else POLICIES


@dataclass(frozen=True)
class Plan:
    """How much to do in each case."""

    seed: int
    seeds: int
    days: int


def run(setting: Setting) -> Report:
    """Try each case with eight paired seeds (quick: two) after 30 days of control jobs (quick: 16)."""
    quick = setting.quick
    slow = [Case(ratio=ratio) for ratio in (QUICK_RATIOS if quick else RATIOS)]
    placed = [Case(placement=name) for name in (QUICK_PLACEMENTS if quick else PLACEMENTS)]
    parts = parts_of(setting.experiments)
    slow, placed = slow if "tau" in parts else [], placed if "placement" in parts else []
    sources = [Case(source=name) for name in SOURCES] if "source" in parts else []
    cases = list(dict.fromkeys([*slow, *placed, *sources]))
    campaigns = episodes.QUICK_CAMPAIGNS if quick else episodes.CAMPAIGNS
    plan = Plan(setting.seed, QUICK_SEEDS if quick else SEEDS, QUICK_DAYS if quick else DAYS)
    found = dict(zip(cases, run_all(setting, "Trying cases", trials_of, plan, cases), strict=True))
    tables: dict[str, pd.DataFrame] = {}
    pictures: list[Picture] = []
    data = {"trials": pd.concat([found[case] for case in cases])} if cases else {}
    if slow:
        by_tau = summed(pd.concat([found[case] for case in slow]), "ratio")
        easy = by_tau["policy"] == EASY
        pictures += [Picture("dose_f1", by_tau[easy], paint_f1), Picture("dose_gain", by_tau[~easy], paint_gain)]
        tables["by correlation time / length"] = _shown(by_tau, "ratio")
    if placed:
        by_placement = summed(pd.concat([found[case] for case in placed]), "placement")
        pictures.append(Picture("placement", by_placement, paint_placement, width=8.0))
        tables["by placement"] = _shown(by_placement, "placement")
    if sources:
        tables["by source of load"] = _shown(summed(pd.concat([found[case] for case in sources]), "source"), "source")
    if "episodes" in parts:
        days = episodes.QUICK_DAYS if quick else episodes.DAYS
        tasks = [(case, setting.seed + k) for case in episodes.CASES for k in range(campaigns)]
        foreseen = pd.concat(run_all(setting, "Foreseeing control jobs", foreseen_with, days, tasks), ignore_index=True)
        data["campaigns"] = foreseen
        tables["F1 on control jobs, by episodes"] = over_campaigns(foreseen)
        tables["F1 with episodes less F1 without"] = beside_none(foreseen)
    drawn = max(plan.seeds if cases else 0, campaigns if "episodes" in parts else 0)
    seeds = tuple(range(plan.seed, plan.seed + drawn))
    return Report(log="contention world", seeds=seeds, tables=tables, data=data, pictures=tuple(pictures))


def parts_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return which parts of the study to do; no name: all."""
    for name in names:
        if name not in PARTS:
            raise unknown_name("part of rush-dose", name, PARTS)
    return tuple(names) or PARTS


def trials_of(plan: Plan, case: Case) -> pd.DataFrame:
    """Return one row a seed and policy of a case."""
    control = collect(case.environment, plan.seed, plan.days)
    f1 = judged(control, MODEL, plan.seed, (SCOPE,)).set_index("split")["f1"]
    model = learn(control.datasets[SCOPE], MODEL, plan.seed)
    norms, rows = control.norms["none"], []
    for seed in range(plan.seed, plan.seed + plan.seeds):
        jobs = jobs_of(EXPERIMENTS["ADAA"], seed)
        for policy in (EASY, *case.policies):
            contention = contention_of(jobs, case.environment, TRIAL_SEEDS + seed)
            oracle = Oracle(norms, jobs.apps, contention.work(jobs.workload))
            judge: Any = oracle if policy.startswith(ORACLE) else Learnt(model, Inputs(jobs.apps, SCOPE))
            options: dict[str, Any] = {"threshold": PATIENT} if "skips" in policy else {}
            trial = run_trial(jobs, contention, case.placement, None if policy == EASY else judge, **options)
            runs = with_z(trial.runs, norms)
            late = runs["submit"] > 0
            rows.append({
                "ratio": case.ratio, "placement": case.placement, "source": case.source, "seed": seed, "policy": policy,
                "f1": f1["chronological"], "f1_shuffled": f1["shuffled"], "varying": int(runs["varies"].sum()),
                "makespan_s": trial.makespan, "wait_s": float(runs["wait"][late].mean()),
                "spread": float((runs["run_time"] / runs.groupby("application")["run_time"].transform("min")).max()),
                "skips": trial.skips if policy != EASY else 0, "met": trial.met,
            })  # fmt: skip
    return pd.DataFrame(rows)


def summed(trials: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return means over seeds by case and policy, and what is gained on FCFS+EASY with intervals."""
    base = trials[trials["policy"] == EASY].set_index([column, "seed"])[["varying", "makespan_s"]]
    both = trials.join(base.add_suffix("_easy"), on=[column, "seed"])
    both["fewer_varying"] = both["varying_easy"] - both["varying"]
    both["makespan_saved_s"] = both["makespan_s_easy"] - both["makespan_s"]
    keys = [column, "policy"]
    names = ["f1", "f1_shuffled", "varying", "fewer_varying", "makespan_saved_s", "spread", "skips", "met"]
    means = both.groupby(keys, sort=False)[names].apply(lambda group: group.mean()).reset_index()
    gains = means_over_seeds(both, keys, "fewer_varying")
    saved = means_over_seeds(both, keys, "makespan_saved_s")
    ends = {"low": gains["low"], "high": gains["high"], "saved_low_s": saved["low"], "saved_high_s": saved["high"]}
    return means.assign(**ends)


def _shown(table: pd.DataFrame, column: str) -> pd.DataFrame:
    shown = ("f1", "varying", "fewer_varying", "low", "high", "makespan_saved_s", "spread", "skips", "met")
    return table[[column, "policy", *shown]].round(2)


def _ticks(axes: Axes, ratios: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(ratios), [f"{ratio:g}" for ratio in ratios])
    axes.minorticks_off()
    axes.set_xlabel("correlation time of the load from outside / length of a job")


def paint_f1(axes: Axes, table: pd.DataFrame) -> None:
    """F1 of the classifier on control jobs."""
    for number, (column, label) in enumerate((("f1", "the last 30 % judged"), ("f1_shuffled", "a fourth, by chance"))):
        axes.plot(table["ratio"], table[column], marker=MARKERS[number], color=COLOURS[number], label=label,
                  linestyle=("-", "--")[number])  # fmt: skip
    _ticks(axes, table["ratio"].tolist())
    axes.set_ylim(0, 1)
    axes.set(title="What the last five minutes tell: F1 of AdaBoost on control jobs", ylabel="F1 for variation")
    axes.legend()


def paint_gain(axes: Axes, table: pd.DataFrame) -> None:
    """Fewer runs that vary than under FCFS+EASY."""
    ratios = sorted(table["ratio"].unique())
    for number, policy in enumerate(POLICIES):
        own = table[table["policy"] == policy]
        at = own["ratio"] * 2 ** (0.1 * (number - 1.5))
        gain = own["fewer_varying"]
        axes.errorbar(at, gain, yerr=np.abs(np.stack([gain - own["low"], own["high"] - gain])), marker=MARKERS[number],
                      color=COLOURS[number], linestyle=("-", "--", ":", "-.")[number], capsize=2, elinewidth=0.8,
                      label=policy)  # fmt: skip
    axes.axhline(0, color="black", linewidth=0.8)
    _ticks(axes, ratios)
    axes.set(title="What RUSH gains on FCFS+EASY by how slowly the machine changes, ADAA",
             ylabel="fewer runs that vary a trial,\nmean and 95 % interval")  # fmt: skip
    axes.legend(fontsize=8)


def paint_placement(axes: Axes, table: pd.DataFrame) -> None:
    """Runs that vary, by placement and policy."""
    names = list(dict.fromkeys(table["placement"]))
    policies = (EASY, *POLICIES[:2])
    for number, policy in enumerate(policies):
        own = table[table["policy"] == policy].set_index("placement").reindex(names)
        at = np.arange(len(names)) + 0.27 * (number - 1)
        axes.bar(at, own["varying"], 0.25, color=COLOURS[number], hatch=("//", "", "..")[number], edgecolor="white",
                 label=policy)  # fmt: skip
        for x, height, spread in zip(at, own["varying"], own["spread"], strict=True):
            axes.text(x, height, f"{spread:.1f}×", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(np.arange(len(names)), names)
    axes.set(title="Runs that vary by placement, ADAA; above: longest run / shortest of its application",
             xlabel="placement", ylabel="runs with z > 1.5 a trial, mean")  # fmt: skip
    axes.title.set_fontsize(10)
    axes.legend()
