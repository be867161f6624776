"""Classifiers of variability in MLflow: what goes in comes out by every address, and never as another kind of model."""

from pathlib import Path

import numpy as np
import pytest

from predictors import tracking
from predictors.data.errors import JobcastError
from predictors.data.runs import Runs
from predictors.data.synthetic import generate_log
from predictors.registry import make_predictor
from predictors.saved.classifier_folder import ClassifierOrigin, save_classifier
from predictors.saved.served_classifier import OUTPUTS
from predictors.saved.store import Store
from predictors.variability.dataset import Dataset
from predictors.variability.features import FEATURES
from predictors.variability.registry import CLASSIFIERS, make_classifier

SMALL = {"knn": {}, "calibrated": {"inner": "extra-trees", "inner_params": {"n_estimators": 5}, "folds": 2}}


def dataset(n=80):
    rng = np.random.default_rng(0)
    load = rng.uniform(0, 1, n)
    windows = np.column_stack([load, rng.normal(size=(n, 269))])
    windows[3, 5] = np.nan
    start = np.arange(n) * 100.0
    runs = Runs.of(
        job_id=np.arange(n),
        application=["AMG", "LBANN"] * (n // 2),
        nodes=[range(16)] * n,
        start=start,
        end=start + 100 + 200 * (load > 0.85) + rng.normal(0, 1, n),
        workload=["compute", "io"] * (n // 2),
    )
    return Dataset.build(runs, windows, "job")[0]


DATA = dataset()


def fitted(name, **params):
    labels = DATA.labels(scheme="three")
    model = make_classifier(name, **{**SMALL.get(name, {"n_estimators": 5}), **params})
    known = labels.known
    return model.fit(
        DATA.rows[known],
        labels.classes[known],
        features=FEATURES,
        scheme="three",
        applications=DATA.runs.application[known],
    ), labels


def logged(name="extra-trees", **params):
    model, labels = fitted(name, **params)
    return tracking.log_classifier(model, DATA, labels, {"f1": 0.5}, split="all runs", name="control", seed=1), model


def folder_of(run):
    from mlflow import MlflowClient

    return Path(MlflowClient(Store.current().uri).get_logged_model(run.model_id).artifact_location)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_comes_back_exactly_by_every_address(home, name):
    run, model = logged(name)
    tracking.register(run, "variability", "champion")
    addresses = ["models:/variability@champion", run.uri]
    if name == "extra-trees":
        addresses += ["models:/variability/1", f"runs:/{run.run_id}", str(folder_of(run))]
    for uri in addresses:
        back = tracking.load_classifier(uri)
        np.testing.assert_array_equal(
            back.classifier.predict_proba(DATA.rows, features=FEATURES),
            model.predict_proba(DATA.rows, features=FEATURES),
        )
        assert (back.origin.classifier, back.origin.scope, back.sha256) == (name, "job", run.sha256)
        assert back.classifier.get_params() == model.get_params()


def test_a_loaded_classifier_says_where_it_came_from(home):
    run, _ = logged()
    tracking.register(run, "variability", "champion")
    loaded = tracking.load_classifier("models:/variability@champion")
    about = loaded.about()
    assert (about["name"], about["version"], about["alias"]) == ("variability", 1, "champion")
    assert about["dataset_sha256"] == DATA.digest() and about["n_runs"] == 80 and "norms" not in about
    assert loaded.origin.trained_until == DATA.runs.end.max()
    assert loaded.origin.trained_until_utc.startswith("1970-01-01T02:1")
    assert loaded.origin.norms_of() == DATA.labels().norms


def test_mlflow_serves_rows_of_inputs(home):
    import mlflow.pyfunc

    run, model = logged()
    served = mlflow.pyfunc.load_model(str(folder_of(run)))
    table = DATA.to_frame()[list(model.features_)]
    found = served.predict(table)
    assert list(found.columns) == list(OUTPUTS)
    np.testing.assert_array_equal(found["class"], model.predict(table))
    empty = table.assign(
        **{name: np.nan for name in table.columns if "wait" in name or name[:3] in ("min", "max", "mea")}
    )
    said = served.predict(empty)
    assert said["abstained"].all() and (said["class"] == 0).all() and (said["why"] == "window").all()
    with pytest.raises(Exception, match="is_io"):
        served.predict(table.drop(columns="is_io"))


def test_a_classifier_for_known_applications_asks_which_it_is(home):
    import mlflow.pyfunc

    run, model = logged(seen_only=True)
    served = mlflow.pyfunc.load_model(str(folder_of(run)))
    table = DATA.to_frame()[list(model.features_)].assign(application=["AMG"] * 40 + ["new"] * 40)
    assert (served.predict(table)["why"] == "unseen").sum() == 40


def test_a_model_is_never_taken_for_one_of_another_kind(home, tmp_path):
    run, _ = logged()
    with pytest.raises(JobcastError, match="model of variability, not of run time; ask it with `jobcast variability"):
        tracking.load_model(run.uri)
    log = generate_log(50, seed=1)
    other = tracking.log_run(make_predictor("last-two").fit(log), log, {}, split="all")
    with pytest.raises(JobcastError, match="model of run time, not of variability; ask it with `jobcast predict`"):
        tracking.load_classifier(other.uri)


def test_a_changed_file_is_refused(home):
    run, _ = logged()
    path = folder_of(run) / "data" / "predictor" / "classifier.json"
    path.write_text(path.read_text().replace('"params"', '"Params"'))
    with pytest.raises(JobcastError, match="was changed since the model was saved"):
        tracking.load_classifier(run.uri)


def test_a_folder_without_its_origin_is_refused(tmp_path):
    model, labels = fitted("knn")
    save_classifier(model, tmp_path, ClassifierOrigin.of(model, DATA, labels, "control"))
    assert tracking.load_classifier(str(tmp_path)).origin.dataset == "control"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"scope"', '"scoop"'))
    with pytest.raises(JobcastError, match="lacks 'scope'"):
        tracking.load_classifier(str(tmp_path))
