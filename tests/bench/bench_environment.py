"""How fast is the environment? Steps per CPU second, alone and side by side, beside a pass that scores the jobs itself.

    python tests/bench/bench_environment.py [--logs KTH-SP2-1996-2.1-cln,ALCF-Theta-2022.cqsim] [--side-by-side 64]

Needs JOBCAST_TRACES. Warm months, random picks drawn beforehand; the best of three runs, without compiling.
"""

import argparse
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np

from jobcast import Simulation, Workload, clean, make_policy, read_log
from schedsim.policies.agents import OLDEST_FIRST

PICK = "schedsim.gym:jobcast/Pick-v0"
STEPS = 100_000


def alone(jobs: Workload) -> float:
    """Return the steps per CPU second of one environment as `gymnasium.make` makes it, without its checker."""
    env = gymnasium.make(PICK, workload=jobs, disable_env_checker=True)
    _, info = env.reset(seed=1)
    draws = np.random.default_rng(1).random(STEPS).tolist()
    begin = time.process_time()
    for draw in draws:
        _, _, over, _, info = env.step(int(draw * info["action_mask"].sum()))
        if over:
            _, info = env.reset()
    return STEPS / (time.process_time() - begin)


def side_by_side(jobs: Workload, n: int) -> float:
    """Return the steps per CPU second of n environments."""
    envs = gymnasium.make_vec(PICK, num_envs=n, workload=jobs, flat=True)
    _, info = envs.reset(seed=1)
    draws = np.random.default_rng(1).random((STEPS // n, n))
    begin = time.process_time()
    for draw in draws:
        info = envs.step((draw * info["action_mask"].sum(axis=1)).astype(int))[4]
    return draws.size / (time.process_time() - begin)


def scored(jobs: Workload) -> float:
    """Return the picks per CPU second of a linear agent, scored inside the pass."""
    simulation = Simulation(jobs, replace(make_policy("easy"), agent=OLDEST_FIRST))
    begin = time.process_time()
    simulation.run()
    return simulation.picks / (time.process_time() - begin)


def main() -> None:
    """Print a line for each log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", default="KTH-SP2-1996-2.1-cln,ALCF-Theta-2022.cqsim", help="logs, with commas")
    parser.add_argument("--side-by-side", type=int, default=64, help="environments of the vector form")
    arguments = parser.parse_args()
    print(f"{'log':24} {'alone':>12} {'side by side':>13} {'in the pass':>12}")
    for name in arguments.logs.split(","):
        path = Path(os.environ.get("JOBCAST_TRACES", "")) / f"{name}.swf.gz"
        if not path.is_file():
            print(f"{name:24} is not in JOBCAST_TRACES")
            continue
        jobs = Workload.from_log(clean(read_log(path)[0])[0])
        vector = partial(side_by_side, n=arguments.side_by_side)
        found = [max(run(jobs) for _ in range(3)) for run in (alone, vector, scored)]
        print(f"{name:24} {found[0]:12,.0f} {found[1]:13,.0f} {found[2]:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
