"""What the code computes now, kept: digests of arrays, and texts and tables that a difference can be read from.

Results must stay equal bit for bit when code is moved, renamed or made faster. A test hands its result to `pinned`,
which compares it with what is stored in `tests/data/digests`. A result that is meant to change is stored anew:

    JOBCAST_REPIN=1 .venv/bin/python -m pytest tests/digests -k NAME        # only what -k selects; never with -n

Then say under *Numbers* in CHANGES.md which figures move, and why.
"""

import difflib
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

STORED = Path(__file__).parents[1] / "data" / "digests"
VARIABLE = "JOBCAST_REPIN"
MOST_LINES = 60


def digest(*arrays):
    """Return the SHA-256 of arrays, the same on every machine: kinds, shapes, little-endian values of 64 bits."""
    told = hashlib.sha256()
    for array in map(np.asarray, arrays):
        if array.dtype.kind in "biu":
            array = array.astype("<i8")
        elif array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.nan, array).astype("<f8")  # one NaN, whatever its bits were
        else:
            array = np.frombuffer(json.dumps(array.tolist(), ensure_ascii=True).encode(), dtype=np.uint8)
        told.update(f"{array.dtype.kind}{array.shape};".encode())
        told.update(np.ascontiguousarray(array).tobytes())
    return told.hexdigest()


def of_schedule(schedule):
    """Return what is pinned of a schedule: one digest of start, end and how each job started, and two figures."""
    return {
        "sha256": digest(schedule.start, schedule.end, schedule.started_by),
        "sum_wait_s": int(schedule.wait.sum()),
        "last_end_s": int(schedule.end.max()),
    }


def of_table(frame):
    """Return what is pinned of a data frame: its columns, and one digest of their values."""
    return {"columns": list(frame.columns), "sha256": digest(*(frame[name].to_numpy() for name in frame.columns))}


def pinned(file, name, found):
    """Compare a result with the one stored under a name, or store it anew.

    Parameters
    ----------
    file : str
        Of `tests/data/digests`, without its suffix.
    name : str
        Tells this result from all others of the file.
    found : object
        Anything that JSON holds.

    Raises
    ------
    AssertionError
        If there is no such result, or it differs; the message tells which, how, and what to do.
    """
    path = STORED / f"{file}.json"
    found = json.loads(json.dumps(found))
    stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if os.environ.get(VARIABLE):
        if "PYTEST_XDIST_WORKER" in os.environ:
            pytest.exit(f"{VARIABLE} stores one result after the other: leave out -n.")
        stored[name] = found
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, indent=1, sort_keys=True, ensure_ascii=True) + "\n", encoding="utf-8")
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "tests/digests").rpartition(" (")[0]
    way_out = (
        f"If that is meant: {VARIABLE}=1 .venv/bin/python -m pytest '{test}', and say under *Numbers* in CHANGES.md "
        "which figures move."
    )
    assert name in stored, f"{name}: nothing is pinned under this name in {path.name}. {way_out}"
    if found != stored[name]:
        was, now = (json.dumps(one, indent=1, sort_keys=True).splitlines() for one in (stored[name], found))
        lines = list(difflib.unified_diff(was, now, "pinned", "found", n=2, lineterm=""))
        more = f"\n… {len(lines) - MOST_LINES} lines more" if len(lines) > MOST_LINES else ""
        shown = "\n".join(lines[:MOST_LINES])
        pytest.fail(f"{name}: differs from what is pinned in {path.name}. {way_out}\n{shown}{more}", pytrace=False)
