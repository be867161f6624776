"""The parts of the priority: each by hand, all of them against a plain second reading, and bad settings."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcast import Easy, JobcastError, JobLog, Simulation, Workload
from predictors.data.slurm.conf import SlurmConf
from schedsim.sites.slurm.fair_share import NO_SHARES
from schedsim.sites.slurm.files import SlurmFiles, slurm_policy_of
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Multifactor, parts_of, slurm_policy
from tests.oracle.slurm_priority import priority

NAMES = ("Age", "Assoc", "Fairshare", "JobSize", "Partition", "QOS")
FLAGS = (
    "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES", "SMALL_RELATIVE_TO_TIME",
    "ACCRUE_ALWAYS", "CALCULATE_RUNNING",
)  # fmt: skip
USERS, QOS, PARTITIONS = ("ann", "bob", "cid"), ("normal", "high"), ("low", "top")
HAS = {
    "low": {"cpu": 8, "mem": 4000, "node": 2, "gres/gpu": 0},
    "top": {"cpu": 16, "mem": 8000, "node": 4, "gres/gpu": 4},
}
"""What the nodes of each partition have."""
NODES = "NodeName=n[1-2] CPUs=4 RealMemory=2000\nNodeName=g[1-2] CPUs=4 RealMemory=2000 Gres=gpu:a100:2\n"


@pytest.fixture
def site(tmp_path):
    """Write the files of a site; return a function that gives the priorities of jobs at a second."""

    def priorities(conf, jobs, now, dump="Cluster - 't':Fairshare=1\n", qos="Name|Priority\nnormal|0\n"):
        for name, text in {"slurm.conf": conf, "t.dump": dump, "qos": qos}.items():
            (tmp_path / name).write_text(text)
        policy = "slurm:" + ",".join(str(tmp_path / name) for name in ("slurm.conf", "t.dump", "qos"))
        return slurm_policy_of(policy, log_of(jobs))[0].order.ranking.at(now).tolist()

    return priorities


def log_of(jobs):
    """Return the log of jobs, each a mapping; on 16 processors."""
    n = len(jobs)
    table = {name: np.array([job.get(name, 0) for job in jobs]) for name in ("submit", "nice")}
    columns = {
        "job_id": np.arange(1, n + 1), "submit": table["submit"], "nice": table["nice"],
        "site_factor": np.array([job.get("site", 0) for job in jobs]), "run_time": np.full(n, 60),
        "requested_time": np.array([job.get("requested", 60) for job in jobs]),
        "requested_procs": np.array([job.get("procs", 1) for job in jobs]),
        "requested_nodes": np.array([job.get("nodes", 1) for job in jobs]),
        "requested_gpus": np.array([job.get("tres", {}).get("gres/gpu", 0) for job in jobs]),
        "requested_job_memory": np.array([1024 * job.get("tres", {}).get("mem", 0) for job in jobs]),
        "user": np.array([USERS.index(job.get("user", "ann")) for job in jobs]),
        "qos": np.array([QOS.index(job.get("qos", "normal")) for job in jobs]),
        "queue": np.array([PARTITIONS.index(job.get("partition", "low")) for job in jobs]),
    }  # fmt: skip
    return JobLog.from_columns(columns, {}, max_procs=16, categories={"user": USERS, "qos": QOS, "queue": PARTITIONS})


@st.composite
def sites(draw):
    """A site as the second reading takes it, with jobs."""
    weight = st.sampled_from([0, 1, 300, 7_001, 1_000_000])
    partitions = {name: {"factor": draw(st.integers(0, 9)), "has": HAS[name]} for name in PARTITIONS}
    jobs = []
    for submit in sorted(draw(st.lists(st.integers(0, 900), min_size=1, max_size=5))):
        procs, nodes = draw(st.integers(1, 16)), draw(st.integers(1, 4))
        tres = {"cpu": procs, "mem": draw(st.integers(0, 8000)), "node": nodes, "gres/gpu": draw(st.integers(0, 4))}
        jobs.append(
            {"submit": submit - (jobs[0]["first"] if jobs else submit), "first": jobs[0]["first"] if jobs else submit,
             "procs": procs, "nodes": nodes, "requested": draw(st.integers(1, 9000)), "tres": tres,
             "user": draw(st.sampled_from(USERS)), "qos": draw(st.sampled_from(QOS)),
             "partition": draw(st.sampled_from(PARTITIONS)), "nice": draw(st.sampled_from([0, -1, 40, -900])),
             "site": draw(st.sampled_from([0, -1, 55, 2**33]))}
        )  # fmt: skip
    return {
        "weights": {name: draw(weight) for name in NAMES} | {"Fairshare": 0},
        "tres": {name: draw(st.sampled_from([0.0, 0.5, 700.0])) for name in ("cpu", "mem", "node", "gres/gpu")},
        "flags": draw(st.sets(st.sampled_from(FLAGS), max_size=3)), "small": draw(st.booleans()),
        "period": draw(st.sampled_from([60, 300])), "max_age": 60 * draw(st.integers(1, 30)), "procs": 16, "nodes": 4,
        "partitions": partitions, "qos": {name: draw(st.integers(0, 50)) for name in QOS},
        "associations": {name: draw(st.integers(0, 50)) for name in USERS},
    }, jobs  # fmt: skip


def conf_of(made):
    """Return a site as a slurm.conf."""
    lines = [f"PriorityWeight{name}={weight}" for name, weight in made["weights"].items()]
    lines += [f"PriorityWeightTRES={','.join(f'{name}={weight}' for name, weight in made['tres'].items())}"]
    lines += [f"PriorityFlags={','.join(sorted(made['flags']))}", f"PriorityFavorSmall={'Up' if made['small'] else 0}"]
    lines += [f"PriorityCalcPeriod={made['period'] // 60}", f"PriorityMaxAge={made['max_age'] // 60}", NODES]
    for (name, one), nodes in zip(made["partitions"].items(), ("n[1-2]", "ALL"), strict=True):
        lines.append(f"PartitionName={name} Nodes={nodes} PriorityJobFactor={one['factor']}")
    return "\n".join(lines)


@given(sites(), st.integers(0, 3000))
@settings(max_examples=150, deadline=None)
def test_all_parts_together_equal_a_plain_second_reading(tmp_path_factory, case, now):
    made, jobs = case
    folder = tmp_path_factory.mktemp("site")
    (folder / "slurm.conf").write_text(conf_of(made))
    users = "".join(f"User - '{name}':Priority={value}\n" for name, value in made["associations"].items())
    (folder / "t.dump").write_text(f"Cluster - 't':Fairshare=1\nParent - 'root'\n{users}")
    rows = "".join(f"{name}|{value}\n" for name, value in made["qos"].items())
    (folder / "qos").write_text(f"Name|Priority\n{rows}")
    policy = "slurm:" + ",".join(str(folder / name) for name in ("slurm.conf", "t.dump", "qos"))
    found = slurm_policy_of(policy, log_of(jobs))[0].order.ranking.at(now)
    assert found.tolist() == [priority(made, job, now) for job in jobs]


@pytest.mark.parametrize(
    ("conf", "jobs", "expected"),
    [
        # the older key of partitions is tier and factor at once
        ("PriorityWeightPartition=100\nPartitionName=low Priority=1\nPartitionName=top Priority=4 PriorityJobFactor=9",
         [{}, {"partition": "top"}], [25, 100]),
        ("PriorityWeightPartition=100\nPriorityFlags=NO_NORMAL_PART\nPartitionName=low PriorityJobFactor=3",
         [{}], [300]),
        ("PriorityWeightTRES=CPU=100,GRES/gpu=1000,Mem=10\nPartitionName=low Nodes=ALL",
         [{"procs": 4}, {"tres": {"gres/gpu": 1, "mem": 4000}}], [25, 6 + 250 + 5]),
        ("PriorityWeightTRES=CPU=100,Mem=1G\nPriorityFlags=NO_NORMAL_TRES\nPartitionName=low Nodes=ALL",
         [{"procs": 4}, {"tres": {"mem": 4096}}], [400, 104]),
        ("PriorityWeightTRES=CPU=100\nNodeSet=first Nodes=n[1-2]\nPartitionName=low Nodes=first", [{"procs": 2}], [25]),
        ("PriorityWeightJobSize=100\nPriorityFavorSmall=TRUE\nPartitionName=low", [{"procs": 16, "nodes": 4}], [1]),
        ("PriorityWeightJobSize=160\nPartitionName=low", [{"nice": -50}, {"nice": 5}, {"site": 7}], [75, 20, 32]),
    ],
)  # fmt: skip
def test_parts_by_hand(site, conf, jobs, expected):
    others = "" if "PartitionName=top" in conf else "PartitionName=top\n"
    assert site(f"{NODES}{conf}\n{others}", jobs, 0) == expected


def test_the_older_key_of_partitions_sets_the_tier(tmp_path):
    (tmp_path / "slurm.conf").write_text("PartitionName=low Priority=1\nPartitionName=top Priority=4 PriorityTier=9\n")
    policy = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log_of([{}, {"partition": "top"}]))[0]
    assert policy.order.ranking.parts["tier"].tolist() == [1, 4]


def test_an_association_has_the_priority_of_the_account_above_it(site):
    dump = (
        "Cluster - 't':Fairshare=1\nParent - 'root'\nAccount - 'a':Priority=20\nAccount - 'b':Fairshare=1\n"
        "Parent - 'a'\nUser - 'ann':Fairshare=1\nUser - 'bob':Priority=40\nParent - 'b'\nUser - 'cid':Fairshare=1\n"
    )
    jobs = [{"user": user} for user in USERS]
    conf = "PriorityWeightAssoc=100\nPartitionName=low\n"
    assert site(conf, jobs, 0, dump) == [50, 100, 1]
    assert site(f"{conf}PriorityFlags=NO_NORMAL_ASSOC\n", jobs, 0, dump) == [2000, 4000, 1]


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("PriorityFlags=NO_NORMAL_EVERYTHING", "slurm.conf:1: No PriorityFlags 'NO_NORMAL_EVERYTHING'; did you mean"),
        ("PriorityWeightTRES=CPU", "slurm.conf:1: PriorityWeightTRES is a list such as CPU=1.0"),
        ("PriorityWeightTRES=CPU=1\nPartitionName=low Nodes=gone", "slurm.conf:2: Nodes of partition low names 'gone'"),
        ("PriorityWeightTRES=CPU=1\nNodeName=n Gres=a:b:c:d\nPartitionName=low Nodes=n", "2: Gres is a list such as"),
        ("PriorityFavorSmall=maybe", "slurm.conf:1: PriorityFavorSmall is YES or NO; found 'maybe'"),
        ("PartitionName=low MaxTime=soon", "slurm.conf:1: MaxTime is a time above 0"),
        ("PartitionName=low Priority=high", "slurm.conf:1: Priority is a whole number"),
        ("PartitionName=low PriorityTier=65536", "slurm.conf:1: PriorityTier is a whole number from 0 to 65,535"),
        ("PartitionName=low\nPartitionName=low", "slurm.conf:2: partition 'low' is named twice, first at .*:1"),
        ("NodeName=n1\nPartitionName=low Nodes=n[1-2]", "slurm.conf:2: Nodes of partition low names 'n2', for which"),
        ("EnforcePartLimits=maybe\nPartitionName=low", "slurm.conf:1: EnforcePartLimits is NO, ANY or ALL"),
        ("PartitionName=low MaxNodes=x", "slurm.conf:1: MaxNodes is a whole number"),
        ("PreemptType=preempt/qos", "slurm.conf:1: PreemptType=preempt/qos and PreemptMode=OFF do not go together"),
        ("PreemptMode=REQUEUE", "slurm.conf:1: PreemptType=preempt/none and PreemptMode=REQUEUE do not go together"),
        ("PreemptMode=KILL", "slurm.conf:1: PreemptMode=KILL: .*Older Slurms have KILL for CANCEL"),
        ("PreemptParameters=strict_ordr", "slurm.conf:1: 'strict_ordr' is nothing that Slurm knows"),
    ],
)
def test_bad_settings_are_refused_with_the_place(site, conf, says):
    with pytest.raises(JobcastError, match=says):
        site(conf, [{}], 0)


@pytest.mark.parametrize(
    ("line", "n_refused"),
    [
        ("MaxTime=1-0", 0), ("MaxTime=59:30", 1), ("MaxTime=UNLIMITED", 0), ("AllowQos=high", 2), ("DenyQos=high", 1),
        ("AllowQos=ALL", 0), ("AllowAccounts=a", 1), ("DenyAccounts=a", 2), ("AllowAccounts=low", 2),
        ("AllowAccounts=root DenyAccounts=a", 0), ("MaxNodes=1", 1), ("MaxNodes=UNLIMITED", 0), ("MinNodes=2", 2),
        ("MaxMemPerNode=1023", 1), ("MaxMemPerNode=1024", 0), ("MaxMemPerNode=0", 0),
    ],
)  # fmt: skip
def test_jobs_that_a_partition_does_not_take_are_counted(tmp_path, line, n_refused):
    """Three jobs: Ann's of an account below a, Bob's of a itself, Cid's of b for more than an hour and of high QOS."""
    dump = (
        "Cluster - 't':Fairshare=1\nParent - 'root'\nAccount - 'a':Fairshare=1\nAccount - 'b':Fairshare=1\n"
        "Parent - 'a'\nAccount - 'low':Fairshare=1\nUser - 'bob':Fairshare=1\nParent - 'low'\n"
        "User - 'ann':Fairshare=1\nParent - 'b'\nUser - 'cid':Fairshare=1\n"
    )
    texts = {"slurm.conf": f"PartitionName=low {line}\n", "t.dump": dump, "qos": "Name|Priority\nnormal|0\nhigh|1\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    jobs = [{}, {"user": "bob"}, {"user": "cid", "requested": 3660, "qos": "high", "nodes": 2, "tres": {"mem": 2048}}]
    account = slurm_policy_of("slurm:" + ",".join(str(tmp_path / name) for name in texts), log_of(jobs))[1]
    assert account.count("slurm-refused") == n_refused
    assert account.count("slurm-unused-of-partitions") == 0


@pytest.mark.parametrize(
    ("rule", "n_refused", "says"),
    [
        ("NO", 1, "would let wait without end; here they run"), ("ANY", 1, "would refuse at submission"),
        ("YES", 1, "would refuse at submission"), ("all", 2, "would refuse at submission"),
    ],
)  # fmt: skip
def test_with_limits_of_partitions_enforced_jobs_are_refused(tmp_path, rule, n_refused, says):
    """Two long jobs, of which one may go to another partition; under ALL no partition may refuse a job."""
    conf = f"EnforcePartLimits={rule}\nMaxMemPerCPU=100\nPartitionName=low MaxTime=1\nPartitionName=top\n"
    (tmp_path / "slurm.conf").write_text(conf)
    jobs = [{"requested": 120, "partition": name, "tres": {"mem": 101}} for name in ("low", "top")]
    log = log_of(jobs)
    log = replace(log, categories=log.categories | {"queue": ("low", "low,top")})
    found = {one.rule: one for one in slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log)[1].findings}
    assert found["slurm-refused"].count == n_refused and says in found["slurm-refused"].text
    assert found["slurm-more-processors"].count == 2
    assert "slurm-unused-parameter" not in found


@pytest.mark.parametrize(
    ("site_wide", "own", "memory"),
    [
        ("DefMemPerCPU=100", "", [200, 7, 400]), ("DefMemPerCPU=100", "DefMemPerNode=50", [50, 7, 100]),
        ("DefMemPerCPU=100\nDefMemPerGPU=30", "", [200, 7, 90]), ("DefMemPerNode=0", "", None),
    ],
)  # fmt: skip
def test_jobs_that_ask_for_no_memory_count_with_what_slurm_gives_them(tmp_path, site_wide, own, memory):
    (tmp_path / "slurm.conf").write_text(
        f"{site_wide}\nPriorityWeightTRES=mem=1\nPriorityFlags=NO_NORMAL_TRES\nPartitionName=low {own}\n"
    )
    log = log_of([{"procs": 2}, {"tres": {"mem": 7}}, {"procs": 4, "nodes": 2, "tres": {"gres/gpu": 3}}])
    log = replace(log, unknown={**log.unknown, "requested_job_memory": np.array([True, False, True])})
    policy, account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log)
    expected = [0, 7, 0] if memory is None else memory
    assert policy.order.ranking.parts["tres"].tolist() == expected
    assert account.count("slurm-default-memory") == (0 if memory is None else 2)


def test_odd_values_are_told(tmp_path):
    text = "JobRequeue=7\nPreemptType=preempt/partition_prio\nPreemptMode=CANCEL\nPreemptParameters=send_user_signal\n"
    (tmp_path / "slurm.conf").write_text(f"{text}PartitionName=low Nodes=ALL\n")
    account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log_of([{}]))[1]
    found = {one.rule: one.text for one in account.findings}
    assert found["slurm-odd-value"].endswith("slurm.conf:1: Slurm takes JobRequeue=7 for 1")
    assert "send_user_signal" in found["slurm-unused-option"]


def test_what_the_log_does_not_tell_is_said(tmp_path):
    (tmp_path / "slurm.conf").write_text("PriorityWeightTRES=CPU=1,license/x=9\nPartitionName=low Nodes=ALL\n")
    account = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log_of([{}]))[1]
    told = {one.rule: one.text for one in account.findings}
    assert "license/x" in told["slurm-priority-untold"]
    assert "slurm-no-weights" not in told
    assert "slurm-unused-of-partitions" not in told


def test_the_order_goes_with_the_loops_and_one_period_alone(tmp_path):
    (tmp_path / "slurm.conf").write_text("PriorityWeightAge=1\n")
    policy = slurm_policy_of(f"slurm:{tmp_path / 'slurm.conf'}", log_of([{}]))[0]
    with pytest.raises(JobcastError, match="The order multifactor goes with Slurm's loops alone; got Easy"):
        replace(policy, backfill=Easy())
    with pytest.raises(JobcastError, match="one calc_period; got 300 and 60"):
        Multifactor(calc_period=60).order(Workload.from_log(log_of([{}])), parts_of(1), NO_SHARES)


def test_priorities_are_of_every_job_of_the_workload():
    workload = Workload.from_log(log_of([{}, {}]))
    with pytest.raises(JobcastError, match="Priorities are of each job of the workload, 2; got other numbers"):
        Simulation(workload, slurm_policy(Multifactor().order(workload, parts_of(1)), Loops()))


@pytest.mark.parametrize("line", ["NodeName=n[1-2] CPUs=4 RealMemory={}", "NodeSet=s Nodes=n{}"])
def test_files_with_other_nodes_have_another_digest(tmp_path, line):
    digests = set()
    for value in (1, 2):
        (tmp_path / "slurm.conf").write_text(f"{line.format(value)}\nPartitionName=p Nodes=ALL\n")
        digests.add(SlurmFiles.read(f"slurm:{tmp_path / 'slurm.conf'}").digest)
    assert len(digests) == 2


def test_a_type_of_gpu_may_begin_with_a_number():
    lines = ["NodeName=n[1-2] CPUs=4 Gres=gpu:1g.5gb:7,lic:2K", "PartitionName=p Nodes=ALL"]
    found = SlurmConf.of_lines("slurm.conf", [(f"slurm.conf:{i}", line) for i, line in enumerate(lines, 1)])
    assert found.resources("p")["gres/gpu:1g.5gb"] == 14 and found.resources("p")["gres/lic"] == 4096


def test_resources_of_partitions_are_counted_over_their_nodes():
    lines = [NODES.splitlines()[0], NODES.splitlines()[1], "PartitionName=p Nodes=n2,g[1-2]", "PartitionName=q"]
    conf = SlurmConf.of_lines("slurm.conf", [(f"slurm.conf:{i}", line) for i, line in enumerate(lines, 1)])
    assert conf.resources("p") == {"node": 3, "cpu": 12, "mem": 6000, "gres/gpu": 4, "gres/gpu:a100": 4}
    assert conf.resources("q") == {}
