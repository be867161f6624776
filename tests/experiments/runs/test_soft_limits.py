"""The soft limits of a simulation are those that the adapter would set, job for job, and look not ahead."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.cli.options.shared import LooksOptions
from experiments.cli.set_up import looks_of
from experiments.runs.policies import NamedPolicy
from experiments.runs.simulate import NamedSimulation, soft_limits_by_name
from experiments.runs.soft_limits import GivenBounds
from jobcast import JobcastError, generate_log
from predictors.schedulers.adapter import SHADOW, Adapter
from predictors.schedulers.embedded import Embedded
from predictors.schedulers.journal import WOULD_CLEAR, WOULD_SET, Journal, read_journal
from predictors.schedulers.slurm_text import OPTION, Config, Rows
from predictors.schedulers.soft_limit import SiteRules
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from schedsim.engine.simulation import Simulation
from schedsim.policies.policy import make_policy
from schedsim.workload.soft_limits import Looks
from schedsim.workload.workload import Workload

EPOCH = 1_756_684_800  # 2025-09-01 00:00 UTC
LOOKS = Looks(SiteRules(pad_minutes=3, lower_share=0.05), every=120)


@pytest.fixture(scope="module")
def log():
    return replace(generate_log(160, seed=3, users=4), epoch=EPOCH)


def simulated(log, estimates="similar", looks=LOOKS, policy="easy"):
    """Return a schedule, and the soft limits that were set while it was made."""
    workload = Workload.from_log(log)
    limits = soft_limits_by_name(estimates, log, workload, "slurm", looks=looks)
    simulation = Simulation(workload, make_policy(policy), limits, "slurm")
    simulation.run()
    return simulation.schedule(), limits


class Replayed:
    """A scheduler whose queue is that of a schedule at a second; nothing is written."""

    def __init__(self, schedule, limits):
        self.schedule, self.job, self.now = schedule, limits._bounds.job, 0

    def config(self):
        return Config(EPOCH + self.now, (26, 5, 5), "t", frozenset({OPTION}), "sched/backfill")

    def queue(self):
        s, found = self.schedule, []
        for row in np.flatnonzero((s.workload.submit < self.now) & (s.end > self.now - 86_400)).tolist():
            state = "COMPLETED" if s.end[row] <= self.now else "RUNNING" if s.start[row] < self.now else "PENDING"
            times = {"submit": EPOCH + int(s.workload.submit[row])}
            times |= {} if state == "PENDING" else {"start": EPOCH + int(s.start[row])}
            times |= {"end": EPOCH + int(s.end[row])} if state == "COMPLETED" else {}
            found.append(replace(self.job(row), job_id=row + 1, state=state, **times))
        return Rows(tuple(found))

    def ended_since(self, second):
        return None

    def reservations(self):
        return ()

    def partitions(self):
        return {}


@pytest.mark.slow
def test_the_adapter_decides_the_same_on_the_same_queue(log, tmp_path):
    schedule, limits = simulated(log)
    settings = Settings(model="similar", db=f"sqlite:///{tmp_path / 's.db'}", machine_procs=log.max_procs)
    scheduler, forecaster = Replayed(schedule, limits), Embedded(settings, Pseudonymiser())
    times = np.concatenate([schedule.workload.submit, schedule.start, schedule.end])
    polls = np.unique(times // LOOKS.every + 1)
    try:
        with Journal(tmp_path / "journal") as journal:
            adapter = Adapter(scheduler, forecaster, journal, LOOKS.rules, SHADOW)
            for poll in np.unique([polls, polls + 1]).tolist():  # and where nothing has happened
                scheduler.now = poll * LOOKS.every
                assert adapter.cycle().troubles == []
    finally:
        forecaster.close()
    decided = [
        (one["at"] - EPOCH, one["job"] - 1, one["minutes"])
        for one in read_journal(tmp_path / "journal")
        if one["what"] in (WOULD_SET, WOULD_CLEAR)
    ]
    assert sorted(decided) == sorted(map(tuple, limits.changes))
    assert len({row for _, row, _ in decided}) > 30 < len(decided) - 10, "they change while jobs wait"


def test_a_limit_knows_only_what_had_ended_before_its_poll(log):
    """Other run times of what ends after a poll change nothing until then."""
    schedule, limits = simulated(log)
    moment = limits.changes[len(limits.changes) // 2].at
    other = {
        **log.values,
        "run_time": np.where(schedule.end > moment, log.values["requested_time"], log.values["run_time"]),
    }
    changed = simulated(replace(log, values=other))[1]
    until = [[one for one in each.changes if one.at <= moment] for each in (limits, changed)]
    assert until[0] == until[1] and limits.changes != changed.changes
    assert simulated(log)[1].changes == limits.changes


def test_a_copy_goes_on_by_itself(log):
    def started():
        workload = Workload.from_log(log)
        limits = soft_limits_by_name("last-two", log, workload, "slurm", looks=LOOKS)
        return Simulation(workload, make_policy("easy"), limits, "slurm"), limits

    (whole, limits), (part, _) = started(), started()
    whole.run()
    part.run(until=int(whole.workload.submit[80]))
    twin = part.fork()
    part.run()
    twin.run()
    assert twin.schedule().start.tolist() == part.schedule().start.tolist() == whole.schedule().start.tolist()
    assert np.isfinite(limits.seconds).any()


def test_each_kind_of_source_gives_limits_in_whole_minutes(log):
    requested = log.values["requested_time"]
    for estimates in ("clairvoyant", "cesnet"):
        schedule, limits = simulated(log, estimates)
        given = limits.seconds[np.isfinite(limits.seconds)]
        assert (
            len(given) and (given % 60 == 0).all() and (limits.seconds < requested)[np.isfinite(limits.seconds)].all()
        )
        polls = np.array([one.at for one in limits.changes])
        rows = [one.row for one in limits.changes]
        assert (polls % LOOKS.every == 0).all()
        assert (schedule.workload.submit[rows] < polls).all() and (polls <= schedule.start[rows]).all()
    assert limits.figures(log.values["run_time"])["soft_too_short"] > 0
    assert not simulated(log, "requested")[1].changes


def test_a_budget_gives_limits_too(log):
    named = NamedSimulation(log, NamedPolicy.of("easy"), "last-two", "slurm", budget=0.2, soft_limits="slurm")
    assert named.run()[1]["soft_set"] > 0


def test_options_on_the_adapter_need_soft_limits():
    with pytest.raises(JobcastError, match="--rules and --every are for --soft-limits"):
        looks_of(LooksOptions(every=30), None)
    assert looks_of(LooksOptions(every=30), "slurm") == Looks(every=30)


def test_the_partition_is_that_of_the_column_that_tells_it(log):
    values = {**log.values, "partition": np.zeros(len(log), dtype=np.int64), "queue": np.full(len(log), -1)}
    told = replace(log, values=values, categories={**log.categories, "partition": ("gpu",)})
    assert GivenBounds(told, values["run_time"]).job(0).partition == "gpu"
