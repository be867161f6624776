"""Pictures of CEIL: utilisation on three days, users' waits by workload, and what another ceiling would do."""

from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.papers.ceil.cases import BASE, CEIL, OURS, START, Month, run_times_of
from experiments.reports.figures import COLOURS, MARKERS, Axes
from predictors.core.arrays import Ints
from schedsim.engine.simulation import simulate
from schedsim.results.timelines import in_use, value_at
from schedsim.workload.workload import Workload

DAY: Final = 86_400
STEP: Final = 300  # seconds between two values of utilisation


def days_of(month: Month, workload: Workload, seed: int, n_days: int = 3) -> pd.DataFrame:
    """Return the log's own utilisation and CEIL's on whole days drawn by seed, in steps of `STEP`."""
    schedule = simulate(workload, CEIL, kill=False, run_times=run_times_of(START, seed))
    ours, procs = in_use(schedule.start, schedule.end, workload.procs), workload.machine_procs
    logged = _logged(month)
    midnight = -(month.cleaned.epoch or 0) % DAY
    pool = np.arange(1, max(2, int(workload.submit.max()) // DAY))
    days = np.sort(np.random.default_rng(seed).choice(pool, size=min(n_days, len(pool)), replace=False))
    seconds = np.arange(0, DAY, STEP)
    parts = []
    for place, day in enumerate(days.tolist()):
        at = midnight + (day - 1) * DAY + seconds
        columns: dict[str, Any] = {"hour": 24 * place + seconds / 3600, "day": day + (midnight > 0)}
        columns["CEIL"] = 100 * value_at(at, *ours) / procs
        columns["log"] = np.nan if logged is None else 100 * value_at(at, *logged) / procs
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _logged(month: Month) -> tuple[Ints, Ints] | None:
    """Return the processors in use in the log, if it has waits: of all its jobs, also those begun earlier."""
    log = month.log
    if not log.known("wait").any():
        return None
    known, earlier = log.known("wait") & log.known("run_time"), month.cleaned.origin - log.origin
    start = log.filled("submit")[known] + log.filled("wait")[known] - earlier
    end, procs = start + np.maximum(0, log.filled("run_time")[known]), log.procs[known]
    return in_use(start, end, procs)


def paint_days(axes: Axes, table: pd.DataFrame) -> None:
    """Draw three days one after the other, as Figure 4 does."""
    if table["log"].notna().any():
        axes.plot(table["hour"], table["log"], color=COLOURS[0], linewidth=1.0, linestyle="--", label="as logged")
    axes.plot(table["hour"], table["CEIL"], color=COLOURS[2], linewidth=1.4, label="CEIL, 50 % postponable")
    axes.axhline(95, color=COLOURS[5], linewidth=1.0, label="95 %")
    hours = table.groupby("day", sort=False)["hour"].min()
    for day, hour in hours.items():
        axes.axvline(hour, color="#999999", linewidth=0.6)
        axes.annotate(f"day {day}", (hour + 0.5, 103), fontsize=9)
    axes.set_xticks(np.arange(0, 24 * len(hours) + 1, 6), [str(h % 24) for h in range(0, 24 * len(hours) + 1, 6)])
    axes.set(xlabel="hour of the day (UTC)", ylabel="utilisation [%]", ylim=(0, 109))
    axes.set_title("Utilisation on three days of the second month, drawn by seed")
    axes.legend(loc="lower right", ncols=3)


def paint_waits(axes: Axes, table: pd.DataFrame, column: str, label: str) -> None:
    """Draw two bars a workload, with intervals, as Figure 5 does."""
    scale = 3600 if column == "user_wait" else 1
    pairs = list(dict.fromkeys(zip(table["month"], table["share"], strict=True)))
    for k, (case, colour) in enumerate(((BASE.name, COLOURS[6]), (OURS.name, COLOURS[2]))):
        rows = table[table["case"] == case]
        value = rows[column].to_numpy() / scale
        low, high = (rows[f"{column}_{end}"].to_numpy() / scale for end in ("low", "high"))
        x = np.arange(len(pairs)) + 0.38 * (k - 0.5)
        axes.bar(x, value, 0.36, color=colour, label=case, hatch=None if k else "//", edgecolor="white")
        axes.errorbar(x, value, (value - low, high - value), fmt="none", ecolor="black", elinewidth=0.8, capsize=2)
    axes.set_xticks(range(len(pairs)), [f"{n + 1}\n{m}\n{s:.0%}" for n, (m, s) in enumerate(pairs)])
    axes.set(xlabel="workload: month, share of postponable jobs", ylabel=label)
    axes.set_title(f"{label.split(' [')[0].capitalize()}, median of the seeds")
    axes.legend()


def paint_sweep(axes: Axes, table: pd.DataFrame) -> None:
    """Draw by how much user wait and slowdown change under other ceilings, a line each month."""
    for k, (month, rows) in enumerate(table.groupby("month", sort=False)):
        ceiling = [float(case.removeprefix("ceiling ").rstrip("%")) for case in rows["case"]]
        for name, style in (("user_wait", "-"), ("slowdown", ":")):
            value, low, high = (rows[f"{name}_change{end}"].to_numpy() for end in ("", "_low", "_high"))
            label = f"{'user wait' if name == 'user_wait' else 'slowdown'}, {month}"
            axes.plot(ceiling, value, style, marker=MARKERS[k], color=COLOURS[2 * k], label=label)
            if name == "user_wait":
                axes.fill_between(ceiling, low, high, color=COLOURS[2 * k], alpha=0.15, linewidth=0)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.set(xlabel="ceiling on utilisation [%]", ylabel="change against WFP [%]")
    axes.set_title("Another ceiling: 50 % postponable, runs dilated above 95 %")
    axes.legend()
