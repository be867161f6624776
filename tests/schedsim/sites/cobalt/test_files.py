"""A site as users give it: bad input is refused, files of commands and sites are read."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, Workload, clean, generate_log, make_policy, simulate
from schedsim.kernels.keys import squares
from schedsim.machine.dilation import Dilation
from schedsim.machine.partitions import Hierarchy, Partitions
from schedsim.sites.cobalt.accounts import Accounts, Project
from schedsim.sites.cobalt.commands import Command, read_commands
from schedsim.sites.cobalt.files import rules_of_log
from schedsim.sites.cobalt.queues import Queue, Router, mira_router
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.cobalt.score import Score
from schedsim.workload.dependencies import Dependencies
from tests.support.cobalt_runs import busy_mira, most_used, two_jobs, waiting


def under(rules, policy="cobalt", workload=None):
    """Simulate under a site's rules."""
    return simulate(workload or two_jobs(), make_policy(policy), rules=rules)


DANGLING = Dependencies(np.array([2]), np.array([9]), np.array([0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Router((Queue("a", most_procs=8), Queue("b", least_procs=8))), "'a' and 'b' overlap"),
        (lambda: Queue("a", most_procs=8, share=4), "never fit its share"),
        (lambda: under(Rules(Router((Queue("a", most_procs=49_152, longer_than=400),)))),
         "no queue takes job 2 with 49152 processors"),
        (lambda: under(Rules(Router((Queue("a", share=500),)))), "more than the 500 that its queue 'a' may use"),
        (lambda: Dependencies(np.array([1, 2]), np.array([2, 1]), np.array([0, 0])), "circle: 1 for 2 for 1"),
        (lambda: under(Rules(dependencies=DANGLING), "easy"), "job 9 is not in the workload"),
        (lambda: under(Rules(commands=(Command(5, "hold", 9),)), "easy"), "has no job 9"),
        (lambda: Command(5, "relaese", 1), "did you mean 'release'"),
        (lambda: mira_router().number("prod-lang"), "did you mean 'prod-long'"),
        (lambda: waiting((Command(10, "alter", 2, procs=60_000),), 20), "no queue of this machine"),
        (lambda: under(Rules(commands=(Command(0, "release", 300),)), "easy", busy_mira(1)), "too early"),
        (lambda: under(Rules(mira_router()), "hybrid-2"), "share of the machine and .* do not compose"),
        (lambda: Score(tick=2.5), r"whole number; got 2\.5"),
        (lambda: Queue("a", share=2.5), "'a': share must be a whole number"),
        (lambda: Command(10**30, "hold", 1), "The second of a command must be from"),
        (lambda: Project("a", "incite", 1e300), r"granted must be from 0 to 1e\+15"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_what_where_and_a_way_out(make, message):
    with pytest.raises(JobcastError, match=message):
        make()


def test_alterations_are_refused_where_others_know_the_jobs_as_submitted():
    altered = Rules(commands=(Command(10, "alter", 2, procs=512),))
    for surroundings in ({"allocator": Partitions(Hierarchy.mira())}, {"run_times": Dilation()}):
        with pytest.raises(JobcastError, match=r"jobs that commands alter and .* do not compose"):
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
    for wrong, message in (
        ("action\n10,2,hold\nten,2,release\n", r"orders.csv:3: .*ten"),
        ("action\n5,3\n", r"orders.csv:2: has not one value for each of the 3 columns"),
        ("action\n5,3," + 200_000 * "x" + "\n", r"orders.csv:2: is not CSV"),
        ("what\n", "has no column action"),
    ):
        orders.write_text("time,job," + wrong)
        with pytest.raises(JobcastError, match=message):
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
    path, log = tmp_path / "site.toml", clean(generate_log(600, seed=1))[0]
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
        ("[score]\ntick = 'a'\n", "site.toml: score: tick must be a whole number; got 'a'"),
        ("queues = 'miro'\n", "did you mean 'mira'"),
        ("capability = 0.2\n", "capability is a share for queues"),
        ("queues = 'mira'\ncapability = 2.0\n", "at most a third, prod-long's share; got 2"),
        (SITE.replace("least_procs = 33", "least_procs = 32"), "overlap"),
        (SITE.replace('"incite"', '"insight"'), "did you mean 'incite'"),
        (SITE.replace("groups = [1]", ""), "groups must list"),
        ("= 3", "no TOML"),
    ):
        path.write_text(wrong)
        with pytest.raises(JobcastError, match=message):
            rules_of_log(log, path)


def test_jobs_that_a_failed_one_would_hold_for_ever_are_left_out_and_counted():
    log = clean(generate_log(300, seed=2))[0]
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
