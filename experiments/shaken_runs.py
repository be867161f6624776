"""What do schedules of a log and its shakes say, beside EASY's? Ratios run by run, medians and means over logs."""

from math import comb
from typing import Final

import numpy as np
import pandas as pd

from experiments.sweep_results import AS_LOGGED

RATIOS: Final = {
    "wait": "mean_wait_s",
    "p99": "p99_wait_s",
    "longest": "max_wait_s",
    "widest": "widest5_mean_wait_s",
}
"""Columns relative to EASY: which figure of a schedule."""
IN_WORDS: Final = {
    "wait": "mean wait",
    "p99": "99th percentile of wait",
    "longest": "longest wait",
    "widest": "mean wait of the widest 5 %",
}
"""The same in words."""
MEASURES: Final = ("gap_closed", *RATIOS)


def relative(own: dict[str, float], easy: dict[str, float], best: dict[str, float]) -> dict[str, float]:
    """Return the share of the gap closed, and what is paid relative to EASY; NaN where EASY leaves nothing to gain.

    Examples
    --------
    >>> easy = {"mean_bounded_slowdown": 9.0, **dict.fromkeys(RATIOS.values(), 40)}
    >>> own, best = {**easy, "mean_bounded_slowdown": 6.0, "max_wait_s": 50}, {**easy, "mean_bounded_slowdown": 5.0}
    >>> relative(own, easy, best)
    {'slowdown': 6.0, 'gap_closed': 0.75, 'wait': 1.0, 'p99': 1.0, 'longest': 1.25, 'widest': 1.0}
    """
    slowdown = "mean_bounded_slowdown"
    gap = easy[slowdown] - best[slowdown]
    return {
        "slowdown": own[slowdown],
        "gap_closed": (easy[slowdown] - own[slowdown]) / gap if gap > 0 else np.nan,
        **{column: own[name] / easy[name] if easy[name] > 0 else np.nan for column, name in RATIOS.items()},
    }


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """Return medians over the shaken seeds, one row a case, with intervals `_low`, `_high`, and `_as_logged` beside."""
    rows = []
    for name, group in runs.groupby("case", sort=False):
        shaken_runs, as_logged = group[group["seed"] != AS_LOGGED], group[group["seed"] == AS_LOGGED]
        row: dict[str, object] = {"case": name}
        for measure in MEASURES:
            low, high = interval(shaken_runs[measure].to_numpy())
            row |= {measure: shaken_runs[measure].median(), f"{measure}_low": low, f"{measure}_high": high}
        for measure in MEASURES:
            row[f"{measure}_as_logged"] = as_logged[measure].iloc[0] if len(as_logged) else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def over_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the same for the means over logs: of each seed the mean over the logs, of these the median.

    Only seeds that every log has count. A log that lacks a measure for some seed or case (EASY leaves no gap, or nobody
    waits) is left out of that measure's means. `_worst` is the worst log's median.
    """
    n_logs = runs["log"].nunique()
    there = _there(runs)
    used = runs.assign(**{m: runs[m].where(runs["log"].map(there[m])) for m in MEASURES})
    means = used.groupby(["case", "seed"], sort=False)[list(MEASURES)].mean().reset_index()
    complete = used.groupby(["case", "seed"], sort=False)["log"].nunique().reset_index(drop=True) == n_logs
    table = over_seeds(means[complete])
    per_log = used[used["seed"] != AS_LOGGED].groupby(["case", "log"], sort=False)[list(MEASURES)].median()
    for measure in MEASURES:
        by_case = per_log[measure].groupby("case")
        table[f"{measure}_worst"] = table["case"].map(by_case.min() if measure == "gap_closed" else by_case.max())
    table.insert(1, "logs", n_logs)
    return table


def _there(runs: pd.DataFrame) -> pd.DataFrame:
    """Return which logs have which measures in all their runs: a row a log, a column a measure."""
    return runs[list(MEASURES)].notna().groupby(runs["log"]).all()


def left_out(runs: pd.DataFrame) -> str:
    """Say which logs are left out of which measure's means; nothing if none is."""
    there = _there(runs)
    gone = [f"{measure} without {', '.join(there.index[~there[measure]])}" for measure in MEASURES
            if not there[measure].all()]  # fmt: skip
    return f"Not every log has every measure: {'; '.join(gone)}." if gone else ""


def interval(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", confidence: float = 0.95) -> tuple[float, float]:
    """Return the narrowest pair of order statistics that holds the median with this confidence; else least and largest.

    Values that do not exist (NaN) do not count.

    Examples
    --------
    >>> interval(np.arange(10.0))
    (1.0, 8.0)
    >>> interval(np.array([3.0, 1.0]))
    (1.0, 3.0)
    >>> interval(np.array([3.0, np.nan, 1.0]))
    (1.0, 3.0)
    """
    ordered = np.sort(values[~np.isnan(values)])
    n, below, cut = len(ordered), 0.0, 0
    while n and cut < n // 2:
        below += comb(n, cut) / 2.0**n
        if 1 - 2 * below < confidence:
            break
        cut += 1
    first = max(cut - 1, 0)
    return (float(ordered[first]), float(ordered[n - 1 - first])) if n else (np.nan, np.nan)
