"""How fast is the machine on which jobs disturb one another? CPU seconds for a day of it, and for a campaign.

    python tests/bench/bench_world.py [--days 212]

The day: 512 nodes, 98 % busy with 16-node jobs, every sample of the counters pushed into the ring that keeps the last
five minutes. The campaign: control jobs of `--days` days. Without compiling.
"""

import argparse
import time

import numpy as np

from predictors.variability.ring import CounterRing
from schedsim.contention.applications import APPS
from schedsim.contention.campaign import Campaign
from schedsim.contention.model import ContentionModel
from schedsim.engine.simulation import Simulation
from schedsim.policies.policy import make_policy
from schedsim.workload.workload import Workload

DAY = 86_400


def day(horizon: int, n_jobs: int, seed: int = 2) -> float:
    """Return the CPU seconds of so many seconds of a busy machine."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, horizon, n_jobs))
    workload = Workload.from_columns(
        range(1, n_jobs + 1), submit=submit - submit[0], procs=np.full(n_jobs, 16), requested=np.full(n_jobs, 3600),
        run_time=rng.integers(200, 400, n_jobs), machine_procs=512,
    )  # fmt: skip
    names = [list(APPS)[i] for i in rng.integers(0, len(APPS), n_jobs)]
    world = ContentionModel(names, seed=seed, sink=CounterRing(np.arange(512)))
    simulation = Simulation(workload, make_policy("easy"), kill=False, run_times=world)
    begin = time.process_time()
    simulation.run(until=horizon)
    return time.process_time() - begin


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=212, help="days of the campaign")
    days = parser.parse_args().days
    day(3600, 200)
    print(f"a day of 512 busy nodes: {day(DAY, 7200):.1f} CPU s")
    begin = time.process_time()
    data = Campaign(days=days, seed=1).collect()
    print(f"a campaign of {days} days, {len(data.runs)} control jobs: {time.process_time() - begin:.1f} CPU s")


if __name__ == "__main__":
    main()
