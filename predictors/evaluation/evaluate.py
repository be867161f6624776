"""Evaluation without look-ahead: chronological splits, prequential runs, protocols, all compared with last-two.

Two protocols. `strict`: jobs that ran for more than 0 s; predictions capped at the request; what ends in the second of
a submission is known to it; a training job must have ended before the split instant, the first test job's submission.
`reis`: all jobs, predictions not capped, known is only what ended strictly before; with fewer than two ended jobs of
the user last-two is the requested time (V. Reis, "Learning job run-times in HPC systems").

Run times are those of the log in both, beyond the request too. Where the site kills no jobs (`kill=False`) predictions
are not capped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Bools, Floats
from predictors.core.errors import JobcastError, counted, percent, require, unknown_name
from predictors.core.intervals import ratio_interval
from predictors.data.cleaning import RequestsFrom, of_partition, overran
from predictors.data.joblog import JobLog
from predictors.data.report import Effect, ReadingReport, ReportBuilder
from predictors.data.summary import lacks_for_predictions
from predictors.evaluation.metrics import figures
from predictors.evaluation.monitoring import Monitored, monitored
from predictors.evaluation.results import Evaluation, Score, blocks_of, slices
from predictors.history.replay import log_events, replay, running_at
from predictors.models.base import Predictor
from predictors.models.baselines import ColumnForecast, LastTwo, Requested
from predictors.models.conformal import ConformalQuantiles, WithBudget
from predictors.models.prediction import REQUESTED
from predictors.models.stack import Stack
from predictors.models.stream import LearningForecast, forecast
from predictors.registry import make_predictor, seeded


@dataclass(frozen=True)
class Protocol:
    """The rules of an evaluation: which jobs count, what is known, and the range of predictions."""

    as_of: str  # {"strict", "reis"}: what counts as ended at a submission
    cap: bool  # whether predictions, the baseline's too, are kept within [1 s, requested time]
    ran_only: bool  # whether jobs that ran for 0 s are left out, of the history as well
    ended_only: bool  # whether training jobs must have ended before the split instant


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
    partition: str | int | None = None,
    seed: int = 0,
    budget: float | None = None,
    kill: bool | None = None,
    requests_from: str | None = None,
    intervals: bool = False,
    done: Callable[[int], None] | None = None,
) -> Evaluation:
    """Score predictors on a log, compared with last-two.

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
    partition : str or int, optional
        Keep only the jobs of one partition, by name or number, in the history as well.
    seed : int
        Of predictors given by name and of the intervals.
    budget : float, optional
        Share of the jobs that may run longer than predicted: predictors given by name are moved until that is so, and
        go on being moved while jobs are scored, by those that have ended (`predictors.models.conformal`).
    kill : bool, optional
        What the site does with jobs at their requested time. True: it stops them, so neither a prediction nor P90 need
        lie beyond. False: it stops none, so both may. Not given: predictions stay within the request, P90 need not.
    requests_from : str, optional
        Where requested times come from that the log lacks, see `predictors.data.cleaning.RequestsFrom`.
    intervals : bool
        Also give P10, P50 and P90 of every prediction, calibrated by the scored jobs that ended before its submission.
    done : callable of int, optional
        Called with 1 after each predictor, last-two included, to show progress.
    """
    check(predictors, train, protocol, budget)
    rules = PROTOCOLS[protocol]
    cap = rules.cap and kill is not False
    asked = {**_made(predictors, seed, budget), LastTwo.name: LastTwo()}
    asked = {LastTwo.name: asked.pop(LastTwo.name), **asked}
    asked = {name: one.clone(cap=cap, as_of=rules.as_of) for name, one in asked.items()}
    jobs, account = _jobs(log, protocol, partition, requests_from)
    lacks = lacks_for_predictions(jobs, account)
    cut = 0 if train is None else int(train * len(jobs))
    learnt = _trainable(jobs, rules, cut)
    tested = np.arange(len(jobs)) >= cut
    if train is not None and not learnt.any():
        first = f"no job of the first {percent(train)} had ended before the split"
        raise JobcastError(f"{log.name}: {first}; train on more.")
    account += _between(jobs, ~learnt & ~tested)
    predictions = {}
    for name, one in asked.items():
        predictions[name] = _prequential(one, jobs) if train is None else _split(one, jobs, learnt, tested)
        if done is not None:
            done(1)
    run_time = jobs.filled("run_time").astype(np.float64)
    baseline = predictions[LastTwo.name].seconds
    ended_count = replay(jobs, ["ended_count"], rules.as_of)[:, 0]
    users = jobs.filled("user")[tested]
    blocks, _, enough = blocks_of(users, jobs.filled("submit")[tested])
    base_squares = (baseline - run_time)[tested] ** 2
    scored = jobs.select(tested) if intervals else None

    def followed(seconds: Floats) -> Monitored | None:
        if scored is None:
            return None
        layer = ConformalQuantiles(kills=kill is True)
        return monitored(scored, seconds[tested], baseline[tested], as_of=rules.as_of, layer=layer)

    scores = tuple(
        Score(
            name=name,
            figures=figures(run_time[tested], found.seconds[tested], baseline[tested]),
            interval=(float("nan"), float("nan"))  # the baseline has none compared with itself
            if name == LastTwo.name or not enough
            else ratio_interval(blocks, (found.seconds - run_time)[tested] ** 2, base_squares, seed=seed),
            fit_seconds=found.fit_seconds,
            predict_us_per_job=found.us_per_job,
            slices=slices(jobs, tested, ended_count, found.seconds, baseline),
            predicted=found.seconds[tested],
            predictor=found.predictor,
            n_fallback=found.n_fallback,
            followed=followed(found.seconds),
        )
        for name, found in predictions.items()
    )
    return Evaluation(
        log=log.name, split="prequential" if train is None else f"train {train:g}", protocol=protocol,
        partition=partition, capped=cap, n_train=int(learnt.sum()), n_test=int(tested.sum()),
        n_overran=int((overran(jobs) & tested).sum()), account=account, lacks=lacks, run_time=run_time[tested],
        user=users, submit=jobs.filled("submit")[tested], scores=scores,
    )  # fmt: skip


def check(predictors: Iterable[str], train: float | None, protocol: str, budget: float | None = None) -> None:
    """Raise what `evaluate` would raise for its arguments, before a log is read."""
    if not isinstance(predictors, Mapping):
        for name in predictors:
            require(*make_predictor(name).packages)
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    if train is not None and not 0 < train < 1:
        raise JobcastError(f"The training share must lie between 0 and 1, such as 0.8; got {train:g}.")
    if budget is not None:
        WithBudget(budget=budget).check()


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


RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "no-run-time": ("dropped", "the run time is unknown"),
        "ran-for-0-s": ("dropped", "ran for 0 s"),
        "not-ended": ("noted", "submitted before the split, ended after it: neither learnt from nor predicted"),
    }
)


def jobs_that_count(log: JobLog, protocol: str = "strict") -> tuple[JobLog, ReadingReport]:
    """Return the jobs that a protocol learns from and predicts, and an account of the others."""
    ids, has_run, never = log.values["job_id"], log.known("run_time"), log.filled("run_time") <= 0
    keep, report = has_run, ReportBuilder(log.name, RULES, place="job")
    report.add("no-run-time", ids[~has_run])
    if PROTOCOLS[protocol].ran_only:
        report.add("ran-for-0-s", ids[keep & never])
        keep = keep & ~never
    return log.select(keep), report.close()


def _jobs(
    log: JobLog, protocol: str, partition: str | int | None, requests_from: str | None
) -> tuple[JobLog, ReadingReport]:
    """Return the jobs that are evaluated, and an account of the others."""
    rule = None if requests_from is None else RequestsFrom(requests_from)
    in_it, others = of_partition(log, partition)
    jobs, account = jobs_that_count(in_it, protocol)
    if rule is not None:
        jobs, made = rule.apply(jobs)
        account = account + made
    if len(jobs) < 2:
        raise JobcastError(f"{log.name}: {counted(len(jobs), 'job')} with a known run time; at least 2 are needed.")
    return jobs, (others + account).using(len(jobs))


def _between(jobs: JobLog, neither: Bools) -> ReadingReport:
    """Return a note of the jobs that are neither learnt from nor predicted."""
    report = ReportBuilder(jobs.name, RULES, place="job")
    report.add("not-ended", jobs.values["job_id"][neither])
    return report.close()


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
    begin = process_time()
    ran = jobs.filled("run_time")[learnt].astype(np.float64)
    split = int(jobs.filled("submit")[tested][0])
    beside = running_at(jobs, rows, ~learnt & ~tested, split) if predictor.learns_from_running else None
    predictor.fit_with_running(rows[learnt], ran, beside)
    fit_seconds, fitted = process_time() - begin, perf_counter()
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
    return _Predictions(seconds, predictor, fit_seconds, float(us), n_fallback)


def _prequential(predictor: Predictor, jobs: JobLog) -> _Predictions:
    live = forecast(predictor, jobs)
    seconds = np.full(len(jobs), np.nan)
    begin = perf_counter()
    live.advance(log_events(jobs), seconds)
    wall = perf_counter() - begin
    learning = live.learning_seconds if isinstance(live, LearningForecast) else 0.0
    n_fallback = live.n_fallback if isinstance(live, LearningForecast | ColumnForecast) else None
    if isinstance(predictor, Requested):
        n_fallback = 0  # the request is its answer
    used = live.learnt() if isinstance(live, LearningForecast) else predictor
    return _Predictions(seconds, used, learning, (wall - learning) / len(jobs) * 1e6, n_fallback)
