"""The frontier of backfilling: how much of the gap is closed, against what the widest jobs pay for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.figures import COLOURS, MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def frontier_of(what: str) -> "Callable[[Axes, pd.DataFrame], None]":
    """Return what draws a point a case, medians with their intervals, of a log by its name; upper left is better."""

    def paint(axes: "Axes", table: "pd.DataFrame") -> None:
        _paint(axes, table)
        axes.set_title(f"What is gained, and what the widest jobs pay for it: {what}")

    return paint


def _paint(axes: "Axes", table: "pd.DataFrame") -> None:
    ours = ("default", "bold")
    axes.axvline(1.0, color="#999999", linewidth=0.8)
    for place, row in enumerate(table.to_dict(orient="records")):
        x, y = row["widest"], 100 * row["gap_closed"]
        chosen = row["case"] in ours
        axes.errorbar(
            x, y,
            xerr=[[max(x - row["widest_low"], 0.0)], [max(row["widest_high"] - x, 0.0)]],
            yerr=[[max(y - 100 * row["gap_closed_low"], 0.0)], [max(100 * row["gap_closed_high"] - y, 0.0)]],
            marker=MARKERS[(place + place // len(COLOURS)) % len(MARKERS)], color=COLOURS[place % len(COLOURS)],
            markersize=10 if chosen else 6, linestyle="none", elinewidth=0.8, alpha=1.0 if chosen else 0.8,
            label=row["case"], zorder=3 if chosen else 2,
        )  # fmt: skip
    axes.set_xlabel("mean wait of the widest 5 % of jobs, relative to EASY")
    axes.set_ylabel("gap to clairvoyant EASY-SJBF closed, mean bounded slowdown [%]")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
