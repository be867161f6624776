"""What RUSH's gain depends on: how fast the machine changes, and where jobs are placed; and what an F1 of 0.95 means.

*How slowly*: the correlation time of the load from outside, as a multiple of a job's length. Where it is short, the
last five minutes do not predict the next; where it is long, nothing has changed when a job has been skipped ten times.
*Placement*: a job inside one leaf switch sends nothing through the uplinks but its I/O. *Source*: the load from
outside, or the noise job alone, as in a pod that is reserved as a whole. Control jobs, norms and model are made for
every case; the model sees the counters of all nodes. RUSH is compared with the oracle of the present, also with a
hundred skips instead of ten.

*Episodes*: how well control jobs are foreseen with and without episodes of days. The paper's Figure 1 has a spike in
December in all applications. Where runs are slow for days, a model that knows the days foresees them, though nothing
can be gained by delaying a job for minutes. Each case is the same campaign on the same machine, with other slow
changes: none; shared episodes, which load all uplinks and the file system; episodes and drift of single applications,
which no counter shows. A campaign is one draw: each case has several, and the seeds are the same in all cases, so that
cases are compared campaign by campaign.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.jobs import EXPERIMENTS, jobs_of
from experiments.papers.rush.measures import EASY, ORACLE, RUSH, sign_flip_p, with_ends, with_z
from experiments.papers.rush.study import TRIAL_SEEDS
from experiments.papers.rush.trials import (
    MODEL,
    TAU,
    Environment,
    Inputs,
    Learnt,
    Oracle,
    collect,
    contention_of,
    judged,
    learn,
    run_trial,
)
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.arrays import Bools, Floats
from predictors.core.errors import unknown_name
from predictors.core.intervals import drawn_means, expanded
from predictors.variability.classifiers.registry import seeded
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.selection.compare import answer
from predictors.variability.selection.scores import scores
from predictors.variability.splits import Fold, chronological, leave_one_application_out
from schedsim.contention.applications import ALONE
from schedsim.contention.background import Background, Noise
from schedsim.contention.episodes import Episodes

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
SOURCES: Final[dict[str, Noise]] = {  # of traffic beyond the jobs; the paper's noise job has its own pod
    BOTH: Noise(),
    "the noise job alone": Noise(),
    "the noise job alone, four times as strong, for ten minutes": Noise(amplitude=5e10, period=600),
}
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
    campaigns = QUICK_CAMPAIGNS if quick else CAMPAIGNS
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
        days = QUICK_CAMPAIGN_DAYS if quick else CAMPAIGN_DAYS
        tasks = [(case, setting.seed + k) for case in EPISODES for k in range(campaigns)]
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
    gains = with_ends(both, keys, "fewer_varying", "seed")
    saved = with_ends(both, keys, "makespan_saved_s", "seed")
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


CAMPAIGN_DAYS: Final = 150
QUICK_CAMPAIGN_DAYS: Final = 16
CAMPAIGNS: Final = 6
QUICK_CAMPAIGNS: Final = 2
_DAY: Final = 86_400
_TEN: Final = 10  # days

EPISODES: Final[Mapping[str, Environment]] = MappingProxyType(
    {
        "none": Environment(),
        "shared, of about four days": Environment(Background.two_scales(tau=TAU)),
        "of single applications": Environment(episodes=Episodes(drift=0.0)),
        "drift of single applications": Environment(episodes=Episodes(every=0.0)),
        "all of them": Environment(Background.two_scales(tau=TAU), episodes=Episodes()),
    }
)
"""Machines by their slow changes; the load from outside changes within ten minutes in all."""


WITHOUT: Final = "none"  # the case that the others are set against
MEASURED: Final = (
    "base_rate", "f1_application_left_out", "pr_auc_application_left_out", "f1_last_30", "varying_on_ten_days",
)  # fmt: skip
COMPARED: Final = ("f1_application_left_out", "f1_last_30")  # figures reported as differences from no episodes


def foreseen_with(days: int, task: tuple[str, int]) -> pd.DataFrame:
    """Return one row: how well AdaBoost foresees the control jobs of a case and a seed, by kind of split."""
    case, seed = task
    control = collect(EPISODES[case], seed, days)
    dataset = control.datasets[SCOPE]
    row: dict[str, object] = {"episodes": case, "seed": seed, "control_jobs": len(dataset)}
    left_out = [_scored(dataset, fold, seed) for fold in leave_one_application_out(dataset.runs) if fold.teaches]
    last, *_ = chronological(dataset.runs)
    labels = dataset.labels()
    varies = labels.classes == 1
    row |= {
        "base_rate": float(varies[labels.known].mean()),
        "f1_application_left_out": float(np.nanmean([f1 for f1, _ in left_out])),
        "pr_auc_application_left_out": float(np.nanmean([area for _, area in left_out])),
        "f1_last_30": _scored(dataset, last, seed)[0],
        "varying_on_ten_days": on_ten_days(dataset, varies),
    }
    return pd.DataFrame([row])


def over_campaigns(found: pd.DataFrame) -> pd.DataFrame:
    """Return a row a case: means over the campaigns that have the figure, with widened 95 % intervals.

    >>> one = {"episodes": "none", **dict.fromkeys(MEASURED, 0.5)}
    >>> found = pd.DataFrame([one | {"seed": seed, "base_rate": 0.04 + 0.01 * seed} for seed in range(5)])
    >>> over_campaigns(found)[["campaigns", "base_rate", "f1_last_30"]].to_dict("records")
    [{'campaigns': 5, 'base_rate': '0.06 (0.04…0.08)', 'f1_last_30': '0.50 (0.50…0.50)'}]
    """
    rows = []
    for case, own in found.groupby("episodes", sort=False):
        told = {name: with_interval_of(own[name].to_numpy(np.float64)) for name in MEASURED}
        rows.append({"episodes": case, "campaigns": len(own), **told})
    return pd.DataFrame(rows)


def beside_none(found: pd.DataFrame) -> pd.DataFrame:
    """Return how much higher F1 is than without episodes, paired by seed, with the exact p of sign flips."""
    base, rows = found[found["episodes"] == WITHOUT].set_index("seed"), []
    for case, own in found[found["episodes"] != WITHOUT].groupby("episodes", sort=False):
        for name in COMPARED:
            higher = (own.set_index("seed")[name] - base[name]).dropna().to_numpy(np.float64)
            rows.append({"episodes": case, "figure": name, "pairs": len(higher), "higher_by": with_interval_of(higher),
                         "p": round(sign_flip_p(higher), 3)})  # fmt: skip
    return pd.DataFrame(rows, columns=["episodes", "figure", "pairs", "higher_by", "p"])


def with_interval_of(values: Floats) -> str:
    """Return the mean of some figures between -1 and 1 with its interval, see `predictors.core.intervals.expanded`.

    >>> with_interval_of(np.array([0.25])), with_interval_of(np.array([np.nan]))
    ('0.25', '-')
    """
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return f"{known[0]:.2f}" if len(known) else "-"
    low, high = expanded(drawn_means(known), len(known))
    return f"{known.mean():.2f} ({low:.2f}…{high:.2f})"


def on_ten_days(dataset: Dataset, varies: Bools) -> float:
    """Return the share of the varying runs that started on the ten days with most of them; NaN without any."""
    days = (dataset.runs.start[varies] // _DAY).astype(np.int64)
    counts = np.sort(np.unique(days, return_counts=True)[1])[::-1]
    return float(counts[:_TEN].sum() / counts.sum()) if counts.size else float("nan")


def _scored(dataset: Dataset, fold: Fold, seed: int) -> tuple[float, float]:
    predicted, probability, _ = answer(seeded(MODEL, seed), (dataset.rows, FEATURES), fold)
    found = scores(fold.classes[fold.test] == 1, predicted, probability)
    return found.f1, found.pr_auc
