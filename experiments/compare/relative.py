"""Figures relative to EASY, with medians over seeds and logs."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import pandas as pd

from experiments.compare.measures import AS_LOGGED
from predictors.core.intervals import mean_interval, median_interval

RATIOS: Final = {"wait": "mean_wait_s", "p99": "p99_wait_s", "longest": "max_wait_s", "widest": "widest5_mean_wait_s"}
"""Columns relative to EASY: which figure of a schedule."""
COLUMNS: Final = ("gap_closed", *RATIOS)
FURTHER: Final = {  # more columns relative to EASY, where a study asks for them
    "response_by_area": "area_weighted_mean_response_s",
    "wait_by_area": "area_weighted_mean_wait_s",
    "throughput": "throughput_std",
    "user_gini": "user_slowdown_gini",
}
WORSE_OFF: Final = "users_worse_off"  # share of users who are worse off than under EASY
ALL: Final = (*COLUMNS, *FURTHER, WORSE_OFF)


def relative(
    own: Mapping[str, float], easy: Mapping[str, float], best: Mapping[str, float], ratios: Mapping[str, str] = RATIOS
) -> dict[str, float]:
    """Return the share of the gap closed, and what is paid relative to EASY; NaN where EASY leaves nothing to gain.

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
        **{column: own[name] / easy[name] if easy[name] > 0 else np.nan for column, name in ratios.items()},
    }


def over_seeds(
    runs: pd.DataFrame, keys: Sequence[str], measures: Sequence[str] = (), middle: Literal["median", "mean"] = "median"
) -> pd.DataFrame:
    """Return medians or means over the seeds of measures (default: all), with `_low` and `_high`, a row a key."""
    interval = median_interval if middle == "median" else mean_interval
    rows, measures = [], measures or [column for column in runs.columns if column not in (*keys, "seed")]
    for key, group in runs.groupby(list(keys), sort=False):
        row: dict[str, object] = dict(zip(keys, key, strict=True))
        for measure in measures:
            values = group[measure].to_numpy(dtype=np.float64)
            low, high = interval(values)
            row |= {measure: group[measure].agg(middle), f"{measure}_low": low, f"{measure}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def with_intervals(rows: pd.DataFrame, column: str, form: str, scale: float = 1.0) -> list[str]:
    """Return a column of `over_seeds` as text: each median with its interval in brackets, unless that has no width.

    >>> with_intervals(pd.DataFrame({"wait": [0.5], "wait_low": [0.25], "wait_high": [1.0]}), "wait", "+.1f", 10)
    ['+5.0 [+2.5, +10.0]']
    >>> with_intervals(pd.DataFrame({"wait": [0.5, np.nan], "wait_low": 0.5, "wait_high": 0.5}), "wait", ".1f")
    ['0.5', '-']
    """
    columns = rows[[column, f"{column}_low", f"{column}_high"]].itertuples(index=False)
    return [_with_interval(scale * middle, scale * low, scale * high, form) for middle, low, high in columns]


def _with_interval(middle: float, low: float, high: float, form: str) -> str:
    if np.isnan(middle):
        return "-"
    return f"{middle:{form}} [{low:{form}}, {high:{form}}]" if low < high else f"{middle:{form}}"


def shaken_beside_as_logged(runs: pd.DataFrame) -> pd.DataFrame:
    """Return medians over the shaken seeds, one row a case, and as `_as_logged` the run on the log as it is."""
    shaken, columns = runs["seed"] != AS_LOGGED, measured(runs)
    table = over_seeds(runs.assign(**{m: runs[m].where(shaken) for m in columns}), ["case"], columns)
    as_logged = runs[~shaken].drop_duplicates("case").set_index("case")
    return table.assign(**{f"{m}_as_logged": table["case"].map(as_logged[m]) for m in columns})


def measured(runs: pd.DataFrame) -> list[str]:
    """Return the columns of a table of runs that are figures relative to EASY's."""
    return [name for name in ALL if name in runs]


def over_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the same for the means over logs: of each seed the mean over the logs, of these the median.

    Only seeds that every log has count. A log that lacks a measure for some seed or case (EASY leaves no gap, or no one
    waits) is left out of that measure's means. `_worst` is the worst log's median.
    """
    n_logs, columns = runs["log"].nunique(), measured(runs)
    there = _there(runs)
    used = runs.assign(**{m: runs[m].where(runs["log"].map(there[m])) for m in columns})
    means = used.groupby(["case", "seed"], sort=False)[columns].mean().reset_index()
    complete = used.groupby(["case", "seed"], sort=False)["log"].nunique().reset_index(drop=True) == n_logs
    table = shaken_beside_as_logged(means[complete])
    per_log = used[used["seed"] != AS_LOGGED].groupby(["case", "log"], sort=False)[columns].median()
    for measure in columns:
        by_case = per_log[measure].groupby("case")
        table[f"{measure}_worst"] = table["case"].map(by_case.min() if measure == "gap_closed" else by_case.max())
    table.insert(1, "logs", n_logs)
    return table


def _there(runs: pd.DataFrame) -> pd.DataFrame:
    """Return which logs have which measures in all their runs: a row a log, a column a measure."""
    return runs[measured(runs)].notna().groupby(runs["log"]).all()


def left_out(runs: pd.DataFrame) -> str:
    """Say which logs are left out of which measure's means; nothing if none is."""
    there = _there(runs)
    gone = [f"{measure} without {', '.join(there.index[~there[measure]])}" for measure in there
            if not there[measure].all()]  # fmt: skip
    return f"Not every log has every measure: {'; '.join(gone)}." if gone else ""
