"""Estimates that change while jobs wait and run: the engine equals the oracle under every policy that takes them."""

from random import Random

import numpy as np
import pytest

from predictors.data.events import ENDED, STARTED, SUBMITTED
from schedsim.engine import simulate as simulate_fast
from schedsim.policy import make_policy
from schedsim.schedule import STARTED_BY
from tests.engine_runs import EVERY_POLICY, rule_of, workload_of
from tests.oracle import simulate
from tests.oracle_outlook import site_with
from tests.strategies import PROCS, seeded_workload

CORRECTIONS = ["requested", "incremental", "doubling"]


class Fickle:
    """Believes something else of two in five waiting jobs whenever a job has ended; ladders of up to three rungs."""

    rungs = 3

    def __init__(self, jobs, seed):
        self.jobs, self.seed, self.waiting, self.ended = jobs, seed, [], 0

    def fork(self):
        """Return a copy that learns on its own."""
        twin = Fickle(self.jobs, self.seed)
        twin.waiting, twin.ended = list(self.waiting), self.ended
        return twin

    def answer(self, row):
        """Draw three estimates, not always whole or within the request, and a ladder."""
        random, most = Random(f"{self.seed} {row} {self.ended}"), self.jobs[row].requested
        roles = [random.choice([random.randint(1, most), random.uniform(0.2, most * 1.2)]) for _ in range(3)]
        elapsed = sorted(random.sample(range(1, most + 4), random.randint(0, self.rungs)))
        ladder = [number for rung in elapsed for number in (rung, random.randint(1, most + 5))]
        return [row, *roles, *ladder, *([np.inf, 1.0] * (self.rungs - len(elapsed)))]

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


@pytest.mark.parametrize("name", [name for name in EVERY_POLICY if name != "conservative-compress"])
def test_engine_equals_oracle_under_revised_estimates(name):
    """Starts, kinds of start, first and last estimates; `conservative-compress` refuses such estimates."""
    for seed in range(25):
        jobs, correction = seeded_workload(seed, least_run=seed % 2), CORRECTIONS[seed % 3]
        found = simulate_fast(workload_of(jobs), make_policy(name), Fickle(jobs, seed), correction)
        site = site_with(Fickle(jobs, seed))
        expected = simulate(jobs, PROCS, rule_of(name, jobs), correction=correction, site_type=site)
        assert found.start.tolist() == expected.start, f"seed {seed}"
        assert found.estimate.tolist() == expected.estimate, f"seed {seed}"
        assert found.last_estimate.tolist() == expected.last_estimate, f"seed {seed}"
        assert [STARTED_BY[code] for code in found.started_by] == expected.started_by, f"seed {seed}"


def test_revisions_and_rungs_matter():
    """A comparison in which they did nothing would prove nothing."""
    moved = 0
    for seed in range(40):
        jobs = seeded_workload(seed)
        revised = simulate_fast(workload_of(jobs), make_policy("easy-sjbf"), Fickle(jobs, seed))
        first = [int(np.clip(Fickle(jobs, seed).answer(row)[1], 1, job.requested)) for row, job in enumerate(jobs)]
        moved += (
            revised.start.tolist()
            != simulate_fast(workload_of(jobs), make_policy("easy-sjbf"), np.array(first)).start.tolist()
        )
    assert moved > 10
