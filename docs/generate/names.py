"""The page of names, made from the registries of predictors, policies and corrections."""

from collections.abc import Sequence
from typing import Final

from predictors.registry import PREDICTORS
from schedsim.agents.files import PREFIX, SHIPPED
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.policies.orders import ORDERS, LookAhead
from schedsim.policies.policy import POLICIES, Policy

HEAD = """# Names

This page lists the names that commands take. The behaviour of a name never changes. Installed packages may add names:
[write your own](how-to/write-your-own.md).

"""

ORDERED = {
    "fcfs": "the first submission",
    "sjf": "the shortest estimate",
    "ljf": "the longest estimate",
    "saf": "the smallest estimate × processors",
    "laf": "the largest estimate × processors",
    "wfp3": "the largest (wait / requested time)³ × processors",
    "unicep": "the largest wait / (log2(processors) × requested time)",
    "f1": "the smallest log10(p) n + 870 log10(s); p: estimate, n: processors, s: submission since the first [s]",
    "f2": "the smallest √p n + 25,600 log10(s)",
    "f3": "the smallest p n + 6,860,000 log10(s)",
    "f4": "the smallest p √n + 530,000 log10(s)",
}
"""Which waiting job each queue order puts first."""
GIVEN = [
    ("`requested`", "what the users asked for"),
    ("`clairvoyant`", "the true run time: the best that predictions can do"),
    ("`cqsim`", "waiting jobs tested by the true run time, all else by requests: how CQSim plans, and looks ahead"),
    (
        "`careful`",
        "an estimate for each role, for `--policy careful` ([backfilling](backfilling.md)); older name: `default`",
    ),
    ("`balanced`", "the same, for `--policy balanced`"),
    ("`bold`", "the same, but short jobs gain more and wide ones pay"),
    ("`models:/NAME@ALIAS`", "a kept model, by its alias, version, run or folder; served as it is"),
]
"""Estimates of `jobcast simulate` in addition to the predictors."""


def page() -> str:
    """Return the page: predictors, policies and corrections by name."""
    predictors = [(f"`{name}`", _first_line(kind.__doc__ or "")) for name, kind in PREDICTORS.built_in.items()]
    by_order = list(ORDERS.built_in)
    policies = [
        ("`ORDER`", "queue by a queue order (below), no job may pass a blocked head"),
        ("`ORDER-easy`", "queue by a queue order, one reservation, backfill by the same order"),
    ]
    told = {*by_order, *(f"{name}-easy" for name in by_order)}
    policies += [(f"`{name}`", _in_words(policy)) for name, policy in POLICIES.built_in.items() if name not in told]
    policies += [
        ("`agent:FILE`", "the agent of a file that `jobcast tune` made picks, see [tuned agents](tune.md)"),
        ("`agent:models:/NAME@ALIAS`", "one that is registered in MLflow"),
        *((f"`{PREFIX}{name}`", AGENTS[name]) for name in SHIPPED),
    ]
    policies += [
        ("`hybrid-K`", "as `easy`, but the first K blocked jobs hold reservations, planned again at every pass"),
        (
            "`…+promise`",
            "after any EASY or hybrid name: the head certainly starts by its shadow time by requested times",
        ),
        ("`ceil`", "`wfp3-easy+ceil`"),
        (
            "`…+ceil`",
            "after a name with at most one reservation: no start lifts utilisation above 95 %, jobs with a deadline "
            "are postponed ([CEIL](ceil.md))",
        ),
        (
            "`careful`",
            "EASY-SJBF; the head starts at most a day after its shadow time; use it with `--estimates careful` "
            "([backfilling](backfilling.md)); older name: `default`",
        ),
        (
            "`balanced`",
            "EASY by a priority that favours short jobs; due dates bound every wait; use it with "
            "`--estimates balanced` ([backfilling](backfilling.md))",
        ),
        (
            "`look-ahead`",
            "EASY by the order that looks best at each pass, once the queue is drained by it; tried are "
            f"{', '.join(LookAhead().orders)} ([how](tune.md#look-ahead-without-learning))",
        ),
    ]
    orders = [(f"`{name}`", ORDERED[name]) for name in by_order]
    corrections = [(f"`{name}`", rule.help) for name, rule in CORRECTIONS.items()]
    return (
        HEAD
        + _list("Predictors", "`--predictors` and `--estimates` take:", predictors)
        + _list("Estimates that are no predictor", "`--estimates` also takes:", GIVEN)
        + _list("Policies", "`--policy` takes:", policies)
        + _list("Queue orders", "The first job is the one with:", orders)
        + _list(
            "Corrections of an expired estimate", "`--correction` says what the new estimate is:", corrections
        ).rstrip()
        + "\n"
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


AGENTS: Final = {
    "oldest-first": "an agent that picks whoever waits longest: EASY",
    "random-kept": "any job of the first 50, with equal chances; the job picked that does not fit is reserved until it "
    "starts: the control of tuned agents",
    "random-oldest": "the same; the first of the queue is reserved until it starts",
    "random-again": "the same; it picks again at each instant, and no reservation lasts",
}
"""What the agents do that need no file."""


def _in_words(policy: Policy) -> str:
    """Say what a policy does.

    Examples
    --------
    >>> _in_words(POLICIES["easy-sjbf"])
    'queue by fcfs, one reservation, backfill by sjf'
    """
    if policy.kind == "greedy":
        return f"starts whatever fits, by {policy.order.name}, without reservations"
    if policy.kind == "knapsack":
        return f"starts the most valuable set of the first {policy.window} jobs"
    queue = f"queue by {policy.order.name}"
    if policy.depth == 0:
        return f"{queue}, no job may pass a blocked head"
    plan = {"profile": "planned again at every pass", "compress": "kept once given, and only moved forward"}
    held = "one reservation" if policy.depth == 1 else f"all jobs hold reservations, {plan[policy.kind]}"
    return f"{queue}, {held}, backfill by {policy.backfill_order.name}"


def _list(title: str, lead: str, entries: Sequence[tuple[str, str]]) -> str:
    lines = [f"## {title}", "", f"{lead}", "", *(f"* {name}: {text}" for name, text in entries)]
    return "\n".join(lines) + "\n\n"
