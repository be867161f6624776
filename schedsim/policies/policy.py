"""Scheduling policies: values composed of an order, backfilling and its restraints, and their names."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from predictors.core.errors import JobcastError, unknown_name
from predictors.entry_points import Registry
from schedsim.policies import traits
from schedsim.policies.agents import MOST_IN_WINDOW, RESERVES, Agent, ObservingAgent, Reserve, Scored, picks
from schedsim.policies.backfilling import (
    Backfilling,
    Conservative,
    Easy,
    Greedy,
    Knapsack,
    NoBackfilling,
    OwnPass,
    Pass,
    Promise,
)
from schedsim.policies.ceil import CEILING, Ceiling, Postponing, Refused
from schedsim.policies.gates import Gate
from schedsim.policies.networks import Dras
from schedsim.policies.orders import ORDERS, SCORE, TAKEN, WIDEST, LookAhead, Order, Priority, random_order
from schedsim.policies.traits import refuse

FCFS: Final = ORDERS.built_in["fcfs"]
SJF: Final = ORDERS.built_in["sjf"]
MOST_RESERVATIONS: Final = 1_000_000  # most reservations of a hybrid


@dataclass(frozen=True)
class Policy:
    """Which waiting jobs start, and in which order.

    Parameters
    ----------
    order : Order
        Ranks the queue.
    backfill : NoBackfilling, Easy, Conservative, Greedy or Knapsack
        Which jobs may start ahead of a blocked head.
    promise : Promise, optional
        Guarantees the head a start, however bad the estimates are; with EASY or hybrid backfilling.
    gate : Gate, optional
        May hold a job that could start; see `schedsim.policies.rush`.
    agent : Linear, RandomPicks, Shared, Dras, Agent or ObservingAgent, optional
        Picks the next job in place of the orders; see `schedsim.policies.agents`. Under greedy backfilling it picks
        only among the jobs that fit, and none holds a reservation.
    reserve : {"kept", "oldest", "again"}, optional
        Which job holds the reservation where an agent picks, see `schedsim.policies.agents.RESERVES`; by default kept.
        Not under greedy backfilling.
    window : int
        How many jobs at the front of the queue an agent or the knapsack sees.
    ceiling : Ceiling, optional
        Limits how much of the machine may be in use.
    postpone : Postponing, optional
        Postpones jobs with a deadline.

    Examples
    --------
    >>> Policy(backfill=Easy(order=SJF), promise=Promise(slack=86_400)) == make_policy("careful")
    True
    """

    order: Order = FCFS
    backfill: Backfilling = NoBackfilling()  # noqa: RUF009 - frozen
    promise: Promise | None = None
    gate: Gate | None = None
    agent: Agent | ObservingAgent | Scored | None = None
    reserve: Reserve | None = None
    window: int = 50
    ceiling: Ceiling | None = None
    postpone: Postponing | None = None

    def __post_init__(self) -> None:
        self._refuse_other_types()
        if not isinstance(self.backfill, Backfilling):
            raise JobcastError(
                "A policy backfills by NoBackfilling(), Easy(), Conservative(), Greedy() or Knapsack() of "
                f"schedsim.policies.backfilling, or Loops() of schedsim.sites.slurm.loops; got {self.backfill!r}."
            )
        first, second = self.order.priority, self.backfill_order.priority
        if first is not None and second is not None and first != second:
            raise JobcastError(
                "The queue and the backfills are ordered by one priority, or one of them by another order."
            )
        if first is None and second is not None and second.grace is not None:
            raise JobcastError("Due dates rank the queue: a priority that ranks backfills alone has grace=None.")
        if self.agent is not None and not picks(self.agent):
            raise JobcastError(
                "An agent is Linear, RandomPicks, Shared, Dras or an object with a method choose or a method pick; got "
                f"{self.agent!r}."
            )
        if self.reserve is not None and (self.agent is None or self.reserve not in RESERVES):
            raise JobcastError(
                f"A policy with an agent reserves by one of {', '.join(RESERVES)}, and one without has no such choice; "
                f"got reserve={self.reserve!r} and agent={self.agent!r}."
            )
        if not _is_whole(self.window) or not 1 <= self.window <= MOST_IN_WINDOW:
            raise JobcastError(f"A policy's window must be 1 to {MOST_IN_WINDOW} jobs; got {self.window!r}.")
        refuse(self.traits)

    def _refuse_other_types(self) -> None:
        for name, kind in (("promise", Promise), ("ceiling", Ceiling), ("postpone", Postponing)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise JobcastError(f"A policy's {name} is {kind.__name__}(…) or None; got {value!r}.")
        for where, order in (("order", self.order), ("backfill order", getattr(self.backfill, "order", None))):
            if not isinstance(order, Order) and (order is not None or where == "order"):
                raise JobcastError(
                    f"A policy's {where} is one of schedsim.policies.orders.ORDERS, or Order.by(function); "
                    f"got {order!r}."
                )
        if self.gate is not None and (isinstance(self.gate, type) or not callable(getattr(self.gate, "ask", None))):
            raise JobcastError(f"A policy's gate is an object with a method ask; got {self.gate!r}.")
        if self.order.ranking is not None and self.kind != "loops":
            raise JobcastError(f"The order {self.order.name} goes with Slurm's loops alone; got {self.backfill!r}.")
        if getattr(getattr(self.backfill, "order", None), "look_ahead", None) is not None:
            raise JobcastError("A look-ahead ranks the queue and the backfills as one: give it as the order alone.")

    @property
    def traits(self) -> frozenset[str]:
        """What decides which other parts it combines with, see `schedsim.policies.traits`."""
        promise, orders = self.promise, (self.order.code, self.backfill_order.code)
        given = {
            traits.NOT_EASY: not isinstance(self.backfill, Easy),
            traits.GREEDY: self.kind == "greedy",
            traits.PLAN: self.kind not in ("counts", "greedy"),
            traits.KNAPSACK: self.kind == "knapsack",
            traits.KEPT_PLAN: self.kind == "compress",
            traits.SECOND_ORDER: self.backfill.order is not None,
            traits.PROMISE: promise is not None,
            traits.KEPT_HEAD: promise is not None and promise.kept,
            traits.GATE: self.gate is not None,
            traits.AGENT: self.agent is not None,
            traits.NETWORK_OF_NODES: isinstance(self.agent, Dras),
            traits.RESERVE: self.reserve is not None,
            traits.RESERVED_AGAIN: self.reserve == "again",
            traits.CEILING: self.ceiling is not None,
            traits.POSTPONED: self.postpone is not None,
            traits.LOOK_AHEAD: self.order.look_ahead is not None,
            traits.PREEMPTION: self.preempts,
            traits.RULES: SCORE.code in orders,
        }
        return frozenset(trait for trait, holds in given.items() if holds)

    @property
    def kind(self) -> Pass:
        """The compiled pass that plans."""
        return self.backfill.kind

    @property
    def depth(self) -> int | None:
        """How many blocked jobs hold reservations; None: all."""
        return self.backfill.depth

    @property
    def preempts(self) -> bool:
        """Whether running jobs may be stopped for others."""
        return isinstance(self.backfill, OwnPass) and self.backfill.preempts

    @property
    def backfill_order(self) -> Order:
        """The order of the jobs behind the blocked head."""
        return self.order if self.backfill.order is None else self.backfill.order

    @property
    def is_ceil(self) -> bool:
        """Whether there is a ceiling on utilisation, or jobs are postponed."""
        return self.ceiling is not None or self.postpone is not None


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _accepted(name: str, found: object) -> Policy:
    if not isinstance(found, Policy):
        raise JobcastError(f"it must be a jobcast.Policy; got {found!r}.")
    return found


_FAMILY: Final = re.compile(r"(hybrid|cobalt)-(-?\d+)")

POLICIES: Final[Registry[Policy]] = Registry(
    "policy",
    {
        **{name: Policy(order) for name, order in ORDERS.built_in.items()},
        **{f"{name}-easy": Policy(order, Easy()) for name, order in ORDERS.built_in.items()},
        "easy": Policy(backfill=Easy()),
        "easy-sjbf": Policy(backfill=Easy(SJF)),
        "conservative-replan": Policy(backfill=Conservative()),
        "conservative-compress": Policy(backfill=Conservative(keep=True)),
        "cobalt": Policy(SCORE, Easy()),
        "binpacking": Policy(WIDEST, Greedy()),
        "random": Policy(random_order(), Greedy()),
        "knapsack": Policy(backfill=Knapsack()),
    },
    _accepted,
    lambda name: name in TAKEN or name.removesuffix("-easy") in ORDERS or _FAMILY.fullmatch(name) is not None,
)
"""Policies by name; `+promise` may follow it."""

CAREFUL: Final = Policy(backfill=Easy(SJF), promise=Promise(slack=86_400))
"""The policy `careful`: EASY-SJBF; the head starts at most a day after its shadow time by requested times."""

BALANCED: Final = Policy(
    Order.by_priority(Priority(head_start=1200, estimate=1.0, procs=0.1, grace=86_400, share=0.35)),
    Easy(),
    Promise(slack=86_400, growth=-0.15, least=21_600, most=86_400, kept=True),
)
"""The policy `balanced`: EASY by a priority that favours short jobs, with due dates and a head that keeps its place."""

LOOK_AHEAD: Final = Policy(Order.by_look_ahead(LookAhead()), Easy())
"""The policy `look-ahead`: EASY by whichever of five orders looks best at each pass."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"default": "careful"})
"""Older names that still work, and the names in results."""

FAMILIES: Final[Mapping[str, Callable[[int], Policy]]] = MappingProxyType(
    {
        "hybrid": lambda k: Policy(backfill=Easy(depth=k, replan=True)),
        "cobalt": lambda k: Policy(SCORE, Easy(depth=k, replan=True)),
    }
)
"""Policies with a number of reservations, by the name before the number: `hybrid-K`, `cobalt-K`."""

_PROMISE: Final = "+promise"
_CEIL: Final = "+ceil"
NAMED: Final[Mapping[str, Policy]] = MappingProxyType(
    {"careful": CAREFUL, "balanced": BALANCED, "look-ahead": LOOK_AHEAD}
)
"""Settings for a site, by name."""


def known() -> tuple[str, ...]:
    """Return the names that an unknown one is compared with."""
    added = [policy for order in ORDERS.added for policy in (order, f"{order}-easy")]
    return (*POLICIES, *added, "hybrid-K", "cobalt-K", "easy+promise", *NAMED, "ceil", "easy+ceil")


def ceil(
    base: Policy = POLICIES.built_in["wfp3-easy"],
    *,
    ceiling: float = CEILING,
    refused: Refused = "reserves",
    postpone: Postponing | None = Postponing(),  # noqa: B008 - frozen
) -> Policy:
    """Return CEIL on a base policy, see `schedsim.policies.ceil`; without `postpone` no job is postponed.

    .. [1] Li, Chunduri, Harms, Fan, Lan. The effect of system utilization on application performance variability. ROSS
       2019. doi:10.1145/3322789.3328743

    >>> ceil(make_policy("easy")) == make_policy("easy+ceil")
    True
    """
    limit = Ceiling(ceiling, refused)
    return replace(base, ceiling=limit if limit.share < 1 else None, postpone=postpone)


def with_limits(
    rule: Policy,  # a CEIL policy, unless only the ceiling is given
    ceiling: float | None = None,  # share of the machine above which no start may lift utilisation
    low: float | None = None,  # postponed jobs join the queue while less than this share is in use
    queue_only: bool = False,  # whether only jobs of the queue, no postponed ones, are backfilled
) -> Policy:
    """Return a policy with another ceiling or other rules for postponed jobs.

    >>> with_limits(make_policy("easy+ceil"), ceiling=0.9, low=0.5).postpone.low
    0.5
    """
    if ceiling is not None:
        limit = replace(rule.ceiling or Ceiling(), share=ceiling)
        rule = replace(rule, ceiling=limit if limit.share < 1 else None)
    if low is None and not queue_only:
        return rule
    if rule.postpone is None:
        raise JobcastError("Under this policy no job is postponed: take ceil, or a policy followed by +ceil.")
    low = rule.postpone.low if low is None else low
    return replace(rule, postpone=replace(rule.postpone, low=low, backfill=not queue_only))


def policy_name(name: str) -> str:
    """Return the name of a policy in results: today's in place of an older one.

    >>> policy_name("default"), policy_name("default+ceil"), policy_name("easy")
    ('careful', 'careful+ceil', 'easy')
    """
    base = name.removesuffix(_CEIL)
    return ALIASES.get(base, base) + name[len(base) :]


_OF_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "slurm": "slurm:FILE for a site's slurm.conf, files of sacctmgr behind commas: slurm:slurm.conf,site.dump",
        "agent": "agent:FILE for one that `jobcast tune` made",
    }
)
"""The forms of policies that are read from files, which `experiments.runs.policies.NamedPolicy` reads."""


def make_policy(name: str) -> Policy:
    """Return a policy by its name.

    Names are those of `POLICIES`, `hybrid-K` and `cobalt-K` with K reservations, any EASY or hybrid one followed by
    `+promise`, `careful` and `balanced`, any of them with at most one reservation followed by `+ceil`, `ceil`, which is
    `wfp3-easy+ceil`, and `look-ahead`. Installed packages add policies, and orders: `ORDER` and `ORDER-easy`
    (`predictors.entry_points`). The older names of `ALIASES` work, too. `schedsim.policies.rush.rush` makes RUSH on a
    base: it needs a classifier, which no name gives.

    >>> make_policy("hybrid-3+promise").depth
    3
    >>> make_policy("eazy")
    Traceback (most recent call last):
    predictors.core.errors.JobcastError: No policy 'eazy'; did you mean 'easy'? Known: ...
    """
    if not isinstance(name, str):
        raise unknown_name("policy", name, known())
    name = policy_name(name)
    if name in POLICIES:
        return POLICIES[name]
    if name.endswith(_CEIL):
        return ceil(make_policy(name.removesuffix(_CEIL)))
    if name in NAMED:
        return NAMED[name]
    if name == "ceil":
        return ceil()
    base = name.removesuffix(_PROMISE)
    policy = POLICIES[base] if base in POLICIES else _by_added_order(base) or _with_reservations(base)
    if policy is not None:
        return replace(policy, promise=Promise()) if base != name else policy
    if base in _OF_FILES:
        raise JobcastError(f"Policy {name!r} names no file; write {_OF_FILES[base]}.")
    if base == "bold":
        raise JobcastError("bold names estimates, not a policy: take --policy careful --estimates bold.")
    if base == "rush" or (base.endswith("+rush") and base.removesuffix("+rush") in POLICIES):
        raise JobcastError(
            f"Policy {name!r} asks a classifier about a machine with contention, which no job log describes: run "
            "`jobcast experiment rush`, or give schedsim.policies.rush.rush(make_policy(BASE), CLASSIFIER) to a "
            "simulation with a schedsim.contention.model.ContentionModel."
        )
    raise unknown_name("policy", name, known())


def _by_added_order(name: str) -> Policy | None:
    """Return `ORDER` or `ORDER-easy` of an installed package's order; None for another name."""
    order = name.removesuffix("-easy")
    if order not in ORDERS.added:
        return None
    return Policy(ORDERS[order]) if order == name else Policy(ORDERS[order], Easy())


def _with_reservations(name: str) -> Policy | None:
    found = _FAMILY.fullmatch(name)
    if found is None:
        return None
    family, depth = found[1], int(found[2])
    if family == "cobalt" and not 1 <= depth <= MOST_RESERVATIONS:
        return None
    if depth < 1:
        raise JobcastError(f"Policy {name!r}: a hybrid holds at least 1 reservation; got {depth}.")
    if depth > MOST_RESERVATIONS:
        raise JobcastError(f"Policy {name!r}: a hybrid holds at most {MOST_RESERVATIONS:,} reservations.")
    return FAMILIES[family](depth)
