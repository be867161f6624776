"""Pictures of the study of predictors: errors with intervals, errors by run time, costs, and what an error buys."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from experiments.compare.measures import MEASURES
from experiments.reports.figures import (
    COLOURS,
    HATCHES,
    MARKERS,
    Axes,
    bar_lengths,
    legend_beside,
    legend_of_points,
    look_of,
    number_beside,
)
from predictors.registry import PREDICTORS

WAY_MARKERS = {"EASY": "P", "request": "o", "incremental": "^", "doubling": "v", "promise with slack": "D"}
TOP_ATTRIBUTES = 15
LEAST_GAP = -100.0  # percent of the gap closed below which points are drawn at the foot


def _look(name: str) -> dict[str, Any]:
    """Return a predictor's colour and marker, the same in every picture; markers are filled or hollow."""
    number = list(PREDICTORS).index(name)
    return look_of(number) | {"marker": MARKERS[number % len(MARKERS)]}


def paint_errors(axes: Axes, table: pd.DataFrame) -> None:
    """Squared error relative to last-two, with 95 % intervals over users; a colour a split."""
    splits = list(dict.fromkeys(table["split"]))
    names = list(table[table["split"] == splits[0]]["predictor"])
    for number, split in enumerate(splits):
        part = table[table["split"] == split].set_index("predictor").reindex(names)
        middle = part["ratio_to_last_two"].to_numpy()
        spread = bar_lengths(part, "ratio_to_last_two", "ratio_low", "ratio_high")
        at = np.arange(len(names))[::-1] + 0.25 * (1 - number)
        axes.errorbar(
            middle, at, xerr=spread, fmt=MARKERS[number], color=COLOURS[number], capsize=2, markersize=5, label=split
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(np.arange(len(names))[::-1], names)
    _log_in_numbers(axes, "x")
    axes.set(title="Squared error, by split", xlabel="relative to last-two (95 % over users)")
    legend_beside(axes)


def paint_slices(axes: Axes, table: pd.DataFrame) -> None:
    """Mean absolute error by class of run time, a line a predictor."""
    labels = list(dict.fromkeys(table["slice"]))
    for name, part in table.groupby("predictor", sort=False):
        values = part.set_index("slice")["mae_s"].reindex(labels) / 60
        style = "-" if list(PREDICTORS).index(str(name)) < len(COLOURS) else "--"
        axes.plot(range(len(labels)), values, style, label=str(name), markersize=5, **_look(str(name)))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yscale("log")
    axes.set(title="Where the errors fall", xlabel="run time of the job", ylabel="mean absolute error [min]")
    legend_beside(axes, fontsize=8)


def paint_cost(axes: Axes, table: pd.DataFrame) -> None:
    """Error against what a job costs that is predicted alone and learnt from."""
    _scatter(axes, table["stream_us"].clip(lower=1e-2), table["ratio_to_last_two"], table["predictor"])
    axes.set_xscale("log")
    _log_in_numbers(axes, "y")
    axes.set(title="What a job costs", xlabel="time for a job: features, prediction, learning, refits [µs]")
    axes.set_ylabel("squared error relative to last-two")


def paint_gain(axes: Axes, table: pd.DataFrame) -> None:
    """Share of the gap to perfect knowledge closed, against the squared error."""
    _scatter(axes, table["ratio_to_last_two"], 100 * table["gap_closed"], table["predictor"])
    _log_in_numbers(axes, "x")
    axes.set(title="Does a lower error buy a lower slowdown?", xlabel="squared error relative to last-two")
    axes.set_ylabel("gap closed between EASY and clairvoyant EASY-SJBF [%]")


def paint_frontier(axes: Axes, table: pd.DataFrame) -> None:
    """Gap closed against the wait of the widest jobs: a colour a predictor, a marker a way; upper left is better."""
    from matplotlib.ticker import LogLocator, NullLocator

    names, ways = list(dict.fromkeys(table["predictor"])), list(dict.fromkeys(table["way"]))
    for row in table.to_dict(orient="records"):
        look = look_of(names.index(row["predictor"])) | {"marker": WAY_MARKERS[row["way"]]}
        x, y = row["widest"], max(100 * row["gap_closed"], LEAST_GAP)
        axes.plot(x, y, linestyle="none", markersize=7, **look)
        number_beside(axes, names.index(row["predictor"]) + 1, x, y)
    axes.axvline(1, color="#999999", linewidth=0.8)
    axes.set_xscale("log")
    near = table["widest"].max() < 2
    marks = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 9.0, 9.5) if near else (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=marks))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(title="What is gained, and what the widest jobs pay (as logged, not shaken)")
    axes.set_xlabel(f"{MEASURES['widest5_mean_wait_s'].title} of jobs, relative to EASY")
    foot = f", {LEAST_GAP:g} or less at the foot" if (table["gap_closed"] < LEAST_GAP / 100).any() else ""
    axes.set_ylabel(f"gap to clairvoyant EASY-SJBF closed [%]{foot}")
    legend_of_points(axes, names, {way: WAY_MARKERS[way] for way in ways})


def paint_importances(axes: Axes, table: pd.DataFrame) -> None:
    """Growth of the squared error when an attribute is permuted: those that matter most to any predictor."""
    best = table.groupby("attribute")["growth"].max().sort_values(ascending=False).index[:TOP_ATTRIBUTES]
    names = list(dict.fromkeys(table["predictor"]))
    at, height = np.arange(len(best))[::-1], 0.8 / len(names)
    for number, name in enumerate(names):
        values = table[table["predictor"] == name].set_index("attribute")["growth"].reindex(best)
        offset = height * ((len(names) - 1) / 2 - number)
        axes.barh(at + offset, 100 * values, height, label=name, color=COLOURS[number], hatch=HATCHES[number],
                  edgecolor="white")  # fmt: skip
    axes.set_yticks(at, [str(name).replace("_", " ") for name in best])
    axes.set_xscale("symlog", linthresh=1.0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(title="What predictors rely on", xlabel="growth of the squared error when the attribute is permuted [%]")
    axes.legend(loc="lower right")


def paint_errors_to_order(axes: Axes, table: pd.DataFrame) -> None:
    """Mean bounded slowdown against the bias of the estimates, a line a spread."""
    for number, (spread, part) in enumerate(table.groupby("spread")):
        axes.plot(
            part["factor"], part["slowdown"], color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)], markersize=5, label=f"spread {float(str(spread)):g}",
        )  # fmt: skip
    axes.axhline(1, color="black", linewidth=1)
    _log_in_numbers(axes, "x")
    axes.set(title=f"Errors made to order: {table['policy'].iloc[0]}", xlabel="estimate / run time, median")
    axes.set_ylabel("mean bounded slowdown / by true run times")
    axes.legend(title="of log(estimate / run time)")


def _log_in_numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _scatter(axes: Axes, x: pd.Series, y: pd.Series, names: pd.Series) -> None:
    for number, (one, other, name) in enumerate(zip(x, y, names, strict=True), 1):
        axes.plot(one, other, linestyle="none", label=f"{number}  {name}", markersize=8, **_look(str(name)))
        number_beside(axes, number, one, other)
    legend_beside(axes, fontsize=8)
