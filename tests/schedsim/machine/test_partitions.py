"""Partitions: the least sufficient size, the one that blocks the fewest larger ones; machines and node sets as data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Workload, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.allocators import FirstFit
from schedsim.machine.partitions import Hierarchy, Level, Partitions, Within, allocator_named, read_hierarchy, widened
from schedsim.machine.topology import Topology
from schedsim.validate.validate import check
from tests.support.commands import invoke
from tests.support.engine_runs import jobs_of, workload_of
from tests.support.strategies import seeded_workload

K = 1024
MIRA = Partitions(Hierarchy.mira())


def free_but(*taken, nodes=48 * K):
    """All nodes but those of the pieces (first, last + 1)."""
    free = np.ones(nodes, dtype=bool)
    for first, end in taken:
        free[first:end] = False
    return free


def open_parts(hierarchy, free):
    """Partitions all of whose nodes are free, as sets of nodes, told from the pieces alone."""
    parts = [frozenset(n for first, end in part for n in range(first, end)) for part in hierarchy.parts]
    return [part for part in parts if all(free[n] for n in part)]


SMALL = Hierarchy(
    24, (Level(2, tuple(range(0, 24, 2))), Level(4, (0, 4, 8, 12, 16, 20)), Level(4, (0, 2, 8, 10), skip=2),
         Level(8, (0, 8, 16)), Level(12, (0, 12)), Level(16, (0, 8)), Level(24, (0,))),
)  # fmt: skip


@given(st.lists(st.booleans(), min_size=24, max_size=24), st.integers(1, 24))
def test_the_partition_taken_blocks_the_fewest_larger_ones(free, procs):
    """By brute force: of all free partitions of the least size, none leaves more larger ones free."""
    free = np.array(free) | (np.arange(24) % 5 < 3)
    allocator = Partitions(SMALL)
    nodes = allocator.place(free, procs, job_id=1)
    size = min(s for s in SMALL.sizes if s >= procs)
    assert allocator.allocated(np.array([procs])).tolist() == [size]
    choices = [part for part in open_parts(SMALL, free) if len(part) == size]
    if nodes is None:
        assert not choices
        return

    def left(part):
        after = free.copy()
        after[list(part)] = False
        return sum(len(other) > size for other in open_parts(SMALL, after))

    assert frozenset(nodes.tolist()) in choices and (np.diff(nodes) > 0).all()
    assert left(frozenset(nodes.tolist())) == max(map(left, choices))


def test_a_small_job_on_an_empty_half_takes_what_blocks_least():
    """The first 16 K are taken but for 1 K: a 512-node job goes there, where no larger partition is free any more."""
    assert MIRA.place(free_but((0, 15 * K)), 512, 1)[0] == 15 * K
    # all of the lower half but one 8 K partition is taken: 2 K go there and not into the empty half
    assert MIRA.place(free_but((0, 16 * K)), 2 * K, 1)[0] in range(16 * K, 48 * K)
    assert MIRA.place(free_but((0, 8 * K), (12 * K, 24 * K)), 2 * K, 1)[0] == 8 * K


def test_a_started_job_blocks_its_ancestors():
    """1 K started blocks the 2 K to 32 K partitions, the quarter, the half and the whole machine that it lies in."""
    free = free_but()
    free[MIRA.place(free, K, 1)] = False
    h = MIRA.hierarchy
    closed = [size for size, part in zip(h.size_of, h.parts, strict=True) if not all(free[a:b].all() for a, b in part)]
    assert sorted(closed) == [512, 512, K, 2 * K, 4 * K, 8 * K, 12 * K, 16 * K, 24 * K, 32 * K, 48 * K]


def test_mira_as_the_paper_tells():
    assert MIRA.allocated(np.array([1, 512, 513, 4096, 4097, 9000, 12_289, 24_577, 33_000])).tolist() == [
        512, 512, K, 4 * K, 8 * K, 12 * K, 16 * K, 32 * K, 48 * K,
    ]  # fmt: skip
    plain, odd = MIRA, Partitions(Hierarchy.mira(odd=True))
    free = free_but((2 * K, 4 * K), (6 * K, 48 * K))
    assert plain.place(free, 4 * K, 1) is None
    nodes = odd.place(free, 4 * K, 1)
    assert len(nodes) == 4 * K and {int(n) // (2 * K) for n in nodes} == {0, 2}


def test_a_queue_on_a_third_leaves_a_32_k_partition_free():
    """Jobs kept to the first 16 K nodes wait when these are full, though two thirds of the machine are empty."""
    third = Within(MIRA, sets=(((0, 16 * K),),), set_of=dict.fromkeys(range(1, 9), 0))
    sizes = [8 * K, 4 * K, 4 * K, 2 * K, 512, 8 * K, 16 * K, 512, 32 * K]
    w = Workload.from_columns(
        range(1, 10), submit=range(9), procs=sizes, requested=[100] * 9, run_time=[100] * 9, machine_procs=48 * K
    )
    schedule = simulate(w, make_policy("easy"), allocator=third)
    for row in range(8):
        assert schedule.nodes[row].max() < 16 * K
    assert schedule.start[8] == 8  # the 32 K job backfills at once
    assert schedule.start[3] == 100  # the third is full until then
    check(schedule, make_policy("easy"))


def test_schedules_on_partitions_keep_the_laws_and_can_be_explained():
    allocator = Partitions(Hierarchy(8, (Level(1, tuple(range(8))), Level(2, (0, 2, 4, 6)), Level(4, (0, 4)),
                                         Level(8, (0,)))))  # fmt: skip
    for seed in range(20):
        workload = widened(workload_of(seeded_workload(seed)), allocator)
        for name in ("fcfs", "easy", "easy-sjbf", "binpacking"):
            schedule = simulate(workload, make_policy(name), allocator=allocator)
            check(schedule, make_policy(name))
        words = in_words(explain(schedule, int(workload.job_id[-1]), make_policy(name), allocator=allocator))
        assert words


def test_jobs_that_ask_for_no_partition_are_refused_with_the_way_out():
    w = jobs_of((0, 3, 9, 9), machine=8)
    allocator = allocator_named("partitions", 8)
    with pytest.raises(JobcastError, match=r"job 1 asks for 3 nodes, which no partition has.*widened"):
        simulate(w, make_policy("easy"), allocator=allocator)
    assert simulate(widened(w, allocator), make_policy("easy"), allocator=allocator).nodes[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(JobcastError, match="8 processors, the partitions are of one of 16"):
        widened(w, allocator_named("partitions", 16))
    assert widened(w, None) is w and widened(w, FirstFit(Topology.flat(8))) is w


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes = 8\n[[level]]\nsize = 16", "level 1: partitions of 16 nodes do not fit"),
        ("nodes = 8\n[[level]]\nsize = 2\n", "must be the whole machine of 8"),
        ("nodes = 8\n[[level]]\nsize = 8\n[[level]]\nsize = 4\nstarts = [6]", "reaches to node 9"),
        ("nodes = 8\n[[level]]\nsize = 8\nskip = 'x'", "level 1: skip must be a whole number; got 'x'"),
        ("nodes = 8\n[[level]]\nsizes = 8", "level 1: No key 'sizes'; did you mean 'size'"),
        ("nodes = 8\n[[level]]\nsize = 8\n[[level]]\nsize = 3\nskip = 1", "no two equal halves"),
        ("nodes = 8\n[[level]]\nsize = 8\n[[level]]\nsize = 4\nstarts = [0, 0]", "begin at the same node"),
        ("nodes = 8\n[[level]]\nsize = 8\n[[level]]\nsize = 8", "belong to one level"),
        ("nodes = 8", "needs `nodes = N` and"),
        ("nodes = = 8", "is no TOML file.*line 1"),
        (
            "nodes = 100000\n[[level]]\nsize = 1\n[[level]]\nsize = 100000",
            "100,000 partitions of 1 node are more than 2,000",
        ),
    ],
)
def test_bad_partition_files_are_named(tmp_path, text, message):
    path = tmp_path / "machine.toml"
    path.write_text(text)
    with pytest.raises(JobcastError, match=message) as caught:
        read_hierarchy(path)
    assert "machine.toml" in str(caught.value)


def test_a_partition_file_gives_what_it_says(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text(
        "nodes = 12\n[[level]]\nsize = 2\n[[level]]\nsize = 8\nstarts = [0, 4]\n[[level]]\nsize = 4\nstarts = [0, 2]\n"
        "skip = 2\n[[level]]\nsize = 12\n"
    )
    hierarchy = read_hierarchy(path)
    assert hierarchy.sizes == (2, 4, 8, 12) and len(hierarchy.parts) == 6 + 2 + 2 + 1


SWF = "; MaxProcs: 8\n" + "".join(
    f"{i} {i} -1 20 {procs} -1 -1 {procs} 30 -1 1 1 1 1 1 1 -1 -1\n" for i, procs in enumerate((3, 4, 8, 1), start=1)
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allocator", "partition"], "did you mean 'partitions'"),
        (["--per-leaf", "3"], "name an --allocator"),
        (["--allocator", "best-fit", "--per-leaf", "3"], "leaf switches of 3"),
    ],
)
def test_the_command_refuses_what_does_not_go_together(tmp_path, options, message):
    log = tmp_path / "log.swf"
    log.write_text(SWF)
    found = invoke("simulate", log, *options)
    assert isinstance(found.exception, JobcastError) and message in str(found.exception)
