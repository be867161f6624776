"""How fast are the as-of features? Rows a second in bulk, microseconds for one row, one event, one slice of events.

Run as `python tests/bench/bench_features.py [LOG.swf.gz]`; without a log, on one of 300,000 random jobs of 500 users.
Times are CPU seconds, the best of several runs.
"""

import sys
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from predictors.core.events import SUBMITTED
from predictors.data.joblog import JobLog
from predictors.history.features import FEATURES, REIS_FEATURES, WIDE_FEATURES
from predictors.history.history import Job, JobHistory, LateEventWarning
from predictors.history.replay import LogHistory, log_events, replay


def random_log(n_jobs: int = 300_000, seed: int = 0) -> JobLog:
    """Return a log with as many jobs as CEA-Curie's, and busy users."""
    random = np.random.default_rng(seed)
    columns = {
        "job_id": np.arange(n_jobs),
        "submit": np.cumsum(random.geometric(0.02, n_jobs)),
        "wait": random.geometric(0.0005, n_jobs),
        "run_time": random.geometric(0.0002, n_jobs),
        "requested_procs": random.integers(1, 513, n_jobs),
        "requested_time": random.integers(60, 86_400, n_jobs),
        "user": (500 * random.random(n_jobs) ** 3).astype(np.int64),
        "group": random.integers(0, 50, n_jobs),
        "status": random.integers(0, 2, n_jobs),
    }
    return JobLog.from_columns(columns, {}, epoch=1_296_571_124, time_zone="Europe/Paris", name="300,000 random jobs")


def read(path: str) -> JobLog:
    """Return the log of an SWF file."""
    from predictors.data.formats.detect import read_log

    return read_log(path)[0]


def best(run: Callable[[], object], repeats: int = 7) -> float:
    """Return the least CPU seconds of several runs; the first, which compiles, is not counted."""
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def bench_bulk(log: JobLog, features: Sequence[str]) -> None:
    """Print rows a second of a whole replay."""
    seconds = best(lambda: replay(log, features))
    print(f"{log.name}: {len(log) / seconds:,.0f} rows/s in bulk, {len(features)} features")


def bench_slices(log: JobLog, features: Sequence[str], size: int = 3) -> None:
    """Print what one call costs that takes in a few events, as a simulation makes it at each pause."""
    events, rows = log_events(log), np.empty((len(log), len(features)))
    slices = [events[i : i + size] for i in range(0, len(events), size)]

    def run() -> None:
        history = LogHistory(log, features)
        for part in slices:
            history.consume(part, rows)

    seconds = best(run, 3) - best(lambda: LogHistory(log, features), 3)
    print(f"{1e6 * seconds / len(slices):.2f} us for a slice of {size} events, {len(features)} features")


def bench_streaming(features: Sequence[str], n_jobs: int = 20_000, n_running: int = 100) -> None:
    """Print what a live history costs: a row, and a job from its submission to its end."""
    history = JobHistory(features, epoch=0, time_zone="Europe/Paris")
    jobs = [Job(i, i, procs=4, requested_time=600, user=i % 50, group=3) for i in range(n_jobs)]

    def live_on() -> None:
        for job in jobs:
            history.submitted(job, job.submit)
            history.started(job.job_id, job.submit)
            if job.job_id >= n_running:
                history.ended(job.job_id - n_running, job.submit, 1)
        for job in jobs[-n_running:]:
            history.ended(job.job_id, n_jobs, 1)

    def ask() -> None:
        for job in jobs:
            history.row(job, n_jobs)

    print(f"{1e6 * best(ask, 3) / n_jobs:.1f} us for one row, {len(features)} features")
    print(f"{1e6 * best(live_on, 3) / n_jobs:.1f} us for a job submitted, started and ended, row and outcome included")


def main() -> None:
    """Print all figures."""
    log = read(sys.argv[1]) if len(sys.argv) > 1 else random_log()
    assert (log_events(log)[:, 1] == SUBMITTED).sum() == len(log)
    for features in (REIS_FEATURES, WIDE_FEATURES, tuple(FEATURES), ("last_two_mean",)):
        bench_bulk(log, features)
    bench_slices(log, ("last_two_mean",))
    warnings.simplefilter("ignore", LateEventWarning)  # each run begins anew on the same clock
    for features in (REIS_FEATURES, WIDE_FEATURES):
        bench_streaming(features)


if __name__ == "__main__":
    main()
