"""Traffic for a server under measurement, and what its process takes."""

import asyncio
import json
import os
from pathlib import Path

HEAD = "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {n}\r\n\r\n"


async def asked(line: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, document: object) -> int:
    """Send one request over a connection that stays; return the answer's status."""
    reader, writer = line
    body = json.dumps(document).encode()
    writer.write(HEAD.format(path=path, n=len(body)).encode() + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int, what: str = "VmRSS") -> float:
    """Return the resident memory of a process [MiB]; `VmHWM` is the most that it has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{what}:")[2].split()[0]) / 1024
