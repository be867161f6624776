"""Whatever is read and whatever is typed: a documented status, no traceback, nothing half-written, inputs untouched."""

import contextlib
import shlex
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictors.service import client
from predictors.service.api import server
from tests.support.odd_calls import (
    BASE,
    DOCUMENTED,
    LONG,
    WITHOUT_END,
    Call,
    commands,
    contents,
    faults,
    made_place,
    odd_call,
    run,
    run_as_process,
)
from tests.support.odd_logs import FORMATS, odd_log

DEAR = ("advise", "backtest", "demo", "experiment logstudy", "sweep", "tune", "variability select", "variability train")
"""Commands that work for seconds where they are not refused."""
ALONE = (
    "check",
    "replay",
    "promote",
    "log fetch",
    "log import",
    "start",
    "site start",
    "why",
    "correct",
    "forget",
    *(one for one in BASE if one.startswith("slurm")),
)
"""Commands that need somebody else: a service and its database, a model store, a cluster, the network, or a map."""
POLICIES = ("easy", "conservative", "easy-sjbf", "default", "fcfs", "cobalt", "ceil")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a small input of each kind."""
    return made_place(tmp_path_factory.mktemp("original"))


@pytest.fixture
def place(original, home, monkeypatch):
    """A copy of it in use; a service that is started ends at once, and nobody waits for one that is not there."""
    monkeypatch.setattr(server, "serve", lambda api, listening: api.service.store.close())
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)
    monkeypatch.delenv("JOBCAST_TOKEN", raising=False)
    folder = home / "place"
    renew(original, folder)
    monkeypatch.chdir(folder)
    return folder


def renew(original, folder):
    """Make a folder as it was."""
    if folder.exists():
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(original, folder, symlinks=True, dirs_exist_ok=True)


def faults_of(calls, place, before):
    """Return what some calls have done that none may do, and the statuses with which they ended."""
    found, statuses = [], []
    for call in calls:
        ended = run(call)
        statuses.append(ended.status)
        found += [f"{call}: {fault}; {ended.err[-600:]}" for fault in faults(call, ended, before, contents(place))]
        for name in ("new.swf", "new.parquet", "new.csv"):
            made = place / name  # a folder, where it was given as one
            shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
    return found, statuses


def calls_on(log, number):
    """Yield calls that read a log."""
    yield Call("log info", (log, "--json"))
    policy = POLICIES[number // 8 % len(POLICIES)]
    simulate = (log, "--procs", "100000", "--drop-wide", "--policy", policy)
    yield (
        Call("log info", (log, "--strict")),
        Call("log convert", (log, "new.swf")),
        Call("log convert", (log, "new.parquet", "--json")),
        Call("log join", ("new.swf", log, "later.swf")),
        Call("evaluate", (log, "--predictors", "last-two,similar", "--prequential", "--json")),
        Call("predict", ("model", log, "--out", "new.csv")),
        Call("simulate", (*simulate, "--json", "--by", "user")),
        Call("simulate", (*simulate, "--estimates", "default", "--schedule", "new.csv")),
    )[number % 8]


def check_logs(form, numbers, place):
    wrong, read = [], 0
    for number in numbers:
        (place / "odd.log").write_bytes(odd_log(form, number))
        found, statuses = faults_of(calls_on("odd.log", number), place, contents(place))
        wrong += [f"{form} {number}: {fault}" for fault in found]
        read += statuses[0] == 0
    assert wrong == []
    assert 0 < read < len(numbers), "some of these logs must be read, and some refused"


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_log_is_read_or_refused(form, place):
    check_logs(form, range(8), place)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_many_damaged_logs_are_read_or_refused(form, place):
    check_logs(form, range(8, 130), place)


def check_calls(command, numbers, place, original):
    wrong, before = [], contents(place)
    for number in numbers:
        found, _ = faults_of([odd_call(command, number)], place, before)
        wrong += [f"{number}: {fault}" for fault in found]
        if contents(place) != before:
            renew(original, place)
    assert wrong == []


@pytest.mark.parametrize("command", BASE)
def test_a_strange_call_is_done_or_refused(command, place, original):
    check_calls(command, range(1 if command in DEAR else 6), place, original)


def test_no_command_is_left_out():
    assert sorted((*BASE, *WITHOUT_END, *LONG)) == sorted(commands())


@given(command=st.sampled_from([*BASE, *([one for one in BASE if one not in DEAR] * 8)]), number=st.integers(6, 10**9))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_strange_call_is_done_or_refused(command, number, place, original):
    check_calls(command, [number], place, original)


@pytest.mark.slow
@pytest.mark.parametrize("command", BASE)
def test_a_strange_call_of_a_process_is_done_or_refused(command, place, original):
    """Without UTF-8; the folder's own name is not UTF-8 either."""
    call, folder = odd_call(command, 7), place / "n\udcff" / "inside"
    shutil.copytree(original, folder, symlinks=True)
    with contextlib.chdir(folder):
        before = contents(folder)
        ended = run_as_process(call, LC_ALL="C", PYTHONUTF8="0")
        assert list(faults(call, ended, before, contents(folder))) == [], f"{call}: {ended.err[-600:]}"


@pytest.mark.parametrize("command", [one for one in BASE if one not in DEAR])
def test_the_call_that_is_made_strange_works(command, place):
    found, statuses = faults_of([Call(command, tuple(shlex.split(BASE[command])))], place, contents(place))
    assert found == []
    assert statuses[0] in ((2, *DOCUMENTED.get(command, ())) if command in ALONE else (0,))
