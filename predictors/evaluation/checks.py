"""The contract of predictors, as functions that anyone can run on a predictor of their own.

A check takes `make`, which returns a fresh, unfitted predictor, and a log with users who come back; it raises an
`AssertionError` that names what is broken. `jobcast check` runs them on the predictors of a package.

>>> from predictors.models.baselines import LastTwo
>>> for check in PREDICTOR_CHECKS:
...     check(LastTwo, generate_log(200, seed=3, users=6))
"""

import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.prediction_bounds import UNKNOWN_REQUEST
from predictors.data.joblog import JobLog
from predictors.data.synthetic.generate import generate_log
from predictors.evaluation.leakage import audit_leakage
from predictors.history.replay import log_events, replay
from predictors.models.base import Predictor
from predictors.models.stream import forecast
from predictors.serialise import load, save

Make = Callable[[], Predictor]


def check_parameters_are_stored_and_cloned(make: Make, log: JobLog) -> None:
    """The constructor stores its parameters and nothing else; a clone has the same and is not fitted."""
    fresh = make()
    assert set(vars(fresh)) == set(fresh.stored()), f"the constructor sets more: {sorted(vars(fresh))}"
    fitted = make().fit(log)
    assert fitted.named_params() == fresh.named_params(), "fit changed a parameter"
    copy = fitted.clone()
    assert type(copy) is type(fitted) and copy.get_params() == fitted.get_params(), "a clone differs"
    assert set(vars(copy)) == set(vars(fresh)), "a clone is not fresh"
    extra = set(vars(fitted)) - set(vars(fresh))
    assert all(name.endswith("_") or name.startswith("_") for name in extra), f"fit sets {sorted(extra)}"


def check_nothing_known_means_the_request(make: Make, log: JobLog) -> None:
    """A fresh predictor without any history predicts the requested time, marked as a fallback."""
    predictor = make()
    rows = np.full((3, len(predictor.features)), np.nan)
    rows[:, predictor.features.index("requested_time")] = 600.0, 7.0, np.nan
    _equal(predictor.predict_rows(rows), [600.0, 7.0, UNKNOWN_REQUEST], "nothing known, and the request")
    for row in rows:
        found = predictor.predict_one(row)
        is_request = predictor.name == "requested" and not np.isnan(row).all()
        assert found.fallback != is_request, f"{found} for {row}"


def check_predictions_lie_in_range(make: Make, log: JobLog) -> None:
    """Capped predictions lie in [1 s, requested time]; whatever is missing, there is no NaN."""
    requested, known = log.filled("requested_time"), log.known("requested_time")
    for predictor in (make(), make().fit(log)):
        found = predictor.predict(log)
        assert found.shape == (len(log),), f"{len(log)} jobs, predictions of shape {found.shape}"
        assert found.dtype == np.float64, f"predictions are {found.dtype}, not float64"
        assert (found >= 1).all() and np.isfinite(found).all(), f"least {found.min()} s"
        assert (found <= requested)[known].all(), "a prediction is above its request"
        nothing = np.full((1, len(predictor.features)), np.nan)
        assert np.isfinite(predictor.predict_rows(nothing)).all(), "nothing known gives no finite number"
    wild = make().set_params(cap=False).fit(log).predict(log)
    assert (wild >= 0).all() and np.isfinite(wild).all(), f"least {wild.min()} s with cap=False"


def check_one_by_one_equals_all_at_once(make: Make, log: JobLog) -> None:
    """`predict_one` gives what `predict` gives, to the last bit, and names its source as `answered_by` does."""
    predictor = make().fit(log)
    rows = replay(log, predictor.features, predictor.as_of)
    one_by_one = [predictor.predict_one(row) for row in rows]
    _equal([one.seconds for one in one_by_one], predictor.predict(log), "predict_one and predict")
    for number, (one, source) in enumerate(zip(one_by_one, predictor.answered_by(rows), strict=True)):
        assert one.answered_by == source, f"row {number}: predict_one names {one.answered_by}, answered_by {source}"


def check_fit_forgets(make: Make, log: JobLog) -> None:
    """What was fitted before makes no difference."""
    half = len(log) // 2
    first, second = log.select(slice(half)), log.select(slice(half, None))
    fresh, used = make().fit(second), make().fit(first).fit(second)
    _equal(fresh.predict(log), used.predict(log), "fitted once, and fitted again")


def check_predicting_changes_nothing(make: Make, log: JobLog) -> None:
    """`predict`, `predict_one` and `forecast` leave a fitted predictor as it was, and answer the same again."""
    predictor = make().fit(log)
    before = pickle.dumps(vars(predictor))
    first = predictor.predict(log)
    predictor.predict_one(replay(log, predictor.features)[-1])
    _forecast(predictor, log)
    assert pickle.dumps(vars(predictor)) == before, "predicting changed the predictor"
    _equal(predictor.predict(log), first, "asked again, and asked first")


def check_threads_get_the_same(make: Make, log: JobLog) -> None:
    """Predictions made by several threads at once are those of one."""
    predictor = make().fit(log)
    rows = replay(log, predictor.features)
    expected = predictor.predict_rows(rows)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: predictor.predict_rows(rows), range(8)):
            _equal(found, expected, "one of several threads, and one thread")


def check_no_prediction_looks_ahead(make: Make, log: JobLog) -> None:
    """With its future changed, a log's past gets the same predictions: from a fitted predictor, and in the loop."""
    first, second = _halves(log)
    report = audit_leakage(make().fit(first), second, instants=3)
    assert report.clean, str(report)
    report = audit_leakage(lambda log: _forecast(make(), log), log, instants=3)
    assert report.clean, str(report)


def check_slices_make_no_difference(make: Make, log: JobLog) -> None:
    """A forecast gets its events in slices of any length; its estimates are the same."""
    predictor, events = make(), log_events(log)
    whole, by_instant = np.full(len(log), np.nan), np.full(len(log), np.nan)
    forecast(predictor, log).advance(events, whole)
    live = forecast(predictor, log)
    for part in np.split(events, np.flatnonzero(np.diff(events[:, 0])) + 1):
        live.advance(part, by_instant)
    _equal(by_instant, whole, "events by instant, and all at once")
    assert np.isfinite(whole).all(), "a forecast is not a finite number"


def check_a_forked_forecast_goes_on_by_itself(make: Make, log: JobLog) -> None:
    """A copy made half way gives what the original would have given, whatever happens to the other."""
    events = log_events(log)
    half = len(events) // 2
    whole, forked, other = (np.full(len(log), np.nan) for _ in range(3))
    forecast(make(), log).advance(events, whole)
    live = forecast(make(), log)
    live.advance(events[:half], forked)
    copied = live.fork()
    faster = events[half:].copy()
    faster[:, 0] = events[half, 0] + (faster[:, 0] - events[half, 0]) // 2
    live.advance(faster, other)
    copied.advance(events[half:], forked)
    _equal(forked, whole, "a forecast copied half way, and a whole one")


def check_a_fitted_forecast_equals_predict(make: Make, log: JobLog) -> None:
    """Driven by the log's own events, a fitted predictor's forecast is what `predict` gives."""
    first, second = _halves(log)
    predictor = make().fit(first)
    _equal(_forecast(predictor, second), predictor.predict(second), "forecast and predict")


def check_saved_and_loaded_is_the_same(make: Make, log: JobLog) -> None:
    """A predictor comes back from its folder with its parameters, its history, and its predictions to the last bit."""
    first, second = _halves(log)
    for predictor in (make(), make().fit(first)):
        with tempfile.TemporaryDirectory() as folder:
            save(predictor, folder)
            loaded = load(folder)
        assert type(loaded) is type(predictor), f"saved {type(predictor).__name__}, loaded {type(loaded).__name__}"
        assert loaded.named_params() == predictor.named_params(), f"loaded {loaded!r}, saved {predictor!r}"
        _equal(loaded.predict(second), predictor.predict(second), "loaded and saved")
        assert loaded.starts_cold == predictor.starts_cold, "the history is lost"
    warm = loaded.predict(second, warm=True), predictor.predict(second, warm=True)
    _equal(*warm, "loaded and saved, with the history")


PREDICTOR_CHECKS: Final[tuple[Callable[[Make, JobLog], None], ...]] = (
    check_parameters_are_stored_and_cloned,
    check_nothing_known_means_the_request,
    check_predictions_lie_in_range,
    check_one_by_one_equals_all_at_once,
    check_fit_forgets,
    check_predicting_changes_nothing,
    check_threads_get_the_same,
    check_no_prediction_looks_ahead,
    check_slices_make_no_difference,
    check_a_forked_forecast_goes_on_by_itself,
    check_a_fitted_forecast_equals_predict,
    check_saved_and_loaded_is_the_same,
)


def log_to_check() -> JobLog:
    """Return a few users who come back, over four and a half days; some jobs ran for 0 s, some requests are unknown."""
    made = generate_log(360, seed=7, users=6)
    values = {column: array.copy() for column, array in made.values.items()}
    unknown = {column: array.copy() for column, array in made.unknown.items()}
    values["run_time"][::9] = 0
    unknown["requested_time"][5::20] = True
    return JobLog(values, unknown, epoch=made.epoch, name="small")


def _equal(found: npt.ArrayLike, expected: npt.ArrayLike, what: str) -> None:
    left, right = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert left.shape == right.shape, f"{what} have the shapes {left.shape} and {right.shape}"
    other = np.flatnonzero((left != right) & ~(np.isnan(left) & np.isnan(right)))
    if len(other):
        row = other[0]
        raise AssertionError(
            f"{what} give {left[row]:.9g} and {right[row]:.9g} s for row {row}; {len(other)} of {len(left)} rows differ"
        )


def _forecast(predictor: Predictor, log: JobLog) -> Floats:
    seconds = np.full(len(log), np.nan)
    forecast(predictor, log).advance(log_events(log), seconds)
    return seconds


def _halves(log: JobLog) -> tuple[JobLog, JobLog]:
    """Return a log's first jobs, and those submitted after all of the first have ended."""
    ends = log.filled("submit") + log.filled("wait", 0) + log.filled("run_time", 0)
    half = len(log) // 2
    later = log.filled("submit") > ends[:half].max()
    assert later.any(), "the check needs a longer log"
    return log.select(slice(half)), log.select(later)
