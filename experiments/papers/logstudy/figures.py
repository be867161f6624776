"""Pictures of the studies of logs, after Allcock et al.'s Figures 1, 4 to 22 and Li et al.'s Figures 2 and 3."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.logstudy import observations as study
from experiments.papers.logstudy.applications import BOUNDARY
from experiments.papers.logstudy.jobs import StudyJobs
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture, legend_beside

HATCHES: Final = ("", "//", "..", "xx", "\\\\", "++", "oo")
MOST_TICKS: Final = 13
SHOWN_APPLICATIONS: Final = 5


def pictures(jobs: StudyJobs) -> Iterator[Picture]:
    """Yield Allcock et al.'s figures, as far as the log has the columns."""
    top = with_table(jobs, jobs.table.assign(queue=study.in_top(jobs.table, "queue", study.TOP_QUEUES, "core_hours")))
    months, years = study.by_period(jobs, "M"), study.by_period(top, "Y", "queue")
    for column, what in (("jobs", "Jobs"), ("core_hours", _hours(jobs))):
        stem, done = ("jobs", "submitted") if column == "jobs" else ("hours", "used")
        paint = partial(paint_months, column=column, title=f"{what} {done}, by month")
        yield Picture(f"fig1_{stem}_by_month", months, paint)
        paint = partial(paint_stack, column=column, title=f"{what} by year and queue")
        yield Picture(f"fig4_{stem}_by_year", years, paint)
    if jobs.has("wait"):
        yield Picture("fig6_wait_by_month", study.by_period(top, "M", "queue"), paint_waits)
    if jobs.has("user"):
        user, _ = study.busiest_user(jobs)
        own = study.by_period(with_table(jobs, jobs.table[jobs.table["user"] == user]), "M")
        title = f"Jobs of the user with most of them ({user[:20]}), by month"
        yield Picture("fig5_busiest_user", own, partial(paint_months, column="jobs", title=title))
        yield from _surge_pictures(jobs, top)
    yield from _exit_pictures(jobs, top)
    yield from _cycle_pictures(jobs)
    yield from _overburn_pictures(jobs)


def _surge_pictures(jobs: StudyJobs, top: StudyJobs) -> Iterator[Picture]:
    """Yield Figures 7 to 10: the user with most core-hours of wide jobs in a month, and that month's neighbours."""
    user, month = study.widest_user(jobs)
    own = with_table(jobs, jobs.table[jobs.table["user"] == user])
    name, hours = user[:20], _hours(jobs)
    title = f"Jobs of the user with most wide work in a month ({name})"
    paint = partial(paint_months, column="jobs", title=title)
    yield Picture("fig7_widest_user", study.by_period(own, "M"), paint)
    for number, whose, part in ((8, f"of that user ({name})", own), (9, "of all users", jobs)):
        near = study.by_period(study.around(part, month), "M")
        for column, what in (("jobs", "Jobs"), ("core_hours", hours)):
            paint = partial(paint_months, column=column, title=f"{what} {whose}, {month} and the months around it")
            yield Picture(f"fig{number}_{column}_around", near, paint)
    if jobs.has("wait"):
        yield Picture("fig10_wait_around", study.by_period(study.around(top, month), "M", "queue"), paint_waits)


def _exit_pictures(jobs: StudyJobs, top: StudyJobs) -> Iterator[Picture]:
    if "exit_code" in jobs.table:
        everyone = study.exits(with_table(jobs, jobs.table.assign(log="all jobs")), "log", 1)
        yield Picture("fig11_exits", everyone, partial(paint_shares, key="log", title="Exit codes of all jobs"))
        shares = study.exits(top, "queue", study.TOP_QUEUES + 1)
        yield Picture("fig12_exits_by_queue", shares, partial(paint_shares, key="queue", title="Exit codes by queue"))
        for number, key in ((13, "user"), (15, "mode")):
            if jobs.has(key):
                title = f"Exit codes of the {key}s with most jobs"
                shares = study.exits(jobs, key, study.TOP_USERS)
                yield Picture(f"fig{number}_exits_by_{key}", shares, partial(paint_shares, key=key, title=title))
    if jobs.has("mode"):
        modes = with_table(jobs, jobs.table.assign(queue=study.in_top(jobs.table, "mode", study.TOP_QUEUES)))
        paint = partial(paint_stack, column="jobs", title="Jobs by year and mode")
        yield Picture("fig14_modes_by_year", study.by_period(modes, "Y", "queue"), paint)


def _cycle_pictures(jobs: StudyJobs) -> Iterator[Picture]:
    cycles = study.cycles(jobs)
    for cycle in ("weekday", "month", "hour"):
        part = cycles[cycles["cycle"] == cycle].dropna(subset=["jobs_a_day"])
        yield Picture(f"fig19_{cycle}", part, partial(paint_cycle, title=f"Jobs submitted, by {cycle}"))
    if jobs.has("user"):
        yield Picture("fig20_user_weeks", study.user_weeks(jobs), paint_weeks)


def _overburn_pictures(jobs: StudyJobs) -> Iterator[Picture]:
    if not jobs.has("overburn"):
        return
    yield Picture("fig21_overburn", study.overburn(jobs), partial(paint_overburn, title="Overburn by month"))
    if "project" in jobs.table:
        project = study.largest_project(jobs)
        title = f"Overburn of the largest project ({project[:20]})"
        yield Picture("fig22_overburn_project", study.overburn(jobs, project), partial(paint_overburn, title=title))


def with_table(jobs: StudyJobs, table: pd.DataFrame) -> StudyJobs:
    """Return the study's jobs with another table."""
    return replace(jobs, table=table)


def _hours(jobs: StudyJobs) -> str:
    return "Core-hours" if jobs.unit == "cores" else "Processor-hours"


def _few_ticks(axes: Axes, labels: list[str]) -> None:
    step, slanted = max(1, -(-len(labels) // MOST_TICKS)), len(labels[0]) > 4
    axes.set_xticks(range(0, len(labels), step), labels[::step])
    if slanted:
        axes.tick_params(axis="x", rotation=45)


def _unit(column: str) -> str:
    return {"jobs": "jobs", "core_hours": "processor- or core-hours"}[column]


def paint_months(axes: Axes, table: pd.DataFrame, column: str, title: str) -> None:
    labels = _all_months(table["period"])
    values = table.set_index("period")[column].reindex(labels).fillna(0)
    axes.bar(range(len(labels)), values, color=COLOURS[0])
    _few_ticks(axes, labels)
    axes.set(title=title, xlabel="month", ylabel=_unit(column))


def _all_months(periods: "pd.Series[str]") -> list[str]:
    freq = "M" if len(str(periods.iloc[0])) > 4 else "Y"
    return [str(p) for p in pd.period_range(periods.min(), periods.max(), freq=freq)]


def paint_stack(axes: Axes, table: pd.DataFrame, column: str, title: str) -> None:
    """Stacked bars by year, a colour and hatch a queue."""
    wide = table.pivot_table(index="period", columns="queue", values=column, aggfunc="sum").fillna(0)
    wide = wide[wide.sum().sort_values(ascending=False).index].rename(columns=lambda queue: str(queue)[:24])
    _stack(wide, partial(axes.bar, width=0.6), "bottom")
    axes.set_xticks(range(len(wide)), list(wide.index))
    axes.set_xlim(-0.6, max(len(wide), 3) - 0.4)
    axes.set(title=title, xlabel="year of submission", ylabel=_unit(column))
    legend_beside(axes, fontsize=8)


def _stack(wide: pd.DataFrame, bar: Callable[..., Any], foot: str) -> None:
    """Stack the columns of a table, a colour and hatch each; `foot` names the bars' argument for where they begin."""
    below = wide.cumsum(axis=1).shift(axis=1, fill_value=0)
    for k, name in enumerate(wide):
        bar(range(len(wide)), wide[name], color=COLOURS[k % len(COLOURS)], hatch=HATCHES[k % len(HATCHES)],
            edgecolor="white", label=str(name), **{foot: below[name]})  # fmt: skip


def paint_waits(axes: Axes, table: pd.DataFrame) -> None:
    """Mean wait by month, a line a queue."""
    labels = _all_months(table["period"])
    order = table.groupby("queue")["jobs"].sum().sort_values(ascending=False).index
    for k, queue in enumerate(order):
        part = table[table["queue"] == queue].set_index("period")["mean_wait_s"].reindex(labels) / 3600
        axes.plot(range(len(labels)), part, marker=MARKERS[k % len(MARKERS)], markersize=4, linewidth=1,
                  color=COLOURS[k % len(COLOURS)], label=str(queue)[:24])  # fmt: skip
    _few_ticks(axes, labels)
    axes.set(title="Mean wait of jobs by month of submission", xlabel="month", ylabel="mean wait [h]")
    axes.set_ylim(bottom=0)
    legend_beside(axes, fontsize=8)


def paint_shares(axes: Axes, table: pd.DataFrame, key: str, title: str) -> None:
    """Stacked bars that add up to 1: how the jobs of each queue, user or mode ended."""
    wide = table.pivot_table(index=key, columns="code", values="share").fillna(0)
    sizes = table.groupby(key)["jobs"].sum().sort_values()
    wide = wide.reindex(sizes.index)[wide.sum().sort_values(ascending=False).index]
    _stack(wide, axes.barh, "left")
    axes.set_yticks(range(len(wide)), [f"{str(name)[:20]} ({sizes[name]:,})" for name in wide.index])
    axes.set(title=title, xlabel="share of jobs", ylabel=f"{key} (jobs)")
    axes.set_xlim(0, 1)
    legend_beside(axes, fontsize=8, title="exit code")


def paint_cycle(axes: Axes, table: pd.DataFrame, title: str) -> None:
    labels = list(table["part"])
    axes.bar(range(len(labels)), table["jobs_a_day"], color=COLOURS[0])
    short = [label[:3] for label in labels]
    axes.set_xticks(range(len(labels)), short)
    axes.set(title=title, xlabel=str(table["cycle"].iloc[0]), ylabel="jobs a day")


def paint_weeks(axes: Axes, table: pd.DataFrame) -> None:
    """Lines: the week of each of the users with most jobs."""
    for k, (user, part) in enumerate(table.groupby("user")):
        week = part.set_index("weekday")["share"].reindex(range(7)).fillna(0)
        axes.plot(range(7), week, marker=MARKERS[k % len(MARKERS)], color=COLOURS[k % len(COLOURS)], markersize=5,
                  linewidth=1, label=str(user)[:20])  # fmt: skip
    axes.axhline(1 / 7, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(range(7), [day[:3] for day in study.DAYS])
    axes.set(title="When the users with most jobs submit", xlabel="weekday", ylabel="share of the user's jobs")
    axes.set_ylim(bottom=0)
    legend_beside(axes, fontsize=8, title="user")


def paint_overburn(axes: Axes, table: pd.DataFrame, title: str) -> None:
    """Lines by month: shares of jobs and of core-hours beyond the allocation."""
    labels = list(table["month"])
    for k, (column, label) in enumerate((("share_of_jobs", "jobs"), ("share_of_core_hours", "core-hours"))):
        axes.plot(range(len(labels)), table[column], marker=MARKERS[k], color=COLOURS[k], markersize=4, label=label)
    _few_ticks(axes, labels)
    axes.set(title=title, xlabel="month", ylabel="share beyond the allocation")
    axes.set_ylim(0, 1)
    axes.legend()


def failure_pictures(places: pd.DataFrame, hits: pd.DataFrame, queues: pd.DataFrame) -> list[Picture]:
    """Return the figures of failures: places, time after the start, queues."""
    after = pd.DataFrame({"after_h": np.sort(hits["after_s"].to_numpy()) / 3600})
    after["share"] = np.arange(1, len(after) + 1) / max(len(after), 1)
    return [
        Picture("fig16_failures_by_place", places.head(25), paint_places),
        Picture("fig17_failures_after_start", after, paint_after),
        Picture("fig18_failures_by_queue", queues.head(10), paint_queues_hit),
    ]


def paint_places(axes: Axes, table: pd.DataFrame) -> None:
    """Points: failures of each place against its node-hours."""
    axes.scatter(table["node_hours"], table["failures"], color=COLOURS[5], marker="o")
    axes.set(title="Failures and use of the 25 places with most failures", xlabel="node-hours used", ylabel="failures")
    axes.set_ylim(bottom=0)


def paint_after(axes: Axes, table: pd.DataFrame) -> None:
    """Step function: when after a job's start its failure came."""
    axes.step(table["after_h"], table["share"], where="post", color=COLOURS[0])
    axes.set(title="Failures after the start of the job", xlabel="time since its start [h]", ylabel="share of failures")
    axes.set_ylim(0, 1)


def paint_queues_hit(axes: Axes, table: pd.DataFrame) -> None:
    """Bars: share of jobs hit by a failure, by queue."""
    axes.barh(range(len(table)), 100 * table["share"], color=COLOURS[0])
    axes.set_yticks(range(len(table)), [str(queue)[:24] for queue in table["queue"]])
    axes.invert_yaxis()
    axes.set(title="Jobs hit by a failure, by queue", xlabel="share of jobs [%]")


def paint_boxes(axes: Axes, table: pd.DataFrame, boundary: float = BOUNDARY) -> None:
    """Boxes: run times of applications under High and Normal utilisation, over the application's median."""
    names = list(dict.fromkeys(table["label"]))
    look: dict[str, Any] = {
        "patch_artist": True, "showmeans": True, "medianprops": {"color": "black"},
        "meanprops": {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4},
        "flierprops": {"marker": ".", "markersize": 3},
    }  # fmt: skip
    for k, (group, sign, colour, hatch) in enumerate(
        (("Normal", "≤", COLOURS[0], ""), ("High", ">", COLOURS[1], "//"))
    ):
        part = table[table["group"] == group]
        values = [part[part["label"] == name]["over_median"].to_numpy() for name in names]
        boxes = axes.boxplot(values, positions=np.arange(len(names)) + (k - 0.5) * 0.36, widths=0.3, **look)
        for box in boxes["boxes"]:
            box.set(facecolor=colour, hatch=hatch, alpha=0.8)
        axes.bar([0], [0], color=colour, hatch=hatch, alpha=0.8, label=f"{group}: {sign} {boundary:.1%}")
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set(title="Run times under Normal and High utilisation", ylabel="run time / median of the application")
    axes.set_ylim(bottom=min(0.9, float(table["over_median"].min()) * 0.95))
    legend_beside(axes, fontsize=8, title="utilisation")


def boxes_of(runs: pd.DataFrame, shown: list[str], boundary: float) -> pd.DataFrame:
    """Return the runs of some applications as `paint_boxes` draws them, in the order given."""
    part = runs[runs["application"].isin(shown)].copy()
    part["group"] = np.where(part["utilisation"] > boundary, "High", "Normal")
    part["over_median"] = part["run_time"] / part.groupby("application")["run_time"].transform("median")
    part["label"] = part["application"] + "\n" + part["nodes"].astype(int).astype(str) + " nodes"
    part["place"] = part["application"].map({name: k for k, name in enumerate(shown)})
    part = part.sort_values(["place", "start"])
    return part[["label", "group", "run_time", "over_median", "utilisation"]]


def paint_increases(axes: Axes, table: pd.DataFrame) -> None:
    """Points with 90 % intervals: the mean run time under High over that under Normal, an application a line."""
    part = table.head(25)
    at = np.arange(len(part))[::-1]
    middle = 100 * part["increase"].to_numpy()
    spread = np.abs(100 * part[["low", "high"]].to_numpy().T - middle)
    axes.errorbar(middle, at, xerr=spread, fmt="o", color=COLOURS[0], capsize=2, markersize=4)
    axes.axvline(0, color="black", linewidth=1)
    axes.axvspan(6.7, 21.1, color=COLOURS[1], alpha=0.2, label="Li et al.: 6.7 to 21.1 %")
    labels = part["application"] + " (" + part["nodes"].astype(str) + " nodes, " + part["runs"].astype(str) + ")"
    axes.set_yticks(at, list(labels), fontsize=7)
    axes.set(title="How much longer runs are under High utilisation", xlabel="increase of the mean run time [%] (90 %)")
    axes.set_ylabel("application (nodes, runs)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8)
