"""Figures 2 to 9 of Fan et al.: CSV, PNG and SVG each."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.compare.relative import over_seeds
from experiments.papers.dras.cases import DECIMA, DQL, FCFS, FROZEN, KEPT, OLDEST, OPTIMIZATION, PAPER, PG, RANDOM
from experiments.papers.dras.job_sets import HOUR, Parts, calendar, rates
from experiments.papers.dras.runs import JOBS, RECIPROCALS, RUN, TEST, VALIDATION, WEEKS, size_bounds, table_of
from experiments.reports.figures import COLOURS, HATCHES, MARKERS, Axes, Picture, legend_beside, look_of
from predictors.data.joblog import JobLog
from schedsim.results.schedule import STARTED_BY

Paint = Callable[["Axes", pd.DataFrame], None]

SHOWN: Final = (*PAPER, KEPT, OLDEST)
TRACE: Final = "trace"  # the waits that the log has
WEEKDAYS: Final = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
SMALL: Final = (6.0, 3.4)  # size of the pictures of Figure 3 [inches]
UNKNOWN: Final = "unknown"  # how jobs started, in a log
MODES: Final = dict(zip((*STARTED_BY, UNKNOWN), (COLOURS[2], COLOURS[5], COLOURS[0], COLOURS[6]), strict=True))


def sizes_of(log: JobLog) -> pd.DataFrame:
    """Return jobs and core hours of each class of sizes: Figure 2."""
    bounds = size_bounds(int(log.max_procs or log.procs.max()))
    number = np.searchsorted(bounds, log.procs)
    jobs = np.bincount(number, minlength=len(bounds))
    hours = np.bincount(number, weights=log.procs * log.values["run_time"], minlength=len(bounds)) / HOUR
    lower = [1, *(bounds[:-1] + 1).tolist()]
    names = [str(high) if low == high else f"{low}-{high}" for low, high in zip(lower, bounds.tolist(), strict=True)]
    return pd.DataFrame({"nodes": names, "jobs": jobs, "core_hours": hours})


def paint_rings(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the jobs of each class of sizes as the outer ring, their core hours as the inner one."""
    colours = [COLOURS[k % len(COLOURS)] for k in range(len(table))]
    shares = {column: table[column] / table[column].sum() for column in ("jobs", "core_hours")}
    for column, radius in (("jobs", 1.0), ("core_hours", 0.68)):
        labels = [f"{share:.0%}" if share >= 0.03 else "" for share in shares[column]]
        axes.pie(
            shares[column], radius=radius, colors=colours, labels=labels, textprops={"fontsize": 8},
            labeldistance=0.82 if radius < 1 else 1.04, wedgeprops={"width": 0.3, "edgecolor": "white"},
        )  # fmt: skip
    axes.legend(table["nodes"], title="nodes", loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9)
    axes.set_title("Training months by size: jobs (outer ring), core hours (inner ring)")


def patterns_of(log: JobLog) -> Iterator[Picture]:
    """Yield the pictures of Figure 3: arrivals by weekday and by hour, sizes, accuracy of requests."""
    pattern = rates(log)
    day, hour = calendar(log)
    accuracy = np.clip(log.values["run_time"] / log.values["requested_time"], 0, 1)
    edges = np.linspace(0, 1, 21)
    sizes, counts = np.unique(log.procs, return_counts=True)
    names = WEEKDAYS if log.epoch is not None else tuple(f"day {n}" for n in range(1, 8))
    jobs, ylabel = np.bincount(day, minlength=7), "jobs / average"
    paint = partial(paint_bars, y="rate", xlabel="", ylabel=ylabel, title="Figure 3a: submissions by day of the week")
    table = pd.DataFrame({"day": names, "jobs": jobs, "rate": pattern.mean(axis=1)})
    yield Picture("figure3a_by_day", table, paint, *SMALL)
    jobs, xlabel = np.bincount(hour, minlength=24), "hour of the day (UTC)"
    paint = partial(paint_bars, y="rate", xlabel=xlabel, ylabel=ylabel, title="Figure 3b: submissions by hour")
    table = pd.DataFrame({"hour": np.arange(24), "jobs": jobs, "rate": pattern.mean(axis=0)})
    yield Picture("figure3b_by_hour", table, paint, *SMALL)
    yield Picture("figure3c_sizes", pd.DataFrame({"nodes": sizes, "jobs": counts}), paint_steps, *SMALL)
    xlabel, title = "run time / requested time", "Figure 3d: accuracy of requested times"
    paint = partial(paint_bars, y="jobs", xlabel=xlabel, ylabel="jobs", title=title)
    table = pd.DataFrame({"run_time_/_request": edges[1:], "jobs": np.histogram(accuracy, edges)[0]})
    yield Picture("figure3d_accuracy", table, paint, *SMALL)


def paint_bars(axes: Axes, table: pd.DataFrame, y: str, xlabel: str, ylabel: str, title: str) -> None:
    """Draw one column against another as bars; numbers across are drawn at their values."""
    x = table.columns[0]
    numbers = pd.api.types.is_float_dtype(table[x])
    places = table[x].to_numpy() if numbers else np.arange(len(table))
    axes.bar(places, table[y], width=0.04 if numbers else 0.8, align="edge" if numbers else "center",
             color=COLOURS[0])  # fmt: skip
    if not numbers:
        step = max(1, len(table) // 24)
        axes.set_xticks(places[::step], [str(value) for value in table[x][::step]])
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title)


def paint_steps(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the share of jobs up to each size."""
    axes.step(table["nodes"], table["jobs"].cumsum() / table["jobs"].sum(), where="post", color=COLOURS[0])
    axes.set(xlabel="nodes", ylabel="share of jobs up to this size", xscale="log", ylim=(0, 1.02))
    axes.set_title("Figure 3c: sizes of the training months' jobs")


def curves_of(curve: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column of the training curves: means over the seeds with the least and the largest."""
    grouped = curve.groupby(["case", "episode"], sort=False)[column]
    return grouped.agg(["mean", "min", "max", "count"]).reset_index()


def paint_curves(
    axes: Axes, table: pd.DataFrame, ylabel: str, title: str, others: dict[str, float] | None = None
) -> None:
    """Draw curves over episodes, a band over the seeds, and other methods as lines across."""
    for k, (name, rows) in enumerate(table.groupby("case", sort=False)):
        look = {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
        axes.plot(rows["episode"], rows["mean"], label=str(name), markersize=4, **look)  # type: ignore[arg-type]
        axes.fill_between(rows["episode"], rows["min"], rows["max"], color=look["color"], alpha=0.15, linewidth=0)
    for k, (name, value) in enumerate((others or {}).items()):
        axes.axhline(value, color=COLOURS[(k + 3) % len(COLOURS)], linestyle=("--", ":", "-.")[k % 3], label=name)
    axes.set(xlabel="job sets trained on", ylabel=ylabel)
    axes.set_title(title)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def kiviat(runs: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """Return Figure 6's axes: reciprocals of four measures, and utilisation; 0 is worst, 1 best or all alike."""
    test = runs[(runs["part"] == TEST) & runs["case"].isin(cases)]
    middle = over_seeds(test, ["case"], [*RECIPROCALS.values(), "utilisation"]).set_index("case")
    middle = middle.loc[[case for case in cases if case in middle.index]]
    axes = {name: 1.0 / np.maximum(middle[column].to_numpy(float), 1e-9) for name, column in RECIPROCALS.items()}
    axes["utilisation"] = middle["utilisation"].to_numpy(float)
    scaled = {
        name: (values - values.min()) / np.ptp(values) if np.ptp(values) else np.ones_like(values)
        for name, values in axes.items()
    }
    table = pd.DataFrame({"method": list(middle.index), **scaled})
    corners = table[list(axes)].to_numpy()
    table["area"] = (corners * np.roll(corners, -1, axis=1)).sum(axis=1) / len(axes)
    return table


def paint_kiviat(axes: Axes, table: pd.DataFrame) -> None:
    """Draw a polygon a method; the corners are at the five axes."""
    names = [column for column in table.columns if column not in ("method", "area")]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    x, y = np.cos(angle), np.sin(angle)
    axes.grid(False)
    for radius in (0.25, 0.5, 0.75, 1.0):
        axes.plot(radius * np.append(x, x[0]), radius * np.append(y, y[0]), color="#cccccc", linewidth=0.6)
    for i, name in enumerate(names):
        axes.plot([0, x[i]], [0, y[i]], color="#cccccc", linewidth=0.6)
        label = name if name == "utilisation" else f"1 / {name}"
        axes.annotate(label, (1.25 * x[i], 1.12 * y[i]), ha="center", va="center", fontsize=9)
    for k, row in enumerate(table.to_dict("records")):
        values = np.array([row[name] for name in names])
        axes.plot(
            np.append(values * x, values[0] * x[0]), np.append(values * y, values[0] * y[0]),
            ("-", "--", "-.", ":")[(k // 2 + k // 8) % 4], marker=MARKERS[k % len(MARKERS)], **look_of(k),
            label=f"{row['method']} (area {row['area']:.2f})", markersize=4, linewidth=1.6,
        )  # fmt: skip
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.15, 1.3), aspect="equal", xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title("Figure 6: best of all is 1, worst is 0")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def paint_scatter(axes: Axes, table: pd.DataFrame, cases: Sequence[str]) -> None:
    """Draw the waits of jobs against their size, a panel a method, coloured by how they started."""
    figure = axes.figure
    axes.remove()
    there = [case for case in cases if (table["case"] == case).any()]
    columns = min(3, len(there))
    ticks = size_bounds(int(table["nodes"].max())).tolist()
    panels: Any = figure.subplots(-(-len(there) // columns), columns, sharex=True, squeeze=False)
    for panel, case in zip(panels.ravel(), there, strict=False):
        mine = table[table["case"] == case]
        for mode, colour in MODES.items():
            rows = mine[mine["mode"] == mode]
            if mode == UNKNOWN and not len(rows):
                continue
            panel.plot(rows["nodes"], rows["wait_h"] / 24, "o", markersize=2.2, color=colour, alpha=0.6, label=mode,
                       rasterized=True)  # fmt: skip
        panel.set_title(f"{case}: longest {mine['wait_h'].max() / 24:.0f} d", fontsize=9)
        panel.set(xscale="log")
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.set_xticks([], minor=True)
    for panel in panels.ravel()[len(there) :]:
        panel.axis("off")
    for panel in panels[-1]:
        panel.set_xlabel("nodes")
    for panel in panels[:, 0]:
        panel.set_ylabel("wait [d]")
    panels[0, 0].legend(fontsize=8, markerscale=2)


def modes_of(runs: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """Return the mean wait by how jobs started: Figure 8, medians over the seeds."""
    test = runs[(runs["part"] == TEST) & runs["case"].isin(cases)]
    middle = test.groupby("case", sort=False)[[f"{mode}_wait_s" for mode in STARTED_BY]].median() / HOUR
    middle = middle.loc[[case for case in cases if case in middle.index]]
    return pd.DataFrame(
        {"method": list(middle.index), **{mode: middle[f"{mode}_wait_s"].to_numpy() for mode in STARTED_BY}}
    )


def paint_modes(axes: Axes, table: pd.DataFrame) -> None:
    """Draw bars of the mean wait by how jobs started."""
    for k, mode in enumerate(("backfilled", "ready", "reserved")):
        axes.bar(np.arange(len(table)) + 0.27 * (k - 1), table[mode].fillna(0.0), 0.26, color=MODES[mode], label=mode,
                 hatch=HATCHES[k], edgecolor="white")  # fmt: skip
    axes.set_xticks(range(len(table)), [name.replace(", ", ",\n") for name in table["method"]], fontsize=8)
    axes.set(ylabel="mean wait [h]")
    axes.set_title("Figure 8: mean wait by how jobs started")
    legend_beside(axes, fontsize=9)


def by_week(weeks: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """Return core hours of each week, and mean waits of the methods: means over the seeds."""
    table = weeks[weeks["case"].isin(cases)].pivot_table(index="week", columns="case", values="wait_h", aggfunc="mean")
    hours = weeks.groupby("week")["core_hours"].mean()
    there = [case for case in cases if case in table]
    return pd.DataFrame({"week": table.index, "core_hours": hours.loc[table.index].to_numpy(), **{
        case: table[case].to_numpy() for case in there}})  # fmt: skip


def paint_weeks(axes: Axes, table: pd.DataFrame) -> None:
    """Draw core hours of each week above, mean waits of the methods below."""
    figure = axes.figure
    axes.remove()
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
    above.bar(table["week"], table["core_hours"] / 1000, color=COLOURS[6])
    above.set(ylabel="node hours\n[thousands]")
    above.set_title("Figure 9: demand and mean wait by week of submission")
    names = [column for column in table.columns if column not in ("week", "core_hours")]
    for k, name in enumerate(names):
        below.plot(table["week"], table[name], ("-", "--", "-.", ":")[k // 2 % 4], color=COLOURS[k % len(COLOURS)],
                   marker=MARKERS[k % len(MARKERS)], markersize=3.5, label=name)  # fmt: skip
    below.set(xlabel="week of the test months", ylabel="mean wait [h]")
    below.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def logged_waits(parts: Parts) -> pd.DataFrame:
    """Return waits of the test months as the log has them, for Figure 7; no row where it has none."""
    log = parts.test
    known = log.known("wait")
    rows = np.flatnonzero(known)[:: max(1, int(known.sum()) // 800)]
    return pd.DataFrame({"nodes": log.procs[rows], "wait_h": log.values["wait"][rows] / HOUR, "mode": UNKNOWN})


def pictures(everything: pd.DataFrame, curve: pd.DataFrame, parts: Parts) -> Iterator[Picture]:
    """Yield Figures 2 and 3, of the training months, then 4 to 9."""
    yield Picture("figure2", sizes_of(parts.train), paint_rings, 6.4, 4.6)
    yield from patterns_of(parts.train)
    runs = table_of(everything, RUN)
    rows = runs[runs["part"] == VALIDATION].groupby("case")[["capability_reward", "mean_wait_s"]].mean()
    others_at_start = rows.loc[[case for case in (FCFS, OPTIMIZATION, KEPT, OLDEST) if case in rows.index]]

    def curves(name: str, table: pd.DataFrame, ylabel: str, title: str, lines: "pd.Series[float] | None") -> Picture:
        others = {} if lines is None else {str(name): float(value) for name, value in lines.items()}
        return Picture(name, table, partial(paint_curves, ylabel=ylabel, title=title, others=others), width=9.0)

    if len(curve):
        orders = [case for case in curve["case"].unique() if case == PG or case.startswith(f"{PG}, ")]
        few, main = (curve[curve["case"].isin(cases)] for cases in (orders, (PG, DQL, DECIMA)))
        reward, waits = "reward (1) a start", curves_of(main.assign(wait_h=main["mean_wait_s"] / HOUR), "wait_h")
        title = "Figure 4: DRAS-PG by order of job sets, validation month"
        yield curves("figure4", curves_of(few, "reward_a_start"), reward, title, None)
        title = "Figure 5: reward on the validation month"
        yield curves("figure5", curves_of(main, "reward_a_start"), reward, title, others_at_start["capability_reward"])
        title = "Next to Figure 5: mean wait on the validation month"
        yield curves("figure5_wait", waits, "mean wait [h]", title, others_at_start["mean_wait_s"] / HOUR)
    yield Picture("figure6", kiviat(runs, SHOWN), paint_kiviat, 10.4, 5.2)
    jobs = table_of(everything, JOBS)
    if len(logged := logged_waits(parts)):
        jobs = pd.concat([jobs, logged.assign(case=TRACE)], ignore_index=True)
    names = (TRACE, *SHOWN)
    jobs = jobs[jobs["case"].isin(names)][["case", "nodes", "wait_h", "mode"]]
    yield Picture("figure7", jobs, partial(paint_scatter, cases=names), 9.5, 8.4)
    yield Picture("figure8", modes_of(runs, (FCFS, KEPT, OLDEST, PG, DQL)), paint_modes, width=8.6)
    weeks = by_week(table_of(everything, WEEKS), (FCFS, RANDOM, KEPT, PG, PG + FROZEN, DQL, DQL + FROZEN))
    yield Picture("figure9", weeks, paint_weeks, 10.0, 5.4)
