"""Small datasets whose truth is known, for the tests of variability."""

import numpy as np

from predictors.data.runs import Runs
from predictors.variability.dataset import Dataset
from predictors.variability.windows import WINDOW_FEATURES

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
