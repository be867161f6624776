"""What a lower error of predictions buys a scheduler.

Where predictors differ, error and bias and much else differ with them. So the truth is also blurred on purpose, by a
known spread and a known bias, to see what either of the two does by itself: the last open question of V. Reis's report.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.compare.relative import relative
from experiments.runs.clusters import Pool
from experiments.runs.pool import HERE
from experiments.runs.simulate import estimates_by_name
from experiments.sweeps.run import run_sweep
from experiments.sweeps.sweep import Case, Sweep
from predictors.core.arrays import Ints
from predictors.data.joblog import JobLog
from predictors.models.baselines import ColumnPredictor
from predictors.models.online.base import OnlinePredictor
from predictors.registry import PREDICTORS
from schedsim.engine.simulation import simulate
from schedsim.policies.policy import make_policy
from schedsim.results.metrics import estimate_errors, figures
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload

WAYS: Final = (  # what replaces an expired estimate, or the promise; policy and correction
    ("request", "easy-sjbf", "requested"),
    ("incremental", "easy-sjbf", "incremental"),
    ("doubling", "easy-sjbf", "doubling"),
    ("promise with slack", "careful", "requested"),
)
SOME: Final = 20_000  # jobs from which on predictors that are fitted repeatedly are simulated in the first way alone
EASY: Final = "EASY"
ERRORS: Final = ("rmse_s", "bias_s", "too_short")
REVISED_ESTIMATES: Final = ("careful", "bold")

SPREADS: Final = (0.0, 0.25, 0.5, 1.0, 2.0)  # standard deviations of the logarithm of estimate / run time
FACTORS: Final = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)  # medians of estimate / run time
POLICIES: Final = ("easy", "easy-sjbf", "sjf-easy")


def scheduling(log: JobLog, names: Iterable[str], pool: Pool = HERE, folder: Path | None = None) -> pd.DataFrame:
    """Return what each predictor buys on a cleaned log, a row a predictor and way; the log as it is, not shaken.

    Who works and where runs are kept are as of `experiments.sweeps.run.run_sweep`.

    Columns: gap_closed, (EASY - ours) / (EASY - clairvoyant EASY-SJBF) in mean bounded slowdown; wait, p99, longest and
    widest relative to EASY; mean and maximum stretch; and of the estimates issued at the submissions: rmse_s, bias_s,
    too_short (share of the jobs that ran longer).
    """
    tried = [(name, *way) for name, way in _cases(names, len(log))]
    cases = [Case(EASY, "easy"), *(Case(f"{name}, {way}", policy, name, fix) for name, way, policy, fix in tried)]
    found = run_sweep(Sweep(cases=tuple(cases)), [log], pool=pool, folder=folder).runs
    records: list[dict[Any, Any]] = found.to_dict(orient="records")
    runs = {row["case"]: row for row in records}
    easy, best = runs[EASY], runs[f"clairvoyant, {WAYS[0][0]}"]
    rows = [{"predictor": "requested", "way": EASY, **_against(easy, easy, best)}]
    for name, way, *_ in tried:
        own = runs[f"{name}, {way}"]
        chosen = {} if name in REVISED_ESTIMATES else {error: own[f"estimate_{error}"] for error in ERRORS}
        rows.append({"predictor": name, "way": way, **_against(own, easy, best), **chosen})
    return pd.DataFrame(rows)


def _cases(names: Iterable[str], n_jobs: int) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for name in names:
        light = issubclass(PREDICTORS[name], (ColumnPredictor, OnlinePredictor))
        for way in WAYS if light or n_jobs < SOME else WAYS[:1]:
            yield name, way
    yield from (("clairvoyant", way) for way in (WAYS[0], WAYS[-1]))
    yield from ((name, WAYS[-1]) for name in REVISED_ESTIMATES)


def _against(own: dict[str, float], easy: dict[str, float], best: dict[str, float]) -> dict[str, float]:
    found = relative(own, easy, best)
    stretch = {name: own[name] for name in ("mean_stretch", "max_stretch")}
    return {"mean_bounded_slowdown": found.pop("slowdown"), **found, **stretch}


def what_error_buys(table: pd.DataFrame) -> list[str]:
    """Say for each way how the gap closed goes with squared error, bias and underestimation, over the predictors."""
    sentences = []
    for way, part in table[table["rmse_s"].notna() & (table["predictor"] != "clairvoyant")].groupby("way", sort=False):
        if len(part) < 3 or part["gap_closed"].nunique() < 2:
            continue
        rank = part["gap_closed"].rank()
        by = {name: rank.corr(part[name].rank()) for name in ("rmse_s", "bias_s", "too_short")}
        sentences.append(
            f"{way}: rank correlation of the gap closed, over {len(part)} predictors, with the squared error "
            f"{by['rmse_s']:+.2f}, with the bias {by['bias_s']:+.2f}, with the share of jobs planned too short "
            f"{by['too_short']:+.2f} (one unshaken run each)."
        )
    return sentences


def errors_to_order(log: JobLog, seed: int, *, quick: bool = False) -> pd.DataFrame:
    """Return what errors of known spread and bias do to schedules of a cleaned log; a row a policy, spread and factor.

    The estimate of a job is its run time x factor x exp(spread x z), z standard normal by seed, kept in [1 s, request];
    an expired one falls back to the request. `slowdown` is relative to the same policy by the true run times, as are
    mean and maximum stretch.
    """
    workload = Workload.from_log(log)
    z = np.random.default_rng(seed).standard_normal(len(workload))
    rows = []
    for policy in POLICIES[: 2 if quick else None]:
        perfect = figures(simulate(workload, make_policy(policy), estimates_by_name("clairvoyant", log, workload)))
        for spread in SPREADS[:: 2 if quick else 1]:
            for factor in FACTORS[:: 3 if quick else 1]:
                estimate = blurred(workload, factor, spread, z)
                own = figures(simulate(workload, make_policy(policy), estimate))
                ratios = {
                    name.removeprefix("mean_bounded_"): own[name] / perfect[name]
                    for name in ("mean_bounded_slowdown", "mean_stretch", "max_stretch")
                }
                errors = estimate_errors(estimate, clairvoyant(workload))
                chosen = {error: errors[f"estimate_{error}"] for error in ERRORS}
                rows.append({"policy": policy, "spread": spread, "factor": factor, **ratios, **chosen})
    return pd.DataFrame(rows)


def blurred(workload: Workload, factor: float, spread: float, z: npt.NDArray[np.float64]) -> Ints:
    """Return run times, cut at the request, x factor x exp(spread x z), whole seconds in [1, request], shape (n_jobs,).

    >>> jobs = Workload.from_columns([1, 2], submit=[0, 0], procs=[1, 1], requested=[600, 50], run_time=[40, 40],
    ...                              machine_procs=4)
    >>> blurred(jobs, 2.0, 0.0, np.zeros(2)).tolist()
    [80, 50]
    """
    wanted = clairvoyant(workload) * factor * np.exp(spread * z)
    kept: Ints = np.clip(wanted, 1, np.maximum(workload.requested, 1)).astype(np.int64)
    return kept
