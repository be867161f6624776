"""A what-if as a page: who waits shorter, who longer, and by how much; what does not hold has no figure."""

from typing import Final

import numpy as np
import pandas as pd

from experiments.compare.sentences import listed
from experiments.reports.figures import COLOURS, Axes, Picture
from experiments.reports.report import FirstScreen, Report
from experiments.site.advise.sentences import span
from experiments.site.whatif.whatif import FIGURES, Compared, Difference, Target
from predictors.core.errors import counted, percent

QUESTION: Final = "Who would wait shorter or longer if the site were changed?"
WHO: Final = "who"  # stem of the picture on the first screen
FIRST: Final = "difference"  # title of the table there
SEARCH: Final = "search"
NONE: Final = "no difference that the twin can tell"
MOST_ROWS: Final = 6  # groups on the first screen
MOST_NAMED: Final = 3  # groups in a sentence
COLUMNS: Final = ("group", "jobs", "before_s", "after_s", "change_s", "low_s", "high_s", "spread_s", "holds")


def report_on(compared: Compared, change: str, caution: str, searched: Target | None = None) -> Report:
    """Return the report of a what-if; `change` names it, and `caution` stands on top where the grade is below B."""
    rows = [compared.all_jobs, *compared.by_group]
    groups = _table(rows)
    by_change = sorted((one for one in compared.by_group if one.holds), key=lambda one: -abs(one.change))
    verdict = sentences(compared, change, searched)
    searches = {} if searched is None else {SEARCH: _search(searched)}
    log, asked = compared.asked.log, compared.asked
    return Report(
        experiment="whatif",
        log=log.name,
        seeds=tuple(range(1, asked.shakes + 1)),
        first=FirstScreen(verdict[0], FIRST, WHO, caution),
        tables={
            FIRST: _first([compared.all_jobs, *by_change[:MOST_ROWS]]),
            **searches,
            "by group": groups,
        },
        pictures=(Picture(WHO, groups, paint_groups, 8.5, 0.32 * len(groups) + 1.8),),
        notes=_notes(compared),
        verdict=(*([caution] if caution else []), *verdict),
        question=QUESTION,
        facts={
            "change": change,
            "jobs compared": int(compared.counted.sum()),
            "processors": log.max_procs or 0,
            "processors after": compared.after_side.jobs(log).max_procs or 0,
            "warm-up": span(asked.warm_up),
            "SHA-256 of the log's values": log.digest(),
        },
    )


def sentences(compared: Compared, change: str, searched: Target | None = None) -> list[str]:
    found = [] if searched is None else [_answer(searched, change)]
    holding = [one for one in compared.by_group if one.holds]
    everyone, gone, rest = compared.all_jobs, _gone(compared), "the others" if _gone(compared) else "jobs"
    if not everyone.holds and not holding:
        found.append(f"With {change}: {gone}{NONE}, neither of all jobs nor of a group.")
    else:
        lead = (
            f"{rest} wait {span(everyone.after)} in the mean, not {span(everyone.before)}" if everyone.holds
            else f"of all jobs {NONE}"
        )  # fmt: skip
        groups = f"; {_named(holding, -1)}; {_named(holding, 1)}" if holding else ""
        found.append(f"With {change}: {gone}{lead}{groups}.")
    if gone:
        found.append("Of the others a part of the difference is the absence of those that are gone.")
    return found


def _gone(compared: Compared) -> str:
    """Return which jobs are not simulated after the change, as a clause; empty if all are."""
    gone = compared.gone
    if not gone.any():
        return ""
    share = float(compared.work[gone].sum() / max(compared.work.sum(), 1.0))
    return (
        f"{counted(int(gone.sum()), 'job')} with {percent(share, 1)} of the work are gone, as their partition would "
        "not take them or no node fits them; "
    )


def _named(holding: list[Difference], sign: int) -> str:
    """Return which groups wait shorter, or longer, those with the most jobs first."""
    own = sorted((one for one in holding if one.change * sign > 0), key=lambda one: -one.jobs * abs(one.change))
    words = "shorter" if sign < 0 else "longer"
    more = f" and {len(own) - MOST_NAMED} more" if len(own) > MOST_NAMED else ""
    names = [f"{one.name} ({span(abs(one.change))})" for one in own[:MOST_NAMED]]
    return f"{words}: {', '.join(names) + more if more else listed(names) if names else 'none'}"


def _answer(target: Target, change: str) -> str:
    smallest, figure = target.smallest, FIGURES[target.figure]
    number = max(target.tried) if smallest is None else smallest
    held = span(float(np.mean(target.tried[number])))
    if smallest is None:
        return f"Target missed: with up to {number:,} the {figure} is {held}."
    return (
        f"{number:,} is the smallest number tried for a {figure} at most {span(target.most)} ({change}): it is {held}."
    )


def _table(rows: list[Difference]) -> pd.DataFrame:
    """Return differences as a table; those that do not hold have no figures of their change."""
    table = [
        (one.name, one.jobs, one.before, *((one.after, one.change, one.low, one.high) if one.holds else (None,) * 4),
         one.spread, "yes" if one.holds else "no")
        for one in rows
    ]  # fmt: skip
    return pd.DataFrame(table, columns=list(COLUMNS)).astype(dict.fromkeys(COLUMNS[2:8], float))


def _first(rows: list[Difference]) -> pd.DataFrame:
    table = [
        (one.name, span(one.before), span(one.after), f"{'+' if one.change > 0 else '−'}{span(abs(one.change))}")
        if one.holds
        else (one.name, span(one.before), "-", "none")
        for one in rows
    ]
    return pd.DataFrame(table, columns=["group", "before", "after", "difference"])


def _search(target: Target) -> pd.DataFrame:
    rows = [
        (number, float(np.mean(shaken)), "met" if target.is_met(number) else "missed")
        for number, shaken in sorted(target.tried.items())
    ]
    return pd.DataFrame(rows, columns=["number", f"{target.figure}_s", "target"])


def paint_groups(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the difference of each group with its interval; groups without one at 0, hollow."""
    place, change = np.arange(len(table)), table["change_s"].to_numpy(dtype=float) / 3600
    held = ~np.isnan(change)
    colours = np.where(np.nan_to_num(change) < 0, COLOURS[2], COLOURS[5])
    for at in np.flatnonzero(held).tolist():
        row = table.iloc[at]
        axes.barh(at, change[at], height=0.55, color=str(colours[at]))
        if not np.isnan(row["low_s"]):
            axes.plot([row["low_s"] / 3600, row["high_s"] / 3600], [at, at], color="#222222", linewidth=1)
    axes.plot(np.zeros(int((~held).sum())), place[~held], marker="o", markerfacecolor="white", color="#777777",
              linestyle="none")  # fmt: skip
    axes.axvline(0, color="#555555", linewidth=1)
    axes.use_sticky_edges = False  # bars leave room for the hollow points
    axes.set_yticks(place, [f"{name} ({jobs:,})" for name, jobs in zip(table["group"], table["jobs"], strict=True)])
    axes.invert_yaxis()
    axes.set(title="Who waits shorter (left), who longer (right)",
             xlabel="difference of the mean wait [h], 90 % interval; ○: none")  # fmt: skip


def _notes(compared: Compared) -> tuple[str, ...]:
    asked = compared.asked
    short = "" if asked.warm_up else " This log is too short for a warm-up: all of its jobs count."
    return (
        f"The log is simulated as the site is and changed, over the same {asked.shakes} shakes: submissions moved by "
        "up to a second, and another phase of the backfill clock. Each job is compared with itself, in each shake.",
        "A difference holds if it has the same sign in nine of ten shakes and exceeds the group's spread, the 90th "
        "percentile of the differences of the unchanged twin from itself. Others have no figures.",
        "Intervals (90 %) come from drawing blocks of whole weeks; without two blocks there is none. Waits run from "
        f"when a job was eligible, behind the warm-up of the grade.{short}",
        "Users submit the same jobs at the same times after the change.",
    )
