"""Slurm's fair-share: the decayed usage of users and accounts, compared with their shares.

A job adds processors (or its billing) times seconds to the usage of its user, and so of all accounts above. At each
tick of the calculation all usage decays, the usage since the last tick is added, and usage and shares give the factors.
The algorithms are those of Slurm's documentation: fair tree, the default, ranks users by usage against shares among
siblings, level by level; the classic one is 2^(-U/S/d) of the effective usage U, the normalised shares S and the
dampening d; depth-oblivious takes another effective usage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self

import numpy as np

from predictors.core.arrays import Bools, Floats, Ints, short_repr
from predictors.core.errors import JobcastError, unknown_name

Algorithm = Literal["fair-tree", "classic", "depth-oblivious"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = ("fair-tree", "classic", "depth-oblivious")
OF_PARENT: Final = -1
"""Shares of "parent": a user ranks first in its account, an account's children count as its parent's."""
_NO_FAIRNESS: Final = float((1 << 32) - 2)
"""Place of an account with the shares of its parent among its siblings in fair tree: its children are theirs."""
_LN_2: Final = 0.693  # as in Slurm: the decay factor of a second is 1 - 0.693 / half-life
_STEEPNESS: Final = 5.0
"""How fast a sibling's ratio loses weight in depth-oblivious sharing, where the parent's is far from 1."""


def decay_of(seconds: float, half_life: float) -> float:
    """Return the share of usage left after this many seconds; 1 without a half-life (0).

    Examples
    --------
    >>> round(decay_of(604_800, 604_800), 3), decay_of(9, 0)
    (0.5, 1.0)
    """
    return 1.0 if half_life <= 0 else float((1.0 - _LN_2 / half_life) ** seconds)


@dataclass(frozen=True, eq=False)
class Shares:
    """The tree of accounts and users; entry 0 is the root, parents stand before their children.

    Fair tree takes equal accounts in this order. Slurm's is by name, each before those below it.

    Parameters
    ----------
    parent : int64 array of shape (n,)
        Of each entry; of the root -1.
    shares : int64 array of shape (n,)
        From 0 on, or `OF_PARENT`.
    is_user : bool array of shape (n,)
        Users have no children.

    Examples
    --------
    >>> tree = Shares(np.array([-1, 0, 0]), np.array([1, 3, 1]), np.array([False, True, True]))
    >>> tree.factors(np.array([0.0, 30.0, 30.0])).tolist()
    [0.0, 1.0, 0.5]
    """

    parent: Ints
    shares: Ints
    is_user: Bools
    _share_parent: Ints = field(init=False, repr=False)
    _level_shares: Ints = field(init=False, repr=False)
    _depth: Ints = field(init=False, repr=False)
    _levels: tuple[Ints, ...] = field(init=False, repr=False)

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
        above = self.parent.copy()
        depth = np.zeros(n, dtype=np.int64)
        for i in range(1, n):  # children of an account with the shares of its parent count as the parent's
            while above[i] > 0 and self.shares[above[i]] == OF_PARENT:
                above[i] = above[above[i]]
            depth[i] = depth[above[i]] + 1
        held = np.where(self.shares == OF_PARENT, 0, self.shares)
        level = np.zeros(n, dtype=np.int64)
        np.add.at(level, above[1:], held[1:])
        below = np.zeros(n, dtype=np.int64)  # how deep entries stand, whatever their shares
        for i in range(1, n):
            below[i] = below[self.parent[i]] + 1
        levels = tuple(np.flatnonzero(below == deep) for deep in range(int(below.max()), 0, -1))
        object.__setattr__(self, "_levels", levels)
        object.__setattr__(self, "_share_parent", above)
        object.__setattr__(self, "_level_shares", level)
        object.__setattr__(self, "_depth", depth)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def n_users(self) -> int:
        """How many users there are, counted once per account."""
        return int(self.is_user.sum())

    def summed(self, usage: Floats) -> Floats:
        """Return the usage of all entries from that of users: an account's is the sum below it."""
        found = np.where(self.is_user, usage, 0.0)
        for rows in self._levels:
            np.add.at(found, self.parent[rows], found[rows])
        return found

    def factors(self, usage: Floats, algorithm: Algorithm = "fair-tree", damp: float = 1.0) -> Floats:
        """Return the fair-share factor of each user, 0 to 1, and 0 for accounts; shape (n,).

        Parameters
        ----------
        usage : float64 array of shape (n,)
            Usage of each user, 0 or more; that of accounts follows.
        algorithm : str
            One of `ALGORITHMS`.
        damp : float
            FairShareDampeningFactor, 1 or more; of the classic algorithms.
        """
        used = self.summed(usage)
        if algorithm == "fair-tree":
            return self._ranks(self._level_fairness(used)) / max(1, self.n_users)
        effective = self._effective(used, algorithm == "depth-oblivious")
        normal = self._normal_shares()
        # a user with the shares of its parent has what the parent has
        own = np.where(self.is_user & (self.shares == OF_PARENT), self._share_parent, np.arange(len(self)))
        share = normal[own]
        with np.errstate(over="ignore"):
            factor = np.exp2(-effective[own] / np.where(share > 0, share, 1.0) / damp)
        return np.where(self.is_user & (share > 0), factor, 0.0)

    def _level_fairness(self, used: Floats) -> Floats:
        """Return shares over usage of each entry among its siblings; a greater value is less well served."""
        above = np.maximum(self._share_parent, 0)
        share = self.shares / np.maximum(1, self._level_shares[above])
        whole = used[above]
        usage = np.where(whole > 0, used / np.where(whole > 0, whole, 1.0), 0.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            found = np.where(self.shares > 0, share / usage, 0.0)
        return np.where(self.shares == OF_PARENT, np.where(self.is_user, np.inf, _NO_FAIRNESS), found)

    def _ranks(self, fairness: Floats) -> Floats:
        """Return the ranks of the users; the best is the number of users, and accounts have 0.

        Siblings are sorted, users before accounts where they are equal, then in the order of the tree. A user that is
        tied has the rank of the user before it. An entry is tied if it is equal to the sibling before it; the first
        child of an account is tied if the account is. Slurm 26.05 does not merge equal accounts, though its manual says
        so.
        """
        deepest = int(self._depth.max(initial=0))
        place = np.zeros(len(self), dtype=np.int64)  # of an entry among those of its depth
        path = np.full((len(self), deepest), -1)  # places of an entry and those above it
        tied = np.zeros(len(self), dtype=np.bool_)
        for depth in range(1, deepest + 1):
            rows = np.flatnonzero(self._depth == depth)
            rows = rows[np.lexsort((~self.is_user[rows], -fairness[rows], place[self._share_parent[rows]]))]
            above = self._share_parent[rows]
            place[rows] = np.arange(len(rows))
            path[rows] = path[above]
            path[rows, depth - 1] = place[rows]
            is_first = np.append(True, above[1:] != above[:-1])[: len(rows)]
            is_equal = np.append(False, fairness[rows][1:] == fairness[rows][:-1])[: len(rows)]
            tied[rows] = np.where(is_first, tied[above], is_equal)
        users = np.flatnonzero(self.is_user)
        if users.size:
            users = users[np.lexsort(path[users].T[::-1])]
        before = np.where(tied[users], 0, np.arange(len(users)))
        ranks = np.zeros(len(self))
        ranks[users] = len(users) - np.maximum.accumulate(before)
        return ranks

    def _normal_shares(self) -> Floats:
        """Return each entry's share of the whole machine."""
        normal = np.ones(len(self))
        for i in range(1, len(self)):
            above = self._share_parent[i]
            normal[i] = normal[above] * max(0, self.shares[i]) / max(1, self._level_shares[above])
        return normal

    def _effective(self, used: Floats, depth_oblivious: bool) -> Floats:
        """Return the effective usage of each entry."""
        normal = self._normal_shares()
        usage = used / used[0] if used[0] > 0 else np.zeros(len(used))
        found = usage.copy()
        found[0] = 1.0  # in Slurm the root's is 1 from the begin on, before anything was used, too
        of_siblings = np.zeros(len(self))
        np.add.at(of_siblings, self._share_parent[1:], usage[1:])
        for i in range(1, len(self)):
            above = self._share_parent[i]
            if above == 0:
                continue
            if self.shares[i] == OF_PARENT:
                found[i] = found[above]
            elif not depth_oblivious:
                level = self._level_shares[above]
                found[i] = found[above] if level == 0 else usage[i] + (found[above] - usage[i]) * self.shares[i] / level
            elif normal[i] > 0 and normal[above] > 0 and found[above] > 0 and usage[i] > 0:
                of_parent = found[above] / normal[above]
                own = usage[i] / normal[i] / (of_siblings[above] / normal[above])
                same_side = np.log(of_parent) * np.log(own) >= 0
                power = 1.0 if same_side else 1.0 / (1.0 + (_STEEPNESS * np.log(of_parent)) ** 2)
                found[i] = of_parent * own**power * normal[i]
        return found


@dataclass(frozen=True, eq=False)
class FairShare:
    """The users of jobs, what the jobs cost, and how usage counts.

    Parameters
    ----------
    tree : Shares
        Accounts and users.
    user_of : int64 array of shape (n_jobs,)
        Entry of each job's user in the tree; -1: none, its factor is 0.
    billed : float64 array of shape (n_jobs,)
        Cost of a job per second: its processors, or by TRESBillingWeights; times the UsageFactor of its QOS.
    half_life : float
        PriorityDecayHalfLife [s]; 0: usage does not decay.
    calc_period : int
        PriorityCalcPeriod [s].
    resets : sequence of int
        Seconds at which all usage is reset, ascending.
    algorithm : str
        One of `ALGORITHMS`.
    damp : float
        FairShareDampeningFactor.
    usage : float64 array of shape (n,), optional
        Usage of users before the first second.
    """

    tree: Shares
    user_of: Ints
    billed: Floats
    half_life: float = 604_800.0
    calc_period: int = 300
    resets: Sequence[int] = ()
    algorithm: Algorithm = "fair-tree"
    damp: float = 1.0
    usage: Floats | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise unknown_name("fair-share algorithm", self.algorithm, ALGORITHMS)
        for name, least in (("half_life", 0), ("calc_period", 1), ("damp", 1)):
            if not getattr(self, name) >= least:
                raise JobcastError(f"A fair-share's {name} is {least} or more; got {getattr(self, name)!r}.")
        if 0 < self.half_life < 1:
            raise JobcastError(f"A fair-share's half_life is 0, or 1 s or more; got {self.half_life!r}.")

    def begun(self) -> "Usage":
        """Return the usage before the first second."""
        usage = np.zeros(len(self.tree)) if self.usage is None else self.usage.astype(np.float64)
        return Usage(self, usage)


@dataclass(eq=False)
class Usage:
    """The usage of users at one moment of a simulation."""

    rule: FairShare
    # by entry of the tree, for users alone, until the last tick, with jobs that have ended since, shape (n,)
    used: Floats
    ticked: int = 0  # the last tick [s]
    # running jobs by row, and since when their usage has not been counted [s]
    since: dict[int, int] = field(default_factory=dict)
    n_resets: int = 0
    _factors: Floats | None = None

    def started(self, row: int, now: int) -> None:
        """Begin to count the usage of a job."""
        self.to(now - 1)
        self.since[row] = now

    def ended(self, row: int, now: int) -> None:
        """Count the usage of a job until its end; factors include it from the next tick on."""
        self.to(now - 1)
        self._factors = self.factors
        self._count(row, now)
        del self.since[row]

    def to(self, now: int) -> None:
        """Go through the ticks up to a second."""
        resets, period = self.rule.resets, self.rule.calc_period
        while (ticks := (now - self.ticked) // period) > 0:
            if ticks > 1 and not self._is_partial and (self.n_resets == len(resets) or resets[self.n_resets] > now):
                self._tick_often(ticks)
            else:
                self._tick()

    @property
    def _is_partial(self) -> bool:
        """Whether some job has run for only a part of a period."""
        return any(since > self.ticked for since in self.since.values())

    def _tick(self) -> None:
        """Let usage decay over a period, and count the jobs that ran."""
        rule = self.rule
        self.ticked += rule.calc_period
        while self.n_resets < len(rule.resets) and rule.resets[self.n_resets] <= self.ticked:
            self.used[:] = 0.0
            self.n_resets += 1
        self.used *= decay_of(rule.calc_period, rule.half_life)
        for row in self.since:
            self._count(row, self.ticked)
        self._factors = None

    def _tick_often(self, ticks: int) -> None:
        """Go through several ticks while the same jobs run: their usage is a geometric series."""
        rule = self.rule
        once = decay_of(rule.calc_period, rule.half_life)
        kept = once**ticks
        times = ticks if once == 1.0 else (1.0 - kept) / (1.0 - once)
        self.ticked += rule.calc_period * ticks
        self.used *= kept
        for row in self.since:
            entry = int(rule.user_of[row])
            if entry >= 0:
                self.used[entry] += times * rule.calc_period * once * float(rule.billed[row])
            self.since[row] = self.ticked
        self._factors = None

    def _count(self, row: int, now: int) -> None:
        """Count the usage of a running job up to now."""
        rule, seconds = self.rule, now - self.since[row]
        entry = int(rule.user_of[row])
        if entry >= 0 and seconds > 0:
            self.used[entry] += seconds * decay_of(seconds, rule.half_life) * float(rule.billed[row])
        self.since[row] = now

    @property
    def factors(self) -> Floats:
        """Fair-share factors of all entries of the tree as of the last tick."""
        if self._factors is None:
            self._factors = self.rule.tree.factors(self.used, self.rule.algorithm, self.rule.damp)
        return self._factors

    def of_jobs(self, rows: Ints) -> Floats:
        """Return the factor of each job's user; 0 where it has none."""
        entry = self.rule.user_of[rows]
        return np.where(entry >= 0, self.factors[np.maximum(entry, 0)], 0.0)

    def fork(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.rule, self.used.copy(), self.ticked, dict(self.since), self.n_resets, self._factors)
