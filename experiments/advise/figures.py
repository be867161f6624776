"""Two pictures of an advice: what each way changes beside today's, and how the wait of each class of jobs changes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from experiments.advise.advice import CLASSES, Advice
from experiments.advise.sentences import RUN_TIMES, by, processors
from experiments.compare.result import TOLERATED, Ratio
from experiments.reports.figures import COLOURS, MARKERS, bar_lengths, ticks_between
from experiments.sweeps.report import ratios

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SURE: Final = {"better": "▼", "worse": "▲", "open": ""}
"""What marks a change that is sure, in a cell."""


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


def _ends(ratio: Ratio) -> dict[str, float]:
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}


def paint_all_jobs(current: str) -> "Callable[[Axes, pd.DataFrame], None]":
    """Return what draws a row a way: each figure by a marker of its own, with its interval."""

    def paint(axes: "Axes", table: pd.DataFrame) -> None:
        cases, figures = list(dict.fromkeys(table["case"])), list(dict.fromkeys(table["figure"]))
        axes.axvline(1.0, color="#555555", linewidth=1)
        axes.axvspan(1 / TOLERATED, TOLERATED, color="#999999", alpha=0.15, linewidth=0)
        for number, figure in enumerate(figures):
            part = table[table["figure"] == figure].set_index("case").reindex(cases)
            place = np.arange(len(cases)) + (number - (len(figures) - 1) / 2) * 0.15
            spread = bar_lengths(part, "ratio")
            axes.errorbar(
                part["ratio"], place, xerr=spread, marker=MARKERS[number], linestyle="none", elinewidth=1,
                color=COLOURS[number], label=figure, markersize=9 if number == 0 else 5,
            )  # fmt: skip
        axes.set_yticks(np.arange(len(cases)), cases)
        axes.invert_yaxis()
        for edge in range(1, len(cases)):
            axes.axhline(edge - 0.5, color="#999999", linewidth=0.6, linestyle=":")
        _ratio_axis(axes, table)
        axes.set(title=f"What each way changes beside {current}", xlabel=f"relative to {current}: below 1 is better")
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=3, fontsize=9)

    return paint


def _ratio_axis(axes: "Axes", table: pd.DataFrame) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = min(0.9, table["low"].min()), max(1.1, table["high"].max())
    axes.set_xscale("log")
    axes.set_xticks(ticks_between(low, high))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def paint_by_class(current: str, cases: Sequence[str]) -> "Callable[[Axes, pd.DataFrame], None]":
    """Return what draws a grid of classes by ways, the change of the mean wait written into each cell."""

    def paint(axes: "Axes", table: pd.DataFrame) -> None:
        rows = list(dict.fromkeys(zip(table["by"], table["group"], strict=True)))
        grid = np.full((len(rows), len(cases)), np.nan)
        for row in table.to_dict(orient="records"):
            at = rows.index((row["by"], row["group"])), cases.index(row["case"])
            grid[at] = np.log(row["ratio"])
            text = f"{by(row['ratio'])} {SURE[row['outcome']]}".rstrip()
            axes.text(at[1], at[0], text, ha="center", va="center", fontsize=9, color="black")
        axes.imshow(np.clip(grid, -0.7, 0.7), cmap="PuOr_r", vmin=-1.6, vmax=1.6, aspect="auto")
        jobs = table.drop_duplicates(["by", "group"])["jobs"].tolist()
        names = [f"{RUN_TIMES[name] if kind == 'run-time' else processors(name)} ({n:,})"
                 for (kind, name), n in zip(rows, jobs, strict=True)]  # fmt: skip
        axes.set_yticks(range(len(rows)), names)
        axes.set_xticks(range(len(cases)), cases)
        axes.grid(visible=False)
        axes.set(
            title=f"Change of the mean wait beside {current}, by class (jobs)",
            xlabel=f"{SURE['better']} surely shorter, {SURE['worse']} surely longer; else not sure, or hardly noticed",
        )

    return paint
