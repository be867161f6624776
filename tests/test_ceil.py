"""CEIL: the schedules of a slow oracle, job for job; laws of the ceiling; cases small enough to check by eye."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedsim.engine import simulate
from schedsim.policy import ceil, make_policy
from schedsim.postponing import Postponing
from schedsim.schedule import STARTED_BY
from tests import oracle_ceil
from tests.engine_runs import estimates_of, workload_of
from tests.oracle import Outcome
from tests.oracle_ceil import CeilRule
from tests.strategies import PROCS, crowded_workload, seeded_estimates, seeded_workload, workloads_with_estimates

BASES = {
    "fcfs": {"depth": 0},
    "easy": {"depth": 1},
    "easy-sjbf": {"depth": 1, "backfill_order": "sjf"},
    "saf-easy": {"order": "saf", "depth": 1},
    "wfp3-easy": {"order": "wfp3", "depth": 1},
    "wfp3": {"order": "wfp3", "depth": 0},
    "easy+promise": {"depth": 1, "promise": True},
    "easy-sjbf+promise": {"depth": 1, "backfill_order": "sjf", "promise": True},
}


def engine(jobs, policy, deadlines, estimates="requested", correction="requested", kill=True, procs=PROCS):
    workload = replace(workload_of(jobs, procs), deadline=np.array(deadlines))
    schedule = simulate(workload, policy, estimates_of(workload, estimates), correction, kill)
    return Outcome(
        schedule.start.tolist(),
        schedule.estimate.tolist(),
        schedule.last_estimate.tolist(),
        [STARTED_BY[code] for code in schedule.started_by],
    )


def settings_of(random):
    """A policy's part of CEIL at random: the same for the engine and for the oracle."""
    share = random.choice(["1.0", "0.95", "0.9", "0.8", "0.75", "0.5", "0.3"])
    low, lead = random.choice(["0", "0.3", "0.6", "0.75", "1"]), random.choice([0, 3, 60, 600])
    backfill, again, over = (random.random() < 0.6 for _ in range(3))
    off = None if random.random() < 0.15 else Postponing(float(low), lead, backfill, again)
    about = {"ceiling": float(share), "refused": "passed over" if over else "reserves", "postpone": off}
    rule = {"ceiling": Fraction(share), "low": Fraction(low), "lead": lead, "postpones": off is not None,
            "backfill": off is not None and backfill, "looks_again": again, "passed_over": over}  # fmt: skip
    return about, rule


def deadlines_of(random, jobs):
    """None for about half of the jobs; the others' from tight to far off, on the workload's own grid."""
    return [
        random.choice([-1, job.submit + random.choice([0, 1, 2, 4, 8, 30]) * job.requested + random.choice([0, 5, 60])])
        for job in jobs
    ]


def compare(base, jobs, estimates, seed, correction="requested", kill=True, procs=PROCS):
    random = Random(seed)
    about, rule = settings_of(random)
    deadlines = deadlines_of(random, jobs)
    ours = engine(jobs, ceil(make_policy(base), **about), deadlines, estimates, correction, kill, procs)
    slow = oracle_ceil.simulate(jobs, procs, CeilRule(**BASES[base], **rule), deadlines, estimates, correction, kill)
    assert ours == slow, (about, deadlines)


@settings(max_examples=150, deadline=None)
@given(workloads_with_estimates(most=10, least_run=0), st.sampled_from(sorted(BASES)), st.integers(0, 10**6))
def test_the_engine_and_the_slow_oracle_agree(drawn, base, seed):
    jobs, estimates = drawn
    compare(base, jobs, estimates, seed)


@pytest.mark.parametrize("base", BASES)
def test_they_agree_on_longer_workloads_whatever_the_estimates(base):
    for seed in range(60):
        kill = seed % 5 != 0
        jobs = seeded_workload(seed, kill=kill, least_run=seed % 2)
        estimates = ("requested", "tsafrir", seeded_estimates(seed, jobs))[seed % 3]
        correction = ("requested", "incremental", "doubling")[seed // 3 % 3]
        compare(base, jobs, estimates, seed, correction, kill)


@pytest.mark.parametrize("base", ["easy", "wfp3-easy", "easy-sjbf"])
def test_they_agree_on_long_queues(base):
    for seed in range(4):
        jobs, procs = crowded_workload(seed, n_jobs=80)
        compare(base, jobs, seeded_estimates(seed, jobs), seed, procs=procs)
