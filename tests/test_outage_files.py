"""Outages as users give them: what cannot be is named, files, the command."""

import pytest
from typer.testing import CliRunner

from experiments.cli import app
from predictors.data.errors import JobcastError
from schedsim.allocators import FirstFit
from schedsim.engine import simulate
from schedsim.outage_files import read_outages
from schedsim.outages import Change, Outages, Reservation
from schedsim.policy import make_policy
from schedsim.topology import Topology
from schedsim.workload import Workload


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
        ({"world": "x"}, "'x' is not a model of run times"),
        ({"outages": "x.csv"}, "are no outages; make them with"),
        ({"policy": "easy"}, "'easy' is not a policy; make one with .*make_policy"),
        ({"workload": 5}, "5 is not a workload"),
        ({"kill": "no"}, "kill is True or False"),
    ],
)
def test_names_in_the_place_of_parts_are_refused(given, message):
    with pytest.raises(JobcastError, match=message):
        simulate(**({"workload": ONE, "policy": make_policy("easy")} | given))


ONE = Workload.from_columns([1], submit=[0], procs=[4], requested=[20], run_time=[20], machine_procs=4)


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
        (HEADER + "5,3,maintenance,,\n", r"o.csv:2: a reservation from 5 to 3 s ends before it begins"),
        (HEADER + "5,9,maintenance,,\n7,,broken,1,\n", r"o.csv:3: No kind 'broken'"),
        (HEADER + "5,,maintenance,,\n", r"o.csv:2: maintenance needs the column 'until'"),
        (HEADER + "5,9,reserve,,\n", r"o.csv:2: reserve needs a count"),
        (HEADER + "5,9,fail,1,\n", r"o.csv:2: until '9'.*nobody knows its end"),
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
    with pytest.raises(JobcastError, match="does not tell when it began"):
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
        ("[[window]]\nkind = 'x'", "window 1: No kind 'x'"),
        ("[[window]]\nkind = 'maintenance'\nhours = -1", "hours is how long"),
        ("[[window]]\nkind = 'maintenance'\nhours = 1", "needs `time`"),
        ("[[window]]\nkind = 'maintenance'\nhours = 1\ntime = 5\nevery_days = 1", "needs `until`"),
        ("[[window]]\nkind = 'maintenance'\nhours = 30\ntime = 5\nevery_days = 1\nuntil = 9", "longer than hours"),
        ("interrupted = 'wait'", "rule for interrupted jobs 'wait'"),
        ("[[windows]]\n", "did you mean 'window'"),
        ("x = = 1", "is not TOML.*line 1"),
        ("failures = 'none.csv'", "none.csv: cannot be read"),
    ]:
        path.write_text(text)
        with pytest.raises(JobcastError, match=message):
            read_outages(path)


SWF = "; MaxProcs: 8\n" + "".join(
    f"{i} {i} -1 20 {procs} -1 -1 {procs} 30 -1 1 1 1 1 1 1 -1 -1\n" for i, procs in enumerate((3, 4, 8, 1), start=1)
)


@pytest.mark.parametrize("policy", ["easy", "conservative-compress", "ceil", "hybrid-2"])
def test_the_command_takes_outages(tmp_path, policy):
    (tmp_path / "log.swf").write_text(SWF)
    (tmp_path / "o.csv").write_text(HEADER + "40,90,maintenance,,\n25,,fail,1,\n30,,repair,1,\n")
    found = CliRunner().invoke(
        app,
        ["simulate", str(tmp_path / "log.swf"), "--policy", policy, "--outages", str(tmp_path / "o.csv"), "--paranoid"],
    )
    assert found.exit_code == 0, found.exception
    assert "of the machine" in found.output.lower()
