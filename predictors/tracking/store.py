"""The MLflow store: its place, and the version that an address means."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from predictors.core.errors import JobcastError, unknown_name
from predictors.core.files import whole_file
from predictors.tracking.describe import LoggedRun
from predictors.tracking.uri import ModelUri

LOCK_SECONDS: Final = 120.0  # longest wait for another process that is making the store [s]; it takes a few


@dataclass(frozen=True)
class Store:
    """An MLflow store."""

    uri: str  # its tracking URI
    artifacts: Path | None = None  # where new runs put their files; None where MLflow, or its server, decides

    @classmethod
    def current(cls) -> "Store":
        """Return the store in use.

        `MLFLOW_TRACKING_URI` if it is set, unchanged; else `mlruns/mlflow.db` with files in `mlruns/artifacts`, in the
        folder that `JOBCAST_HOME` names, else in the current one. A folder is refused there.
        """
        if uri := os.environ.get("MLFLOW_TRACKING_URI", "").strip():
            if uri.startswith("file:") or (":" not in uri and not uri.startswith("databricks")):
                raise JobcastError(
                    f"MLFLOW_TRACKING_URI={uri} is a folder, and MLflow no longer keeps runs in folders; "
                    "give sqlite:///PATH.db or a server, or unset it."
                )
            try:
                urlparse(uri)
            except ValueError as error:  # brackets that do not close
                raise JobcastError(
                    f"MLFLOW_TRACKING_URI={uri} is no address ({error}); give sqlite:///PATH.db or a server, "
                    "or unset it."
                ) from error
            return cls(uri)
        folder = Path(os.environ.get("JOBCAST_HOME") or Path.cwd()).expanduser().absolute() / "mlruns"
        return cls(f"sqlite:///{folder / 'mlflow.db'}", folder / "artifacts")

    def __str__(self) -> str:
        """Return the URI without its password.

        >>> print(Store("postgresql+psycopg://me:secret@db/jobcast"))
        postgresql+psycopg://me:***@db/jobcast
        """
        return re.sub(r"(?<=://)([^:/@]*):[^/]*@", r"\1:***@", self.uri)

    @property
    def file(self) -> Path | None:
        """The SQLite file, if the store is one."""
        path = self.uri.removeprefix("sqlite:///").partition("?")[0]
        return Path(path) if self.uri.startswith("sqlite:///") and path not in ("", ":memory:") else None

    def require(self) -> None:
        """Raise if the store is a file that is not there: reading never makes one."""
        if self.file is not None and not self.file.is_file():
            raise JobcastError(
                f"{self.file}: no model store there yet; fill one with `jobcast train LOG --predictor NAME --register "
                "NAME`, or set JOBCAST_HOME or MLFLOW_TRACKING_URI to where yours is."
            )

    def ensure(
        self,
        create: Callable[[str], None],  # makes the tables of a store, given its URI
    ) -> None:
        """Make the SQLite file if it is missing, once, however many processes ask.

        The first to take the lock makes the database under another name; it gets its own when it is complete, so that
        a file that is there can always be used, without a lock.
        """
        if self.file is None or self.file.is_file():
            return
        with _locked(self.file):
            if not self.file.is_file():
                with whole_file(self.file) as part:
                    create(f"sqlite:///{part}")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file.with_name(f".{file.name}.lock"), timeout=LOCK_SECONDS)
        lock.acquire()
    except Timeout as error:
        raise JobcastError(
            f"{file}: another process has been making this store for {LOCK_SECONDS:.0f} s; if none is, delete "
            f"{error.lock_file}."
        ) from error
    except OSError as error:
        raise JobcastError(
            f"{file.parent}: the model store cannot be made there ({error.strerror}); set JOBCAST_HOME to a folder "
            "that you may write, or MLFLOW_TRACKING_URI to a server."
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def fetched(store: Store, location: str, download: Callable[[str, str], str]) -> Iterator[Path]:
    """Yield a folder with the files at `location` within the block; `download` brings a URI's, and says where."""
    parts = urlparse(location)
    if parts.scheme not in ("", "file"):
        with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
            yield Path(download(location, scratch))
        return
    folder = Path(unquote(parts.path)) if parts.scheme else Path(location)
    if not folder.is_dir() and store.artifacts is not None:  # SQLite keeps absolute paths: the store may have moved
        folder = store.artifacts / location.rpartition("/mlruns/artifacts/")[2]
    if not folder.is_dir():
        raise JobcastError(f"{location}: the model's files are gone, though {store} lists them.")
    yield folder


@contextmanager
def as_default(store: Store) -> Iterator[None]:
    """Make `store` MLflow's own default: it looks up `models:/m-…` there when a version is made."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = store.uri
    try:
        yield
    finally:
        del os.environ["MLFLOW_TRACKING_URI"]
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


@contextmanager
def silence() -> Iterator[None]:
    """Keep the remarks of MLflow and alembic off the user's screen; failures are raised, and reported once."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL + 1)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


MOST_NAMES: Final = 1000


def find_version(
    client: Any,  # of `store`
    store: Store,  # for the messages
    where: ModelUri,  # with a name, and an alias or a version
) -> Any:
    """Return MLflow's record of the registered version that `where` names."""
    with _unless("RESOURCE_DOES_NOT_EXIST"):
        model = client.get_registered_model(where.name)
        return _version_of(client, model, where)
    known = sorted(model.name for model in client.search_registered_models(max_results=MOST_NAMES))
    if not known:
        raise JobcastError(f"No registered model {where.name!r}: {store} holds none yet.")
    raise unknown_name("registered model", str(where.name), known)


def _version_of(client: Any, model: Any, where: ModelUri) -> Any:
    number = where.version
    if where.alias is not None:
        if where.alias not in model.aliases:
            given = ", ".join(f"{alias} (version {at})" for alias, at in sorted(model.aliases.items())) or "none"
            raise JobcastError(f"Model {where.name!r} has no alias {where.alias!r}; it has: {given}.")
        number = int(model.aliases[where.alias])
    with _unless("RESOURCE_DOES_NOT_EXIST"):
        return client.get_model_version(where.name, str(number))
    newest = max((int(version.version) for version in model.latest_versions), default=0)
    raise JobcastError(f"Model {where.name!r} has no version {number}; the newest is {newest}.")


def model_of_run(client: Any, store: Store, run_id: str) -> Any:
    """Return MLflow's record of the model that a run logged."""
    with _unless("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        run = client.get_run(run_id)
        if run.outputs is None or not run.outputs.model_outputs:
            raise JobcastError(f"Run {run_id!r} in {store} logged no model.")
        return client.get_logged_model(run.outputs.model_outputs[-1].model_id)
    raise JobcastError(f"No run {run_id!r} in {store}.")


KIND: Final = "mlflow.experimentKind"
TRAINING: Final = "custom_model_development"  # the kind of experiment that opens on training runs


def experiment_id(client: Any, store: Store, name: str) -> str:
    """Return the id of an MLflow experiment with files where the store wants them, made if it is missing.

    A store that was moved keeps the old place in its experiments; new runs then go to one that names the new.
    """
    place = None if store.artifacts is None else str(store.artifacts)
    found = client.get_experiment_by_name(name)
    if found is not None and place is not None and found.artifact_location != place:
        name = f"{name} in {place}"
        found = client.get_experiment_by_name(name)
    if found is None:
        with _unless("RESOURCE_ALREADY_EXISTS"):  # another process was first
            return str(client.create_experiment(name, place, tags={KIND: TRAINING}))
        found = client.get_experiment_by_name(name)
    if found.tags.get(KIND) != TRAINING:  # made by an older version
        client.set_experiment_tag(found.experiment_id, KIND, TRAINING)
    return str(found.experiment_id)


NOTE: Final = "mlflow.note.content"  # the tag with the page of a run, in Markdown


def make_version(client: Any, run: LoggedRun, name: str) -> int:
    """Register a logged model, with its tags and its run's page, as a new version of `name`; return its number."""
    note = client.get_run(run.run_id).data.tags.get(NOTE, "")
    with _unless("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name, description="Kept by jobcast; each version says what it learnt from.")
    model = client.get_logged_model(run.model_id)
    tags = {key: value for key, value in model.tags.items() if key.startswith("jobcast.")}
    made = client.create_model_version(
        name, f"models:/{run.model_id}", run.run_id, tags, description=note, model_id=run.model_id
    )
    return int(made.version)


@contextmanager
def _unless(*codes: str) -> Iterator[None]:
    """Go on behind the block if MLflow raises an error with one of `codes` in it."""
    try:
        yield
    except Exception as error:  # MLflow's own class, which only tracking may import
        if getattr(error, "error_code", None) not in codes:
            raise


START_SECONDS: Final = 300.0  # longest wait for MLflow's server to answer [s]


def serve_pages(store: Store, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Run MLflow's server on a store until Ctrl-C, or until its end; `ready` gets the address once it answers."""
    if store.uri.startswith(("http:", "https:", "databricks")):
        raise JobcastError(f"{store} is a server with pages of its own; open that address in a browser.")
    store.require()
    _refuse_taken(host, port)
    with tempfile.TemporaryFile() as said:
        # A process group of its own: Ctrl-C comes to this process alone, which then ends the server and its workers.
        # The store's address goes by the environment: it may hold a password, and commands are seen by everybody.
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        place = {**quiet, **os.environ, "MLFLOW_BACKEND_STORE_URI": store.uri}
        command = _server(store, host, port)
        server = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True, env=place)
        try:
            _wait_for(server, host, port)
            if server.poll() is None:
                ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
                server.wait()
        except KeyboardInterrupt:
            return
        finally:
            _end(server)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
    raise JobcastError(f"MLflow's server has ended by itself, status {server.returncode}: {lines[-1]}")


def _server(store: Store, host: str, port: int) -> list[str]:
    place = [] if store.artifacts is None else ["--default-artifact-root", str(store.artifacts)]
    return [
        sys.executable, "-m", "mlflow", "server", *place, "--no-serve-artifacts",
        "--host", host, "--port", str(port), "--workers", "1",
    ]  # fmt: skip


def _refuse_taken(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError as error:
            raise JobcastError(
                f"{host}:{port} cannot be listened on ({error.strerror}); give another --port, or end what holds it."
            ) from error


def _wait_for(server: "subprocess.Popen[bytes]", host: str, port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection((host, port), timeout=1.0):
            return
        time.sleep(0.1)
    if server.poll() is None:
        raise JobcastError(f"MLflow's server does not answer on {host}:{port} after {START_SECONDS:.0f} s.")


def _end(server: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=10)
            return
