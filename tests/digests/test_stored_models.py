"""Models that were kept by an earlier state of the code are read, and say what they said then, bit for bit.

`tests/data/models` holds an archive of each registered predictor and classifier as MLflow wrote it, with inputs and
answers, and one of a whole store. They are never made anew, since models of earlier versions lie at sites: an archive
is only added where there is none (`JOBCAST_REPIN=1 .venv/bin/python -m pytest tests/digests/test_stored_models.py`).
"""

import os
import shutil
import sqlite3
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jobcast import generate_log, make_predictor, replay
from predictors.models.stream import keep_full_history
from predictors.registry import PREDICTORS
from predictors.tracking import client as tracking
from predictors.tracking.pyfunc import OUTPUT
from predictors.variability.classifiers.registry import CLASSIFIERS, make_classifier
from predictors.variability.features import FEATURES
from tests.digests.pins import VARIABLE
from tests.support.variability_data import dataset

MODELS = Path(__file__).parents[1] / "data" / "models"
NOWHERE = "/home/of/jobcast"
"""Stands in the archives for the folder in which they were made."""
SMALL = {
    "forest": {"n_estimators": 3}, "boosted": {"n_estimators": 5}, "average": {"n_boosted": 3, "n_forest": 2},
    "stack": {"n_boosted": 3, "n_forest": 2}, "censored": {"n_estimators": 3},
    "chain": {"settings": {"n_boosted": 3, "n_forest": 2}}, "extra-trees": {"n_estimators": 4},
    "decision-forest": {"n_estimators": 4}, "adaboost": {"n_estimators": 4},
    "calibrated": {"inner": "extra-trees", "inner_params": {"n_estimators": 4}, "folds": 2},
}  # fmt: skip


def fitted_predictor(name):
    """Return a predictor that has learnt from a small log, with its history, and rows to ask it about."""
    log = generate_log(160, seed=5, users=8)
    predictor = make_predictor(name, **SMALL.get(name, {})).fit(log.select(slice(0, 100)))
    keep_full_history(predictor, log.select(slice(0, 100)))
    return predictor, log, replay(log, predictor.features)[100:]


def log_predictor(name):
    """Log a predictor; return its run, inputs and answers."""
    predictor, log, rows = fitted_predictor(name)
    run = tracking.log_run(predictor, log.select(slice(0, 100)), {"mae_s": 1.0}, split="first jobs", seed=1)
    return run, rows, predictor.predict_rows(rows)


def log_classifier(name):
    """Log a classifier; return its run, inputs and answers."""
    data = dataset(60, seed=6)
    labels = data.labels(scheme="three")
    known, rows = labels.known, data.rows[30:50]
    model = make_classifier(name, **SMALL.get(name, {}))
    apps = data.runs.application
    model.fit(data.rows[known], labels.classes[known], features=FEATURES, scheme="three", applications=apps[known])
    run = tracking.log_classifier(model, data, labels, {"f1": 0.5}, split="all runs", name="small", seed=1)
    return run, rows, model.predict_proba(rows, features=FEATURES)


def artifacts_of(home, run):
    """Return the folder of a logged model."""
    (folder,) = home.glob(f"mlruns/artifacts/**/{run.model_id}/artifacts")
    return folder


def without_place(folder, home):
    """Write a neutral folder in the place of the one in which the files of a model were made."""
    for path in folder.rglob("MLmodel"):
        path.write_text(path.read_text(encoding="utf-8").replace(str(home), NOWHERE), encoding="utf-8")


def moved(database, old, new):
    """Write another folder into all texts of a store."""
    with sqlite3.connect(database) as store:
        tables = [row[0] for row in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for column in [row[1] for row in store.execute(f"PRAGMA table_info('{table}')")]:
                store.execute(
                    f'UPDATE "{table}" SET "{column}" = REPLACE("{column}", ?, ?) WHERE "{column}" LIKE ?',
                    (old, new, f"%{old}%"),
                )
        store.commit()
        store.execute("VACUUM")  # else the former folder stays in free pages
    store.close()


def packed(folder, archive):
    """Pack a folder, owners and times left out."""

    def anybody(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz", compresslevel=9) as out:
        for path in sorted(folder.iterdir()):
            out.add(path, path.name, filter=anybody)


def unpacked(name, folder, make):
    """Unpack the archive of that name into a folder; make it first where it is missing and that is wished for."""
    archive = MODELS / f"{name}.tar.gz"
    if not archive.is_file() and os.environ.get(VARIABLE):
        scratch = folder / "made"
        scratch.mkdir()
        make(scratch)
        packed(scratch, archive)
    assert archive.is_file(), f"No stored model {archive.name}; {VARIABLE}=1 adds it, see {Path(__file__).name}."
    with tarfile.open(archive) as packs:
        packs.extractall(folder / "kept", filter="data")
    return folder / "kept"


def keep_model(log, name, home, folder):
    """Log a model, and put it with inputs and answers into a folder."""
    run, rows, answers = log(name)
    shutil.copytree(artifacts_of(home, run), folder / "model")
    without_place(folder / "model", home)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "answers.npy", answers)


def same_bits(found, stored):
    np.testing.assert_array_equal(np.asarray(found).view(np.int64), stored.view(np.int64))


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_kept_predictor(home, tmp_path, name):
    import mlflow.pyfunc

    kept = unpacked(f"predictors/{name}", tmp_path, lambda folder: keep_model(log_predictor, name, home, folder))
    rows, answers = np.load(kept / "rows.npy"), np.load(kept / "answers.npy")
    loaded = tracking.load_model(str(kept / "model"))
    same_bits(loaded.predictor.predict_rows(rows), answers)
    assert loaded.origin.predictor == name and type(loaded.predictor) is PREDICTORS[name]
    assert loaded.predictor.named_params().items() >= SMALL.get(name, {}).items()
    served = mlflow.pyfunc.load_model(str(kept / "model"), suppress_warnings=True)
    table = pd.DataFrame(rows, columns=list(loaded.predictor.features))
    same_bits(served.predict(table)[OUTPUT].to_numpy(), answers)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_kept_classifier(home, tmp_path, name):
    import mlflow.pyfunc

    kept = unpacked(f"classifiers/{name}", tmp_path, lambda folder: keep_model(log_classifier, name, home, folder))
    rows, answers = np.load(kept / "rows.npy"), np.load(kept / "answers.npy")
    loaded = tracking.load_classifier(str(kept / "model"))
    found = loaded.classifier.predict_proba(rows, features=FEATURES)
    np.testing.assert_array_max_ulp(found, answers, 8)  # of a processor with AVX-512, which rounds logarithms otherwise
    assert loaded.origin.classifier == name and type(loaded.classifier) is CLASSIFIERS[name]
    served = mlflow.pyfunc.load_model(str(kept / "model"), suppress_warnings=True)
    table = pd.DataFrame(rows, columns=list(FEATURES))[list(loaded.classifier.features_)]
    found = served.predict(table)
    judged = loaded.classifier.judge(rows, features=FEATURES)
    np.testing.assert_array_equal(found["class"], judged.classes)
    same_bits(found["probability"].to_numpy(), np.asarray(judged.probabilities[:, -1], dtype=np.float64))


def keep_store(home, template, folder):
    """Log and register a predictor and a classifier; put the whole store with inputs and answers into a folder."""
    for kind, log, name in (("runtime", log_predictor, "similar"), ("variability", log_classifier, "knn")):
        run, rows, answers = log(name)
        tracking.register(run, kind, "champion")
        np.save(folder / f"{kind}_rows.npy", rows)
        np.save(folder / f"{kind}_answers.npy", answers)
    shutil.copytree(home / "mlruns", folder / "mlruns", ignore=shutil.ignore_patterns(".*"))
    for made_in in (home, template.parent):
        moved(folder / "mlruns" / "mlflow.db", str(made_in), NOWHERE)
    without_place(folder, home)


def test_a_kept_store(home, empty_store, tmp_path, monkeypatch):
    kept = unpacked("store", tmp_path, lambda folder: keep_store(home, empty_store, folder))
    moved(kept / "mlruns" / "mlflow.db", NOWHERE, str(kept))
    monkeypatch.setenv("JOBCAST_HOME", str(kept))
    for uri in ("models:/runtime@champion", "models:/runtime/1"):
        found = tracking.load_model(uri)
        rows, answers = np.load(kept / "runtime_rows.npy"), np.load(kept / "runtime_answers.npy")
        same_bits(found.predictor.predict_rows(rows), answers)
        assert (found.name, found.version, found.origin.predictor) == ("runtime", 1, "similar")
    again = tracking.load_model(f"runs:/{found.run_id}")
    assert again.sha256 == found.sha256
    judged = tracking.load_classifier("models:/variability@champion").classifier
    rows, answers = np.load(kept / "variability_rows.npy"), np.load(kept / "variability_answers.npy")
    same_bits(judged.predict_proba(rows, features=FEATURES), answers)
