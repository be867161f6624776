"""What Slurm's words mean, whether sacct wrote them as text or as JSON."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from predictors.data.moments import MISSING
from predictors.data.records import CANCELLED, COMPLETED, FAILED

STATES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "COMPLETED": COMPLETED,
        "CANCELLED": CANCELLED,
        "FAILED": FAILED,
        "TIMEOUT": FAILED,
        "OUT_OF_MEMORY": FAILED,
        "NODE_FAIL": FAILED,
        "BOOT_FAIL": FAILED,
        "LAUNCH_FAILED": FAILED,
        "DEADLINE": FAILED,
        "PREEMPTED": FAILED,
        "REVOKED": CANCELLED,
        "REQUEUED": MISSING,
        "REQUEUED_HOLD": MISSING,
        "REQUEUE_FED": MISSING,
        "RESIZING": MISSING,
        "PENDING": MISSING,
        "CONFIGURING": MISSING,
        "RUNNING": MISSING,
        "COMPLETING": MISSING,
        "STAGE_OUT": MISSING,
        "SIGNALING": MISSING,
        "SUSPENDED": MISSING,
        "STOPPED": MISSING,
        "SPECIAL_EXIT": FAILED,
    }
)
"""SWF's status of each state of a job; `MISSING` where the job has not ended."""

PUT_BACK: Final = frozenset(
    ("REQUEUED", "REQUEUED_HOLD", "REQUEUE_FED", "RESIZING", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")
)
"""States in which a job may go back into the queue: if a later record of the job follows, it did."""

_SHORT: Final = MappingProxyType(
    {"CA": "CANCELLED", "CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT", "OOM": "OUT_OF_MEMORY"}
)
_JOB: Final = re.compile(r"([0-9]{1,18})(?:_([0-9]+|\[[^\]]*\].*)|\+([0-9]+))?(?:\.(.+))?")
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?([cn]?)", re.IGNORECASE)
_KILOBYTES: Final = MappingProxyType(
    {"": 1024.0, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}
)
_EXIT: Final = re.compile(r"([0-9]{1,9})(?::([0-9]{0,9}))?")
_SIGNAL: Final = 128


def state_of(text: str) -> str:
    """Return the bare state of a job.

    Examples
    --------
    >>> [state_of(text) for text in ("CANCELLED by 1004", "COMPLETED", "CANCELLED+", "TO")]
    ['CANCELLED', 'COMPLETED', 'CANCELLED', 'TIMEOUT']
    """
    word = text.split(" ")[0].rstrip("+").upper()
    if word in STATES:
        return word
    begun = [state for state in STATES if len(word) > 3 and state.startswith(word)]
    return begun[0] if len(begun) == 1 else _SHORT.get(word, word)


def is_step(job: str) -> bool:
    """Tell whether an id is a step's, such as `12.batch`, `12_3.extern` or `12.0`."""
    return "." in job


def array_of(job: str) -> int:
    """Return the number of the array that a job id such as `12_3` belongs to, `MISSING` if none."""
    match = _JOB.fullmatch(job)
    return int(match[1]) if match and match[2] is not None else MISSING


def members(job: str) -> int:
    """Return how many jobs a record stands for: several for an array whose members still wait, `12_[1-50%10]`.

    Examples
    --------
    >>> [members(job) for job in ("12", "12_3", "12_[1-50%10]", "12_[1,3,7-9]", "12_[0-10:5]")]
    [1, 1, 50, 5, 3]
    """
    match = _JOB.fullmatch(job)
    if not match or not match[2] or not match[2].startswith("["):
        return 1
    total = 0
    for part in match[2][1:].split("]")[0].split("%")[0].split(","):
        found = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?", part)
        if found:
            first, last = int(found[1]), int(found[2] or found[1])
            total += max(last - first, 0) // max(int(found[3] or 1), 1) + 1
    return max(total, 1)


def exit_code(text: str) -> int:
    """Return the exit code behind sacct's `code:signal`; 128 + signal where a signal ended the job.

    Examples
    --------
    >>> exit_code("3:0"), exit_code("0:11")
    (3, 139)
    """
    found = _EXIT.fullmatch(text)
    if found is None:
        return MISSING
    code, signal = int(found[1]), int(found[2] or 0)
    return _SIGNAL + signal if signal else code


def memory(text: str) -> tuple[float, str] | None:
    """Return the memory [KB] that sacct's `ReqMem` asks for, and whose it is; None if it cannot be read.

    `c` at the end says that it is a processor's, `n` a node's; "", as Slurm writes it from 21.08 on, that it is the
    whole job's. A number without K, M, G, T or P counts megabytes.

    Examples
    --------
    >>> [memory(text) for text in ("2Gc", "16000Mn", "512K", "7", "?")]
    [(2097152.0, 'c'), (16384000.0, 'n'), (512.0, ''), (7168.0, ''), None]
    """
    match = _MEMORY.fullmatch(text.removesuffix("?"))
    return (float(match[1]) * _KILOBYTES[match[2].upper()], match[3].lower()) if match else None


def unknown_states(states: Iterable[str]) -> list[str]:
    """Return the states that this table does not know."""
    return sorted({state for state in states if state and state not in STATES})
