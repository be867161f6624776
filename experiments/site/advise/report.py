"""An advice as a report: its pictures, its tables, the command behind each number, and what it cannot know."""

import shlex
from functools import partial
from typing import Any, Final

import pandas as pd

from experiments.compare.measures import AS_LOGGED, BY_RESOURCE, COMPARED, MEASURES
from experiments.compare.result import LEVEL, PRICES, TOLERATED
from experiments.compare.sentences import allowed, together
from experiments.reports.figures import Picture
from experiments.reports.report import FirstScreen, Report
from experiments.runs.simulate import nodes_told
from experiments.site.advise.advice import FEWEST, NOTICED, Advice, geometric_mean
from experiments.site.advise.advise import WAYS as SOFT_WAYS
from experiments.site.advise.advise import what_it_can_do
from experiments.site.advise.figures import (
    FIVE,
    WHO,
    all_jobs,
    by_class,
    five_figures,
    paint_all_jobs,
    picture_of_who,
)
from experiments.site.advise.sentences import in_words, remedy, sentence, verdict, who
from experiments.site.advise.validity import TWIN
from experiments.sweeps.results import Results
from predictors.data.joblog import JobLog
from schedsim.results.metrics import figures_as_logged

SOFT_QUESTION: Final = "What would the site's own scheduler gain by soft limits, and who would wait longer?"
QUESTION: Final = "What would another policy or a predictor gain on this log, and who would wait longer?"
COMMANDS: Final = "as logged, with commands"
FIGURES: Final = (
    "mean_bounded_slowdown", "mean_wait_s", "p99_wait_s", "max_wait_s", "widest5_mean_wait_s",
    "area_weighted_mean_response_s", "throughput_std", "user_slowdown_gini", "utilisation",
)  # fmt: skip


def report_on(advice: Advice, found: Results, log: JobLog, source: str, soft_limits: str | None = None) -> Report:
    """Return the report of an advice.

    `source` is how the log was named, with the options that say what is simulated: part of every command. Where the
    ways are soft limits of the site's own scheduler, `soft_limits` says which one.
    """
    columns = [name for name in found.runs if name not in ("log_sha256", "budget", "look_ahead", "seconds")]
    runs = found.runs[columns]
    commands = {COMMANDS: _commands(found.runs, source)}
    if advice.forbidden:
        first = FirstScreen(sentence(advice), FIVE, remedy=remedy(advice))
        tables = {FIVE: _beside_log(advice.current, runs, log), **commands}
    else:
        first = FirstScreen(sentence(advice), FIVE, WHO)
        tables = {
            FIVE: _five(advice, _means(runs)),
            "all jobs": all_jobs(advice).rename(columns={"ratio": f"relative to {advice.current}"}),
            "classes of jobs": by_class(advice),
            "users": _users(advice),
            **commands,
            "shaken, geometric means over the seeds": _means(runs),
        }
    n_seeds = found.runs["seed"].nunique() - 1
    return Report(
        experiment="advise",
        log=log.name,
        seeds=tuple(found.about["seeds"]),
        tables=tables,
        data={"runs": runs},
        pictures=() if advice.forbidden else _pictures(advice),
        notes=(
            *(() if advice.forbidden else (lack.sentence() for lack in advice.lacks)),
            WAYS if soft_limits is None else SOFT_WAYS,
            *(() if advice.forbidden else _notes(n_seeds, len(advice.comparisons))),
            LIMITS,
        ),
        first=first,
        verdict=tuple(verdict(advice)),
        question=QUESTION if soft_limits is None else SOFT_QUESTION,
        details=(
            *(who(option, advice.current) for option in advice.options),
            *(() if soft_limits is None else what_it_can_do(soft_limits)),
        ),
        facts={
            "jobs simulated": len(log),
            "processors": log.max_procs or 0,
            **nodes_told(found.about["logs"]),
            "today": advice.current,
            "SHA-256 of the log's values": log.digest(),
        },
    )


def _pictures(advice: Advice) -> tuple[Picture, ...]:
    paint = partial(paint_all_jobs, current=advice.current)
    return picture_of_who(advice.lead, advice.current), Picture("all_jobs", all_jobs(advice), paint, 8.5, 5.2)


def _five(advice: Advice, means: pd.DataFrame) -> pd.DataFrame:
    lead, figures = advice.lead, means.set_index("case")
    ratios = {lead.comparison.measure: lead.comparison.ratio}
    ratios |= {price.measure: price.ratio for price in lead.comparison.prices}
    cases = (advice.current, lead.case)
    rows = [(name, *(figures[name][case] for case in cases), ratio) for name, ratio in ratios.items()]
    return five_figures(*cases, rows[:5])


def _beside_log(current: str, runs: pd.DataFrame, log: JobLog) -> pd.DataFrame:
    """Return five figures of the log's own waits, where it records them, and of today's way as simulated."""
    own = figures_as_logged(log) or {}
    row = runs[(runs["seed"] == AS_LOGGED) & (runs["case"] == current)].iloc[0]
    return pd.DataFrame(
        [
            {
                "": MEASURES[name].title,
                **({"in the log": in_words(name, own[name])} if own else {}),
                f"{current}, simulated": in_words(name, row[name]),
            }
            for name in (TWIN, *FIGURES[:4])
        ]
    )


def _users(advice: Advice) -> pd.DataFrame:
    """Return the change for each user with enough jobs, a row each: those who lose most first."""
    rows = [
        {
            "user": change.group, "case": option.case, "jobs": change.n_jobs, "today_s": change.before_s,
            "then_s": change.after_s, "ratio": change.ratio.value, "least": change.ratio.low,
            "greatest": change.ratio.high, "outcome": change.outcome,
        }
        for option in advice.options
        for change in option.changes
        if change.by == "user" and change.n_jobs >= FEWEST
    ]  # fmt: skip
    table = pd.DataFrame(
        rows, columns=["user", "case", "jobs", "today_s", "then_s", "ratio", "least", "greatest", "outcome"]
    )
    return table.sort_values("ratio", ascending=False, kind="stable").reset_index(drop=True)


def _commands(runs: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return the figures of the log as it is, with the command that prints them; --shake SEED gives a shaken run's."""
    table = runs[runs["seed"] == AS_LOGGED]
    given = [
        f"jobcast simulate {source} --policy {shlex.quote(str(row.policy))} --estimates {row.estimates} "
        f"--correction {row.correction}{_limited(row)}"
        for row in table.itertuples()
    ]
    return table[["case", *_figures(table)]].assign(command=given)


def _figures(runs: pd.DataFrame) -> list[str]:
    """Return the figures to show: by resource too, where jobs take GPUs and memory of nodes."""
    return [*FIGURES, *(name for name in BY_RESOURCE if name in runs)]


def _limited(row: Any) -> str:
    soft, budget = getattr(row, "soft_limits", None), getattr(row, "budget", None)
    parts = [f" --budget {budget:g}"] if budget is not None and budget == budget else []  # NaN: there is none
    return "".join([*parts, *([f" --soft-limits {soft}"] if isinstance(soft, str) else [])])


def _means(runs: pd.DataFrame) -> pd.DataFrame:
    """Return geometric means over the shakes (their quotients are the ratios), and the mean of the utilisation."""
    shaken = runs[runs["seed"] != AS_LOGGED].groupby("case", sort=False)
    return (
        shaken[_figures(runs)]
        .agg({name: geometric_mean if name in COMPARED else "mean" for name in _figures(runs)})
        .reset_index()
    )


WAYS: Final = (  # what the names stand for
    "EASY: first come, first served; a job may pass if it does not delay the first one that waits. EASY-SJBF: of those "
    "that may pass, the shortest goes first. EASY++: the same by run times predicted from the user's two last jobs. "
    "careful: EASY-SJBF by many estimates of a job, with a promise to the first one that waits. balanced: by the same "
    "estimates, the queue too favours short jobs, until a job is overdue. conservative: every waiting job holds a "
    "reservation. WFP: the queue is ordered by (wait / requested time)³ x processors. All but EASY++, careful and "
    "balanced plan by the requested times."
)
LIMITS: Final = (
    "Users submit here as they did in the log: that they would react to another policy is not simulated, nor are "
    "outages, reservations, priorities or queues."
)


def _notes(n_seeds: int, n_ratios: int) -> tuple[str, ...]:
    waits = ", ".join(MEASURES[name].title for name in PRICES["simulate"])
    return (
        f"Each way scheduled the same {n_seeds} shaken copies of the log (submissions moved by up to 60 s, run times "
        f"by up to 3 %); all numbers are geometric means over the shakes, ratios with their intervals in brackets. "
        "These tell how much depends on chance in this log, not what next year's jobs will be like.",
        f"{together(LEVEL, n_ratios)} That holds for the figure that decides; the other figures of the waits and the "
        f"classes of jobs are each judged separately (intervals of {100 * LEVEL:.0f} %): of many, a few can look so by "
        "chance.",
        f"Certainly: the whole interval says so. The figures of the waits are: {waits}.",
        f"A class gains or loses where the whole interval lies beyond {allowed(TOLERATED)}, a user where every shake "
        f"says so, and only if it comes to {NOTICED:.0f} s of mean wait or more; of fewer than {FEWEST} jobs nothing "
        "is said. Among many users a few can look so by chance.",
        "To see a shaken run, add --shake SEED to its command; --by size, run-time or user splits it. The file "
        "runs.csv has them all.",
    )
