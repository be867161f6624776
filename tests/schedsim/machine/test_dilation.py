"""Runs get longer on a full machine, by a factor of (seed, job); forks carry on; below the limit nothing changes."""

from functools import partial

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.machine.dilation import Dilation
from schedsim.validate.laws import BY_RUN_TIMES, ENDS
from schedsim.validate.validate import check
from tests.support.engine_runs import jobs_of, workload_of
from tests.support.strategies import PROCS, crowded_workload, seeded_workload

jobs = partial(jobs_of, machine=100)


def runs(workload, policy="easy", kill=False, **about):
    return simulate(workload, make_policy(policy), kill=kill, run_times=Dilation(**about)).run_time.tolist()


def test_a_start_above_the_limit_makes_a_run_longer_and_one_at_it_does_not():
    workload = jobs((0, 95, 100, 100), (1, 1, 50, 50), (60, 1, 10, 10), (120, 96, 7, 7))
    assert runs(workload, low=1.2, high=1.2) == [100, 60, 12, 9]  # 7 x 1.2 = 8.4, rounded up
    assert runs(workload, limit=0.96, low=1.2, high=1.2) == [100, 50, 10, 7]


def test_factors_belong_to_seed_and_job():
    workload = workload_of(seeded_workload(5))
    factors = {}
    for policy in ("easy", "fcfs", "conservative-replan", "easy-sjbf"):
        found = simulate(workload, make_policy(policy), kill=False, run_times=Dilation(limit=0.0, seed=3))
        factors[policy] = (found.run_time / workload.run_time).tolist()
    assert len({tuple(value) for value in factors.values()}) == 1
    drawn = [Dilation(seed=3).factor(job) for job in range(2000)]
    assert 1.052 <= min(drawn) < 1.06 and 1.205 < max(drawn) < 1.211
    assert Dilation(seed=4).factor(1) != Dilation(seed=3).factor(1)


def test_by_the_mean_the_whole_run_counts():
    """Job 1 runs 100 s; job 2, longer itself, fills the machine for 50 s of them: 95 %, not above; for 51 s: above."""
    for busy, longer in ((20, False), (33, False), (34, True), (60, True)):
        workload = jobs((0, 90, 200, 100), (10, 10, 200, busy))
        found = runs(workload, by="mean", low=1.5, high=1.5)
        assert found[0] == (150 if longer else 100), busy
        assert found[1] == -(-busy * 3 // 2)  # all of it is at 100 %: longer, too


def test_by_the_mean_equals_a_slow_computation():
    """From the finished schedule alone: the integral of processors in use over each undilated run."""
    longer = 0
    for seed in range(40):
        workload = workload_of(seeded_workload(seed))
        found = simulate(workload, make_policy("easy"), kill=False, run_times=Dilation(limit=0.8, by="mean", seed=seed))
        seconds = np.arange(found.end.max() + 1)
        used = sum(
            np.where((found.start[row] <= seconds) & (seconds < found.end[row]), workload.procs[row], 0)
            for row in range(len(workload))
        )
        for row in range(len(workload)):
            run = int(workload.run_time[row])
            over = used[found.start[row] : found.start[row] + run].sum() > 0.8 * PROCS * run
            factor = Dilation(seed=seed).factor(int(workload.job_id[row]))
            assert found.run_time[row] == (np.ceil(run * factor - 1e-9) if over else run), (seed, row)
            longer += over
    assert longer > 50


def test_a_killed_run_is_cut_at_its_request_and_counted():
    workload = jobs((0, 96, 110, 100), (0, 2, 150, 100))
    found = simulate(workload, make_policy("easy"), run_times=Dilation(low=1.2, high=1.2))
    assert found.run_time.tolist() == [110, 120] and found.killed.tolist() == [True, False]


def test_what_explains_and_checks_understands_a_dilated_run():
    some, procs = crowded_workload(2, 60)
    workload, model = workload_of(some, procs), Dilation(limit=0.7, seed=2)
    found = simulate(workload, make_policy("easy"), kill=False, run_times=model)
    checked = check(found, make_policy("easy"), kill=False)
    assert checked.left_out[ENDS] == BY_RUN_TIMES.text
    late = int(workload.job_id[np.argmax(found.wait)])
    explanation = explain(found, late, make_policy("easy"), kill=False, run_times=model)
    assert explanation.chain[-1].finding.rule == "starts"


def test_nothing_can_be_supposed_beside_a_model_of_run_times():
    simulation = Simulation(jobs((0, 1, 9, 9)), make_policy("easy"), run_times=Dilation())
    simulation.run(until=0)
    with pytest.raises(JobcastError, match="leave it out to suppose other run times"):
        simulation.suppose({0: 5})


@pytest.mark.parametrize(
    ("about", "told"),
    [({"limit": 1.5}, "from 0 to 1; got 1.5"), ({"low": 0.9}, "factors from 1 on"), ({"by": "end"}, "'start' or its")],
)
def test_a_model_that_makes_no_sense_is_refused(about, told):
    with pytest.raises(JobcastError, match=told):
        Dilation(**about)
