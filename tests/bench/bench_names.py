"""Names as knowledge: squared error and pinball loss with names and without, on synthetic logs with known truth.

Run: python tests/bench/bench_names.py [JOBS] [SEEDS]
Each seed makes one log of JOBS (5,000) with names that carry knowledge, and the same with names that carry none. Every
prediction is as of its job's submission. A ratio below 1 is a gain; its 95 % interval is over SEEDS (10) logs.
"""

import sys

import numpy as np

from jobcast import generate_log, make_predictor
from predictors.core.intervals import mean_interval
from tests.support.names_of_jobs import with_names

PAIRS = (
    ("squared error", "similar-names-mean", "similar-mean"),
    ("squared error", "knn-text", "similar-mean"),
    ("squared error", "knn-text", "last-two"),
    ("pinball loss at 1/2", "similar-names", "similar"),
    ("pinball loss at 1/2", "knn-text", "similar"),
)


def loss(kind, predicted, run_time):
    error = predicted - run_time
    return float(np.mean(error**2) if kind == "squared error" else np.mean(np.abs(error)) / 2)


def main(jobs: int = 5000, seeds: int = 10) -> None:
    """Print one line for each pair and kind of names."""
    ratios: dict[tuple[str, str, str, str], list[float]] = {}
    for seed in range(seeds):
        plain = generate_log(jobs, seed=seed)
        run_time = plain.filled("run_time")
        limit = int(plain.filled("requested_time").max())
        at_limit = plain.replaced({"requested_time": np.full(len(plain), limit)})
        for base, knowledge in ((plain, "told"), (plain, "none"), (at_limit, "told, requests at the limit")):
            log = with_names(base, seed, knowledge=knowledge != "none")
            told = {name: make_predictor(name).predict(log) for name in {n for pair in PAIRS for n in pair[1:]}}
            for kind, one, other in PAIRS:
                ratio = loss(kind, told[one], run_time) / loss(kind, told[other], run_time)
                ratios.setdefault((kind, one, other, knowledge), []).append(ratio)
    print(f"{jobs} jobs, {seeds} seeds; ratio of losses, 95 % interval")
    for (kind, one, other, knowledge), values in ratios.items():
        mean = float(np.mean(values))
        low, high = mean_interval(np.array(values))
        print(f"{knowledge:28} {kind:20} {one:18} / {other:12} {mean:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
