"""Made-up tables of repeated runs, with storms and drift that are known."""

import numpy as np
import pandas as pd

NAMES = ("alpha", "beta", "gamma")


def table(days=60, a_day=12, storms=(), steps=()):
    """Made-up runs; in a storm (from, to) [days] all are slow, after a step (name, day) one application is."""
    rng = np.random.default_rng(1)
    start = np.sort(rng.uniform(0, days * 86_400, days * a_day)).round()
    names = rng.choice(NAMES, len(start))
    day = start / 86_400
    busy = np.any([(day >= low) & (day < high) for low, high in storms], axis=0) if storms else np.zeros(len(day), bool)
    seconds = 600 * np.exp(rng.normal(0, 0.02, len(start))) * np.where(busy, 1.6, 1.0)
    for name, since in steps:
        seconds *= np.where((names == name) & (day >= since), 1.5, 1.0)
    return pd.DataFrame({
        "job_id": np.arange(1, len(start) + 1), "application": names, "node_count": 8, "start": start,
        "end": start + seconds, "near_jobs": np.where(busy, 9, 3) + rng.integers(0, 2, len(start)),
    })  # fmt: skip
