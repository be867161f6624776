"""Table 2 and Figures 1 to 4 of V. Reis's report.

The paper: V. Reis, "Learning job run-times in HPC systems", Master's report, MoSIG, Grenoble. Its log is CEA-Curie
(Parallel Workloads Archive). Both protocols stand side by side: the paper's, and the strict one, which knows no more
than a scheduler would and never predicts more than the request. The paper's text calls Figure 2 "Figure 3".

The paper's forest is scikit-learn's of 2014 with its defaults: ten trees, each grown fully on as many jobs as the
training part has, all columns tried at each split. It is grown with ten seeds, because a forest of ten trees is a noisy
estimator. The product's `forest` has more trees on fewer jobs each.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, HATCHES, Axes, Picture
from experiments.reports.report import Report
from experiments.runs.checkpoints import run_all
from experiments.runs.setting import Setting
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import PROTOCOLS, evaluate, jobs_that_count
from predictors.evaluation.importances import importances
from predictors.evaluation.results import Evaluation
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo
from predictors.models.forest import Forest

QUESTION: Final = (
    "Can run times be learnt? Table 2, Figures 1 to 4, importances and stretch of V. Reis's report, on any job log."
)

PAPERS_FOREST: Final = "the paper's forest"
PAPER: Final = {"log": "CEA-Curie-2011-2.1-cln", "last-two": 1.24186e13, PAPERS_FOREST: 9.897605e12}
"""Table 2: sums of squared errors [s²] on the last 20 % of the jobs."""

TREES: Final = 10
ONE_HOT: Final = 16  # columns of its own that an attribute has in the paper's forest here; there every category has
SEEDS: Final = 10
QUICK_SEEDS: Final = 2

QUANTILES: Final = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999)


def run(setting: Setting) -> Report:
    """Evaluate the forest and last-two on the last 20 % of a log, under both protocols, and draw the figures."""
    forest = Forest(random_state=setting.seed, n_estimators=20 if setting.quick else 100)
    asked: dict[str, Predictor] = {"last-two": LastTwo(), "forest": forest}
    found = {
        protocol: evaluate(setting.log, asked, protocol=protocol, partition=setting.partition, seed=setting.seed)
        for protocol in PROTOCOLS
    }
    seeds = setting.drawn(SEEDS, QUICK_SEEDS, first=0)
    shared = setting.log, setting.partition, setting.seed
    by_seed = pd.concat(run_all(setting, "Growing forests", papers_forest, shared, seeds), ignore_index=True)
    rows = [*_table2(found["reis"]), _over_seeds(by_seed, found["reis"]), *_table2(found["strict"])]
    table2 = pd.DataFrame(rows)
    tail = pd.concat([_tail(found[protocol]) for protocol in ("reis", "strict")], ignore_index=True)
    log = setting.jobs()
    counted, left_out = jobs_that_count(log, "reis")
    fitted = found["reis"]["forest"].predictor
    assert isinstance(fitted, Forest)
    tables = {
        "table2": table2, "papers_forest": by_seed, "squared_error_tail": tail, "importances": importances(fitted),
        "log": _about(log), "stretch": _stretch(log),
    }  # fmt: skip
    return Report(
        log=log.name, seeds=seeds, tables=tables, pictures=pictures(log, found["reis"], tables["importances"]),
        notes=_notes(log), verdict=_verdict(table2, by_seed, tail, log), account=left_out.using(len(counted)),
    )  # fmt: skip


def papers_forest(shared: tuple[JobLog, str | int | None, int], seed: int) -> pd.DataFrame:
    """Return Table 2's row of the paper's own forest of a seed, under its protocol: full bootstraps, pure leaves."""
    log, partition, first_seed = shared
    asked: dict[str, Predictor] = {PAPERS_FOREST: papers_forest_of(seed, len(log))}
    found = evaluate(log, asked, protocol="reis", partition=partition, seed=first_seed)
    row = next(row for row in _table2(found) if row["predictor"] == PAPERS_FOREST)
    return pd.DataFrame([{"seed": seed, **{name: row[name] for name in _OF_SEEDS}}])


def papers_forest_of(seed: int, n_jobs: int) -> Forest:
    """Return the paper's forest for a log of so many jobs: no tree is kept from seeing all that there is to learn."""
    most = 2 * TREES * max(1, n_jobs)
    return Forest(n_estimators=TREES, max_features=1.0, max_nodes=most, one_hot=ONE_HOT, random_state=seed)


_OF_SEEDS: Final = (  # columns of Table 2 that a forest of one seed has
    "n_train", "n_test", "sse_s2", "ratio_to_last_two", "mae_s", "median_ae_s", "underestimation_rate", "fit_seconds",
)  # fmt: skip


def _over_seeds(by_seed: pd.DataFrame, found: Evaluation) -> dict[str, object]:
    """Return a row of Table 2: means over the seeds, and the smallest and the largest ratio of a seed."""
    ratio = by_seed["ratio_to_last_two"]
    means = {name: by_seed[name].mean() for name in _OF_SEEDS if not name.startswith("n_")}
    counts = {name: int(by_seed[name].iloc[0]) for name in ("n_train", "n_test")}
    about = {"protocol": "reis", "predictor": f"{PAPERS_FOREST}, mean of {len(by_seed)} seeds"}
    paper = {"paper_sse_s2": _published(found).get(PAPERS_FOREST, np.nan)}
    return about | counts | means | paper | {"seed_low": ratio.min(), "seed_high": ratio.max()}


def _published(found: Evaluation) -> Mapping[str, object]:
    """Return the paper's sums by predictor, if these are its log and protocol."""
    return PAPER if found.log == PAPER["log"] and found.protocol == "reis" and found.partition is None else {}


def _table2(found: Evaluation) -> list[dict[str, object]]:
    """Return the rows of one protocol; `ratio_low` and `ratio_high` resample users."""
    paper = _published(found)
    return [
        {
            "protocol": found.protocol, "predictor": score.name, "n_train": found.n_train, "n_test": found.n_test,
            "sse_s2": score.figures.sse_s2, "paper_sse_s2": paper.get(score.name, np.nan),
            "ratio_to_last_two": score.figures.sse_ratio_to_last_two, "ratio_low": score.interval[0],
            "ratio_high": score.interval[1], "mae_s": score.figures.mae_s, "median_ae_s": score.figures.median_ae_s,
            "underestimation_rate": score.figures.underestimation_rate, "fit_seconds": score.fit_seconds,
        }
        for score in found.scores
    ]  # fmt: skip


def _tail(found: Evaluation) -> pd.DataFrame:
    errors = {name: (found[name].predicted - found.run_time) ** 2 for name in ("last-two", "forest")}
    columns = {f"{name}_s2": np.quantile(error, QUANTILES) for name, error in errors.items()}
    return pd.DataFrame({"protocol": found.protocol, "quantile": QUANTILES, **columns})


def _about(log: JobLog) -> pd.DataFrame:
    requested, run_time = log.filled("requested_time"), log.filled("run_time")
    both = log.known("requested_time") & log.known("run_time") & (requested > 0)
    asked = requested[log.known("requested_time")]
    common, times = np.unique(asked, return_counts=True)
    most = int(np.argmax(times)) if len(times) else -1
    rows = {
        "jobs": len(log),
        "users": len(np.unique(log.filled("user")[log.known("user")])),
        "most common request [s]": int(common[most]) if len(times) else np.nan,
        "share of jobs with it": times[most] / len(log) if len(times) else np.nan,
        "longest request [s]": int(asked.max()) if len(asked) else np.nan,
        "median of run time / request": float(np.median(run_time[both] / requested[both])) if both.any() else np.nan,
    }
    return pd.DataFrame({"what": list(rows), "value": list(rows.values())})


def _stretch(log: JobLog) -> pd.DataFrame:
    """Return maximum and mean of (submission to end) / run time, the paper's argument for a convex loss."""
    run_time = log.filled("run_time")
    ran = log.known("run_time") & log.known("wait") & (run_time > 0)
    if not ran.any():
        return pd.DataFrame({"jobs": [0], "max_stretch": [np.nan], "mean_stretch": [np.nan]})
    stretch = (log.filled("wait")[ran] + run_time[ran]) / run_time[ran]
    return pd.DataFrame({"jobs": [int(ran.sum())], "max_stretch": [stretch.max()], "mean_stretch": [stretch.mean()]})


def _verdict(table2: pd.DataFrame, by_seed: pd.DataFrame, tail: pd.DataFrame, log: JobLog) -> tuple[str, ...]:
    far = tail[(tail["protocol"] == "reis") & (tail["quantile"] >= 0.99)]
    thinner = bool((far["forest_s2"] < far["last-two_s2"]).all())
    thicker = bool((far["forest_s2"] > far["last-two_s2"]).all())
    word = "thinner" if thinner else "thicker" if thicker else "thinner at some quantiles and thicker at others"
    forest = table2[table2["predictor"] == "forest"].set_index("protocol")["ratio_to_last_two"]
    own = by_seed["ratio_to_last_two"]
    sentences = [
        f"The forest's squared error is {forest['strict']:.3f} of last-two's where it learns from jobs that had ended "
        f"(strict), {forest['reis']:.3f} under the paper's protocol, which knows more than a scheduler does.",
        f"The paper's own forest has {own.mean():.3f} under the paper's protocol, the mean of {len(own)} seeds: "
        f"{own.min():.3f} to {own.max():.3f}.",
        f"From the 99th percentile on, the forest's squared error has a tail that is {word} than last-two's.",
    ]
    if log.name == PAPER["log"]:
        sentences.append("The paper's own ratio on this log is 0.797.")
    return tuple(sentences)


def _notes(log: JobLog) -> tuple[str, ...]:
    unknown = int((~log.known("wait")).sum())
    return (f"Wait is unknown for {unknown:,} jobs: they count as started at once.",) if unknown else ()


def pictures(log: JobLog, found: Evaluation, importances: pd.DataFrame) -> tuple[Picture, ...]:
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
    place = np.arange(len(table))[::-1]
    axes.barh(place + 0.2, table["importance"], 0.4, label="share of explained variance", color=COLOURS[0])
    axes.barh(place - 0.2, table["height"], 0.4, label="height in the trees (share)", color=COLOURS[1],
              hatch=HATCHES[1], edgecolor="white")  # fmt: skip
    axes.set_yticks(place, [name.replace("_", " ") for name in table["attribute"]])
    axes.set(title="What the forest relies on", xlabel="relative importance (each kind sums to 1)")
    axes.legend(loc="lower right")
