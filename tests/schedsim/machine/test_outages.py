"""Reservations, failures and repairs: the engine beside a slow oracle, the laws of nodes, files, explanations."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, Workload, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.allocators import ALLOCATORS, FirstFit, make_allocator
from schedsim.machine.failures import FailureProcess, Site
from schedsim.machine.outage_files import read_outages
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.partitions import Hierarchy, Partitions, widened
from schedsim.machine.topology import Topology
from schedsim.results.site_metrics import disturbed_figures
from schedsim.validate.laws import AVAILABLE, OVERTAKEN
from schedsim.validate.validate import check
from tests.oracle.machine import Calendar
from tests.support.engine_runs import EVERY_POLICY, jobs_of, rules_noted, workload_of
from tests.support.strategies import PROCS, seeded_estimates, seeded_workload

POLICIES = [name for name in EVERY_POLICY if "ceil" not in name and "cobalt" not in name]


def calendar_by(seed, reserves=True, fails=True):
    """Return up to three reservations and six changes by a seed, on the grid of the workloads."""
    random = Random(seed)
    step, reserved, changes, down, second = random.choice([5, 5, 60, 600]), [], [], 0, 0
    for _ in range(random.randint(0, 3) if reserves else 0):
        begin = random.randint(-1, 30)
        procs = random.choice([PROCS, random.randint(1, PROCS)])
        reserved.append((begin * step, (begin + random.randint(1, 8)) * step, procs))
    for _ in range(random.randint(0, 6) if fails else 0):
        second += random.randint(1, 6)
        if down and random.random() < 0.5:
            nodes = random.randint(1, down)
            changes.append((second * step, "repair", nodes))
            down -= nodes
        elif down < PROCS - 1:
            nodes = random.randint(1, min(2, PROCS - 1 - down))
            changes.append((second * step, "fail", nodes))
            down += nodes
    if down:
        changes.append(((second + 5) * step, "repair", down))
    return Calendar(tuple(reserved), tuple(changes), random.random() < 0.7, seed)


def outages_of(calendar):
    """Return the oracle's calendar as the engine takes it."""
    return Outages(
        [Reservation(start, end, procs) for start, end, procs in calendar.reserved],
        [Change(second, kind, nodes) for second, kind, nodes in calendar.changes],
        "requeue" if calendar.requeue else "drop",
        calendar.seed,
    )


def check_nodes(found, outages, nodes, site):
    """Look at each second of each job: on none of its nodes is anything reserved, or down when it ran."""
    for row in range(len(found.workload)):
        mine = set(found.nodes[row].tolist())
        start, end = int(found.start[row]), int(found.end[row])
        for begin, until, mask in site.spans:
            if begin < end and start < until and start < end:
                assert not mine & set(np.flatnonzero(mask).tolist())


@pytest.mark.parametrize("name", [*ALLOCATORS, "partitions"])
def test_nodes_that_are_reserved_or_down_are_given_to_nobody(name):
    for seed in range(25):
        calendar = calendar_by(seed)
        if not (calendar.reserved or calendar.changes):
            continue
        allocator = (
            Partitions(Hierarchy.binary(8)) if name == "partitions" else make_allocator(name, Topology(2, 4), seed)
        )
        outages = outages_of(calendar)
        workload = widened(workload_of(seeded_workload(seed)), allocator)
        policy = make_policy(["fcfs", "easy", "easy-sjbf", "binpacking"][seed % 4])
        try:
            site = Site.of(outages, allocator)
        except JobcastError as error:
            assert "has no place for a reservation" in str(error)
            continue
        found = simulate(workload, policy, outages=outages, allocator=allocator)
        check_nodes(found, outages, 8, site)
        down = FailureProcess(outages, 8, site)
        spans, seconds = [], outages.seconds.tolist()
        for second, following in zip(seconds, [*seconds[1:], 10**9], strict=True):
            down.advance(second)
            spans += [(node, second, following) for node in down.down]
        for row in range(len(workload)):
            mine = set(found.nodes[row].tolist())
            for node, since, until in spans:
                if node in mine and found.start[row] < until and since < found.end[row]:
                    assert found.disturbed.dropped[row] and since >= found.end[row], (seed, row)


def test_a_second_look_finds_jobs_in_a_window():
    w = jobs_of((0, 4, 30, 30), (0, 4, 10, 10), machine=4)
    found = simulate(w, make_policy("easy"), outages=Outages([Reservation(20, 50)]))
    assert AVAILABLE in check(found, make_policy("easy")).kept
    early = replace(found, start=np.array([15, 0]), end=np.array([45, 10]))
    with pytest.raises(JobcastError, match="job 1 runs at 20 s, when 4 of 0 processors that are available are in use"):
        check(early, make_policy("easy"))
    failing = Outages([Reservation(20, 50)], [Change(1, "fail", 1), Change(2, "repair", 1)])
    assert (
        check(simulate(w, make_policy("easy"), outages=failing), make_policy("easy")).left_out[AVAILABLE]
        == OVERTAKEN.text
    )


def test_forecasts_hear_that_a_job_is_to_run_again():
    """Its run time lies between its last start and its end."""
    w = jobs_of((0, 4, 10, 10), (40, 1, 10, 10), machine=4)
    heard = []

    class Forecast:
        def advance(self, events, seconds):
            heard.extend(events.tolist())
            seconds[:] = 10

    simulate(w, make_policy("easy"), Forecast(), outages=Outages([], [Change(5, "fail", 1), Change(20, "repair", 1)]))
    assert heard == [[0, 0, 0], [0, 1, 0], [5, 4, 0], [20, 1, 0], [30, 2, 0], [40, 0, 1]]


def test_figures_by_hand():
    """4 processors, 40 s: 8 of 160 are reserved, 15 down; job 1 loses 20 processor seconds."""
    w = jobs_of((0, 4, 20, 20), machine=4)
    outages = Outages([Reservation(-5, 2)], [Change(7, "fail", 1), Change(22, "repair", 1)])
    found = simulate(w, make_policy("easy"), outages=outages)
    assert found.start.tolist() == [22] and found.disturbed.runs.tolist() == [[0, 2, 7]]
    figures = disturbed_figures(found)
    assert figures["available"] == pytest.approx((42 * 4 - 8 - 15) / (42 * 4))
    assert figures["utilisation_of_available"] == pytest.approx(80 / (42 * 4 - 8 - 15))
    assert (figures["interrupted"], figures["dropped"]) == (1, 0)
    assert figures["lost_processor_hours"] == pytest.approx(20 / 3600)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "knapsack"])
def test_passes_note_why_nobody_else_starts(name):
    """At every instant what is noted is what happens, and noting changes nothing."""
    rules = Counter()
    for seed in range(4):
        outages, jobs = outages_of(calendar_by(seed)), seeded_workload(seed, least_run=seed % 2)
        estimates, policy = np.array(seeded_estimates(seed, jobs)), make_policy(name)
        simulation = Simulation(workload_of(jobs), policy, estimates, outages=outages)
        rules += rules_noted(simulation)
        expected = simulate(workload_of(jobs), policy, estimates, outages=outages)
        assert simulation.schedule().start.tolist() == expected.start.tolist()
    assert "outage" in rules or not make_policy(name).depth


@pytest.mark.parametrize("name", ["first-fit", "contiguous"])
def test_passes_by_places_note_why_nobody_else_starts(name):
    for seed in range(12):
        outages, workload = outages_of(calendar_by(seed)), workload_of(seeded_workload(seed))
        policy, allocator = make_policy(["easy", "binpacking"][seed % 2]), make_allocator(name, Topology(2, 4))
        try:
            simulation = Simulation(workload, policy, outages=outages, allocator=allocator)
        except JobcastError:
            continue
        rules_noted(simulation)
        expected = simulate(workload, policy, outages=outages, allocator=allocator)
        assert simulation.schedule().start.tolist() == expected.start.tolist()


def test_an_explanation_names_the_maintenance():
    w = jobs_of((0, 4, 30, 30), (0, 4, 10, 10), machine=4)
    outages = Outages([Reservation(20, 50)])
    found = simulate(w, make_policy("easy"), outages=outages)
    told = " ".join(in_words(explain(found, 1, make_policy("easy"), outages=outages)))
    assert "into what is reserved of the machine from t=20 on; by the estimates it may start at t=50" in told
    ceil = make_policy("ceil")
    under_ceiling = in_words(explain(simulate(w, ceil, outages=outages), 1, ceil, outages=outages))
    assert "into what is reserved of the machine from t=20 on" in " ".join(under_ceiling)


@pytest.mark.parametrize("allocator", [None, *(make_allocator(name, Topology.flat(4)) for name in ALLOCATORS)])
def test_what_is_reserved_or_down_before_the_first_second_counts(allocator):
    w = jobs_of((0, 4, 30, 30), (0, 2, 10, 10), machine=4)
    for outages in (
        Outages([Reservation(-100, 100, 2)]),
        Outages(changes=[Change(-9, "fail", 3), Change(-5, "repair", 1), Change(100, "repair", 2)]),
    ):
        simulation = Simulation(w, make_policy("easy"), outages=outages, allocator=allocator)
        assert simulation.free == 2
        assert simulation.run() and simulation.free == 4
        assert simulation.schedule().start.tolist() == [100, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Reservation(5, 5), "ends before it begins"),
        (lambda: Reservation(0, 5, 0), "must be from 1 to"),
        (lambda: Reservation(1.5, 5), "start must be a whole number; got 1.5"),
        (lambda: Reservation(0, 10**30), "end must be from"),
        (lambda: Reservation(0, 5, "x"), "must be a whole number"),
        (lambda: Reservation(0, 5, nodes=((1,),)), "each piece ascending"),
        (lambda: Change("a", "fail", 1), "time of a change must be a whole number"),
        (lambda: Outages(5), "are a list of Reservations"),
        (lambda: Reservation(0, 5, 2, ((0, 1),)), "not both"),
        (lambda: Change(0, "break", 2), "'fail' or are under 'repair'"),
        (lambda: Change(0, "fail"), "needs a number of nodes"),
        (lambda: Outages(interrupted="wait"), "'requeue' or 'drop'"),
        (lambda: Outages([3]), "reservations are Reservations"),
        (lambda: Outages(seed=-1), "seed is a whole number"),
    ],
)
def test_what_cannot_be_is_named(make, message):
    with pytest.raises(JobcastError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allocator": "first-fit"}, "'first-fit' is not an allocator; make one with .*allocator_named"),
        ({"run_times": "x"}, "'x' is not a model of run times"),
        ({"outages": "x.csv"}, "are no outages; make them with"),
        ({"policy": "easy"}, "'easy' is not a policy; make one with .*make_policy"),
        ({"workload": 5}, "5 is not a workload"),
        ({"kill": "no"}, "kill is True or False"),
    ],
)
def test_names_in_the_place_of_parts_are_refused(given, message):
    with pytest.raises(JobcastError, match=message):
        simulate(**({"workload": ONE, "policy": make_policy("easy")} | given))


ONE = jobs_of((0, 4, 20, 20), machine=4)


@pytest.mark.parametrize(
    ("outages", "message"),
    [
        (Outages([Reservation(0, 5, 5)]), "5 nodes are more than the machine's 4"),
        (Outages([], [Change(3, "repair", 1)]), "repaired at 3 s, but not so many"),
        (Outages([], [Change(3, "fail", 3), Change(4, "fail", 2)]), "at 4 s 5 nodes are down"),
        (Outages([], [Change(3, "fail", nodes=((0, 1),))]), "nodes are named, but this simulation counts"),
        (Outages([Reservation(0, 5, nodes=((3, 9),))]), "node 8 is unknown"),
    ],
)
def test_what_the_machine_cannot_have_is_named(outages, message):
    with pytest.raises(JobcastError, match=message):
        simulate(ONE, make_policy("easy"), outages=outages)


def test_nodes_fail_and_are_repaired_in_turn():
    allocator = FirstFit(Topology.flat(4))
    twice = Outages([], [Change(3, "fail", nodes=((0, 1),)), Change(4, "fail", nodes=((0, 2),))])
    never = Outages([], [Change(3, "fail", nodes=((0, 1),)), Change(4, "repair", nodes=((1, 2),))])
    for outages, message in (
        (twice, "node 0 is to fail at 4 s, but it is down"),
        (never, "node 1 is to repair at 4 s"),
    ):
        with pytest.raises(JobcastError, match=message):
            simulate(ONE, make_policy("easy"), outages=outages, allocator=allocator)


def test_a_machine_that_is_never_whole_again_is_told():
    with pytest.raises(JobcastError, match="1 nodes are down and never repaired"):
        simulate(ONE, make_policy("easy"), outages=Outages([], [Change(5, "fail", 1)]))


HEADER = "time,until,kind,count,nodes\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "5,3,maintenance,,\n", r"o.csv:2: until '3' must be later than time '5'"),
        (HEADER + "5,9,maintenance,,\n7,,broken,1,\n", r"o.csv:3: No kind 'broken'"),
        (HEADER + "5,,maintenance,,\n", r"o.csv:2: maintenance needs the column 'until'"),
        (HEADER + "5,9,reserve,,\n", r"o.csv:2: reserve needs a count"),
        (HEADER + "5,9,fail,1,\n", r"o.csv:2: until '9'.*end is not known in advance"),
        (HEADER + "5,9,reserve,x,\n", r"o.csv:2: count 'x' is no number"),
        (HEADER + "5,,fail,,3-x\n", r"o.csv:2: nodes '3-x' are unknown"),
        (HEADER + "5,,fail,,7-3\n", r"o.csv:2: nodes '7-3' end before they begin"),
        (HEADER + "5,,fail,1,2\n", r"o.csv:2: give a number of nodes or name them, not both"),
        (HEADER + "soon,,fail,1,\n", r"o.csv:2: time 'soon' is neither seconds nor a date"),
        (HEADER + "2020-01-01T00:00:00,,fail,1,\n", r"o.csv:2: .*no offset from UTC"),
        (HEADER + "5,,fail,1,\n2020-01-01T00:00:00Z,,repair,1,\n", r"o.csv:3: .*seconds or dates, not both; .*:2"),
        (HEADER + "2020-01-01T00:00:00Z,,fail,1,\n2020-01-02T00:00:00,,repair,1,\n", r"o.csv:3: .*no offset from UTC"),
        (HEADER + "5,,fail,1,,,\n", r"o.csv:2: has more values than"),
        ("time,kin\n5,fail\n", r"o.csv:1: No column 'kin'; did you mean 'kind'"),
        ("time,count\n5,1\n", r"o.csv:1: has no column 'kind'"),
        ("", r"o.csv:1: has no column 'time'"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, text, message):
    path = tmp_path / "o.csv"
    path.write_text(text)
    with pytest.raises(JobcastError, match=message):
        read_outages(path, epoch=0)


def test_a_date_needs_a_log_that_tells_when_it_began(tmp_path):
    path = tmp_path / "o.csv"
    path.write_text(HEADER + "2020-01-01T00:00:00Z,,fail,1,\n")
    with pytest.raises(JobcastError, match="the log has no start date"):
        read_outages(path)


def test_a_file_gives_what_it_says(tmp_path):
    path = tmp_path / "o.csv"
    path.write_text(
        "kind,time,until,count,nodes\nmaintenance,1970-01-01T00:01:00Z,1970-01-01T02:02:00+02:00,,\n"
        "reserve,1970-01-01T00:00:50Z,1970-01-01T00:00:59Z,2,\nfail,1970-01-01T00:01:00Z,,,0-1 3\n"
    )
    found = read_outages(path, epoch=40)
    assert found.reservations == (Reservation(10, 19, 2), Reservation(20, 80))
    assert found.changes == (Change(20, "fail", nodes=((0, 2), (3, 4))),)
    path.write_text(HEADER + "100,200,maintenance,,\n")
    assert read_outages(path, origin=90).reservations == (Reservation(10, 110),)


def test_windows_are_repeated(tmp_path):
    (tmp_path / "failures.csv").write_text(HEADER + "5,,fail,1,\n9,,repair,1,\n")
    path = tmp_path / "machine.toml"
    path.write_text(
        'interrupted = "drop"\nseed = 4\nfailures = "failures.csv"\n[[window]]\nkind = "maintenance"\ntime = 1000\n'
        "hours = 0.5\nevery_days = 14\nuntil = 2500000\n"
    )
    found = read_outages(path)
    assert [r.start for r in found.reservations] == [1000 + 14 * 86400 * i for i in range(3)]
    assert found.reservations[0].end == 2800 and len(found.changes) == 2
    assert (found.interrupted, found.seed) == ("drop", 4)
    for text, message in [
        ("[[window]]\nkind = 'x'\nhours = 1\ntime = 5", "window 1: No kind 'x'"),
        ("[[window]]\nkind = 'maintenance'\nhours = -1\ntime = 5", "hours is how long"),
        ("[[window]]\nkind = 'maintenance'\nhours = 1", "window 1: 'time' is missing"),
        ("[[window]]\nkind = 'maintenance'\nhours = 1\ntime = 5\nevery_days = 1", "needs `until`"),
        ("[[window]]\nkind = 'maintenance'\nhours = 30\ntime = 5\nevery_days = 1\nuntil = 9", "longer than hours"),
        ("interrupted = 'wait'", "rule for interrupted jobs 'wait'"),
        ("[[windows]]\n", "did you mean 'window'"),
        ("x = = 1", "is no TOML.*line 1"),
        ("failures = 'none.csv'", "none.csv: cannot be read"),
    ]:
        path.write_text(text)
        with pytest.raises(JobcastError, match=message):
            read_outages(path)


def test_reserved_nodes_are_not_free_once_a_job_has_run_on_them_beyond_its_request():
    columns = {"submit": [0, 20, 40], "procs": [4, 1, 1], "requested": [10, 50, 50], "run_time": [30, 50, 50]}
    jobs = Workload.from_columns([1, 2, 3], machine_procs=4, **columns)
    outages = Outages([Reservation(15, 100, procs=2)])
    one = Simulation(jobs, make_policy("easy"), kill=False, allocator=FirstFit(Topology.flat(4)), outages=outages)
    free = []
    for second in (14, 16, 30, 40, 100):
        one.run(until=second)
        free.append(one.free)
    assert free == [0, 0, 1, 0, 4]


def test_a_start_at_the_end_of_a_reservation_is_explained():
    """Nothing but the reservation wakes the scheduler; as it begins no pass is due."""
    jobs = jobs_of((0, 4, 60, 60), machine=4)
    parts = {"allocator": FirstFit(Topology.flat(4)), "outages": Outages([Reservation(50, 100, procs=4)])}
    easy = make_policy("easy")
    schedule = simulate(jobs, easy, **parts)
    assert schedule.start.tolist() == [100]
    assert in_words(explain(schedule, 1, easy, **parts))[-1].startswith("t=100: started")
