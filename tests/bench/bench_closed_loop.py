"""The closed loop on a real Slurm: the workloads of `jobcast experiment live` in accelerated time, beside simulations.

    python -m tests.bench.bench_closed_loop --out FILE [--seed N] [--runs N] [--speed N] [RULE…]   # default: all rules

Each job is submitted in its turn with the soft limit that a rule gives from what has ended on the cluster by then. Then
the same jobs, with the submissions, run times and soft limits of the cluster, are simulated: how far the waits differ.
Minutes a rule; it needs what the tests with the mark `slurm` need. One JSON document a line and run goes into FILE, and
what is there already is not run again, but for runs that a busy machine has spoilt. A run says how late its submissions
were and how long launches and ends took, in seconds of the cluster: that shows there.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from experiments.studies.closed_loop import CASES, REQUEST, Cluster
from jobcast import JobHistory, Workload, make_policy, make_predictor, simulate
from predictors.history.records import Job
from predictors.models.stream import OutcomeStream
from predictors.schedulers.slurm import Slurm
from schedsim.results.metrics import figures_of_waits
from tests.support.slurm.cluster import SlurmCluster

LATE = 300
"""A run is left out whose submissions were later than this, in the 95th percentile [s of the cluster]."""
PAD = 60  # a limit equal to the run time is outlived by the launch [s]
POLICIES = ("easy", "conservative-replan")


RULES = {case.name: case for case in CASES}
PERFECT = "clairvoyant"


def predictor_of(case):
    """Return the unfitted predictor of a rule, or None where it asks no predictor."""
    if case.name == REQUEST or case.estimates == PERFECT:
        return None
    if case.budget is None:
        return make_predictor(case.estimates)
    return make_predictor("with-budget", predictor=case.estimates, budget=case.budget)


class Rule:
    """Soft limits of one rule, learnt from what the queue shows."""

    def __init__(self, name):
        self.case = RULES[name]
        self.predictor = predictor_of(self.case)
        self.history = None if self.predictor is None else JobHistory(self.predictor.features)
        self.outcomes = None if self.predictor is None else OutcomeStream(self.predictor)
        self.seen, self.started = {}, {}

    def learn(self, jobs, number_of):
        """Take in the starts and ends that the queue shows and that were not seen before, in their order."""
        if self.history is None:
            return
        events = []
        for job in jobs:
            number, known = number_of.get(job.job_id), self.seen.get(job.job_id, 0)
            if number is None or job.start is None or job.state == "PENDING":
                continue
            if known < 1:
                events.append((job.start, 1, number, job.job_id))
            if known < 2 and job.state not in ("RUNNING", "COMPLETING") and job.end is not None:
                events.append((job.end, 2, number, job.job_id))
        for second, kind, number, job_id in sorted(events):
            self.outcomes.catch_up(second)
            if kind == 1:
                self.started[number] = second
                self.history.started(number, second)
                self.outcomes.started(number, second)
            else:
                self.history.ended(number, second, 1)
                self.outcomes.ended(number, second, float(second - self.started[number]))
            self.seen[job_id] = kind

    def soft(self, number, now, procs, requested, user, run_time):
        """Return the soft limit of a new job [s], or None."""
        if self.case.name == REQUEST:
            return None
        seconds = run_time + PAD
        if self.predictor is not None:
            row = self.history.submitted(Job(number, now, procs, requested, user), now)
            self.outcomes.catch_up(now)
            seconds = self.predictor.predict_one(row).seconds
            self.outcomes.submitted(number, row, seconds)
        return min(60 * math.ceil(seconds / 60), requested)


def played(log, rule, speed, folder):
    """Run a workload on a cluster; return arrays: submission, start, end and soft limit of each job [s]."""
    cluster = SlurmCluster("26.05", folder, speed=speed, more="MinJobAge=8640000\nMaxJobCount=5000")
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    try:
        cluster.up()
        slurm, number_of, soft, late = Slurm(), {}, [], []
        begin = time.monotonic()
        values = {name: log.values[name].tolist() for name in ("submit", "run_time", "requested_time", "user")}
        for row, (submit, run, asked, user) in enumerate(zip(*values.values(), strict=True)):
            time.sleep(max(0.0, begin + submit / speed - time.monotonic()))
            now = slurm.config().now
            rule.learn(slurm.queue().jobs, number_of)
            limit, procs = rule.soft(row, now, int(log.procs[row]), asked, user, run), int(log.procs[row])
            options = [f"-n{procs}", "-t", math.ceil(asked / 60)]
            options += [] if limit is None else [f"--time-min={limit // 60}"]
            number_of[cluster.submit(*options, seconds=run / speed)] = row
            late.append(speed * (time.monotonic() - begin) - submit)
            soft.append(asked if limit is None else limit)
        while True:
            jobs = [job for job in slurm.queue().jobs if job.job_id in number_of]
            if len(jobs) == len(log) and all(job.state not in ("PENDING", "RUNNING", "COMPLETING") for job in jobs):
                break
            time.sleep(1)
        jobs.sort(key=lambda job: number_of[job.job_id])
        odd = [f"{job.job_id} {job.state}" for job in jobs if job.state != "COMPLETED"]
        columns = np.array([(job.submit, job.start, job.end) for job in jobs], dtype=np.int64).T
        more = columns[2] - columns[1] - log.values["run_time"]
        machine = {"late_s": np.percentile(late, [50, 95]).tolist(), "launch_s": np.percentile(more, [50, 95]).tolist(),
                   "load": os.getloadavg()[1], "not_completed": odd}  # fmt: skip
        return (*columns, np.array(soft, dtype=np.int64)), machine
    finally:
        cluster.down()


def told(wait, run_time, procs):
    """Return the figures of waits that are compared."""
    found = figures_of_waits(wait, run_time, procs)
    names = ("mean_wait_s", "max_wait_s", "area_weighted_mean_wait_s", "mean_bounded_slowdown")
    wide, narrow = procs >= 16, procs <= 4
    return {name: found[name] for name in names} | {
        "wide_s": float(wait[wide].mean()), "narrow_s": float(wait[narrow].mean()),
    }  # fmt: skip


def compared(log, submit, start, end, soft):
    """Return the figures of the cluster and of simulations of the same jobs."""
    order = np.lexsort((np.arange(len(submit)), submit))
    run_time, procs, asked = (end - start)[order], log.procs[order], log.values["requested_time"][order]
    wait = (start - submit)[order]
    jobs = Workload.from_columns(
        np.arange(len(order)), submit=submit[order] - submit.min(), procs=procs, requested=asked,
        run_time=np.minimum(run_time, asked), machine_procs=32,
    )  # fmt: skip
    found = {"real": told(wait, run_time, procs), "soft_too_short": float((run_time > soft[order]).mean())}
    for policy in POLICIES:
        schedule = simulate(jobs, make_policy(policy), soft[order], "slurm")
        moved = np.abs(schedule.wait - wait)
        found[policy] = told(schedule.wait, run_time, procs) | {
            "mean_difference_s": float(moved.mean()), "median_difference_s": float(np.median(moved)),
        }  # fmt: skip
    return found


def rows_of(path):
    """Return the runs that a file holds."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_late(row):
    """Return whether a busy machine has spoilt a run."""
    return row.get("late_s", [0, 0])[1] > LATE


def main():
    """Play each rule until the file holds so many runs of it, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", default=[*RULES], metavar="RULE", help=", ".join(RULES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=int, default=240)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if unknown := [name for name in given.rules if name not in RULES]:
        parser.error(f"no rule {unknown[0]!r}; there are {', '.join(RULES)}")
    if given.out is None:
        sys.stdout.write("Left out: minutes of a real Slurm. Name --out FILE.\n")
        return
    warnings.simplefilter("ignore")
    log = Cluster().workload(given.seed)
    for number in range(1, given.runs + 1):
        for name in given.rules:
            key = {"rule": name, "seed": given.seed, "speed": given.speed}
            done = [row for row in rows_of(given.out) if key.items() <= row.items() and not is_late(row)]
            if len(done) >= number:
                continue
            with tempfile.TemporaryDirectory(prefix="jobcast-") as scratch:
                Rule(name).soft(0, 0, 1, 600, 1, 60)  # what is compiled is compiled before the clock runs
                begin = time.monotonic()
                columns, machine = played(log, Rule(name), given.speed, Path(scratch) / "bin")
            row = {**key, "seconds": time.monotonic() - begin, **machine, **compared(log, *columns)}
            with given.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            sys.stdout.write(f"{name}, run {number}: {machine}, {row['real']}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
