"""Every predictor on one log: errors, where they fall, costs, and what they buy.

Errors under three splits with intervals over users; each predictor in the simulator's loop, by what becomes of expired
estimates and under a promise, learning as jobs end; how often budgets are kept, month by month. So the reader sees
where a lower error buys a lower slowdown and where it does not. And what V. Reis's report leaves open: forests that
learn online, full splits on categories, distributions, and what squared and signed errors do to schedules.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from experiments.compare.measures import MEASURES
from experiments.reports.figures import (
    COLOURS,
    HATCHES,
    MARKERS,
    Axes,
    Paint,
    Picture,
    bar_lengths,
    legend_beside,
    legend_of_points,
    look_of,
    number_beside,
)
from experiments.reports.report import Report
from experiments.runs.clusters import PoolError
from experiments.runs.setting import Setting
from experiments.studies.reis_open_questions import (
    calibration,
    category_splits,
    distributions,
    in_words,
    online_forests,
    paint_calibration,
    paint_reliability,
)
from experiments.studies.runtime_scheduling import errors_to_order, scheduling, what_error_buys
from predictors.core.errors import JobcastError
from predictors.data.cleaning import clean
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import check, evaluate, jobs_that_count
from predictors.evaluation.importances import permuted
from predictors.evaluation.results import Evaluation, Score
from predictors.history.replay import replay
from predictors.registry import PREDICTORS

SPLITS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "strict": MappingProxyType({"train": 0.8, "protocol": "strict"}),
        "reis": MappingProxyType({"train": 0.8, "protocol": "reis"}),
        "prequential": MappingProxyType({"train": None, "protocol": "strict"}),
    }
)
"""What `evaluate` receives: the last 20 % under either protocol; or every job at its submission, learnt at its end."""


def errors(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """Return one row a split and predictor, the least squared error of each split first."""
    rows = [_errors(split, score) for split, one in found.items() for score in one.scores]
    table = pd.DataFrame(rows)
    order = {split: place for place, split in enumerate(found)}
    return table.sort_values(
        ["split", "ratio_to_last_two"], key=lambda column: column.map(order) if column.name == "split" else column
    ).reset_index(drop=True)


def least_error(table: pd.DataFrame) -> str:
    """Return a sentence on which predictor has the least squared error, and which intervals overlap with its own."""
    split = table["split"].iloc[0]
    part = table[(table["split"] == split) & table["ratio_to_last_two"].notna()].sort_values("ratio_to_last_two")
    if part.empty:
        return "No predictor has a squared error to compare."
    best = part.iloc[0]
    if part["ratio_low"].isna().all():
        return (
            f"Least squared error under the split {split}: {best['predictor']}, {best['ratio_to_last_two']:.3f} of "
            "last-two's; there is one user, so this tells nothing about others."
        )
    low, high = (part[name].fillna(part["ratio_to_last_two"]) for name in ("ratio_low", "ratio_high"))
    sentence = (
        f"Least squared error under the split {split}: {best['predictor']}, {best['ratio_to_last_two']:.3f} of "
        f"last-two's [{low.iloc[0]:.3f}, {high.iloc[0]:.3f}]."
    )
    near = part["predictor"][1:][low[1:] <= high.iloc[0]].tolist()
    return f"{sentence} Intervals overlap with {', '.join(near)}: no winner among these." if near else sentence


def _errors(split: str, score: Score) -> dict[str, object]:
    figures = score.figures
    return {
        "split": split, "predictor": score.name, "ratio_to_last_two": figures.sse_ratio_to_last_two,
        "ratio_low": score.interval[0], "ratio_high": score.interval[1], "mae_s": figures.mae_s,
        "median_ae_s": figures.median_ae_s, "mean_accuracy": figures.mean_accuracy,
        "within_10_min": figures.within_10_min, "too_short": figures.underestimation_rate, "r2": figures.r2,
    }  # fmt: skip


def signed(found: Evaluation) -> pd.DataFrame:
    """Return how each predictor's errors divide into predictions that are too long and too short [s]."""
    return pd.DataFrame([_signed(score, found) for score in found.scores])


def _signed(score: Score, found: Evaluation) -> dict[str, object]:
    error = score.predicted - found.run_time
    over, under = error[error > 0], -error[error < 0]
    squared = float((error**2).sum()) or 1.0
    return {
        "predictor": score.name, "too_long": len(over) / len(error), "too_short": len(under) / len(error),
        "mean_too_long_s": float(over.mean()) if len(over) else 0.0,
        "mean_too_short_s": float(under.mean()) if len(under) else 0.0, "bias_s": float(error.mean()),
        "squared_error_from_too_short": float((under**2).sum()) / squared,
    }  # fmt: skip


def sliced(found: Evaluation, by: str) -> pd.DataFrame:
    """Return each predictor's errors on every slice of one kind: `run time`, `user` or `month`."""
    return pd.DataFrame(
        [
            {"predictor": score.name, "slice": part.label, "jobs": part.figures.n_test,
             "ratio_to_last_two": part.figures.sse_ratio_to_last_two, "mae_s": part.figures.mae_s,
             "too_short": part.figures.underestimation_rate}
            for score in found.scores
            for part in score.slices
            if part.by == by
        ]
    )  # fmt: skip


def costs(found: Mapping[str, Evaluation]) -> pd.DataFrame:
    """Return what each predictor costs on one core.

    Columns: fit_s and learn_rows_per_s, of one fit on the first 80 % of the jobs, the features not included;
    predict_us and predict_rows_per_s, in bulk, features not included; stream_us, of a job that is predicted alone and
    learnt from at its end, features and refits included (NaN: not followed so); jobs_per_s in such a stream.
    """
    split, stream = found["strict"], found["prequential"]
    alone = {s.name: s.predict_us_per_job + s.fit_seconds / stream.n_test * 1e6 for s in stream.scores}
    rows = []
    for score in split.scores:
        in_stream = alone.get(score.name, np.nan)
        rows.append({
            "predictor": score.name, "fit_s": score.fit_seconds,
            "learn_rows_per_s": split.n_train / max(score.fit_seconds, 1e-9), "predict_us": score.predict_us_per_job,
            "predict_rows_per_s": 1e6 / max(score.predict_us_per_job, 1e-9), "stream_us": in_stream,
            "jobs_per_s": 1e6 / in_stream,
        })  # fmt: skip
    return pd.DataFrame(rows)


QUESTION: Final = (
    "Which predictor for what? Every registered predictor on one log: errors, where they fall, costs, "
    "and what they buy."
)

QUICK: Final = ("last-two", "requested", "user-mean", "similar", "online-linear", "forest")  # what `--quick` looks at
EXPLAINED: Final = ("forest", "boosted", "average")  # predictors with permuted attributes
CALIBRATED: Final = ("similar", "boosted")  # who is moved to keep budgets
LARGE: Final = 20_000  # jobs from which on the slowest are not followed job by job
SLOWEST: Final = ("online-tree", "average", "stack", "chain", "censored")

Makers = Mapping[str, Callable[[], pd.DataFrame]]


def run(setting: Setting) -> Report:
    """Evaluate and simulate every predictor on a log, and draw what they gain and cost."""
    names = setting.predictors or (QUICK if setting.quick else tuple(PREDICTORS.built_in))
    check(names, 0.8, "strict")
    log = setting.jobs()
    counted, account = jobs_that_count(log)
    account = account.using(len(counted))
    left_out = tuple(name for name in names if name in SLOWEST and len(log) >= LARGE)
    followed = tuple(name for name in names if name not in left_out)
    found = {
        split: evaluate(log, followed if how["train"] is None else names, seed=setting.seed, **how)
        for split, how in SPLITS.items()
    }
    tables, notes = dict[str, pd.DataFrame](), list[str]()
    if left_out:
        notes.append(f"Not followed job by job on so many jobs: {', '.join(left_out)}.")
    for name, make in _makers(setting, log, followed, found).items():
        try:
            tables[name] = make()
        except PoolError:
            raise
        except JobcastError as error:
            notes.append(f"No table {name}: {error}")
    return Report(
        log=log.name,
        seeds=(setting.seed,),
        tables=tables,
        pictures=tuple(
            Picture(f"figure_{name}", table, paint, 8.0, height) for name, table, paint, height in _figures(tables)
        ),
        notes=tuple(notes),
        verdict=tuple(_sentences(tables)),
        account=account,
    )


def _makers(setting: Setting, log: JobLog, names: tuple[str, ...], found: Mapping[str, Evaluation]) -> Makers:
    strict, quick, seed = found["strict"], setting.quick, setting.seed
    place = setting.checkpoints and setting.checkpoints / "sweep"
    makers: dict[str, Callable[[], pd.DataFrame]] = {
        "errors": lambda: errors(found), "signed_errors": lambda: signed(strict),
        "by_run_time": lambda: sliced(strict, "run time"), "by_user": lambda: sliced(strict, "user"),
        "by_month": lambda: sliced(strict, "month"), "costs": lambda: costs(found),
        "scheduling": lambda: scheduling(_cleaned(setting, log), names, setting.pool, place),
        "importances": lambda: _importances(log, strict, seed),
    }  # fmt: skip
    questions: dict[str, Callable[[], pd.DataFrame]] = {
        "calibration": lambda: _calibration(log, quick, seed),
        "errors_to_order": lambda: errors_to_order(_cleaned(setting, log), seed, quick=quick),
        "category_splits": lambda: category_splits(log, seed, quick=quick),
        "distributions": lambda: distributions(log, seed),
        "online_forests": lambda: online_forests(log, seed, quick=quick),
    }
    return makers if setting.predictors else makers | questions


def _cleaned(setting: Setting, log: JobLog) -> JobLog:
    return clean(log, setting.procs, drop_wide=True)[0]


def _importances(log: JobLog, found: Evaluation, seed: int) -> pd.DataFrame:
    ran = log.select(log.filled("run_time") > 0)
    explained = [score for score in found.scores if score.name in EXPLAINED]
    if not explained:
        raise JobcastError(f"attributes are permuted for {', '.join(EXPLAINED)}.")
    parts = []
    for score in explained:
        rows = replay(ran, score.predictor.features)[-found.n_test :]
        parts.append(permuted(score.predictor, rows, found.run_time, seed))
    return pd.concat(parts, ignore_index=True)


def _calibration(log: JobLog, quick: bool, seed: int) -> pd.DataFrame:
    names = CALIBRATED[:1] if quick else CALIBRATED
    return pd.concat([calibration(log, name, quick=quick, seed=seed) for name in names], ignore_index=True)


def _figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame, Paint, float]]:
    """Yield of each picture its name, table, painter and height [inches]."""
    strict = tables["errors"][tables["errors"]["split"] == "strict"]
    yield "errors", tables["errors"], paint_errors, 6.5
    yield "by_run_time", tables["by_run_time"], paint_slices, 5.0
    yield "cost", strict.merge(tables["costs"], on="predictor"), paint_cost, 5.0
    if "importances" in tables:
        yield "importances", tables["importances"], paint_importances, 6.5
    if "calibration" in tables:
        yield "reliability", tables["calibration"], paint_reliability, 5.0
        for name, part in tables["calibration"].groupby("predictor", sort=False):
            yield f"calibration_{name}", part, paint_calibration, 5.0
    if "scheduling" in tables:
        yield "frontier", tables["scheduling"], paint_frontier, 6.5
        plain = tables["scheduling"][tables["scheduling"]["way"] == "request"]
        yield "error_and_gain", plain.merge(strict[["predictor", "ratio_to_last_two"]]), paint_gain, 5.0
    if "errors_to_order" in tables:
        for policy, part in tables["errors_to_order"].groupby("policy", sort=False):
            yield f"errors_to_order_{policy}", part, paint_errors_to_order, 5.0


def _sentences(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    sentences = [least_error(tables["errors"])]
    sentences += what_error_buys(tables["scheduling"]) if "scheduling" in tables else []
    if "calibration" in tables:
        sentences += [in_words(part) for _, part in tables["calibration"].groupby("predictor", sort=False)]
    return sentences


WAY_MARKERS = {"EASY": "P", "request": "o", "incremental": "^", "doubling": "v", "promise with slack": "D"}
TOP_ATTRIBUTES = 15
LEAST_GAP = -100.0  # percent of the gap closed below which points are drawn at the foot


def _look(name: str) -> dict[str, Any]:
    """Return a predictor's colour and marker, the same in every picture; markers are filled or hollow."""
    number = list(PREDICTORS).index(name)
    return look_of(number) | {"marker": MARKERS[number % len(MARKERS)]}


def paint_errors(axes: Axes, table: pd.DataFrame) -> None:
    """Squared error relative to last-two, with 95 % intervals over users; a colour a split."""
    splits = list(dict.fromkeys(table["split"]))
    names = list(table[table["split"] == splits[0]]["predictor"])
    for number, split in enumerate(splits):
        part = table[table["split"] == split].set_index("predictor").reindex(names)
        middle = part["ratio_to_last_two"].to_numpy()
        spread = bar_lengths(part, "ratio_to_last_two", "ratio_low", "ratio_high")
        at = np.arange(len(names))[::-1] + 0.25 * (1 - number)
        axes.errorbar(
            middle, at, xerr=spread, fmt=MARKERS[number], color=COLOURS[number], capsize=2, markersize=5, label=split
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(np.arange(len(names))[::-1], names)
    _log_in_numbers(axes, "x")
    axes.set(title="Squared error, by split", xlabel="relative to last-two (95 % over users)")
    legend_beside(axes)


def paint_slices(axes: Axes, table: pd.DataFrame) -> None:
    """Mean absolute error by class of run time, a line a predictor."""
    labels = list(dict.fromkeys(table["slice"]))
    for name, part in table.groupby("predictor", sort=False):
        values = part.set_index("slice")["mae_s"].reindex(labels) / 60
        style = "-" if list(PREDICTORS).index(str(name)) < len(COLOURS) else "--"
        axes.plot(range(len(labels)), values, style, label=str(name), markersize=5, **_look(str(name)))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yscale("log")
    axes.set(title="Where the errors fall", xlabel="run time of the job", ylabel="mean absolute error [min]")
    legend_beside(axes, fontsize=8)


def paint_cost(axes: Axes, table: pd.DataFrame) -> None:
    """Error against what a job costs that is predicted alone and learnt from."""
    _scatter(axes, table["stream_us"].clip(lower=1e-2), table["ratio_to_last_two"], table["predictor"])
    axes.set_xscale("log")
    _log_in_numbers(axes, "y")
    axes.set(title="What a job costs", xlabel="time for a job: features, prediction, learning, refits [µs]")
    axes.set_ylabel("squared error relative to last-two")


def paint_gain(axes: Axes, table: pd.DataFrame) -> None:
    """Share of the gap to perfect knowledge closed, against the squared error."""
    _scatter(axes, table["ratio_to_last_two"], 100 * table["gap_closed"], table["predictor"])
    _log_in_numbers(axes, "x")
    axes.set(title="Does a lower error buy a lower slowdown?", xlabel="squared error relative to last-two")
    axes.set_ylabel("gap closed between EASY and clairvoyant EASY-SJBF [%]")


def paint_frontier(axes: Axes, table: pd.DataFrame) -> None:
    """Gap closed against the wait of the widest jobs: a colour a predictor, a marker a way; upper left is better."""
    from matplotlib.ticker import LogLocator, NullLocator

    names, ways = list(dict.fromkeys(table["predictor"])), list(dict.fromkeys(table["way"]))
    for row in table.to_dict(orient="records"):
        look = look_of(names.index(row["predictor"])) | {"marker": WAY_MARKERS[row["way"]]}
        x, y = row["widest"], max(100 * row["gap_closed"], LEAST_GAP)
        axes.plot(x, y, linestyle="none", markersize=7, **look)
        number_beside(axes, names.index(row["predictor"]) + 1, x, y)
    axes.axvline(1, color="#999999", linewidth=0.8)
    axes.set_xscale("log")
    near = table["widest"].max() < 2
    marks = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 9.0, 9.5) if near else (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=marks))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(title="What is gained, and what the widest jobs pay (as logged, not shaken)")
    axes.set_xlabel(f"{MEASURES['widest5_mean_wait_s'].title} of jobs, relative to EASY")
    foot = f", {LEAST_GAP:g} or less at the foot" if (table["gap_closed"] < LEAST_GAP / 100).any() else ""
    axes.set_ylabel(f"gap to clairvoyant EASY-SJBF closed [%]{foot}")
    legend_of_points(axes, names, {way: WAY_MARKERS[way] for way in ways})


def paint_importances(axes: Axes, table: pd.DataFrame) -> None:
    """Growth of the squared error when an attribute is permuted: those that matter most to any predictor."""
    best = table.groupby("attribute")["growth"].max().sort_values(ascending=False).index[:TOP_ATTRIBUTES]
    names = list(dict.fromkeys(table["predictor"]))
    at, height = np.arange(len(best))[::-1], 0.8 / len(names)
    for number, name in enumerate(names):
        values = table[table["predictor"] == name].set_index("attribute")["growth"].reindex(best)
        offset = height * ((len(names) - 1) / 2 - number)
        axes.barh(at + offset, 100 * values, height, label=name, color=COLOURS[number], hatch=HATCHES[number],
                  edgecolor="white")  # fmt: skip
    axes.set_yticks(at, [str(name).replace("_", " ") for name in best])
    axes.set_xscale("symlog", linthresh=1.0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(title="What predictors rely on", xlabel="growth of the squared error when the attribute is permuted [%]")
    axes.legend(loc="lower right")


def paint_errors_to_order(axes: Axes, table: pd.DataFrame) -> None:
    """Mean bounded slowdown against the bias of the estimates, a line a spread."""
    for number, (spread, part) in enumerate(table.groupby("spread")):
        axes.plot(
            part["factor"], part["slowdown"], color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)], markersize=5, label=f"spread {float(str(spread)):g}",
        )  # fmt: skip
    axes.axhline(1, color="black", linewidth=1)
    _log_in_numbers(axes, "x")
    axes.set(title=f"Errors made to order: {table['policy'].iloc[0]}", xlabel="estimate / run time, median")
    axes.set_ylabel("mean bounded slowdown / by true run times")
    axes.legend(title="of log(estimate / run time)")


def _log_in_numbers(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _scatter(axes: Axes, x: pd.Series, y: pd.Series, names: pd.Series) -> None:
    for number, (one, other, name) in enumerate(zip(x, y, names, strict=True), 1):
        axes.plot(one, other, linestyle="none", label=f"{number}  {name}", markersize=8, **_look(str(name)))
        number_beside(axes, number, one, other)
    legend_beside(axes, fontsize=8)
