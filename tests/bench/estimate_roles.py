"""What stands between `balanced` and its aims: the estimates of which role, or the due dates.

    python -m tests.bench.estimate_roles LOG… [--procs N] [--seed 100] [--shakes 5]

On shaken logs, all beside EASY: `balanced` as it is; with true run times in some roles of its estimates (planning with
running jobs, candidates for backfilling, the order); and with other due dates, which no site could know: the start that
EASY would give each job, and six hours. It runs the engine; `tests.bench.families` has more rules in a faster copy.
"""

import argparse
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self

import numpy as np
import pandas as pd

from experiments.compare.relative import COLUMNS, over_seeds, relative
from predictors.core.arrays import Floats, Ints
from predictors.data.cleaning import clean
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.models.similar_jobs import make_revised_estimates
from schedsim.engine.simulation import simulate
from schedsim.policies.orders import Order, Waiting
from schedsim.policies.policy import BALANCED, Policy, make_policy
from schedsim.results.metrics import figures
from schedsim.results.schedule import Schedule
from schedsim.workload.estimates import RevisedEstimates, clairvoyant
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload

ROLES: Final = ("running", "candidates", "order")
"""In the order of the columns of revised estimates, from column 1 on; steps stand from column 4 on."""


class Known:
    """Revised estimates in which some roles have true run times."""

    def __init__(self, base: RevisedEstimates, workload: Workload, roles: Collection[str]) -> None:
        self._base, self._truth, self._roles = base, clairvoyant(workload), frozenset(roles)
        self.n_steps = base.n_steps

    def advance(self, events: Ints, answers: Floats) -> int:
        """Take in events; write answers, those of known roles by the true run times."""
        n = self._base.advance(events, answers)
        truth = self._truth[answers[:n, 0].astype(np.int64)]
        for column, role in enumerate(ROLES, start=1):
            if role in self._roles:
                answers[:n, column] = truth
        if "running" in self._roles:
            answers[:n, 4] = np.inf
        return n

    def fork(self) -> Self:
        """Refuse: a run of this bench is never copied."""
        raise NotImplementedError


def due_after(easy: Schedule, seconds: int) -> Policy:
    """Return `balanced` in which a job is due so long after the start that EASY gives it."""
    priority, due = BALANCED.order.priority, easy.start + seconds
    assert priority is not None

    def key(waiting: Waiting) -> Floats:
        score = np.log10(waiting.wait + priority.head_start) + priority.procs * np.log10(waiting.procs)
        score -= priority.estimate * np.log10(waiting.estimate)
        return np.where(waiting.now > due[waiting.row], waiting.row - 1e12, -score)

    return replace(BALANCED, order=Order.by(key, "balanced by EASY's starts"))


def cases(log: JobLog, workload: Workload, easy: Schedule) -> dict[str, Callable[[], Schedule]]:
    """Return what makes each schedule, by its name."""

    def run(rule: Policy, roles: Collection[str] = ()) -> Schedule:
        return simulate(workload, rule, Known(make_revised_estimates("balanced").forecast(log), workload, roles))

    return {
        "balanced": partial(run, BALANCED),
        **{f"true run times: {role}": partial(run, BALANCED, (role,)) for role in ROLES},
        "true run times: all roles": partial(run, BALANCED, ROLES),
        "due 6 h after EASY's start": partial(run, due_after(easy, 6 * 3600)),
    }


def runs(log: JobLog, seeds: Sequence[int]) -> pd.DataFrame:
    """Return the figures of each case and shake, relative to EASY."""
    rows = []
    for seed in seeds:
        moved = shaken(log, seed)
        workload = Workload.from_log(moved)
        easy = simulate(workload, make_policy("easy"))
        best = figures(simulate(workload, make_policy("easy-sjbf"), clairvoyant(workload)))
        for name, schedule in cases(moved, workload, easy).items():
            found = relative(figures(schedule()), figures(easy), best)
            rows.append({"case": name, "seed": seed, **{column: found[column] for column in COLUMNS}})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of each log: medians over the shakes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--procs", type=int, help="processors of the machine, where the log is wrong")
    parser.add_argument("--seed", type=int, default=100, help="before the first shake")
    parser.add_argument("--shakes", type=int, default=5)
    given = parser.parse_args(arguments)
    for path in given.logs:
        log, _ = clean(read_log(path)[0], given.procs, drop_wide=True)
        found = over_seeds(runs(log, range(given.seed + 1, given.seed + 1 + given.shakes)), ["case"], COLUMNS)
        print(f"{path}: gap closed [%]/mean wait/99th percentile/longest/widest 5 %")
        for row in found.to_dict(orient="records"):
            ratios = "/".join(f"{row[column]:.2f}" for column in COLUMNS[1:])
            print(f"  {row['case']:48} {100 * row['gap_closed']:.0f}/{ratios}", flush=True)


if __name__ == "__main__":
    main()
