"""Measure telemetry: reading LDMS's files, and the same as Parquet.

Run as `python tests/bench/bench_telemetry.py`; 512 nodes, 90 counters, a sample every 10 s, for `--hours` (3). A row is
one line of one sampler; seconds are those of one processor. The files, 120 MB an hour, are removed afterwards.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from predictors.data.telemetry.counters import COUNTERS
from predictors.data.telemetry.read import Scan
from predictors.data.telemetry.samples import write_rates
from tests.support.ldms_writer import write_ldms

PERIOD = 10.0
TYPICAL = {"sent": 1e9, "received": 1e9, "read": 1e8, "written": 1e8, "calls": 1e3, "stall": 0.1, "noise": 1, "none": 0}


def clock(work: Callable[[], object]) -> float:
    """Return the seconds of a processor that one call takes: other work on the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def say(what: str, figure: str) -> None:
    """Print one line of the table."""
    print(f"{what:<72}{figure:>24}")


def some_rates(nodes: int) -> np.ndarray:
    """Return eight samples of busy nodes."""
    scale = np.array([counter.scale * TYPICAL[counter.driver] for counter in COUNTERS])
    return (np.random.default_rng(0).random((8, nodes, len(COUNTERS))) * scale).astype(np.float32)


def bench_files(nodes: int, hours: float, folder: Path) -> None:
    """Measure the readers."""
    rates, samples = some_rates(nodes), round(hours * 3600 / PERIOD)
    write_ldms(folder / "few", [1, 2], [(20.0, rates[0][:2])])
    list(Scan(folder / "few"))  # compiles
    filled = ((PERIOD * k, rates[k % 8]) for k in range(samples))
    rows = write_ldms(folder / "csv", range(nodes), filled, PERIOD, epoch=1.6e9, rollover=3600.0)
    size = sum(path.stat().st_size for path in (folder / "csv").rglob("*") if path.is_file())
    say("CSV: size", f"{rows:,} rows, {size / 1e6:,.0f} MB")
    seconds = clock(lambda: [len(part) for part in Scan(folder / "csv")])
    say("CSV: read as rates", f"{rows / seconds:,.0f} rows/s")
    seconds = clock(lambda: write_rates(Scan(folder / "csv"), folder / "rates"))
    say("CSV to Parquet", f"{rows / seconds:,.0f} rows/s")
    seconds = clock(lambda: [len(part) for part in Scan(folder / "rates")])
    say("Parquet: read", f"{rows / seconds:,.0f} rows/s")


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--hours", type=float, default=3.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench_files(arguments.nodes, arguments.hours, Path(folder))


if __name__ == "__main__":
    main()
