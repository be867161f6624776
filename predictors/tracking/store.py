"""The MLflow store: its place, and the version that an address means."""

import logging
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from predictors.core.errors import JobcastError, unknown_name
from predictors.core.files import whole_file
from predictors.tracking.describe import LoggedRun
from predictors.tracking.uri import ModelUri

LOCK_SECONDS: Final = 120.0
"""Longest wait for another process that is making the store [s]; it takes a few."""


@dataclass(frozen=True)
class Store:
    """An MLflow store.

    Parameters
    ----------
    uri : str
        Its tracking URI.
    artifacts : Path or None
        Where new runs put their files; None where MLflow, or its server, decides.
    """

    uri: str
    artifacts: Path | None = None

    @classmethod
    def current(cls) -> "Store":
        """Return the store in use.

        `MLFLOW_TRACKING_URI` if it is set, unchanged; else `mlruns/mlflow.db` with files in `mlruns/artifacts`, in
        the folder that `JOBCAST_HOME` names, else in the current one.

        Raises
        ------
        JobcastError
            If `MLFLOW_TRACKING_URI` is a folder.
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

        Examples
        --------
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
        """Raise if the store is a file that is not there: reading never makes one.

        Raises
        ------
        JobcastError
            With the command that fills a store.
        """
        if self.file is not None and not self.file.is_file():
            raise JobcastError(
                f"{self.file}: no model store there yet; fill one with `jobcast train LOG --predictor NAME --register "
                "NAME`, or set JOBCAST_HOME or MLFLOW_TRACKING_URI to where yours is."
            )

    def ensure(self, create: Callable[[str], None]) -> None:
        """Make the SQLite file if it is missing, once, however many processes ask.

        The first to take the lock makes the database under another name; it gets its own when it is complete, so that
        a file that is there can always be used, without a lock.

        Parameters
        ----------
        create : callable of str
            Makes the tables of a store, given its URI.

        Raises
        ------
        JobcastError
            If the place cannot be written, or another process holds the lock for too long.
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
    """Yield a local folder with the files at `location`; downloads last as long as the block.

    Parameters
    ----------
    store : Store
        Where the location was found.
    location : str
        A path, or any URI.
    download : callable of (str, str)
        Brings what lies at a URI into a folder, and returns where it lies there.

    Raises
    ------
    JobcastError
        If a local folder is gone.
    """
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


def find_version(client: Any, store: Store, where: ModelUri) -> Any:
    """Return MLflow's record of the registered version that `where` names.

    Parameters
    ----------
    client : mlflow.MlflowClient
        Of `store`.
    store : Store
        For the messages.
    where : ModelUri
        With a name, and an alias or a version.

    Raises
    ------
    JobcastError
        If the store has no such model, alias or version, with those that it has.
    """
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
    """Return MLflow's record of the model that a run logged.

    Raises
    ------
    JobcastError
        If there is no such run, or it logged none.
    """
    with _unless("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
        run = client.get_run(run_id)
        if run.outputs is None or not run.outputs.model_outputs:
            raise JobcastError(f"Run {run_id!r} in {store} logged no model.")
        return client.get_logged_model(run.outputs.model_outputs[-1].model_id)
    raise JobcastError(f"No run {run_id!r} in {store}.")


def experiment_id(client: Any, store: Store, name: str) -> str:
    """Return the id of an MLflow experiment whose files lie where the store wants them, made if it is not there.

    A store that was moved keeps the old place in its experiments; new runs then go to one that names the new.
    """
    place = None if store.artifacts is None else str(store.artifacts)
    found = client.get_experiment_by_name(name)
    if found is not None and place is not None and found.artifact_location != place:
        name = f"{name} in {place}"
        found = client.get_experiment_by_name(name)
    if found is None:
        with _unless("RESOURCE_ALREADY_EXISTS"):  # another process was first
            return str(client.create_experiment(name, place))
        found = client.get_experiment_by_name(name)
    return str(found.experiment_id)


def make_version(client: Any, run: LoggedRun, name: str) -> int:
    """Register a logged model, with its tags, as a new version of `name`; return the version's number."""
    with _unless("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name)
    model = client.get_logged_model(run.model_id)
    tags = {key: value for key, value in model.tags.items() if key.startswith("jobcast.")}
    made = client.create_model_version(name, f"models:/{run.model_id}", run.run_id, tags, model_id=run.model_id)
    return int(made.version)


@contextmanager
def _unless(*codes: str) -> Iterator[None]:
    """Go on behind the block if MLflow raises an error with one of `codes` in it."""
    try:
        yield
    except Exception as error:  # MLflow's own class, which only tracking may import
        if getattr(error, "error_code", None) not in codes:
            raise
