"""Random small workloads on a coarse time grid, so that ties, wrong estimates and full machines are common."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.oracle import Job

PROCS = 8
CORRECTIONS = ("requested", "incremental", "doubling")


@st.composite
def workloads(draw, most=14, kill=True, least_run=1):
    """Jobs for a machine of 8 processors, sorted by (submit, job id); ids unique, users 0 to 2 or nobody (-1).

    Times are multiples of one step: 5 s for ties everywhere, 60 s and 600 s to meet the rungs of the corrections.
    `kill=False` lets run times pass the request; `least_run=0` lets jobs end in the second of their start.
    """
    step = draw(st.sampled_from([5, 5, 60, 600]))
    row = st.tuples(
        st.integers(0, 8),  # submit
        st.one_of(st.integers(1, PROCS), st.integers(1, 3)),  # processors
        st.integers(1, 6),  # requested
        st.integers(least_run, 6 if kill else 15),  # run time
        st.integers(-1, 2),  # user
    )
    rows = draw(st.lists(row, min_size=1, max_size=most))
    ids = draw(st.permutations(range(1, len(rows) + 1)))
    jobs = [
        Job(job_id, step * submit, procs, step * asked, step * (min(asked, ran) if kill else ran), user)
        for job_id, (submit, procs, asked, ran, user) in zip(ids, rows, strict=True)
    ]
    first = min(job.submit for job in jobs)
    jobs = [replace(job, submit=job.submit - first) for job in jobs]
    return sorted(jobs, key=lambda job: (job.submit, job.job_id))


@st.composite
def workloads_with_estimates(draw, **about):
    """A workload and an estimate for each job: anything from 1 s to its request, often on the workload's own grid."""
    jobs = draw(workloads(**about))
    guesses = [draw(st.one_of(st.just(job.run_time), st.integers(1, job.requested))) for job in jobs]
    coarse = draw(st.booleans())
    return jobs, [max(1, min(5 * -(-g // 5) if coarse else g, j.requested)) for j, g in zip(jobs, guesses, strict=True)]


sources = st.sampled_from(["requested", "clairvoyant", "tsafrir"])
