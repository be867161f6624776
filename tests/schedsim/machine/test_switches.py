"""Switches of a machine file: the tree that they make, what is refused, and what does not change without them."""

import pytest

from jobcast import JobcastError, JobLog, make_policy, simulate
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of, read_machine
from schedsim.machine.topology import Switch, tree_of
from tests.oracle.machine import Box
from tests.support.nodes import job_on, workload_on

GROUPS = """
[[nodes]]
name = "thin"
count = 4
processors = 8
switch = "leaf[1-2]"
[[nodes]]
name = "gpu"
count = 1
processors = 8
switch = "leaf3"
"""
SWITCHES = """
[[switches]]
name = "spine"
parent = "core"
[[switches]]
name = "leaf[1-2]"
parent = "spine"
[[switches]]
name = "leaf3"
parent = "core"
[[switches]]
name = "core"
"""


def read(tmp_path, text):
    path = tmp_path / "machine.toml"
    path.write_text(text)
    return read_machine(path)


def test_switches_make_a_tree_in_the_order_of_the_file(tmp_path):
    tree = read(tmp_path, GROUPS + SWITCHES).tree
    assert (tree.leaf_of.tolist(), tree.parent_of.tolist()) == ([1, 1, 2, 2, 3], [4, 0, 0, 4, -1])


def test_without_a_table_of_switches_one_stands_above_all(tmp_path):
    tree = read(tmp_path, GROUPS).tree
    assert (tree.leaf_of.tolist(), tree.parent_of.tolist()) == ([0, 0, 1, 1, 2], [3, 3, 3, -1])
    one = tree_of([("a", 2, "leaf"), ("b", 1, "leaf")], (), "machine.toml")
    assert (one.leaf_of.tolist(), one.parent_of.tolist()) == ([0, 0, 0], [-1])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"spine"\nparent', '"leaf3"\nparent', "2 switches are called 'leaf3'"),
        ('name = "leaf[1-2]"', 'name = "leaf[1-3]"', "2 switches are called 'leaf3'"),
        ('"spine"\nparent = "core"', '"spine"\nparent = "cor"', "switch 'spine': parent 'cor' is none of the"),
        ('"spine"\nparent = "core"', '"spine"\nparent = "leaf1"', "switch 'spine' is above itself, by 'leaf1'"),
        ('name = "core"', 'name = "core"\nparent = "core"', "switch 'core' is above itself, by 'core'"),
        ('switch = "leaf3"', 'switch = "leaf4"', "nodes 'gpu': switch 'leaf4' is none of the"),
        ('switch = "leaf3"', 'switch = "spine"', "switch 'spine' has nodes, and 'leaf1' below it"),
        ('switch = "leaf3"\n', "", "nodes 'gpu' have no switch, and others have"),
        ('switch = "leaf3"', 'switch = ""', r'nodes 2 \("gpu"\): switch'),
        ('switch = "leaf3"', 'switch = ","', "nodes 'gpu': switch ',' names none"),
        ('switch = "leaf3"', "switch = 3", r'nodes 2 \("gpu"\): switch'),
        ('switch = "leaf[1-2]"', 'switch = "leaf[1-3]"', "4 nodes cannot lie in equal parts on the 3 switches"),
        ('switch = "leaf[1-2]"', 'switch = "leaf[1-3000000000]"', "too long a list"),
        ('switch = "leaf[1-2]"', 'switch = "leaf[1-99999999999999]"', "too long a list"),
        ('name = "core"', 'name = "core"\nspeed = 1', "No key 'speed'. Known: name, parent"),
        ("[[switches]]", "[[switch]]", "did you mean 'switches'"),
    ],
)
def test_switches_that_make_no_tree_are_refused_in_a_line(tmp_path, old, new, says):
    text = GROUPS + SWITCHES
    assert old in text
    with pytest.raises(JobcastError, match=says) as error:
        read(tmp_path, text.replace(old, new, -1 if old.startswith("[[") else 1))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "machine.toml"))


def test_switches_without_nodes_are_refused(tmp_path):
    with pytest.raises(JobcastError, match=r"no \[\[nodes\]\] names one"):
        read(tmp_path, GROUPS.replace('switch = "leaf[1-2]"\n', "").replace('switch = "leaf3"\n', "") + SWITCHES)


def test_switches_of_a_machine_made_in_python_are_checked():
    with pytest.raises(JobcastError, match="the machine: switches: name must be"):
        Machine((NodeGroup("n", 1, 8, switch="a"),), switches=(Switch(3),))


def test_schedules_depend_on_switches_and_on_nothing_new_without_them():
    plain, switched, higher = (
        Machine((NodeGroup("n", 2, 8, switch=switch),), switches=switches)
        for switch, switches in ((None, ()), ("a,b", ()), ("a,b", (Switch("b"), Switch("a"))))
    )
    assert plain.words == "n: count 2, processors 8"
    assert higher.words == "n: count 2, processors 8, switch a,b; switch b; switch a"
    log = JobLog.from_columns({"job_id": [1], "submit": [0], "requested_procs": [2]}, {})
    found = [demands_of(log, machine)[1] for machine in (plain, switched, higher)]
    assert found[0].leaf_of is None and found[0].parent_of is None
    assert len({one.digest for one in found}) == 3


@pytest.mark.parametrize("policy", ["easy", "conservative-replan"])
def test_other_policies_keep_first_fit(policy):
    ways = [(0,), (1,), (1,), (0,)]
    job = job_on(1, 0, 10, 10, 2, (8, 0, 0), True, nodes=(0, 1, 2, 3))
    jobs = workload_on([Box((8, 0, 0), way=way) for way in ways], [job])
    assert simulate(jobs, make_policy(policy)).placements.node.tolist() == [0, 1]
