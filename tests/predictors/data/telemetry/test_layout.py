"""Telemetry of other schemas, and the page on telemetry."""

import re

import numpy as np
import polars as pl
import pytest

from predictors.core.errors import JobcastError
from predictors.data.telemetry import counters
from predictors.data.telemetry import parse as telemetry_rules
from predictors.data.telemetry.counters import COUNTER_NAMES
from predictors.data.telemetry.layout import mapping_of
from predictors.data.telemetry.read import Scan, read_telemetry
from predictors.variability.windows import file_windows, windows
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "telemetry.md"

GOOD = {
    "match": "*.csv",
    "time": "when",
    "node": "host",
    "counters": {"port_xmit_data": "tx", "read_bytes": {"column": "rd", "kind": "rate", "scale": 1024}},
}


def of(telemetry, name):
    return telemetry.rates[:, 0, COUNTER_NAMES.index(name)].tolist()


@pytest.mark.parametrize(
    ("clock", "times"),
    [
        ("s", ["1700000000.5", "1700000010.5", "1700000020.5"]),
        ("ms", ["1700000000500", "1700000010500", "1700000020500"]),
        ("us", ["1700000000500000", "1700000010500000", "1700000020500000"]),
        ("ns", ["1700000000500000000", "1700000010500000000", "1700000020500000000"]),
        ("datetime", ["2023-11-14T22:13:20.500", "2023-11-14T22:13:30.500", "2023-11-14T22:13:40.500"]),
        (
            "datetime",
            ["2023-11-14T23:13:20.500+01:00", "2023-11-14T23:13:30.500+01:00", "2023-11-14T23:13:40.500+01:00"],
        ),
    ],
)
def test_every_clock(tmp_path, clock, times):
    rows = [f"{time},n4,{k * 100},{k}\n" for k, time in enumerate(times)]
    (tmp_path / "a.csv").write_text("when,host,tx,rd\n" + "".join(rows))
    telemetry, account = read_telemetry(tmp_path, mapping_of({"files": [GOOD | {"clock": clock}]}))
    assert telemetry.time.tolist() == [1700000000.5, 1700000010.5, 1700000020.5] and telemetry.nodes.tolist() == [4]
    assert of(telemetry, "port_xmit_data")[1:] == [10.0, 10.0] and of(telemetry, "read_bytes") == [0.0, 1024.0, 2048.0]
    assert account.dropped == account.changed == 0 and account.count("no-counter") == 88


def test_the_last_line_of_another_program_need_not_end_and_remarks_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("when,host,tx,rd\n1,n4,0,1\n# note\n11,n4,100,2")
    telemetry, account = read_telemetry(tmp_path, mapping_of({"files": [GOOD]}))
    assert of(telemetry, "read_bytes") == [1024.0, 2048.0] and account.dropped == 0


def test_files_follow_one_another_in_order_of_name(tmp_path):
    for k in range(3):
        (tmp_path / f"day{k}.csv").write_text(f"when,host,tx,rd\n{10 * k},n4,{100 * k},0\n")
    telemetry, _ = read_telemetry(tmp_path, mapping_of({"files": [GOOD]}))
    assert of(telemetry, "port_xmit_data")[1:] == [10.0, 10.0]


def test_files_of_the_same_time_are_read_in_step_if_told(tmp_path):
    for node in range(6):
        rows = [f"{10 * k},n{node},{100 * k * node},0\n" for k in range(100)]
        (tmp_path / f"n{node}.csv").write_text("when,host,tx,rd\n" + "".join(rows))
    scan = Scan(tmp_path, mapping_of({"files": [GOOD | {"parallel": True}]}))
    assert [sum(map(len, scan)), sum(map(len, scan))] == [600, 600]  # it can be read again
    assert scan.account().count("first") == 6
    telemetry, account = read_telemetry(tmp_path, mapping_of({"files": [GOOD | {"parallel": True}]}))
    assert account.dropped == 0 and len(telemetry) == 100
    at = COUNTER_NAMES.index("port_xmit_data")
    assert (telemetry.rates[1:, :, at] == 10.0 * np.arange(6)).all()


@pytest.mark.parametrize("kind", ["datetime", "number"])
def test_parquet_of_another_program(tmp_path, kind):
    when = pl.Series([0, 10, 20], dtype=pl.Int64)
    if kind == "datetime":
        when = (when * 1_000_000).cast(pl.Datetime("us"))
    pl.DataFrame(
        {"when": when, "host": ["n4"] * 3, "tx": [0, -5, 200], "rd": [1.0, None, 3.0], "more": [1, 2, 3]}
    ).write_parquet(tmp_path / "a.parquet")
    telemetry, account = read_telemetry(tmp_path, mapping_of({"files": [GOOD | {"match": "*.parquet"}]}))
    np.testing.assert_array_equal(of(telemetry, "read_bytes"), [1024.0, 3072.0])
    assert account.count("no-number") == 1 and account.count("empty") == 1 and account.count("other-column") == 1
    damaged = bytearray((tmp_path / "a.parquet").read_bytes())
    (tmp_path / "a.parquet").write_bytes(damaged[:-20])
    with pytest.raises(JobcastError, match=r"a\.parquet: is a damaged Parquet file"):
        read_telemetry(tmp_path, mapping_of({"files": [GOOD | {"match": "*.parquet"}]}))


def test_ldms_columns_as_parquet(tmp_path):
    columns = {"Time": [1.0, 11.0, 21.0], "Time_usec": [0] * 3, "ProducerName": ["n4"] * 3, "PortXmitData": [5, 15, 35]}
    pl.DataFrame(columns).write_parquet(tmp_path / "opa2.parquet")
    assert of(read_telemetry(tmp_path)[0], "PortXmitData") == [1.0, 2.0]


def test_of_parquet_only_the_row_groups_asked_for_are_read_and_lines_stay_right(tmp_path):
    times = [10.0 * k for k in range(500)]
    sent = [100 * k if k != 400 else -1 for k in range(500)]
    table = pl.DataFrame({"Time": times, "ProducerName": ["n4"] * 500, "PortXmitData": sent})
    table.write_parquet(tmp_path / "opa2.parquet", row_group_size=50)
    whole, _ = read_telemetry(tmp_path)
    for start in (1000.0, 1005.0, 1300.0, 3990.0, 4200.0):
        found, account = file_windows(tmp_path, [start])
        np.testing.assert_array_equal(found.values, windows(whole, [start]).values)
        np.testing.assert_array_equal(found.counts, windows(whole, [start]).counts)
    assert next(finding for finding in account.findings if finding.rule == "no-number").places == (401,)
    assert sum(map(len, Scan(tmp_path, between=[[1000.0, 1300.0]]))) < 250


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tiem": "a"}, r"\[\[files\]\] 1: No key 'tiem'; did you mean 'time'"),
        ({"time": 3}, "time must be a text; got 3"),
        ({"node": None}, "node must be a text; got None"),
        ({"clock": "sec"}, "No clock 'sec'"),
        ({"devices": "port"}, "devices must be a list"),
        ({"parallel": 1}, "parallel must be true or false"),
        ({"counters": {}}, "at least one counter"),
        ({"counters": {"port_xmit_dat": "tx"}}, "No counter 'port_xmit_dat'; did you mean 'port_xmit_data'"),
        ({"counters": {"open": {"colum": "tx"}}}, "counter open: No key 'colum'; did you mean 'column'"),
        ({"counters": {"open": {"kind": "rate"}}}, "counter open: 'column' is missing"),
        ({"counters": {"open": {"column": "a", "kind": "gauge"}}}, "No kind 'gauge'"),
        ({"counters": {"open": {"column": "a", "bits": 48}}}, "bits must be 32 or 64"),
        ({"counters": {"open": {"column": "a", "scale": 0}}}, "scale must be above 0.0; got 0"),
        ({"counters": {"open": {"column": "a", "scale": True}}}, "scale must be a number; got True"),
        ({"counters": {"open": {"column": "a", "scale": float("inf")}}}, "scale must be a finite number"),
        ({"counters": {"open": 5}}, "must be a table; got 5"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused(change, says):
    with pytest.raises(JobcastError, match=says):
        mapping_of({"files": [GOOD | change]})


def test_mappings_that_are_no_mappings(tmp_path):
    for document, says in (
        ({}, "at least one table"),
        ({"files": {}}, "at least one table"),
        ({"file": []}, "No key 'file'"),
    ):
        with pytest.raises(JobcastError, match=says):
            mapping_of(document)
    for nodes in ({"a": -1}, {"a": "b"}, [1], {"a": True}):
        with pytest.raises(JobcastError, match=r"\[nodes\] must give an id"):
            mapping_of({"files": [GOOD], "nodes": nodes})
    (tmp_path / "m.toml").write_text("[[files]\n")
    with pytest.raises(JobcastError, match=r"m\.toml: is no TOML file"):
        Scan(tmp_path, mapping=tmp_path / "m.toml")


def test_a_mapping_that_does_not_fit_the_files_is_told(tmp_path):
    with pytest.raises(JobcastError, match=r"no file matches '\*\.csv'"):
        Scan(tmp_path, mapping_of({"files": [GOOD]}))
    (tmp_path / "a.csv").write_text("when,host,txx,rd\n1,n4,0,1\n")
    with pytest.raises(
        JobcastError, match=r"a.csv:1: the mapping names a column that is missing. No column 'tx'; did you"
    ):
        read_telemetry(tmp_path, mapping_of({"files": [GOOD]}))
    (tmp_path / "b.txt").write_text("when,host,tx,rd\n1,n4,0,1\n")
    other = GOOD | {"match": "*.txt", "counters": {"port_xmit_data": "tx"}}
    with pytest.raises(JobcastError, match="give port_xmit_data, but not the same counters throughout"):
        Scan(tmp_path, mapping_of({"files": [GOOD, other]}))


def test_the_page_holds_the_rules_as_they_are():
    assert telemetry_rules.table() in PAGE.read_text(encoding="utf-8")


def test_the_list_of_counters_tells_every_counter_below_its_sampler():
    for part in counters.table().split("## ")[1:]:
        told = set(re.findall(r"`(\w+)`", part))
        assert told == {counter.name for counter in counters.counters_of(part.split()[0])}
