"""Corrections: the state is that of a service which never had it otherwise; nothing leads back to an erased user."""

import random
import sqlite3

import numpy as np
import pytest
from sqlalchemy import delete, select, update

from predictors.core.errors import JobcastError
from predictors.history import _layout as at
from predictors.service.event import Event
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state import corrections
from predictors.service.state.service import Service
from predictors.service.storage.database import CORRECTIONS, SNAPSHOTS, StorageError
from predictors.service.storage.snapshots import packed, unpacked
from predictors.service.storage.store import Store
from tests.predictors.service.test_state import EVENTS, equal, feed, small, state
from tests.support.commands import invoke

KEY = Pseudonymiser(b"k" * 16)


@pytest.fixture
def begin(tmp_path):
    begun = []

    def start(name="s", model="online-linear"):
        service = Service(Settings(model=model, db=f"sqlite:///{tmp_path}/{name}.db", poll=0), small(model), key=KEY)
        begun.append(service)
        service.start()
        service.wait(600)
        return service

    yield start
    for service in begun:
        if service.ready:
            service.stop()


def corrected(service, change):
    """Stop a service, correct its database, and return what that returned."""
    service.stop()
    store = Store(service.settings.db)
    try:
        return change(store)
    finally:
        store.close()


def test_a_withdrawn_event_never_was_and_the_right_one_takes_its_place(begin):
    """One from the future makes all later ones late; withdrawn, the state is that of a service without it."""
    service, ahead = begin(), EVENTS[100].time + 300 * 86_400
    feed(service, EVENTS[:100])
    end = next(one for one in EVENTS[100:] if one.kind == 2 and any(one.job == old.job for old in EVENTS[:100]))
    feed(service, [end._replace(time=ahead)])
    feed(service, [one for one in EVENTS[100:400] if one is not end])
    assert service.job_state.history.late_events > 200
    sequence = service.store.events_of(end.job)[-1].event.sequence
    gone = corrected(service, lambda store: corrections.withdraw(store, [sequence], "a wrong clock"))
    assert [one.time for one in gone] == [ahead]
    whole, service = begin("whole"), begin()
    feed(whole, [one for one in EVENTS[:400] if one is not end])
    equal(state(service), state(whole))
    told = []
    for one in (service, whole):
        told.extend(one.writer.put([end]).result(300))
        feed(one, EVENTS[400:600])
    assert [one.what for one in told] == ["applied", "applied"]
    equal(state(service), state(whole))
    with service.store.engine.connect() as connection:
        rows = connection.execute(select(CORRECTIONS.c.what, CORRECTIONS.c.why, CORRECTIONS.c.n_events)).all()
    assert rows == [(f"withdrawn: events {sequence}", "a wrong clock", 1)]


def test_what_was_refused_because_of_a_withdrawn_event_takes_effect(begin):
    service = begin()
    feed(service, [Event(1, 0, 10), Event(1, 1, 500), Event(1, 2, 90), Event(1, 2, 600)])
    assert [one.effect for one in service.store.events_of(1)] == ["applied", "applied", "refused", "applied"]
    corrected(service, lambda store: corrections.withdraw(store, [2], "another job's start"))
    service = begin()
    assert [one.effect for one in service.store.events_of(1)] == ["applied", "withdrawn", "held", "refused"]
    feed(service, [Event(1, 1, 20)])
    assert [one.effect for one in service.store.events_of(1)] == [
        "applied", "withdrawn", "applied", "refused", "applied",
    ]  # fmt: skip
    with pytest.raises(JobcastError, match="has no event 2, or it was withdrawn before"):
        corrected(service, lambda store: corrections.withdraw(store, [2], "again"))


def test_an_erased_user_is_nobody_and_others_are_told_the_same(begin, tmp_path, monkeypatch):
    # codes that share no weight of the model's table with others: of random ones, one in ten does
    monkeypatch.setattr(corrections.secrets, "randbits", random.Random(1).getrandbits)
    user = KEY.code("alice")
    mine = EVENTS[0].user
    events = [one._replace(user=user, executable=KEY.code("a.out")) if one.user == mine else one for one in EVENTS]
    service = begin()
    feed(service, events[:900])
    others = [one[4:11] for one in events if one.kind == 0 and one.user != user][:60]
    before = [one.seconds for one in service.predict(others, EVENTS[-1].time).answers]
    alice = [one[4:11] for one in events if one.kind == 0 and one.user == user][:1]
    known = np.isfinite(service.job_state.rows(alice, EVENTS[-1].time)[0]).sum()
    jobs = {one.job for one in events[:900] if one.user == user}
    n_events, _ = corrected(service, lambda store: corrections.erase_user(store, KEY, "alice", "asked for"))
    assert n_events == len(jobs)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("s.db*"))
    for code in (user, KEY.code("a.out")):
        assert code.to_bytes(7, "big") not in stored
    service = begin()
    assert service.rebuilt_events == 900
    assert [one.seconds for one in service.predict(others, EVENTS[-1].time).answers] == before
    assert np.isfinite(service.job_state.rows(alice, EVENTS[-1].time)[0]).sum() < known - 10  # nobody knows her
    with pytest.raises(JobcastError, match="no event of that user"):
        corrected(service, lambda store: corrections.erase_user(store, KEY, "alice", "again"))
    store = Store(service.settings.db)
    with pytest.raises(JobcastError, match="another name key"):
        corrections.erase_user(store, Pseudonymiser(b"j" * 16), "alice", "another key")
    store.close()


def test_a_base_of_an_earlier_version_lacks_features_and_is_gone_on_with(begin):
    """Its events are gone: nothing else can be gone on with."""
    service, whole = begin(), begin("whole")
    for one in (service, whole):
        feed(one, EVENTS[:300])
    corrected(service, lambda store: corrections.let_go(store, EVENTS[200].time, "kept long enough"))
    store = Store(service.settings.db)
    with store.engine.begin() as connection:
        kept = connection.execute(select(SNAPSHOTS).where(SNAPSHOTS.c.sequence == store.base())).one()._asdict()
        arrays = unpacked(kept["arrays"])
        older = [name not in ("worst_ratio", "alike_mean", "place_mean") for name in arrays["history_features"]]
        arrays["history_features"] = arrays["history_features"][older]
        arrays["history_rows"] = arrays["history_rows"][:, older]
        arrays["history_recent"] = arrays["history_recent"][:, : at.RECENT_COLUMNS]
        connection.execute(
            update(SNAPSHOTS).where(SNAPSHOTS.c.sequence == kept["sequence"]).values(arrays=packed(arrays))
        )
        connection.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.sequence != kept["sequence"]))
    store.close()
    service = begin()
    for one in (service, whole):
        feed(one, EVENTS[300:500])
    assert service.job_state.history.now == whole.job_state.history.now
    assert state(service)[1] == state(whole)[1]


@pytest.mark.parametrize("model", ["online-linear", pytest.param("boosted", marks=pytest.mark.slow)])
def test_old_events_are_let_go_and_the_state_stays(begin, model):
    service, whole = begin(model=model), begin("whole", model)
    feed(service, EVENTS[:800])
    feed(whole, EVENTS[:800])
    before = EVENTS[500].time
    n_events = corrected(service, lambda store: corrections.let_go(store, before, "kept long enough"))
    assert 300 < n_events < 700
    service = begin(model=model)
    assert service.rebuilt_events == 0
    equal(state(service), state(whole))
    feed(service, EVENTS[800:])
    feed(whole, EVENTS[800:])
    equal(state(service), state(whole))
    assert service.store.events_of(EVENTS[0].job) == []
    with pytest.raises(JobcastError, match="stands behind the base, event 800"):
        corrected(service, lambda store: corrections.withdraw(store, [EVENTS.index(EVENTS[700]) + 1], "too late"))


def test_a_job_that_was_live_in_the_base_is_over_after_its_user_is_erased(begin):
    service, alice = begin(), KEY.code("alice")
    first = [Event(1, 0, 10, user=alice), Event(1, 1, 20), Event(1, 2, 30), Event(2, 0, 40, user=alice)]
    feed(service, [*first, Event(2, 1, 50), Event(3, 0, 60, user=7)])
    corrected(service, lambda store: corrections.let_go(store, 35, "kept long enough"))
    service = begin()
    feed(service, [Event(2, 2, 100)])
    assert service.job_state.live == 1
    corrected(service, lambda store: corrections.erase_user(store, KEY, "alice", "asked for"))
    service = begin()
    assert (service.job_state.live, service.job_state.event_order.held) == (1, 0)
    assert service.learner.champion.monitor.outcomes == 2
    assert service.learner.champion.state()["lessons_jobs"].tolist() == [3]
    assert [one.effect for one in service.store.events_of(3)] == ["applied"]


def test_numbers_of_events_that_were_let_go_are_not_given_again(begin):
    """A restart reads what stands behind the base: an event with a number before it would be lost."""
    service = begin()
    feed(service, [Event(1, 0, 10), Event(1, 1, 20), Event(1, 2, 30)])
    assert corrected(service, lambda store: corrections.let_go(store, 1000, "kept long enough")) == 3
    assert corrected(begin(), lambda store: corrections.let_go(store, 1000, "again")) == 0
    service = begin()
    feed(service, [Event(2, 0, 40)])
    assert [one.event.sequence for one in service.store.events_of(2)] == [4]
    kept = state(service)
    service.stop()
    store = Store(service.settings.db)
    with store.correcting() as connection:
        connection.execute(delete(SNAPSHOTS).where(SNAPSHOTS.c.base.is_(False)))  # as after a kill
    store.close()
    service = begin()
    assert service.rebuilt_events == 1
    equal(state(service), kept)


def test_a_user_whose_events_were_all_let_go_is_erased_from_the_base(begin):
    service, alice = begin(), KEY.code("alice")
    feed(service, [Event(1, 0, 10, user=alice), Event(1, 1, 20), Event(1, 2, 30), Event(2, 0, 40, user=7)])

    def known(store):
        return any((array == alice).any() for _, stored in store.snapshots() for array in unpacked(stored).values())

    assert corrected(service, lambda store: corrections.let_go(store, 35, "kept long enough")) == 3
    store = Store(service.settings.db)
    assert known(store)
    assert corrections.erase_user(store, KEY, "alice", "asked for") == (0, 0) and not known(store)
    with pytest.raises(JobcastError, match="no event of that user"):
        corrections.erase_user(store, KEY, "alice", "again")
    store.close()
    assert begin().job_state.live == 1


def test_a_user_of_digits_is_erased_however_clients_sent_it(begin):
    """A number, and a name that is that number's digits: two users to the service, and one to the one who asks."""
    service, name = begin(), KEY.code("7")
    feed(service, [Event(1, 0, 10, user=7), Event(2, 0, 20, user=name), Event(3, 0, 30, user=8)])
    assert corrected(service, lambda store: corrections.erase_user(store, KEY, "7", "asked for")) == (2, 2)
    service = begin()
    users = [one.event.user for job in (1, 2, 3) for one in service.store.events_of(job)]
    assert users[2] == 8 and not {7, name} & set(users)


def test_programs_of_nobody_else_leave_the_base_with_their_user(begin):
    """Those that others run stay: their predictions go by them."""
    service, alice, bob = begin(), KEY.code("alice"), KEY.code("bob")
    own, shared = KEY.code("own.x"), KEY.code("shared.x")
    events = []
    for job, (user, program) in enumerate([(alice, own), (alice, shared), (bob, shared)] * 3, 1):
        begun = [Event(job, 0, 100 * job, user=user, executable=program, procs=1, requested_time=60)]
        events += begun if job > 6 else [*begun, Event(job, 1, 100 * job), Event(job, 2, 100 * job + 50)]
    feed(service, events)
    corrected(service, lambda store: corrections.let_go(store, 10_000, "kept long enough"))
    service = begin()
    asked = [[1, 60, bob, -1, shared, -1, -1]]
    before = service.job_state.rows(asked, 2000)[0]

    def known(store, code):
        return any((array == code).any() for _, stored in store.snapshots() for array in unpacked(stored).values())

    service.stop()
    store = Store(service.settings.db)
    assert known(store, own) and known(store, shared)
    corrections.erase_user(store, KEY, "alice", "asked for")
    assert [known(store, code) for code in (alice, own, bob, shared)] == [False, False, True, True]
    store.close()
    service = begin()
    assert np.array_equal(service.job_state.rows(asked, 2000)[0], before, equal_nan=True)
    assert [one.event.executable for one in service.store.events_of(9)] == [shared]
    assert own not in [one.event.executable for one in service.store.events_of(7)]


def test_a_database_that_cannot_be_read_is_refused_and_given_back(tmp_path, monkeypatch):
    def damaged(_):
        raise StorageError("database disk image is malformed")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "base", damaged)
        with pytest.raises(JobcastError, match="malformed") as refused:
            Store(f"sqlite:///{tmp_path}/x.db")
        assert not isinstance(refused.value, StorageError)
    Store(f"sqlite:///{tmp_path}/x.db").close()


def test_a_model_that_must_learn_again_lets_nothing_go(begin):
    service = begin(model="online-tree")
    feed(service, EVENTS[:200])
    with pytest.raises(JobcastError, match="online-tree can only learn again from all events"):
        corrected(service, lambda store: corrections.let_go(store, EVENTS[100].time, "kept long enough"))


def test_the_command(begin, tmp_path):
    service = begin()
    feed(service, EVENTS[:50])
    url = service.settings.db
    assert "another service" in str(invoke("correct", "--db", url, "--why", "w", "--withdraw", "3").exception)
    service.stop()
    for words, told in (
        (["--withdraw", "3", "--erase-user", "x"], "is one of"),
        (["--withdraw", "999"], "has no event 999"),
        (["--withdraw", "9" * 30, "--withdraw", "3"], "has no event 9999"),
        (["--erase-user", "9" * 5000], "another name key"),  # a name: no client may send such a number
        (["--let-go-before", "soon"], "a date such as"),
        (["--erase-user", "nobody"], "another name key"),
    ):
        assert told in str(invoke("correct", "--db", url, "--why", "w", *words).exception)
    done = invoke("correct", "--db", url, "--why", "w", "--withdraw", "3", "--withdraw", "4", "--json")
    assert done.exit_code == 0 and '"events": 2' in done.stdout
    done = invoke("correct", "--db", url, "--why", "w", "--let-go-before", "2001-01-01")
    assert "start the service and stop it" in str(done.exception)
    assert np.isfinite(begin().job_state.sequence)
    for file in ("none.db", "none/none.db"):
        done = invoke("correct", "--db", f"sqlite:///{tmp_path}/{file}", "--why", "w", "--withdraw", "3")
        assert "is not there" in str(done.exception)
    assert not list(tmp_path.glob("none*"))


def test_a_correction_and_a_start_on_a_full_disk_are_told_in_a_line(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/s.db"
    store = Store(url)
    store.append([EVENTS[0]])

    def no_room(*_):
        raise StorageError("database or disk is full")

    with monkeypatch.context() as patch, pytest.raises(JobcastError, match=r"can still be found in the file .*no room"):
        patch.setattr(
            store.engine, "raw_connection", lambda: (_ for _ in ()).throw(sqlite3.OperationalError("no room"))
        )
        store.vacuum()
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(corrections, "withdraw", no_room)
        found = invoke("correct", "--db", url, "--why", "x", "--withdraw", "1")
    assert isinstance(found.exception, JobcastError) and "disk is full); nothing was changed" in str(found.exception)
    monkeypatch.setattr(Store, "note", no_room)
    with pytest.raises(JobcastError, match=r"cannot be read or written now .*disk is full"):
        Service(Settings(model="last-two", db=f"sqlite:///{tmp_path}/new.db"))
