"""Copies of the models in use, next to the database: a start needs no registry that is gone, slow or damaged.

A model that comes from a registry is copied, file by file, with its hashes. Where the registry cannot be used at a
start, the copy of that address is served, and the log says so; the service goes on looking at the registry. A copy is
checked against its hashes like every model.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from predictors.core.errors import JobcastError
from predictors.models.base import Predictor
from predictors.service.operation.logs import log, utc
from predictors.service.state.model import Identity, identified, load
from predictors.service.storage.database import parsed_url
from predictors.tracking.client import load_model
from predictors.tracking.model_folder import open_model

PATIENCE: Final = 30.0  # longest that the registry may take where there is a copy [s]
_FROM_REGISTRY: Final = ("models:", "runs:")
_MODEL, _IDENTITY = "model", "identity.json"
_log: Final = logging.getLogger("jobcast.service")


def folder_beside(url: str) -> Path | None:
    """Return the folder of copies next to a database; None if that is no file.

    >>> str(folder_beside("sqlite:////var/lib/jobcast/service.db"))
    '/var/lib/jobcast/service.db.models'
    >>> folder_beside("postgresql://me@host/jobs")
    """
    parsed = parsed_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    return Path(parsed.database + ".models").absolute()


class ModelCopies:
    """Loads models, and keeps copies of those that come from a registry in a folder, made when needed."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def load(self, uri: str) -> tuple[Identity, Predictor]:
        """Return a model and its identity, from its copy where the registry cannot be used."""
        if not uri.startswith(_FROM_REGISTRY):
            return load(uri)
        place = self._folder / hashlib.sha256(uri.encode()).hexdigest()[:16]
        with contextlib.suppress(OSError):  # a process that ended between the two renames of `_keep`
            if not place.exists():
                _old(place).rename(place)
        if not (place / _IDENTITY).is_file():
            return self._loaded(uri, place)
        found: list[tuple[Identity, Predictor] | JobcastError] = []

        def ask() -> None:
            try:
                found.append(self._loaded(uri, place))
            except JobcastError as error:
                found.append(error)
            except Exception as error:  # whatever a registry does, the copy is there
                found.append(JobcastError(f"{uri}: {type(error).__name__}: {error}"))

        asking = threading.Thread(target=ask, name="registry", daemon=True)
        asking.start()
        asking.join(PATIENCE)
        answer = found[0] if found else JobcastError(f"{uri}: the registry has not answered for {PATIENCE:g} s")
        if not isinstance(answer, JobcastError):
            return answer
        identity, predictor, since = self._copy(uri, place, answer)
        log(
            _log, logging.WARNING, "The registry cannot be used, %s is served from its copy of %s: %s", uri, since,
            answer, version=identity.version,
        )  # fmt: skip
        return identity, predictor

    def _loaded(self, uri: str, place: Path) -> tuple[Identity, Predictor]:
        part = place.with_name(f"{place.name}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            with contextlib.suppress(OSError):  # where no copy can be kept, the model is of use all the same
                part.mkdir(parents=True, mode=0o700)
            found = load_model(uri, copy_to=part / _MODEL if part.is_dir() else None)
            identity = identified(uri, found)
            if part.is_dir():
                self._keep(identity, part, place)
            return identity, found.predictor
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _keep(self, identity: Identity, part: Path, place: Path) -> None:
        """Put a copy in the place of the one before, whole or not at all."""
        try:
            if (place / _IDENTITY).is_file() and self._identity(place) == identity:
                return
            (part / _IDENTITY).write_text(json.dumps(asdict(identity)), encoding="utf-8")
            old = _old(place)
            shutil.rmtree(old, ignore_errors=True)
            if place.exists():
                place.rename(old)
            try:
                part.rename(place)
            except OSError:
                old.rename(place)
                raise
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, ValueError, TypeError) as error:
            log(_log, logging.WARNING, "No copy of the model could be kept: %s", error)

    def _copy(self, uri: str, place: Path, why: JobcastError) -> tuple[Identity, Predictor, str]:
        try:
            identity = self._identity(place)
            since = utc((place / _IDENTITY).stat().st_mtime)
            return identity, open_model(place / _MODEL, identity.sha256).model, since
        except (JobcastError, OSError, ValueError, TypeError) as error:
            raise JobcastError(f"{why} Nor can its copy be used: {error}") from error

    @staticmethod
    def _identity(place: Path) -> Identity:
        return Identity(**json.loads((place / _IDENTITY).read_text(encoding="utf-8")))


def _old(place: Path) -> Path:
    """Return where a copy lies while another takes its place."""
    return place.with_name(f"{place.name}.old")
