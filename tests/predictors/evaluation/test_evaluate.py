"""Splits, protocols, slices and intervals, on logs small enough to work by hand, and on real ones."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, Predictor, evaluate, forecast, generate_log, make_predictor, read_log
from predictors.core.intervals import ratio_interval
from predictors.evaluation.evaluate import jobs_that_count
from predictors.history.replay import log_events
from predictors.models.baselines import LastTwo, SimilarMean, UserMean
from predictors.models.forest import Forest

# id user submit wait run requested partition; one user, 10 jobs; a day apart but for 6 to 8
TABLE = [
    (1, 1, 0, 0, 100, 600, 1),
    (2, 1, 1000, 0, 200, 600, 1),
    (3, 1, 2000, 0, 0, 600, 1),  # ran for 0 s
    (4, 1, 3000, 0, 300, 600, 1),
    (5, 1, 4000, 0, 400, 600, 2),
    (6, 1, 5000, 0, 500, 600, 1),
    (7, 1, 5500, 0, 600, 300, 1),  # the job before ends in this second
    (8, 1, 6000, 0, 9000, 9000, 1),  # ends after the last submission: no training job
    (9, 1, 7000, 0, 100, 600, 2),
    (10, 1, 8000, 0, 350, 200, 2),
]


@pytest.fixture(scope="module")
def log():
    names = ("job_id", "user", "submit", "wait", "run_time", "requested_time", "partition")
    columns = dict(zip(names, np.array(TABLE).T, strict=True))
    return JobLog.from_columns(columns, {}, epoch=1_706_659_200, name="by hand")  # 31 January 2024


def test_strict_by_hand(log):
    """Nine jobs ran; the first 7 (by .8) are 1, 2, 4 to 8, of which 8 has not ended when 9 is submitted."""
    found = evaluate(log, ["requested", "user-mean"])
    assert (found.n_train, found.n_test, found.split, found.protocol) == (6, 2, "train 0.8", "strict")
    assert [score.name for score in found.scores] == ["last-two", "requested", "user-mean"]
    # job 9: last two 500 and 600 of jobs 6 and 7; job 10: 600 and 100, cut at the request
    assert found["last-two"].predicted.tolist() == [550.0, 200.0]
    assert found["last-two"].figures.sse_s2 == 450**2 + 150**2
    assert found["requested"].predicted.tolist() == [600.0, 200.0]
    assert found["requested"].figures.sse_ratio_to_last_two == (500**2 + 150**2) / (450**2 + 150**2)
    assert found["user-mean"].predicted.tolist() == [(100 + 200 + 300 + 400 + 500 + 600) / 6, 200.0]


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
@pytest.mark.parametrize(("run_time", "n_train"), [(999, 2), (1000, 1), (1001, 1)])
def test_a_training_job_has_ended_before_the_first_test_submission(run_time, n_train):
    """That is at 2,000 s; the second of three jobs starts at 1,000 s."""
    columns = {"job_id": [1, 2, 3], "submit": [0, 500, 2000], "wait": [0, 500, 0], "run_time": [9, run_time, 9]}
    one = JobLog.from_columns(columns | {"requested_time": [9999] * 3}, {})
    assert evaluate(one, [], train=0.7).n_train == n_train
    assert evaluate(one, [], train=0.7, protocol="reis").n_train == 2


def test_reis_by_hand(log):
    """All ten jobs; 8 train, unended ones too; nothing is capped; a job that ends in the same second is not known."""
    found = evaluate(log, [], protocol="reis")
    assert (found.n_train, found.n_test, found.capped) == (8, 2, False)
    assert found["last-two"].predicted.tolist() == [550.0, 350.0]
    wider = evaluate(log, [], protocol="reis", train=0.5)
    # jobs 6 to 10: (300+400)/2, (400+300)/2 for job 6 ends in the second of 7, (500+400)/2, …
    assert wider["last-two"].predicted.tolist() == [350.0, 350.0, 450.0, 550.0, 350.0]
    assert evaluate(log, [], train=0.5)["last-two"].predicted.tolist() == [350.0, 300.0, 450.0, 550.0, 200.0]


def test_strict_leaves_jobs_of_zero_seconds_out_of_the_history_too(log):
    early = evaluate(log, [], train=0.25)  # jobs 4 to 10 are tested
    assert early["last-two"].predicted[0] == 150.0
    assert evaluate(log, [], train=0.3, protocol="reis")["last-two"].predicted[0] == 100.0


def test_prequential_predicts_every_job(log):
    found = evaluate(log, ["tsafrir"], train=None)
    assert (found.split, found.n_train, found.n_test) == ("prequential", 0, 9)
    assert found["last-two"].predicted.tolist() == [600.0, 100.0, 150.0, 250.0, 350.0, 300.0, 450.0, 550.0, 200.0]
    assert found["tsafrir"].predicted.tolist() == [600.0, 600.0, 150.0, 250.0, 350.0, 300.0, 450.0, 550.0, 200.0]


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_a_partition_is_a_log_of_its_own(log):
    found = evaluate(log, [], train=0.5, partition=2)
    assert found.n_test == 2 and found["last-two"].predicted.tolist() == [400.0, 200.0]
    with pytest.raises(JobcastError, match="has no job in partition 3; its partitions are 1, 2"):
        evaluate(log, [], partition=3)


def test_slices_by_hand(log):
    parts = {(s.by, s.label): s.figures for s in evaluate(log, [], train=None)["last-two"].slices}
    assert {key: one.n_test for key, one in parts.items()} == {
        ("run time", "<= 10 min"): 8, ("run time", "<= 4 h"): 1, ("user", "warm"): 8, ("user", "cold"): 1,
        ("month", "2024-01"): 9,
    }  # fmt: skip
    assert parts["user", "cold"].sse_s2 == 500**2
    assert parts["run time", "<= 4 h"].mae_s == 9000 - 450


def test_months_are_the_machines():
    """The first second of February in Tokyo is still January in Paris."""
    at = 1_706_713_200  # 31 January 2024, 15:00 UTC
    for zone, months in (("Asia/Tokyo", ["2024-02"]), ("Europe/Paris", ["2024-01"]), (None, ["2024-01"])):
        columns = {"job_id": [1, 2], "submit": [0, 9], "wait": [0, 0], "run_time": [5, 5], "requested_time": [9, 9]}
        one = JobLog.from_columns(columns, {}, epoch=at, time_zone=zone)
        slices = evaluate(one, [], train=None)["last-two"].slices
        assert [s.label for s in slices if s.by == "month"] == months


def test_the_document_of_the_command_line(log):
    document = json.loads(json.dumps(evaluate(log, ["requested"]).to_json()))
    assert list(document) == [
        "lacks", "log", "split", "protocol", "n_train", "n_test", "n_overran", "baseline", "predictors",
    ]  # fmt: skip
    assert document["baseline"] == {"name": "last-two", "capped": True, "rows": 2}
    assert list(document["predictors"][0]) == [
        "name", "n_test", "sse_s2", "sse_ratio_to_last_two", "mae_s", "rmse_s", "median_ae_s", "r2", "mean_accuracy",
        "underestimation_rate", "sse_ratio_interval", "fit_seconds", "predict_us_per_job", "n_fallback",
    ]  # fmt: skip
    detailed = evaluate(log, ["requested"]).to_json(detailed=True)["predictors"][1]
    assert np.isnan(detailed["sse_ratio_interval"]).all()  # one user only
    assert {part["by"] for part in detailed["slices"]} == {"run time", "user", "month"}


def test_a_callers_predictors_keep_their_names_but_follow_the_protocol(log):
    mine = UserMean(cap=False)
    found = evaluate(log, {"a": mine, "b": LastTwo(as_of="reis"), "last-two": mine})
    assert [score.name for score in found.scores] == ["last-two", "a", "b"]
    assert isinstance(found["last-two"].predictor, LastTwo)
    assert found["a"].predicted.max() <= 600 and mine.cap is False
    np.testing.assert_array_equal(found["b"].predicted, found["last-two"].predicted)


def test_the_seed_is_the_forests(log):
    small = generate_log(200, seed=2, users=5)
    assert evaluate(small, ["forest"], seed=4)["forest"].predictor.random_state == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": 1.0}, "between 0 and 1, such as 0.8; got 1"),
        ({"train": 0.0}, "between 0 and 1"),
        ({"train": 0.01}, "no job of the first 1 % had ended before the split"),
        ({"protocol": "ries"}, "No protocol 'ries'; did you mean 'reis'"),
        ({"predictors": ["last-tow"]}, "No predictor 'last-tow'; did you mean 'last-two'"),
    ],
)
def test_what_cannot_be_evaluated_is_said(arguments, message, log):
    with pytest.raises(JobcastError, match=message):
        evaluate(log, **arguments)


def test_a_log_without_run_times_cannot_be_evaluated(log):
    with pytest.raises(JobcastError, match="by hand: 0 jobs with a known run time; at least 2"):
        evaluate(JobLog(log.values, {"run_time": np.ones(10, dtype=bool)}, name="by hand"), [])


# --- intervals ---


def test_an_interval_over_users_by_hand():
    """Two users: both drawn once (half of the draws), or one of them twice: the ratio is 1/2, 0 or 1."""
    squares, baseline = np.array([0.0, 2.0]), np.array([2.0, 2.0])
    assert ratio_interval([1, 2], squares, baseline) == (0.0, 1.0)
    assert ratio_interval([1, 2], squares, baseline, level=0.1) == (0.5, 0.5)


def test_the_baseline_is_drawn_with_the_users():
    """The first user twice: 1/1; both: 1/4; the second twice: 0."""
    assert ratio_interval([1, 2], np.array([1.0, 0.0]), np.array([1.0, 3.0])) == (0.0, 1.0)


def test_many_jobs_of_one_user_are_one_draw():
    random = np.random.default_rng(0)
    squares, baseline = random.random(1000), np.ones(1000)
    low, high = ratio_interval(np.arange(1000), squares, baseline)
    assert high - low < 0.06
    low, high = ratio_interval(np.arange(1000) % 2, np.where(np.arange(1000) % 2, squares, 0.0), baseline)
    assert high - low > 0.4


def test_an_interval_without_jobs_or_errors_is_not_there():
    assert np.isnan(ratio_interval([], np.empty(0), np.empty(0))).all()
    assert np.isnan(ratio_interval([1], np.ones(1), np.zeros(1))).all()
    assert ratio_interval([1, 2, 3], np.arange(3.0), np.ones(3), seed=1) == ratio_interval(
        [1, 2, 3], np.arange(3.0), np.ones(3), seed=1
    )


# --- real logs ---


@pytest.mark.slow
def test_curie_by_the_papers_protocol(trace):
    """The baseline recomputed: 1.241909e13 s²; the paper prints 1.24186e13."""
    log, _ = read_log(trace("CEA-Curie-2011-2.1-cln"))
    found = evaluate(log, [], protocol="reis")
    assert (len(log), found.n_train, found.n_test) == (312_826, 250_260, 62_566)
    assert found["last-two"].figures.sse_s2 == pytest.approx(1.241909e13, rel=1e-6)
    strict = evaluate(log, ["requested", "user-mean"])
    assert strict["last-two"].figures.sse_s2 == pytest.approx(1.0315e13, rel=1e-4)
    assert strict["requested"].figures.sse_ratio_to_last_two == pytest.approx(21.2, abs=0.05)
    assert strict["user-mean"].figures.sse_ratio_to_last_two == pytest.approx(1.03, abs=0.005)


@pytest.mark.slow
def test_kth_beside_other_programs(trace):
    """Ratios found by others on the same split: requested .574, mean of the user .990, forest near .39."""
    log, _ = read_log(trace("KTH-SP2-1996-2.1-cln"))
    found = evaluate(log, {"forest": Forest(n_estimators=30)})
    assert found["forest"].figures.sse_ratio_to_last_two == pytest.approx(0.39, abs=0.08)
    low, high = found["forest"].interval
    assert low < found["forest"].figures.sse_ratio_to_last_two < high
    plain = evaluate(log, ["requested", "user-mean"])
    assert plain["requested"].figures.sse_ratio_to_last_two == pytest.approx(0.574, abs=5e-4)
    assert plain["user-mean"].figures.sse_ratio_to_last_two == pytest.approx(0.990, abs=5e-4)


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_the_seed_reaches_the_predictor_within_a_budget(log):
    scores = evaluate(log, ["forest", "user-mean"], budget=0.1, seed=3).scores
    assert [score.predictor.named_params()["settings"] for score in scores[1:]] == [{"random_state": 3}, None]


@dataclass(frozen=True)
class Always:
    """An estimator that has one answer."""

    value: float

    def predict(self, rows):
        """Answer for many."""
        return np.full(len(rows), self.value)

    def predict_one(self, row):
        """Answer for one."""
        return self.value


@dataclass(kw_only=True, eq=False, repr=False)
class Odd(Predictor):
    """A model from elsewhere that answers no time."""

    name = "odd"
    features = ("requested_time",)

    value: float = 0.0

    def learn(self, rows, seconds):
        """Learn nothing."""
        return Always(self.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("protocol", ["strict", "reis"])
def test_answers_that_are_no_time_are_counted(log, value, protocol):
    """The request stands in for each, in a batch and in a stream, and the score says for how many jobs."""
    for train in (0.8, None):
        found = evaluate(log, {"odd": Odd(value=value), "sane": Odd(value=60.0)}, train=train, protocol=protocol)
        asked = evaluate(log, ["requested"], train=train, protocol=protocol)["requested"]
        assert found["odd"].predicted.tolist() == asked.predicted.tolist()
        assert (found["odd"].n_fallback, asked.n_fallback) == (found.n_test, 0)
        assert found["odd"].to_json()["n_fallback"] == found.n_test
        assert found["sane"].n_fallback == (0 if train else found.n_test)


@pytest.mark.parametrize("protocol", ["strict", "reis"])
def test_compiled_streams_count_the_jobs_without_an_estimate(protocol):
    """What reads its answer off the history lacks one without a history, what learns online before the first end."""
    log = generate_log(200, seed=3, procs=64, users=12)
    names = ["last-two", "user-mean", "similar", "online-linear", "gaussier"]
    found = evaluate(log, names, train=None, protocol=protocol)
    jobs, _ = jobs_that_count(log, protocol)
    for name in names[:3]:
        one = make_predictor(name, as_of=protocol)
        assert found[name].n_fallback == (one.answered_by(one.rows(jobs)) == "requested").sum() > 0
    submit, ran = jobs.filled("submit"), jobs.filled("run_time")
    first = (submit + jobs.filled("wait", 0) + ran)[ran > 0].min()
    before = int((submit <= first).sum() if protocol == "reis" else (submit < first).sum())
    assert found["online-linear"].n_fallback == found["gaussier"].n_fallback == before > 0


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_answers_that_are_no_time_are_counted_in_the_loop(log, value):
    model = Odd(value=value).fit(log)
    live, seconds = forecast(model, log), np.full(len(log), np.nan)
    live.advance(log_events(log), seconds)
    assert live.n_fallback == len(log) and seconds.tolist() == log["requested_time"].tolist()
    assert set(model.answered_by(model.rows(log))) == {"requested"}
    assert model.predict_one(model.rows(log)[0])[:3] == (600.0, True, "requested")


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_where_nobody_kills_predictions_may_lie_beyond_the_request():
    """Run times are those of the log under both; only the cap differs, and what is left out is told."""
    n = 60
    columns = {
        "submit": np.arange(n) * 1000,
        "wait": np.zeros(n),
        "run_time": np.full(n, 500),
        "user": np.arange(n) % 2,
    }
    columns["run_time"][:3] = 0
    log = JobLog.from_columns({"job_id": np.arange(n), "requested_time": np.full(n, 300), **columns}, {})
    killed, running_on = evaluate(log, []), evaluate(log, [], kill=False)
    assert killed.n_overran == running_on.n_overran == killed.n_test == 12
    assert (killed.capped, running_on.capped) == (True, False)
    assert killed["last-two"].predicted.max() == 300 and running_on["last-two"].predicted.min() == 500
    assert running_on["last-two"].figures.mae_s == 0 < killed["last-two"].figures.mae_s
    for found in (killed, running_on):
        account = found.account
        assert (account.read, account.used, account.count("ran-for-0-s")) == (n, n - 3, 3)


# --- recommendations ---


def test_each_purpose_is_served_by_the_one_with_the_least_figure():
    log, names = generate_log(900, seed=3, users=30), ["requested", "similar", "similar-mean", "online-linear"]
    found = evaluate(log, names)
    best = {one.purpose: one for one in found.recommendations()}
    assert list(best) == ["squared error", "typical job", "never too short", "no training"]
    for purpose, figure in (
        ("squared error", "sse_ratio_to_last_two"),
        ("typical job", "median_ae_s"),
        ("never too short", "underestimation_rate"),
    ):
        figures = {score.name: getattr(score.figures, figure) for score in found.scores}
        one = best[purpose]
        assert one.figure == figure and one.value == figures[one.predictor] == min(figures.values())
        low, high = one.interval
        assert low <= one.value <= high
        assert one.predictor in one.sentence and one.resampled in one.sentence
    assert best["no training"].predictor != "online-linear", "it learns"
    assert best["squared error"].interval == pytest.approx(found[best["squared error"].predictor].interval)
    assert found.recommendations() == found.recommendations()


def test_who_may_be_as_good_is_named_and_who_is_surely_worse_is_not():
    log = generate_log(900, seed=3, users=30)
    found = evaluate(log, {"one": SimilarMean(), "same": SimilarMean()})
    squared = found.recommendations()[0]
    assert squared.predictor == "one" and squared.within_noise == ("same",)
    assert squared.beats_last_two, "so last-two is not among those"
    assert "Within the noise: same" in squared.sentence


def test_too_few_users_and_weeks_give_no_interval_and_no_doubt():
    log = generate_log(200, seed=3, users=3)
    for one in evaluate(log, ["similar", "requested"]).recommendations():
        assert one.interval is None and one.within_noise == () and "no interval" in one.sentence


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_requests_that_no_job_has_are_not_recommended():
    log = generate_log(300, seed=3, users=30)
    bare = JobLog.from_columns(
        {name: log.filled(name) for name in log.values if name != "requested_time"}, {}, max_procs=log.max_procs
    )
    for jobs, taken in ((log, True), (bare, False)):
        found = evaluate(jobs, ["requested", "similar"]).recommendations()
        assert any("requested" in (one.predictor, *one.within_noise) for one in found) == taken


def test_progress_is_told_after_each_predictor():
    seen = []
    evaluate(generate_log(100, seed=3), ["requested", "similar"], done=seen.append)
    assert seen == [1, 1, 1]
