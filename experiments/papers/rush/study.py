"""Table II and Figures 1 and 4 to 11 of Nichols et al. (IPDPS 2022).

Table II, Figures 1 and 4 to 11 of Nichols et al. on a simulated machine with contention.

Five experiments, each with paired seeds: the same jobs, background and noise under FCFS+EASY and under RUSH. Added are
the controls that the paper lacks: as many delays dealt to jobs by chance, a classifier that sees the true loads of now,
and a machine without contention, where there is nothing to win.

FCFS+EASY asks the model as well and ignores its answer, so that predictions can be compared with outcomes.

The model learns from control jobs of half a year on the same machine; whether its counters are pooled over all nodes or
over the job's is chosen by F1 on the last 30 % of these. Everything is drawn from the seed, also with several workers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.rush.asking import EXPERIMENT, AskSettings, Row, beside_easy, differences, models_of, rows_of
from experiments.papers.rush.figures import pictures
from experiments.papers.rush.jobs import EXPERIMENTS, Experiment, Jobs, Scaling, jobs_of
from experiments.papers.rush.measures import (  # fmt: skip
    CALM_EASY,
    CALM_RUSH,
    EASY,
    ORACLE,
    RANDOM,
    RUSH,
    beside_paper,
    by_application,
    foreseen,
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
    learn,
    run_trial,
)
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.errors import JobcastError, unknown_name
from predictors.variability.classifiers.base import Classifier
from predictors.variability.labels import Norms
from schedsim.policies.rush import Scripted

QUESTION: Final = (
    "Does RUSH make runs steadier, and at what price? Table II, Figures 1 and 4 to 11 of Nichols et al. "
    "on a simulated machine."
)

SEEDS: Final = 10
QUICK_SEEDS: Final = 2
QUICK_DAYS: Final = 24
CONTROLS: Final = (RANDOM, ORACLE, CALM_EASY, CALM_RUSH)
PATIENT: Final = 100
VARIANTS: Final[Mapping[str, dict[str, Any]]] = {  # options of RUSH that are also tried in ADAA
    f"RUSH, threshold {PATIENT}": {"threshold": PATIENT},
    "RUSH, little delays too": {"labels": ("little", "variation")},
    "RUSH, asked at every pass": {"count_on": "pass"},
    f"oracle, threshold {PATIENT}": {"threshold": PATIENT},
}
FIGURES: Final = ["varying", "makespan_s", "wait_s", "longest_s", "calls", "skips", "met"]
GAINS: Final = ["fewer_varying", "makespan_saved_s", "longest_shortened_pct", "wait_added_s"]


@dataclass(frozen=True, eq=False)
class Shared:
    """What every trial needs; goes to worker processes."""

    environment: Environment
    norms: Mapping[str, dict[str, Any]]  # `Norms.to_json` by scaling
    models: Mapping[tuple[str, ...], Classifier]  # by the applications that they learnt from
    scope: str  # which nodes' counters they see
    policies: Mapping[str, tuple[str, ...]]  # which to run in addition to FCFS+EASY and RUSH, by experiment
    asked: str = ""  # digest of the model, if one was named; empty: they have just learnt
    # the rows on what asking costs, by policy; they are of `experiments.papers.rush.asking.EXPERIMENT`
    rows: Mapping[str, Row] = field(default_factory=dict)
    fitted: Mapping[tuple[str, str], Classifier] = field(default_factory=dict)


def run(setting: Setting) -> Report:
    """Run all experiments: ten paired seeds (quick: two, with control jobs of 24 days)."""
    settings, chosen = settings_of(setting), experiments_of(setting.experiments)
    environment, days = Environment(), QUICK_DAYS if setting.quick else DAYS
    seeds = setting.drawn(SEEDS, QUICK_SEEDS, first=0)
    do = partial(run_all, setting, "Running control jobs")
    scalings = [scaling for scaling in SCALINGS if scaling == "none" or scaling in {one.scaling for one in chosen}]
    control = collect(environment, setting.seed, days, scalings, do)
    quality = judged(control, MODEL, setting.seed)
    shared = shared_of(control, environment, quality, setting)
    tables: dict[str, pd.DataFrame] = {}
    if EXPERIMENT in {one.name for one in chosen} and not setting.predictors:
        own = models_of(control, shared.scope, setting.seed, setting.quick)
        shared = replace(shared, rows=rows_of(settings), fitted=own.fitted)
        tables["models of the rows, judged on control jobs"] = own.table
    tasks = [(one.name, seed) for one in chosen for seed in seeds]
    about = {"model": shared.asked, "asking": repr(settings)}
    found = run_all(setting, "Running trials", trials_of, shared, tasks, about)
    runs, trials = tables_of(found, control)
    if shared.rows:
        tables = {
            "what asking costs, ADAA": beside_easy(trials, shared.rows),
            "paired differences, ADAA": differences(trials, shared.rows),
            **tables,
        }
    tables = {
        "compared with the paper": beside_paper(trials),
        **tables,
        "by policy": summary(trials, FIGURES)[[*_LEADING, *FIGURES]],
        "gains on FCFS+EASY, means": summary(trials, GAINS)[[*_LEADING, *GAINS]],
        "gains on FCFS+EASY, medians": summary(trials, GAINS)[[*_LEADING, *(f"{name}_median" for name in GAINS)]],
        "runs that vary": by_application(runs).round(2),
        **({"longest runs in SS": shortened_by_size(runs, "SS").round(2)} if "SS" in set(runs["experiment"]) else {}),
        "classifier on control jobs": quality,
        "classifier in the trials": foreseen(runs).round(3),
    }
    return Report(
        log="contention world", seeds=seeds, tables=tables, data={"runs": runs, "trials": trials},
        pictures=tuple(pictures(runs, trials, control.datasets["all"].runs)), verdict=in_words(trials),
    )  # fmt: skip


_LEADING: Final = ["experiment", "policy", "trials"]
_NAMES: Final = ["experiment", "seed", "policy"]
_TRIAL: Final = "trial "  # how columns begin that tell of the trial, the same for all its runs
_FIGURES: Final = {"makespan_s": "makespan", "calls": "calls", "skips": "skips", "met": "met"}
"""Those columns, and the attributes of `Trial` that they are."""


SCALINGS: Final[tuple[Scaling, ...]] = ("none", "weak", "strong")


def settings_of(setting: Setting) -> AskSettings:
    """Return what asking costs, as the setting has it; one that would do nothing is refused."""
    asked = ("ask_seconds", "probe_seconds", "counter_lag", "thresholds")
    given = {name: value for name in asked if (value := getattr(setting, name)) not in (None, ())}
    named = "".join(f"--{name.replace('_', '-')}" for name in list(given)[:1])
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


def shared_of(control: Control, environment: Environment, quality: pd.DataFrame, setting: Setting) -> Shared:
    """Train the models, or take the one that is named by its address, and say which policies to run."""
    wanted = experiments_of(setting.experiments)
    learnt, scope, asked = {one.learnt for one in wanted}, best_scope(quality), ""
    if setting.predictors:
        named = classifier_at(setting.predictors[0])
        models, scope, asked = dict.fromkeys(learnt, named.classifier), named.origin.scope, named.sha256
    else:
        models = {names: learn(control.of(names, scope), MODEL, setting.seed) for names in sorted(learnt)}
    controls = ("ADAA",) if setting.quick else tuple(EXPERIMENTS)
    policies: dict[str, tuple[str, ...]] = {name: CONTROLS if name in controls else () for name in EXPERIMENTS}
    if not setting.quick:
        policies["ADAA"] = (*CONTROLS, *VARIANTS)
    norms: dict[str, dict[str, Any]] = {scaling: found.to_json() for scaling, found in control.norms.items()}
    return Shared(environment, norms, models, scope, policies, asked)


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
    experiment = EXPERIMENTS[name]
    jobs, norms = jobs_of(experiment, seed), Norms.from_json(shared.norms[experiment.scaling])
    inputs, model = Inputs(jobs.apps, shared.scope), shared.models[experiment.learnt]

    def go(policy: str, environment: Environment, **options: Any) -> Trial:
        contention = contention_of(jobs, environment, TRIAL_SEEDS + seed)
        if policy.startswith(ORACLE):
            judge: Any = Oracle(norms, jobs.apps, contention.work(jobs.workload))
        elif policy == RANDOM:
            judge = Scripted(np.random.default_rng(seed).permutation(found[RUSH].runs["skips"].to_numpy()))
        else:
            judge = Learnt(model, inputs)
        trial = run_trial(jobs, contention, environment.allocator, judge, **options)
        return trial if policy not in (EASY, CALM_EASY) else replace(trial, runs=trial.runs.assign(skips=0))

    calm, never = replace(shared.environment, contention=False), {"labels": ()}
    found: dict[str, Trial] = {EASY: go(EASY, shared.environment, **never), RUSH: go(RUSH, shared.environment)}
    for policy, row in (shared.rows if name == EXPERIMENT else {}).items():
        found[policy] = row_trial(shared, row, jobs, seed, found)
    for policy in shared.policies[name]:
        environment = calm if policy in (CALM_EASY, CALM_RUSH) else shared.environment
        found[policy] = go(policy, environment, **(never if policy == CALM_EASY else VARIANTS.get(policy, {})))
    return found


def row_trial(shared: Shared, row: Row, jobs: Jobs, seed: int, found: Mapping[str, Trial]) -> Trial:
    """Run a trial of a row on what asking costs; `found` has the trials with the skips to deal out."""
    contention = contention_of(jobs, shared.environment, TRIAL_SEEDS + seed, lag=row.lag, probing=row.probing)
    if row.judge == "oracle":
        norms = Norms.from_json(shared.norms["none"])
        judge: Any = Oracle(norms, jobs.apps, contention.work(jobs.workload))
    elif row.judge == "random":
        judge = Scripted(np.random.default_rng(seed).permutation(found[row.like].runs["skips"].to_numpy()))
    else:
        judge = Learnt(shared.fitted[row.model, row.use], Inputs(jobs.apps, shared.scope, row.use, row.lag))
    return run_trial(jobs, contention, shared.environment.allocator, judge, **row.options)


TRIAL_SEEDS: Final = 1000  # seeds of trials begin here, those of control jobs at 0


def tables_of(found: Sequence[pd.DataFrame], control: Control) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return one row a run, with its z, and one row a trial, with what it gains."""
    everything = pd.concat(found, ignore_index=True)
    of_trials = {f"{_TRIAL}{name}": name for name in _FIGURES}
    of_runs = [name for name in everything if name not in (*_NAMES, *of_trials)]
    trials = everything[[*_NAMES, *of_trials]].drop_duplicates(ignore_index=True).rename(columns=of_trials)
    parts = [
        with_z(part, control.norms[EXPERIMENTS[str(name)].scaling])
        for name, part in everything[[*_NAMES, *of_runs]].groupby("experiment", sort=False)
    ]
    runs = pd.concat(parts, ignore_index=True)
    return runs, paired(trials.merge(per_trial(runs), on=_NAMES), runs)


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
