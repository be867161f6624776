"""A linear agent of twelve weights to compare with the networks: in the same frame, tuned on the same months."""

from time import process_time
from typing import Final

import numpy as np
import pandas as pd

from experiments.papers.dras.cases import COPIED, LINEAR, LINEAR_TRUE, WINDOW
from experiments.papers.dras.runs import TEST, Work, evaluated, months
from experiments.runs.simulate import estimates_by_name
from experiments.site.tune.objective import Objective
from experiments.site.tune.search import Frame, Search, check_cma, found_by, policy_of
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from schedsim.engine.simulation import simulate
from schedsim.results.schedule import Schedule
from schedsim.workload.workload import Workload

GENERATIONS: Final = 30  # of the search, twelve agents each
LINEARS: Final = (LINEAR, LINEAR + COPIED, LINEAR_TRUE)


def tunable() -> bool:
    """Return whether the package is there that searches."""
    try:
        check_cma()
    except JobcastError:
        return False
    return True


def linear_tasks(work: Work) -> list[tuple[str, int]]:
    """Return the agents to tune, each by every seed; none without the package that searches."""
    seeds = range(work.first_seed, work.first_seed + work.plan.seeds)
    return [(name, seed) for name in LINEARS for seed in seeds] if tunable() else []


def linear_runs(work: Work, task: tuple[str, int]) -> pd.DataFrame:
    """Tune a linear agent by a seed, on the training months or on the very jobs to test, and return its runs."""
    name, seed = task
    copied, estimates = name.endswith(COPIED), "clairvoyant" if name == LINEAR_TRUE else "requested"
    log = next(log for part, log, _ in months(work, seed) if part == TEST) if copied else work.parts.train
    search = Search(Frame(Objective(), WINDOW, estimates, seed), "kept", GENERATIONS)
    begin = process_time()
    policy = policy_of(np.array(found_by(log, search)), "kept", WINDOW)
    about = {"train_seconds": process_time() - begin, "updates": GENERATIONS}

    def go(log: JobLog, jobs: Workload) -> Schedule:
        return simulate(jobs, policy, estimates_by_name(estimates, log, jobs))

    return evaluated(work, name, seed, go, about, only=None if name == LINEAR else TEST)
