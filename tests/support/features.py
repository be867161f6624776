"""Features of policies and machines by name: what each is to the engine, and what it is to the slow oracle.

`differing` draws a small workload by a seed, runs a set of features in both, and says where they part. `refused` runs
what the table refuses in the oracle alone: there it has a schedule, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np

from predictors.core.errors import JobcastError
from schedsim.engine.simulation import Simulation
from schedsim.kernels.corrections import CORRECTIONS
from schedsim.machine.allocators import Contiguous, FirstFit
from schedsim.machine.dilation import Dilation
from schedsim.machine.outages import Change, Outages, Reservation
from schedsim.machine.topology import Topology
from schedsim.policies import traits
from schedsim.policies.agents import RandomPicks
from schedsim.policies.backfilling import Conservative, Easy, Greedy, Knapsack, Promise
from schedsim.policies.ceil import Ceiling, Postponing
from schedsim.policies.gates import Verdict
from schedsim.policies.orders import ORDERS, SCORE, WIDEST, LookAhead, Order, Priority, random_order
from schedsim.policies.policy import Policy
from schedsim.policies.traits import clash
from schedsim.results.schedule import STARTED_BY
from schedsim.sites.slurm.fair_share import FairShare, Shares
from schedsim.sites.slurm.limits import LimitsBeingMade, Quota
from schedsim.sites.slurm.loops import Loops
from schedsim.sites.slurm.multifactor import Multifactor, parts_of
from schedsim.sites.slurm.preemption.rule import Preemption
from schedsim.validate.validate import check
from schedsim.workload.estimates import Separate
from tests.oracle.cobalt import House
from tests.oracle.easy import Job, Rule, simulate
from tests.oracle.limits import Cap, Caps
from tests.oracle.machine import Ask, Box, Calendar, Counts, Nodes, Rows
from tests.oracle.preemption import Preempts
from tests.support.cobalt_runs import rules_of
from tests.support.engine_runs import workload_of
from tests.support.nodes import (
    drawn_ask,
    drawn_boxes,
    fits_alone,
    single_processors,
    with_constraint,
    with_features,
    with_switches,
    workload_on,
)
from tests.support.strategies import Fickle

ALL = 10**9
OWN = Order.by(lambda waiting: -waiting.procs * (waiting.wait + 10))
"""A user's own order, the oracle's `own`."""
RULES = ("shares", "dependencies", "holds", "alterations", "all rules")


class OnSecondThought:
    """A gate that holds each job once for a minute."""

    def ask(self, candidate):
        """Hold it the first time."""
        return Verdict(candidate.holds > 0, "second thoughts", recheck=60)


@dataclass
class Setup:
    """Parts of a policy and of a simulation, and the same of the oracle."""

    policy: dict[str, Any] = field(default_factory=dict)
    rule: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    machine: str = "counts"
    marks: set[str] = field(default_factory=set)


def policy(rule=None, **parts):
    """A feature of the policy, and the same as the oracle's rule has it."""

    def add(setup):
        setup.policy |= parts
        setup.rule |= rule or {}

    return add


def parts(**parts):
    return lambda setup: setup.parts.update(parts)


def mark(*names):
    return lambda setup: setup.marks.update(names)


def machine(name):
    return lambda setup: setattr(setup, "machine", name)


def priority(head_start, estimate, procs, grace, share):
    order = Order.by_priority(Priority(head_start, estimate, procs, grace, share))
    return policy({"order": "priority", "priority": (head_start, estimate, procs, grace, share)}, order=order)


def promise(**about):
    return policy({"promise": True, **about}, promise=Promise(**about))


def behind(backfill, **rule):
    """Backfilling."""
    plain = {"depth": 0, "backfill_order": None, "keeps": False, "greedy": False, "knapsack": None, "loops": None}
    plain["family"] = None
    return policy(plain | rule, backfill=backfill)


def sets(reward):
    """A knapsack over a small window: the oracle tries all sets."""

    def add(setup):
        behind(Knapsack(reward), greedy=True, knapsack=reward, window=6)(setup)
        setup.policy["window"] = 6

    return add


def look_ahead(orders, aim):
    order = Order.by_look_ahead(LookAhead(orders, aim))
    return policy({"order": orders[0], "look_ahead": (orders, aim)}, order=order)


def late(**about):
    """Postponed jobs."""
    value = Postponing(**about)
    return policy(
        {"postpones": True, "low": Fraction(str(value.low)), "lead": value.lead, "backfill": value.backfill,
         "looks": value.looks},
        postpone=value,
    )  # fmt: skip


def preempts(**about):
    """Preemption by users, under Slurm's loops unless another feature backfills otherwise."""

    def add(setup):
        if "backfill" not in setup.policy:
            FEATURES["loops"](setup)
        setup.rule["preempts"] = Preempts(**about)

    return add


def limited(*kinds):
    """Limits of Slurm's loops, of which a case draws the numbers."""

    def add(setup):
        if "backfill" not in setup.policy:
            FEATURES["loops"](setup)
        setup.rule["limits"] = kinds

    return add


def on_nodes(name):
    """A mark of what only nodes have."""

    def add(setup):
        setup.machine = "nodes" if setup.machine == "counts" else setup.machine
        setup.marks.add(name)

    return add


BY_QOS = frozenset([(2, 1), (2, -1), (1, -1), (0, -1)])
BY_TIER = frozenset((one, other) for one in range(-1, 3) for other in range(-1, one) if (one, other) != (0, -1))
"""Users by the tier of their partition; two of the partitions share no node."""
GROUPS: dict[str, dict[str, Callable[[Setup], object]]] = {
    "order": {
        **{name: policy({"order": name}, order=ORDERS[name]) for name in ("sjf", "laf", "wfp3", "unicep", "f2")},
        "random order": policy({"order": "random", "seed": 7}, order=random_order(7)),
        "widest": policy({"order": "widest"}, order=WIDEST),
        "score": policy({"order": "score"}, order=SCORE),
        "balanced": priority(20.0, 1.0, 0.1, 40, 0.35),
        "priority": priority(60.0, 0.5, -0.2, None, 0.0),
        "look-ahead": look_ahead(("fcfs", "sjf", "saf", "wfp3", "unicep"), "wait-slowdown"),
        "look-ahead of two": look_ahead(("sjf", "ljf"), "wait"),
        "look-ahead by slowdown": look_ahead(("fcfs", "laf"), "slowdown"),
        "look-ahead by squares": look_ahead(("saf", "fcfs", "ljf"), "squared-wait"),
        "own order": policy({"order": "own"}, order=OWN),
    },
    "backfilling": {
        "easy": behind(Easy(), depth=1),
        "easy-sjbf": behind(Easy(ORDERS["sjf"]), depth=1, backfill_order="sjf"),
        "easy-own": behind(Easy(OWN), depth=1, backfill_order="own"),
        "hybrid of one": behind(Easy(replan=True), depth=1, family="planned"),
        "hybrid": behind(Easy(depth=3), depth=3),
        "hybrid-sjbf": behind(Easy(ORDERS["sjf"], depth=2), depth=2, backfill_order="sjf"),
        "conservative": behind(Conservative(), depth=None),
        "compress": behind(Conservative(keep=True), depth=None, keeps=True),
        "greedy": behind(Greedy(), greedy=True),
        "greedy-saf": behind(Greedy(ORDERS["saf"]), greedy=True, backfill_order="saf"),
        "knapsack": sets("capability"),
        "capacity": sets("capacity"),
        "capability by means": sets("capability-mean"),
        "capacity by means": sets("capacity-mean"),
        "loops": behind(Loops(interval=20, resolution=15), loops=(500, 20, 15, 86_400)),
        "short loops": behind(Loops(4, interval=10, resolution=60, window=150), loops=(4, 10, 60, 150)),
    },
    "promise": {
        "promise": promise(slack=60),
        "growing promise": promise(slack=10, growth=0.5, least=5, most=90),
        "kept head": promise(slack=60, growth=-0.3, least=10, most=60, kept=True),
    },
    "gate": {"gate": policy({"gate": lambda holds: None if holds else 60}, gate=OnSecondThought())},
    "agent": {
        "agent": policy({"agent": 3}, agent=RandomPicks(3)),
        "agent oldest": policy({"agent": 5, "reserve": "oldest"}, agent=RandomPicks(5), reserve="oldest"),
        "agent again": policy({"agent": 3, "reserve": "again"}, agent=RandomPicks(3), reserve="again"),
    },
    "window": {"narrow window": policy({"window": 3}, window=3)},
    "ceiling": {
        "ceiling": policy({"ceiling": Fraction("0.8")}, ceiling=Ceiling(0.8)),
        "passing ceiling": policy(
            {"ceiling": Fraction("0.7"), "passed_over": True}, ceiling=Ceiling(0.7, "passed over")
        ),
    },
    "postponing": {
        "postponed": late(lead=10),
        "postponed early": late(low=0.5, lead=30, backfill=False, looks="both"),
    },
    "machine": {name: machine(name) for name in ("nodes", "one node", "first fit", "contiguous")},
    "weights": {"weights": mark("weights")},
    "constraints": {"constraints": on_nodes("constraints")},
    "tree": {"tree": on_nodes("tree")},
    "keeping": {"nodes of users": on_nodes("kept for users")},
    "quota": {"quota": policy({"quota": 2}), "quota of the main loop": policy({"main_quota": 1})},
    "pace": {
        "cycles that last": policy({"pace": (1_500_000, 0, 60, 0)}),
        "short main loop": policy({"pace": (0, 2, 45, 0)}),
        "main loop with pauses": policy({"pace": (300_000, 3, 20, 7)}),
        "short main loop with pauses": policy({"pace": (0, 2, 45, 11)}),
    },
    "preemption": {
        "preemption by qos": preempts(may=BY_QOS, rank={-1: 0, 1: 3, 2: 7}, delay=7),
        "preemption by partition": preempts(may=BY_TIER, rank={0: 1, 1: 2, 2: 3}, exempt={0: 30, -1: 11}, delay=31),
        "preemption, youngest first": preempts(may=BY_TIER, youngest=True, gone=frozenset([0]), delay=1),
        "strict preemption": preempts(
            may=BY_QOS, strict=True, reorders=3, exempt={1: 6}, gone=frozenset([-1]), delay=60
        ),
    },
    "limits": {
        "limits": limited("at a time", "at a time"),
        "running minutes": limited("planned", "at a time"),
        "minutes": limited("spent", "spent"),
        "safe minutes": limited("safe", "planned", "spent"),
    },
    "run times": {
        "run times": parts(run_times=Dilation(limit=0.5, low=1.2, high=1.4), kill=False),
        "killed late": parts(run_times=Dilation(limit=0.6, low=1.1, high=1.8)),
        "not killed": parts(kill=False),
    },
    "dates": {"reservations": mark("reserved")},
    "failures": {"failures": mark("failing"), "dropped": mark("failing", "dropped")},
    "rules": {
        "rules": mark("rules"),
        "shares": mark("rules", "shares"),
        "dependencies": mark("rules", "parents"),
        "holds": mark("rules", "holds"),
        "alterations": mark("rules", "alters"),
        "all rules": mark("rules", "shares", "parents", "holds", "alters"),
    },
    "corrections": {name: parts(correction=name) for name in CORRECTIONS if name != "requested"},
    "estimates": {"separate": mark("separate"), "revised": mark("revised")},
}
"""Of each group a simulation has one feature at most."""

FEATURES = {name: add for group in GROUPS.values() for name, add in group.items()}


def some_features(random, n):
    """Draw features of so many groups."""
    return tuple(random.choice(sorted(GROUPS[group])) for group in random.sample(sorted(GROUPS), n))


@dataclass
class Case:
    """A set of features on a workload that a seed draws."""

    features: tuple[str, ...]
    seed: int

    def __post_init__(self):
        self.setup, self.random = Setup(), Random(self.seed)
        for name in self.features:
            FEATURES[name](self.setup)
        self.marks = self.setup.marks
        self.step = self.random.choice([1, 5, 5, 60])
        self._draw_machine()
        self._draw_jobs()
        self._draw_estimates()
        self._draw_limits(Random(-2 - self.seed))
        self.calendar = self._calendar()
        self.house = self._house() if "rules" in self.marks else None

    def _draw_machine(self):
        random, kind, self.procs = self.random, self.setup.machine, self.random.randint(4, 12)
        self.boxes, self.sets = None, None
        if kind == "nodes":
            self.boxes, self.sets = drawn_boxes(random, 16 if "tree" in self.marks else 7)
            weights = Random(-1 - self.seed).choices([1, 1, 2, 5], k=len(self.boxes))
            self.boxes = [replace(box, weight=weight) for box, weight in zip(self.boxes, weights, strict=True)]
            if "constraints" in self.marks:
                self.boxes = with_features(random, self.boxes)
            if "tree" in self.marks:
                self.boxes = with_switches(Random(-3 - self.seed), self.boxes)
        elif kind == "one node":
            self.boxes, self.sets = [Box((self.procs, 0, 0))], [(0,)]
        elif kind in ("first fit", "contiguous"):
            self.boxes = single_processors(self.procs)
        if kind in ("nodes", "one node"):
            self.procs = sum(box.has[0] for box in self.boxes)

    def _draw_jobs(self):
        random, step, jobs = self.random, self.step, []
        n, kill = random.randint(5, 16), self.setup.parts.get("kill", True)
        while len(jobs) < n:
            procs = random.choice([random.randint(1, self.procs), random.randint(1, max(1, self.procs // 3))])
            ask = None
            if self.setup.machine == "nodes":
                ask = drawn_ask(random, self.sets)
                ask = with_constraint(random, self.boxes, ask) if "constraints" in self.marks else ask
                procs = ask.pieces * ask.piece[0]
                if ask.pieces > 1 and ask.piece[0] > 1 and random.random() < 0.3:
                    procs -= 1  # a log's number that its nodes do not divide: the pieces are rounded up
            elif self.boxes is not None:
                ask = Ask(procs, (1, 0, 0), nodes=tuple(range(len(self.boxes))))
            requested = random.randint(1, 6)
            run_time = random.randint(0, 6 if kill else 9)
            submit = random.choice([random.randint(0, n // 2), random.randint(0, 4)])
            deadline = submit + random.randint(1, 20) if random.random() < 0.4 else -1
            times = step * submit, procs, step * requested, step * run_time
            job = Job(0, *times, random.randint(-1, 2), ask, deadline if deadline < 0 else step * deadline)
            if "kept for users" in self.marks and self.setup.machine in ("nodes", "one node"):
                drawn = Random(hash((self.seed, len(jobs), times))).random()
                ask = replace(ask, exclusive="user" if job.user >= 0 else True) if drawn < 0.3 else ask
                job = replace(job, ask=ask)
            if self.setup.machine != "nodes" or fits_alone(self.boxes, job):
                jobs.append(job)
        first = min(job.submit for job in jobs)
        ids = random.sample(range(1, 100), n)
        jobs = [replace(job, job_id=i, submit=job.submit - first) for i, job in zip(ids, jobs, strict=True)]
        self.jobs = sorted(jobs, key=lambda job: (job.submit, job.job_id))

    def _draw_estimates(self):
        def guess(job):
            drawn = self.random.choice([job.run_time, self.random.randint(1, job.requested), job.requested])
            return max(1, min(drawn, job.requested))

        self.roles = [[guess(job) for job in self.jobs] for _ in range(3 if "separate" in self.marks else 1)]

    def _draw_limits(self, random):
        """Draw limits; usage is followed where nothing but the multifactor priority orders the queue."""
        kinds, caps = self.setup.rule.pop("limits", ()), []
        for kind in kinds:
            most = random.randint(1, 8) if kind == "at a time" else random.choice([2, 9, 30, 80])
            users = frozenset(random.sample(range(-1, 3), random.randint(1, 3)))
            factor = random.choice([1.0, 1.0, 0.5, 0.0])
            caps.append(Cap(kind, most, users, random.random() < 0.3, random.random() < 0.8, factor))
        if kinds:
            follows = "order" not in self.setup.policy and "preempts" not in self.setup.rule
            period, half_life = self.step * random.choice([3, 7]), self.step * random.choice([0, 10, 40])
            resets = tuple(sorted(random.sample(range(1, 40 * self.step), random.choice([0, 0, 1, 2]))))
            self.setup.rule["limits"] = Caps(tuple(caps), period, half_life, resets, follows)

    def _limited(self, rule, workload):
        """Return a policy with limits, as the engine takes them."""
        made, caps = LimitsBeingMade(), self.setup.rule["limits"]
        users = np.array([job.user for job in self.jobs])
        for cap in caps.caps:
            rows = np.flatnonzero(np.isin(users, sorted(cap.users)))
            amounts = np.ones(len(rows), dtype=int) if cap.counts_jobs else workload.procs[rows]
            asked = amounts if cap.kind == "at a time" else amounts * np.maximum(1, -(-workload.requested[rows] // 60))
            holds = np.ones(len(rows), dtype=bool)
            made.add(cap.kind, cap.most, rows, asked, holds, cap.kind, amounts * cap.factor, cap.decays)
        limits = made.done(len(workload))
        backfill = replace(rule.backfill, limits=limits, calc_period=caps.period)
        if not caps.follows:
            return replace(rule, backfill=backfill)
        share = FairShare(
            Shares(np.array([-1]), np.array([1]), np.array([False])), np.full(len(workload), -1),
            np.zeros(len(workload)), caps.half_life, caps.period, caps.resets,
        )  # fmt: skip
        order = Multifactor(calc_period=caps.period).order(workload, parts_of(len(workload)), share)
        return replace(rule, order=order, backfill=backfill)

    def _calendar(self):
        """Reservations and failures; of nodes by name where there are nodes, or so many of them fail."""
        random, step, named = self.random, self.step, self.boxes is not None
        reserved, changes, down, second = [], [], [], 0

        def some(most):
            """A number of processors, or so many nodes."""
            n = random.randint(1, max(1, most))
            return tuple(sorted(random.sample(range(len(self.boxes)), min(n, len(self.boxes))))) if named else n

        for _ in range(random.randint(1, 3) if "reserved" in self.marks else 0):
            begin = random.randint(-1, 25)
            end = begin + random.randint(1, 8)
            reserved.append((begin * step, end * step, some(len(self.boxes) if named else self.procs)))
        most = self.procs if self.boxes is None else len(self.boxes)
        if "failing" in self.marks and self.setup.machine == "nodes":
            named = random.random() < 0.7
        for _ in range(random.randint(1, 4) if "failing" in self.marks else 0):
            second += random.randint(1, 6)
            free = [n for n in range(most) if n not in down] if named else range(most - len(down))
            if down and random.random() < 0.5:
                nodes = down[: random.randint(1, len(down))]
                down = down[len(nodes) :]
                changes.append((second * step, "repair", tuple(nodes) if named else len(nodes)))
            elif free:
                nodes = random.sample(list(free), min(len(free), random.randint(1, 2)))
                down += nodes
                changes.append((second * step, "fail", tuple(nodes) if named else len(nodes)))
        if down:
            changes.append(((second + 5) * step, "repair", tuple(down) if named else len(down)))
        return Calendar(tuple(reserved), tuple(changes), "dropped" not in self.marks, self.seed)

    def _house(self):
        """Two queues, the second of them with a share; chains, failures of jobs, holds and alterations."""
        random, step, n = self.random, self.step, len(self.jobs)
        narrow = max(1, self.procs // 2)
        share = random.randint(narrow, self.procs) if "shares" in self.marks else None
        house = House(queues=[(narrow + 1, ALL, 0, ALL, None), (1, narrow, 0, ALL, share)], stuck=random.random() < 0.3)
        order = random.sample(range(n), n)
        for row in range(1, n) if "parents" in self.marks else ():
            if random.random() < 0.4:
                house.parents[order[row]] = order[random.randrange(row)], random.choice([0, 0, step, 7])
        house.failed = {row for row in range(n) if "parents" in self.marks and random.random() < 0.2}
        for row, job in enumerate(self.jobs):
            if "holds" in self.marks and random.random() < 0.4:
                held = random.choice([job.submit, job.submit + random.randint(1, 5 * step)])
                house.commands.append((held, "hold", row))
                house.commands.append((held + random.randint(1, 6 * step), "release", row))
            if "alters" in self.marks and random.random() < 0.4:
                to = (
                    random.choice([None, random.randint(1, self.procs)]),
                    random.choice([None, step * random.randint(1, 6)]),
                )
                house.commands.append((job.submit + random.randint(1, 4 * step), "alter", row, *to))
        house.commands.sort(key=lambda command: command[0])
        return house

    @property
    def traits(self):
        """The traits of the parts, read off the features by hand."""
        named = self.setup.machine in ("nodes", "one node")
        placed = self.setup.machine in ("first fit", "contiguous")
        dated = bool(self.calendar.reserved)
        disturbed = dated or bool(self.calendar.changes)
        found = {
            traits.NODES: named,
            traits.OUTAGES: disturbed,
            traits.ALLOCATOR: placed,
            traits.PLACES: placed and (disturbed or self.setup.machine == "contiguous"),
            traits.RUN_TIMES: "run_times" in self.setup.parts,
            traits.RULES: self.house is not None,
            traits.SHARES: self.house is not None and "shares" in self.marks,
            traits.ACCOUNTS: self.house is not None and bool(self.house.commands),
            traits.REVISED: "revised" in self.marks,
            traits.PREEMPTION: isinstance(self.setup.policy.get("backfill"), Loops) and "preempts" in self.setup.rule,
            traits.ALTERED: self.house is not None and any(c[1] == "alter" for c in self.house.commands),
        }
        return {trait for trait, holds in found.items() if holds}

    def oracle(self):
        """Run the oracle."""
        named, kind = {"calendar": self.calendar}, self.setup.machine
        by_place = traits.PLACES in self.traits or kind in ("nodes", "one node")
        if not by_place:
            return self.on(Counts(procs=self.procs, **named), self.jobs)
        return self.on((Rows if kind == "contiguous" else Nodes)(boxes=tuple(self.boxes), **named), self.jobs)

    def on_one_node(self):
        """Run the oracle on one node that has all processors."""
        jobs = [replace(job, ask=Ask(job.procs, (1, 0, 0), nodes=(0,))) for job in self.jobs]
        return self.on(Nodes(boxes=(Box((self.procs, 0, 0)),)), jobs)

    def on(self, machine, jobs):
        """Run the oracle on a machine."""
        running, candidates, ordering = self.roles * (3 if len(self.roles) == 1 else 1)
        setup = self.setup
        return simulate(
            jobs, machine, Rule(**setup.rule), correction=setup.parts.get("correction", "requested"),
            kill=setup.parts.get("kill", True), ordering=ordering, running=running, candidates=candidates,
            run_times=setup.parts.get("run_times"), house=self.house, revised=self.revised,
        )  # fmt: skip

    def engine(self):
        """Return the policy, and a simulation of the engine; either may be refused."""
        setup, on_nodes = self.setup, self.setup.machine in ("nodes", "one node")
        jobs = workload_on(self.boxes, self.jobs) if on_nodes else workload_of(self.jobs, self.procs)
        if "postpone" in setup.policy:
            jobs = replace(jobs, deadline=np.array([job.deadline for job in self.jobs]))
        parts = dict(setup.parts)
        if self.setup.machine in ("first fit", "contiguous"):
            kind = Contiguous if setup.machine == "contiguous" else FirstFit
            parts["allocator"] = kind(Topology.flat(self.procs))
        if self.calendar.reserved or self.calendar.changes:
            parts["outages"] = self._outages()
        if self.house is not None:
            parts["rules"] = rules_of(self.house, self.jobs)
        rule = Policy(**setup.policy)
        if isinstance(rule.backfill, Loops) and setup.rule.keys() & {"quota", "main_quota", "pace"}:
            users = np.array([job.user for job in self.jobs])
            names = {"quota": False, "main_quota": True}
            quotas = tuple(Quota(setup.rule[name], users, of) for name, of in names.items() if name in setup.rule)
            names = ("test_time", "queue_depth", "sched_interval", "min_interval")
            pace = dict(zip(names, setup.rule.get("pace", (0, 0, 60, 0)), strict=True))
            rule = replace(rule, backfill=replace(rule.backfill, quotas=quotas, **pace))
        if isinstance(rule.backfill, Loops) and "limits" in setup.rule:
            rule = self._limited(rule, jobs)
        if isinstance(rule.backfill, Loops) and "preempts" in setup.rule:
            rule = replace(rule, backfill=replace(rule.backfill, preemption=self._preemption(setup.rule["preempts"])))
        return Simulation(jobs, rule, self.estimates, **parts)

    def _preemption(self, rule):
        """Preemption by users, as the engine takes it."""
        users = np.array([job.user for job in self.jobs])
        may = np.array([[(one, other) in rule.may for other in range(-1, 3)] for one in range(-1, 3)])
        rank, exempt = (np.array([table.get(user, 0) for user in users.tolist()]) for table in (rule.rank, rule.exempt))
        return Preemption(
            users + 1, may, rank, np.array([job.procs for job in self.jobs]), exempt,
            np.array([user in rule.gone for user in users.tolist()]),
            rule.delay, rule.reorders, rule.strict, rule.youngest,
        )  # fmt: skip

    @property
    def revised(self):
        """Estimates that change while jobs wait, or None; fresh ones each time."""
        return Fickle(self.jobs, self.seed) if "revised" in self.marks else None

    @property
    def estimates(self):
        """The estimates, as the engine takes them."""
        if self.revised is not None:
            return self.revised
        roles = [np.array(role) for role in self.roles]
        return roles[0] if len(roles) == 1 else Separate(running=roles[0], candidates=roles[1], order=roles[2])

    def _outages(self):
        def which(what):
            return {"procs": what} if isinstance(what, int) else {"nodes": tuple((n, n + 1) for n in what)}

        return Outages(
            [Reservation(begin, end, **which(what)) for begin, end, what in self.calendar.reserved],
            [Change(second, kind, **which(what)) for second, kind, what in self.calendar.changes],
            "requeue" if self.calendar.requeue else "drop",
            self.calendar.seed,
        )


def refusal(case):
    """Return the pair that the table refuses of a case, or what the policy says of itself; None: it composes."""
    try:
        rule = Policy(**case.setup.policy)
    except JobcastError as error:
        return str(error)
    return clash(rule.traits | case.traits)


def differing(case):
    """Run a case that composes in both; return how they differ, or None."""
    simulation, expected = case.engine(), case.oracle()
    try:
        simulation.run()
    except JobcastError as error:
        return None if "held without end" in str(error) and expected.stuck else str(error)
    if expected.stuck:
        return f"the oracle never starts {expected.stuck}, the engine does"
    schedule = simulation.schedule()
    if "alters" not in case.marks:  # the second look does not know that an estimate of the whole request follows it
        check(schedule, simulation.policy, case.estimates, case.setup.parts.get("kill", True), simulation._setting[3])
    rows = range(len(case.jobs))
    found = {name: getattr(schedule, name).tolist() for name in ("start", "end")}
    in_loops = isinstance(simulation.policy.backfill, Loops)
    noted = "revised" not in case.marks and not in_loops and case.house is None
    if noted:  # else no page says what these notes are
        found |= {name: getattr(schedule, name).tolist() for name in ("estimate", "last_estimate")}
        # while nodes are down a plan of all jobs may reserve nothing for one; the engine calls it reserved all the same
        if case.calendar.changes == () or simulation.policy.depth is not None:
            found["started_by"] = [STARTED_BY[code] for code in schedule.started_by]
    slow = {name: getattr(expected, name) for name in found}
    if schedule.disturbed is not None:
        runs, site = [tuple(run) for run in schedule.disturbed.runs.tolist()], expected.site
        found["stopped"], slow["stopped"] = ([sorted(r for r in some if r[0] == row) for row in rows]
                                             for some in (runs, site.runs))  # fmt: skip
        found["dropped"], slow["dropped"] = schedule.disturbed.dropped.tolist(), [row in site.dropped for row in rows]
    if schedule.preempted is not None:
        site, runs = expected.site, [tuple(run) for run in schedule.preempted.runs.tolist()]
        found["preempted"], slow["preempted"] = ([sorted(r for r in some if r[0] == row) for row in rows]
                                                 for some in (runs, site.preempted))  # fmt: skip
        found["cancelled"] = schedule.preempted.cancelled.tolist()
        slow["cancelled"] = [row in site.cancelled for row in rows]
    if schedule.placements is not None:
        spots = schedule.placements
        own = [slice(spots.offsets[row], spots.offsets[row + 1]) for row in rows]
        found["place"] = [dict(zip(spots.node[o].tolist(), spots.pieces[o].tolist(), strict=True)) for o in own]
        slow["place"] = expected.place
    elif schedule.nodes is not None and traits.PLACES in case.traits:
        found["place"] = [schedule.nodes[row].tolist() for row in rows]
        slow["place"] = [sorted(place) for place in expected.place]
    wrong = [
        f"job {job.job_id}: {what} {one}, by the oracle {other}"
        for what, values in found.items()
        for job, one, other in zip(case.jobs, values, slow[what], strict=True)
        if one != other
    ]
    return "; ".join(wrong) or None
