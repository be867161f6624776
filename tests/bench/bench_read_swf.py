"""Measure how fast an SWF file is read, beside `pandas.read_csv` (C engine) on the same file.

Run as `python tests/bench/bench_read_swf.py [LOG...]`; without a log, on 100,000 jobs of the synthetic one. It prints
rows a second of both and their ratio, which should not exceed 2. Rounds of the two alternate and the fastest of each
counts, so that other work on the machine falls on both.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from predictors.data.formats.detect import read_log
from predictors.data.formats.swf import write_swf
from predictors.data.synthetic.generate import generate_log


def clock(read: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


def main() -> None:
    """Measure each log of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{'log':<40}{'rows':>10}{'ours, rows/s':>16}{'pandas, rows/s':>16}{'time ratio':>12}")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "synthetic.swf")
        if not arguments.logs:
            write_swf(generate_log(100_000, seed=1), made)
        measure(arguments.logs or [made], arguments.rounds)


def measure(logs: Sequence[Path], rounds: int) -> None:
    """Print a line for each log."""
    for path in logs:
        rows = len(read_log(path)[0])
        ours, pandas = [], []
        for _ in range(rounds):
            ours.append(clock(lambda: read_log(path)))  # noqa: B023
            pandas.append(clock(lambda: pd.read_csv(path, sep=r"\s+", comment=";", header=None, engine="c")))  # noqa: B023
        best, best_pandas = min(ours), min(pandas)
        name = path.name if len(path.name) < 40 else path.name[:38] + "…"
        print(f"{name:<40}{rows:>10,}{rows / best:>16,.0f}{rows / best_pandas:>16,.0f}{best / best_pandas:>12.2f}")


if __name__ == "__main__":
    main()
