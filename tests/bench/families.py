"""What families of rules beside `balanced` buy and miss; and how well the ends of running jobs are known.

    python -m tests.bench.families LOG… [--procs N] [--seed 100] [--shakes 5] [--only WORD…]

On shaken logs, medians beside EASY. Each row is `balanced` but for what it names, see `tests.bench.balanced_alone`.
Below, at some thousand submissions of the schedule of `balanced`, of all running jobs: by how much the planned end is
wrong, and how many of them end by it, weighted by processors.
"""

import argparse
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from numba import njit

from experiments.compare.relative import COLUMNS, over_seeds, relative
from predictors.core.arrays import Floats, Ints
from predictors.data.cleaning import clean
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from schedsim.engine.simulation import simulate
from schedsim.kernels.corrections import DOUBLING, INCREMENTAL, corrected
from schedsim.policies.policy import make_policy
from schedsim.results.metrics import figures, figures_of_waits
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.shaking import shaken
from schedsim.workload.workload import Workload
from tests.bench.balanced_alone import RUNS, History, Jobs, Rule, beyond, ended, history_of, jobs_of, sample, starts

HOUR: Final = 3600.0
MOMENTS: Final = 4000
FAMILIES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "balanced": Rule(),
        "running jobs: lower quartile": Rule(quantile=0.25),
        "running jobs: .9 quantile": Rule(quantile=0.9),
        "everybody's runs as 1, median": Rule(pooled=1.0),
        "everybody's runs as 3, median": Rule(pooled=3.0),
        "everybody's runs as 10, median": Rule(pooled=10.0),
        "everybody's runs as 30, median": Rule(pooled=30.0),
        "everybody's runs as 3, with a user's own": Rule(pooled=3.0, own_first=True),
        "everybody's runs as 10, with a user's own": Rule(pooled=10.0, own_first=True),
        "everybody's runs as 10, slack shrinks by .2": Rule(pooled=10.0, growth=-0.2),
        "everybody's runs as 10, .75 quantile": Rule(pooled=10.0, quantile=0.75),
        "everybody's runs as 10, .9 quantile": Rule(pooled=10.0, quantile=0.9),
        "oldest job protected after 12 h": Rule(protected=1, protected_after=12 * HOUR),
        "oldest four protected after 6 h": Rule(protected=4, protected_after=6 * HOUR),
        "oldest four protected after 24 h": Rule(protected=4, protected_after=24 * HOUR),
        "oldest four protected after 24 h, by estimates": Rule(
            protected=4, protected_after=24 * HOUR, by_estimates=True
        ),
        "overtaken by half the work ahead": Rule(bound=0.5),
        "overtaken by the work ahead, at least 6 h": Rule(bound=1.0, bound_least=6 * HOUR),
        "the same without due dates": Rule(bound=1.0, bound_least=6 * HOUR, grace=1e9),
        "expected overrun up to .1 of the time left": Rule(overrun=0.1),
        "expected overrun up to .4 of the time left": Rule(overrun=0.4),
        "candidates by requests once the head is late": Rule(caution=1.0),
        "true run times: running": Rule(known=1),
        "true run times: candidates": Rule(known=2),
        "true run times: order": Rule(known=4),
        "true run times: all roles": Rule(known=7),
    }
)
"""Rules by the name of their row."""
PLANNERS: Final = (
    "request",
    "last two, incremental",
    "last two, doubling",
    "sample, median (balanced)",
    "sample, .75 quantile (bold)",
    "sample, .9 quantile",
    "with everybody's runs as 10, median",
    "with everybody's runs as 10, .75 quantile",
    "with everybody's runs as 10, .9 quantile",
)
"""What plans with running jobs, in the order of `planned_ends`."""


@njit(cache=True)
def planned_ends(start: Ints, submissions: Ints, jobs: Jobs, history: History, rule: Rule) -> Floats:
    """Compare ends as planned with true ones, at some submissions, of jobs that run then.

    `history` is empty at first, `submissions` in order. Returns processor-weighted sums, shape (planners, 3): weight,
    wrong by [s], weight of jobs that end by the plan.
    """
    n_planners, n_jobs = 9, len(start)
    sums = np.zeros((n_planners, 3))
    values, weights = np.zeros((n_jobs, RUNS + 1), np.int64), np.zeros((n_jobs, RUNS + 1))
    size, last_two = np.zeros(n_jobs, np.int64), np.zeros(n_jobs, np.int64)
    end = start + jobs.run_time
    by_start, by_end = np.argsort(start, kind="mergesort"), np.argsort(end, kind="mergesort")
    running, n_running, next_start, next_end = np.zeros(n_jobs, np.int64), 0, 0, 0
    for now in submissions:
        while True:  # what happened before: ends before starts
            ending = end[by_end[next_end]] if next_end < n_jobs else now + 1
            starting = start[by_start[next_start]] if next_start < n_jobs else now
            if ending <= min(now, starting):
                row = by_end[next_end]
                next_end += 1
                ended(row, jobs.run_time[row], jobs, history, rule.forget)
            elif starting < now:
                row = by_start[next_start]
                next_start += 1
                size[row] = sample(row, jobs, history, rule.request_weight, values[row], weights[row])
                last_two[row] = last_two_of(row, jobs, history)
                running[n_running] = row
                n_running += 1
            else:
                break
        kept = 0
        for i in range(n_running):
            if end[running[i]] > now:
                running[kept] = running[i]
                kept += 1
        n_running = kept
        for i in range(n_running):
            row = running[i]
            elapsed, request = now - start[row], jobs.request[row]
            for planner in range(n_planners):
                if planner == 0:
                    length = request
                elif planner < 3:
                    code, length = INCREMENTAL if planner == 1 else DOUBLING, last_two[row]
                    if length <= elapsed:
                        length = corrected(code, length, last_two[row], request, elapsed)
                else:
                    quantile = (0.5, 0.75, 0.9)[planner % 3]
                    pooled = 10.0 if planner >= 6 else 0.0
                    length = beyond(
                        elapsed, request, values[row], weights[row], size[row], quantile, history.pool, pooled
                    )
                sums[planner, 0] += jobs.procs[row]
                sums[planner, 1] += jobs.procs[row] * abs(length - jobs.run_time[row])
                sums[planner, 2] += jobs.procs[row] * (jobs.run_time[row] <= length)
    return sums


@njit(cache=True)
def last_two_of(row: int, jobs: Jobs, history: History) -> int:
    """Return the mean of the user's last two runs, one of one, the request of none; at most the request."""
    user, request = jobs.user[row], jobs.request[row]
    n = history.user_ended[user] if user >= 0 else 0
    if n == 0:
        return request
    newest, before = history.user_runs[user, (n - 1) % RUNS], history.user_runs[user, max(n - 2, 0) % RUNS]
    return max(1, min((newest + before) // 2, request))


def runs(log: JobLog, seeds: Sequence[int], families: Mapping[str, Rule] = FAMILIES) -> pd.DataFrame:
    """Return the figures of each family and shake, relative to EASY."""
    rows = []
    for seed in seeds:
        workload = Workload.from_log(shaken(log, seed))
        easy = figures(simulate(workload, make_policy("easy")))
        best = figures(simulate(workload, make_policy("easy-sjbf"), clairvoyant(workload)))
        for name, rule in families.items():
            wait = starts(workload, rule) - workload.submit
            found = relative(figures_of_waits(wait, clairvoyant(workload), workload.procs), easy, best)
            rows.append({"case": name, "seed": seed, **{column: found[column] for column in COLUMNS}})
    return pd.DataFrame(rows)


def ends(log: JobLog, seed: int) -> pd.DataFrame:
    """Return how wrong the planned ends of running jobs are on a shaken log, under `balanced`."""
    workload = Workload.from_log(shaken(log, seed))
    jobs = jobs_of(workload)
    moments = np.unique(workload.submit)
    moments = moments[:: max(1, len(moments) // MOMENTS)]
    sums = planned_ends(starts(workload, Rule()), moments, jobs, history_of(jobs), Rule())
    return pd.DataFrame(
        {"planner": PLANNERS, "wrong_by_h": sums[:, 1] / sums[:, 0] / HOUR, "ended_by_it": sums[:, 2] / sums[:, 0]}
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print two tables of each log: medians over the shakes, and the planned ends on the first shake."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--procs", type=int, help="processors of the machine, where the log is wrong")
    parser.add_argument("--seed", type=int, default=100, help="before the first shake")
    parser.add_argument("--shakes", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="families whose name has one of these")
    given = parser.parse_args(arguments)
    chosen = {
        name: rule for name, rule in FAMILIES.items() if given.only is None or any(word in name for word in given.only)
    }
    for path in given.logs:
        log, _ = clean(read_log(path)[0], given.procs, drop_wide=True)
        seeds = range(given.seed + 1, given.seed + 1 + given.shakes)
        print(f"{path}: gap closed [%]/mean wait/99th percentile/longest/widest 5 %")
        for row in over_seeds(runs(log, seeds, chosen), ["case"], COLUMNS).to_dict(orient="records"):
            ratios = "/".join(f"{row[column]:.2f}" for column in COLUMNS[1:])
            print(f"  {row['case']:48} {100 * row['gap_closed']:.0f}/{ratios}", flush=True)
        print("  running jobs by                           wrong by [h]   end by it [%]")
        for row in ends(log, seeds[0]).to_dict(orient="records"):
            print(f"  {row['planner']:48} {row['wrong_by_h']:5.2f} {100 * row['ended_by_it']:14.0f}", flush=True)


if __name__ == "__main__":
    main()
