"""A real server is killed at random points under load, again and again: what was acknowledged must be there, once."""

import contextlib
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from predictors.service.client import Client, ServiceError
from predictors.service.event import Event
from predictors.service.settings import Settings
from predictors.service.state.service import Service
from tests.support.older_database import older


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(model: str, url: str, port: int, *words: str, log: Any = None) -> subprocess.Popen:
    """Start `jobcast serve`, and wait until it is ready; `log` is a file for its log."""
    command = [sys.executable, "-X", "faulthandler", "-m", "experiments.cli", "serve", model, "--db", url]
    command += ["--port", str(port), "--poll", "0", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment)
    begin = time.monotonic()
    while time.monotonic() - begin < 120:
        if server.poll() is not None:
            raise AssertionError(f"the server ended with {server.returncode}")
        try:
            with Client(f"http://127.0.0.1:{port}", timeout=2, retries=0) as client:
                if client.ask("GET", "/readyz")["ready"]:
                    return server
        except ServiceError:
            time.sleep(0.05)
    server.send_signal(signal.SIGABRT)  # tells where every thread stands
    server.wait(30)
    raise AssertionError("the server did not become ready")


class Load:
    """Clients that send the events of jobs of their own, in order, each until it is acknowledged."""

    def __init__(self, port: int, clients: int, seed: int) -> None:
        self.acknowledged: dict[tuple[str, str], int] = {}
        self.sent: dict[tuple[str, str], dict] = {}
        self.doubled: list[tuple[str, str]] = []
        self._port, self._stop = port, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(k, seed + k), daemon=True) for k in range(clients)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every client finish its event, and end."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, number: int, seed: int) -> None:
        chance, job = random.Random(seed), 0
        client = Client(f"http://127.0.0.1:{self._port}", timeout=5, retries=0)
        while not self._stop.is_set():
            batch = []
            for _ in range(chance.choice((1, 1, 1, 20))):
                job += 1
                about = {"job_id": f"{number}-{job}", "time": 1000 * job}
                batch.append(
                    {**about, "kind": "submitted", "user": chance.randrange(9), "requested_time": 600, "procs": 2}
                )
                batch.append({**about, "kind": "started", "time": 1000 * job + 5})
                batch.append({**about, "kind": "ended", "time": 1000 * job + 5 + chance.randrange(1, 600), "status": 1})
            self._until_acknowledged(client, batch)
        client.close()

    def _until_acknowledged(self, client: Client, batch: list[dict]) -> None:
        for event in batch:
            self.sent[event["job_id"], event["kind"]] = event
        while True:
            try:
                receipts = client.send(batch)
            except ServiceError:
                client.close()
                if self._stop.is_set():
                    return
                time.sleep(0.01)
                continue
            for event, receipt in zip(batch, receipts, strict=True):
                self.acknowledged[event["job_id"], event["kind"]] = receipt["sequence"]
            return


def kill_again_and_again(folder: Path, url: str, times: int, model: str = "online-linear", seed: int = 1) -> dict:
    """Kill a server under load so many times; then hold what is stored against what was acknowledged.

    Returns
    -------
    dict
        Counts, for a report.
    """
    port, chance = free_port(), random.Random(seed)
    server = start(model, url, port)
    load = Load(port, clients=3, seed=seed)
    try:
        for _ in range(times):
            time.sleep(chance.uniform(0.05, 0.8))
            server.send_signal(signal.SIGKILL)
            server.wait(30)
            server = start(model, url, port)
        time.sleep(0.3)
    finally:
        load.stop()
        server.send_signal(signal.SIGKILL)
        server.wait(30)
    return checked(folder, url, load, model)


def checked(folder: Path, url: str, load: Load, model: str) -> dict:
    """Raise unless every acknowledged event is stored once, and the rebuilt state is that of the events in order."""
    service = Service(Settings(model=model, db=url, poll=0))
    service.start()
    service.wait(120)
    try:
        events = [Event(*row) for table in service.store.events_after(0) for row in table.tolist()]
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert len({(event.job, event.kind) for event in events}) == len(events), "an event was stored twice"
        by_sequence = {event.sequence: event for event in events}
        import msgspec

        from predictors.service.api.schema import EventIn
        from predictors.service.pseudonyms import Pseudonymiser

        for key, sequence in load.acknowledged.items():
            expected = msgspec.convert(load.sent[key], EventIn).event(Pseudonymiser())
            assert by_sequence[sequence].described_as(expected), f"acknowledged event {sequence} was lost or changed"
        whole = Service(Settings(model=model, db=f"sqlite:///{folder}/whole.db", poll=0))
        whole.start()
        whole.wait(600)
        for i in range(0, len(events), 500):
            whole.writer.put([one._replace(sequence=-1) for one in events[i : i + 500]]).result(30)
        told = threading.Event()
        whole.learner.when(len(events), told.set)
        assert told.wait(60)
        for one, other in ((service.job_state.snapshot()[1], whole.job_state.snapshot()[1]),
                           (service.learner.champion.state(), whole.learner.champion.state())):  # fmt: skip
            for name, array in one.items():
                assert np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f"), name
        whole.stop()
        return {"events": len(events), "acknowledged": len(load.acknowledged)}
    finally:
        service.stop()


START = """
import sys
from predictors.service.settings import Settings
from predictors.service.state.service import Service
print("begins", flush=True)
service = Service(Settings(model="last-two", db=sys.argv[1], poll=0))
service.start()
service.wait(120)
service.stop()
"""


def kill_in_migration(folder: Path, times: int, n_jobs: int = 20_000, seed: int = 1) -> dict:
    """Kill starts on databases of version 0001 while these are brought up to date; then hold them against one unkilled.

    Returns
    -------
    dict
        How many were killed before and after the migration was committed, and how many events each database holds.
    """
    first, whole, chance = folder / "first.db", folder / "whole.db", random.Random(seed)
    older(first, [event for n in range(n_jobs) for event in life(n)])
    shutil.copy(first, whole)
    command, begin = [sys.executable, "-c", START], 0.0
    with subprocess.Popen([*command, f"sqlite:///{whole}"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        begin = time.monotonic()
        assert child.wait(240) == 0
    seconds, expected = time.monotonic() - begin, events_in(whole)
    found = {"before": 0, "after": 0, "events": len(expected)}
    while found["before"] + found["after"] < times:
        for left in folder.glob("killed.db*"):
            left.unlink()
        path = folder / "killed.db"
        shutil.copy(first, path)
        with subprocess.Popen([*command, f"sqlite:///{path}"], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline()
            time.sleep(chance.uniform(0, seconds))
            child.send_signal(signal.SIGKILL)
            killed = child.wait(30) == -signal.SIGKILL
        if not killed:  # it had ended
            continue
        with contextlib.closing(sqlite3.connect(path)) as raw:
            version = raw.execute("select version_num from alembic_version").fetchone()[0]
            assert raw.execute("select count(*) from events").fetchone()[0] == len(expected)
            table = raw.execute("select sql from sqlite_master where name = 'events'").fetchone()[0]
        assert ("effect" in table) == (version != "0001"), "a part of the migration was kept"
        found["before" if version == "0001" else "after"] += 1
        assert subprocess.run([*command, f"sqlite:///{path}"], stdout=subprocess.DEVNULL).returncode == 0
        assert events_in(path) == expected
    return found


def events_in(path: Path) -> list[tuple]:
    """Return all events of a database, with what became of them."""
    with contextlib.closing(sqlite3.connect(path)) as raw:
        return raw.execute("select * from events order by sequence").fetchall()


def life(n: int) -> list[Event]:
    """Return the events of a job as they are kept; every seventh ends before its start, which is refused."""
    begin = 1_000_000_000 + 10 * n
    ran = -1 if n % 7 == 3 else 5 + n * 7 % 3000
    return [
        Event(n, 0, begin, -1, 1 + n % 64, 600 + n % 7200, n % 200, -1, -1, n % 3),
        Event(n, 1, begin + 5),
        Event(n, 2, begin + 5 + ran, 1),
    ]
