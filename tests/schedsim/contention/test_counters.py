"""Counters follow the loads that drive them; windows looked at afterwards are the samples that were pushed."""

import numpy as np
import pytest

from jobcast import JobcastError, Simulation, make_policy
from predictors.data.telemetry.counters import COUNTER_NAMES, COUNTERS
from predictors.variability.ring import CounterRing
from schedsim.contention.applications import APPS
from schedsim.contention.background import Background, Noise
from schedsim.contention.campaign import Campaign
from schedsim.contention.model import ContentionModel
from schedsim.machine.topology import Topology
from tests.schedsim.contention.test_contention import EASY, QUIET, SMALL, Kept, busy, jobs

DRIVER = np.array([counter.driver for counter in COUNTERS])
SCALE = np.array([counter.scale for counter in COUNTERS])


def sampled(workload, names, until=None, **about):
    sink = Kept()
    simulation = Simulation(workload, EASY, kill=False, run_times=ContentionModel(names, sink=sink, **about))
    simulation.run(until=until)
    return simulation, np.array(sink.times), np.array(sink.rates)


def driven(rates, driver):
    """Return what drives these counters, as they show it: their rates over their scales, averaged."""
    chosen = driver == DRIVER
    return (rates[..., chosen] / SCALE[chosen]).mean(axis=-1)


def test_samples_come_every_period_from_the_lead_on():
    workload = jobs((0, 4, 99, 60))
    _, times, rates = sampled(workload, ["AMG"], topology=SMALL, lead=100, sample_period=20, until=60)
    assert times.tolist() == [-100, -80, -60, -40, -20, 0, 20, 40, 60]
    assert rates.shape == (9, 32, 90) and rates.dtype == np.float32 and (rates >= 0).all()
    _, times, _ = sampled(workload, ["AMG"], topology=SMALL, lead=100, sample_period=20, until=60, origin=1010)
    assert times.tolist() == [920, 940, 960, 980, 1000, 1020, 1040, 1060]


def test_counters_show_what_drives_them():
    """LBANN on 24 nodes of a quiet machine, from 0 to 300 s: data sent, read and written, calls; nothing elsewhere."""
    simulation, times, rates = sampled(
        jobs((0, 24, 400, 300)), ["LBANN"], topology=SMALL, background=QUIET, jitter=0, until=400
    )
    lbann, nodes = APPS["LBANN"], simulation.schedule().nodes[0]
    others = np.setdiff1d(np.arange(32), nodes)
    runs = (times > 0) & (times <= 300)
    on, off = rates[runs][:, nodes], rates[runs][:, others]
    assert driven(on, "sent").mean() == pytest.approx(lbann.sends + 0.6 * lbann.moves, rel=0.02)
    assert driven(on, "received").mean() == pytest.approx(lbann.sends + 0.4 * lbann.moves, rel=0.02)
    assert driven(on, "read").mean() == pytest.approx(0.4 * lbann.moves, rel=0.01)
    assert driven(on, "written").mean() == pytest.approx(0.6 * lbann.moves, rel=0.01)
    assert driven(on, "calls").mean() == pytest.approx(lbann.calls + 2, rel=0.02)
    assert driven(off, "sent").mean() == pytest.approx(0.76e6, rel=0.05)  # it waits
    assert driven(rates, "noise").mean() == pytest.approx(1, rel=0.02)
    assert (rates[..., DRIVER == "none"] == 0).all()
    quiet = rates[times <= 0]  # a sample shows the second before its own events
    assert driven(quiet, "sent").max() < 1.3e6 and driven(quiet, "stall").max() == 0
    assert (driven(on, "stall") > 100 * driven(off, "stall").max()).all()


def test_a_slowed_job_pushes_less_and_waits_more():
    """What it sends falls with its speed; the share of time that it waits rises with the load all the same."""

    def at(network):
        background = Background(network=network, spread=0, burst_leaves=0, io=0, metadata=0)
        simulation, times, rates = sampled(
            jobs((0, 24, 9999, 300)), ["SWFFT"], topology=SMALL, background=background, jitter=0
        )
        runs = simulation.run_times.runs()
        part = rates[(times > 0) & (times <= runs.end[0])][:, runs.nodes(0)]
        sent = driven(part, "sent").mean() * runs.truth["true_slowdown"][0]
        assert sent == pytest.approx(APPS["SWFFT"].sends, rel=0.02)
        return runs.truth["true_slowdown"][0], driven(part, "stall").mean()

    slowed, stall = zip(*(at(network) for network in (0.0, 0.3, 0.6)), strict=True)
    assert slowed[0] == 1 and slowed[0] < slowed[1] < slowed[2] and stall[0] < stall[1] < stall[2]


def test_the_noise_job_shows_on_its_own_nodes():
    topology = Topology(4, 8, apart=(3, 11, 19, 27))
    workload = jobs((0, 4, 99, 60), machine=28)
    noise = Noise(amplitude=5e9, period=60)
    _, times, rates = sampled(workload, ["AMG"], topology=topology, noise=noise, background=QUIET, until=300, seed=3)
    shown = driven(rates[:, [3, 11, 19, 27]], "sent").mean(axis=1)
    told = [noise.sends(3, int(np.ceil(time) - 1) // 60 * 60) + 1e6 for time in times]
    assert shown == pytest.approx(told, rel=0.1, abs=2e5)


def test_lost_samples_are_missing_values_of_whole_nodes():
    workload, names = busy(1)
    _, _, rates = sampled(workload, names, topology=SMALL, lost=0.05, until=900)
    missing = np.isnan(rates)
    assert (missing.all(axis=2) == missing.any(axis=2)).all()
    assert missing.mean() == pytest.approx(0.05, abs=0.01)
    again = sampled(workload, names, topology=SMALL, lost=0.05, until=900)[2]
    assert np.array_equal(rates, again, equal_nan=True)


def test_idle_nodes_have_job_0():
    workload, names = busy(1)
    simulation, _, _ = sampled(workload, names, topology=SMALL, until=200)
    ids = simulation.run_times.job_ids()
    running = workload.job_id[simulation.running]
    assert set(ids[ids > 0].tolist()) == set(running.tolist()) and (ids == 0).sum() == simulation.free


def test_a_window_looked_at_afterwards_is_what_was_pushed():
    workload, names = busy(2)
    for now in (0, 5, 310, 600, 777):
        sink = Kept()
        simulation = Simulation(workload, EASY, run_times=ContentionModel(names, SMALL, keep=300, lost=0.02, sink=sink))
        simulation.run(until=now)
        world = simulation.run_times
        world.advance(now)
        times, rates = np.array(sink.times), np.array(sink.rates)
        seen, window = world.window(300)
        inside = (times >= now - 300) & (times < now)
        assert seen.tolist() == times[inside].tolist()
        assert np.array_equal(window, rates[inside], equal_nan=True)
    with pytest.raises(ValueError, match="has not kept its loads"):
        world.window(2000)


def test_forks_of_a_sink_see_what_the_whole_run_sees():
    class Forked(Kept):
        def fork(self):
            new = Forked()
            new.times, new.rates = list(self.times), list(self.rates)
            return new

    workload, names = busy(3)
    whole = Simulation(workload, EASY, kill=False, run_times=ContentionModel(names, SMALL, sink=Forked()))
    half = Simulation(workload, EASY, kill=False, run_times=ContentionModel(names, SMALL, sink=Forked()))
    half.run(until=500)
    fork = half.fork()
    for simulation in (whole, fork):
        simulation.run()
    assert fork.run_times.sink.times == whole.run_times.sink.times and half.run_times.sink.times[-1] <= 500
    assert np.array_equal(np.array(fork.run_times.sink.rates), np.array(whole.run_times.sink.rates))


def test_the_campaigns_windows_are_those_of_the_ring():
    """Each row equals what a ring fed with every sample shows before that start."""
    campaign = Campaign(days=1, alone={"AMG": 280, "SWFFT": 260}, topology=SMALL, nodes=8, lost=0.01, seed=2)
    data = campaign.collect()
    workload, names, _ = campaign._jobs()
    ring = CounterRing(np.arange(32), COUNTERS)
    seen = {}

    def look(live, row, nodes):
        now = live.model.origin + live.now
        seen[int(workload.job_id[row])] = ring.window(now), ring.window(now, nodes)

    world = ContentionModel(names, SMALL, seed=2, lost=0.01, sink=ring, at_start=look)
    simulation = Simulation(workload, make_policy("easy"), kill=False, run_times=world)
    simulation.run()
    assert 4 <= len(data.runs) <= 6 and (np.diff(data.runs.start) >= 0).all()
    for i, job in enumerate(data.runs.job_id.tolist()):
        assert data.machine[i] == pytest.approx(seen[job][0], rel=1e-9, nan_ok=True)
        assert data.own[i] == pytest.approx(seen[job][1], rel=1e-9, nan_ok=True)
    sent = COUNTER_NAMES.index("PortXmitData")
    assert (data.machine[:, 3 * sent + 1] >= data.own[:, 3 * sent + 1]).all()


def test_a_campaign_has_its_control_jobs_at_various_times():
    data = Campaign(days=6, load=0.2, topology=SMALL, nodes=8, seed=4).collect()
    runs = data.runs
    assert 6 * 7 * 2 <= len(runs) <= 6 * 7 * 3 and set(runs.node_count.tolist()) == {8}
    hours = np.unique(runs.start // 3600 % 24)
    assert len(hours) > 15
    again = Campaign(days=6, load=0.2, topology=SMALL, nodes=8, seed=4).collect()
    assert np.array_equal(data.machine, again.machine) and np.array_equal(runs.start, again.runs.start)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"days": 0}, "a day or more"),
        ({"nodes": 1000}, "1 to 512 nodes"),
        ({"load": 1.0}, "from 0 to less than 1"),
        ({"alone": {"AMH": 5}}, "did you mean 'AMG'"),
    ],
)
def test_a_campaign_that_makes_no_sense_is_refused(about, told):
    with pytest.raises(JobcastError, match=told):
        Campaign(**about)
