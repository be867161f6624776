"""Runs, predictors and classifiers in MLflow: what goes in comes out, what is foreign or changed is refused."""

import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jobcast import JobcastError, generate_log, make_predictor, replay
from predictors.data.formats.swf import write_swf
from predictors.registry import PREDICTORS
from predictors.tracking import client as tracking
from predictors.tracking import model_folder as files
from predictors.tracking.describe import code_tags
from predictors.tracking.model_folder import ClassifierOrigin, save_model
from predictors.tracking.pyfunc import OUTPUT, REQUIRED
from predictors.tracking.pyfunc_classifier import OUTPUTS
from predictors.tracking.store import Store, serve_pages
from predictors.tracking.uri import ALIASES
from predictors.variability.classifiers.registry import CLASSIFIERS, make_classifier
from predictors.variability.features import FEATURES
from predictors.variability.labels import Norms
from tests.support.killing import free_port
from tests.support.slow import slow_but
from tests.support.small_models import SMALL
from tests.support.variability_data import dataset

LOG = generate_log(300, seed=3)


def logged(name="last-two", predictor=None):
    predictor = predictor or make_predictor(name, **SMALL.get(name, {})).fit(LOG)
    figures = {"mae_s": 12.5, "r2": float("nan")}
    return tracking.log_run(predictor, LOG, figures, split="first 80 % of jobs", seed=7, trained_until=900)


@contextmanager
def store_in(folder, template):
    """A copy of a store, in use."""
    shutil.copytree(template, folder / "mlruns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOBCAST_HOME", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def put_aside(folder):
    """Return a store that was moved, so that copies of it are read themselves: it holds absolute paths."""
    return (folder / "mlruns").rename(folder / "template")


@pytest.fixture(scope="module")
def champion(tmp_path_factory, empty_store):
    """A store that holds one model, and the model's run."""
    with store_in(tmp_path_factory.mktemp("champion"), empty_store) as folder:
        run = logged()
        tracking.register(run, "runtime", "champion")
        return put_aside(folder), run


@pytest.fixture
def kept(champion, tmp_path):
    """The run of a model that is there, in a copy of its store: keeping one takes a quarter of a second."""
    template, run = champion
    with store_in(tmp_path, template):
        yield run


@pytest.fixture(scope="module")
def champion_classifier(tmp_path_factory, empty_store):
    with store_in(tmp_path_factory.mktemp("champion"), empty_store) as folder:
        run, model = logged_classifier()
        tracking.register(run, "variability", "champion")
        return put_aside(folder), run, model


@pytest.fixture
def kept_classifier(champion_classifier, tmp_path):
    """The run of a classifier that is there, and the classifier."""
    template, run, model = champion_classifier
    with store_in(tmp_path, template):
        yield run, model


def client():
    from mlflow import MlflowClient

    return MlflowClient(Store.current().uri)


def folder_of(run):
    """Where the store keeps the files of a run's model, also of one that was kept before the store was copied."""
    location = client().get_logged_model(run.model_id).artifact_location
    return Store.current().artifacts / location.rpartition("/mlruns/artifacts/")[2]


@pytest.mark.filterwarnings("ignore:logged. soft_walltime missing in all jobs")
@pytest.mark.parametrize("name", slow_but(PREDICTORS, "last-two", "forest", "online-tree"))
def test_a_predictor_comes_back_exactly_by_every_address(home, name):
    """By alias and folder, one also by version and run: the same predictions to the last bit, and which model it is."""
    predictor = make_predictor(name, **SMALL.get(name, {})).fit(LOG)
    run = logged(name, predictor)
    tracking.register(run, "runtime", "champion")
    expected = predictor.predict(LOG)
    addresses = ["models:/runtime@champion", str(folder_of(run))]
    if name == "last-two":
        addresses += ["models:/runtime/1", run.uri, f"runs:/{run.run_id}"]
    for uri in addresses:
        model = tracking.load_model(uri)
        np.testing.assert_array_equal(model.predictor.predict(LOG), expected)
        assert (model.origin.predictor, model.trained_until, model.sha256) == (name, 900, run.sha256)
        assert model.predictor.named_params() == predictor.named_params()


def test_a_loaded_model_says_which_version_it_is(kept):
    about = tracking.load_model("models:/runtime@champion").about()
    assert about["name"] == "runtime" and about["version"] == 1 and about["alias"] == "champion"
    assert about["run_id"] == kept.run_id and about["log_sha256"] == LOG.digest()
    assert about["trained_until_utc"].endswith("Z")


def test_a_runs_page_shows_figures_parameters_and_origin(kept):
    """One run: metrics with units, parameters, tags with the log's digest; a figure that does not exist is left out."""
    run = client().get_run(kept.run_id)
    assert run.data.metrics == {"mae_s": 12.5} and run.info.status == "FINISHED"
    assert run.data.params["predictor"] == "last-two" and run.data.params["seed"] == "7"
    assert set(make_predictor("last-two").get_params()) <= set(run.data.params)
    assert run.data.tags["jobcast.log_sha256"] == LOG.digest() and run.data.tags["jobcast.log"] == LOG.name
    assert "| mae_s | 12.5 |" in run.data.tags["mlflow.note.content"]
    assert run.data.tags.get("mlflow.source.git.commit") == code_tags().get("mlflow.source.git.commit")


def test_no_commit_is_claimed_for_code_that_git_does_not_track(tmp_path):
    assert code_tags(tmp_path) == {}


@pytest.mark.parametrize("name", ["last-two", "forest"])
def test_mlflow_serves_feature_rows(home, name):
    """Any numbers are taken, absent columns are legal; nothing is pickled, and the project's lock is not stored.

    Unknown values NaN or their columns left out: what the predictor itself says to the same rows.
    """
    import mlflow.pyfunc

    predictor = make_predictor(name, **SMALL.get(name, {})).fit(LOG)
    folder = folder_of(logged(predictor=predictor))
    model = mlflow.pyfunc.load_model(str(folder))
    inputs = model.metadata.signature.inputs
    assert inputs.input_names() == list(PREDICTORS[name].features)
    assert {type(column.type).__name__ for column in inputs} == {"AnyType"}
    assert [column.name for column in inputs if column.required] == list(REQUIRED)
    assert len(model.input_example) == 5
    kinds = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert kinds <= {"", ".yaml", ".txt", *files.SUFFIXES}
    assert not list(folder.rglob("uv.lock"))
    assert "numpy==" in (folder / "requirements.txt").read_text()

    rows = replay(LOG, predictor.features)
    table = pd.DataFrame(rows, columns=list(predictor.features))
    np.testing.assert_array_equal(model.predict(table)[OUTPUT], predictor.predict(LOG))
    without = np.where(np.array(predictor.features) == "last_two_mean", np.nan, rows)
    got = model.predict(table.drop(columns="last_two_mean"))[OUTPUT]
    np.testing.assert_array_equal(got, predictor.predict_rows(without))
    for kind in ("int64", "int32", "Int64", object):
        got = model.predict(table.assign(requested_time=table["requested_time"].astype(kind)))[OUTPUT]
        np.testing.assert_array_equal(got, predictor.predict(LOG))
    with pytest.raises(JobcastError, match="Column 'requested_time' of the inputs must hold numbers, or nothing"):
        model.predict(pd.DataFrame({"requested_time": ["an hour"]}))


def test_the_example_of_the_page_asks_a_registered_model(home, monkeypatch, capsys):
    tracking.register(logged(), "runtime", "champion")
    write_swf(LOG, home / "log.swf")
    monkeypatch.chdir(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # which it sets, as this module's variable
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "files.md").read_text()
    exec(re.search(r"```py\n(.*?)```", page, re.DOTALL)[1])
    told = capsys.readouterr().out
    assert "predicted_seconds" in told and len(told.splitlines()) == 1 + len(LOG)


def test_an_alias_moves_to_the_newest_version(kept):
    assert tracking.load_model("models:/runtime@champion").version == 1
    assert tracking.register(kept, "runtime", "champion").version == 2
    tracking.register(kept, "runtime", "shadow")
    assert tracking.load_model("models:/runtime@champion").version == 2
    assert tracking.load_model("models:/runtime@shadow").version == 3


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("models:/runtim@champion", "No registered model 'runtim'; did you mean 'runtime'?"),
        ("models:/runtime@shadow", "has no alias 'shadow'; it has: champion \\(version 1\\)"),
        ("models:/runtime@best", "No alias 'best'.* Known: champion, challenger, shadow"),
        ("models:/runtime@champoin", "did you mean 'champion'"),
        ("models:/runtime/7", "has no version 7; the newest is 1"),
        ("models:/runtime/0", "does not name a registered model"),
        ("models:/runtime/Production", "is a stage.*models:/runtime@champion"),
        ("models:/", "write models:/NAME@ALIAS"),
        ("models:runtime", "write models:/NAME@ALIAS"),
        ("runs:/0123456789abcdef0123456789abcdef", "No run '0123456789abcdef"),
        ("runs:/", "write runs:/RUN_ID"),
        ("runtime", "Did you mean models:/runtime@champion"),
        ("/nowhere/at all", "not a folder"),
        ("http://a/b", "nor of the form"),
        (__file__, "is a file"),
    ],
)
def test_a_wrong_address_is_told_with_the_right_one(kept, uri, message):
    with pytest.raises(JobcastError, match=message):
        tracking.load_model(uri)


def test_names_and_aliases_are_checked_before_anything_is_written(home):
    run = logged()
    for name, alias, message in (
        ("run/time", "champion", "may hold letters"),
        ("", None, "may hold letters"),
        ("runtime", "production", "Known: champion, challenger, shadow"),
    ):
        with pytest.raises(JobcastError, match=message):
            tracking.register(run, name, alias)
    assert not client().search_registered_models()
    assert ALIASES == ("champion", "challenger", "shadow")


def test_reading_makes_no_store(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(JobcastError, match="no model store there yet; fill one with `jobcast train"):
        tracking.load_model("models:/runtime@champion")
    assert not list(tmp_path.iterdir())


def test_a_store_without_models_says_so(home):
    with pytest.raises(JobcastError, match="holds none yet"):
        tracking.load_model("models:/runtime@champion")


def change(path):
    path.write_bytes(path.read_bytes()[:-1] + b" ")


DAMAGE = {
    "predictor.json: was changed": lambda data: change(data / "predictor.json"),
    "history.npz: was changed": lambda data: change(data / "history.npz"),
    "history.npz: is missing": lambda data: (data / "history.npz").unlink(),
    "more.json: was added": lambda data: (data / "more.json").write_text("{}"),
    "manifest.json: was changed": lambda data: change(data / "manifest.json"),
    "not a jobcast model": lambda data: (data / "manifest.json").unlink(),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_model_is_refused(kept, message):
    DAMAGE[message](folder_of(kept) / "data" / "predictor")
    for uri in ("models:/runtime@champion", kept.uri):
        with pytest.raises(JobcastError, match=message):
            tracking.load_model(uri)


def test_a_manifest_that_makes_no_sense_is_refused(home, tmp_path):
    (tmp_path / "manifest.json").write_text("[1]")
    with pytest.raises(JobcastError, match=r"manifest.json: cannot be read"):
        tracking.load_model(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(JobcastError, match="model format 99"):
        tracking.load_model(str(tmp_path))


class Bomb:
    """Unpickling it leaves a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def test_a_planted_pickle_is_refused_and_never_read(kept, tmp_path):
    run, trace = kept, tmp_path / "exploded"
    for place, name in product(
        (".", "data", "data/predictor"), ("python_model.pkl", "model.joblib", "state", "MLmodel.pickle")
    ):
        planted = folder_of(run) / place / name
        planted.write_bytes(pickle.dumps(Bomb(trace)))
        with pytest.raises(JobcastError, match="not a file of a jobcast model"):
            tracking.load_model(run.uri)
        assert not trace.exists(), planted
        planted.unlink()
    assert tracking.load_model(run.uri).sha256 == run.sha256
    pickle.loads(pickle.dumps(Bomb(trace)))
    assert trace.exists(), "the bomb must work, or this test shows nothing"


def test_a_link_out_of_the_model_is_refused(kept, tmp_path):
    (tmp_path / "elsewhere.json").write_text("{}")
    (folder_of(kept) / "data" / "predictor" / "more.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(JobcastError, match="not a file of a jobcast model"):
        tracking.load_model(kept.uri)


def test_somebody_elses_model_is_refused(home, tmp_path):
    """An MLflow model of another kind, pickled: its loader is not even looked at."""
    trace = tmp_path / "exploded"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "python_model.pkl").write_bytes(pickle.dumps(Bomb(trace)))
    (tmp_path / "other" / "MLmodel").write_text("flavors: {python_function: {loader_module: mlflow.pyfunc.model}}")
    with pytest.raises(JobcastError, match="not a jobcast model"):
        tracking.load_model(str(tmp_path / "other"))
    assert not trace.exists()


def test_a_model_of_100_megabytes_is_refused_before_a_run_is_made(home, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(JobcastError, match=r"must stay under 0 MB. Bound it"):
        logged()
    tracking.open_store()
    place = client().get_experiment_by_name(tracking.EXPERIMENT).experiment_id
    assert not client().search_runs([place])


def test_a_model_that_comes_back_changed_fails_its_run(home, monkeypatch):
    """The input example is predicted before and after the store; here the store's copy is made to differ."""
    predictor = make_predictor("last-two").fit(LOG)
    own = type(predictor).predict
    monkeypatch.setattr(type(predictor), "predict", lambda self, jobs: own(self, jobs) + (self is predictor))
    with pytest.raises(JobcastError, match="came back changed"):
        logged(predictor=predictor)
    place = client().get_experiment_by_name(tracking.EXPERIMENT).experiment_id
    assert [run.info.status for run in client().search_runs([place])] == ["FAILED"]


def test_a_store_that_is_no_database_is_told(home):
    (home / "mlruns" / "mlflow.db").write_bytes(b"no database" * 200)
    with pytest.raises(JobcastError, match=r"mlflow.db: .*not a database"):
        tracking.open_store()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("./mlruns", "no longer keeps runs in folders"),
        ("file:///tmp/mlruns", "no longer keeps runs in folders"),
        ("gopher://hole", "Model store gopher://hole: "),
        ("postgresql+none://me:secret@db/jobcast", "Model store postgresql\\+none://me:\\*\\*\\*@db/jobcast: "),
    ],
)
def test_a_store_address_that_cannot_be_used_is_told_without_its_password(monkeypatch, uri, message):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(JobcastError, match=message) as error:
        tracking.open_store()
    assert "secret" not in str(error.value)


def test_the_tracking_uri_of_the_environment_is_used_unchanged(home, empty_store, monkeypatch, tmp_path):
    shutil.copy(empty_store / "mlflow.db", tmp_path / "other.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'other.db'}")
    tracking.register(logged(), "runtime", "champion")
    assert tracking.load_model("models:/runtime@champion").version == 1
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with pytest.raises(JobcastError, match="holds none yet"):
        tracking.load_model("models:/runtime@champion")


def test_a_store_may_be_moved(kept, tmp_path, tmp_path_factory, monkeypatch):
    """Models are found in the new place, and new runs are written there: logged on the cluster, read on the laptop."""
    moved = tmp_path_factory.mktemp("moved")
    shutil.move(tmp_path / "mlruns", moved / "mlruns")
    monkeypatch.setenv("JOBCAST_HOME", str(moved))
    assert tracking.load_model("models:/runtime@champion").sha256 == kept.sha256
    assert Path(client().get_logged_model(logged().model_id).artifact_location).is_relative_to(moved)
    assert not (tmp_path / "mlruns").exists()


WORK = """
import sys
from predictors.tracking import client as tracking
from predictors.data.synthetic.generate import generate_log
from predictors.registry import make_predictor
log = generate_log(50)
tracking.open_store()
run = tracking.log_run(make_predictor("last-two").fit(log), log, {"mae_s": 1.0}, split="none")
print(tracking.register(run, "runtime", "champion").version)
"""


@pytest.mark.slow
def test_two_processes_start_at_once_on_an_empty_store(tmp_path, monkeypatch):
    """Both succeed, silently, with a version each; neither leaves an unfinished database behind."""
    monkeypatch.setenv("JOBCAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    both = [
        subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ends = [process.communicate(timeout=300) for process in both]
    assert [err for _, err in ends] == ["", ""]
    assert sorted(out for out, _ in ends) == ["1\n", "2\n"]
    assert {path.name for path in (tmp_path / "mlruns").iterdir()} == {"mlflow.db", ".mlflow.db.lock", "artifacts"}


def test_a_store_is_made_once_however_often_it_is_asked_for(tmp_path, monkeypatch):
    store, calls = Store(f"sqlite:///{tmp_path / 'deep' / 'x.db'}"), []
    for _ in range(3):
        store.ensure(lambda uri: calls.append(uri))
    assert len(calls) == 1 and store.file.is_file()


def test_a_store_that_fails_to_be_made_leaves_nothing(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")

    def fail(uri):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        store.ensure(fail)
    assert [path.name for path in tmp_path.iterdir()] == [".x.db.lock"]


SMALL_CLASSIFIERS = {"knn": {}, "calibrated": {"inner": "extra-trees", "inner_params": {"n_estimators": 5}, "folds": 2}}


DATA = dataset(80, scope="job")


def fitted(name, **params):
    labels = DATA.labels(scheme="three")
    model = make_classifier(name, **{**SMALL_CLASSIFIERS.get(name, {"n_estimators": 5}), **params})
    known = labels.known
    return model.fit(
        DATA.rows[known], labels.classes[known], features=FEATURES, scheme="three",
        applications=DATA.runs.application[known],
    ), labels  # fmt: skip


def logged_classifier(name="extra-trees", **params):
    model, labels = fitted(name, **params)
    return tracking.log_classifier(model, DATA, labels, {"f1": 0.5}, split="all runs", name="control", seed=1), model


@pytest.mark.parametrize("name", slow_but(CLASSIFIERS, "extra-trees", "boosted"))
def test_a_classifier_comes_back_exactly_by_every_address(home, name):
    run, model = logged_classifier(name)
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


def test_a_loaded_classifier_says_where_it_came_from(kept_classifier):
    loaded = tracking.load_classifier("models:/variability@champion")
    about = loaded.about()
    assert (about["name"], about["version"], about["alias"]) == ("variability", 1, "champion")
    assert about["dataset_sha256"] == DATA.digest() and about["n_runs"] == 80 and "norms" not in about
    assert loaded.origin.trained_until == DATA.runs.end.max()
    assert loaded.origin.trained_until_utc.startswith("1970-01-01T08:5")
    assert Norms.from_json(loaded.origin.norms) == DATA.labels().norms


def test_mlflow_serves_rows_of_inputs(kept_classifier):
    import mlflow.pyfunc

    run, model = kept_classifier
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

    run, model = logged_classifier(seen_only=True)
    served = mlflow.pyfunc.load_model(str(folder_of(run)))
    table = DATA.to_frame()[list(model.features_)].assign(application=["AMG"] * 40 + ["new"] * 40)
    assert (served.predict(table)["why"] == "unseen").sum() == 40


def test_a_model_is_never_taken_for_one_of_another_kind(kept_classifier):
    run, _ = kept_classifier
    with pytest.raises(JobcastError, match="model of variability, not of run time; use it with `jobcast variability"):
        tracking.load_model(run.uri)
    log = generate_log(50, seed=1)
    other = tracking.log_run(make_predictor("last-two").fit(log), log, {}, split="all")
    with pytest.raises(JobcastError, match="model of run time, not of variability; use it with `jobcast predict`"):
        tracking.load_classifier(other.uri)


def test_a_folder_without_its_origin_is_refused(tmp_path):
    model, labels = fitted("knn")
    save_model(model, tmp_path, ClassifierOrigin.of(model, DATA, labels, "control"))
    assert tracking.load_classifier(str(tmp_path)).origin.dataset == "control"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"scope"', '"scoop"'))
    with pytest.raises(JobcastError, match="lacks 'scope'"):
        tracking.load_classifier(str(tmp_path))


# --- what users of MLflow look for -----------------------------------------------------------------------------------


def test_the_experiment_opens_on_training_runs(home):
    """Also one that was made without a kind."""
    tracking.open_store()
    (experiment,) = (one for one in client().search_experiments() if one.name == tracking.EXPERIMENT)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    client().set_experiment_tag(experiment.experiment_id, "mlflow.experimentKind", "other")
    tracking.open_store()
    assert client().get_experiment(experiment.experiment_id).tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_run_shows_its_data_its_files_and_how_long_it_took(home, tmp_path):
    import mlflow.data

    (tmp_path / "scores.csv").write_text("a\n1\n")
    (tmp_path / "error.png").write_bytes(b"png")
    begin = time.time() - 3600
    predictor = make_predictor("last-two").fit(LOG)
    run = tracking.log_run(
        predictor, LOG, {"mae_s": 12.5}, split="all", begin=begin, files=sorted(tmp_path.glob("*.*")),
        source="/x/log.swf",
    )  # fmt: skip
    found = client().get_run(run.run_id)
    assert found.info.start_time == int(begin * 1000)
    assert 3600 <= (found.info.end_time - found.info.start_time) / 1000 < 3700
    (data,) = (one.dataset for one in found.inputs.dataset_inputs)
    assert (data.name, LOG.digest()[:32]) == (LOG.name, data.digest)
    assert '"num_rows": 300' in data.profile and '"requested_time"' in data.schema
    assert mlflow.data.get_source(data).uri == "/x/log.swf"
    kept = {one.path for folder in ("figures", "tables") for one in client().list_artifacts(run.run_id, folder)}
    assert kept == {"figures/error.png", "tables/scores.csv"}


def test_a_version_has_a_description_and_its_metrics(kept):
    version = client().get_model_version("runtime", str(tracking.register(kept, "runtime").version))
    assert "**last-two**" in version.description and "| mae_s | 12.5 |" in version.description
    (metric,) = client().get_logged_model(kept.model_id).metrics
    assert (metric.key, metric.value, metric.dataset_name) == ("mae_s", 12.5, LOG.name)
    assert client().get_registered_model("runtime").description


@pytest.mark.parametrize(
    ("uri", "message"), [("http://127.0.0.1:1", "has pages|pages of its own"), ("sqlite:///gone.db", "no model store")]
)
def test_pages_are_refused_where_there_is_nothing_to_open(monkeypatch, uri, message):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(JobcastError, match=message):
        serve_pages(Store.current(), "127.0.0.1", 1, pytest.fail)


def test_pages_are_refused_where_the_port_is_taken(home):
    tracking.open_store()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(JobcastError, match=rf"127.0.0.1:{port} cannot be listened on .*--port"):
            serve_pages(Store.current(), "127.0.0.1", port, pytest.fail)


def test_a_server_that_ends_by_itself_is_told_of(home, monkeypatch):
    tracking.open_store()
    command = [sys.executable, "-c", "import sys; sys.exit('the schema is too old')"]
    monkeypatch.setattr("predictors.tracking.store._server", lambda *_: command)
    with pytest.raises(JobcastError, match="ended by itself, status 1: the schema is too old"):
        serve_pages(Store.current(), "127.0.0.1", free_port(), pytest.fail)


def test_ctrl_c_ends_the_server(home, monkeypatch):
    tracking.open_store()
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    monkeypatch.setattr("predictors.tracking.store._server", lambda *_: command)

    def interrupt(address):
        assert address == f"http://127.0.0.1:{port}"
        raise KeyboardInterrupt

    serve_pages(Store.current(), "127.0.0.1", port, interrupt)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


@pytest.mark.slow
def test_the_pages_show_the_store(kept, tmp_path):
    """The real server, as `jobcast ui` starts it."""
    port = free_port()
    command = [sys.executable, "-m", "experiments.cli", "ui", "--port", str(port)]
    place = {**os.environ, "JOBCAST_HOME": str(tmp_path)}
    place.pop("MLFLOW_TRACKING_URI", None)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=place) as pages:
        assert f"http://127.0.0.1:{port}" in pages.stdout.readline()
        address = f"http://127.0.0.1:{port}/api/2.0/mlflow/registered-models/get?name=runtime"
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert json.load(answer)["registered_model"]["name"] == "runtime"
        pages.send_signal(signal.SIGINT)
        assert pages.wait(60) == 0
