"""Fetching logs, against a server on this machine that misbehaves in every way needed."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobcast import JobcastError, read_log
from predictors.data.formats.archive import ARCHIVE, fetch_log, full_name, log_folder, log_url

NAME = "KTH-SP2-1996-2.1-cln"
ROWS = "".join(f"{job} {job * 60} 5 60 4 -1 -1 4 90 -1 1 {job % 7} 2 8 1 1 -1 -1\n" for job in range(1, 2000))


def packed(rows: str = ROWS) -> bytes:
    return gzip.compress(rows.encode(), compresslevel=0, mtime=0)


class Server(ThreadingHTTPServer):
    """Gives one log; tests set what it does and read what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = packed()
        self.tag = '"one"'
        self.modified = ""
        self.cut: int | None = None
        self.status = 200
        self.ranges = True
        self.length = True
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        """Where the archive would begin."""
        return f"http://127.0.0.1:{self.server_port}/workload"


class Handler(BaseHTTPRequestHandler):
    """Answers as the server is set."""

    server: Server

    def do_GET(self) -> None:
        """Give the log, or the part asked for."""
        server, asked = self.server, self.headers.get("Range")
        server.asked.append(asked)
        if server.status != 200 or self.path != f"/workload/l_kth_sp2/{NAME}.swf.gz":
            self.send_error(server.status if server.status != 200 else 404)
            return
        start = 0
        if asked and server.ranges and self.headers.get("If-Range") in (server.tag, server.modified):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (("ETag", server.tag), ("Last-Modified", server.modified)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if server.cut is None else body[: server.cut])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_first_and_second_time(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    got = fetch_log("kth", server.url, tmp_path, lambda here, whole: seen.append((here, whole)))
    assert got.path.read_bytes() == server.content
    assert got.sha256 == hashlib.sha256(server.content).hexdigest()
    assert files(tmp_path) == [f"{NAME}.swf.gz", f"{NAME}.swf.gz.sha256"]
    assert seen[-1] == (len(server.content), len(server.content))
    assert len(read_log(got.path)[0]) == 1999
    assert fetch_log(NAME, server.url, tmp_path) == got
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("tag", "modified"), [('"one"', ""), ("", "Wed, 21 Oct 2015 07:28:00 GMT"), ('W/"x"', "Wed, 2")]
)
def test_a_cut_download_goes_on(server: Server, tmp_path: Path, tag: str, modified: str) -> None:
    server.tag, server.modified, server.cut = tag, modified, 70_000
    with pytest.raises(JobcastError, match=r"cut short after 70,000 of .* bytes; fetch again to continue"):
        fetch_log(NAME, server.url, tmp_path)
    assert not (tmp_path / f"{NAME}.swf.gz").exists()
    server.cut = None
    seen: list[int] = []
    got = fetch_log(NAME, server.url, tmp_path, lambda here, _: seen.append(here))
    assert server.asked == [None, "bytes=70000-"]
    assert got.path.read_bytes() == server.content
    assert seen[0] > 70_000
    assert files(tmp_path) == [f"{NAME}.swf.gz", f"{NAME}.swf.gz.sha256"]


@pytest.mark.parametrize("why", ["changed", "no ranges", "no tag"])
def test_a_cut_download_starts_anew_where_it_must(server: Server, tmp_path: Path, why: str) -> None:
    server.cut = 70_000
    if why == "no tag":
        server.tag = ""
    with pytest.raises(JobcastError, match="cut short"):
        fetch_log(NAME, server.url, tmp_path)
    server.cut = None
    server.ranges = why != "no ranges"
    if why == "changed":
        server.content, server.tag = packed(ROWS * 2), '"two"'
    assert fetch_log(NAME, server.url, tmp_path).path.read_bytes() == server.content


def test_a_whole_part_left_behind(server: Server, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.swf.gz.part").write_bytes(server.content)
    (tmp_path / f"{NAME}.swf.gz.part.tag").write_text(server.tag)
    assert fetch_log(NAME, server.url, tmp_path).path.read_bytes() == server.content
    assert server.asked == [f"bytes={len(server.content)}-", None]


def test_a_cut_that_the_length_does_not_tell_is_seen_by_gzip(server: Server, tmp_path: Path) -> None:
    server.length, server.cut = False, 70_000
    with pytest.raises(JobcastError, match=r"the download is no job log .*cut short"):
        fetch_log(NAME, server.url, tmp_path)
    assert files(tmp_path) == []


def test_a_damaged_copy_is_fetched_again(server: Server, tmp_path: Path) -> None:
    path = fetch_log(NAME, server.url, tmp_path).path
    path.write_bytes(server.content[:-1])
    assert fetch_log(NAME, server.url, tmp_path).path.read_bytes() == server.content
    assert len(server.asked) == 2


def test_another_file_than_first_fetched_is_refused(server: Server, tmp_path: Path) -> None:
    path = fetch_log(NAME, server.url, tmp_path).path
    path.unlink()
    server.content = packed(ROWS * 2)
    with pytest.raises(JobcastError, match=r"differs from the first download .*delete .*\.sha256"):
        fetch_log(NAME, server.url, tmp_path)
    assert files(tmp_path) == [f"{NAME}.swf.gz.sha256"]
    (tmp_path / f"{NAME}.swf.gz.sha256").unlink()
    assert fetch_log(NAME, server.url, tmp_path).path.read_bytes() == server.content


def test_a_page_in_place_of_the_log(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>Please log in</html>"
    with pytest.raises(JobcastError, match=r"the download is no job log .*<html>Please log in"):
        fetch_log(NAME, server.url, tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize(("status", "says"), [(404, "does not have it"), (503, r"refused \(HTTP 503\)")])
def test_the_server_says_no(server: Server, tmp_path: Path, status: int, says: str) -> None:
    server.status = status
    with pytest.raises(JobcastError, match=says):
        fetch_log(NAME, server.url, tmp_path)
    assert files(tmp_path) == []


def test_nobody_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(JobcastError, match=r"cannot be reached \(.*--base-url"):
        fetch_log(NAME, "http://127.0.0.1:9", tmp_path)
    for address in ("ftp://a", "here", "http://", "http://a b/", "http://[::1", "http://x:port"):
        with pytest.raises(JobcastError):
            fetch_log(NAME, address, tmp_path)


def test_the_folder_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobcastError, match=r"cannot be written .*JOBCAST_HOME"):
        fetch_log(NAME, server.url, tmp_path / "file" / "logs")


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    assert log_folder() == tmp_path / "logs"
    monkeypatch.delenv("JOBCAST_HOME")
    assert log_folder().parts[-2:] == ("jobcast", "logs")


def test_names() -> None:
    for name in ARCHIVE:
        assert full_name(name) == full_name(f"{name.upper()}.swf.gz") == name
        assert log_url(name) == f"https://www.cs.huji.ac.il/labs/parallel/workload/{ARCHIVE[name]}/{name}.swf.gz"
    with pytest.raises(JobcastError, match=r"More than one .*'ctc': CTC-SP2-1995-2, CTC-SP2-1996-3.1-cln"):
        full_name("ctc")
    with pytest.raises(JobcastError, match=r"did you mean 'KTH-SP2-1996-2.1-cln'"):
        full_name("KTH-SP3-1996-2.1-cln")
    with pytest.raises(JobcastError, match="No log 'kht' in the archive; did you mean 'K"):
        full_name("kht")
    with pytest.raises(JobcastError, match=r"No log '' in the archive\. `jobcast log fetch` lists all"):
        full_name("")
