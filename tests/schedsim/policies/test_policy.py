"""A policy refuses parts of other types with our own error, whichever part it is."""

import pytest

from jobcast import Easy, JobcastError, Policy
from schedsim.policies.backfilling import Promise
from schedsim.policies.ceil import Ceiling, Postponing


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Policy(window="a"), "window must be 1 to 56 jobs; got 'a'"),
        (lambda: Policy(window=2.5), "got 2.5"),
        (lambda: Policy(window=True), "got True"),
        (lambda: Policy(order="fcfs"), "order is one of .*; got 'fcfs'"),
        (lambda: Policy(backfill=Easy("sjf")), "backfill order is one of .*; got 'sjf'"),
        (lambda: Policy(backfill="easy"), "backfills by .*; got 'easy'"),
        (lambda: Policy(backfill=Easy(), promise=60), r"promise is Promise\(…\) or None; got 60"),
        (lambda: Policy(backfill=Easy(), ceiling=0.9), r"ceiling is Ceiling\(…\) or None; got 0.9"),
        (lambda: Policy(backfill=Easy(), postpone=True), r"postpone is Postponing\(…\) or None; got True"),
        (lambda: Policy(gate=print), "gate is an object with a method ask"),
        (lambda: Easy(depth="2"), "got depth='2'"),
        (lambda: Promise("a"), "got 'a'"),
        (lambda: Ceiling("0.9"), "got '0.9'"),
        (lambda: Postponing(low="x"), "got 'x'"),
        (lambda: Postponing(lead="x"), "got 'x'"),
    ],
)
def test_a_part_of_another_type_is_refused(make, told):
    with pytest.raises(JobcastError, match=told):
        make()
