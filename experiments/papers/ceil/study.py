"""Table 6 and Figures 4 and 5 of Li et al. (ROSS 2019): CEIL compared with its base policy.

After Li et al. (ROSS 2019): two months of a log, the busiest ones, with 30, 50 and 70 % of the jobs postponable, drawn
by seed: workloads 1 to 3 and 4 to 6. Each seed also shakes the log and draws by how much each run is dilated; base
policy (WFP + EASY) and CEIL see the same, so that differences are paired. Medians over the seeds; intervals are order
statistics that hold the median with at least 95 % confidence (ten seeds: the second smallest to the second largest).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.compare.relative import over_seeds, with_intervals
from experiments.papers.ceil import cases
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from experiments.runs.simulate import estimates_by_name
from predictors.core.arrays import Ints
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from schedsim.engine.simulation import simulate
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import user_figures
from schedsim.results.timelines import in_use, value_at
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

QUESTION: Final = (
    "How do a ceiling on utilisation and postponable jobs change waits and full hours, compared with the base policy?"
)

SLOWDOWN: Final = "mean bounded slowdown on user wait"
KEYS: Final = ["dilation", "month", "share", "case"]
PAPER: Final = (
    "Li et al., Table 6: makespan 2,608,532 to 2,608,497 s and 2,684,287 to 2,684,202 s; time above 95 % 21.81 to 0.06 "
    "% and 45.20 to 0.09 %. Figure 5: user wait -12.5 to -35.3 %, slowdown -7.4 to -20.2 %, more in the first month."
)


@dataclass(frozen=True)
class Work:
    """What every worker is given."""

    months: Sequence[cases.Month]
    quick: bool


def run(setting: Setting) -> Report:
    """Schedule two months by every case and seed, ten (quick: three), and draw Figures 4 and 5 and the sweep."""
    log = setting.jobs()
    months = cases.busiest(log, setting.procs)
    seeds = setting.drawn(10, quick=3)
    found = run_all(setting, "Simulating by seed", runs_of, Work(months, setting.quick), seeds)
    runs = pd.concat(found, ignore_index=True)
    medians = over_seeds(runs, KEYS)
    of_months = _of_months(setting, cases.months_of(log, setting.procs))
    data = {f"runs_{setting.log.name}": runs, f"month_runs_{setting.log.name}": of_months.pop("runs")}
    days = days_of(
        months[-1], cases.marked(Workload.from_log(months[-1].cleaned), cases.MIDDLE, setting.seed), setting.seed
    )
    main = medians[medians["case"].isin([cases.BASE.name, cases.OURS.name]) & (medians["dilation"] == cases.START)]
    swept = medians[medians["case"].str.startswith("ceiling ") & (medians["dilation"] == cases.START)]
    return Report(
        log=setting.log.name,
        seeds=seeds,
        tables={**of_months, **dict(tables_of(medians))},
        data=data,
        pictures=(
            Picture("figure4", days, paint_days, width=9.0),
            Picture("figure5_wait", main, partial(paint_waits, column="user_wait", label="mean user wait [h]")),
            Picture("figure5_slowdown", main, partial(paint_waits, column="slowdown", label=SLOWDOWN)),
            *([Picture("sweep", swept, paint_sweep)] if len(swept) else []),
        ),
        notes=(PAPER, *(f"{month.name}: {len(month.cleaned):,} jobs." for month in months)),
        verdict=tuple(verdict(medians)),
        account=_account(log, setting.procs, sum(len(month.cleaned) for month in months)),
    )


def _of_months(setting: Setting, months: Sequence[cases.Month]) -> dict[str, pd.DataFrame]:
    seeds = setting.drawn(cases.MONTH_SEEDS, cases.QUICK_MONTH_SEEDS)
    tasks = [(place, seed) for place in range(len(months)) for seed in seeds]
    runs = pd.concat(run_all(setting, "Simulating every month", cases.month_runs, months, tasks), ignore_index=True)
    table = cases.by_month(runs, months)
    return {
        "Every month: mean change over the months, 95 % intervals that resample months": cases.over_months(runs),
        "The months most like the paper's, by WFP's time above 95 %": cases.like_the_papers(table),
        "Every month": table,
        "runs": runs,
    }


def _account(log: JobLog, procs: int | None, used: int) -> ReadingReport:
    """Return what became of the log's jobs: those of other months are left out."""
    _, account = clean(log, procs, drop_wide=True)
    others = len(log) - account.dropped - used
    text = "submitted in another month than those studied"
    findings = (Finding("other-months", "dropped", text, others, place="job"),) if others else ()
    return (account + ReadingReport(log.name, findings)).using(used)


def runs_of(shared: Work, seed: int) -> pd.DataFrame:
    """Return one row a month, variant, share and case for a seed."""
    return pd.DataFrame(row for month in shared.months for row in _runs(month, seed, shared.quick))


def _runs(month: cases.Month, seed: int, quick: bool) -> Iterator[dict[str, Any]]:
    log = shaken(month.cleaned, seed)
    workload = Workload.from_log(log)

    def go(case: cases.Case, jobs: Workload, dilation: str) -> Schedule:
        estimates = estimates_by_name(case.estimates, log, jobs)
        return simulate(jobs, case.policy, estimates, kill=False, run_times=cases.run_times_of(dilation, seed))

    for dilation in (cases.START,) if quick else (cases.START, cases.MEAN, cases.NONE):
        easy = go(cases.BASE, workload, dilation)
        for share in cases.SHARES:
            jobs = cases.marked(workload, share, seed)
            base = user_figures(replace(easy, workload=jobs))  # it looks at no deadline: one schedule for all shares
            further = [*cases.PARTS, *cases.READINGS, *cases.PREDICTED] if share == cases.MIDDLE else []
            further += cases.SWEPT[:: 5 if quick else 1] if share == cases.MIDDLE and dilation == cases.START else []
            for case in (cases.BASE, cases.OURS, *further):
                own = base if case is cases.BASE else user_figures(go(case, jobs, dilation))
                yield {"month": month.name, "share": share, "dilation": dilation, "case": case.name, "seed": seed,
                       **cases.compared(own, base)}  # fmt: skip


def tables_of(medians: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return the tables: Table 6 and Figure 5 for each variant of dilation, then parts, readings and ceilings."""
    numbers = {
        pair: n + 1 for n, pair in enumerate(dict.fromkeys(zip(medians["month"], medians["share"], strict=True)))
    }
    for dilation in dict.fromkeys(medians["dilation"]):
        of = medians[medians["dilation"] == dilation]
        main = of[of["case"].isin([cases.BASE.name, cases.OURS.name])]
        workload = [numbers[pair] for pair in zip(main["month"], main["share"], strict=True)]
        yield (
            f"Table 6: {cases.DILATIONS[dilation]}",
            pd.DataFrame(
                {
                    "workload": workload, "month": main["month"], "postponable": main["share"], "policy": main["case"],
                    "makespan_s": main["makespan"].round(), "makespan_change_%": main["makespan_change"],
                    "time_above_95_%": main["above"], "dilated_jobs": main["dilated"], "late_jobs": main["late"],
                }
            ),
        )  # fmt: skip
        ours = main[main["case"] == cases.OURS.name]
        wfp = main[main["case"] == cases.BASE.name]
        workload = [numbers[pair] for pair in zip(ours["month"], ours["share"], strict=True)]
        table: dict[str, Any] = {"workload": workload, "month": ours["month"], "postponable": ours["share"]}
        for name, label in (("user_wait", "user_wait_s"), ("slowdown", "slowdown")):
            table |= {
                f"{label}_WFP": wfp[name].to_numpy(),
                f"{label}_CEIL": ours[name],
                f"{name}_%": _changes(ours, name),
            }
        table["slowdown_undilated_%"] = _changes(ours, "slowdown_undilated")
        table["regular_wait_%"] = _changes(ours, "wait_regular")
        yield f"Figure 5: {cases.DILATIONS[dilation]}", pd.DataFrame(table)
        half = of[
            (of["share"] == cases.MIDDLE) & ~of["case"].str.startswith("ceiling ") & (of["case"] != cases.BASE.name)
        ]
        if len(half):
            yield (
                f"Without a part, other readings, predictions; 50 % postponable, {cases.DILATIONS[dilation]}",
                _brief(half),
            )
        swept = of[of["case"].str.startswith("ceiling ")]
        if len(swept):
            yield f"The ceiling swept; 50 % postponable, {cases.DILATIONS[dilation]}", _brief(swept)


def _changes(rows: pd.DataFrame, name: str) -> list[str]:
    return with_intervals(rows, f"{name}_change", "+.1f")


def _brief(rows: pd.DataFrame) -> pd.DataFrame:
    table: dict[str, Any] = {"case": rows["case"], "month": rows["month"], "time_above_95_%": rows["above"]}
    table |= {"makespan_change_%": rows["makespan_change"]}
    table |= {
        f"{name}_%": _changes(rows, name) for name in ("user_wait", "wait_regular", "slowdown", "slowdown_undilated")
    }
    table |= {"late": rows["late"]}
    return pd.DataFrame(table)


def verdict(medians: pd.DataFrame) -> Iterator[str]:
    """Yield the results next to the paper's claims, in words."""
    for dilation in dict.fromkeys(medians["dilation"]):
        of = medians[(medians["dilation"] == dilation) & (medians["case"] == cases.OURS.name)]
        base = medians[(medians["dilation"] == dilation) & (medians["case"] == cases.BASE.name)]
        above = ", ".join(
            f"{month}: {base[base['month'] == month]['above'].median():.2f} to {rows['above'].median():.2f} %"
            for month, rows in of.groupby("month", sort=False)
        )
        parts = [
            f"{name} {of[f'{column}_change'].min():+.1f} to {of[f'{column}_change'].max():+.1f} %"
            for name, column in (("makespan", "makespan"), ("user wait", "user_wait"), ("slowdown", "slowdown"))
        ]
        sure = int((of["user_wait_change_high"] < 0).sum())
        yield (
            f"With {cases.DILATIONS[dilation]}, CEIL against WFP: time above 95 % {above}; {', '.join(parts)}; user "
            f"wait is certainly less in {sure} of {len(of)} workloads."
        )


DAY: Final = 86_400
STEP: Final = 300  # seconds between two values of utilisation
DAYS: Final = 3  # days that are shown, drawn by seed


def days_of(month: cases.Month, workload: Workload, seed: int) -> pd.DataFrame:
    """Return the log's own utilisation and CEIL's on whole days drawn by seed, in steps of `STEP`."""
    schedule = simulate(workload, cases.CEIL, kill=False, run_times=cases.run_times_of(cases.START, seed))
    ours, procs = in_use(schedule.start, schedule.end, workload.procs), workload.machine_procs
    logged = _logged(month)
    midnight = -(month.cleaned.epoch or 0) % DAY
    pool = np.arange(1, max(2, int(workload.submit.max()) // DAY))
    days = np.sort(np.random.default_rng(seed).choice(pool, size=min(DAYS, len(pool)), replace=False))
    seconds = np.arange(0, DAY, STEP)
    parts = []
    for place, day in enumerate(days.tolist()):
        at = midnight + (day - 1) * DAY + seconds
        columns: dict[str, Any] = {"hour": 24 * place + seconds / 3600, "day": day + (midnight > 0)}
        columns["CEIL"] = 100 * value_at(at, *ours) / procs
        columns["log"] = np.nan if logged is None else 100 * value_at(at, *logged) / procs
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _logged(month: cases.Month) -> tuple[Ints, Ints] | None:
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
    for k, (case, colour) in enumerate(((cases.BASE.name, COLOURS[6]), (cases.OURS.name, COLOURS[2]))):
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
