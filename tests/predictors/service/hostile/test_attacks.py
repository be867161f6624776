"""A service of its own process under each attack: its memory and the waits of a well-behaved client are bounded."""

import resource
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from predictors.service.api import connections as lines
from predictors.service.api.admission import read_tokens
from predictors.service.api.lifecycle import Listening
from predictors.service.client import Client
from tests.predictors.service.hostile.attacks import ATTACKS, SLOW, Target, measured
from tests.predictors.service.test_admission import tokens_in
from tests.support.killing import free_port, start
from tests.support.service_in_thread import running
from tests.support.waiting import until


class Attacked(NamedTuple):
    """A service, and the file of its log."""

    target: Target
    log: Path


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("attacked"), free_port()
    path = folder / "log"
    with path.open("w") as log:
        server = start("last-two", f"sqlite:///{folder}/service.db", port, log=log)
        try:
            yield Attacked(Target(f"http://127.0.0.1:{port}", None, server.pid), path)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    assert "Traceback" not in path.read_text()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in ATTACKS]
)
def test_an_attack_is_bounded(attacked, name):
    for _ in range(5):  # other work on this machine holds up the client now and then, a service that hangs each time
        quiet, found = measured("quiet", attacked.target), measured(name, attacked.target)
        assert found.most - found.before <= 50, found.line()
        if found.p99() <= 500 + 10 * quiet.p99():  # on a machine without other work that is 500 ms and little more
            return
    raise AssertionError(f"{found.line()}; {quiet.line()}")


def test_a_trailer_gives_no_token(tmp_path):
    (token,), file = tokens_in(tmp_path, "write")
    with running(tmp_path, listening=Listening(port=0, tokens=read_tokens(file))) as one:
        ATTACKS["trailers"](Target(one.url, token))


def test_running_out_of_file_descriptors_is_told_once_and_passes(attacked):
    target, before = attacked.target, resource.prlimit(attacked.target.pid, resource.RLIMIT_NOFILE)
    told, opened = "No connection can be accepted: Too many open files", []
    try:
        last = max(int(one.name) for one in Path(f"/proc/{target.pid}/fd").iterdir())
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (last + 8, before[1]))
        opened = [target.connect() for _ in range(60)]
        until(lambda: told in attacked.log.read_text())
        with Client(target.url, timeout=20, retries=0) as client:  # those that say nothing make room
            assert client.ask("GET", "/healthz")
    finally:
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, before)
        for line in opened:
            line.close()
    with Client(target.url, timeout=20, retries=0) as client:
        assert client.ask("GET", "/readyz")["ready"]
    assert attacked.log.read_text().count(told) == 1


def test_nothing_is_written_to_a_connection_that_closes():
    class Closing:
        def is_closing(self):
            return True

        def write(self, data):
            raise AssertionError("written to a transport that closes")

    one = lines._Corked.__new__(lines._Corked)
    one._transport, one._parts = Closing(), [b"an answer"]
    one._flush()
    assert one._parts == []
