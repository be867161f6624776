"""Evaluation without look-ahead: chronological splits, prequential runs, protocols, and every figure beside last-two's.

Two protocols. `strict`: jobs that ran for more than 0 s; predictions capped at the request; what ends in the second of
a submission is known to it; a training job must have ended before the split instant, the first test job's submission.
`reis`: all jobs, predictions not capped, known is only what ended strictly before; with fewer than two ended jobs of
the user last-two is the requested time (V. Reis, "Learning job run-times in HPC systems").
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError, counted, unknown_name
from predictors.core.intervals import ratio_interval
from predictors.data.joblog import JobLog
from predictors.evaluation.metrics import figures
from predictors.evaluation.results import Evaluation, Score, slices
from predictors.history.replay import log_events, replay, running_at
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo, Requested
from predictors.models.conformal import WithBudget
from predictors.models.range import REQUESTED
from predictors.models.stack import Stack
from predictors.models.stream import LearningForecast, forecast
from predictors.registry import make_predictor, seeded


@dataclass(frozen=True)
class Protocol:
    """The rules of an evaluation: which jobs count, what is known, and the range of predictions.

    Parameters
    ----------
    as_of : {"strict", "reis"}
        What counts as ended at a submission.
    cap : bool
        Whether predictions, the baseline's too, are kept within [1 s, requested time].
    ran_only : bool
        Whether jobs that ran for 0 s are left out, of the history as well.
    ended_only : bool
        Whether training jobs must have ended before the split instant.
    """

    as_of: str
    cap: bool
    ran_only: bool
    ended_only: bool


PROTOCOLS: Final[Mapping[str, Protocol]] = MappingProxyType(
    {
        "strict": Protocol(as_of="strict", cap=True, ran_only=True, ended_only=True),
        "reis": Protocol(as_of="reis", cap=False, ran_only=False, ended_only=False),
    }
)


def evaluate(
    log: JobLog,
    predictors: Sequence[str] | Mapping[str, Predictor] = (),
    *,
    train: float | None = 0.8,
    protocol: str = "strict",
    partition: int | None = None,
    seed: int = 0,
    budget: float | None = None,
    done: Callable[[int], None] | None = None,
) -> Evaluation:
    """Score predictors on a log, beside last-two.

    Parameters
    ----------
    log : JobLog
        Jobs without a known run time are left out.
    predictors : sequence of str, or mapping of str to Predictor
        Registered names; or predictors by what to call them, which are cloned, with the protocol's cap and as-of rule.
        Whoever is called `last-two` gives way to the baseline.
    train : float or None
        Share of the jobs, the earliest submissions, that are learnt from; the rest are scored, each as of its
        submission. None: prequential, every job is predicted at its submission and learnt from at its end.
    protocol : {"strict", "reis"}
        See the module.
    partition : int, optional
        Keep only the jobs of one partition, in the history as well.
    seed : int
        Of predictors given by name and of the intervals.
    budget : float, optional
        Share of the jobs that may run longer than predicted: predictors given by name are moved until that is so, and
        go on being moved while jobs are scored, by those that have ended (`predictors.models.conformal`).
    done : callable of int, optional
        Called with 1 after each predictor, last-two included, to show progress.

    Raises
    ------
    JobcastError
        If a name is unknown, `train` is no share, or no job is left to learn from or to score.
    """
    check(predictors, train, protocol)
    rules = PROTOCOLS[protocol]
    asked = {**_made(predictors, seed, budget), LastTwo.name: LastTwo()}
    asked = {LastTwo.name: asked.pop(LastTwo.name), **asked}
    asked = {name: one.clone(cap=rules.cap, as_of=rules.as_of) for name, one in asked.items()}
    jobs = _jobs(log, rules, partition)
    cut = 0 if train is None else int(train * len(jobs))
    learnt = _trainable(jobs, rules, cut)
    tested = np.arange(len(jobs)) >= cut
    if train is not None and not learnt.any():
        raise JobcastError(f"{log.name}: no job of the first {train:.0%} had ended before the split; train on more.")
    predictions = {}
    for name, one in asked.items():
        predictions[name] = _prequential(one, jobs) if train is None else _split(one, jobs, learnt, tested)
        if done is not None:
            done(1)
    run_time = jobs.filled("run_time").astype(np.float64)
    baseline = predictions[LastTwo.name].seconds
    ended_count = replay(jobs, ["ended_count"], rules.as_of)[:, 0]
    users = jobs.filled("user")[tested]
    base_squares = (baseline - run_time)[tested] ** 2
    scores = tuple(
        Score(
            name=name,
            figures=figures(run_time[tested], found.seconds[tested], baseline[tested]),
            interval=ratio_interval(users, (found.seconds - run_time)[tested] ** 2, base_squares, seed=seed),
            fit_seconds=found.fit_seconds,
            predict_us_per_job=found.us_per_job,
            slices=slices(jobs, tested, ended_count, found.seconds, baseline),
            predicted=found.seconds[tested],
            predictor=found.predictor,
            n_fallback=found.n_fallback,
        )
        for name, found in predictions.items()
    )
    return Evaluation(
        log=log.name,
        split="prequential" if train is None else f"train {train:g}",
        protocol=protocol,
        partition=partition,
        capped=rules.cap,
        n_train=int(learnt.sum()),
        n_test=int(tested.sum()),
        run_time=run_time[tested],
        user=users,
        submit=jobs.filled("submit")[tested],
        scores=scores,
    )


def check(predictors: Iterable[str], train: float | None, protocol: str) -> None:
    """Raise what `evaluate` would raise for its arguments, before a log is read."""
    if not isinstance(predictors, Mapping):
        for name in predictors:
            make_predictor(name)
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    if train is not None and not 0 < train < 1:
        raise JobcastError(f"The training share must lie between 0 and 1, such as 0.8; got {train:g}.")


@dataclass(frozen=True)
class _Predictions:
    seconds: Floats
    predictor: Predictor
    fit_seconds: float
    us_per_job: float
    n_fallback: int | None


def _made(predictors: Sequence[str] | Mapping[str, Predictor], seed: int, budget: float | None) -> dict[str, Predictor]:
    if isinstance(predictors, Mapping):
        return dict(predictors)
    if budget is not None:
        return {
            f"{name} within {budget:g}": WithBudget(predictor=make_predictor(name, **seeded(name, seed)), budget=budget)
            for name in predictors
        }
    return {name: make_predictor(name, **seeded(name, seed)) for name in predictors}


def _jobs(log: JobLog, rules: Protocol, partition: int | None) -> JobLog:
    run_time = log.filled("run_time")
    keep = log.known("run_time") & (run_time > 0 if rules.ran_only else run_time >= 0)
    if partition is not None:
        in_it = log.known("partition") & (log.filled("partition") == partition)
        if not in_it.any():
            there = np.unique(log.filled("partition")[log.known("partition")])
            known = ", ".join(str(p) for p in there) or "no partition at all"
            raise JobcastError(f"{log.name}: has no job in partition {partition}; it knows {known}.")
        keep &= in_it
    if keep.sum() < 2:
        left = counted(int(keep.sum()), "job")
        raise JobcastError(f"{log.name}: {left} with a known run time; at least 2 are needed.")
    return log.select(keep)


def _trainable(jobs: JobLog, rules: Protocol, cut: int) -> npt.NDArray[np.bool_]:
    first = np.arange(len(jobs)) < cut
    if not rules.ended_only or not cut:
        return first
    submit = jobs.filled("submit")
    ends = submit + jobs.filled("wait", 0) + jobs.filled("run_time")
    ended: npt.NDArray[np.bool_] = ends < submit[cut]
    return first & ended


def _split(
    predictor: Predictor, jobs: JobLog, learnt: npt.NDArray[np.bool_], tested: npt.NDArray[np.bool_]
) -> _Predictions:
    rows = replay(jobs, predictor.features, predictor.as_of)
    begin = perf_counter()
    ran = jobs.filled("run_time")[learnt].astype(np.float64)
    split = int(jobs.filled("submit")[tested][0])
    beside = running_at(jobs, rows, ~learnt & ~tested, split) if predictor.learns_from_running else None
    predictor.fit_with_running(rows[learnt], ran, beside)
    fitted = perf_counter()
    seconds = np.full(len(jobs), np.nan)
    if isinstance(predictor, WithBudget | Stack):
        submit, run_time = jobs.filled("submit")[tested], jobs.filled("run_time")[tested]
        ends = submit + jobs.filled("wait", 0)[tested] + run_time
        found = predictor.predict_as_they_end(rows[tested], submit, run_time.astype(np.float64), ends)
        seconds[tested] = found[0] if isinstance(found, tuple) else found
    else:
        seconds[tested] = predictor.predict_rows(rows[tested])
    us = (perf_counter() - fitted) / tested.sum() * 1e6
    asked = isinstance(predictor, Requested)
    n_fallback = 0 if asked else int((predictor.answered_by(rows[tested]) == REQUESTED).sum())
    return _Predictions(seconds, predictor, fitted - begin, float(us), n_fallback)


def _prequential(predictor: Predictor, jobs: JobLog) -> _Predictions:
    live = forecast(predictor, jobs)
    seconds = np.full(len(jobs), np.nan)
    begin = perf_counter()
    live.advance(log_events(jobs), seconds)
    wall = perf_counter() - begin
    learning, n_fallback = (
        (live.learning_seconds, live.n_fallback) if isinstance(live, LearningForecast) else (0.0, None)
    )
    used = live.learnt() if isinstance(live, LearningForecast) else predictor
    return _Predictions(seconds, used, learning, (wall - learning) / len(jobs) * 1e6, n_fallback)
