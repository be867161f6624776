"""The environments: their contract, that they are the simulator, and that side by side changes nothing."""

import subprocess
import sys
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from jobcast import JobcastError, Simulation, Workload, clean, make_policy, read_log, simulate
from predictors.core.events import STARTED
from schedsim.gym.episodes import Episodes
from schedsim.gym.pick import PickEnv
from schedsim.gym.rewards import REWARDS
from schedsim.policies.agents import RESERVES, RandomPicks
from schedsim.policies.backfilling import Promise
from schedsim.results.metrics import bounded_slowdown
from schedsim.validate.checks import busy_workload
from tests.support.nodes import drawn, workload_on
from tests.support.slow import slow_but

PICK = "schedsim.gym:jobcast/Pick-v0"


def made(jobs, **about):
    return gymnasium.make(PICK, workload=jobs, disable_env_checker=True, **about).unwrapped


def made_vector(jobs, n, **about):
    return gymnasium.make_vec(PICK, num_envs=n, workload=jobs, **about)


def played(env, choose=lambda n: 0, **reset):
    """Go through an episode; return what was seen, the rewards and the last info."""
    seen, info = env.reset(**reset)
    all_seen, rewards, over = [seen], [], False
    while not over:
        seen, reward, terminated, truncated, info = env.step(choose(int(info["action_mask"].sum())))
        all_seen.append(seen)
        rewards.append(reward)
        over = terminated or truncated
    return all_seen, rewards, info


def jobs_of(trace, name, procs=None):
    return Workload.from_log(clean(read_log(trace(name))[0], procs=procs)[0])


@pytest.mark.parametrize("flat", [False, True])
def test_the_checker_of_gymnasium_finds_nothing(flat):
    env = gymnasium.make(PICK, workload=busy_workload(), episode=100, flat=flat).unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.parametrize("reserve", slow_but(RESERVES, "kept"))
def test_the_first_of_the_queue_is_easy_on_a_real_log(trace, reserve):
    jobs = jobs_of(trace, "KTH-SP2-1996-2.1-cln")
    env = made_vector(jobs, 1, episode="log", reserve=reserve, flat=True)
    env.reset(seed=0)
    over = False
    while not over:
        over = env.step([0])[2][0]
    assert np.array_equal(env.starts(0), simulate(jobs, make_policy("easy")).start)


class Drawing:
    """Draw as an environment's user does."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def __call__(self, n):
        """Return a place."""
        return int(self.random.integers(n))

    def choose(self, observation):
        """Return a place, as an agent in a simulation."""
        return self(observation.n)


def on_nodes():
    boxes, jobs, _ = drawn(10)
    later = 1 + max(job.submit for job in jobs)
    jobs = [replace(job, job_id=job.job_id + 100 * k, submit=job.submit + k * later) for k in range(9) for job in jobs]
    return workload_on(boxes, jobs)


@pytest.mark.parametrize("reserve", RESERVES)
@pytest.mark.parametrize("workload", slow_but((busy_workload, on_nodes), busy_workload))
def test_an_environment_is_the_simulation_with_an_agent(workload, reserve):
    jobs, agent = workload(), Drawing(3)
    schedule = simulate(jobs, replace(make_policy("easy"), agent=agent, reserve=reserve))
    env = made(jobs, episode="log", reserve=reserve)
    _, _, info = played(env, Drawing(3), seed=0)
    assert np.array_equal(env.starts, schedule.start)
    assert info["figures"]["mean_wait_s"] == schedule.wait.mean()
    assert info["figures"]["invalid_actions"] == 0


@pytest.mark.parametrize("base", ["easy+promise", "careful"])
def test_under_a_promise_too(base):
    """By estimates shorter than the requested times, jobs fit beside the head that would break its promise."""
    jobs, policy = busy_workload(), replace(make_policy(base), promise=Promise())
    short = np.maximum(1, jobs.requested // 3)
    schedule = simulate(jobs, replace(policy, agent=Drawing(3), reserve="kept"), short)
    env = made(jobs, base=policy, episode="log", estimates=short)
    played(env, Drawing(3), seed=0)
    assert np.array_equal(env.starts, schedule.start)
    unpromised = made(jobs, base=replace(policy, promise=None), episode="log", estimates=short)
    played(unpromised, Drawing(3), seed=0)
    assert not np.array_equal(unpromised.starts, schedule.start)
    ruled = simulate(jobs, policy, short)
    played(env, seed=0)
    assert np.array_equal(env.starts, ruled.start)
    warm = made(jobs, base=policy, episode=50, estimates=short)
    for number, (first, end) in enumerate(warm.episodes.rows.tolist()):
        played(warm, seed=0, options={"episode": number})
        before = ruled.start[first:end] < jobs.submit[end - 1]
        assert np.array_equal(warm.starts[before], ruled.start[first:end][before])


@pytest.mark.parametrize("reserve", ["kept", "oldest"])
def test_the_base_may_be_balanced(reserve):
    """Place 0 is the first by its priority: then it is `balanced`, warm and cold; other picks are an agent's."""
    jobs, policy = busy_workload(), make_policy("balanced")
    ruled = simulate(jobs, policy)
    assert not np.array_equal(ruled.start, simulate(jobs, make_policy("easy")).start)
    env = made(jobs, base="balanced", reserve=reserve, episode="log")
    played(env, seed=0)
    assert np.array_equal(env.starts, ruled.start)
    played(env, Drawing(3), seed=0)
    drawn = simulate(jobs, replace(policy, agent=Drawing(3), reserve=reserve))
    assert np.array_equal(env.starts, drawn.start) and not np.array_equal(env.starts, ruled.start)
    warm = made(jobs, base="balanced", reserve=reserve, episode=50)
    for number, (first, end) in enumerate(warm.episodes.rows.tolist()):
        played(warm, seed=0, options={"episode": number})
        before = ruled.start[first:end] < jobs.submit[end - 1]
        assert np.array_equal(warm.starts[before], ruled.start[first:end][before])


def test_an_environment_may_be_greedy():
    jobs, policy = busy_workload(), make_policy("binpacking")
    env = made(jobs, base="binpacking", episode="log")
    played(env, Drawing(3), seed=0)
    assert np.array_equal(env.starts, simulate(jobs, replace(policy, agent=Drawing(3))).start)


def test_one_alone_does_what_it_does_among_many():
    jobs = busy_workload()
    about = {"episode": 100, "reward": "slowdown", "flat": True}
    many = made_vector(jobs, 64, **about)
    alone = [made(jobs, **about) for _ in range(64)]
    draws = [Drawing(i) for i in range(64)]
    seen, info = many.reset(seed=5)
    states = [env.reset(seed=5 + i) for i, env in enumerate(alone)]
    over = np.zeros(64, dtype=bool)
    for _ in range(150):
        for i, (one, told) in enumerate(states):
            assert np.array_equal(one, seen[i]) and np.array_equal(told["action_mask"], info["action_mask"][i])
        actions = [0 if over[i] else draws[i](int(info["action_mask"][i].sum())) for i in range(64)]
        seen, rewards, terminated, truncated, info = many.step(actions)
        for i, env in enumerate(alone):
            if over[i]:
                states[i], paid, ends = env.reset(), 0.0, False
            else:
                one, paid, ends, _, told = env.step(actions[i])
                states[i] = one, told
            assert paid == rewards[i] and ends == terminated[i]
            if ends:
                assert {name: value[i] for name, value in info["figures"].items() if name[0] != "_"} == told["figures"]
        over = terminated
    assert not truncated.any() and many._resets[0] > 1


def test_the_next_episode_may_begin_at_once():
    jobs = busy_workload()
    next_step, same_step = (
        made_vector(jobs, 3, episode=100, autoreset_mode=mode) for mode in ("next_step", "same_step")
    )
    next_step.reset(seed=1)
    same_step.reset(seed=1)
    ended = 0
    for _ in range(400):
        seen, _, terminated, _, info = same_step.step([0, 0, 0])
        for i in np.flatnonzero(terminated):
            ended += 1
            assert info["_final_obs"][i] and not info["final_obs"][i]["jobs"].any()
            assert info["final_info"]["figures"]["n_jobs"][i] == 100
            assert seen["jobs"][i].any()
    assert ended > 5
    assert same_step.metadata["autoreset_mode"].name == "SAME_STEP"


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_add_up_to_what_they_say(name):
    jobs = busy_workload()
    env = made(jobs, episode="log", reward=name)
    _, rewards, info = played(env, Drawing(1), seed=0)
    wait, run_time = env.starts - jobs.submit, jobs.run_time
    easy = simulate(jobs, make_policy("easy"))
    slowdown = bounded_slowdown(wait, run_time)
    worth = {
        "wait": -wait.sum() / 3600,
        "wait-by-width": -(wait * jobs.procs / jobs.machine_procs).sum() / 3600,
        "slowdown": -(wait / np.maximum(run_time, 10)).sum(),
        "slowdown-at-start": -slowdown.sum(),
        "versus-easy": -np.mean([
            np.log((wait.mean() + 1) / (easy.wait.mean() + 1)),
            np.log(slowdown.mean() / bounded_slowdown(easy.wait, easy.run_time).mean()),
        ]),
        "zero": 0.0,
    }  # fmt: skip
    if name in worth:
        assert sum(rewards) == pytest.approx(worth[name])
        assert (name != "versus-easy") or not any(rewards[:-1])
    else:
        assert len(rewards) == info["figures"]["picks"]


def test_the_rewards_of_dras_are_those_of_its_equations():
    """Of 8 processors 6 run until 10 s; at 4 s jobs of 8, 2 and 1 wait, since 1, 2 and 4 s."""
    jobs = Workload.from_columns(
        range(4), submit=[0, 1, 2, 4], procs=[6, 8, 2, 1], requested=[10, 20, 8, 6], run_time=[10, 20, 8, 6],
        machine_procs=8,
    )  # fmt: skip
    _, paid, _ = played(made(jobs, reward="dras-capability", reserve="again", episode="log"), seed=0)
    assert paid[0] == pytest.approx((6 / 8 + 6 / 8) / 3)  # nobody has waited
    assert paid[1] == pytest.approx((8 / 8 + 6 / 8) / 3)  # at 1 s the second is reserved: none in use besides
    assert paid[2] == pytest.approx((1 + 8 / 8 + 6 / 8) / 3)  # at 2 s again, longest waiting
    assert paid[3] == pytest.approx((0 + 2 / 8 + 8 / 8) / 3)  # the third is backfilled, just submitted
    _, paid, _ = played(made(jobs, reward="dras-capacity", reserve="again", episode="log"), seed=0)
    assert paid[:4] == pytest.approx([0, -3600 / 20, -3600 * (1 / 20 + 1 / 8) / 2, -3600 / 20])


def test_an_action_without_a_job_takes_the_first_and_is_counted():
    jobs = busy_workload()
    one, other = made(jobs, episode="log"), made(jobs, episode="log")
    _, right, _ = played(one, seed=0)
    sizes = []
    _, wrong, info = played(other, lambda n: sizes.append(n) or n % 50, seed=0)
    assert right == wrong and np.array_equal(one.starts, other.starts)
    assert info["invalid_actions"] == sum(n < 50 for n in sizes) > 0


def test_masks_say_what_infos_say():
    env = made(busy_workload())
    _, info = env.reset(seed=0)
    for _ in range(100):
        assert env.action_masks().dtype == bool and np.array_equal(env.action_masks(), info["action_mask"])
        info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))[4]
    assert info["invalid_actions"] == 0


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_episodes_begin_where_the_base_policy_stands(start):
    """A warm episode continues the log: picking the oldest goes on as EASY does, as long as it submits its jobs."""
    jobs = busy_workload()
    easy = simulate(jobs, make_policy("easy"))
    episodes = Episodes(jobs, episode=50, start=start)
    env = made(jobs, episode=50, start=start)
    assert episodes.rows[0, 0] == 0 and episodes.rows[-1, 1] == 400 and (np.diff(episodes.rows) > 0).all()
    same = 0
    for number, (first, end) in enumerate(episodes.rows.tolist()):
        _, _, info = played(env, seed=3, options={"episode": number})
        assert info["figures"]["n_jobs"] == end - first == len(env.starts)
        before = easy.start[first:end] < jobs.submit[end - 1]
        same += np.array_equal(env.starts[before], easy.start[first:end][before])
    assert same == len(episodes) if start == "warm" else same < len(episodes)


def test_jobs_that_wait_when_an_episode_begins_count_in_its_waits():
    """From the first pick on: before it nobody has chosen anything."""
    jobs = busy_workload()
    opening, env = Episodes(jobs, episode=100).begin(2), made(jobs, episode=100)
    env.reset(seed=0, options={"episode": 2})
    began = env._rollouts.simulations[0].now
    _, rewards, _ = played(env, seed=0, options={"episode": 2})
    rows = np.array([*opening.queued, *range(*env.episodes.rows[2])])
    events = env._rollouts.simulations[0].events()
    start = {row: second for second, kind, row in events.tolist() if kind == STARTED}
    waits = [start[row] - max(began, int(jobs.submit[row])) for row in rows.tolist()]
    assert len(opening.queued) > 0
    assert sum(rewards) == pytest.approx(-sum(waits) / 3600)


def test_a_warm_episode_is_the_same_whatever_was_run_before():
    jobs = busy_workload(1200)
    episodes, fresh = Episodes(jobs, episode=10), Episodes(jobs, episode=10)
    for number in (100, 7, 55):
        episodes.begin(number)
    one, other = episodes.begin(56), fresh.begin(56)
    assert len(episodes._kept) <= 64 and episodes._stride > 1
    assert one.now == other.now and np.array_equal(one.running, other.running)
    assert np.array_equal(one.queued, other.queued) and np.array_equal(one.planned_ends, other.planned_ends)


def test_seeds_draw_episodes_and_the_same_seed_the_same():
    env = made(busy_workload(), episode=20)
    draws = [
        [env.reset(seed=seed)[1]["episode"]] + [env.reset()[1]["episode"] for _ in range(30)] for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) > 10


def test_an_episode_may_be_cut_after_some_steps():
    env, many = made(busy_workload(), most_steps=7), made_vector(busy_workload(), 2, most_steps=7)
    env.reset(seed=0)
    many.reset(seed=0)
    for step in range(1, 20):
        truncated = many.step([0, 0])[3]
        assert truncated.all() == (step % 8 == 7)
        if step <= 7:
            assert env.step(0)[3] == (step == 7)


def test_months_are_those_of_the_calendar():
    jobs = Workload.from_columns(
        range(4), submit=[0, 86_400, 40 * 86_400, 41 * 86_400], procs=[1] * 4, requested=[60] * 4, run_time=[30] * 4,
        machine_procs=2, origin=1_706_659_200,
    )  # fmt: skip
    assert Episodes(jobs, episode="month").rows.tolist() == [[0, 1], [1, 2], [2, 4]]  # 31 January, 1 February, 11 March
    assert Episodes(jobs, episode="week").rows.tolist() == [[0, 2], [2, 4]]
    assert Episodes(jobs, episode="log").rows.tolist() == [[0, 4]]


def test_published_estimates_are_those_of_their_roles():
    jobs = busy_workload()
    env = made(jobs, episode="log", estimates="cqsim")
    played(env, seed=0)
    assert not np.array_equal(env.starts, simulate(jobs, make_policy("easy")).start)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"workload": None}, "needs workload="),
        ({"workload": "no/such/file.swf"}, "no/such/file.swf"),
        ({"reward": "waiting"}, "No reward 'waiting'"),
        ({"base": "balanced", "reserve": "again"}, "the head is reserved until it starts"),
        ({"base": replace(make_policy("easy"), agent=RandomPicks())}, "without an agent"),
        ({"base": "binpacking", "reserve": "again"}, "no job is reserved: leave reserve out"),
        ({"base": "conservative-replan"}, "a plan of several jobs"),
        ({"base": "eazy"}, "did you mean 'easy'"),
        ({"reserve": "never"}, "No rule for the job that holds the reservation 'never'"),
        ({"window": 0}, "window"),
        ({"window": 57}, "1 to 56"),
        ({"window": 10**12}, "1 to 56"),
        ({"reward": ["wait"]}, "No reward"),
        ({"reserve": ["kept"]}, "No rule for the job"),
        ({"flat": "no"}, "flat is True or False"),
        ({"estimates": "request"}, "did you mean 'requested'"),
        ({"estimates": [1, 2]}, "one for each of 400 jobs"),
        ({"estimates": object()}, "estimates known beforehand"),
        ({"episode": "year"}, "No length of an episode 'year'"),
        ({"episode": 0}, "The number of jobs of an episode"),
        ({"start": "hot"}, "No start of an episode 'hot'"),
        ({"most_steps": 0}, "number of steps"),
        ({"render_mode": "human"}, "nothing to draw"),
    ],
)
def test_what_makes_no_environment_is_refused(about, message):
    with pytest.raises((JobcastError, OSError), match=message):
        PickEnv(**{"workload": busy_workload(), **about})


def test_odd_calls_are_refused():
    env, many = made(busy_workload()), made_vector(busy_workload(), 2)
    for call, message in [
        (lambda: env.step(0), "call reset"),
        (lambda: many.step([0, 0]), "call reset"),
        (lambda: env.reset(options={"month": 1}), "one option, episode; got 'month'"),
        (lambda: env.reset(options={"episode": 10_000}), "The episode must be from 0 to"),
        (lambda: env.reset(options=5), "one option, episode; got 5"),
        (lambda: many.reset(seed=[1]), "2 environments; got 1 seeds"),
        (lambda: many.reset(seed="ab"), "one for each environment"),
        (lambda: many.reset(seed=[1, -2]), "A seed must be from 0"),
        (lambda: made_vector(busy_workload(), 10**9), "number of environments must be from 1 to 65536"),
        (lambda: made_vector(busy_workload(), 2, autoreset_mode="disabled"), "next_step, same_step"),
        (lambda: Simulation(busy_workload(), make_policy("easy")).submit_only(5, 5), "got 5 to 5"),
    ]:
        with pytest.raises(JobcastError, match=message):
            call()


def test_what_is_no_place_is_refused_and_changes_nothing():
    env, many = made(busy_workload()), made_vector(busy_workload(), 2)
    env.reset(seed=1), many.reset(seed=np.int64(1))
    before = env.unwrapped.starts
    for wrong in (None, "a", 0.7, float("nan"), 2**70, True, [0, 1], {}, np.zeros(0)):
        with pytest.raises(JobcastError, match="An action is a place of the window"):
            env.unwrapped.step(wrong)
    for wrong in (None, 3, [0], [0, 1, 2], [0.5, 1.7], [2**70, 0], ["a", "b"]):
        with pytest.raises(JobcastError, match="2 simulations need one each"):
            many.step(wrong)
    assert np.array_equal(env.unwrapped.starts, before)
    assert not env.unwrapped.reset(seed=1)[1]["invalid_actions"]


def test_without_gymnasium_one_line_says_what_is_missing():
    code = "import sys; sys.modules['gymnasium'] = None\nimport schedsim.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("the package gymnasium, which is missing: pip install 'jobcast[rl]'.")
