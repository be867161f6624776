"""Table II and Figures 1 and 4 to 11 of Nichols et al. (IPDPS 2022).

Table II, Figures 1 and 4 to 11 of Nichols et al. on a simulated machine with contention.

Five experiments, each with paired seeds: the same jobs, background and noise under FCFS+EASY and under every other
policy (`experiments.papers.rush.asking`). FCFS+EASY asks the model as well and ignores its answer, so that predictions
can be compared with outcomes.

Each campaign has a model and a yardstick of its own, from its own control jobs, and trials of its own. Whether counters
are pooled over all nodes or over the job's is chosen by F1 on the last 30 % of these. Everything is drawn from the
seed, also with several workers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.asking import (
    ABSENT,
    EXPERIMENT,
    LIVE,
    PRICED,
    AskSettings,
    Models,
    Row,
    models_of,
    rows_of,
)
from experiments.papers.rush.figures import pictures
from experiments.papers.rush.jobs import EXPERIMENTS, Experiment, Jobs, Scaling, jobs_of
from experiments.papers.rush.measures import (  # fmt: skip
    EASY,
    NAMES,
    RANDOM,
    RUSH,
    beside_paper,
    by_application,
    differences,
    foreseen,
    in_the_papers_design,
    paired,
    per_trial,
    shortened_by_size,
    summary,
    with_z,
)
from experiments.papers.rush.trials import (
    DAYS,
    MODEL,
    Control,
    Environment,
    Inputs,
    Learnt,
    Oracle,
    Trial,
    classifier_at,
    collect,
    contention_of,
    judged,
    run_trial,
)
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.runs import Runs
from predictors.variability.labels import Norms
from schedsim.policies.rush import Scripted

QUESTION: Final = (
    "Does RUSH make runs steadier, and at what price? Table II, Figures 1 and 4 to 11 of Nichols et al. "
    "on a simulated machine."
)

CAMPAIGNS: Final = 8
TRIALS: Final = 20  # of a campaign
QUICK_CAMPAIGNS: Final = 2
QUICK_TRIALS: Final = 10
QUICK_DAYS: Final = 24
FIGURES: Final = ("makespan_s", "wait_s", "longest_s", "calls", "skips", "met")


@dataclass(frozen=True, eq=False)
class Shared:
    """What every trial of a campaign needs; goes to worker processes."""

    environment: Environment
    norms: Mapping[str, dict[str, Any]]  # `Norms.to_json` by scaling
    models: Models
    scope: str  # which nodes' counters they see
    rows: Mapping[str, Mapping[str, Row]]  # what to run, by experiment and policy


def run(setting: Setting) -> Report:
    """Run all experiments: eight campaigns of 20 trials (quick: two of ten, with control jobs of 24 days)."""
    settings, chosen = settings_of(setting), experiments_of(setting.experiments)
    rows = {one.name: rows_of(settings, one.name, costs=not setting.predictors) for one in chosen}
    campaigns = setting.drawn(CAMPAIGNS, QUICK_CAMPAIGNS, first=0)
    found = [campaign_of(setting, campaign, rows) for campaign in campaigns]
    return report_of(found, rows, setting.seed)


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a campaign."""

    campaign: int
    runs: pd.DataFrame  # of the trials
    trials: pd.DataFrame
    quality: pd.DataFrame  # how well the model learns from the control jobs
    control: Runs


def campaign_of(setting: Setting, campaign: int, rows: Mapping[str, Mapping[str, Row]]) -> Done:
    """Run a campaign: its control jobs, its models, and its trials."""
    wanted = [EXPERIMENTS[name] for name in rows]
    scalings = [scaling for scaling in SCALINGS if scaling == "none" or scaling in {one.scaling for one in wanted}]
    learnt, environment = {one.learnt for one in wanted}, Environment()
    named = classifier_at(setting.predictors[0]) if setting.predictors else None
    about = {"rows": repr(rows), "model": "" if named is None else named.sha256}
    do = partial(run_all, setting, f"Running control jobs of campaign {campaign}")
    control = collect(environment, campaign, QUICK_DAYS if setting.quick else DAYS, scalings, do)
    quality = judged(control, MODEL, campaign).assign(campaign=campaign)
    scope, norms = best_scope(quality), {str(name): found.to_json() for name, found in control.norms.items()}
    if named is not None:
        scope, models = named.origin.scope, dict.fromkeys([(names, LIVE) for names in learnt], named.classifier)
    else:
        models = models_of(control, scope, campaign, learnt)
    shared = Shared(environment, norms, models, scope, rows)
    seeds = range(TRIALS * campaign, TRIALS * campaign + (QUICK_TRIALS if setting.quick else TRIALS))
    tasks = [(name, seed) for name in rows for seed in seeds]
    found = run_all(setting, f"Running trials of campaign {campaign}", trials_of, shared, tasks, about)
    return Done(campaign, *tables_of(found, control, campaign), quality, control.datasets["all"].runs)


def report_of(found: Sequence[Done], rows: Mapping[str, Mapping[str, Row]], seed: int) -> Report:
    runs, trials, qualities = (
        pd.concat([getattr(done, name) for done in found], ignore_index=True) for name in ("runs", "trials", "quality")
    )
    others = against(rows.get(EXPERIMENT, {}))
    tables = {
        "compared with the paper": beside_paper(trials),
        "by policy": summary(trials, FIGURES),
        **({"differences, ADAA": differences(trials, EXPERIMENT, others),
            "the design of the paper, ADAA": in_the_papers_design(trials, EXPERIMENT, seed)} if others else {}),
        "runs that vary": by_application(runs).round(2),
        **({"longest runs in SS": shortened_by_size(runs, "SS").round(2)} if "SS" in rows else {}),
        "classifier on control jobs": qualities,
        "classifier in the trials": foreseen(runs).round(3),
    }  # fmt: skip
    seeds, data = tuple(done.campaign for done in found), {"runs": runs, "trials": trials}
    return Report(
        log="contention world", seeds=seeds, tables=tables, data=data,
        pictures=tuple(pictures(runs, trials, found[0].control)), verdict=in_words(trials),
    )  # fmt: skip


_TRIAL: Final = "trial "  # how columns begin that tell of the trial, the same for all its runs
_FIGURES: Final = {"makespan_s": "makespan", "calls": "calls", "skips": "skips", "met": "met"}
"""Those columns, and the attributes of `Trial` that they are."""


SCALINGS: Final[tuple[Scaling, ...]] = ("none", "weak", "strong")


def settings_of(setting: Setting) -> AskSettings:
    """Return what asking costs, as the setting has it; one that would do nothing is refused."""
    asked = ("ask_seconds", "probe_seconds", "counter_lag", "thresholds")
    given = {name: value for name in asked if (value := getattr(setting, name)) not in (None, ())}
    named = "".join(f"--{name.replace('_', '-')}" for name in [name for name in given if name != "thresholds"][:1])
    if named and setting.predictors:
        raise JobcastError(
            f"rush: {named} is for the rows on what asking costs: their models are trained with and without probes; "
            "with --predictors they are not run. Leave one of the two out."
        )
    if named and EXPERIMENT not in {one.name for one in experiments_of(setting.experiments)}:
        raise JobcastError(
            f"rush: {named} is for the rows on what asking costs, which are of {EXPERIMENT}; add {EXPERIMENT} to "
            f"--experiments {','.join(setting.experiments)}, or leave {named} out."
        )
    return AskSettings(**given)


def experiments_of(names: Sequence[str]) -> list[Experiment]:
    """Return experiments of Table II by name; no name: all."""
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("experiment of Table II", name, EXPERIMENTS)
    return [one for name, one in EXPERIMENTS.items() if name in names or not names]


def against(rows: Mapping[str, Row]) -> dict[str, dict[str, str]]:
    """Return what each policy is set against: fewer skips, random delays, probes that cost or are absent."""
    found: dict[str, dict[str, str]] = {}
    for policy, row in rows.items():
        skips = policy.removeprefix(row.name)
        others = {RANDOM + skips: RANDOM, PRICED + skips: PRICED, ABSENT + skips: ABSENT} if row.name == RUSH else {}
        fewer = [other for other, one in rows.items() if one.name == row.name and one.threshold < row.threshold]
        found[policy] = {name: other for other, name in others.items()} | {
            f"{rows[o].threshold} skips": o for o in fewer
        }
    return found


def best_scope(quality: pd.DataFrame) -> str:
    """Return the node scope with the highest F1 on the last 30 % of the control jobs; of equals, all nodes."""
    last = quality[quality["split"] == "chronological"].set_index("scope")["f1"].fillna(-1.0)
    return str(last.index[int(last.to_numpy().argmax())])


def trials_of(shared: Shared, task: tuple[str, int]) -> pd.DataFrame:
    """Run one experiment by one seed under every policy: one row a run, with the figures of its trial."""
    experiment, seed = task
    parts = []
    for policy, trial in by_policy(shared, experiment, seed).items():
        figures = {f"{_TRIAL}{name}": getattr(trial, figure) for name, figure in _FIGURES.items()}
        parts.append(trial.runs.assign(experiment=experiment, seed=seed, policy=policy, **figures))
    return pd.concat(parts, ignore_index=True)


def by_policy(shared: Shared, name: str, seed: int) -> dict[str, Trial]:
    """Run the trials of an experiment and a seed under all its policies."""
    jobs, found = jobs_of(EXPERIMENTS[name], seed), dict[str, Trial]()
    for policy, row in shared.rows[name].items():
        found[policy] = row_trial(shared, name, row, jobs, seed, found)
    return found


def row_trial(
    shared: Shared, name: str, row: Row, jobs: Jobs, seed: int, found: Mapping[str, Trial]
) -> Trial:  # fmt: skip
    """Run a trial of a row; `found` has the trials with the skips to deal out."""
    experiment, environment = EXPERIMENTS[name], replace(shared.environment, contention=not row.calm)
    contention = contention_of(jobs, environment, TRIAL_SEEDS + seed, lag=row.lag, probing=row.probing)
    if row.judge == "oracle":
        norms = Norms.from_json(shared.norms[experiment.scaling])
        judge: Any = Oracle(norms, jobs.apps, contention.work(jobs.workload))
    elif row.judge == "random":
        judge = Scripted(np.random.default_rng(seed).permutation(found[row.like].runs["skips"].to_numpy()))
    else:
        model = shared.models[experiment.learnt, row.probes]
        judge = Learnt(model, Inputs(jobs.apps, shared.scope, row.probes, row.lag))
    trial = run_trial(jobs, contention, environment.allocator, judge, **row.options)
    return trial if row.threshold else replace(trial, runs=trial.runs.assign(skips=0))


TRIAL_SEEDS: Final = 1000  # seeds of trials begin here, those of control jobs at 0


def tables_of(
    found: Sequence[pd.DataFrame], control: Control, campaign: int
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Return one row a run, with its z, and one row a trial, with what it gains."""
    everything = pd.concat(found, ignore_index=True).assign(campaign=campaign)
    of_trials = {f"{_TRIAL}{name}": name for name in _FIGURES}
    of_runs = [name for name in everything if name not in (*NAMES, *of_trials)]
    trials = everything[[*NAMES, *of_trials]].drop_duplicates(ignore_index=True).rename(columns=of_trials)
    parts = [
        with_z(part, control.norms[EXPERIMENTS[str(name)].scaling])
        for name, part in everything[[*NAMES, *of_runs]].groupby("experiment", sort=False)
    ]
    runs = pd.concat(parts, ignore_index=True)
    return runs, paired(trials.merge(per_trial(runs), on=NAMES), runs)


def in_words(trials: pd.DataFrame) -> tuple[str, ...]:
    means = trials.groupby(["experiment", "policy"])[["varying", "makespan_s", "met", "skips"]].mean()
    found = means.to_dict(orient="index")
    sentences = []
    for name in (name for name in EXPERIMENTS if (name, EASY) in found):
        easy, own = found[name, EASY], found[name, RUSH]
        sentences.append(
            f"{name}: {easy['varying']:.1f} runs vary under FCFS+EASY and {own['varying']:.1f} under RUSH, which skips "
            f"{own['skips']:.0f} times, to the threshold {own['met']:.1f} times; makespan {easy['makespan_s']:.0f} and "
            f"{own['makespan_s']:.0f} s."
        )
    return tuple(sentences)
