"""How fast are sweeps? 1,000 shaken runs of KTH-SP2, and what a second worker is worth on runs as large as CEA-Curie's.

    python tests/bench/bench_sweep.py [--workers 2] [--runs 1000] [--curie 120]   # 0: leave it out

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
CURIE = LogFile("CEA-Curie-2011-2.1-cln.swf.gz", procs=80_640)


def there(log: LogFile) -> LogFile:
    """Return the log in the folder of logs."""
    return LogFile(str(Path(os.environ.get("JOBCAST_TRACES", ""), log.path)), log.procs)


def measured(log: LogFile, seeds: int, workers: int, policies: tuple[str, ...] = ("easy",)) -> tuple[float, float, int]:
    """Return wall seconds, CPU seconds of this process and its workers, and runs."""
    sweep = Sweep(logs=(there(log),), policies=policies, seeds=tuple(range(1, seeds + 1)), as_logged=False)
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
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1000, help="of KTH-SP2")
    parser.add_argument("--curie", type=int, default=120, help="seeds of CEA-Curie, by easy and easy-sjbf")
    arguments = parser.parse_args()
    if not Path(there(KTH).path).is_file():
        print(f"KTH-SP2 is not in JOBCAST_TRACES={os.environ.get('JOBCAST_TRACES')}")
        return
    measured(KTH, 1, 1, ("easy", "easy-sjbf"))  # compile
    print(f"{'what':40} {'workers':>7} {'runs':>6} {'wall s':>8} {'CPU s':>8} {'speed-up':>8}", flush=True)
    for what, log, seeds, policies in (
        ("KTH-SP2, easy", KTH, arguments.runs, ("easy",)),
        ("CEA-Curie, easy and easy-sjbf", CURIE, arguments.curie, ("easy", "easy-sjbf")),
    ):
        if not seeds:
            continue
        alone = None
        for workers in (1, arguments.workers):
            wall, used, runs = measured(log, seeds, workers, policies)
            alone = alone or wall
            print(f"{what:40} {workers:7} {runs:6} {wall:8.1f} {used:8.1f} {alone / wall:8.2f}", flush=True)


if __name__ == "__main__":
    main()
