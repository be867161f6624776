"""How much slower is the simulator than EASY written plainly in C? Both in turn on one log, in one run.

    python tests/bench/bench_against_c.py [--log KTH-SP2] [--runs 15]

Needs JOBCAST_TRACES and gcc. Jobs per CPU second, the best of all runs of each, and how often C is as fast; both give
the same starts, or the command fails. C here does the rule alone: no promise, order or gate, no events, no pause.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from jobcast import JobLog, Simulation, Workload, make_policy
from predictors.core.arrays import Ints
from tests.bench.bench_engine import load

SOURCE = Path(__file__).with_name("easy.c")


def compiled(folder: Path) -> ctypes.CDLL:
    """Compile the C kernel into a folder."""
    library = folder / "easy.so"
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", SOURCE, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def by_c(library: ctypes.CDLL, workload: Workload) -> tuple[float, Ints]:
    """Return the CPU seconds of the C kernel, and the starts."""
    columns = (workload.submit, workload.procs, workload.requested, np.minimum(workload.run_time, workload.requested))
    start = np.empty(len(workload), dtype=np.int64)
    numbers = [np.ascontiguousarray(column, dtype=np.int64) for column in columns]
    places = [ctypes.c_void_p(column.ctypes.data) for column in (*numbers, start)]
    machine, n = ctypes.c_int64(workload.machine_procs), ctypes.c_int64(len(workload))
    begin = time.process_time()
    if library.easy(n, *places[:4], machine, places[4]) != 0:
        raise MemoryError("The C kernel found no memory.")
    return time.process_time() - begin, start


def by_jobcast(workload: Workload) -> tuple[float, Ints]:
    """Return the CPU seconds of the simulator, and the starts."""
    simulation = Simulation(workload, make_policy("easy"))
    begin = time.process_time()
    simulation.run()
    return time.process_time() - begin, simulation.schedule().start


def compare(log: JobLog, runs: int) -> tuple[float, float]:
    """Return the CPU seconds of both at their best, the simulator's first."""
    workload, ours, theirs = Workload.from_log(log), float("inf"), float("inf")
    by_jobcast(Workload.from_log(log.select(slice(0, 200))))  # compile
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for _ in range(runs):
            seconds, start = by_jobcast(workload)
            c_seconds, c_start = by_c(library, workload)
            if not np.array_equal(start, c_start):
                raise AssertionError("The two schedules differ.")
            ours, theirs = min(ours, seconds), min(theirs, c_seconds)
    return ours, theirs


def main() -> None:
    """Print both speeds and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="KTH-SP2", help="KTH-SP2 or CEA-Curie")
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    log = load(arguments.log)
    if log is None or shutil.which("gcc") is None:
        print("This needs gcc, and the log in JOBCAST_TRACES.", file=sys.stderr)
        return
    ours, theirs = compare(log, arguments.runs)
    n = len(log)
    print(f"{arguments.log}, EASY: jobcast {n / ours:,.0f} jobs/s, C {n / theirs:,.0f}, {ours / theirs:.2f} times")


if __name__ == "__main__":
    main()
