"""The frontier of backfilling: how much of the gap is closed, against what the widest jobs pay for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from experiments.backfilling_cases import CASES
from experiments.figures import COLOURS, number_beside

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

OPTIONS: Final = {
    ("easy", "requested"): ("no backfill order", "X"),
    ("easy-sjbf", "requested"): ("expired: the request", "o"),
    ("easy-sjbf", "incremental"): ("expired: incremental", "^"),
    ("easy-sjbf", "doubling"): ("expired: doubling", "v"),
    ("easy-sjbf+promise", "requested"): ("promise", "s"),
    ("default", "requested"): ("promise with slack", "D"),
}
"""Label and marker of each option, by policy and correction."""


def frontier_of(what: str) -> "Callable[[Axes, pd.DataFrame], None]":
    """Return what draws a point a case, medians with intervals or as logged, of a log by its name."""

    def paint(axes: "Axes", table: "pd.DataFrame") -> None:
        _paint(axes, table)
        axes.set_title(f"What is gained, and what the widest jobs pay for it: {what}")

    return paint


def _paint(axes: "Axes", table: "pd.DataFrame") -> None:
    from matplotlib.lines import Line2D

    axes.axvline(1.0, color="#999999", linewidth=0.8)
    cases = {case.name: case for case in CASES}
    families: list[str] = []
    options: dict[str, str] = {}
    for row in table.to_dict(orient="records"):
        case = cases[row["case"]]
        family = _family(case.name)
        families += [] if family in families else [family]
        label, marker = OPTIONS[case.policy, case.correction]
        options[label] = marker
        if not case.shaken:
            row |= {measure: row[f"{measure}_as_logged"] for measure in ("widest", "gap_closed")}
        x, y, chosen = row["widest"], 100 * row["gap_closed"], case.name in ("default", "bold")
        axes.errorbar(
            x, y,
            xerr=_bar(x, row["widest_low"], row["widest_high"]) if case.shaken else None,
            yerr=_bar(y, 100 * row["gap_closed_low"], 100 * row["gap_closed_high"]) if case.shaken else None,
            marker=marker, markersize=11 if chosen else 6, linestyle="none", elinewidth=0.6,
            zorder=3 if chosen else 2, **_look(families.index(family)),
        )  # fmt: skip
        number_beside(axes, families.index(family) + 1, x, y)
    kinds = [
        Line2D([], [], marker="o", linestyle="none", label=f"{n + 1}  {name}", **_look(n))
        for n, name in enumerate(families)
    ]
    ways = [
        Line2D([], [], marker=marker, color="#444444", linestyle="none", label=label)
        for label, marker in options.items()
    ]
    axes.set_xlabel("mean wait of the widest 5 % of jobs, relative to EASY")
    axes.set_ylabel("gap to clairvoyant EASY-SJBF closed, mean bounded slowdown [%]")
    axes.legend(handles=[*kinds, *ways], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _bar(middle: float, low: float, high: float) -> list[list[float]]:
    """Return an error bar's lengths."""
    return [[max(middle - low, 0.0)], [max(high - middle, 0.0)]]


def _family(case: str) -> str:
    """Return the estimates of a case without its options.

    Examples
    --------
    >>> [_family(name) for name in ("EASY++ + promise", "default, factor 0.7", "bold")]
    ['EASY++', 'default', 'bold']
    """
    return case.split(",")[0].split(" + ")[0]


def _look(number: int) -> dict[str, Any]:
    """Return a family's colour; from the ninth on the same colours, hollow."""
    colour = COLOURS[number % len(COLOURS)]
    return {"color": colour, "markerfacecolor": colour if number < len(COLOURS) else "white"}
