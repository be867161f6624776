"""The laws that schedules keep, and what excuses a run from each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from schedsim.estimates import Forecast, Outlook, Separate
from schedsim.orders import SCORE
from schedsim.paranoid_replay import (
    FIRST_SHADOW,
    HARMLESS,
    IN_ORDER,
    KIND,
    NO_IDLE_HEAD,
    NOTHING_FITS,
    PROMISE,
    STATIC_KEYS,
    Broken,
)
from schedsim.policy import Policy
from schedsim.rules import Rules
from schedsim.schedule import Schedule

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Believed = Forecast | Outlook | Separate | Ints

STARTS: Final = "every job starts once, not before its submission"
ENDS: Final = "a job runs as long as it runs, or to its request where it is killed there"
CAPACITY: Final = "never more processors than the machine has"
INSTANTS: Final = "jobs start in seconds in which something ends or is submitted"
NODES: Final = "every job has its number of nodes, and no node two jobs at once"
RANGE: Final = "estimates lie from 1 s to the request, and are those that were given"
CEILING: Final = "no start lifts utilisation above the ceiling, but of a job that alone needs as much"
PARENTS: Final = "no job starts before the one that it waits for has ended, and its think time"
SHARES: Final = "no queue uses more than its share of the machine"
AVAILABLE: Final = "never more processors than are neither reserved nor down"
CORRECTED: Final = "an estimate is corrected if, and only if, an instant finds it outlived"

GATED: Final = "a gate or an agent decides, and may wake the machine"
KEEPING: Final = "reservations are kept, or there are none"
BACKFILLING: Final = "the policy backfills"
NOT_BACKFILLING: Final = "the policy does not backfill"
MOVING: Final = "the order is not known, or changes while jobs wait"
NEW_HEADS: Final = "a later job may become the head"
TOO_SHORT: Final = "some estimates were too short"
SEPARATE: Final = "several estimates are used"
REVISED: Final = "estimates are revised while jobs wait and run"
BEYOND: Final = "jobs may run beyond their request"
UNPLACED: Final = "nodes are not told apart"
BY_PLACE: Final = "where free nodes lie may decide who fits"
BY_WORLD: Final = "the machine decides how long jobs run"
UNPROMISED: Final = "nothing is promised"
NOT_GREEDY: Final = "the policy is not greedy"
UNLIMITED: Final = "there is no ceiling on utilisation"
LIMITED: Final = "there is a ceiling on utilisation, or jobs are put off"
TICKS: Final = "the score's ticks wake the machine"
RULED: Final = "the site's rules hold jobs, or limit their queues"
UNRULED: Final = "the site has no such rules"
SPENDING: Final = "spent accounts move jobs out of their queues"
PUT_OFF: Final = "jobs are put off, until a timer wakes the machine"
BY_OUTAGE: Final = "parts of the machine are reserved, or fail"
UNDISTURBED: Final = "nothing is reserved and nothing fails"
OVERTAKEN: Final = "what is reserved waits for jobs that run on after failures, or beyond their requests"

_OF_SHADOWS: Final = (SEPARATE, REVISED, TOO_SHORT, BY_PLACE, LIMITED, RULED, BY_OUTAGE)
EXCUSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        STARTS: (),
        ENDS: (BY_WORLD,),
        CAPACITY: (),
        NODES: (UNPLACED,),
        INSTANTS: (GATED, TICKS, RULED, BY_OUTAGE),
        RANGE: (),
        CORRECTED: (GATED, REVISED, PUT_OFF, TICKS, RULED, BY_OUTAGE),
        IN_ORDER: (BACKFILLING, GATED, KEEPING, MOVING, LIMITED, RULED, BY_OUTAGE),
        NO_IDLE_HEAD: (GATED, KEEPING, MOVING, BY_PLACE, LIMITED, RULED, BY_OUTAGE),
        KIND: (GATED, KEEPING, MOVING, BY_PLACE, LIMITED, RULED, BY_OUTAGE),
        HARMLESS: (NOT_BACKFILLING, GATED, KEEPING, MOVING, *_OF_SHADOWS),
        FIRST_SHADOW: (NOT_BACKFILLING, GATED, KEEPING, NEW_HEADS, *_OF_SHADOWS),
        PROMISE: (UNPROMISED, GATED, KEEPING, NEW_HEADS, BEYOND, LIMITED, RULED, BY_OUTAGE),
        CEILING: (UNLIMITED,),
        NOTHING_FITS: (NOT_GREEDY, GATED, BY_PLACE, RULED, BY_OUTAGE),
        AVAILABLE: (UNDISTURBED, OVERTAKEN, BY_PLACE),
        PARENTS: (UNRULED,),
        SHARES: (UNRULED, SPENDING),
    }
)
"""The laws, and what excuses a run from each."""


def excuses_of(
    schedule: Schedule, policy: Policy, estimates: Believed | None, kill: bool, rules: Rules | None
) -> Mapping[str, str]:
    """Return the laws that a run need not keep, with the first excuse of each."""
    greedy = policy.kind in ("greedy", "knapsack")
    separate, revised = isinstance(estimates, Separate), isinstance(estimates, Outlook)
    true = {
        GATED: policy.gate is not None or policy.agent is not None,
        KEEPING: policy.kind not in ("counts", "profile"),
        BACKFILLING: policy.depth != 0,
        NOT_BACKFILLING: policy.depth == 0,
        MOVING: policy.order.name not in STATIC_KEYS or ((separate or revised) and policy.order.name != "fcfs"),
        NEW_HEADS: policy.order.name != "fcfs",
        TOO_SHORT: bool((schedule.run_time > schedule.estimate).any()),
        SEPARATE: separate,
        REVISED: revised,
        BEYOND: not kill,
        UNPLACED: schedule.nodes is None,
        BY_PLACE: schedule.nodes is not None and schedule.nodes.by_identity,
        BY_WORLD: schedule.stopped is not None,
        UNPROMISED: not policy.promise,
        NOT_GREEDY: not greedy,
        BY_OUTAGE: schedule.disturbed is not None,
        UNDISTURBED: schedule.disturbed is None,
        OVERTAKEN: _is_overtaken(schedule, kill),
        UNLIMITED: policy.ceiling >= 1,
        LIMITED: policy.is_ceil,
        PUT_OFF: policy.postpone is not None,
        TICKS: SCORE in (policy.order, policy.backfill_order),
        RULED: rules is not None,
        UNRULED: rules is None,
        SPENDING: rules is not None and rules.accounts is not None,
    }
    first = {law: next((excuse for excuse in excuses if true[excuse]), None) for law, excuses in EXCUSES.items()}
    return MappingProxyType({law: excuse for law, excuse in first.items() if excuse is not None})


def _is_overtaken(schedule: Schedule, kill: bool) -> bool:
    """Return whether what is reserved may have to wait for running jobs."""
    if schedule.disturbed is None:
        return False
    outages = schedule.disturbed.outages
    return bool(outages.reservations) and (not kill or bool(outages.changes))


def refuse(law: str, bad: Bools, found: str, *columns: Ints) -> None:
    """Raise for the first row that is bad; `found` is filled with its values."""
    if bad.any():
        row = int(np.argmax(bad))
        raise Broken(law, row, found.format(*(int(column[row]) for column in columns)))
