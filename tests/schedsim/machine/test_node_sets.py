"""Node sets: constraints as Slurm reads them, types of GPUs; what is refused, and what the account says of the rest."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from experiments.runs.simulate import nodes_told
from jobcast import JobcastError, JobLog, Workload, make_policy, simulate
from schedsim.machine.constraints import read_constraint
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of, read_machine
from tests.oracle.constraints import listed, matches

FILE = """
[[nodes]]
name = "thin"
count = 2
processors = 8
partitions = ["batch"]
features = ["ib", "old"]
[[nodes]]
name = "gpu"
count = 1
processors = 8
gpus = 2
gpu_type = "a100"
partitions = ["batch", "gpu"]
features = ["ib"]
[[nodes]]
name = "new"
count = 1
processors = 8
gpus = 2
gpu_type = "h100"
partitions = ["gpu"]
features = ["nvme"]
"""
HAVE = {"a": {"a"}, "b": {"b"}, "c": {"c"}, "ab": {"a", "b"}, "ac": {"a", "c"}, "bc": {"b", "c"}, "": set()}


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text(FILE)
    return read_machine(path)


def log_of(*jobs):
    """A log of jobs by (constraint, type of GPU, partition, and numbers by column); "" is unknown."""
    texts = {name: [job[place] for job in jobs] for place, name in enumerate(("constraint", "gpu_type", "partition"))}
    names = {column: tuple(dict.fromkeys(filter(None, found))) for column, found in texts.items()}
    columns = {c: [names[c].index(text) if text else 0 for text in found] for c, found in texts.items()}
    unknown = {column: [not text for text in found] for column, found in texts.items()}
    for column in ("requested_procs", "requested_nodes", "requested_gpus"):
        columns[column] = [job[3].get(column, int(column == "requested_procs")) for job in jobs]
    columns |= dict.fromkeys(("run_time", "requested_time"), [60] * len(jobs)) | {"wait": [0] * len(jobs)}
    return JobLog.from_columns(
        {"job_id": range(1, len(jobs) + 1), "submit": range(len(jobs)), **columns}, unknown, max_procs=32,
        categories=names,
    )  # fmt: skip


def nodes_of(machine, *jobs):
    _, demands, account = demands_of(log_of(*jobs), machine)
    sets = demands.serves[demands.shapes["node_set"][demands.shape_of]]
    return [np.flatnonzero(row).tolist() for row in sets], account


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a", "a ab ac"), ("a&b", "ab"), ("a,b", "ab"), ("a, b", "ab"), (" a & b ", "ab"), ("a|b", "a b ab ac bc"),
        ("a|b&c", "ac bc"), ("b&c|a", "a ab ac bc"), ("a|(b&c)", "a ab ac bc"), ("a&(b|c)", "ab ac"),
        ("(a|b)&(b|c)", "b ab ac bc"), ("(a)", "a ab ac"), ("a|", "a ab ac"), ("a&b,", "ab"), ("[a]", "a ab ac"),
        ("[a|b]", "a b ab ac bc"), ("c&[a|b]", "ac bc"), ("[a|(b&c)]&c", "ac bc"), ("[a|b]&c|b", "b ab ac bc"),
        ("a*4", "a ab ac"), ("[a*2&(b|c)*4]", "a b c ab ac bc"), ("[(a&b)*2]", "ab"),
    ],
)  # fmt: skip
def test_a_constraint_is_read_from_left_to_right(text, nodes):
    found = read_constraint(text).matched(lambda name: np.array([name in has for has in HAVE.values()]))
    assert [name for name, here in zip(HAVE, found, strict=True) if here] == nodes.split()
    assert [name for name, has in HAVE.items() if matches(listed(text), has)] == nodes.split() or text == "a*4"


@pytest.mark.parametrize(
    "text",
    [
        "a&&b", "&a", "|", "(a", "a)", "a(b)", "(a)b", "()", "((a))", "(a|(b&c))", "(a&)", "[a", "a]", "[[a]|b]",
        "[a|b]&[b|c]", "[a&b]", "[a|b*2]", "a*", "a*0", "a*x", "a*2&b", "(a|b)*2", "*2", "[a*2&b]", "a b", "[a*2|b*2]",
        "c|[a|b]", "[a|b]|c", "c&[a*2]", "(" * 100_000, "a&" * 50_000 + "&",
    ],
)  # fmt: skip
def test_what_is_no_constraint_is_not_read(text):
    assert read_constraint(text) is None


def random_text(random):
    """A text of signs, or one that is more of a constraint."""

    def group():
        inner = "".join(random.choice("abc") + random.choice("&|") for _ in range(random.randint(1, 2)))
        return random.choice("abc") if random.random() < 0.6 else f"({inner}{random.choice('abc')})"

    def plain():
        return "".join(group() + random.choice("&|") for _ in range(random.randint(0, 2))) + group()

    if random.random() < 0.4:
        return "".join(random.choice(["*2", ", ", *"aabbcc&|()[]"]) for _ in range(random.randint(1, 9)))
    if random.random() < 0.4:
        return plain()
    count, operator = random.choice(["", "", "*2"]), random.choice("||&")
    within = operator.join(group() + count for _ in range(random.randint(1, 3)))
    before, after = (random.choice(["", plain()]) for _ in range(2))
    return before + random.choice("&&|") * bool(before) + f"[{within}]" + random.choice("&&|") * bool(after) + after


def test_random_constraints_mean_what_the_c_of_slurmctld_says_of_each_node():
    """What jobcast reads Slurm takes; not read are a count of a count, and some brackets next to other terms."""
    random, read, brackets = Random(5), 0, 0
    for text in (random_text(random) for _ in range(6000)):
        found, slow = read_constraint(text), listed(text)
        assert found is None or slow is not None, text
        if found is None:
            assert slow is None or (len(slow) > 1 and "[" in text) or "*2*2" in text, text
            continue
        read += 1
        brackets += "[" in text
        having = found.matched(lambda name: np.array([name in has for has in HAVE.values()]))
        expected = [matches(slow, has) for has in HAVE.values()]
        if found.covers:  # the nodes beyond may be any
            assert all(expected) and len(slow) == 1, text
        else:
            assert np.broadcast_to(having, len(HAVE)).tolist() == expected, text
    assert read > 2000 and brackets > 500


def test_a_job_uses_the_nodes_of_its_partition_with_its_features_and_type_of_gpu(machine):
    jobs = [
        ("ib", "", "", {}), ("ib", "", "gpu", {}), ("ib&old|nvme", "", "", {}), ("", "a100", "", {"requested_gpus": 1}),
        ("ib|nvme", "h100", "gpu", {"requested_gpus": 2}), ("", "", "gpu", {}), ("", "", "", {}),
        ("", "h100,a100", "", {"requested_gpus": 1}),
    ]  # fmt: skip
    nodes, account = nodes_of(machine, *jobs)
    assert nodes == [[0, 1, 2], [2], [0, 1, 3], [2], [3], [2, 3], [0, 1, 2, 3], [2, 3]]
    assert {one.rule: one.places for one in account.findings} == {
        "gpu-types": (8,),
        "unknown-partition": (1, 3, 4, 7, 8),
    }


def test_what_goes_into_no_node_set_is_told_by_job(machine):
    jobs = [
        ("old*1", "", "", {"requested_nodes": 1}), ("old*1", "", "", {"requested_nodes": 3}),
        ("[old|nvme]", "", "", {"requested_nodes": 1}), ("[old|nvme]", "", "", {"requested_nodes": 2}),
        ("[old*1&nvme*1]", "", "", {"requested_nodes": 3}), ("ib&&old", "", "", {}), ("(ib", "", "", {}),
        ("", "", "", {}),
    ]  # fmt: skip
    nodes, account = nodes_of(machine, *jobs)
    assert nodes == [[0, 1], [0, 1, 2, 3], [0, 1, 3], [0, 1, 3], [0, 1, 3], *[[0, 1, 2, 3]] * 3]
    told = {one.rule: (one.places, one.column, one.example) for one in account.findings if one.column == "constraint"}
    assert told == {
        "constraint-unread": ((6, 7), "constraint", "ib&&old"),
        "feature-counts": ((1, 2, 5), "constraint", "old*1"),
        "matching-or": ((4,), "constraint", "[old|nvme]"),
    }
    assert account.dropped == account.changed == 0


def test_where_no_group_has_features_or_types_the_account_counts_what_is_ignored():
    jobs = [("ib&&", "a100", "", {"requested_gpus": 1}), ("x", "", "", {}), ("", "", "", {})]
    nodes, account = nodes_of(Machine((NodeGroup("n", 2, 8, gpus=2),)), *jobs)
    assert nodes == [[0, 1]] * 3
    assert {one.rule: one.places for one in account.findings} == {"constraint": (1, 2), "gpu-type": (1,)}


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (("ib|opa", "", "", {}), r"with the constraint 'ib\|opa', but no node of .* has the feature 'opa' \(ib, old,"),
        (("IB*2", "", "", {"requested_nodes": 3}), r"the constraint 'IB\*2', but no node of .* has the feature 'IB'"),
        (("", "v100", "", {"requested_gpus": 1}), r"GPU with GPUs of the type 'v100', which no node of .* has \(a100,"),
        (("ib", "", "debug", {}), r"in the partition 'debug', which no node of .* serves \(batch, gpu\)"),
        (("nvme", "", "batch", {}), "in the partition 'batch' with the constraint 'nvme', and no node of .* has all"),
        (("ib&nvme", "", "", {}), "1 processor with the constraint 'ib&nvme', and no node of .* has all of that"),
        (("ib", "h100", "", {"requested_gpus": 1}), "constraint 'ib' with GPUs of the type 'h100', and no node of"),
        (("old", "", "", {"requested_nodes": 3}), "3 nodes .* the 2 nodes of .* have room for 2 pieces of its 3"),
    ],
)  # fmt: skip
def test_a_job_without_nodes_is_refused_in_a_line_or_left_out(machine, job, says):
    log = log_of(("", "", "", {}), job)
    with pytest.raises(JobcastError, match=f"job 2 asks for .*{says}.*; give the nodes .* --drop-wide") as error:
        demands_of(log, machine)
    assert "\n" not in str(error.value)
    left, _, account = demands_of(log, machine, drop=True)
    assert left["job_id"].tolist() == [1] and account.count("no-place") == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('features = ["nvme"]', "features = []", r"nodes 3 \('new'\): features names none; leave it out: then they"),
        ('["nvme"]', '["nvme", "ib", "nvme"]', "nodes 'new': features names 'nvme' 2 times"),
        ('["gpu"]', '["gpu", "gpu"]', "nodes 'new': partitions names 'gpu' 2 times"),
        ('["nvme"]', '["a|b"]', r"nodes 'new': no constraint can name the feature 'a\|b'"),
        ('["nvme"]', '["a b"]', "no constraint can name the feature 'a b'"),
        ('["nvme"]', '[""]', r'nodes 3 \("new"\): features 1 must be'),
        ('["nvme"]', '"nvme"', "features must be a list"),
        ('gpus = 2\ngpu_type = "h100"', 'gpu_type = "h100"', "nodes 'new': gpu_type 'h100' without GPUs; set gpus"),
        ('gpu_type = "h100"', 'gpu_type = ""', "gpu_type must"),
        ('gpu_type = "h100"', 'gpu_type = "h100,a100"', "gpu_type 'h100,a100' has a blank or a comma"),
        ('gpu_type = "h100"', 'feature = ["x"]', "did you mean 'features'"),
    ],
)  # fmt: skip
def test_a_machine_file_with_odd_features_is_refused(tmp_path, old, new, says):
    path = tmp_path / "machine.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(JobcastError, match=says) as error:
        read_machine(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_schedules_depend_on_features_and_types_and_say_so(machine):
    plain = Machine((NodeGroup("n", 2, 8),))
    log = log_of(*[("old", "", "", {"requested_procs": 8})] * 4)
    starts = [
        simulate(
            Workload.from_log(replace(log, max_procs=16), demands_of(log, one)[1]), make_policy("easy")
        ).start.tolist()
        for one in (plain, Machine((NodeGroup("n", 1, 8, features=("old",)), NodeGroup("m", 1, 8))))
    ]
    assert starts == [[0, 1, 60, 61], [0, 60, 120, 180]]
    assert machine.words.split("; ")[1] == (
        "gpu: count 1, processors 8, gpus 2, gpu_type a100, partitions batch gpu, features ib"
    )
    kept = {"name": "thin", "count": 2, "processors": 8, "partitions": [], "features": ["ib", "old"], "gpu_type": None}
    told = nodes_told([{"name": "site", "machine": {"nodes": [kept]}}])
    assert told == {"nodes": "site: thin: count 2, processors 8, features ib old"}
