"""What is a scheduling policy? A value made of an order, a backfill order, a depth of reservations, and options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from predictors.data.errors import JobcastError, unknown_name
from schedsim.gates import Agent, Gate
from schedsim.orders import ORDERS, SCORE, WIDEST, Order, random_order
from schedsim.postponing import CEILING, Postponing, Refused, check_ceiling

FCFS: Final = ORDERS["fcfs"]
SJF: Final = ORDERS["sjf"]

Kind = Literal["counts", "profile", "compress", "greedy", "knapsack"]


@dataclass(frozen=True)
class Policy:
    """Who goes first, and who may pass whom.

    Parameters
    ----------
    order : Order
        Ranks the queue.
    backfill : Order, optional
        Ranks the jobs behind the blocked head, both for passing it and, at a depth of 2 and more, for the further
        reservations; by default as the queue.
    depth : int or None
        How many blocked jobs hold reservations: 0 none, and nobody passes a blocked job; 1 EASY; k hybrid; None all
        (conservative).
    kind : str
        Which pass plans: `counts` for depths 0 and 1; `profile` rebuilds all reservations at every pass; `compress`
        keeps a reservation once given and only moves it forward; `greedy` starts whatever fits, without
        reservations; `knapsack` starts the most valuable set of the first `window` jobs.
    promise : bool
        With depth 1 or more: the shadow time by *requested* times of a job that first heads the queue blocked is
        frozen, and no backfill may by requested times break it, whatever the estimates were worth.
    promise_slack : int
        How much later than that shadow time the promise lies [s].
    gate : Gate, optional
        May hold a job that could start.
    agent : Agent, optional
        Picks the next job in place of the orders.
    window : int
        How many jobs at the front of the queue an agent or the knapsack sees.
    reward : str
        What the knapsack values: `capability` or `capacity`.
    ceiling : float
        Share of the machine that no start may lift utilisation above, but of jobs that alone need as much.
    refused : {"reserves", "passed over"}
        Whether a head that only the ceiling stops holds its reservation, or the next job is tried in its place.
    postpone : Postponing, optional
        Whether jobs with a deadline are put off, and until when.

    References
    ----------
    .. [1] Mu'alem & Feitelson. Utilization, predictability, workloads, and user runtime estimates in scheduling the
       IBM SP2 with backfilling. IEEE TPDS 12(6), 2001. doi:10.1109/71.932708
    """

    order: Order = FCFS
    backfill: Order | None = None
    depth: int | None = 0
    kind: Kind = "counts"
    promise: bool = False
    promise_slack: int = 0
    gate: Gate | None = None
    agent: Agent | None = None
    window: int = 50
    reward: Literal["capability", "capacity"] = "capability"
    ceiling: float = 1.0
    refused: Refused = "reserves"
    postpone: Postponing | None = None

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 0:
            raise JobcastError(f"A policy's depth must be 0 or more, or None for all; got {self.depth}.")
        if self.kind == "counts" and self.depth not in (0, 1):
            raise JobcastError(f"The pass 'counts' keeps 0 or 1 reservations, not {self.depth}; take 'profile'.")
        if self.promise and (self.kind not in ("counts", "profile") or not self.depth):
            raise JobcastError("A promise needs EASY or hybrid backfilling: a depth of 1 or more.")
        if self.promise_slack < 0 or (self.promise_slack and not self.promise):
            raise JobcastError(f"A promise's slack is 0 s or more, and needs a promise; got {self.promise_slack}.")
        if self.agent is not None and (self.kind != "counts" or self.gate is not None):
            raise JobcastError("An agent picks under the pass 'counts', and without a gate.")
        if self.gate is not None and self.kind not in ("counts", "greedy"):
            raise JobcastError("A gate needs the pass 'counts' or 'greedy'.")
        if not 1 <= self.window <= MOST_IN_WINDOW:
            raise JobcastError(f"A policy's window must be 1 to {MOST_IN_WINDOW} jobs; got {self.window}.")
        check_ceiling(self.ceiling)
        if self.refused not in ("reserves", "passed over"):
            raise JobcastError(
                f"A head that the ceiling stops 'reserves' or is 'passed over'; got refused={self.refused!r}."
            )
        if self.is_ceil and (self.kind != "counts" or self.agent is not None):
            raise JobcastError(
                "A ceiling, or jobs that are put off, need the pass 'counts': no reservation or one (EASY), no agent."
            )

    @property
    def is_ceil(self) -> bool:
        """Whether there is a ceiling on utilisation, or jobs are put off."""
        return self.ceiling < 1 or self.postpone is not None

    @property
    def backfill_order(self) -> Order:
        """The order of the jobs behind the blocked head."""
        return self.order if self.backfill is None else self.backfill


MOST_IN_WINDOW: Final = 56
MOST_RESERVATIONS: Final = 1_000_000
"""Of a hybrid."""

POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {
        **{name: Policy(order) for name, order in ORDERS.items()},
        **{f"{name}-easy": Policy(order, depth=1) for name, order in ORDERS.items()},
        "easy": Policy(depth=1),
        "easy-sjbf": Policy(backfill=SJF, depth=1),
        "conservative-replan": Policy(depth=None, kind="profile"),
        "conservative-compress": Policy(depth=None, kind="compress"),
        "cobalt": Policy(SCORE, depth=1),
        "binpacking": Policy(WIDEST, kind="greedy"),
        "random": Policy(random_order(), kind="greedy"),
        "knapsack": Policy(kind="knapsack"),
    }
)
"""Policies by name; `hybrid-K` for K reservations and the suffix `+promise` come on top (see `make_policy`)."""

DEFAULT: Final = Policy(backfill=SJF, depth=1, promise=True, promise_slack=86_400)
"""The policy `default`: EASY-SJBF whose head starts, for certain, a day after its shadow time by requested times."""

_HYBRID: Final = re.compile(r"hybrid-(-?\d+)")
_COBALT: Final = re.compile(r"cobalt-(\d+)")
_PROMISE: Final = "+promise"
_CEIL: Final = "+ceil"


def ceil(
    base: Policy = POLICIES["wfp3-easy"],
    *,
    ceiling: float = CEILING,
    refused: Refused = "reserves",
    postpone: Postponing | None = Postponing(),  # noqa: B008 - frozen
) -> Policy:
    """Return CEIL on a base policy, see `schedsim.postponing`; without `postpone` nobody is put off.

    References
    ----------
    .. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
       2019. doi:10.1145/3322789.3328743

    Examples
    --------
    >>> ceil(make_policy("easy")) == make_policy("easy+ceil")
    True
    """
    return replace(base, ceiling=ceiling, refused=refused, postpone=postpone)


def with_limits(
    rule: Policy, ceiling: float | None = None, low: float | None = None, queue_only: bool = False
) -> Policy:
    """Return a policy with another ceiling, or under which jobs that are put off come back otherwise.

    Parameters
    ----------
    rule : Policy
        Of CEIL, where anything but the ceiling is given.
    ceiling : float, optional
        Share of the machine above which no start may lift utilisation.
    low : float, optional
        Jobs put off join the queue while less than this share is in use.
    queue_only : bool
        Whether jobs are backfilled from the queue alone, not from those put off.

    Raises
    ------
    JobcastError
        If nobody is put off under the policy, or a share cannot be so.

    Examples
    --------
    >>> with_limits(make_policy("easy+ceil"), ceiling=0.9, low=0.5).postpone.low
    0.5
    """
    if ceiling is not None:
        rule = replace(rule, ceiling=ceiling)
    if low is None and not queue_only:
        return rule
    if rule.postpone is None:
        raise JobcastError("Under this policy no job is put off: take ceil, or a policy followed by +ceil.")
    low = rule.postpone.low if low is None else low
    return replace(rule, postpone=replace(rule.postpone, low=low, backfill=not queue_only))


def make_policy(name: str) -> Policy:
    """Return a policy by its name.

    Names are those of `POLICIES`, `hybrid-K` and `cobalt-K` with K reservations, any EASY or hybrid one followed by
    `+promise`, `default`, see `DEFAULT`, any of them with at most one reservation followed by `+ceil`, and `ceil`,
    which is `wfp3-easy+ceil`. RUSH on a base is made by `schedsim.rush.rush`: it asks a classifier, which no name
    tells.

    Raises
    ------
    JobcastError
        If there is no such policy, or a name is not enough to make it.

    Examples
    --------
    >>> make_policy("hybrid-3+promise").depth
    3
    >>> make_policy("eazy")
    Traceback (most recent call last):
    predictors.data.errors.JobcastError: No policy 'eazy'; did you mean 'easy'? Known: ...
    """
    if name == "default":
        return DEFAULT
    if name == "ceil":
        return ceil()
    if name.endswith(_CEIL):
        return ceil(make_policy(name.removesuffix(_CEIL)))
    base = name.removesuffix(_PROMISE)
    hybrid, cobalt = _HYBRID.fullmatch(base), _COBALT.fullmatch(base)
    if cobalt and 1 <= int(cobalt[1]) <= MOST_RESERVATIONS:
        several = Policy(SCORE, depth=int(cobalt[1]), kind="profile")
        return replace(several, promise=True) if name.endswith(_PROMISE) else several
    if hybrid:
        depth = int(hybrid[1])
        if depth < 1:
            raise JobcastError(f"Policy {base!r}: a hybrid holds at least 1 reservation; got {depth}.")
        if depth > MOST_RESERVATIONS:
            raise JobcastError(f"Policy {base!r}: a hybrid holds at most {MOST_RESERVATIONS:,} reservations.")
        policy = Policy(depth=depth, kind="profile")
    elif base in POLICIES:
        policy = POLICIES[base]
    elif base in ("rush", *(f"{one}+rush" for one in POLICIES)):
        raise JobcastError(
            f"Policy {name!r} asks a classifier about a machine with contention, of which a job log tells nothing: run "
            "`jobcast experiment rush`, or give schedsim.rush.rush(make_policy(BASE), CLASSIFIER) to a simulation in a "
            "world."
        )
    else:
        raise unknown_name(
            "policy", name, (*POLICIES, "hybrid-K", "cobalt-K", "easy+promise", "default", "ceil", "easy+ceil")
        )
    return replace(policy, promise=True) if name.endswith(_PROMISE) else policy
