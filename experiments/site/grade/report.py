"""A grade as a page: the letter, who waits shorter or longer in the twin, week by week, and each condition."""

from dataclasses import astuple
from typing import Final

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, Axes, Picture
from experiments.reports.report import FirstScreen, Report
from experiments.site.advise.sentences import span
from experiments.site.grade.grade import SHAKES, Graded
from experiments.site.grade.grades import MEANS, criteria, refusals, shown
from predictors.core.errors import counted, percent

QUESTION: Final = "Is the twin of this site near enough to be asked?"
CONDITIONS: Final = "conditions"  # title of the table on the first screen
GROUPS: Final = "groups"  # stem of the picture there


def report_on(graded: Graded, helps: str) -> Report:
    """Return the report of a grade; `helps` names the input that would help most."""
    figures, log = graded.figures, graded.asked.ready.used
    groups = _groups(graded)
    verdict = sentences(graded, helps)
    conditions = pd.DataFrame(
        [{"grade": one.grade, "condition": one.text, "found": one.found, "holds": "yes" if one.holds else "no"}
         for one in criteria(figures)] if graded.asked.side.files is not None and figures.jobs else [],
        columns=["grade", "condition", "found", "holds"],
    )  # fmt: skip
    return Report(
        experiment="grade",
        log=log.name,
        seeds=tuple(range(1, len(graded.shakes) + 1)),
        first=FirstScreen(
            verdict[0],
            CONDITIONS if len(conditions) else "figures",
            GROUPS,
            helps if graded.grade in ("C", "refused") else "",
        ),
        tables={
            CONDITIONS: conditions,
            "figures": _figures(graded),
            "by group": groups,
            "week by week": _weeks(graded),
        },
        pictures=(Picture(GROUPS, groups, paint_groups, 8.5, 0.32 * len(groups) + 1.8),),
        notes=_notes(graded),
        verdict=tuple(verdict),
        question=QUESTION,
        facts={
            "jobs simulated": len(log),
            "jobs counted": figures.jobs,
            "processors": log.max_procs or 0,
            "warm-up": span(graded.asked.warm_up),
            "SHA-256 of the log's values": log.digest(),
        },
    )


def sentences(graded: Graded, helps: str) -> list[str]:
    figures, letter = graded.figures, graded.grade
    why = refusals(figures) if letter == "refused" else []
    if letter == "refused" and not why:
        why = [
            f"{one.text} does not hold, {one.found}" for one in criteria(figures) if one.grade == "C" and not one.holds
        ]
    found = [f"Grade {letter}: {MEANS[letter]}{': ' if why else ''}{'; '.join(why)}."]
    if not figures.jobs:
        nothing = f"No job waits behind the warm-up of {span(graded.asked.warm_up)}."
        return [*found, nothing, f"What would help: {helps}"]
    spread = figures.spread
    rho = figures.correlation
    weekly = "" if np.isnan(rho) else f", and weekly means correlate by {rho:.2f} (ρ)"
    itself = (
        f" The twin next to itself, shaken: {percent(spread.agreement)}, {span(spread.error)}, {spread.ratio:.2f}."
        if graded.shakes
        else ""
    )
    found.append(
        f"Of {counted(figures.jobs, 'job')} that waited {percent(figures.agreement.value)} start within two minutes or "
        f"10 % (P). The waits are together {shown(figures.ratio)} times the logged ones (R), the mean error is "
        f"{span(figures.error.value)} (M){weekly}.{itself}"
    )
    worst = figures.worst
    if worst is not None:
        how = f"{shown(worst.ratio)} times the logged waits" if worst.mean_wait else "which waits in the twin alone"
        found.append(f"Worst group: {worst.name}, {how}; it has {percent(worst.error_share)} of all error.")
    return [*found, f"What would help: {helps}"]


def _figures(graded: Graded) -> pd.DataFrame:
    figures, nothing = graded.figures, (None, None)  # no interval
    rows = [
        ("P: share within 2 min or 10 %", *astuple(figures.agreement)),
        ("R: waits, simulated / logged", *astuple(figures.ratio)),
        ("M: mean error_s", *astuple(figures.error)),
        ("P / P_S", *astuple(figures.of_spread)),
        ("ρ: rank correlation of weekly means", figures.correlation, *nothing),
        ("P_S", figures.spread.agreement, *nothing),
        ("M_S_s", figures.spread.error, *nothing),
        ("r_S", figures.spread.ratio, *nothing),
        ("share of the work that is unread", figures.unread, *nothing),
        ("logged load", figures.load, *nothing),
        ("blocks of whole weeks", figures.blocks, *nothing),
    ]
    return pd.DataFrame(rows, columns=["figure", "value", "low", "high"])


def _groups(graded: Graded) -> pd.DataFrame:
    rows = [
        (one.name, one.jobs, one.work_share, one.mean_wait, one.mean_twin, *astuple(one.ratio), one.error_share)
        for one in graded.figures.groups
    ]
    return pd.DataFrame(rows, columns=["group", "jobs", "share of work", "mean wait_s", "simulated_s", "ratio", "low",
                                       "high", "share of error"])  # fmt: skip


def _weeks(graded: Graded) -> pd.DataFrame:
    here = graded.counted
    table = pd.DataFrame({"week": graded.weeks[here], "logged_h": graded.wait[here], "simulated_h": graded.twin[here]})
    means = table.groupby("week").mean() / 3600
    return means.assign(jobs=table.groupby("week").size()).reset_index().assign(week=lambda one: one["week"] + 1)


def paint_groups(axes: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))
    spread = np.stack([table["ratio"] - table["low"], table["high"] - table["ratio"]])
    axes.axvline(1, color="#555555", linewidth=1)
    axes.axvspan(0.8, 1.2, color=COLOURS[2], alpha=0.12, linewidth=0)
    axes.axvspan(0.6, 1.4, color=COLOURS[4], alpha=0.10, linewidth=0)
    axes.errorbar(table["ratio"], place, xerr=spread, marker="o", linestyle="none", color=COLOURS[0])
    axes.set_yticks(place, [f"{name} ({jobs:,})" for name, jobs in zip(table["group"], table["jobs"], strict=True)])
    axes.invert_yaxis()
    axes.set(title="Waits of each group of jobs, simulated / logged", xlabel="1 is right; shaded: ± 0.2 and ± 0.4")


def _notes(graded: Graded) -> tuple[str, ...]:
    return (
        "Waits run from when a job was eligible to its start. A job counts if it waits more than two minutes in the "
        "log or in the twin, behind the warm-up: two weeks, the longest limit, or two half-lives of fair-share.",
        "Intervals (90 %) come from drawing blocks of whole weeks, each as long as twice the P95 wait. Groups have 200 "
        "counted jobs or 5 % of the work. Heavy users have half of the work, middle ones the next 40 %.",
        f"P_S, M_S and r_S are of the twin next to itself in {SHAKES} shakes: submissions moved by up to a second, and "
        "another phase of the backfill clock. They are the twin's chaos, not Slurm's.",
        "Not read, not known, in reservations or under rules that the twin lacks: "
        f"{percent(graded.figures.unread, 1)} of the work.",
    )
