"""The table of counters: as many as the paper counts, told apart, each moved by something that is known."""

from collections import Counter as Tally

import pytest

from predictors.core.errors import JobcastError
from predictors.data.telemetry.counters import COUNTER_NAMES, COUNTERS, DRIVERS, SAMPLERS, Counter, counters_of


def test_the_numbers_are_those_of_the_paper():
    assert [len(counters_of(sampler)) for sampler in SAMPLERS] == [22, 34, 34]
    assert [counter.sampler for counter in COUNTERS] == ["sysclassib"] * 22 + ["opa_info"] * 34 + [
        "lustre2_client"
    ] * 34


def test_no_two_counters_have_the_same_name_even_if_case_is_lost():
    assert len({name.lower() for name in COUNTER_NAMES}) == 90


def test_every_driver_moves_some_counter_and_load_moves_each_sampler():
    assert set(Tally(counter.driver for counter in COUNTERS)) == set(DRIVERS)
    for sampler in SAMPLERS:
        drivers = {counter.driver for counter in counters_of(sampler)}
        assert drivers & {"sent", "stall", "calls"} and drivers & {"noise", "none"}, sampler


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sampler": "opa2_info"}, "No sampler 'opa2_info'; did you mean 'opa_info'?"),
        ({"driver": "send"}, "No driver 'send'; did you mean 'sent'?"),
        ({"bits": 48}, "32 or 64 bits; got 48"),
        ({"scale": 0.0}, "a scale above 0"),
        ({"driver": "none"}, "or 0 with the driver none"),
        ({"scale": float("nan")}, "a scale above 0"),
    ],
)
def test_a_counter_that_makes_no_sense_is_refused(change, says):
    good = {"name": "a", "sampler": "opa_info", "driver": "sent", "scale": 1.0, "unit": "bytes", "meaning": "data"}
    assert Counter(**good).column == "a"
    with pytest.raises(JobcastError, match="(?s)" + says.replace("?", r"\?")):
        Counter(**good | change)
