"""Tables read by a map, maps proposed by looking, and the public data sets that are such tables."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from predictors.core.errors import JobcastError
from predictors.data.formats.detect import detect, read_log, write_log
from predictors.data.formats.parquet import is_own
from predictors.data.formats.tables.propose import propose
from predictors.data.formats.tables.read import parse_table
from predictors.data.formats.tables.table_map import TableMap, header_of, read_map

GERMAN = (
    "\ufeffJob Number;Owner;Submitted;Began;Finished;Limit (min);Cores;GPUs;Mem_GB;Outcome;Title;Notes\n"
    '1;ana;01.03.2025 10:00:00;01.03.2025 10:01:00;01.03.2025 11:01:00;90;4;0;2,5;COMPLETED;"run;a";x\n'
    "2;ben;01.03.2025 10:05:00;01.03.2025 10:06:00;01.03.2025 10:16:00;30;8;2;4;FAILED;b;\n"
).encode()


def mapped(text: str, where: str = "map.toml") -> TableMap:
    return read_map(tomllib.loads(text), where)


def named(log, column):
    return [None if code < 0 else log.names(column)[code] for code in log.filled(column).tolist()]


# --- a proposal, confirmed, reads the table ---------------------------------------------------------------------------


def test_a_proposal_reads_the_table_that_it_was_made_from() -> None:
    text = propose(GERMAN, "jobs.csv")
    assert '"Limit (min)" = { column = "requested_time", unit = "min" }' in text
    assert '"Submitted" = { column = "submit", unit = "%d.%m.%Y %H:%M:%S" }' in text
    log, account = parse_table(GERMAN, "jobs.csv", mapped(text), time_zone="Europe/Berlin", header=header_of(text))
    assert (log["wait"].tolist(), log["run_time"].tolist()) == ([60, 60], [3600, 600])
    assert (log["requested_time"].tolist(), log["requested_gpus"].tolist()) == ([5400, 1800], [0, 2])
    assert log["requested_job_memory"].tolist() == [int(2.5 * 1024**2), 4 * 1024**2]
    assert (named(log, "user"), named(log, "executable")) == (["ana", "ben"], ["run;a", "b"])
    assert log["status"].tolist() == [1, 0] and log.epoch == 1_740_819_600  # 10:00 in Berlin is 9:00 UTC
    assert [f.text for f in account.findings if f.rule == "unused"] == ["columns of which nothing is used: Notes"]


def test_the_map_travels_with_the_parquet(tmp_path: Path) -> None:
    text = propose(GERMAN, "jobs.csv")
    log, _ = parse_table(GERMAN, "jobs.csv", mapped(text), header=header_of(text))
    write_log(log, tmp_path / "a.parquet")
    assert is_own((tmp_path / "a.parquet").read_bytes())
    back, _ = read_log(tmp_path / "a.parquet")
    own = "\n".join(line for label, line in back.header if label == "Map")
    assert mapped(own) == mapped(text) and back.digest() == log.digest()


@pytest.mark.parametrize(
    ("unit", "factor", "name"),
    [("s", 1, "Limit"), ("min", 60, "Limit"), ("h", 3600, "Limit"), ("min", 60, "limit_minutes"), ("s", 1, "limitSec")],
)
def test_units_are_guessed_from_magnitudes_and_names(unit: str, factor: int, name: str) -> None:
    rng = np.random.default_rng(1)
    submit = 1_700_000_000 + np.cumsum(rng.integers(1, 900, 200))
    run = rng.integers(1800, 20 * 3600, 200)
    limit = np.ceil(run * 1.5 / 3600) * 3600 // factor
    jobs = zip(submit, run, limit, strict=True)
    rows = [f"{k},{s}000,{s + 60}000,{s + 60 + r}000,{int(x)}" for k, (s, r, x) in enumerate(jobs)]
    text = propose(f"JobID,Submit,Start,End,{name}\n".encode() + "\n".join(rows).encode() + b"\n", "a.csv")
    columns = tomllib.loads(text)["columns"]
    assert columns["Submit"] == {"column": "submit", "unit": "ms"}
    assert columns[name.strip()] == {"column": "requested_time", "unit": unit}


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("letter", [",", ";", "\t", "|"])
def test_any_delimiter_and_encoding(coding: str, letter: str) -> None:
    text = 'JobID;User;Submit;Start;End\n7;"Jürgen";1700000000;1700000060;1700000120\n'.replace(";", letter)
    data = text.encode(coding)
    log, _ = parse_table(data, "a.csv", mapped(propose(data, "a.csv")))
    assert (log["run_time"].tolist(), named(log, "user")) == ([60], ["Jürgen"])


# --- what is refused --------------------------------------------------------------------------------------------------

COLUMNS = '[columns]\n"Id" = "job_id"\n"S" = {column = "submit", unit = "s"}\n"B" = {column = "start", unit = "s"}\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[columns]\n", "names no column"),
        ('[columns]\n"A" = "unused"\n', "names no column"),
        ('[columns]\n"A" = "submit"\n"B" = "submit"\n', '"A" and "B" are both called submit'),
        ('[columns]\n"A" = "sumbit"\n', "did you mean 'submit'"),
        ('[columns]\n"A" = {column = "submit", unit = "min"}\n', "unit of submit must be one of s, ms, us, ns"),
        ('[columns]\n"A" = {column = "user", unit = "s"}\n', "unit of user must be left out"),
        ('[columns]\n"A" = {column = "user", per = "job"}\n', "per is for memory alone"),
        ('delimeter = ","\n[columns]\n"A" = "user"\n', "did you mean 'delimiter'"),
        ('[columns]\n"A" = "user"\n[status]\n"OK" = "fine"\n', "completed"),
    ],
)
def test_a_map_that_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(JobcastError, match=says) as refusal:
        mapped(text)
    assert str(refusal.value).startswith("map.toml: ") and "\n" not in str(refusal.value)


def test_what_the_table_or_the_map_lacks() -> None:
    with pytest.raises(JobcastError, match=r"No column 'B'; did you mean|No column 'B'. Known: Id, S"):
        parse_table(b"Id,S\n1,2\n", "a.csv", mapped(COLUMNS))
    with pytest.raises(JobcastError, match=r"a.csv: its map names no column for end \(or run_time\)"):
        parse_table(b"Id,S,B\n1,2,3\n", "a.csv", mapped(COLUMNS))


def table(n: int, end: str = "{e}", run: str = "{r}", limit: str = "{l}") -> bytes:
    rows = []
    for k in range(n):
        submit = 1_700_000_000 + 600 * k
        facts = {"e": submit + 3660, "em": 1000 * (submit + 3660), "r": 3600, "rm": 60, "l": 7200, "lm": 120}
        rows.append(f"{k},{submit},{submit + 60}," + ",".join((end, run, limit)).format(**facts))
    return b"Id,S,B,E,R,L\n" + "\n".join(rows).encode() + b"\n"


def test_units_that_contradict_say_which_would_fit() -> None:
    whole = COLUMNS + '"E" = {column = "end", unit = "%s"}\n"R" = {column = "run_time", unit = "%s"}\n'
    whole += '"L" = {column = "requested_time", unit = "%s"}\n'
    log, _ = parse_table(table(50), "a.csv", mapped(whole % ("s", "s", "s")))
    assert set(log["run_time"].tolist()) == {3600}
    for data, units, says in (
        (table(50), ("ms", "s", "s"), r"a.csv:2: end lies before start in 100 %.*\"E\" the unit s would fit"),
        (
            table(50, run="{rm}"),
            ("s", "s", "s"),
            r"end - start is 60 times the run_time.*\"R\" is wrong; min would fit",
        ),
        (
            table(50, limit="{lm}"),
            ("s", "s", "s"),
            r"more than twice their requested_time.*\"L\" is wrong; min would fit",
        ),
    ):
        with pytest.raises(JobcastError, match=says):
            parse_table(data, "a.csv", mapped(whole % units))


def test_one_job_in_a_hundred_may_contradict_and_is_counted() -> None:
    rows = table(200).decode().splitlines()
    rows[7] = rows[7].replace(rows[7].split(",")[3], "1600000000")
    text = COLUMNS + '"E" = {column = "end", unit = "s"}\n'
    log, account = parse_table("\n".join(rows).encode(), "a.csv", mapped(text))
    assert (len(log), account.count("end-before-start")) == (200, 1)


def test_gpus_on_a_machine_that_has_none() -> None:
    text = "gpus = 0\n" + COLUMNS + '"E" = "end"\n"G" = "requested_gpus"\n'
    with pytest.raises(JobcastError, match=r"requested_gpus of job 2 is 1, but its machine is said to have no GPU"):
        parse_table(b"Id,S,B,E,G\n1,5,6,7,0\n2,6,7,8,1\n", "a.csv", mapped(text))
    log, _ = parse_table(b"Id,S,B,E,G\n1,5,6,7,0\n2,6,7,8,1\n", "a.csv", mapped(text.replace("gpus = 0", "gpus = 8")))
    assert (log.max_gpus, log.epoch) == (8, None)  # seconds since some start, no dates


def test_a_table_tells_whose_nodes_a_job_asks_for() -> None:
    text = propose(b"JobID,Submit,Start,End,Exclusive\n1,5,6,7,1\n2,6,7,8,0\n", "a.csv")
    rows = b"".join(b"%d,5,6,7,%s\n" % (n, word) for n, word in enumerate((b"user", b"yes", b"no", b"2", b"some", b"")))
    log, account = parse_table(b"JobID,Submit,Start,End,Exclusive\n" + rows, "a.csv", mapped(text))
    assert log["exclusive"].tolist() == [2, 1, 0, 2, None, None] and account.count("not-a-number") == 1


def test_a_list_of_resources_tells_gpus_and_their_type() -> None:
    text = COLUMNS + '"E" = "end"\n"R" = "requested_tres"\n"T" = "gpu_type"\n'
    data = b'Id,S,B,E,R,T\n1,5,6,7,"cpu=1,gres/gpu:a100=2",v100\n2,6,7,8,cpu=1,\n'
    for told, types in ((text, ["v100", None]), (text.replace('"gpu_type"', '"unused"'), ["a100", None])):
        log, _ = parse_table(data, "a.csv", mapped(told))
        assert (log["requested_gpus"].tolist(), named(log, "gpu_type")) == ([2, 0], types)


CELL = st.text(st.sampled_from("0123456789-:.,;| TabN\n\"'%eE+"), max_size=10)


@given(st.lists(st.tuples(*[CELL] * 5), max_size=5))
@settings(max_examples=40)
def test_any_cells_give_a_log_or_a_clear_error(rows: list[tuple[str, ...]]) -> None:
    data = ("Id,S,B,E,M\n" + "\n".join(",".join(row) for row in rows)).encode()
    text = COLUMNS + '"E" = "end"\n"M" = {column = "requested_job_memory", unit = "slurm"}\n'
    for work in (lambda: parse_table(data, "a.csv", mapped(text)), lambda: propose(data, "a.csv")):
        try:
            work()
        except JobcastError as error:
            assert "\n" not in str(error)


# --- public data sets, in the documented form, made up ----------------------------------------------------------------


def written(tmp_path: Path, name: str, content: bytes | pa.Table) -> Path:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        parquet.write_table(content, path)
    return path


STAMP = ["2023-05-01 10:00:00", "2023-05-01 10:05:00"]
START = ["2023-05-01 10:01:00", "2023-05-01 10:06:00"]
END = ["2023-05-01 11:01:00", "2023-05-01 10:16:00"]
F_DATA = pa.table(
    {
        "jid": ["a1", "a2"], "usr": ["u_1", "u_2"], "jnam": ["n_1", "n_2"], "cnumr": [96, 48], "cnumat": [96, 48],
        "nnumr": [2, 1], "nnuma": [2, 1], "adt": STAMP, "qdt": STAMP, "sdt": START, "edt": END, "ec": [0, 1],
        "elpl": [7200.0, 3600.0], "duration": [3600.0, 600.0], "exit state": ["completed", "failed"],
        "jobenv_req": ["e", "e"], "embedding": [[0.5, 0.25], [0.0, 1.0]], "econ": [1.0, None],
    }
)  # fmt: skip
PM100 = pa.table(
    {
        "job_id": [7, 8], "user_id": [1, 2], "partition": [1, 1], "qos": [0, 0], "job_state": ["COMPLETED", "TIMEOUT"],
        **{name: pa.array(np.array([t.replace(" ", "T") for t in times], "datetime64[us]")).cast(
            pa.timestamp("us", "UTC")) for name, times in
           (("submit_time", STAMP), ("start_time", START), ("end_time", END))},
        "run_time": [3600, 600], "time_limit": [120, 10], "num_cores_req": [128, 4], "num_cores_alloc": [128, 4],
        "num_nodes_req": [1, 1], "num_nodes_alloc": [1, 1], "num_gpus_req": [4, 0], "num_gpus_alloc": [4, 0],
        "nodes": [[5], [6]], "node_power_consumption": [[1.0], [2.0]],
    }
)  # fmt: skip
EAGLE = (
    b"job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,start_time,"
    b"end_time,run_time,state,name,work_dir,submit_line\n"
    b"7,u1,a1,gpu,normal,02:00:00,1,36,2,85G,2023-05-01 10:00:00,2023-05-01 10:01:00,2023-05-01 11:01:00,3600,"
    b"COMPLETED,n1,/scratch/u1,sbatch --exclusive a.sh\n"
    b"8,u2,a1,short,normal,01:00:00,1,36,0,85G,2023-05-01 10:05:00,2023-05-01 10:06:00,2023-05-01 10:16:00,600,FAILED,"
    b"n2,/scratch/u2,sbatch b.sh\n"
)
SUPERCLOUD = (
    b"id_job,id_array_job,id_user,cpus_req,mem_req,nodes_alloc,partition,state,timelimit,time_submit,time_eligible,"
    b"time_start,time_end,tres_alloc,tres_req,exit_code\n7,0,u1,40,9223372036854775808,1,p,3,120,1682935200,1682935200,"
    b'1682935260,1682938860,"1=40,2=170000,4=1,1002=2","1=40,2=170000,4=1,5=40,1002=2",0\n'
    b'8,7,u2,4,9,1,p,5,60,1682935500,1682935500,1682935560,1682936160,"1=4,2=1000,4=1","1=4,2=1000,4=1",256\n'
)
HELIOS = (
    b"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    b"7,u1,v1,4,16,1,COMPLETED,2023-05-01 10:00:00,2023-05-01 10:01:00,2023-05-01 11:01:00,3600,60\n"
    b"8,u2,v1,0,2,1,CANCELLED,2023-05-01 10:05:00,2023-05-01 10:06:00,2023-05-01 10:16:00,600,60\n"
)
PHILLY = json.dumps(
    [
        {"status": "Pass", "vc": "v1", "jobid": "application_1_7", "submitted_time": STAMP[0], "user": "u1",
         "attempts": [{"start_time": START[0], "end_time": START[0], "detail": []},
                      {"start_time": START[0], "end_time": END[0], "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]},
                                                                          {"ip": "m2", "gpus": ["gpu0"]}]}]},
        {"status": "Killed", "vc": "v1", "jobid": "application_1_8", "submitted_time": STAMP[1], "user": "u2",
         "attempts": [{"start_time": START[1], "end_time": END[1], "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
    ]
).encode()  # fmt: skip
SOFTWALL = (
    b"; CERIT, made up\n7[5] 1682935200 60 3600 40 4294967296,5 u1 q_2h 7200 5400\n"
    b"8 1682935500 60 600 4 1073741824 u2 q_1h 3600 -1\n"
)


@pytest.mark.parametrize(
    ("name", "content", "limit", "procs", "gpus", "status"),
    [
        ("f-data", F_DATA, [7200, 3600], [96, 48], [None, None], [1, 0]),
        ("pm100", PM100, [7200, 600], [128, 4], [4, 0], [1, 0]),
        ("eagle", EAGLE, [7200, 3600], [36, 36], [2, 0], [1, 0]),
        ("mit-supercloud", SUPERCLOUD, [7200, 3600], [40, 4], [2, 0], [1, 0]),
        ("helios", HELIOS, [None, None], [16, 2], [4, 0], [1, 5]),
        ("philly", PHILLY, [None, None], [3, 1], [3, 1], [1, 5]),
        ("softwall", SOFTWALL, [7200, 3600], [40, 4], [None, None], [None, None]),
    ],
)
def test_public_data_sets_are_recognised_and_read(tmp_path, name, content, limit, procs, gpus, status) -> None:
    path = written(tmp_path, "a", content)
    assert detect(path.read_bytes(), "a") == name
    log, account = read_log(path)
    assert (log["wait"].tolist(), log["run_time"].tolist()) == ([60, 60], [3600, 600])
    assert (log["requested_time"].tolist(), log.procs.tolist()) == (limit, procs)
    assert (log["requested_gpus"].tolist(), log["status"].tolist()) == (gpus, status)
    assert len(set(log["user"].tolist())) == 2 and account.dropped == account.changed == 0
    if name not in ("softwall",):
        assert account.count("columns") >= 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f-data", F_DATA),
        ("pm100", PM100),
        ("eagle", EAGLE),
        ("mit-supercloud", SUPERCLOUD),
        ("helios", HELIOS),
        ("philly", PHILLY),
    ],
)
def test_a_column_of_which_nothing_is_used_is_counted(tmp_path, name, content) -> None:
    if isinstance(content, pa.Table):
        content = content.append_column("zzz", pa.array([1, 2]))
    elif name == "philly":
        jobs = json.loads(content)
        jobs[0]["zzz"] = jobs[0]["attempts"][0]["yyy"] = 1
        content = json.dumps(jobs).encode()
    else:
        head, *rows = content.splitlines()
        content = b"\n".join([head + b",zzz", *(row + b",1" for row in rows)]) + b"\n"
    before = "attempts.detail.ip, attempts.yyy" if name == "philly" else ""
    log, account = read_log(written(tmp_path, "a", content))
    told = " ".join(finding.text for finding in account.findings if finding.rule == "unused")
    assert len(log) == 2 and "zzz" in told and before in told


def test_what_each_data_set_hides() -> None:
    log, _ = parse_any("softwall", SOFTWALL)
    assert (log["soft_walltime"].tolist(), log["array"].tolist()) == ([5400, None], [5, None])
    assert log["requested_job_memory"].tolist() == [4 * 1024**2, 1024**2] and log.epoch == 1_682_935_200
    log, account = parse_any("mit-supercloud", SUPERCLOUD)
    assert log["requested_job_memory"].tolist() == [170_000 * 1024, 1_024_000]
    assert account.count("unused") == 2  # mem_req and exit_code
    assert log["array"].tolist() == [None, 7]
    log, _ = parse_any("philly", PHILLY)
    assert (log["restarts"].tolist(), log["nodes"].tolist()) == ([1, 0], [2, 1])
    log, _ = parse_any("eagle", EAGLE)
    assert log["requested_job_memory"].tolist() == [85 * 1024**2] * 2


def parse_any(name: str, data: bytes):
    from predictors.data.formats.detect import FORMATS

    return FORMATS[name].parse(data, "a", False)


# --- what clocks, marks and files hide --------------------------------------------------------------------------------

TIMED = COLUMNS + '"G" = {column = "eligible", unit = "s"}\n"E" = {column = "end", unit = "s"}\n'


def cancelled(n: int, never: int, begin: int = 1_700_000_000) -> bytes:
    rows = [(k, s := begin + 600 * k, s + 60, s + 30, s + 3660) for k in range(n)]
    rows += [(n + k, begin + 600 * (n + k), 0, 0, begin + 600 * (n + k) + 5) for k in range(never)]
    return b"Id,S,B,G,E\n" + "\n".join(",".join(map(str, row)) for row in rows).encode() + b"\n"


@pytest.mark.parametrize("never", [1, 4, 90])
def test_a_time_of_zero_has_not_happened(never: int) -> None:
    log, account = parse_table(cancelled(200, never), "a.csv", mapped(TIMED))
    assert log.epoch == 1_700_000_000 and account.count("start-before-submission") == 0
    assert log["wait"].tolist() == [60] * 200 + [None] * never
    assert log["eligible_wait"].tolist() == [30] * 200 + [None] * never
    log, _ = parse_table(cancelled(200, 0, begin=0), "a.csv", mapped(TIMED))
    assert log.epoch is None and log["wait"].tolist() == [60] * 200  # a clock of the log's own


def test_a_comma_is_the_decimal_mark_of_all_numbers() -> None:
    text = 'delimiter = ";"\ndecimal = ","\n' + COLUMNS + '"R" = {column = "run_time", unit = "h"}\n'
    text += '"L" = {column = "requested_time", unit = "ms"}\n"C" = "requested_procs"\n"N" = "executable"\n'
    data = b"Id;S;B;R;L;C;N\n1;1700000000,0;1700000060,75;1,5;7200000,5;4,0;1,5\n"
    log, account = parse_table(data, "a.csv", mapped(text))
    assert (log["wait"].tolist(), log["run_time"].tolist(), log["requested_time"].tolist()) == ([60], [5400], [7200])
    assert (log["requested_procs"].tolist(), named(log, "executable"), account.changed) == ([4], ["1,5"], 0)
    log, account = parse_any("softwall", SOFTWALL.replace(b" 60 3600 ", b" 60,5 3600,25 "))
    assert (log["wait"].tolist(), log["run_time"].tolist(), account.changed) == ([61, 60], [3600, 600], 0)


def test_the_clocks_of_a_table_are_one() -> None:
    numbers = b"Id,S,B,E\n1,1700000000,1700000060,1700000120\n"
    text = COLUMNS + '"E" = "end"\n'
    for zone, table_map in (("Mars/Base", mapped(text)), (None, mapped('time_zone = "Mars/Base"\n' + text))):
        with pytest.raises(JobcastError, match="Mars/Base"):
            parse_table(numbers, "a.csv", table_map, time_zone=zone)
    local = b"Id,S,B,E\n1,1700000000,1700000060,2023-11-15 00:00:00\n"
    with pytest.raises(JobcastError, match=r"a.csv:2: end '2023-11-15 00:00:00' has no time zone, but .* submit"):
        parse_table(local, "a.csv", mapped(text))
    log, _ = parse_table(local, "a.csv", mapped(text), time_zone="Europe/Berlin")
    assert (log["run_time"].tolist(), log.epoch) == ([1_700_002_800 - 1_700_000_060], 1_700_000_000)


def test_the_offset_of_a_pattern_counts_once() -> None:
    pattern = '{column = "%s", unit = "%%d.%%m.%%Y %%H:%%M:%%S %%z"}'
    text = f'[columns]\n"S" = {pattern % "submit"}\n"B" = {pattern % "start"}\n"E" = "end"\n'
    data = b"S,B,E\n01.03.2025 10:00:00 +0100,01.03.2025 09:01:00 +0000,2025-03-01T10:02:00+01:00\n"
    for zone in (None, "Europe/Berlin"):
        log, _ = parse_table(data, "a.csv", mapped(text), time_zone=zone)
        assert (log.epoch, log["wait"].tolist(), log["run_time"].tolist()) == (1_740_819_600, [60], [60])


def test_who_cancelled_is_no_part_of_the_state() -> None:
    text = COLUMNS + '"E" = "end"\n"State" = "state"\n[status]\nCANCELLED = "cancelled"\n'
    data = b"Id,S,B,E,State\n1,5,6,7,CANCELLED by 104217\n2,6,7,8,cancelled\n3,6,7,8,Stopped by hand\n"
    log, _ = parse_table(data, "a.csv", mapped(text))
    assert (named(log, "state")[::2], log["status"].tolist()) == (["CANCELLED", "Stopped by hand"], [5, 5, None])
    assert "104217" not in propose(data, "a.csv").split("[status]")[1]


@pytest.mark.parametrize(
    "stamp",
    ["2025-03-01 10:00 PM", "2025-03-01 10:00 CET", "2025-03-01 10:00:00 ", "2025-13-01 10:00:00", "1e300", "1e400"],
)
def test_odd_times_make_a_proposal_all_the_same(stamp: str) -> None:
    text = propose(f"Id,Submit,Start,End,Lim\x7fit\n1,{stamp},{stamp},{stamp},60\n".encode(), "a.csv")
    assert '"Id" = "job_id"' in text and mapped(text).columns["Lim\x7fit"]
    assert mapped(text).columns["Submit"] != "unused"


def test_half_days_have_a_pattern() -> None:
    data = b"Id,Submit,Start,End\n1,2025-03-01 10:00 PM,2025-03-01 10:01 PM,2025-03-02 12:01 AM\n"
    log, _ = parse_table(data, "a.csv", mapped(propose(data, "a.csv")))
    assert (log["wait"].tolist(), log["run_time"].tolist()) == ([60], [7200])


def test_names_of_columns_that_mislead() -> None:
    data = b'Id,"Wait, sec",Shared,Submit,End\n1,60,1,1700000000,1700000100\n'
    columns = mapped(propose(data, "a.csv")).columns
    assert columns["Shared"] == "unused" and columns["Wait, sec"] != "unused"


def test_parquet_without_texts_or_columns(tmp_path: Path) -> None:
    table = PM100.select(["job_id", "submit_time", "start_time", "end_time"])
    odd = table.append_column("parts", pa.array([{"a": 1}, {"a": 2}]))
    odd = odd.append_column("raw", pa.array([b"\xff\xfe", b"a"]))
    data = written(tmp_path, "a", odd).read_bytes()
    text = propose(data, "a")
    assert {mapped(text).columns[name] for name in ("parts", "raw")} == {"unused"}
    assert len(parse_table(data, "a", mapped(text))[0]) == 2
    for name in ("parts", "raw"):
        with pytest.raises(JobcastError, match=rf'a: its column "{name}" of type .* cannot be read as text'):
            parse_table(data, "a", mapped(text.replace(f'"{name}" = "unused"', f'"{name}" = "user"')))
    with pytest.raises(JobcastError, match="a: is a damaged Parquet file"):
        propose(data[:200] + data[300:], "a")
    with pytest.raises(JobcastError, match="a: is a Parquet file without columns"):
        propose(written(tmp_path, "b", pa.table({})).read_bytes(), "a")


def test_limits_without_end_and_names_of_any_case(tmp_path: Path) -> None:
    place = PM100.column_names.index("time_limit")
    table = PM100.set_column(place, "Time_Limit", pa.array(["UNLIMITED", "10"]))
    log, account = parse_any("pm100", written(tmp_path, "a", table).read_bytes())
    assert log["requested_time"].tolist() == [None, 600] and account.count("no-limit") == 1


def test_memory_of_nodes_and_of_processors_is_that_of_sacct() -> None:
    text = b"id,submit,start,end,cpus,nodes,mem\n1,1616835600,1616835660,1616839260,96,3,4Gn\n"
    text += b"2,1616835600,1616835660,1616839260,96,3,4Gc\n3,1616835600,1616835660,1616839260,96,3,4G\n"
    about = 'columns = {id = "job_id", submit = "submit", start = "start", end = "end", cpus = "requested_procs", '
    about += 'nodes = "nodes", mem = { column = "requested_job_memory", unit = "slurm" }}'
    log, _ = parse_table(text, "a.csv", mapped(about))
    assert log["requested_job_memory"].tolist() == [12 * 1024**2, 384 * 1024**2, 4 * 1024**2]


def test_spans_in_microseconds_and_counts_in_thousandths() -> None:
    text = b"submit,start,run,cpu_milli\n1616835600,1616835660,3600000000,1500\n"
    about = 'columns = {submit = "submit", start = "start", run = { column = "run_time", unit = "us" }, '
    about += 'cpu_milli = { column = "requested_procs", unit = "milli" }}'
    log, _ = parse_table(text, "a.csv", mapped(about))
    assert (log["run_time"].tolist(), log["requested_procs"].tolist()) == ([3600], [2])


def test_nice_values_may_be_below_0_and_other_numbers_may_not() -> None:
    text = b"JobID,Submit,Start,End,ReqCPUS,Nice,SiteFactor,Restarts\n1,1616835600,1616835660,1616839260,4,-1,-300,-2\n"
    text += b"2,1616835601,1616835660,1616839260,4,50,7,2\n3,1616835602,1616835660,1616839260,4,,,2\n"
    log, account = parse_table(text, "a.csv", mapped(propose(text, "a.csv")))
    assert (log["nice"].tolist(), log.known("nice").tolist()) == ([-1, 50, None], [True, True, False])
    assert (log["site_factor"].tolist(), log.known("restarts").tolist()) == ([-300, 7, None], [False, True, True])
    assert account.count("negative") == 1


def test_values_decide_where_names_are_of_another_language() -> None:
    text = (
        "Kennung,Beendet,Eingereicht,Begonnen,Ausgang,Dauer,nodes\n"
        "7,2021-03-01 11:05:00,2021-03-01 10:00:00,2021-03-01 10:05:00,COMPLETED,3600000000,4\n"
        "8,2021-03-01 10:25:00,2021-03-01 10:10:00,2021-03-01 10:15:00,FAILED,600000000,2\n"
    )
    columns = tomllib.loads(propose(text.encode(), "a.csv"))["columns"]
    assert columns == {
        "Kennung": "job_id", "Beendet": "end", "Eingereicht": "submit", "Begonnen": "start", "Ausgang": "state",
        "Dauer": {"column": "run_time", "unit": "us"}, "nodes": "nodes",
    }  # fmt: skip


def test_names_of_pods_and_of_accounts() -> None:
    text = b"job_unique_id,account_id,creation_time,scheduled_time,deletion_time,nodes\nx-1,p,10,20,90,n[1-3]\n"
    columns = tomllib.loads(propose(text + b"x-2,q,11,20,91,n4\n", "a.csv"))["columns"]
    told = [one if isinstance(one, str) else one["column"] for one in columns.values()]
    assert told == ["job_id", "project", "submit", "start", "end", "location"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("12|12|COMPLETED|4\n13|13|FAILED|4\n", "a.csv:1: the first line holds values such as '12'"),
        ("ana,2021-03-01 10:00:00,4\nben,2021-03-01 10:00:00,5\n", "holds values such as '2021-03-01 10:00:00'"),
        ("|".join(["7", "7", *["x"] * 8, *["2021-03-01T10:00:00"] * 4, "01:00:00", "0:0", "COMPLETED", "1", "1", "1",
                   *["x"] * 3, "1:00:00", "n", "j"]), "a.csv:1: the first line holds values such as '7'"),
    ],
)  # fmt: skip
def test_a_table_without_names_gets_no_proposal(text: str, says: str) -> None:
    with pytest.raises(JobcastError, match=re.escape(says)):
        propose(text.encode(), "a.csv")


def test_a_header_in_latin_1_is_proposed_from_like_one_in_utf_8() -> None:
    text = "Début,Id\n1,2\n"
    assert propose(text.encode("latin-1"), "a.csv") == propose(text.encode(), "a.csv")
