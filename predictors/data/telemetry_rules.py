"""What the telemetry reader may drop, change or note, by rule, and where it met each first."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from predictors.data.account import N_PLACES, Account, Effect, Finding
from predictors.data.errors import JobcastError

RULES: Final[Mapping[str, tuple[Effect, str]]] = MappingProxyType(
    {
        "columns": ("dropped", "the line has not as many columns as the header"),
        "unfinished": ("dropped", "the file's last line does not end; it is still being written, or was cut short"),
        "no-time": ("dropped", "the time is missing or cannot be read"),
        "no-node": ("dropped", "the producer's name ends in no number and there is no component_id; give `nodes`"),
        "other-node": ("dropped", "the producer is not among the `nodes` given"),
        "clock": ("dropped", "the time is more than an hour off those of the lines around it"),
        "twice": ("dropped", "a second reading of the same device at the same time; the first stands"),
        "late": (
            "dropped",
            "older than readings that were worked on, by more than what is put in order; are files of the same time?",
        ),
        "no-number": ("changed", "not a number, below 0 or too large; the value is unknown"),
        "gap": ("changed", "readings before it are lost: no rate across so long a time"),
        "reset": ("changed", "the counter went back: it began anew and gives no rate"),
        "restart": ("changed", "half of a device's counters went back: it began anew and gives no rates"),
        "saturated": ("changed", "the counter stands at its largest value: its rate is unknown"),
        "flagged": ("changed", "LDMS flagged the value as not valid; it is unknown"),
        "device-missing": ("changed", "not all devices of the node were read; their sum is unknown"),
        "wrap": ("noted", "the counter began again at 0 after its largest value; its rate is known"),
        "empty": ("noted", "the cell is empty; the value is unknown"),
        "first": ("noted", "a device's first reading; there is none before it to take a rate from"),
        "header": ("noted", "a header within the file; what follows is read by it"),
        "other-column": ("noted", "a column that holds none of the counters"),
        "no-counter": ("noted", "counters that no column holds; they are unknown"),
        "other-file": ("noted", "a file that is no telemetry, or of another sampler; not read"),
        "empty-file": ("noted", "a file without rows"),
    }
)


def table() -> str:
    """Return the rules as Markdown, which docs/telemetry.md holds."""
    rows = [f"| {rule} | {effect} | {text} |" for rule, (effect, text) in RULES.items()]
    return "\n".join(["| rule | effect | what it says |", "|---|---|---|", *rows]) + "\n"


class Losses:
    """Where the reader writes down what it met, over all files of a folder.

    Findings of a rule are counted over all files; the places are lines of the file in which it was met first.

    Parameters
    ----------
    source : str
        The folder.
    strict : bool
        Raise at the first thing that is dropped or changed.
    """

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source, self._strict = source, strict
        self._counts: dict[tuple[str, str], int] = {}
        self._firsts: dict[tuple[str, str], tuple[str, tuple[int, ...], str]] = {}

    def add(
        self, rule: str, file: str, lines: npt.ArrayLike = (), column: str = "", example: str = "", n: int = 0
    ) -> None:
        """Write down that `rule` was met in `lines` of a file, or `n` times where there are no lines."""
        where = np.sort(np.atleast_1d(np.asarray(lines, dtype=np.int64)))
        number = n or len(where)
        if not number:
            return
        effect, text = RULES[rule]
        if self._strict and effect != "noted":
            at = f":{where[0]}" if len(where) else ""
            raise JobcastError(
                f"{file}{at}: {rule}{f' {column}' if column else ''}{f', found {example!r}' if example else ''} "
                f"({text}). Mend it, or read without strict to have it handled so."
            )
        key = rule, column
        self._counts[key] = self._counts.get(key, 0) + number
        self._firsts.setdefault(key, (file, tuple(where[:N_PLACES].tolist()), example))

    def account(self) -> Account:
        """Return all that was met."""
        findings = []
        for (rule, column), count in self._counts.items():
            file, places, example = self._firsts[rule, column]
            effect, text = RULES[rule]
            where = f"{text}; first in {file}" if file else text
            findings.append(Finding(rule, effect, where, count, places, column=column, example=example))
        return Account(self._source, tuple(findings))
