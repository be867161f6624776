"""`jobcast log …` as a user types it."""

import json
from pathlib import Path

import pytest

from jobcast import JobcastError, JobLog, read_log, write_log
from predictors.data.formats.archive import ARCHIVE
from tests.support.commands import printed

SWF = """; UnixStartTime: 1000000000
; TimeZoneString: Europe/Paris
; MaxProcs: 8
1 100 30 100 4 -1 -1 4 200 -1 1 7 2 8 1 1 -1 -1
2 160 0 50 8 -1 -1 -1 50 -1 0 9 2 8 1 1 -1 -1
3 200 -4 0 8 -1 -1 8 90 -1 5 7 2 8 1 1 -1 -1
4 210
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.swf"
    path.write_text(SWF)
    return path


def test_info_as_json(log: Path) -> None:
    told = json.loads(printed("log", "info", log, "--json"))
    assert (told["log"], told["name"], told["jobs"], told["span_s"]) == (str(log), "a", 3, 100)
    assert told["first_submission"] == "2001-09-09T03:48:20+02:00"
    assert (told["max_procs"], told["max_nodes"], told["time_zone"]) == (8, None, "Europe/Paris")
    assert told["distinct"] == {"user": 2, "group": 1, "executable": 1, "queue": 1, "partition": 1}
    assert told["known_share"]["requested_procs"] == pytest.approx(2 / 3)
    assert told["utilisation"] == pytest.approx((100 * 4 + 50 * 8) / (8 * 130))
    assert told["quantiles"]["run_time_s"] == {"min": 0, "p10": 0, "p50": 50, "p90": 50, "p99": 50, "max": 100}
    assert told["quantiles"]["run_over_requested"]["max"] == 1
    rules = [(finding["rule"], finding["first"]) for finding in told["account"]["findings"]]
    assert rules == [("too-few-fields", [7]), ("negative", [6])]


def test_info_as_tables(log: Path) -> None:
    text = printed("log", "info", log)
    for part in ("Europe/Paris", "too-few-fields", "line 7", "negative", "run time (s)", "4 jobs read, 3 used"):
        assert part in text


def test_info_of_a_log_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("; MaxProcs: 8\n")
    told = json.loads(printed("log", "info", tmp_path / "a.swf", "--json"))
    assert (told["jobs"], told["span_s"], told["utilisation"], told["known_share"]["wait"]) == (0, None, None, None)
    assert "processors" in printed("log", "info", tmp_path / "a.swf")


def test_strict(log: Path, tmp_path: Path) -> None:
    for arguments in (["info", log, "--strict"], ["convert", log, tmp_path / "b.swf", "--strict"]):
        with pytest.raises(JobcastError, match=r"a\.swf:6: negative wait, found '-4'"):
            printed("log", *arguments)
    assert list(tmp_path.iterdir()) == [log]


@pytest.mark.parametrize("name", ["b.swf", "b.swf.gz", "b.parquet"])
def test_convert(log: Path, tmp_path: Path, name: str) -> None:
    assert f"{name}: 3 jobs" in printed("log", "convert", log, tmp_path / name)
    told = json.loads(printed("log", "convert", log, tmp_path / name, "--json"))
    assert (told["out"], told["jobs"], told["account"]["dropped"]) == (str(tmp_path / name), 3, 1)
    assert read_log(tmp_path / name)[0].digest() == read_log(log)[0].digest()


def test_convert_tells_what_the_format_has_no_place_for(tmp_path: Path) -> None:
    write_log(
        JobLog.from_columns({"job_id": [1], "submit": [0]}, {}, categories={"user": ("ana",)}), tmp_path / "a.parquet"
    )
    told = json.loads(printed("log", "convert", tmp_path / "a.parquet", tmp_path / "b.swf", "--json"))
    assert [finding["rule"] for finding in told["account"]["findings"]] == ["names"]


def test_generate(tmp_path: Path) -> None:
    for name in ("b.swf", "c.swf"):
        printed("log", "generate", tmp_path / name, "--jobs", 60, "--seed", 3, "--procs", 32, "--users", 5)
    assert (tmp_path / "b.swf").read_bytes() == (tmp_path / "c.swf").read_bytes()
    log, account = read_log(tmp_path / "b.swf")
    assert (len(log), log.max_procs, account.findings) == (60, 32, ())


def test_fetch_lists_names() -> None:
    assert printed("log", "fetch").split() == list(ARCHIVE)
    assert json.loads(printed("log", "fetch", "--json")) == {"names": list(ARCHIVE)}


def test_fetch_takes_what_is_here(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "NASA-iPSC-1993-3.1-cln.swf.gz"
    path.write_text(SWF)
    assert printed("log", "fetch", "nasa", "--base-url", "http://127.0.0.1:9") == f"{path}\n"
    told = json.loads(printed("log", "fetch", "nasa", "--json"))
    assert (told["path"], len(told["sha256"])) == (str(path), 64)
    path.write_text("; changed\n")
    with pytest.raises(JobcastError, match="cannot be reached"):
        printed("log", "fetch", "nasa", "--base-url", "http://127.0.0.1:9")


def test_summary_survives_extreme_logs(tmp_path: Path) -> None:
    largest = 2**53
    (tmp_path / "a.swf").write_text(f"; UnixStartTime: {10**15 - 1}\n" + " ".join(["1", *[str(largest)] * 17]) + "\n")
    told = json.loads(printed("log", "info", tmp_path / "a.swf", "--json"))
    assert (told["jobs"], told["first_submission"]) == (1, None)


# tables in other columns, and logs without names ----------------------------------------------------------------------

TABLE = (
    "JobID;Owner;Submitted;Started;Ended;Limit_min;CPUs;Title\n"
    "7;ana;1616835600;1616835660;1616839260;90;4;md_1\n8;ben;1616835700;1616835760;1616835820;30;8;md_2\n"
)


def refused(*arguments: object) -> str:
    with pytest.raises(JobcastError) as refusal:
        printed("log", *arguments)
    return str(refusal.value)


def test_a_proposed_map_imports_the_table(tmp_path: Path) -> None:
    table, table_map, out = tmp_path / "jobs.csv", tmp_path / "map.toml", tmp_path / "a.parquet"
    table.write_text(TABLE)
    table_map.write_text(printed("log", "import", table, "--propose"))
    assert '"Limit_min" = { column = "requested_time", unit = "min" }' in table_map.read_text()
    printed("log", "import", table, out, "--map", table_map)
    log, _ = read_log(out)
    assert log["run_time"].tolist() == [3600, 60] and log["requested_time"].tolist() == [5400, 1800]
    assert ("Map", 'delimiter = ";"') in log.header
    assert json.loads(printed("log", "import", table, "--map", table_map, "--json"))["jobs"] == 2  # nothing is written
    assert "Give one of --propose" in refused("import", table, out)
    assert "Give one of --propose" in refused("import", table, "--propose", "--map", table_map)
    table_map.write_text(table_map.read_text().replace('unit = "min"', 'unit = "h"').replace('"start"', '"end"'))
    assert "are both called end" in refused("import", table, out, "--map", table_map)


def test_an_anonymous_log(tmp_path: Path) -> None:
    table, out, hidden, key = (tmp_path / name for name in ("jobs.csv", "a.parquet", "b.parquet", "key"))
    table.write_text(TABLE)
    (tmp_path / "m.toml").write_text(printed("log", "import", table, "--propose"))
    printed("log", "import", table, out, "--map", tmp_path / "m.toml")
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    told = json.loads(printed("log", "anonymise", out, hidden, "--name-key", key, "--json"))
    log, _ = read_log(hidden)
    assert told["jobs"] == len(log) == 2 and log["job_id"].tolist() == [1, 2]
    text = hidden.read_bytes()
    assert not any(name in text for name in (b"ana", b"ben", b"md_1", b"jobs"))
    assert log["run_time"].tolist() == [3600, 60] and log.epoch < 1616835600


def test_convert_takes_the_filters_of_the_other_commands(tmp_path: Path) -> None:
    times = "2025-01-01T10:00:00|2025-01-01T10:00:09|2025-01-01T10:01:00"
    rows = [f"{n}|{times}|COMPLETED|{'gpu' if n % 2 else 'cpu'}|{n}" for n in range(1, 8)]
    (tmp_path / "a.txt").write_text("\n".join(["JobID|Submit|Start|End|State|Partition|ReqCPUS", *rows]) + "\n")
    out = tmp_path / "b.parquet"
    options = ("--partition", "gpu", "--procs", 5, "--drop-wide", "--requests-from", "0:10:00", "--json")
    account = json.loads(printed("log", "convert", tmp_path / "a.txt", out, *options))["account"]
    log, _ = read_log(out)
    assert (log["job_id"].tolist(), log.max_procs, log["requested_time"].tolist()) == ([1, 3, 5], 5, [600] * 3)
    assert {f["rule"]: f["count"] for f in account["findings"] if f["effect"] == "dropped"} == {
        "other-partition": 3, "too-wide": 1,
    }  # fmt: skip
    with pytest.raises(JobcastError, match="has no job in partition big; its partitions are gpu, cpu"):
        printed("log", "convert", tmp_path / "a.txt", tmp_path / "c.parquet", "--partition", "big")
    with pytest.raises(JobcastError, match="wider than the machine of 5 processors"):
        printed("log", "convert", tmp_path / "a.txt", tmp_path / "c.parquet", "--procs", 5)
    assert not (tmp_path / "c.parquet").exists()
