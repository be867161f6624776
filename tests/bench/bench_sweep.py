"""How fast are sweeps? 1,000 shaken runs of KTH-SP2 under EASY, by one worker and by several.

    python tests/bench/bench_sweep.py [--workers 2] [--runs 1000]

Needs JOBCAST_TRACES. Wall and CPU seconds from the call to the table, the start of the workers and the reading of the
log included; the log is opened and everything compiled beforehand. One worker is this process, without Dask. The
speed-up tells something on a machine that does nothing else: the CPU seconds beside it say how much more work several
workers were.
"""

import argparse
import os
import resource
import time
from pathlib import Path

from experiments.sweeps.sweep import LogFile
from jobcast import Pool, Sweep, run_sweep

KTH = LogFile("KTH-SP2-1996-2.1-cln.swf.gz")


def there(log: LogFile) -> LogFile:
    """Return the log in the folder of logs."""
    return LogFile(str(Path(os.environ.get("JOBCAST_TRACES", ""), log.path)), log.procs)


def measured(log: LogFile, seeds: int, workers: int) -> tuple[float, float, int]:
    """Return wall seconds, CPU seconds of this process and its workers, and runs."""
    sweep = Sweep(logs=(there(log),), policies=("easy",), seeds=tuple(range(1, seeds + 1)), as_logged=False)
    begin, before = time.perf_counter(), cpu()
    found = run_sweep(sweep, pool=Pool(workers))
    return time.perf_counter() - begin, cpu() - before, len(found.runs)


def cpu() -> float:
    """Return CPU seconds of this process and of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    """Print a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    if not Path(there(KTH).path).is_file():
        print(f"KTH-SP2 is not in JOBCAST_TRACES={os.environ.get('JOBCAST_TRACES')}")
        return
    measured(KTH, 1, 1)  # compile
    for workers in (1, arguments.workers):
        wall, used, runs = measured(KTH, arguments.runs, workers)
        print(f"{workers:3} workers {runs:6} runs {wall:8.1f} s {used:8.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
