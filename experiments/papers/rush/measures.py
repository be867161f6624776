"""Measures of RUSH trials: variation, makespan and waits, paired by seed.

A run varies if it is more than 1.5 standard deviations above the mean of the control jobs of its application and number
of nodes: the same yardstick for every policy. Differences are taken within a seed.

Trials of a campaign share its model and its yardstick, so the campaign is the unit: a figure is the mean over the
campaigns of each campaign's mean, its 95 % interval resamples campaigns and is widened because they are few, and p
flips the signs of the campaigns' differences.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import t

from predictors.core.arrays import Floats
from predictors.core.intervals import drawn_means, expanded
from predictors.variability.labels import VARIATION_Z, Norms
from predictors.variability.selection.scores import scores

EASY: Final = "FCFS+EASY"
RUSH: Final = "RUSH"
RANDOM: Final = "random delays"
ORACLE: Final = "oracle"
CALM_EASY: Final = "no contention: FCFS+EASY"
CALM_RUSH: Final = "no contention: RUSH"
KEYS: Final = ["experiment", "policy"]
NAMES: Final = ["experiment", "campaign", "seed", "policy"]  # of a trial

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
    groups, waits = runs.groupby(NAMES, sort=False), late.groupby(NAMES, sort=False)
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
    keys = ["experiment", "campaign", "seed", "application", "nodes"]
    longest = runs.groupby([*keys, "policy"])["run_time"].max().rename("longest").reset_index()
    longest["base"] = np.where(longest["policy"].isin((CALM_EASY, CALM_RUSH)), CALM_EASY, EASY)
    both = longest.merge(longest, left_on=[*keys, "base"], right_on=[*keys, "policy"], suffixes=("", "_base"))
    shortened = 100 * (both["longest_base"] - both["longest"]) / both["longest_base"]
    return both[[*keys, "policy"]].assign(shortened_pct=shortened)


def summary(trials: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return figures of trials by experiment and policy, with intervals, and p of the runs spared: `told`."""
    rows = []
    for names, own in _by_campaign(trials, KEYS, [*columns, *GAINS]).groupby(KEYS, sort=False):
        row: dict[str, object] = dict(zip(KEYS, names, strict=True)) | {"campaigns": len(own)}
        row |= {name: with_wide_interval(own[name].to_numpy(np.float64)) for name in ("varying", GAINS[0])}
        row |= told(own[GAINS[0]].to_numpy(np.float64))
        row |= {name: with_wide_interval(own[name].to_numpy(np.float64)) for name in (*columns, *GAINS[1:])}
        rows.append(row)
    return pd.DataFrame(rows)


GAINS: Final = ("fewer_varying", "makespan_saved_s", "longest_shortened_pct", "wait_added_s")


def _by_campaign(table: pd.DataFrame, keys: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    names = list(dict.fromkeys(["varying", *columns] if "varying" in table else columns))
    return table.groupby([*keys, "campaign"], sort=False)[names].mean().reset_index()


def told(differences: Floats) -> dict[str, object]:
    """Return p of differences between campaigns, if it could be below .05 at all, and what they could have shown.

    `shows` is the mean difference that so many campaigns, as unlike as these, find at p < .05 four times in five.

    >>> told(np.array([1.0, 2.0, 3.0]))
    {'p': '', 'shows': 3.1}
    >>> told(np.arange(1.0, 9.0))["p"]
    '0.008'
    """
    known = differences[~np.isnan(differences)]
    n, p = len(known), ""
    if 2.0 ** (1 - np.count_nonzero(known)) < FLOOR:
        p = f"{sign_flip_p(known):.3f}"
    if n < 2:
        return {"p": p, "shows": np.nan}
    far = t.ppf(1 - FLOOR / 2, n - 1) + t.ppf(POWER, n - 1)
    return {"p": p, "shows": round(float(far * known.std(ddof=1) / n**0.5), 1)}


FLOOR: Final = 0.05
POWER: Final = 0.8


def differences(trials: pd.DataFrame, experiment: str, others: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Return how many fewer runs vary under a policy than under another one by the same seeds.

    `others` has by policy the other policies, by what they are called.
    """
    own = _by_campaign(trials[trials["experiment"] == experiment], ["policy"], ["varying"])
    counts, lines = own.pivot(index="campaign", columns="policy", values="varying"), []
    for policy, against in others.items():
        for name, other in against.items():
            if {policy, other} <= set(counts):
                fewer = (counts[other] - counts[policy]).to_numpy(np.float64)
                about = {"policy": policy, "against": name, "fewer_varying": with_wide_interval(fewer)}
                lines.append(about | told(fewer))
    return pd.DataFrame(lines, columns=["policy", "against", "fewer_varying", "p", "shows"])


def in_the_papers_design(trials: pd.DataFrame, experiment: str, seed: int) -> pd.DataFrame:
    """Return how probable the paper's 17 -> 4 is in its own design: five trials against five others of one campaign.

    Given that the five under FCFS+EASY have 14 to 20 runs that vary on average: how often the others have at most 4, by
    the policy of the others. Trials are drawn by chance, the campaign too.
    """
    rng, lines = np.random.default_rng(seed), []
    own = trials[trials["experiment"] == experiment]
    tables = [group.pivot(index="seed", columns="policy", values="varying") for _, group in own.groupby("campaign")]
    if min(len(table) for table in tables) < 2 * _FIVE:
        return pd.DataFrame()
    orders = [rng.permuted(np.tile(np.arange(len(table)), (DRAWS, 1)), axis=1)[:, : 2 * _FIVE] for table in tables]
    for policy in (name for name in tables[0] if name not in (CALM_EASY, CALM_RUSH)):
        given, low = 0, 0
        for table, order in zip(tables, orders, strict=True):
            easy = table[EASY].to_numpy()[order[:, :_FIVE]].mean(axis=1)
            others = table[policy].to_numpy()[order[:, _FIVE:]].mean(axis=1)
            like = (easy >= _LIKE[0]) & (easy <= _LIKE[1])
            given, low = given + int(like.sum()), low + int((like & (others <= _FEW)).sum())
        lines.append({"others": policy, "easy_14_to_20": given / DRAWS / len(tables),
                      "others_at_most_4": low / given if given else np.nan})  # fmt: skip
    return pd.DataFrame(lines).round(3)


DRAWS: Final = 20_000  # of each campaign
_FIVE: Final = 5  # trials of each policy in the paper
_LIKE: Final = (14, 20)  # means of five trials that are like the paper's 17
_FEW: Final = 4


def with_wide_interval(values: Floats) -> str:
    """Return the mean of a few values without NaN, with an interval widened for that; one value has none.

    >>> with_wide_interval(np.array([0.0, 1.0, 2.0, 3.0, 4.0, np.nan]))
    '2 (0.1…3.9)'
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


def with_ends(table: pd.DataFrame, keys: Sequence[str], column: str, unit: str = "campaign") -> pd.DataFrame:
    """Return the mean over the units' means with its interval, `low` and `high`, one row for each value of the keys."""
    rows = []
    for key, own in table.groupby([*keys, unit], sort=False)[column].mean().groupby(list(keys), sort=False):
        values = own.dropna().to_numpy(np.float64)
        low, high = expanded(drawn_means(values), len(values)) if len(values) > 1 else (np.nan, np.nan)
        rows.append({**dict(zip(keys, key, strict=True)), column: own.mean(), "low": low, "high": high})
    return pd.DataFrame(rows)


def by_application(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean runs that vary a trial, by experiment, application and policy, with intervals."""
    chosen = runs[runs["policy"].isin((EASY, RUSH))]
    keys = ["experiment", "application", "policy"]
    counts = chosen.groupby([*keys, "campaign", "seed"], sort=False)["varies"].sum().reset_index(name="varying")
    return with_ends(counts, keys, "varying")


def shortened_by_size(runs: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return the mean improvement of the longest run by application and size, RUSH relative to FCFS+EASY [%]."""
    found = _shortened(runs[runs["experiment"] == experiment])
    found = found[found["policy"] == RUSH].sort_values(["application", "nodes"], kind="stable")
    keys = ["application", "nodes"]
    never = (found["shortened_pct"] >= 0).groupby([found[key] for key in keys]).all()
    return with_ends(found, keys, "shortened_pct").assign(never_longer=never.to_numpy())


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
            values = own.groupby("campaign")[column].mean().to_numpy(np.float64)
            rows.append({"experiment": experiment, "what": what, "paper": theirs, "ours": with_wide_interval(values)})
    return pd.DataFrame(rows)
