"""The laws that schedules keep, and what excuses a run from each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from predictors.core.arrays import Ints
from predictors.core.events import Forecast
from schedsim.kernels.keys import F4
from schedsim.policies.orders import SCORE
from schedsim.policies.policy import Policy
from schedsim.results.schedule import Schedule
from schedsim.sites.cobalt.rules import Rules
from schedsim.validate.bounds import is_bounded
from schedsim.workload.estimates import PolledEstimates, RevisedEstimates, Separate

Believed = Forecast | RevisedEstimates | Separate | Ints

STARTS: Final = "every job starts once, not before its submission"
ENDS: Final = "a job runs as long as it runs, or to its request where it is killed there"
PARTS: Final = "a job that is preempted runs again only after that"
CAPACITY: Final = "never more processors than the machine has"
NODES: Final = "every job has its number of nodes, and no node two jobs at once"
ON_NODES: Final = "no node gives more processors, GPUs or memory than it has, and one held alone serves one job"
INSTANTS: Final = "jobs start in seconds in which something ends or is submitted"
RANGE: Final = "estimates lie from 1 s to the request, and are those that were given"
CORRECTED: Final = "an estimate is corrected if, and only if, an instant finds it outlived"
IN_ORDER: Final = "with no backfilling, jobs start in the order of the queue"
NO_IDLE_HEAD: Final = "the first job of the queue starts as soon as it fits"
KIND: Final = "a job that passes a blocked one is backfilled, and no other"
HARMLESS: Final = "no backfill delays the head's shadow time"
FIRST_SHADOW: Final = "the head starts by its first shadow time"
PROMISE: Final = "the head starts by its promise"
BOUND: Final = "an overdue job starts in time, by the requested times of the jobs before it"
CEILING: Final = "no start lifts utilisation above the ceiling, but of a job that alone needs as much"
NOTHING_FITS: Final = "a greedy rule leaves no job waiting that fits"
AVAILABLE: Final = "never more processors than are neither reserved nor down"
PARENTS: Final = "no job starts before the one that it waits for has ended, and its think time"
SHARES: Final = "no queue uses more than its share of the machine"


class Run(NamedTuple):
    """A schedule, and the rules that it was to follow."""

    schedule: Schedule
    policy: Policy
    estimates: Believed | None
    kill: bool
    rules: Rules | None

    @property
    def is_overtaken(self) -> bool:
        """Whether a reservation may have to wait for running jobs."""
        if self.schedule.disturbed is None:
            return False
        outages = self.schedule.disturbed.outages
        return bool(outages.reservations) and (not self.kill or bool(outages.changes))

    @property
    def is_static(self) -> bool:
        """Whether the queue's order follows from the schedule: its keys do not change while a job waits."""
        revised, order = isinstance(self.estimates, Separate | RevisedEstimates), self.policy.order
        moves = revised or (self.policy.promise is not None and self.policy.promise.kept)  # a head keeps its place
        return order.code <= F4 and not (moves and order.name != "fcfs")


class Excuse(NamedTuple):
    """Why a run need not keep a law, and whether that applies."""

    text: str
    holds: Callable[[Run], bool]


_GATED = Excuse(
    "a gate or an agent decides, and may wake the machine",
    lambda r: r.policy.gate is not None or r.policy.agent is not None,
)
_LOOPS = Excuse("backfilling has a clock of its own, and limits hold jobs", lambda r: r.policy.kind == "loops")
_KEEPING = Excuse("reservations are kept, or there are none", lambda r: r.policy.kind not in ("counts", "profile"))
_BACKFILLING = Excuse("the policy backfills", lambda r: r.policy.depth != 0)
_NOT_BACKFILLING = Excuse("the policy does not backfill", lambda r: r.policy.depth == 0)
MOVING: Final = Excuse("the order is not known, or changes while jobs wait", lambda r: not r.is_static)
_NEW_HEADS = Excuse("a later job may become the head", lambda r: r.policy.order.name != "fcfs")
_TOO_SHORT = Excuse("some estimates were too short", lambda r: bool((r.schedule.run_time > r.schedule.estimate).any()))
_SEPARATE = Excuse("several estimates are used", lambda r: isinstance(r.estimates, Separate))
REVISED: Final = Excuse(
    "estimates are revised while jobs wait and run", lambda r: isinstance(r.estimates, RevisedEstimates)
)
_POLLED = Excuse("polls set soft limits, and wake the machine", lambda r: isinstance(r.estimates, PolledEstimates))
_BEYOND = Excuse("jobs may run beyond their request", lambda r: not r.kill)
_UNPLACED = Excuse("nodes have no numbers", lambda r: r.schedule.nodes is None)
_SHARED = Excuse("jobs share nodes", lambda r: r.schedule.placements is not None)
_NOT_SHARED = Excuse("jobs ask for processors alone", lambda r: r.schedule.placements is None)
BY_PLACE: Final = Excuse(
    "places of free nodes may decide which job fits",
    lambda r: r.schedule.nodes is not None and r.schedule.nodes.by_identity,
)
_COUNTED_TWICE = Excuse(
    "a node of the allocator that is both reserved and down counts twice",
    lambda r: BY_PLACE.holds(r) and r.schedule.placements is None,
)
BY_RUN_TIMES: Final = Excuse("the machine decides how long jobs run", lambda r: r.schedule.stopped is not None)
_UNPROMISED = Excuse("nothing is promised", lambda r: not r.policy.promise)
_NEVER_DUE = Excuse("no job is ever due, or no head keeps its place", lambda r: not is_bounded(r.policy))
_NOT_GREEDY = Excuse("the policy is not greedy", lambda r: r.policy.kind not in ("greedy", "knapsack"))
_UNLIMITED = Excuse("there is no ceiling on utilisation", lambda r: r.policy.ceiling is None)
_LIMITED = Excuse("there is a ceiling on utilisation, or jobs are postponed", lambda r: r.policy.is_ceil)
_TICKS = Excuse("the score's ticks wake the machine", lambda r: SCORE in (r.policy.order, r.policy.backfill_order))
_RULED = Excuse("the site's rules hold jobs, or limit their queues", lambda r: r.rules is not None)
_UNRULED = Excuse("the site has no such rules", lambda r: r.rules is None)
_SPENDING = Excuse(
    "spent accounts move jobs out of their queues", lambda r: r.rules is not None and r.rules.accounts is not None
)
_POSTPONED = Excuse("jobs are postponed until a timer starts a pass", lambda r: r.policy.postpone is not None)
_BY_OUTAGE = Excuse("parts of the machine are reserved, or fail", lambda r: r.schedule.disturbed is not None)
_UNDISTURBED = Excuse("nothing is reserved and nothing fails", lambda r: r.schedule.disturbed is None)
_UNPREEMPTED = Excuse("no job is preempted", lambda r: r.schedule.preempted is None)
OVERTAKEN: Final = Excuse(
    "reservations wait for jobs that run on after failures, or beyond their requests", lambda r: r.is_overtaken
)

_BY_SITE = (_LIMITED, _RULED, _BY_OUTAGE)
_OF_SHADOWS = (_SEPARATE, REVISED, _TOO_SHORT, BY_PLACE, *_BY_SITE)
EXCUSES: Final[Mapping[str, tuple[Excuse, ...]]] = MappingProxyType(
    {
        STARTS: (),
        ENDS: (BY_RUN_TIMES,),
        PARTS: (_UNPREEMPTED,),
        CAPACITY: (),
        NODES: (_UNPLACED, _SHARED),
        ON_NODES: (_NOT_SHARED,),
        INSTANTS: (_GATED, _LOOPS, _POLLED, _TICKS, _RULED, _BY_OUTAGE),
        RANGE: (),
        CORRECTED: (_GATED, _LOOPS, REVISED, _POSTPONED, _TICKS, _RULED, _BY_OUTAGE),
        IN_ORDER: (_BACKFILLING, _GATED, _KEEPING, MOVING, *_BY_SITE),
        NO_IDLE_HEAD: (_GATED, _KEEPING, MOVING, BY_PLACE, *_BY_SITE),
        KIND: (_GATED, _KEEPING, MOVING, BY_PLACE, *_BY_SITE),
        HARMLESS: (_NOT_BACKFILLING, _GATED, _KEEPING, MOVING, *_OF_SHADOWS),
        FIRST_SHADOW: (_NOT_BACKFILLING, _GATED, _KEEPING, _NEW_HEADS, *_OF_SHADOWS),
        PROMISE: (_UNPROMISED, _SHARED, _GATED, _KEEPING, _NEW_HEADS, _BEYOND, *_BY_SITE),
        BOUND: (_NEVER_DUE, _GATED, _KEEPING, _BEYOND, BY_PLACE, BY_RUN_TIMES, *_BY_SITE),
        CEILING: (_UNLIMITED,),
        NOTHING_FITS: (_NOT_GREEDY, _GATED, BY_PLACE, _RULED, _BY_OUTAGE),
        AVAILABLE: (_UNDISTURBED, OVERTAKEN, _COUNTED_TWICE),
        PARENTS: (_UNRULED,),
        SHARES: (_UNRULED, _SPENDING),
    }
)
"""The laws, in the order of reports, and what excuses a run from each."""
