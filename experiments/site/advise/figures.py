"""Pictures of an advice: who gains and who pays under one way, what each way changes, and each class of jobs."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from experiments.compare.compare import WAIT
from experiments.compare.measures import MEASURES
from experiments.compare.result import TOLERATED, Ratio
from experiments.reports.figures import COLOURS, Axes, Picture, paint_ratios
from experiments.site.advise.advice import CLASSES, FEWEST, Advice, Change, Option
from experiments.site.advise.sentences import RUN_TIMES, by, in_words, processors
from experiments.sweeps.report import ratios

SURE: Final = {"better": "▼", "worse": "▲", "open": ""}  # what marks a change that is sure, in a cell
FIVE: Final = "five figures"  # title of the table on the first screen
WHO: Final = "who"  # stem of the picture of who gains and who pays


def all_jobs(advice: Advice) -> pd.DataFrame:
    """Return a row a way and figure: its ratio to today's, with the ends of the interval."""
    return ratios(tuple(option.comparison for option in advice.options))


def by_class(advice: Advice) -> pd.DataFrame:
    """Return a row a way and class of jobs: what becomes of its mean wait."""
    return pd.DataFrame(
        [
            {
                "case": option.case,
                "by": change.by,
                "group": change.group,
                "jobs": change.n_jobs,
                "today_s": change.before_s,
                "then_s": change.after_s,
                **_ends(change.ratio),
                "outcome": change.outcome,
            }
            for option in advice.options
            for change in option.changes
            if change.by in CLASSES
        ]
    )


MOST_CLASSES: Final = 5  # classes in the picture of who gains and who pays: so many of each at most


def who_changes(option: Option) -> pd.DataFrame:
    """Return all jobs, then a row a class of jobs: those that gain most under a way, and those that pay most."""
    prices = {price.measure: price.ratio for price in option.comparison.prices}
    over_all = prices.get(WAIT, option.comparison.ratio)
    told = [change for change in option.changes if change.by in CLASSES and change.n_jobs >= FEWEST]
    ranked = sorted(told, key=lambda change: change.ratio.value)
    most = dict.fromkeys((*ranked[:MOST_CLASSES], *ranked[-MOST_CLASSES:]))
    rows = [
        {
            "jobs": f"{'ran ' if change.by == 'run-time' else ''}{named(change)}",
            "n_jobs": change.n_jobs,
            **_ends(change.ratio),
            "outcome": change.outcome,
        }
        for change in most
    ]
    n_jobs = sum(change.n_jobs for change in option.changes if change.by == CLASSES[0])
    return pd.DataFrame([{"jobs": "all jobs", "n_jobs": n_jobs, **_ends(over_all), "outcome": over_all.outcome}, *rows])


def named(change: Change) -> str:
    """Return the name of a class of jobs, or a user, for an axis."""
    if change.by == "user":
        return f"user {change.group}"
    return processors(change.group) if change.by == "size" else RUN_TIMES[change.group]


def paint_who(axes: Axes, table: pd.DataFrame, case: str, current: str) -> None:
    """Draw a bar a class of jobs: to the left it waits shorter, to the right longer."""
    place, change = np.arange(len(table)), np.log(table["ratio"].to_numpy(dtype=np.float64))
    reach = float(np.clip(np.abs(change).max(), 0.2, 1.5))
    sure = (table["outcome"] != "open").to_numpy()
    for part, colour, label in (
        (sure & (change < 0), COLOURS[2], "certainly shorter"),
        (sure & (change > 0), COLOURS[5], "certainly longer"),
        (~sure, "#888888", "not sure"),
    ):
        if part.any():
            axes.barh(place[part], np.clip(change[part], -reach, reach), color=colour, label=label, height=0.7)
    for row, ratio in enumerate(table["ratio"]):
        axes.text(1.02, row, by(ratio), transform=axes.get_yaxis_transform(), va="center", fontsize=10)
    axes.axvline(0, color="#333333", linewidth=1)
    axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_yticks(place, list(table["jobs"]))
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.set_xlim(-1.05 * reach, 1.05 * reach)
    axes.invert_yaxis()
    axes.set(title=f"Mean wait under {case} instead of {current}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, 0.01), ncols=3, fontsize=9, columnspacing=1, handlelength=1)


def picture_of_who(option: Option, current: str) -> Picture:
    """Return who gains and who pays under one way."""
    table = who_changes(option)
    return Picture(WHO, table, partial(paint_who, case=option.case, current=current), 5.0, 0.24 * len(table) + 0.75)


def five_figures(today: str, then: str, rows: Iterable[tuple[str, float, float, Ratio]]) -> pd.DataFrame:
    """Return figures in words: of each its name, today, then, and the change, marked where it is sure."""
    return pd.DataFrame(
        [
            {"": MEASURES[name].title, today: in_words(name, before), then: in_words(name, after),
             "change": f"{by(ratio.value)} {SURE[ratio.outcome]}".rstrip()}
            for name, before, after, ratio in rows
        ]
    )  # fmt: skip


def _ends(ratio: Ratio) -> dict[str, float]:
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}


def paint_all_jobs(axes: Axes, table: pd.DataFrame, current: str) -> None:
    """Draw a row a way: each figure by a marker of its own, with its interval."""
    axes.axvspan(1 / TOLERATED, TOLERATED, color="#999999", alpha=0.15, linewidth=0)
    for edge in range(1, paint_ratios(axes, table, "case", "figure")):
        axes.axhline(edge - 0.5, color="#999999", linewidth=0.6, linestyle=":")
    axes.set(title=f"Changes compared with {current}", xlabel=f"relative to {current}: below 1 is better")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=3, fontsize=9)
