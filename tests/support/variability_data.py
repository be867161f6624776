"""Small datasets whose truth is known, for the tests of variability."""

import numpy as np

from predictors.data.runs import Runs, write_runs
from predictors.data.telemetry.counters import COUNTERS
from predictors.variability.dataset import Dataset
from predictors.variability.windows import WINDOW_FEATURES
from tests.support.ldms_writer import write_ldms

APPS = {"AMG": ("compute", 0.4), "LBANN": ("io", 1.0), "SWFFT": ("network", 0.7), "sw4lite": ("network", 0.8)}
BUSY = tuple(WINDOW_FEATURES.index(name) for name in ("mean_PortXmitWait", "max_PortXmitWait", "mean_read_bytes"))


def dataset(n=160, seed=0, scope="all", noise=0.05, truth=True, apps=tuple(APPS)):
    """Runs whose time grows with a load that three counters show; every other counter stands still or is noise."""
    rng = np.random.default_rng(seed)
    names = rng.choice(apps, n)
    load = np.clip(0.3 + 0.25 * np.sin(np.arange(n) / 7) + rng.normal(0, 0.15, n), 0, 1)
    slowdown = 1 + np.array([APPS[name][1] for name in names]) * np.maximum(load - 0.5, 0) * 2
    seconds = 300 * slowdown
    seconds *= np.exp(rng.normal(0, 0.01, n))
    windows = np.zeros((n, 270))
    windows[:, :30] = rng.normal(size=(n, 30))
    windows[:, BUSY] = load[:, None] * (1 + rng.normal(0, noise, (n, len(BUSY))))
    windows[rng.random((n, 270)) < 0.01] = np.nan
    start = np.arange(n) * 400.0
    runs = Runs.of(
        job_id=np.arange(n),
        application=names,
        nodes=[range(16)] * n,
        start=start,
        end=start + seconds,
        workload=[APPS[name][0] for name in names],
        probes=load[:, None] * np.exp(rng.normal(0, 0.3, (n, 9))),
        truth={"true_load_at_start": load, "true_slowdown_at_start": slowdown, "true_alone": np.full(n, 300.0)}
        if truth
        else None,
    )
    return Dataset.build(runs, windows, scope)[0]


def load_at(time):
    """Return how busy the network of `write_machine` is."""
    return 0.5 + 0.45 * np.sin(np.asarray(time) / 2300)


def write_machine(folder, nodes, n_jobs=90, period=50.0):
    """Write a small machine's telemetry, and control runs that take longer when the network is busy."""
    rng, busy = np.random.default_rng(0), np.array([counter.driver in ("stall", "sent") for counter in COUNTERS])
    samples = (
        (time, np.where(busy, 1e4 * load_at(time) * rng.uniform(0.9, 1.1, (nodes, len(busy))), 10.0))
        for time in np.arange(0, 350.0 * n_jobs, period)
    )
    write_ldms(folder / "ldms", range(nodes), samples, period=period)
    start = 400.0 + 340.0 * np.arange(n_jobs)
    apps = np.array(["AMG", "LBANN", "SWFFT"])[np.arange(n_jobs) % 3]
    slow = 1 + np.where(apps == "AMG", 0.5, 1.5) * np.maximum(load_at(start) - 0.7, 0)
    runs = Runs.of(
        job_id=np.arange(1, n_jobs + 1),
        application=apps,
        nodes=[[k % nodes, (k + 1) % nodes] for k in range(n_jobs)],
        start=start,
        end=start + 200 * slow * rng.uniform(0.99, 1.01, n_jobs),
        workload=np.array(["compute", "io", "network"])[np.arange(n_jobs) % 3],
        truth={"true_load_at_start": load_at(start)},
    )
    write_runs(runs, folder / "runs.csv")
