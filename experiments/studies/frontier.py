"""Families of schedulers as curves: one parameter of a rule moves along the frontier of gain and price.

A family varies one number of `balanced` or `careful` and leaves the others as they are: a weight of the queue order, an
estimate, a guarantee. Gain is the gap closed or the mean wait, price the longest wait, the mean wait of the widest 5 %
of jobs, or the 99th percentile, all relative to EASY on the same shaken log. A curve that lies left and above of
another one is better at each price.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from experiments.compare.measures import MEASURES
from experiments.compare.relative import RATIOS
from experiments.reports.figures import COLOURS, MARKERS, Axes
from experiments.sweeps.sweep import Case
from predictors.models.similar_jobs import REVISED_ESTIMATES, SimilarRuns
from schedsim.policies.backfilling import Promise
from schedsim.policies.orders import Order
from schedsim.policies.policy import BALANCED, CAREFUL, Policy

HOUR: Final = 3600
WEIGHTS: Final = (0.0, 0.3, 0.6, 0.9, 1.2)


@dataclass(frozen=True)
class Family:
    """Cases that differ in one number."""

    name: str
    parameter: str  # what the number is, with its unit
    values: tuple[float | None, ...]  # in order; None stands for "none"
    case: Callable[[float | None], tuple[Policy, str | SimilarRuns]]  # the policy and the estimates of a value
    usual: float | None = None  # the value at which the family is `named`
    named: str = ""  # the registered setting that the family passes through; empty if none

    def cases(self) -> Iterator[tuple[float | None, Case]]:
        """Yield the values and their cases; that of a registered setting is this setting."""
        for value in self.values:
            if self.named and value == self.usual:
                yield value, Case(self.named, self.named, self.named)
                continue
            rule, estimates = self.case(value)
            base = "careful" if rule.order.priority is None else "balanced"
            yield value, Case(f"{self.name} {told(value)}", base, estimates, rule=rule)


def told(value: float | None) -> str:
    """Return a family's value in words.

    >>> told(0.5), told(12.0), told(None)
    ('0.5', '12', 'none')
    """
    return "none" if value is None else f"{value:g}"


def _priority(**changed: Any) -> Order:
    assert BALANCED.order.priority is not None
    return Order.by_priority(replace(BALANCED.order.priority, **changed))


def _weighted(value: float | None) -> Policy:
    return replace(BALANCED, order=_priority(estimate=value))


def _free(value: float | None) -> Policy:
    """Return `balanced` without promise and due dates, by another weight of the estimate."""
    return replace(BALANCED, order=_priority(estimate=value, grace=None, share=0.0), promise=None)


def _due(value: float | None) -> Policy:
    """Return `balanced` with another least time until a job is due [h]; None: no job is ever due."""
    if value is None:
        return replace(BALANCED, order=_priority(grace=None, share=0.0))
    return replace(BALANCED, order=_priority(grace=int(value * HOUR)))


def _slack(value: float | None) -> Policy:
    """Return `careful` with another slack of the promise [h]; None: no promise."""
    return replace(CAREFUL, promise=None if value is None else Promise(slack=int(value * HOUR)))


def _kept(value: float | None) -> Policy:
    """Return `balanced` with the slack of its promise multiplied, its growth and limits too; None: no promise."""
    own = BALANCED.promise
    assert own is not None
    if value is None:
        return replace(BALANCED, promise=None)
    slack, least, most = (round(seconds * value) for seconds in (own.slack, own.least, own.most))
    promise = replace(own, slack=slack, least=least, most=most, growth=own.growth * value)
    return replace(BALANCED, promise=promise)


def _times(value: float | None) -> SimilarRuns:
    assert value is not None
    return replace(REVISED_ESTIMATES["careful"], factor=value)


def _usual(name: str) -> Any:
    return getattr(BALANCED.order.priority, name)


def _around(values: Sequence[float | None], usual: float) -> tuple[float | None, ...]:
    """Return values with the usual one among them.

    >>> _around((0.0, 2.0, None), 1.0)
    (0.0, 1.0, 2.0, None)
    """
    numbers = sorted({*(one for one in values if one is not None), usual})
    return (*numbers, *(None for one in values if one is None))


FAMILIES: Final = (  # order, estimates and guarantee, one number each, which in a registered setting is its value
    Family("weight of the estimate", "weight", _around(WEIGHTS, _usual("estimate")),
           lambda v: (_weighted(v), "balanced"), _usual("estimate"), "balanced"),
    Family("weight, no guarantee", "weight", WEIGHTS, lambda v: (_free(v), "balanced")),
    Family("weight, requested times", "weight", WEIGHTS, lambda v: (_weighted(v), "requested")),
    Family("weight, true run times", "weight", WEIGHTS, lambda v: (_weighted(v), "clairvoyant")),
    Family("due dates of balanced", "grace [h]", _around((0.0, 6.0, 72.0, None), _usual("grace") / HOUR),
           lambda v: (_due(v), "balanced"), _usual("grace") / HOUR, "balanced"),
    Family("promise of balanced", "times its slack", _around((0.0, 2.0, 8.0, None), 1.0),
           lambda v: (_kept(v), "balanced"), 1.0, "balanced"),
    Family("promise of careful", "slack [h]", _around((0.0, 6.0, 72.0, None), 24.0),
           lambda v: (_slack(v), "careful"), 24.0, "careful"),
    Family("candidates of careful", "factor", _around((0.4, 0.6, 1.0, 1.3), REVISED_ESTIMATES["careful"].factor),
           lambda v: (CAREFUL, _times(v)), REVISED_ESTIMATES["careful"].factor, "careful"),
)  # fmt: skip


def family_cases() -> tuple[Case, ...]:
    """Return the cases of all families, each once."""
    return tuple({case.name: case for family in FAMILIES for _, case in family.cases()}.values())


def along(table: pd.DataFrame, families: Sequence[Family] = FAMILIES) -> pd.DataFrame:
    """Return medians by case as a row a family and value, in the order of the curves.

    >>> along(pd.DataFrame({"case": ["weight of the estimate 0"], "wait": [0.7]}), FAMILIES[:1]).to_numpy().tolist()
    [['weight of the estimate', 'weight', '0', 'weight of the estimate 0', 0.7]]
    """
    known = table.set_index("case")
    rows = [
        {"family": family.name, "parameter": family.parameter, "value": told(value), "case": case.name,
         **known.loc[case.name].to_dict()}
        for family in families
        for value, case in family.cases()
        if case.name in known.index
    ]  # fmt: skip
    return pd.DataFrame(rows)


GAINS: Final[Mapping[str, tuple[str, float]]] = {
    "gap_closed": ("gap closed, mean bounded slowdown [%]", 100.0),
    "wait": ("mean wait, relative to EASY (less is upwards)", 1.0),
}
PRICES: Final = ("longest", "widest", "p99")
SETTINGS: Final = ("EASY", "careful", "balanced", "bold", "clairvoyant EASY-SJBF")
"""What is drawn next to the curves, as points with their names."""


def paint_curves(axes: Axes, table: pd.DataFrame, what: str, points: pd.DataFrame) -> None:
    """Draw each family as a curve, gains upwards and prices across; `points` are the named settings."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = axes.figure
    axes.remove()
    panels = figure.subplots(len(GAINS), len(PRICES), sharex="col", sharey="row")
    settings = points[points["case"].isin(SETTINGS)].set_index("case")
    for row, (gain, (label, scale)) in enumerate(GAINS.items()):
        for column, price in enumerate(PRICES):
            here = panels[row][column]
            for number, (_, part) in enumerate(table.groupby("family", sort=False)):
                _curve(here, part, price, gain, scale, number)
            _settings(here, settings, price, gain, scale)
            here.axvline(1.0, color="#999999", linewidth=0.8)
            here.set_xscale("log")
            _ratio_ticks(here, table[price])
            if row == len(GAINS) - 1:
                here.set_xlabel(f"{MEASURES[RATIOS[price]].title}, relative to EASY")
            if column == 0:
                here.set_ylabel(label)
        if gain == "wait":
            panels[row][0].invert_yaxis()
    panels[0][1].set_title(f"One parameter of a rule moves along its curve: {what}")
    handles, names = panels[0][0].get_legend_handles_labels()
    legend = panels[-1][1].legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=9)
    legend.set_in_layout(False)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0, 0.11, 1, 0.89))  # room for the legend


def _curve(axes: Axes, part: pd.DataFrame, price: str, gain: str, scale: float, number: int) -> None:
    first, last = part["value"].iloc[0], part["value"].iloc[-1]
    label = f"{part['family'].iloc[0]}: {part['parameter'].iloc[0]} {first} to {last}"
    x, y = part[price].to_numpy(), scale * part[gain].to_numpy()
    axes.plot(x, y, marker=MARKERS[number % len(MARKERS)], markersize=4, linewidth=1.2,
              color=COLOURS[number % len(COLOURS)], label=label)  # fmt: skip
    for place, value in ((0, first), (-1, last)):
        axes.annotate(value, (x[place], y[place]), (3, 3), textcoords="offset points", fontsize=7,
                      color=COLOURS[number % len(COLOURS)])  # fmt: skip


def _settings(axes: Axes, settings: pd.DataFrame, price: str, gain: str, scale: float) -> None:
    for name in settings.index:
        x, y = settings.loc[name, price], scale * settings.loc[name, gain]
        axes.plot(x, y, marker="*", markersize=11, linestyle="none", color="black", zorder=4)
        axes.annotate(str(name).replace("EASY-SJBF", "SJBF"), (x, y), (6, -10), textcoords="offset points", fontsize=8)


def _ratio_ticks(axes: Axes, values: "pd.Series[float]") -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = min(0.95, float(values.min())), max(1.05, float(values.max()))
    named = [tick for tick in (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
             if 0.97 * low <= tick <= 1.03 * high]  # fmt: skip
    if high / low > 2.5:
        named = [tick for tick in named if tick in (0.2, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)]
    axes.set_xticks(named)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
