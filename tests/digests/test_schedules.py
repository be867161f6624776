"""Schedules are those that are pinned: every policy by every kind of estimates, on a synthetic log and on real ones.

The first jobs of a log are simulated under all policies, whole logs under those that finish within seconds each. See
`tests.digests.pins` on how to store anew.
"""

import json
from functools import lru_cache

import numpy as np
import pytest

from experiments.runs.simulate import run_by_name
from jobcast import Workload, clean, generate_log, read_log
from schedsim.kernels.corrections import CORRECTIONS
from tests.digests.pins import STORED, of_schedule, pinned
from tests.support.engine_runs import EVERY_POLICY

ALL = [*EVERY_POLICY, "ceil", "easy+ceil", "easy-sjbf+promise+ceil"]
ESTIMATES = {"requested": "requested", "clairvoyant": "requested", "last-two": "incremental", "careful": "requested"}
"""Estimates, with what replaces those that expire."""
PAIRS = [
    (policy, estimates)
    for policy in ALL
    for estimates in ESTIMATES
    if (policy, estimates) != ("conservative-compress", "careful")  # refused: it keeps reservations by old estimates
]
NAMES = [f"{policy}-by-{estimates}" for policy, estimates in PAIRS]
KTH = "KTH-SP2-1996-2.1-cln"
OTHERS = (  # NASA-iPSC has no requested times, and nothing can be planned by them
    "ALCF-Theta-2022.cqsim",
    "CEA-Curie-2011-2.1-cln",
    "HPC2N-2002-2.2-cln",
    "LLNL-Thunder-2007-1.1-cln",
    "SDSC-SP2-1998-4.2-cln",
)


@lru_cache(maxsize=2)
def made(path, first):
    """Return a log, or its first jobs, as it is simulated, with its workload; without a path the synthetic one."""
    log = generate_log(2000, seed=1, load=0.9) if path is None else read_log(path)[0]
    log = clean(log, drop_wide=True)[0]
    if first is not None:
        log = log.select(np.arange(min(first, len(log))))
    return log, Workload.from_log(log)


def schedule_of(path, first, policy, estimates, correction=None, **more):
    """Return what is pinned of one simulation."""
    log, workload = made(path, first)
    correction = correction or ESTIMATES[estimates]
    return of_schedule(run_by_name(log, policy, estimates, correction, workload=workload, **more)[0])


@pytest.mark.parametrize(("policy", "estimates"), PAIRS, ids=NAMES)
def test_of_the_synthetic_log(policy, estimates):
    pinned("schedules_synthetic", f"{policy} by {estimates}", schedule_of(None, 2000, policy, estimates))


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "running on"])
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("policy", ["easy-sjbf", "careful", "conservative-compress", "hybrid-2", "cobalt"])
def test_of_corrections(policy, correction, kill):
    found = schedule_of(None, 2000, policy, "last-two", correction, kill=kill)
    pinned("schedules_synthetic", f"{policy} by last-two, {correction}, {'killed' if kill else 'running on'}", found)


@pytest.mark.parametrize(("policy", "estimates"), PAIRS, ids=NAMES)
def test_of_the_first_2000_jobs_of_kth(trace, policy, estimates):
    pinned("schedules_kth", f"{policy} by {estimates}", schedule_of(trace(KTH), 2000, policy, estimates))


# --- minutes: many jobs of every log ---------------------------------------------------------------------------------

WHOLE = [
    "fcfs", "sjf", "easy", "easy-sjbf", "wfp3-easy", "easy+promise", "conservative-compress", "careful",
    "hybrid-2+promise", "cobalt", "binpacking", "ceil",
]  # fmt: skip
"""Of whole logs; WFP3, UNICEP and replanning take up to minutes each for long queues, CEA-Curie's and HPC2N's."""
LARGE = ("CEA-Curie-2011-2.1-cln", "HPC2N-2002-2.2-cln")
"""Of 200,000 jobs and more; there the estimates `careful` take up to half a minute: for two policies alone."""
WHOLE_CASES = [
    (log, policy, estimates)
    for log in OTHERS
    for policy, estimates in PAIRS
    if policy in WHOLE and not (log in LARGE and estimates == "careful" and policy not in ("careful", "easy"))
]


ON_SEVERAL_LOGS = [
    (log, policy, some[(i + j) % len(some)])
    for j, policy in enumerate(ALL)
    for some in [[estimates for name, estimates in PAIRS if name == policy]]
    for i, log in enumerate(OTHERS)
]
"""Some case has each two of log, policy and estimates, which bring their correction."""


def test_no_case_is_lost():
    """A policy that is renamed in one place alone would leave its cases out, and their pins unread."""
    by_pair = [f"{policy} by {estimates}" for policy, estimates in PAIRS]
    cases = {
        "kth": by_pair,
        "5000": [f"{log}, {policy} by {estimates}" for log, policy, estimates in ON_SEVERAL_LOGS],
        "whole": [f"{KTH}, {pair}" for pair in by_pair]
        + [f"{log}, {policy} by {estimates}" for log, policy, estimates in WHOLE_CASES],
    }
    for file, names in cases.items():
        stored = json.loads((STORED / f"schedules_{file}.json").read_text(encoding="utf-8"))
        assert sorted(stored) == sorted(names), file
    for one, other in ((0, 1), (0, 2), (1, 2)):
        every = [(log, *pair) for log in OTHERS for pair in PAIRS]
        assert {(c[one], c[other]) for c in ON_SEVERAL_LOGS} == {(c[one], c[other]) for c in every}


@pytest.mark.slow
@pytest.mark.digests_whole
@pytest.mark.parametrize(("policy", "estimates"), PAIRS, ids=NAMES)
def test_of_kth(trace, policy, estimates):
    pinned("schedules_whole", f"{KTH}, {policy} by {estimates}", schedule_of(trace(KTH), None, policy, estimates))


@pytest.mark.slow
@pytest.mark.digests_whole
@pytest.mark.parametrize(
    ("log", "policy", "estimates"), ON_SEVERAL_LOGS, ids=["-".join(case) for case in ON_SEVERAL_LOGS]
)
def test_of_the_first_5000_jobs(trace, log, policy, estimates):
    pinned("schedules_5000", f"{log}, {policy} by {estimates}", schedule_of(trace(log), 5000, policy, estimates))


@pytest.mark.slow
@pytest.mark.digests_whole
@pytest.mark.parametrize(("log", "policy", "estimates"), WHOLE_CASES, ids=["-".join(case) for case in WHOLE_CASES])
def test_of_whole_logs(trace, log, policy, estimates):
    pinned("schedules_whole", f"{log}, {policy} by {estimates}", schedule_of(trace(log), None, policy, estimates))
