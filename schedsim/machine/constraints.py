"""Constraints: which nodes of a machine with features a job may use, by Slurm's `--constraint`.

They are read as slurmctld 26.11 reads it (`_feature_string2list` in job_scheduler.c,
`valid_feature_counts` and `_valid_features` in node_scheduler.c): `a&b` and `a,b` are nodes with both features, `a|b`
nodes with one of them, and parentheses, of one level, group. Neither operator binds closer: Slurm goes *strictly from
left to right*, so `a|b&c` is `(a|b)&c`. A name that no node of the machine has leaves no nodes, also behind `|`: Slurm
refuses such a job. Names differ by case; blanks around them do not count.

What is no set of nodes holds as far as single nodes tell, and stands in the account:

* Matching OR, `[a|b]`: all nodes of the job have `a`, or all have `b`. Here each has one; on one node that is the same.
* Counts, `a*4` or `[a*2&(b|c)*4]`: so many nodes have each. Here each node has one of them. Beyond the count of a
  single feature nodes may be any: a job of more nodes may use all.

Brackets stand once, with `&` alone around them, and counts fill the whole constraint; of other brackets Slurm skips
some of what they stand next to, and they are not read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from predictors.core.arrays import Bools

_NAME: Final = r"[^\s&|,()\[\]*]++"
_GROUP: Final = rf"(?:{_NAME}|\({_NAME}(?:[&|]{_NAME})*\))"
_PLAIN: Final = rf"{_GROUP}(?:[&|]{_GROUP})*"
_COUNT: Final = r"\*[1-9][0-9]{0,8}"
_FORMS: Final = tuple(  # one operator at the end says nothing, as in Slurm
    re.compile(rf"(?:{form})[&|]?")
    for form in (
        rf"(?P<plain>{_PLAIN})",
        rf"\[(?P<only>{_GROUP})\]",
        rf"(?:(?P<before>{_PLAIN})&)?\[(?P<choices>{_GROUP}(?:\|{_GROUP})+)\](?:&(?P<after>{_PLAIN}))?",
        rf"(?P<counted>{_NAME}{_COUNT}|\[{_GROUP}{_COUNT}(?:&{_GROUP}{_COUNT})*\])",
    )
)
NAME: Final = re.compile(_NAME)
_TERM: Final = re.compile(rf"([&|])({_GROUP})")


@dataclass(frozen=True)
class Constraint:
    """What a job's constraint says of its nodes."""

    plain: str = ""  # names, with & and | between them from left to right, and parentheses; "": every node
    choices: tuple[str, ...] = ()  # a matching OR, or what is counted: the same of each choice
    count: int = 0  # how many nodes are counted

    @property
    def covers(self) -> int:
        """To how many nodes of a job it applies, 0 for all: beyond the count of a single feature nodes may be any."""
        return self.count if len(self.choices) == 1 and not re.search("[&|]", self.choices[0]) else 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(NAME.findall("&".join((self.plain, *self.choices)))))

    @property
    def is_matching(self) -> bool:
        """Whether all nodes of a job must match the same one of several choices."""
        return self.count == 0 and len(self.choices) > 1

    def matched(self, having: Callable[[str], Bools]) -> Bools:
        """Return which nodes match what it says of single ones; `having` tells those with a feature.

        >>> has = {"a": np.array([True, False, False]), "b": np.array([False, True, False])}
        >>> has["c"] = np.array([False, True, True])
        >>> for text in ("a|b&c", "a|(b&c)", "[a|b]&c"):
        ...     print(read_constraint(text).matched(has.get))
        [False  True False]
        [ True  True False]
        [False  True False]
        """
        found = [_matched(self.plain, having)] if self.plain else []
        found += [np.logical_or.reduce([_matched(one, having) for one in self.choices])] if self.choices else []
        return np.logical_and.reduce(found) if found else np.array(True)


def _matched(plain: str, having: Callable[[str], Bools]) -> Bools:
    """Return the nodes that match names with operators, from left to right."""
    found: Bools = np.array(True)
    for operator, term in _TERM.findall(f"&{plain}"):
        nodes = _matched(term[1:-1], having) if term.startswith("(") else having(term)
        found = found & nodes if operator == "&" else found | nodes
    return found


def read_constraint(text: str) -> Constraint | None:
    """Return what a constraint says; None if it is none, or is not read (see above).

    >>> read_constraint("ib, (h100 | a100)").plain, read_constraint("[rack1|rack2]&ib").choices
    ('ib&(h100|a100)', ('rack1', 'rack2'))
    >>> read_constraint("[ib*2&(a|b)*4]").count, read_constraint("ib&&h100"), read_constraint("(ib")
    (6, None, None)
    """
    bare = re.sub(r"\s*([&|,()\[\]*])\s*", r"\1", text.strip()).replace(",", "&")
    if not bare:
        return Constraint()
    found = next((one for form in _FORMS if (one := form.fullmatch(bare))), None)
    if found is None:
        return None
    parts = found.groupdict("")
    if counted := parts.get("counted"):
        choices, counts = zip(*re.findall(rf"({_GROUP})\*(\d+)", counted), strict=True)
        return Constraint("", choices, sum(map(int, counts)))
    plain = "&".join(filter(None, (parts.get(part) for part in ("plain", "only", "before", "after"))))
    return Constraint(plain, tuple(re.findall(_GROUP, parts.get("choices", ""))))
