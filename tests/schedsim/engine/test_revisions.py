"""Revised estimates, and the default: the engine equals the slow oracle, promises are kept, forks go on alike."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import schedsim.kernels.records as at
from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.data.joblog import JobLog
from predictors.models.similar_jobs import REVISED_ESTIMATES, SimilarRuns, make_revised_estimates
from schedsim.engine.simulation import Simulation, simulate
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.allocators import Contiguous
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.topology import Topology
from schedsim.policies.agents import RandomPicks
from schedsim.policies.backfilling import Easy, Promise
from schedsim.policies.orders import Order, Priority
from schedsim.policies.policy import SJF, Policy, make_policy
from schedsim.policies.rush import Scripted, rush
from schedsim.results.schedule import STARTED_BY
from schedsim.workload.estimates import Separate
from schedsim.workload.workload import Workload
from tests.oracle.easy import Job, Rule, rule_named
from tests.oracle.easy import simulate as simulate_slowly
from tests.oracle.similar_runs import SimilarRuns as SlowSimilarRuns
from tests.support.engine_runs import EVERY_POLICY, workload_of
from tests.support.slow import slow_but
from tests.support.strategies import PROCS, Fickle, seeded_workload


def random_jobs(seed, most=40):
    """Jobs (job_id, submit, procs, requested, run_time, user) of few users and requests, so that samples come about."""
    random = Random(seed)
    step, n_jobs = random.choice([1, 5, 60, 3600]), random.randint(2, most)
    requests = [random.randint(1, 12) for _ in range(3)]
    jobs = []
    for job_id in random.sample(range(1, n_jobs + 1), n_jobs):
        requested = step * random.choice(requests)
        run_time = random.choice([requested, random.randint(1, requested), 1 + requested // 7])
        width = random.choice([random.randint(1, PROCS), random.randint(1, 3)])
        jobs.append((job_id, step * random.randint(0, n_jobs), width, requested, run_time, random.randint(-1, 2)))
    first = min(job[1] for job in jobs)
    return sorted(((i, s - first, *rest) for i, s, *rest in jobs), key=lambda job: (job[1], job[0]))


def as_log(jobs):
    job_id, submit, procs, requested, run_time, user = np.array(jobs).T
    columns = {"job_id": job_id, "submit": submit, "requested_procs": procs, "requested_time": requested}
    columns |= {"run_time": run_time, "user": user}
    return JobLog.from_columns(columns, {"user": user < 0}, max_procs=PROCS)


def rule_of(promise=True, priority=None, **more):
    order = {"backfill_order": "sjf"} if priority is None else {"order": "priority", "priority": priority}
    return Rule(depth=1, promise=promise, **order, **more)


def policy_of(rule):
    promise = Promise(rule.slack, rule.growth, rule.least, rule.most, rule.kept) if rule.promise else None
    if rule.priority is None:
        return Policy(backfill=Easy(SJF), promise=promise)
    return Policy(Order.by_priority(Priority(*rule.priority)), Easy(), promise)


RULES = [
    (SimilarRuns(factor=1.0), rule_of()),
    (SimilarRuns(3, factor=0.7), rule_of(slack=3600)),
    (SimilarRuns(2, 0.03, "geometric", 0.5, 0.75), rule_of(slack=60)),
    (SimilarRuns(1, 2.0, factor=1.0, quantile=1.0), rule_of(promise=False)),
    (SimilarRuns(), rule_of(priority=(3600.0, 0.7, 0.0, 3600, 0.6), slack=60, growth=0.2, most=3600, kept=True)),
    (SimilarRuns(2, factor=0.5), rule_of(priority=(1.0, 1.5, 0.4, 20, 0.3), slack=30, kept=True)),
    (
        SimilarRuns(factor=1.0),
        rule_of(priority=(60.0, 1.0, 0.1, 90, 0.35), slack=120, growth=-0.4, least=10, most=120, kept=True),
    ),
    (SimilarRuns(3, factor=1.0), rule_of(promise=False, priority=(60.0, 0.5, -0.2, None, 0.0))),
    (SimilarRuns(3, factor=0.7), rule_of(priority=(10.0, 1.0, 0.0, 0, 2.0))),
]


def in_both(seed, about, rule):
    """Return the starts of the engine, and what the slow oracle says."""
    jobs = random_jobs(seed)
    log, slow = as_log(jobs), [Job(*job) for job in jobs]
    found = simulate(Workload.from_log(log), policy_of(rule), about.forecast(log))
    return found.start.tolist(), simulate_slowly(slow, PROCS, rule, revised=SlowSimilarRuns(slow, about))


@pytest.mark.parametrize("seeds", slow_but((range(60), range(60, 250)), range(60)), ids=str)
@pytest.mark.parametrize(("about", "rule"), RULES)
def test_equals_the_slow_oracle(about, rule, seeds):
    for seed in seeds:
        found, expected = in_both(seed, about, rule)
        assert found == expected.start, seed


def test_the_promise_with_slack_is_kept_and_binds():
    late, rule = 0, rule_of(slack=5)
    for seed in range(150):
        start, expected = in_both(seed, SimilarRuns(2, factor=0.01), rule)
        assert all(start[row] <= promise for row, promise in expected.promises.items())
        late += sum(start[row] > promise - rule.slack for row, promise in expected.promises.items())
    assert late > 0  # some head used its slack up: without it there would be nothing to keep


def test_a_fork_may_take_other_estimates_for_jobs_to_come():
    log = as_log(random_jobs(5, most=60))
    workload, policy = Workload.from_log(log), make_policy("easy-sjbf")
    for first, second in [
        (None, REVISED_ESTIMATES["bold"]),
        (REVISED_ESTIMATES["bold"], None),
        (REVISED_ESTIMATES["bold"], SimilarRuns(runs=30)),
    ]:
        simulation = Simulation(workload, policy, first and first.forecast(log))
        simulation.run(int(workload.submit[len(workload) // 2]))
        fork = simulation.fork(workload.requested if second is None else second.forecast(log))
        fork.run()
        overlap(fork.schedule())


def overlap(schedule):
    """Fail if more processors than there are were ever in use."""
    times = np.concatenate([schedule.start, schedule.end])
    change = np.concatenate([schedule.workload.procs, -schedule.workload.procs])
    order = np.lexsort((change, times))
    assert np.cumsum(change[order]).max() <= PROCS


class Told:
    """Revised estimates made of a table: row -> (running, candidate, order, ladder)."""

    n_steps = 2

    def __init__(self, answers):
        self.answers = answers

    def advance(self, events, out):
        """Answer on the new jobs."""
        rows = [job for _, kind, job in events.tolist() if kind == 0]
        for place, row in enumerate(rows):
            out[place] = (row, *self.answers[row])
        return len(rows)

    def fork(self):
        """Return another one."""
        return Told(self.answers)


def test_a_rung_is_climbed_at_the_first_instant_not_before_it():
    """Job 0 holds the machine. It is expected to run 5 s, from 4 s elapsed on 9 s.

    Job 1 is the blocked head. Job 2, one processor for 6 s, is submitted at 3 s and would delay it (3 + 6 > 5). Job 3,
    for 4 s, is submitted at 5 s: the instant at which the head is expected at 9 s. It fits, job 2 does not. When it
    ends, at 9 s, the estimate has expired and is corrected to the request, 20 s: job 2 starts. Without the steps it is
    corrected so at 5 s already, and job 2 starts then.
    """
    inf = np.inf
    told = {
        0: (5, 5, 5, 4, 9, inf, inf),
        1: (6, 6, 6, inf, inf, inf, inf),
        2: (6, 6, 6, inf, inf, inf, inf),
        3: (4, 4, 4, inf, inf, inf, inf),
    }
    workload = Workload.from_columns(
        [0, 1, 2, 3], submit=[0, 1, 3, 5], procs=[7, 8, 1, 1], requested=[20, 6, 6, 4], run_time=[11, 6, 6, 4],
        machine_procs=8,
    )  # fmt: skip
    found = simulate(workload, make_policy("easy"), Told(told))
    assert found.start.tolist() == [0, 15, 9, 5]
    assert found.last_estimate.tolist() == [20, 6, 6, 4]
    without = {0: (5, 5, 5, inf, inf, inf, inf)} | {row: told[row] for row in (1, 2, 3)}
    assert simulate(workload, make_policy("easy"), Told(without)).start.tolist() == [0, 11, 5, 17]


def test_answers_grow_with_the_queue():
    n = 3000
    log = as_log([(job_id, 0, PROCS, 9, 1, 0) for job_id in range(n)])
    assert simulate(Workload.from_log(log), make_policy("careful"), SimilarRuns().forecast(log)).start[-1] == n - 1


def test_refusals_name_the_rule():
    log = as_log(random_jobs(1))
    workload, revised = Workload.from_log(log), SimilarRuns().forecast(log)
    with pytest.raises(JobcastError, match="alone"):
        simulate(workload, make_policy("easy"), Separate(revised, workload.requested, workload.requested))
    with pytest.raises(JobcastError, match="slack"):
        Promise(slack=-5)
    with pytest.raises(JobcastError, match="no number"):
        simulate(workload, make_policy("easy"), Told(dict.fromkeys(range(len(workload)), (np.nan,) * 7)))
    with pytest.raises(JobcastError, match="did you mean 'bold'"):
        make_revised_estimates("blod")
    wrong = {"runs": 0, "request_weight": 0.0, "factor": float("nan"), "quantile": 0.0, "candidate": "x"}
    for name, value in wrong.items():
        with pytest.raises(JobcastError, match=str(value)):
            SimilarRuns(**{name: value})


@pytest.mark.parametrize("seeds", slow_but((range(6), range(6, 40)), range(6)), ids=str)
@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if name != "conservative-compress"])
def test_engine_equals_oracle_under_revised_estimates(name, seeds):
    """Starts, kinds of start, first and last estimates; `conservative-compress` refuses such estimates."""
    for seed in seeds:
        jobs, correction = seeded_workload(seed, least_run=seed % 2), list(CORRECTIONS)[seed % len(CORRECTIONS)]
        found = simulate(workload_of(jobs), make_policy(name), Fickle(jobs, seed), correction)
        source = Fickle(jobs, seed)
        expected = simulate_slowly(jobs, PROCS, rule_named(name), correction=correction, revised=source)
        assert found.start.tolist() == expected.start, f"seed {seed}"
        assert found.estimate.tolist() == expected.estimate, f"seed {seed}"
        assert found.last_estimate.tolist() == expected.last_estimate, f"seed {seed}"
        assert [STARTED_BY[code] for code in found.started_by] == expected.started_by, f"seed {seed}"


class Alone:
    """The same estimates, told for each job by itself."""

    def __init__(self, told):
        self.told, self.n_steps, self.advance = told, told.n_steps, told.advance

    def fork(self):
        """Return a copy that goes on by itself."""
        return Alone(self.told.fork())


def maintenance(span):
    """Return reservations all along a time span [s]."""
    step = max(4, span // 12)
    return {"outages": Outages([Reservation(step * k, step * k + step // 3, 1 + k % PROCS) for k in range(1, 60)])}


def failures(span):
    """Return nodes that fail and are repaired all along a time span [s]."""
    step = max(4, span // 12)
    pairs = ((0, "fail"), (step // 2, "repair"))
    return {"outages": Outages(changes=[Change(step * k + t, kind, 2) for k in range(1, 60) for t, kind in pairs])}


def nodes(_span):
    """Return nodes with identities."""
    return {"allocator": Contiguous(Topology(2, PROCS // 2))}


def plain(_span):
    """Return numbers of processors only."""
    return {}


ODD = np.arange(1000) % 3 == 0
OWN = {
    "gated": rush(make_policy("careful"), Scripted(2 * ODD), threshold=2),
    "gated sjf": rush(make_policy("sjf-easy"), Scripted(2 * ODD), threshold=2),
    "agent": Policy(backfill=Easy(), agent=RandomPicks(3)),
    "own order": Policy(Order.by(lambda jobs: jobs.estimate * jobs.procs), Easy()),
}
WITHOUT_GROUPS = ("conservative-compress", "knapsack")
STATIC = ("fcfs", "sjf", "ljf", "saf", "laf", "f1", "f2", "f3", "f4")


def merged_from_groups(name, parts):
    """Return whether the candidates of a policy are searched by group, not listed one by one."""
    base, _, more = name.partition("+")
    if base.startswith(("hybrid", "conservative")):
        return parts is plain and more != "promise"
    order = base.removesuffix("-easy")
    known = order in STATIC and base != "fcfs" and ("ceil" not in more or base == "fcfs-easy")
    return parts is not failures and (known or base in ("easy", "easy-sjbf", "careful", "gated", "gated sjf"))


BY_GROUP = [
    *((name, plain) for name in EVERY_POLICY if name not in WITHOUT_GROUPS),
    *((name, plain) for name in ("careful+ceil", "easy+ceil", "ceil", "sjf-easy+ceil", *OWN)),
    *((name, nodes) for name in ("easy-sjbf", "easy", "sjf-easy")),
    *((name, maintenance) for name in ("careful", "easy", "sjf-easy", "conservative-replan")),
    *((name, failures) for name in ("careful", "easy", "sjf-easy", "wfp3-easy", "hybrid-2")),
]


def by_name(part):
    return part if isinstance(part, str) else part.__name__


@pytest.mark.parametrize(("name", "parts"), [case for case in BY_GROUP if case != ("agent", plain)], ids=by_name)
def test_revisions_by_group_and_by_job_give_one_schedule(name, parts):
    """Also of what is noted of each waiting job, and of a fork that takes other estimates in the middle."""
    give_one_schedule(name, parts, range(3))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parts"), BY_GROUP, ids=by_name)
def test_revisions_by_group_and_by_job_give_one_schedule_of_many_workloads(name, parts):
    give_one_schedule(name, parts, range(24) if (name, parts) == ("agent", plain) else range(3, 24))


def give_one_schedule(name, parts, seeds):
    policy = OWN[name] if name in OWN else make_policy(name)
    for seed in seeds:
        log = as_log(random_jobs(seed, most=90))
        workload, rule = Workload.from_log(log), list(REVISED_ESTIMATES.values())[seed % 2]
        if policy.postpone is not None:
            due = workload.submit + 4 * workload.requested + policy.postpone.lead
            workload = replace(workload, deadline=np.where(ODD[: len(due)], -1, due))
        own = parts(int(workload.submit[-1]) + 1)
        together = Simulation(workload, policy, rule.forecast(log), **own)
        alone = Simulation(workload, policy, Alone(rule.forecast(log)), **own)
        assert (together._state.record.queue.grouped, alone._state.record.queue.grouped) == (True, False)
        assert (together._state.record.queue.candidates == at.GROUPED) == merged_from_groups(name, parts)
        middle = int(workload.submit[len(workload) // 2])
        merged = Simulation(workload, policy, rule.forecast(log), **own)
        merged.run(middle)
        noted = [one.run_noting(middle) for one in (together, alone)]
        waiting = [set(one.queued.tolist()) for one in (together, alone)]
        assert waiting[0] == waiting[1], seed
        named = [
            {
                row: tuple(notes[slot].tolist())
                for slot, row in zip(one._state.slots(at.QUEUE), one.queued.tolist(), strict=True)
            }
            for one, notes in zip((together, alone), noted, strict=True)
        ]
        assert named[0] == named[1], seed
        assert merged.queued.tolist() == alone.queued.tolist(), seed
        forks = [one.fork(workload.requested) for one in (together, alone, merged)]
        kept = [one.fork() for one in (together, merged)]
        for one in (together, alone, merged, *kept, *forks):
            one.run()
        expected = alone.schedule()
        for schedule in (one.schedule() for one in (together, merged, *kept)):
            assert schedule.start.tolist() == expected.start.tolist(), seed
            assert schedule.estimate.tolist() == expected.estimate.tolist(), seed
            assert schedule.last_estimate.tolist() == expected.last_estimate.tolist(), seed
            assert schedule.started_by.tolist() == expected.started_by.tolist(), seed
        first, *others = (one.schedule().start.tolist() for one in forks)
        assert others == [first, first], seed


class OnlyOfRunning:
    """Estimates of which a revision changes only that for a running job; one answer stands for a group of jobs."""

    n_steps = 1

    def __init__(self, jobs):
        self.jobs, self.waiting, self.ended = jobs, [], 0
        self.group_of = np.array([job.requested for job in jobs])

    def by_group(self):
        """Answer by group, as it does anyway."""

    def fork(self):
        """Return another one."""
        return OnlyOfRunning(self.jobs)

    def advance(self, events, answers):
        """Answer on the newcomers and, after an end, on one waiting job of each request."""
        kinds = {kind: [row for _, happened, row in events.tolist() if happened == kind] for kind in range(3)}
        self.waiting = [row for row in self.waiting if row not in kinds[STARTED]] + kinds[SUBMITTED]
        self.ended += len(kinds[ENDED])
        one_each = {self.jobs[row].requested: row for row in self.waiting if row not in kinds[SUBMITTED]}
        told = kinds[SUBMITTED] + (list(one_each.values()) if kinds[ENDED] else [])
        for place, row in enumerate(told):
            most = self.jobs[row].requested
            answers[place] = [row, 1 + self.ended % most, max(1, most // 2), most, np.inf, 1.0]
        return len(told)


@pytest.mark.parametrize("name", ["hybrid-2", "hybrid-2+promise", "conservative-replan", "easy-sjbf", "sjf-easy"])
def test_a_job_starts_by_the_last_revision_of_its_running_estimate(name):
    """Whether it heads the queue or is backfilled: the events tell the estimate at the start."""
    for seed in range(30):
        jobs = seeded_workload(seed)
        found = simulate(workload_of(jobs), make_policy(name), OnlyOfRunning(jobs))
        events = sorted(zip(found.start.tolist(), found.end.tolist(), range(len(jobs)), strict=True))
        for start, _, row in events:
            asked_at = max(t for t in (jobs[row].submit, *(end for _, end, _ in events)) if t <= start)
            ended = sum(end <= asked_at for _, end, _ in events)
            assert found.estimate[row] == min(1 + ended % jobs[row].requested, jobs[row].requested), (seed, row)


def test_a_group_whose_jobs_have_several_requests_is_told_job_by_job():
    log = as_log(random_jobs(1))
    workload = Workload.from_log(log)
    rising = Workload.from_columns(
        workload.job_id, submit=workload.submit, procs=workload.procs, requested=workload.requested + workload.job_id,
        run_time=workload.run_time, machine_procs=PROCS,
    )  # fmt: skip
    assert not Simulation(rising, make_policy("easy"), SimilarRuns().forecast(log))._state.record.queue.grouped


def test_the_cost_of_a_revision_does_not_grow_with_the_group():
    """One user's 4,000 jobs wait; each end tells anew what is believed of all: it is answered on one."""
    n = 4000
    log = as_log([(job_id, 0, 1 + job_id % 3, 9, 1 + job_id % 7, 0) for job_id in range(n)])
    forecast, answers = SimilarRuns().forecast(log), []

    class Counted:
        n_steps, group_of, by_group, fork = forecast.n_steps, forecast.group_of, forecast.by_group, forecast.fork

        def advance(self, events, out):
            answers.append(forecast.advance(events, out))
            return answers[-1]

    simulate(Workload.from_log(log), make_policy("default"), Counted())
    assert sum(answers) - n <= len(answers)
