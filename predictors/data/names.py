"""Names behind codes, and another log of the same machine in the same codes.

Each file with names numbers them in the order of their first use. A code with a name stands for the name; a code
without a name is the number itself, as in the Standard Workload Format.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError
from predictors.data.joblog import UNKNOWN, JobLog

MOST_NAMES: Final = 100_000  # names kept of a column, the newest jobs': as many as a history's groups of a kind
_MOST_CODES: Final = 1 << 26
_MOST_NUMBER: Final = 1_000_000  # where numbers and names are mixed, new names come after the greatest number


@dataclass(frozen=True)
class Codes:
    """The names behind the codes of one column.

    >>> log = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9], "user": [1, 0]}, {},
    ...                           categories={"user": ("ana", "ben")})
    >>> Codes.of(log, "user")
    Codes(names={'ana': 0, 'ben': 1}, free=2)
    """

    names: Mapping[str, int] = field(default_factory=dict)  # the code of each name
    free: int = 0  # the first code that is not in use; 0 if none is known

    def __post_init__(self) -> None:
        codes = list(self.names.values())
        whole = all(isinstance(code, int) and not isinstance(code, bool) for code in (*codes, self.free))
        most = min(self.free, _MOST_CODES) if whole else 0
        if not whole or len(set(codes)) < len(codes) or not all(0 <= code < most for code in codes):
            raise JobcastError("The names of a log have codes from 0 on, each its own, below the first free one.")

    @classmethod
    def of(cls, log: JobLog, column: str) -> Self:
        """Return the names of a log's column; a name that two codes share names neither."""
        texts = log.names(column)
        often = Counter(texts)
        named = {name: code for code, name in enumerate(texts) if name and often[name] == 1}
        return cls(named, max(len(texts), int(log.filled(column).max(initial=-1)) + 1))

    @property
    def forgot(self) -> bool:
        """Whether names may be missing, so that any code below the first free one may be in use."""
        return len(self.names) >= MOST_NAMES

    def newest(self, log: JobLog, column: str, most: int = MOST_NAMES) -> Self:
        """Return the `most` names that the newest jobs of the log have."""
        if len(self.names) <= most:
            return self
        last = np.full(self.free, -1, dtype=np.int64)
        rows = np.flatnonzero(log.known(column))
        np.maximum.at(last, log.filled(column)[rows], rows)
        kept = sorted(self.names.items(), key=lambda one: (-last[one[1]], one[1]))[:most]
        return type(self)(dict(sorted(kept, key=lambda one: one[1])), self.free)

    def texts(self) -> tuple[str, ...]:
        """Return the name behind each code, as `JobLog.categories` has them; "" where there is none."""
        by_code = {code: name for name, code in self.names.items()}
        return tuple(by_code.get(code, "") for code in range(max(by_code, default=-1) + 1))

    def to_json(self) -> dict[str, Any]:
        return {"names": dict(self.names), "free": self.free}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Self:
        return cls({str(name): code for name, code in about["names"].items()}, about["free"])


def codes_of(log: JobLog, columns: Sequence[str]) -> dict[str, Codes]:
    """Return the names behind the codes of some columns: the newest `MOST_NAMES` names of each."""
    return {column: Codes.of(log, column).newest(log, column) for column in columns}


def renumbered(
    log: JobLog,
    known: Mapping[str, Codes],  # the other log's codes, by column
    whose: str = "the model",  # the owner of those codes, for messages
) -> JobLog:
    """Return the same log with the codes of another in the columns of `known`.

    A name gets the code that it has there, a new name a code that is free, in the order of the log's own codes. Numbers
    without a name stay as they are. A log that has names where the other has numbers, or the reverse, is refused: its
    users cannot be matched.

    >>> march = JobLog.from_columns({"job_id": [1, 2], "submit": [0, 9], "user": [0, 1]}, {},
    ...                             categories={"user": ("ana", "ben")})
    >>> april = JobLog.from_columns({"job_id": [3, 4], "submit": [0, 9], "user": [0, 1]}, {},
    ...                             categories={"user": ("cem", "ana")})
    >>> both = renumbered(april, codes_of(march, ["user"]))
    >>> both["user"].tolist(), both.names("user")
    ([2, 0], ('ana', 'ben', 'cem'))
    """
    changed, names = {}, dict(log.categories)
    for column, codes in known.items():
        own = Codes.of(log, column)
        values, is_known = log.filled(column), log.known(column)
        used = np.unique(values[is_known])
        if not codes.free or not len(used):
            continue
        new = _new_codes(used.tolist(), own, codes)
        if new is None:
            raise names_against_numbers(log, column, not codes.names, whose)
        if not codes.names and not own.names:
            continue
        in_new = np.array([new[code] for code in used.tolist()], dtype=np.int64)
        changed[column] = np.where(is_known, _looked_up(values, used, in_new), UNKNOWN)
        names[column] = _names(own, codes, new)
    return replace(log, values={**log.values, **changed}, categories=names) if changed else log


def new_names(log: JobLog, known: Mapping[str, Codes]) -> dict[str, tuple[int, int]]:
    """Return how many names of a log's jobs are known, and how many are new, by column; none where there are no names.

    >>> april = JobLog.from_columns({"job_id": [3, 4], "submit": [0, 9], "user": [0, 1]}, {},
    ...                             categories={"user": ("cem", "ana")})
    >>> new_names(april, {"user": Codes({"ana": 0}, 1)})
    {'user': (1, 1)}
    """
    counts = {}
    for column, codes in known.items():
        used = set(np.unique(log.filled(column)[log.known(column)]).tolist())
        names = [name for name, code in Codes.of(log, column).names.items() if code in used]
        if names:
            there = sum(name in codes.names for name in names)
            counts[column] = there, len(names) - there
    return counts


def _new_codes(used: Sequence[int], own: Codes, codes: Codes) -> dict[int, int] | None:
    """Return the new code of each old one in use; None if they cannot be matched."""
    name_of = {code: name for name, code in own.names.items()}
    numbers = {code for code in used if code not in name_of}
    taken = {code for code in numbers if code < codes.free} if codes.forgot else set(codes.names.values())
    strangers = numbers & taken if own.names else numbers if codes.names else set()
    if strangers or (own.names and not codes.names and len(numbers) < len(used)):
        return None
    free = max(codes.free, max(numbers, default=-1) + 1)
    if numbers and own.names and free > _MOST_NUMBER:
        return None
    new = {code: code for code in numbers}
    for code in used:
        if code in name_of:
            there = codes.names.get(name_of[code])
            new[code], free = (free, free + 1) if there is None else (there, free)
    return new


def _names(own: Codes, codes: Codes, new: Mapping[int, int]) -> tuple[str, ...]:
    names = {**codes.names, **{name: new[code] for name, code in own.names.items() if code in new}}
    return Codes(names, max(names.values(), default=-1) + 1).texts()


def _looked_up(values: Ints, used: Ints, in_new: Ints) -> Ints:
    return in_new[np.minimum(np.searchsorted(used, values), len(used) - 1)]


def names_against_numbers(log: JobLog, column: str, names: bool, whose: str) -> JobcastError:
    """Return the error for a log that has names, or else numbers, where others have the other."""
    own, other = ("names", "numbers") if names else ("numbers", "names")
    return JobcastError(
        f"{log.name}: has {own} for its {column}s where {whose} goes by {other}, and they cannot be matched; both "
        "need names, or both the same numbers."
    )
