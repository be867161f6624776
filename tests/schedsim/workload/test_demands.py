"""How jobs count on the nodes that they share, so that a node knows whether all its jobs are of one user."""

from random import Random

import numpy as np
import pytest

import schedsim.kernels.places.records as of
from predictors.core.errors import JobcastError
from schedsim.kernels.places.placement import joins_its_user
from schedsim.workload.demands import count_users


def test_a_job_joins_a_node_just_if_all_jobs_there_are_of_its_user():
    """By what jobs add to the count of a node, whatever their number and their users."""
    joined = 0
    for seed in range(3000):
        random = Random(seed)
        users = random.choice([1, 3, 40])
        keepers = np.array([random.randint(0, users) for _ in range(12)])
        shapes = np.zeros(12, of.DEMAND)
        shapes["exclusive"] = [random.random() < 0.3 for _ in keepers]
        counts = count_users(shapes, keepers, 8)
        there = [random.randrange(12)]
        while random.random() < 0.7 and len(there) < 8:
            there.append(random.choice([random.randrange(12), there[0]]))
        node = np.zeros(1, of.NODE)[0]
        node.n_jobs = shapes["joins"][there].sum()
        assert bool(node.n_jobs & shapes["guards"][0]) == shapes["exclusive"][there].any()
        for row in range(12):
            alike = keepers[row] > 0 and set(keepers[there].tolist()) == {int(keepers[row])}
            assert joins_its_user.py_func(counts, node, shapes[row]) == alike, seed
            joined += alike
    assert joined > 1000


def test_too_many_users_that_keep_nodes_are_refused():
    shapes = np.zeros(2, of.DEMAND)
    with pytest.raises(JobcastError, match="300,000 users keep nodes to their own jobs, on nodes that run 64 jobs"):
        count_users(shapes, np.array([1, 300_000]), 64)
