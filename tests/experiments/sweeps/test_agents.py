"""Agent files as policies: in sweeps, in simulations by names, in an advice; and the estimates that they name."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import estimates_by_name, roles_of, run_by_name
from experiments.site.advise.advise import Question, case_of
from experiments.sweeps.plan import plan
from experiments.sweeps.results import TIMES
from experiments.sweeps.run import run_plan
from jobcast import Case, JobcastError, Sweep, Workload, clean, generate_log, run_sweep, write_log
from schedsim.agents.files import NamedAgent, write_agent
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import Linear
from schedsim.policies.networks import Dras, Shape
from schedsim.workload.estimates import Separate, clairvoyant

WEIGHTS = (0.0, -1.0, -0.5, *(0.0,) * (len(FEATURES) - 3))
AGENT = NamedAgent(Linear(WEIGHTS), "again", estimates="order=last-two")


@pytest.fixture(scope="module")
def log():
    """Return a small busy log, cleaned."""
    return clean(generate_log(300, seed=3, procs=64, load=1.0))[0]


@pytest.fixture
def file(tmp_path):
    """Return the place of an agent file."""
    write_agent(AGENT, tmp_path / "mine.json")
    return tmp_path / "mine.json"


def test_a_sweep_runs_the_agent_of_a_file_as_it_was_read(log, file):
    policy = f"agent:{file}"
    sweep = Sweep(policies=("easy", policy, "agent:oldest-first"), seeds=(1, 2), as_logged=True)
    assert [case.estimates for case in sweep.all_cases] == ["requested", "order=last-two", "requested"]
    here = run_sweep(sweep, [log]).runs
    found = run_by_name(log, policy, "order=last-two")[1]
    own = here[(here["policy"] == policy) & (here["seed"] == -1)]
    assert own["mean_wait_s"].tolist() == [found["mean_wait_s"]]
    by_case = here.groupby("case")["mean_wait_s"].apply(list)
    assert by_case["agent:oldest-first"] == by_case["easy"] != by_case[policy]
    planned = plan(sweep, [log])
    file.unlink()  # workers are given what the plan has read
    there = run_plan(planned).runs
    figures = [name for name in here if name not in TIMES]
    assert there[figures].equals(here[figures])


def test_a_network_of_another_machine_is_refused_before_anything_is_run(log, tmp_path, monkeypatch, command):
    shape = Shape(8, "dql", window=6, dense=(5, 4))
    write_agent(NamedAgent(Dras(shape, np.zeros(shape.parameters)), window=6), tmp_path / "dras.npz")
    with pytest.raises(JobcastError, match=r"dras.npz cannot pick on .*: .* 8 nodes, and this one has 64 processors"):
        plan(Sweep(policies=("easy", f"agent:{tmp_path / 'dras.npz'}")), [log])
    monkeypatch.chdir(tmp_path)
    write_log(log, tmp_path / "log.swf")
    status, out, err = command("sweep log.swf --policies easy,agent:dras.npz --procs 64 --out swept")
    assert (status, out, err.count("\n")) == (2, "", 1) and "cannot pick on log" in err
    assert not (tmp_path / "swept").exists()


def test_another_agent_is_another_sweep(log, file):
    sweep = Sweep(policies=(f"agent:{file}",))
    first = plan(sweep, [log]).identity()
    assert plan(sweep, [log]).identity() == first
    write_agent(replace(AGENT, reserve="kept"), file)
    assert plan(sweep, [log]).identity() != first
    assert plan(sweep, [log]).about()["agents"] == {f"agent:{file}": replace(AGENT, reserve="kept").digest}


def test_paths_of_agents_in_a_declaration_start_from_its_folder(file):
    text = 'logs = ["a.swf"]\npolicies = ["easy", "agent:mine.json", "agent:random-kept"]\nbeside = "agent:mine.json"'
    sweep = Sweep.from_toml(text, "a.toml", file.parent)
    assert sweep.policies == ("easy", f"agent:{file}", "agent:random-kept")
    assert sweep.beside == f"agent:{file}"
    text = 'logs = ["a.swf"]\n[[cases]]\nname = "ours"\npolicy = "agent:mine.json"'
    assert Sweep.from_toml(text, "a.toml", file.parent).cases == (Case("ours", f"agent:{file}"),)


def test_an_agent_goes_into_an_advice(log, file):
    question = Question(log, seeds=5, agent=str(file))
    case = question.cases[-2]
    assert (case.name, case.policy, case.estimates) == ("agent mine", f"agent:{file}", "order=last-two")
    assert case == case_of(f"agent:{file}")
    with pytest.raises(JobcastError, match="cannot be read"):
        Question(log, seeds=5, agent="none.npz")


def test_estimates_by_role(log):
    workload = Workload.from_log(log)
    found = estimates_by_name("order=clairvoyant+running=last-two", log, workload)
    assert isinstance(found, Separate)
    assert (found.candidates == workload.requested).all()
    assert (found.order == estimates_by_name("clairvoyant", log, workload)).all()
    planned = estimates_by_name("cqsim", log, workload)
    assert (planned.candidates == clairvoyant(workload)).all()
    assert all((part == workload.requested).all() for part in (planned.running, planned.order))
    assert roles_of("models:/order=last-two") is None
    for wrong, said in (
        ("order=careful", "role order"), ("order=last-two+order=requested", "each role once"),
        ("order=", "role order"), ("order=last-two+", "each role once"), ("order=lst-two", "did you mean 'last-two'"),
    ):  # fmt: skip
        with pytest.raises(JobcastError, match=said):
            Case("x", "easy", wrong).check()
    with pytest.raises(JobcastError, match="budget"):
        Case("x", "easy", "order=last-two", budget=0.1).check()
    with pytest.raises(JobcastError, match="did you mean 'cqsim'"):
        Case("x", "easy", "cqsin").check()
    with pytest.raises(JobcastError, match="role order"):
        Case("x", "easy", "order=cqsim").check()


def test_the_command_takes_an_agent_with_its_estimates_and_says_what_it_was_tuned_on(log, file, tmp_path, command):
    write_log(log, tmp_path / "log.swf")
    words = ("simulate", str(tmp_path / "log.swf"), "--policy", f"agent:{file}", "--procs", "64", "--json")
    status, out, err = command(words)
    assert status == 0, err
    found = json.loads(out)
    assert (found["estimates"], found["learnt_from_this_log"]) == ("order=last-two", False)
    assert found["policy"] == f"agent:{file}"
    write_agent(replace(AGENT, origin={"log_sha256": log.digest()}), file)
    assert NamedPolicy.of(f"agent:{file}").tuned_on(log)
    assert not NamedPolicy.of("easy").tuned_on(log)
    status, out, err = command(("simulate", words[1], "--policy", "agent:nothing.npz"))
    assert (status, out) == (2, "")
    assert "nothing.npz: cannot be read" in err
