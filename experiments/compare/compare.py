"""Paired comparison of ways of scheduling, with intervals that hold together.

Of each log and seed the ratio of the two ways' figures is taken, so that both met the same shaken jobs. A log's ratio
is the geometric mean over its seeds, that of several logs the geometric mean over them; intervals resample the seeds
within each log, and the logs (`predictors.core.intervals`). Errors of predictions hardly change with the seed: where
there are errors by user, users are resampled instead, of whom one can hold half of the error.

A way is called better where the whole interval lies below 1 and no group certainly pays: never inside the noise, and
never for a win that makes others wait.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from experiments.compare import result
from experiments.compare.measures import AS_LOGGED, COMPARED
from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, unknown_name
from predictors.core.intervals import drawn_means, drawn_over, drawn_ratios, expanded, median_interval
from predictors.data.joblog import UNKNOWN
from schedsim.results.metrics import share_worse_off

if TYPE_CHECKING:
    import pandas as pd

FLOOR: Final = dict.fromkeys(("underestimation_rate", "throughput_std", "user_slowdown_gini"), 0.001)
"""Figures below this count as this, so that a ratio exists; of others 1 (1 s, or no slowdown)."""
NOBODY: Final = str(UNKNOWN)  # the group of jobs with an unknown user
WAIT: Final = "mean_wait_s"
BY_USER: Final = {"sse_s2": "sse_s2", "mae_s": "error_s", "underestimation_rate": "underestimated"}
"""Figures that are known by user, and the column of the groups that is summed."""


def compare(
    # one row a run: log, case, seed and the figures. Shaken seeds decide; where there are none, the logs as they are
    runs: "pd.DataFrame",
    case: str,  # ours; `beside` is theirs, both as in the column `case`
    beside: str,
    measure: str | None = None,  # column that decides, one of `COMPARED`; by default the kind's `MEASURE`
    *,
    kind: str = "simulate",  # what was run; each kind has its own prices
    # figures by group; of evaluations, sums of errors by user, of simulations by user, for the share of users who are
    # worse off
    groups: "pd.DataFrame | None" = None,
    level: float = result.LEVEL,  # of the interval of what decides
    # of the intervals of what is paid in. They stay as they are where many are compared: wider ones would hide who pays
    price_level: float = result.LEVEL,
    tolerated: float = result.TOLERATED,  # a price certainly above this ratio is paid
) -> result.Comparison:
    """Compare two cases of a sweep's table (see `experiments.sweeps.results`).

    >>> from experiments.sweeps.run import simulate_many
    >>> from predictors.data.synthetic.generate import generate_log
    >>> found = compare(simulate_many([generate_log(800, seed=7)], ["fcfs", "easy"], seeds=6).runs, "easy", "fcfs")
    >>> found.outcome, found.logs[0].samples, found.ratio.high < 1
    ('better', 6, True)
    """
    measure = measure or result.MEASURE[kind]
    if measure not in COMPARED or measure not in runs:
        raise unknown_name("measure", measure, [name for name in COMPARED if name in runs])
    for name in (case, beside):
        if name not in set(runs["case"]):
            raise unknown_name("case", name, dict.fromkeys(runs["case"]))
    logs, ratio = _compared(runs, case, beside, measure, groups, level)
    prices = []
    for price in result.PRICES[kind]:
        if price != measure and price in runs:
            each, over_all = _compared(runs, case, beside, price, groups, price_level)
            on = tuple(log.log for log in each if log.samples >= result.LEAST and log.ratio.above(tolerated))
            prices.append(result.Price(price, over_all, over_all.above(tolerated) or 2 * len(on) >= len(each), on))
    sure = len(logs) >= result.LEAST or all(log.samples >= result.LEAST for log in logs)
    by_user = kind == "simulate" and groups is not None and WAIT in groups
    worse_off = users_worse_off(groups, case, beside) if groups is not None and by_user else None
    found = result.Comparison(
        case, beside, measure, ratio, logs, tuple(prices), ratio.outcome if sure else "open", level, tolerated,
        worse_off,
    )  # fmt: skip
    return replace(found, outcome="at others' cost") if found.outcome == "better" and found.paid else found


def users_worse_off(groups: "pd.DataFrame", case: str, beside: str) -> result.WorseOff | None:
    """Return the share of users who are worse off under one case than under another; None where no user is known.

    Shaken seeds decide; where there are none, the logs as they are. Of several logs each seed's mean over them counts.
    `groups` are those of simulations: log, case, seed, by, group and mean_wait_s.
    """
    shares = shares_worse_off(groups, case, beside)
    shaken = shares[shares["seed"] != AS_LOGGED]
    used = shaken if len(shaken) else shares
    if used.empty:
        return None
    table = used.pivot(index="seed", columns="log", values="share").dropna()
    each = table.mean(axis="columns").to_numpy(dtype=np.float64)
    return result.WorseOff(float(np.median(each)), *median_interval(each)) if len(each) else None


def shares_worse_off(groups: "pd.DataFrame", case: str, beside: str) -> "pd.DataFrame":
    """Return the share of users who are worse off under a case than under `beside`: a row a common log and seed."""
    own = groups[(groups["by"] == "user") & (groups["group"] != NOBODY)]
    sides = [own[own["case"] == name].set_index(["log", "seed", "group"])[WAIT] for name in (case, beside)]
    both = sides[0].to_frame("now").join(sides[1].rename("before"), how="inner").reset_index()
    rows = [
        {"log": log, "seed": seed, "share": share_worse_off(part["now"], part["before"])}
        for (log, seed), part in both.groupby(["log", "seed"], sort=False)
    ]
    return type(both)(rows, columns=["log", "seed", "share"])


def compare_all(
    runs: "pd.DataFrame", beside: str | None = None, *, level: float = result.LEVEL, **options: Any
) -> tuple[result.Comparison, ...]:
    """Compare every case of a table with one of them, by default the first; options as of `compare`.

    With several others, the interval of what decides is so much wider that all of them hold together (Bonferroni): else
    one of forty copies of a case would be called better than it. Of the figures that are paid in, each is judged
    separately: rather a price too many than one too few.
    """
    cases = list(dict.fromkeys(runs["case"]))
    baseline = beside or cases[0]
    each = result.of_each(level, max(1, len(cases) - 1))
    return tuple(compare(runs, case, baseline, level=each, **options) for case in cases if case != baseline)


def choose(runs: "pd.DataFrame", *, level: float = result.LEVEL, **options: Any) -> result.Choice:
    """Name the best case, if it is certainly better than each other one (Bonferroni) without cost to anyone."""
    cases = list(dict.fromkeys(runs["case"]))
    if len(cases) < 2:
        raise JobcastError("One case alone cannot be chosen from; sweep over two or more.")
    each = result.of_each(level, len(cases) - 1)
    beside = {case: compare(runs, case, cases[0], **options).ratio.value for case in cases[1:]}
    first = min(cases, key=lambda case: beside.get(case, 1.0))
    against = tuple(compare(runs, first, other, level=each, **options) for other in cases if other != first)
    won = all(comparison.outcome == "better" for comparison in against)
    return result.Choice(first if won else None, first, against)


def _compared(
    runs: "pd.DataFrame", case: str, beside: str, measure: str, groups: "pd.DataFrame | None", level: float
) -> tuple[tuple[result.LogResult, ...], result.Ratio]:
    logs, values, draws = [], [], []
    for log, value, drawn, samples in _drawn(runs, case, beside, measure, groups):
        ratio = _ratio(value, drawn, samples, level)
        logs.append(result.LogResult(log, ratio, samples, ratio.outcome if samples >= result.LEAST else "open"))
        values.append(value)
        draws.append(drawn)
    if not logs:
        raise JobcastError(f"{case!r} and {beside!r} have no log and seed in common: nothing can be compared.")
    if len(logs) == 1:
        return tuple(logs), logs[0].ratio
    return tuple(logs), _ratio(float(np.mean(values)), drawn_over(draws), len(logs), level)


def paired_ratio(pairs: Floats, measure: str) -> result.Ratio:
    """Return ours / theirs of a figure of one log, and its interval, from a row a seed, shape (n_seeds, 2)."""
    values = _logs(pairs, measure)
    return _ratio(float(values.mean()), drawn_means(values), len(values), result.LEVEL)


def _logs(pairs: Floats, measure: str) -> Floats:
    floored: Floats = np.log(np.maximum(pairs, FLOOR.get(measure, 1.0)))
    return floored[:, 0] - floored[:, -1]


def _ratio(value: float, draws: Floats, samples: int, level: float) -> result.Ratio:
    low, high = expanded(draws, samples, level)
    return result.Ratio(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)))


def _drawn(
    runs: "pd.DataFrame", case: str, beside: str, measure: str, groups: "pd.DataFrame | None"
) -> Iterator[tuple[str, float, Floats, int]]:
    """Yield for each log the logarithm of the ratio, draws of it, and how many values were resampled."""
    if groups is not None and BY_USER.get(measure) in groups:
        yield from _drawn_by_user(groups[groups["by"] == "user"], case, beside, BY_USER[measure])
        return
    shaken = runs[runs["seed"] != AS_LOGGED]
    used = shaken if len(shaken) else runs
    for log, part in used.groupby("log", sort=False):
        both = part.loc[part["case"].isin((case, beside)), ["seed", "case", measure]]
        table = both.pivot(index="seed", columns="case", values=measure)
        if case not in table or beside not in table:
            continue
        pairs = table[[case, beside]].dropna().to_numpy(dtype=np.float64)
        if len(pairs):
            values = _logs(pairs, measure)
            yield str(log), float(values.mean()), drawn_means(values), len(values)


def _drawn_by_user(
    groups: "pd.DataFrame", case: str, beside: str, column: str
) -> Iterator[tuple[str, float, Floats, int]]:
    for log, part in groups.groupby("log", sort=False):
        table = part.pivot_table(index="group", columns="case", values=column, aggfunc="mean")
        if case not in table or beside not in table:
            continue
        ours, theirs = (table[name].fillna(0.0).to_numpy(dtype=np.float64) + TINY for name in (case, beside))
        drawn = np.log(drawn_ratios(np.arange(len(table)), ours, theirs))
        yield str(log), float(np.log(ours.sum() / theirs.sum())), drawn, len(table)


TINY: Final = 1e-9  # added to each user's sum, so that a ratio exists where no one errs
