"""How fast does the prediction service answer and store? And it is killed a hundred times.

Run as `python tests/bench/bench_service.py [SECONDS]`, or with `kills [TIMES] [sqlite | postgresql | migration]`, or
`live [JOBS]` (what attacks cost: `tests.predictors.service.hostile`). All traffic is on this machine's loopback and
bounded: a server on a free port, an open loop of 500 predictions a second next to 100 requests a second with three
events each (the server learns from every job that ends), batches of 10,000 rows, and wrk for the most that it can do,
where wrk is installed. Times are wall seconds, seen by the client; next to them stands what the server itself counted,
and its CPU seconds. The database is made in the folder for temporary files: TMPDIR chooses the disk.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from predictors.service.client import Client
from predictors.service.event import Event
from tests.support.killing import free_port, kill_again_and_again, kill_in_migration, start
from tests.support.postgres import Postgres
from tests.support.traffic import asked, cpu_of, memory_of

MODEL = "online-linear"
PARTS = ("kills", "live")


def told(name: str, seconds: list[float], errors: int = 0) -> None:
    """Print the quantiles of latencies."""
    p50, p99, p999 = np.quantile(np.array(seconds) * 1000, (0.5, 0.99, 0.999))
    print(f"{name:42} {len(seconds):>7,} answers, {errors} failed: p50 {p50:.2f}, p99 {p99:.2f}, p99.9 {p999:.2f} ms")


async def open_loop(port: int, rate: float, seconds: float, request, lines: int = 16) -> tuple[list[float], int]:
    """Ask at a steady rate, whether or not answers come; latencies count from when each was due."""
    free: asyncio.Queue = asyncio.Queue()
    for _ in range(lines):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    found, failed, tasks = [], 0, []
    begin = time.perf_counter()

    async def one(number: int, due: float) -> None:
        nonlocal failed
        line = await free.get()
        status = await asked(line, *request(number))
        free.put_nowait(line)
        found.append(time.perf_counter() - due)
        failed += status != 200

    for number in range(int(rate * seconds)):
        due = begin + number / rate
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    return found, failed


def counted(port: int, route: str) -> dict[float, int]:
    """Return how many requests the server answered within how many milliseconds, as it counted itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    found = re.findall(rf'_seconds_bucket{{le="([^"]+)",route="{route}",status="2xx"}} (\S+)', text)
    return {1000 * float(within): int(float(n)) for within, n in found}


def told_by_server(name: str, before: dict[float, int], after: dict[float, int]) -> None:
    """Print bounds of the quantiles of what the server counted between two looks."""
    new = {within: n - before.get(within, 0) for within, n in after.items()}
    n = max(new.values())
    p50, p99, p999 = (min(w for w, m in new.items() if m >= share * n) for share in (0.5, 0.99, 0.999))
    print(
        f"{'  as the server saw it':42} {n:>7,} answers: p50 <= {p50:g}, p99 <= {p99:g}, p99.9 <= {p999:g} ms ({name})"
    )


def job(number: int) -> dict:
    """Return a job's description."""
    return {"user": number % 200, "procs": 1 + number % 64, "requested_time": 600 + number % 7200, "queue": number % 3}


def life(number: int) -> list[dict]:
    """Return the three events of a job."""
    about, begin = {"job_id": f"j{number}"}, 1_000_000_000 + 10 * number
    return [
        {**about, "kind": "submitted", "time": begin, **job(number)},
        {**about, "kind": "started", "time": begin + 5},
        {**about, "kind": "ended", "time": begin + 5 + number * 7 % 3000, "status": 1},
    ]


async def both(port: int, seconds: float) -> None:
    """Predictions and events at the same time."""
    predictions = open_loop(port, 500, seconds, lambda n: ("/v1/predictions/runtime", {"jobs": [job(n)]}))
    events = open_loop(port, 100, seconds, lambda n: ("/v1/events", {"events": life(10**6 + n)}))
    (answered, failed), (stored, lost) = await asyncio.gather(predictions, events)
    told("one row, 500/s, while it learns", answered, failed)
    told("three events durable, 100/s", stored, lost)


def bench_load(folder: Path, seconds: float) -> None:
    """Print latencies under load, and what wrk finds."""
    port = free_port()
    server = start(MODEL, f"sqlite:///{folder}/load.db", port)
    try:
        with Client(f"http://127.0.0.1:{port}", timeout=60) as client:
            for i in range(0, 20_000, 1000):
                client.send([event for n in range(i, i + 1000) for event in life(n)])
        routes = ("/v1/predictions/runtime", "/v1/events")
        before, cpu = [counted(port, route) for route in routes], cpu_of(server.pid)
        asyncio.run(both(port, seconds))
        cpu = cpu_of(server.pid) - cpu
        for route, then in zip(routes, before, strict=True):
            told_by_server(route, then, counted(port, route))
        print(f"{cpu / seconds:.2f} CPU seconds of the server a second")
        cpu = cpu_of(server.pid)
        batch = asyncio.run(
            open_loop(port, 1, 5, lambda n: ("/v1/predictions/runtime", {"jobs": [job(k) for k in range(10_000)]}), 1)
        )
        told("10,000 rows", *batch)
        print(f"{(cpu_of(server.pid) - cpu) / len(batch[0]):.3f} CPU seconds of the server for 10,000 rows")
        bench_wrk(folder, port)
        print(f"{memory_of(server.pid, 'VmHWM'):,.0f} MiB at most")
    finally:
        server.terminate()
        server.wait(30)


def bench_wrk(folder: Path, port: int, connections: tuple[int, ...] = (16, 1200)) -> None:
    """Print what wrk finds, if it is installed: as much as it can ask for five seconds over so many connections."""
    if shutil.which("wrk") is None:
        print("wrk is not installed: apt-get install wrk")
        return
    script = folder / "ask.lua"
    body = json.dumps({"jobs": [job(1)]})
    script.write_text(f"wrk.method = 'POST'\nwrk.body = '{body}'\nwrk.headers['Content-Type'] = 'application/json'\n")
    for lines in connections:
        url = f"http://127.0.0.1:{port}/v1/predictions/runtime"
        command = ["wrk", "-t1", f"-c{lines}", "-d5s", "--latency", "-s", str(script), url]
        page = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        shown = [
            line.strip()
            for line in page.splitlines()
            if any(w in line for w in ("50%", "99%", "Requests/sec", "Non-2xx"))
        ]
        print(f"wrk, {lines} lines: {'; '.join(shown)}")


def rows(first: int, last: int) -> list[Event]:
    """Return the events of jobs as they are kept."""
    found = []
    for n in range(first, last):
        begin = 1_000_000_000 + 10 * n
        found.append(Event(n, 0, begin, -1, 1 + n % 64, 600 + n % 7200, n % 200, -1, -1, n % 3))
        found.append(Event(n, 1, begin + 5))
        found.append(Event(n, 2, begin + 5 + n * 7 % 3000, 1))
    return found


def bench_kills(folder: Path, times: int, where: str) -> None:
    """Kill a server under load: on SQLite, on PostgreSQL, or while it brings a database up to date."""
    begin = time.perf_counter()
    if where == "migration":
        found = kill_in_migration(folder, times)
    elif where == "postgresql":
        postgres = Postgres()
        try:
            found = kill_again_and_again(folder, postgres.url("kills"), times)
        finally:
            postgres.remove()
    else:
        found = kill_again_and_again(folder, f"sqlite:///{folder}/kills.db", times)
    print(f"{times} kills in {time.perf_counter() - begin:.0f} s: {found}; none lost, none twice")


def kills_options(words: list[str]) -> argparse.Namespace:
    """Return how often to kill the service, and on which database."""
    options = argparse.ArgumentParser(prog="bench_service.py kills")
    options.add_argument("times", type=int, nargs="?", default=100)
    options.add_argument("where", nargs="?", default="sqlite", choices=("sqlite", "postgresql", "migration"))
    return options.parse_args(words)


def most_memory() -> float:
    """Return the most memory of this process since the last call [MiB]."""
    most = memory_of(os.getpid(), "VmHWM")
    Path("/proc/self/clear_refs").write_text("5")
    return most


def learner_of_one() -> Any:
    """Return a learner with one model, as a service has it."""
    from predictors.service.state.learner import Learner
    from predictors.service.state.model import Model, load

    learner = Learner(lambda _: None, print)
    learner.models = {"champion": Model(*load(MODEL))}
    return learner


def bench_live(folder: Path, n_jobs: int) -> None:
    """Print the memory that a service takes for so many live jobs, half of them running, for a snapshot and a restart.

    Job state, model and store as in the service; what is constant beside them (server, caches) is not there.
    """
    from predictors.service.state.jobs import JobState
    from predictors.service.state.recovery import snapshot_of
    from predictors.service.storage.store import Store

    job_state, learner = JobState(), learner_of_one()
    store = Store(f"sqlite:///{folder}/live.db")

    def fed(events: list[Event]) -> None:
        table = np.array([one._replace(sequence=1) for one in events], dtype=np.int64)
        learner.follow(job_state.take_table(table), 1)

    for n in range(0, 60_000, 2000):
        fed(rows(n, n + 2000))
    mine = memory_of(os.getpid())
    begin, cpu = 60_000, time.process_time()
    most_memory()
    for n in range(begin, begin + n_jobs, 1000):
        fed([event for event in rows(n, n + 1000) if event.kind == 0 or (event.kind == 1 and event.job % 2)])
    cpu, now = time.process_time() - cpu, memory_of(os.getpid())
    print(
        f"{job_state.live:,} jobs live: {now:,.0f} MiB, {now - mine:,.0f} of them by these jobs, "
        f"{2**20 * (now - mine) / n_jobs:,.0f} bytes each; {most_memory():,.0f} MiB at most; "
        f"{1e6 * cpu / (1.5 * n_jobs):.1f} us of CPU an event"
    )
    cpu = time.process_time()
    sequence, written = snapshot_of(*job_state.streamed_snapshot(), learner.models.values(), store)
    assert written is not None
    with written:
        store.keep_snapshot(sequence, written)
        size = written.tell() / 2**20
    cpu = time.process_time() - cpu
    print(f"snapshot: {size:,.0f} MiB in {cpu:.1f} s of CPU; {most_memory():,.0f} MiB at most")
    store.close()
    context = multiprocessing.get_context("spawn")
    again = context.Process(target=bench_restart, args=(store.engine.url.render_as_string(), sequence))
    again.start()
    again.join()


def bench_restart(url: str, sequence: int) -> None:
    """Print the memory that a service takes that begins from a snapshot."""
    from predictors.service.state.jobs import JobState
    from predictors.service.state.recovery import rebuild
    from predictors.service.storage.store import Store

    store, job_state, learner = Store(url), JobState(), learner_of_one()
    cpu = time.process_time()
    found = rebuild(store, job_state, learner, threading.Event())
    cpu, now = time.process_time() - cpu, memory_of(os.getpid())
    assert found.snapshot == sequence
    print(f"restart: {job_state.live:,} jobs live in {cpu:.1f} s of CPU; {now:,.0f} MiB, {most_memory():,.0f} at most")
    store.close()


def main() -> None:
    """Print all figures."""
    words = sys.argv[1:]
    if words and words[0] not in PARTS and not words[0].replace(".", "", 1).isdigit():
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="jobcast-bench-"))
    try:
        if words[:1] == ["kills"]:
            bench_kills(folder, **vars(kills_options(words[1:])))
            return
        if "live" in words:
            bench_live(folder, int((words[words.index("live") + 1 :] or ["1000000"])[0]))
            return
        bench_load(folder, float(words[0]) if words else 20.0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
