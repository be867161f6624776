"""Figures 1 and 4 to 11 of Nichols et al., drawn from our trials, and RUSH with its controls."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from experiments.papers.rush import measures
from experiments.papers.rush.jobs import EXPERIMENTS
from experiments.reports.figures import COLOURS, HATCHES, MARKERS, Axes, Picture, bar_lengths, legend_beside
from predictors.data.runs import Runs

DAY: Final = 86_400
SHOWN_DAYS: Final = 49  # of the control jobs, as from 12 November to 31 December
_LOOK: Final = {measures.EASY: (COLOURS[1], "//"), measures.RUSH: (COLOURS[0], "")}


def pictures(runs: pd.DataFrame, trials: pd.DataFrame, control: Runs) -> Iterator[Picture]:
    """Yield every figure, or Figure 1 alone where not all experiments were run."""
    yield Picture("figure_01_control_jobs", over_time(control), paint_over_time, width=8.0)
    if set(runs["experiment"]) < set(EXPERIMENTS):
        return
    varying = measures.by_application(runs)
    partial_data = varying[varying["experiment"].isin(("ADPA", "PDPA"))]
    yield Picture("figure_04_varying_adpa_pdpa", partial_data, paint_partial, width=8.0)
    yield Picture("figure_05_varying_adaa", varying[varying["experiment"] == "ADAA"], paint_varying)
    for number, name, size in ((6, "ADAA", ()), (7, "PDPA", ()), (8, "WS", (12.0, 5.0))):
        paint = partial(paint_run_times, experiment=name)
        yield Picture(f"figure_{number:02}_run_times_{name.lower()}", quantiles(runs, name), paint, *size)
    yield Picture("figure_09_longest_runs_ss", measures.shortened_by_size(runs, "SS"), paint_shortened)
    yield Picture("figure_10_makespans", makespans(trials), paint_makespans)
    yield Picture("figure_11_waits_adaa", measures.waits_by_application(runs, "ADAA"), paint_waits)
    yield Picture("controls", controls(trials), paint_controls, width=8.0)


def over_time(control: Runs) -> pd.DataFrame:
    """Return the run times of control jobs over two months, relative to the shortest of their application."""
    table = pd.DataFrame({"application": control.application, "day": control.start / DAY, "run_time": control.run_time})
    table["relative"] = table["run_time"] / table.groupby("application")["run_time"].transform("min")
    return table[table["day"] <= SHOWN_DAYS].sort_values("day")


def paint_over_time(axes: Axes, table: pd.DataFrame) -> None:
    """One marker a control job."""
    for number, (name, own) in enumerate(table.groupby("application")):
        axes.plot(own["day"], own["relative"], marker=MARKERS[number % len(MARKERS)], linestyle="none", markersize=4,
                  color=COLOURS[number % len(COLOURS)], label=name, alpha=0.8)  # fmt: skip
    axes.set_yscale("log")
    top = float(table["relative"].max())
    ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 4, 6, 8, 12) if tick <= 1.1 * top]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set(title="Run times of control jobs (Figure 1)", xlabel="day of the campaign",
             ylabel="run time / shortest of its application")  # fmt: skip
    legend_beside(axes)


def _bars(axes: Axes, table: pd.DataFrame, names: Sequence[str], groups: Sequence[tuple[str, str, str, str]],
          column: str) -> None:  # fmt: skip
    """Draw grouped bars with intervals; a group is (row key, label, colour, hatch) in the column `group`."""
    width = 0.8 / len(groups)
    for number, (group, label, colour, hatch) in enumerate(groups):
        own = table[table["group"] == group].set_index("application").reindex(list(names))
        at = np.arange(len(names)) - 0.4 + width * (number + 0.5)
        spread = bar_lengths(own, column)
        axes.bar(at, own[column], width * 0.95, color=colour, hatch=hatch, edgecolor="white", label=label,
                 yerr=spread, error_kw={"elinewidth": 0.9, "capsize": 2})  # fmt: skip
    axes.set_xticks(np.arange(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)


def paint_varying(axes: Axes, table: pd.DataFrame) -> None:
    """Mean number of runs that vary a trial, by application."""
    names = sorted(table["application"].unique())
    groups = [(policy, policy, *_LOOK[policy]) for policy in (measures.EASY, measures.RUSH)]
    _bars(axes, table.assign(group=table["policy"]), names, groups, "varying")
    axes.set(title="Runs that vary, ADAA (Figure 5)", xlabel="application",
             ylabel="runs with z > 1.5 a trial, mean and 95 % interval")  # fmt: skip
    axes.set_ylim(top=float(axes.get_ylim()[1]) * 1.12)
    axes.legend(loc="upper left", ncols=2)


def paint_partial(axes: Axes, table: pd.DataFrame) -> None:
    """The same for a model of all applications and one of the others."""
    names = sorted(table["application"].unique())
    groups = [
        (f"{experiment} {policy}", f"{experiment}, {policy}", COLOURS[2 * number + (policy == measures.EASY)],
         HATCHES[2 * number + (policy == measures.EASY)])
        for number, experiment in enumerate(("ADPA", "PDPA"))
        for policy in (measures.EASY, measures.RUSH)
    ]  # fmt: skip
    _bars(axes, table.assign(group=table["experiment"] + " " + table["policy"]), names, groups, "varying")
    axes.set(title="Runs that vary, the model having learnt from these applications (ADPA) or others (PDPA) (Figure 4)",
             xlabel="application", ylabel="runs with z > 1.5 a trial, mean and 95 % interval")  # fmt: skip
    axes.title.set_fontsize(9)
    legend_beside(axes)


QUANTILES: Final = {"lowest": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "longest": 1.0}


def quantiles(runs: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """Return the distribution of run times of an experiment, all trials together, by application, size and policy."""
    chosen = runs[(runs["experiment"] == experiment) & runs["policy"].isin((measures.EASY, measures.RUSH))]
    rows = []
    for (name, nodes, policy), times in chosen.groupby(["application", "nodes", "policy"], sort=True)["run_time"]:
        found = {column: float(times.quantile(q)) for column, q in QUANTILES.items()}
        rows.append({"application": name, "nodes": nodes, "policy": policy, "runs": len(times),
                     "mean": times.mean(), **found})  # fmt: skip
    return pd.DataFrame(rows)


def paint_run_times(axes: Axes, table: pd.DataFrame, experiment: str) -> None:
    """Draw distributions of run times as boxes with whiskers to the shortest and the longest."""
    figure = {"ADAA": 6, "PDPA": 7, "WS": 8}[experiment]
    kinds = list(dict.fromkeys(zip(table["application"], table["nodes"], strict=True)))
    several = table["nodes"].nunique() > 1
    for number, policy in enumerate((measures.EASY, measures.RUSH)):
        own = table[table["policy"] == policy].set_index(["application", "nodes"]).loc[kinds]
        boxes = [{"whislo": row["lowest"], "q1": row["p25"], "med": row["median"], "q3": row["p75"],
                  "whishi": row["longest"], "mean": row["mean"], "fliers": []}
                 for row in own.to_dict(orient="records")]  # fmt: skip
        colour, hatch = _LOOK[policy]
        drawn = axes.bxp(boxes, positions=np.arange(len(kinds)) + 0.38 * (number - 0.5), widths=0.33,
                         showfliers=False, showmeans=True, patch_artist=True, manage_ticks=False,
                         medianprops={"color": "black"},
                         meanprops={"marker": MARKERS[number], "markerfacecolor": "white",
                                    "markeredgecolor": "black", "markersize": 4})  # fmt: skip
        for box in drawn["boxes"]:
            box.set_facecolor(colour)
            box.set_hatch(hatch)
            box.set_alpha(0.75)
        drawn["boxes"][0].set_label(policy)
    labels = [str(nodes) if several else name for name, nodes in kinds]
    axes.set_xticks(np.arange(len(kinds)), labels)
    if several:
        for name in dict.fromkeys(name for name, _ in kinds):
            places = [place for place, kind in enumerate(kinds) if kind[0] == name]
            axes.text(float(np.mean(places)), -0.12, name, ha="center", va="top", transform=axes.get_xaxis_transform())
            axes.axvline(max(places) + 0.5, color="#cccccc", linewidth=0.8)
        axes.set_xlabel("nodes, application", labelpad=32)
    else:
        axes.set_xlabel("application")
    axes.set(title=f"Run times, {experiment} (Figure {figure}): box quartiles, whiskers shortest and longest, "
             "marker mean", ylabel="run time [s]")  # fmt: skip
    axes.title.set_fontsize(10)
    axes.set_ylim(top=float(axes.get_ylim()[1]) * 1.12)
    axes.legend(loc="upper left", ncols=2)


def paint_shortened(axes: Axes, table: pd.DataFrame) -> None:
    """By how much the longest run of a trial is shorter under RUSH, by application and size."""
    names = sorted(table["application"].unique())
    groups = [
        (str(nodes), f"{nodes} nodes", COLOURS[k], h) for k, (nodes, h) in enumerate(((8, ""), (16, "//"), (32, "..")))
    ]
    _bars(axes, table.assign(group=table["nodes"].astype(str)), names, groups, "shortened_pct")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(title="Longest run, SS: how much shorter under RUSH than under FCFS+EASY (Figure 9)", xlabel="application",
             ylabel="shorter by [%], mean and 95 % interval")  # fmt: skip
    axes.legend()


def makespans(trials: pd.DataFrame) -> pd.DataFrame:
    """Return mean makespans by experiment and policy, with intervals."""
    return _means(trials, (measures.EASY, measures.RUSH), "makespan_s")


def _means(trials: pd.DataFrame, policies: Sequence[str], column: str) -> pd.DataFrame:
    return measures.with_ends(trials[trials["policy"].isin(policies)], ["experiment", "policy"], column)


def paint_makespans(axes: Axes, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["experiment"]))
    groups = [(policy, policy, *_LOOK[policy]) for policy in (measures.EASY, measures.RUSH)]
    _bars(axes, table.assign(group=table["policy"], application=table["experiment"]), names, groups, "makespan_s")
    axes.set(title="Makespans (Figure 10)", xlabel="experiment", ylabel="makespan [s], mean and 95 % interval")
    axes.set_ylim(top=float(axes.get_ylim()[1]) * 1.12)
    axes.legend(loc="upper left", ncols=2)


def paint_waits(axes: Axes, table: pd.DataFrame) -> None:
    """Mean waits by application, one marker a trial."""
    names = sorted(table["application"].unique())
    for number, policy in enumerate((measures.EASY, measures.RUSH)):
        own = table[table["policy"] == policy]
        at = np.array([names.index(name) for name in own["application"]]) + 0.3 * (number - 0.5)
        axes.plot(at, own["wait_s"], linestyle="none", marker=MARKERS[number], color=_LOOK[policy][0], alpha=0.5,
                  markersize=4, label=f"{policy}, a trial")  # fmt: skip
        means = own.groupby("application")["wait_s"].mean().reindex(names)
        axes.plot(np.arange(len(names)) + 0.3 * (number - 0.5), means, linestyle="none", marker="_", markersize=18,
                  markeredgewidth=2.5, color=_LOOK[policy][0], label=f"{policy}, mean")  # fmt: skip
    axes.set_xticks(np.arange(len(names)), names)
    axes.set_ylim(bottom=0)
    axes.set(title="Waits of the 80 % of jobs not there at the start, ADAA (Figure 11)", xlabel="application",
             ylabel="mean wait [s]")  # fmt: skip
    axes.legend(loc="lower center", ncols=2, fontsize=8)


SHOWN: Final = (measures.RUSH, measures.RANDOM, measures.ORACLE)


def controls(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how many fewer runs vary than under FCFS+EASY, by experiment and policy, with intervals."""
    return _means(trials[trials["policy"] != measures.CALM_EASY], SHOWN, "fewer_varying")


def paint_controls(axes: Axes, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["experiment"]))
    groups = [
        (policy, policy, COLOURS[k], h) for k, (policy, h) in enumerate(zip(SHOWN, ("", "//", ".."), strict=True))
    ]
    _bars(axes, table.assign(group=table["policy"], application=table["experiment"]), names, groups, "fewer_varying")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(title="What is gained on FCFS+EASY by the same seed: RUSH and its controls", xlabel="experiment",
             ylabel="fewer runs that vary a trial, mean and 95 % interval")  # fmt: skip
    legend_beside(axes, fontsize=8)
