"""How does the simulator's cost grow? Jobs/s from 10 thousand to 10 million jobs, and with the length of the queue.

    python tests/bench/bench_growth.py [--most 10000000] [--out reports/growth]

Loads .85 and .95 are the synthetic log's own; an overload of 1.05 lets the queue grow with the log, and a burst (all
jobs submitted at once) is the worst case: a queue as long as the log.
"""

import argparse
import resource
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from experiments.reports.figures import COLOURS, MARKERS, draw
from jobcast import Workload, clean, generate_log, make_policy, simulate
from schedsim.results.timelines import timeline

POLICIES = ("fcfs", "easy", "easy-sjbf")
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
BURSTS = (1_000, 3_000, 10_000, 30_000, 100_000)


def synthetic(n_jobs: int, load: float) -> Workload:
    """Return a workload of the load, above 1 by squeezing the submissions of a log of load .95."""
    log, _ = clean(generate_log(n_jobs, seed=1, load=min(load, 0.95)))
    workload = Workload.from_log(log)
    squeeze = 1.0 if load <= 0.95 else 0.95 / load if load < 10 else 0.0
    return Workload(
        workload.job_id, (workload.submit * squeeze).astype(np.int64), workload.procs, workload.requested,
        workload.run_time, workload.machine_procs, name=f"synthetic, load {load:g}",
    )  # fmt: skip


def measure(workload: Workload, load: str, policy: str) -> dict[str, object]:
    """Time one simulation."""
    begin = perf_counter()
    schedule = simulate(workload, make_policy(policy))
    seconds = perf_counter() - begin
    queue = int(timeline(schedule).queued_jobs.max()) if len(workload) <= 1_000_000 else -1
    row = {"load": load, "policy": policy, "jobs": len(workload), "longest_queue": queue, "seconds": seconds,
           "us_per_job": 1e6 * seconds / len(workload), "jobs_per_second": len(workload) / seconds}  # fmt: skip
    print(
        f"{load:>6} {policy:>10} {len(workload):>11,} jobs  queue {queue:>8,}  {row['jobs_per_second']:>12,.0f} jobs/s"
    )
    return row


def memory(n_jobs: int) -> float:
    """Return how far the process grows at its peak in a simulation [bytes a job] (Linux)."""
    workload = synthetic(n_jobs, 0.85)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget the peak so far
    before = _peak()
    simulate(workload, make_policy("easy"))
    return (_peak() - before) / n_jobs


def _peak() -> int:
    """Return the most memory that this process has held [bytes]."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def paint(axes, table: pd.DataFrame) -> None:
    """Microseconds a job against the number of jobs, a line for each policy and load."""
    for number, (load, part) in enumerate(table.groupby("load", sort=False)):
        for style, (policy, line) in zip(("-", "--", ":"), part.groupby("policy", sort=False), strict=False):
            axes.plot(line["jobs"], line["us_per_job"], style, marker=MARKERS[number], color=COLOURS[number],
                      markersize=4, label=f"{policy}, {load}")  # fmt: skip
    axes.set_xscale("log")
    axes.set(title="Cost of a simulation", xlabel="jobs in the log", ylabel="time a job [µs]", ylim=(0, None))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("reports/growth"))
    options = parser.parse_args()
    for policy in POLICIES:
        simulate(synthetic(1000, 0.85), make_policy(policy))  # compiled before the clock starts
    print(f"Memory of a simulation above its table: {memory(1_000_000):.0f} bytes a job")
    rows = []
    for load, sizes in ((0.85, SIZES), (0.95, SIZES), (1.05, SIZES), (np.inf, BURSTS)):
        for n_jobs in (size for size in sizes if size <= options.most):
            workload = synthetic(n_jobs, load)
            rows += [measure(workload, "burst" if load == np.inf else f"{load:g}", policy) for policy in POLICIES]
    options.out.mkdir(parents=True, exist_ok=True)
    paths = draw(options.out, "growth", pd.DataFrame(rows), paint, width=8.5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Peak memory {peak:,.0f} MB; wrote {', '.join(map(str, paths))}")


if __name__ == "__main__":
    main()
