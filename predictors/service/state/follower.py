"""A follower: the state of a service, kept up to date from the database that another process owns.

It takes in what is committed, as a restart does (`predictors.service.state.recovery`): the state is a function of the
events and of the models, so once event n has been learnt its answers are, to the last bit, those that the owner gives
then. It writes nothing.
"""

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Final

from predictors.core.errors import JobcastError
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.answer import Published
from predictors.service.state.jobs import JobState
from predictors.service.state.learner import Learner
from predictors.service.state.model import CHAMPION, Load, Model, Predicted, made_model, predicted
from predictors.service.state.recovery import rebuild, warm_up
from predictors.service.storage.database import StorageError, shown
from predictors.service.storage.store import Store

EVERY: Final = 0.5
"""Seconds between two looks at the database."""
MOST_BEHIND: Final = 2.0
"""Longest that an answer may be out of date [s]; beyond, the owner is asked."""
_SLICE: Final = 128  # events taken in while questions wait, as the owner does
log = logging.getLogger("jobcast.service")


class Follower:
    """The champion and the job state of a service, some tenths of a second behind.

    Parameters
    ----------
    settings, loader, key
        Those of the owner.

    Raises
    ------
    JobcastError
        If the database or the champion cannot be used.
    """

    def __init__(self, settings: Settings, loader: Load, key: Pseudonymiser) -> None:
        self.settings: Final = settings
        self._store = Store(settings.db, reads_only=True)
        try:
            self._model = _champion(self._store, settings, loader, key)
        except BaseException:
            self._store.close()
            raise
        self.job_state: Final = JobState.of(settings)
        self._learner = Learner(lambda _: None, _raised)
        self._learner.models = {CHAMPION: self._model}
        self._as_of = -math.inf
        self._stopping: Final = threading.Event()

    @property
    def behind(self) -> float:
        """How long ago all that was committed was known here [s]; infinite before the first look."""
        return time.monotonic() - self._as_of

    def begin(self) -> None:
        """Come to the newest event, from the newest snapshot.

        Raises
        ------
        JobcastError, StorageError
            If that cannot be done.
        """
        warm_up([self._model])
        rebuild(self._store, self.job_state, self._learner, self._stopping)
        self._model = self._learner.champion
        self._follow()

    def run(self) -> None:
        """Follow until `stop`, or until another model is champion: then a new follower has to begin."""
        trouble = ""
        while not self._stopping.wait(EVERY):
            try:
                if _row_of_champion(self._store)["id"] != self._model.number:
                    log.info("another model is champion: a reader begins anew")
                    break
                self._follow()
                trouble = ""
            except StorageError as error:  # `behind` grows; the next look may succeed
                if not trouble:
                    log.warning("what is new cannot be read, the owner answers: %s", error)
                trouble = str(error)
        self._store.close()

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    def predict(self, jobs: Sequence[Sequence[int]], now: int | None, published: Published | None = None) -> Predicted:
        """Return the champion's predictions of jobs (see `JobState.rows`) if they were submitted now."""
        return predicted(self._model, self.job_state, jobs, now, published)

    def _follow(self) -> None:
        """Take in what was committed before now."""
        looked = time.monotonic()
        for table in self._store.events_after(self.job_state.sequence):
            for first in range(0, len(table), _SLICE):
                part = table[first : first + _SLICE]
                self._learner.follow(self.job_state.take_table(part), int(part[-1, -1]))
        self._as_of = looked


def _row_of_champion(store: Store) -> dict[str, object]:
    """Return who the owner says is champion, and since when."""
    return next(row for row in reversed(store.models()) if row["role"] == CHAMPION)


def _champion(store: Store, settings: Settings, loader: Load, key: Pseudonymiser) -> Model:
    """Return the model that the owner says is champion: by its address, or by its version where that has moved on."""
    row = _row_of_champion(store)
    wanted = row["name"], row["version"], row["predictor"], row["sha256"]
    addresses = [settings.model]
    if row["version"] is not None:
        addresses.append(f"models:/{row['name']}/{row['version']}")
    for address in addresses:
        found = loader(address)
        if found[0].same_as == wanted:
            break
    else:
        raise JobcastError(f"{shown(settings.db)}: its champion is {row['name']}, which {addresses[-1]} is not.")
    model = made_model(found, settings, key)
    model.forget_log()
    model.number = int(str(row["id"]))
    model.begin(int(str(row["learns_since"])))
    return model


def _raised(error: Exception) -> None:
    raise error
