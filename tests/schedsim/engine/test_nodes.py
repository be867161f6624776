"""Jobs that take processors, GPUs and memory of nodes: equal to a slow oracle, and to counts where both apply."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedsim.kernels.nodes.records as of
from predictors.core.errors import JobcastError
from schedsim.engine.simulation import Simulation, simulate
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.kernels.records import NEVER
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.policies.backfilling import Easy, Promise
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import POLICIES, Policy, make_policy
from schedsim.results.site_metrics import disturbed_figures
from schedsim.validate.laws import ON_NODES
from schedsim.validate.validate import check
from schedsim.workload.demands import Demands
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload
from tests.oracle import resources as oracle
from tests.support.engine_runs import workload_of
from tests.support.strategies import crowded_workload, seeded_estimates, seeded_workload

BY_NODES = {
    "fcfs": {"depth": 0},
    "sjf": {"order": "sjf", "depth": 0},
    "easy": {},
    "easy-sjbf": {"backfill": "sjf"},
    "sjf-easy": {"order": "sjf", "backfill": "sjf"},
    "ljf-easy": {"order": "ljf", "backfill": "ljf"},
    "saf-easy": {"order": "saf", "backfill": "saf"},
    "laf-easy": {"order": "laf", "backfill": "laf"},
    "binpacking": {"backfill": "widest", "greedy": True},
    "easy+promise": {"promise": oracle.Promise()},
    "easy-sjbf+promise": {"backfill": "sjf", "promise": oracle.Promise()},
    "sjf-easy+promise": {"order": "sjf", "backfill": "sjf", "promise": oracle.Promise()},
    "with slack": {"backfill": "sjf", "promise": oracle.Promise(60, -0.5, 5, 120)},
    "head kept": {"order": "sjf", "backfill": "sjf", "promise": oracle.Promise(10, 0.2, 0, 60, kept=True)},
}


def rule_of(policy):
    """The policy of one of these names."""
    if policy in ("with slack", "head kept"):
        order = ORDERS["sjf" if policy == "head kept" else "fcfs"]
        return Policy(order, Easy(ORDERS["sjf"]), Promise(**vars(BY_NODES[policy]["promise"])))
    return make_policy(policy)


def demands(boxes, asks):
    """The engine's demands of the oracle's jobs and nodes."""
    nodes, shapes = np.zeros(len(boxes), of.NODE), np.zeros(len(asks), of.DEMAND)
    for node, box in zip(nodes, boxes, strict=True):
        node.procs, node.gpus, node.memory = box.has
        node.one_job = box.one_job
        node.reserved_from = NEVER
    sets = sorted({ask.nodes for ask in asks})
    serves = np.array([[node in one for node in range(len(boxes))] for one in sets])
    ends = np.cumsum([len(one) for one in sets])
    alike = sorted({(a.pieces, a.piece, a.spread, a.exclusive, a.nodes) for a in asks})
    for shape, (pieces, piece, spread, exclusive, one) in zip(shapes, alike, strict=False):
        shape.pieces, (shape.procs, shape.gpus, shape.memory) = pieces, piece
        shape.spread, shape.exclusive, shape.node_set = spread, exclusive, sets.index(one)
        shape.end_member = ends[sets.index(one)]
        shape.first_member = shape.end_member - len(one)
    shape_of = np.array([alike.index((a.pieces, a.piece, a.spread, a.exclusive, a.nodes)) for a in asks])
    shapes = shapes[: len(alike)]
    members = np.concatenate([np.array(one) for one in sets])
    for array in (nodes, serves, shapes, shape_of, members):
        array.flags.writeable = False
    return Demands(nodes, members, serves, shapes, shape_of)


def workload(boxes, asks):
    """The oracle's jobs and nodes as a workload."""
    return Workload.from_columns(
        [a.job_id for a in asks],
        submit=[a.submit for a in asks],
        procs=[a.pieces * a.piece[0] for a in asks],
        requested=[a.requested for a in asks],
        run_time=[a.run_time for a in asks],
        machine_procs=sum(box.has[0] for box in boxes),
        demands=demands(boxes, asks),
    )


def drawn(seed):
    """A machine of up to three kinds of nodes, jobs of all kinds that fit on it, and an estimate for each."""
    random = Random(seed)
    boxes = [
        oracle.Box(random.choice([(8, 0, 16), (8, 4, 32), (4, 2, 8), (2, 0, 4)]), random.random() < 0.15)
        for _ in range(random.randint(1, 7))
    ]
    sets = [tuple(range(len(boxes)))]
    for _ in range(random.randint(0, 2)):
        sets.append(tuple(sorted(random.sample(sets[0], random.randint(1, len(boxes))))))
    step, asks = random.choice([1, 5, 60]), []
    while len(asks) < random.randint(8, 24):
        ask = oracle.Ask(
            len(asks),
            step * random.randint(0, 9),
            step * random.randint(1, 6),
            step * random.randint(0, 7),
            random.choice([1, 1, 2, 3, 6]),
            (random.choice([1, 1, 2, 4, 8]), random.choice([0, 0, 1, 2]), random.choice([0, 1, 3, 8])),
            random.random() < 0.4,
            random.random() < 0.15,
            random.choice(sets),
        )
        if oracle.place(boxes, ask, []) is not None:
            asks.append(ask)
    first = min(a.submit for a in asks)
    ids = random.sample(range(1, 100), len(asks))
    asks = [oracle.Ask(i, a.submit - first, *list(vars(a).values())[2:]) for i, a in zip(ids, asks, strict=True)]
    asks.sort(key=lambda a: (a.submit, a.job_id))
    guesses = [random.choice([max(1, a.run_time), random.randint(1, a.requested)]) for a in asks]
    return boxes, asks, [min(g, a.requested) for g, a in zip(guesses, asks, strict=True)]


def calendar(seed, boxes, asks):
    """A few reservations of some nodes, or of all, that may overlap."""
    random, last = Random(-1 - seed), max(ask.submit for ask in asks) + 2 * max(ask.requested for ask in asks)
    windows = []
    for _ in range(random.randint(1, 4)):
        begin = random.randint(-5, last)
        nodes = tuple(sorted(random.sample(range(len(boxes)), random.randint(1, len(boxes)))))
        windows.append((begin, begin + random.randint(1, last), nodes))
    return windows


def differing(seed, policy, reserved=False):
    """The first job that starts, or lies, elsewhere than the oracle says; None if all are equal."""
    boxes, asks, estimates = drawn(seed)
    windows = calendar(seed, boxes, asks) if reserved else []
    parts = [Reservation(begin, end, nodes=tuple((n, n + 1) for n in nodes)) for begin, end, nodes in windows]
    outages = Outages(parts) if reserved else None
    schedule = simulate(workload(boxes, asks), rule_of(policy), np.array(estimates), outages=outages)
    start, spots, promised = oracle.simulate(asks, boxes, estimates=estimates, windows=windows, **BY_NODES[policy])
    if "order" not in BY_NODES[policy] or policy == "head kept":  # else a later job may become the head
        assert all(int(schedule.start[row]) <= by for row, by in promised.items())
    parts = schedule.placements
    for row in range(len(asks)):
        own = slice(parts.offsets[row], parts.offsets[row + 1])
        spot = dict(zip(parts.node[own].tolist(), parts.pieces[own].tolist(), strict=True))
        if (int(schedule.start[row]), spot) != (start[row], spots[row]):
            return row, int(schedule.start[row]), start[row], spot, spots[row]
    return None


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from(sorted(BY_NODES)))
def test_every_start_and_place_equals_the_oracles(seed, policy):
    assert differing(seed, policy) is None


UNPROMISED = sorted(name for name, about in BY_NODES.items() if "promise" not in about)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 40), st.sampled_from(UNPROMISED))
def test_every_start_and_place_equals_the_oracles_where_nodes_are_reserved(seed, policy):
    assert differing(seed, policy, reserved=True) is None


def test_reservations_are_told_and_kept():
    boxes = [oracle.Box((2, 0, 0)), oracle.Box((2, 1, 0))]
    ask = lambda number, at, asked, procs, gpus=0: oracle.Ask(  # noqa: E731
        number, at, asked, asked, 1, (procs, gpus, 0), nodes=(0, 1)
    )
    jobs = workload(boxes, [ask(1, 0, 10, 1, 1), ask(2, 1, 5, 1, 1), ask(3, 2, 3, 2)])
    outages, rule = Outages([Reservation(12, 30, nodes=((1, 2),))]), make_policy("easy")
    schedule = simulate(jobs, rule, outages=outages)
    assert schedule.start.tolist() == [0, 30, 2]  # from 10 to 12 the GPU is free, but not for 5 s
    assert ON_NODES in check(schedule, rule, jobs.requested).kept
    found = disturbed_figures(schedule)
    assert found["available"] == pytest.approx(1 - 2 * 18 / (4 * 35))
    told = "\n".join(in_words(explain(schedule, 2, rule, outages=outages)))
    assert "reserved of the machine from t=12 on" in told
    late = workload(boxes, [ask(1, 13, 5, 1, 1), ask(2, 13, 5, 1, 1), ask(3, 14, 9, 1)])
    schedule = simulate(late, rule, outages=outages)
    head, behind = ("\n".join(in_words(explain(schedule, number, rule, outages=outages))) for number in (1, 2))
    assert "reserved of the machine from t=12 on" in head and "lacked" not in head  # a GPU lies idle, but reserved
    assert "until t=28, into what is reserved of the machine from t=12 on; job 1 headed the queue" in behind


@pytest.mark.parametrize(
    ("policy", "outages", "says"),
    [
        ("careful", Outages([Reservation(5, 9)]), "promises on nodes know of no reservations"),
        ("easy", Outages([Reservation(5, 9, procs=2)]), "name those that are reserved"),
        ("easy", Outages([Reservation(5, 9, nodes=((7, 90),))]), "node 89 is unknown"),
        ("easy", Outages((), [Change(3, "fail", nodes=((0, 1),))]), "do not fail or come under repair"),
    ],
)
def test_what_of_outages_does_not_go_on_nodes_is_refused(policy, outages, says):
    boxes, asks, _ = drawn(3)
    with pytest.raises(JobcastError, match=says):
        simulate(workload(boxes, asks), make_policy(policy), outages=outages)


def test_a_newcomer_that_starts_lets_those_behind_it_find_other_places():
    assert differing(11_779, "saf-easy") is None  # an exclusive job's place moves off the head's nodes


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(BY_NODES))
def test_every_start_and_place_equals_the_oracles_in_many_cases(policy):
    assert [seed for seed in range(300) if differing(seed, policy) is not None] == []


def on_one_node(counted):
    """The same jobs on one node that has all processors: then only numbers count."""
    ask = [oracle.Ask(0, 0, 1, 1, int(procs), (1, 0, 0), nodes=(0,)) for procs in counted.procs]
    return Workload(
        **{name: getattr(counted, name) for name in ("job_id", "submit", "procs", "requested", "run_time", "user")},
        machine_procs=counted.machine_procs,
        demands=demands([oracle.Box((counted.machine_procs, 0, 0))], ask),
    )


ALIKE = [name for name, one in POLICIES.items() if one.kind in ("counts", "greedy") and one.depth in (0, 1, None)]
ALIKE = [name for name in ALIKE if name not in ("cobalt", "score", "score-easy", "priority", "priority-easy")]
ALIKE += ["careful", "balanced", "easy+promise", "wfp3-easy+promise"]


@pytest.mark.parametrize("policy", sorted(ALIKE))
def test_on_one_node_schedules_are_those_of_counts(policy):
    rule = make_policy(policy)
    for seed in range(12):
        jobs, procs = crowded_workload(seed, 80) if seed % 3 == 0 else (seeded_workload(seed, least_run=0), 8)
        counted = workload_of(jobs, procs)
        for correction in ("incremental", "doubling"):
            guess = np.array(seeded_estimates(seed, jobs))
            for believed in (guess, clairvoyant(counted)):
                plain = simulate(counted, rule, believed, correction)
                nodes = simulate(on_one_node(counted), rule, believed, correction)
                assert nodes.start.tolist() == plain.start.tolist(), (seed, correction)
                assert nodes.started_by.tolist() == plain.started_by.tolist()


def test_an_explanation_names_the_promise_that_held_a_job():
    boxes = [oracle.Box((1, 1, 0)), oracle.Box((1, 1, 0))]
    one, both = (1, (1, 1, 0)), (2, (1, 1, 0))
    asks = [
        oracle.Ask(1, 0, 10, 10, *one, nodes=(0, 1)),
        oracle.Ask(2, 1, 10, 10, *both, nodes=(0, 1)),
        oracle.Ask(3, 2, 20, 2, *one, nodes=(0, 1)),
    ]
    jobs, guess, rule = workload(boxes, asks), np.array([10, 10, 2]), make_policy("easy+promise")
    assert simulate(jobs, make_policy("easy"), guess).start.tolist() == [0, 10, 2]
    schedule = simulate(jobs, rule, guess)
    assert schedule.start.tolist() == [0, 10, 20]
    found = explain(schedule, 3, rule, guess)
    assert "after t=10, which job 2 was promised, and would lie in its place then" in "\n".join(in_words(found))
    assert ON_NODES in check(schedule, rule, guess).kept


def test_a_fork_goes_on_like_the_original_and_leaves_it_alone():
    boxes, asks, estimates = drawn(7)
    jobs = workload(boxes, asks)
    whole = simulate(jobs, make_policy("easy"), np.array(estimates))
    one = Simulation(jobs, make_policy("easy"), np.array(estimates))
    one.run(until=int(jobs.submit[len(asks) // 2]))
    fork = one.fork()
    fork.run()
    one.run()
    assert fork.schedule().start.tolist() == one.schedule().start.tolist() == whole.start.tolist()


@pytest.mark.parametrize("policy", ["conservative-replan", "hybrid-2", "hybrid-2+promise", "ceil", "look-ahead"])
def test_policies_that_count_processors_are_refused(policy):
    boxes, asks, _ = drawn(3)
    with pytest.raises(JobcastError, match=r"counts processors alone.*easy-sjbf.*leave out the machine file"):
        simulate(workload(boxes, asks), make_policy(policy))
