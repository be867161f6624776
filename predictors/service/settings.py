"""Settings of the service: models, database, clock and bounds, checked before it starts."""

from dataclasses import dataclass

from predictors.core.errors import JobcastError
from predictors.core.validation import LATEST, check_whole, known_zone
from predictors.evaluation.drift import ALARMS_PER_YEAR, checked_rate
from predictors.history.history import AS_OF_RULES


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one service."""

    model: str  # see `predictors.service.state.model.load`
    db: str  # URL of the database
    challenger: str | None = None  # a second one; its predictions are stored and compared but never given
    warm: bool = False  # whether a database without events begins with the history that the model was saved with
    learn: bool = True  # whether models learn from the jobs that end
    # {"unix", "log"}: whether times of events are Unix time, or count from an unknown moment (then no weekday is known)
    clock: str = "unix"
    time_zone: str | None = None  # IANA name of the machine's
    as_of: str = "strict"  # {"strict", "reis"}: what counts as ended at a submission
    poll: float = 30.0  # seconds between looks at the registry; 0: only when asked
    snapshot_every: int = 500_000  # events between snapshots; one is also written each hour in which events came
    # seconds of silence beyond a waiting job's submission, or a running job's requested end, after which it is given
    # up; None: never
    forget_after: float | None = None
    most_pending: int = 100_000  # events that may wait; see `Writer`
    capacity: int = 100_000  # users, and groups of each kind, to remember
    machine_procs: int | None = None  # processors of the machine; None if unknown
    # whether the site ends jobs at their request: P90 then stays within it. None: as each model was calibrated.
    kills: bool | None = None
    # false alarms of drift a year and model at most; see `predictors.evaluation.drift`
    drift_alarms: float = ALARMS_PER_YEAR

    def __post_init__(self) -> None:
        if self.clock not in ("unix", "log"):
            raise JobcastError(f"A service's clock is 'unix' or 'log'; got {self.clock!r}.")
        if self.warm and self.clock != "unix":
            raise JobcastError("A service begins warm on Unix time only: a history says when it was by its date.")
        if self.as_of not in AS_OF_RULES:
            raise JobcastError(f"A service's as-of rule is one of {', '.join(AS_OF_RULES)}; got {self.as_of!r}.")
        if self.time_zone is not None:
            known_zone(self.time_zone)
        for name in ("snapshot_every", "most_pending", "capacity"):
            if getattr(self, name) < 1:
                raise JobcastError(f"A service's {name} must be at least 1; got {getattr(self, name)}.")
        if self.machine_procs is not None:
            check_whole(self.machine_procs, "a service's machine_procs", 1, LATEST)
        if self.forget_after is not None and not self.forget_after >= 3600:
            raise JobcastError(f"A service gives jobs up after an hour of silence or more; got {self.forget_after} s.")
        checked_rate(self.drift_alarms)
        if not self.poll >= 0:
            raise JobcastError(f"A service's poll must be 0 s or more; got {self.poll}.")
