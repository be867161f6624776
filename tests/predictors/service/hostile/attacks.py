"""Attacks on the connections of a service: plain sockets, the standard library alone.

Each attack says in `AssertionError` what the service answered and should not have. `measured` runs one while a
well-behaved client, a process of its own, asks `/healthz`; where the service's process is known, its memory is watched.
"""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

MIB = 2**20
WAITING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORTEST = b"GET / HTTP/1.1\r\n\r\n"


class Target(NamedTuple):
    """A service: its address, a token if it wants one, its process if that runs on this machine."""

    url: str
    token: str | None = None
    pid: int | None = None
    certificates: str | None = None

    @property
    def host(self) -> str:
        """The value of a good Host header."""
        return urlsplit(self.url).netloc

    def connect(self, timeout: float = 20.0) -> socket.socket:
        """Open a connection."""
        parts = urlsplit(self.url)
        opened = socket.create_connection((parts.hostname, parts.port or 8571), timeout=timeout)
        if parts.scheme != "https":
            return opened
        return ssl.create_default_context(cafile=self.certificates).wrap_socket(opened, server_hostname=parts.hostname)

    def head(self, line: str, *headers: str, good: bool = True) -> bytes:
        """Return the head of a request; a good one has the Host, and the token where there is one."""
        ours = (f"Host: {self.host}", *(() if self.token is None else (f"Authorization: Bearer {self.token}",)))
        return "\r\n".join((line, *(ours if good else ()), *headers, "", "")).encode()


class Outcome(NamedTuple):
    """What an attack cost: seconds, memory before it and at most [MiB], CPU [s], the good client's waits [s]."""

    name: str
    seconds: float
    before: float
    most: float
    cpu: float
    waits: list[float]

    def p99(self) -> float:
        """Return the wait of the well-behaved client that one in a hundred exceeds [ms]."""
        return 1000 * sorted(self.waits)[int(0.99 * (len(self.waits) - 1))]

    def line(self) -> str:
        """Return a row of a table."""
        return (
            f"{self.name:36} {self.seconds:6.1f} s  {self.before:7.0f} -> {self.most:6.0f} MiB  CPU {self.cpu:5.2f} s"
            f"  p99 {self.p99():7.1f} ms of {len(self.waits):,}"
        )


# --- attacks ---------------------------------------------------------------------------------------------------------


def pipelined_on_one_connection(target: Target) -> None:
    """Send 12 MiB of the shortest request, and read no answer."""
    _unread(target, SHORTEST, 1, 12 * MIB)


def pipelined_with_hosts(target: Target) -> None:
    """Send 12 MiB of requests that are answered, and read no answer."""
    _unread(target, WAITING, 1, 12 * MIB)


def pipelined_on_forty_connections(target: Target) -> None:
    """Send 256 KiB of requests on each of 40 connections, and read no answer."""
    for request in (SHORTEST, WAITING):
        _unread(target, request, 40, MIB // 4)


def trailers(target: Target) -> None:
    """Send a good header and a bad trailer of the same name, and the other way round: the header alone counts."""
    path, one = "POST /v1/jobs/forget HTTP/1.1", "Transfer-Encoding: chunked"
    kind, chunks = "Content-Type: application/json", b"2\r\n{}\r\n0\r\n"
    if target.token is not None:
        good, bad = f"Authorization: Bearer {target.token}", "Authorization: Bearer no-token"
    else:
        good, bad = f"Host: {target.host}", "Host: evil.example"
    host = () if target.token is None else (f"Host: {target.host}",)
    for header, trailer, allowed in ((good, bad, True), (bad, good, False)):
        request = target.head(path, *host, header, one, kind, good=False) + chunks + trailer.encode() + b"\r\n\r\n"
        found = _status(target, request)
        assert found and (found not in (401, 403)) is allowed, f"{header} with the trailer {trailer}: {found}"


def trailers_without_end(target: Target) -> None:
    """Send trailers until the service hangs up."""
    begin = target.head("POST /v1/events HTTP/1.1", "Transfer-Encoding: chunked", "Content-Type: application/json")
    for piece in (b"A: " + b"x" * 1000 + b"\r\n", b"x" * 1000):
        _refused_before(target, begin + b"2\r\n{}\r\n0\r\nB: ", piece, 64 * MIB)


def slow_heads_and_bodies(target: Target) -> None:
    """Send a byte each .2 s on 40 connections, of a head or of a body: all are closed after ten seconds."""
    body = target.head("POST /v1/events HTTP/1.1", "Content-Length: 1000", "Content-Type: application/json")
    with _connections(target, 40) as lines:
        for i, line in enumerate(lines):
            line.sendall(body if i % 2 else b"GET / HTTP/1.1\r\nX: ")
        begin = time.monotonic()
        while lines and time.monotonic() < begin + 20:
            for line in list(lines):
                try:
                    line.sendall(b"x")
                    line.settimeout(0)
                    with suppress(BlockingIOError, ssl.SSLWantReadError):
                        if line.recv(4096) == b"":
                            lines.remove(line)
                    line.settimeout(20)
                except OSError:
                    lines.remove(line)
            time.sleep(0.2)
        assert not lines, f"{len(lines)} of 40 slow connections are still open after 20 s"


def chunks_of_one_byte(target: Target) -> None:
    """Send 9 MiB in chunks of one byte, and the same on 40 connections: they are refused."""
    begin = target.head("POST /v1/events HTTP/1.1", "Transfer-Encoding: chunked", "Content-Type: application/json")
    _refused_before(target, begin, b"1\r\nx\r\n" * 10_000, 9 * MIB)
    _unread(target, begin, 40, MIB // 4, b"1\r\nx\r\n")


def odd_requests(target: Target) -> None:
    """Send no Host and two, HTTP/2.0, 1.9 and 0.9: 400."""
    good, host = "GET /healthz HTTP/1.1", f"Host: {target.host}"
    for request, due in (
        (target.head(good, good=False), 400),
        (target.head(good, host, host, good=False), 400),
        (target.head(good, host, "Host: evil.example", good=False), 400),
        (target.head("GET /healthz HTTP/2.0", host, good=False), 400),
        (target.head("GET /healthz HTTP/1.9", host, good=False), 400),
        (target.head("GET /healthz HTTP/0.9", host, good=False), 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (target.head(good, host, "Content-Length: 2", "Content-Length: 3", good=False), 400),
        (target.head(good, host, "Content-Length: 2", "Transfer-Encoding: chunked", good=False), 400),
        (target.head(good, host, good=False), 200),
        (target.head("GET /healthz HTTP/1.0", good=False), 200),
    ):
        found = _status(target, request)
        assert found == due, f"{request[:80]!r}: {found} where {due} is due"


def huge_heads(target: Target) -> None:
    """Send heads of 70 KB and 200 KB, 200 headers (431 each), and heads without end: closed."""
    for headers in (("X: " + "x" * 70_000,), ("X: " + "x" * 200_000,), ("X: 1",) * 200):
        found = _status(target, target.head("GET /healthz HTTP/1.1", *headers))
        assert found == 431, f"a head of {sum(map(len, headers)):,} bytes: {found} where 431 is due"
    for address in ("/healthz?" + "x" * 70_000, "/" + "%41" * 23_000):
        found = _status(target, target.head(f"GET {address} HTTP/1.1"))
        assert found == 431, f"an address of {len(address):,} bytes: {found} where 431 is due"
    for piece in (b"A: 1\r\n", b"A: " + b"x" * 1000 + b"\r\n", b"x" * 1000):
        _refused_before(target, b"GET / HTTP/1.1\r\nB: ", piece * (MIB // len(piece)), 64 * MIB)
    _refused_before(target, b"GET /", b"x" * MIB, 64 * MIB)
    _refused_before(target, b"", b"\r\n" * (MIB // 2), 64 * MIB)


def tiny_headers_on_forty_connections(target: Target) -> None:
    """Send 256 KiB of the shortest headers on each of 40 connections."""
    _unread(target, b"GET / HTTP/1.1\r\n" + b"A:\r\n" * (MIB // 16 - 8), 40, MIB // 4)


def compressed_bodies(target: Target) -> None:
    """Send bodies that would be 64 MiB and more once unpacked: they are refused as they are."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packing.compress(b" " * (64 * MIB)) + packing.flush()
    kind, how, size = "Content-Type: application/json", "Content-Encoding: gzip", f"Content-Length: {len(packed)}"
    found = _status(target, target.head("POST /v1/events HTTP/1.1", kind, how, size) + packed)
    assert found in (400, 413, 415), f"a compressed body: {found}"


def forty_connections_at_once(target: Target) -> None:
    """Ask on 40 connections at once, a hundred times each: every answer is 200."""
    with _connections(target, 40) as lines:
        request = target.head("GET /healthz HTTP/1.1")
        for _ in range(100):
            for line in lines:
                line.sendall(request)
            for line in lines:
                found = http.client.HTTPResponse(line)
                found.begin()
                found.read()
                assert found.status == 200, f"one of 40 connections: {found.status}"


def connections_that_say_nothing(target: Target) -> None:
    """Open 2,000 connections one after the other, and say nothing on any."""
    opened: list[socket.socket] = []
    try:
        for _ in range(2000):
            with suppress(OSError):  # refused, or this process has no more descriptors
                opened.append(target.connect())
    finally:
        for line in opened:
            line.close()


ATTACKS: dict[str, Callable[[Target], None]] = {
    one.__name__.replace("_", " "): one
    for one in (
        pipelined_on_one_connection, pipelined_with_hosts, pipelined_on_forty_connections, trailers,
        trailers_without_end, chunks_of_one_byte, odd_requests, huge_heads, tiny_headers_on_forty_connections,
        compressed_bodies, forty_connections_at_once, connections_that_say_nothing, slow_heads_and_bodies,
    )
}  # fmt: skip
SLOW = ("slow heads and bodies",)
"""Attacks that take ten seconds and more."""


@contextmanager
def _connections(target: Target, n: int) -> Iterator[list[socket.socket]]:
    lines: list[socket.socket] = []
    try:
        for _ in range(n):
            lines.append(target.connect())
        yield list(lines)
    finally:
        for line in lines:
            line.close()


def _unread(target: Target, begin: bytes, n: int, size: int, piece: bytes | None = None) -> None:
    """Send so much on each of n connections, or until the service hangs up or takes no more; stay for half a second."""
    piece = begin if piece is None else piece
    data = begin + piece * (size // len(piece))
    with _connections(target, n) as lines:
        for line in lines:
            line.settimeout(3.0 if n == 1 else 0.1)
            with suppress(OSError):
                line.sendall(data)
        time.sleep(0.5)


def _refused_before(target: Target, begin: bytes, piece: bytes, most: int) -> None:
    """Send pieces until the service hangs up; it must do so before it has taken so many bytes."""
    with _connections(target, 1) as (line,):
        line.sendall(begin)
        sent = 0
        try:
            while sent < most:
                line.sendall(piece)
                sent += len(piece)
        except TimeoutError:
            raise AssertionError(f"{begin[:40]!r}: neither read nor hung up on") from None
        except OSError:
            return
    raise AssertionError(f"{begin[:40]!r} and {most // MIB} MiB of {piece[:20]!r}: still not refused")


def _status(target: Target, request: bytes) -> int:
    """Return the status of the answer to a request; 0 if the service hung up without one."""
    with _connections(target, 1) as (line,):
        found = b""
        with suppress(OSError):
            line.sendall(request)
        with suppress(OSError):
            while b"\r\n\r\n" not in found and (piece := line.recv(4096)):
                found += piece
    return int(found.split(b" ", 2)[1]) if found.startswith(b"HTTP/") else 0


# --- measurement -----------------------------------------------------------------------------------------------------


def measured(name: str, target: Target, seconds: float = 1.0) -> Outcome:
    """Run an attack, or none ("quiet"), and for so long at least ask as a good client does; return what it cost.

    Raises
    ------
    AssertionError
        If the service answered what it should not, or the good client was not answered.
    """
    before, cpu, most = _memory(target.pid), _cpu(target.pid), [0.0]
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(target.pid, most, over))
    command = [sys.executable, __file__, json.dumps(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as good:
        try:
            assert good.stdin is not None and good.stdout is not None
            assert good.stdout.readline(), "the well-behaved client was not answered before the attack"
            watch.start()
            begin = time.monotonic()
            if name != "quiet":
                ATTACKS[name](target)
            taken = time.monotonic() - begin
            time.sleep(max(0.0, seconds - taken))
        finally:
            over.set()
            waits = good.communicate(b"\n", timeout=120)[0]
    watch.join()
    assert good.returncode == 0, "the well-behaved client was not answered during the attack"
    return Outcome(name, taken, before, max(before, *most), _cpu(target.pid) - cpu, json.loads(waits))


def _watch(pid: int | None, most: list[float], over: threading.Event) -> None:
    while not over.wait(0.02):
        most[0] = max(most[0], _memory(pid))


def _memory(pid: int | None) -> float:
    if pid is None:
        return 0.0
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def _cpu(pid: int | None) -> float:
    if pid is None:
        return 0.0
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / 100


def ask_until_told(target: Target) -> list[float]:
    """Ask once every two milliseconds over one connection until a line comes; return the waits [s]."""
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    line, waits, request = target.connect(), [], target.head("GET /healthz HTTP/1.1")
    while not told.is_set() or len(waits) < 2:
        begin = time.monotonic()
        line.sendall(request)
        answer = http.client.HTTPResponse(line)
        answer.begin()
        answer.read()
        assert answer.status == 200, answer.status
        waits.append(time.monotonic() - begin)
        if len(waits) == 1:
            print(flush=True)
        time.sleep(0.002)
    return waits


if __name__ == "__main__":
    print(json.dumps(ask_until_told(Target(*json.loads(sys.argv[1])))))
