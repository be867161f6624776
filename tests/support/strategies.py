"""Random small workloads on a coarse time grid, so that ties, wrong estimates and full machines are common."""

from random import Random

import numpy as np
from hypothesis import strategies as st

from predictors.core.events import ENDED, STARTED, SUBMITTED
from tests.oracle.easy import Job

PROCS = 8


@st.composite
def workloads(draw, most=14, kill=True, least_run=1):
    """Jobs for a machine of 8 processors, sorted by (submit, job id); ids unique, users 0 to 2 or nobody (-1).

    Times are multiples of one step: 5 s for ties everywhere, 60 s and 600 s to meet the steps of the corrections.
    `kill=False` lets run times pass the request; `least_run=0` lets jobs end in the second of their start.
    """
    step = draw(st.sampled_from([5, 60, 600]))
    n_jobs = draw(st.integers(1, most))
    row = st.tuples(
        st.integers(0, 8),  # submit
        st.one_of(st.integers(1, PROCS), st.integers(1, 3)),  # processors
        st.integers(1, 6),  # requested
        st.integers(least_run, 6 if kill else 15),  # run time
        st.integers(-1, 2),  # user
    )
    rows = draw(st.lists(row, min_size=n_jobs, max_size=n_jobs))
    ids = draw(st.permutations(range(1, n_jobs + 1)))
    return _jobs(ids, rows, step, kill)


@st.composite
def workloads_with_estimates(draw, **about):
    """A workload and an estimate for each job: anything from 1 s to its request, often on the workload's own grid."""
    jobs = draw(workloads(**about))
    guesses = [draw(st.one_of(st.just(job.run_time), st.integers(1, job.requested))) for job in jobs]
    return jobs, [max(1, min(guess, job.requested)) for guess, job in zip(guesses, jobs, strict=True)]


def seeded_workload(seed, kill=True, least_run=1):
    """Return such a workload, of 8 to 20 jobs, by a seed: a hundred times faster, for searches and long comparisons."""
    random = Random(seed)
    step, n_jobs = random.choice([5, 5, 60, 600]), random.randint(8, 20)
    rows = [
        (
            random.randint(0, n_jobs // 2),
            random.choice([random.randint(1, PROCS), random.randint(1, 3)]),
            random.randint(1, 6),
            random.randint(least_run, 6 if kill else 15),
            random.randint(-1, 2),
        )
        for _ in range(n_jobs)
    ]
    return _jobs(random.sample(range(1, n_jobs + 1), n_jobs), rows, step, kill)


def seeded_estimates(seed, jobs):
    """Return an estimate for each job by a seed: its run time, or anything from 1 s to its request."""
    random = Random(seed)
    step = 5 if random.random() < 0.5 else 1
    guesses = [random.choice([job.run_time, step * -(-random.randint(1, job.requested) // step)]) for job in jobs]
    return [max(1, min(guess, job.requested)) for guess, job in zip(guesses, jobs, strict=True)]


def _jobs(ids, rows, step, kill):
    first = min(row[0] for row in rows)
    jobs = [
        Job(job_id, step * (submit - first), procs, step * asked, step * (min(asked, ran) if kill else ran), user)
        for job_id, (submit, procs, asked, ran, user) in zip(ids, rows, strict=True)
    ]
    return sorted(jobs, key=lambda job: (job.submit, job.job_id))


def crowded_workload(seed, n_jobs=160):
    """Return a workload with a long queue on a larger machine, and that machine's processors."""
    random = Random(seed)
    procs, step = random.choice([16, 64, 300]), random.choice([1, 60, 600])
    rows = [
        (
            random.randint(0, n_jobs // 4),
            random.choice([random.randint(1, procs), random.randint(1, procs // 4), random.randint(1, 3)]),
            random.randint(1, 40),
            random.randint(1, 40),
            random.randint(-1, 5),
        )
        for _ in range(n_jobs)
    ]
    return _jobs(random.sample(range(1, 10 * n_jobs), n_jobs), rows, step, kill=True), procs


class Fickle:
    """Changes the estimates of two in five waiting jobs whenever a job has ended; up to three estimate steps."""

    n_steps = 3

    def __init__(self, jobs, seed):
        self.jobs, self.seed, self.waiting, self.ended = jobs, seed, [], 0

    def fork(self):
        """Return a copy that learns on its own."""
        twin = Fickle(self.jobs, self.seed)
        twin.waiting, twin.ended = list(self.waiting), self.ended
        return twin

    def answer(self, row):
        """Draw three estimates, not always whole or within the request, and the steps."""
        random, most = Random(f"{self.seed} {row} {self.ended}"), self.jobs[row].requested
        roles = [random.choice([random.randint(1, most), random.uniform(0.2, most * 1.2)]) for _ in range(3)]
        elapsed = sorted(random.sample(range(1, most + 4), random.randint(0, self.n_steps)))
        ladder = [number for rung in elapsed for number in (rung, random.randint(1, most + 5))]
        return [row, *roles, *ladder, *([np.inf, 1.0] * (self.n_steps - len(elapsed)))]

    def advance(self, events, answers):
        """Answer on the newcomers, then on those of whom it has changed its mind."""
        rows = {
            kind: [row for _, happened, row in events.tolist() if happened == kind]
            for kind in (SUBMITTED, STARTED, ENDED)
        }
        waiting = [row for row in self.waiting if row not in rows[STARTED]]
        self.waiting = [*waiting, *rows[SUBMITTED]]
        self.ended += len(rows[ENDED])
        random = Random(f"{self.seed} {self.ended}")
        told = [*rows[SUBMITTED], *(row for row in waiting if rows[ENDED] and random.random() < 0.4)]
        for place, row in enumerate(told):
            answers[place] = self.answer(row)
        return len(told)
