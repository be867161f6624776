"""Why a job waited: the chain agrees with the schedule, says what a hand would say, and refuses what it cannot tell."""

import json
from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Workload, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.policies.gates import Verdict
from tests.support.engine_runs import EVERY_POLICY, jobs_of, workload_of
from tests.support.strategies import seeded_estimates, seeded_workload

LONGER = ("conservative-compress", "knapsack")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONGER else []) for name in EVERY_POLICY]
)
def test_every_job_is_explained_up_to_its_start_and_no_further(name):
    for seed in range(3):
        jobs = seeded_workload(seed, least_run=0)
        workload, policy, given = workload_of(jobs), make_policy(name), np.array(seeded_estimates(seed, jobs))
        schedule = simulate(workload, policy, given, "incremental")
        for row, job in enumerate(workload.job_id.tolist()):
            found = explain(schedule, job, policy, given, "incremental")
            assert found.start == schedule.start[row] and found.chain[-1].finding.rule == "starts"
            assert all(stretch.finding.rule != "starts" for stretch in found.chain[:-1])
            assert sum(stretch.instants for stretch in found.chain) == found.looked_at == found.instants
            times = [time for stretch in found.chain for time in (stretch.first, stretch.last)]
            assert times == sorted(times) and times[0] == found.submit
            assert json.dumps(found.to_dict()) and len(in_words(found)) >= 2


def hand_made(requested=(10, 10, 9)):
    """Job 2 heads the queue at t=1 behind job 1; two processors stay free."""
    return Workload.from_columns(
        [1, 2, 3], submit=[0, 1, 2], procs=[6, 8, 2], requested=requested, run_time=requested, machine_procs=8,
        origin=100,
    )  # fmt: skip


def words(policy, job=3, workload=None, **more):
    rule = make_policy(policy) if isinstance(policy, str) else policy
    schedule = simulate(workload or hand_made(), rule, **more)
    return in_words(explain(schedule, job, rule, **more))


def test_a_job_that_would_delay_the_head_by_hand():
    assert words("easy")[1] == (
        "t=102: job 3 was not backfilled: it would end at t=111, after the shadow time t=110 of job 2, and needs "
        "2 processors where 0 are extra (an estimate of at most 8 s would have let it start)."
    )
    short = hand_made((10, 10, 8))
    assert "it would end at t=110, by the shadow time t=110 of job 2" in words("easy", workload=short)[1]


def test_the_other_reasons_by_hand():
    assert "no job may pass the head" in words("fcfs")[1]
    assert "it headed the queue, but needs 8 processors and 2 were free; by the estimates it fits at t=110" in " ".join(
        words("easy", job=2)
    )
    assert "reserved for job 2; its own is for t=120" in words("conservative-replan")[1]
    assert "reserved for job 2; its own is for t=120" in words("conservative-compress")[1]
    assert "lastly: too few processors were free: it needs 8, free were 6" in words("binpacking", job=2)[1]


def test_a_promise_is_named():
    """Estimates would let job 3 pass job 2; the requested times, by which job 2 was promised t=110, would not."""
    said = words("easy+promise", estimates=np.array([10, 10, 5]))
    assert "by its requested time it would end at t=111, after t=110, which job 2 was promised" in said[1]


class Until:
    """A gate that holds one job until a second."""

    def ask(self, candidate):
        """Hold row 2 until 5 s."""
        return Verdict(candidate.row != 2 or candidate.now >= 5, "too hot", recheck=3)


def test_a_gate_is_quoted():
    policy = replace(make_policy("easy"), gate=Until())
    said = words(policy, workload=hand_made((10, 10, 4)))
    assert said[1] == "t=102: it could have started, but was held: too hot."
    assert said[2].startswith("t=105: started, backfilled")


def test_who_passed_is_told():
    workload = jobs_of((0, 6, 10, 10), (1, 8, 9, 9), (2, 1, 5, 5), (3, 1, 5, 5), machine=8)
    found = explain(simulate(workload, make_policy("easy")), 2, make_policy("easy"))
    assert found.passed_by == ((3, 2, "backfilled"), (4, 3, "backfilled"))
    assert "2 jobs that were submitted after it started before it, 2 of them backfilled: 3, 4." in in_words(found)


def test_long_waits_are_looked_at_in_part_and_say_so():
    jobs = [(0, 8, 100, 100), *((k, 8, 1, 1) for k in range(1, 40))]
    columns = dict(zip(("submit", "procs", "requested", "run_time"), np.array(jobs).T, strict=True))
    workload = Workload.from_columns(np.arange(40), machine_procs=8, **columns)
    schedule = simulate(workload, make_policy("fcfs"))
    found = explain(schedule, 20, make_policy("fcfs"), most_instants=5)
    assert found.looked_at <= 7 < found.instants and found.chain[-1].finding.rule == "starts"
    assert in_words(found)[-1].startswith(f"Examined {found.looked_at} of the {found.instants}")


def test_what_cannot_be_explained_is_refused():
    jobs = seeded_workload(1)
    workload, easy = workload_of(jobs), make_policy("easy")
    schedule = simulate(workload, easy)
    with pytest.raises(JobcastError, match=r"has no job 999; its \d+ jobs are 1 to"):
        explain(schedule, 999, easy)
    with pytest.raises(JobcastError, match="2 instants or more; got 1"):
        explain(schedule, 1, easy, most_instants=1)
    with pytest.raises(JobcastError, match="positive whole seconds"):
        explain(schedule, 1, easy, np.zeros(len(workload), dtype=np.int64))
    other = simulate(workload, make_policy("fcfs")).start
    moved = int(workload.job_id[np.argmax(other != schedule.start)])
    with pytest.raises(JobcastError, match="not when the simulation is run again"):
        explain(schedule, moved, make_policy("fcfs"))
