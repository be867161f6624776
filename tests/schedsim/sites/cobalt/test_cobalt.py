"""Cobalt: routes, node sets, its stories; equal to a simulator that ticks every 15 seconds."""

import sys

import numpy as np
import pytest

from experiments.cli.main import main
from experiments.papers.cobalt.stories import drain, sawtooth
from jobcast import JobcastError, Simulation, Workload, generate_log, make_policy, simulate
from predictors.data.formats.swf import write_swf
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.partitions import Hierarchy, Partitions, Within, allocator_named
from schedsim.results.site_metrics import capability_share
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.commands import Command
from schedsim.sites.cobalt.queues import mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.cobalt.score import Score
from schedsim.validate import laws as known
from schedsim.validate.validate import check
from tests.oracle.easy import rule_named
from tests.oracle.easy import simulate as ticking
from tests.support.cobalt_runs import busy_mira, most_used, rules_of, seeded_house
from tests.support.engine_runs import estimates_of, jobs_of, rules_noted, workload_of
from tests.support.strategies import PROCS, crowded_workload, seeded_estimates, seeded_workload

AT_EXPIRY = [name for name in CORRECTIONS if name != "slurm"]  # that one also follows the clock


def run_both(jobs, policy, house, estimates="requested", correction="requested", kill=True):
    workload, believed = workload_of(jobs), estimates_of(workload_of(jobs), estimates)
    rule = rule_named(policy)
    expected = ticking(jobs, PROCS, rule, estimates, correction, kill, house=house)
    if expected.stuck:
        with pytest.raises(JobcastError, match="held without end"):
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
        correction = AT_EXPIRY[seed % len(AT_EXPIRY)]
        ran += run_both(jobs, policy, seeded_house(seed, jobs), guesses, correction) is not None
    assert ran > 40


def test_ticks_are_needed_and_those_left_out_are_not(monkeypatch):
    """On longer queues; without any ticks beside ends and submissions, schedules are others."""
    jobs_of = [(crowded_workload(seed), seed) for seed in range(40)]
    few = [(jobs[:90], procs, seed) for (jobs, procs), seed in jobs_of if max(job.requested for job in jobs) <= 2400]
    runs = []
    for jobs, procs, seed in few[:8]:
        guesses = seeded_estimates(seed, jobs)
        expected = ticking(jobs, procs, rule_named("cobalt"), guesses, "doubling")
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
        noting = Simulation(workload, make_policy(policy), rules=rules)
        rules_noted(noting)
        assert noting.schedule().start.tolist() == schedule.start.tolist()
        checked = check(schedule, make_policy(policy), rules=rules)
        assert {known.PARENTS, known.SHARES} <= set(checked.kept)
    assert told > 8


def test_mira_routes_by_the_partition_that_would_be_allocated():
    router = mira_router()
    procs, asked = np.array([4096, 4096, 4097, 8192, 100]), np.array([21_600, 21_601, 60, 86_400, 60])
    names = [router.queues[number].name for number in router.route(procs, asked)]
    assert names == ["prod-short", "prod-long", "prod-capability", "prod-capability", "prod-short"]
    assert router.given(np.array([100, 4097, 30_000])).tolist() == [512, 8192, 32_768]


def test_a_job_just_over_4096_nodes_is_no_capability_job_in_the_metric():
    def share(procs):
        one = jobs_of((0, procs, 60, 60), machine=49152)
        return capability_share(simulate(one, make_policy("cobalt")))

    assert share(4097) == share(8191) == 0
    assert share(8192) == pytest.approx(0.8)
    assert share(16_384) == pytest.approx(1)


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
    workload = jobs_of(
        (0, 49152, 40000, 40000), (1, 8192, 3600, 3600), (2, 24576, 3600, 3600), (3, 49152, 3600, 3600),
        (4, 512, 300, 300), machine=49152,
    )  # fmt: skip
    spent = Accounts((Project("spent", "incite", 1.0, spent=2.0),), {4: 0})
    when = (Command(39_999, "big-run"),)
    order = np.argsort(simulate(workload, make_policy("cobalt"), rules=Rules(mira_router(), commands=when)).start)
    assert workload.job_id[order][:2].tolist() == [1, 4]
    rules = Rules(mira_router(), accounts=spent, commands=when)
    start = simulate(workload, make_policy("cobalt"), rules=rules).start
    assert start[2] == 40_000 < start[3]


QUEUE = '[[queue]]\nname = "a"\n'
PROJECT = '[[project]]\nname = "x"\nprogram = "incite"\n'
COMMANDS = "time,job,action,procs,requested\n"
OUTAGES = "time,until,kind,count,nodes\n"
WINDOW = '[[window]]\nkind = "maintenance"\ntime = 5\nhours = 1\n'

ODD = [
    ("--commands", "c.csv", COMMANDS + "9,17\n", "c.csv:2: has not one value for each of the 5 columns"),
    ("--commands", "c.csv", COMMANDS + "\n\n9,17,hold,,,5\n", "c.csv:4: has not one value for each"),
    ("--commands", "c.csv", "time,job,action,proc\n9,17,alter,4\n", "c.csv:1: No column 'proc'; did you mean 'procs'?"),
    ("--commands", "c.csv", "time,time,job,action\n9,9,17,hold\n", "names the column 'time' 2 times"),
    ("--commands", "c.csv", COMMANDS + "9" * 30 + ",17,hold,,\n", "c.csv:2: The second of a command must be from"),
    ("--commands", "c.csv", COMMANDS + "9999999999,17,alter,," + "9" * 20 + "\n", "requested time that a command"),
    ("--commands", "c.csv", COMMANDS + "1," + "x" * 200_000 + ",hold,,\n", "is not CSV: field larger"),
    ("--postponable", "d.csv", "job_id,deadline\n5," + "9" * 30 + "\n", "d.csv:2: job 5 has a deadline that no log"),
    ("--postponable", "d.csv", "job_id,deadline\n5,9999999999,3\n", "d.csv:2: has not one value for each column"),
    ("--postponable", "d.csv", "job_id,deadline,deadline\n5,9,9\n", "each once"),
    ("--postponable", "d.csv", "job_id,deadline\n5," + "1" * 200_000 + "\n", "d.csv: is not CSV"),
    ("--site", "s.toml", QUEUE + "least_procs = 1.5\n", "least_procs must be a whole number; got 1.5"),
    ("--site", "s.toml", QUEUE + "longer_than = nan\n", "longer_than must be a whole number; got nan"),
    ("--site", "s.toml", QUEUE + "up_to = " + "9" * 30 + "\n", "up_to must be from"),
    (
        "--site",
        "s.toml",
        QUEUE + 'capability = "yes"\n',
        "queue 1 (\"a\"): capability must be true or false; got 'yes'",
    ),
    ("--site", "s.toml", "[[queue]]\nname = 5\n", "s.toml: queue 1: name must be a text; got 5"),
    ("--site", "s.toml", "[score]\ntick = 15.5\n", "tick must be a whole number; got 15.5"),
    ("--site", "s.toml", "[score]\ntick = nan\n", "tick must be a whole number; got nan"),
    ("--site", "s.toml", '[dependencies]\non_failure = "runs"\n', "No rule on failure 'runs'; did you mean 'run'?"),
    ("--site", "s.toml", "partitions = [16]\n", "give [[queue]] sections too"),
    ("--site", "s.toml", f"partitions = [{'9' * 30}]\n" + QUEUE, "jobs are routed by must be from"),
    ("--site", "s.toml", PROJECT + "granted = 1e308\ngroups = [1]\n", "granted must be from 0 to 1e+15"),
    ("--site", "s.toml", PROJECT + "granted = 10\nspent = 1e300\ngroups = [1]\n", "spent must be from 0 to 1e+15"),
    ("--site", "s.toml", PROJECT + "granted = 10\ngroups = [1, 1]\n", "group 1 is charged to 'x' already"),
    ("--site", "s.toml", "queue = " + "[" * 5000 + "]" * 5000, "s.toml: is no TOML file"),
    ("--outages", "o.csv", OUTAGES + "²,5,maintenance,,\n", "time '²' is neither seconds nor a date"),
    ("--outages", "o.csv", OUTAGES + "--5,50,maintenance,,\n", "time '--5' is neither seconds nor a date"),
    ("--outages", "o.csv", OUTAGES + "5,50,reserve,²,\n", "count '²' is no number of nodes"),
    ("--outages", "o.csv", OUTAGES + "5,50,reserve,,²\n", "nodes '²' are unknown"),
    ("--outages", "o.csv", "time,time,until,kind\n5,6,50,maintenance\n", "names the column 'time' 2 times"),
    ("--outages", "o.toml", "window = [1, 2]\n", "window 1 must be a table; got 1"),
    ("--outages", "o.toml", "failures = 3\n", "failures must be a text; got 3"),
    ("--outages", "o.toml", WINDOW + "until = 9000\n", "until is for windows that are repeated"),
    ("--allocator", "p.toml", "nodes = 64\nlevel = [1]\n", "level 1 must be a table; got 1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log."""
    place = tmp_path_factory.mktemp("odd")
    write_swf(generate_log(60, seed=1, procs=64), place / "log.swf")
    return place


def refusal(line, monkeypatch, capsys):
    """Return what the command says, which must refuse its input in one line."""
    monkeypatch.setattr(sys, "argv", ["jobcast", *line])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(("option", "name", "text", "message"), ODD)
def test_odd_files_are_refused_in_one_line(option, name, text, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / name).write_text(text, encoding="utf-8")
    value = ["partitions", "--partitions", name] if option == "--allocator" else [name]
    assert message in refusal(["simulate", "log.swf", option, *value], monkeypatch, capsys)


@pytest.mark.parametrize("option", ["--postpone-seed", "--dilation-seed"])
def test_seeds_beyond_what_is_hashed_are_refused(option, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    line = ["simulate", "log.swf", "--postponable", "0.5", "--dilation", "start", option, "9" * 20]
    assert "must be from 0 to" in refusal(line, monkeypatch, capsys)


@pytest.mark.parametrize("allocator", [None, "first-fit", "contiguous"])
@pytest.mark.parametrize(("policy", "expected"), [("easy", [200, 230, 5]), ("cobalt", [230, 200, 5])])
def test_what_failed_before_the_first_submission_is_down(allocator, policy, expected):
    """Under Cobalt's score the wider job comes first."""

    def starts(later):
        submit = [later, later, later + 5]
        work = Workload.from_columns(
            range(1, 4), submit=submit, procs=[6, 8, 2], requested=[30] * 3, run_time=[30] * 3, machine_procs=8
        )
        place = None if allocator is None else allocator_named(allocator, 8, None, 0, None)
        broken = Outages(
            [Reservation(later - 40, later + 10, 2)],
            [Change(later - 50, "fail", 4), Change(later - 20, "repair", 1), Change(later + 200, "repair", 3)],
        )
        found = simulate(work, make_policy(policy), allocator=place, outages=broken)
        return (found.start - later).tolist()

    assert starts(0) == starts(900) == expected


def test_off_mira_a_capability_job_needs_a_fifth_of_the_machine():
    theta = mira_router(4360)
    names = [theta.queues[number].name for number in theta.route(np.array([871, 872]), np.array([60, 60]))]
    assert names == ["prod-short", "prod-capability"]
    assert mira_router(4360, capability=1 / 12).queues[0].least_procs == 364
    assert mira_router(49_152, capability=1 / 3).queues[0].least_procs == 16_384
    for share, says in ((0, "above 0"), (0.5, "at most a third"), (True, "got True"), (0.01, "leaves no job")):
        with pytest.raises(JobcastError, match=says):
            mira_router(60, share)
