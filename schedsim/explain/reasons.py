"""Reasons: what happened to each waiting job at one instant, as the compiled passes noted it."""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from schedsim.kernels import reasons as why
from schedsim.kernels.places import records as of
from schedsim.kernels.records import NEVER

Rule = Literal[
    "starts", "head", "processors", "place", "turn", "shadow", "promise", "reservation", "gate", "not chosen", "window",
    "ceiling", "put off", "share", "outage", "resources", "held",
]  # fmt: skip
"""What happened to a waiting job at an instant: it starts; or it heads the queue blocked; too few processors are free;
enough are, but in no place for it; it may not pass the head; it would delay the head; it would break a
promise; it would delay reservations; a gate holds it; the policy chose others; the policy does not look at it yet; its
start would lift utilisation above the ceiling; it is postponed; its queue may not use so much of the machine, or has
reserved it; by its requested time it would run into what is reserved of the machine; its nodes have too little of some
resource; it is held. The passes note all
but the last, with the numbers of `schedsim.kernels.reasons`: the first is 1."""

RULES: Final[tuple[Rule, ...]] = get_args(Rule)


@dataclass(frozen=True)
class Reason:
    """What happened to a waiting job at one instant; jobs as rows of the workload, times in seconds."""

    rule: Rule  # see `Rule`
    free: int  # processors free when its turn came
    head: int | None = None  # the job that headed the queue blocked
    # when by the estimates the head can start; for a promise, the latest start promised to it
    shadow: int | None = None
    extra: int | None = None  # processors that the head leaves free then; unknown where places count instead of numbers
    reserved: int | None = None  # when the job's own reservation is
    collides: int | None = None  # when the reservations of others would leave it too few processors, had it started
    blockers: tuple[int, ...] = ()  # the jobs that hold these reservations
    reason: str = ""  # what the gate says, or why it is held
    room: int | None = None  # under a ceiling on utilisation, processors that the job could use
    due: int | None = None  # when a job that is postponed joins the queue at the latest
    # place, choices: where an agent picked the job: its place in the agent's window, from 1, and how many jobs that
    # held
    place: int | None = None
    choices: int | None = None
    score: float | None = None  # the agent's score, if it scores
    # where jobs take GPUs and memory of nodes, which of `LACKING` a job without a place lacks; empty: each suffices,
    # but not all on one node
    lacking: tuple[str, ...] | None = None
    # free_gpus, free_memory: GPUs and memory [KB] free then on the nodes that it may use; `free` is then of these
    # nodes, too; a node where memory does not count has none
    free_gpus: int | None = None
    free_memory: int | None = None


LACKING: Final = {of.PROCESSORS: "processors", of.GPUS: "gpus", of.MEMORY: "memory", of.EMPTY_NODES: "nodes"}
"""What a job may lack, by the bits of the notes; nodes: without other jobs, or without exclusive ones."""
_WITHOUT_ROOM: Final = (why.STARTS, why.TURN, why.GATE)


def reason_of(one: why.Reason, noted: why.Reasons, is_ceil: bool, on_nodes: bool = False) -> Reason:
    """Return a note of an instant as a reason.

    `is_ceil` tells whether utilisation is limited, `on_nodes` whether jobs take GPUs and memory of nodes.
    """
    blocked = on_nodes and one.rule in (why.HEAD, why.RESOURCES, why.POSTPONED) and one.lacking != NEVER
    picked = one.rule in (why.STARTS, why.HEAD) and one.place > 0
    limited = one.rule == why.SHARE or (is_ceil and one.rule not in _WITHOUT_ROOM)
    return Reason(
        rule=RULES[one.rule - 1],
        free=int(one.free),
        head=None if one.head < 0 else int(one.head),
        shadow=_known(one.shadow),
        extra=_known(one.extra),
        reserved=_known(one.planned),
        collides=_known(one.collides),
        blockers=_blockers(one, noted) if one.rule == why.RESERVATION else (),
        room=_known(one.room) if limited else None,
        due=_known(one.due) if one.rule == why.POSTPONED else None,
        place=int(one.place) if picked else None,
        choices=int(one.choices) if picked else None,
        score=float(one.score) if picked and math.isfinite(one.score) else None,
        lacking=tuple(name for bit, name in LACKING.items() if one.lacking & bit) if blocked else None,
        free_gpus=int(one.free_gpus) if on_nodes else None,
        free_memory=int(one.free_memory) if on_nodes else None,
    )


def _known(number: int) -> int | None:
    return None if number >= NEVER else int(number)


def _blockers(one: why.Reason, noted: why.Reasons) -> tuple[int, ...]:
    """Return the rows of the jobs with booked processors that a job would have run into."""
    begin, then = noted["booked"], one.collides
    there = (begin <= then) & (then < begin + noted["estimate"]) & (noted["number"] < one.known)
    there &= noted["row"] != one.row
    return tuple(noted["row"][there][np.argsort(noted["number"][there])].tolist())
