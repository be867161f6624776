"""A folder of LDMS's files gives the rates that went in, and windows like the ring's, up to one count."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTERS, SAMPLERS
from predictors.data.telemetry.rates import Reading
from predictors.data.telemetry.read import Scan, read_telemetry
from predictors.data.telemetry.samples import Telemetry, write_rates
from predictors.variability.ring import CounterRing
from predictors.variability.windows import file_windows, windows
from tests.support.ldms_writer import write_ldms
from tests.support.slow import slow_but

NODES = [1, 4, 70000]


def some_rates(seed, instants=45, most=1e6):
    random = np.random.default_rng(seed)
    return (random.random((instants, len(NODES), 90)) * 10.0 ** random.uniform(-2, np.log10(most), 90)).astype(
        np.float32
    )


def write(folder, rates, period=10.0, first=1000.0, nodes=NODES, **options):
    samples = ((first + period * k, one) for k, one in enumerate(rates))
    return write_ldms(folder, nodes, samples, period, **options)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    period=st.sampled_from([1.0, 10.0, 7.5]),
    rollover=st.sampled_from([None, 30.0, 100.0]),
    altheader=st.booleans(),
    milliseconds=st.booleans(),
    bits=st.sampled_from([None, 32]),
    begin=st.sampled_from([0, 2**32 - 10**6, 2**63]),
    scope=st.sampled_from([None, [4], [1, 70000]]),
)
def test_windows_from_files_equal_the_rings_up_to_one_count(
    tmp_path_factory, seed, period, rollover, altheader, milliseconds, bits, begin, scope
):
    folder = tmp_path_factory.mktemp("ldms")
    rates = some_rates(seed)
    options = {"rollover": rollover, "altheader": altheader, "milliseconds": milliseconds, "bits": bits, "begin": begin}
    write(folder, rates, period, **options)
    ring = CounterRing(NODES, period=period)
    for k, one in enumerate(rates):
        ring.push(1000.0 + period * k, one)
    now = 1000.0 + period * len(rates)
    found, account = file_windows(folder, [now], None if scope is None else [scope], how=Reading(bits=bits))
    assert account.dropped == account.changed == 0
    live = ring.windows(now, scope)
    np.testing.assert_array_equal(found.counts, live.counts)
    # a reading is a whole number of counts, so a rate is off by less than one count a period, and by float32's rounding
    np.testing.assert_allclose(found.values, live.values, rtol=3e-7, atol=1.0 / period)


def test_means_are_exact_where_counts_are_whole(tmp_path):
    rates = np.floor(some_rates(3)) * 10
    write(tmp_path, rates / 10)
    whole = Telemetry(1000.0 + 10.0 * np.arange(len(rates)), np.array(NODES), rates / 10)
    found, _ = file_windows(tmp_path, [1300.0, 1450.0], [[1, 4], [70000]])
    np.testing.assert_array_equal(found.values, windows(whole, [1300.0, 1450.0], [[1, 4], [70000]]).values)


def test_lost_lines_and_skewed_clocks_are_met_by_the_reader(tmp_path):
    rates = some_rates(5, instants=400)
    rows = write(tmp_path, rates, lost=0.1, skew=0.05, seed=3)
    assert 0.87 < rows / (401 * 9) < 0.93
    telemetry, account = read_telemetry(tmp_path)
    assert account.dropped == 0 and account.count("gap") < 40
    assert len(telemetry) <= 400 and np.abs(np.diff(telemetry.time) - 10.0).max() < 10.2
    known = telemetry.rates[~np.isnan(telemetry.rates)]
    assert 0.85 < len(known) / rates.size < 0.95 and (known <= rates.max() * 1.001).all()


def test_skewed_clocks_move_times_and_not_rates(tmp_path):
    rates = some_rates(5, instants=40)
    write(tmp_path, rates, skew=0.05, seed=3)
    telemetry, _ = read_telemetry(tmp_path)
    np.testing.assert_allclose(telemetry.rates, rates, rtol=3e-7, atol=0.1)
    off = telemetry.time - (1000.0 + 10.0 * np.arange(40))
    assert off == pytest.approx(np.full(40, off[0]), abs=1e-6) and 0 < abs(off[0]) <= 0.05
    apart = np.concatenate([part.time for part in Scan(tmp_path)])
    assert len(np.unique(apart)) == 120


def test_unknown_rates_cost_the_sample_after_as_well(tmp_path):
    rates = some_rates(6, instants=6)
    rates[2, 1, 13] = np.nan
    write(tmp_path, rates)
    telemetry, account = read_telemetry(tmp_path)
    assert np.argwhere(np.isnan(telemetry.rates)).tolist() == [[2, 1, 13], [3, 1, 13]]
    assert account.count("empty") == 1


def test_parquet_keeps_rates_to_the_bit_and_yields_only_the_hours_asked_for(tmp_path):
    rates = some_rates(7, instants=450)
    write(tmp_path / "csv", rates, rollover=600.0)
    before, _ = read_telemetry(tmp_path / "csv")
    parts = (
        part
        for block in np.array_split(np.arange(450), 10)
        for part in [Telemetry(before.time[block], before.nodes, before.rates[block])]
    )
    assert write_rates((part.samples() for part in parts), tmp_path / "rates") == 4050
    after, account = read_telemetry(tmp_path / "rates")
    np.testing.assert_array_equal(before.rates, after.rates)
    np.testing.assert_array_equal(before.time, after.time)
    assert account.dropped == account.changed == 0
    starts = [1500.0, 4000.0, 4055.0]
    whole = windows(before, starts)
    for folder in ("csv", "rates"):
        found, account = file_windows(tmp_path / folder, starts)
        np.testing.assert_array_equal(found.values, whole.values)
        assert account.dropped == account.changed == 0
        np.testing.assert_array_equal(found.counts, whole.counts)
        some = sum(len(part) for part in Scan(tmp_path / folder, between=[[1200.0, 1500.0]]))
        assert 3 * 3 * 30 <= some < 4050, folder


def test_a_number_in_a_name_that_is_no_second_is_not_taken_for_one(tmp_path):
    rates = some_rates(9, instants=100)
    write(tmp_path, rates, epoch=1.6e9, rollover=500.0)
    whole, _ = read_telemetry(tmp_path)
    starts = [1.6e9 + 1200.0, 1.6e9 + 1990.0]
    for sampler in SAMPLERS:
        for day, path in enumerate(sorted((tmp_path / sampler).iterdir())):
            path.rename(path.with_name(f"{sampler}.{20200901 + day}"))
    found, _ = file_windows(tmp_path, starts)
    assert found.counts[:, 0].tolist() == [60, 90]
    np.testing.assert_array_equal(found.values, windows(whole, starts).values)


@pytest.mark.parametrize("milliseconds", slow_but((False, True), False))
def test_of_a_long_file_only_the_pieces_asked_for_are_worked_on(tmp_path, monkeypatch, milliseconds):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", 20_000)
    rates = some_rates(9, instants=1000)
    write(tmp_path, rates, milliseconds=milliseconds)
    starts = [1000.0, 1400.0, 5000.0, 5020.0, 10_990.0]
    found, account = file_windows(tmp_path, starts)
    whole, _ = read_telemetry(tmp_path)
    np.testing.assert_array_equal(found.values, windows(whole, starts).values)
    assert account.dropped == account.changed == 0
    parts = list(Scan(tmp_path, between=[[4700.0, 5000.0]]))
    assert 3 * 3 * 42 <= sum(map(len, parts)) < 3 * 3 * 300
    assert min(part.time[0] for part in parts if len(part)) > 3000.0


def test_two_folders_of_one_sampler_are_read_in_step(tmp_path):
    rates = some_rates(8)
    write(tmp_path / "all", rates)
    for k, node in enumerate(NODES):
        write(tmp_path / "each" / str(k), rates[:, k : k + 1], nodes=[node])
    whole, each = read_telemetry(tmp_path / "all")[0], read_telemetry(tmp_path / "each")[0]
    np.testing.assert_array_equal(whole.rates, each.rates)
    np.testing.assert_array_equal(file_windows(tmp_path / "each", [1300.0])[0].values, windows(whole, [1300.0]).values)
    write(tmp_path / "each" / "again", rates)
    with pytest.raises(JobcastError, match=r"two sets of files hold node 1 at 1000\.000000 s"):
        read_telemetry(tmp_path / "each")


def test_a_counter_of_32_bits_wraps_and_is_read_on(tmp_path):
    narrow = [k for k, counter in enumerate(COUNTERS) if counter.bits == 32]
    rates = np.full((10, 3, 90), 1000.0, dtype=np.float32)
    write(tmp_path, rates, begin=2**32 - 45_000)
    telemetry, account = read_telemetry(tmp_path)
    assert (telemetry.rates == 1000.0).all() and account.count("wrap") == 6  # two samplers, three nodes: one row each
    assert len(narrow) == 16
