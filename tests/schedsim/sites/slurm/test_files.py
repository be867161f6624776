"""The order of a site's own slurm.conf: arithmetic by hand, a plain second reading of the formula, and bad files."""

import math

import numpy as np
import pytest

from experiments.runs.simulate import run_by_name
from jobcast import JobcastError, JobLog, Workload, make_policy, simulate
from predictors.data.formats.detect import writer_for
from predictors.data.slurm.conf import read_slurm_conf
from schedsim.sites.slurm import files
from schedsim.sites.slurm.files import slurm_policy_of
from schedsim.sites.slurm.multifactor import Multifactor, parts_of
from tests.support.commands import invoke

CONF = """# a site
ClusterName=t
priorityTYPE=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=500 # the larger first
PriorityWeightPartition=300
PriorityMaxAge=1-0
SchedulerParameters=bf_max_job_test=50,\\
bf_max_job_user=30
Include nodes.conf
"""
PACE = "SchedulerParameters=bf_interval=1,bf_resolution=1"
NODES = """NodeName=DEFAULT CPUs=4
NodeName=n[1-2]
PartitionName=DEFAULT State=UP
PartitionName=low PriorityJobFactor=5 Nodes=ALL
PartitionName=high PriorityJobFactor=10 Nodes=ALL
PartitionName=urgent PriorityTier=2 Nodes=ALL
"""


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "nodes.conf").write_text(NODES)
    return tmp_path / "slurm.conf"


def made_log(rows, names=("low", "high", "urgent")):
    """Return a log of rows (submit, procs, run time, partition's code) on 8 processors."""
    submit, procs, run, queue = np.array(rows, dtype=np.int64).T
    columns = {
        "job_id": np.arange(1, len(rows) + 1), "submit": submit, "run_time": run, "requested_time": run,
        "requested_procs": procs, "queue": queue,
    }  # fmt: skip
    return JobLog.from_columns(columns, {}, max_procs=8, categories={"queue": names})


def test_a_conf_is_read_with_what_it_includes_and_what_is_not_used_is_told(conf):
    found = read_slurm_conf(conf)
    assert (found.nodes, found.procs, sorted(found.partitions)) == (2, 8, ["high", "low", "urgent"])
    assert found.seconds("PriorityMaxAge", 0) == 86_400
    assert found.settings["schedulerparameters"].place.endswith("slurm.conf:8")
    assert found.partitions["low"]["state"].value == "UP"
    policy, account = slurm_policy_of(f"slurm:{conf}", made_log([(0, 8, 9, 0)]))
    assert policy.depth == 50
    told = {one.rule: one.text for one in account.findings}
    assert "ClusterName" in told["slurm-unused-parameter"]
    assert "slurm-unused-option" not in told
    assert "Nodes, State" in told["slurm-unused-of-partitions"]
    assert account.dropped == account.changed == 0


def test_the_order_follows_from_the_published_formula(conf):
    """Behind a job that takes the machine wait six others, of one width, then of others; worked out by hand."""
    rows = [(0, 8, 1000, 0), (1, 8, 10, 0), (2, 8, 10, 1), (3, 4, 10, 1), (4, 8, 10, 2)]
    start = run_by_name(made_log(rows), f"slurm:{conf}")[0].start.tolist()
    # urgent: tier 2. high, 8: 500 + 300; high, 4: 250 + 300; low, 8: 500 + 150; ages at 900 s count 10 each
    assert start == [0, 1020, 1010, 1030, 1000]


@pytest.mark.parametrize("favour_small", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_priorities_equal_a_plain_second_reading(favour_small, relative):
    rng = np.random.default_rng(3)
    n = 50
    workload = Workload.from_columns(
        np.arange(n), submit=np.sort(rng.integers(0, 5000, n)), procs=rng.integers(1, 65, n),
        requested=60 * rng.integers(1, 500, n), run_time=np.full(n, 9), machine_procs=64,
    )  # fmt: skip
    rule = Multifactor(1000, 700, 300, 3000, 300, favour_small, relative)
    nodes, tier, part = -(-workload.procs // 8), rng.integers(1, 3, n), rng.random(n)
    sizes = rule.sizes(workload.procs, nodes, workload.requested, 64, 8)
    parts = parts_of(n, size=rule.size * sizes, partition=rule.partition * part, tier=tier)
    found = rule.order(workload, parts).ranking.at(6100)

    def priority(i):
        cpus, own, minutes = int(workload.procs[i]), int(nodes[i]), int(workload.requested[i]) // 60
        if relative:
            size = max(own * 64 / 8, cpus) / minutes / 64
            size = 1 - size if favour_small else size
        elif favour_small:
            size = ((8 - own) / 8 + (64 - cpus) / 64) / 2
        else:
            size = (own / 8 + cpus / 64) / 2
        age = min(1.0, max(0, 6000 - int(workload.submit[i])) / 3000)
        return math.floor(1000 * age + 700 * min(1, max(0, size)) + 300 * part[i])

    assert found.tolist() == [priority(i) for i in range(n)]


def test_basic_is_the_order_of_submission_and_builtin_does_not_backfill(conf, tmp_path):
    rows = [(0, 6, 100, 0), (1, 8, 10, 0), (2, 2, 50, 0)]
    log = made_log(rows)
    for text, same in (("SchedulerType=sched/builtin", "fcfs"), ("SchedulerType=sched/backfill", "hybrid-500")):
        (tmp_path / "basic.conf").write_text(f"PriorityType=priority/basic\n{text}\n{PACE}\n")
        found = run_by_name(log, f"slurm:{tmp_path / 'basic.conf'}")[0]
        assert found.start.tolist() == simulate(Workload.from_log(log), make_policy(same)).start.tolist()


def test_without_weights_jobs_come_by_submission_and_it_is_told(tmp_path):
    (tmp_path / "slurm.conf").write_text("ClusterName=t\nPriorityWeightFairshare=1000\n")
    _, account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", made_log([(0, 8, 9, 0)]))
    assert account.count("slurm-no-weights") == 1
    assert "PriorityWeightFairshare" in account.findings[0].text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("job_id,submit\n1,2\n", "slurm.conf:1: 'job_id,submit' is no line of a slurm.conf"),
        ("", "holds no parameter of Slurm"),
        ("Include slurm.conf\n", "is included in a circle"),
        ("Include circle.conf\n", r"circle.conf: cannot be read .*slurm.conf includes it"),
        ("Include a\0b\n", "slurm.conf:1: 'a.b' is no name of a file"),
        ("a" * 200_000 + " b" * 100_000 + "\n", "is no line of a slurm.conf"),
        ("Include gone.conf\n", r"gone.conf: cannot be read \(no such file\).*slurm.conf includes it"),
        ("Include ../{folder}/slurm.conf\n", "is included in a circle"),
        ("Include /dev/zero\n", "/dev/zero: is a device"),
        ("PriorityWeightAge=many\n", "slurm.conf:1: PriorityWeightAge is a whole number"),
        ("PriorityMaxAge=soon\n", "slurm.conf:1: PriorityMaxAge is a time above 0, such as 7-0"),
        ("PriorityCalcPeriod=0\n", "slurm.conf:1: PriorityCalcPeriod is a time above 0"),
        ("PriorityFavorSmall=maybe\n", "slurm.conf:1: PriorityFavorSmall is YES or NO; found 'maybe'"),
        ("NodeName=n[1-9000000000] CPUs=4\n", "slurm.conf:1: NodeName is a list of nodes"),
        ("NodeName=n[5-1] CPUs=4\n", "slurm.conf:1: NodeName is a list of nodes"),
        ("NodeName=n[1- CPUs=4\n", "slurm.conf:1: NodeName is a list of nodes"),
        (f"NodeName=n Sockets={1 << 31} CoresPerSocket={1 << 31}\n", "slurm.conf:1: a node has at most"),
        ("PriorityType=priority/own\n", "slurm.conf:1: PriorityType is priority/multifactor or priority/basic"),
        ("SchedulerParameters=bf_max_job_test=0\n", "slurm.conf:1: bf_max_job_test is 1 to 999,999"),
        ("PartitionName=other\n", "job 1: No partition 'low'.* Add a PartitionName line"),
        ("NodeName=n[1-4]\nPartitionName=low Nodes=n[1-9999999]\n", "slurm.conf:2: Nodes names more than 1,000,000"),
        (
            "NodeName=n[1-4]\nPartitionName=low Nodes=n[4-1]\n",
            "slurm.conf:2: Nodes of partition low names 'n\\[4-1\\]'",
        ),
        ("PartitionName=low PriorityTier=x\n", "slurm.conf:1: PriorityTier is a whole number"),
    ],
)
def test_bad_files_are_refused_with_the_place(text, says, tmp_path):
    (tmp_path / "circle.conf").symlink_to(tmp_path / "circle.conf")
    (tmp_path / "slurm.conf").write_text(text.replace("{folder}", tmp_path.name))
    with pytest.raises(JobcastError, match=says):
        slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", made_log([(0, 8, 9, 0)]))


def test_nodes_are_counted_by_boards_and_sockets_and_a_byte_order_mark_is_none_of_the_text(tmp_path):
    text = "\ufeffNodeName=n[1-2] Boards=2 SocketsPerBoard=3 CoresPerSocket=4 ThreadsPerCore=2\nNodeName=m Sockets=5\n"
    (tmp_path / "slurm.conf").write_text(text + "PartitionName=p\n")
    found = read_slurm_conf(tmp_path / "slurm.conf")
    assert (found.nodes, found.procs) == (3, 2 * 48 + 5)


def test_the_depth_of_the_main_loop_is_read(tmp_path):
    (tmp_path / "slurm.conf").write_text(
        "SchedulerParameters=default_queue_depth=10,partition_job_depth=3,sched_min_interval=2500000,sched_interval=30\n"
    )
    policy, account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", made_log([(0, 8, 9, 0)]))
    loops = policy.backfill
    assert (loops.queue_depth, loops.sched_interval, loops.min_interval) == (11, 30, 2)  # Slurm tests one more
    assert [(quota.most, quota.of_main) for quota in loops.quotas] == [(3, True)]
    assert account.count("slurm-unused-option") == 0


def test_partitions_refuse_jobs_and_a_sites_memory_reaches_all_whatever_the_priority(tmp_path):
    for kind in ("basic", "multifactor"):
        (tmp_path / "slurm.conf").write_text(
            f"PriorityType=priority/{kind}\nDefMemPerCPU=100\nPartitionName=low MaxTime=1\n"
        )
        log = made_log([(0, 8, 60, 0), (1, 8, 600, 0)])
        account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log)[1]
        assert (account.count("slurm-refused"), account.count("slurm-default-memory")) == (1, 2)
        without = made_log([(0, 8, 60, 0)], names=())
        assert slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", without)[1].count("slurm-default-memory") == 1


def test_a_job_in_several_partitions_has_the_highest_tier_of_them(conf):
    log = made_log([(0, 8, 100, 1), (1, 8, 10, 1), (2, 8, 10, 0)], ("low,urgent", "high", "urgent"))
    assert run_by_name(log, f"slurm:{conf}")[0].start.tolist() == [0, 110, 100]


def test_partitions_that_the_log_does_not_name_are_told(conf):
    log = made_log([(0, 8, 9, 0), (1, 8, 9, 0)])
    some = JobLog.from_columns(
        dict(log.values), {"queue": [False, True]}, max_procs=8, categories={"queue": ("low", "high", "urgent")}
    )
    told = slurm_policy_of(f"slurm:{conf}", some)[1]
    assert told.count("slurm-unnamed-partition") == 1
    numbers = slurm_policy_of(f"slurm:{conf}", made_log([(0, 8, 9, 0), (1, 8, 9, 1)], names=()))[1]
    assert numbers.count("slurm-unnamed-partition") == 2


def test_an_included_file_is_an_input_that_no_output_replaces(conf, tmp_path):
    log = tmp_path / "log.parquet"
    writer_for(log)(made_log([(0, 8, 9, 0)]), log)
    (tmp_path / "out.csv").symlink_to("nodes.conf")
    for out in ("nodes.conf", "out.csv"):
        given = ["simulate", str(log), "--policy", f"slurm:{conf}", "--schedule", str(tmp_path / out)]
        refused = invoke(*given)
        assert "is the very file that is read" in str(refused.exception)
    assert (tmp_path / "nodes.conf").read_text() == NODES


def test_a_simulation_makes_the_policy_once(conf, tmp_path, monkeypatch):
    log, made = tmp_path / "log.parquet", []
    writer_for(log)(made_log([(0, 8, 9, 0), (1, 8, 9, 1)]), log)
    read = files.read_slurm_conf
    monkeypatch.setattr(files, "read_slurm_conf", lambda path: made.append(path) or read(path))
    for more in ([], ["--explain", "1"]):
        made.clear()
        done = invoke("simulate", log, "--policy", f"slurm:{conf}", *more)
        assert (done.exit_code, made) == (0, [str(conf)])


def test_nodes_asked_for_count_instead_of_the_fewest_that_hold_a_job(conf):
    """Behind a job that takes the machine, the one of two like jobs that asks for two nodes is the larger."""
    log = made_log([(0, 8, 100, 0), (1, 5, 10, 0), (2, 5, 10, 0)])
    nodes = {"requested_nodes": np.array([2, 1, 2])}
    asked = JobLog.from_columns(log.values | nodes, {}, max_procs=8, categories=log.categories)
    assert run_by_name(log, f"slurm:{conf}")[0].start.tolist() == [0, 100, 110]
    assert run_by_name(asked, f"slurm:{conf}")[0].start.tolist() == [0, 110, 100]
