"""Run times of applications while the machine is full.

The log analysis of Li et al., section 3.

Li, Chunduri, Harms, Fan & Lan, The Effect of System Utilization on Application Performance Variability, ROSS 2019,
doi 10.1145/3322789.3328743.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.papers.logstudy.jobs import StudyJobs
from experiments.papers.logstudy.observations import normal_exit
from predictors.core.arrays import Floats, Ints
from predictors.history.programs import program_of
from schedsim.results.timelines import in_use

BOUNDARY: Final = 0.95  # utilisation above which a run is in the group High
MOST_SPREAD: Final = 3.0  # longest / shortest run from which on an application is left out, like benchmarks
MORE_NODES: Final = 16  # jobs of no more nodes are left out: debugging
LEAST_RUNS: Final = 30
LEAST_IN_GROUP: Final = 10
SIGNIFICANCE: Final = 0.10
WEEK: Final = 7 * 86_400
NOT_TOLD, NO_LINE = "a line that does not tell it", "no command line"  # why a job's command line gives no executable
_KEY: Final = ("user", "project", "nodes", "executable", "command", "directory")


@dataclass(frozen=True)
class Applications:
    """Runs of applications, and the columns that tell them apart."""

    # one row a run: `application`, `run_time` [s], `utilisation` (mean over the run), `nodes`, `family` (the
    # application whatever its nodes)
    runs: pd.DataFrame
    key: tuple[str, ...]  # the columns in which the runs of one application are equal
    notes: tuple[str, ...]  # what stands in for what the log lacks
    funnel: pd.DataFrame  # how many runs and applications each step of the choice left
    sources: pd.DataFrame  # how many jobs got their executable from what; empty where the log has no command lines


def mean_utilisation(
    start: Ints,  # start, end: shape (n_jobs,); of all jobs that filled the machine [s]; `end` > `start`
    end: Ints,
    procs: Ints,  # shape (n_jobs,); processors of each
    machine: int,  # processors of the machine
) -> Floats:
    """Return for each run the share of the machine that was in use, itself included, averaged over the run.

    >>> mean_utilisation(np.array([0, 5]), np.array([10, 10]), np.array([6, 4]), 10).tolist()
    [0.8, 1.0]
    """
    time, busy = in_use(start, end, procs)
    # Processor-seconds until each instant; between instants they grow in a straight line.
    filled = np.concatenate([[0.0], np.cumsum(busy[:-1] * np.diff(time).astype(np.float64))])
    at_start, at_end = filled[np.searchsorted(time, start)], filled[np.searchsorted(time, end)]
    mean: Floats = (at_end - at_start) / (end - start) / machine
    return mean


def applications(jobs: StudyJobs) -> Applications:
    """Return the runs of the applications that Li et al.'s rules leave: repeated, ended well, wide, of small spread."""
    table = jobs.table.assign(
        utilisation=mean_utilisation(
            jobs.table["start"].to_numpy(np.int64), jobs.table["end"].to_numpy(np.int64),
            jobs.table["procs"].to_numpy(np.int64), jobs.machine,
        )
    )  # fmt: skip
    table, sources = with_programs(table)
    key, notes = _key(table)
    steps = [("all jobs that ran", len(table), 0)]
    table = table[normal_exit(jobs)]
    steps.append(("ended well", len(table), 0))
    table = table[table["nodes"] > MORE_NODES].dropna(subset=list(key))
    names = table.groupby(list(key), sort=False).ngroup()
    family = [column for column in key if column != "nodes"]
    families = table.groupby(family, sort=False).ngroup() if family else 0
    table = table.assign(application=names, family=families)
    steps.append((f"more than {MORE_NODES} nodes", len(table), table["application"].nunique()))
    times = table.groupby("application")["run_time"]
    table = table[times.transform("size") >= LEAST_RUNS]
    steps.append((f"at least {LEAST_RUNS} runs of the application", len(table), table["application"].nunique()))
    times = table.groupby("application")["run_time"]
    table = table[times.transform("max") < MOST_SPREAD * times.transform("min")]
    steps.append(
        (f"longest run less than {MOST_SPREAD:.0f} times the shortest", len(table), table["application"].nunique())
    )
    order = table["application"].value_counts().index
    letters = {application: _letter(k) for k, application in enumerate(order)}
    table = table.assign(application=table["application"].map(letters))
    kept = table[["application", "family", "nodes", "run_time", "utilisation", "start"]].reset_index(drop=True)
    funnel = pd.DataFrame(steps, columns=["step", "runs", "applications"])
    return Applications(kept, key, (*notes, *_read_from(sources)), funnel, sources)


def with_programs(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return jobs with the executable and the arguments' stem of their command lines, and where these were read.

    A job with a line that does not name its executable keeps its own executable, or job name, and the whole line.
    Without the column `command` nothing changes. The second table has `source` and `jobs`, each job counted once.
    """
    if "command" not in table:
        return table, pd.DataFrame({"source": [], "jobs": []})
    lines = table["command"]
    found = {line: program_of(line) for line in lines.dropna().unique()}
    told = {line: program for line, program in found.items() if program is not None}
    source = lines.map({line: program.source for line, program in told.items()})
    source = source.fillna(lines.map(dict.fromkeys(found, NOT_TOLD))).fillna(NO_LINE)
    counts = source.value_counts().rename_axis("source").reset_index(name="jobs")
    known = lines.isin(list(told))
    own = table["executable"] if "executable" in table else lines.where(~known)
    table = table.assign(
        executable=lines.map({line: program.executable for line, program in told.items()}).where(known, own),
        command=lines.map({line: program.arguments for line, program in told.items()}).where(known, lines),
    )
    return table, counts


def _read_from(sources: pd.DataFrame) -> tuple[str, ...]:
    if sources.empty:
        return ()
    read = sources[~sources["source"].isin((NOT_TOLD, NO_LINE))]["jobs"].sum()
    parts = ", ".join(f"{row.source} {row.jobs:,}" for row in sources.itertuples())
    return (
        f"executables and stems of arguments of {read:,} of {sources['jobs'].sum():,} jobs are read from command lines "
        f"({parts}); a line that does not tell its executable counts whole, with the job's own name",
    )


def _key(table: pd.DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns in which runs of one application are equal, and notes on those that the log lacks."""
    key = [column for column in _KEY if column == "nodes" or column in table]
    lacking = [column for column in _KEY if column not in key]
    notes = []
    if not {"executable", "command"} & set(key):
        key.append("requested_time")
        notes.append("neither executable nor command line is known: the requested time stands in for both")
        lacking = [column for column in lacking if column not in ("executable", "command")]
    if lacking:
        notes.append(f"not in the log, and so not compared: {', '.join(lacking)}")
    if "user" not in key:
        notes.append("without users, equal width and requested time make no application: take the figures as a control")
    return tuple(key), tuple(notes)


def _letter(number: int) -> str:
    """Return an application's name in tables: AppA, AppB, …, AppZ, AppAA and so on.

    >>> _letter(0), _letter(25), _letter(26)
    ('AppA', 'AppZ', 'AppAA')
    """
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"App{letters}"


@dataclass(frozen=True)
class Comparison:
    """The runs of one application under High and Normal utilisation."""

    n_high: int
    n_normal: int
    mean_high: float
    mean_normal: float
    increase: float  # mean run time under High over that under Normal, less 1
    # its 90 % confidence interval (Welch)
    low: float
    high: float
    # one-sided two-sample z-test of a larger mean under High
    z: float
    p_z: float
    p_rank: float  # one-sided Mann-Whitney test
    effect: float  # Cliff's delta: how much more often a run under High is longer than one under Normal than shorter
    longest_in_high: bool
    # the increase by runs of one calendar week alone, and its one-sided z-test; NaN where no week has both groups. A
    # program that changes with the months and a machine that fills up give an increase, but none within weeks.
    within_weeks: float = float("nan")
    p_weeks: float = float("nan")


def compare(high: Floats, normal: Floats) -> Comparison:
    """Return the comparison of run times [s] of one application under High and Normal, at least two each.

    >>> found = compare(np.array([11.0, 12.0, 13.0]), np.array([9.0, 10.0, 11.0]))
    >>> round(found.increase, 3), round(found.effect, 3), found.longest_in_high
    (0.2, 0.889, True)
    """
    from scipy.special import stdtrit
    from scipy.stats import mannwhitneyu, norm

    n, m = len(high), len(normal)
    mean, base = float(high.mean()), float(normal.mean())
    one, other = float(high.var(ddof=1)) / n, float(normal.var(ddof=1)) / m
    error = float(np.sqrt(one + other))
    z = (mean - base) / error if error > 0 else float(np.sign(mean - base)) * np.inf
    freedom = (one + other) ** 2 / (one**2 / max(n - 1, 1) + other**2 / max(m - 1, 1)) if error > 0 else 1.0
    half = float(stdtrit(freedom, 0.95)) * error
    rank = mannwhitneyu(high, normal, alternative="greater")
    return Comparison(
        n, m, mean, base, mean / base - 1, (mean - half) / base - 1, (mean + half) / base - 1,
        float(z) if mean != base else 0.0, float(norm.sf(z)) if mean != base else 0.5,
        float(rank.pvalue), 2 * float(rank.statistic) / (n * m) - 1, bool(high.max() >= normal.max()),
    )  # fmt: skip


def within_weeks(times: Floats, above: npt.NDArray[np.bool_], week: Ints) -> tuple[float, float]:
    """Return how many seconds longer runs above the boundary are than others of the same week, and the one-sided p.

    The slope of the run time over the group, both less their means by week, with a standard error that allows for
    unequal variances (White's); NaN where no week has runs of both groups.

    >>> times, above = np.array([10.0, 11.0, 20.0, 21.0]), np.array([False, True, False, True])
    >>> within_weeks(times, above, np.array([0, 0, 1, 1]))[0]
    1.0
    """
    from scipy.stats import norm

    _, place = np.unique(week, return_inverse=True)
    counts = np.bincount(place)
    group = above - (np.bincount(place, weights=above) / counts)[place]
    rest = times - (np.bincount(place, weights=times) / counts)[place]
    spread = float((group**2).sum())
    if spread == 0:
        return float("nan"), float("nan")
    slope = float((group * rest).sum()) / spread
    error = float(np.sqrt(((group * (rest - slope * group)) ** 2).sum())) / spread
    return slope, float(norm.sf(slope / error)) if error > 0 else float("nan")


def comparisons(runs: pd.DataFrame, boundary: float = BOUNDARY) -> pd.DataFrame:
    """Return a row an application with ten runs in each group: those above and at most at a boundary of utilisation."""
    rows = []
    for name, part in runs.groupby("application", sort=False):
        above = part["utilisation"].to_numpy() > boundary
        if above.sum() < LEAST_IN_GROUP or (~above).sum() < LEAST_IN_GROUP:
            continue
        times = part["run_time"].to_numpy(np.float64)
        found = compare(times[above], times[~above])
        inside, p_weeks = within_weeks(times, above, part["start"].to_numpy(np.int64) // WEEK)
        found = replace(found, within_weeks=inside / found.mean_normal, p_weeks=p_weeks)
        rows.append({"application": name, "nodes": int(part["nodes"].iloc[0]), "runs": len(part), **vars(found)})
    table = pd.DataFrame(rows, columns=["application", "nodes", "runs", *Comparison.__dataclass_fields__])
    return table.sort_values("runs", ascending=False, kind="stable").reset_index(drop=True)


def verdict(table: pd.DataFrame) -> dict[str, float | int]:
    """Return over all applications: how many have a longer mean under High by either test, and what chance would give.

    `p_chance` is the probability that as many or more pass the z-test where utilisation does nothing.
    """
    from scipy.stats import binom

    n = len(table)
    passed = int((table["p_z"] < SIGNIFICANCE).sum())
    return {
        "applications": n,
        "longer_by_z": passed,
        "longer_by_rank": int((table["p_rank"] < SIGNIFICANCE).sum()),
        "longer_within_weeks": int((table["p_weeks"] < SIGNIFICANCE).sum()),
        "shorter_by_z": int((table["p_z"] > 1 - SIGNIFICANCE).sum()),
        "expected_by_chance": SIGNIFICANCE * n,
        "p_chance": float(binom.sf(passed - 1, n, SIGNIFICANCE)) if n else float("nan"),
        "median_increase": float(table["increase"].median()) if n else float("nan"),
        "longest_in_high": int(table["longest_in_high"].sum()),
    }


def balanced_boundary(runs: pd.DataFrame) -> float:
    """Return the median utilisation over all runs: the boundary that makes the groups alike in size."""
    return float(runs["utilisation"].median())
