"""What does not compose: one table of pairs of features that no simulation may have together.

Each policy and each part of a simulation has traits. A pair of traits in `INCOMPATIBLE` is refused, with its reason and
a way out; every other pair works. The page of compositions is made from the table.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from predictors.core.errors import JobcastError

# of a policy
NOT_EASY: Final = "backfilling other than EASY"
GREEDY: Final = "greedy backfilling"
PLAN: Final = "a plan of several jobs"  # hybrid and conservative backfilling, knapsacks, Slurm's loops
COUNTED: Final = "a plan of processors alone"  # knapsacks, Slurm's loops
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


class Refusal(NamedTuple):
    """Why two traits do not compose, and the way out."""

    reason: str
    instead: str


_COUNTS: Final = Refusal(
    "it counts processors alone, and the jobs take GPUs and memory of nodes",
    "take an order (fcfs, sjf, wfp3, …), EASY on one (easy, easy-sjbf, wfp3-easy, …), hybrid or conservative "
    "backfilling, careful, balanced, binpacking or random; or leave out the machine file",
)
_ALIKE: Final = Refusal(
    "it knows processors, or nodes that are alike", "leave it out, or the machine file with GPUs and memory"
)
_BY_COUNTS: Final = Refusal(
    "it counts processors, and where the free ones lie decides who fits",
    "take no or one reservation, or a greedy policy; or an allocator that always finds a place (first-fit)",
)
_BY_ESTIMATES: Final = Refusal(
    "the look-ahead drains the queue by processors and estimates alone",
    "leave it out, or take another order",
)
_ALONE: Final = Refusal("the look-ahead ranks the queue and the backfills as one", "leave one of them out")
_ONE_PASS: Final = Refusal(
    "it pauses the pass to ask, and only a pass with no or one reservation can go on after it",
    "take EASY, no backfilling or a greedy policy",
)

INCOMPATIBLE: Final[Mapping[tuple[str, str], Refusal]] = MappingProxyType(
    {
        (PROMISE, NOT_EASY): Refusal("only the head of EASY or a hybrid is promised a start", "take Easy(depth=…)"),
        (KEPT_HEAD, PLAN): Refusal("reservations are planned again at each pass", "take EASY with one reservation"),
        (KEPT_HEAD, RESERVED_AGAIN): Refusal(
            "the head is reserved until it starts", "reserve the kept or the oldest job (reserve='kept' or 'oldest')"
        ),
        (RESERVE, GREEDY): Refusal("greedy backfilling reserves no job", "leave reserve out"),
        (AGENT, PLAN): _ONE_PASS,
        (GATE, PLAN): _ONE_PASS,
        (AGENT, GATE): Refusal("both decide who starts", "leave one of them out"),
        (CEILING, PLAN): Refusal("a plan counts all processors", "take EASY or no backfilling"),
        (POSTPONED, PLAN): Refusal("a plan has no place for jobs outside the queue", "take EASY or no backfilling"),
        (CEILING, GREEDY): Refusal("no head waits below the ceiling", "take EASY or no backfilling"),
        (POSTPONED, GREEDY): Refusal("a greedy pass never looks at postponed jobs", "take EASY or no backfilling"),
        (CEILING, AGENT): Refusal("an agent sees all free processors", "leave one of them out"),
        (POSTPONED, AGENT): Refusal("an agent sees the queue alone", "leave one of them out"),
        (LOOK_AHEAD, PLAN): _ALONE,
        (LOOK_AHEAD, GREEDY): _ALONE,
        (LOOK_AHEAD, SECOND_ORDER): _ALONE,
        (LOOK_AHEAD, GATE): _ALONE,
        (LOOK_AHEAD, AGENT): _ALONE,
        (LOOK_AHEAD, CEILING): _ALONE,
        (LOOK_AHEAD, POSTPONED): _ALONE,
        (LOOK_AHEAD, PLACES): _BY_ESTIMATES,
        (LOOK_AHEAD, RUN_TIMES): _BY_ESTIMATES,
        (LOOK_AHEAD, OUTAGES): _BY_ESTIMATES,
        (LOOK_AHEAD, RULES): _BY_ESTIMATES,
        (COUNTED, NODES): _COUNTS,
        (AGENT, NODES): _COUNTS,
        (LOOK_AHEAD, NODES): _COUNTS,
        (ALLOCATOR, NODES): _ALIKE,
        (RUN_TIMES, NODES): _ALIKE,
        (RULES, NODES): _ALIKE,
        (PLAN, PLACES): _BY_COUNTS,
        (PROMISE, PLACES): _BY_COUNTS,
        (AGENT, PLACES): _BY_COUNTS,
        (CEILING, PLACES): _BY_COUNTS,
        (POSTPONED, PLACES): _BY_COUNTS,
        (NETWORK_OF_NODES, OUTAGES): Refusal(
            "the network sees every node, and knows of none that fails or is reserved", "leave outages out"
        ),
        (SHARES, PLAN): Refusal(
            "a plan counts the machine as one", "take cobalt or EASY with one reservation, or queues without shares"
        ),
        (SHARES, AGENT): Refusal("an agent sees the machine as one", "leave the agent out, or the shares"),
        (POSTPONED, ACCOUNTS): Refusal(
            "postponed jobs see no accounts and no commands",
            "take a ceiling without postponing (ceil(policy, postpone=None)), or leave these out",
        ),
        (ALTERED, ALLOCATOR): Refusal("the allocator knows jobs as submitted", "leave it out, or the alterations"),
        (ALTERED, RUN_TIMES): Refusal("the model knows jobs as submitted", "leave it out, or the alterations"),
        (KEPT_PLAN, REVISED): Refusal(
            "reservations are kept by the estimates that they were made with", "take conservative-replan or EASY"
        ),
    }
)
"""Pairs of traits that no simulation may have together, with the reason and the way out."""


def clash(traits: Collection[str]) -> tuple[str, str] | None:
    """Return the first pair of these traits that does not compose, or None.

    Examples
    --------
    >>> clash([PROMISE, GATE]), clash([LOOK_AHEAD, GATE])
    (None, ('a look-ahead', 'a gate'))
    """
    return next((pair for pair in INCOMPATIBLE if pair[0] in traits and pair[1] in traits), None)


def refuse(traits: Collection[str], where: str = "") -> None:
    """Refuse traits that do not compose.

    Parameters
    ----------
    traits
        Of a policy, or of a whole simulation.
    where
        What the message begins with: the case, or the file.

    Raises
    ------
    JobcastError
        Naming both, the reason and the way out.
    """
    pair = clash(traits)
    if pair is not None:
        first, second = pair
        reason, instead = INCOMPATIBLE[pair]
        raise JobcastError(f"{where}{first} and {second} do not compose: {reason}; {instead}.")


def page() -> str:
    """Return the page of what does not compose, made from the table."""
    rows = [
        f"| {first} | {second} | {refusal.reason} | {refusal.instead} |"
        for (first, second), refusal in INCOMPATIBLE.items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


_HEAD: Final = """# What does not compose

Every policy works with every machine, except for these pairs. This page is made from `schedsim.policies.traits`.

| feature | feature | why they do not compose | what to do instead |
|---|---|---|---|
"""
