"""When a job that is submitted now would start: by partition and width, of a queue and of what has ended."""

from dataclasses import replace
from threading import Event

import pytest

from experiments.site.live.expected import EVERY, Aside, ExpectedStarts, typical
from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, starts_of
from predictors.core.errors import JobcastError
from predictors.schedulers.journal import JobClass
from predictors.schedulers.table import ExpectedStart
from tests.experiments.site.live.test_starts import NOW, job, past_of

CLASSES = [JobClass("eve", "", "batch", 8, 60, "fit", 30), JobClass("ann", "", "batch", 2, 20, "x", 5),
           JobClass("ann", "", "gone", 2, 20, "x", 5)]  # fmt: skip


@pytest.fixture
def queue():
    """Eight processors of which job 1 has six for its hour, 600 s of which have passed; job 2, of all, waits."""
    jobs = (job(1, "RUNNING", start=NOW - 600, procs=6), job(2))
    return LiveQueue(NOW, jobs, {"batch": 8}, {"batch": frozenset(("n1", "n2"))}, default="batch")


def test_by_requests_a_narrow_job_passes_and_a_wide_one_waits_for_its_turn(queue):
    found = ExpectedStarts(Past(None), lambda: queue).expected(CLASSES)
    wide = ExpectedStart("batch", 16, 60, NOW + 6600, NOW + 6600, NOW)
    narrow = ExpectedStart("batch", 4, 20, NOW, NOW, NOW)  # its 20 min end before the head's turn
    assert found == [wide, replace(wide, partition=""), narrow, replace(narrow, partition="")]


def test_it_is_the_forecast_of_jobcast_start(queue):
    past = past_of([0.2, 0.5, 0.5, 1.0, 0.7])
    last = job(3, procs=8, submit=NOW, user="")
    with_it = replace(queue, jobs=(*queue.jobs, last))
    expected = starts_of(with_it, Past(past), [last], draws=50)[0]
    found = ExpectedStarts(Past(past), lambda: queue).expected(CLASSES)[0]
    assert (found.p50, found.p90) == (expected.p50, expected.p90) and found.p50 < found.p90


def test_what_ends_is_learnt_from_once_and_not_before_it_has_ended(queue):
    ended = job(9, "COMPLETED", start=NOW - 1800, end=NOW - 900, submit=NOW - 4000)
    told = ExpectedStarts(Past(None), lambda: queue)
    told.learn([ended, ended, *queue.jobs])
    told.learn([ended])
    assert told._past.before(NOW) == [("eve", 0.25)] and told._past.before(NOW - 901) == []
    assert told.expected(CLASSES)[0].p50 < NOW + 6600  # job 1 runs longer than that; job 2 is expected to need 900 s
    known = ExpectedStarts(Past(past_of([0.5], ended=NOW - 10)), lambda: queue)
    known.learn([ended])  # the log has it, or could have
    assert known._past.before(NOW) == [("eve", 0.5)]


def test_starts_are_asked_anew_after_five_minutes_and_troubles_are_told(queue):
    clock, asked = [0.0], []

    def look():
        asked.append(clock[0])
        if len(asked) == 3:
            raise JobcastError("squeue: failed with status 1")
        return replace(queue, now=NOW + len(asked))

    told = ExpectedStarts(Past(None), look, lambda: clock[0])
    assert told.expected(CLASSES)[0].asked == NOW + 1
    clock[0] = EVERY - 1
    assert told.expected(CLASSES)[0].asked == NOW + 1 and asked == [0.0]
    clock[0] = EVERY
    assert told.expected(CLASSES)[0].asked == NOW + 2
    clock[0] = 2 * EVERY
    with pytest.raises(JobcastError, match="squeue"):
        told.expected(CLASSES)
    assert told.expected(CLASSES) == []  # nothing old is told in its place


def test_classes_that_cannot_start_are_left_out(queue):
    down = replace(queue, procs={"batch": 4}, jobs=())
    assert [one.procs for one in ExpectedStarts(Past(None), lambda: down).expected(CLASSES)] == [4, 4]


def test_the_typical_job_is_the_one_in_the_middle(queue):
    classes = [JobClass("a", "", "batch", 5, 10, "", 2), JobClass("b", "", "batch", 7, 90, "", 3)]
    assert typical(classes, replace(queue, jobs=())) == {("batch", 16): (7, 5400)}
    assert list(typical(CLASSES, queue)) == [("batch", 16), ("batch", 4)]


def test_a_forecast_that_hangs_or_breaks_does_not_keep_a_look_waiting(queue):
    gate, told = Event(), ExpectedStart("batch", 4, 20, NOW, NOW, NOW)

    class Slow:
        learnt, rounds = [], 0

        def learn(self, jobs):
            self.learnt += jobs

        def expected(self, classes):
            self.rounds += 1
            assert gate.wait(30)
            if self.rounds == 2:
                raise ZeroDivisionError("odd")
            return [told]

    slow = Slow()
    aside = Aside(slow, patience=0.01)
    ended = job(9, "COMPLETED", start=NOW - 1800, end=NOW - 900)
    assert aside.expected(CLASSES) == [] and aside.expected(CLASSES) == [] and slow.rounds == 1
    aside.learn([ended, *queue.jobs])  # while the round goes on
    gate.set()
    aside._round.join(30)
    aside._patience = 30
    with pytest.raises(JobcastError, match="ZeroDivisionError"):
        aside.expected(CLASSES)
    assert aside.expected(CLASSES) == [told] and slow.learnt == [ended]
