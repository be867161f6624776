"""Pictures of one schedule: Gantt chart, utilisation, queue, waits, slowdown by width and by length."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, Axes, bar_lengths, draw
from schedsim.results.exports import place
from schedsim.results.metrics import RUN_TIME_CLASSES, RUN_TIMES, bounded_slowdown
from schedsim.results.schedule import STARTED_BY, Schedule
from schedsim.results.timelines import mean_by_span, timeline

DAY: Final = 86_400
MOST_SPANS: Final = 400
GANTT_JOBS: Final = 400  # jobs in the Gantt chart: those around the fullest queue; more cannot be distinguished


def draw_schedule(folder: Path, schedule: Schedule) -> list[Path]:
    """Draw every picture of a schedule; return the files written, PNG, SVG and CSV each."""
    spans = spans_of(schedule)
    return [
        *draw(folder, "gantt", gantt(schedule), paint_gantt, height=5.0),
        *draw(folder, "utilisation", spans, paint_utilisation),
        *draw(folder, "queue", spans, paint_queue),
        *draw(folder, "wait", waits(schedule), paint_waits),
        *draw(folder, "slowdown_by_width", by_width(schedule), paint_by_width),
        *draw(folder, "slowdown_by_length", by_length(schedule), paint_by_length),
    ]


def spans_of(schedule: Schedule) -> pd.DataFrame:
    """Return utilisation and queue as means over equal spans of at least an hour, at most 400 of them."""
    line = timeline(schedule)
    whole = int(line.time[-1] - line.time[0])
    n_spans = int(np.clip(whole // 3600, 1, MOST_SPANS))
    busy, begin = mean_by_span(line, line.busy_procs, n_spans)
    queued, _ = mean_by_span(line, line.queued_jobs, n_spans)
    asked, _ = mean_by_span(line, line.queued_procs, n_spans)
    return pd.DataFrame(
        {"day": begin / DAY, "utilisation": busy / schedule.workload.machine_procs, "queued_jobs": queued,
         "queued_machines": asked / schedule.workload.machine_procs}
    )  # fmt: skip


def paint_utilisation(axes: Axes, table: pd.DataFrame) -> None:
    """Share of the processors in use over time."""
    axes.fill_between(table["day"], table["utilisation"], step="post", color=COLOURS[0], alpha=0.7, linewidth=0)
    axes.set(title="Utilisation", xlabel="time [days since the first submission]", ylabel="share of processors in use")
    axes.set_ylim(0, 1.02)


def paint_queue(axes: Axes, table: pd.DataFrame) -> None:
    """How many jobs wait over time."""
    axes.step(table["day"], table["queued_jobs"], where="post", color=COLOURS[5], linewidth=1)
    axes.set(title="Queue", xlabel="time [days since the first submission]", ylabel="jobs waiting")
    axes.set_ylim(bottom=0)


def gantt(schedule: Schedule) -> pd.DataFrame:
    """Return the rectangles of the jobs that started around the time of the fullest queue."""
    line = timeline(schedule)
    fullest = int(line.time[int(np.argmax(line.queued_procs))])
    order = np.argsort(schedule.start, kind="stable")
    middle = int(np.searchsorted(schedule.start[order], fullest))
    first = int(np.clip(middle - GANTT_JOBS // 2, 0, max(0, len(order) - GANTT_JOBS)))
    intervals = place(schedule)
    return pd.DataFrame(
        [
            {"job_id": int(schedule.workload.job_id[row]), "start_h": schedule.start[row] / 3600,
             "end_h": schedule.end[row] / 3600, "first_proc": low, "last_proc": high,
             "started_by": STARTED_BY[schedule.started_by[row]]}
            for row in order[first : first + GANTT_JOBS].tolist()
            for low, high in intervals[row]
        ]
    )  # fmt: skip


def paint_gantt(axes: Axes, table: pd.DataFrame) -> None:
    """Which processors each job held, and how it came to start."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    for name, colour in zip(STARTED_BY, COLOURS, strict=False):
        part = table[table["started_by"] == name]
        corners = part[["start_h", "end_h", "first_proc", "last_proc"]].to_numpy(dtype=np.float64)
        boxes = [Rectangle((begin, low), end - begin, high - low + 1) for begin, end, low, high in corners]
        axes.add_collection(PatchCollection(boxes, facecolor=colour, edgecolor="white", linewidth=0.4))
    axes.set_xlim(table["start_h"].min(), np.quantile(table["end_h"], 0.98))
    axes.set_ylim(0, table["last_proc"].max() + 1)
    handles = [Patch(color=colour, label=name) for name, colour in zip(STARTED_BY, COLOURS, strict=False)]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    title = f"{table['job_id'].nunique()} jobs around the fullest queue; placed on the lowest free processors"
    axes.set(title=title, xlabel="time [h since the first submission]", ylabel="processor")


def waits(schedule: Schedule) -> pd.DataFrame:
    """Return the distribution of the wait, at 200 shares of the jobs."""
    share = np.linspace(0, 1, 201)
    return pd.DataFrame({"share_of_jobs": share, "wait_h": np.quantile(schedule.wait, share) / 3600})


def paint_waits(axes: Axes, table: pd.DataFrame) -> None:
    """Share of jobs that wait no longer than so long."""
    axes.plot(table["wait_h"], table["share_of_jobs"], color=COLOURS[0])
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set(title="Distribution of the wait", xlabel="wait [h]", ylabel="share of jobs that wait no longer")
    axes.set_ylim(0, 1.02)


def by_width(schedule: Schedule) -> pd.DataFrame:
    """Return bounded slowdown by classes of width: 1, 2, 3-4, 5-8, … processors."""
    top = np.ceil(np.log2(schedule.workload.procs)).astype(np.int64)
    labels = {
        power: "1" if power == 0 else "2" if power == 1 else f"{2 ** (power - 1) + 1}-{2**power}" for power in top
    }
    return _by_class(schedule, top, labels)


def by_length(schedule: Schedule) -> pd.DataFrame:
    return _by_class(schedule, np.digitize(schedule.run_time, RUN_TIMES), dict(enumerate(RUN_TIME_CLASSES)))


def _by_class(schedule: Schedule, classes: np.ndarray, labels: dict[int, str]) -> pd.DataFrame:
    slowdown = bounded_slowdown(schedule.wait, schedule.run_time)
    rows = []
    for one in np.unique(classes).tolist():
        here = classes == one
        low, middle, high = np.quantile(slowdown[here], [0.25, 0.5, 0.75])
        rows.append({"class": labels[one], "jobs": int(here.sum()), "p25": low, "median": middle, "p75": high,
                     "mean": float(slowdown[here].mean())})  # fmt: skip
    return pd.DataFrame(rows)


def paint_by_width(axes: Axes, table: pd.DataFrame) -> None:
    _paint_classes(axes, table, "processors")


def paint_by_length(axes: Axes, table: pd.DataFrame) -> None:
    _paint_classes(axes, table, "run time")


def _paint_classes(axes: Axes, table: pd.DataFrame, what: str) -> None:
    at = np.arange(len(table))
    spread = bar_lengths(table, "median", "p25", "p75")
    axes.errorbar(at, table["median"], yerr=spread, fmt="o", color=COLOURS[0], capsize=3, label="median, quartiles")
    axes.plot(at, table["mean"], marker="D", linestyle="none", color=COLOURS[5], label="mean")
    axes.set_xticks(at, [f"{row[0]}\n({row[1]:,})" for row in table[["class", "jobs"]].itertuples(index=False)])
    axes.tick_params(axis="x", labelsize=8)
    axes.set_yscale("log")
    axes.set(title=f"Bounded slowdown by {what}", xlabel=f"{what} (jobs)", ylabel="bounded slowdown")
    axes.legend()
