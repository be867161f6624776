"""Every registered predictor keeps the contract, and every check of the contract can fail."""

import numpy as np
import pytest
import sklearn.base
from sklearn.model_selection import GridSearchCV

from jobcast import JobcastError, JobLog, forecast, generate_log, load, make_predictor, save
from predictors.evaluation import checks
from predictors.evaluation.checks import PREDICTOR_CHECKS, log_to_check
from predictors.models.adapters.estimators import HistoryRegressor
from predictors.models.baselines import ColumnMean, LastTwo, Requested, Tsafrir, UserMean
from predictors.models.forest import Forest
from predictors.models.prediction import Prediction
from predictors.registry import PREDICTORS

pytestmark = pytest.mark.filterwarnings("ignore:logged. soft_walltime missing in all jobs")

SMALL = {
    "forest": {"n_estimators": 4, "max_nodes": 400, "refit_every": 12 * 3600},
    "boosted": {"n_estimators": 4, "refit_every": 24 * 3600},
    "average": {"n_boosted": 2, "n_forest": 2, "refit_every": 50 * 3600},
    "stack": {"n_boosted": 2, "n_forest": 2, "refit_every": 50 * 3600},
    "censored": {"n_estimators": 4, "refit_every": 24 * 3600},
    "chain": {"predictor": "boosted", "settings": {"n_estimators": 4, "refit_every": 24 * 3600}},
}
"""Models that are quick to learn, learnt anew twice to eight times within the log."""


@pytest.fixture(scope="module")
def log():
    return log_to_check()


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
@pytest.mark.parametrize("check", PREDICTOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictor_keeps_the_contract(name, check, log):
    check(lambda: make_predictor(name, **SMALL.get(name, {})), log)


# --- for each check, a predictor that breaks the promise ---


class ConstructorWorks(LastTwo):
    """Sets more than its parameters."""

    def __init__(self, *, cap=True, as_of="strict"):
        super().__init__(cap=cap, as_of=as_of)
        self.made_early = 1


class GuessesAnHour(LastTwo):
    """Predicts an hour where nothing is known."""

    def predict_rows(self, rows):
        return np.where(np.isnan(rows[:, 1]), 3600.0, super().predict_rows(rows))


class NeverCaps(LastTwo):
    """Predicts more than the request."""

    def predict_rows(self, rows):
        return super().predict_rows(rows) + 1.0


class OneIsRounded(LastTwo):
    """Rounds single predictions only."""

    def predict_one(self, row):
        return Prediction(float(round(super().predict_one(row).seconds)))


class NeverForgets(UserMean):
    """Adds up over fits."""

    def learn(self, rows, seconds):
        self.total_ = getattr(self, "total_", 0.0) + float(seconds.sum())
        return self.estimator

    def predict_rows(self, rows):
        return np.minimum(super().predict_rows(rows), 1 + getattr(self, "total_", 0.0) % 97)


class Counts(LastTwo):
    """Counts its predictions."""

    def predict_rows(self, rows):
        self.count_ = getattr(self, "count_", 0) + 1
        return super().predict_rows(rows)


class ForgetsWhereItIs(LastTwo):
    """Keeps the rows it works on where other threads find them."""

    def predict_rows(self, rows):
        self.turn_ = getattr(self, "turn_", 0) + 1
        return super().predict_rows(rows) + self.turn_


class Peeks(LastTwo):
    """Reads the answer."""

    def predict(self, jobs, *, warm=False):
        return np.maximum(jobs.filled("run_time"), 1).astype(float)


class _SlowForecast:
    """Estimates only what is submitted in the first second of a slice."""

    def __init__(self, forecast):
        self.forecast = forecast

    def advance(self, events, seconds):
        found = seconds.copy()
        self.forecast.advance(events, found)
        seconds[:] = np.where(np.isnan(seconds), found + len(events), seconds)


class MindsSlices(LastTwo):
    """Its forecasts depend on how events are handed over."""

    def own_forecast(self, log, *, learns, after):
        return _SlowForecast(super().own_forecast(log, learns=learns, after=after))


class _SharedForecast(_SlowForecast):
    """Is its own copy."""

    def advance(self, events, seconds):
        self.forecast.advance(events, seconds)

    def fork(self):
        return self


class ForksShare(LastTwo):
    """Its forecasts share their history with their copies."""

    def own_forecast(self, log, *, learns, after):
        return _SharedForecast(super().own_forecast(log, learns=learns, after=after))


class SavesNoCap(LastTwo):
    """Loses a parameter on its way to the disk."""

    def save_params(self, folder):
        return {"cap": not self.cap}


BROKEN = {
    checks.check_parameters_are_stored_and_cloned: ConstructorWorks,
    checks.check_nothing_known_means_the_request: GuessesAnHour, checks.check_predictions_lie_in_range: NeverCaps,
    checks.check_one_by_one_equals_all_at_once: OneIsRounded, checks.check_fit_forgets: NeverForgets,
    checks.check_predicting_changes_nothing: Counts, checks.check_threads_get_the_same: ForgetsWhereItIs,
    checks.check_no_prediction_looks_ahead: Peeks, checks.check_slices_make_no_difference: MindsSlices,
    checks.check_a_forked_forecast_goes_on_by_itself: ForksShare,
    checks.check_a_fitted_forecast_equals_predict: MindsSlices, checks.check_saved_and_loaded_is_the_same: SavesNoCap,
}  # fmt: skip


@pytest.mark.parametrize("check", PREDICTOR_CHECKS, ids=lambda check: check.__name__)
def test_check_rejects_its_broken_twin(check, log):
    with pytest.raises((AssertionError, JobcastError)):
        check(BROKEN[check], log)


# --- what each of the plain ones predicts, by hand ---

# Job  user  submit  wait  run   known at its submission
HAND = [
    (1, 1, 0, 0, 10),  # nothing
    (2, 1, 5, 0, 25),  # nothing: job 1 runs
    (3, 1, 10, 0, 8),  # job 1 (10 s), which ends in this second
    (4, 1, 40, 0, 5),  # jobs 3 (8 s, ended at 18) and 2 (25 s, at 30)
    (5, 2, 40, 0, 5),  # nothing of this user
    (6, 1, 99, 0, 5),  # jobs 2 and 4
]


@pytest.fixture(scope="module")
def by_hand():
    columns = np.array(HAND).T
    values = dict(zip(["job_id", "user", "submit", "wait", "run_time"], columns, strict=True))
    return JobLog.from_columns(values | {"requested_time": np.full(6, 30)}, {})


@pytest.mark.parametrize(
    ("predictor", "expected"),
    [
        (Requested(), [30, 30, 30, 30, 30, 30]),
        (LastTwo(), [30, 30, 10, 16.5, 30, 15]),
        (LastTwo(as_of="reis"), [30, 30, 30, 16.5, 30, 15]),
        (Tsafrir(), [30, 30, 30, 16, 30, 15]),
        (UserMean(), [30, 30, 10, 43 / 3, 30, 12]),
    ],
    ids=repr,
)
def test_the_plain_predictors_by_hand(predictor, expected, by_hand):
    assert predictor.predict(by_hand).tolist() == expected
    assert checks._forecast(predictor, by_hand).tolist() == expected


def test_cap_and_least_prediction(by_hand):
    rows = np.array([[30.0, 45.0], [30.0, 0.0], [0.0, 45.0], [np.nan, 45.0], [0.4, 45.0]])
    assert LastTwo().predict_rows(rows).tolist() == [30.0, 1.0, 45.0, 45.0, 1.0]
    assert LastTwo(cap=False).predict_rows(rows).tolist() == [45.0, 0.0, 45.0, 45.0, 45.0]
    assert [LastTwo().predict_one(row).seconds for row in rows] == [30.0, 1.0, 45.0, 45.0, 1.0]


# --- the interface ---


def test_a_wrong_name_or_parameter_gets_a_suggestion():
    with pytest.raises(JobcastError, match="No predictor 'forrest'; did you mean 'forest'"):
        make_predictor("forrest")
    with pytest.raises(JobcastError, match="No parameter of forest 'n_estimator'; did you mean 'n_estimators'"):
        make_predictor("forest", n_estimator=3)
    with pytest.raises(JobcastError, match="No as-of rule 'strickt'; did you mean 'strict'"):
        make_predictor("last-two", as_of="strickt").fit(generate_log(10))


@pytest.mark.parametrize(
    ("name", "params", "rule"),
    [
        ("forest", {"n_estimators": 0}, "a whole number, at least 1; got 0"),
        ("forest", {"n_estimators": 2.5}, "a whole number, at least 1; got 2.5"),
        ("forest", {"n_estimators": True}, "a whole number, at least 1; got True"),
        ("forest", {"max_features": 0.0}, "a share above 0, at most 1; got 0.0"),
        ("forest", {"max_features": 1.5}, "a share above 0, at most 1; got 1.5"),
        ("forest", {"max_features": None}, "a share above 0, at most 1; got None"),
        ("forest", {"min_samples_leaf": 0}, "a whole number, at least 1; got 0"),
        ("forest", {"max_nodes": 2}, "a whole number, at least 3; got 2"),
        ("forest", {"one_hot": 0}, "a whole number, at least 1, or None; got 0"),
        ("forest", {"random_state": -1}, "a whole number, at least 0; got -1"),
        ("forest", {"random_state": "a"}, "a whole number, at least 0; got 'a'"),
        ("forest", {"refit_every": 0}, "a finite number above 0, or None; got 0"),
        ("forest", {"window": 0}, "a whole number, at least 1; got 0"),
        ("forest", {"cap": "yes"}, "True or False; got 'yes'"),
        ("boosted", {"objective": "cubed"}, "one of squared, absolute, quantile; got 'cubed'"),
        ("boosted", {"target": "days"}, "one of seconds, residual, log; got 'days'"),
        ("boosted", {"quantile": 1.0}, "a share between 0 and 1; got 1.0"),
        ("boosted", {"n_estimators": 0}, "a whole number, at least 1; got 0"),
        ("boosted", {"learning_rate": 0}, "a share above 0, at most 1; got 0"),
        ("boosted", {"window": 0}, "a whole number, at least 1; got 0"),
        ("censored", {"distribution": "gumbel"}, "one of extreme, logistic, normal; got 'gumbel'"),
        ("censored", {"predicts": "mode"}, "one of median, mean; got 'mode'"),
        ("censored", {"scale": 0}, "a finite number above 0; got 0"),
        ("online-linear", {"rate": 0}, "a finite number above 0; got 0"),
        ("gaussier", {"rate": np.inf}, "a finite number above 0; got inf"),
        ("gaussier", {"ridge": -1.0}, "a finite number, not below 0; got -1.0"),
        ("online-tree", {"trees": 0}, "a whole number, at least 1; got 0"),
        ("online-tree", {"delta": 2.0}, "a share between 0 and 1; got 2.0"),
        ("online-tree", {"window": 1}, "a whole number, at least 2; got 1"),
    ],
)
def test_a_parameter_that_cannot_be_is_named_before_anything_is_learnt(name, params, rule, log):
    with pytest.raises(JobcastError, match=rf"^{name}: {next(iter(params))} must be {rule}\.$"):
        make_predictor(name, **params).fit(log)


@pytest.mark.parametrize("name", PREDICTORS)
def test_scikit_learn_clones_a_predictor(name):
    predictor = make_predictor(name, cap=False)
    copy = sklearn.base.clone(predictor)
    assert copy is not predictor and copy.named_params() == predictor.named_params()
    assert copy.get_params().keys() == predictor.get_params().keys()


@pytest.mark.parametrize("name", ["chain", "with-budget"])
def test_the_predictor_inside_is_a_part_for_scikit_learn(name, log):
    import pandas as pd

    from predictors.history.replay import replay

    predictor = make_predictor(name, predictor="forest", settings={"n_estimators": 3})
    assert sklearn.base.clone(predictor).set_params(predictor__n_estimators=2).made().n_estimators == 2
    assert predictor.get_params()["predictor__n_estimators"] == 3
    grid = GridSearchCV(HistoryRegressor(predictor), {"predictor__predictor__n_estimators": [1, 2]}, cv=2)
    table = pd.DataFrame(replay(log, predictor.features), columns=list(predictor.features))[:200]
    assert grid.fit(table, np.arange(1.0, 201.0)).best_estimator_.predict(table).shape == (200,)
    with pytest.raises(JobcastError, match="settings must be a mapping of names to values; got 3"):
        make_predictor(name, settings=3)


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_registered_name_is_the_class_name(name):
    assert PREDICTORS[name].name == name and make_predictor(name).features.count("requested_time") == 1


def test_a_table_of_features_serves_as_well_as_a_log(log):
    import pandas as pd

    from predictors.history.replay import replay

    predictor = Forest(**SMALL["forest"]).fit(log)
    ran = log.filled("run_time") > 0
    table = pd.DataFrame(replay(log, predictor.features), columns=list(predictor.features))
    from_table = Forest(**SMALL["forest"]).fit(table[ran], log.filled("run_time")[ran])
    np.testing.assert_array_equal(from_table.predict(table), predictor.predict(log))
    with pytest.raises(JobcastError, match="lacks 'group'"):
        predictor.predict(table.drop(columns="group"))
    with pytest.raises(JobcastError, match="needs the run times as well"):
        predictor.fit(table)


def test_nothing_to_learn_from_is_an_error(log):
    with pytest.raises(JobcastError, match="needs at least one job that ended"):
        LastTwo().fit(log.select(log.filled("run_time") == 0))
    with pytest.raises(JobcastError, match="one run time a job"):
        LastTwo().fit_rows(np.ones((2, 2)), np.ones(3))
    with pytest.raises(JobcastError, match="finite run times"):
        LastTwo().fit_rows(np.ones((2, 2)), np.array([1.0, np.nan]))
    with pytest.raises(JobcastError, match=r"rows of 2 features; got shape \(2, 3\)"):
        LastTwo().predict_rows(np.ones((2, 3)))


def test_warm_starts_know_the_users_of_the_log_before(by_hand):
    whole = JobLog(by_hand.values, by_hand.unknown, epoch=1_000_000)
    first, last = whole.select(slice(5)), whole.select([5])
    predictor = LastTwo().fit(first)
    assert predictor.predict(last).tolist() == [30.0]
    assert predictor.predict(last, warm=True).tolist() == [15.0]
    seconds = np.full(1, np.nan)
    forecast(predictor, last, warm=True).advance(np.array([[0, 0, 0]]), seconds)
    assert seconds.tolist() == [15.0]
    with pytest.raises(JobcastError, match="carries no history"):
        LastTwo().predict(last, warm=True)


def test_a_column_mean_is_missing_if_a_column_is():
    rows = np.array([[9.0, 1.0, 2.0], [9.0, np.nan, 2.0]])
    np.testing.assert_array_equal(ColumnMean(first=1).predict(rows), [1.5, np.nan])
    np.testing.assert_array_equal(ColumnMean(first=1, whole=True).predict(rows), [1.0, np.nan])


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(JobcastError, match=r"predictor\.json: cannot be read"):
        load(tmp_path)
    with pytest.raises(JobcastError, match="is not a folder"):
        save(LastTwo(), tmp_path / "nowhere")
