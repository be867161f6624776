"""REINFORCE over forks: what a pick is worth, what rollouts cost, and that a training learns, the same again."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.site.tune import tune as tuning_module
from experiments.site.tune.reinforce import BOUND, HOUR, costs, trained_on, worth_of
from experiments.site.tune.search import Contest, Frame, Objective, Search, policy_of
from experiments.site.tune.tune import Split, Tuning
from jobcast import JobcastError, Workload, clean, generate_log, make_policy, simulate, write_log
from schedsim.agents.files import read_agent
from schedsim.agents.pooled_gradients import first_pooled
from schedsim.policies.agents import RandomPicks
from schedsim.results.metrics import bounded_slowdown, widest

FRAME = Frame(Objective("wait"))


@pytest.fixture(scope="module")
def log():
    """Return a busy log of 700 jobs, cleaned."""
    return clean(generate_log(700, seed=5, procs=64, load=1.0))[0]


def test_a_pick_is_worth_what_follows_less_what_follows_in_the_others():
    """The first rollout picks at 0 and 10 s, the second at 0, 5 and 15 s; both end at 20 s."""
    times = np.array([[0.0, 0.0], [10.0, 5.0], [20.0, 15.0]])
    earned = np.array([[-2.0, -1.0], [-3.0, -4.0], [0.0, -6.0]])
    goes_on = np.array([[True, True], [True, True], [False, True]])
    worth = worth_of(times, np.array([20.0, 20.0]), earned, goes_on)
    first = [-5 - -11, -3 - (-11 + 1 + 4 / 2)]  # of 5 to 15 s half is over at 10 s
    second = [-11 - -5, -10 - (-5 + 2 / 2), -6 - (-5 + 2 + 3 / 2)]
    assert worth[:2, 0].tolist() == pytest.approx(first)
    assert worth[:, 1].tolist() == pytest.approx(second)
    assert worth[2, 0] == 0
    assert worth[0].sum() == 0, "at one second the worths cancel: the load counts for nothing"


def test_easy_costs_one_for_each_part_that_counts(log):
    jobs = Workload.from_log(log)
    schedule = simulate(jobs, make_policy("easy"))
    wait, run_time, wide = schedule.wait, np.minimum(jobs.run_time, jobs.requested), widest(jobs.procs)
    for name, parts in (("wait", 1), ("slowdown", 1), ("five", 3)):
        assert (wait * costs(jobs, Objective(name)) / HOUR).mean() == pytest.approx(parts, rel=1e-3)
    own = costs(jobs, Objective("slowdown"))
    assert own.argmax() == np.maximum(run_time, BOUND).argmin()
    all_three = costs(jobs, Objective("five"))
    assert all_three[wide].min() > all_three[~wide & (run_time > np.median(run_time[wide]))].max()
    assert bounded_slowdown(wait, run_time).mean() > 1


def test_without_generations_it_is_untrained(log):
    assert trained_on(log, Search(replace(FRAME, seed=4), "kept", 0)) == first_pooled(4)


@pytest.mark.slow
def test_a_training_is_the_same_again_and_another_seed_is_not(log):
    ticks, search = [], Search(FRAME, "oldest", 1)
    one = trained_on(log, search, ticks.append)
    assert one == trained_on(log, search) != trained_on(log, replace(search, frame=replace(FRAME, seed=1)))
    assert ticks == [1]
    assert one != first_pooled(0)


@pytest.mark.slow
def test_a_training_learns_what_random_picks_and_untrained_networks_lack(log):
    contest, found = Contest(log, FRAME), trained_on(log, Search(FRAME, "kept", 12))
    waits = {
        "trained": contest.ratios(policy_of(found, "kept", 50))[0],
        "untrained": contest.ratios(policy_of(first_pooled(0), "kept", 50))[0],
        "random": contest.ratios(replace(policy_of(found, "kept", 50), agent=RandomPicks()))[0],
    }
    assert waits["trained"] < min(waits["untrained"], waits["random"], 0.0) - 0.05, waits


@pytest.mark.slow
def test_only_the_training_part_decides(log, monkeypatch):
    monkeypatch.setattr(tuning_module, "LEAST_JOBS", 100)
    monkeypatch.setattr(tuning_module, "_COPIES", 1)
    about = {"reserves": ("kept",), "generations": 1, "find": trained_on}
    found = Tuning(Split(log), **about).run()
    late = np.arange(len(log)) >= 350
    values = dict(log.values)
    values["run_time"] = np.where(late, values["requested_time"] // 2 + 1, values["run_time"])
    assert Tuning(Split(replace(log, values=values)), **about).run().agent.agent == found.agent.agent
    assert found.agent.kind == "pooled"
    assert "gymnasium" in found.agent.origin and "cma" not in found.agent.origin
    with pytest.raises(JobcastError, match="known beforehand: requested, clairvoyant, cqsim; got 'last-two'"):
        Tuning(Split(log), estimates="last-two", find=trained_on)
    with pytest.raises(JobcastError, match="generations"):
        Tuning(Split(log), generations=0)


def test_the_command_trains_a_network_that_goes_on_to_another_machine(log, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuning_module, "LEAST_JOBS", 100)
    monkeypatch.setattr(tuning_module, "_COPIES", 1)
    write_log(log, tmp_path / "site.swf")
    write_log(clean(generate_log(300, seed=2, procs=300, load=1.0))[0], tmp_path / "other.swf")
    words = ("tune", "site.swf", "--procs", "64", "--agent", "network", "--generations", "1", "--reserve", "oldest")
    status, out, err = command((*words, "--seeds", "5", "--out", "net.npz", "--json"))
    assert status == 0, err
    assert json.loads(out)["digest"] == read_agent("net.npz").digest
    told = ("simulate", "other.swf", "--procs", "300", "--policy", "agent:net.npz", "--json")
    status, out, err = command(told)
    assert status == 0, err
    assert json.loads(out)["policy"] == "agent:net.npz"
    status, out, err = command((*words[:5], "netwrok"))
    assert (status, err.count("\n")) == (2, 1)
    assert "did you mean 'network'" in err
