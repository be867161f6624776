"""A policy of slurm.conf, dump and QOS: who comes first by usage, whom limits hold, and what is told."""

import time
from pathlib import Path

import numpy as np
import pytest

from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation, run_by_name
from jobcast import JobcastError, JobLog
from predictors.data.formats.detect import writer_for
from schedsim.explain.sentences import in_words
from schedsim.sites.slurm.files import slurm_policy_of
from tests.support.commands import invoke

CONF = """PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PriorityWeightQOS=100
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=limits,qos
SchedulerParameters=bf_interval=1,bf_resolution=1
NodeName=n[1-2] CPUs=4
PartitionName=p TRESBillingWeights=CPU=1.0
"""
DUMP = """Cluster - 't':Fairshare=1
Parent - 'root'
Account - 'a':Fairshare=1
Account - 'b':Fairshare=1
Parent - 'a'
User - 'ann':DefaultAccount='a':Fairshare=1
Parent - 'b'
User - 'bob':DefaultAccount='b':Fairshare=1:{limit}
"""
QOS = "Name|Priority|UsageFactor|Flags|MaxJobsPU|GrpTRES|MaxJobsPA\nnormal|0|1.0||||\n{rows}"
USERS, QOSES = ("ann", "bob", "cid"), ("normal", "high")


@pytest.fixture
def files(tmp_path):
    """Write the three files; return the policy's name."""

    def write(limit="MaxSubmitJobs=9", rows="", conf=CONF):
        texts = {"slurm.conf": conf, "t.dump": DUMP.format(limit=limit), "qos": QOS.format(rows=rows)}
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return "slurm:" + ",".join(str(tmp_path / name) for name in texts)

    return write


def made_log(rows, **more):
    """Return a log of rows (submit, procs, run time, user, QOS) on 8 processors."""
    submit, procs, run, user, qos = np.array(rows, dtype=np.int64).T
    columns = {
        "job_id": np.arange(1, len(rows) + 1), "submit": submit, "run_time": run, "requested_time": run,
        "requested_procs": procs, "user": user, "qos": qos, "queue": np.zeros(len(rows), dtype=np.int64), **more,
    }  # fmt: skip
    names = {"user": USERS, "qos": QOSES, "queue": ("p",)}
    return JobLog.from_columns(
        columns, {}, max_procs=8, categories={key: names[key] for key in names if key in columns}
    )


def starts(rows, policy):
    """Return when the jobs start."""
    return run_by_name(made_log(rows), policy)[0].start.tolist()


def test_who_has_used_less_comes_first(files):
    """Ann has run for a while; her next job, submitted before Bob's, starts behind it; without shares before it."""
    rows = [(0, 8, 600, 0, 0), (1, 8, 60, 0, 0), (2, 8, 60, 1, 0)]
    assert starts(rows, files()) == [0, 660, 600]
    alone = files().split(",")[0]
    assert starts(rows, alone) == [0, 600, 660]
    assert slurm_policy_of(alone, made_log(rows))[1].count("slurm-no-accounts") == 1


def test_priorities_that_only_grow(files):
    """No user has used anything when Ann's second job comes: it keeps the factor 1, which Bob's job has, too."""
    rows = [(0, 8, 600, 0, 0), (1, 8, 60, 0, 0), (2, 8, 60, 1, 0)]
    assert starts(rows, files(conf=f"{CONF}PriorityFlags=INCR_ONLY\n")) == [0, 600, 660]


def test_factors_are_those_of_the_last_multiple_of_the_period(files):
    """At 60 Ann has used less than Bob. What she uses until 80 counts from 120 on, though no pass asks before 81."""
    rows = [(0, 3, 80, 0, 0), (0, 4, 50, 1, 0), (81, 8, 60, 1, 0), (81, 8, 60, 0, 0)]
    assert starts(rows, files(conf=CONF.replace("bf_interval=1,bf_resolution=1", "bf_interval=30"))) == [0, 0, 141, 81]


def test_equal_accounts_come_by_name(files):
    """Slurm goes through them so, whatever order the file has: bob of b ranks before ann of a only if b comes first."""
    found = []
    for one, other in (("a", "b"), ("b", "a"), ("z", "b")):
        policy = files()
        dump = Path(policy.split(",")[1])
        lines = dump.read_text().replace("'a'", "'first'").replace("'b'", "'second'")
        dump.write_text(lines.replace("'first'", f"'{one}'").replace("'second'", f"'{other}'"))
        order = slurm_policy_of(policy, made_log([(0, 1, 60, 0, 0), (0, 1, 60, 1, 0)]))[0].order.ranking
        parent = order.fair_share.tree.parent[order.fair_share.user_of]
        found.append(bool(parent[0] < parent[1]))
    assert found == [True, False, False]


def test_the_qos_counts_and_so_does_its_usage_factor(files):
    """A free QOS leaves Ann as unused as Bob, so that submission decides; a high one comes before all."""
    rows = [(0, 8, 600, 0, 1), (1, 8, 60, 0, 0), (2, 8, 60, 1, 0)]
    assert starts(rows, files(rows="high|0|0.0||||\n")) == [0, 600, 660]
    rows[2] = (2, 8, 60, 0, 1)
    assert starts(rows, files(rows="high|10|1.0||||\n")) == [0, 660, 600]


@pytest.mark.parametrize(
    ("limit", "rows", "expected", "names"),
    [
        ("MaxJobs=1", "", [0, 0, 50], "user bob of b: MaxJobs=1"),
        ("GrpTRES=cpu=3", "", [0, 0, 50], "user bob of b: GrpTRES=cpu=3"),
        ("MaxJobs=9", "high|0|1.0||1||\n", [0, 0, 50], "QOS high: MaxJobsPU=1"),
        ("MaxJobs=9", "high|0|1.0|||cpu=5|\n", [0, 0, 50], "QOS high: GrpTRES=cpu=5"),
        ("MaxJobs=1", "high|0|1.0||2||\n", [0, 0, 0], None),  # the QOS stands before the association
        ("MaxJobs=1", "high|0|1.0||||2\n", [0, 0, 0], None),  # so it does with a limit an account
        ("MaxJobs=9", "high|0|1.0||||1\n", [0, 0, 50], "QOS high: MaxJobsPA=1 (b)"),
        ("GrpTRESRunMins=cpu=3", "", [0, 0, 50], "user bob of b: GrpTRESRunMins=cpu=3"),
        ("GrpTRESRunMins=cpu=4", "", [0, 0, 0], None),
        ("GrpTRESRunMins=cpu=1", "", [0, 0, 0], None),  # each exceeds it alone
    ],
)
def test_limits_hold_jobs_and_are_named(files, limit, rows, expected, names):
    """Three small jobs on a machine that would hold them all: the third is Bob's second."""
    policy = files(limit, rows)
    log = made_log([(0, 2, 50, 0, 1), (0, 2, 50, 1, 1), (0, 2, 50, 1, 1)])
    simulation = NamedSimulation(log, NamedPolicy.of(policy))
    schedule, _ = simulation.run()
    assert schedule.start.tolist() == expected
    simulation.check(schedule)
    if names is not None:
        assert f"held: by the limit {names}" in "\n".join(in_words(simulation.explain(schedule, 3)))


def test_what_is_not_used_not_enforced_or_not_known_is_told(files):
    log = made_log([(0, 8, 60, 2, 1), (1, 4, 60, 1, 0)])
    account = slurm_policy_of(files("MaxSubmitJobs=9:GrpWall=5", "low|1|1.0|DenyOnLimit|||4\n"), log)[1]
    told = {one.rule: one for one in account.findings}
    assert told["slurm-users-added"].count == 1
    assert told["slurm-unknown-qos"].count == 1
    assert "GrpWall" in told["slurm-unused-of-associations"].text
    assert "denyonlimit" in told["slurm-unused-flags"].text
    of_partition = CONF.replace("PartitionName=p ", "PartitionName=p QOS=gone ")
    assert (
        "nothing: gone"
        in {one.rule: one.text for one in slurm_policy_of(files(conf=of_partition), log)[1].findings}[
            "slurm-unknown-partition-qos"
        ]
    )
    off = slurm_policy_of(files("MaxJobs=1", conf=CONF.replace("limits,qos", "associations")), log)
    assert off[0].backfill.limits is None
    assert off[1].count("slurm-limits-off") == 1
    with pytest.raises(JobcastError, match="Slurm knows no 'limit' and does not start"):
        slurm_policy_of(files("MaxJobs=1", conf=CONF.replace("limits,qos", "limit,qos")), log)
    beyond = slurm_policy_of(files("GrpTRES=cpu=3,license/x=1"), log)[1]
    assert beyond.count("slurm-beyond-limit") == 1
    assert beyond.count("slurm-limits-untold") == 1


def test_minutes_that_are_spent_hold_jobs_until_they_have_decayed(files):
    """Bob's first job uses 2 processors for 2 minutes. His second starts when less than 3 of these 4 minutes count."""
    rows = [(0, 2, 120, 1, 0), (130, 2, 50, 1, 0)]
    used, now, left = 240 * (1 - 0.693 / 86_400) ** 120, 120, 1 - 0.693 / 86_400
    while used >= 180:  # Slurm counts whole minutes, at the multiples of a minute
        now, used = now + 60, used * left**60
    policy = files("GrpTRESMins=cpu=3")
    simulation = NamedSimulation(made_log(rows), NamedPolicy.of(policy))
    schedule, _ = simulation.run()
    assert 30_000 < now == schedule.start[1]
    assert "held: by the limit user bob of b: GrpTRESMins=cpu=3" in "\n".join(in_words(simulation.explain(schedule, 2)))
    assert starts(rows, files("GrpTRESMins=cpu=5")) == starts(rows, files("GrpTRESMins=gres/gpu=1")) == [0, 130]
    without_weight = CONF.replace("PriorityWeightFairshare=1000\n", "")
    assert starts(rows, files("GrpTRESMins=cpu=3", conf=without_weight)) == [0, now]


def test_minutes_that_never_decay_are_refused_in_one_line(files):
    conf = CONF.replace("PriorityDecayHalfLife=1-0", "PriorityDecayHalfLife=0")
    policy = files("GrpTRESMins=cpu=3", conf=conf)
    with pytest.raises(JobcastError, match=r"1 job held without end.*user bob of b: GrpTRESMins=cpu=3 holds them"):
        run_by_name(made_log([(0, 2, 120, 1, 0), (130, 2, 50, 1, 0)]), policy)
    assert starts([(0, 2, 120, 1, 0), (130, 2, 50, 1, 0)], files("GrpTRESMins=cpu=5", conf=conf)) == [0, 130]


def test_of_safe_limits_a_job_needs_all_its_minutes(files):
    """Two jobs of 2 processor minutes each under a limit of 3: the second waits for the first, which uses 100 s."""
    rows = [(0, 2, 50, 1, 0), (0, 2, 50, 1, 0)]
    assert starts(rows, files("GrpTRESMins=cpu=3")) == [0, 0]
    assert starts(rows, files("GrpTRESMins=cpu=3", conf=CONF.replace("limits,qos", "safe"))) == [0, 50]


@pytest.mark.parametrize(
    ("limit", "rows", "n_refused"),
    [
        ("MaxSubmitJobs=1", "", 1), ("MaxSubmitJobs=2", "", 0), ("GrpSubmitJobs=1", "", 1), ("Fairshare=1", "", None),
        ("MaxSubmitJobs=1", "high|0|1.0|||||9|\n", 0),  # the QOS stands before the association
        ("MaxJobs=9", "high|0|1.0|||||1|\n", 1), ("MaxJobs=9", "high|0|1.0||||||2\n", 1),
    ],
)  # fmt: skip
def test_jobs_that_slurm_would_refuse_at_submission_run_and_are_counted(files, limit, rows, n_refused):
    """Ann has a job and Bob two in the same second; another one of Bob's comes when all have ended."""
    policy = files(limit)
    table = Path(policy.split(",")[-1])
    table.write_text("Name|Priority|UsageFactor|Flags|MaxJobsPU|GrpTRES|MaxJobsPA|MaxSubmitPU|GrpSubmit\n" + rows)
    log = made_log([(0, 2, 50, 0, 1), (0, 2, 50, 1, 1), (0, 2, 50, 1, 1), (50, 2, 50, 1, 1)])
    simulation = NamedSimulation(log, NamedPolicy.of(policy))
    schedule, found = simulation.run()
    assert schedule.start.tolist() == [0, 0, 0, 50]
    assert found.get("refused_submissions") == n_refused


def test_limits_that_let_no_job_start_are_told(files):
    policy = files("MaxJobs=0", "high|0|1.0||||\n")
    table = Path(policy.split(",")[-1])
    table.write_text("Name|Priority|MinTRES|MaxTRES\nnormal|0||\nhigh|0|cpu=8,node=1|cpu=4,node=1\n")
    log = made_log([(0, 2, 50, 1, 1), (0, 2, 50, 1, 1)])
    found = {one.rule: one for one in slurm_policy_of(policy, log)[1].findings}
    assert "user bob of b: MaxJobs=0" in found["slurm-limits-of-0"].text
    assert found["slurm-contrary-limits"].text.endswith("QOS high: cpu is at least 8 and at most 4")
    assert found["slurm-beyond-limit"].count == 2
    assert starts([(0, 2, 50, 1, 1), (0, 2, 50, 1, 1)], policy) == [0, 0]


def test_a_partition_qos_without_limits_enforced_is_told_too(files):
    conf = CONF.replace("PartitionName=p ", "PartitionName=p QOS=gone ").replace("limits,qos", "associations")
    account = slurm_policy_of(files(conf=conf), made_log([(0, 8, 60, 1, 0)]))[1]
    assert account.count("slurm-unknown-partition-qos") == 1


def test_gpus_are_billed_where_the_log_tells_them(files):
    conf = CONF.replace("CPU=1.0", "CPU=1.0,GRES/gpu=10,Mem=0.5G")
    log = made_log([(0, 4, 60, 0, 0), (1, 4, 60, 1, 0)], requested_gpus=np.array([2, 0]))
    policy, account = slurm_policy_of(files(conf=conf), log)
    assert policy.order.ranking.fair_share.billed.tolist() == [24.0, 4.0]
    assert "mem" in next(one.text for one in account.findings if one.rule == "slurm-not-billed")
    unused = "PartitionName=other TRESBillingWeights=GRES/gpu=10\n"
    account = slurm_policy_of(files(conf=CONF + unused), made_log([(0, 4, 60, 0, 0)]))[1]
    assert account.count("slurm-not-billed") == 0  # no job is in that partition
    policy, account = slurm_policy_of(files(conf=CONF.replace("CPU=1.0", "GRES/gpu=10")), made_log([(0, 4, 60, 0, 0)]))
    assert policy.order.ranking.fair_share.billed.tolist() == [4.0]
    assert "not billed: processors are instead" in next(
        one.text for one in account.findings if one.rule == "slurm-not-billed"
    )


@pytest.mark.parametrize(("flag", "billed"), [("", 27), ("MAX_TRES", 20), ("MAX_TRES_GRES", 24)])
def test_flags_tell_how_billed_resources_add_up(files, flag, billed):
    """4 processors, one node at 3, 2 GPUs at 10."""
    conf = CONF.replace("CPU=1.0", "CPU=1.0,Node=3,GRES/gpu=10") + f"PriorityFlags={flag}\n"
    log = made_log([(0, 4, 60, 0, 0)], requested_gpus=np.array([2]))
    assert slurm_policy_of(files(conf=conf), log)[0].order.ranking.fair_share.billed.tolist() == [billed]


def test_a_bad_limit_of_a_qos_without_jobs_is_refused(files):
    with pytest.raises(JobcastError, match="qos:3: GrpTRES is a list such as"):
        slurm_policy_of(files(rows="low|1|1.0|||lots|\n"), made_log([(0, 8, 60, 1, 0)]))


def test_limits_on_memory_are_in_the_unit_of_the_jobs(files):
    """Jobs of 2 GB under a limit of 3 GB run one by one."""
    log = made_log([(0, 2, 50, 1, 1), (0, 2, 50, 1, 1)], requested_job_memory=np.full(2, 2 << 20))
    assert run_by_name(log, files("GrpTRES=mem=3G"))[0].start.tolist() == [0, 50]
    assert run_by_name(log, files("GrpTRES=mem=4096"))[0].start.tolist() == [0, 0]


def test_jobs_without_a_user_have_the_default_qos(files):
    log = made_log([(0, 2, 50, 0, 0), (0, 2, 50, 0, 0)])
    log = JobLog.from_columns(
        {name: values for name, values in log.values.items() if name not in ("user", "qos")}, {}, max_procs=8,
        categories={"queue": ("p",)},
    )  # fmt: skip
    policy = files()
    table = Path(policy.split(",")[-1])
    table.write_text(table.read_text().replace("normal|0|1.0||||", "normal|0|1.0|||cpu=3|"))
    assert run_by_name(log, policy)[0].start.tolist() == [0, 50]


def test_limits_of_many_users_are_made_in_a_moment(files):
    """One pass over the jobs a limit, not one a user: 60,000 jobs of 2,000 users."""
    n, users = 60_000, 2_000
    user = np.arange(n) % users
    log = made_log([(i, 1, 60, 0, 1) for i in range(n)], user=user)
    log = JobLog.from_columns(
        dict(log.values), {}, max_procs=8, categories=log.categories | {"user": tuple(f"u{i}" for i in range(users))}
    )
    text = "".join(f"User - 'u{i}':Fairshare=1:MaxJobs=2\n" for i in range(users))
    policy = files(rows="high|0|1.0||3||\n")
    with Path(policy.split(",")[1]).open("a") as file:
        file.write(text)
    begin = time.process_time()
    limits = slurm_policy_of(policy, log)[0].backfill.limits
    assert time.process_time() - begin < 3
    assert len(limits.names) == 2 * users
    assert limits.names[0] == "QOS high: MaxJobsPU=3 (u0)"
    assert int(limits.records["holds"].sum()) == n


def test_dates_that_no_calendar_has_are_refused(files):
    policy = files(conf=CONF + "PriorityUsageResetPeriod=DAILY\n")
    for epoch in (10**14, -(10**12)):
        log = made_log([(0, 8, 60, 1, 0)])
        log = JobLog.from_columns(dict(log.values), {}, max_procs=8, categories=log.categories, epoch=epoch)
        with pytest.raises(JobcastError, match=r"slurm\.conf:11: PriorityUsageResetPeriod=DAILY needs the dates"):
            slurm_policy_of(policy, log)


@pytest.mark.parametrize(
    ("conf", "dump", "says"),
    [
        ("PriorityUsageResetPeriod=HOURLY\n", "", "PriorityUsageResetPeriod is one of NONE, NOW, DAILY"),
        ("PriorityDecayHalfLife=long\n", "", "PriorityDecayHalfLife is a time from 0 on"),
        ("PartitionName=q TRESBillingWeights=CPU\n", "", "TRESBillingWeights is a list such as CPU=1.0"),
        ("SchedulerParameters=bf_window=0\n", "", "bf_window is 1 to 43,200 minutes"),
        ("", "Parent - 'x'\nAccount - 'y':Fairshare=1\n", "account y is under 'x', which is no account"),
        ("", "Parent - 'x'\nUser - 'y':Fairshare=1\n", "user y of x: there is no such account"),
        ("", "Parent - 'b'\nUser - 'cid':Fairshare=lots\n", "Fairshare is a whole number from 0 to 4,294"),
        ("", "Parent - 'b'\nUser - 'cid':Fairshare=999999999999999\n", "Fairshare is a whole number from 0 to 4,294"),
        ("", "Parent - 'b'\nAccount - 'c':GrpTRES=many\nParent - 'c'\nUser - 'bob':Fairshare=1\n", "GrpTRES is a list"),
    ],
)
def test_bad_files_are_refused_with_the_place(files, tmp_path, conf, dump, says):
    policy = files(conf=CONF + conf)
    with (tmp_path / "t.dump").open("a") as file:
        file.write(dump)
    rows = [(0, 8, 60, 1, 0)]
    log = made_log(rows, group=np.zeros(1, dtype=np.int64))
    log = JobLog.from_columns(dict(log.values), {}, max_procs=8, categories=log.categories | {"group": ("c",)})
    with pytest.raises(JobcastError, match=says):
        slurm_policy_of(policy, log)


def test_files_of_accounts_are_inputs_and_names_are_needed(files, tmp_path):
    policy, log = files(), tmp_path / "log.parquet"
    writer_for(log)(made_log([(0, 8, 60, 1, 0)]), log)
    given = ["simulate", str(log), "--policy", policy, "--schedule", str(tmp_path / "qos")]
    assert "is the very file that is read" in str(invoke(*given).exception)
    with pytest.raises(JobcastError, match="files of sacctmgr behind commas"):
        slurm_policy_of("slurm:a.conf,", made_log([(0, 8, 60, 1, 0)]))


def test_no_look_ahead_and_the_same_again(files):
    """What comes later changes no earlier start, and two runs are equal."""
    rng = np.random.default_rng(5)
    rows = sorted(zip(*(rng.integers(*span, 60).tolist() for span in ((0, 20_000), (1, 9), (60, 3000), (0, 3), (0, 2))),
                      strict=True))  # fmt: skip
    policy = files("MaxJobs=2", "high|10|1.0||2|cpu=6|\n")
    log = made_log(rows)
    whole, again = (run_by_name(log, policy)[0].start for _ in range(2))
    assert (whole == again).all()
    cut = run_by_name(log.select(slice(0, 40)), policy)[0].start
    known = whole[:40] < log.values["submit"][40]
    assert known.any()
    assert (whole[:40][known] == cut[known]).all()
