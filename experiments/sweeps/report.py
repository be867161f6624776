"""Report of a sweep.

Comparisons first, then figures by case and log, and a picture of who gains and who pays.
"""

from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.compare import sentences
from experiments.compare.compare import choose, compare_all
from experiments.compare.measures import AS_LOGGED, BY_RESOURCE, COMPARED, MEASURES
from experiments.compare.result import LEVEL, PRICES, Choice, Comparison
from experiments.reports.figures import Axes, Picture, paint_ratios
from experiments.reports.report import Report
from experiments.runs.simulate import nodes_told
from experiments.sweeps.results import GROUP_TABLE, TABLE, Results

QUESTIONS: Final = {
    "simulate": "Which way to schedule serves the jobs best, how certainly, and who waits longer for it?",
    "evaluate": "Which predictor errs least, how certainly, and where does it err more?",
    "train": "Which predictor errs least, and what has each learnt from the whole log?",
}
SHOWN: Final = {
    "simulate": (
        "mean_bounded_slowdown",
        *PRICES["simulate"],
        "throughput_std",
        "user_slowdown_gini",
        "utilisation",
        "killed",
        "preemptions",
        "preempted_processor_seconds",
        "soft_too_short",
        *BY_RESOURCE,
    ),
    "evaluate": ("sse_ratio_to_last_two", "mae_s", "median_ae_s", "r2", "mean_accuracy", "underestimation_rate"),
}
APART: Final = " That holds for the figure that decides; those that are paid in are each judged separately."
LEAST: Final = 1e-3  # figures below this count as this in geometric means
MOST_DRAWN: Final = 20  # cases in a picture


Compared = tuple[tuple[Comparison, ...], Choice | None]


def compared(found: Results, beside: str | None = None, measure: str | None = None) -> Compared:
    """Compare each case with one, by default the first; and the choice among all, where there are several.

    Where the others are shaken, cases that run only on the log as it is are not judged.
    """
    runs = found.runs[~found.runs["case"].isin(_as_logged_alone(found.runs))]
    if runs["case"].nunique() < 2:
        return (), None
    options: dict[str, Any] = {"kind": found.kind, "groups": found.groups, "measure": measure}
    return compare_all(runs, beside, **options), choose(runs, **options)


def _as_logged_alone(runs: pd.DataFrame) -> list[str]:
    """Return the cases without shaken runs, if others have some."""
    shaken = set(runs.loc[runs["seed"] != AS_LOGGED, "case"])
    return [case for case in dict.fromkeys(runs["case"]) if shaken and case not in shaken]


def report_of(found: Results, folder: Path, judged: Compared) -> Report:
    """Return the report of a sweep with its results in a folder; `compared` returns `judged`."""
    comparisons, choice = judged
    tables = {"by case": medians(found, ["case"]), "by case and log": medians(found, ["log", "case"])}
    pictures: tuple[Picture, ...] = ()
    if comparisons:
        tables |= {"judgements": as_table(comparisons)}
        height = 1.8 + 0.5 * min(len(comparisons), MOST_DRAWN)
        pictures = (Picture("ratios", ratios(comparisons), partial(paint, base=comparisons[0].beside), 8.5, height),)
    logs = ", ".join(log["name"] for log in found.about["logs"])
    verdict = caution(found) + [sentences.of(one) for one in comparisons] + ([sentences.of(choice)] if choice else [])
    notes = [sentences.together(LEVEL, len(comparisons)) + APART] if comparisons else []
    notes += [changes(log) for log in found.about["logs"]]
    if alone := _as_logged_alone(found.runs):
        notes.append(f"Run on the logs as they are alone, and so not judged: {', '.join(alone)}.")
    if "look_ahead" in found.runs and found.runs["look_ahead"].any():
        ahead = ", ".join(dict.fromkeys(found.runs.loc[found.runs["look_ahead"], "case"]))
        notes.append(f"Learnt from a log that they then were used on, its future included: {ahead}; these say nothing.")
    return Report(
        experiment="sweep",
        log=logs,
        seeds=tuple(found.about["seeds"]),
        tables=tables,
        data={"runs": found.runs},
        pictures=pictures,
        figures=(folder / TABLE, *([folder / GROUP_TABLE] if len(found.groups) else [])),
        seconds=found.about["seconds"],
        notes=tuple(notes),
        verdict=tuple(verdict),
        question=QUESTIONS[found.kind],
        facts=_facts(found),
    )


def medians(found: Results, by: list[str]) -> pd.DataFrame:
    """Return medians over the shaken seeds (else over all), by case or by log and case; of logs the geometric mean.

    Cases that run only on the log as it is stand among them with that run.
    """
    runs = found.runs
    shaken = runs["seed"] != AS_LOGGED
    used = runs[shaken | runs["case"].isin(_as_logged_alone(runs))] if shaken.any() else runs
    columns = [name for name in SHOWN["simulate" if found.kind == "simulate" else "evaluate"] if name in runs]
    per_log = used.groupby(["log", "case"], sort=False)[columns].median().reset_index()
    if "log" in by:
        return per_log
    if per_log["log"].nunique() > 1:
        columns = [name for name in columns if name in COMPARED]
        per_log[columns] = per_log[columns].clip(lower=LEAST).transform(np.log)
        means = per_log.groupby(by, sort=False)[columns].mean()
        return means.transform(np.exp).reset_index()
    return per_log.drop(columns="log")


def as_table(comparisons: tuple[Comparison, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "case": one.case,
            "beside": one.beside,
            "outcome": one.outcome,
            "ratio": one.ratio.value,
            "low": one.ratio.low,
            "high": one.ratio.high,
            "better on": one.on("better"),
            "worse on": one.on("worse"),
            "logs": len(one.logs),
            "paid in": ", ".join(MEASURES[price.measure].title for price in one.paid),
            **({} if one.worse_off is None else {"users worse off": one.worse_off.share}),
        }
        for one in comparisons
    )


def ratios(comparisons: tuple[Comparison, ...]) -> pd.DataFrame:
    """Return what is compared and what may be paid, a row a case and figure."""
    return pd.DataFrame(
        {"case": one.case, "figure": MEASURES[name].title, "ratio": r.value, "low": r.low, "high": r.high}
        for one in comparisons
        for name, r in ((one.measure, one.ratio), *((price.measure, price.ratio) for price in one.prices))
    )


def paint(axes: Axes, table: pd.DataFrame, base: str) -> None:
    """Draw ratios with their intervals: a row a case, a marker a figure; left of 1 is better."""
    cases = list(dict.fromkeys(table["case"]))[:MOST_DRAWN]
    paint_ratios(axes, table[table["case"].isin(cases)], "case", "figure")
    axes.set(xlabel=f"ratio to {base}: left of 1 is less", title=f"Each case compared with {base}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _facts(found: Results) -> dict[str, str | int | float]:
    about = found.about
    return {
        "runs": len(found.runs),
        "cases": found.runs["case"].nunique(),
        "jobs": ", ".join(f"{log['name']}: {log['jobs']:,}" for log in about["logs"]),
        "SHA-256 of the logs": ", ".join(log["sha256"] for log in about["logs"]),
        **nodes_told(about["logs"]),
        "code": about["git_commit"] or about["versions"]["jobcast"],
        "SHA-256 of the code": about["code"],
        "seconds of all workers": round(about["seconds"], 1),
    }


def changes(log: dict[str, Any]) -> str:
    """Return what became of each job of a log: read = used + dropped."""
    account = log["account"]
    lost = [f for f in account["findings"] if f["effect"] == "dropped"]
    reasons = ", ".join(f"{f['rule']} {f['count']:,}" for f in lost)
    dropped = f"{account['dropped']:,} dropped ({reasons})" if lost else "nothing dropped"
    return f"{account['source']}: {account['read']:,} jobs read, {account['used']:,} used, {dropped}"


def caution(found: Results) -> list[str]:
    """Return what the logs lack, so that their runs may mislead: a sentence each, said before any verdict."""
    return [
        f"Caution: {log['name']}: {lack['text']} {lack['remedy']}"
        for log in found.about["logs"]
        for lack in log.get("lacks", ())
    ]
