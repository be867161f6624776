"""A service that begins with its model's own history: as if that log had been driven through it, whatever happens."""

from dataclasses import replace

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, generate_log, load, make_predictor, save
from predictors.core.events import ENDED, STARTED, SUBMITTED
from predictors.data import names as naming
from predictors.data.names import Codes
from predictors.history import _layout as at
from predictors.history.features import FEATURES
from predictors.models.stream import keep_full_history
from predictors.service.event import Event
from predictors.service.pseudonyms import Pseudonymiser, pseudonymous
from predictors.service.replay_check import drive
from predictors.service.settings import Settings
from predictors.service.state.feature_mapping import FeatureMapping
from predictors.service.state.jobs import JobState
from predictors.service.state.model import Identity
from predictors.service.state.ordering import EventOrder
from predictors.service.state.recovery import _looked_up, _table
from predictors.service.state.service import Service
from tests.predictors.service.test_state import die, equal, events_of, feed
from tests.support.named_logs import in_two, made_log, read_text, sacct_text
from tests.support.service_in_thread import running
from tests.support.slow import slow_but

SMALL = {"forest": {"n_estimators": 4, "max_nodes": 400}, "boosted": {"n_estimators": 6}}
LOG = generate_log(500, seed=5)
FIRST, LATER = (LOG.select(rows) for rows in in_two(LOG, 250))
EVENTS = events_of(LATER)


def trained(name, log, whole=True):
    """A predictor as `jobcast train` keeps it."""
    model = make_predictor(name, **SMALL.get(name, {})).fit(log)
    if whole:
        keep_full_history(model, log)
    return model


def loader_of(model, folder):
    """A loader that reads it anew each time, as from the registry."""
    folder.mkdir(exist_ok=True)
    save(model, folder)
    return lambda uri: (Identity(uri, "runtime", 1, model.name, "a" * 64), load(folder))


@pytest.fixture(scope="module")
def months():
    """Two months of one machine as sacct writes them; some users of the second are new."""
    log = made_log()
    first, later = in_two(log, 150)
    return read_text(sacct_text(log, first)), read_text(sacct_text(log, later, shuffle=5))


@pytest.mark.parametrize("name", slow_but(("last-two", "forest", "boosted", "similar"), "last-two", "forest"))
def test_the_next_month_is_predicted_as_by_predict_warm(name, months, tmp_path):
    """By names, asked before each submission, to the last bit; a service that began cold says what `predict` does."""
    march, april = months
    model = trained(name, march)
    about = {"parts": (loader_of(model, tmp_path / "model"),), "learn": False}
    about["key"] = Pseudonymiser(b"k" * 16)
    for warm in (True, False):
        with running(tmp_path / str(warm), warm=warm, **about) as one, one.client() as client:
            told = client.models()
            assert (told["began"] is not None) is warm and told["models"][0]["codes"]["user"] == "names"
            found = drive(client, april, batch=1 if name == "last-two" else 100).seconds
        expected = model.predict(april, warm=warm)
        np.testing.assert_array_equal(found, expected)
    assert (expected != model.predict(april, warm=True)).any(), "the history must matter"


def test_names_are_found_by_their_key_alone_and_numbers_are_nobodys(months, tmp_path):
    """A model of names takes no client's number for one of its codes, and cannot be driven by a log of numbers."""
    march, april = months
    model = trained("last-two", march)
    who = march.names("user")[0]
    job = {"procs": 1, "requested_time": 86_400}
    about = {
        "parts": (loader_of(model, tmp_path / "model"),),
        "warm": True,
        "learn": False,
        "key": Pseudonymiser(b"k" * 16),
    }
    with running(tmp_path / "a", **about) as one, one.client() as client:
        asked = [job | {"user": user} for user in (who, 0, "nobody", model.codes_["user"].names[who])]
        seconds = [answer.seconds for answer in client.runtime(asked)]
        assert seconds[0] != 86_400.0 and seconds[1:] == [86_400.0] * 3
        numbers = JobLog(april.values, april.unknown, epoch=april.epoch, name="numbers")
        with pytest.raises(
            JobcastError, match="numbers: has numbers for its users where the service's model goes by na"
        ):
            drive(client, numbers)


def test_numbers_are_nobodys_where_names_were_forgotten_too(monkeypatch):
    """Of a model, and of the history that a service begins with; a code above all that were kept included."""
    monkeypatch.setattr(naming, "MOST_NAMES", 1)
    codes, key = Codes({"ben": 1}, 4), Pseudonymiser(b"k" * 16)
    model = make_predictor("forest")
    model.codes_ = {"user": codes}
    own, row = FeatureMapping.of(model, key), np.zeros(len(FEATURES))
    for number, expected in ((0, 4), (1, 5), (3, 7), (4, 4), (-1, -1), (key.code("ben"), 1)):
        row[list(FEATURES).index("user")] = number
        assert own.one(row)[model.features.index("user")] == expected
        assert own.many(row[None])[0, model.features.index("user")] == expected
    assert _looked_up(_table(codes, key), np.arange(5)).tolist() == [at.NONE, key.code("ben"), at.NONE, at.NONE, 4]


def test_a_model_that_holds_no_name_knows_everyone_by_the_same_key(months, tmp_path):
    """Learnt from pseudonyms: it says the same of such a log, and the service finds by its key whom clients name."""
    key = Pseudonymiser(b"k" * 16)
    march, april = months
    hidden, _ = pseudonymous(march, key)
    model = trained("forest", hidden)
    load = loader_of(model, tmp_path / "model")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "model").rglob("*"))
    assert b"u01" not in stored and b"~1" in stored and hidden.names("queue") == march.names("queue")
    assert pseudonymous(hidden, key)[0].categories == hidden.categories
    expected = trained("forest", march).predict(april, warm=True)
    np.testing.assert_array_equal(model.predict(pseudonymous(april, key)[0], warm=True), expected)
    with running(tmp_path, parts=(load,), warm=True, learn=False, key=key) as one, one.client() as client:
        np.testing.assert_array_equal(drive(client, april, batch=100).seconds, expected)


def with_partitions(log):
    """A log with a named partition beside each queue, numbered the other way round."""
    names = tuple(f"p-{name}" for name in log.names("queue")[::-1])
    codes = len(names) - 1 - log.filled("queue")
    columns, categories = {**log.values, "partition": codes}, {**log.categories, "partition": names}
    return replace(log, values=columns, unknown={**log.unknown, "partition": codes < 0}, categories=categories)


def hashed(log, key):
    """A log's events, each code with a name being the hash of that."""
    columns = ("user", "group", "executable", "queue", "partition")
    names = {column: [key.code(text) for text in log.names(column)] for column in columns}
    found = []
    for event in events_of(log):
        codes = {column: getattr(event, column) for column in columns}
        found.append(event._replace(**{c: names[c][v] if v >= 0 and names[c] else v for c, v in codes.items()}))
    return found


def started(folder, loader, model="models:/runtime@champion", **options):
    folder.mkdir(exist_ok=True)
    about = {"db": f"sqlite:///{folder}/s.db", "poll": 0, "warm": True} | options
    service = Service(Settings(model=model, **about), loader)
    service.start()
    service.wait(600)
    return service


def state(service):
    """All job_state, what was learnt, and what is said of some jobs."""
    model = service.learner.champion
    learnt = {name: kept for name, kept in (model.state() or {}).items() if ".skops" not in name}
    jobs = [event[4:11] for event in EVENTS if event.kind == SUBMITTED][:40]
    asked = service.predict(jobs, EVENTS[-1].time).answers
    return {**service.job_state.snapshot()[1], **learnt}, [(one.seconds, one.quantiles) for one in asked]


def test_it_knows_what_a_service_knows_through_which_the_log_was_driven(months, tmp_path):
    """Every feature, whatever the model's own are, of names and numbers, to the last bit."""
    march, april = months
    key = Pseudonymiser()
    places = [with_partitions(month) for month in months]
    for name, first, later in (("names", march, april), ("places", *places), ("numbers", FIRST, LATER)):
        model = trained("last-two", first)
        service = started(tmp_path / name, loader_of(model, tmp_path / f"{name}-model"))
        driven = JobState()
        driven.take([event._replace(sequence=i) for i, event in enumerate(hashed(first, key), 1)])
        events = hashed(later, key)
        jobs = [event[4:11] for event in events if event.kind == SUBMITTED]
        found, expected = (known.rows(jobs, events[0].time)[0] for known in (service.job_state, driven))
        np.testing.assert_array_equal(found, expected)
        assert np.isfinite(found).mean() > 0.5 and len(service.job_state.history) == 0
        service.stop()


@pytest.mark.parametrize("name", ["last-two", "online-linear", "online-tree"])
def test_a_restart_gives_the_same_state_whatever_became_of_the_model(name, tmp_path):
    """From a snapshot, from the events alone, without --warm, and with another history behind the alias."""
    loader = loader_of(trained(name, FIRST), tmp_path / "model")
    whole = started(tmp_path / "whole", loader)
    feed(whole, EVENTS)
    service = started(tmp_path / "s", loader)
    feed(service, EVENTS[:200])
    service.stop()
    service = started(tmp_path / "s", loader, warm=False)
    feed(service, EVENTS[200:350])
    die(service)
    retrained = trained(name, FIRST)
    keep_full_history(retrained, FIRST.select(slice(20)))
    service = started(tmp_path / "s", loader_of(retrained, tmp_path / "other"))
    feed(service, EVENTS[350:])
    equal(state(service), state(whole))
    for sequence in (400, 401, 402):
        service.writer.do(lambda sequence=sequence: service.store.keep_snapshot(sequence, b"PK damaged"))
    feed(service, [EVENTS[0]])  # a duplicate, behind the snapshots
    for one in (service, whole):
        assert one.began["until"] == FIRST.epoch + trained("last-two", FIRST).history_.now
        assert one.store.first_history() is not None
        one.stop()


def test_events_from_before_the_history_ended_are_refused_and_its_running_jobs_are_nobodys(tmp_path):
    """Twice they would count; the end of a job of which the history did not tell the end waits, without effect."""
    service = started(tmp_path / "s", loader_of(trained("last-two", FIRST), tmp_path / "model"))
    until = service.began["until"]
    before = state(service)[1]
    events = [
        Event(7, SUBMITTED, until - 5, procs=1, user=1),
        Event(8, SUBMITTED, until, procs=1, user=1),
        Event(9, ENDED, until + 5),
    ]
    receipts = service.writer.put(events)
    feed(service, [Event(8, STARTED, until + 1)])
    assert [one.what for one in receipts.result()] == ["refused", "applied", "held"]
    assert len(service.job_state.history) == 1
    assert state(service)[1] == before
    service.stop()
    service = started(tmp_path / "s", loader_of(trained("last-two", FIRST), tmp_path / "model"))
    receipts = service.writer.put([Event(10, SUBMITTED, until - 1)])
    feed(service, [Event(11, SUBMITTED, until)])
    assert [one.what for one in receipts.result()] == ["refused"] and len(service.job_state.history) == 2
    service.stop()


def test_a_ledger_by_tables_refuses_the_same_as_one_by_one():
    events = [Event(job, SUBMITTED, time) for job, time in ((1, 4), (2, 5), (3, 9))]
    one_by_one, many = EventOrder(begin=5), EventOrder(begin=5)
    assert [one_by_one.take(event)[0] for event in events] == ["refused", "applied", "applied"]
    assert many.take_regular([1, 2, 3], [SUBMITTED] * 3, [4, 5, 9]) == 0
    assert many.take_regular([2, 3], [SUBMITTED] * 2, [5, 9]) == 2
    restored = EventOrder.restore(one_by_one.snapshot())
    assert restored.take(Event(4, SUBMITTED, 4))[0] == "refused"


def test_what_cannot_begin_warm_says_so(tmp_path):
    undated = JobLog(FIRST.values, FIRST.unknown, name="undated")
    for number, (model, told) in enumerate(
        [
            (make_predictor("last-two"), "carries no history to begin with"),
            (trained("last-two", FIRST, whole=False), "keeps the history of its own features only; train it again"),
            (trained("last-two", undated), "its log has no date"),
        ]
    ):
        with pytest.raises(JobcastError, match=told):
            started(tmp_path / "no", loader_of(model, tmp_path / f"model{number}"))
    with pytest.raises(JobcastError, match="begins warm on Unix time only"):
        Settings(model="last-two", db="sqlite:///x", warm=True, clock="log")
    loader = loader_of(trained("last-two", FIRST), tmp_path / "model")
    service = started(tmp_path / "s", loader, warm=False)
    feed(service, EVENTS[:3])
    service.stop()
    with pytest.raises(JobcastError, match=r"s.db: has 3 events already and began with no history"):
        started(tmp_path / "s", loader)
    warm = trained("last-two", FIRST)
    started(tmp_path / "w", loader_of(warm, tmp_path / "warm")).stop()
    with pytest.raises(JobcastError, match="was begun with unix, not log clock; give the --clock"):
        started(tmp_path / "w", loader_of(warm, tmp_path / "warm"), warm=False, clock="log")
