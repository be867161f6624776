"""A site's own Slurm in sweeps, advice and backtests: read once, as `simulate` has it, and part of the identity."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.compare.measures import AS_LOGGED
from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation, run_by_name
from experiments.site.advise.advise import Question, cases_with
from experiments.site.backtest.backtest import Backtest
from experiments.sweeps.plan import plan
from experiments.sweeps.report import medians
from experiments.sweeps.results import TIMES
from experiments.sweeps.run import run_plan
from jobcast import Case, JobcastError, JobLog, Sweep, run_sweep
from predictors.data.formats.detect import writer_for
from schedsim.agents.files import NamedAgent, write_agent
from schedsim.machine.node_groups import Machine, NodeGroup, demands_of
from schedsim.policies.agents import OLDEST_FIRST, Linear

CONF = """PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PriorityWeightQOS=100
PriorityCalcPeriod=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=limits,qos
SchedulerParameters=bf_interval=1,bf_resolution=1
NodeName=n[1-2] CPUs=4
PartitionName=p
"""
DUMP = """Cluster - 't':Fairshare=1
Parent - 'root'
Account - 'a':Fairshare=1
Parent - 'a'
User - 'ann':DefaultAccount='a':Fairshare=9
User - 'bob':DefaultAccount='a':Fairshare=1:MaxJobs=1:GrpWall=9
"""


@pytest.fixture
def site(tmp_path):
    """Return a folder with a slurm.conf and a dump."""
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "t.dump").write_text(DUMP)
    return tmp_path


@pytest.fixture
def policy(site):
    """Return the name of their policy."""
    return f"slurm:{site / 'slurm.conf'},{site / 't.dump'}"


@pytest.fixture(scope="module")
def log():
    """Return 60 jobs of two users on 8 processors that are in demand."""
    rng, n = np.random.default_rng(4), 60
    run = rng.integers(60, 3000, n)
    columns = {
        "job_id": np.arange(1, n + 1), "submit": np.sort(rng.integers(0, 15_000, n)), "run_time": run,
        "requested_time": 2 * run, "requested_procs": rng.integers(1, 9, n), "user": rng.integers(0, 2, n),
        "queue": np.zeros(n, dtype=np.int64),
    }  # fmt: skip
    return JobLog.from_columns(columns, {}, max_procs=8, categories={"user": ("ann", "bob"), "queue": ("p",)})


def same(one, other):
    """Return whether two tables agree on all but times."""
    figures = [name for name in one if name not in TIMES]
    return one[figures].equals(other[figures])


def test_a_sweep_runs_the_files_as_they_were_read(log, site, policy):
    sweep = Sweep(policies=("easy", policy), seeds=(1, 2))
    planned = plan(sweep, [log])
    account = planned.about()["logs"][0]["account"]["findings"]
    assert any("GrpWall" in one["text"] for one in account)
    here = run_plan(planned).runs
    alone = run_by_name(log, policy)[1]
    own = here[(here["policy"] == policy) & (here["seed"] == AS_LOGGED)]
    assert own["mean_wait_s"].tolist() == [alone["mean_wait_s"]]
    waits = here.groupby("case")["mean_wait_s"].apply(list)
    assert all(one != other for one, other in zip(waits["easy"], waits[policy], strict=True))
    (site / "t.dump").write_text(DUMP.replace(":MaxJobs=1", ""))  # the plan has what it has read
    assert same(run_plan(planned).runs, here)
    other = plan(sweep, [log])
    assert other.identity() != planned.identity()
    assert not same(run_plan(other).runs, here)


def test_a_sweep_tells_of_preemption(log, site, policy):
    more = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nPartitionName=q Nodes=ALL PriorityTier=9\n"
    (site / "slurm.conf").write_text(CONF.replace("PartitionName=p", "PartitionName=p Nodes=ALL") + more)
    jobs = replace(
        log, values=log.values | {"queue": np.arange(len(log)) % 2}, categories=log.categories | {"queue": ("p", "q")}
    )
    found = run_sweep(Sweep(policies=("easy", policy), seeds=()), [jobs])
    table = medians(found, ["case"]).set_index("case")
    figures = run_by_name(jobs, policy)[1]
    for name in ("preemptions", "preempted_processor_seconds"):
        assert table.loc[policy, name] == figures[name] > 0 and np.isnan(table.loc["easy", name])


def test_it_goes_on_in_its_folder_unless_a_file_has_changed(log, site, policy, tmp_path):
    sweep, folder = Sweep(policies=(policy,), seeds=(1,)), tmp_path / "out"
    first = run_sweep(sweep, [log], folder=folder).runs
    assert same(run_sweep(sweep, [log], folder=folder).runs, first)
    (site / "t.dump").write_text(DUMP + "User - 'cid':Fairshare=1\n")
    with pytest.raises(JobcastError, match="holds the results of another sweep, which differs in slurm"):
        run_sweep(sweep, [log], folder=folder)


def test_files_in_a_declaration_start_from_its_folder(site, log):
    text = "logs = ['log.parquet']\nbeside = 'slurm:slurm.conf'\n"
    text += "policies = ['easy', 'slurm:slurm.conf,t.dump', 'slurm:slurm.conf']\nseeds = 0"
    sweep = Sweep.from_toml(text, "a.toml", site)
    assert sweep.policies[1:] == (f"slurm:{site}/slurm.conf,{site}/t.dump", f"slurm:{site}/slurm.conf")
    assert sweep.beside == sweep.policies[2]


def test_a_declared_case_of_several_estimates_may_stand_beside_the_others(site):
    text = "logs = ['log.parquet']\nbeside = 'slurm:slurm.conf, tsafrir'\n"
    text += "policies = ['slurm:slurm.conf', 'easy']\nestimates = ['requested', 'tsafrir']\nseeds = 0"
    assert Sweep.from_toml(text, "a.toml", site).beside == f"slurm:{site}/slurm.conf, tsafrir"


def test_the_same_jobs_of_other_users_are_another_log(log, policy):
    swapped = replace(log, categories={**log.categories, "user": ("bob", "ann")})
    sweep = Sweep(policies=(policy,))
    one, other = (run_sweep(sweep, [jobs]).runs["mean_wait_s"].tolist() for jobs in (log, swapped))
    assert [one, other] == [[run_by_name(jobs, policy)[1]["mean_wait_s"]] for jobs in (log, swapped)]
    assert one != other
    machine = Machine((NodeGroup("n", 2, 4),))
    demands = demands_of(log, machine)[1]
    on_nodes = run_sweep(sweep, [log], machine=machine).runs["mean_wait_s"].tolist()
    assert on_nodes == [run_by_name(log, policy, demands=demands)[1]["mean_wait_s"]]


def test_the_command_takes_files_behind_other_policies(log, site, command, monkeypatch):
    monkeypatch.chdir(site)
    writer_for(site / "log.parquet")(log, site / "log.parquet")
    line = "sweep log.parquet --policies easy,slurm:slurm.conf,t.dump --seeds 3 --out out --json"
    status, out, err = command(line)
    assert (status, err) == (0, ""), err
    assert [one["case"] for one in json.loads(out)["about"]["cases"]] == ["easy", "slurm:slurm.conf,t.dump"]
    status, _, err = command("sweep log.parquet --policies slurm:slurm.conf,t.dump,easy --out other")
    assert status == 2 and "easy: cannot be read" in err and not (site / "other").exists()


def test_what_cannot_be_ranked_is_refused_before_anything_is_run(log, site, policy):
    with pytest.raises(JobcastError, match="files of sacctmgr behind commas"):
        Case("site", "slurm:a.conf,").check()
    with pytest.raises(JobcastError, match="has a policy of its own; leave rule out"):
        Case("site", policy, rule=Case("easy", "easy").passes)
    (site / "slurm.conf").write_text(CONF.replace("Name=p", "Name=other"))
    with pytest.raises(JobcastError, match=r"cannot rank the jobs of .*: job 1.*: No partition"):
        plan(Sweep(policies=(policy,)), [log])


def test_advice_begins_with_the_sites_own_slurm(log, policy):
    first, cases = cases_with(policy)
    assert (first.name, first.policy, cases[0]) == ("slurm.conf", policy, first)
    soft = Question(log, policy, seeds=5, soft_limits="slurm").cases
    assert {case.policy for case in soft} == {policy} and soft[1].soft_limits == "slurm"
    asked = Question(log, policy, seeds=5)
    assert asked.plan.logs[log.name].of_policies.count("slurm-no-accounts") == 0
    assert list(asked.plan.about()["slurm"]) == [policy]


@pytest.mark.slow
def test_a_backtest_is_of_the_sites_own_slurm(log, site, policy, tmp_path):
    asked = Backtest(replace(log, name="site"), "last-two", policy=policy, seeds=5)
    found = asked.run(tmp_path / "runs").runs
    figures = NamedSimulation(log, NamedPolicy.of(policy), "last-two", "slurm", soft_limits="slurm").run()[1]
    hard = run_by_name(log, policy)[1]
    plain = found[found["seed"] == AS_LOGGED].set_index("case")["mean_wait_s"]
    assert plain["requests"] == hard["mean_wait_s"] and plain["last-two"] == figures["mean_wait_s"]
    assert "GrpWall" in str(asked.of_policy)
    (site / "t.dump").unlink()
    with pytest.raises(JobcastError, match=r"t\.dump: cannot be read"):
        Backtest(log, policy=policy, seeds=5).run(tmp_path / "runs")


def test_a_backtest_does_not_go_on_with_another_agent_in_the_same_file(log, tmp_path):
    file = tmp_path / "mine.json"
    asked = (file, OLDEST_FIRST), (file, Linear((0.0, 0.0, -9.0) + (0.0,) * 9))
    found = []
    for place, agent in asked:
        write_agent(NamedAgent(agent), place)
        found.append(Backtest(log, "last-two", policy=f"agent:{place}", seeds=5).run(tmp_path / "runs").runs)
    waits = [runs.set_index(["case", "seed"])["mean_wait_s"] for runs in found]
    assert (waits[0] != waits[1]).any()
    hard = waits[1].loc["requests", AS_LOGGED]
    assert hard == run_by_name(log, f"agent:{file}")[1]["mean_wait_s"]
