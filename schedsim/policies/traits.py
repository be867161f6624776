"""What does not compose: one table of features that no simulation may have together.

Each policy and each part of a simulation has traits. A row of `ROWS` refuses a trait together with some others, with
the reason and a way out; every other pair works. The page of compositions is made from the table.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from predictors.core.errors import JobcastError

# of a policy
NOT_EASY: Final = "backfilling other than EASY"
GREEDY: Final = "greedy backfilling"
PLAN: Final = "a plan of several jobs"  # hybrid and conservative backfilling, knapsacks, Slurm's loops
KNAPSACK: Final = "a knapsack"
KEPT_PLAN: Final = "kept reservations"  # conservative-compress
SECOND_ORDER: Final = "an order of its own for backfills"
PROMISE: Final = "a promise"
KEPT_HEAD: Final = "a head that keeps its place"
GATE: Final = "a gate"
AGENT: Final = "an agent"
NETWORK_OF_NODES: Final = "a network that sees every node"
RESERVE: Final = "a choice of whom an agent reserves"
RESERVED_AGAIN: Final = "a reservation made again at each pick"
CEILING: Final = "a ceiling on utilisation"
POSTPONED: Final = "postponed jobs"
LOOK_AHEAD: Final = "a look-ahead"
PREEMPTION: Final = "preemption"
# of a machine, its jobs and estimates
NODES: Final = "nodes with GPUs and memory"
ALLOCATOR: Final = "an allocator"
PLACES: Final = "places that decide who fits"
RUN_TIMES: Final = "a model of run times"
OUTAGES: Final = "reservations and failures"
RULES: Final = "the rules of a site"
SHARES: Final = "queues with a share of the machine"
ACCOUNTS: Final = "accounts or commands"
ALTERED: Final = "jobs that commands alter"
REVISED: Final = "revised estimates"


class Row(NamedTuple):
    """One trait, those that do not compose with it for one reason, and the way out."""

    trait: str
    others: tuple[str, ...]
    reason: str
    instead: str


ROWS: Final = (
    Row(PROMISE, (NOT_EASY,), "only the head of EASY or a hybrid is promised a start", "take Easy(depth=…)"),
    Row(KEPT_HEAD, (PLAN,), "reservations are planned again at each pass", "take EASY with one reservation"),
    Row(
        KEPT_HEAD,
        (RESERVED_AGAIN,),
        "the head is reserved until it starts",
        "reserve the kept or the oldest job (reserve='kept' or 'oldest')",
    ),
    Row(GREEDY, (RESERVE,), "greedy backfilling reserves no job", "leave reserve out"),
    Row(
        PLAN,
        (AGENT, GATE),
        "agents and gates pause the pass to ask, and only a pass with no or one reservation can go on after that",
        "take EASY, no backfilling or a greedy policy",
    ),
    Row(AGENT, (GATE,), "both decide who starts", "leave one of them out"),
    Row(
        CEILING,
        (PLAN, GREEDY),
        "a plan counts all processors, and greedy backfilling has no head that could wait below the ceiling",
        "take EASY or no backfilling",
    ),
    Row(
        POSTPONED,
        (PLAN, GREEDY),
        "only a pass with a head looks at jobs outside the queue",
        "take EASY or no backfilling",
    ),
    Row(AGENT, (CEILING, POSTPONED), "an agent sees the queue and all free processors", "leave one of them out"),
    Row(
        LOOK_AHEAD,
        (PLAN, GREEDY, SECOND_ORDER, GATE, AGENT, CEILING, POSTPONED),
        "the look-ahead ranks the queue and the backfills as one",
        "leave one of them out",
    ),
    Row(
        LOOK_AHEAD,
        (PLACES, RUN_TIMES, OUTAGES, RULES),
        "the look-ahead drains the queue by what jobs take and by their estimates alone",
        "leave it out, or take another order",
    ),
    Row(
        NODES,
        (KNAPSACK,),
        "a knapsack chooses by numbers of processors, and the jobs take GPUs and memory of nodes",
        "take another policy, such as easy, wfp3-easy or binpacking; or leave out the machine file",
    ),
    Row(
        NODES,
        (ALLOCATOR, RUN_TIMES, RULES),
        "allocators, models of run times and rules of a site know processors, or nodes that are alike",
        "leave them out, or the machine file with GPUs and memory",
    ),
    Row(
        PLACES,
        (PLAN, PROMISE, AGENT, CEILING, POSTPONED),
        "these count processors, and where the free ones lie decides who fits",
        "take no or one reservation, or a greedy policy; or an allocator that always finds a place (first-fit)",
    ),
    Row(
        NETWORK_OF_NODES,
        (OUTAGES,),
        "the network sees every node, and knows of none that fails or is reserved",
        "leave outages out",
    ),
    Row(
        SHARES,
        (PLAN,),
        "a plan counts the machine as one",
        "take cobalt or EASY with one reservation, or queues without shares",
    ),
    Row(SHARES, (AGENT,), "an agent sees the machine as one", "leave the agent out, or the shares"),
    Row(
        POSTPONED,
        (ACCOUNTS,),
        "postponed jobs see no accounts and no commands",
        "take a ceiling without postponing (ceil(policy, postpone=None)), or leave these out",
    ),
    Row(
        ALTERED,
        (ALLOCATOR, RUN_TIMES),
        "allocators and models of run times know jobs as submitted",
        "leave it out, or the alterations",
    ),
    Row(
        PREEMPTION,
        (RULES,),
        "Slurm stops jobs and holds them, and the rules of a site are those of another scheduler, which does neither",
        "leave them out, or PreemptMode=OFF",
    ),
    Row(
        KEPT_PLAN,
        (REVISED,),
        "reservations are kept by the estimates that they were made with",
        "take conservative-replan or EASY",
    ),
)
"""What does not compose: each row is one reason."""

INCOMPATIBLE: Final[Mapping[tuple[str, str], Row]] = MappingProxyType(
    {(row.trait, other): row for row in ROWS for other in row.others}
)
"""The same by pairs of traits."""


def clash(traits: Collection[str]) -> tuple[str, str] | None:
    """Return the first pair of these traits that does not compose, or None.

    >>> clash([PROMISE, GATE]), clash([LOOK_AHEAD, GATE])
    (None, ('a look-ahead', 'a gate'))
    """
    return next((pair for pair in INCOMPATIBLE if pair[0] in traits and pair[1] in traits), None)


def refuse(
    traits: Collection[str],  # of a policy, or of a whole simulation
    where: str = "",  # what the message begins with: the case, or the file
) -> None:
    """Refuse traits that do not compose, naming both, the reason and the way out."""
    pair = clash(traits)
    if pair is not None:
        first, second = pair
        row = INCOMPATIBLE[pair]
        raise JobcastError(f"{where}{first} and {second} do not compose: {row.reason}; {row.instead}.")


def page() -> str:
    """Return the page of what does not compose, made from the table."""
    rows = [f"| {row.trait} | {'; '.join(row.others)} | {row.reason} | {row.instead} |" for row in ROWS]
    return _HEAD + "\n".join(rows) + "\n"


_HEAD: Final = """# What does not compose

Every policy works with every machine, with these exceptions: a feature in the first column does not work with any
feature in the second. This page is made from `schedsim.policies.traits`.

| feature | does not compose with | why | what to do instead |
|---|---|---|---|
"""
