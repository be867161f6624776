"""Windows before a start: against a plain count by hand; the live ring against rows, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTER_NAMES
from predictors.data.telemetry.samples import Samples, Telemetry
from predictors.variability.ring import CounterRing
from predictors.variability.windows import WINDOW_FEATURES, EmptyWindow, windows

M = len(COUNTER_NAMES)


def block(seed, instants=40, nodes=(2, 5, 6, 9), period=10.0, holes=0.2):
    random = np.random.default_rng(seed)
    shape = instants, len(nodes), M  # so wide a spread that the order in which values are added up shows
    rates = (random.random(shape) * 10.0 ** random.integers(-6, 12, shape)).astype(np.float32)
    rates[random.random(rates.shape) < holes] = np.nan
    time = np.cumsum(random.choice([0.25, 1.0, period, 3 * period], instants)) + random.random()
    return Telemetry(time, np.array(nodes), rates)


def by_hand(telemetry, start, nodes=None, window=300.0):
    """Pool with plain loops over plain numbers."""
    chosen = set(telemetry.nodes.tolist() if nodes is None else nodes)
    out = []
    for j in range(M):
        total, count, low, high = 0.0, 0, np.inf, -np.inf
        for t, time in enumerate(telemetry.time.tolist()):
            part = 0.0
            for k, node in enumerate(telemetry.nodes.tolist()):
                x = float(telemetry.rates[t, k, j])
                if start - window <= time < start and node in chosen and x == x:
                    part, count, low, high = part + x, count + 1, min(low, x), max(high, x)
            total += part
        out += [low, high, total / count] if count else [np.nan] * 3
    return np.array(out)


def ring_of(telemetry, **options):
    ring = CounterRing(telemetry.nodes, **options)
    for time, rates in zip(telemetry.time, telemetry.rates, strict=True):
        ring.push(time, rates)
    return ring


def test_names_are_270_in_the_order_of_the_counters():
    assert len(set(WINDOW_FEATURES)) == 270
    assert WINDOW_FEATURES[:4] == (
        "min_symbol_error",
        "max_symbol_error",
        "mean_symbol_error",
        "min_link_error_recovery",
    )
    assert WINDOW_FEATURES[-1] == "mean_inode_permission"


@pytest.mark.parametrize("scope", [None, [5], [2, 9]])
def test_rows_equal_the_count_by_hand(scope):
    telemetry = block(1)
    starts = [telemetry.time[0], telemetry.time[7], 250.0, telemetry.time[-1] + 5.0, 2.0e4]
    found = windows(telemetry, starts, None if scope is None else [scope] * len(starts))
    for row, start in enumerate(starts):
        np.testing.assert_array_equal(found.values[row], by_hand(telemetry, start, scope))
    assert found.empty.tolist() == [True, False, False, False, True]


def test_the_window_holds_its_first_second_and_not_its_last():
    rates = np.arange(3 * M, dtype=np.float32).reshape(3, 1, M)
    telemetry = Telemetry(np.array([0.0, 150.0, 300.0]), np.array([1]), rates)
    assert windows(telemetry, [300.0]).counts[0, 0] == 2
    assert windows(telemetry, [300.5]).counts[0, 0] == 2  # 150 s and 300 s
    assert ring_of(telemetry).window(300.0)[:3].tolist() == [0.0, 90.0, 45.0]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    holes=st.sampled_from([0.0, 0.3, 1.0]),
    after=st.sampled_from([0.0, 0.25, 40.0, 299.0, 301.0]),
    scope=st.sampled_from([None, [2], [5, 9], [2, 5, 6, 9]]),
    period=st.sampled_from([0.5, 10.0, 400.0]),
)
def test_the_ring_equals_rows_to_the_last_bit(seed, holes, after, scope, period):
    telemetry = block(seed, holes=holes)
    now = telemetry.time[-1] + after
    live = ring_of(telemetry, period=period).windows(now, scope)
    filed = windows(telemetry, [now], None if scope is None else [scope])
    for name in ("values", "counts", "silent"):
        np.testing.assert_array_equal(getattr(live, name), getattr(filed, name))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 39), max_size=6), split=st.integers(1, M - 1))
def test_parts_give_the_same_as_the_whole(seed, cuts, split):
    telemetry = block(seed)
    random = np.random.default_rng(seed)
    starts = random.uniform(telemetry.time[0], telemetry.time[-1] + 400.0, 12)
    scopes = [sorted(random.choice([2, 5, 6, 9], random.integers(1, 5), replace=False).tolist()) for _ in starts]
    parts = []
    for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), len(telemetry)], strict=True):
        rows = Telemetry(telemetry.time[low:high], telemetry.nodes, telemetry.rates[low:high]).samples()
        for columns in (slice(0, split), slice(split, M)):  # as of two samplers
            parts.append(Samples(rows.time, rows.node, rows.rates[:, columns], rows.counters[columns]))
    whole, pieced = windows(telemetry, starts, scopes), windows(iter(parts), starts, scopes)
    for name in ("values", "counts"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieced, name))
    assert (pieced.silent >= whole.silent).all()


def test_what_is_missing_is_named_and_never_taken_as_zero():
    telemetry = block(3, holes=0.0)
    rates = telemetry.rates.copy()
    rates[:, 1] = np.nan  # node 5 gives nothing
    rates[:, :, 13] = np.nan  # nobody gives port_xmit_data
    telemetry = Telemetry(telemetry.time, telemetry.nodes, rates)
    found = windows(telemetry, [100.0, 100.0, 1e6], [[2, 5], [2], [2]])
    assert found.silent.tolist() == [1, 0, 1]
    assert np.isnan(found.values[0, 39:42]).all() and not np.isnan(found.values[0, 42:45]).any()
    assert found.complete().tolist() == [False, False, False]
    assert found.complete(["min_port_rcv_data"]).tolist() == [False, True, False]
    found.require(1, ["min_port_rcv_data"])
    with pytest.raises(EmptyWindow, match="before 100 s has no value of min_port_xmit_data, max_port_xmit_data"):
        found.require(1)
    with pytest.raises(EmptyWindow, match="1 of the nodes asked for gave no sample"):
        found.require(0, ["min_port_rcv_data"])
    with pytest.raises(EmptyWindow, match="No sample in the window before 1000000 s"):
        found.require(2)
    ring = ring_of(telemetry)
    assert ring.windows(telemetry.time[-1] + 1).silent.tolist() == [1]
    with pytest.raises(EmptyWindow, match="No sample in the window"):
        ring.window(1e6)


def test_the_ring_refuses_what_it_cannot_answer_or_keep():
    telemetry = block(4, instants=60)
    ring = ring_of(telemetry)
    with pytest.raises(JobcastError, match="samples that are gone"):
        ring.window(telemetry.time[0] + 1.0)
    with pytest.raises(JobcastError, match=r"node \[7\] is not kept"):
        ring.window(ring.newest, [5, 7])
    with pytest.raises(JobcastError, match="cannot follow"):
        ring.push(ring.newest, telemetry.rates[0])
    with pytest.raises(JobcastError, match=r"shape \(3, 90\)"):
        ring.push(ring.newest + 1, telemetry.rates[0][:3])
    bad = telemetry.rates[0].copy()
    bad[2, 7] = -1.0
    before = ring.window(ring.newest + 0.5)
    with pytest.raises(JobcastError, match="negative or infinite"):
        ring.push(ring.newest + 1, bad)
    np.testing.assert_array_equal(ring.window(ring.newest + 0.5), before)  # as if it had not been pushed
    for nodes in ([], [2, 2], [3, 1]):
        with pytest.raises(JobcastError, match="at least one node"):
            CounterRing(nodes)


def test_windows_refuse_what_makes_no_sense():
    telemetry = block(5)
    with pytest.raises(JobcastError, match="2 starts need as many sets of nodes; got 1"):
        windows(telemetry, [1.0, 2.0], [[2]])
    with pytest.raises(JobcastError, match="a set of nodes is empty"):
        windows(telemetry, [1.0], [[]])
    with pytest.raises(JobcastError, match="must be finite"):
        windows(telemetry, [np.nan])
    rows = telemetry.samples()
    with pytest.raises(JobcastError, match="must follow one another"):
        windows([rows, rows], [1.0])
    assert windows([], [5.0], [[1, 2]]).silent.tolist() == [2]


def test_readings_close_to_one_another_are_one_instant():
    def part(times, nodes, counter, values):
        return Samples(
            np.array(times), np.array(nodes), np.array(values, dtype=np.float32)[:, None], np.array([counter])
        )

    joined = Telemetry.of_samples(
        [part([10.0, 10.05, 20.0], [1, 2, 1], 0, [1, 2, 3]), part([10.4, 20.9], [2, 1], 30, [4, 5])], tolerance=1.0
    )
    assert joined.time.tolist() == [10.0, 20.0] and joined.nodes.tolist() == [1, 2]
    assert joined.rates[:, :, 0].tolist() == [[1.0, 2.0], [3.0, pytest.approx(np.nan, nan_ok=True)]]
    assert joined.rates[0, 1, 30] == 4.0 and joined.rates[1, 0, 30] == 5.0
    assert np.isnan(joined.rates).sum() == joined.rates.size - 5


@pytest.mark.parametrize(
    ("time", "node", "says"),
    [([2.0, 1.0], [1, 1], "sorted"), ([1.0, 1.0], [2, 2], "sorted"), ([1.0, np.inf], [1, 1], "sorted")],
)
def test_samples_out_of_order_are_refused(time, node, says):
    with pytest.raises(JobcastError, match=says):
        Samples(np.array(time), np.array(node), np.zeros((2, 1), dtype=np.float32), np.array([0]))


def test_a_ring_that_was_forked_goes_its_own_way():
    telemetry = block(6)
    ring = ring_of(telemetry)
    now = ring.newest + 1.0
    before = ring.window(now)
    other = ring.fork()
    other.push(ring.newest + 0.5, np.zeros_like(telemetry.rates[0]))
    np.testing.assert_array_equal(ring.window(now), before)
    assert (other.window(now)[::3] == 0).all() and len(other) >= 1 and other.newest == ring.newest + 0.5


def test_a_node_is_silent_if_one_of_its_samplers_is():
    def rows(nodes, counters):
        time, node = np.repeat([10.0, 20.0], len(nodes)), np.tile(nodes, 2)
        return Samples(time, node, np.ones((len(time), len(counters)), dtype=np.float32), np.array(counters))

    parts = [rows([1, 2], [0, 1]), rows([1], [30, 31])]
    assert windows(parts, [100.0, 100.0], [[1], [1, 2]]).silent.tolist() == [0, 1]
