"""The state: rebuilt to the last bit, also after kills; models that learn, change, fail and are compared; replay."""

import io
import sqlite3
import threading
from time import monotonic, sleep
from time import time as unix_time

import numpy as np
import pytest
from sqlalchemy import update

from experiments.cli.options.shared import seconds_of
from jobcast import JobcastError, JobLog, evaluate, generate_log, make_predictor
from predictors.history.replay import log_events
from predictors.service.api.status import beside_last_two
from predictors.service.event import Event
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.replay_check import _Jobs, drive
from predictors.service.settings import Settings
from predictors.service.state.model import Identity
from predictors.service.state.service import Service
from predictors.service.storage.database import SNAPSHOTS, StorageError
from predictors.service.storage.snapshots import packed, unpacked
from predictors.service.storage.store import Store
from tests.support.commands import invoke
from tests.support.killing import kill_again_and_again
from tests.support.service_in_thread import running
from tests.support.slow import slow_but


def events_of(log: JobLog) -> list[Event]:
    status, columns = log.filled("status"), ("requested_time", "user", "group", "executable", "queue", "partition")
    described = np.stack([log.procs, *(log.filled(name) for name in columns)], axis=1).tolist()
    found = []
    for time, kind, row in log_events(log).tolist():
        about = described[row] if kind == 0 else [-1] * 7
        found.append(
            Event(int(log["job_id"][row]), kind, time + log.epoch, int(status[row]) if kind == 2 else -1, *about)
        )
    return found


LOG = generate_log(500, seed=5)
EVENTS = events_of(LOG)


@pytest.fixture
def start(tmp_path):
    begun = []

    def begin(model="last-two", **options):
        parts = {name: options.pop(name) for name in ("loader", "versions") if name in options}
        service = Service(Settings(model=model, db=f"sqlite:///{tmp_path}/s.db", poll=0, **options), **parts)
        begun.append(service)
        service.start()
        service.wait(600)
        return service

    yield begin
    for service in begun:
        if service.ready:
            service.stop()


def small(name):
    """Return a loader of a predictor that is quick to learn."""
    few = {"n_estimators": 8}
    inside = {"predictor": "censored", "settings": few}
    forest = {**few, "refit_every": 7 * 86400}
    quick = {"boosted": few, "censored": few, "forest": forest, "chain": inside}.get(name, {})
    return lambda uri: (Identity(uri, name, None, name), make_predictor(name, **quick))


def feed(service, events, size=100):
    for i in range(0, len(events), size):
        service.writer.put(events[i : i + size]).result(300)
    wait(service)


def wait(service):
    done = threading.Event()
    service.learner.when(service.job_state.sequence, done.set)
    assert done.wait(300)


@pytest.fixture(autouse=True)
def scratch_files_closed(monkeypatch):
    """Close the unfinished snapshots of killed services, as the system does when a process ends."""
    opened, made = [], Store.scratch

    def recorded(store):
        opened.append(made(store))
        return opened[-1]

    monkeypatch.setattr(Store, "scratch", recorded)
    yield
    for file in opened:
        file.close()


def die(service):
    """End a service as a kill would: no snapshot, nothing flushed but what was committed."""
    service._stopping.set()
    service._watch.join()
    service.writer.stop()
    service.learner.stop()
    service._ready.clear()
    service.store.close()


def state(service):
    model = service.learner.champion
    learnt = {name: kept for name, kept in (model.state() or {}).items() if ".skops" not in name}  # which has dates
    asked = service.predict([event[4:11] for event in EVENTS if event.kind == 0][:50], EVENTS[-1].time)
    return {**service.job_state.snapshot()[1], **learnt}, [(one.seconds, one.quantiles) for one in asked.answers]


def equal(one, other):
    assert one[0].keys() == other[0].keys()
    for name, array in one[0].items():
        assert np.array_equal(array, other[0][name], equal_nan=array.dtype.kind == "f"), name
    assert one[1] == other[1]


@pytest.mark.parametrize(
    "model",
    slow_but(
        ("last-two", "online-linear", "with-budget", "forest", "online-tree", "boosted", "chain"),
        "last-two", "with-budget", "online-tree",
    ),
)  # fmt: skip
def test_a_rebuilt_state_equals_one_that_never_stopped(start, tmp_path, model):
    about = Settings(model=model, db=f"sqlite:///{tmp_path}/whole.db", poll=0)
    whole = Service(about, small(model))
    whole.start()
    whole.wait(600)
    feed(whole, EVENTS)
    service = start(model, loader=small(model))
    feed(service, EVENTS[:600], size=7)
    service.stop()  # leaves a snapshot
    service = start(model, loader=small(model))
    again = model == "online-tree"  # river's: what the next lesson needs cannot be kept
    assert service.rebuilt_events == (600 if again else 0)
    feed(service, EVENTS[600:1000], size=64)
    die(service)  # leaves none
    service = start(model, loader=small(model))
    assert service.rebuilt_events == (1000 if again else 400)
    feed(service, EVENTS[1000:])
    equal(state(service), state(whole))
    jobs = LOG["job_id"].tolist()
    service.stop()
    whole.stop()
    service, whole = start(model, loader=small(model)), Service(about, small(model))
    both = [
        {row["job"]: (row["seconds"], row["lower"], row["answered_by"]) for row in one.store.predictions_of(jobs)}
        for one in (service, whole)
    ]
    whole.store.close()
    assert both[0] == both[1] and len(both[0]) == len(LOG)


@pytest.mark.parametrize("damage", ["flipped", "cut", "another file", "older version, flipped"])
def test_a_damaged_snapshot_is_passed_over_for_an_older_one(start, damage, caplog):
    """To the same state to the last bit; where none is left, by the events alone."""
    service = start("online-linear")
    feed(service, EVENTS[:300])
    service.stop()
    service = start("online-linear")
    feed(service, EVENTS[300:400])
    expected = state(service)
    service.stop()
    for left in (1, 0):
        store = Store(service.settings.db)
        sequence, kept = [(n, file.read()) for n, file in store.snapshots()][-1 if left == 0 else 0]
        broken = bytearray(kept)
        broken[len(kept) // 2] ^= 16
        if damage == "older version, flipped":
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **unpacked(kept))
            broken = bytearray(buffer.getvalue())
            for place in range(len(broken) // 2, len(broken) // 2 + 100):  # more than a member's head
                broken[place] ^= 16
        found = {"cut": kept[: len(kept) // 2], "another file": b"PK nonsense"}.get(damage, bytes(broken))
        with store.engine.begin() as connection:
            connection.execute(update(SNAPSHOTS).where(SNAPSHOTS.c.sequence == sequence).values(arrays=found))
        store.close()
        service = start("online-linear")
        assert service.rebuilt_events == (100 if left else 400)
        assert "is passed over" in caplog.text
        equal(state(service), expected)
        die(service)


def test_events_that_older_rules_let_pass_are_judged_again_once(tmp_path, start, caplog):
    store = Store(f"sqlite:///{tmp_path}/s.db")
    store.append([Event(1, 0, 100), Event(1, 1, 50), Event(2, 0, 100), Event(2, 1, 100), Event(2, 2, 10**9)])
    store.note("judged", "1")
    store.keep_snapshot(5, packed({"rules": np.array(1)}))
    store.close()
    service = start()
    assert [one.effect for job in (1, 2) for one in service.store.events_of(job)] == [
        "applied", "refused", "applied", "applied", "refused",
    ]  # fmt: skip
    assert service.job_state.sequence == 5 and service.job_state.live == 2 and not list(service.store.snapshots())
    assert caplog.text.count("2 events are judged otherwise") == 1
    feed(service, [Event(1, 1, 150), Event(2, 2, 200)])
    assert [one.effect for one in service.store.events_of(1)] == ["applied", "refused", "applied"]
    service.stop()
    caplog.clear()
    again = start()
    assert again.job_state.live == 1 and "judged" not in caplog.text


def test_a_snapshot_of_an_older_version_is_read():
    arrays = {"a": np.arange(5), "b": np.array("text")}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    for kept in (buffer.getvalue(), packed(dict(arrays))):
        assert all(np.array_equal(unpacked(kept)[name], array) for name, array in arrays.items())
    with pytest.raises(ValueError, match="allow_pickle"):
        packed({"objects": np.array([{}])})


def test_snapshots_are_taken_while_it_runs(start):
    service = start("online-linear", snapshot_every=200)
    feed(service, EVENTS[:500], size=50)
    deadline = threading.Event()
    for _ in range(1200):
        if list(service.store.snapshots()):
            break
        deadline.wait(0.05)
    sequence = max(n for n, _ in service.store.snapshots())
    feed(service, EVENTS[500:700])
    expected = state(service)
    die(service)
    service = start("online-linear")
    assert service.rebuilt_events <= 700 - sequence
    equal(state(service), expected)


def test_a_stop_in_the_midst_of_a_snapshot_keeps_one(start):
    service, learns_on = start("last-two"), threading.Event()
    feed(service, EVENTS[:50])
    service.learner.do(lambda: learns_on.wait(10))
    service._snapshot_at = service.job_state.sequence  # as the service's own watch does it
    service.writer.do(service._take_snapshot)
    threading.Timer(0.1, learns_on.set).start()
    service.stop()
    assert start("last-two").rebuilt_events == 0


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"time_zone": "Europe/Berlin"}, "was begun with Europe/Stockholm, not Europe/Berlin time zone"),
        ({"clock": "log"}, "was begun with unix, not log clock; give the --clock"),
        ({"key": Pseudonymiser(b"j" * 16)}, "was begun with another name key; give the --name-key"),
        ({"key": Pseudonymiser()}, "was begun with another name key"),
    ],
)
def test_a_database_keeps_its_key_clock_and_time_zone(tmp_path, option, told):
    """Another key would make everybody somebody else; before the first event all may be changed."""
    first = {"time_zone": "Europe/Stockholm", "key": Pseudonymiser(b"k" * 16)}

    def begun(**options):
        key = options.pop("key")
        service = Service(Settings(model="last-two", db=f"sqlite:///{tmp_path}/s.db", poll=0, **options), key=key)
        service.start()
        service.wait(600)
        return service

    begun(**(first | option)).stop()
    service = begun(**first)
    feed(service, EVENTS[:20])
    service.stop()
    with pytest.raises(JobcastError, match=told):
        begun(**(first | option))
    with sqlite3.connect(f"{tmp_path}/s.db") as raw:
        assert not any(b"kkkk" in str(row).encode() for row in raw.execute("select * from about"))
    begun(**first).stop()


class Registry:
    """Versions of one model, and where its aliases point."""

    def __init__(self):
        self.versions = {
            1: make_predictor("last-two"),
            2: make_predictor("online-linear"),
            3: make_predictor("similar"),
        }
        self.aliases = {"champion": 1, "challenger": 2}
        self.broken = set()

    def version(self, uri):
        """Return where an alias points."""
        return self.aliases[uri.rpartition("@")[2]]

    def load(self, uri):
        """Return a fresh copy, and who it is."""
        number = self.version(uri)
        if number in self.broken:
            raise JobcastError(f"version {number} was changed since it was saved")
        predictor = self.versions[number].clone()
        return Identity(uri, "runtime", number, predictor.name, f"sha{number}"), predictor


def with_registry(start, registry):
    uri = "models:/runtime@{}".format
    return start(uri("champion"), challenger=uri("challenger"), loader=registry.load, versions=registry.version)


def test_the_champion_is_followed_and_the_challenger_watches(start):
    registry = Registry()
    service = with_registry(start, registry)
    feed(service, EVENTS[:600])
    assert service.predict([EVENTS[0][4:11]], None).identity.version == 1
    jobs = [event.job for event in EVENTS[:600] if event.kind == 0]
    champion, challenger = (service.recorded(jobs, role) for role in ("champion", "challenger"))
    assert len(champion) == len(challenger) == len(jobs)
    assert {row["answered_by"] for row in champion.values()} <= {"last-two", "requested"}
    assert any(row["answered_by"] == "online-linear" for row in challenger.values())
    assert service.learner.models["challenger"].figures["outcomes"] > 20

    alone = make_predictor("online-linear")  # what the challenger must have learnt by now, as if it had been alone
    expected = evaluate(LOG, {"it": alone}, train=None)["it"].predicted
    registry.aliases["champion"] = 2
    assert service.reload() == [{"role": "champion", "name": "runtime", "version": 2}]
    assert list(service.learner.models) == ["champion"]
    feed(service, EVENTS[600:])
    after = [event.job for event in EVENTS[600:] if event.kind == 0]
    rows = {job: row for row, job in enumerate(LOG["job_id"].tolist())}
    told = service.recorded(after, "champion")
    assert [told[job]["seconds"] for job in after] == [expected[rows[job]] for job in after]
    whys = [row["why"] for row in service.store.models()]
    assert whys == ["the service was started with it"] * 2 + ["the challenger was promoted"]

    expected_state = state(service)
    die(service)
    service = with_registry(start, registry)  # the alias champion is version 2 by now, and learns since event 0
    assert service.identity.version == 2 and list(service.learner.models) == ["champion"]
    equal(state(service), expected_state)
    assert len(service.store.models()) == 3


def test_a_champion_that_is_worse_than_last_two_is_told(start, caplog):
    """In the log once, in the figures, and after a restart; on the jobs and by the as-of rule of the evaluation."""
    log, service = generate_log(1200, seed=8), start("requested")
    feed(service, events_of(log), size=1000)
    model, scores = service.learner.champion, evaluate(log, ["requested"], train=None)
    predicted, baseline, ran, _ = model.monitor.errors()
    assert sorted(zip(predicted, baseline, ran, strict=True)) == sorted(
        zip(scores["requested"].predicted, scores["last-two"].predicted, scores.run_time, strict=True)
    )
    assert model.drift.stands and model.figures["squared_error_ratio_to_last_two"] > 1
    assert beside_last_two(model)["advice"] == "Refit with: jobcast train LOG --predictor requested"
    for _ in range(1200):
        if caplog.records:
            break
        service._stopping.wait(0.05)
    service._stopping.wait(0.6)
    said = [record.getMessage() for record in caplog.records if "worse than last-two" in record.getMessage()]
    assert len(said) == 1 and "champion requested is worse" in said[0] and "Refit with: jobcast train" in said[0]
    expected, standing = state(service), model.monitor.judged()
    service.stop()
    again = start("requested")
    equal(state(again), expected)
    champion = again.learner.champion
    assert again.rebuilt_events == 0 and champion.monitor.standing == standing and champion.drift.stands


def test_quantiles_are_those_of_the_replayed_log(start):
    """The service and `predict` follow the log by one layer: what was issued at each submission is the same."""
    service = start("similar")
    feed(service, EVENTS)
    found = evaluate(LOG, ["similar"], train=None, intervals=True)["similar"]
    live, replayed = service.learner.champion.monitor.quantiles, found.followed.layer
    assert live.outcomes == replayed.outcomes and live.now == replayed.now
    asked = service.predict([event[4:11] for event in EVENTS if event.kind == 0][:50], EVENTS[-1].time).answers
    assert all(one.quantiles == live.now.one(one.seconds, event.requested_time) for one, event in
               zip(asked, [event for event in EVENTS if event.kind == 0], strict=False))  # fmt: skip
    held = service.learner.champion.figures["covered_share"]
    assert held == pytest.approx(found.followed.covered)


def test_the_setting_on_kills_bounds_the_quantiles(start):
    service = start("requested", kills=True)
    feed(service, EVENTS)
    submitted = [event for event in EVENTS if event.kind == 0]
    answers = service.predict([event[4:11] for event in submitted], EVENTS[-1].time).answers
    assert all(one.quantiles[2] <= event.requested_time for one, event in zip(answers, submitted, strict=True))


def test_a_new_champion_learns_from_where_it_was_in_role(start):
    registry = Registry()
    service = start("models:/runtime@champion", loader=registry.load, versions=registry.version)
    feed(service, EVENTS[:450])
    registry.aliases["champion"] = 2
    service.reload()
    feed(service, EVENTS[450:900])
    expected = state(service)
    assert service.learner.champion.since == 450
    die(service)
    service = start("models:/runtime@champion", loader=registry.load, versions=registry.version)
    assert service.learner.champion.since == 450
    equal(state(service), expected)


def test_a_model_that_cannot_be_loaded_leaves_the_old_one(start):
    registry = Registry()
    service = with_registry(start, registry)
    registry.aliases["champion"], registry.broken = 3, {3}
    assert service.reload() == [] and "was changed" in service.roles.trouble["champion"]
    assert service.identity.version == 1
    registry.broken = set()
    assert service.reload()[0]["version"] == 3 and not service.roles.trouble


def test_a_model_of_another_as_of_rule_is_refused(start):
    registry = Registry()
    registry.versions[3] = make_predictor("last-two", as_of="reis")
    service = with_registry(start, registry)
    registry.aliases["champion"] = 3
    assert service.reload() == [] and "by the rule 'reis'" in service.roles.trouble["champion"]


class Broken:
    """An estimator that fails, or says what cannot be."""

    def __init__(self, says):
        self.says = says

    def predict_one(self, row):
        """Fail, or say it."""
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def predict(self, rows):
        """Fail, or say it of each."""
        return np.array([self.predict_one(row) for row in rows])


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (ValueError("no"), "the model failed"),
        (np.inf, "the model predicted out of range"),
        (1e300, "the model predicted out of range"),
    ],
)
def test_a_model_that_fails_is_stood_in_for_along_the_chain(start, says, why):
    predictor = make_predictor("forest", cap=False)
    predictor.estimator_ = Broken(says)
    service = start("broken", loader=lambda uri: (Identity(uri, uri, None, "forest"), predictor), learn=False)
    feed(service, EVENTS[:300])
    jobs = [event[4:11] for event in EVENTS if event.kind == 0][:100]
    told = service.predict(jobs, EVENTS[299].time)
    assert "similar" in {one.answered_by for one in told.answers} <= {"similar", "last-two", "requested"}
    assert {one.why for one in told.answers} == {why}
    assert service.predict(jobs[:1], EVENTS[299].time).answers == told.answers[:1]
    assert service.learner.champion.failures[why] == sum(event.kind == 0 for event in EVENTS[:300])
    figures = service.learner.champion.figures  # the share that P10 to P90 held is that of the model's own answers
    assert figures["outcomes"] > 20 and "covered_share" not in figures


def test_a_thread_that_fails_ends_the_service(start):
    service = start("last-two")
    feed(service, EVENTS[:100])
    ended = threading.Event()
    service.on_failure = ended.set
    service.learner.do(lambda: 1 / 0)
    assert ended.wait(300) and "ZeroDivisionError" in service.failed
    service._stopping.set()
    service.writer.stop()
    service.store.close()
    service._ready.clear()
    service = start("last-two")  # what was acknowledged is there
    assert service.job_state.sequence == 100


def test_a_trouble_of_the_database_passes_without_another_event(start):
    """A proxy that asks whether the service is ready would send none before."""
    service = start("online-linear")
    append, check = service.store.append, service.store.check_writing

    def fail(*_):
        raise StorageError("no space is left")

    service.store.append = service.store.check_writing = fail
    assert isinstance(service.writer.put([Event(1, 0, 10)]).exception(300), StorageError)
    sleep(0.5)
    assert service.health.troubles() == {"storage": "no space is left"}
    service.store.append, service.store.check_writing = append, check
    end = monotonic() + 30
    while service.health.troubles() and monotonic() < end:
        sleep(0.01)
    assert service.health.answers
    feed(service, [Event(1, 0, 10)])
    assert service.job_state.live == 1


def test_a_lesson_that_fails_is_counted_and_predictions_go_on(start):
    predictor = make_predictor("online-linear")
    predictor.learn_one = lambda outcome: 1 / 0
    service = start("bad", loader=lambda uri: (Identity(uri, uri, None, "online-linear"), predictor))
    feed(service, EVENTS[:300])
    assert service.learner.champion.learning_errors == sum(event.kind == 2 for event in EVENTS[:300])
    assert service.predict([EVENTS[0][4:11]], 0).answers[0].seconds > 0


@pytest.mark.parametrize("options", [{"clock": "sundial"}, {"as_of": "never"}, {"poll": -1}, {"capacity": 0}])
def test_settings_that_cannot_be_are_named(options):
    with pytest.raises(JobcastError):
        Settings(model="last-two", db="sqlite:///x.db", **options)


@pytest.mark.parametrize("model", ["online-linear", "with-budget", "censored"])
def test_jobs_whose_ends_were_lost_are_given_up_by_an_event(start, model):
    """The state is a function of the log: rebuilt to the last bit; nothing is learnt, and their groups are empty."""
    service = start(model, loader=small(model))
    now = 1_700_000_000
    jobs = range(10**6, 10**6 + 20)
    lost = [Event(job, 0, now, user=3, procs=4, requested_time=60) for job in jobs]
    lost += [Event(job, 1, now + 1) for job in jobs if job % 2]
    feed(service, lost)
    outcomes = service.learner.champion.monitor.errors()[0]
    feed(service, [Event(10**7, 0, now + 9000, user=3, procs=4, requested_time=60)])
    assert service.silent_jobs(10_000)[0] == [] and service.oldest_silence == 9000
    assert service.silent_jobs(8980)[0] == list(jobs[::2])  # a running job has its request besides
    assert service.forget(3600) == 20 and service.forget(3600) == 0
    wait(service)
    assert service.job_state.live == 1 and service.job_state.sequence == 51
    assert len(service.learner.champion.monitor.errors()[0]) == len(outcomes) == 0
    assert [one.effect for one in service.store.events_of(jobs[1])] == ["applied"] * 3
    late = service.writer.put([Event(jobs[1], 2, now + 30)])
    feed(service, EVENTS[:200])
    assert [one.what for one in late.result()] == ["refused"]
    expected = state(service)
    die(service)
    service = start(model, loader=small(model))
    assert service.rebuilt_events == 252
    equal(state(service), expected)


def test_the_service_gives_jobs_up_by_itself_and_by_command(tmp_path):
    now = int(unix_time())
    with running(tmp_path, forget_after=3600.0) as one, one.client() as client:
        client.send([{"kind": "submitted", "job_id": job, "time": now - age, "requested_time": 60}
                     for job, age in ((1, 90_000), (2, 10))])  # fmt: skip
        assert client.forget(86_400, dry_run=True) == {"live": 2, "jobs": 1, "forgotten": False}
        one.service._look_for_silence()
        assert client.job(1)["state"] == "forgotten" and client.job(2)["state"] == "queued"
        assert one.service.oldest_silence < 60
        done = invoke("forget", "--older-than", "30d", "--url", one.url)
        assert done.exit_code == 0 and done.stdout.startswith("0 of 1 live jobs were given up")
    with pytest.raises(JobcastError, match="after an hour of silence or more"):
        Settings(model="last-two", db="sqlite:///x", forget_after=5.0)
    with pytest.raises(JobcastError, match="such as 30d"):
        seconds_of("a month", "--older-than")


# --- a log driven through it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["online-linear", "with-budget", "censored"])
@pytest.mark.parametrize("batch", slow_but((1, 97), 97))
def test_predictions_equal_those_of_an_evaluation_job_for_job(tmp_path, model, batch):
    log = LOG.select(np.arange(len(LOG)) < (150 if batch == 1 else 500))
    expected = evaluate(log, {model: small(model)(model)[1]}, train=None)[model].predicted
    about = {"time_zone": log.time_zone, "machine_procs": log.max_procs}
    with running(tmp_path, model, parts=(small(model),), **about) as one, one.client(timeout=30) as client:
        found = drive(client, log, batch)
    assert np.array_equal(found.seconds, expected)
    assert (found.first, found.last) == (1, len(log_events(log)))


def test_a_log_without_a_date_needs_its_own_clock(tmp_path):
    log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9], "wait": [0, 0], "run_time": [5, 8], "user": [3, 3],
                               "requested_time": [60, 60]}, {})  # fmt: skip
    with running(tmp_path) as one, one.client() as client, pytest.raises(JobcastError, match="--clock log"):
        drive(client, log)
    with running(tmp_path / "b", clock="log") as one, one.client() as client:
        assert drive(client, log).seconds.tolist() == [60.0, 5.0]
        with pytest.raises(JobcastError, match="with an empty database"):
            drive(client, log)


def test_a_service_of_another_machine_is_refused(tmp_path):
    told = pytest.raises(JobcastError, match=f"--machine-procs {LOG.max_procs}")
    with running(tmp_path, machine_procs=7) as one, one.client() as client, told:
        drive(client, LOG)
    assert _Jobs(LOG, 5).event(0, 0, 0)["time"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 5])
def test_kills_lose_nothing(tmp_path, kills):
    found = kill_again_and_again(tmp_path, f"sqlite:///{tmp_path}/service.db", times=kills)
    assert found["acknowledged"] > 20 * kills
