"""Reading by content, writing by name: formats, damaged files, and logs that survive being written."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from predictors.core.errors import JobcastError
from predictors.data.formats.detect import FORMATS, WRITERS, detect, read_log, write_log
from predictors.data.formats.parquet import parse_parquet, write_parquet
from predictors.data.joblog import COLUMNS, FURTHER, JobLog
from tests.support.places import DATA

ROW = b"7 100 5 60 4 -1 -1 4 90 -1 1 3 2 8 1 1 -1 -1\n"


def a_log(n: int = 3) -> JobLog:
    values = {column: np.arange(n) + 5 for column in COLUMNS}
    unknown = {"user": np.arange(n) == 0, "wait": np.arange(n) == n - 1}
    return JobLog.from_columns(
        values,
        unknown,
        epoch=1_000_000_000,
        time_zone="Europe/Paris",
        max_procs=64,
        max_nodes=8,
        header=(("Computer", "Größe"), ("", " as it stands"), ("Note", "")),
        categories={"user": ("root", "ana"), "queue": ("", "fast")},
        name="a",
    )


CR_LOGS = {
    "swf": b"; MaxProcs: 4\n" + ROW + b"8" + ROW[1:],
    "sacct": b"JobID|Submit|Start|End|State\n7|1000|1010|1020|COMPLETED\n8|1000|1010|1020|COMPLETED\n",
    "pbs": (DATA / "pbs_accounting.txt").read_bytes().replace(b"\r\n", b"\n"),
    "alcf": b"JOB_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,NODES_USED\n1.p,2016-11-05 10:00:00,"
    b"2016-11-05 11:00:00,2016-11-05 12:00:00,4\n"
    b"2.p,2016-11-05 10:00:00,2016-11-05 11:00:00,2016-11-05 12:00:00,4\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("last", [b"", b"\n"])
@pytest.mark.parametrize("name", CR_LOGS)
def test_lines_that_end_in_cr_alone_are_refused(name: str, last: bytes, packed: bool, tmp_path: Path) -> None:
    assert detect(CR_LOGS[name], "a") == name
    data = CR_LOGS[name].strip().replace(b"\n", b"\r") + last
    file = tmp_path / "log"
    file.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(JobcastError, match="lines that end in CR alone; convert them: tr"):
        read_log(file)


@pytest.mark.parametrize("name", ["swf", "pbs"])
def test_one_line_that_ends_in_cr_alone_is_refused(name: str, tmp_path: Path) -> None:
    """It would be read as one with the next."""
    file = tmp_path / "log"
    file.write_bytes(CR_LOGS[name].replace(b"\n", b"\r", 1))
    with pytest.raises(JobcastError, match=r"log:1: has lines that end in CR alone"):
        read_log(file)


def about(log: JobLog) -> tuple[object, ...]:
    fields = ("origin", "epoch", "time_zone", "max_procs", "max_nodes", "max_gpus", "header", "categories", "name")
    return (log.digest(), *(getattr(log, field) for field in fields))


# formats --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"; Version", "swf"),
        (b"\xef\xbb\xbf;", "swf"),
        (b"\n\n " + ROW, "swf"),
        (b"torn row\n" + ROW, "swf"),
        (ROW.replace(b" ", b"\t").replace(b"\n", b"\r\n"), "swf"),
        (b"PAR1", "parquet"),
    ],
)
def test_told_by_content(data: bytes, name: str) -> None:
    assert detect(data, "a") == name


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"job,submit\n1,2\n", "text that begins 'job,submit'"),
        (b"\x7fELF\x02\x01\0\0\0", "a binary file"),
        (b"BZh91AY", "packed by bzip2"),
        (b"PK\x03\x04", "a zip archive"),
        (b"1 2 3\n", "text that begins '1 2 3'"),
        (b"   \n \n", "text that begins ''"),
    ],
)
def test_what_is_no_job_log(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(data)
    with pytest.raises(JobcastError, match="is no job log that jobcast can read") as caught:
        read_log(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_name_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(gzip.compress(ROW))
    (tmp_path / "b.txt.gz").write_bytes(ROW)
    for name in ("a.parquet", "b.txt.gz"):
        assert len(read_log(tmp_path / name)[0]) == 1
    write_parquet(a_log(), tmp_path / "c.swf")
    (tmp_path / "d").write_bytes(gzip.compress((tmp_path / "c.swf").read_bytes()))
    for name in ("c.swf", "d"):
        assert about(read_log(tmp_path / name)[0]) == about(a_log())


def test_strict_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(ROW + b"1 2\n")
    assert read_log(tmp_path / "a")[1].dropped == 1
    with pytest.raises(JobcastError, match=r"a:2: too-few-fields"):
        read_log(tmp_path / "a", strict=True)


# files that cannot be read --------------------------------------------------------------------------------------------


def test_missing_folder_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "packed").write_bytes(gzip.compress(b""))
    for name, says in (("none", "no such file"), (".", "is a folder"), ("empty", "is empty"), ("packed", "is empty")):
        with pytest.raises(JobcastError, match=says):
            read_log(tmp_path / name)
    with pytest.raises(JobcastError, match="cannot be read"):
        read_log(tmp_path / "empty" / "below")
    with pytest.raises(JobcastError, match="cannot be read"):
        read_log("a\0b")
    with pytest.raises(JobcastError, match="cannot be read"):
        read_log("a" * 5000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_not_permitted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(ROW)
    (tmp_path / "a").chmod(0)
    with pytest.raises(JobcastError, match="Permission denied"):
        read_log(tmp_path / "a")


def test_not_permitted_even_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(JobcastError, match="cannot be read \\(Permission denied\\)"):
        read_log(tmp_path / "a")


def test_gzip_cut_short_or_damaged(tmp_path: Path) -> None:
    packed = gzip.compress(ROW * 50)
    for cut in range(2, len(packed)):
        (tmp_path / "a").write_bytes(packed[:cut])
        with pytest.raises(JobcastError, match=r"gzip file is (cut short|damaged)"):
            read_log(tmp_path / "a")
    for damaged in (packed[:-8] + b"\1\2\3\4" + packed[-4:], packed[:10] + b"\xff" * 30, packed + b"tail"):
        (tmp_path / "a").write_bytes(damaged)
        with pytest.raises(JobcastError, match="gzip file is damaged"):
            read_log(tmp_path / "a")
    (tmp_path / "a").write_bytes(gzip.compress(ROW) + gzip.compress(ROW.replace(b"7 ", b"8 ", 1)))
    assert len(read_log(tmp_path / "a")[0]) == 2


# Parquet --------------------------------------------------------------------------------------------------------------


def test_foreign_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(JobcastError, match=r"not one that jobcast wrote \(columns x"):
        read_log(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 9}, "version 9"),
        ({"header": 3}, "metadata"),
        ({"categories": []}, "metadata"),
        ({"origin": None}, "metadata"),
        ({"name": ...}, "metadata"),
    ],
)
def test_damaged_metadata(tmp_path: Path, change: dict[str, object], says: str) -> None:
    write_parquet(a_log(), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    told = json.loads(table.schema.metadata[b"jobcast"]) | change
    told = {key: value for key, value in told.items() if value is not ...}
    pq.write_table(table.replace_schema_metadata({"jobcast": json.dumps(told)}), tmp_path / "b.parquet")
    with pytest.raises(JobcastError, match=f"b.parquet: is damaged.*{says}"):
        read_log(tmp_path / "b.parquet")


def test_damaged_columns(tmp_path: Path) -> None:
    write_parquet(a_log(), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    for column, values, says in (
        ("wait", ["a", "b", "c"], "column 'wait' is of type string"),
        ("submit", [0, 5, 2], "sorted"),
        ("job_id", [1, 1, 2], "twice"),
        ("job_id", [1, None, 2], "must be known"),
        ("other", [1, 2, 3], "No job log column 'other'"),
    ):
        columns = {name: table.column(name) for name in table.column_names} | {column: pa.array(values)}
        bad = pa.table(columns).replace_schema_metadata(table.schema.metadata)
        pq.write_table(bad, tmp_path / "b.parquet")
        with pytest.raises(JobcastError, match=f"b.parquet: is damaged: .*{says}"):
            read_log(tmp_path / "b.parquet")


def test_a_cut_parquet_file_is_noticed(tmp_path: Path) -> None:
    write_parquet(a_log(), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    for cut in range(4, len(data), 97):
        with pytest.raises(JobcastError, match="damaged Parquet file"):
            parse_parquet(data[:cut], "a.parquet")


def test_a_changed_value_in_a_parquet_file_is_noticed(tmp_path: Path) -> None:
    write_parquet(a_log(40), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    noticed = 0
    for place in range(4, footer, 13):
        try:
            log, _ = parse_parquet(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], "a.parquet")
        except JobcastError:
            noticed += 1
        else:
            assert log.digest() == a_log(40).digest()
    assert noticed > 100


def test_a_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It says nothing of GPUs."""
    write_log(a_log(), tmp_path / "new.parquet")
    table = pq.read_table(tmp_path / "new.parquet")
    told = json.loads(table.schema.metadata[b"jobcast"])
    del told["max_gpus"]
    older = table.replace_schema_metadata({b"jobcast": json.dumps(told)})
    pq.write_table(older, tmp_path / "old.parquet", write_page_checksum=True)
    assert about(read_log(tmp_path / "old.parquet")[0]) == about(a_log())


# laws -----------------------------------------------------------------------------------------------------------------

HEADS = (
    b"JOB_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,NODES_USED,WALLTIME_SECONDS\n",
    b"JobID|Submit|Start|End|State\n",
    b'{"jobs": [{"job_id": 7, "time": {"submission": 5}},',
    b"03/27/2021 10:00:00;Q;7.srv;queue=a\n",
)
INTS = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=8)


@st.composite
def any_logs(draw: st.DrawFn) -> JobLog:
    n = draw(st.integers(0, 5))
    more = draw(st.lists(st.sampled_from(sorted(FURTHER)), unique=True, max_size=3))
    values = {column: draw(st.lists(INTS, min_size=n, max_size=n)) for column in (*COLUMNS, *more)}
    values["job_id"] = draw(st.lists(INTS, min_size=n, max_size=n, unique=True))
    values["submit"] = draw(st.lists(st.integers(-(10**9), 10**9), min_size=n, max_size=n))
    kinds = [column for column in values if column not in ("job_id", "submit")]
    unknown = {column: draw(st.lists(st.booleans(), min_size=n, max_size=n)) for column in kinds}
    return JobLog.from_columns(
        values, unknown, epoch=draw(st.none() | st.integers(-(1 << 48), 1 << 48)),
        time_zone=draw(st.none() | st.sampled_from(("", "UTC", "Europe/Paris"))), max_procs=draw(st.none() | INTS),
        max_nodes=draw(st.none() | INTS), max_gpus=draw(st.none() | st.integers(1, 99)),
        header=draw(st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)),
        categories=draw(st.dictionaries(st.sampled_from(kinds), st.lists(TEXT, max_size=3).map(tuple), max_size=2)),
        name=draw(TEXT),
    )  # fmt: skip


@given(log=any_logs())
@settings(max_examples=40)
def test_parquet_is_identity(tmp_path_factory: pytest.TempPathFactory, log: JobLog) -> None:
    path = tmp_path_factory.mktemp("parquet") / "b.parquet"
    write_log(log, path)
    back, account = read_log(path)
    assert about(back) == about(log)
    assert not account.findings


@given(
    st.one_of(
        *[
            st.binary(max_size=200).map(lambda tail, head=head: head + tail)
            for head in (b"", b"PAR1", b";", ROW, *HEADS)
        ]
    )
)
def test_any_bytes_give_a_log_or_a_clear_error(data: bytes) -> None:
    for packed in (data, gzip.compress(data)):
        try:
            form = FORMATS[detect(packed if packed is data else gzip.decompress(packed), "a")]
            log, _ = form.parse(data, "a", False)
        except JobcastError as error:
            assert "\n" not in str(error)
        else:
            assert isinstance(log, JobLog)


# writing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", list(WRITERS))
def test_written_by_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending.upper()}"
    write_log(a_log(), path)
    back, account = read_log(path)
    assert (back.digest(), back.epoch, back.origin) == (a_log().digest(), a_log().epoch, a_log().origin)
    assert not account.findings
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_errors_of_writing(tmp_path: Path) -> None:
    for name, says in (("a.csv", "tells no format"), ("none/a.swf", "cannot be written"), ("b.swf", "is a folder")):
        (tmp_path / "b.swf").mkdir(exist_ok=True)
        with pytest.raises(JobcastError, match=says):
            write_log(a_log(), tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["b.swf"]


def test_what_swf_cannot_keep_is_said(tmp_path: Path) -> None:
    log = JobLog.from_columns({"job_id": [4, 5], "submit": [0, 1], "exit_code": [0, 3]}, {"exit_code": [False, True]})
    account = write_log(log, tmp_path / "a.swf")
    assert [(f.rule, f.column, f.count, f.places) for f in account.findings] == [("no-column", "exit_code", 1, (4,))]
    assert not write_log(log, tmp_path / "a.parquet").findings


def test_a_zone_is_for_logs_with_local_times(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(ROW)
    with pytest.raises(JobcastError, match="without local times"):
        read_log(tmp_path / "a", time_zone="Europe/Paris")


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "; MaxProcs: 4\n1 100 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\n",
        "JobID|Submit|Start|End|State|User\n7|2021-03-27T10:00:00|2021-03-27T10:01:00|2021-03-27T10:03:00|COMPLETED|é\n",
    ],
)
def test_texts_in_utf_16(tmp_path, coding, text):
    (tmp_path / "a").write_bytes(text.encode(coding))
    (tmp_path / "b").write_text(text, encoding="utf-8")
    assert read_log(tmp_path / "a")[0].digest() == read_log(tmp_path / "b")[0].digest()
