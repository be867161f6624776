"""How soon drift alarms come on real logs, and how many are false: a model frozen after 30 % of a log, beside last-two.

    python -m tests.bench.bench_drift [LOG…] [--predictor forest] [--rate 0.05]

For each log: the alarms on the rest of it as it is, and with the model's errors blown up from the middle on, so that
their squares add up to two and four times last-two's. Without a log, on 8,000 jobs of the synthetic one.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from predictors.core.arrays import Floats
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.data.synthetic.generate import generate_log
from predictors.evaluation.drift import ALARMS_PER_YEAR, DriftTest
from predictors.evaluation.evaluate import jobs_that_count
from predictors.registry import make_predictor

_DAY = 86_400
_SHARE = 0.3


def errors_of(log: JobLog, predictor: str) -> tuple[Floats, Floats, Floats]:
    """Return ends, the frozen model's errors and last-two's [s], in the order of the ends."""
    log, _ = jobs_that_count(log)
    n = int(len(log) * _SHARE)
    rest = log.select(np.arange(len(log)) >= n)
    ran = rest.filled("run_time").astype(np.float64)
    model = make_predictor(predictor).fit(log.select(np.arange(len(log)) < n))
    end = rest.filled("submit") + (rest.filled("wait") if "wait" in rest.values else 0) + ran
    order = np.argsort(end, kind="stable")
    ours, theirs = (each.predict(log)[n:] - ran for each in (model, make_predictor("last-two")))
    return end[order], ours[order], theirs[order]


def alarms(end: Floats, ours: Floats, theirs: Floats, rate: float) -> list[str]:
    """Return when alarms began and ended, in days from the first end on."""
    test, found, stood = DriftTest(rate), [], False
    for at, one, other in zip(end.tolist(), ours.tolist(), theirs.tolist(), strict=True):
        test.add(int(at), one, other)
        if test.now.stands != stood:
            stood, day = test.now.stands, (at - end[0]) / _DAY
            since = (test.now.since or 0) - end[0]
            found.append(
                f"alarm on day {day:.0f}, loss since {since / _DAY:.0f}" if stood else f"over on day {day:.0f}"
            )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the alarms of each log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*", metavar="LOG")
    parser.add_argument("--predictor", default="forest")
    parser.add_argument("--rate", type=float, default=ALARMS_PER_YEAR, help="false alarms a year at most")
    given = parser.parse_args(arguments)
    logs = ((path, read_log(path)[0]) for path in given.logs)
    for path, log in logs if given.logs else [("synthetic", generate_log(8_000, seed=1))]:
        end, ours, theirs = errors_of(log, given.predictor)
        middle = (end[0] + end[-1]) / 2
        late = end > middle
        print(f"{path}: {len(end):,} jobs, {(end[-1] - end[0]) / _DAY:.0f} days, {given.predictor}")
        print("  as it is:", "; ".join(alarms(end, ours, theirs, given.rate)) or "no alarm")
        for times in (2, 4):
            scale = np.sqrt(times * (theirs[late] ** 2).sum() / (ours[late] ** 2).sum())
            worse = np.where(late, ours * scale, ours)
            print(f"  x {times} from day {(middle - end[0]) / _DAY:.0f} on:",
                  "; ".join(alarms(end, worse, theirs, given.rate)) or "no alarm", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
