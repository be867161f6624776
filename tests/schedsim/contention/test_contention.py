"""The contention model keeps its limits: alone undisturbed, work conserved, monotone, the same for the same seed."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobcast import JobcastError, Simulation, Workload, make_policy, simulate
from schedsim.contention.applications import APPS, App, apps_named, placebo
from schedsim.contention.background import Background, Noise
from schedsim.contention.counters import Probes
from schedsim.contention.episodes import Episodes
from schedsim.contention.fabric import Fabric
from schedsim.contention.model import ContentionModel
from schedsim.explain.explain import explain
from schedsim.machine.allocators import ALLOCATORS, make_allocator
from schedsim.machine.topology import Topology
from schedsim.policies.policy import POLICIES
from schedsim.policies.rush import Ask
from schedsim.validate.validate import check
from tests.oracle import contention as slow
from tests.support.engine_runs import goes_on_alike, jobs_of, workload_of
from tests.support.places import ROOT
from tests.support.strategies import seeded_workload

jobs = partial(jobs_of, machine=32)

NAMES = list(APPS)
SMALL = Topology(4, 8)
QUIET = Background.none()
EASY = make_policy("easy")


def busy(seed, n_jobs=30, machine=32, most=12):
    """A crowd of random jobs and their applications."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 600, n_jobs))
    submit -= submit[0]
    columns = {
        "submit": submit,
        "procs": rng.integers(1, most, n_jobs),
        "requested": rng.integers(100, 900, n_jobs),
        "run_time": rng.integers(60, 400, n_jobs),
    }
    workload = Workload.from_columns(range(1, n_jobs + 1), machine_procs=machine, **columns)
    return workload, [NAMES[i] for i in rng.integers(0, len(NAMES), n_jobs)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("allocator", list(ALLOCATORS))
def test_one_job_alone_is_exactly_not_slowed(name, allocator):
    world = ContentionModel([name], SMALL, background=QUIET, jitter=0, seed=4)
    found = simulate(jobs((0, 24, 999, 700)), EASY, run_times=world, allocator=make_allocator(allocator, SMALL, 1))
    assert found.run_time.tolist() == [700] and not found.killed.any()
    simulation = Simulation(jobs((0, 24, 999, 700)), EASY, run_times=world)
    simulation.run()
    assert simulation.run_times.runs().truth["true_slowdown"].tolist() == [1.0]


@pytest.mark.parametrize("name", POLICIES)
def test_who_needs_nothing_shared_is_not_slowed_and_the_schedule_is_the_plain_one(name):
    """With x = y = z = 0, on the fullest network; jobs of no length and killed ones, too."""
    apps, full = {name: placebo(app) for name, app in APPS.items()}, Background(network=0.9, io=0.9, metadata=0.9)
    crowd, names = busy(1)
    small = [workload_of(seeded_workload(seed, kill=False, least_run=0)) for seed in range(3)]
    for workload, place, kill in ((crowd, SMALL, False), *((some, Topology(2, 4), True) for some in small)):
        world = ContentionModel((names * 9)[: len(workload)], place, apps=apps, background=full, jitter=0, seed=1)
        plain, found = (
            simulate(workload, make_policy(name), kill=kill, run_times=run_times) for run_times in (None, world)
        )
        for column in ("start", "end", "killed", "last_estimate"):
            assert getattr(found, column).tolist() == getattr(plain, column).tolist(), column


@pytest.mark.parametrize("seed", range(6))
def test_work_is_conserved_as_a_slow_program_integrates_it(seed):
    """The integral of the speed over a job's run is its work, whatever came and went beside it."""
    topology = replace(SMALL, apart=(0, 8, 16, 24))
    workload, names = busy(seed, machine=28)
    background, noise = Background(tau=300, network=0.3, io=0.4, metadata=0.3), Noise(2e10, 60)
    world = ContentionModel(
        names, topology, background=background, noise=noise, seed=seed, fabric=Fabric(files=5e9, calls=500)
    )
    simulation = Simulation(workload, EASY, kill=False, run_times=world)
    simulation.run()
    schedule, fabric = simulation.schedule(), world.fabric
    apps = apps_named(names)
    table = background.block(seed, topology.leaves, 0)
    machine = slow.Machine(4, 8, 8 * 12.5e9 / 2, fabric.files, fabric.calls)
    told = [
        slow.Job(
            int(schedule.start[row]), int(schedule.end[row]), schedule.nodes[row].tolist(), app.network, app.io,
            app.metadata, app.sends, app.spread, app.moves, app.calls,
        )
        for row, app in enumerate(apps)
    ]  # fmt: skip
    found = slow.speeds(
        told,
        int(schedule.end.max()),
        lambda second: table[second // 60].tolist(),
        lambda second: [noise.sends(seed, second // 60 * 60) * 1 * (1 - 1 / 4)] * 4,
        machine,
    )
    work, runs = world.work(workload), simulation.run_times.runs()
    region = dict(zip(runs.job_id.tolist(), runs.run_time.tolist(), strict=True))
    for row, speed in enumerate(found):
        assert sum(speed[:-1]) < work[row] <= sum(speed) + 1e-6
        lasts = region[row + 1]
        whole = int(np.ceil(lasts - 1e-9)) - 1
        assert sum(speed[:whole]) + (lasts - whole) * speed[whole] == pytest.approx(work[row], rel=1e-9)
        assert schedule.run_time[row] == len(speed) == whole + 1
    slowed = np.array([len(speed) for speed in found]) / work
    assert slowed.max() > 1.5 and slowed.min() < 1.2


fractions = st.floats(0, 1.2)


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=2, max_size=5),
    seed=st.integers(0, 10**6),
    more=st.tuples(st.sampled_from(["leaf", "files", "calls", "sends", "moves", "asks"]), st.floats(0.01, 0.6)),
)
def test_slowdown_is_monotone_in_every_load(names, seed, more):
    """More of any load, from outside or from any other job, slows nobody less down."""
    rng = np.random.default_rng(seed)
    what, how_much = more
    outside = rng.uniform(0, 0.7, SMALL.leaves + 2)
    spread = np.array([np.bincount(rng.integers(0, 4, rng.integers(1, 9)), minlength=4) for _ in names])
    about = np.array([APPS[name].vector for name in names])
    before = slowdowns(spread, about, outside)
    if what in ("leaf", "files", "calls"):
        place = {"leaf": int(rng.integers(0, 4)), "files": 4, "calls": 5}[what]
        outside[place] += how_much
    else:
        about[1:, {"sends": 3, "moves": 5, "asks": 6}[what]] *= 1 + 10 * how_much
    after = slowdowns(spread, about, outside)
    assert before.min() >= 1.0
    if what in ("leaf", "files", "calls"):
        assert (after >= before - 1e-12).all()
    else:
        assert after[0] >= before[0] - 1e-12


def slowdowns(spread, about, outside):
    import schedsim.contention._loads as to

    machine, load, out = Fabric(files=20e9, calls=2e3).vector(SMALL), np.empty(6), np.empty(to.PARTS)
    width = spread.sum(axis=1)
    to.weigh(spread, width, about, np.zeros(4), outside, machine, load)
    return np.array(
        [to.slowdown(s, int(w), a, machine, load, out) for s, w, a in zip(spread, width, about, strict=True)]
    )


def test_placement_decides_whether_the_network_is_felt():
    """16-node jobs on leaves of 32: packed into leaves they neither send nor suffer; scattered they do."""
    names = [name for name in NAMES if APPS[name].io == 0] * 8
    workload = jobs(*[(0, 16, 900, 300)] * len(names), machine=512)
    for allocator in ALLOCATORS:
        world = ContentionModel(names, jitter=0, background=Background(network=0.25, io=0, metadata=0), seed=2)
        placed = make_allocator(allocator, world.topology, 2)
        found = simulate(workload, EASY, kill=False, run_times=world, allocator=placed)
        leaves = [len(set((found.nodes[row] // 32).tolist())) for row in range(len(names))]
        if allocator == "scattered":
            assert min(leaves) > 5 and found.run_time.min() > 300 and found.run_time.max() > 370
        else:
            assert set(leaves) == {1} and set(found.run_time.tolist()) == {300}


def test_on_one_leaf_the_uplink_is_still_felt_through_io():
    for name in ("sw4lite", "AMG"):
        world = ContentionModel(
            [name], jitter=0, background=Background(network=0.8, spread=0, burst_leaves=0, io=0, metadata=0)
        )
        allocator = make_allocator("first-fit", world.topology)
        found = simulate(jobs((0, 16, 900, 300), machine=512), EASY, run_times=world, allocator=allocator)
        assert (found.run_time[0] > 350) == (name == "sw4lite")


def test_a_clip_holds():
    storm = Background(network=2.0, io=2.0, metadata=2.0)
    for clip_network, clip_io, most in ((4.0, 6.0, 3 + 5 + 1), (1.0, 1.0, 1), (2.0, 1.0, 2)):
        fabric = Fabric(clip_network=clip_network, clip_io=clip_io)
        simulation = Simulation(
            jobs((0, 24, 99999, 300)),
            EASY,
            run_times=ContentionModel(["LBANN"], SMALL, background=storm, fabric=fabric, jitter=0),
        )
        simulation.run()
        slowed = simulation.run_times.runs().truth["true_slowdown"][0]
        assert slowed <= most and (most > 2 or slowed == most)


def outcome(workload, names, **about):
    simulation = Simulation(workload, EASY, kill=False, run_times=ContentionModel(names, SMALL, **about))
    simulation.run()
    runs = simulation.run_times.runs()
    return simulation.schedule(), runs


def test_the_same_seed_gives_the_same_and_another_does_not():
    workload, names = busy(1)
    (first, runs), (again, runs_again), (other, _) = (outcome(workload, names, seed=seed) for seed in (5, 5, 6))
    assert first.end.tolist() == again.end.tolist() != other.end.tolist()
    assert np.array_equal(runs.probe_waits, runs_again.probe_waits)


def test_a_fork_and_a_snapshot_in_the_middle_change_nothing():
    workload, names = busy(2, n_jobs=40)
    world = ContentionModel(names, SMALL, background=Background(tau=120), seed=5, sink=Kept())
    whole = Simulation(workload, EASY, kill=False, run_times=world)
    whole.run()
    simulation = Simulation(workload, EASY, kill=False, run_times=world)
    for share in (0.0, 0.2, 0.6):
        simulation.run(until=int(np.quantile(whole.schedule().end, share)) + 7)
        fork = goes_on_alike(simulation, whole.schedule())
        assert np.array_equal(fork.run_times.runs().run_time, whole.run_times.runs().run_time)
        assert np.array_equal(fork.run_times.runs().probe_waits, whole.run_times.runs().probe_waits)


def test_a_snapshot_of_another_world_or_allocator_is_an_error():
    workload, names = busy(2)
    world = ContentionModel(names, SMALL)
    simulation = Simulation(workload, EASY, kill=False, run_times=world)
    for about in ({"run_times": None}, {"kill": True}, {"run_times": ContentionModel(names, SMALL)},
                  {"allocator": make_allocator("first-fit", SMALL)}):  # fmt: skip
        other = Simulation(workload, EASY, **{"kill": False, "run_times": world, **about})
        with pytest.raises(
            JobcastError, match="another allocator, run-time model, rules, outages or rule about killing"
        ):
            simulation.restore(other.snapshot())


def test_running_in_small_steps_changes_nothing():
    """Nor does looking at the world in between."""
    workload, names = busy(3)
    whole, _ = outcome(workload, names, seed=1)
    simulation = Simulation(workload, EASY, kill=False, run_times=ContentionModel(names, SMALL, seed=1))
    now = 0
    while not simulation.run(until=now):
        simulation.run_times.look()
        simulation.run_times.slowdown(0, np.array([1, 9]))
        simulation.run_times.probe(1, np.array([1, 9]))
        now += 37
    assert simulation.schedule().end.tolist() == whole.end.tolist()


class Kept:
    """A sink that keeps every sample."""

    def __init__(self):
        self.times, self.rates = [], []

    def push(self, time, rates):
        """Keep a copy."""
        self.times.append(time)
        self.rates.append(rates.copy())


def test_the_oracle_tells_the_slowdown_that_then_happens():
    """Where nothing else changes, a job runs as much longer as was told before its start."""
    background = Background(spread=0, burst_leaves=0)
    workload = jobs((0, 12, 900, 300), (1, 12, 900, 200), machine=32)
    names = ["SWFFT", "LBANN"]
    simulation = Simulation(
        workload, EASY, kill=False, run_times=ContentionModel(names, SMALL, background=background, jitter=0, seed=1)
    )
    simulation.run()
    runs = simulation.run_times.runs()
    row = runs.job_id.tolist().index(2)
    told = runs.truth["true_slowdown_at_start"][row]
    assert told > 1.1 and runs.truth["true_slowdown"][row] == pytest.approx(told, rel=1e-12)
    assert runs.run_time[row] == pytest.approx(200 * told, rel=1e-12)


def test_killed_runs_are_marked_and_cut():
    workload = jobs(*[(0, 16, 310, 300)] * 2)
    world = ContentionModel(["LBANN"] * 2, SMALL, background=Background(network=0.8), seed=1)
    found = simulate(workload, EASY, run_times=world)
    assert found.killed.all() and found.run_time.tolist() == [310, 310]
    free = simulate(workload, EASY, kill=False, run_times=world)
    assert not free.killed.any() and free.run_time.min() > 310


def test_a_run_in_a_world_can_be_checked_and_explained():
    workload, names = busy(4)
    world = ContentionModel(names, SMALL, seed=2)
    found = simulate(workload, EASY, kill=False, run_times=world)
    check(found, EASY, kill=False)
    late = int(workload.job_id[np.argmax(found.wait)])
    explained = explain(found, late, EASY, kill=False, run_times=world)
    assert explained.chain[-1].finding.rule == "starts"


def test_records_tell_nodes_times_and_probes():
    workload, names = busy(5)
    schedule, runs = outcome(workload, names, seed=2, origin=10**6)
    assert sorted(runs.job_id.tolist()) == workload.job_id.tolist()
    for i, job in enumerate(runs.job_id.tolist()):
        row = job - 1
        assert runs.start[i] == schedule.start[row] + 10**6 and runs.end[i] == schedule.end[row] + 10**6
        assert runs.nodes(i).tolist() == schedule.nodes[row].tolist() and runs.application[i] == names[row]
        low, high, mean = runs.probe_waits[i][:3]
        assert 0 < low <= mean <= high


def test_probes_feel_the_uplinks_between_leaves_and_none_within_one():
    probes, load = Probes(jitter=0), np.array([0.8, 0.2, 0.0, 0.0, 0.0, 0.0])
    within = probes.measure(1, 1, np.array([1, 2, 3]), 8, load, 0.95)
    assert within.tolist() == pytest.approx([0.08] * 6 + [0.10] * 3)
    across = probes.measure(1, 1, np.array([1, 9]), 8, load, 0.95)
    assert across[:3].tolist() == pytest.approx([0.08 * (1 + 0.5 * 0.25), 0.08 * 3, 0.08 * (3 + 1.125) / 2])
    assert across[6:].tolist() == pytest.approx([0.3] * 3)


def test_background_can_be_looked_at_anywhere():
    """Stationary, correlated over tau, the same however it is reached, and blocks go on where others end."""
    background = Background(tau=600, network=0.5, spread=0.1, burst_leaves=0)
    blocks = np.concatenate([background.block(7, 4, number) for number in range(-20, 60)])
    assert blocks[:, :4].mean() == pytest.approx(0.5, abs=0.01)
    assert blocks[:, :4].std() == pytest.approx(0.1, abs=0.005)
    x = blocks - blocks.mean(axis=0)
    later = [(x[:-lag] * x[lag:]).mean(axis=0) / (x * x).mean(axis=0) for lag in (10, 30)]
    assert later[0] == pytest.approx(np.exp(-1), abs=0.04) and later[1] == pytest.approx(np.exp(-3), abs=0.05)
    edges = np.arange(1, 80) * background.block_steps
    inside, across = np.abs(np.diff(blocks, axis=0)).mean(), np.abs(blocks[edges] - blocks[edges - 1]).mean()
    assert across < 1.3 * inside
    together = np.corrcoef(blocks[:, 0], blocks[:, 1])[0, 1]
    assert together == pytest.approx(0.5, abs=0.08)
    assert not np.array_equal(background.block(7, 4, 0), background.block(8, 4, 0))


def test_bursts_are_on_a_third_of_the_time_and_on_half_of_the_leaves():
    background = Background(tau=600, network=0, spread=0, burst_leaves=0.5, burst_pause=2)
    blocks = np.concatenate([background.block(3, 4, number) for number in range(60)])
    on = (blocks[:, :4] > 0).mean(axis=0)
    assert on[[1, 3]].tolist() == [0, 0] and on[[0, 2]] == pytest.approx(1 / 3, abs=0.05)
    heights = blocks[:, 0][blocks[:, 0] > 0]
    assert heights.min() >= 0.1 and heights.max() <= 0.5 and heights.mean() == pytest.approx(0.3, abs=0.03)
    lasting = (blocks[:, 0] > 0).sum() / (np.diff((blocks[:, 0] > 0).astype(int)) == 1).sum() * 60
    assert lasting == pytest.approx(600, rel=0.2)


def test_storms_are_rare_heavy_and_everywhere():
    calm, stormy = Background(tau=600, storms=0), Background(tau=600, storms=2, storm_length=600)
    more = np.concatenate([stormy.block(3, 4, n) - calm.block(3, 4, n) for n in range(60)])
    assert np.allclose(more, more[:, :1]) and 0.005 < (more[:, 0] > 0).mean() < 0.03
    assert more.max() > 1 and more[more > 1e-12].min() >= 0.2 - 1e-12


def test_noise_changes_from_period_to_period_and_loads_the_leaves():
    noise = Noise(amplitude=1e9, period=60)
    sent = np.array([noise.sends(1, second) for second in range(0, 60_000, 30)])
    assert 0 <= sent.min() < 0.01e9 and 0.99e9 < sent.max() <= 1e9
    assert (sent[::2] == sent[1::2]).all() and len(set(sent.tolist())) == 1000
    topology = Topology(16, 32).with_apart(1 / 16)
    assert noise.leaving(topology).tolist() == [2 * (1 - 2 / 32)] * 16


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ContentionModel(["AMGG"]), "did you mean 'AMG'"),
        (lambda: simulate(jobs((0, 1, 9, 9)), EASY, run_times=ContentionModel([], SMALL)), "applications of 0 jobs"),
        (lambda: simulate(jobs((0, 1, 9, 9)), EASY, run_times=ContentionModel(["AMG"])), "512 nodes for jobs"),
        (lambda: simulate(jobs((0, 1, 9, 9)), EASY, run_times=ContentionModel(["AMG"], SMALL),
                          allocator=make_allocator("first-fit", Topology(8, 4))), "the model of run times for"),
        (lambda: ContentionModel(["AMG"], noise=Noise()), "needs nodes of its own"),
        (lambda: ContentionModel(["AMG"], lost=1.0), "lost samples"),
        (lambda: ContentionModel(["AMG"], sample_period=0), "sample period"),
        (lambda: App("x", compute=0.5), "add up to 1"),
        (lambda: App("x", compute=1.2, network=-0.2), "compute must be from 0 to 1"),
        (lambda: App("x", sends=-1), "sends must be 0 or more"),
        (lambda: App("x", sends=float("nan")), "sends must be 0 or more"),
        (lambda: Background(tau=0), "correlation time"),
        (lambda: Background(network=-1), "network must be 0 or more"),
        (lambda: Background(together=2), "together must be from 0 to 1"),
        (lambda: Background(burst_low=0.6), "burst_low <= burst_high"),
        (lambda: Fabric(injection=0), "injection must be above 0"),
        (lambda: Fabric(most=1), "between 0 and 1"),
        (lambda: Fabric(clip_io=0.5), "factors of 1 or more"),
        (lambda: Noise(amplitude=-1), "noise job sends"),
        (lambda: Probes(weight=-1), "weight must be 0 or more"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, told):
    with pytest.raises(JobcastError, match=told):
        make()


def test_the_page_tells_the_defaults_and_the_slowdowns():
    page = " ".join((ROOT / "docs" / "contention.md").read_text(encoding="utf-8").split())
    workload = jobs(*[(0, 16, 9999, 300)] * 7, machine=512)
    for used in (0.2, 0.4, 0.6, 0.8, 0.9):
        outside = Background(network=used, spread=0, burst_leaves=0, io=0, metadata=0)
        live = ContentionModel(NAMES, background=outside).begun(workload)
        live.advance(0)
        told = [live.slowdown(row, np.arange(16) * 32).total for row in range(7)]
        row = f"| {used} | " + " | ".join(f"{slowdown:.2f}" for slowdown in told) + " |"
        assert row in page, row
    b, f, t = Background(), Fabric(), ContentionModel(NAMES).topology
    for told in (
        f"{t.leaves} leaves of {t.per_leaf} nodes, {f.injection / 1e9:g} GB/s a node",
        f"uplinks of {t.per_leaf * f.injection / f.oversubscription / 1e9:g} GB/s",
        f"{b.network:.0%} of the uplinks, {b.io:.0%} of the file system".replace("%", " %"),
        f"`tau` = {b.tau:g} s",
    ):
        assert told in page, told


# --- two scales of time -----------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 99), hour=st.integers(0, 20_000))
def test_slow_changes_are_of_one_application_and_of_its_hour(seed, hour):
    episodes, clock = Episodes(every=20.0, length=3.0, low=0.3, high=0.5, drift=0.0), 3600 * hour
    found = [episodes.factor(seed, name, clock + s) for name in NAMES[:2] for s in (0, 3599)]
    assert found[0] == found[1] and found[2] == found[3]
    assert all(factor == 1.0 or 1.3 <= factor <= 1.5 for factor in found)


def test_episodes_last_and_come_as_often_as_they_say():
    episodes = Episodes(every=20.0, length=4.0, drift=0.0)
    slow = np.array([[episodes.factor(s, "AMG", 3600 * h) > 1 for h in range(0, 24 * 300, 6)] for s in range(12)])
    assert np.mean(slow) == pytest.approx(4 / 24, abs=0.05)
    again = np.mean(slow[:, 4:] & slow[:, :-4]) / np.mean(slow)  # a day later
    assert again == pytest.approx(np.exp(-1 / 4), abs=0.08)


def test_a_job_takes_its_work_times_the_factor_of_its_start():
    episodes = Episodes(every=0.0, drift=0.3)
    workload = jobs((0, 4, 900, 300))
    world = ContentionModel(["AMG"], SMALL, background=QUIET, jitter=0, seed=4, episodes=episodes, origin=10**6)
    simulation = Simulation(workload, EASY, kill=False, run_times=world, allocator=make_allocator("best-fit", SMALL, 4))
    simulation.run()
    factor = episodes.factor(4, "AMG", 10**6)
    assert simulation.run_times.runs().run_time[0] == pytest.approx(300 * factor) and factor != 1.0


def test_two_scales_are_ten_minutes_and_days():
    block = Background.two_scales(spread=0.0, burst_leaves=0.0).block(seed=2, leaves=2, number=0)
    stormy = block[:, 0] > 0.11
    assert 0 < stormy.mean() < 0.5
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], stormy, [0]]))))[::2] * 60
    assert runs.max() > 43_200, "an episode lasts for days, not for minutes"


def test_probes_load_the_network_until_the_answer_comes():
    world = ContentionModel(["AMG"], SMALL, background=QUIET, jitter=0, probing=1e10)
    state = world.begun(jobs((0, 4, 900, 300)))
    state.advance(0)
    state.look()
    before = state.load.copy()
    nodes = np.array([0, 1, 8, 9])
    state.asks[0] = Ask(20, "none", nodes)
    state.look()
    assert (state.load - before)[:2] * world.fabric.vector(SMALL)[0] == pytest.approx([1e10, 1e10])
    assert np.array_equal((state.load - before)[2:], np.zeros(len(before) - 2))
    state.advance(20)
    state.look()
    assert np.array_equal(state.load, before)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Episodes(every=-1), "every must be 0 or more; got -1"),
        (lambda: Episodes(length=0), "length must be above 0 days; got 0"),
        (lambda: Episodes(low=2.0), "low must not be above high"),
        (lambda: ContentionModel([], probing=-1.0), "probes send 0 bytes/s or more; got -1"),
    ],
)
def test_slow_changes_that_cannot_be(make, says):
    with pytest.raises(JobcastError, match=says):
        make()
