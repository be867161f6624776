"""What jobs ask of nodes by a site's slurm.conf: the memory that they do not ask for themselves, or none at all."""

import json
from random import Random

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.cli.main import app
from experiments.runs.policies import NamedPolicy, demands_by
from experiments.runs.simulate import NamedSimulation
from experiments.sweeps.plan import plan
from experiments.sweeps.run import run_sweep
from experiments.sweeps.sweep import Sweep
from predictors.core.errors import JobcastError
from predictors.data.formats.detect import writer_for
from predictors.data.joblog import JobLog
from schedsim.explain.sentences import in_words
from schedsim.machine.node_groups import Machine, NodeGroup
from tests.support.slow import slow_but

GB = 1 << 20  # [KB]
MACHINE = Machine((NodeGroup("n", 2, 4, memory_gb=8),))
LOOPS = "SchedulerParameters=bf_interval=1,bf_resolution=1\nNodeName=n[1-2] CPUs=4\n"


def log_of(*jobs, partitions=("p", "q")):
    """A log of jobs as columns; what they leave out is unknown."""
    usual = {"submit": 0, "run_time": 100, "requested_time": 100, "requested_procs": 1, "partition": 0}
    rows = [{"job_id": n} | usual | job for n, job in enumerate(jobs, 1)]
    names = sorted({name for row in rows for name in row})
    unknown = {name: [row.get(name) is None for row in rows] for name in names}
    columns = {name: [row.get(name) or 0 for row in rows] for name in names}
    return JobLog.from_columns(columns, unknown, max_procs=8, categories={"partition": partitions}, name="site")


@pytest.fixture
def site(tmp_path):
    """Return a function that writes a slurm.conf and returns the policy of it."""

    def written(text, name="slurm.conf"):
        (tmp_path / name).write_text(LOOPS + text)
        return f"slurm:{tmp_path / name}"

    return written


def memory(policy, log, machine=MACHINE):
    """Memory of each job's pieces [KB] under a policy."""
    demands = demands_by(NamedPolicy.of(policy).files, log, machine)[1]
    return (demands.shapes["memory"] * demands.shapes["pieces"])[demands.shape_of].tolist()


def by_hand(job, of_site, own):
    """Memory of a job [KB], by the rules alone; numbers of the site and its partition are for each of `of`."""
    if job.get("requested_job_memory") is not None:
        return job["requested_job_memory"]
    if job.get("requested_memory"):
        return job["requested_memory"] * job["requested_procs"]
    gpus = job.get("requested_gpus") or job.get("allocated_gpus") or 0
    for_gpu = own.get("GPU") or of_site.get("GPU")
    if gpus and for_gpu:
        return for_gpu * gpus * 1024
    for rule in (own, of_site):
        if rule.get("CPU"):
            return rule["CPU"] * job["requested_procs"] * 1024
        if rule.get("Node"):
            nodes = job.get("requested_nodes") or job.get("nodes") or -(-job["requested_procs"] // 4)
            return rule["Node"] * nodes * 1024
    return 0


@pytest.mark.parametrize("seed", range(40))
def test_jobs_have_the_memory_of_their_partition(site, seed):
    random, machine = Random(seed), Machine((NodeGroup("n", 8, 16, gpus=8, memory_gb=1000),))

    def rule():
        found = {of: random.choice([0, 512, 1024, 3072]) for of in ("GPU", "CPU", "Node") if random.random() < 0.4}
        return found, " ".join(f"DefMemPer{of}={value}" for of, value in found.items())

    (of_site, said), *own = rule(), rule(), rule()
    policy = site("\n".join([*said.split(), *(f"PartitionName={n} {own[k][1]}" for k, n in enumerate("pq"))]))
    usual = {
        "partition": (0, 1, 1, None), "requested_job_memory": (None, None, 4096), "requested_memory": (None, 0, 1024),
        "requested_gpus": (None, 0, 2), "allocated_gpus": (None, None, 2), "requested_nodes": (None, 2),
        "nodes": (None, 1, 4), "requested_procs": (4, 8, 16),
    }  # fmt: skip
    jobs = [{name: random.choice(values) for name, values in usual.items()} for _ in range(30)]
    expected = []
    for job in jobs:
        named = {} if job["partition"] is None else own[job["partition"]][0]
        expected.append(by_hand(job, of_site, named))
    assert memory(policy, log_of(*jobs), machine) == expected
    assert memory("easy", log_of(*jobs), machine) == [by_hand(job, {}, {}) for job in jobs]


def test_memory_that_jobs_do_not_ask_for_holds_others(site):
    """Two jobs of 4 GB on two nodes of 8 GB leave no node to a job of 6 GB on each of two, though processors do."""
    log = log_of(
        {"requested_nodes": 2, "requested_procs": 2},
        {"submit": 1, "requested_nodes": 2, "requested_procs": 2, "requested_job_memory": 12 * GB},
        {"submit": 2, "requested_procs": 1, "requested_nodes": 1, "run_time": 10, "requested_time": 10},
    )
    conf = "DefMemPerNode=4096\nPartitionName=p\nPartitionName=q\n"
    found = {}
    for select in ("", "SelectTypeParameters=CR_Core_Memory\n", "SelectTypeParameters=CR_Core\n"):
        named = NamedPolicy.of(site(conf + select))
        used, demands, account = demands_by(named.files, log, MACHINE)
        simulation = NamedSimulation(used, named, demands=demands)
        schedule, figures = simulation.run()
        simulation.check(schedule)
        found[select] = schedule.start.tolist(), "memory_kb" in figures["resources"], account.count("slurm-no-memory")
        if not select:
            sentences = " ".join(map(str, in_words(simulation.explain(schedule, 2))))
            assert "its nodes lacked memory" in sentences
            assert account.count("unknown-memory") == 0
    assert found == {
        "": ([0, 100, 2], True, 0),
        "SelectTypeParameters=CR_Core_Memory\n": ([0, 100, 2], True, 0),
        "SelectTypeParameters=CR_Core\n": ([0, 1, 2], False, 1),
    }


def test_words_of_selecttypeparameters_without_effect_are_told(site):
    log = log_of({})
    text = "SelectTypeParameters=CR_CPU_Memory,CR_LLN\nPartitionName=p\n"
    found = NamedPolicy.of(site(text)).of_log(log)[1].findings
    assert [one.text.rpartition(": ")[2] for one in found if one.rule == "slurm-unused-option"] == ["CR_LLN"]


def test_all_policies_of_a_sweep_run_by_the_first_slurm_conf(site):
    """Jobs without a slurm.conf of their own have the memory of the first; a second conf has its own rules."""
    random = np.random.default_rng(1)
    jobs = [
        {"submit": int(at), "requested_procs": int(random.integers(1, 4)), "requested_nodes": 1, "run_time": int(run),
         "requested_time": int(run)}
        for at, run in zip(np.sort(random.integers(0, 3000, 40)), random.integers(60, 600, 40), strict=True)
    ]  # fmt: skip
    log, machine = log_of(*jobs), Machine((NodeGroup("n", 2, 4, memory_gb=8),))
    half = site("DefMemPerNode=4096\nPartitionName=p\nPartitionName=q\n")
    whole = site("DefMemPerNode=8192\nPartitionName=p\nPartitionName=q\n", "whole.conf")

    def held(*policies):
        runs = run_sweep(Sweep(policies=policies, seeds=()), [log], machine=machine).runs.set_index("case")
        return [runs.loc[policy, "memory_kb_utilisation"] * runs.loc[policy, "makespan_s"] for policy in policies]

    alone, (easy, first, second) = held("easy"), held("easy", half, whole)
    assert alone == [0] and easy == pytest.approx(first) and second == pytest.approx(2 * first) and first > 0
    other = held("easy", whole, half)
    assert other == pytest.approx([second, second, first])


def test_a_sweep_leaves_out_jobs_that_have_no_place_by_one_of_its_files(site):
    log = log_of({}, {"requested_nodes": 1, "partition": 1}, {"requested_job_memory": 9 * GB, "requested_nodes": 1})
    conf = "PartitionName=p\nPartitionName=q DefMemPerNode=9000\n"
    policy, counts = site(conf), site(f"{conf}SelectTypeParameters=CR_CPU\n", "cpu.conf")
    kept = plan(Sweep(policies=("easy", policy), seeds=(), drop_wide=True), [log], MACHINE).logs["site"]
    assert kept.jobs.values["job_id"].tolist() == [1] and kept.account.count("no-place") == 2
    both = plan(Sweep(policies=(counts, policy), seeds=(), drop_wide=True), [log], MACHINE).logs["site"]
    assert both.jobs.values["job_id"].tolist() == [1] and both.account.count("no-place") == 2
    alone = plan(Sweep(policies=("easy", counts), seeds=()), [log], MACHINE).logs["site"]
    assert len(alone.jobs) == 3
    with pytest.raises(JobcastError, match=r"job 2 .*asks for 1 node with 1 processor and 8\.789 GB"):
        plan(Sweep(policies=(policy,), seeds=()), [log.select(np.array([True, True, False]))], MACHINE)


def test_the_commands_have_the_memory_of_the_conf(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs = [{"requested_procs": 2, "requested_nodes": 2}, {"submit": 1, "requested_procs": 1, "requested_nodes": 1}]
    writer_for(tmp_path / "log.parquet")(log_of(*jobs), tmp_path / "log.parquet")
    (tmp_path / "machine.toml").write_text('[[nodes]]\nname = "n"\ncount = 2\nprocessors = 4\nmemory_gb = 8\n')
    site("DefMemPerCPU=5000\nPartitionName=p\nPartitionName=q\n")
    words = ["simulate", "log.parquet", "--machine", "machine.toml", "--policy", "slurm:slurm.conf", "--explain", "2"]
    assert "its nodes lacked memory" in CliRunner().invoke(app, words).stdout
    found = json.loads(CliRunner().invoke(app, [*words, "--json", "--paranoid"]).stdout)
    assert found["mean_wait_s"] == 49.5 and found["resources"]["memory_kb"]["utilisation"] > 0


def asked(policy, log, machine=MACHINE):
    """What jobs ask of nodes under a policy, in words."""
    demands = demands_by(NamedPolicy.of(policy).files, log, machine)[1]
    return [demands.words(row) for row in range(len(log))]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("", ["", "own", "user"]), ("OverSubscribe=EXCLUSIVE", ["own"] * 3), ("Shared=exclusive", ["own"] * 3),
        ("ExclusiveUser=YES", ["user", "own", "user"]), ("ExclusiveUser=NO OverSubscribe=NO", ["", "own", "user"]),
        ("OverSubscribe=FORCE:2", ["", "own", "user"]), ("ExclusiveUser=YES OverSubscribe=EXCLUSIVE", ["own"] * 3),
    ],
)  # fmt: skip
def test_jobs_keep_nodes_as_they_ask_and_as_their_partition_says(site, own, expected):
    says = {"": "", "own": ", shared with no other job", "user": ", shared with jobs of its user alone"}
    jobs = [{"exclusive": kept, "user": 1, "partition": part} for part in (0, 1) for kept in (None, 1, 2)]
    found = asked(site(f"PartitionName=p {own}\nPartitionName=q\n"), log_of(*jobs))
    assert found == ["1 processor" + says[kind] for kind in (*expected, "", "own", "user")]
    account = NamedPolicy.of(site(f"PartitionName=p {own}\n")).of_log(log_of(jobs[0]))[1]
    assert account.count("slurm-unused-of-partitions") == ("FORCE" in own)


def test_exclusiveuser_is_yes_or_no(site):
    with pytest.raises(JobcastError, match=r"slurm\.conf:3: ExclusiveUser is YES or NO; found 'ALL'"):
        asked(site("PartitionName=p ExclusiveUser=ALL\nPartitionName=q\n"), log_of({}))


@pytest.mark.parametrize("policy", slow_but(("easy", "slurm"), "easy"))
def test_nodes_of_a_user_take_more_of_its_jobs_and_none_of_others(site, policy):
    """Two users keep a node each: more jobs of theirs join them, and others wait."""
    jobs = [
        {"user": 1, "exclusive": 2, "run_time": 50, "requested_time": 50},
        {"submit": 1, "user": 3, "exclusive": 2, "requested_procs": 4, "requested_nodes": 1},
        {"submit": 2, "user": 1, "run_time": 100, "requested_time": 100},  # joins the first job
        {"submit": 3, "user": 2, "run_time": 10, "requested_time": 10},  # waits: the first job ends at 50
        {"submit": 4, "user": 1, "exclusive": 2, "requested_procs": 2},  # would keep it off
        {"submit": 5, "user": None, "exclusive": 2, "requested_procs": 1},  # of an unknown user: exclusive
    ]
    log = log_of(*jobs)
    named = NamedPolicy.of(site("PartitionName=p\nPartitionName=q\n") if policy == "slurm" else policy)
    used, demands, _ = demands_by(named.files, log, MACHINE)
    simulation = NamedSimulation(used, named, demands=demands)
    schedule, figures = simulation.run()
    simulation.check(schedule)
    assert schedule.start.tolist()[:3] == [0, 1, 2]
    assert schedule.placements.node[schedule.placements.job == 2].tolist() == [0]
    assert schedule.start[3:5].tolist() == [50, 60] and schedule.start[5] == 101
    shares = figures["resources"]["processors"]
    assert shares["held"] > shares["utilisation"]  # by the job of an unknown user alone
    if policy == "easy":
        assert "lacked nodes that no other job holds" in " ".join(in_words(simulation.explain(schedule, 4)))
