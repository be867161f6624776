"""Which predictor for what? Every registered predictor on one log: errors, where they fall, costs, and what they buy.

Errors under three splits with intervals over users; each predictor in the simulator's loop, by what becomes of expired
estimates and under a promise, learning as jobs end; how often budgets are kept, month by month. So the reader sees
where a lower error buys a lower slowdown and where it does not. And what V. Reis's report leaves open: forests that
learn online, full splits on categories, distributions, and what squared and signed errors do to schedules.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Final

import pandas as pd

from experiments import runtime_figures as pictures
from experiments.calibration import calibration, in_words, paint_calibration, paint_reliability
from experiments.category_splits import category_splits
from experiments.experiment import Report, Setting
from experiments.figures import draw, write_table
from experiments.hiring import CrewError
from experiments.importances import permuted
from experiments.open_questions import distributions, online_forests
from experiments.runtime_errors import SPLITS, costs, errors, least_error, signed, sliced
from experiments.runtime_scheduling import errors_to_order, scheduling, what_error_buys
from predictors.data.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.evaluate import check, evaluate
from predictors.evaluation import Evaluation
from predictors.registry import PREDICTORS
from predictors.replay import replay

QUICK: Final = ("last-two", "requested", "user-mean", "similar", "online-linear", "forest")
"""What `--quick` looks at."""
EXPLAINED: Final = ("forest", "boosted", "average")
"""Whose attributes are permuted."""
CALIBRATED: Final = ("similar", "boosted")
"""Who is moved to keep budgets."""
LARGE: Final = 20_000
"""Jobs from which on the slowest are not followed job by job, neither over the log nor in the simulator."""
SLOWEST: Final = ("online-tree", "average", "chain", "censored")

Makers = Mapping[str, Callable[[], pd.DataFrame]]


def run(setting: Setting) -> Report:
    """Evaluate and simulate every predictor on a log, and draw what they gain and cost."""
    begin = perf_counter()
    names = setting.predictors or (QUICK if setting.quick else tuple(PREDICTORS))
    check(names, 0.8, "strict")
    log = setting.jobs()
    left_out = tuple(name for name in names if name in SLOWEST and len(log) >= LARGE)
    followed = tuple(name for name in names if name not in left_out)
    found = {
        split: evaluate(log, followed if how["train"] is None else names, seed=setting.seed, **how)
        for split, how in SPLITS.items()
    }
    tables, notes, paths = dict[str, pd.DataFrame](), list[str](), list[Path]()
    if left_out:
        notes.append(f"Not followed job by job on so many jobs: {', '.join(left_out)}.")
    for name, make in _makers(setting, log, followed, found).items():
        try:
            tables[name] = make()
        except CrewError:
            raise
        except JobcastError as error:
            notes.append(f"No table {name}: {error}")
            continue
        paths.append(write_table(tables[name], setting.folder / f"{name}.csv"))
    for name, table, paint, height in _figures(tables):
        paths += draw(setting.folder, f"figure_{name}", table, paint, height=height, width=8.0)
    verdict = tuple(_said(tables))
    seconds = perf_counter() - begin
    return Report("runtime", log.name, (setting.seed,), tables, tuple(paths), seconds, tuple(notes), verdict)


def _makers(setting: Setting, log: JobLog, names: tuple[str, ...], found: Mapping[str, Evaluation]) -> Makers:
    strict, quick, seed = found["strict"], setting.quick, setting.seed
    place = setting.unfinished and setting.unfinished / "sweep"
    makers: dict[str, Callable[[], pd.DataFrame]] = {
        "errors": lambda: errors(found),
        "signed_errors": lambda: signed(strict),
        "by_run_time": lambda: sliced(strict, "run time"),
        "by_user": lambda: sliced(strict, "user"),
        "by_month": lambda: sliced(strict, "month"),
        "costs": lambda: costs(found),
        "scheduling": lambda: scheduling(_cleaned(setting, log), names, setting.crew, place),
        "importances": lambda: _importances(log, strict, seed),
    }
    questions: dict[str, Callable[[], pd.DataFrame]] = {
        "calibration": lambda: _calibration(log, quick, seed),
        "errors_to_order": lambda: errors_to_order(_cleaned(setting, log), seed, quick=quick),
        "category_splits": lambda: category_splits(log, seed, quick=quick),
        "distributions": lambda: distributions(log, seed),
        "online_forests": lambda: online_forests(log, seed, quick=quick),
    }
    return makers if setting.predictors else makers | questions


def _cleaned(setting: Setting, log: JobLog) -> JobLog:
    return log.for_simulation(setting.procs, drop_wide=True)[0]


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


def _figures(tables: Mapping[str, pd.DataFrame]) -> Iterator[pictures.Picture]:
    strict = tables["errors"][tables["errors"]["split"] == "strict"]
    yield "errors", tables["errors"], pictures.paint_errors, 6.5
    yield "by_run_time", tables["by_run_time"], pictures.paint_slices, 5.0
    yield "cost", strict.merge(tables["costs"], on="predictor"), pictures.paint_cost, 5.0
    if "importances" in tables:
        yield "importances", tables["importances"], pictures.paint_importances, 6.5
    if "calibration" in tables:
        yield "reliability", tables["calibration"], paint_reliability, 5.0
        for name, part in tables["calibration"].groupby("predictor", sort=False):
            yield f"calibration_{name}", part, paint_calibration, 5.0
    if "scheduling" in tables:
        yield "frontier", tables["scheduling"], pictures.paint_frontier, 6.5
        plain = tables["scheduling"][tables["scheduling"]["way"] == "request"]
        yield "error_and_gain", plain.merge(strict[["predictor", "ratio_to_last_two"]]), pictures.paint_gain, 5.0
    if "errors_to_order" in tables:
        for policy, part in tables["errors_to_order"].groupby("policy", sort=False):
            yield f"errors_to_order_{policy}", part, pictures.paint_errors_to_order, 5.0


def _said(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    said = [least_error(tables["errors"])]
    said += what_error_buys(tables["scheduling"]) if "scheduling" in tables else []
    if "calibration" in tables:
        said += [in_words(part) for _, part in tables["calibration"].groupby("predictor", sort=False)]
    return said
