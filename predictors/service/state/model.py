"""A model at work: it is loaded, predicts, learns, and publishes what it has learnt."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.core.errors import JobcastError
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.core.model_files import part
from predictors.data.names import Codes
from predictors.evaluation.drift import ALARMS_PER_YEAR, Drift
from predictors.evaluation.monitoring import Monitor, refit_with
from predictors.history.features import REQUESTED_TIME
from predictors.history.history import Outcome
from predictors.models.base import Predictor
from predictors.models.baselines import LastTwo
from predictors.models.conformal import ConformalQuantiles, Quantiles
from predictors.models.prediction import in_range_one
from predictors.models.stream import OutcomeStream
from predictors.registry import PREDICTORS, make_predictor
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.answer import FAILED, OUT_OF_RANGE, Answer, Published, frozen
from predictors.service.state.feature_mapping import FeatureMapping
from predictors.service.state.jobs import EVERY_FEATURE, Happened
from predictors.tracking.client import load_model, version_of
from predictors.tracking.describe import LoadedModel

CHAMPION: Final = "champion"
CHALLENGER: Final = "challenger"
ROLES: Final = (CHAMPION, CHALLENGER)
_REQUEST, _LAST_TWO = (EVERY_FEATURE.index(name) for name in (REQUESTED_TIME, LastTwo.features[1]))


@dataclass(frozen=True)
class Identity:
    """Identity of a model."""

    uri: str  # what was asked for: an address of the registry, a folder, or a predictor's name
    name: str  # registered name; where it has none, the predictor's
    version: int | None  # registered version
    predictor: str  # the predictor's registered name
    sha256: str = ""  # hash of the model's files; empty for one that begins untrained
    trained_until: str | None = None  # last end that it learnt from before it came here (UTC)

    @property
    def same_as(self) -> tuple[str, int | None, str, str]:
        """The fields that identify the model, however it was addressed."""
        return self.name, self.version, self.predictor, self.sha256


class Model:
    """A predictor at work on the stream of events. One thread drives it; what it has published any thread may ask."""

    def __init__(
        self,
        identity: Identity,
        predictor: Predictor,  # its own: it is changed as it learns
        role: str = CHAMPION,  # {"champion", "challenger"}: whether its answers are given, or only kept to be compared
        *,
        learns: bool = True,  # whether it learns from the jobs that end
        # of the hashes of names: a model that knows names finds its own by it
        key: Pseudonymiser = Pseudonymiser(),  # noqa: B008 - a value
        kills: bool | None = None,  # whether the site ends jobs at their request; None: as it was calibrated, else not
        drift_alarms: float = ALARMS_PER_YEAR,  # false alarms of drift a year at most
    ) -> None:
        predictor.check()
        self.identity: Final = identity
        self.predictor: Final = predictor
        self.role = role
        self.learns: Final = learns
        self.since = 0  # the event from which on it learns
        self.number = 0
        self.failures: dict[str, int] = {FAILED: 0, OUT_OF_RANGE: 0}
        self.learning_errors = 0
        self._key: Final = key
        self._mapping: Final = FeatureMapping.of(predictor, key)
        self._outcomes: Final = OutcomeStream(predictor, self._teach, rows_with_ends=True)
        kept: ConformalQuantiles | None = vars(predictor).pop("quantiles_", None)
        layer = kept or ConformalQuantiles()
        if kills is not None:
            layer.set_kills(kills)
        # its errors compared with last-two's, and P10, P50 and P90 of its predictions
        self.monitor = Monitor(layer, as_of=predictor.as_of, drift_alarms=drift_alarms)
        self.published = self._published(0)

    @property
    def figures(self) -> Mapping[str, float]:
        """Figures over the newest outcomes: mean absolute errors [s], share too short, share within P10 to P90.

        Compared with last-two's on the same jobs as soon as there are enough of them.
        """
        predicted, baseline, ran, held = self.monitor.errors()
        if not len(ran):
            return {}
        found = {
            "outcomes": len(ran),
            "mean_absolute_error_seconds": float(np.abs(predicted - ran).mean()),
            "last_two_mean_absolute_error_seconds": float(np.abs(baseline - ran).mean()),
            "underestimated_share": float((predicted < ran).mean()),
        }
        if not np.isnan(held).all():
            found["covered_share"] = float(np.nanmean(held))
        if (standing := self.monitor.standing) is not None:
            found["squared_error_ratio_to_last_two"] = standing.squared.value
            found["absolute_error_ratio_to_last_two"] = standing.absolute.value
        return found

    @property
    def drift(self) -> Drift:
        """Whether it has become worse than last-two, by the test that may be checked at any time."""
        return self.monitor.drift.now

    def advice(self) -> str:
        """Return the command that trains it again."""
        registered = None if self.identity.version is None else self.identity.name
        alias = None if registered is None else self.role
        return refit_with(self.identity.predictor, registered, alias)

    @property
    def goes_by(self) -> dict[str, str]:
        """Whether it learnt `names` or `numbers` in each column of codes that it knows."""
        codes: Mapping[str, Codes] = vars(self.predictor).get("codes_", {})
        return {column: "names" if one.names else "numbers" for column, one in codes.items() if one.free}

    def forget_log(self) -> None:
        """Forget the history of the log that it learnt from before it came here: the service has its own."""
        vars(self.predictor).pop("history_", None)

    def begin(self, since: int) -> None:
        """Set the event from which on it follows; nothing has been followed yet."""
        self.since = since
        self.published = self._published(since)

    def follow(self, happened: Sequence[Happened], sequence: int) -> list[tuple[Happened, Answer]]:
        """Go through events: answer for each submission, learn from each end; then publish what has been learnt."""
        answers, outcomes, monitor = [], self._outcomes, self.monitor
        for one in happened:
            outcomes.catch_up(one.time)
            monitor.catch_up(one.time)
            if one.kind == SUBMITTED:
                answer, request = self._answer(one), float(one.row[_REQUEST])
                outcomes.submitted(one.job, self._mapping.one(one.row), answer.seconds)
                baseline = in_range_one(one.row[_LAST_TWO], request, self.predictor.cap)
                monitor.submitted(one.job, answer.seconds, baseline, request, by_model=answer.why not in self.failures)
                answers.append((one, answer))
            elif one.kind == STARTED:
                outcomes.started(one.job, one.time)
            elif one.kind == ENDED:
                outcomes.ended(one.job, one.time, one.seconds, self._mapping.one(one.row))
                monitor.ended(one.job, one.time, one.seconds)
            else:
                outcomes.cancelled(one.job)
                monitor.cancelled(one.job)
        self.published = self._published(sequence)
        return answers

    def _answer(self, one: Happened) -> Answer:
        answer = self._now().answer(one.row)
        if answer.why in self.failures:
            self.failures[answer.why] += 1
        return answer

    def _teach(self, outcome: Outcome) -> None:
        if not self.learns:
            return
        try:
            self.predictor.learn_one(outcome)
        except Exception:  # what it had learnt before stays; metrics tell
            self.learning_errors += 1

    def as_at(self, now: int) -> Published:
        """Return it with all learnt that may be known at a second; of that it keeps nothing. For the one thread."""
        if not (self._outcomes.is_due(now) or self.monitor.is_due(now)):
            return self.published
        never_changed = (getattr(self.predictor, name, None) for name in ("estimator_", "codes_"))
        copied = copy.deepcopy(self.predictor, {id(thing): thing for thing in never_changed if thing is not None})
        outcomes = OutcomeStream(copied, copied.learn_one if self.learns else (lambda _: None), rows_with_ends=True)
        outcomes.restore(self._outcomes.arrays())
        outcomes.catch_up(now)
        return Published(copied, self._mapping, self.monitor.quantiles_at(now).now, self.published.sequence)

    def _now(self) -> Published:
        """Return what has been learnt until now, to be asked by the one thread that learns."""
        return Published(self.predictor, self._mapping, Quantiles(), 0)

    def _published(self, sequence: int) -> Published:
        return Published(frozen(self.predictor), self._mapping, self.monitor.quantiles.now, sequence)

    def state(self) -> dict[str, npt.NDArray[Any]] | None:
        """Return all that it has gathered as arrays; None if its predictor can only learn it again."""
        learnt = self.predictor.get_state()
        if learnt is None:
            return None
        return {
            **{f"learnt_{name}": array for name, array in learnt.items()},
            **{f"lessons_{name}": array for name, array in self._outcomes.arrays().items()},
            **{f"monitor_{name}": array for name, array in self.monitor.get_state().items()},
            "counts": np.array([self.learning_errors, *self.failures.values()], dtype=np.int64),
        }

    def resumed(self, state: Mapping[str, npt.NDArray[Any]], sequence: int) -> "Model":
        """Return one that goes on from the state behind an event; this one, which has followed nothing yet, stays."""
        kills = self.monitor.quantiles.kills
        about: dict[str, Any] = {"learns": self.learns, "key": self._key, "kills": kills}
        about["drift_alarms"] = self.monitor.drift.alarms_per_year
        found = Model(self.identity, copy.copy(self.predictor), self.role, **about)
        found.since, found.number = self.since, self.number
        found.predictor.set_state(part(state, "learnt_"))
        found._outcomes.restore(part(state, "lessons_"))
        found.monitor.set_state(part(state, "monitor_"))
        found.learning_errors, *failures = state["counts"].tolist()
        found.failures = dict(zip(found.failures, failures, strict=True))
        found.published = found._published(sequence)
        return found

    def record(self, happened: Happened, answer: Answer) -> dict[str, Any]:
        return {
            "job": happened.job, "role": self.role, "model": self.number, "sequence": happened.sequence,
            "seconds": answer.seconds, "lower": answer.lower, "upper": answer.upper, "answered_by": answer.answered_by,
            "fallback": answer.why is not None,
        }  # fmt: skip


class Predicted(NamedTuple):
    """Answers, the model that gave them, and the event as of which they hold."""

    answers: list[Answer]
    identity: Identity
    published: Published
    sequence: int  # number of the newest event that the job state holds


def made_model(
    found: tuple[Identity, Predictor], settings: Settings, key: Pseudonymiser, role: str = CHAMPION
) -> Model:
    """Return a model that was loaded; it must count the same jobs as ended as these settings do."""
    identity, predictor = found
    if predictor.as_of != settings.as_of:
        raise JobcastError(
            f"{identity.uri}: counts ended jobs by the rule {predictor.as_of!r}; this service by {settings.as_of!r}."
        )
    options: dict[str, Any] = {"kills": settings.kills, "drift_alarms": settings.drift_alarms}
    return Model(identity, predictor, role, learns=settings.learn, key=key, **options)


Load = Callable[[str], tuple[Identity, Predictor]]  # brings a model; raises a `JobcastError` if it cannot


def load(
    # `models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/RUN_ID`, a folder; or a registered predictor's name
    uri: str,
) -> tuple[Identity, Predictor]:
    """Return a model and its identity.

    Every file of a saved model is checked against the hash that the registry has, and nothing is unpickled
    (`predictors.tracking.client`). It brings the history that it was saved with.

    >>> load("last-two")[0].predictor
    'last-two'
    """
    if uri in PREDICTORS:
        return Identity(uri, uri, None, uri), make_predictor(uri)
    found = load_model(uri)
    return identified(uri, found), found.predictor


def identified(uri: str, found: LoadedModel) -> Identity:
    name = found.name or found.predictor.name
    about = found.origin
    until = None if about.trained_until is None else f"{about.trained_until} s of {about.log}"
    until = about.trained_until_utc or until
    return Identity(uri, name, found.version, found.predictor.name, found.sha256, until)


def version_now(uri: str) -> int | None:
    """Return the version that an address means now; None if it is not one of the registry."""
    return version_of(uri) if uri.startswith("models:") else None
