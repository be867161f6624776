"""Slurm's fair-share: the decayed usage of users and accounts, compared with their shares.

Here are the shares; `usage` follows the jobs and computes the factors. The algorithms are those of Slurm's
documentation: fair tree, the default, ranks users by usage against shares among siblings, level by level; the classic
one is 2^(-U/S/d) of the effective usage U, the normalised shares S and the dampening d; depth-oblivious takes another
effective usage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError, unknown_name
from schedsim.kernels.records import Records
from schedsim.sites.slurm.records import CLAIM, ENTRY, LIMIT, TALLY, USING_JOB, Entry, UsageArrays
from schedsim.sites.slurm.usage import OF_PARENT, factors

Algorithm = Literal["fair-tree", "classic", "depth-oblivious"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = ("fair-tree", "classic", "depth-oblivious")
_LN_2: Final = 0.693  # as in Slurm: the decay factor of a second is 1 - 0.693 / half-life


ENDLESS: Final = 100 * 365 * 86_400
"""A half-life from which on usage does not decay [s]; INFINITE is longer."""


def decay_of(seconds: float, half_life: float) -> float:
    """Return the share of usage left after so many seconds; 1 without a half-life (0).

    >>> round(decay_of(604_800, 604_800), 3), decay_of(9, 0), decay_of(9, ENDLESS)
    (0.5, 1.0, 1.0)
    """
    return 1.0 if not 0 < half_life < ENDLESS else float((1.0 - _LN_2 / half_life) ** seconds)


@dataclass(frozen=True, eq=False)
class Shares:
    """The tree of accounts and users; entry 0 is the root, parents stand before their children.

    Fair tree takes equal accounts in this order. Slurm's is by name, each before those below it.

    >>> tree = Shares(np.array([-1, 0, 0]), np.array([1, 3, 1]), np.array([False, True, True]))
    >>> tree.factors(np.array([0.0, 30.0, 30.0])).tolist()
    [0.0, 1.0, 0.5]
    """

    parent: Ints  # shape (n,); of each entry; of the root -1
    shares: Ints  # shape (n,); from 0 on, or `OF_PARENT`
    is_user: Bools  # shape (n,); users have no children
    _above: Ints = field(init=False, repr=False)  # whose child each counts as
    _upward: Ints = field(init=False, repr=False)  # all but the root, the deepest first

    __repr__ = short_repr

    def __post_init__(self) -> None:
        n = len(self.parent)
        if n == 0 or self.parent[0] != -1 or self.is_user[0]:
            raise JobcastError("The first entry of a tree of shares is its root, an account without a parent.")
        later = self.parent[1:]
        bad = np.flatnonzero((later < 0) | (later >= np.arange(1, n)) | self.is_user[np.maximum(later, 0)])
        if bad.size:
            raise JobcastError(f"Entry {int(bad[0]) + 1} of a tree of shares has no account before it as its parent.")
        if (self.shares < OF_PARENT).any():
            raise JobcastError(f"Shares are whole numbers from 0 on, or parent; got {int(self.shares.min())}.")
        above = np.maximum(0, self.parent)
        depth = np.zeros(n, dtype=np.int64)
        for i in range(1, n):  # children of an account with the shares of its parent count as the parent's
            while above[i] > 0 and self.shares[above[i]] == OF_PARENT:
                above[i] = above[above[i]]
            depth[i] = depth[self.parent[i]] + 1
        object.__setattr__(self, "_above", above)
        object.__setattr__(self, "_upward", np.argsort(-depth, kind="stable")[: n - 1])

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def n_users(self) -> int:
        """How many users there are, counted once per account."""
        return int(self.is_user.sum())

    @property
    def entries(self) -> Records[Entry]:
        """The entries as the kernels take them, without usage."""
        entries: Any = np.zeros(len(self), ENTRY)
        entries["parent"], entries["above"] = self.parent, self._above
        entries["shares"], entries["is_user"] = self.shares, self.is_user
        np.add.at(entries["level_shares"], self._above[1:], np.maximum(0, self.shares[1:]))
        normal = np.ones(len(self))
        for i in range(1, len(self)):
            above = self._above[i]
            normal[i] = normal[above] * max(0, self.shares[i]) / max(1, entries["level_shares"][above])
        entries["normal"] = normal
        return entries  # type: ignore[no-any-return]

    def factors(
        self,
        usage: Floats,  # shape (n,); usage of each user, 0 or more; that of accounts follows
        algorithm: Algorithm = "fair-tree",  # one of `ALGORITHMS`
        damp: float = 1.0,  # FairShareDampeningFactor, 1 or more; of the classic algorithms
    ) -> Floats:
        """Return the fair-share factor of each user, 0 to 1, and 0 for accounts; shape (n,)."""
        none = np.empty(0, dtype=np.int64)
        begun = FairShare(self, none, none.astype(np.float64), algorithm=algorithm, damp=damp, usage=usage).begun()
        factors(begun)
        return np.array(begun.entries["factor"])


@dataclass(frozen=True, eq=False)
class FairShare:
    """The users of jobs, what the jobs cost, and how usage counts."""

    tree: Shares  # accounts and users
    user_of: Ints  # shape (n_jobs,); entry of each job's user in the tree; -1: none, its factor is 0
    # shape (n_jobs,); cost of a job per second: its processors, or by TRESBillingWeights; times the UsageFactor of its
    # QOS
    billed: Floats
    half_life: float = 604_800.0  # PriorityDecayHalfLife [s]; 0: usage does not decay
    calc_period: int = 300  # PriorityCalcPeriod [s]
    resets: Sequence[int] = ()  # seconds at which all usage is reset, ascending
    algorithm: Algorithm = "fair-tree"  # one of `ALGORITHMS`
    damp: float = 1.0  # FairShareDampeningFactor
    usage: Floats | None = None  # shape (n,); usage of users before the first second

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise unknown_name("fair-share algorithm", self.algorithm, ALGORITHMS)
        for name, least in (("half_life", 0), ("calc_period", 1), ("damp", 1)):
            if not getattr(self, name) >= least:
                raise JobcastError(f"A fair-share's {name} is {least} or more; got {getattr(self, name)!r}.")
        if 0 < self.half_life < 1:
            raise JobcastError(f"A fair-share's half_life is 0, or 1 s or more; got {self.half_life!r}.")

    def begun(self) -> UsageArrays:
        tree, n = self.tree, len(self.tree)
        entries, one, jobs = tree.entries, np.zeros(1, TALLY), np.zeros(len(self.user_of), USING_JOB)
        if self.usage is not None:
            entries["used"] = self.usage
        one["algorithm"], one["damp"], one["period"] = ALGORITHMS.index(self.algorithm), self.damp, self.calc_period
        one["left"] = decay_of(1, self.half_life)
        one["first"] = one["last"] = -1
        one["n_users"], one["is_due"] = tree.n_users, True
        jobs["entry"], jobs["billed"] = self.user_of, self.billed
        first = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(tree._above[1:], minlength=n), out=first[1:])
        children = 1 + np.argsort(tree._above[1:], kind="stable")
        resets = np.array(self.resets, dtype=np.int64)
        records: Any = one, entries, jobs
        limits: Any = np.zeros(0, LIMIT), np.zeros(0, CLAIM), np.zeros(len(jobs) + 1, dtype=np.int64)
        return UsageArrays(
            records[0], records[1], tree._upward, first, children, np.zeros(n, dtype=np.int64), resets, records[2],
            *limits,
        )  # fmt: skip


_NONE: Final = np.empty(0, dtype=np.int64)
NO_SHARES: Final = FairShare(Shares(np.array([-1]), np.array([1]), np.array([False])), _NONE, _NONE.astype(np.float64))
"""Fair-share without users."""
