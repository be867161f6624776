"""How fast do the predictors learn and predict? Rows a second in bulk, microseconds a job in the loop.

Run as `python tests/bench/bench_online.py [LOG.swf.gz] [NAME ...]`; without a log, on 30,000 jobs of the synthetic one,
without names, on all that learn. Times are CPU seconds, the best of several runs; slow predictors get fewer jobs.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from predictors.data.joblog import JobLog
from predictors.data.synthetic.generate import generate_log
from predictors.history.replay import log_events, replay
from predictors.models.baselines import LastTwo
from predictors.models.stream import forecast
from predictors.registry import make_predictor

ALL = ("last-two", "online-linear", "gaussier", "online-tree", "forest")
MOST_JOBS = {"online-tree": 2_000, "forest": 10_000}


def best(run: Callable[[], object], repeats: int = 3) -> float:
    """Return the least CPU seconds of several runs; the first, which compiles, is not counted."""
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def bench(name: str, log: JobLog) -> None:
    """Print what one predictor costs, and its squared error in the loop beside last-two's."""
    log = log.select(slice(MOST_JOBS.get(name)))
    predictor = make_predictor(name)
    rows, ran = replay(log, predictor.features), log.filled("run_time").astype(np.float64)
    fitted = make_predictor(name).fit_rows(rows, ran)
    learning = best(lambda: predictor.fit_rows(rows, ran))
    predicting = best(lambda: fitted.predict_rows(rows))
    few = rows[:1000]
    single = best(lambda: [fitted.predict_one(row) for row in few]) / len(few)
    events, seconds = log_events(log), np.full(len(log), np.nan)
    loop = best(lambda: forecast(make_predictor(name), log).advance(events, seconds), 1)
    ratio = ((seconds - ran) ** 2).sum() / ((LastTwo().predict(log) - ran) ** 2).sum()
    print(
        f"{name:14} {len(log):>8,} jobs: learns {len(log) / max(learning, 1e-9):>12,.0f} rows/s, predicts "
        f"{len(log) / predicting:>12,.0f} rows/s, one row {1e6 * single:8.1f} us; in the loop, learning and history "
        f"included, {1e6 * loop / len(log):8.1f} us a job, squared error {ratio:.3f} of last-two's"
    )


def main() -> None:
    """Print all figures."""
    if len(sys.argv) > 1:
        from predictors.data.formats.detect import read_log

        log = read_log(sys.argv[1])[0]
    else:
        log = generate_log(30_000, seed=0)
    log = log.select(log.known("run_time") & (log.filled("run_time") > 0))
    for name in sys.argv[2:] or ALL:
        bench(name, log)


if __name__ == "__main__":
    main()
