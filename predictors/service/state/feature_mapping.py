"""Mapping of the service's rows to a model's: its own columns, with users, groups, … in its own codes.

In the service a name is a keyed hash and a number is itself; a model that learnt from a log with names knows them by
that log's codes. A name that it has never seen stays the hash, and a number that is somebody's code there is moved away
from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from predictors.core.arrays import Floats
from predictors.core.errors import JobcastError
from predictors.data.names import Codes
from predictors.history.features import NAMELESS_FEATURES, codes_read
from predictors.models.base import Predictor
from predictors.service.pseudonyms import FIRST_NAME, Pseudonymiser


@dataclass(frozen=True, slots=True)
class _Table:
    place: int
    known: Mapping[float, float]
    taken: frozenset[float]
    below: int  # every code below it is taken, too
    free: int

    def code(self, code: float) -> float:
        if code >= FIRST_NAME:
            return self.known.get(code, code)
        return code + self.free if 0 <= code < self.below or code in self.taken else code


@dataclass(frozen=True, slots=True)
class FeatureMapping:
    """The columns and codes by which one model reads rows of every feature.

    >>> from predictors.registry import make_predictor
    >>> forest, key = make_predictor("forest"), Pseudonymiser()
    >>> forest.codes_ = {"user": Codes({"ana": 0, "ben": 1}, 2)}
    >>> row, mapping = np.zeros(len(NAMELESS_FEATURES)), FeatureMapping.of(forest, key)
    >>> found = []
    >>> for user in ("ben", "cem", 1):
    ...     row[NAMELESS_FEATURES.index("user")] = key.code(user)
    ...     found.append(mapping.one(row)[forest.features.index("user")])
    >>> found[0], found[1] == key.code("cem"), found[2]
    (np.float64(1.0), np.True_, np.float64(3.0))
    """

    columns: npt.NDArray[np.int64]  # where its features stand
    tables: tuple[_Table, ...] = ()  # codes of names, for each of its features with codes that it knows by name

    @classmethod
    def of(cls, predictor: Predictor, key: Pseudonymiser) -> Self:
        """Return how a predictor reads rows, names hashed; refuse one that reads what a service does not receive."""
        place = {name: i for i, name in enumerate(NAMELESS_FEATURES)}
        if absent := [name for name in predictor.features if name not in place]:
            raise JobcastError(
                f"{predictor.name}: reads {', '.join(absent)}, from names of jobs or predictions of the site, which "
                "the service does not receive; serve another predictor."
            )
        codes: Mapping[str, Codes] = vars(predictor).get("codes_", {})
        read = [name for name in codes_read(predictor.features) if name in codes and codes[name].names]
        tables = tuple(
            _Table(
                predictor.features.index(name),
                {float(key.code(text)): float(code) for text, code in codes[name].names.items()},
                frozenset(map(float, codes[name].names.values())),
                codes[name].free if codes[name].forgot else 0,
                codes[name].free,
            )
            for name in read
        )
        return cls(np.array([place[name] for name in predictor.features], dtype=np.int64), tables)

    def one(self, row: Floats) -> Floats:
        own = row[self.columns]
        for table in self.tables:
            own[table.place] = table.code(float(own[table.place]))
        return own

    def many(self, rows: Floats) -> Floats:
        own = np.ascontiguousarray(rows[:, self.columns])
        for table in self.tables:
            own[:, table.place] = [table.code(code) for code in own[:, table.place].tolist()]
        return own
