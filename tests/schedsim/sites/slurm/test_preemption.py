"""Slurm's preemption: small schedules worked out by hand, what the files say of it, and how results report it.

`tests/support/features.py` compares both loops with the slow oracle, next to all other features.
"""

from dataclasses import replace

import numpy as np
import pytest

from experiments.cli.set_up import preemption_note
from experiments.runs.simulate import run_by_name
from jobcast import JobcastError, JobLog, Policy, Simulation, Workload, simulate, when_will_it_start
from schedsim.engine.start_times import Requested
from schedsim.explain.explain import explain
from schedsim.explain.sentences import in_words
from schedsim.policies.policy import FCFS
from schedsim.sites.slurm.files import slurm_policy_of
from schedsim.sites.slurm.limits import Claims, Limits
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Multifactor, parts_of
from schedsim.sites.slurm.preemption.rule import Preemption
from schedsim.validate.laws import PARTS
from schedsim.validate.validate import check
from tests.oracle.machine import Box
from tests.support.nodes import job_on, workload_on

LOW, HIGH = 0, 1


def preemption(classes, procs, **about):
    """Jobs of the class HIGH may stop those of LOW."""
    classes, n = np.array(classes), len(classes)
    zeros = np.zeros(n, dtype=np.int64)
    found = Preemption(
        classes, np.array([[False, False], [True, False]]), zeros, np.array(procs), zeros, zeros.astype(np.bool_)
    )
    return replace(found, **about)


def jobs_of(rows):
    """Return a workload of rows (submit, procs, run time) on 8 processors."""
    submit, procs, run = map(list, zip(*rows, strict=True))
    ids = list(range(1, len(rows) + 1))
    return Workload.from_columns(ids, submit=submit, procs=procs, requested=run, run_time=run, machine_procs=8)


def run(rows, classes, backfills=False, limits=None, **about):
    """Return a checked schedule of rows (submit, procs, run time) on 8 processors, and its policy."""
    workload = jobs_of(rows)
    loops = Loops(interval=1, resolution=1, backfills=backfills, limits=limits)
    policy = Policy(FCFS, replace(loops, preemption=preemption(classes, workload.procs, **about)))
    schedule = simulate(workload, policy)
    assert PARTS in check(schedule, policy).kept
    return schedule, policy


def test_a_job_that_is_stopped_starts_again_after_a_pause():
    schedule, policy = run([(0, 8, 100), (10, 4, 10)], [LOW, HIGH])
    assert schedule.start.tolist() == [131, 10]  # 10 + 120 + 1
    assert schedule.end.tolist() == [231, 20]
    assert schedule.preempted.runs.tolist() == [[0, 0, 10, 1]]
    columns = schedule.columns()
    assert (columns["preempted"].tolist(), columns["lost_processor_seconds"].tolist()) == ([1, 0], [80, 0])
    first, second = (in_words(explain(schedule, job, policy)) for job in (1, 2))
    assert first[2] == "t=10: job 2 preempted it; its run from t=0 on was lost."
    assert "it was held, since it was preempted" in first[3] and first[4].startswith("t=131: started")
    assert second[-1] == "t=10: it preempted job 1."


def test_a_job_that_may_not_start_again_is_gone():
    schedule, _ = run([(0, 8, 100), (10, 4, 10)], [LOW, HIGH], is_cancelled=np.array([True, False]))
    assert (schedule.start.tolist(), schedule.end.tolist()) == ([0, 10], [10, 20])
    assert schedule.preempted.cancelled.tolist() == [True, False]
    assert not schedule.killed.any()


def test_a_part_of_a_schedule_knows_which_jobs_are_gone():
    schedule, _ = run([(0, 8, 100), (10, 4, 10)], [LOW, HIGH], is_cancelled=np.array([True, False]))
    part = schedule.of_rows(np.array([0]))
    assert part.run_time.tolist() == [10] and not part.killed.any()


def test_no_job_is_stopped_that_does_not_help():
    assert run([(0, 4, 100), (10, 4, 10)], [LOW, HIGH])[0].start.tolist() == [0, 10]
    schedule, _ = run([(0, 4, 100), (0, 4, 50), (10, 6, 10)], [LOW, HIGH, HIGH])
    assert schedule.start.tolist() == [171, 0, 50]
    assert schedule.preempted.runs.tolist() == [[0, 0, 50, 2]]  # not at 10, when 4 processors would be free


@pytest.mark.parametrize(
    ("more", "stopped"),
    [
        ({}, [3]),  # 1, 2 and 3 suffice; then 3 comes first, which suffices alone
        ({"rank": np.array([0, 0, 9, 0])}, [3]),
        ({"strict": True}, [3]),
        ({"youngest": True}, [3]),
        ({"exempt": np.array([0, 0, 99, 0])}, []),
    ],
)
def test_the_fewest_jobs_are_stopped(more, stopped):
    rows = [(0, 1, 500), (0, 1, 500), (0, 4, 40), (10, 6, 10)]
    schedule, _ = run(rows, [LOW, LOW, LOW, HIGH], **more)
    assert (schedule.preempted.runs[:, 0] + 1).tolist() == stopped


def test_the_order_of_candidates():
    """Of equal jobs the lowest rank goes, then the fewest nodes, then the first; or the youngest."""
    rows = [(0, 4, 500), (1, 4, 500), (10, 4, 10)]
    classes = [LOW, LOW, HIGH]

    def stopped(**more):
        return run(rows, classes, **more)[0].preempted.runs[:, 0].tolist()

    assert stopped() == [0]
    assert stopped(rank=np.array([5, 0, 0])) == [1]
    assert stopped(nodes=np.array([2, 1, 1])) == [1]
    assert stopped(youngest=True) == [1]


def test_an_exempt_time_is_waited_for():
    """Nothing happens at 30, but that the exempt time of the running job ends."""
    schedule, _ = run([(0, 8, 100), (10, 4, 10)], [LOW, HIGH], exempt=np.array([30, 0]))
    assert schedule.start.tolist() == [151, 30]


def test_an_exempt_time_that_no_longer_matters_wakes_nothing_up():
    """Job 2 waits for it until 60, but starts at 30, when job 1 has ended; job 3 then waits until 130."""
    schedule, policy = run([(0, 8, 30), (10, 8, 100), (31, 8, 10)], [LOW, HIGH, LOW], exempt=np.array([60, 0, 0]))
    assert schedule.start.tolist() == [0, 30, 130]
    assert explain(schedule, 3, policy).instants == 2


def test_the_backfill_loop_preempts_next_to_reservations():
    """Job 2 may stop none; job 3 ends before job 2 could start. Without that loop it stops job 2, a second later."""
    rows = [(0, 6, 100), (1, 8, 50), (2, 4, 10)]
    schedule, _ = run(rows, [LOW, LOW, HIGH], backfills=True)
    assert schedule.start.tolist() == [123, 12, 2]
    assert run(rows, [LOW, LOW, HIGH])[0].start.tolist() == [0, 222, 101]


def test_a_limit_counts_the_part_that_ran():
    """One job of two may run; the second of these starts once the first is stopped."""
    claims = Claims(np.array([0, 2]), np.array([0, 0]), np.array([1, 1]), np.array([True, True]))
    limits = Limits(["MaxJobs=1"], np.array([1]), claims, n_jobs=3)
    rows = [(0, 8, 100), (10, 4, 10), (11, 2, 10)]
    assert run(rows, [LOW, HIGH, LOW], limits=limits)[0].start.tolist() == [131, 10, 11]


def test_a_job_that_runs_twice_at_once_breaks_a_law():
    schedule, policy = run([(0, 8, 100), (10, 4, 10)], [LOW, HIGH])
    runs = schedule.preempted.runs.copy()
    runs[0, 2] = 140
    wrong = replace(schedule, preempted=replace(schedule.preempted, runs=runs))
    with pytest.raises(JobcastError, match="job 1 starts again at 131 s, while it runs until 140 s.*" + PARTS):
        check(wrong, policy)


def test_forecasts_of_starts_behind_a_preemption():
    """At 50 job 1 is to start again at 131; job 3 stops it at 140, so it ends behind that."""
    workload = jobs_of([(0, 8, 100), (10, 4, 10), (140, 8, 10)])
    loops = Loops(interval=1, resolution=1, preemption=preemption([LOW, HIGH, HIGH], workload.procs))
    simulation = Simulation(workload, Policy(FCFS, loops))

    def asked(job, second):
        simulation.run(until=second)
        return when_will_it_start(simulation, job, Requested(workload.requested), n=1).p50

    assert [asked(1, 5), asked(1, 50), asked(1, 135), asked(1, 200), asked(1, 261)] == [0, 131, 131, 261, 261]


@pytest.mark.parametrize("weights", [(1, 1), (5, 1)])
def test_on_nodes_only_jobs_on_the_nodes_of_the_place_are_stopped(weights):
    """Both jobs might go; the one that lies on the lightest node does, or of equal ones the first."""
    boxes = [Box((4, 0, 0), weight=weight) for weight in weights]
    jobs = [
        job_on(1, 0, 500, 500, 1, (4, 0, 0), nodes=(0,)), job_on(2, 0, 500, 500, 1, (4, 0, 0), nodes=(1,)),
        job_on(3, 10, 10, 10, 1, (4, 0, 0), nodes=(0, 1)),
    ]  # fmt: skip
    loops = Loops(backfills=False, preemption=preemption([LOW, LOW, HIGH], [4, 4, 4]))
    schedule = simulate(workload_on(boxes, jobs), Policy(FCFS, loops))
    assert schedule.preempted.runs.tolist() == [[0, 0, 10, 2]]
    assert schedule.start.tolist() == [131, 0, 10]


CONF = """PreemptType=preempt/{kind}
PreemptMode={mode}
SchedulerParameters=bf_interval=1,bf_resolution=1
NodeName=n[1-4] CPUs=2
PartitionName=low Nodes=n[1-3] PriorityTier=1 {low}
PartitionName=high Nodes=n[3-4] PriorityTier=5 {high}
PartitionName=far Nodes=n4 PriorityTier=3
{more}
"""
QOS = "Name|Priority|Preempt|PreemptMode|PreemptExemptTime|GraceTime\n{rows}"
TWO = "normal|7|scavenger|cluster||00:00:00\nscavenger|3||cluster||00:00:00\n"


@pytest.fixture
def files(tmp_path):
    """Write the files; return the policy's name."""

    def write(kind="qos", mode="REQUEUE", low="", high="", more="", rows=TWO):
        conf = CONF.format(kind=kind, mode=mode, low=low, high=high, more=more)
        (tmp_path / "slurm.conf").write_text(conf)
        (tmp_path / "qos").write_text(QOS.format(rows=rows))
        return f"slurm:{tmp_path / 'slurm.conf'},{tmp_path / 'qos'}"

    return write


def made_log(rows):
    """Return a log of rows (submit, procs, run time, QOS, partition) on 8 processors."""
    submit, procs, seconds, qos, queue = np.array(rows, dtype=np.int64).T
    columns = {
        "job_id": np.arange(1, len(rows) + 1), "submit": submit, "run_time": seconds, "requested_time": seconds,
        "requested_procs": procs, "qos": qos, "queue": queue, "user": np.zeros(len(rows), dtype=np.int64),
    }  # fmt: skip
    names = {"qos": ("normal", "scavenger", "urgent"), "queue": ("low", "high", "far"), "user": ("ann",)}
    return JobLog.from_columns(columns, {}, max_procs=8, categories=names)


NORMAL, SCAVENGER, URGENT = range(3)
IN_LOW, IN_HIGH, IN_FAR = range(3)
ROWS = [(0, 8, 100, SCAVENGER, IN_LOW), (10, 4, 10, NORMAL, IN_LOW)]


def of_files(policy, rows=ROWS):
    """Return what the files say of preemption."""
    return slurm_policy_of(policy, made_log(rows))[0].backfill.preemption


def test_a_policy_of_files_preempts_by_qos(files):
    schedule, figures = run_by_name(made_log(ROWS), files())
    assert schedule.start.tolist() == [131, 10]
    names = ("preemptions", "preempted_jobs", "preempted_processor_seconds", "cancelled")
    assert [figures[name] for name in names] == [1, 1, 80.0, 0]
    told = "1 jobs were preempted, 1 times in all: 80 processor seconds lost, 0 jobs cancelled."
    assert preemption_note(figures) == told
    account = slurm_policy_of(files(), made_log(ROWS))[1]
    assert "slurm-unused-of-qos" not in {one.rule for one in account.findings}


def test_forecasts_learn_the_run_that_ended(files):
    """Job 1 runs for 10 s in vain, waits until 131, and then runs for 100 s; job 2 runs for 10 s."""
    rows = [*ROWS, (300, 1, 400, NORMAL, IN_LOW)]
    assert run_by_name(made_log(rows), files(), "last-two")[0].estimate[2] == 55


def test_of_equal_jobs_one_that_was_stopped_counts_as_submitted_then(files):
    """Both wait at 210: job 1, stopped at 10, and job 2, submitted at 5."""
    rows = [(0, 8, 100, SCAVENGER, IN_LOW), (5, 8, 50, SCAVENGER, IN_LOW), (10, 4, 200, NORMAL, IN_LOW)]
    assert run_by_name(made_log(rows), files())[0].start.tolist() == [260, 210, 10]


@pytest.mark.parametrize(("flags", "starts"), [("FAIR_TREE", [260, 10, 210]), ("ACCRUE_ALWAYS", [210, 10, 310])])
def test_the_age_of_a_stopped_job_begins_again(files, flags, starts):
    """At 210 job 3 is 160 s old, and job 1, submitted at 0, as old as its pause from 10 to 131 lets it be."""
    more = "PriorityType=priority/multifactor\nPriorityWeightAge=100000\nPriorityMaxAge=0-6\nPriorityCalcPeriod=1\n"
    rows = [(0, 8, 100, SCAVENGER, IN_LOW), (10, 4, 200, NORMAL, IN_LOW), (50, 8, 50, SCAVENGER, IN_LOW)]
    policy = files(more=f"{more}PriorityFlags={flags}")
    assert run_by_name(made_log(rows), policy)[0].start.tolist() == starts


@pytest.mark.parametrize("flags", ["", "PriorityFlags=INCR_ONLY\n"])
def test_a_stopped_job_is_ranked_like_a_new_one(files, flags):
    """Job 1 had been 500 s old when it started, which no longer counts: job 5 has the greater priority."""
    more = "PriorityType=priority/multifactor\nPriorityWeightAge=100000\nPriorityMaxAge=0-6\nPriorityCalcPeriod=1\n"
    rows = [
        (0, 8, 500, SCAVENGER, IN_LOW), (1, 8, 900, SCAVENGER, IN_LOW), (600, 4, 300, NORMAL, IN_LOW),
        (650, 8, 50, SCAVENGER, IN_LOW),
    ]  # fmt: skip
    assert run_by_name(made_log(rows), files(more=more + flags))[0].start.tolist() == [0, 950, 600, 900]


def test_without_preemption_nothing_is_told_of_it(files):
    schedule, figures = run_by_name(made_log(ROWS), files(kind="none", mode="OFF"))
    assert schedule.preempted is None and "preemptions" not in figures and "preempted" not in schedule.columns()


def test_by_qos_what_is_read(files):
    by_qos = of_files(files())
    assert by_qos.rank.tolist() == [3, 7] and by_qos.nodes.tolist() == [4, 2]
    assert (by_qos.delay, by_qos.reorders, by_qos.strict, by_qos.youngest) == (121, 1, False, False)
    assert [by_qos.preempts[tuple(by_qos.class_of[list(pair)])] for pair in ((0, 1), (1, 0))] == [False, True]
    assert of_files(files(mode="CANCEL")).is_cancelled.all()
    assert of_files(files(more="JobRequeue=0")).is_cancelled.all()
    modes = "normal|7|scavenger|cluster||\nscavenger|3||{}||\n"
    for mode, gone in (("cancel", True), ("requeue", False), ("off", False)):  # a QOS can not be off by itself
        assert of_files(files(rows=modes.format(mode))).is_cancelled.tolist() == [gone, False]


def test_options_of_the_slurm_conf(files):
    more = "PreemptParameters=reorder_count=4,strict_order,youngest_first\nAuthInfo=cred_expire=300"
    found = of_files(files(more=more))
    assert (found.delay, found.reorders, found.strict, found.youngest) == (301, 4, True, True)
    conf = files(more="SchedulerParameters=requeue_delay=0,preempt_reorder_count=2,preempt_strict_order")
    found = of_files(conf)
    assert (found.delay, found.reorders, found.strict, found.youngest) == (1, 2, True, False)


def test_exempt_times_of_the_cluster_a_partition_and_a_qos(files):
    assert of_files(files(more="PreemptExemptTime=00:05:00")).exempt.tolist() == [300, 300]
    assert of_files(files(more="PreemptExemptTime=-1")).exempt.tolist() == [0, 0]
    rows = "normal|7|scavenger|||\nscavenger|3|||00:01:00|\nurgent|9|||00:02:00|\n"
    assert of_files(files(rows=rows, more="PreemptExemptTime=5")).exempt.tolist() == [60, 300]
    assert of_files(files(rows=rows, low="QOS=urgent")).exempt.tolist() == [120, 120]


def test_by_partition_only_those_with_common_nodes(files):
    rows = [(0, 2, 100, NORMAL, IN_LOW), (1, 2, 9, NORMAL, IN_HIGH), (2, 2, 9, NORMAL, IN_FAR)]

    def pairs(policy):
        found = of_files(policy, rows)
        return {(a, b) for a in range(3) for b in range(3) if found.preempts[found.class_of[a], found.class_of[b]]}

    assert pairs(files("partition_prio")) == {(1, 0), (1, 2)}  # far and low share no node
    assert pairs(files("partition_prio", low="PreemptMode=OFF")) == {(1, 2)}
    older = "Priority=2 PreemptMode=OFF"  # the older key of the tier, too
    assert pairs(files("partition_prio", low=older)) == {(1, 2)}
    sets = "NodeSet=some Nodes=n[1-3]"
    assert pairs(files("partition_prio", high="Nodes=some", more=sets)) == {(1, 0)}
    found = of_files(files("partition_prio", low="PreemptMode=CANCEL"), rows)
    assert (found.is_cancelled.tolist(), found.rank.tolist()) == ([True, False, False], [1, 5, 3])
    schedule, _ = run_by_name(
        made_log([(0, 8, 100, NORMAL, IN_LOW), (9, 2, 9, NORMAL, IN_HIGH)]), files("partition_prio")
    )
    assert schedule.start.tolist() == [130, 9]


@pytest.mark.parametrize("kind", ["", "PriorityType=priority/multifactor\nPriorityWeightQOS=0\n"])
def test_jobs_that_may_stop_others_come_before_these(files, kind):
    """Urgent jobs come before normal ones, these before those of the scavenger; then the tier counts."""
    rows = "urgent|0|normal|||\n" + TWO
    jobs = [
        (0, 1, 9, SCAVENGER, IN_HIGH), (1, 1, 9, NORMAL, IN_LOW), (2, 1, 9, NORMAL, IN_HIGH), (3, 1, 9, URGENT, IN_LOW),
    ]  # fmt: skip
    log = made_log([(0, 8, 100, URGENT, IN_LOW), *((1 + submit, 8, *others) for submit, _, *others in jobs)])
    assert run_by_name(log, files(rows=rows, more=kind))[0].start.tolist() == [0, 127, 118, 109, 100]


def test_jobs_that_may_not_stop_one_another_come_by_priority(files):
    """The scavenger comes before the urgent job, this before normal ones, and these before the scavenger: a circle."""
    rows = [(0, 8, 100, NORMAL, IN_LOW), (1, 8, 10, SCAVENGER, IN_LOW), (2, 8, 10, URGENT, IN_LOW)]
    policy = files(rows=TWO + "urgent|9||||\n")
    assert run_by_name(made_log(rows), policy)[0].start.tolist() == [0, 100, 110]
    rows.append((3, 8, 10, NORMAL, IN_LOW))
    assert run_by_name(made_log(rows), policy)[0].start.tolist() == [0, 100, 110, 120]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_the_queue_equals_a_slow_second_reading(seed):
    """That of a merge sort, of which what it gives depends where jobs come before one another in a circle."""
    rng = np.random.default_rng(seed)
    n, k = 12 + seed, 4
    classes, nice = rng.integers(0, k, n), rng.integers(0, 5, n)
    preempts = np.triu(rng.random((k, k)) < 0.4, 1)
    workload = jobs_of([(0, 8, 1000), *((1, 8, 10) for _ in range(n - 1))])
    rule = replace(preemption(classes, workload.procs), preempts=preempts, exempt=np.full(n, 10_000))
    order = Multifactor().order(workload, parts_of(n, nice=nice, qos=np.full(n, 9.0)))
    simulation = Simulation(workload, Policy(order, Loops(preemption=rule)))
    simulation.run(until=5)

    def comes_first(one, other):
        if preempts[classes[one], classes[other]] or preempts[classes[other], classes[one]]:
            return preempts[classes[one], classes[other]]
        return (nice[one], one) < (nice[other], other)

    def merged(one, other):
        if not one or not other:
            return one + other
        if comes_first(one[0], other[0]):
            return [one[0], *merged(one[1:], other)]
        return [other[0], *merged(one, other[1:])]

    def in_order(rows):
        half = len(rows) // 2
        return merged(in_order(rows[:half]), in_order(rows[half:])) if half else rows

    assert simulation.queued.tolist() == in_order([*range(1, n)])


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"mode": "SUSPEND,GANG"}, "slurm.conf:2: PreemptMode=SUSPEND,GANG: jobs are stopped by REQUEUE or"),
        ({"mode": "REQUEUE,WITHIN"}, "slurm.conf:2: PreemptMode=REQUEUE,WITHIN: jobs are stopped by REQUEUE or"),
        ({"kind": "partition_prio", "low": "PreemptMode=SUSPEND"}, "slurm.conf:5: PreemptMode=SUSPEND: jobs are"),
        ({"kind": "job_prio"}, "slurm.conf:1: PreemptType is one of preempt/none, preempt/qos,"),
        ({"mode": "OFF"}, "slurm.conf:1: PreemptType=preempt/qos and PreemptMode=OFF do not go together: Slurm does"),
        ({"kind": "none"}, "slurm.conf:1: PreemptType=preempt/none and PreemptMode=REQUEUE do not go together"),
        ({"rows": TWO.replace("00:00:00", "00:01:00")}, "qos:2: GraceTime=00:01:00: jobs are stopped at once"),
        ({"kind": "partition_prio", "high": "GraceTime=60"}, "slurm.conf:6: GraceTime=60: jobs are stopped at once"),
        ({"rows": TWO.replace("3||", "3|normal|")}, "QOS preempt one another in a circle: normal > scavenger > normal"),
        ({"rows": TWO.replace("3||", "3|scavenger|")}, "in a circle: scavenger > scavenger; take one of them out"),
        ({"low": "Nodes="}, "PartitionName=low has no nodes, and jobs preempt those on the same nodes: give it Nodes="),
        ({"more": "PreemptParameters=reorder_count=x"}, "slurm.conf:8: reorder_count is 0 to 1,000,000; found 'x'."),
        ({"more": "PreemptExemptTime=soon"}, "slurm.conf:8: PreemptExemptTime is a time"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line(files, about, told):
    with pytest.raises(JobcastError) as error:
        of_files(files(**about), [*ROWS, (11, 2, 9, NORMAL, IN_HIGH)])
    assert told in str(error.value) and "\n" not in str(error.value)


def test_many_qos_may_preempt_one_another_in_a_row(files):
    rows = "".join(f"q{i}|{i}|q{i + 1}|requeue||00:00:00\n" for i in range(1100))
    assert of_files(files(rows=TWO + rows), ROWS) is not None


def test_preemption_by_qos_without_qos_is_told(files):
    policy = files().split(",")[0]
    assert slurm_policy_of(policy, made_log(ROWS))[1].count("slurm-preempts-nothing") == 1
    assert not of_files(policy).preempts.any()
    unknown = files(rows=TWO.replace("|scavenger|", "|scavenger,gone|"))
    assert slurm_policy_of(unknown, made_log(ROWS))[1].count("slurm-unknown-qos-to-preempt") == 1
