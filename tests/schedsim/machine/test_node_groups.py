"""Machine files: what jobs ask of nodes, bad files, jobs that fit nowhere; figures, laws and words of schedules."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, Workload, make_policy, simulate
from predictors.core.hash_random import mixed
from predictors.data.formats.detect import writer_for
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.kernels.records import NEVER
from schedsim.machine import reserved_nodes
from schedsim.machine.failures import DRAWN
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of, read_machine
from schedsim.machine.outages import Change, Outages, Reservation, mask_of
from schedsim.machine.reserved_nodes import in_processors, reserving
from schedsim.results.resource_metrics import overfull, resource_figures
from schedsim.validate.laws import ON_NODES
from schedsim.validate.validate import check
from schedsim.workload.demands import KB_OF_GB
from tests.support.commands import invoke

THIN_AND_GPU = """
[[nodes]]
name = "thin"
count = 2
processors = 8
memory_gb = 16
partitions = ["batch"]
[[nodes]]
name = "gpu"
count = 1
processors = 8
gpus = 2
memory_gb = 32
partitions = ["gpu"]
"""
GPU = Machine((NodeGroup("gpu", 1, 8, gpus=2, memory_gb=16),))


def log_of(jobs, machine_procs, partitions=None):
    """A log of jobs: (requested, processors, and other columns by name), submitted a second apart."""
    names = sorted({name for _, _, more in jobs for name in more})
    values = {
        "job_id": range(1, len(jobs) + 1),
        "submit": range(len(jobs)),
        "run_time": [job[0] for job in jobs],
        "requested_time": [job[0] for job in jobs],
        "requested_procs": [job[1] for job in jobs],
        "wait": [0] * len(jobs),
        **{name: [job[2].get(name, 0) for job in jobs] for name in names},
    }
    unknown = {name: [name not in job[2] for job in jobs] for name in names}
    categories = {} if partitions is None else {"partition": partitions}
    return JobLog.from_columns(values, unknown, max_procs=machine_procs, categories=categories)


def schedule_of(jobs, machine, policy="easy", **about):
    log, demands, _ = demands_of(log_of(jobs, machine.procs, **about), machine)
    return simulate(Workload.from_log(log, demands), make_policy(policy))


def test_pieces_are_those_of_nodes_else_of_gpus_else_of_processors():
    log = log_of(
        [
            (9, 12, {"requested_nodes": 2, "requested_gpus": 3, "requested_job_memory": 2 * KB_OF_GB}),
            (9, 6, {"requested_gpus": 2}),
            (9, 6, {"requested_memory": KB_OF_GB, "exclusive": 1}),
            (9, 2, {"requested_memory": KB_OF_GB, "requested_job_memory": 0}),
        ],
        16,
    )
    _, demands, account = demands_of(log, Machine((NodeGroup("gpu", 2, 8, gpus=2, memory_gb=8),)))
    assert [demands.words(row) for row in range(4)] == [
        "2 nodes with 6 processors, 2 GPUs and 1 GB each",
        "2 pieces of 3 processors and 1 GPU",
        "6 pieces of 1 processor and 1 GB, shared with no other job",
        "2 pieces of 1 processor and 1 GB",
    ]
    assert account.count("unknown-memory") == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("count = 2", "count = 0", r'nodes 1 \("thin"\): count must be at least 1; got 0'),
        ("gpus = 2", "gpus = -1", r'nodes 2 \("gpu"\): gpus must be at least 0; got -1'),
        ("gpus = 2", 'gpus = "2"', "gpus must be a whole number"),
        ("gpus = 2", "gpu = 2", "did you mean 'gpus'"),
        ("memory_gb = 16", "memory_gb = nan", "memory_gb"),
        ("processors = 8\ngpus", "gpus", "'processors' is missing"),
        ('name = "gpu"', 'name = "thin"', "2 groups of nodes are called 'thin'"),
        ("count = 2", "count = 99999999", "count must be at most"),
        ("[[nodes]]", "[[node]]", "did you mean 'nodes'"),
        ("[[nodes]]", "source = 'x'\n[[nodes]]", "No key 'source'. Known: nodes"),
    ],
)
def test_a_machine_file_with_odd_values_is_refused(tmp_path, old, new, says):
    path = tmp_path / "machine.toml"
    path.write_text(THIN_AND_GPU.replace(old, new) if "[[" not in old else THIN_AND_GPU.replace(old, new, 1))
    with pytest.raises(JobcastError, match=says) as error:
        read_machine(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ((9, 4, {"requested_gpus": 3}), "job 2 asks for 3 pieces .* 3 nodes of .* have room for 2 pieces of its 3"),
        ((9, 8, {"requested_job_memory": 99 * KB_OF_GB}), "job 2 asks for 8 pieces"),
        ((9, 4, {"partition": 2}), "partition 'debug', which no node of .* serves .batch, gpu."),
        ((9, 4, {"partition": 0, "requested_gpus": 1}), "2 nodes of .* room for none"),
    ],
)
def test_a_job_that_fits_on_no_node_is_named_or_left_out(tmp_path, job, says):
    path = tmp_path / "machine.toml"
    path.write_text(THIN_AND_GPU)
    machine = read_machine(path)
    log = log_of([(9, 2, {"partition": 1}), job], machine.procs, partitions=("batch", "gpu", "debug"))
    with pytest.raises(JobcastError, match=says) as error:
        demands_of(log, machine)
    assert "--drop-wide" in str(error.value)
    left, demands, account = demands_of(log, machine, drop=True)
    assert (len(left), len(demands), account.count("no-place")) == (1, 1, 1)


def test_where_the_log_tells_no_partition_its_queue_does_as_in_slurms_accounting(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text(THIN_AND_GPU)
    jobs = log_of([(9, 1, {}), (9, 1, {}), (9, 1, {})], 24)
    columns = {
        name: jobs.values[name] for name in ("job_id", "submit", "run_time", "requested_time", "requested_procs")
    }
    named = {"categories": {"queue": ("gpu", "batch", "x")}, "max_procs": 24}
    log = JobLog.from_columns(columns | {"queue": [0, 1, 0]}, {"queue": [False, False, True]}, **named)
    _, demands, account = demands_of(log, read_machine(path))
    assert [demands.serves[demands.shapes[shape].node_set].tolist() for shape in demands.shape_of] == [
        [False, False, True], [True, True, False], [True, True, True],
    ]  # fmt: skip
    assert account.count("unknown-partition") == 1
    with pytest.raises(JobcastError, match=r"job 1 .* in the partition 'x', which no node of"):
        demands_of(JobLog.from_columns(columns | {"queue": [2, 1, 0]}, {}, **named), read_machine(path))


def test_memory_of_all_processors_beyond_64_bits_is_refused_and_not_lost():
    jobs = [(9, 8, {"requested_memory": 1 << 61}), (9, 1, {"requested_memory": 1})]
    with pytest.raises(JobcastError, match="job 1 asks for 8 pieces"):
        demands_of(log_of(jobs, 8), GPU)


def test_gpus_on_a_machine_that_has_none_are_refused():
    with pytest.raises(JobcastError, match=r"job 1 asks for 1 processor and 1 GPU, but .* has no GPU: set gpus"):
        demands_of(log_of([(9, 1, {"requested_gpus": 1})], 8), Machine((NodeGroup("thin", 1, 8),)))


@pytest.mark.parametrize(
    ("kept", "users", "says"),
    [((None, 2), (1, 2), "2 s"), ((2, None), (1, 2), "2 s"), ((2, 0), (5, 5), None), ((1, None), (5, 5), "2 s"),
     ((None, 2), (5, None), "2 s"), ((0, None), (1, 2), None)],
)  # fmt: skip
def test_the_law_of_nodes_tells_of_other_users(kept, users, says):
    """A third job starts on the node of others that it must not join, by demands that the schedule ignored."""
    machine = Machine((NodeGroup("thin", 1, 8),))

    def log(**columns):
        names = [{name: row[k] for name, row in columns.items() if row[k] is not None} for k in (0, 0, 1)]
        return log_of([(9, 1, more) for more in names], machine.procs)

    free = simulate(Workload.from_log(log(user=users), demands_of(log(user=users), machine)[1]), make_policy("easy"))
    kept_by = demands_of(log(user=users, exclusive=kept), machine)[1]
    found = overfull(replace(free, workload=replace(free.workload, demands=kept_by)))
    wrong = kept[0] == 1  # then already the second one
    assert found == (None if says is None else (1 if wrong else 2, found[1]))
    assert says is None or found[1] == f"runs at {1 if wrong else 2} s on node 0, which one of its jobs has exclusively"


@pytest.mark.parametrize(
    ("jobs", "machine", "lacks"),
    [
        ([(9, 2, {"requested_gpus": 2}), (9, 1, {"requested_gpus": 1})], GPU, ("gpus",)),
        ([(9, 7, {}), (9, 2, {})], GPU, ("processors",)),
        ([(9, 1, {"requested_job_memory": 9 * KB_OF_GB})] * 2, GPU, ("memory",)),
        ([(9, 1, {}), (9, 1, {"exclusive": 1})], GPU, ("nodes",)),
        ([(9, 1, {"exclusive": 1}), (9, 1, {})], GPU, ("nodes",)),
        ([(9, 1, {"user": 3, "exclusive": 2}), (9, 1, {"user": 4})], GPU, ("nodes",)),
        (
            [(9, 8, {}), (9, 2, {"requested_gpus": 1})],
            Machine((NodeGroup("gpu", 1, 8, gpus=2), NodeGroup("thin", 1, 8))),
            (),
        ),
    ],
)
def test_an_explanation_says_which_resource_held_the_job(jobs, machine, lacks):
    schedule = schedule_of(jobs, machine)
    found = explain(schedule, 2, make_policy("easy"))
    assert (found.chain[0].finding.rule, found.chain[0].finding.lacking) == ("head", lacks)
    assert schedule.start.tolist() == [0, 9]
    words = in_words(found)[1]
    assert ("no nodes had all at once" if not lacks else "its nodes lacked") in words
    behind = explain(schedule_of([*jobs, jobs[1]], machine), 3, make_policy("easy")).chain[0].finding
    assert (behind.rule, behind.head, behind.lacking) == ("resources", 2, lacks)


def test_figures_by_resource_and_the_law_of_nodes():
    jobs = [(10, 2, {"requested_gpus": 2}), (10, 2, {"requested_gpus": 2}), (20, 1, {})]
    schedule = schedule_of(jobs, GPU)
    found = resource_figures(schedule)
    assert found["resources"]["gpus"] == {
        "total": 2,
        "utilisation": pytest.approx(40 / 44),
        "held": pytest.approx(40 / 44),
    }
    assert found["by_dominant"]["gpus"]["mean_wait_s"] == 4.5
    assert ON_NODES in check(schedule, make_policy("easy")).kept
    broken = schedule.start.copy()
    broken[1] = 1
    object.__setattr__(schedule, "start", broken)
    object.__setattr__(schedule, "end", broken + schedule.workload.run_time)
    with pytest.raises(JobcastError, match="job 2 starts at 1 s on node 0, when 4 of its 2 gpus are in use"):
        check(schedule, make_policy("easy"))


def test_the_command_simulates_explains_and_refuses(tmp_path):
    machine, log = tmp_path / "machine.toml", tmp_path / "log.parquet"
    machine.write_text(THIN_AND_GPU)
    jobs = [(100, 2, {"requested_gpus": 2, "partition": 1}), (100, 2, {"requested_gpus": 1, "partition": 1})]
    writer_for(log)(log_of(jobs, 24, partitions=("batch", "gpu")), log)
    run = lambda *more: invoke("simulate", log, "--machine", machine, *more)  # noqa: E731
    found = json.loads(run("--json", "--explain", "2", "--paranoid").stdout)
    assert found["by_dominant"]["gpus"]["jobs"] == 2
    assert run("--policy", "careful", "--estimates", "careful", "--paranoid").exit_code == 0
    assert found["explanation"]["chain"][0]["finding"]["lacking"] == ["gpus"]
    assert "its nodes lacked GPUs" in run("--explain", "2").stdout
    out = tmp_path / "out.csv"
    assert run("--schedule", str(out)).exit_code == 0
    assert out.read_text().splitlines()[1].endswith(",2")  # node 2 is the one with GPUs
    for more, says in (
        (["--policy", "knapsack"], "chooses by numbers of processors"),
        (["--procs", "7"], "have 24 processors; leave --procs out"),
        (["--allocator", "first-fit"], "leave one of them out"),
    ):
        refused = run(*more)
        assert isinstance(refused.exception, JobcastError)
        assert says in str(refused.exception)
    outages = tmp_path / "outages.csv"
    outages.write_text("time,until,kind,count,nodes\n50,400,reserve,,2\n")
    kept = json.loads(run("--outages", str(outages), "--paranoid", "--json").stdout)
    assert kept["mean_wait_s"] == (400 + 499) / 2 and 0 < kept["available"] < 1
    outages.write_text("time,until,kind,count,nodes\n50,,fail,,2\n400,,repair,,2\n")
    failed = json.loads(run("--outages", str(outages), "--paranoid", "--json").stdout)
    assert failed["mean_wait_s"] == kept["mean_wait_s"] and failed["interrupted"] == 1
    told = json.loads(invoke("log", "info", log, "--json").stdout)
    assert told["jobs_with_gpus"] == 2
    assert told["jobs_with_memory"] is None
    assert np.isclose(found["resources"]["gpus"]["utilisation"], 300 / (2 * 200), atol=0.01)


PIECE = st.tuples(st.integers(0, 6), st.integers(1, 6)).map(lambda one: (one[0], min(7, sum(one))))
RESERVATION = st.tuples(
    st.integers(-3, 9), st.integers(1, 6), st.none() | st.lists(PIECE, min_size=1, max_size=3).map(tuple)
).map(lambda one: Reservation(one[0], one[0] + one[1], nodes=one[2]))


DOWN = Outages(
    [], [Change(1, "fail", nodes=((0, 1), (5, 6))), Change(4, "fail", 2), Change(6, "repair", nodes=((5, 6),))], seed=1
)
"""Two nodes fail, then two by chance; one is repaired."""


@settings(max_examples=30)
@given(st.lists(RESERVATION, max_size=6))
def test_what_is_reserved_is_the_same_second_by_second_and_node_by_node(reserved):
    """From when on each node is reserved, seen from any second, and how many processors are, or are down."""
    machine = Machine((NodeGroup("thin", 4, 2), NodeGroup("fat", 3, 5)))
    procs = np.repeat([2, 5], [4, 3])
    demands, outages = demands_of(log_of([(9, 1, {})], machine.procs), machine)[1], Outages(reserved)
    masks = [mask_of(((0, 7),) if one.nodes is None else one.nodes, 7) for one in reserved]
    arrays, spans = reserving(demands, outages).arrays(), in_processors(demands, outages).reservations
    failing, up = in_processors(demands, DOWN.with_reservations(reserved)).reservations, [1, 2, 3, 4, 6]
    drawn = [up.pop(mixed(DOWN.seed, number, DRAWN) % len(up)) for number in (1, 2)]
    for second in range(-4, 17):
        ahead = int(np.searchsorted(arrays.windows[:, 1], second, side="right"))
        opens = arrays.opens[ahead, arrays.kind_of].tolist()
        slow = [
            min((one.start for one, mask in zip(reserved, masks, strict=True) if mask[node] and one.end > second),
                default=NEVER)
            for node in range(7)
        ]  # fmt: skip
        assert opens == slow
        now = np.zeros(7, dtype=bool)
        for one, mask in zip(reserved, masks, strict=True):
            now |= mask & (one.start <= second < one.end)
        assert sum(one.procs for one in spans if one.start <= second < one.end) == procs[now].sum()
        for node, fails, repaired in ((0, 1, NEVER), (5, 1, 6), *((node, 4, NEVER) for node in drawn)):
            now[node] |= fails <= second < repaired
        assert sum(one.procs for one in failing if one.start <= second < one.end) == procs[now].sum()


def test_thousands_of_reservations_take_a_moment(monkeypatch):
    """They are looked up, not gone through at each end: without that this takes minutes."""
    machine = Machine((NodeGroup("thin", 3, 8),))
    log = log_of([(60, 8, {}), (900, 24, {}), (60, 8, {})], machine.procs)
    workload = Workload.from_log(log, demands_of(log, machine)[1])
    few, many = (Outages([Reservation(10 * i, 10 * i + 5, nodes=((i % 3, i % 3 + 1),)) for i in range(n)])
                 for n in (3, 1500))  # fmt: skip
    simulate(workload, make_policy("easy"), outages=few)  # compiled
    begin = time.process_time()
    found = simulate(workload, make_policy("easy"), outages=many)
    assert time.process_time() - begin < 5
    assert found.start.tolist() == [14_975, 15_035, 15_935]  # once its node is free for ever; each behind the other
    monkeypatch.setattr(reserved_nodes, "MOST_RESERVED", 4000)
    with pytest.raises(JobcastError, match="1,500 reservations of 3 different groups of nodes are too many"):
        simulate(workload, make_policy("easy"), outages=many)
