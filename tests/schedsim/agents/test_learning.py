"""DRAS learns: gradients against differences and torch, equations 3 and 4, rewards by hand, controls, checkpoints."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from jobcast import Easy, JobcastError, Policy, Simulation, Workload, make_policy, simulate
from predictors.core.model_files import read_stored
from schedsim.agents.gradients import Adam, Network, entropy, first_weights, softmax
from schedsim.agents.learning import MOST_VALUE, REWARDS, DrasLearner, DrasSettings, run, train, untrained
from schedsim.engine.learning import Picks, Reward
from schedsim.policies.networks import Shape
from schedsim.validate.checks import busy_workload
from schedsim.workload.estimates import clairvoyant
from tests.schedsim.policies.test_agents import same
from tests.support.engine_runs import jobs_of

SMALL = {"nodes": 8, "window": 6, "dense": (5, 4)}
KINDS = ("pg", "dql", "decima")


class Watching(DrasLearner):
    """Keeps what it is told."""

    def update(self, picks):
        """Note a copy."""
        self.__dict__.setdefault("told", []).append(replace(picks, seen=picks.seen.copy()))
        super().update(picks)


def watched(jobs, settings, seed=1, **about):
    """Return the picks of a run that learns."""
    agent = untrained(settings, seed)
    learner = Watching(settings, agent.weights, seed, **about)
    policy = Policy(backfill=Easy(), agent=agent, window=settings.window)
    simulation = Simulation(jobs, policy)
    simulation.learn(learner)
    simulation.run()
    return learner, simulation


def picks_of(*parts):
    """Return picks, each at an instant of its own."""
    return Picks(*parts, np.arange(len(parts[3])))


def drawn(shape, n, seed=0):
    """Return a batch of what may be seen, with rows of zeros."""
    random = np.random.default_rng(seed)
    return random.random((n, shape.rows, 2)) * (random.random((n, shape.rows, 2)) < 0.6)


@pytest.mark.parametrize("kind", ["pg", "dql"])
def test_the_gradient_is_that_of_differences(kind):
    shape, random = Shape(44, kind, dense=(40, 10)), np.random.default_rng(2)
    assert shape.parameters == {"pg": 6713, "dql": 2254}[kind]
    weights, seen = first_weights(shape, 1).astype(float), drawn(shape, 4)
    weights[2] = 0.1
    wanted, network, gradient = random.normal(size=(4, shape.layers[3])), Network(shape, float), np.empty(len(weights))
    network.scores(weights, seen)
    network.gradient(weights, seen, wanted, gradient)
    for place in (0, 1, 2, *random.integers(3, len(weights), 150), len(weights) - 1):
        ends = []
        for step in (1e-6, -1e-6):
            moved = weights.copy()
            moved[place] += step
            ends.append((wanted * network.scores(moved, seen)).sum())
        difference = (ends[0] - ends[1]) / 2e-6
        assert abs(gradient[place] - difference) <= 1e-4 * max(1, abs(difference))


@pytest.mark.parametrize("kind", ["pg", "dql"])
def test_a_step_row_by_row_has_the_bits_of_gradient_and_adam(kind):
    """So has what a batch scores the bits of what single picks score."""
    shape, random = Shape(30, kind, dense=(40, 10)), np.random.default_rng(5)
    stored, own = first_weights(shape, 1), first_weights(shape, 1)
    network, alone, gradient = Network(shape), Network(shape), np.empty(shape.parameters, np.float32)
    first, second = Adam(len(own), 0.001), Adam(len(own), 0.001)
    for n in (5, 1, 3):
        seen, wanted = drawn(shape, n, n).astype(np.float32), random.normal(size=(n, shape.layers[3]))
        scores = network.scores(own, seen).copy()
        assert np.array_equal(scores, np.concatenate([alone.scores(own, seen[k : k + 1]).copy() for k in range(n)]))
        network.gradient(stored, seen, wanted.astype(np.float32), gradient)
        first.climb(stored, gradient)
        network.climb(own, seen, wanted.astype(np.float32), second)
        assert np.array_equal(own, stored)
        assert np.array_equal(first.mean, second.mean) and np.array_equal(first.square, second.square)


def test_chances_sum_to_one_and_are_zero_where_no_job_is():
    scores, of = np.random.default_rng(0).normal(size=(40, 6)) * 50, np.arange(40) % 6 + 1
    chances = softmax(scores, of)
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-6)
    assert (chances[np.arange(6) >= of[:, None]] == 0).all()
    assert (chances >= 0).all()


def test_policy_gradient_follows_equation_3():
    """Two updates: the second has the first's returns as its baseline, place by place."""
    settings = DrasSettings("pg", **SMALL)
    learner = DrasLearner(settings, first_weights(settings.shape, 4), 1)
    random, returns, told = np.random.default_rng(1), [], []
    for rewards in ([1.0, 0.5, 2.0], [3.0, 1.0]):
        n, weights = len(rewards), learner.weights.astype(float)
        seen = drawn(settings.shape, n, n).astype(np.float32)
        place, of = random.integers(0, 3, n), np.full(n, 3)
        to_go = np.cumsum(rewards[::-1])[::-1]
        worth = to_go - (returns[0][:n] if returns else 0)
        returns.append(to_go)
        followed = learner._climb
        learner._climb = lambda picks, scores, wanted: told.append(wanted)
        learner.update(picks_of(seen, place, of, np.array(rewards), np.zeros(n)))
        learner._climb = followed
        network, gradient = Network(settings.shape, float), np.empty(len(weights))
        network.scores(weights, seen)
        network.gradient(weights, seen, told[-1], gradient)
        aim = [aim_of(network, moved, seen, place, of, worth) for moved in shaken(weights, range(0, len(weights), 9))]
        slopes = np.array([(above - below) / 2e-6 for above, below in zip(aim[::2], aim[1::2], strict=True)])
        assert np.allclose(gradient[::9], slopes, atol=2e-4)
        learner._climb(picks_of(seen, place, of, np.array(rewards), np.zeros(n)), np.zeros(1), told[-1])
    assert learner.updates == 2


def aim_of(network, weights, seen, place, of, worth):
    """Return the sum of equation 3 whose gradient is followed."""
    chances = softmax(network.scores(weights, seen.astype(float)), of)
    return float((np.log(chances[np.arange(len(place)), place]) * worth).sum())


def shaken(weights, places):
    """Return the weights with each one a little more, and a little less."""
    for place in places:
        for step in (1e-6, -1e-6):
            moved = weights.copy()
            moved[place] += step
            yield moved


def test_q_learning_follows_equation_4():
    """The value of each pick moves towards its reward and the best value after it; none follows an update."""
    settings = DrasSettings("dql", **SMALL)
    learner = DrasLearner(settings, first_weights(settings.shape, 4), 1)
    seen = drawn(settings.shape, 3).astype(np.float32)
    old = Network(settings.shape).scores(learner.weights, seen)[:, 0].copy()
    rewards, targets = np.array([1.0, -2.0, 0.5]), []
    learner._climb = lambda picks, scores, wanted: targets.append(wanted[:, 0])
    learner.update(picks_of(seen, np.zeros(3, int), np.full(3, 3), rewards, np.array([0.3, 0.7, 0.2])))
    assert np.allclose(targets[0], rewards + np.array([0.7, 0.2, 0.0]) - old)
    assert learner.explore == 0.995
    with pytest.raises(JobcastError, match="of policy gradient"):
        replace(settings, returns="full")


def test_returns_may_be_normalised_discounted_and_of_instants():
    """Picks 1 and 2 are of one instant: they earn their mean once, and the pick after it half of its own."""
    settings = DrasSettings("pg", baseline="update", discount=0.5, earner="instant", **SMALL)
    learner, told = DrasLearner(settings, first_weights(settings.shape, 4), 1), []
    learner._follow = lambda picks, worth: told.append(worth)
    rewards = np.array([1.0, 3.0, 8.0])
    learner.update(Picks(None, np.zeros(3, int), np.full(3, 3), rewards, np.zeros(3), np.array([4, 4, 6])))
    assert np.allclose(told[0], np.array([-1, -1, 2]) / np.sqrt(2))


def test_targets_are_cut_and_an_update_without_numbers_is_left_out():
    settings = DrasSettings("dql", **SMALL)
    learner = DrasLearner(settings, first_weights(settings.shape, 4), 1)
    seen = drawn(settings.shape, 1).astype(np.float32)
    learner.update(picks_of(seen, np.zeros(1, int), np.ones(1, int), np.array([1e9]), np.zeros(1)))
    assert learner.refused == 1
    before = learner.weights.copy()
    learner.update(picks_of(seen, np.zeros(1, int), np.ones(1, int), np.array([np.nan]), np.zeros(1)))
    assert learner.refused == 3  # cut to no number, and left out
    assert np.array_equal(before, learner.weights)
    assert np.isfinite(before).all()
    assert MOST_VALUE == 1e6


def test_rewards_are_those_worked_out_by_hand():
    """On 8 processors: job 1 takes 6 at 0 s. At 2 s jobs 2 (8, 20 s) and 3 (2, 4 s) come; the seed picks 2, then 3.

    Job 1: 6/8, nobody waits, 6/8 in use. Job 2 is reserved at once: 8/8, it has waited 0 of 0 s, 6/8. Job 3 is
    backfilled: 2/8, 8/8. By equation 2 the queues left are none, 2 and 3, and 2.
    """
    jobs = jobs_of((0, 6, 10, 10), (2, 8, 20, 20), (2, 2, 4, 4), machine=8)
    by_hand = {
        "theta": [0.5, (1 + 0.75) / 3, (0.25 + 1) / 3],
        "cori": [0.0, -3600 * (1 / 20 + 1 / 4) / 2, -3600 / 20],
        "short": [-10 / 3600, -20 / 3600, -4 / 3600],
        "zero": [0.0, 0.0, 0.0],
    }
    for name, expected in by_hand.items():
        settings = DrasSettings("pg", reward=name, **SMALL)
        for seed in range(20):
            learner, simulation = watched(jobs, settings, seed, frozen=True)
            if simulation.schedule().started_by.tolist() == [0, 1, 2]:
                break
        rewards = np.concatenate([picks.reward for picks in learner.told])
        assert rewards.tolist() == pytest.approx(expected)


def earned(schedule, reward):
    """Return what picking each job at its start would have earned."""
    jobs, total, begun = schedule.workload, 0.0, set()
    for job in np.argsort(schedule.start, kind="stable").tolist():
        now = schedule.start[job]
        waiting = [row for row in np.flatnonzero(jobs.submit <= now).tolist() if row not in begun]
        used = sum(jobs.procs[row] for row in begun if schedule.end[row] > now)
        begun.add(job)
        waiting_behind = [row for row in waiting if row != job]
        if reward.equation == "capability":
            longest = max(now - jobs.submit[waiting].min(), reward.least_wait)
            parts = (now - jobs.submit[job]) / max(longest, 1), jobs.procs[job], used + jobs.procs[job]
            total += np.dot(reward.shares, np.divide(parts, (1, jobs.machine_procs, jobs.machine_procs)))
        elif waiting_behind:
            total -= 3600 * np.mean(1 / jobs.requested[waiting_behind])
    return total


def test_the_wait_is_measured_by_the_longest_one_and_its_floor():
    """Job 2 comes at 1 s and starts at 10 s, job 3 at 4 s and starts at 11 s; the machine is one processor."""
    jobs = jobs_of((0, 1, 10, 10), (1, 1, 1, 1), (4, 1, 1, 1), machine=1)
    schedule = simulate(jobs, make_policy("fcfs"))
    wait = Reward(shares=(1.0, 0.0, 0.0))
    assert earned(schedule, wait) == pytest.approx(0 + 1 + 1)
    assert earned(schedule, replace(wait, least_wait=90)) == pytest.approx(0 + 9 / 90 + 7 / 90)
    assert earned(schedule, Reward("capacity")) == pytest.approx(-3600)


def test_without_reservations_an_agent_earns_what_its_schedule_does():
    for name in ("theta", "cori", "theta-6h"):
        settings = DrasSettings("decima", reward=name, **SMALL)
        one = run(busy_workload(120), untrained(settings, 1), settings, 1)
        assert one.reward == pytest.approx(earned(one.schedule, settings.earns), rel=0.02)
        assert one.picks == 120


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_learns_the_same(kind):
    settings = DrasSettings(kind, **SMALL)
    sets = [busy_workload(80, seed) for seed in range(3)]
    first, again, other = (train(sets, settings, seed) for seed in (1, 1, 2))
    assert first.agents == again.agents
    assert first.curve == again.curve
    assert first.kept_after == (0, 1, 2, 3)
    assert first.agents[-1].weights.tolist() != other.agents[-1].weights.tolist()
    assert all(one != two for one, two in pairwise(first.agents))
    assert all(episode.picks == 80 and episode.updates >= 8 for episode in first.curve)


def test_a_broken_training_goes_on_to_the_same_bits(tmp_path):
    for kind, returns in (("pg", "printed"), ("dql", "printed"), ("pg", "full")):
        settings = DrasSettings(kind, returns=returns, **SMALL)
        sets = [busy_workload(60, seed) for seed in range(4)]
        whole = train(sets, settings, 1, keep_every=2)
        folder = tmp_path / f"{kind}-{returns}"

        def stop(done, total):
            if done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(sets, settings, 1, keep_every=2, progress=stop, checkpoint=folder)
        resumed = train(sets, settings, 1, keep_every=2, progress=stop, checkpoint=folder)  # not at 3: it is done
        assert resumed.agents == whole.agents
        assert resumed.curve == whole.curve
        assert resumed.kept_after == (0, 2, 4)
    with pytest.raises(JobcastError, match="other settings, seed or estimates"):
        train(sets, settings, 2, keep_every=2, checkpoint=folder)
    with pytest.raises(JobcastError, match="other job sets"):
        train(sets[::-1], settings, 1, keep_every=2, checkpoint=folder)
    stored = read_stored((folder / "learner.npz").read_bytes())
    for changes in ({"mean": np.zeros(3)}, {"numbers": np.zeros(4)}, {"square": np.array("a")}):
        np.savez(folder / "learner.npz", **(stored | changes))
        with pytest.raises(JobcastError, match=f"is damaged .{next(iter(changes))}"):
            train(sets, settings, 1, keep_every=2, checkpoint=folder)
    np.savez_compressed(folder / "learner.npz", **stored)
    with pytest.raises(JobcastError, match="cannot be read"):
        train(sets, settings, 1, keep_every=2, checkpoint=folder)
    (folder / "learner.npz").write_bytes(b"PK damaged")
    with pytest.raises(JobcastError, match="cannot be read"):
        train(sets, settings, 1, keep_every=2, checkpoint=folder)


def test_without_rewards_nothing_is_learnt():
    for returns in ("printed", "full"):
        settings = DrasSettings("pg", reward="zero", returns=returns, **SMALL)
        training = train([busy_workload(80)], settings, 1)
        assert training.agents[0] == training.agents[1]
        assert training.curve[0].updates > 0


def test_shuffled_rewards_are_the_same_numbers_in_another_order():
    settings = DrasSettings("pg", reward="shuffled", **SMALL)
    learner, dealt = DrasLearner(settings, first_weights(settings.shape, 1), 1), []
    for learner.updates in range(500):
        first = 9 * learner.updates
        dealt.append(learner._dealt(picks_of(None, None, None, np.arange(first, first + 9.0), None)))
    late = np.concatenate(dealt)
    assert len(learner.pool) == 1024
    assert len(set(late[1024:])) == len(late) - 1024
    assert abs(np.corrcoef(late[1024:] - late[1024:].mean(), np.arange(len(late) - 1024) % 9)[0, 1]) < 0.05
    own = [np.isin(one, np.arange(9 * k, 9 * k + 9)).mean() for k, one in enumerate(dealt)]
    assert np.mean(own[200:]) < 0.03


def test_a_frozen_agent_stays_what_it_is_and_one_that_learns_does_not():
    for kind in KINDS:
        settings, jobs = DrasSettings(kind, **SMALL), busy_workload(80)
        agent = untrained(settings, 1)
        frozen, learning = run(jobs, agent, settings, 3), run(jobs, agent, settings, 3, learning=True)
        assert np.array_equal(frozen.agent.weights, agent.weights)
        assert frozen.updates == 0
        assert not np.array_equal(learning.agent.weights, agent.weights)
        assert learning.updates >= 8


def test_a_fork_of_a_simulation_that_learns_does_not_learn():
    settings, jobs = DrasSettings("pg", rate=0.1, **SMALL), busy_workload(100)
    whole, simulation = watched(jobs, settings)
    agent = untrained(settings, 1)
    learner = Watching(settings, agent.weights, 1)
    broken = Simulation(jobs, Policy(backfill=Easy(), agent=agent, window=6))
    broken.learn(learner)
    broken.run(until=200)
    fork, held = broken.fork(), learner.weights.copy()
    fork.run()
    assert np.array_equal(held, learner.weights)
    broken.run()
    assert same(broken.schedule(), simulation.schedule())
    assert np.array_equal(learner.weights, whole.weights)
    assert not same(fork.schedule(), broken.schedule())


def test_updates_come_every_ten_instants():
    settings, jobs = DrasSettings("pg", **SMALL), busy_workload(100)
    learner, simulation = watched(jobs, settings)
    instants = len(np.unique(simulation.events()[:, 0]))
    assert instants // 10 - 3 <= len(learner.told) <= instants // 10 + 1
    assert sum(len(picks.place) for picks in learner.told) == simulation.picks == 100
    often, _ = watched(jobs, replace(settings, instants=1))
    assert len(often.told) > 3 * len(learner.told)


def tenth_of_theta(n=120):
    """Return jobs of hours on 436 nodes, more than fit."""
    random = np.random.default_rng(1)
    requested = random.integers(1, 49, n) * 1800
    return Workload.from_columns(
        range(n), submit=np.sort(random.integers(0, 40_000, n)), procs=random.integers(13, 400, n),
        requested=requested, run_time=requested // 2, machine_procs=436,
    )  # fmt: skip


def test_raw_inputs_leave_no_choice_and_scaled_ones_do():
    found = {}
    for inputs in ("raw", "scaled"):
        settings = DrasSettings("pg", 436, inputs=inputs)
        agent, told = untrained(settings, 1), []
        learner = DrasLearner(settings, agent.weights, 1, frozen=True)
        simulation = Simulation(tenth_of_theta(), Policy(backfill=Easy(), agent=agent))
        learner.update = lambda picks, told=told: told.append(replace(picks, seen=picks.seen.copy()))
        simulation.learn(learner)
        simulation.run()
        network = Network(settings.shape)
        parts = [entropy(softmax(network.scores(agent.weights, one.seen), one.of), one.of)[one.of > 4] for one in told]
        found[inputs] = np.concatenate(parts).mean()
    assert found["raw"] < 0.01
    assert found["scaled"] > 0.9


def test_true_run_times_may_be_what_the_network_sees():
    settings, jobs = DrasSettings("pg", **SMALL), busy_workload(60)
    agent = untrained(settings, 1)
    assert not same(
        run(jobs, agent, settings, 1).schedule, run(jobs, agent, settings, 1, estimates=clairvoyant).schedule
    )


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"kind": "ppo"}, "kind is one of pg, dql, decima; got 'ppo'"),
        ({"reward": "tehta"}, "did you mean 'theta'"),
        ({"reward": 3}, "is a Reward or the name of one"),
        ({"inputs": "log"}, "inputs is one of"),
        ({"returns": "all"}, "returns is one of"),
        ({"reserve": "never"}, "reserve is one of"),
        ({"instants": 0}, "must be from 1"),
        ({"explore": 2}, "explore must be from 0 to 1; got 2"),
        ({"rate": 0}, "rate must be above 0"),
        ({"nodes": 0}, "nodes must be from 1"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(about, message):
    with pytest.raises(JobcastError, match=message):
        DrasSettings(**{"kind": "pg", "nodes": 8, **about})


def test_what_does_not_fit_together_is_refused():
    settings = DrasSettings("pg", **SMALL)
    with pytest.raises(JobcastError, match="of 9 nodes, and this one has 8"):
        train([busy_workload(5)], replace(settings, nodes=9), 1)
    with pytest.raises(JobcastError, match="The settings have a network"):
        run(busy_workload(5), untrained(replace(settings, dense=(3, 3)), 1), settings, 1)
    for make in (lambda: Reward("fairness"), lambda: Reward(shares=(1.0,)), lambda: Reward(least_wait=-1)):
        with pytest.raises(JobcastError):
            make()
    assert set(REWARDS) == {"theta", "theta-6h", "cori", "short", "zero", "shuffled"}


SHORT, LONG = 8_640, 172_800  # estimates [s]; all jobs take 1,000 s


def pairs(n, seed):
    """Return jobs that need the whole machine and come in pairs, one short and one long by its estimate.

    By equation 2 who picks the short one first leaves the long one waiting, which costs 3600 / 172,800 at both picks of
    the pair in place of 3600 / 8,640.
    """
    first = np.random.default_rng(seed).random(n) < 0.5
    estimates = np.stack([np.where(first, SHORT, LONG), np.where(first, LONG, SHORT)], axis=1).ravel()
    submit, procs = np.repeat(np.arange(n) * 20_000, 2), np.full(2 * n, 8)
    return Workload.from_columns(
        range(1, 2 * n + 1), submit=submit, procs=procs, requested=estimates, run_time=np.full(2 * n, 1000),
        machine_procs=8,
    )  # fmt: skip


def short_first(agent, settings):
    """Return in which share of new pairs a frozen agent starts the short job first."""
    schedule = run(pairs(200, 7), agent, settings, 9).schedule
    start, estimate = (values.reshape(-1, 2) for values in (schedule.start, schedule.workload.requested))
    return float((np.argmin(start, axis=1) == np.argmin(estimate, axis=1)).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_clear_best_choice_is_learnt(kind):
    settings = DrasSettings(kind, 8, reward="cori", window=4, dense=(20, 10))
    for seed in (1, 2):
        sets = [pairs(150, 100 * seed + number) for number in range(15)]
        first, *_, last = train(sets, settings, seed).agents
        assert short_first(last, settings) > 0.95
        if kind != "dql":  # whose picks are not drawn: the best choice may be its first one by chance
            assert abs(short_first(first, settings) - 0.5) < 0.1
            unpaid = replace(settings, reward="zero")
            assert abs(short_first(train(sets[:3], unpaid, seed).agents[-1], settings) - 0.5) < 0.1


def test_q_learning_knows_what_a_choice_costs():
    """The long job first costs 2 x 3600 x (1 / 8,640 - 1 / 172,800) more; what follows is alike."""
    settings = DrasSettings("dql", 8, reward="cori", window=4, dense=(20, 10))
    first, *_, last = train([pairs(150, number) for number in range(40)], settings, 3).agents
    seen = np.zeros((2, settings.shape.rows, 2), np.float32)
    seen[:, 0, 0], seen[:, 0, 1], seen[:, 2:, 0] = 1, (SHORT / 86_400, LONG / 86_400), 1
    more = 2 * 3600 * (1 / SHORT - 1 / LONG)
    gaps = [float(-np.diff(Network(settings.shape).scores(one.weights, seen)[:, 0])[0]) for one in (first, last)]
    assert gaps[1] == pytest.approx(more, rel=0.25)
    assert abs(gaps[0] - more) > 0.5 * more
