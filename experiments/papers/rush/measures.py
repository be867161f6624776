"""Measures of RUSH trials: variation, makespan and waits, paired by seed.

A run varies if it is more than 1.5 standard deviations above the mean of the control jobs of its application and number
of nodes: the same yardstick for every policy. Differences are taken within a seed. Means come with the interval of a
bootstrap over seeds, medians with order statistics; both hold with 95 % confidence.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd

from experiments.compare.relative import over_seeds
from predictors.core.arrays import Floats
from predictors.core.intervals import drawn_means, expanded, mean_interval, median_interval
from predictors.variability.labels import VARIATION_Z, Norms
from predictors.variability.selection.scores import scores

EASY: Final = "FCFS+EASY"
RUSH: Final = "RUSH"
RANDOM: Final = "random delays"
ORACLE: Final = "oracle"
CALM_EASY: Final = "no contention: FCFS+EASY"
CALM_RUSH: Final = "no contention: RUSH"
KEYS: Final = ["experiment", "policy"]

PAPER: Final = (  # the paper's figures: experiment, what, its value, our column, our policy
    ("ADAA", "runs that vary, FCFS+EASY", "17", "varying", EASY),
    ("ADAA", "runs that vary, RUSH", "4", "varying", RUSH),
    ("ADAA", "makespan FCFS+EASY [s]", "1800 to 3000", "makespan_s", EASY),
    ("ADAA", "makespan saved [s]", "18 to 66", "makespan_saved_s", RUSH),
    ("ADAA", "jobs at the skip threshold", "0", "met", RUSH),
    ("ADAA", "mean wait added, the late 80 % [s]", "less than 60", "wait_added_s", RUSH),
    ("ADPA", "makespan saved [s]", "18 to 66", "makespan_saved_s", RUSH),
    ("PDPA", "makespan saved [s]", "18 to 66", "makespan_saved_s", RUSH),
    ("WS", "makespan saved [s]", "18 to 66", "makespan_saved_s", RUSH),
    ("SS", "makespan saved [s]", "18 to 66", "makespan_saved_s", RUSH),
    ("SS", "longest run shortened, mean over applications [%]", "up to 5.8", "longest_shortened_pct", RUSH),
)


def with_z(runs: pd.DataFrame, norms: Norms) -> pd.DataFrame:
    """Return runs with their z against what is normal, and whether they vary."""
    z = norms.z(runs["application"], runs["nodes"], runs["run_time"])
    return runs.assign(z=z.round(3), varies=z > VARIATION_Z)


def per_trial(runs: pd.DataFrame) -> pd.DataFrame:
    """Return figures that come from the runs, one row a trial; waits are those of the jobs not there at the start."""
    late = runs[runs["submit"] > 0]
    groups, waits = runs.groupby(["experiment", "seed", "policy"], sort=False), late.groupby(
        ["experiment", "seed", "policy"], sort=False
    )  # fmt: skip
    return pd.DataFrame(
        {"varying": groups["varies"].sum(), "longest_s": groups["run_time"].max(), "wait_s": waits["wait"].mean()}
    ).reset_index()


def paired(trials: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return what each trial gains on FCFS+EASY by the same seed: columns of `trials` and the differences.

    Without contention, FCFS+EASY without contention is what counts.
    """
    keys = ["experiment", "seed"]
    base = np.where(trials["policy"].isin((CALM_EASY, CALM_RUSH)), CALM_EASY, EASY)
    figures = trials.set_index([*keys, "policy"])[["varying", "makespan_s", "wait_s"]]
    beside = figures.reindex(pd.MultiIndex.from_arrays([trials["experiment"], trials["seed"], base]))
    shortened = _shortened(runs).groupby([*keys, "policy"])["shortened_pct"].mean()
    return trials.assign(
        fewer_varying=beside["varying"].to_numpy() - trials["varying"].to_numpy(),
        makespan_saved_s=beside["makespan_s"].to_numpy() - trials["makespan_s"].to_numpy(),
        wait_added_s=trials["wait_s"].to_numpy() - beside["wait_s"].to_numpy(),
        longest_shortened_pct=shortened.reindex(pd.MultiIndex.from_frame(trials[[*keys, "policy"]])).to_numpy(),
    )


def _shortened(runs: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the longest run of each application and size is shorter than under FCFS+EASY [%]."""
    keys = ["experiment", "seed", "application", "nodes"]
    longest = runs.groupby([*keys, "policy"])["run_time"].max().rename("longest").reset_index()
    longest["base"] = np.where(longest["policy"].isin((CALM_EASY, CALM_RUSH)), CALM_EASY, EASY)
    both = longest.merge(longest, left_on=[*keys, "base"], right_on=[*keys, "policy"], suffixes=("", "_base"))
    shortened = 100 * (both["longest_base"] - both["longest"]) / both["longest_base"]
    return both[[*keys, "policy"]].assign(shortened_pct=shortened)


def summary(trials: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return mean and median of trial figures by experiment and policy, each with its interval."""
    rows = []
    for names, group in trials.groupby(KEYS, sort=False):
        row: dict[str, object] = dict(zip(KEYS, names, strict=True)) | {"trials": len(group)}
        for column in columns:
            values = group[column].to_numpy(dtype=np.float64)
            row |= {column: with_interval(values, np.mean), f"{column}_median": with_interval(values, np.median)}
        rows.append(row)
    return pd.DataFrame(rows)


def with_interval(values: Floats, of: Callable[[Floats], np.floating] = np.mean) -> str:
    """Return a mean or median with its interval, as text.

    >>> with_interval(np.array([1.0, 1.0, 1.0]))
    '1 (1…1)'
    """
    low, high = mean_interval(values) if of is np.mean else median_interval(values)
    return f"{_short(float(of(values)))} ({_short(low)}…{_short(high)})"


def with_wide_interval(values: Floats) -> str:
    """Return the mean of a few values without NaN, with an interval widened for that; one value has none.

    >>> with_wide_interval(np.array([0.0, 1.0, 2.0, 3.0, 4.0, np.nan])), with_interval(np.arange(5.0))
    ('2 (0.1…3.9)', '2 (0.8…3.2)')
    """
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return _short(float(known[0])) if len(known) else "-"
    low, high = expanded(drawn_means(known), len(known))
    return f"{_short(float(known.mean()))} ({_short(low)}…{_short(high)})"


def sign_flip_p(differences: Floats) -> float:
    """Return the exact two-sided p of a paired difference: how many of all choices of signs give as large a sum.

    Differences of 0 tell nothing: of n others the smallest p is 2^(1 - n).

    >>> sign_flip_p(np.array([3.0, 1.0, 2.0, 0.0])), sign_flip_p(np.array([3.0, -1.0])), sign_flip_p(np.zeros(2))
    (0.25, 1.0, 1.0)
    """
    told = differences[differences != 0]
    signs = 1 - 2 * ((np.arange(2 ** len(told))[:, None] >> np.arange(len(told))) & 1)
    sums = np.abs(signs @ told)
    return float((sums >= sums[0] - _SAME * max(1.0, sums[0])).mean())


_SAME: Final = 1e-9  # sums that differ by less than this share are equal but for rounding


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.1f}"


def means_over_seeds(runs: pd.DataFrame, keys: Sequence[str], column: str) -> pd.DataFrame:
    """Return means over the seeds with their intervals, `low` and `high`, one row for each value of the keys."""
    return over_seeds(runs, keys, [column], "mean").rename(columns={f"{column}_{end}": end for end in ("low", "high")})


def by_application(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean runs that vary a trial, by experiment, application and policy, with intervals over seeds."""
    chosen = runs[runs["policy"].isin((EASY, RUSH))]
    keys = ["experiment", "application", "policy"]
    counts = chosen.groupby([*keys, "seed"], sort=False)["varies"].sum().reset_index(name="varying")
    return means_over_seeds(counts, keys, "varying")


def shortened_by_size(runs: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return the mean improvement of the longest run by application and size, RUSH relative to FCFS+EASY [%]."""
    found = _shortened(runs[runs["experiment"] == experiment])
    found = found[found["policy"] == RUSH].sort_values(["application", "nodes"], kind="stable")
    keys = ["application", "nodes"]
    never = (found["shortened_pct"] >= 0).groupby([found[key] for key in keys]).all()
    return means_over_seeds(found, keys, "shortened_pct").assign(never_longer=never.to_numpy())


def waits_by_application(runs: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return mean waits of the jobs not there at the start, one row an application, seed and policy [s]."""
    late = runs[(runs["experiment"] == experiment) & (runs["submit"] > 0) & runs["policy"].isin((EASY, RUSH))]
    return late.groupby(["application", "seed", "policy"], sort=True)["wait"].mean().reset_index(name="wait_s")


def foreseen(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how good the model was in the trials: its prediction at each start under FCFS+EASY, and the outcome."""
    rows = []
    for experiment, group in runs[runs["policy"] == EASY].groupby("experiment", sort=False):
        found = scores(group["varies"], group["said"] == "variation")
        rows.append({"experiment": experiment, "runs": found.n_test, "base_rate": found.base_rate, "f1": found.f1,
                     "precision": found.precision, "recall": found.recall})  # fmt: skip
    return pd.DataFrame(rows)


def beside_paper(trials: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for experiment, what, theirs, column, policy in PAPER:
        own = trials[(trials["experiment"] == experiment) & (trials["policy"] == policy)]
        if len(own):
            values = own[column].to_numpy(dtype=np.float64)
            rows.append({"experiment": experiment, "what": what, "paper": theirs,
                         "ours_mean": with_interval(values),
                         "ours_median": with_interval(values, np.median)})  # fmt: skip
    return pd.DataFrame(rows)
