"""A backtest as a page for a site's board: what the last month, and all months, would have been like."""

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from experiments.compare.compare import compare
from experiments.compare.measures import AS_LOGGED, MEASURES
from experiments.compare.result import COST, LEVEL, RESPONSE_BY_AREA, TOLERATED, Comparison, Ratio
from experiments.compare.sentences import allowed, in_percent, short
from experiments.reports.figures import COLOURS, Axes, Picture, bar_lengths
from experiments.reports.report import FirstScreen, Report
from experiments.site.advise.advice import CLASSES, FEWEST, NOTICED, Option, changes
from experiments.site.advise.figures import FIVE, WHO, five_figures, named, picture_of_who
from experiments.site.advise.sentences import span, who
from experiments.site.backtest.backtest import MONTHLY, TODAY, Backtest, Found
from experiments.site.backtest.backtest import NOTICED as MOVED
from predictors.core.errors import percent

if TYPE_CHECKING:
    from predictors.core.arrays import Floats

QUESTION: Final = "What would soft limits have done on this log, had they been on?"
DECIDES: Final = "mean_wait_s"  # what the sentences begin with: a board knows what a wait is


def report_on(asked: Backtest, found: Found) -> Report:
    months = found.months[found.months["seed"] == AS_LOGGED]
    compared = compare(found.runs, asked.after, TODAY, DECIDES, groups=found.groups)
    option = Option(asked.after, compared, tuple(changes(found.groups, asked.after, TODAY)))
    by_month = partial(paint_months, after=asked.after)
    whole = _whole(found.runs, asked.after, compared)
    return Report(
        experiment="backtest",
        log=asked.log.name,
        seeds=tuple(range(1, asked.seeds + 1)),
        first=FirstScreen(short(compared), FIVE, WHO),
        tables={
            FIVE: _five(whole, asked.after),
            "month by month": _monthly(months),
            "figures by month": _figures(months),
            "over all months": whole,
            "by width": _of(option, "size"),
            "by run time": _of(option, "run-time"),
            "by user": _of(option, "user"),
        },
        data={"runs": found.runs.drop(columns="table")},
        pictures=(
            picture_of_who(option, TODAY),
            Picture("waits_by_month", _by_month(found.months), by_month, 8.5, 3.6),
        ),
        notes=_notes(asked, len(months)),
        verdict=tuple(_verdict(asked, months, option)),
        question=QUESTION,
        details=(who(option, TODAY),),
        facts={
            "jobs simulated": len(asked.log),
            "processors": asked.log.max_procs or 0,
            "policy": asked.policy,
            "soft limits": f"{asked.after}, held as by {asked.soft_limits}",
            "SHA-256 of the log's values": asked.log.digest(),
        },
    )


def _verdict(asked: Backtest, months: pd.DataFrame, option: Option) -> list[str]:
    if len(months) < 2:
        first = f"This log lasts one month, {months['month'].iloc[0]}, and begins with nothing to learn from."
        return [first, *_month(months.iloc[-1]), _over_all(option.comparison, "the month")]
    full = months[months["jobs"] >= FEWEST]
    last = full.iloc[-1] if len(full) else months.iloc[-1]
    later = months.iloc[1:]
    short, with_one, jobs = (int(later[name].sum()) for name in ("short", "set", "jobs"))
    return [
        *_month(last),
        _over_all(option.comparison, f"all {len(later)} months after the first"),
        f"In these months {percent(with_one / jobs, 1)} of the jobs had a soft limit when they started; "
        f"{percent(short / max(with_one, 1), 1)} of these were too short. No job would have been stopped by one: the "
        "hard limits stay as they are.",
        f"In the first month, {months['month'].iloc[0]}, there is nothing to learn from at the beginning; it does not "
        "count above.",
    ]


def _month(month: "pd.Series[float]") -> list[str]:
    n = int(month["jobs"])
    moved = [
        f"{int(month[way]):,} would have started {way}"
        + (f" (by {span(month[f'{way}_median_s'])} in the median)" if month[way] else "")
        for way in ("earlier", "later")
    ]
    wait = [month[f"{side}_{DECIDES}"] for side in ("before", "after")]
    limits = (
        f"{int(month['short']):,} of their {int(month['set']):,} soft limits "
        f"({percent(month['short'] / month['set'], 1)}) were too short, by "
        f"{span(month['short_median_s'])} in the median and {span(month['short_most_s'])} at most."
        if month["short"]
        else f"None of their {int(month['set']):,} soft limits was too short."
    )
    return [
        f"Had it been on in {month['month']}: of {n:,} jobs {moved[0]} and {moved[1]}; the mean wait would have been "
        f"{span(wait[1])} instead of {span(wait[0])}. {limits}"
    ]


def _over_all(found: Comparison, months: str) -> str:
    others = {price.measure: price for price in found.prices}
    named = [
        f"{MEASURES[name].title} {in_percent(others[name].ratio)}"
        for name in ("p99_wait_s", "max_wait_s", "widest5_mean_wait_s", RESPONSE_BY_AREA)
        if name in others
    ]
    sure = {"better": "certainly shorter", "worse": "certainly longer", COST: "certainly shorter, at others' cost"}
    word = sure.get(found.outcome, "inside the noise")
    return f"Over {months}: mean wait {in_percent(found.ratio)}, {word}; {', '.join(named)}."


def _monthly(months: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "month": months["month"],
            "jobs": months["jobs"].astype(int),
            "earlier": months["earlier"].astype(int),
            "later": months["later"].astype(int),
            "soft limits": months["set"].astype(int),
            "too short": months["short"].astype(int),
            "too short by, median_s": months["short_median_s"],
            "too short by, most_s": months["short_most_s"],
            "mean wait today_s": months[f"before_{DECIDES}"],
            "mean wait then_s": months[f"after_{DECIDES}"],
            "by area today_s": months["before_area_weighted_mean_wait_s"],
            "by area then_s": months["after_area_weighted_mean_wait_s"],
        }
    )


def _figures(months: pd.DataFrame) -> pd.DataFrame:
    """Return the five figures of each month and those weighted by area, today and then, a row each."""
    rows = [
        {"month": row["month"], "figure": MEASURES[name].title, "today": row[f"before_{name}"],
         "then": row[f"after_{name}"]}
        for row in months.to_dict(orient="records") for name in MONTHLY
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _whole(runs: pd.DataFrame, after: str, compared: Comparison) -> pd.DataFrame:
    """Return the figures over all months as logged, and the ratio over the shakes with its interval."""
    as_logged = runs[runs["seed"] == AS_LOGGED].set_index("case")
    rows = []
    for name in MONTHLY:
        ratio = compared.ratio if name == compared.measure else compare(runs, after, TODAY, name).ratio
        today, then = (float(as_logged[name][case]) for case in (TODAY, after))
        rows.append({"figure": MEASURES[name].title, "today": today, "then": then, "ratio": ratio.value,
                     "low": ratio.low, "high": ratio.high})  # fmt: skip
    return pd.DataFrame(rows)


def _five(whole: pd.DataFrame, after: str) -> pd.DataFrame:
    rows = whole.head(5).to_dict(orient="records")
    return five_figures(
        TODAY,
        after,
        [(name, row["today"], row["then"], Ratio(row["ratio"], row["low"], row["high"]))
         for name, row in zip(MONTHLY[:5], rows, strict=True)],
    )  # fmt: skip


def _of(option: Option, kind: str) -> pd.DataFrame:
    """Return what becomes of the mean wait of each class, or of each user with enough jobs."""
    found = [change for change in option.changes if change.by == kind]
    found = found if kind in CLASSES else [change for change in found if change.n_jobs >= FEWEST]
    rows = [
        {"group": named(change), "jobs": change.n_jobs, "today_s": change.before_s, "then_s": change.after_s,
         "ratio": change.ratio.value, "low": change.ratio.low, "high": change.ratio.high, "outcome": change.outcome}
        for change in found
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["group", "jobs", "today_s", "then_s", "ratio", "low", "high", "outcome"])


def _by_month(months: pd.DataFrame) -> pd.DataFrame:
    """Return for each month the mean waits over the shakes, and the least and the greatest [h]."""
    shaken = months[months["seed"] != AS_LOGGED]
    names = list(dict.fromkeys(months.loc[months["seed"] == AS_LOGGED, "month"]))
    rows = []
    for name in names:
        part = shaken[shaken["month"] == name]
        row: dict[str, float | str] = {"month": name}
        for side in ("before", "after"):
            hours: Floats = part[f"{side}_{DECIDES}"].to_numpy(dtype=np.float64) / 3600
            row |= {f"{side}_h": hours.mean(), f"{side}_low_h": hours.min(), f"{side}_high_h": hours.max()}
        rows.append(row)
    return pd.DataFrame(rows)


def paint_months(axes: Axes, table: pd.DataFrame, after: str) -> None:
    """Draw the mean wait of each month, today and with soft limits."""
    place = np.arange(len(table))
    looks = (("before", "today, by requested times", "o", 0), ("after", f"with soft limits ({after})", "s", 1))
    for number, (side, label, marker, colour) in enumerate(looks):
        spread = bar_lengths(table, f"{side}_h", f"{side}_low_h", f"{side}_high_h")
        axes.errorbar(place + 0.16 * (number - 0.5), table[f"{side}_h"], yerr=spread, marker=marker,
                      color=COLOURS[colour], label=label, linewidth=1.2, elinewidth=1)  # fmt: skip
    if len(table) > 1:
        axes.axvspan(-0.5, 0.5, color="#999999", alpha=0.15, linewidth=0, label="nothing to learn from")
    step = -(-len(table) // 14)
    axes.set_xticks(place[::step], list(table["month"])[::step], rotation=30 if len(table) > 6 else 0)
    axes.set(title="Mean wait by month of submission", ylabel="mean wait [h]", ylim=(0, None))
    axes.legend(fontsize=9)


def _notes(asked: Backtest, n_months: int) -> tuple[str, ...]:
    padded = {
        "cesnet": "cesnet: the requested time x the worst run time / request of the user's last 15 jobs, + 15 min.",
        "metastack": "metastack: the mean of alike jobs of the last 90 days, else of the user's last ten in the "
        "partition, else half the request.",
    }
    told = (padded[asked.predictor],) if asked.predictor in padded else ()
    return (
        *told,
        f"Both columns are simulations of the whole log under {asked.policy}: today by requested times, then with soft "
        "limits from the first day on, set as `jobcast slurm` sets them: at looks every "
        f"{asked.looks.every} s, for jobs that wait, by P90 of what had ended by then, never of later jobs. A job is "
        "stopped at its requested time alone.",
        f"A start counts as earlier or later if it moves by more than {MOVED} s. The counts are of the log as it is; "
        f"ratios and intervals ({100 * LEVEL:.0f} %) of {asked.seeds} copies with submissions moved by up to 60 s "
        "and run times by up to 3 %, since single starts depend on chance.",
        f"A class gains or loses where the whole interval lies beyond {allowed(TOLERATED)}, and by {NOTICED:.0f} s or "
        f"more; a user where every copy says so. Users are codes, and of fewer than {FEWEST} jobs nothing is said.",
        "Not simulated: priorities, partitions, reservations, outages, and users who would ask otherwise. "
        f"By area: each job weighs by its processors x run time. The log has {n_months} months, the first and the last "
        "perhaps in part.",
    )
