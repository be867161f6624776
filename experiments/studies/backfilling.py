"""The study of backfilling: gap closed, and who pays.

*Gap closed* = (EASY - ours) / (EASY - clairvoyant EASY-SJBF) in mean bounded slowdown; mean wait, 99th percentile,
longest wait and mean wait of the widest 5 % of jobs as multiples of EASY's. Each seed shakes the log differently and is
scheduled by every case, so that differences are paired. Medians over the seeds; their intervals are order statistics
that hold the median of all shakes with at least 95 % confidence (ten seeds: the second smallest to the second largest).

Next to them stand area-weighted response time and wait, standard deviation of throughput and Gini of the users'
slowdowns as multiples of EASY's, and the share of users who are worse off (`schedsim.results.metrics`). Then families
of rules are drawn as curves (`experiments.studies.frontier`).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd

from experiments.compare.compare import shares_worse_off
from experiments.compare.measures import AS_LOGGED, MEASURES
from experiments.compare.relative import (
    COLUMNS,
    FURTHER,
    RATIOS,
    WORSE_OFF,
    left_out,
    over_logs,
    relative,
    shaken_beside_as_logged,
)
from experiments.reports.figures import Axes, Picture, legend_of_points, look_of, number_beside
from experiments.reports.report import Report
from experiments.runs.setting import Setting
from experiments.runs.simulate import goes_on, ready_for
from experiments.studies.frontier import along, family_cases, paint_curves
from experiments.sweeps.results import Results
from experiments.sweeps.run import run_sweep
from experiments.sweeps.sweep import Case, Sweep
from predictors.core.errors import percent
from predictors.models.similar_jobs import REVISED_ESTIMATES, SimilarRuns

EASY: Final = "EASY"
CLAIRVOYANT: Final = "clairvoyant EASY-SJBF"
CASES: Final = (
    Case(EASY, "easy"),
    Case(CLAIRVOYANT, "easy-sjbf", "clairvoyant"),
    Case("clairvoyant EASY", "easy", "clairvoyant", shaken=False),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("EASY++, incremental", "easy-sjbf", "tsafrir", "incremental"),
    Case("EASY++, doubling", "easy-sjbf", "tsafrir", "doubling", shaken=False),
    Case("EASY++ + promise", "easy-sjbf+promise", "tsafrir"),
    Case("clairvoyant + promise", "easy-sjbf+promise", "clairvoyant"),
    Case("careful", "careful", "careful"),
    Case("balanced", "balanced", "balanced"),
    Case("careful, no promise", "easy-sjbf", "careful", shaken=False),
    Case("careful, promise without slack", "easy-sjbf+promise", "careful", shaken=False),
    Case("careful, factor 0.7", "careful", SimilarRuns(factor=0.7), shaken=False),
    Case("careful, factor 1", "careful", SimilarRuns(factor=1.0), shaken=False),
    Case("bold", "careful", "bold"),
    Case("bold, no promise", "easy-sjbf", "bold", shaken=False),
    Case("last-two", "easy-sjbf", "last-two", shaken=False),
    Case("user-mean", "easy-sjbf", "user-mean", shaken=False),
)
"""The published ways, perfect knowledge, `careful` and what it is made of.

`jobcast experiment runtime` has every predictor by correction and promise, unshaken: some take minutes a schedule.
"""
QUICK: Final = (EASY, CLAIRVOYANT, "EASY-SJBF", "EASY++", "careful", "balanced", "bold")


OPTIONS: Final = {  # label and marker of each option, by policy and correction
    ("easy", "requested"): ("no backfill order", "X"),
    ("easy-sjbf", "requested"): ("expired: the request", "o"),
    ("easy-sjbf", "incremental"): ("expired: incremental", "^"),
    ("easy-sjbf", "doubling"): ("expired: doubling", "v"),
    ("easy-sjbf+promise", "requested"): ("promise", "s"),
    ("careful", "requested"): ("promise with slack", "D"),
    ("balanced", "requested"): ("priority with due dates", "*"),
}


def paint_frontier(axes: Axes, table: pd.DataFrame, what: str) -> None:
    """Draw a point a case, medians with intervals or as logged; `what` is the log."""
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
        x, y, chosen = row["widest"], 100 * row["gap_closed"], case.name in ("careful", "balanced", "bold")
        axes.errorbar(
            x, y,
            xerr=_bar(x, row["widest_low"], row["widest_high"]) if case.shaken else None,
            yerr=_bar(y, 100 * row["gap_closed_low"], 100 * row["gap_closed_high"]) if case.shaken else None,
            marker=marker, markersize=11 if chosen else 6, linestyle="none", elinewidth=0.6,
            zorder=3 if chosen else 2, **look_of(families.index(family)),
        )  # fmt: skip
        number_beside(axes, families.index(family) + 1, x, y)
    axes.set_xlabel(f"{MEASURES[RATIOS['widest']].title} of jobs, relative to EASY")
    axes.set_ylabel("gap closed, mean bounded slowdown [%]")
    axes.set_title(f"What is gained, and what the widest jobs pay for it: {what}")
    legend_of_points(axes, families, options)


def _bar(middle: float, low: float, high: float) -> list[list[float]]:
    return [[max(middle - low, 0.0)], [max(high - middle, 0.0)]]


def _family(case: str) -> str:
    """Return the estimates of a case without its options.

    >>> [_family(name) for name in ("EASY++ + promise", "careful, factor 0.7", "bold")]
    ['EASY++', 'careful', 'bold']
    """
    return case.split(",")[0].split(" + ")[0]


QUESTION: Final = (
    "Who gains and who pays when backfilling plans with predictions? The frontier, over shaken logs, relative to EASY."
)


def run(setting: Setting) -> Report:
    """Schedule a log, as it is and shaken ten times (quick: three), by every case, and draw the frontier.

    Families of rules are scheduled on the shaken logs alone. Where the folder holds the runs of other logs by the same
    cases and seeds, the frontier, the curves and a table over all of them are made as well, by the seeds that all have.
    """
    ready = ready_for(setting.machine, setting.jobs(), setting.procs, drop_wide=True)
    log, account = ready.used, ready.account
    seeds = setting.drawn(10, quick=3)
    cases = tuple(case for case in CASES if not setting.quick or case.name in QUICK)
    able, further = _able(cases, setting), _able(family_cases(), setting)
    left = [case.name for case in cases if case not in able]
    further = tuple(case for case in further if case.name not in {one.name for one in able})

    def swept(name: str, sweep: Sweep) -> Results:
        place = setting.checkpoints and setting.checkpoints / name
        return run_sweep(sweep, [log], pool=setting.pool, folder=place, machine=setting.machine)

    found = swept("sweep", Sweep(cases=able, seeds=seeds, by=("user",)))
    moved = swept("families", Sweep(cases=further, seeds=seeds, as_logged=False))
    runs = with_users(beside_easy(found.runs), found.groups)
    names = {case.name for case in family_cases()}
    every = beside_easy(pd.concat([found.runs[found.runs["seed"] != AS_LOGGED], moved.runs], ignore_index=True))
    families = every[every["case"].isin(names)].reset_index(drop=True)
    if setting.machine is not None:  # a column more: means over logs are never of some on nodes and of some without
        runs, families = (table.assign(nodes=setting.machine.words) for table in (runs, families))
    medians, curves = shaken_beside_as_logged(runs), along(shaken_beside_as_logged(families))
    tables = _split(medians, "") | _of_families(curves, "")
    pictures = _pictures(f"_{log.name}", medians, curves, log.name)
    account = account.using(len(log))
    notes, verdict = [account.summary()], list(_who_pays(medians))
    if left:
        notes.append(f"Not run, since they count processors alone: {', '.join(left)}.")
    everything, all_families = alike(runs, setting.folder), alike(families, setting.folder, "families")
    logs = sorted(everything["log"].unique())
    if len(logs) > 1:
        pooled, curves = over_logs(everything), along(over_logs(all_families))
        tables |= _split(pooled, "all logs: ") | _of_families(curves, "all logs: ")
        notes.append(f"All logs: {', '.join(logs)}; the seeds that all have. {left_out(everything)}".rstrip())
        pictures += _pictures("", pooled, curves, f"mean of {len(logs)} logs")
    return Report(
        log=log.name, seeds=seeds, tables=tables, data={f"runs_{log.name}": runs, f"families_{log.name}": families},
        pictures=pictures, notes=tuple(notes), verdict=tuple(verdict), account=account,
    )  # fmt: skip


def _able(cases: tuple[Case, ...], setting: Setting) -> tuple[Case, ...]:
    return tuple(case for case in cases if goes_on(setting.machine, case.passes))


def _pictures(stem: str, medians: pd.DataFrame, curves: pd.DataFrame, what: str) -> tuple[Picture, ...]:
    return (
        Picture(f"frontier{stem}", medians, partial(paint_frontier, what=what), 9.5, 7.5),
        Picture(f"curves{stem}", curves, partial(paint_curves, what=what, points=medians), 13.0, 9.5),
    )


def _of_families(curves: pd.DataFrame, about: str) -> dict[str, pd.DataFrame]:
    return {f"{about}families": curves[["family", "value", *COLUMNS]]}


def with_users(runs: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the share of users who are worse off than under EASY; NaN where no user is known."""
    shares = [shares_worse_off(groups, case, EASY).assign(case=case) for case in runs["case"].unique()]
    table = pd.concat(shares, ignore_index=True).rename(columns={"share": WORSE_OFF})
    return runs.merge(table, on=["log", "seed", "case"], how="left").astype({WORSE_OFF: float})


def alike(runs: pd.DataFrame, folder: Path, stem: str = "runs") -> pd.DataFrame:
    """Return these runs, and from a folder those of other logs that were made by the same cases and some same seed."""
    found = [runs]
    for path in sorted(folder.glob(f"{stem}_*.csv")):
        other = pd.read_csv(path)
        if list(other.columns) != list(runs.columns) or set(other["log"]) & set(runs["log"]):
            continue
        same_seeds = (set(other["seed"]) & set(runs["seed"])) - {AS_LOGGED}
        if same_seeds and set(other["case"]) == set(runs["case"]):
            found.append(other)
    return pd.concat(found, ignore_index=True)


def _split(table: pd.DataFrame, about: str) -> dict[str, pd.DataFrame]:
    parts = {
        "medians": "", "lower ends": "_low", "upper ends": "_high", "as logged": "_as_logged", "worst log": "_worst",
    }  # fmt: skip
    further = [name for name in (*FURTHER, WORSE_OFF) if name in table]
    return {
        about + name: table[["case", *(column + suffix for column in COLUMNS)]]
        for name, suffix in parts.items()
        if f"wait{suffix}" in table
    } | {f"{about}further medians": table[["case", *further]]}


def beside_easy(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a sweep relative to EASY, by seed: a row a seed and case."""
    rows = []
    for (log, seed), part in runs.groupby(["log", "seed"], sort=False):
        records: list[dict[Any, Any]] = part.to_dict(orient="records")
        found = {row["case"]: row for row in records}
        rows += [
            {"log": log, "seed": seed, "case": name, **relative(own, found[EASY], found[CLAIRVOYANT], RATIOS | FURTHER)}
            for name, own in found.items()
        ]
    return pd.DataFrame(rows)


def _who_pays(medians: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on each named setting: which figures are worse than EASY's."""
    for row in medians[medians["case"].isin(REVISED_ESTIMATES)].to_dict(orient="records"):
        worse = [f"{MEASURES[name].title} x {row[ratio]:.2f}" for ratio, name in RATIOS.items() if row[ratio] > 1.0]
        gap = row["gap_closed"]
        closes = f"{row['case']} closes {percent(gap)} of the gap"
        yield (closes if gap == gap else f"{row['case']}: EASY leaves no gap") + (
            f"; worse than EASY in {', '.join(worse)}." if worse else "; no figure is worse than EASY's."
        )
