"""Cobalt: routes, scores, holds, dependencies, node sets; equal to a simulator that ticks every 15 seconds."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedsim._kernels_layout as at
from experiments.cobalt_stories import drain, sawtooth
from predictors.data.errors import JobcastError
from predictors.data.synthetic import generate_log
from schedsim import paranoid_laws as known
from schedsim._kernels_score import score_at, squares
from schedsim.accounts import Accounts, Project
from schedsim.commands import Command, read_commands
from schedsim.dependencies import Dependencies
from schedsim.dilation import Dilation
from schedsim.engine import Simulation, simulate
from schedsim.hierarchy import Hierarchy
from schedsim.paranoid import check
from schedsim.partitions import Partitions, Within
from schedsim.policy import make_policy
from schedsim.queue_metrics import capability_share
from schedsim.queues import Queue, Router, mira_router
from schedsim.rules import Rules
from schedsim.score import Score
from schedsim.site_files import rules_of_log
from schedsim.verdicts import findings
from schedsim.workload import Workload
from tests.engine_runs import estimates_of, workload_of
from tests.oracle import rule_named
from tests.oracle_cobalt import House, Stuck
from tests.oracle_cobalt import simulate as ticking
from tests.strategies import PROCS, crowded_workload, seeded_estimates, seeded_workload, workloads
from tests.test_verdicts import instants

QUEUES = [(5, 10**9, 0, 10**9, None), (1, 4, 0, 10**9, 5)]


def rules_of(house, jobs):
    """Return the engine's rules for the oracle's."""
    ids = [job.job_id for job in jobs]
    queues = tuple(
        Queue(f"q{i}", least, None if most == 10**9 else most, longer, None if up_to == 10**9 else up_to, share)
        for i, (least, most, longer, up_to, share) in enumerate(house.queues)
    )
    children = sorted(house.parents)
    dependencies = Dependencies(
        np.array([ids[row] for row in children], dtype=np.int64),
        np.array([ids[house.parents[row][0]] for row in children], dtype=np.int64),
        np.array([house.parents[row][1] for row in children], dtype=np.int64),
        frozenset(ids[row] for row in house.failed),
        "hold" if house.stuck else "run",
    )
    commands = tuple(Command(time, action, ids[row], *to) for time, action, row, *to in house.commands)
    return Rules(Router(queues), dependencies=dependencies, commands=commands)


def seeded_house(seed, jobs, sets=True):
    """Return rules by a seed: a few chains, failures, holds and alterations."""
    draw = random.Random(seed)
    n, step = len(jobs), min(job.requested for job in jobs)
    house = House(
        queues=QUEUES if sets and draw.random() < 0.6 else [(1, 4, 0, 10**9, None), (5, 10**9, 0, 10**9, None)]
    )
    for row in range(1, n):
        if draw.random() < 0.3:
            house.parents[row] = draw.randrange(row), draw.choice([0, 0, step, 7, 100])
    order = draw.sample(range(n), n)
    if draw.random() < 0.3:  # children submitted before their parents
        house.parents = {order[row]: (order[parent], think) for row, (parent, think) in house.parents.items()}
    house.failed = {row for row in range(n) if draw.random() < 0.15}
    house.stuck = draw.random() < 0.5
    last = max(job.submit for job in jobs) + 10 * step
    for row, job in enumerate(jobs):
        chance = draw.random()
        if chance < 0.15:
            held = draw.choice([job.submit, job.submit + draw.randint(1, 5 * step)])
            house.commands.append((held, "hold", row))
            house.commands.append((held + draw.randint(1, 6 * step), "release", row))
        elif chance < 0.3:
            to = draw.choice([None, draw.randint(1, PROCS)]), draw.choice([None, step * draw.randint(1, 6)])
            house.commands.append((job.submit + draw.randint(1, 4 * step), "alter", row, *to))
        if house.stuck and draw.random() < 0.9:
            house.commands.append((last + draw.randint(0, 40 * step), "release", row))
    house.commands.sort(key=lambda command: command[0])
    return house


def run_both(jobs, policy, house, estimates="requested", correction="requested", kill=True):
    workload, believed = workload_of(jobs), estimates_of(workload_of(jobs), estimates)
    rule = rule_named(policy)
    expected = None
    try:
        expected = ticking(jobs, PROCS, rule, house, estimates, correction, kill)
    except Stuck:
        with pytest.raises(JobcastError, match="held for ever"):
            simulate(workload, make_policy(policy), believed, correction, kill, rules=rules_of(house, jobs))
        return None
    schedule = simulate(workload, make_policy(policy), believed, correction, kill, rules=rules_of(house, jobs))
    assert schedule.start.tolist() == expected.start
    assert schedule.last_estimate.tolist() == expected.last_estimate
    return schedule


@pytest.mark.parametrize("policy", ["cobalt", "easy", "easy-sjbf"])
def test_equals_the_simulator_that_ticks_under_a_sites_rules(policy):
    ran = 0
    for seed in range(60):
        jobs = seeded_workload(seed, least_run=0 if seed % 3 == 0 else 1)
        guesses = seeded_estimates(seed, jobs) if seed % 2 else "requested"
        correction = ["requested", "incremental", "doubling"][seed % 3]
        ran += run_both(jobs, policy, seeded_house(seed, jobs), guesses, correction) is not None
    assert ran > 40


@given(jobs=workloads(least_run=0), seed=st.integers(0, 10**6), policy=st.sampled_from(["cobalt", "easy", "default"]))
@settings(max_examples=120, deadline=None)
def test_also_on_workloads_that_search_for_a_difference(jobs, seed, policy):
    run_both(jobs, policy, seeded_house(seed, jobs))


def test_ticks_are_needed_and_those_left_out_are_not(monkeypatch):
    """On longer queues; without any ticks beside ends and submissions, schedules are others."""
    jobs_of = [(crowded_workload(seed), seed) for seed in range(40)]
    few = [(jobs[:90], procs, seed) for (jobs, procs), seed in jobs_of if max(job.requested for job in jobs) <= 2400]
    runs = []
    for jobs, procs, seed in few[:8]:
        guesses = seeded_estimates(seed, jobs)
        expected = ticking(jobs, procs, rule_named("cobalt"), None, guesses, "doubling")
        workload = workload_of(jobs, procs)
        found = simulate(workload, make_policy("cobalt"), np.array(guesses), "doubling").start.tolist()
        assert found == expected.start, seed
        runs.append((workload, guesses, found))
    monkeypatch.setattr(Rules, "ticking", lambda self, policy: 0)
    assert any(
        simulate(workload, make_policy("cobalt"), np.array(guesses), "doubling").start.tolist() != found
        for workload, guesses, found in runs
    )


@pytest.mark.parametrize("policy", ["cobalt", "easy-sjbf"])
def test_passes_under_rules_are_told_as_they_are_and_keep_their_laws(policy):
    told = 0
    for seed in range(0, 60, 3):
        jobs = seeded_workload(seed + 1)
        house = seeded_house(seed, jobs)
        house.commands = [command for command in house.commands if command[1] != "alter"]
        rules, workload = rules_of(house, jobs), workload_of(jobs)
        try:
            schedule = simulate(workload, make_policy(policy), rules=rules)
        except JobcastError:
            continue
        told += 1
        for instant in instants(Simulation(workload, make_policy(policy), rules=rules)):
            found = findings(instant, make_policy(policy))
            assert {row for row, finding in found.items() if finding.rule == "starts"} == instant.started
            assert found.keys() == {job.row for job in instant.queue} | instant.held.keys()
        checked = check(schedule, make_policy(policy), rules=rules)
        assert {known.PARENTS, known.SHARES} <= set(checked.kept)
    assert told > 8


# --- routes -------------------------------------------------------------------------------------------------------


def test_mira_routes_by_the_partition_that_would_be_allocated():
    router = mira_router()
    procs, asked = np.array([4096, 4096, 4097, 8192, 100]), np.array([21_600, 21_601, 60, 86_400, 60])
    names = [router.queues[number].name for number in router.route(procs, asked)]
    assert names == ["prod-short", "prod-long", "prod-capability", "prod-capability", "prod-short"]
    assert router.given(np.array([100, 4097, 30_000])).tolist() == [512, 8192, 32_768]


def test_a_job_just_over_4096_nodes_is_no_capability_job_in_the_metric():
    def share(procs):
        one = Workload.from_columns([1], submit=[0], procs=[procs], requested=[60], run_time=[60], machine_procs=49_152)
        return capability_share(simulate(one, make_policy("cobalt")))

    assert share(4097) == share(8191) == 0
    assert share(8192) == pytest.approx(0.8)
    assert share(16_384) == pytest.approx(1)


def busy_mira(seed, n_jobs=300):
    """A crowded machine of Mira's size, half of the jobs small and long."""
    rng = np.random.default_rng(seed)
    sizes = np.array([512, 1024, 2048, 4096, 8192, 16_384, 32_768])
    procs = rng.choice(sizes, n_jobs, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.06, 0.04])
    requested = rng.choice([3600, 21_600, 43_200], n_jobs, p=[0.2, 0.2, 0.6])
    run_time = (requested * rng.uniform(0.2, 1, n_jobs)).astype(int)
    submit = np.sort(rng.integers(0, 200_000, n_jobs))
    columns = {"submit": submit, "procs": procs, "requested": requested, "run_time": run_time}
    return Workload.from_columns(np.arange(1, n_jobs + 1), machine_procs=49_152, **columns)


def most_used(schedule, rows):
    """Most processors that these jobs use at once."""
    times = np.concatenate([schedule.end[rows], schedule.start[rows]])
    change = np.concatenate([-schedule.workload.procs[rows], schedule.workload.procs[rows]])
    return int(np.cumsum(change[np.argsort(times, kind="stable")]).max())


@pytest.mark.parametrize("policy", ["cobalt", "easy", "binpacking"])
def test_prod_long_never_uses_more_than_its_third(policy):
    workload = busy_mira(1)
    rules = Rules(mira_router())
    mine = rules.routes(workload) == rules.router.number("prod-long")
    assert most_used(simulate(workload, make_policy(policy), rules=rules), mine) <= 16_384
    without = Rules(mira_router().without_shares())
    assert most_used(simulate(workload, make_policy(policy), rules=without), mine) > 16_384


def test_a_32_k_partition_stays_free_of_prod_long():
    workload = busy_mira(2, n_jobs=120)
    rules, whole = Rules(mira_router()), Partitions(Hierarchy.mira())
    long = workload.job_id[rules.routes(workload) == rules.router.number("prod-long")]
    allocator = Within(whole, (((32_768, 49_152),),), {int(job): 0 for job in long})
    schedule = simulate(workload, make_policy("cobalt"), allocator=allocator, rules=rules)
    first = {
        int(job): min(first for first, _ in schedule.nodes.intervals(row)) for row, job in enumerate(workload.job_id)
    }
    assert all(first[int(job)] >= 32_768 for job in long)
    assert min(first.values()) == 0


# --- the score ----------------------------------------------------------------------------------------------------


def test_the_score_of_a_full_machine_after_an_hour():
    assert round(Score().gained(3600, 49_152, 3600, 49_152), 5) == 1.34168


def test_the_floor_and_the_ceiling_give_one_trajectory():
    for eligible in (600, 7200, 90_000):
        five, hour, twelve, day = (
            Score().gained(eligible, 512, asked, 49_152) for asked in (300, 3600, 43_200, 86_400)
        )
        assert five == hour > twelve == day
    assert Score().gained(7200, 512, 3600, 49_152) > Score().gained(7200, 512, 3661, 49_152)


def test_an_increment_is_the_share_of_the_machine_after_the_walltime_to_the_three_halves():
    """After 60^1.5 = 464.8 minutes for walltimes of an hour and less."""
    minutes = 60**1.5
    growth = Score().growth(np.array([8192]), np.array([1800]), 49_152)[0]
    assert growth * (minutes * 60) ** 2 == pytest.approx(8192 / 49_152)
    assert minutes == pytest.approx(464.8, abs=0.05)


@given(
    since=st.integers(0, 10**6),
    held=st.integers(0, 10**5),
    lasts=st.integers(0, 3 * 10**5),
    tick=st.sampled_from([1, 7, 15, 60]),
)
@settings(max_examples=60, deadline=None)
def test_the_closed_form_is_the_sum_over_the_ticks(since, held, lasts, tick):
    begin, now = since + held, since + held + lasts
    ticks = range(-(-begin // tick) * tick, now + 1, tick)
    assert squares(tick, since, begin, now) == float(sum((t - since) ** 2 for t in ticks))


def test_far_beyond_whole_numbers_the_closed_form_stays_close():
    e = 4_000_000
    exact = sum(t * t for t in range(0, e + 15 * 10_000 + 1, 15))
    assert squares(15, 0, 0, e + 15 * 10_000) == pytest.approx(float(exact), rel=1e-14)


def score_of(simulation, job):
    """A waiting job's score now."""
    state = simulation._state
    slots = np.flatnonzero(
        state.live[: state.clock[at.HIGH_SLOT], at.ROW] == simulation.workload.job_id.tolist().index(job)
    )
    return score_at(state.live, state.clock, int(slots[-1]), simulation.now)


def two_jobs(blocked_for=400_000, procs=49_152, requested=300, **kw):
    """Job 1 has the machine for long; job 2 waits."""
    return Workload.from_columns(
        [1, 2], submit=[0, 0], procs=[49_152, procs], requested=[blocked_for, requested], run_time=[blocked_for, 60],
        machine_procs=49_152, **kw,
    )  # fmt: skip


def waiting(commands, until, workload=None, router=None):
    workload = two_jobs() if workload is None else workload
    rules = Rules(mira_router() if router is None else router, commands=commands)
    simulation = Simulation(workload, make_policy("cobalt"), rules=rules)
    simulation.run(until=until)
    return simulation


def test_ten_hours_of_hold_gain_nothing():
    plain = waiting((), 3600)
    held = waiting((Command(0, "hold", 2), Command(36_000, "release", 2)), 36_000 + 3600)
    assert score_of(held, 2) == score_of(plain, 2) > 1
    later = waiting((Command(3600, "hold", 2), Command(39_600, "release", 2)), 39_601)
    assert score_of(later, 2) == pytest.approx(score_of(plain, 2), rel=0.02)


def test_an_alteration_to_another_queue_resets_the_score_and_one_within_the_queue_does_not():
    before = score_of(waiting((), 7200), 2)
    alter = Command(7200, "alter", 2, procs=512, requested=43_200)
    reset = waiting((alter,), 7200)
    assert score_of(reset, 2) == 0
    reset.run(until=7200 + 3600)
    assert score_of(reset, 2) == Score().gained(3600, 512, 43_200, 49_152)
    within = waiting((Command(7200, "alter", 2, procs=16_384, requested=600),), 7200)
    assert score_of(within, 2) == pytest.approx(before, rel=0.01)


# --- dependencies -------------------------------------------------------------------------------------------------


def chain(parents_score, own, failed=(), on_failure="hold"):
    """Job 1 blocks; job 2, with a start score, runs before its child 3, which has one too."""
    workload = Workload.from_columns(
        [1, 2, 3, 4], submit=[0, 1, 2, 3], procs=[8, 8, 8, 8], requested=[5, 5, 5, 60], run_time=[5, 5, 5, 60],
        machine_procs=8,
    )  # fmt: skip
    projects = (
        Project("parents", "incite", 1e6, start_score=parents_score, weight=0.0),
        Project("own", "incite", 1e6, start_score=own, weight=0.0),
        Project("last", "incite", 1e6, start_score=0.0, weight=0.0),
    )
    dependencies = Dependencies(np.array([3]), np.array([2]), np.array([0]), frozenset(failed), on_failure)
    return workload, Rules(dependencies=dependencies, accounts=Accounts(projects, {2: 0, 3: 1, 4: 2}))


@pytest.mark.parametrize(("own", "starts_at"), [(0.0, 100.0), (150.0, 150.0)])
def test_a_child_starts_with_half_of_its_parents_score_unless_it_has_more(own, starts_at):
    workload, rules = chain(200.0, own)
    simulation = Simulation(workload, make_policy("cobalt"), rules=rules)
    simulation.run(until=9)
    assert simulation.held.tolist() == [2]
    simulation.run(until=10)
    assert simulation.running.tolist() == [2]
    assert score_of(simulation, 3) == starts_at


def test_the_child_of_a_failed_parent_is_held_until_it_is_altered():
    workload, rules = chain(200.0, 0.0, failed=[2])
    with pytest.raises(JobcastError, match="held for ever, first job 3: the job that it waits for has failed"):
        simulate(workload, make_policy("cobalt"), rules=rules)
    freed = Rules(dependencies=rules.dependencies, commands=(Command(100, "alter", 3),))
    assert simulate(workload, make_policy("cobalt"), rules=freed).start.tolist() == [0, 5, 100, 10]
    anyway = Rules(dependencies=chain(200.0, 0.0, [2], "run")[1].dependencies)
    assert simulate(workload, make_policy("easy"), rules=anyway).start.tolist() == [0, 5, 10, 15]


def test_a_think_time_holds_the_job_and_does_not_move_its_submission():
    workload, _ = chain(0.0, 0.0)
    rules = Rules(dependencies=Dependencies(np.array([3]), np.array([2]), np.array([77])))
    schedule = simulate(workload, make_policy("easy"), rules=rules)
    assert schedule.start.tolist() == [0, 5, 87, 10]
    assert schedule.wait[2] == 85


def test_forks_and_snapshots_carry_holds_scores_and_sets():
    for seed in (3, 7, 11):
        jobs = seeded_workload(seed)
        house = seeded_house(seed, jobs)
        house.stuck = False
        simulation = Simulation(workload_of(jobs), make_policy("cobalt"), rules=rules_of(house, jobs))
        simulation.run(until=jobs[len(jobs) // 2].submit + 1)
        snapshot, fork = simulation.snapshot(), simulation.fork()
        simulation.run()
        whole = simulation.schedule().start.tolist()
        fork.run()
        assert fork.schedule().start.tolist() == whole
        simulation.restore(snapshot)
        simulation.run()
        assert simulation.schedule().start.tolist() == whole


# --- accounts -----------------------------------------------------------------------------------------------------


def account_run(program, spent, epoch=None, procs=4, n=3):
    """Jobs of a project and, each submitted a second later, of nobody; one after the other on the whole machine."""
    ids = np.arange(1, 2 * n + 2)
    workload = Workload.from_columns(
        ids, submit=np.append(0, np.arange(1, 2 * n + 1)), procs=np.append(8, np.full(2 * n, 8)),
        requested=np.full(2 * n + 1, 3600), run_time=np.full(2 * n + 1, 3600), machine_procs=8,
    )  # fmt: skip
    project = Project("p", program, granted=100.0, spent=spent, start_score=5.0)
    router = Router(
        (
            Queue("capability", least_procs=5, capability=True),
            Queue("small", most_procs=4),
            Queue("backfill", behind=True),
        )
    )
    return workload, Rules(router, accounts=Accounts((project,), {int(job): 0 for job in ids[1::2]}, epoch))


def test_jobs_of_a_spent_account_go_behind_all_others_and_overburn_in_its_third_quarter():
    workload, rules = account_run("incite", spent=101.0)
    theirs = np.arange(len(workload)) % 2 == 1
    late = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert late[theirs].min() > late[~theirs].max()
    august = int(datetime(2016, 8, 1, tzinfo=UTC).timestamp())
    workload, rules = account_run("incite", spent=101.0, epoch=august)
    early = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert early[theirs].max() < early[~theirs][1:].min()
    workload, rules = account_run("incite", spent=201.0, epoch=august)
    assert simulate(workload, make_policy("cobalt"), rules=rules).start[theirs].min() > late[~theirs].max()


def test_an_account_that_is_spent_while_its_jobs_wait_moves_them_behind():
    workload, rules = account_run("incite", spent=99.0)
    start = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert start[1] == 3600  # its first job spends the account
    assert start[[3, 5]].min() > start[[0, 2, 4, 6]].max()


def test_a_spent_discretionary_account_is_blocked_until_its_year_begins_again():
    workload, rules = account_run("discretionary", spent=101.0)
    with pytest.raises(JobcastError, match="its account is spent"):
        simulate(workload, make_policy("easy"), rules=rules)


# --- section 4.3 --------------------------------------------------------------------------------------------------


def test_a_high_initial_score_overtakes_the_drain_and_default_scores_do_not():
    high, default = (drain(initial) for initial in (1000.0, 0.0))
    assert default.overtakings == 0
    assert high.overtakings >= 1
    assert high.lost_node_hours > default.lost_node_hours
    assert high.large_started > default.large_started


def test_without_the_floor_short_large_jobs_make_a_sawtooth():
    with_floor, without = sawtooth(Score()), sawtooth(Score(floor=60))
    assert without.drains > with_floor.drains
    assert without.lost_node_hours > with_floor.lost_node_hours


def test_a_big_run_starts_the_largest_capability_job_first_and_no_spent_accounts():
    workload = Workload.from_columns(
        [1, 2, 3, 4, 5], submit=[0, 1, 2, 3, 4], procs=[49_152, 8192, 24_576, 49_152, 512], machine_procs=49_152,
        requested=[40_000, 3600, 3600, 3600, 300], run_time=[40_000, 3600, 3600, 3600, 300],
    )  # fmt: skip
    spent = Accounts((Project("spent", "incite", 1.0, spent=2.0),), {4: 0})
    when = (Command(39_999, "big-run"),)
    order = np.argsort(simulate(workload, make_policy("cobalt"), rules=Rules(mira_router(), commands=when)).start)
    assert workload.job_id[order][:2].tolist() == [1, 4]
    rules = Rules(mira_router(), accounts=spent, commands=when)
    start = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert start[2] == 40_000 < start[3]


# --- bad input ----------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_with_what_where_and_a_way_out():
    with pytest.raises(JobcastError, match="'a' and 'b' overlap"):
        Router((Queue("a", most_procs=8), Queue("b", least_procs=8)))
    with pytest.raises(JobcastError, match="never fit its share"):
        Queue("a", most_procs=8, share=4)
    with pytest.raises(JobcastError, match="no queue takes job 2 with 49152 processors"):
        simulate(
            two_jobs(), make_policy("cobalt"), rules=Rules(Router((Queue("a", most_procs=49_152, longer_than=400),)))
        )
    with pytest.raises(JobcastError, match="more than the 500 that its queue 'a' may use"):
        simulate(two_jobs(), make_policy("cobalt"), rules=Rules(Router((Queue("a", share=500),))))
    with pytest.raises(JobcastError, match="circle: 1 for 2 for 1"):
        Dependencies(np.array([1, 2]), np.array([2, 1]), np.array([0, 0]))
    dangling = Dependencies(np.array([2]), np.array([9]), np.array([0]))
    with pytest.raises(JobcastError, match="job 9 is not in the workload"):
        simulate(two_jobs(), make_policy("easy"), rules=Rules(dependencies=dangling))
    with pytest.raises(JobcastError, match="has no job 9"):
        simulate(two_jobs(), make_policy("easy"), rules=Rules(commands=(Command(5, "hold", 9),)))
    with pytest.raises(JobcastError, match="did you mean 'release'"):
        Command(5, "relaese", 1)
    with pytest.raises(JobcastError, match="did you mean 'prod-long'"):
        mira_router().number("prod-lang")
    with pytest.raises(JobcastError, match="no queue of this machine"):
        waiting((Command(10, "alter", 2, procs=60_000),), 20)
    with pytest.raises(JobcastError, match="too early"):
        simulate(busy_mira(1), make_policy("easy"), rules=Rules(commands=(Command(0, "release", 300),)))
    with pytest.raises(JobcastError, match="share of the machine go with"):
        simulate(two_jobs(), make_policy("hybrid-2"), rules=Rules(mira_router()))
    with pytest.raises(JobcastError, match=r"whole number; got 2\.5"):
        Score(tick=2.5)
    with pytest.raises(JobcastError, match="'a': share must be a whole number"):
        Queue("a", share=2.5)
    with pytest.raises(JobcastError, match="The second of a command must be from"):
        Command(10**30, "hold", 1)
    with pytest.raises(JobcastError, match=r"granted must be from 0 to 1e\+15"):
        Project("a", "incite", 1e300)


def test_alterations_are_refused_where_others_know_the_jobs_as_submitted():
    altered = Rules(commands=(Command(10, "alter", 2, procs=512),))
    for surroundings in ({"allocator": Partitions(Hierarchy.mira())}, {"world": Dilation()}):
        with pytest.raises(JobcastError, match="Job 2 is altered at 10 s, which goes without an allocator"):
            simulate(two_jobs(), make_policy("cobalt"), rules=altered, **surroundings)


@pytest.mark.parametrize("tick", [1, 2, 3, 15])
def test_the_closed_form_does_not_overflow_within_many_weeks(tick):
    for begin, now in ((0, 3_999_999), (2_600_000, 3_999_999), (0, 2_000_000)):
        ticks = range(-(-begin // tick) * tick, now + 1, tick)
        assert squares(tick, 0, begin, now) == pytest.approx(sum(t * t for t in ticks), rel=1e-12)


def test_calendars_end_before_the_last_year_that_dates_can_tell():
    dates = Accounts((Project("one", "incite", 1000.0),), {}, 1_500_000_000).calendar(10**12)
    assert dates == sorted(dates) and 20_000 < len(dates) < 24_000


def test_commands_and_sites_are_read_from_files(tmp_path):
    orders = tmp_path / "orders.csv"
    orders.write_text("time,job,action,procs,requested\n50,2,alter,512,\n10,2,hold,,\n20,2,release,,\n90,,big-run,,\n")
    assert [command.action for command in read_commands(orders)] == ["hold", "release", "alter", "big-run"]
    assert read_commands(orders)[2] == Command(50, "alter", 2, procs=512)
    orders.write_text("time,job,action\n10,2,hold\nten,2,release\n")
    with pytest.raises(JobcastError, match=r"orders.csv:3: .*ten"):
        read_commands(orders)
    orders.write_text("time,job,action\n5,3\n")
    with pytest.raises(JobcastError, match=r"orders.csv:2: has not one value for each of the 3 columns"):
        read_commands(orders)
    orders.write_text("time,job,action\n5,3," + 200_000 * "x" + "\n")
    with pytest.raises(JobcastError, match=r"orders.csv:2: is not CSV"):
        read_commands(orders)
    orders.write_text("time,job,what\n")
    with pytest.raises(JobcastError, match="has no column action"):
        read_commands(orders)


SITE = """
[score]
tick = 30
[dependencies]
on_failure = "run"
[[queue]]
name = "wide"
least_procs = 33
[[queue]]
name = "narrow"
most_procs = 32
share = 64
up_to = 36000
[[project]]
name = "physics"
program = "incite"
granted = 1e6
groups = [1]
"""


def test_a_site_is_read_from_a_file_and_jobs_that_no_queue_takes_are_counted(tmp_path):
    path, log = tmp_path / "site.toml", generate_log(600, seed=1).for_simulation()[0]
    path.write_text(SITE)
    rules, left, account = rules_of_log(log, path)
    long = (log.procs <= 32) & (log.values["requested_time"] > 36_000)
    assert account.count("unrouted") == long.sum() == len(log) - len(left) > 0
    assert rules.score.tick == 30
    schedule = simulate(Workload.from_log(left), make_policy("cobalt"), rules=rules)
    assert most_used(schedule, rules.routes(schedule.workload) == 1) <= 64
    for wrong, message in (
        ("[scores]\ntick = 3\n", "did you mean 'score'"),
        ("[score]\ntack = 3\n", "did you mean 'tick'"),
        ("[score]\ntick = 'a'\n", r"site.toml: \[score\]"),
        ("queues = 'miro'\n", "did you mean 'mira'"),
        (SITE.replace("least_procs = 33", "least_procs = 32"), "overlap"),
        (SITE.replace('"incite"', '"insight"'), "did you mean 'incite'"),
        (SITE.replace("groups = [1]", ""), "groups must list"),
        ("= 3", "no TOML"),
    ):
        path.write_text(wrong)
        with pytest.raises(JobcastError, match=message):
            rules_of_log(log, path)


def test_jobs_that_a_failed_one_would_hold_for_ever_are_left_out_and_counted():
    log = generate_log(300, seed=2).for_simulation()[0]
    values, unknown = dict(log.values), dict(log.unknown)
    ids = values["job_id"]
    parent = np.zeros(len(log), dtype=np.int64)
    parent[10:13] = ids[9:12]
    parent[20] = 999_999
    values["preceding_job"], unknown["preceding_job"] = parent, parent == 0
    status = np.ones(len(log), dtype=np.int64)
    status[10] = 0
    values["status"] = status
    chained = replace(log, values=values, unknown=unknown)
    rules, left, account = rules_of_log(chained, "mira")
    assert account.count("dep-fail") == 2
    assert account.count("dangling dependency") == 1
    schedule = simulate(Workload.from_log(left), make_policy("cobalt"), rules=rules)
    assert schedule.start[10] >= schedule.end[9]
