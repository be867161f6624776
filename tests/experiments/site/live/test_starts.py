"""Starts of waiting jobs: from a queue at one moment, learnt only from what had ended by then."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, Present, Start, scored, starts_of
from experiments.studies import start_times as study
from jobcast import JobcastError, JobLog, Workload, clean, generate_log, make_policy, simulate
from predictors.data.formats.swf import write_swf
from predictors.schedulers.soft_limit import QueuedJob, Reservation
from tests.support.commands import invoke, printed

NOW = 1_700_000_000


def job(number, state="PENDING", **about):
    about = {"limit": 3600, "procs": 8, "user": "eve", "partition": "batch", "submit": NOW - 50} | about
    return QueuedJob(number, state, array_id=number, **{"eligible": about["submit"]} | about)


@pytest.fixture
def queue():
    """Eight processors: job 1 runs for 600 s already, of an hour; jobs 2 (all) and 3 (all) wait, job 4 is held."""
    jobs = (
        job(1, "RUNNING", start=NOW - 600),
        job(2, user="ann", start=NOW + 3000),
        job(3, submit=NOW - 10),
        job(4, eligible=None),
        job(5, partition="gpu"),
    )
    return LiveQueue(NOW, jobs, {"batch": 8}, {"batch": frozenset(("n1", "n2"))})


def past_of(ratios, user=1, ended=NOW - 10):
    n = len(ratios)
    columns = {
        "job_id": np.arange(1, n + 1), "submit": np.zeros(n), "wait": np.zeros(n), "user": np.full(n, user),
        "run_time": np.round(3600 * np.asarray(ratios)), "requested_time": np.full(n, 3600),
        "requested_procs": np.ones(n),
    }  # fmt: skip
    values = {name: np.asarray(of).astype(np.int64) for name, of in columns.items()}
    names = {"user": ("ann", "eve")}
    return JobLog.from_columns(values, {}, epoch=ended - int(values["run_time"].max()), categories=names)


def test_by_requests_the_queue_is_served_in_turn(queue):
    found = starts_of(queue, Past(None), [queue.job("2"), queue.job("3")])
    assert [one.by_requests - NOW for one in found] == [3000, 6600]
    assert [(one.p10, one.p50, one.p90) for one in found] == [(NOW + 3000,) * 3, (NOW + 6600,) * 3]
    assert [one.ahead for one in found] == [0, 1] and [one.by_scheduler for one in found] == [NOW + 3000, None]
    assert found[0].left_out == 1


def test_run_times_are_drawn_from_what_users_needed_and_go_on_from_now(queue):
    """Eve's jobs took half their hour, or all of it: job 1 ends 1,200 s from now, or after its hour."""
    found = starts_of(queue, Past(past_of([0.5, 1.0])), [queue.job("2")], draws=200)[0]
    assert found.p10 - NOW == 1200 and found.p90 - NOW == 3000 and found.learnt_from == 2


def test_what_ended_and_stands_in_the_queue_is_learnt_from_once(queue):
    """As above, but the jobs that ended are those of the queue; a log that has them, too, changes nothing."""
    ended = [job(7, "COMPLETED", start=NOW - 1810, end=NOW - 10), job(8, "TIMEOUT", start=NOW - 3610, end=NOW - 10)]
    ended += [job(9, "CANCELLED", start=NOW - 10, end=NOW - 10), job(10, "COMPLETED", start=NOW - 10, end=NOW + 20)]
    queue = replace(queue, jobs=(*queue.jobs, *ended))
    for past in (None, past_of([1.0], ended=NOW - 10)):
        found = starts_of(queue, Past(past), [queue.job("2")], draws=200)[0]
        assert found.p10 - NOW == 1200 and found.p90 - NOW == 3000 and found.learnt_from == 2


def test_what_ends_later_is_not_learnt_from(queue):
    """Runs that end a second after the queue was read change nothing."""
    late = Past(past_of([0.5] * 5, ended=NOW + 1))
    assert starts_of(queue, late, [queue.job("2")])[0].p10 - NOW == 3000


def test_a_soft_limit_and_a_reservation_are_planned_by(queue):
    """Job 9 passes the head by its soft limit of 10 min; a reservation from 20 min on keeps by its hard limit."""
    narrow = job(9, procs=2, limit=7200, soft=600, submit=NOW - 5)
    jobs = (job(1, "RUNNING", start=NOW - 600, procs=6), job(2), narrow)
    with_soft = replace(queue, jobs=jobs)
    assert starts_of(with_soft, Past(None), [narrow])[0].by_requests == NOW
    maintenance = (Reservation("maint", NOW + 1200, NOW + 9000),)
    kept = replace(with_soft, reservations=maintenance)
    assert starts_of(kept, Past(None), [narrow])[0].by_requests >= NOW + 9000


def test_a_reservation_that_has_begun_keeps_its_processors(queue):
    """Half the machine is reserved until NOW + 5000; its own job runs on it, so that four processors are left."""
    course = Reservation("course", NOW - 900, NOW + 5000, frozenset(("n1",)))
    jobs = (job(1, "RUNNING", start=NOW - 600, procs=4, reservation="course"), job(2), job(3, procs=4, submit=NOW - 9))
    begun = replace(queue, jobs=jobs, reservations=(course,))
    found = {one.job: one.by_requests - NOW for one in starts_of(begun, Past(None), list(jobs[1:]))}
    assert found == {"2": 5000, "3": 0}
    others = replace(begun, jobs=(job(1, "RUNNING", start=NOW - 600, procs=6), job(2)))
    assert starts_of(others, Past(None), [others.job("2")])[0].by_requests - NOW == 5000  # it runs on as it does


@pytest.mark.parametrize(("state", "start", "then"), [
    ("CONFIGURING", NOW, 3600), ("COMPLETING", NOW - 600, 1), ("SUSPENDED", NOW - 600, 0),
])  # fmt: skip
def test_jobs_that_are_made_ready_or_cleaned_have_processors(queue, state, start, then):
    found = replace(queue, jobs=(job(1, state, start=start), job(2)))
    assert starts_of(found, Past(None), [found.job("2")])[0].by_requests - NOW == then


def test_a_job_of_several_partitions_is_counted_and_refused_by_name(queue):
    found = replace(queue, jobs=(*queue.jobs, job(6, partition="batch,gpu")))
    assert starts_of(found, Past(None), [found.job("2")])[0].left_out == 2
    with pytest.raises(JobcastError, match="several partitions may take"):
        Present(found, "batch,gpu", Past(None))


def test_why_names_the_jobs_by_their_own_ids(queue):
    present = Present(queue, "batch", Past(None))
    first = present.why(queue.job("3"))[0]
    assert "too few processors were free: it needs 8, free were 0; job 2 headed the queue" in first
    assert "it headed the queue, but needs 8 processors and 0 were free" in present.why(queue.job("2"))[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [("1", "it is RUNNING"), ("4", "it is held, or waits for another job"), ("77", "The queue has no job '77'"),
     ("5", "The number of processors of partition 'gpu' is unknown")],
)  # fmt: skip
def test_what_cannot_be_told(queue, name, why, tmp_path):
    queue.write(tmp_path / "queue.json")
    result = invoke("start", name, "--queue", tmp_path / "queue.json")
    assert isinstance(result.exception, JobcastError) and why in str(result.exception)


def test_a_queue_comes_back_from_its_file_and_no_other_file_is_one(queue, tmp_path):
    full = replace(queue, reservations=(Reservation("m", 1, 2, frozenset(("n1",)), frozenset(("DAILY",))),))
    full.write(tmp_path / "queue.json")
    assert LiveQueue.read(tmp_path / "queue.json") == full
    about = json.loads((tmp_path / "queue.json").read_text())
    for part in ({"now": "soon"}, {"jobs": [{"job_id": 1, "limit": "1:00:00"}]}, {"jobs": [{"job_id": 1, "procs": 0}]},
                 {"procs": {"batch": [8]}}, {"nodes": 3}, {"reservations": [{"name": "m"}]},
                 {"jobs": [{"job_id": 1, "start": 1 << 70}]}):  # fmt: skip
        (tmp_path / "odd.json").write_text(json.dumps(about | part))
        with pytest.raises(JobcastError, match=r"odd\.json: the queue"):
            LiveQueue.read(tmp_path / "odd.json")
    for text in ("", "[]", "{}", '{"format": "jobcast queue"}', '{"format": "jobcast queue", "now": 1, "jobs": [7]}'):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(JobcastError, match="queue"):
            LiveQueue.read(tmp_path / "odd.json")


def test_forecasts_are_held_against_a_later_log(queue, tmp_path):
    """Job 2 starts after 1,500 s: within the interval; Slurm said 3,000 s."""
    queue.write(tmp_path / "queue.json")
    columns = {"job_id": [2], "submit": [0], "wait": [1550], "run_time": [10], "user": [1], "requested_time": [60],
               "requested_procs": [1]}  # fmt: skip
    later = JobLog.from_columns({name: np.array(of) for name, of in columns.items()}, {}, epoch=NOW - 50)
    write_swf(later, tmp_path / "later.swf")
    called = ["start", "--queue", str(tmp_path / "queue.json"), "--score", str(tmp_path / "later.swf"), "--json"]
    found = json.loads(printed(*called))
    assert found["score"]["started"] == 1 and found["score"]["scheduler_mean_error_s"] == 1500
    assert len(found["starts"]) == 2
    one = Start("2", NOW, NOW, NOW + 10, NOW + 20, NOW, None, 0, 0, 0)
    assert scored([one], {"2": NOW + 30})["later_than_p90"] == 1.0
    told = printed(*called[:-1])
    assert "The scheduler's own expectation of 1 of them was off by 25 min" in told


@pytest.mark.slow
def test_the_live_forecast_is_that_of_the_study():
    """A replayed log, read as a live queue at each submission, is answered as the study answers it."""
    log, _ = clean(generate_log(500, seed=4, procs=64, users=12), 64)
    schedule = simulate(Workload.from_log(log), make_policy("easy"))
    table = study.ask(log, 40, 50, 0).set_index("job_id")
    values = {name: log.filled(name) for name in ("job_id", "submit", "requested_time", "user")}
    start, end = schedule.start + NOW, schedule.start + schedule.workload.run_time + NOW
    submit, procs = values["submit"] + NOW, log.procs
    columns = {name: log.filled(name) for name in ("job_id", "submit", "run_time", "requested_time", "user")}
    past = Past(JobLog.from_columns({**columns, "wait": schedule.wait, "requested_procs": procs}, {}, epoch=NOW))
    inside, inside_study, differ = [], [], []
    for row in np.flatnonzero(np.isin(values["job_id"], table.index)):
        now = int(submit[row])
        live = np.flatnonzero((submit <= now) & (np.arange(len(log)) <= row) & (end > now))
        jobs = tuple(
            job(int(k), "RUNNING" if start[k] < now else "PENDING", limit=int(values["requested_time"][k]),
                procs=int(procs[k]), user=str(values["user"][k]), submit=int(submit[k]),
                start=int(start[k]) if start[k] < now else None)
            for k in live
        )  # fmt: skip
        queue = LiveQueue(now, jobs, {"batch": 64}, {"batch": frozenset()})
        found = starts_of(queue, past, [queue.job(str(row))], draws=50)[0]
        told = table.loc[int(values["job_id"][row])]
        assert found.by_requests - now == told["by_requests"]
        inside.append(found.p10 <= start[row] <= found.p90)
        inside_study.append(told["p10"] <= told["wait"] <= told["p90"])
        differ.append(abs(found.p50 - now - told["p50"]) / max(told["p50"], 60))
    assert abs(np.mean(inside) - np.mean(inside_study)) <= 0.1, (np.mean(inside), inside_study)
    assert np.median(differ) < 0.2, differ  # other numbers are drawn
