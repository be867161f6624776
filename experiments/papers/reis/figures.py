"""Figures 1 to 4 of V. Reis's report, drawn from any log."""

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, HATCHES, Axes, Picture
from predictors.data.joblog import JobLog
from predictors.evaluation.results import Evaluation


def pictures(log: JobLog, found: Evaluation, importances: pd.DataFrame) -> tuple[Picture, ...]:
    """Return all four."""
    return (
        Picture("figure1_times", times(log), paint_times),
        Picture("figure2_ratio", ratios(log), paint_ratios),
        Picture("figure3_squared_error", error_densities(found), paint_densities),
        Picture("figure4_importances", importances, paint_importances, height=4.8),
    )


def times(log: JobLog) -> pd.DataFrame:
    """Return jobs by requested time and by run time, in 24 bins up to the 99th percentile of both."""
    known = {name: log.filled(name)[log.known(name)] / 3600 for name in ("requested_time", "run_time")}
    values = np.concatenate(list(known.values()))
    top = float(np.quantile(values, 0.99)) if len(values) else 1.0
    edges = np.linspace(0, max(np.ceil(top), 1.0), 25)
    counts = {name: np.histogram(np.minimum(hours, edges[-1]), edges)[0] for name, hours in known.items()}
    return pd.DataFrame({"from_h": edges[:-1], "to_h": edges[1:], **counts})


def paint_times(axes: Axes, table: pd.DataFrame) -> None:
    """Figure 1: marginal histograms of requested time and run time."""
    width = table["to_h"] - table["from_h"]
    for offset, name, label, colour, hatch in (
        (0.0, "requested_time", "requested time", COLOURS[1], HATCHES[1]),
        (0.5, "run_time", "run time", COLOURS[0], HATCHES[0]),
    ):
        axes.bar(table["from_h"] + offset * width, table[name], width / 2, align="edge", label=label, color=colour,
                 hatch=hatch, edgecolor="white")  # fmt: skip
    axes.set(
        title="Requested and real run times", xlabel="time [h] (the last bin holds all longer jobs)", ylabel="jobs"
    )
    axes.legend()


def ratios(log: JobLog) -> pd.DataFrame:
    """Return jobs by run time / requested time, in bins of 0.05; jobs above 1 stand in the last bin."""
    requested, run_time = log.filled("requested_time"), log.filled("run_time")
    known = log.known("requested_time") & log.known("run_time") & (requested > 0)
    edges = np.linspace(0, 1.05, 22)
    counts = np.histogram(np.minimum(run_time[known] / requested[known], 1.04), edges)[0]
    return pd.DataFrame({"from": edges[:-1], "to": edges[1:], "jobs": counts})


def paint_ratios(axes: Axes, table: pd.DataFrame) -> None:
    """Figure 2: how much of their request jobs use."""
    axes.bar(
        table["from"], table["jobs"], table["to"] - table["from"], align="edge", color=COLOURS[0], edgecolor="white"
    )
    axes.set(title="Share of the request that jobs use", xlabel="run time / requested time (last bar: 1 and above)")
    axes.set_ylabel("jobs")


def error_densities(found: Evaluation) -> pd.DataFrame:
    """Return kernel densities of log10(squared error + 1 s²) of both predictors, on a common grid."""
    logs = {name: np.log10((found[name].predicted - found.run_time) ** 2 + 1) for name in ("last-two", "forest")}
    grid = np.linspace(0, max(float(values.max()) for values in logs.values()) * 1.02 + 1e-9, 400)
    return pd.DataFrame(
        {"log10_squared_error": grid, **{name: _density(values, grid) for name, values in logs.items()}}
    )


def _density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Gaussian kernel density with Silverman's bandwidth, from a fine histogram: exact enough and fast for any log."""
    spread = float(np.std(values)) or 1e-3
    bandwidth = max(1.06 * spread * len(values) ** -0.2, (grid[1] - grid[0]))
    counts, edges = np.histogram(values, bins=2000, range=(grid[0], grid[-1]))
    centres = (edges[:-1] + edges[1:]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - centres[None]) / bandwidth) ** 2)
    density: np.ndarray = kernel @ counts / (len(values) * bandwidth * np.sqrt(2 * np.pi))
    return density


def paint_densities(axes: Axes, table: pd.DataFrame) -> None:
    """Figure 3: density of the squared error, baseline against forest."""
    grid = table["log10_squared_error"]
    axes.plot(grid, table["last-two"], label="last-two", color=COLOURS[1], linestyle="--")
    axes.plot(grid, table["forest"], label="forest", color=COLOURS[0])
    axes.set(
        title="Squared error on the last 20 % of the jobs", xlabel="log10(squared error [s²] + 1)", ylabel="density"
    )
    axes.legend()


def paint_importances(axes: Axes, table: pd.DataFrame) -> None:
    """Figure 4: importances both ways."""
    place = np.arange(len(table))[::-1]
    axes.barh(place + 0.2, table["importance"], 0.4, label="share of explained variance", color=COLOURS[0])
    axes.barh(place - 0.2, table["height"], 0.4, label="height in the trees (share)", color=COLOURS[1],
              hatch=HATCHES[1], edgecolor="white")  # fmt: skip
    axes.set_yticks(place, [name.replace("_", " ") for name in table["attribute"]])
    axes.set(title="What the forest relies on", xlabel="relative importance (each kind sums to 1)")
    axes.legend(loc="lower right")
