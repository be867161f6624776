"""SWF: every rule of the reader, the fast and the careful path, and what is written back."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, JobLog, read_log
from predictors.data.formats.swf import parse_swf, swf_text, write_swf
from predictors.data.formats.swf_header import header_of
from predictors.data.joblog import COLUMNS
from predictors.data.report import ReadingReport

ROW = "7 100 5 60 4 -1 -1 4 90 -1 1 3 2 8 1 1 -1 -1"


def row(**fields: object) -> str:
    """Return a good row with some fields replaced, by number from 1."""
    values = ROW.split()
    for name, value in fields.items():
        values[int(name.removeprefix("f")) - 1] = str(value)
    return " ".join(values)


def parse(*lines: str) -> tuple[JobLog, ReadingReport]:
    return parse_swf("\n".join(lines).encode(), "a.swf")


def same(one: JobLog, two: JobLog) -> bool:
    about = ("origin", "epoch", "time_zone", "max_procs", "max_nodes", "header", "categories", "name")
    return one.digest() == two.digest() and all(getattr(one, field) == getattr(two, field) for field in about)


# one good row ---------------------------------------------------------------------------------------------------------


def test_fields_land_in_their_columns() -> None:
    log, account = parse(" ".join(str(value) for value in range(1, 19)))
    assert [int(log.filled(column)[0]) for column in ("job_id", "wait", "run_time", "allocated_procs")] == [1, 3, 4, 5]
    named = {"cpu_time": 6, "used_memory": 7, "requested_procs": 8, "requested_time": 9, "requested_memory": 10}
    named |= {"status": 11, "user": 12, "group": 13, "executable": 14, "queue": 15, "partition": 16}
    named |= {"preceding_job": 17, "think_time": 18}
    assert {column: int(log.filled(column)[0]) for column in named} == named
    assert (log.origin, log["submit"].tolist()) == (2, [0])
    assert account == ReadingReport("a.swf")


@pytest.mark.parametrize("line", [ROW.replace(" ", "\t"), f"  {ROW}  ", f"{ROW}\r", f"\t {ROW} \t\r"])
def test_blanks_do_not_matter(line: str) -> None:
    log, account = parse(line)
    assert same(log, parse(ROW)[0])
    assert not account.findings


# the rules ------------------------------------------------------------------------------------------------------------

BAD = [
    ("too-few-fields", "dropped", "", ROW.rsplit(" ", 1)[0], ""),
    ("too-few-fields", "dropped", "", "hello world", ""),
    ("no-job-id", "dropped", "", row(f1=-1), "-1"),
    ("no-job-id", "dropped", "", row(f1="x9"), "x9"),
    ("no-job-id", "dropped", "", row(f1="99999999999999999999"), "99999999999999999999"),
    ("no-submission", "dropped", "", row(f2=-1), "-1"),
    ("no-submission", "dropped", "", row(f2="nan"), "nan"),
    ("surplus-fields", "changed", "", f"{ROW} 12 13", "12"),
    ("not-a-number", "changed", "user", row(f12="alice"), "alice"),
    ("not-a-number", "changed", "wait", row(f3="1_000"), "1_000"),
    ("not-a-number", "changed", "wait", row(f3="0x10"), "0x10"),
    ("not-a-number", "changed", "wait", row(f3="٣"), "\\xd9\\xa3"),
    ("not-a-number", "changed", "wait", row(f3="-"), "-"),
    ("not-a-number", "changed", "wait", row(f3="\x00"), "\x00"),
    ("not-finite", "changed", "run_time", row(f4="NaN"), "NaN"),
    ("not-finite", "changed", "run_time", row(f4="-inf"), "-inf"),
    ("negative", "changed", "wait", row(f3=-2), "-2"),
    ("negative", "changed", "wait", row(f3="-0.5"), "-0.5"),
    ("too-large", "changed", "run_time", row(f4=2**53 + 1), str(2**53 + 1)),
    ("too-large", "changed", "user", row(f12=2**63), str(2**63)),
    ("too-large", "changed", "run_time", row(f4="1e400"), "1e400"),
    ("too-large", "changed", "run_time", row(f4="1e99999999999999999999"), "1e99999999999999999999"),
    ("fraction", "noted", "wait", row(f3="5.5"), "5.5"),
    ("fraction", "noted", "cpu_time", row(f6="1.25e1"), "1.25e1"),
]


@pytest.mark.parametrize(("rule", "effect", "column", "line", "example"), BAD)
def test_every_rule_is_told_and_strict_raises_at_file_and_line(
    rule: str, effect: str, column: str, line: str, example: str
) -> None:
    log, account = parse("; Version: 2.2", row(f1=6), line)
    assert len(log) == (1 if effect == "dropped" else 2)
    (finding,) = account.findings
    assert (finding.rule, finding.effect, finding.column, finding.count) == (rule, effect, column, 1)
    assert (finding.places, finding.place, finding.example) == ((3,), "line", example)
    if effect == "changed" and column:
        assert log[column].mask.tolist() == [False, True]
    text = f"; Version: 2.2\n{row(f1=6)}\n{line}\n".encode()
    if effect == "noted":
        parse_swf(text, "a.swf", strict=True)
        return
    with pytest.raises(JobcastError) as caught:
        parse_swf(text, "a.swf", strict=True)
    assert str(caught.value).startswith(f"a.swf:3: {rule}")
    assert repr(example) in str(caught.value) or not example


def test_repeated_and_partial_rows() -> None:
    log, account = parse(row(f1=6), row(f1=6, f4=9), row(f1=6, f2=-1, f11=2), row(f1=6, f11=3), row(f1=7, f11=4))
    assert log["job_id"].tolist() == [6, 7]
    assert log["run_time"].tolist() == [60, 60]
    told = {finding.rule: (finding.count, finding.places) for finding in account.findings}
    assert told == {"partial-execution": (2, (3, 4)), "repeated-id": (1, (2,))}


def test_unsorted_rows_are_sorted_and_told() -> None:
    log, account = parse(row(f1=3, f2=50), row(f1=2, f2=70), row(f1=1, f2=40), row(f1=4, f2=50))
    assert log["job_id"].tolist() == [1, 3, 4, 2]
    assert log["submit"].tolist() == [0, 10, 10, 30]
    assert log.origin == 40
    (finding,) = account.findings
    assert (finding.rule, finding.effect, finding.places) == ("unsorted", "noted", (3,))


def test_equal_submissions_are_ordered_by_id_without_a_note() -> None:
    log, account = parse(row(f1=9), row(f1=8))
    assert log["job_id"].tolist() == [8, 9]
    assert not account.findings


def test_values_of_dropped_rows_are_not_told_twice() -> None:
    _, account = parse(row(f1=6), row(f1=-1, f3="x", f4="7.5"))
    assert [finding.rule for finding in account.findings] == ["no-job-id"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("7.4", 7), ("7.5", 8), ("7.", 7), ("7.0", 7), (".5", 1), ("0.4999", 0), ("12e-1", 1), ("1e3", 1000)],
        *[("+7", 7), ("-0", 0), ("007", 7), ("-01", -1), ("-1.0", -1), ("9007199254740992", 2**53)],
    ],
)
def test_numbers(text: str, value: int) -> None:
    for careful in (False, True):
        log, _ = parse_swf(row(f3=text).encode(), "a.swf", careful=careful)
        assert int(log.filled("wait")[0]) == value


def test_codes_may_be_any_int64() -> None:
    log, account = parse(row(f12=2**63 - 1))
    assert log["user"].tolist() == [2**63 - 1]
    assert not account.findings


# whole files ----------------------------------------------------------------------------------------------------------


def test_comments_alone_are_a_log_without_jobs() -> None:
    log, account = parse("; MaxProcs: 4", "", ";")
    assert (len(log), log.max_procs) == (0, 4)
    assert not account.findings


def test_no_row_is_a_job() -> None:
    with pytest.raises(JobcastError, match=r"a\.swf: none of its 2 rows is a job \(line 2: too-few-fields"):
        parse("; MaxProcs: 4", "1 2 3", "4 5 6")


def test_a_late_comment_moves_to_the_header() -> None:
    log, account = parse("; Version: 2.2", ROW, "; Note: moved")
    assert log.header == (("Version", "2.2"), ("Note", "moved"))
    assert [(finding.rule, finding.places) for finding in account.findings] == [("late-comment", (3,))]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n", "\r\n\r\n"])
def test_ends_of_file(ending: str) -> None:
    log, account = parse_swf(f"{ROW}{ending}".encode(), "a.swf")
    assert len(log) == 1
    assert not account.findings


def test_byte_order_mark() -> None:
    log, account = parse_swf(b"\xef\xbb\xbf; MaxProcs: 8\n" + ROW.encode(), "a.swf")
    assert (log.max_procs, len(account.findings)) == (8, 0)


# the header -----------------------------------------------------------------------------------------------------------


def test_header_facts() -> None:
    log, account = parse(
        "; UnixStartTime: 1000", "; TimeZoneString: Europe/Paris", ";MaxProcs: 64 (all)", "; MaxNodes:\t8", ROW
    )
    assert (log.origin, log.epoch, log.time_zone, log.max_procs, log.max_nodes) == (100, 1100, "Europe/Paris", 64, 8)
    assert not account.findings


def test_names_of_queues_and_partitions() -> None:
    log, _ = parse("; Queue: 0 interactive", "; Queue:  2  batch ", "; Partition: 1 thin", row(f15=3))
    assert log.categories == {"queue": ("interactive", "", "batch", ""), "partition": ("", "thin")}


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "Europe", "\x00", "/usr"])
def test_an_unknown_zone_is_told(zone: str) -> None:
    log, account = parse(f"; TimeZoneString: {zone}", ROW)
    assert log.time_zone is None
    assert [finding.rule for finding in account.findings] == ["header"]


@pytest.mark.parametrize(
    ("offset", "zone"), [("3600", "Etc/GMT-1"), ("-28800", "Etc/GMT+8"), ("0", "Etc/UTC"), ("99", None)]
)
def test_an_offset_stands_in_for_a_missing_zone(offset: str, zone: str | None) -> None:
    assert parse(f"; TimeZone: {offset}", ROW)[0].time_zone == zone


@pytest.mark.parametrize(
    ("start", "submit", "epoch"),
    [(0, 1_600_000_000, 1_600_000_000), (0, 100, None), (-1, 100, None), (50, 100, 150), ("x", 100, None)],
)
def test_epoch(start: object, submit: int, epoch: int | None) -> None:
    assert parse(f"; UnixStartTime: {start}", row(f2=submit))[0].epoch == epoch


def test_bad_sizes_are_told_and_unknown_ones_are_not() -> None:
    log, account = parse("; MaxProcs: many", "; MaxNodes: -1", ROW)
    assert (log.max_procs, log.max_nodes) == (None, None)
    assert ["MaxProcs: 'many'" in finding.text for finding in account.findings] == [True]


def test_header_text_survives_in_any_encoding() -> None:
    lines = ["; Acknowledge: André", ";   see http://here: there", ";", "; Note: a: b", ";\tTail: x"]
    for encoding in ("utf-8", "latin-1"):
        log, _ = parse_swf("\n".join([*lines, ROW]).encode(encoding), "a.swf")
        assert log.header == (
            ("Acknowledge", "André"),
            ("", "   see http://here: there"),
            ("", ""),
            ("Note", "a: b"),
            ("", "\tTail: x"),
        )


def test_written_header_follows_the_log() -> None:
    log = JobLog.from_columns(
        {"job_id": [1], "submit": [5], "queue": [1]},
        {},
        epoch=1_000_000_005,
        time_zone="Asia/Tokyo",
        max_procs=12,
        max_nodes=3,
        header=(("MaxProcs", "99"), ("Note", "two\nlines"), ("MaxProcs", "98")),
        categories={"queue": ("", "fast")},
        name="a",
    )
    back, account = parse_swf(swf_text(log), "a.swf")
    assert (back.epoch, back.origin, back.time_zone, back.max_procs, back.max_nodes) == (
        1_000_000_005, 5, "Asia/Tokyo", 12, 3,
    )  # fmt: skip
    assert back.categories == log.categories
    assert [text for label, text in back.header if label in ("MaxProcs", "Note")] == ["12", "two lines"]
    assert not account.findings


@pytest.mark.parametrize(("job", "submit", "says"), [(1, -5, "begins at -5 s"), (-3, 5, "a job -3")])
def test_what_cannot_be_written(tmp_path: Path, job: int, submit: int, says: str) -> None:
    log = JobLog.from_columns({"job_id": [job], "submit": [submit]}, {})
    with pytest.raises(JobcastError, match=says):
        write_swf(log, tmp_path / "a.swf")
    assert not list(tmp_path.iterdir())


def test_what_swf_has_no_place_for_is_told(tmp_path: Path) -> None:
    values = {"job_id": [4, 5], "submit": [90, 95], "think_time": [-7, 3], "wait": [-1, -1]}
    names = {"user": ("ana",), "queue": ("fast",), "group": ("",)}
    log = JobLog.from_columns(values, {"wait": [True, True]}, epoch=50, categories=names)
    account = write_swf(log, tmp_path / "a.swf")
    told = {(finding.rule, finding.column, finding.places) for finding in account.findings}
    assert told == {("negative", "think_time", (4,)), ("names", "", ()), ("clock", "", ())}
    assert ["user" in finding.text for finding in account.findings if finding.rule == "names"] == [True]
    back, again = read_log(tmp_path / "a.swf")
    assert (back["think_time"].tolist(), back.epoch, again.findings) == ([None, 3], None, ())


def test_files_plain_and_packed(tmp_path: Path) -> None:
    log, _ = parse("; MaxProcs: 64", ROW)
    for name in ("a.swf", "a.swf.gz"):
        assert not write_swf(log, tmp_path / name).findings
        back, _ = read_log(tmp_path / name)
        assert same(parse_swf(swf_text(log), "a.swf")[0], back)
    assert gzip.decompress((tmp_path / "a.swf.gz").read_bytes()) == (tmp_path / "a.swf").read_bytes()


# laws -----------------------------------------------------------------------------------------------------------------

codes = st.integers(-1, 2**63 - 1)
quantities = st.integers(-1, 2**53)
CODES = ("user", "group", "executable", "preceding_job")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    n = draw(st.integers(0, 6))
    values = {
        column: draw(st.lists(codes if column in CODES else quantities, min_size=n, max_size=n)) for column in COLUMNS
    }
    values["job_id"] = draw(st.lists(st.integers(0, 2**63 - 1), min_size=n, max_size=n, unique=True))
    values["submit"] = draw(st.lists(st.integers(0, 10**9), min_size=n, max_size=n))
    values["queue"] = values["partition"] = draw(st.lists(st.integers(-1, 9), min_size=n, max_size=n))
    unknown = {column: np.array(array) == -1 for column, array in values.items()}
    origin = min(values["submit"], default=0)
    return JobLog.from_columns(
        values, unknown, epoch=draw(st.none() | st.integers(1 + origin, 10**10)),
        time_zone=draw(st.sampled_from([None, "Europe/Paris", "Etc/GMT+8"])),
        max_procs=draw(st.none() | st.integers(1, 10**6)), max_nodes=draw(st.none() | st.integers(1, 10**6)),
        header=draw(st.lists(st.tuples(st.sampled_from(["", "Note", "Computer", "MaxJobs"]), TEXT)).map(tuple)),
        categories={"queue": draw(st.lists(st.sampled_from(["", "fast", "night run"]), max_size=4).map(tuple))},
        name="a",
    )  # fmt: skip


@given(logs())
def test_write_then_read_is_identity(log: JobLog) -> None:
    once, account = parse_swf(swf_text(log), "a.swf")
    assert not account.findings
    assert (once.digest(), once.origin) == (log.digest(), log.origin)
    assert (once.time_zone, once.max_procs, once.max_nodes) == (log.time_zone, log.max_procs, log.max_nodes)
    assert once.epoch == log.epoch
    twice, _ = parse_swf(swf_text(once), "a.swf")
    assert same(once, twice)
    assert once.header == header_of(once)


TOKENS = st.one_of(
    st.integers(-3, 10**17).map(str),
    st.decimals(-2, 10**6, places=2).map(str),
    st.sampled_from(
        ["-1", "-1", "0", "nan", "x", "-", ".", "1.", ".5", "1e3", "+4", "-0", "007", "-1.0", "9" * 19, "é", ";"]
    ),
)
LINES = st.one_of(
    st.lists(TOKENS, max_size=20).flatmap(
        lambda tokens: st.sampled_from([" ", "  ", "\t", " \t", " \r"]).map(lambda gap: gap.join(tokens))
    ),
    st.lists(st.integers(-1, 400).map(str), min_size=18, max_size=18).map(" ".join),
    st.sampled_from(["", "; MaxProcs: 4", ";", "  ; Note: x", "\r"]),
)


@given(st.lists(LINES, max_size=8).map("\n".join))
def test_fast_and_careful_path_agree(text: str) -> None:
    def outcome(careful: bool) -> object:
        try:
            log, account = parse_swf(text.encode(), "a.swf", careful=careful)
        except JobcastError as error:
            return str(error)
        return log.digest(), log.header, log.origin, account

    assert outcome(careful=False) == outcome(careful=True)


# real logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "jobs", "dropped"),
    [
        ("KTH-SP2-1996-2.1-cln", 28_476, 0),
        ("NASA-iPSC-1993-3.1-cln", 18_239, 0),
        ("ALCF-Theta-2022.cqsim", 23_911, 0),
        ("LLNL-Thunder-2007-1.1-cln", 119_849, 1_190),
    ],
)
def test_real_logs_survive_being_written(trace, name: str, jobs: int, dropped: int) -> None:  # type: ignore[no-untyped-def]
    log, account = read_log(trace(name))
    assert (len(log), account.dropped, account.changed) == (jobs, dropped, 0)
    back, again = parse_swf(swf_text(log), name)
    assert not again.findings
    assert back.digest() == log.digest()
    assert (back.epoch, back.origin, back.time_zone, back.categories) == (
        log.epoch,
        log.origin,
        log.time_zone,
        log.categories,
    )
    assert set(log.header) <= set(back.header)


def test_a_gzip_file_that_holds_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.swf.gz"
    bomb.write_bytes(gzip.compress(b"; nothing\n" * 400_000))
    monkeypatch.setattr("predictors.core.compressed.HARMLESS", 1 << 20)
    monkeypatch.setattr("predictors.core.compressed._PIECE", 1 << 16)
    with pytest.raises(JobcastError, match=r"bomb\.swf\.gz: the gzip file .* holds more than"):
        read_log(bomb)
    monkeypatch.setattr("predictors.core.compressed.HARMLESS", 1 << 23)
    assert len(read_log(bomb)[0]) == 0


def test_of_a_header_without_end_the_beginning_is_kept(monkeypatch):
    monkeypatch.setattr("predictors.data.formats.swf.MOST_COMMENTS", 3)
    row = b"1 0 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\n"
    log, account = parse_swf(b"; MaxProcs: 8\n" + b"; and on\n" * 9 + row, "a.swf")
    assert (len(log.header), log.max_procs, account.count("long-header")) == (3, 8, 7)
    assert account.changed == 7


def test_a_submission_beyond_all_clocks_is_told_as_such():
    row = "{} {} 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\n"
    _, account = parse_swf((row.format(1, 0) + row.format(2, 10**30)).encode(), "a.swf")
    assert "to 2^53 s" in str(account)


def test_a_machine_too_large_to_be_true_is_told_as_such():
    _, account = parse_swf(b"; MaxProcs: 99999999999999999\n1 0 0 9 2 -1 -1 2 60 -1 1 7 1 -1 1 -1 -1 -1\n", "a.swf")
    assert "no whole number from 1 to 10^15 - 1" in str(account)


# rows of 21 fields ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("careful", [False, True])
def test_gpus_soft_walltime_and_descriptor(careful: bool) -> None:
    lines = (
        "; MaxNodes: 9408",
        f"{row(f1=1, f5=280_000)} 20000 5400 frontier:excl:2500x112",
        f"{row(f1=2, f5=4)} -1 -1 -1",
        f"{row(f1=3)} 8 x frontier:excl:1x112",
        f"{row(f1=4)} 8.5 60 other",
        row(f1=5),
        f"{row(f1=6, f5=-1, f8=-1)} -1 -1 -1",
    )
    log, account = parse_swf(("\n".join(lines) + "\n").encode(), "a.swf", careful=careful)
    assert log["allocated_gpus"].tolist() == [20_000, None, None, 9, None, None]
    assert log["soft_walltime"].tolist() == [5400, None, None, 60, None, None]
    assert log["nodes"].tolist() == [2500, *[None] * 5] == log["allocated_procs"].tolist()
    assert (log["exclusive"].tolist(), log.max_procs) == ([1, *[None] * 5], 9408)
    assert log.names("descriptor") == ("frontier:excl:2500x112", "other")
    rules = {f.rule: (f.effect, f.count, f.column) for f in account.findings}
    assert rules["surplus-fields"] == ("changed", 1, "") and rules["fraction"][1:] == (1, "allocated_gpus")
    assert rules["columns"][0] == "noted"
    assert [f.places for f in account.findings if f.rule == "no-nodes"] == [(3, 4, 5, 6)]
    with pytest.raises(JobcastError, match=r"a.swf:\d+: .*"):
        parse_swf(("\n".join((*lines[:2], lines[5])) + "\n").encode(), "a.swf", strict=True, careful=careful)
    log, account = parse_swf(f"{row(f1=1)} 8 60 other\n{row(f1=2)}\n".encode(), "a.swf", careful=careful)
    assert (log["allocated_procs"].tolist(), account.count("no-nodes")) == ([4, 4], 0)  # no row has nodes


def test_the_dialect_of_metacentrum() -> None:
    """Unix times without a start line, memory in bytes, the queue's name in field 19."""
    rows = [row(f1=n, f2=1_300_000_000 + n, f7=4 * 2**30, f10=419_430_400, f15=-1) + f" q_{n}h" for n in (2, 4)]
    log, account = parse(*rows)
    assert (log.epoch, log.origin) == (1_300_000_002, 1_300_000_002)
    assert (log["used_memory"].tolist(), log["requested_memory"].tolist()) == ([4 * 2**20] * 2, [409_600] * 2)
    assert (log["queue"].tolist(), log.names("queue")) == ([0, 1], ("q_2h", "q_4h"))
    assert {f.rule for f in account.findings} == {"header", "bytes", "columns"}
    assert "surplus-fields" in {f.rule for f in parse(row() + " fast")[1].findings}, "field 15 has the queue"
    assert parse(row())[0].epoch is None and parse(row(f7=2**29))[0]["used_memory"].tolist() == [2**29]
