"""The synthetic log: seeded, made of published models of sizes, arrivals, run times and requests."""

import numbers
from typing import Final

import numpy as np

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.synthetic._kernels import earliest_starts
from predictors.data.synthetic.lublin import Lublin, draw_gaps, draw_sizes, run_time_quantile, wall_clock
from predictors.data.synthetic.users import HOUR, POPULAR, ask, deal_shares, deal_sizes, draw_runs

MIDNIGHT: Final = 1_704_067_200  # the log's clock begins on Monday, 1 January 2024, 00:00 UTC
MODEL: Final = Lublin(longest=float(np.log(POPULAR[-1])))
"""The published model of batch jobs, cut at the machine's limit of 24 h (its authors' program cuts at 45.2 h)."""
QUEUES: Final = ((1, "short", HOUR), (2, "medium", 12 * HOUR), (3, "long", POPULAR[-1]))
"""Code, name and longest request [s] of each queue."""
LIMITS: Final = {"n_jobs": (1, 20_000_000), "procs": (1, 10_000_000), "users": (1, 1_000_000), "load": (0.01, 1.0)}
"""What may be asked for, both ends included."""
TITLES: Final = {"n_jobs": "the number of jobs"}  # what messages call a parameter that has another name as an option
FAILED: Final = 0
COMPLETED: Final = 1


def generate_log(n_jobs: int = 5000, *, seed: int = 0, procs: int = 256, load: float = 0.85, users: int = 64) -> JobLog:
    """Make a job log: the same arguments give the same log, bit for bit.

    (With the same NumPy and SciPy on the same kind of processor: others may round an exponential otherwise.)

    Parameters
    ----------
    n_jobs : int
        How many jobs.
    seed : int
        Any number from 0; another seed, another log.
    procs : int
        Processors of the machine, at least 1.
    load : float
        Offered load, 0.01 to 1: the sum of run time * processors over machine * (last - first submission). All times
        between arrivals are stretched by one factor to meet it, before the daily cycle bends them; the log's header
        tells the factor. A log of one job has no load.
    users : int
        How many users there are, active after Zipf's law; a rare one may submit nothing.

    Returns
    -------
    JobLog
        Known but for memory, CPU and think times. Status 1 is completed, 0 crashed early or killed at the request.
        Codes of users, groups, applications, queues and the partition begin at 1.

    Notes
    -----
    **From the model of Lublin and Feitelson** [1]_ (batch jobs, `predictors.data.synthetic.lublin`, run times above 24
    drawn again). What is kept:

    * sizes: exactly; they are a plain sample of the model, and so is every block of 1,000 consecutive jobs;
    * run times given the size: except that the run time of jobs killed at their request moves there by 5 % at most
      (distribution functions stay within 0.03), and for like sizes (equal rounded log2) being dealt out together;
    * arrivals: exactly, up to the factor of `load` and whole seconds; the daily cycle is the model's at every load.

    Lost is the independence of the jobs, on purpose: the layer of users (`predictors.data.synthetic.users`) decides
    *which* job gets which sampled size and run time. Each job has a place among the sizes, its application's, and one
    among the run times: group + user + application + the session's inputs + noise. The sorted sample is dealt out in
    the order of the places, block by block.

    **Users, sessions, applications.** A session goes on while the pauses between its jobs last at most 20 minutes. It
    runs one application, mostly the user's latest, now and then a new one. Some jobs are resized, some crash early.

    **Requests** after Tsafrir, Etsion and Feitelson [2]_: most are one of twenty popular walltimes, the machine's limit
    is a favourite, none is below the run time, most are far above, about one job in seven is killed there. An
    application asks for about the same every time, since its user knows roughly how long it runs.

    **Waits** are simple and feasible, so that the log can be replayed: in order of submission, each job is given the
    earliest start that holds back no earlier job, run times known (conservative backfilling by a clairvoyant). A real
    scheduler would not have found them. From a load of about 0.8 they are long, a day on average: the model's jobs are
    wide and long and come in bursts.

    **What it is not**: a copy of any machine. It has no weekends, holidays or seasons, no users who come and go, no
    failures of nodes, no user who waits for a result before submitting on, no job beyond 24 hours. The model was fitted
    to machines of 128 to about 1,000 processors; on a wider one nearly all wide jobs run for hours, even those that
    crash. What wins here need not win on a real log: use a real one where there is one.

    References
    ----------
    .. [1] U. Lublin, D. G. Feitelson. "The workload on parallel supercomputers: modeling the characteristics of rigid
           jobs". Journal of Parallel and Distributed Computing 63(11), 2003. doi:10.1016/S0743-7315(03)00108-4
    .. [2] D. Tsafrir, Y. Etsion, D. G. Feitelson. "Modeling user runtime estimates". Job Scheduling Strategies for
           Parallel Processing (JSSPP), 2005. doi:10.1007/11605300_1

    Examples
    --------
    >>> log = generate_log(1000, seed=7)
    >>> len(log), log.max_procs, bool((log["run_time"] <= log["requested_time"]).all())
    (1000, 256, True)
    """
    _check(n_jobs, seed, procs, load, users)
    rng = np.random.Generator(np.random.PCG64(seed))
    sizes, shares, even = draw_sizes(rng, n_jobs, procs), rng.random(n_jobs), np.cumsum(draw_gaps(rng, n_jobs))
    busy = float((sizes * run_time_quantile(shares, sizes, MODEL)).sum())
    runs = draw_runs(rng, wall_clock(even * _stretch(even, busy / (procs * load))), users)
    sizes = deal_sizes(rng, sizes, runs)
    shares, crashed = deal_shares(rng, shares, sizes, runs)
    requested, run_time, killed = ask(rng, run_time_quantile(shares, sizes, MODEL), runs.app, crashed)

    # Dealing and killing moved the load by a little: users submit at times stretched to meet it exactly.
    stretch = _stretch(even, float((sizes * run_time).sum()) / (procs * load))
    clock = wall_clock(even * stretch).astype(np.int64)
    origin = int(clock[0])
    submit = clock - origin
    values = {
        "job_id": np.arange(1, n_jobs + 1), "submit": submit,
        "wait": earliest_starts(submit, sizes, run_time, procs) - submit, "run_time": run_time,
        "requested_time": requested, "requested_procs": sizes, "allocated_procs": sizes, "user": runs.user + 1,
        "group": runs.group + 1, "executable": runs.app + 1,
        "queue": 1 + np.searchsorted([longest for _, _, longest in QUEUES], requested),
        "partition": np.ones(n_jobs, np.int64), "status": np.where(crashed | killed, FAILED, COMPLETED),
    }  # fmt: skip
    return JobLog(
        values, origin=origin, epoch=MIDNIGHT + origin, time_zone="UTC", max_procs=procs, max_nodes=procs,
        header=_header(n_jobs, seed, procs, load, users, stretch), name=f"synthetic-{seed}",
    )  # fmt: skip


def _check(n_jobs: int, seed: int, procs: int, load: float, users: int) -> None:
    for name, value in {"n_jobs": n_jobs, "seed": seed, "procs": procs, "users": users}.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise JobcastError(f"{TITLES.get(name, name)} of a synthetic log must be a whole number; got {value!r}.")
    if isinstance(load, bool) or not isinstance(load, numbers.Real):
        raise JobcastError(f"load of a synthetic log must be a number; got {load!r}.")
    if seed < 0:
        raise JobcastError(f"seed of a synthetic log must be 0 or more; got {seed}.")
    for name, number in {"n_jobs": n_jobs, "procs": procs, "load": load, "users": users}.items():
        low, high = LIMITS[name]
        if not low <= number <= high:
            raise JobcastError(
                f"{TITLES.get(name, name)} of a synthetic log must be from {low:,} to {high:,}; got {number:,}."
            )


def _header(n_jobs: int, seed: int, procs: int, load: float, users: int, stretch: float) -> tuple[tuple[str, str], ...]:
    return (
        ("Version", "2.2"),
        ("Computer", "none: a synthetic log"),
        ("Information", "sizes, arrivals, run times after Lublin & Feitelson, doi:10.1016/S0743-7315(03)00108-4"),
        ("Information", "requests after Tsafrir, Etsion & Feitelson, doi:10.1007/11605300_1"),
        ("MaxJobs", str(n_jobs)),
        ("MaxRecords", str(n_jobs)),
        ("UnixStartTime", str(MIDNIGHT)),
        ("TimeZoneString", "UTC"),
        ("MaxNodes", str(procs)),
        ("MaxProcs", str(procs)),
        ("MaxRuntime", str(POPULAR[-1])),
        *(("Queue", f"{code} {name} (up to {longest // HOUR} h)") for code, name, longest in QUEUES),
        ("Partition", "1 all"),
        ("Note", f"generate_log(n_jobs={n_jobs}, seed={seed}, procs={procs}, load={load}, users={users})"),
        ("Note", f"times between arrivals are the model's * {stretch:.6g}"),
        ("Note", "waits are the earliest starts that hold back no earlier job, run times known"),
    )


def _stretch(even: Floats, span: float) -> float:
    """Return the factor on even times that puts `span` wall seconds between the first and the last of them.

    Whole days do not bend, so twice the span and a few days are enough; the wall clock is monotone in the factor.
    """
    if len(even) == 1:
        return 1.0
    ends = even[[0, -1]]
    low, high = 0.0, 2.0 * (span + 4 * 86_400.0) / float(ends[1] - ends[0])
    while low < (middle := (low + high) / 2) < high:
        first, last = wall_clock(ends * middle)
        low, high = (middle, high) if last - first < span else (low, middle)
    return high
