"""Users of the synthetic log: sessions, applications, requested times.

The layer that `predictors.data.synthetic.generate` puts on top of sampled sizes and run times: it deals them out, it
makes none.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import scipy

from predictors.core.arrays import Bools, Floats, Ints
from predictors.data.synthetic._kernels import sessions

MINUTE: Final = 60
HOUR: Final = 3600
POPULAR: Final = (  # the twenty walltimes that most jobs ask for [s]; the last is the machine's limit
    *(minutes * MINUTE for minutes in (5, 10, 15, 20, 30, 45)),
    *(int(hours * HOUR) for hours in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 20, 24)),
)
BLOCK: Final = 1000  # jobs are dealt in blocks of so many, samples of the model, so that the load does not wander

ZIPF: Final = 1.0
USERS_PER_GROUP: Final = 6
APPS_PER_USER: Final = 4
SESSION: Final[Mapping[str, float]] = {"pause": 20.0 * MINUTE, "go_on": 0.85, "same": 0.85, "new": 0.05, "memory": 0.8}
"""Longest pause within a session [s]; chances that a job belongs to an open session, that a session runs what the user
ran last, and that it runs something new; correlation of an application's inputs from one session to the next."""
DEVIATIONS: Final[Mapping[str, float]] = {"group": 0.3, "user": 0.6, "app": 0.5, "inputs": 0.4}
"""How much each decides of a job's place among the run times: standard deviations of normal terms."""
NOISE: Final = (0.04, 1.0)  # how much equal runs differ: median and log deviation over the applications
CRASHED: Final = 0.05
RESIZED: Final = (0.10, 0.3)  # share of jobs not of their application's size; how far they stray (applications: 1)

SAFETY: Final = (2.0, 1.0)  # an application's request / typical run time: median and log deviation over applications
AT_LIMIT: Final = 0.12  # share of applications that always ask for the machine's limit
NOT_POPULAR: Final = 0.15  # share of applications that ask for a multiple of 5 minutes instead of a popular walltime
NEAR: Final = 0.05  # how near a popular walltime a sampled run time must lie, relative to it, to be killed there
OUTGROWN: Final = 2.0  # ... and only if its user wished at most so many times its run time


class Runs(NamedTuple):
    """Users and applications (codes from 0) of jobs, and the state of each session's inputs (standard normal)."""

    group: Ints
    user: Ints
    app: Ints
    inputs: Floats


def draw_runs(rng: np.random.Generator, times: Floats, users: int) -> Runs:
    """Draw the user and application at each of the sorted `times` [s]: sessions of users of Zipf-like activity."""
    activity = np.cumsum(1.0 / np.arange(1, users + 1) ** ZIPF)
    user, app, inputs = sessions(
        times, rng.random((len(times), 3)), rng.standard_normal(len(times)), activity / activity[-1], APPS_PER_USER,
        np.array([SESSION[habit] for habit in ("pause", "go_on", "same", "new", "memory")]),
    )  # fmt: skip
    return Runs(user % max(1, users // USERS_PER_GROUP), user, app, inputs)


def deal_sizes(rng: np.random.Generator, sizes: Ints, runs: Runs) -> Ints:
    """Deal out sampled sizes so that an application keeps to its own, but for a few resized jobs."""
    share, strays = RESIZED
    place = _of_each(rng, runs.app)
    resized = np.flatnonzero(rng.random(len(sizes)) < share)
    place[resized] += strays * rng.standard_normal(len(resized))
    return sizes[_deal(sizes.astype(np.float64), place)]


def deal_shares(rng: np.random.Generator, shares: Floats, sizes: Ints, runs: Runs) -> tuple[Floats, Bools]:
    """Deal out uniform shares of the run times so that like jobs run for similar times; mark those that crash early.

    They are dealt among jobs of one block and of similar sizes (equal rounded log2). Run times of such jobs have nearly
    one distribution, so they keep theirs given the size, whatever sizes an application prefers.
    """
    place = DEVIATIONS["inputs"] * runs.inputs
    for codes, part in ((runs.group, "group"), (runs.user, "user"), (runs.app, "app")):
        place += DEVIATIONS[part] * _of_each(rng, codes)
    median, deviation = NOISE
    place += median * np.exp(deviation * _of_each(rng, runs.app)) * rng.standard_normal(len(sizes))
    crashed = rng.random(len(sizes)) < CRASHED
    place[crashed] -= rng.uniform(1.0, 4.0, int(crashed.sum()))
    like = np.floor(np.log2(sizes) + 0.5)
    # Halved, so that neither the last place nor the largest share of a class reaches into the next.
    return shares[_deal(like + shares / 2, like + scipy.special.ndtr(place) / 2)], crashed


def ask(rng: np.random.Generator, run_time: Ints, app: Ints, crashed: Bools) -> tuple[Ints, Ints, Bools]:
    """Draw what walltime each job asks for, knowing roughly how long its application runs.

    Returned are round walltimes [s], none below the run time; run times [s]; and where both are equal, of killed jobs.
    """
    popular, n_apps = np.array(POPULAR), int(app.max()) + 1
    typical = np.exp(np.bincount(app, np.log(run_time)) / np.maximum(1, np.bincount(app)))
    median, deviation = SAFETY
    manner = rng.random(n_apps)
    wish = typical * median * np.exp(deviation * rng.standard_normal(n_apps))
    wish = np.minimum(np.where(manner < AT_LIMIT, popular[-1], wish), popular[-1])[app]
    enough = np.maximum(wish, run_time)
    requested = np.where(
        manner[app] < 1.0 - NOT_POPULAR,
        popular[np.searchsorted(popular, enough)],
        (np.ceil(enough / (5 * MINUTE)) * 5 * MINUTE).astype(np.int64),
    )
    limit = popular[np.searchsorted(np.sqrt(popular[:-1] * popular[1:]), run_time)]
    killed = ~crashed & (wish <= OUTGROWN * run_time) & (np.abs(run_time - limit) <= NEAR * limit)
    return np.where(killed, limit, requested), np.where(killed, limit, run_time), killed


def _of_each(rng: np.random.Generator, codes: Ints) -> Floats:
    """Draw a standard normal for each code, and return it job by job."""
    each: Floats = rng.standard_normal(int(codes.max()) + 1)[codes]
    return each


def _deal(sample: Floats, place: Floats) -> Ints:
    """Return which of the sample each job gets: in each block, the k-th smallest goes to the job k-th in place."""
    n_jobs, n_blocks = len(sample), -(-len(sample) // BLOCK)
    padded = np.full((2, n_blocks * BLOCK), np.inf)
    padded[0, :n_jobs], padded[1, :n_jobs] = sample, place
    smallest, foremost = np.argsort(padded.reshape(2, n_blocks, BLOCK), axis=2, kind="stable")
    dealt = np.empty((n_blocks, BLOCK), np.int64)
    np.put_along_axis(dealt, foremost, smallest + BLOCK * np.arange(n_blocks)[:, None], axis=1)
    return dealt.ravel()[:n_jobs]
