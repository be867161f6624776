"""The engine and the oracle equal independently made schedules of real logs, job for job."""

import gzip
import hashlib

import numpy as np
import pytest

from jobcast import Workload, clean, figures, make_policy, read_log, simulate
from schedsim.workload.estimates import clairvoyant
from tests.by_hand.tsafrir import Tsafrir
from tests.oracle.easy import Job, rule_named
from tests.oracle.easy import simulate as simulate_slowly

# input, policy, estimates, correction: mean bounded slowdown, mean wait [s]
EXPECTED = {
    ("kth", "fcfs", "requested", "requested"): (6814.973310, 353776.41),
    ("kth", "easy", "requested", "requested"): (92.687654, 6834.59),
    ("kth", "easy", "clairvoyant", "requested"): (71.722385, 6327.68),
    ("kth", "easy-sjbf", "requested", "requested"): (69.393636, 5903.69),
    ("kth", "easy-sjbf", "clairvoyant", "requested"): (49.847242, 5435.81),
    ("kth", "easy-sjbf", "tsafrir", "requested"): (62.919520, 5655.26),
    ("kth", "easy-sjbf", "tsafrir", "incremental"): (63.434728, 6260.90),
    ("sdsc-sp2", "fcfs", "requested", "requested"): (13824.966972, 1535707.31),
    ("sdsc-sp2", "easy", "requested", "requested"): (87.760390, 20567.86),
    ("sdsc-sp2", "easy", "clairvoyant", "requested"): (70.413613, 17330.03),
    ("sdsc-sp2", "easy-sjbf", "requested", "requested"): (82.951076, 20416.67),
    ("sdsc-sp2", "easy-sjbf", "clairvoyant", "requested"): (56.767515, 16299.95),
    ("sdsc-sp2", "easy-sjbf", "tsafrir", "requested"): (70.869513, 19143.26),
    ("sdsc-sp2", "easy-sjbf", "tsafrir", "incremental"): (83.630749, 24670.22),
    ("curie", "fcfs", "requested", "requested"): (5959.099296, 175288.52),
    ("curie", "easy", "requested", "requested"): (228.512012, 7063.70),
    ("curie", "easy", "clairvoyant", "requested"): (69.925935, 4946.12),
    ("curie", "easy-sjbf", "requested", "requested"): (186.383636, 5804.55),
    ("curie", "easy-sjbf", "clairvoyant", "requested"): (11.682745, 2765.09),
    ("curie", "easy-sjbf", "tsafrir", "requested"): (36.471609, 5728.59),
    ("curie", "easy-sjbf", "tsafrir", "incremental"): (248.660820, 27698.17),
    ("lublin256", "fcfs", "requested", "requested"): None,
    ("lublin256", "easy", "requested", "requested"): (590.054, 97156),
}
MACHINES = {"kth": 100, "sdsc-sp2": 128, "curie": 80_640, "lublin256": 256}


QUICK = ("lublin256", "easy", "requested", "requested")


def file_name(log, policy, estimates, correction):
    if estimates == "tsafrir":
        return f"{log}_easypp_{correction}.csv.gz"
    if policy == "conservative-compress":  # the same in batches: no tie in this log tells them apart
        policy = f"{policy}_perevent"
    return f"{log}_{policy}{'_clairvoyant' if estimates == 'clairvoyant' else ''}.csv.gz"


@pytest.fixture(scope="session")
def workload(reference, trace):
    loaded = {}

    def load(name):
        if name not in loaded:
            path = trace("CEA-Curie-2011-2.1-cln") if name == "curie" else reference(f"{name}.swf.gz")
            log, _ = read_log(path)
            loaded[name] = Workload.from_log(clean(log, procs=MACHINES[name])[0])
        return loaded[name]

    return load


def starts_in(path):
    with gzip.open(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=",", skiprows=1, dtype=np.int64)


def estimates_named(name, workload):
    if name == "tsafrir":
        return Tsafrir(workload.user, workload.requested)
    return clairvoyant(workload) if name == "clairvoyant" else workload.requested


LARGE = [case for case in EXPECTED if case[0] == "curie" and case[1:3] != ("easy", "requested")]
"""Slow: the same rules are tested on the smaller logs, and one of them on this one."""


@pytest.mark.parametrize(
    ("log", "policy", "estimates", "correction"),
    [pytest.param(*case, marks=pytest.mark.slow) if case in LARGE else case for case in EXPECTED],
)
def test_equals_reference(workload, reference, log, policy, estimates, correction):
    jobs = workload(log)
    schedule = simulate(jobs, make_policy(policy), estimates_named(estimates, jobs), correction)
    expected = starts_in(reference(file_name(log, policy, estimates, correction)))
    by_id = np.argsort(jobs.job_id)
    got = np.stack([jobs.job_id[by_id], schedule.start[by_id] + jobs.origin], axis=1)
    assert np.array_equal(got, expected[np.argsort(expected[:, 0])])
    if EXPECTED[log, policy, estimates, correction]:
        slowdown, wait = EXPECTED[log, policy, estimates, correction]
        found = figures(schedule)
        digits = 6 if log != "lublin256" else 3
        assert round(found["mean_bounded_slowdown"], digits) == slowdown
        assert found["mean_wait_s"] == pytest.approx(wait, abs=0.006 if digits == 6 else 0.6)


def jobs_of(path):
    """Cleaned jobs of an SWF file, by the rules of Gaussier et al. (SC'15), read without our own reader."""
    jobs = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.strip() and not line.startswith(";"):
                fields = [int(float(word)) for word in line.split()]
                job_id, submit, run_time, allocated, asked, requested, user = (
                    fields[i] for i in (0, 1, 3, 4, 7, 8, 11)
                )
                procs = asked if asked > 0 else allocated
                if min(run_time, procs, requested) > 0:
                    jobs.append(Job(job_id, submit, procs, requested, min(run_time, requested), user))
    return sorted(jobs, key=lambda job: (job.submit, job.job_id))


@pytest.mark.parametrize(
    ("log", "policy", "estimates", "correction", "most"),
    [
        (*QUICK, 2500),  # jobs; what starts before the next is submitted knows nothing of it
        *(
            pytest.param(*case, None, marks=pytest.mark.slow)
            for case in (*EXPECTED, ("lublin256", "conservative-compress", "requested", "requested"))
        ),
    ],
)
def test_the_oracle_equals_reference(reference, trace, log, policy, estimates, correction, most):
    jobs = jobs_of(trace("CEA-Curie-2011-2.1-cln") if log == "curie" else reference(f"{log}.swf.gz"))
    until, jobs = (np.inf if most is None else jobs[most].submit), jobs[:most]
    start = simulate_slowly(jobs, MACHINES[log], rule_named(policy), estimates, correction).start
    expected = dict(starts_in(reference(file_name(log, policy, estimates, correction))).tolist())
    found = {job.job_id: at for job, at in zip(jobs, start, strict=True) if at < until}
    assert found == {job_id: at for job_id, at in expected.items() if at < until}


def test_digests_keep_the_expectation(workload, reference):
    """The digests that stand in for the files where these are not at hand are of the starts in job id order."""
    jobs = workload("kth")
    schedule = simulate(jobs, make_policy("easy"))
    starts = (schedule.start + jobs.origin)[np.argsort(jobs.job_id)].astype("<i8")
    digests = dict(reversed(line.split()) for line in reference("SHA256").read_text().splitlines())
    assert hashlib.sha256(starts.tobytes()).hexdigest() == digests["kth_easy"]
