"""Telemetry files as they really look: every trap of LDMS's CSV by a small file written by hand."""

import gzip

import numpy as np
import pytest

from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTER_NAMES
from predictors.data.telemetry.rates import Reading
from predictors.data.telemetry.read import Scan, read_telemetry

HEAD = "#Time,Time_usec,ProducerName,component_id,job_id,app_id"
NAMES = ",ib.port_xmit_data#hfi1_0.1,ib.port_rcv_data#hfi1_0.1"


def line(time, node, *values, job=0):
    return f"{time:.6f},{round(time % 1 * 1e6)},nid{node:05d},1,{job},0," + ",".join(map(str, values)) + "\n"


def write(folder, lines, name="sysclassib/sysclassib", head=HEAD + NAMES):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n" + "".join(lines))
    return path


def readings(node=3, times=range(0, 60, 10), step=100, start=1000):
    return [line(float(t), node, start + step * k, start + 2 * step * k) for k, t in enumerate(times)]


def of(telemetry, name, node):
    """Return {time: rate} of one counter of one node, where it is known."""
    rates = telemetry.rates[:, telemetry.nodes.tolist().index(node), COUNTER_NAMES.index(name)]
    return {time: rate for time, rate in zip(telemetry.time.tolist(), rates.tolist(), strict=True) if rate == rate}


def test_rates_are_differences_and_what_is_not_there_is_unknown(tmp_path):
    write(tmp_path, readings())
    telemetry, account = read_telemetry(tmp_path)
    assert of(telemetry, "port_xmit_data", 3) == {10.0: 10.0, 20.0: 10.0, 30.0: 10.0, 40.0: 10.0, 50.0: 10.0}
    assert of(telemetry, "port_rcv_data", 3)[50.0] == 20.0
    assert np.isnan(telemetry.rates).sum() == telemetry.rates.size - 10
    assert account.count("first") == 1 and account.count("no-counter") == 68 and account.dropped == account.changed == 0


def test_idle_nodes_are_kept_and_producers_interleave(tmp_path):
    lines = [line(10.0 * k, node, 5 * k * node, 0, job=0 if node == 7 else 99) for k in range(4) for node in (9, 2, 7)]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert telemetry.nodes.tolist() == [2, 7, 9] and account.dropped == 0
    assert [of(telemetry, "port_xmit_data", node)[30.0] for node in (2, 7, 9)] == [1.0, 3.5, 4.5]


def test_the_other_time_format(tmp_path):
    head = (HEAD + NAMES).replace("Time,Time_usec", "Time_msec,Time_usec")
    lines = [f"{1700000000000 + 10_000 * k},{1 + k},nid00003,1,0,0,{100 * k},0\n" for k in range(3)]
    telemetry, _ = read_telemetry(write(tmp_path, lines, head=head))
    assert telemetry.time.tolist() == pytest.approx([1700000010.000002, 1700000020.000003], abs=1e-7)
    assert of(telemetry, "port_xmit_data", 3) == {t: pytest.approx(100 / 10.000001) for t in telemetry.time.tolist()}


def test_header_in_a_file_of_its_own_rollovers_in_order_and_kinds_left_out(tmp_path):
    folder = tmp_path / "store" / "sysclassib"
    folder.mkdir(parents=True)
    all_of_them = readings()
    for epoch, part in (
        ("1600000100", all_of_them[4:]),
        ("1600000000", all_of_them[:2]),
        ("1600000050", all_of_them[2:4]),
    ):
        (folder / f"sysclassib.{epoch}").write_text("".join(part))
        (folder / f"sysclassib.HEADER.{epoch}").write_text(HEAD + NAMES + "\n")
        (folder / f"sysclassib.KIND.{epoch}").write_text("#!ldms-kinds!timestamp,u64,char[]64\n")
    telemetry, account = read_telemetry(tmp_path)
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0, 40.0, 50.0], 10.0)
    assert account.dropped == account.changed == 0 and account.count("first") == 1  # rates go on across files


def test_one_header_file_for_all_and_none_at_all(tmp_path):
    path = tmp_path / "sysclassib" / "sysclassib"
    path.parent.mkdir()
    path.write_text("".join(readings()))
    with pytest.raises(JobcastError, match=r"holds no telemetry.*NAME\.HEADER"):
        read_telemetry(tmp_path)
    (path.parent / "sysclassib.HEADER").write_text(HEAD + NAMES + "\n")
    assert len(read_telemetry(tmp_path)[0]) == len(read_telemetry(path)[0]) == 5


def test_quoted_names_and_a_header_again_within_the_file(tmp_path):
    head = ",".join(f'"{name}"' for name in (HEAD + NAMES)[1:].split(","))
    lines = [one.replace("nid00003", '"nid00003"') for one in readings()]
    telemetry, account = read_telemetry(write(tmp_path, [*lines[:3], "#" + head + "\n", *lines[3:]], head="#" + head))
    assert telemetry.nodes.tolist() == [3]
    assert len(telemetry) == 5 and account.count("header") == 1 and account.dropped == 0


def test_another_header_within_the_file_is_what_follows_is_read_by(tmp_path):
    lines = readings()
    swapped = [",".join((*one.strip().split(",")[:6], *one.strip().split(",")[:5:-1])) + "\n" for one in lines[3:]]
    other = HEAD + ",ib.port_rcv_data#hfi1_0.1,ib.port_xmit_data#hfi1_0.1\n"
    telemetry, account = read_telemetry(write(tmp_path, [*lines[:3], other, *swapped]))
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0, 40.0, 50.0], 10.0)
    assert account.count("header") == 1


def test_devices_in_columns_are_added_up(tmp_path):
    head = HEAD + ",ib.port_xmit_data#hfi1_0.1,ib.port_xmit_data#hfi1_1.1"
    lines = [line(0.0, 3, 0, 0), line(10.0, 3, 100, 50), line(20.0, 3, 200, ""), line(30.0, 3, 300, 150)]
    telemetry, account = read_telemetry(write(tmp_path, lines, head=head))
    assert of(telemetry, "port_xmit_data", 3) == {10.0: 15.0}  # unknown if one is unknown, and after that
    assert account.count("empty") == 1 and account.changed == 0


def test_devices_in_rows_are_added_up(tmp_path):
    head = HEAD + ",ca_name,port,PortXmitData,PortRcvData"
    lines = []
    for k in range(5):
        for card in (0, 1):
            if (k, card) != (3, 1):
                lines.append(line(10.0 * k + 0.0004 * card, 3, f"hfi1_{card}", 1, 100 * k * (card + 1), 0))
    telemetry, account = read_telemetry(write(tmp_path, lines, "opa_info/opa_info", head))
    assert of(telemetry, "PortXmitData", 3) == {10.0: 30.0, 20.0: 30.0, 40.0: 30.0}
    assert account.count("device-missing") == 1
    with pytest.raises(JobcastError, match="device-missing"):
        read_telemetry(tmp_path, strict=True)


def test_lustres_servers_are_left_out_and_mounts_added_up(tmp_path):
    head = HEAD + ",client.read_bytes#llite.home,client.read_bytes#llite.scratch,client.read_bytes#osc.OST0000"
    head += ",client.read_bytes#OST0001-osc-01,client.read_bytes.rate#llite.home,client.status#llite.home"
    lines = [line(10.0 * k, 3, 100 * k, 10 * k, 10**6 * k, 10**6 * k, 7.5, 1) for k in range(3)]
    telemetry, account = read_telemetry(write(tmp_path, lines, "lustre2_client", head))
    assert of(telemetry, "read_bytes", 3) == {10.0: 11.0, 20.0: 11.0}
    assert account.count("other-column") == 4


def test_rate_columns_are_taken_where_there_is_no_counter(tmp_path):
    head = HEAD + ",ib.port_xmit_data.rate#hfi1_0.1,ib.port_rcv_data#hfi1_0.1"
    lines = [line(10.0 * k, 3, v, 100 * k) for k, v in enumerate(["1.5", "2.5e3", "-1", "nan", "", "inf", "0"])]
    telemetry, account = read_telemetry(write(tmp_path, lines, head=head))
    assert of(telemetry, "port_xmit_data", 3) == {0.0: 1.5, 10.0: 2500.0, 60.0: 0.0}
    assert of(telemetry, "port_rcv_data", 3)[60.0] == 10.0
    assert account.count("no-number") == 3 and account.count("empty") == 1


def test_store_function_csv(tmp_path):
    head = "#Time,Time_usec,DT,DT_usec,ProducerName,component_id,job_id,port_xmit_data_rate,port_xmit_data_rate.Flag"
    lines = [f"{10 * k}.000000,0,10.000000,0,nid00003,1,0,{5 * k},{int(k == 2)}\n" for k in range(4)]
    telemetry, account = read_telemetry(write(tmp_path, lines, "net-1600000000", head))
    assert of(telemetry, "port_xmit_data", 3) == {0.0: 0.0, 10.0: 5.0, 30.0: 15.0}
    assert account.count("flagged") == 1


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_wraps_goes_on(tmp_path, bits):
    column = {32: "ib.port_rcv_errors", 64: "ib.port_xmit_data"}[bits]
    values = [(2**bits - 250 + 100 * k) % 2**bits for k in range(5)]
    telemetry, account = read_telemetry(
        write(tmp_path, [line(10.0 * k, 3, v) for k, v in enumerate(values)], head=HEAD + "," + column)
    )
    assert of(telemetry, column[3:], 3) == dict.fromkeys([10.0, 20.0, 30.0, 40.0], 10.0)
    assert account.count("wrap") == 1 and account.changed == 0


def test_the_width_of_all_counters_can_be_given(tmp_path):
    values = [(2**32 - 250 + 100 * k) % 2**32 for k in range(5)]
    path = write(tmp_path, [line(10.0 * k, 3, v, 10**12 + k) for k, v in enumerate(values)])
    telemetry, account = read_telemetry(path)
    assert len(of(telemetry, "port_xmit_data", 3)) == 3 and account.count("restart") == 1
    telemetry, account = read_telemetry(path, how=Reading(bits=32))
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0, 40.0], 10.0)
    assert of(telemetry, "port_rcv_data", 3)[40.0] == pytest.approx(0.1)  # wider than 32 bits all the same
    lines = [line(10.0 * k, 3, v, 100 * k + 9) for k, v in enumerate((10**12, 10**12 + 100, 5, 105))]
    telemetry, account = read_telemetry(write(tmp_path, lines), how=Reading(bits=32))
    assert account.count("wrap") == 0 and account.changed == 1


def test_a_device_that_begins_anew_gives_no_rate_once(tmp_path):
    values = [10_000, 10_100, 10_200, 40, 140, 240]
    lines = [line(10.0 * k, 3, v, 5 * v) for k, v in enumerate(values)]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 40.0, 50.0], 10.0)
    assert account.count("restart") == 1 and account.count("reset") == account.count("wrap") == 0


def test_one_counter_that_goes_back_loses_its_own_rate_only(tmp_path):
    head = HEAD + NAMES + ",ib.port_xmit_packets#hfi1_0.1"
    lines = [line(10.0 * k, 3, 500 + 100 * k, 500 + 100 * k, packets) for k, packets in enumerate((100, 90, 80, 5))]
    telemetry, account = read_telemetry(write(tmp_path, lines, head=head))
    assert of(telemetry, "port_xmit_packets", 3) == {}
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0], 10.0)
    assert account.count("reset") == 3 and account.count("restart") == 0


def test_a_saturated_counter_is_unknown(tmp_path):
    values = [2**32 - 3, 2**32 - 1, 2**32 - 1, 2**32 - 1]
    lines = [line(10.0 * k, 3, v, 100 * k) for k, v in enumerate(values)]
    telemetry, account = read_telemetry(write(tmp_path, lines, head=HEAD + ",ib.symbol_error,ib.port_xmit_data"))
    assert of(telemetry, "symbol_error", 3) == {10.0: pytest.approx(0.2)}
    assert account.count("saturated") == 2


def test_no_rate_across_a_long_gap_but_across_a_short_one(tmp_path):
    times = [0, 10, 20, 30, 40, 60, 70, 110, 120]  # 60: one is lost; 110: three are lost
    lines = [line(float(t), 3, 10 * t, 0) for t in times]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert set(of(telemetry, "port_xmit_data", 3)) == {10.0, 20.0, 30.0, 40.0, 60.0, 70.0, 120.0}
    assert set(of(telemetry, "port_xmit_data", 3).values()) == {10.0}
    assert account.count("gap") == 1
    telemetry, account = read_telemetry(tmp_path, how=Reading(gap=4.0))
    assert 110.0 in of(telemetry, "port_xmit_data", 3) and account.count("gap") == 0
    telemetry, account = read_telemetry(tmp_path, how=Reading(period=5.0))
    assert account.count("gap") == 2


def test_order_is_restored_and_twice_counts_once(tmp_path):
    lines = readings()
    lines = [lines[0], lines[2], lines[1], lines[1].replace("1100", "999"), lines[5], lines[3], lines[4]]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0, 40.0, 50.0], 10.0)
    assert account.count("twice") == 1 and account.findings[0].places == (5,)


def test_a_reading_that_comes_far_too_late_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", 4000)
    lines = readings(times=range(0, 40_000, 10))
    lines.insert(3900, lines.pop(3700))
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert account.count("late") == 1 and account.dropped == 1
    assert len(telemetry) == 3998  # one lost, one rate across it


@pytest.mark.parametrize("chunk", [150, 400, 5000])
def test_pieces_of_any_size_give_the_same(tmp_path, monkeypatch, chunk):
    random = np.random.default_rng(0)
    lines, counts = [], np.zeros((4, 2), dtype=np.int64)
    for k in range(200):
        for node in random.permutation(4):
            counts[node] += random.integers(0, 1000, 2)
            if random.random() < 0.95:
                lines.append(line(10.0 * k + random.integers(0, 50) / 1000, node, *counts[node]))
    for k in range(0, len(lines) - 5, 5):
        lines[k], lines[k + 3] = lines[k + 3], lines[k]
    write(tmp_path, lines)
    whole, before = read_telemetry(tmp_path)
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", chunk)
    pieces, after = read_telemetry(tmp_path)
    np.testing.assert_array_equal(whole.time, pieces.time)
    np.testing.assert_array_equal(whole.rates, pieces.rates)
    assert before.to_dict() == after.to_dict()


def test_a_clock_that_is_far_off_is_dropped_and_a_pause_is_not(tmp_path):
    lines = [
        line(t, node, int(10 * t), 0)
        for t in (*np.arange(0.0, 600, 10), *np.arange(90_000.0, 90_600, 10))
        for node in (1, 2)
    ]
    lines[31] = line(5.0e6, 2, 0, 0)
    lines[151] = line(1.0, 2, 0, 0)
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert account.count("clock") == 2 and account.findings[0].places == (33, 153)
    assert telemetry.time.max() == 90_590.0
    assert account.count("gap") == 2  # the pause, for each node
    assert set(of(telemetry, "port_xmit_data", 2).values()) == {10.0}


def test_clocks_that_differ_a_little_meet(tmp_path):
    lines = [
        line(10.0 * k + skew, node, 100 * k, 0) for k in range(1, 4) for node, skew in ((1, 0.04), (2, -0.05), (3, 0.0))
    ]
    telemetry, _ = read_telemetry(write(tmp_path, lines))
    assert telemetry.time.tolist() == [19.95, 29.95]
    assert not np.isnan(telemetry.rates[:, :, COUNTER_NAMES.index("port_xmit_data")]).any()


def test_three_samplers_are_joined(tmp_path):
    write(tmp_path, readings(), "a/sysclassib")
    write(
        tmp_path, [line(t + 0.2, 3, 5 * t, 0) for t in range(0, 60, 10)], "b/opa2", HEAD + ",PortXmitData,PortRcvData"
    )
    write(
        tmp_path, [line(t + 0.4, 3, 7 * t, 0) for t in range(0, 60, 10)], "c/lustre", HEAD + ",client.open,client.close"
    )
    telemetry, account = read_telemetry(tmp_path)
    assert telemetry.time.tolist() == [10.0, 20.0, 30.0, 40.0, 50.0]
    known = {name for name in COUNTER_NAMES if of(telemetry, name, 3)}
    assert known == {"port_xmit_data", "port_rcv_data", "PortXmitData", "PortRcvData", "open", "close"}
    assert account.count("no-counter") == 0
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "meminfo").write_text("#Time,Time_usec,ProducerName,MemFree\n1.0,0,nid1,5\n")
    (tmp_path / "d" / "notes.txt").write_text("hello\n")
    assert read_telemetry(tmp_path)[1].count("other-file") == 2


def test_nodes_by_name_by_component_or_as_told(tmp_path):
    lines = [one.replace("nid00003", name) for one in readings() for name in ("quartz12", "alpha")]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert telemetry.nodes.tolist() == [1, 12]  # alpha is component 1
    telemetry, account = read_telemetry(tmp_path, nodes={"alpha": 40})
    assert telemetry.nodes.tolist() == [40] and account.count("other-node") == 6
    path = write(tmp_path, [one.replace(",1,0,0,", ",0,0,0,") for one in lines])
    assert read_telemetry(path)[1].count("no-node") == 6
    write(tmp_path, [one.replace("nid00003", name) for one in readings() for name in ("a7", "b7")])
    with pytest.raises(JobcastError, match="producers 'a7' and 'b7' would both be node 7; give `nodes`"):
        read_telemetry(tmp_path)


@pytest.mark.parametrize(
    ("cell", "rule"),
    [("x", "no-number"), ("-5", "no-number"), ("1.5", "no-number"), (str(2**64), "no-number"), ("", "empty")],
)
def test_a_value_that_is_none_is_unknown_and_so_is_the_rate_after(tmp_path, cell, rule):
    lines = readings()
    lines[2] = line(20.0, 3, cell, 1400)
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert set(of(telemetry, "port_xmit_data", 3)) == {10.0, 40.0, 50.0}
    assert set(of(telemetry, "port_rcv_data", 3)) == {10.0, 20.0, 30.0, 40.0, 50.0}
    found = next(finding for finding in account.findings if finding.rule == rule)
    assert found.places == (4,) and found.column == "ib.port_xmit_data#hfi1_0.1" and found.example == cell
    if rule != "empty":
        with pytest.raises(JobcastError, match=r"sysclassib:4: no-number ib.port_xmit_data#hfi1_0.1, found '.*Mend it"):
            read_telemetry(tmp_path, strict=True)


def test_lines_that_cannot_be_used_are_counted_with_their_places(tmp_path):
    lines = readings(times=range(0, 100, 10))
    lines[1] = lines[1].strip() + ",5\n"
    lines[3] = "half a li\n"
    lines[5] = lines[5].replace("50.000000", "noon")
    lines[6] = "\n"
    lines[7] = lines[7].replace("nid00003", "")
    lines.append(lines[8].replace("80.", "100.")[:30])
    path = write(tmp_path, lines)
    telemetry, account = read_telemetry(path)
    assert {f.rule: f.places for f in account.findings if f.effect == "dropped"} == {
        "columns": (3, 5),
        "no-time": (7,),
        "no-node": (9,),
        "unfinished": (12,),
    }
    assert set(of(telemetry, "port_xmit_data", 3)) == {20.0, 40.0, 80.0, 90.0} | {60.0} - {60.0}
    with pytest.raises(JobcastError, match=r"sysclassib:3: columns, found '10.000000,0,nid00003"):
        read_telemetry(path, strict=True)


def test_gzip_is_read_and_a_short_one_refused(tmp_path):
    text = (HEAD + NAMES + "\n" + "".join(readings(times=range(0, 50_000, 10)))).encode()
    path = tmp_path / "sysclassib.1600000000.gz"
    path.write_bytes(gzip.compress(text))
    assert len(read_telemetry(path)[0]) == 4999
    path.write_bytes(gzip.compress(text)[:-5000])
    with pytest.raises(JobcastError, match=r"gz: the gzip file is cut short"):
        read_telemetry(path)
    damaged = bytearray(gzip.compress(text))
    damaged[20_000:20_100] = bytes(100)
    path.write_bytes(damaged)
    with pytest.raises(JobcastError, match=r"gz: (is damaged|the gzip file is cut short|holds a zero byte)"):
        read_telemetry(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(JobcastError, match="no such file or folder"):
        read_telemetry(tmp_path / "nowhere")
    with pytest.raises(JobcastError, match="holds no file"):
        read_telemetry(tmp_path)
    path = write(tmp_path, [])
    with pytest.raises(JobcastError, match="gives no rate at all"):
        read_telemetry(path)
    assert sum(map(len, Scan(path))) == 0
    path.write_bytes((HEAD + NAMES + "\n").encode() + b"\x00\x01\xff" * 1000)
    with pytest.raises(JobcastError, match="sysclassib:2: holds a zero byte"):
        read_telemetry(path)
    path.write_bytes(bytes(range(1, 256)) * 100)
    with pytest.raises(JobcastError, match="holds no telemetry"):
        read_telemetry(path)
    path.write_bytes((HEAD + NAMES + "\n").encode() + b"1" * 2_000_000)
    with pytest.raises(JobcastError, match="sysclassib:2: the line is longer than 1,000,000 bytes"):
        read_telemetry(path)
    path.write_text("#Time,Time_usec,Producer,a\n1.0,0,nid1,5\n")
    with pytest.raises(JobcastError, match="holds no telemetry"):
        read_telemetry(path)


def test_a_file_of_the_set_with_another_samplers_counters_is_refused(tmp_path):
    write(tmp_path, readings(), "s.1600000000")
    write(tmp_path, readings(times=range(60, 90, 10)), "s.1600000060", HEAD + ",client.open,client.close")
    with pytest.raises(JobcastError, match=r"s.1600000060: holds open, which the files before it of its set do not"):
        read_telemetry(tmp_path)


@pytest.mark.parametrize(
    "bad", [{"period": 0.0}, {"gap": 0.5}, {"late": -1.0}, {"tolerance": 0.0}, {"bits": 48}, {"gap": float("nan")}]
)
def test_ways_of_reading_that_make_no_sense_are_refused(bad):
    with pytest.raises(JobcastError, match=r"Reading: .*got"):
        Reading(**bad)


@pytest.mark.parametrize(
    ("before", "after", "wraps"),
    [
        (2**32 - 2**29, 2**29 - 1, True),  # the last eighth, the first eighth
        (2**32 - 2**29 - 1, 5, False),
        (2**32 - 5, 2**29, False),
        (3 * 10**9, 10**8, False),
    ],
)
def test_a_wrap_goes_from_the_last_eighth_of_the_range_to_the_first(tmp_path, before, after, wraps):
    lines = [line(10.0 * k, 3, v, 10**6 * k + 9) for k, v in enumerate((before - 10, before, after, after + 10))]
    head = HEAD + ",ib.port_rcv_errors,ib.port_xmit_data"
    telemetry, account = read_telemetry(write(tmp_path, lines, head=head))
    rates = of(telemetry, "port_rcv_errors", 3)
    assert account.count("wrap") == int(wraps) and account.changed == int(not wraps)
    assert rates.get(20.0) == (pytest.approx((after - before + 2**32) / 10) if wraps else None)
    assert rates[30.0] == 1.0 or account.count("restart")


def test_counters_that_stand_at_zero_do_not_speak_against_a_restart(tmp_path):
    head = HEAD + NAMES + ",ib.symbol_error,ib.link_downed,ib.port_rcv_errors,ib.VL15_dropped"
    values = [(500, 700, 0, 0, 0, 0), (600, 800, 0, 0, 0, 0), (5, 900, 0, 0, 0, 0), (105, 1000, 0, 0, 0, 0)]
    telemetry, account = read_telemetry(
        write(tmp_path, [line(10.0 * k, 3, *v) for k, v in enumerate(values)], head=head)
    )
    assert account.count("restart") == 1 and account.count("reset") == 0
    assert set(of(telemetry, "port_rcv_data", 3)) == {10.0, 30.0}


def test_devices_in_rows_that_are_read_often_are_not_mixed_up(tmp_path):
    head = HEAD + ",ca_name,port,PortXmitData"
    lines = [line(0.25 * k, 3, "hfi1_0", port, 10 * k * port) for k in range(9) for port in (1, 2)]
    _, account = read_telemetry(write(tmp_path, lines, "opa2", head), how=Reading(tolerance=1.0))
    assert account.count("device-missing") == 0
    parts = np.concatenate([part.rates[:, 0] for part in Scan(tmp_path)])
    assert parts.tolist() == [120.0] * 8


def test_user_data_beside_the_values_and_windows_line_ends(tmp_path):
    head = HEAD + ",ib.port_xmit_data#hfi1_0.1.userdata,ib.port_xmit_data#hfi1_0.1.value"
    lines = [line(10.0 * k, 3, 70 * k, 50 * k) for k in range(4)]
    path = write(tmp_path, lines, head=head)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    telemetry, account = read_telemetry(path)
    assert of(telemetry, "port_xmit_data", 3) == dict.fromkeys([10.0, 20.0, 30.0], 5.0)
    assert account.count("other-column") == 1 and account.dropped == account.changed == 0


def test_parts_follow_one_another_whatever_comes_late(tmp_path, monkeypatch):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", 4000)
    lines = readings(times=range(0, 40_000, 10))
    lines[3900:3900] = [line(36_800.0, 8, 5, 5), line(36_810.0, 8, 6, 6)]  # a node that was never seen before
    scan = Scan(write(tmp_path, lines))
    until = 0.0
    for part in scan:
        if len(part):
            assert part.time[0] > until
            until = part.time[-1]
    assert scan.account().count("late") == 2


@pytest.mark.parametrize("chunk", [300, 1000, 10**7])
def test_a_node_whose_clock_is_wrong_throughout_is_left_out(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", chunk)
    lines = [line(10.0 * k + 86_400 * (node == 3), node, 50 * k, 0) for k in range(60) for node in range(6)]
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert telemetry.nodes.tolist() == [0, 1, 2, 4, 5] and telemetry.time.max() == 590.0
    assert account.count("clock") == 60 == account.dropped


def test_pieces_that_hold_what_is_asked_for_out_of_order_are_not_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", 1500)
    lines = [line(float(t), node, 7 * t, t) for t in range(0, 4000, 10) for node in (3, 4)]
    for k in range(0, len(lines) - 9, 9):
        lines.insert(k + 8, lines.pop(k))
    whole, account = read_telemetry(write(tmp_path, lines))
    assert account.dropped == 0
    for high in np.arange(1000.0, 1200.0, 7.5):
        between = [[high - 20.0, high]]
        seen = [part for part in Scan(tmp_path, between=between) if len(part)]
        times = np.concatenate([part.time for part in seen])
        inside = (whole.time >= high - 20.0) & (whole.time < high)
        assert ((times >= high - 20.0) & (times < high)).sum() == 2 * inside.sum(), high


def test_what_comes_up_to_a_minute_late_is_put_in_order_across_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("predictors.data.telemetry.file_sets.CHUNK", 2000)
    lines = [line(10.0 * k, node, 70 * k, 0) for k in range(120) for node in range(30)]
    for k in range(2500, 3400, 70):
        lines.insert(k + 150, lines.pop(k))  # 50 s
    telemetry, account = read_telemetry(write(tmp_path, lines))
    assert account.dropped == account.changed == 0
    assert (telemetry.rates[:, :, COUNTER_NAMES.index("port_xmit_data")] == 7.0).all()
