"""What the keys and values of a PBS or TORQUE accounting record mean."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from predictors.data import slurm
from predictors.data.moments import MISSING, span

_KEYS: Final = (
    "user|group|account|project|jobname|queue|ctime|qtime|etime|start|owner|exec_host|exec_vnode|hostlist|session|"
    "alt_id|end|Exit_status|run_count|runcount|requestor|array_indices|total_execution_slots|unique_node_count|"
    r"accounting_id|login_node|resvname|resvID|eligible_time|estimated\.\w+|Resource_List\.\w+|resources_used\.\w+"
)
_PAIR: Final = re.compile(rf"(?:^| )({_KEYS})=")
_BEFORE_NAME: Final = ("user", "group", "account", "project")
_SIGNAL: Final = 256
_SIZE_KEYS: Final = (
    *(f"Resource_List.{key}" for key in ("ncpus", "nodect", "select", "nodes")),
    "total_execution_slots",
)
_MANY: Final = 1 << 16


def pairs_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Return values by key, and the keys that come twice; a value runs to the next key that PBS knows.

    Of a key that PBS writes before the job's name the first counts, of the others the last: what lies between was
    written into the name by a user.

    Examples
    --------
    >>> pairs_of('user=ana jobname="my job" x=1 queue=fast')
    ({'user': 'ana', 'jobname': 'my job" x=1', 'queue': 'fast'}, [])
    """
    parts = _PAIR.split(text)
    keys, texts = parts[1::2], parts[2::2]
    found = dict(zip(keys, [value.strip('"') if value[:1] == '"' else value for value in texts], strict=True))
    if len(found) == len(keys):
        return found, []
    twice = [key for key in found if keys.count(key) > 1]
    found |= {key: texts[keys.index(key)] for key in twice if key in _BEFORE_NAME}
    return found, twice


def requested(pairs: Mapping[str, str]) -> tuple[int, int]:
    """Return processors and nodes asked for.

    Examples
    --------
    >>> requested({"Resource_List.select": "2:ncpus=8:mpiprocs=8+1:ncpus=4", "Resource_List.nodect": "3"})
    (20, 3)
    >>> requested({"Resource_List.nodes": "2:ppn=12+n7:ppn=4"})
    (28, 3)
    """
    return _requested(*(pairs.get(key, "") for key in _SIZE_KEYS))


@lru_cache(_MANY)
def _requested(ncpus: str, nodect: str, select: str, listed: str, slots: str) -> tuple[int, int]:
    procs, nodes = whole(ncpus), whole(nodect)
    for text, share in ((select, "ncpus"), (listed, "ppn")):
        if text:
            chunks = [_chunk(chunk, share) for chunk in text.split("+")]
            found = sum(count * each for count, each in chunks)
            # TORQUE writes ncpus=1 beside nodes=2:ppn=12.
            procs = found if share == "ppn" else max(procs, found)
            nodes = nodes if nodes > 0 else sum(count for count, _ in chunks)
    procs = whole(slots) if whole(slots) > 0 else procs
    return (procs if procs > 0 else MISSING), (nodes if nodes > 0 else MISSING)


def _chunk(text: str, share: str) -> tuple[int, int]:
    parts = text.split(":")
    each = next((int(p.split("=")[1]) for p in parts if re.fullmatch(rf"{share}=\d{{1,9}}", p)), 1)
    return max(whole(parts[0][:9]), 1), each


def given(pairs: Mapping[str, str]) -> int:
    """Return the processors given, as `exec_vnode` or `exec_host` list them.

    Examples
    --------
    >>> given({"exec_vnode": "(n1:ncpus=8:mem=4gb)+(n2:ncpus=4)"}), given({"exec_host": "n1/0*8+n2/0*4"})
    (12, 12)
    >>> given({"exec_host": "n1/0-11"}), given({"exec_host": "n1/1+n1/0+n2/0"})
    (12, 3)
    """
    vnodes = re.findall(r"ncpus=(\d{1,9})", pairs.get("exec_vnode", ""))
    if vnodes:
        return sum(map(int, vnodes))
    hosts = pairs.get("exec_host", "")
    if "/" not in hosts:
        return MISSING
    total = 0
    for host in hosts.split("+"):
        slots = host.partition("/")[2]
        starred = slots.partition("*")[2]
        if starred:
            total += max(whole(starred[:9]), 1)
        else:
            total += sum(_slots(part) for part in slots.split(","))
    return total if total > 0 else MISSING


def _slots(text: str) -> int:
    """Return how many slots of a host `0-11` or `3` are."""
    first, dash, last = text.partition("-")
    return max(whole(last) - whole(first), 0) + 1 if dash and min(whole(first), whole(last)) >= 0 else 1


def exit_code(text: str) -> int:
    """Return the exit code; 128 + n for a job that signal n ended, which PBS writes as 256 + n.

    Examples
    --------
    >>> [exit_code(text) for text in ("0", "3", "271", "-11")]
    [0, 3, 143, -11]
    """
    value = whole(text)
    return value - _SIGNAL + 128 if _SIGNAL < value < _SIGNAL + 128 else value


def whole(text: str) -> int:
    """Return a whole number, `MISSING` if the text is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else MISSING


@lru_cache(_MANY)
def seconds(text: str) -> int:
    """Return a span of time [s], `MISSING` if the text is none."""
    found = span(text) if text else None
    return MISSING if found is None else found


@lru_cache(_MANY)
def memory(text: str, procs: int) -> int:
    """Return memory a processor [KB]; a number without a suffix counts bytes.

    Examples
    --------
    >>> [memory(text, 4) for text in ("8gb", "4096kb", "1048576b", "")]
    [2097152, 1024, 256, -9223372036854775808]
    """
    found = re.fullmatch(r"(\d{1,15})([kmgtp]?)(b|w)?", text, re.IGNORECASE)
    if not found:
        return MISSING
    if not found[2]:
        return int(found[1]) * (8 if found[3] == "w" else 1) // 1024 // procs
    job = slurm.memory(f"{found[1]}{found[2].upper()}")
    return MISSING if job is None else int(min(job[0], 2.0**53)) // procs
