"""Learning in the loop: when an end may be learnt from, and what wrappers hand on."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, forecast, generate_log, make_predictor
from predictors.history import _layout as at
from predictors.history.features import FEATURES
from predictors.history.history import Outcome, Outcomes
from predictors.history.replay import LogHistory, log_events
from predictors.models.stream import ALL_FAMILIES, OutcomeStream, has_full_history, keep_full_history
from tests.oracle.history import LoggedJob, as_log

# One user; the second job is submitted in the second in which the first ends, the third one second later.
THREE = as_log(
    [
        LoggedJob(1, 0, 0, 100, 4, 6000, 7, 1, 1),
        LoggedJob(2, 100, 0, 50, 4, 6000, 7, 1, 1),
        LoggedJob(3, 101, 0, 50, 4, 6000, 7, 1, 1),
    ],
    epoch=0,
)


@pytest.mark.parametrize("slices", ["one", "each second", "each event"])
@pytest.mark.parametrize("name", ["online-linear", "online-tree"])
def test_an_end_in_the_second_of_a_submission_is_learnt_from_by_the_strict_rule_only(name, slices):
    events = log_events(THREE)
    cuts = {"one": [], "each second": np.flatnonzero(np.diff(events[:, 0])) + 1, "each event": range(1, len(events))}
    for rule, is_late in (("strict", False), ("reis", True)):
        seconds = np.full(3, np.nan)
        live = forecast(make_predictor(name, as_of=rule), THREE)
        for part in np.split(events, cuts[slices]):
            live.advance(part, seconds)
        assert seconds[0] == 6000
        assert (seconds[1] == 6000) == is_late, f"{rule}: {seconds}"
        assert seconds[2] < 6000
        assert live.learnt().fitted


@pytest.mark.parametrize(("stopped", "again", "seconds"), [(180, 300, 71), (120, 150, 61)])
def test_a_job_that_runs_again_outruns_its_prediction_once(stopped, again, seconds):
    """By its run that lasts longer than 60 s: the first from 109 on, or the second, 61 s after its begin."""
    seen = []
    stream = OutcomeStream(make_predictor("with-budget"), seen.append)
    stream.submitted(1, np.zeros(2), issued=60.0)
    stream.started(1, time=109)
    stream.catch_up(stopped)
    stream.returned(1)
    assert len(stream.running(stopped)) == 0
    stream.started(1, time=again)
    for now in (again + 50, again + 61, again + 99):
        stream.catch_up(now)
    stream.ended(1, time=again + 250, seconds=250.0)
    assert [(one.seconds, one.observed, one.told) for one in seen] == [(seconds, False, False), (250, True, True)]


def test_a_chain_hands_running_jobs_on_with_the_columns_of_the_predictor_inside():
    chain = make_predictor("chain", predictor="censored", settings={"n_estimators": 2})
    assert chain.learns_from_running and not make_predictor("chain", predictor="similar").learns_from_running
    width = len(chain.features)

    def running(now):
        rows = np.arange(2.0 * width).reshape(2, width)
        return Outcomes(rows, np.zeros(2), np.full(2, float(now)), np.zeros(2, bool), np.full(2, now))

    chain.watch(running)
    chain.learn_one(Outcome(np.full(width, 5.0), 9.0, 70.0, True, 70))
    inside = vars(chain.base_)["_running"](33)
    assert inside.rows.shape == (2, len(chain.base_.features)) and inside.seconds.tolist() == [33, 33]


def test_a_copied_forecast_asks_itself_who_runs():
    """Within wrappers as well: the copy's jobs, not the original's."""
    for name in ("chain", "with-budget"):
        live = forecast(make_predictor(name, predictor="censored", settings={"n_estimators": 2}), THREE)
        events, seconds = log_events(THREE), np.full(3, np.nan)
        live.advance(events[events[:, 0] <= 100], seconds)
        twin = live.fork()
        live.advance(events[events[:, 0] > 100], seconds)
        asked = vars(twin.predictor.base_)["_running"](120)
        assert asked.seconds.tolist() == [20.0], name
        assert len(vars(live.predictor.base_)["_running"](200)) == 0


@pytest.mark.parametrize("name", ["cesnet", "metastack"])
def test_an_older_history_without_codes_of_runs_is_refused_not_passed_over(name):
    """Its single runs cannot be told apart by request, queue and partition."""
    log = generate_log(80, seed=2, users=3)
    first, later = log.select(slice(0, 40)), log.select(slice(40, 80))
    ended = int((first.filled("submit") + first.filled("wait") + first.filled("run_time")).max())
    later = replace(later, epoch=later.epoch + ended)
    model = make_predictor(name).fit(first)
    keep_full_history(model, first)
    assert len(model.predict(later, warm=True)) == 40
    older = [feature for feature in ALL_FAMILIES if not FEATURES[feature].family & at.PRODUCTION_FAMILY]
    history = LogHistory(first, older, model.as_of)
    model.history_ = history.live(history.replayed())
    assert has_full_history(model.history_)
    with pytest.raises(JobcastError, match="kept no codes of single runs: train the model again"):
        model.predict(later, warm=True)
    likeness = make_predictor("similar").fit(first)  # features that need no codes go on
    likeness.history_ = model.history_
    assert len(likeness.predict(later, warm=True)) == 40
