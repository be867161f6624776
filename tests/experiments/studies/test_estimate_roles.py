"""What perfect knowledge of single roles would buy: the ends of the scale are runs that stand elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from predictors.data.cleaning import clean
from predictors.data.synthetic.generate import generate_log
from predictors.models.similar_jobs import make_revised_estimates
from schedsim.engine.simulation import simulate
from schedsim.policies.orders import Order
from schedsim.policies.policy import BALANCED, FCFS, make_policy
from schedsim.workload.estimates import clairvoyant
from schedsim.workload.workload import Workload
from tests.bench.estimate_roles import cases, due_after


@pytest.fixture(scope="module")
def queue():
    log, _ = clean(generate_log(400, seed=3, load=1.0))
    workload = Workload.from_log(log)
    return log, workload, simulate(workload, make_policy("easy"))


def test_no_known_role_is_balanced_all_are_clairvoyant_and_single_ones_differ(queue):
    log, workload, easy = queue
    starts = {name: make().start for name, make in cases(log, workload, easy).items()}
    plain = simulate(workload, BALANCED, make_revised_estimates("balanced").forecast(log))
    assert np.array_equal(starts["balanced"], plain.start)
    known = simulate(workload, BALANCED, clairvoyant(workload))
    assert np.array_equal(starts["true run times: all roles"], known.start)
    assert len({start.tobytes() for start in starts.values()}) == len(starts) == 6


def test_due_long_ago_is_first_come_and_due_never_is_the_priority_alone(queue):
    _, workload, easy = queue
    never = Order.by_priority(replace(BALANCED.order.priority, grace=None, share=0.0))
    for seconds, order in ((-(10**9), FCFS), (10**9, never)):
        found = simulate(workload, due_after(easy, seconds), workload.requested)
        assert np.array_equal(found.start, simulate(workload, replace(BALANCED, order=order), workload.requested).start)
