"""Pictures of Cobalt: waits by queue, score trajectories of typical jobs, and the two stories of its score."""

from typing import Final

import numpy as np
import pandas as pd

from experiments.papers.cobalt.cases import POLICIES
from experiments.papers.cobalt.stories import Story
from experiments.reports.figures import COLOURS, MARKERS, Axes
from schedsim.machine.partitions import MIRA_NODES
from schedsim.results.timelines import in_use, value_at
from schedsim.sites.cobalt.score import Score

HOUR: Final = 3600
TYPICAL: Final = (
    (49_152, 1, "48 K nodes, 1 h"),
    (16_384, 12, "16 K nodes, 12 h"),
    (8192, 6, "8 K nodes, 6 h"),
    (8192, 24, "8 K nodes, 24 h (as 12 h)"),
    (512, 1 / 12, "512 nodes, 5 min (as 1 h)"),
    (512, 12, "512 nodes, 12 h"),
)
"""Jobs with drawn scores: nodes, requested hours, what to call them."""


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
