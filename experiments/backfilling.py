"""Who gains and who pays when backfilling plans with predictions? The frontier, over shaken logs, all beside EASY.

*Gap closed* = (EASY - ours) / (EASY - clairvoyant EASY-SJBF) in mean bounded slowdown; mean wait, 99th percentile,
longest wait and mean wait of the widest 5 % of jobs as multiples of EASY's. Each seed shakes the log anew and is
scheduled by every case, so that differences are paired. Medians over the seeds; their intervals are order
statistics that hold the median of all shakes with at least 95 % confidence (ten seeds: the second smallest to the
second largest).
"""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from experiments.backfilling_cases import CASES, CLAIRVOYANT, EASY, QUICK
from experiments.backfilling_figures import frontier_of
from experiments.experiment import Report, Setting
from experiments.figures import draw, write_table
from experiments.shaken_runs import IN_WORDS, MEASURES, left_out, over_logs, over_seeds, relative
from experiments.sweep import Sweep
from experiments.sweep_results import AS_LOGGED
from experiments.sweep_run import run_sweep
from predictors.similar_runs import OUTLOOKS


def run(setting: Setting) -> Report:
    """Schedule a log, as it is and shaken ten times (quick: three), by every case, and draw the frontier.

    Where the folder holds the runs of other logs by the same cases and seeds, the frontier and a table over all of them
    are made as well, by the seeds that all have.
    """
    begin = perf_counter()
    log, account = setting.jobs().for_simulation(setting.procs, drop_wide=True)
    seeds = tuple(range(setting.seed + 1, setting.seed + (4 if setting.quick else 11)))
    cases = tuple(case for case in CASES if not setting.quick or case.name in QUICK)
    place = setting.unfinished and setting.unfinished / "sweep"
    found = run_sweep(Sweep(cases=cases, seeds=seeds), [log], crew=setting.crew, folder=place)
    runs = beside_easy(found.runs)
    file = write_table(runs, setting.folder / f"runs_{log.name}.csv")
    medians = over_seeds(runs)
    tables = _told(medians, "")
    written = [
        file,
        *draw(setting.folder, f"frontier_{log.name}", medians, frontier_of(log.name), width=9.5, height=7.5),
    ]
    notes, verdict = [account.summary()], list(_who_pays(medians))
    everything = alike(runs, setting.folder)
    names = sorted(everything["log"].unique())
    if len(names) > 1:
        pooled = over_logs(everything)
        tables |= _told(pooled, "all logs: ")
        notes.append(f"All logs: {', '.join(names)}; the seeds that all have. {left_out(everything)}".rstrip())
        about = f"mean of {len(names)} logs"
        written += draw(setting.folder, "frontier", pooled, frontier_of(about), width=9.5, height=7.5)
    return Report(
        "backfilling",
        log.name,
        seeds,
        tables,
        tuple(map(Path, written)),
        perf_counter() - begin,
        tuple(notes),
        tuple(verdict),
    )


def alike(runs: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return these runs, and from a folder those of other logs that were made by the same cases and some same seed."""
    found = [runs]
    for path in sorted(folder.glob("runs_*.csv")):
        other = pd.read_csv(path)
        if list(other.columns) != list(runs.columns) or set(other["log"]) & set(runs["log"]):
            continue
        same_seeds = (set(other["seed"]) & set(runs["seed"])) - {AS_LOGGED}
        if same_seeds and set(other["case"]) == set(runs["case"]):
            found.append(other)
    return pd.concat(found, ignore_index=True)


def _told(table: pd.DataFrame, about: str) -> dict[str, pd.DataFrame]:
    """Return a wide table as several that fit on a screen."""
    parts = {
        "medians": "",
        "lower ends": "_low",
        "upper ends": "_high",
        "as logged": "_as_logged",
        "worst log": "_worst",
    }
    return {
        about + name: table[["case", *(measure + suffix for measure in MEASURES)]]
        for name, suffix in parts.items()
        if f"wait{suffix}" in table
    }


def beside_easy(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a sweep relative to EASY, by seed: a row a seed and case."""
    rows = []
    for (log, seed), part in runs.groupby(["log", "seed"], sort=False):
        records: list[dict[Any, Any]] = part.to_dict(orient="records")
        found = {row["case"]: row for row in records}
        rows += [
            {"log": log, "seed": seed, "case": name, **relative(own, found[EASY], found[CLAIRVOYANT])}
            for name, own in found.items()
        ]
    return pd.DataFrame(rows)


def _who_pays(medians: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on each named setting: what of it is worse than EASY."""
    for row in medians[medians["case"].isin(OUTLOOKS)].to_dict(orient="records"):
        worse = [f"{words} x {row[measure]:.2f}" for measure, words in IN_WORDS.items() if row[measure] > 1.0]
        gap = row["gap_closed"]
        yield (f"{row['case']} closes {gap:.0%} of the gap" if gap == gap else f"{row['case']}: EASY leaves no gap") + (
            f"; worse than EASY in {', '.join(worse)}." if worse else "; no figure is worse than EASY's."
        )
