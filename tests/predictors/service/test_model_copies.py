"""A start without the registry: the copy of the model that was in use is served, after its hashes were checked."""

import logging
import shutil
import threading
import time
from pathlib import Path

import pytest

from jobcast import JobcastError, generate_log
from predictors.service.state import model_copies
from predictors.service.state.model_copies import ModelCopies, folder_beside
from tests.experiments.cli.test_serve import registered
from tests.support.service_in_thread import running

LOG = generate_log(120, seed=6)
URI = "models:/runtime@champion"


def test_the_copy_is_served_while_the_registry_is_gone_and_replaced_when_the_alias_moves(home, caplog):
    registered("online-linear", "champion")
    copies = ModelCopies(home / "copies")
    first, predictor = copies.load(URI)
    asked = predictor.predict(LOG)
    (home / "mlruns").rename(home / "away")
    with caplog.at_level(logging.WARNING, "jobcast.service"):
        again, copied = copies.load(URI)
    assert again == first and (copied.predict(LOG) == asked).all()
    assert "is served from its copy" in caplog.text
    shutil.rmtree(home / "mlruns", ignore_errors=True)
    (home / "away").rename(home / "mlruns")
    registered("last-two", "champion")
    assert copies.load(URI)[0].version == 2
    (home / "mlruns").rename(home / "away")
    assert copies.load(URI)[0].version == 2
    assert len(list((home / "copies").iterdir())) == 1


def test_a_copy_outlives_an_end_between_the_two_renames(home, monkeypatch):
    """A process that was killed there left no copy by its name; one whose rename fails puts the old one back."""
    registered("last-two", "champion")
    copies = ModelCopies(home / "copies")
    copies.load(URI)
    (place,) = (home / "copies").iterdir()
    place.rename(model_copies._old(place))
    (home / "mlruns").rename(home / "away")
    assert copies.load(URI)[0].version == 1 and place.is_dir()
    (home / "away").rename(home / "mlruns")
    registered("online-linear", "champion")
    rename = Path.rename

    def fails(self, target):
        if ".old" not in self.name and target == place:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        assert copies.load(URI)[0].version == 2
    (home / "mlruns").rename(home / "away")
    assert copies.load(URI)[0].version == 1 and list((home / "copies").iterdir()) == [place]


def test_a_service_starts_from_the_copy_keeps_what_it_learnt_and_says_so(home, caplog):
    registered("last-two", "champion")
    load = ModelCopies(home / "copies").load
    with running(home, URI, parts=(load,), poll=0) as one, one.client() as client:
        client.send([{"job_id": 1, "kind": "submitted", "time": 5, "requested_time": 60, "procs": 1}])
    (home / "mlruns").rename(home / "away")
    with running(home, URI, parts=(load,), poll=0.2) as one, one.client() as client:
        model = client.models()
        assert model["models"][0]["version"] == 1 and len(model["history"]) == 1 and model["sequence"] == 1
        for _ in range(600):
            if client.ask("GET", "/readyz")["trouble"] == ["model"]:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the registry's trouble is not told")


def test_a_copy_that_was_changed_is_refused_with_both_reasons(home):
    registered("last-two", "champion")
    copies = ModelCopies(home / "copies")
    copies.load(URI)
    (home / "mlruns").rename(home / "away")
    kept = next((home / "copies").rglob("predictor.json")), next((home / "copies").rglob("manifest.json"))
    for file, changed in ((kept[1], kept[1].read_text() + "\n"), (kept[0], "{}")):
        before = file.read_text()
        file.write_text(changed)
        with pytest.raises(JobcastError, match=r"Nor can its copy be used: .*changed"):
            copies.load(URI)
        file.write_text(before)


def test_a_registry_that_hangs_is_waited_for_so_long_only(home, monkeypatch):
    registered("last-two", "champion")
    copies = ModelCopies(home / "copies")
    copies.load(URI)
    monkeypatch.setattr(model_copies, "PATIENCE", 0.2)
    answers = threading.Event()
    monkeypatch.setattr(model_copies, "load_model", lambda *_, **__: answers.wait(60))
    assert copies.load(URI)[0].version == 1 and not answers.is_set()
    answers.set()


def test_without_a_copy_the_error_is_that_of_the_registry_and_nothing_is_left(home):
    copies = ModelCopies(home / "copies")
    with pytest.raises(JobcastError):
        copies.load("models:/nobody@champion")
    assert not list((home / "copies").glob("*"))
    assert copies.load("last-two")[0].predictor == "last-two"
    assert folder_beside("postgresql+psycopg://me@db/jobs") is None


def test_a_folder_that_cannot_be_written_is_told_and_harms_nothing(home):
    registered("last-two", "champion")
    (home / "file").write_text("")
    assert ModelCopies(home / "file" / "copies").load(URI)[0].version == 1
