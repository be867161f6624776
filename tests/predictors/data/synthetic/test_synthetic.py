"""The synthetic log against the models that it states, and the laws that make it a job log that can be replayed.

The distributions are recomputed here from SciPy's, so that a slip in `predictors.data.synthetic.lublin` cannot hide;
each has a twin with wrong parameters that must fail.
"""

import gzip
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jobcast import JobcastError, JobLog, generate_log
from predictors.core.arrays import Floats
from predictors.data.synthetic._kernels import earliest_starts
from predictors.data.synthetic.capability import MIRA_NODES as NODES
from predictors.data.synthetic.capability import MIXES, OF_SPENT, mira_like_log
from predictors.data.synthetic.generate import MIDNIGHT, MODEL
from predictors.data.synthetic.lublin import BATCH, Lublin, draw_gaps, draw_sizes, run_time_quantile, wall_clock
from predictors.data.synthetic.users import POPULAR
from schedsim.sites.cobalt.queues import mira_router

PUBLISHED = Lublin(
    serial=0.2927, power_of_two=0.6686, low=1.2, tail=2.5, first=0.875, short=(6.57, 0.823), long=(639.1, 0.0156),
    slope=-0.003, intercept=0.6986, gap=(6.0415, 0.8531), rush_ratio=1.0519, cycle=(6.1271, 5.2740), cycle_start=11,
    longest=12.0, longest_gap=13.0,
)  # fmt: skip
INTERACTIVE = replace(BATCH, short=(3.8351, 0.6605), long=(7.073, 0.6856), slope=-0.0118, intercept=0.9156)
ALL_JOBS = Lublin(
    serial=0.244, power_of_two=0.576, low=0.8, first=0.86, short=(4.2, 0.94), long=(312, 0.03), slope=-0.0054,
    intercept=0.78, gap=(10.2303, 0.4871), rush_ratio=1.0225, cycle=(8.1737, 3.9631),
)  # fmt: skip
"""The paper's parameters for jobs of any type, with which its authors' program wrote lublin256."""


@cache
def log_of(n_jobs: int, seed: int = 0, procs: int = 256, load: float = 0.85, users: int = 64) -> JobLog:
    return generate_log(n_jobs, seed=seed, procs=procs, load=load, users=users)


def distance(sample: npt.ArrayLike, cdf: Callable[[Floats], Floats]) -> float:
    """Kolmogorov-Smirnov distance at the sample's values; right for discrete distributions too."""
    values, counts = np.unique(np.asarray(sample, dtype=np.float64), return_counts=True)
    return float(np.abs(np.cumsum(counts) / counts.sum() - cdf(values)).max())


def size_cdf(model: Lublin, procs: int) -> Callable[[Floats], Floats]:
    high = np.log2(procs)
    middle = high - model.tail

    def two_stage(x: Floats) -> Floats:
        low_part = np.clip((x - model.low) / (middle - model.low), 0, 1)
        return model.first * low_part + (1 - model.first) * np.clip((x - middle) / (high - middle), 0, 1)

    def cdf(size: Floats) -> Floats:
        power = np.where(size >= 2, two_stage(np.floor(np.log2(np.maximum(size, 1))) + 0.5), 0)
        other = two_stage(np.log2(size + 0.5))
        return model.serial + model.power_of_two * power + (1 - model.serial - model.power_of_two) * other

    return cdf


def run_time_cdf(model: Lublin, sizes: npt.NDArray[np.int64]) -> Callable[[Floats], Floats]:
    widths, counts = np.unique(sizes, return_counts=True)
    weight = np.clip(model.slope * widths + model.intercept, 0, 1)

    def cdf(seconds: Floats) -> Floats:
        # Whole seconds are cut, not rounded: a run time of 5 s stands for [5, 6).
        log_seconds = np.minimum(np.log(seconds + 1), model.longest)
        short, long = (stats.gamma(a, scale=b) for a, b in (model.short, model.long))
        mixed = np.outer(weight, short.cdf(log_seconds)) + np.outer(1 - weight, long.cdf(log_seconds))
        mixed /= (weight * short.cdf(model.longest) + (1 - weight) * long.cdf(model.longest))[:, None]
        return counts @ mixed / counts.sum()

    return cdf


def gap_cdf(model: Lublin) -> Callable[[Floats], Floats]:
    gamma = stats.gamma(model.gap[0] * model.rush_ratio, scale=model.gap[1])
    return lambda gaps: gamma.cdf(np.log(gaps)) / gamma.cdf(model.longest_gap)


def day_cdf(model: Lublin) -> Callable[[Floats], Floats]:
    """How much of a day's arrivals fall before a second of the day."""
    gamma = stats.gamma(model.cycle[0], scale=model.cycle[1])
    slots = np.zeros(48)
    for half_hour in range(11, 59):
        slots[(half_hour - 1) % 48] += gamma.cdf(half_hour + 0.5) - gamma.cdf(half_hour - 0.5)
    edges = np.concatenate(([0], np.cumsum(slots))) / slots.sum()
    return lambda second: np.interp(second, np.arange(49) * 1800.0, edges)


def column(log: JobLog, *names: str) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(log.filled(name) for name in names)


def test_the_parameters_are_the_published_ones() -> None:
    assert BATCH == PUBLISHED
    assert replace(BATCH, longest=np.log(86_400)) == MODEL


# The model by itself: 100,000 draws, distances of a right one are below 0.006 with near certainty.


@pytest.mark.parametrize("procs", [64, 256, 1024])
def test_sizes_are_the_models(procs: int) -> None:
    sizes = draw_sizes(np.random.default_rng(1), 100_000, procs)
    assert sizes.min() == 1
    assert sizes.max() <= procs
    assert distance(sizes, size_cdf(BATCH, procs)) < 0.006
    assert distance(sizes, size_cdf(ALL_JOBS, procs)) > 0.02


@pytest.mark.parametrize("procs", [1, 2, 3, 4, 5, 6, 7, 100, 1000])
def test_sizes_fit_any_machine(procs: int) -> None:
    sizes = draw_sizes(np.random.default_rng(2), 20_000, procs)
    assert sizes.min() == 1
    assert procs / 2 < sizes.max() <= procs


@pytest.mark.parametrize("size", [1, 32, 128, 500])
def test_run_times_of_a_size_are_the_models(size: int) -> None:
    sizes = np.full(100_000, size)
    seconds = run_time_quantile(np.random.default_rng(3).random(len(sizes)), sizes)
    assert seconds.min() >= 1
    assert distance(seconds, run_time_cdf(BATCH, sizes)) < 0.006
    assert distance(seconds, run_time_cdf(INTERACTIVE, sizes)) > 0.1


def test_run_time_quantiles_invert_the_distribution() -> None:
    share = np.linspace(0, 1, 1001)
    sizes = np.full(len(share), 16)
    seconds = run_time_quantile(share, sizes)
    assert (np.diff(seconds) >= 0).all()
    assert seconds[-1] == int(np.exp(BATCH.longest))
    cdf = run_time_cdf(BATCH, sizes)
    assert (cdf(seconds - 1.0) <= share + 1e-6).all()
    assert (cdf(seconds.astype(float)) >= share - 1e-6).all()


def test_gaps_are_the_models() -> None:
    gaps = draw_gaps(np.random.default_rng(4), 100_000)
    assert gaps.max() <= np.exp(BATCH.longest_gap)
    assert distance(gaps, gap_cdf(BATCH)) < 0.006
    assert distance(gaps, gap_cdf(replace(BATCH, rush_ratio=1.0))) > 0.05


def test_wall_clock_spreads_even_arrivals_by_the_daily_cycle() -> None:
    even = np.arange(0, 3 * 86_400, 7.0)
    wall = wall_clock(even)
    assert (np.diff(wall) > 0).all()
    assert wall_clock(np.array([0.0, 86_400.0, 172_800.0])).tolist() == [0.0, 86_400.0, 172_800.0]
    assert distance(wall % 86_400, day_cdf(BATCH)) < 0.001
    assert distance((wall + 3600) % 86_400, day_cdf(BATCH)) > 0.04


def test_the_authors_own_program_agrees(reference: Callable[[str], Path]) -> None:
    with gzip.open(reference("lublin256.swf.gz"), "rt") as file:
        rows = np.array([line.split() for line in file if not line.startswith(";")], dtype=np.float64)
    submit, run_time, sizes = rows[:, 1], rows[:, 3], rows[:, 4].astype(np.int64)
    assert distance(sizes, size_cdf(ALL_JOBS, 256)) < 0.017
    assert distance(sizes, size_cdf(BATCH, 256)) > 0.04
    assert distance(run_time, run_time_cdf(ALL_JOBS, sizes)) < 0.017
    assert distance(run_time, run_time_cdf(BATCH, sizes)) > 0.1
    assert distance(submit % 86_400, day_cdf(ALL_JOBS)) < 0.06  # 89 days of arrivals that come in bursts
    rng = np.random.default_rng(5)
    ours = np.floor(wall_clock(np.cumsum(draw_gaps(rng, 50_000, ALL_JOBS)), ALL_JOBS))
    assert stats.ks_2samp(np.diff(ours), np.diff(submit)).statistic < 0.017


# The log: what its docstring says is kept.


@pytest.mark.parametrize("seed", [0, 1])
def test_users_leave_the_sizes_alone(seed: int) -> None:
    log = log_of(30_000, seed)
    (sizes,) = column(log, "requested_procs")
    assert distance(sizes, size_cdf(BATCH, 256)) < 0.01
    assert distance(sizes, size_cdf(ALL_JOBS, 256)) > 0.02
    blocks = [distance(sizes[first : first + 1000], size_cdf(BATCH, 256)) for first in range(0, 30_000, 1000)]
    assert np.mean(blocks) < 1.2 / np.sqrt(1000)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 5), (6, 31), (32, 256)])
def test_users_leave_run_times_of_a_size_nearly_alone(seed: int, low: int, high: int) -> None:
    sizes, run_time = column(log_of(30_000, seed), "requested_procs", "run_time")
    of_size = (sizes >= low) & (sizes <= high)
    assert distance(run_time[of_size], run_time_cdf(MODEL, sizes[of_size])) < 0.02 + 1.5 / np.sqrt(of_size.sum())
    assert distance(run_time[of_size], run_time_cdf(INTERACTIVE, sizes[of_size])) > 0.1


def test_arrivals_keep_the_daily_cycle_and_the_gaps() -> None:
    log = log_of(100_000)
    factor = float(next(text for _, text in log.header if "between arrivals" in text).split()[-1])
    clock = log.filled("submit") + log.origin
    assert distance(clock % 86_400, day_cdf(BATCH)) < 0.02
    assert distance((clock + 7200) % 86_400, day_cdf(BATCH)) > 0.05
    days = clock // 86_400
    even = (days + day_cdf(BATCH)(clock - days * 86_400.0)) * 86_400
    gaps = np.maximum(np.diff(even) / factor, 1e-3)
    long = gaps > 100  # whole seconds blur short ones
    assert np.mean(long) == pytest.approx(1 - gap_cdf(BATCH)(np.array([100.0]))[0], abs=0.01)
    kept = gap_cdf(BATCH)(np.array([100.0]))[0]
    assert distance(gaps[long], lambda gap: (gap_cdf(BATCH)(gap) - kept) / (1 - kept)) < 0.01


@pytest.mark.parametrize(
    ("n_jobs", "procs", "load"), [(5000, 256, 0.85), (300, 10, 0.3), (2, 64, 0.5), (2000, 999, 1.0), (500, 1, 0.85)]
)
def test_offered_load_is_met(n_jobs: int, procs: int, load: float) -> None:
    sizes, run_time, submit = column(log_of(n_jobs, 3, procs, load), "requested_procs", "run_time", "submit")
    area = float((sizes * run_time).sum())
    # The last submission is cut to whole seconds, and so is the first.
    assert area / (procs * (submit[-1] + 1)) <= load <= area / (procs * (submit[-1] - 1))


# The layer on top.


def test_requests_are_round_too_long_and_kept() -> None:
    for seed in range(3):
        run_time, requested, status = column(log_of(10_000, seed), "run_time", "requested_time", "status")
        assert (run_time >= 1).all()
        assert (run_time <= requested).all()
        assert (requested % 300 == 0).all()
        assert requested.max() == POPULAR[-1]
        values, counts = np.unique(requested, return_counts=True)
        assert np.isin(requested, POPULAR).mean() > 0.8
        assert np.sort(counts)[-20:].sum() / counts.sum() > 0.85
        assert counts[values == POPULAR[-1]][0] / counts.sum() > 0.05
        assert 0.10 < np.mean(run_time == requested) < 0.20
        assert 0.15 < np.median(run_time / requested) < 0.45
        assert (status[run_time == requested] == 0).mean() > 0.95
        assert 0.10 < np.mean(status == 0) < 0.30


def test_users_follow_zipf_and_come_in_sessions() -> None:
    submit, user, app, group = column(log_of(20_000), "submit", "user", "executable", "group")
    activity = np.sort(np.bincount(user))[::-1] / len(user)
    assert 0.15 < activity[0] < 0.30
    assert activity[:6].sum() > 0.4
    again = user[1:] == user[:-1]
    assert again.mean() > 3 * (activity**2).sum()
    assert (app[1:] == app[:-1])[again & (np.diff(submit) < 60)].mean() > 0.9
    for member in np.unique(user):
        assert len(np.unique(group[user == member])) == 1
    for application in np.unique(app):
        assert len(np.unique(user[app == application])) == 1


def test_users_repeat_themselves() -> None:
    """Locality as in real logs: consecutive jobs of a user correlate by about 0.7 (0.69 KTH-SP2, 0.75 SDSC-SP2)."""
    for seed in range(3):
        user, app, run_time, sizes = column(log_of(10_000, seed), "user", "executable", "run_time", "requested_procs")
        order = np.argsort(user, kind="stable")
        same = user[order][1:] == user[order][:-1]
        log_time = np.log(run_time[order])
        assert 0.55 < np.corrcoef(log_time[1:][same], log_time[:-1][same])[0, 1] < 0.9
        assert (sizes[order][1:] == sizes[order][:-1])[same].mean() > 0.6
        repeated = app[order][1:] == app[order][:-1]
        steps = np.abs(np.diff(log_time))
        assert np.median(steps[same & repeated]) < 0.5 * np.median(steps[same & ~repeated])


def test_the_last_two_jobs_tell_more_than_the_request() -> None:
    for seed in range(3):
        submit, wait, run_time, requested, user = column(
            log_of(10_000, seed), "submit", "wait", "run_time", "requested_time", "user"
        )
        end = submit + wait + run_time
        last_two = requested.astype(np.float64)
        for member in np.unique(user):
            mine = np.flatnonzero(user == member)
            by_end = mine[np.argsort(end[mine], kind="stable")]
            ended = np.searchsorted(end[by_end], submit[mine], side="right")
            known = ended >= 2
            last_two[mine[known]] = (run_time[by_end[ended[known] - 1]] + run_time[by_end[ended[known] - 2]]) / 2
        error = ((np.minimum(last_two, requested) - run_time) ** 2).sum()
        assert ((requested - run_time) ** 2).sum() > 2 * error
        assert ((run_time - run_time.mean()) ** 2).sum() > error


# Waits.


@given(jobs=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 4), st.integers(1, 30)), min_size=1, max_size=40))
def test_each_job_starts_as_early_as_those_before_it_allow(jobs: list[tuple[int, int, int]]) -> None:
    submit, procs, run_time = (np.array(part, dtype=np.int64) for part in zip(*sorted(jobs), strict=True))
    start = earliest_starts(submit, procs, run_time, 4)
    used = np.zeros(int((submit + run_time).max() + run_time.sum()) + 1, dtype=np.int64)
    for row in range(len(submit)):
        first = next(t for t in range(submit[row], len(used)) if (used[t : t + run_time[row]] + procs[row] <= 4).all())
        assert start[row] == first
        used[first : first + run_time[row]] += procs[row]


def test_waits_never_overfill_the_machine() -> None:
    log = log_of(20_000)
    submit, wait, run_time, sizes = column(log, "submit", "wait", "run_time", "allocated_procs")
    assert (wait >= 0).all()
    start = submit + wait
    times = np.concatenate((start + run_time, start))
    order = np.argsort(times, kind="stable")  # ends first
    held = np.cumsum(np.concatenate((-sizes, sizes))[order])
    assert held.max() <= log.max_procs
    assert held.max() > 0.9 * log.max_procs
    utilisation = (sizes * run_time).sum() / (log.max_procs * (start + run_time).max())
    assert 0.75 < utilisation <= 0.85


# The log as an object.


def test_the_same_arguments_give_the_same_log_in_another_process() -> None:
    code = (
        "from predictors.data.synthetic.generate import generate_log; "
        "print(generate_log(700, seed=11, procs=100).digest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert generate_log(700, seed=11, procs=100).digest() == other
    assert generate_log(700, seed=12, procs=100).digest() != other


def test_the_header_says_what_it_is() -> None:
    log = generate_log(200, seed=5, procs=100, load=0.4, users=7)
    notes = [text for _, text in log.header]
    assert "generate_log(n_jobs=200, seed=5, procs=100, load=0.4, users=7)" in notes
    assert dict(log.header)["MaxProcs"] == "100"
    assert dict(log.header)["UnixStartTime"] == str(MIDNIGHT)
    assert log.epoch == MIDNIGHT + log.origin
    assert (log.time_zone, log.max_procs, log.name) == ("UTC", 100, "synthetic-5")
    assert log.filled("user").max() <= 7
    assert log.filled("user").min() >= 1
    for known in ("wait", "run_time", "requested_time", "requested_procs", "user", "group", "executable", "queue"):
        assert log.known(known).all()


@pytest.mark.parametrize(
    "kwargs", [{"n_jobs": 1, "procs": 1}, {"n_jobs": 2, "procs": 1, "users": 1}, {"n_jobs": 50, "users": 1}]
)
def test_small_logs(kwargs: dict[str, int]) -> None:
    assert len(generate_log(**kwargs)) == kwargs["n_jobs"]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_jobs": 0}, "number of jobs .* from 1 to 20,000,000; got 0"),
        ({"n_jobs": -3}, "number of jobs .* got -3"),
        ({"n_jobs": 10**9}, "number of jobs .* got 1,000,000,000"),
        ({"n_jobs": 10.5}, "number of jobs .* whole number; got 10.5"),
        ({"procs": 0}, "procs .* from 1 .* got 0"),
        ({"procs": True}, "procs .* whole number"),
        ({"load": 0}, "load .* from 0.01 to 1.0; got 0"),
        ({"load": -1.0}, "load .* got -1.0"),
        ({"load": 50.0}, "load .* got 50.0"),
        ({"load": float("nan")}, "load .* got nan"),
        ({"load": "high"}, "load .* a number; got 'high'"),
        ({"users": 0}, "users .* got 0"),
        ({"seed": -1}, "seed .* 0 or more; got -1"),
        ({"seed": None}, "seed .* whole number; got None"),
    ],
)
def test_bad_arguments_are_refused(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(JobcastError, match=message):
        generate_log(**kwargs)  # type: ignore[arg-type]


TABLE_2 = {  # nodes, walltime [s], run time [s], part of the core-hours
    "prod-capability": (13_530, 20_151, 12_544, 0.635),
    "prod-short": (1080, 6754, 4361, 0.207),
    "prod-long": (1253, 39_734, 24_907, 0.107),
    "backfill": (1043, 4118, 2789, 0.043),
}


def test_means_are_those_of_table_2():
    logs = [mira_like_log(20_000, seed=seed) for seed in range(4)]
    columns = {
        name: np.concatenate([log.filled(name) for log in logs]) for name in ("queue", "requested_time", "run_time")
    }
    procs = np.concatenate([log.procs for log in logs])
    work = procs * columns["run_time"]
    for code, (name, (nodes, walltime, run_time, part)) in enumerate(TABLE_2.items(), start=1):
        mine = columns["queue"] == code
        assert list(MIXES)[code - 1] == name
        assert procs[mine].mean() == pytest.approx(nodes, rel=0.15)
        assert columns["requested_time"][mine].mean() == pytest.approx(walltime, rel=0.15)
        assert columns["run_time"][mine].mean() == pytest.approx(run_time, rel=0.2)
        assert work[mine].sum() / work.sum() == pytest.approx(part, abs=0.08)


def test_load_seed_and_queues():
    log = mira_like_log(5000, seed=3, load=0.8)
    span = log.values["submit"][-1]
    assert (log.procs * log.values["run_time"]).sum() / (NODES * span) == pytest.approx(0.8, rel=0.05)
    assert log.digest() == mira_like_log(5000, seed=3, load=0.8).digest() != mira_like_log(5000, seed=4).digest()
    routed = mira_router().route(log.procs, log.values["requested_time"]) + 1
    own = log.values["group"] < OF_SPENT
    assert (routed[own] == log.values["queue"][own]).all()
    assert (log.values["queue"][~own] == 4).all()


def test_what_cannot_be_made_is_refused():
    with pytest.raises(JobcastError, match="needs 2 jobs or more"):
        mira_like_log(1)
