"""Times and spans as schedulers write them, against the standard library's slow way."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.data.formats.columns import MISSING, span, timestamps, unix_time
from predictors.data.formats.parquet import text_array

TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1))
ZONES = st.integers(-12 * 4, 14 * 4).map(lambda quarter: timezone(timedelta(minutes=15 * quarter)))


@given(st.lists(TIMES, max_size=5), st.sampled_from([" ", "T"]))
def test_local_times(times: list[datetime], between: str) -> None:
    found = timestamps(text_array([time.isoformat(between) for time in times]))
    assert found.seconds.tolist() == [int(time.replace(tzinfo=UTC, microsecond=0).timestamp()) for time in times]
    assert not found.fixed.any()
    assert not len(found.bad)


@given(st.lists(st.tuples(TIMES, ZONES), max_size=5))
def test_times_with_offsets(times: list[tuple[datetime, timezone]]) -> None:
    zoned = [time.replace(tzinfo=zone, microsecond=0) for time, zone in times]
    for write in (datetime.isoformat, lambda t: t.strftime("%Y-%m-%d %H:%M:%S %z")):
        found = timestamps(text_array([write(time) for time in zoned]))
        assert found.seconds.tolist() == [int(time.timestamp()) for time in zoned]
        assert found.fixed.all()


def test_all_ways_in_one_column() -> None:
    texts = {
        "2021-03-27 10:00:00": 1_616_839_200, "2021-03-27T10:00:00Z": 1_616_839_200,
        "2021-03-27 10:00:00 UTC": 1_616_839_200, "2021-03-27 10:00:00 +0100": 1_616_835_600,
        "1616839200": 1_616_839_200, "1616839200.9": 1_616_839_200, "03/27/2021 10:00:00": 1_616_839_200,
        "Unknown": MISSING, "": MISSING, "2021-02-31 10:00:00": MISSING, "soon": MISSING,
    }  # fmt: skip
    found = timestamps(text_array(list(texts)))
    assert found.seconds.tolist() == list(texts.values())
    assert found.bad.tolist() == [9, 10]
    assert found.fixed.tolist() == [False, True, True, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/Chicago", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
def test_unix_time_of_a_zone(zone: str) -> None:
    from zoneinfo import ZoneInfo

    unix = np.arange(1_600_000_000, 1_640_000_000, 100_003)
    local = np.array(
        [int(datetime.fromtimestamp(t, ZoneInfo(zone)).replace(tzinfo=UTC).timestamp()) for t in unix.tolist()]
    )
    assert unix_time(local, zone).tolist() == unix.tolist()
    assert unix_time(np.array([MISSING]), zone).tolist() == [MISSING]


@given(st.integers(0, 10**6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_spans(days: int, hours: int, minutes: int, seconds: int) -> None:
    rest = hours * 3600 + minutes * 60 + seconds
    if days < 10**6:
        assert span(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == days * 86_400 + rest
    assert span(f"{hours}:{minutes:02}:{seconds:02}.750") == rest
    assert span(str(rest)) == rest
