"""Pictures of the study of predictors: errors with intervals, errors by run time, costs, and what an error buys."""

from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures import COLOURS, MARKERS
from predictors.registry import PREDICTORS


def _look(name: str) -> dict[str, str]:
    """Return a predictor's colour and marker, the same in every picture."""
    number = list(PREDICTORS).index(name)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
    }


def paint_errors(axes: Axes, table: pd.DataFrame) -> None:
    """Squared error relative to last-two, with 95 % intervals over users."""
    at = np.arange(len(table))[::-1]
    middle = table["ratio_to_last_two"].to_numpy()
    spread = np.abs(table[["ratio_low", "ratio_high"]].to_numpy().T - middle)
    axes.errorbar(middle, at, xerr=spread, fmt="o", color=COLOURS[0], capsize=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(at, table["predictor"])
    _log_in_numbers(axes, "x")
    axes.set(title="Squared error on the last 20 % of the jobs", xlabel="relative to last-two (95 % over users)")


def paint_slices(axes: Axes, table: pd.DataFrame) -> None:
    """Mean absolute error by class of run time, a line a predictor."""
    labels = list(dict.fromkeys(table["slice"]))
    for name, part in table.groupby("predictor", sort=False):
        values = part.set_index("slice")["mae_s"].reindex(labels) / 60
        axes.plot(range(len(labels)), values, label=str(name), markersize=5, **_look(str(name)))  # type: ignore[arg-type]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yscale("log")
    axes.set(title="Where the errors fall", xlabel="run time of the job", ylabel="mean absolute error [min]")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def paint_cost(axes: Axes, table: pd.DataFrame) -> None:
    """Error against the time to predict one job."""
    _scatter(axes, table["predict_us_per_job"].clip(lower=1e-2), table["ratio_to_last_two"], table["predictor"])
    axes.set_xscale("log")
    _log_in_numbers(axes, "y")
    axes.set(title="What a prediction costs", xlabel="time to predict a job, in bulk [µs]")
    axes.set_ylabel("squared error relative to last-two")


def paint_gain(axes: Axes, table: pd.DataFrame) -> None:
    """Share of the gap to perfect knowledge closed, against the squared error."""
    _scatter(axes, table["ratio_to_last_two"], 100 * table["gap_closed"], table["predictor"])
    _log_in_numbers(axes, "x")
    axes.set(title="Does a lower error buy a lower slowdown?", xlabel="squared error relative to last-two")
    axes.set_ylabel("gap closed between EASY and clairvoyant EASY-SJBF [%]")


def _log_in_numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _scatter(axes: Axes, x: pd.Series, y: pd.Series, names: pd.Series) -> None:
    for one, other, name in zip(x, y, names, strict=True):
        axes.plot(one, other, linestyle="none", label=str(name), markersize=8, **_look(str(name)))  # type: ignore[arg-type]
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
