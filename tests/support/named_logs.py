"""Logs as sacct writes them, with names that each file numbers anew, made from a synthetic log."""

import numpy as np

from predictors.data.formats.slurm import parse_sacct
from predictors.data.synthetic.generate import generate_log

EPOCH = 1_700_000_000
HEADER = "JobIDRaw|User|Group|Partition|JobName|AllocCPUS|ReqCPUS|TimelimitRaw|Submit|Start|End|State\n"


def made_log(n_jobs=260, seed=3, users=8):
    """Return a log of few users who come back; whole minutes of request, run times above 0."""
    log = generate_log(n_jobs, seed=seed, users=users, load=0.5)
    return log.select(log.filled("run_time") > 0)


def ends_of(log):
    """Return when each job ends [s]."""
    return log.filled("submit") + log.filled("wait") + log.filled("run_time")


def in_two(log, n_first):
    """Return the first jobs, and those submitted after all of these have ended."""
    first = np.arange(len(log)) < n_first
    return np.flatnonzero(first), np.flatnonzero(log.filled("submit") > ends_of(log)[first].max())


def line(log, row, ended=True):
    """Return a job's record; one that has not ended runs."""
    job, user, queue, executable, procs, asked = (
        int(log.filled(column)[row])
        for column in ("job_id", "user", "queue", "executable", "requested_procs", "requested_time")
    )
    submit = EPOCH + int(log.filled("submit")[row])
    start, end = submit + int(log.filled("wait")[row]), EPOCH + int(ends_of(log)[row])
    last = (end, "COMPLETED") if ended else ("Unknown", "RUNNING")
    name = f"u{user:02}", f"g{user % 3}", f"q{queue}", f"app{executable}"
    fields = job, *name, procs, procs, max(asked // 60, 1), submit, start, *last
    return "|".join(map(str, fields)) + "\n"


def sacct_text(log, rows, shuffle=None):
    """Return sacct's text of some jobs, in the order of the log or shuffled by a seed."""
    rows = np.asarray(rows)
    if shuffle is not None:
        rows = np.random.default_rng(shuffle).permutation(rows)
    return HEADER + "".join(line(log, row) for row in rows.tolist())


def read_text(text, name="log.txt"):
    """Return the job log of sacct's text."""
    return parse_sacct(text.encode(), name)[0]
