"""`paranoid.check` passes every schedule of the engine and names job, second and law of every planted fault."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Workload, make_policy, make_revised_estimates, simulate
from schedsim.machine.outages import Change, Outages
from schedsim.policies.policy import ceil
from schedsim.results.schedule import BACKFILLED, READY, STARTED_BY, Schedule
from schedsim.validate import laws as known
from schedsim.validate.validate import check
from tests.by_hand.scenario import PROCS as SCENARIO_PROCS
from tests.by_hand.scenario import SCENARIO
from tests.oracle.easy import rule_named
from tests.oracle.easy import simulate as simulate_slowly
from tests.schedsim.engine.test_broken_engines import (
    ExtraNeverUsedUp,
    ForgetsOneEnd,
    FrozenShadow,
    KnowsRunTimes,
    LaterJobFirst,
    NoHead,
    NoPromise,
    OneAtATime,
    Overbooks,
)
from tests.schedsim.engine.test_revisions import as_log, random_jobs
from tests.support.engine_runs import EVERY_POLICY, estimates_of, jobs_of, workload_of
from tests.support.strategies import PROCS, seeded_workload


def run(name, estimates="requested", jobs=SCENARIO, procs=SCENARIO_PROCS, correction="requested", kill=True):
    workload = workload_of(jobs, procs)
    return simulate(workload, make_policy(name), estimates_of(workload, estimates), correction, kill)


def test_what_is_checked_and_what_is_not():
    """Every law is either kept or left out with a reason."""
    for name in EVERY_POLICY:
        checked = check(run(name), make_policy(name))
        assert {*checked.kept, *checked.left_out} == set(known.EXCUSES)
        assert not set(checked.kept) & set(checked.left_out)
    assert set(check(run("easy"), make_policy("easy")).left_out) == {
        known.PARTS, known.NODES, known.ON_NODES, known.CEILING, known.IN_ORDER, known.PROMISE, known.BOUND,
        known.NOTHING_FITS, known.PARENTS, known.SHARES, known.AVAILABLE,
    }  # fmt: skip
    assert check(run("wfp3-easy"), make_policy("wfp3-easy")).left_out[known.HARMLESS] == known.MOVING.text


def changed(schedule, row, **values):
    """Change one job in a finished schedule; its end moves with its start unless it is given."""
    if "start" in values and "end" not in values:
        values["end"] = values["start"] + schedule.run_time[row]
    columns = {name: getattr(schedule, name).copy() for name in values}
    for name, value in values.items():
        columns[name][row] = value
    return replace(schedule, **columns)


# Under EASY (see scenario_by_hand.py) job 5 runs 100-130, 9 161-171, 12 170-180 after 10; row = job id - 1.
FAULTS = {
    "early": ("easy", 11, {"start": 129}, known.STARTS, "job 12 starts at 129 s, submitted at 130 s"),
    "never": ("easy", 11, {"start": -1}, known.STARTS, "job 12 starts at -1 s"),
    "cut short": ("easy", 11, {"end": 179}, known.ENDS, "starts at 170 s and ends at 179 s, but runs 10 s"),
    "crowded": ("easy", 4, {"start": 80}, known.CAPACITY, "job 3 starts at 80 s, when 15 of 10 processors"),
    "between": ("easy", 11, {"start": 175}, known.INSTANTS, "job 12 starts at 175 s, when nothing ends"),
    "not as given": ("easy", 3, {"estimate": 49}, known.RANGE, "job 4 was planned with 49 s; 50 s was given"),
    "too long": (
        "easy", 3, {"last_estimate": 51}, known.RANGE, "job 4 has a last estimate of 51 s, a request of 50",
    ),
    "corrected": ("easy", 7, {"last_estimate": 60}, known.CORRECTED, "job 8 starts at 11 s and runs at 130 s"),
    "needless": ("easy", 11, {"last_estimate": 9}, known.CORRECTED, "job 12 starts at 170 s"),
    "idle": ("easy", 11, {"start": 171}, known.NO_IDLE_HEAD, "job 12 could start at 170 s: 2 processors are free"),
    "out of turn": ("fcfs", 7, {"start": 1}, known.IN_ORDER, "job 8 passes job 3"),
    "called so": ("easy", 8, {"started_by": BACKFILLED}, known.KIND, "job 9 is called backfilled"),
    "not called so": (
        "easy", 3, {"started_by": READY}, known.KIND, "job 4 passes job 3, and is not called backfilled",
    ),
    "harm": ("easy", 5, {"start": 90}, None, "job 6"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault):
    name, row, values, law, text = FAULTS[fault]
    with pytest.raises(JobcastError) as error:
        check(changed(run(name), row, **values), make_policy(name))
    assert text in str(error.value), str(error.value)
    assert law is None or law in str(error.value), str(error.value)


def as_schedule(jobs, outcome):
    """Wear the engine's clothes."""
    workload = workload_of(jobs)
    start = np.array(outcome.start)
    codes = np.array([STARTED_BY.index(by) for by in outcome.started_by])
    end = start + np.minimum(workload.run_time, workload.requested)
    return Schedule(workload, start, end, np.array(outcome.estimate), np.array(outcome.last_estimate), codes)


BROKEN = [
    (NoHead, "fcfs", "requested", {known.IN_ORDER}),
    (NoHead, "easy", "requested", {known.HARMLESS, known.FIRST_SHADOW}),
    (ExtraNeverUsedUp, "easy", "requested", {known.HARMLESS, known.FIRST_SHADOW}),
    (FrozenShadow, "easy", "requested", {known.HARMLESS}),
    (KnowsRunTimes, "easy-sjbf", "requested", {known.HARMLESS}),
    (LaterJobFirst, "saf-easy", "requested", {known.NO_IDLE_HEAD, known.KIND, known.HARMLESS}),
    (OneAtATime, "binpacking", "requested", {known.NOTHING_FITS}),
    (Overbooks, "binpacking", "requested", {known.CAPACITY}),
    (NoPromise, "easy+promise", "tsafrir", {known.PROMISE}),
    (ForgetsOneEnd, "easy", "tsafrir", {known.CORRECTED}),
]


@pytest.mark.parametrize(("site", "name", "estimates", "laws"), BROKEN)
def test_schedules_of_broken_engines_are_refused(site, name, estimates, laws):
    """Of many schedules of a simulator with one broken rule some are refused, for what it breaks."""
    refused = set()
    for seed in range(400):
        jobs = seeded_workload(seed)
        outcome = simulate_slowly(jobs, PROCS, rule_named(name), estimates, site_type=site)
        schedule = as_schedule(jobs, outcome)
        given = np.array(outcome.estimate)
        try:
            check(schedule, make_policy(name), given)
        except JobcastError as error:
            refused |= {law for law in known.EXCUSES if law in str(error)}
        if seed > 60 and refused >= laws:
            break
    assert refused == laws


def test_promises_are_looked_at_with_any_estimates():
    """The promise counts by requested times: it is checked although the guesses were too short."""
    jobs = seeded_workload(5)
    schedule = run("easy+promise", "tsafrir", jobs, PROCS)
    workload = workload_of(jobs)
    assert known.PROMISE in check(schedule, make_policy("easy+promise"), estimates_of(workload, "tsafrir")).kept


@pytest.mark.parametrize("name", ["careful", "easy", "hybrid-2+promise", "sjf-easy", "binpacking"])
def test_revised_estimates_leave_the_promise_and_the_machine_to_check(name):
    for seed in range(20):
        log = as_log(random_jobs(seed))
        revised = make_revised_estimates("careful").forecast(log)
        schedule = simulate(Workload.from_log(log), make_policy(name), revised)
        checked = check(schedule, make_policy(name), make_revised_estimates("careful").forecast(log))
        assert checked.left_out[known.CORRECTED] == known.REVISED.text
        assert known.CAPACITY in checked.kept and (known.PROMISE in checked.kept) == (
            make_policy(name).promise is not None
        )


def test_a_promise_missed_under_revised_estimates_is_refused():
    """What is left to check bites."""
    policy, revised = make_policy("easy+promise"), make_revised_estimates("careful").forecast(as_log(random_jobs(0)))
    refused = []
    for seed in range(100):
        jobs = seeded_workload(seed)
        outcome = simulate_slowly(jobs, PROCS, rule_named("easy+promise"), "tsafrir", site_type=NoPromise)
        try:
            check(as_schedule(jobs, outcome), policy, revised)
        except JobcastError as error:
            refused.append(str(error))
    assert refused and all(known.PROMISE in message for message in refused)


@pytest.mark.parametrize("name", ["easy", "fcfs", "saf-easy", "binpacking"])
def test_a_long_queue_is_walked_in_one_go(name):
    """A queue as long as the log: nothing in the walk looks at all that wait."""
    random = np.random.default_rng(1)
    n_jobs = 20_000
    requested = random.integers(1, 600, n_jobs)
    columns = {
        "submit": np.sort(random.integers(0, 1000, n_jobs)),
        "procs": random.integers(1, 60, n_jobs),
        "requested": requested,
        "run_time": random.integers(1, requested + 1),
    }
    workload = Workload.from_columns(np.arange(n_jobs), machine_procs=64, **columns)
    check(simulate(workload, make_policy(name)), make_policy(name))


def test_a_wide_job_that_a_failure_stopped_lifted_what_was_in_use_above_the_ceiling():
    """Jobs 1 and 2 start beside the exempt job 3 in one second; job 3 is stopped, and runs later."""
    jobs = jobs_of((0, 1, 10, 10), (0, 1, 10, 10), (0, 8, 10, 10), machine=10)
    broken = Outages(changes=[Change(5, "fail", 1), Change(20, "repair", 1)])
    policy = ceil(make_policy("easy"), ceiling=0.8, postpone=None)
    schedule = simulate(jobs, policy, outages=broken)
    assert schedule.disturbed.runs.tolist()[0] == [2, 0, 5] and schedule.start[0] == 0
    assert known.CEILING in check(schedule, policy).kept
