"""Measure how fast an SWF file is read, beside `pandas.read_csv` (C engine) on the same file.

Run as `python tests/bench/bench_read_swf.py LOG...`; prints rows a second of both and their ratio, which should not
exceed 2. Rounds of the two alternate and the fastest of each counts, so that other work on the machine falls on both.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from predictors.data.formats.detect import read_log


def clock(read: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def main() -> None:
    """Measure each log of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{'log':<40}{'rows':>10}{'ours, rows/s':>16}{'pandas, rows/s':>16}{'time ratio':>12}")
    for path in arguments.logs:
        rows = len(read_log(path)[0])
        ours, pandas = [], []
        for _ in range(arguments.rounds):
            ours.append(clock(lambda: read_log(path)))  # noqa: B023
            pandas.append(clock(lambda: pd.read_csv(path, sep=r"\s+", comment=";", header=None, engine="c")))  # noqa: B023
        best, best_pandas = min(ours), min(pandas)
        name = path.name if len(path.name) < 40 else path.name[:38] + "…"
        print(f"{name:<40}{rows:>10,}{rows / best:>16,.0f}{rows / best_pandas:>16,.0f}{best / best_pandas:>12.2f}")


if __name__ == "__main__":
    main()
