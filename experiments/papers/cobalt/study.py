"""FCFS, WFP and Cobalt's score on a machine like Mira.

Allcock et al., once more.

After Allcock et al. [1]_: FCFS, WFP (as CQSim has it) and Cobalt's score, all with EASY backfilling, prod-long kept to
a third of the machine or not, by requested times and by the estimates `careful`. Every seed is another
synthetic log with Mira's mix of queues, or the given log, shaken; all cases of a seed see the same jobs. Medians over
the seeds; intervals are order statistics that hold the median with at least 95 % confidence.

.. [1] Allcock, Rich, Fan & Lan. Experience and practice of batch scheduling on leadership supercomputers at Argonne.
   JSSPP 2017. doi:10.1007/978-3-319-77398-8_1
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from experiments.compare.relative import over_seeds, with_intervals
from experiments.papers.cobalt.cases import (
    CASES,
    COUNTED,
    PARTITIONS,
    POLICIES,
    SYNTHETIC,
    log_of,
    rules_of,
    run_case,
    runs_of,
)
from experiments.papers.cobalt.stories import Story, drain, sawtooth
from experiments.reports.figures import COLOURS, MARKERS, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.core.intervals import median_interval
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from schedsim.machine.partitions import MIRA_NODES
from schedsim.results.site_metrics import by_queue
from schedsim.results.timelines import in_use, value_at
from schedsim.sites.cobalt.queues import CAPABILITY_SHARE
from schedsim.sites.cobalt.score import Score
from schedsim.workload.workload import Workload

QUESTION: Final = "What do Cobalt's score and a queue kept to a third of the machine do to waits and capability hours?"

HOUR: Final = 3600
KEYS: Final = ["nodes", "estimates", "prod_long", "policy"]
PAPER: Final = {  # Table 2 of [1]_: mean nodes, wait, walltime, run time [s], core-hours used; 16 cores a node
    "prod-short": (1080, 45_243, 6754, 4361, 23_082),
    "backfill": (1043, 61_279, 4118, 2789, 16_794),
    "prod-capability": (13_530, 278_510, 20_151, 12_544, 656_480),
    "prod-long": (1253, 276_839, 39_734, 24_907, 137_328),
}


def run(setting: Setting) -> Report:
    """Simulate all cases by seed, ten (quick: three), and draw waits, scores and the two stories."""
    given, account = _cleaned(setting)
    account = account.using(len(given))
    seeds = setting.drawn(10, quick=3)
    found = run_all(setting, "Simulating by seed", runs_of, (given, setting.quick, setting.seed), seeds)
    runs = pd.concat(found, ignore_index=True)
    medians = over_seeds(runs, KEYS)
    queues = [c.removeprefix("wait_").removesuffix("_h") for c in runs.columns if c.startswith("wait_")]
    queues.remove("widest")
    paint = partial(paint_waits, queues=queues)
    counted = medians[medians["nodes"] == COUNTED].groupby("estimates", sort=False)
    pictures = [Picture(f"waits_{estimates}", rows, paint, 8.0, 4.6) for estimates, rows in counted]
    pictures.append(Picture("score", trajectories(), paint_trajectories))
    stories = stories_of()
    for name, (title, versions) in stories.items():
        marks = {version: (story.schedule.start[story.large] / HOUR).tolist() for version, story in versions.items()}
        ends = {v: [h for h in hours if h * HOUR < versions[v].end] for v, hours in marks.items()}
        paint_one = partial(paint_story, title=title, marks=ends)
        pictures.append(Picture(name, story_table(versions), paint_one, width=8.0))
    tables = dict(tables_of(medians, queues))
    tables["Table 2, under Cobalt, and the paper's"] = table_2(log_of(given, seeds[0], setting.quick))
    tables["Sections 4.3.4 and 4.3.5"] = stories_in_numbers(stories)
    return Report(
        log=given.name, seeds=seeds, tables=tables, data={f"runs_{given.name}": runs}, pictures=tuple(pictures),
        notes=tuple(_notes(given, account)), verdict=tuple(verdict(runs, queues)),
        facts={"jobs": len(given), "processors": given.max_procs or 0}, account=account,
    )  # fmt: skip


def _cleaned(setting: Setting) -> tuple[JobLog, ReadingReport]:
    """Return the log cleaned, without the jobs that no queue takes."""
    log, account = clean(setting.jobs(), setting.procs, drop_wide=True)
    _, left, more = rules_of(log)
    return left, account + more


def tables_of(medians: pd.DataFrame, queues: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return two tables for each kind of estimates: the machine's figures, and waits by queue."""
    for (nodes, estimates), rows in medians.groupby(["nodes", "estimates"], sort=False):
        head = {"policy": rows["policy"], "prod_long_sees": rows["prod_long"]}
        machine = {
            "utilisation_%": with_intervals(rows, "utilisation", ".1f", 100),
            "capability_metric_%": with_intervals(rows, "capability_share", ".1f", 100),
            "capability_hours_%": with_intervals(rows, "capability_hours", ".1f", 100),
            "prod-long_over_a_third_%": with_intervals(rows, "long_above_a_third", ".1f", 100),
            "bounded_slowdown": with_intervals(rows, "bounded_slowdown", ".1f"),
            "longest_wait_h": with_intervals(rows, "longest_wait_h", ".1f"),
        }
        yield (
            f"The machine until the last submission: nodes {nodes}, estimates {estimates}",
            pd.DataFrame(head | machine),
        )
        waits = {f"{queue}_h": with_intervals(rows, f"wait_{queue}_h", ".1f") for queue in queues}
        waits |= {"two_thirds_of_the_nodes_h": with_intervals(rows, "wait_widest_h", ".1f")}
        yield f"Mean wait by queue: nodes {nodes}, estimates {estimates}", pd.DataFrame(head | waits)


def table_2(log: JobLog) -> pd.DataFrame:
    """Return Table 2's columns of one seed under Cobalt, node-hours for core-hours, the paper's in a second row."""
    rules, log, _ = rules_of(log)
    case = next(case for case in CASES if case.policy == "Cobalt" and case.restricted == "a third")
    found = by_queue(run_case(log, Workload.from_log(log), rules, case), rules)
    rows: list[dict[str, Any]] = []
    for name, figures in found.items():
        rows.append({"queue": name, "of": "here", **{k: round(v, 1) for k, v in figures.items()}})
        if name in PAPER:
            nodes, wait, walltime, run_time, core_hours = PAPER[name]
            rows.append(
                {
                    "queue": name, "of": "Mira", "mean_nodes": nodes, "mean_wait_s": wait, "mean_walltime_s": walltime,
                    "mean_run_time_s": run_time, "mean_node_hours": round(core_hours / 16, 1),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def stories_of() -> dict[str, tuple[str, dict[str, Story]]]:
    """Return the two stories by the name of their picture: title, and the runs compared."""
    return {
        "drain": (
            "A full-machine job is submitted at hour 12; small favoured jobs at 15 and 26",
            {
                "default initial scores (bar: the large job starts)": drain(0.0),
                "initial score 1,000 for the favoured project": drain(1000.0),
            },
        ),
        "sawtooth": (
            "10-minute jobs on two thirds of the machine, one after the other (bars: their starts)",
            {"walltimes count as an hour at least": sawtooth(Score()), "without that floor": sawtooth(Score(floor=60))},
        ),
    }


def stories_in_numbers(stories: dict[str, tuple[str, dict[str, Story]]]) -> pd.DataFrame:
    rows = [
        {
            "story": name, "run": version, "large_jobs_started": story.drains,
            "first_starts_h": round(story.large_started / HOUR, 1), "overtaken_by": story.overtakings,
            "idle_node_hours": round(story.lost_node_hours),
        }
        for name, (_, versions) in stories.items()
        for version, story in versions.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def verdict(runs: pd.DataFrame, queues: list[str]) -> Iterator[str]:
    """Yield what came out, in words: differences are paired over the seeds."""
    wide = f"wait_{queues[0]}_h"
    counted = runs[runs["nodes"] == COUNTED]
    for estimates, rows in counted.groupby("estimates", sort=False):
        cases = {key: group.set_index("seed") for key, group in rows.groupby(["policy", "prod_long"], sort=False)}
        cobalt, free = cases["Cobalt", "a third"], cases["Cobalt", "all"]
        for other in ("FCFS", "WFP"):
            base = cases[other, "a third"]
            yield (
                f"Estimates {estimates}: Cobalt's score compared with {other}: mean wait of {queues[0]} "
                f"{_change(cobalt[wide], base[wide])}, utilisation "
                f"{_points(cobalt['utilisation'], base['utilisation'])}, capability hours "
                f"{_points(cobalt['capability_hours'], base['capability_hours'])}."
            )
        if "wait_prod-long_h" in cobalt:
            long = "wait_prod-long_h"
            yield (
                f"Estimates {estimates}: prod-long kept to a third: mean wait of {queues[0]} "
                f"{_change(cobalt[wide], free[wide])}, of prod-long {_change(cobalt[long], free[long])}."
            )

    placed = runs[runs["nodes"] == PARTITIONS]
    if len(placed):
        cases = {key: group.set_index("seed") for key, group in placed.groupby(["policy", "prod_long"], sort=False)}
        cobalt, free = cases["Cobalt", "a third"], cases["Cobalt", "all"]
        yield (
            f"On Mira's partitions, prod-long kept to a third under Cobalt: mean wait of {queues[0]} "
            f"{_change(cobalt[wide], free[wide])}, of jobs on two thirds of the nodes or more "
            f"{_change(cobalt['wait_widest_h'], free['wait_widest_h'])}, of prod-long "
            f"{_change(cobalt['wait_prod-long_h'], free['wait_prod-long_h'])}, utilisation "
            f"{_points(cobalt['utilisation'], free['utilisation'])}."
        )


def _change(ours: pd.Series, theirs: pd.Series) -> str:
    return _told(100 * (ours / theirs - 1), "+.0f", "%")


def _points(ours: pd.Series, theirs: pd.Series) -> str:
    return _told(100 * (ours - theirs), "+.1f", "points")


def _told(change: pd.Series, form: str, unit: str) -> str:
    low, high = median_interval(change.to_numpy(dtype=np.float64))
    return f"{change.median():{form}} {unit} [{low:{form}}, {high:{form}}]"


def _notes(log: JobLog, account: ReadingReport) -> Iterator[str]:
    yield "Allcock et al.: utilisation about 90 %, and capability hours above half of all; Table 2 is of 2013 to 2017."
    if log.name.startswith(SYNTHETIC):
        yield (
            "The synthetic log has Table 2's mix and an offered load of 0.9, but twelve days, independent users "
            "and no campaigns: waits of days as Mira's build up from months of backlog, which it does not have."
        )
    else:
        yield (
            f"Mira's queues are scaled to {log.max_procs:,} nodes: from {CAPABILITY_SHARE:.0%} on is capability, "
            "prod-long has a third."
        )
    if account.dropped:
        yield f"{account.dropped:,} jobs are left out: {'; '.join(finding.text for finding in account.findings[:4])}."


TYPICAL: Final = (  # jobs with drawn scores: nodes, requested hours, what to call them
    (49_152, 1, "48 K nodes, 1 h"),
    (16_384, 12, "16 K nodes, 12 h"),
    (8192, 6, "8 K nodes, 6 h"),
    (8192, 24, "8 K nodes, 24 h (as 12 h)"),
    (512, 1 / 12, "512 nodes, 5 min (as 1 h)"),
    (512, 12, "512 nodes, 12 h"),
)


def trajectories() -> pd.DataFrame:
    """Return the score of typical jobs against their eligible time, on a grid even in its logarithm."""
    hours = np.unique(np.round(np.geomspace(0.1, 168, 120) * 240) / 240)
    score = Score()
    columns = {
        label: [score.gained(round(h * HOUR), nodes, round(asked * HOUR), MIRA_NODES) for h in hours]
        for nodes, asked, label in TYPICAL
    }
    return pd.DataFrame({"eligible_h": hours, **columns})


def paint_trajectories(axes: Axes, table: pd.DataFrame) -> None:
    """Draw scores against eligible time, both logarithmic."""
    styles = ("-", "-", "--", "-.", "-", "--")
    for k, (_, _, label) in enumerate(TYPICAL):
        axes.plot(table["eligible_h"], table[label], styles[k], color=COLOURS[k], label=label, linewidth=1.6)
    axes.set(xscale="log", yscale="log", xlabel="eligible time [h]", ylabel="score gained", ylim=(1e-4, 1e4))
    axes.set_xticks([0.1, 1, 6, 24, 72, 168], ["0.1", "1", "6", "24", "72", "168"])
    axes.set_title("Cobalt's score of typical jobs (machine of 49,152 nodes, weight 1)")
    axes.legend(fontsize=9, loc="lower right")


def paint_waits(axes: Axes, table: pd.DataFrame, queues: list[str]) -> None:
    """Draw mean waits by queue, a mark each policy, restricted filled and unrestricted open."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for k, policy in enumerate(POLICIES):
        for side, (where, rows) in enumerate(table[table["policy"] == policy].groupby("prod_long", sort=False)):
            row = rows.iloc[0]
            x = np.arange(len(queues)) + 0.26 * (k - 1) + 0.1 * (side - 0.5)
            value, low, high = (
                np.array([row[f"wait_{queue}_h{end}"] for queue in queues], dtype=float)
                for end in ("", "_low", "_high")
            )
            axes.errorbar(
                x, value, (value - low, high - value), fmt=MARKERS[k], color=COLOURS[k], capsize=2, markersize=6,
                markerfacecolor=COLOURS[k] if side == 0 else "white", label=f"{policy}, prod-long sees {where}",
            )  # fmt: skip
    axes.set_xticks(range(len(queues)), queues)
    axes.set(ylabel="mean wait [h]", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Mean wait by queue: median of the seeds, and its interval")
    axes.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.08))


def story_table(stories: dict[str, Story]) -> pd.DataFrame:
    """Return the nodes in use of several runs of a story, every five minutes."""
    last = max(story.end for story in stories.values())
    first = max(0, min(story.begin for story in stories.values()) - 8 * HOUR)
    seconds = np.arange(first, last, 300)
    columns = {}
    for name, story in stories.items():
        jobs = story.schedule
        columns[name] = value_at(seconds, *in_use(jobs.start, jobs.end, jobs.workload.procs))
    return pd.DataFrame({"hour": seconds / HOUR, **columns})


def paint_story(axes: Axes, table: pd.DataFrame, title: str, marks: dict[str, list[float]]) -> None:
    """Draw the nodes in use, one run above the other, and when its large jobs started."""
    names = [column for column in table.columns if column != "hour"]
    for k, name in enumerate(names):
        base = (len(names) - 1 - k) * 1.25
        use = table[name] / MIRA_NODES
        axes.fill_between(table["hour"], base, base + use, step="post", color=COLOURS[k], alpha=0.65, linewidth=0)
        axes.axhline(base + 1, color="#999999", linewidth=0.6)
        axes.annotate(name, (table["hour"].iloc[0], base + 1.03), fontsize=9)
        for hour in marks[name]:
            axes.plot([hour, hour], [base, base + 1], color="black", linewidth=1.2)
    axes.set_yticks([k * 1.25 + part for k in range(len(names)) for part in (0, 1)], ["0", "1"] * len(names))
    axes.set(xlabel="hour", ylabel="nodes in use, part of the machine", ylim=(0, 1.25 * len(names)))
    axes.set_title(title)
    axes.grid(False)
