"""A soak of the service: a log at many times its speed for an hour, with steady questions; memory and latency by time.

A server of its own is first given the jobs before the part that is replayed, so that every bounded cache is full. Then
each event of the log is sent at its own time, sped up, and questions come at a steady rate (open loop: latencies count
from when each was due). A line a sample goes to a CSV file: memory and CPU of the server, jobs live, latencies, and the
machine's load, by which a slow moment of the machine can be told from one of the service.
"""

import asyncio
import csv
import os
import time
from pathlib import Path

import numpy as np

from predictors.core.events import SUBMITTED
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.evaluation.evaluate import jobs_that_count
from predictors.history.replay import log_events
from predictors.service.client import Client
from predictors.service.replay_check import _Jobs
from tests.support.killing import free_port, start
from tests.support.traffic import asked, cpu_of, memory_of

TICK = 0.1
"""Seconds of the clock on the wall whose events share a request."""
SAMPLE = 10.0
COLUMNS = (
    "seconds", "rss_mib", "server_cpu_seconds", "live_jobs", "sequence", "questions", "question_p50_ms",
    "question_p99_ms", "question_max_ms", "event_requests", "event_p50_ms", "event_p99_ms", "failed", "load",
)  # fmt: skip


class Soak:
    """One soak: what is sent, and what has been measured so far."""

    def __init__(self, port: int, pid: int, out: Path) -> None:
        self._port, self._pid, self._out = port, pid, out
        self.questions: list[tuple[float, float]] = []
        self.events: list[tuple[float, float]] = []
        self.rows: list[dict] = []
        self.failed = 0
        self._begin = 0.0

    async def run(self, log: JobLog, events: np.ndarray, seconds: float, speed: float, rate: float) -> None:
        """Send events of a log, at so many times its speed, and ask so often a second."""
        jobs, self._begin = _Jobs(log, log.epoch or 0), time.perf_counter()
        await asyncio.gather(
            self._send(jobs, events, seconds, speed), self._ask(jobs, events, seconds, rate), self._watch(seconds)
        )

    async def _send(self, jobs: _Jobs, events: np.ndarray, seconds: float, speed: float) -> None:
        line = await asyncio.open_connection("127.0.0.1", self._port)
        ticks = ((events[:, 0] - events[0, 0]) / speed / TICK).astype(np.int64)
        cuts = np.flatnonzero(np.diff(ticks)) + 1
        for part in np.split(np.arange(len(events)), cuts):
            due = TICK * float(ticks[part[0]] + 1)
            if due > seconds:
                return
            await self._one(line, due, "/v1/events", {"events": [jobs.event(*events[i].tolist()) for i in part]},
                            self.events)  # fmt: skip

    async def _ask(self, jobs: _Jobs, events: np.ndarray, seconds: float, rate: float) -> None:
        line = await asyncio.open_connection("127.0.0.1", self._port)
        rows = events[events[:, 1] == SUBMITTED, 2].tolist()
        for number in range(int(rate * seconds)):
            document = {"jobs": [jobs.described(rows[number % len(rows)])]}
            await self._one(line, number / rate, "/v1/predictions/runtime", document, self.questions)

    async def _one(self, line, due: float, path: str, document: object, found: list[tuple[float, float]]) -> None:
        if (wait := self._begin + due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        self.failed += await asked(line, path, document) != 200
        found.append((due, time.perf_counter() - self._begin - due))

    async def _watch(self, seconds: float) -> None:
        with self._out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            seen = [0, 0]
            for number in range(1, int(seconds / SAMPLE) + 1):
                await asyncio.sleep(max(self._begin + number * SAMPLE - time.perf_counter(), 0.0))
                new = [found[n:] for found, n in zip((self.questions, self.events), seen, strict=True)]
                seen = [len(self.questions), len(self.events)]
                page = await asyncio.to_thread(_page, self._port)
                self.rows.append(
                    {"seconds": round(time.perf_counter() - self._begin, 1), "rss_mib": round(memory_of(self._pid), 1),
                     "server_cpu_seconds": round(cpu_of(self._pid), 2), **page, **_shares(*new), "failed": self.failed,
                     "load": os.getloadavg()[0]}
                )  # fmt: skip
                writer.writerow(self.rows[-1])
                file.flush()

    def report(self) -> str:
        """Return memory and latencies by time."""
        last = self.rows[-1]["seconds"]
        lines = [f"{len(self.events):,} requests of events, {len(self.questions):,} questions, {self.failed} failed"]
        for minute in sorted({5, 30, 60, int(last / 60)}):
            if 60 * minute <= last + SAMPLE:
                row = min(self.rows, key=lambda one: abs(one["seconds"] - 60 * minute))
                lines.append(
                    f"minute {minute}: {row['rss_mib']:.1f} MiB, {row['live_jobs']} jobs live, load {row['load']:.1f}"
                )
        for begin in np.arange(0, last, 600):
            told = []
            for what, found in (("questions", self.questions), ("events", self.events)):
                ms = [1000 * took for due, took in found if begin <= due < begin + 600]
                if ms:
                    p50, p99 = np.quantile(ms, (0.5, 0.99))
                    told.append(f"{what} p50 {p50:.2f}, p99 {p99:.2f} ms")
            lines.append(f"minutes {begin / 60:.0f} to {begin / 60 + 10:.0f}: {'; '.join(told)}")
        return "\n".join(lines)


def _page(port: int) -> dict[str, int]:
    with Client(f"http://127.0.0.1:{port}", timeout=30) as client:
        found = client.ask("POST", "/v1/jobs/forget", {"older_than": 10**9, "dry_run": True})
        return {"live_jobs": found["live"], "sequence": client.models()["sequence"]}


def _shares(questions: list[tuple[float, float]], events: list[tuple[float, float]]) -> dict[str, float]:
    found: dict[str, float] = {"questions": len(questions), "event_requests": len(events)}
    for name, those in (("question", questions), ("event", events)):
        ms = np.array([1000 * took for _, took in those])
        if len(ms):
            found[f"{name}_p50_ms"], found[f"{name}_p99_ms"] = np.quantile(ms, (0.5, 0.99)).round(3).tolist()
            if name == "question":
                found["question_max_ms"] = round(float(ms.max()), 3)
    return found


def soak(folder: Path, log: Path, minutes: float, speed: float, rate: float, before: int, model: str, out: Path) -> str:
    """Soak a service with the busiest part of a log; return what was measured."""
    jobs, _ = read_log(log)
    jobs, _ = jobs_that_count(jobs)
    events, span = log_events(jobs), int(60 * minutes * speed)
    submissions = np.flatnonzero(events[:, 1] == SUBMITTED)
    times = events[submissions, 0]
    in_span = np.searchsorted(times, times + span) - np.arange(len(times))
    in_span[times + span > times[-1]] = 0
    first = int(in_span.argmax())
    begin, filled = submissions[first], submissions[max(first - before, 0)]
    began = set(events[filled:][events[filled:, 1] == SUBMITTED, 2].tolist())
    known = np.array([row in began for row in events[:, 2].tolist()])
    port = free_port()
    server = start(model, f"sqlite:///{folder}/soak.db", port, *(() if jobs.epoch else ("--clock", "log")))
    try:
        _fill(port, _Jobs(jobs, jobs.epoch or 0), events[filled:begin][known[filled:begin]])
        part = events[begin:][known[begin:]]
        part = part[: np.searchsorted(part[:, 0], part[0, 0] + span)]
        print(f"{len(part):,} events of {jobs.name} at {speed:g} times its speed, {rate:g} questions/s", flush=True)
        one = Soak(port, server.pid, out)
        asyncio.run(one.run(jobs, part, 60 * minutes, speed, rate))
        return one.report()
    finally:
        server.terminate()
        server.wait(60)


def _fill(port: int, jobs: _Jobs, events: np.ndarray) -> None:
    with Client(f"http://127.0.0.1:{port}", timeout=300, retries=100) as client:
        for i in range(0, len(events), 1000):
            client.send([jobs.event(*one) for one in events[i : i + 1000].tolist()])
