"""What was said of the newest submissions? Kept in memory, so that the database is not asked for it."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from predictors.service.model import Model

MOST: Final = 50_000
"""Newest predictions of record that are kept."""


class Recent:
    """The newest predictions of record, by role and job; any thread may ask."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, records: Sequence[Mapping[str, Any]], models: Iterable[Model]) -> None:
        """Add predictions, each with who its model is; the oldest are dropped for them."""
        about = {
            model.number: {"name": who.name, "version": who.version, "predictor": who.predictor}
            for model in models
            for who in (model.identity,)
        }
        with self._lock:
            for row in records:
                self._rows[row["role"], row["job"]] = {**row, **about[row["model"]]}
            while len(self._rows) > MOST:
                self._rows.popitem(last=False)

    def of(self, jobs: Sequence[int], role: str) -> dict[int, dict[str, Any]]:
        """Return what a role's model said of jobs, by job, as far as it is kept."""
        with self._lock:
            return {job: self._rows[role, job] for job in jobs if (role, job) in self._rows}

    def seconds(self, role: str) -> dict[int, float]:
        """Return all predictions of a role's model that are kept [s], by job."""
        with self._lock:
            return {job: row["seconds"] for (its, job), row in self._rows.items() if its == role}
