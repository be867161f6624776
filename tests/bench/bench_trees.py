"""How long does a forest take for one row? Ours against scikit-learn's, on a forest of 100 trees and a million nodes.

Run as `python tests/bench/bench_trees.py`; it takes half a minute to grow the forest. Times are CPU microseconds, the
medians over rows that were never asked before.
"""

import time
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from predictors.models.trees import CompiledForest, node_budget

ROWS, FEATURES, TREES = 60_000, 16, 100


def grown(random: np.random.Generator) -> RandomForestRegressor:
    """Return a forest that uses its whole budget of nodes."""
    rows = drawn(random, ROWS)
    seconds = np.nan_to_num(rows[:, 0]) * np.nan_to_num(rows[:, 1]) / 1000 + random.gamma(1, 1000, ROWS)
    forest = RandomForestRegressor(
        TREES, max_leaf_nodes=node_budget(TREES), max_samples=0.3, max_features=0.33, random_state=0, n_jobs=1
    )
    return forest.fit(rows, seconds)


def drawn(random: np.random.Generator, n_rows: int) -> np.ndarray:
    """Return skewed features, one in twenty missing."""
    rows = random.gamma(1, 1000, (n_rows, FEATURES)).astype(np.float32)
    rows[random.random(rows.shape) < 0.05] = np.nan
    return rows


def median_us(predict: Callable[[np.ndarray], object], rows: np.ndarray) -> float:
    """Return the median CPU time of one call a row [µs]."""
    spent = []
    for row in rows:
        begin = time.process_time_ns()
        predict(row)
        spent.append(time.process_time_ns() - begin)
    return float(np.median(spent)) / 1000


def main() -> None:
    """Print both latencies, and whether the answers are the same."""
    random = np.random.default_rng(0)
    forest = grown(random)
    compiled = CompiledForest.from_sklearn(forest)
    rows = drawn(random, 3000)
    same = np.array_equal(compiled.predict(rows), forest.predict(rows))
    ours = median_us(compiled.predict_one, rows)
    theirs = median_us(lambda row: forest.predict(row[None]), rows[:100])
    begin = time.process_time()
    compiled.predict(rows)
    bulk = (time.process_time() - begin) / len(rows) * 1e6
    print(f"forest of {TREES} trees, {len(compiled.nodes):,} nodes; predictions equal to the last bit: {same}")
    print(f"one row: {ours:,.1f} µs (target 70), scikit-learn {theirs:,.0f} µs; in bulk {bulk:,.1f} µs a row")


if __name__ == "__main__":
    main()
