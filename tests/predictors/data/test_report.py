"""The account of what was dropped or changed."""

import json

import pytest

from predictors.core.errors import JobcastError
from predictors.data.report import Finding, ReadingReport, ReportBuilder

RULES = {
    "short": ("dropped", "a row has 18 fields"),
    "negative": ("changed", "read as unknown"),
    "fraction": ("noted", "rounded"),
}


def account() -> ReadingReport:
    ledger = ReportBuilder("a.swf", RULES)
    ledger.add("fraction", [2], "wait", "1.5")
    ledger.add("negative", [40, 31], "wait", "-7")
    ledger.add("short", range(50, 60))
    ledger.add("negative", [12], "run_time", "-9")
    return ledger.close()


def test_counts_and_order() -> None:
    found = account()
    assert (found.dropped, found.changed, found.noted) == (10, 3, 1)
    assert [finding.effect for finding in found.findings] == ["dropped", "changed", "changed", "noted"]
    assert found.count("negative") == 3
    assert found.count("nothing") == 0


def test_only_the_first_places_are_kept_in_order() -> None:
    short, wait = account().findings[:2]
    assert short.places == (50, 51, 52, 53, 54)
    assert short.where() == "lines 50, 51, 52, 53, 54, …"
    assert wait.places == (31, 40)
    assert wait.where() == "lines 31, 40"


def test_no_places_nothing_written() -> None:
    ledger = ReportBuilder("a.swf", RULES)
    ledger.add("short", [])
    assert ledger.close() == ReadingReport("a.swf")
    assert "nothing dropped" in str(ledger.close())


def test_sum_joins_equal_rules_and_keeps_the_example_of_the_first_place() -> None:
    one = ReadingReport("a.swf", (Finding("negative", "changed", "t", 1, (9,), column="wait", example="-9"),))
    two = ReadingReport("b.swf", (Finding("negative", "changed", "t", 2, (3, 7), column="wait", example="-3"),))
    both = one + two
    assert both == ReadingReport(
        "a.swf", (Finding("negative", "changed", "t", 3, (3, 7, 9), column="wait", example="-3"),)
    )


def test_places_of_different_kinds_are_not_joined() -> None:
    line = ReadingReport("a", (Finding("short", "dropped", "t", 1, (9,)),))
    job = ReadingReport("a", (Finding("short", "dropped", "t", 1, (9,), place="job"),))
    assert len((line + job).findings) == 2


def test_dict_is_json_and_complete() -> None:
    found = json.loads(json.dumps(account().to_dict()))
    assert (found["dropped"], found["changed"], found["noted"]) == (10, 3, 1)
    assert found["findings"][0] == {
        "effect": "dropped",
        "rule": "short",
        "column": None,
        "count": 10,
        "place": "line",
        "first": [50, 51, 52, 53, 54],
        "example": None,
        "text": "a row has 18 fields",
    }


def test_a_finding_is_checked() -> None:
    with pytest.raises(JobcastError, match="did you mean 'dropped'"):
        Finding("short", "droped", "t")  # type: ignore[arg-type]
    with pytest.raises(JobcastError, match="at least one"):
        Finding("short", "dropped", "t", 0)
