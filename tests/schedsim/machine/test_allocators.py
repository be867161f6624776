"""Allocators place jobs on free nodes; those that place whatever fits change no schedule; contiguous decides too."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import Easy, JobcastError, Policy, make_policy, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.machine.allocators import ALLOCATORS, Contiguous, FirstFit, Scattered, make_allocator
from schedsim.machine.nodes import NodeSets
from schedsim.machine.topology import Topology
from schedsim.policies.gates import Verdict
from schedsim.results.exports import batsim_frame, to_frame
from schedsim.validate.validate import check
from tests.support.engine_runs import EVERY_POLICY, jobs_of, workload_of
from tests.support.strategies import seeded_workload

jobs = partial(jobs_of, machine=8)

MACHINES = [Topology(1, 8), Topology(2, 4), Topology(4, 2), Topology(5, 2, apart=(3, 4))]
HARMLESS_ONES = [name for name in ALLOCATORS if not ALLOCATORS[name].by_identity]


@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(1, 12), st.sampled_from(list(ALLOCATORS)))
def test_places_are_free_and_as_many_as_asked(free, procs, name):
    free = np.array(free)
    nodes = make_allocator(name, Topology(3, 4), seed=5).place(free, procs, job_id=9)
    if nodes is None:
        assert free.sum() < procs or name == "contiguous"
    else:
        assert len(nodes) == procs and free[nodes].all() and (np.diff(nodes) > 0).all()


@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(1, 12))
def test_best_fit_takes_the_fewest_leaves(free, procs):
    free = np.array(free)
    nodes = make_allocator("best-fit", Topology(4, 3)).place(free, procs, job_id=1)
    room = np.sort(free.reshape(4, 3).sum(axis=1))[::-1]
    if nodes is not None:
        assert len(set(nodes // 3)) == np.argmax(np.cumsum(room) >= procs) + 1


def test_best_fit_takes_the_tightest_leaf():
    free = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0]) > 0
    assert make_allocator("best-fit", Topology(3, 4)).place(free, 2, 1).tolist() == [4, 5]
    assert make_allocator("best-fit", Topology(3, 4)).place(free, 5, 1).tolist() == [0, 1, 2, 3, 4]


@given(st.lists(st.booleans(), min_size=10, max_size=10), st.integers(1, 10))
def test_contiguous_finds_a_row_whenever_there_is_one(free, procs):
    free = np.array(free)
    rows = [i for i in range(10 - procs + 1) if free[i : i + procs].all()]
    nodes = Contiguous(Topology(2, 5)).place(free, procs, job_id=3)
    assert (None if nodes is None else nodes[0]) == (rows[0] if rows else None)


def test_scattered_depends_on_seed_and_job_alone():
    free, machine = np.ones(64, dtype=bool), Topology(8, 8)
    first = Scattered(machine, 1).place(free, 8, 5)
    assert Scattered(machine, 1).place(free, 8, 5).tolist() == first.tolist()
    assert Scattered(machine, 2).place(free, 8, 5).tolist() != first.tolist()
    assert Scattered(machine, 1).place(free, 8, 6).tolist() != first.tolist()
    seen = np.concatenate([Scattered(machine, 1).place(free, 8, job) for job in range(400)])
    counts = np.bincount(seen, minlength=64)
    assert counts.min() > 25 and counts.max() < 80  # 50 each, were it by chance


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_allocators_by_counts_change_no_schedule(name):
    """The law: where whoever fits by count has a place, nodes decide nothing, under whatever policy."""
    for seed in range(3):
        workload = workload_of(seeded_workload(seed, least_run=seed % 2))
        plain = simulate(workload, make_policy(name))
        for machine, allocator in zip(MACHINES, [*HARMLESS_ONES, "scattered"], strict=True):
            found = simulate(workload, make_policy(name), allocator=make_allocator(allocator, machine, seed))
            assert found.start.tolist() == plain.start.tolist()
            assert found.nodes is not None
            check(found, make_policy(name))


class Admit:
    """A gate that admits everybody and remembers the nodes."""

    def __init__(self):
        self.seen = {}

    def ask(self, candidate):
        """Admit."""
        self.seen[candidate.row] = candidate.nodes
        return Verdict(True)


def test_the_gate_sees_the_nodes_that_the_job_then_gets():
    for name in ALLOCATORS:
        workload, gate = workload_of(seeded_workload(3)), Admit()
        allocator = make_allocator(name, Topology(2, 4), seed=3)
        found = simulate(workload, Policy(backfill=Easy(), gate=gate), allocator=allocator)
        assert {row: nodes.tolist() for row, nodes in gate.seen.items()} == {
            row: found.nodes[row].tolist() for row in range(len(workload))
        }
        assert found.start.tolist() == simulate(workload, make_policy("easy"), allocator=allocator).start.tolist()


class HoldOnce:
    """Holds each job the first time; asks again after 7 s."""

    def __init__(self):
        self.held = {}

    def ask(self, candidate):
        """Hold, then admit."""
        if candidate.row in self.held:
            return Verdict(True)
        self.held[candidate.row] = candidate.nodes
        return Verdict(False, recheck=7)


def test_a_tentative_place_is_given_back_when_the_gate_holds():
    """Two jobs are held in one pass: both were offered the lowest nodes."""
    w = jobs_of((0, 2, 9, 9), (0, 2, 9, 9), machine=4)
    gate = HoldOnce()
    found = simulate(w, Policy(backfill=Easy(), gate=gate), allocator=FirstFit(Topology.flat(4)))
    assert {row: nodes.tolist() for row, nodes in gate.held.items()} == {0: [0, 1], 1: [0, 1]}
    assert found.start.tolist() == [7, 7]
    assert [found.nodes[row].tolist() for row in (0, 1)] == [[0, 1], [2, 3]]


def test_files_tell_the_nodes(tmp_path):
    workload = jobs((0, 2, 10, 10), (0, 4, 30, 30), (1, 3, 10, 10))
    found = simulate(workload, make_policy("easy"), allocator=Scattered(Topology(2, 4), 1))
    found.write_csv(tmp_path / "schedule.csv")
    header, first, *_ = (tmp_path / "schedule.csv").read_text().splitlines()
    assert header.endswith(",started_by,wait,run_time,nodes")
    told = first.rsplit(",", 1)[1]
    assert batsim_frame(found)["allocated_resources"][0] == told == to_frame(found)["nodes"][0]
    assert {int(part) for word in told.split() for part in word.split("-")} <= set(found.nodes[0].tolist())


def test_paranoid_sees_a_node_with_two_jobs():
    workload = jobs((0, 2, 10, 10), (0, 4, 30, 30))
    good = simulate(workload, make_policy("easy"), allocator=FirstFit(Topology.flat(8)))
    object.__setattr__(good, "nodes", NodeSets.of([np.array([0, 1]), np.array([1, 2, 3, 4])]))
    with pytest.raises(JobcastError, match=r"job 2 starts at 0 s on node 1, which job 1 holds until 10 s"):
        check(good, make_policy("easy"))
    object.__setattr__(good, "nodes", NodeSets.of([np.array([0]), np.array([1, 2, 3, 4])]))
    with pytest.raises(JobcastError, match=r"job 1 has 1 nodes and needs 2"):
        check(good, make_policy("easy"))


class Stubborn(FirstFit):
    """Gives the same nodes to everybody."""

    def place(self, free, procs, job_id):
        """Return the lowest nodes."""
        return np.arange(procs)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: make_allocator("skattered", Topology(1, 8)), "did you mean 'scattered'"),
        (lambda: Topology(0, 8), "1 to 10,000,000 nodes"),
        (lambda: Topology(1, 2, apart=(0, 1)), "leave some for jobs"),
        (lambda: Topology(1, 2, apart=(5,)), "must be among 0 to 1"),
        (lambda: Topology(2, 8).with_apart(1.0), "from 0 to less than 1; got 1.0"),
        (lambda: simulate(jobs((0, 1, 9, 9)), make_policy("easy"), allocator=FirstFit(Topology(3, 3))),
         "machine of 8 processors, the allocator's has 9 nodes"),
        (lambda: simulate(jobs((0, 2, 9, 9), (0, 2, 9, 9)), make_policy("easy"), allocator=Stubborn(Topology(1, 8))),
         r"Stubborn gave job 2 the nodes \[0, 1\]; it needs 2 of the 6 free ones"),
        (lambda: simulate(jobs((0, 1, 9, 9), (0, 7, 9, 9), machine=7), make_policy("easy"),
                          allocator=Contiguous(Topology(1, 8, apart=(4,)))), "no place for job 2 even on an empty"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(make, told):
    with pytest.raises(JobcastError, match=told):
        make()


def test_a_wait_for_a_place_is_explained():
    """From t=10 on nodes 0-1 and 5-6 are free: no place for 3 in a row until t=30, when all others end."""
    first = [(0, 2, 10, 10), (0, 3, 30, 30), (0, 2, 10, 10), (0, 1, 30, 30)]
    contiguous, easy = Contiguous(Topology.flat(8)), make_policy("easy")

    def said(job, *later):
        workload = jobs(*first, *later)
        found = simulate(workload, easy, allocator=contiguous)
        return " ".join(in_words(explain(found, job, easy, allocator=contiguous)))

    assert "4 processors were free, but in no place for its 3; by the estimates it has one at t=30" in said(
        5, (1, 3, 9, 9)
    )
    assert "free were 4; job 5 still has a place at its shadow time t=30" in said(6, (1, 3, 9, 9), (2, 2, 50, 50))
    assert "after the shadow time t=30 of job 5, and would lie in its place (an estimate of at most 20 s" in said(
        6, (1, 7, 9, 9), (2, 2, 50, 50)
    )
    assert "t=10: 4 processors were free, but in no place for its 4." in said(6, (1, 5, 9, 9), (2, 4, 9, 9))
