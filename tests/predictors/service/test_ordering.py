"""The rule for late, early and contradictory events, and the codes that stand for names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, generate_log
from predictors.core.events import CANCELLED, ENDED, FORGOTTEN, STARTED, SUBMITTED
from predictors.history.replay import log_events
from predictors.service.event import FIELDS, Event
from predictors.service.pseudonyms import FIRST_NAME, Pseudonymiser
from predictors.service.state.jobs import JobState
from predictors.service.state.ordering import LONGEST_RUN, EventOrder
from predictors.service.storage.snapshots import packed, unpacked

KINDS = st.sampled_from([SUBMITTED, STARTED, ENDED, CANCELLED, FORGOTTEN])
EVENTS = st.lists(st.tuples(st.integers(1, 4), KINDS, st.integers(0, 9) | st.just(LONGEST_RUN + 5)), max_size=24)
"""Also what the database keeps back while nothing was withdrawn: a second event of a job and kind."""


def numbered(rows):
    return [
        Event(job, kind, time, user=job % 2, requested_time=10, sequence=n)
        for n, (job, kind, time) in enumerate(rows, 1)
    ]


def told(rows):
    event_order = EventOrder()
    effects, happened = [], []
    for event in numbered(rows):
        effect, now = event_order.take(event)
        effects.append(effect)
        happened += [(one.job, one.kind, one.time) for one in now]
    return effects, happened, event_order


@pytest.mark.parametrize(
    ("rows", "effects", "happened"),
    [
        # in order
        ([(1, SUBMITTED, 1), (1, STARTED, 2), (1, ENDED, 5)], "aaa", [(SUBMITTED, 1), (STARTED, 2), (ENDED, 5)]),
        # backwards: all is held until the submission comes
        ([(1, ENDED, 5), (1, STARTED, 2), (1, SUBMITTED, 1)], "hha", [(SUBMITTED, 1), (STARTED, 2), (ENDED, 5)]),
        # an end without a start waits for ever
        ([(1, SUBMITTED, 1), (1, ENDED, 5)], "ah", [(SUBMITTED, 1)]),
        # an end before its start contradicts, whichever comes first
        ([(1, SUBMITTED, 1), (1, STARTED, 6), (1, ENDED, 5)], "aar", [(SUBMITTED, 1), (STARTED, 6)]),
        ([(1, ENDED, 5), (1, SUBMITTED, 1), (1, STARTED, 6)], "haa", [(SUBMITTED, 1), (STARTED, 6)]),
        # what is before its submission contradicts, whichever comes first; the right event may follow
        ([(1, SUBMITTED, 5), (1, STARTED, 4), (1, ENDED, 4), (1, CANCELLED, 4), (1, STARTED, 6), (1, ENDED, 9)],
         "arrraa", [(SUBMITTED, 5), (STARTED, 6), (ENDED, 9)]),
        ([(1, STARTED, 4), (1, ENDED, 4), (1, SUBMITTED, 5), (1, STARTED, 5)], "hhaa", [(SUBMITTED, 5), (STARTED, 5)]),
        # so does an end a year after its start, whichever comes first
        ([(1, SUBMITTED, 1), (1, STARTED, 2), (1, ENDED, 3 + LONGEST_RUN), (1, ENDED, 2 + LONGEST_RUN)], "aara",
         [(SUBMITTED, 1), (STARTED, 2), (ENDED, 2 + LONGEST_RUN)]),
        ([(1, ENDED, 10**9), (1, SUBMITTED, 1), (1, STARTED, 2)], "haa", [(SUBMITTED, 1), (STARTED, 2)]),
        # who waits for longer is cancelled all the same
        ([(1, SUBMITTED, 1), (1, CANCELLED, 10**9)], "aa", [(SUBMITTED, 1), (CANCELLED, 10**9)]),
        # cancelled in the queue, and while it runs: an end with status 5
        ([(1, SUBMITTED, 1), (1, CANCELLED, 3), (1, STARTED, 4)], "aar", [(SUBMITTED, 1), (CANCELLED, 3)]),
        ([(1, SUBMITTED, 1), (1, STARTED, 2), (1, CANCELLED, 3)], "aaa", [(SUBMITTED, 1), (STARTED, 2), (ENDED, 3)]),
        # after the end
        ([(1, SUBMITTED, 1), (1, STARTED, 2), (1, ENDED, 3), (1, CANCELLED, 3)], "aaar",
         [(SUBMITTED, 1), (STARTED, 2), (ENDED, 3)]),
    ],
)  # fmt: skip
def test_what_becomes_of_events(rows, effects, happened):
    found, order, _ = told(rows)
    assert "".join(effect[0] for effect in found) == effects
    assert [one[1:] for one in order] == happened


@given(EVENTS)
def test_whatever_arrives_the_history_can_follow(rows):
    job_state = JobState()
    for event in numbered(rows):
        job_state.take([event])
    at_once, as_stored = JobState(), JobState()
    at_once.take(numbered(rows))
    as_stored.take_table(np.array(numbered(rows), dtype=np.int64).reshape(-1, len(FIELDS)))
    for other in (at_once, as_stored):
        assert other.sequence == job_state.sequence
        for name, array in job_state.snapshot()[1].items():
            assert np.array_equal(array, other.snapshot()[1][name], equal_nan=array.dtype.kind == "f"), name


@pytest.mark.parametrize("size", [40, 1000])
def test_a_long_stream_with_oddities_is_the_same_by_tables(size):
    log = generate_log(400, seed=4)
    rows = [(int(log["job_id"][row]), kind, time) for time, kind, row in log_events(log).tolist()]
    for place in range(90, len(rows), 97):  # an event changes places with a later one
        rows[place], rows[place - 83] = rows[place - 83], rows[place]
    events = numbered(rows)
    one, other = JobState(), JobState()
    told, tables = [], []
    for i in range(0, len(events), size):
        told += one.take(events[i : i + size])[1]
        tables += other.take_table(np.array(events[i : i + size], dtype=np.int64))
    assert [(e.kind, e.job, e.time, e.seconds, e.sequence) for e in told] == [
        (e.kind, e.job, e.time, e.seconds, e.sequence) for e in tables
    ]
    assert all(np.array_equal(a.row, b.row, equal_nan=True) for a, b in zip(told, tables, strict=True))
    for name, array in one.snapshot()[1].items():
        assert np.array_equal(array, other.snapshot()[1][name], equal_nan=array.dtype.kind == "f"), name


@given(EVENTS, st.integers(0, 24))
def test_a_restored_ledger_goes_on_as_one_that_never_stopped(rows, cut):
    whole, first = JobState(), JobState()
    events = numbered(rows)
    whole.take(events)
    first.take(events[:cut])
    second = JobState()
    sequence, arrays = first.streamed_snapshot()
    second.restore(sequence, unpacked(packed(arrays)))
    if events[cut:]:
        second.take(events[cut:])
    assert second.sequence == whole.sequence
    for name, array in whole.snapshot()[1].items():
        other = second.snapshot()[1][name]
        assert np.array_equal(array, other, equal_nan=array.dtype.kind == "f"), name


@given(EVENTS, EVENTS)
def test_a_trial_that_fails_leaves_no_trace(rows, tried):
    order = EventOrder(most_held=2, most_over=2)
    for event in numbered(rows):
        order.take(event)
    before = order.snapshot()
    with pytest.raises(KeyError), order.trial():
        for event in numbered(tried):
            order.take(event)
        raise KeyError
    for name, array in order.snapshot().items():
        assert array.tolist() == before[name].tolist(), name


@given(EVENTS)
def test_effects_of_many_are_those_one_by_one(rows):
    """As they are noted for the events of an older database, or after a correction."""
    one, many, effects = EventOrder(), EventOrder(), {}
    for event in numbered(rows):
        effects[event.sequence], _ = one.take(event)
        effects |= {other.sequence: now for other, now in one.changed}
    table = np.array(numbered(rows), dtype=np.int64).reshape(-1, len(FIELDS))
    noted = dict.fromkeys(effects, "applied") | dict(many.judge(table))
    assert noted == effects
    taken = [rows[number - 1][:2] for number, effect in effects.items() if effect in ("applied", "held")]
    assert len(taken) == len(set(taken)), "two events in one place"


def test_of_a_job_that_waits_in_an_older_snapshot_the_submission_is_unknown():
    order = EventOrder()
    order.take(Event(1, SUBMITTED, 5))
    arrays = order.snapshot()
    arrays["live"][0, 1] = -1
    assert EventOrder.restore(arrays).take(Event(1, STARTED, 0))[0] == "applied"
    assert order.take(Event(1, STARTED, 4))[0] == "refused"


def test_memory_of_jobs_that_wait_and_are_over_is_bounded():
    event_order = EventOrder(most_held=3, most_over=3)
    for job in range(10):
        event_order.take(Event(job, STARTED, 5))
    assert event_order.held == 3 and event_order.dropped == 7
    for job in range(20, 30):
        for kind in (SUBMITTED, STARTED, ENDED):
            event_order.take(Event(job, kind, 5))
    assert event_order.take(Event(29, CANCELLED, 6))[0] == "refused"
    assert event_order.take(Event(20, CANCELLED, 6))[0] == "held"  # forgotten that it is over


def test_a_snapshot_of_other_settings_is_refused():
    sequence, arrays = JobState().snapshot()
    with pytest.raises(JobcastError, match="another time_zone"):
        JobState(time_zone="Europe/Stockholm").restore(sequence, arrays)
    with pytest.raises(JobcastError, match="cannot be read"):
        unpacked(b"PK nonsense")


def test_codes_of_names():
    key = Pseudonymiser(b"0123456789abcdef")
    assert key.code("alice") == key.code("alice") != key.code("bob")
    assert FIRST_NAME <= key.code("alice") < 2 * FIRST_NAME
    assert float(key.code("alice")) == key.code("alice")
    assert key.code("\ud800") >= FIRST_NAME  # half a character is a name like others
    assert len({key.code(f"user{i}") for i in range(20_000)}) == 20_000


def test_a_key_must_be_long_enough(tmp_path):
    file = tmp_path / "key"
    file.touch(mode=0o600)
    file.write_bytes(b"short\n")
    with pytest.raises(JobcastError, match="16 to 64 bytes"):
        Pseudonymiser.read(file)
    file.write_bytes(b"long enough to be a key\n")
    assert Pseudonymiser.read(file).secret == b"long enough to be a key"


def test_a_key_that_others_may_read_and_a_file_without_end_are_refused(tmp_path):
    file = tmp_path / "key"
    file.write_bytes(b"long enough to be a key\n")
    for mode in (0o604, 0o602):
        file.chmod(mode)
        with pytest.raises(JobcastError, match="others may read or change this secret key; chmod o-rwx it"):
            Pseudonymiser.read(file)
    file.chmod(0o640)
    assert Pseudonymiser.read(file).secret
    with file.open("r+b") as big:
        big.truncate(1 << 40)  # more than any memory holds
    with pytest.raises(JobcastError, match="this file has far more"):
        Pseudonymiser.read(file)
