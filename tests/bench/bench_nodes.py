"""How fast is the simulator where nodes have GPUs and memory? Jobs per CPU second, next to the same jobs on counts.

    python tests/bench/bench_nodes.py [--jobs 50000] [--only small,careful]

Made-up jobs that take one to four nodes, or parts of one. A case states the nodes, the load, how many shapes of
demands there are and the policy. CPU seconds, the best of three runs, without compiling. The ratio to counts is of one
process, so that it can be compared between machines.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np

from jobcast import JobLog, Simulation, Workload, clean, make_policy
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of


class Case(NamedTuple):
    """Nodes with GPUs and without, jobs that want so much of them, and a policy."""

    nodes: int
    load: float
    shapes: int
    policy: str


CASES = {
    "small": Case(100, 1.0, 40, "easy"),
    "careful": Case(100, 1.0, 40, "careful"),
    "shapes": Case(100, 1.0, 3000, "easy"),
    "large": Case(4000, 1.0, 40, "easy"),
}
PROCESSORS, GPUS, MEMORY_GB = 32, 4, 256
KB_OF_GB = 1 << 20


def machine_of(case: Case) -> Machine:
    """Return a machine a quarter of which has GPUs."""
    with_gpus = case.nodes // 4
    return Machine(
        (
            NodeGroup("thin", case.nodes - with_gpus, PROCESSORS, memory_gb=MEMORY_GB),
            NodeGroup("gpu", with_gpus, PROCESSORS, gpus=GPUS, memory_gb=MEMORY_GB),
        )
    )


def log_of(case: Case, n: int) -> JobLog:
    """Return jobs that keep so much of the machine busy, whatever their shapes."""
    rng = np.random.default_rng(7)
    wide = rng.random(case.shapes) < 0.2
    n_nodes = np.where(wide, rng.integers(2, 5, case.shapes), 1)
    gpus = np.where(rng.random(case.shapes) < 0.15, rng.integers(1, GPUS + 1, case.shapes), 0)
    part = np.where(wide, PROCESSORS, rng.integers(1, PROCESSORS + 1, case.shapes))
    memory = rng.integers(1, MEMORY_GB // 2, case.shapes) * KB_OF_GB // part
    shape = rng.integers(0, case.shapes, n)
    procs, requested = (n_nodes * part)[shape], rng.integers(10, 1440, n) * 60
    run_time = np.maximum(1, (requested * rng.beta(1, 2, n)).astype(np.int64))
    gap = float((procs * run_time).mean()) / (case.load * case.nodes * PROCESSORS)
    return JobLog.from_columns(
        {
            "job_id": np.arange(1, n + 1), "submit": np.cumsum(rng.exponential(gap, n)).astype(np.int64),
            "run_time": run_time, "requested_time": requested, "requested_procs": procs, "allocated_procs": procs,
            "requested_nodes": n_nodes[shape], "requested_gpus": (gpus * n_nodes)[shape],
            "requested_memory": memory[shape], "wait": np.zeros(n, dtype=np.int64),
        },
        {},
    )  # fmt: skip


def seconds(workload: Workload, policy: str) -> float:
    """Return the CPU seconds of a simulation, at its best."""
    found = []
    for _ in range(3):
        simulation = Simulation(workload, make_policy(policy))
        begin = time.process_time()
        simulation.run()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--only", default=",".join(CASES), help="cases, with commas")
    arguments = parser.parse_args()
    print(
        f"{'case':8} {'nodes':>6} {'load':>5} {'shapes':>7} {'policy':8} {'jobs/s':>10} {'on counts':>10} {'ratio':>6}"
    )
    for name in arguments.only.split(","):
        case = CASES[name]
        machine = machine_of(case)
        log, _ = clean(log_of(case, arguments.jobs), procs=machine.procs)
        log, demands, _ = demands_of(log, machine)
        counts = Workload.from_log(log)
        on_nodes = Workload.from_log(log, demands=demands)
        for warm in (counts.of_rows(np.arange(100)), on_nodes.of_rows(np.arange(100))):
            Simulation(warm, make_policy(case.policy)).run()  # compile
        n, one, other = len(log), seconds(on_nodes, case.policy), seconds(counts, case.policy)
        print(
            f"{name:8} {case.nodes:6} {case.load:5} {case.shapes:7} {case.policy:8} {n / one:10,.0f} "
            f"{n / other:10,.0f} {one / other:6.2f}"
        )


if __name__ == "__main__":
    main()
