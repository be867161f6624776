"""Real logs and reference schedules, where the machine has them; an empty MLflow store."""

import gc
import logging
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

# Figures are pinned bit for bit: NumPy and OpenBLAS compute as on any processor with AVX2, also where there is more.
os.environ["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"
os.environ["OPENBLAS_CORETYPE"] = "Haswell"

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

Finder = Callable[[str], Path]

# No test hangs on how the tests were started. A shell without job control starts background commands with SIGINT
# ignored, and children inherit that; a proxy of the environment must not stand between a test and its own server.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for variable in ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy"):
    for name in (variable, variable.upper()):
        os.environ.pop(name, None)

# Nor must the terminal's size: readline, which pytest loads, tells it to the children of this process alone.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
    os.unsetenv(name)

# What commands print on stderr is the same with a cold cache of compiled code.
logging.getLogger("predictors.core.jit").addHandler(logging.NullHandler())

# Hypothesis draws the same examples on every machine, at any load; `make explore` draws new ones each time.
ANYWHERE = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", ANYWHERE, derandomize=True, database=None, max_examples=50)
FAILED_ONES = DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples")
settings.register_profile("explore", ANYWHERE, derandomize=False, database=FAILED_ONES, max_examples=200)
settings.load_profile("usual")

# It also draws constants that it reads in our modules, as far as other tests have imported them by then.
CONSTANTS_OF_OUR_MODULES = providers._get_local_constants
NO_CONSTANTS = deepcopy(providers._local_constants)
providers._get_local_constants = lambda: NO_CONSTANTS if settings.default.derandomize else CONSTANTS_OF_OUR_MODULES()


BEGIN = time.monotonic()


def pytest_runtest_setup() -> None:
    """Leave a test out once `JOBCAST_TEST_SECONDS`, where they are set, are over: a gate must end in time."""
    seconds = os.environ.get("JOBCAST_TEST_SECONDS")
    if seconds and time.monotonic() - BEGIN > float(seconds):
        pytest.skip(f"the {seconds} s for tests (JOBCAST_TEST_SECONDS) are over")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep Python's search for cycles away from what is imported and collected: all of it stays until the end.

    More than half a million objects would be gone through again and again, for nothing. Later it looks less often.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def _finder(variable: str, suffixes: tuple[str, ...]) -> Finder:
    def find(name: str) -> Path:
        folder = os.environ.get(variable)
        if not folder:
            pytest.skip(f"{variable} is not set: it names the folder that holds {name}")
        for suffix in suffixes:
            path = Path(folder) / f"{name}{suffix}"
            if path.is_file():
                return path
        pytest.skip(f"{variable}={folder} does not hold {name}")

    return find


@pytest.fixture(scope="session")
def trace() -> Finder:
    """Path of a real job log by its archive name, such as `KTH-SP2-1996-2.1-cln`."""
    return _finder("JOBCAST_TRACES", ("", ".swf.gz", ".swf"))


@pytest.fixture(scope="session")
def reference() -> Finder:
    """Path of a reference file, such as `kth_easy.csv.gz` or `kth.swf.gz`."""
    return _finder("JOBCAST_REFERENCE", ("", ".csv.gz"))


def _without_waiting_for_the_disk(connection: object, _record: object) -> None:
    """Let SQLite go on at once: no test cuts the power. The service says afterwards that its own database waits."""
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.DatabaseError):  # what is no database is found out where it is used
            connection.execute("PRAGMA synchronous=OFF")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An empty store: making one takes a second, copying it nothing; workers that share the tests make one for all."""
    from filelock import FileLock
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    from predictors.tracking import client as tracking
    from predictors.tracking.store import Store

    event.listen(Pool, "connect", _without_waiting_for_the_disk)  # MLflow commits dozens of times for each model
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    folder = tmp_path_factory.mktemp("template") if alone else tmp_path_factory.getbasetemp().parent / "template"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"), pytest.MonkeyPatch.context() as patch:
        if not (folder / "whole").exists():
            shutil.rmtree(folder / "mlruns", ignore_errors=True)  # of a worker that was killed
            patch.setenv("JOBCAST_HOME", str(folder))
            patch.delenv("MLFLOW_TRACKING_URI", raising=False)
            with tracking._client(Store.current()):
                pass
            (folder / "whole").touch()
    return folder / "mlruns"


@pytest.fixture(autouse=True)
def handlers_of_signals():
    """Signals end the tests as before, though a command that ran in this process has set handlers of its own."""
    before = {ending: signal.getsignal(ending) for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for ending, handler in before.items():
        signal.signal(ending, handler)


@pytest.fixture
def home(tmp_path, empty_store, monkeypatch):
    """A folder with an empty store, in use."""
    shutil.copytree(empty_store, tmp_path / "mlruns")
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path into which `tests.support.installed` can install packages."""
    from tests.support.installed import look_again

    monkeypatch.syspath_prepend(str(tmp_path))
    look_again()
    yield tmp_path
    for name in ("my_site", "other"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    look_again()


@pytest.fixture(scope="session")
def scheduler():
    """A Dask scheduler with two workers that is there already: starting workers takes seconds."""
    import dask
    from distributed import LocalCluster

    quiet = {  # it stays until the last test: what it does in between would cost more than its own tests
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "10s",
    }
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            protocol="tcp",
            memory_limit="2GB",
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a line of the command, or its words; return its exit status and what it printed."""
    from experiments.cli.main import main

    def run(line):
        monkeypatch.setattr(sys, "argv", ["jobcast", *(line.split() if isinstance(line, str) else line)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code, said.out, said.err

    return run
