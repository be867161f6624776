"""The starts of jobs, by a slow simulator that is written from the definitions alone, to check the fast one against.

It shares no code with `schedsim`: whole-number seconds, plain Python, one function a definition. It composes: a machine
(`machine.py`) answers where a job has a place; the state at an instant (`site.py`) has the verbs that passes ask; each
rule of a policy stands once, in terms of these verbs (`passes.py`); the rules of a site (`cobalt.py`) and the orders
(`orders.py`) know of no machine. So what the engine refuses together has a schedule here.

The rules
---------
At second t: ends, by (start, job id); submissions, by job id; estimates that expired (start + estimate <= t); one
scheduling pass. Only a second with an end or a submission is an instant. Shadow times are recomputed in every pass
from the estimates valid now; extra processors are used; jobs planned to end *at* the shadow time count as free.

Readings, where the rules leave something open
----------------------------------------------
1. A zero-length job gives its processors back at once: the pass goes on with them, no extra is used up, and a
   submission of a later instant knows its run time. Where one ended in the pass, `conservative-compress` compresses
   and the knapsack chooses again in the same pass, so that nobody waits for a second that never comes.
2. A pass first starts the front of the queue while it fits; these jobs are *running* for the rest of the pass (planned
   end by their running estimate). A job started behind a blocked head holds its processors in this pass's plan by its
   candidate estimate. (The two differ only where several estimates are used.)
3. Candidates behind the head are walked in the backfill order; at depth k the first k blocked jobs of this walk, the
   head first, hold reservations.
4. The ordering and the candidate estimate stay as given at submission; corrections touch running jobs alone.
5. `incremental`: the first of p0 + step that lies beyond t, at most the request; no step left: the request.
   With kill=False an estimate that has reached the request is doubled, whatever the correction.
6. `conservative-compress`, within one pass: (a) a reservation whose second went by is due now; reservations, in queue
   order, stay where they still fit next to the running jobs and the reservations kept before them; (b) those that do
   not, in queue order, get the earliest hole next to all that stay; (c) in queue order, a job without a reservation
   gets the earliest hole, and, if a job ended at this instant, one with a reservation is taken out and put
   back at its earliest hole; (d) whoever is reserved now starts.
7. The promise is the head's shadow time by requested times over the jobs running when it is first found blocked.
   "Fits next to the head at the promise": head and backfill together are at most the machine less the jobs that run
   beyond the promise by requested times. Under hybrid only the head has a promise.
8. Greedy rules: of equally large jobs bin packing takes the first by (submit, job id). The knapsack's value of a job is
   its part of the reward: capability (wait / longest wait in the window + procs / N + procs / N) / 3, the last for the
   processors that it brings into use; capacity 1 / estimate, the loss that its start ends. Of equally good sets the
   one of fewest jobs is taken, then the one whose jobs come first in the queue.
9. Gates: a job is asked about once it would start; one that is held is as if it were not there until the next pass.
   A plan reserves nothing for it, and a reservation that is kept stays where it is.
10. Agents: under `oldest` the first of the queue takes the turn of a job picked that does not fit. An alteration ends a
   reservation and a promise.
11. Ceilings limit starts. In a plan no start until a job's end lies above, nor what is in use where more becomes
   reserved before that end.
12. Postponed jobs: those that a rule holds at their submission are not postponed. They gain score as if they waited in
   the queue. In a plan they are tried last and hold no reservation. `cobalt.py`: a job that a failure ends for good has
   not ended well.
13. Failures: a job that is stopped keeps the score that it had; the time that it ran is none that it waited.
14. Plans on nodes: a job is planned on the nodes on which it has its first place for the whole estimated time. A
   reservation that is kept keeps its nodes while they hold, else its second if there are others.
15. Promises on nodes that are reserved: the place of the head at the promise is one of which no node is reserved while
   it runs, by its requested time.
16. How a job started: `backfilled` past a blocked job; in its turn `reserved` if it ever held a reservation, else
   `ready`. Greedy rules know no turn: all `ready`, as in Table IV of Fan et al. (DRAS, IPDPS 2021).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop

from tests.oracle.cobalt import Cobalt, House
from tests.oracle.entry import HOUR, Entry
from tests.oracle.machine import Ask, Counts, Machine
from tests.oracle.orders import growth
from tests.oracle.site import Rule, Site


@dataclass(frozen=True)
class Job:
    """One job; times in seconds. A user below 0 is nobody."""

    job_id: int
    submit: int
    procs: int
    requested: int
    run_time: int
    user: int = -1
    ask: Ask | None = None
    deadline: int = -1


@dataclass
class Outcome:
    """The schedule, one value a row: start [s], first and last running estimate [s], how each started.

    The oracle also tells, by row, each job's first reservation and its promise [s].
    """

    start: list[int]
    estimate: list[int]
    last_estimate: list[int]
    started_by: list[str]
    first_booked: dict[int, int] = field(default_factory=dict, compare=False)
    promises: dict[int, int] = field(default_factory=dict, compare=False)
    end: list[int] = field(default_factory=list, compare=False)
    place: list[dict] = field(default_factory=list, compare=False)
    stuck: list[int] = field(default_factory=list, compare=False)  # who never starts
    site: Site | None = field(default=None, compare=False, repr=False)


# What is expected of a job at its submission; `ended` are its user's ended jobs, in the order of their ends.
ESTIMATES: dict[str, Callable[[Job, list[Job]], int]] = {
    "requested": lambda job, ended: job.requested,
    "clairvoyant": lambda job, ended: job.run_time,
    "tsafrir": lambda job, ended: (ended[-1].run_time + ended[-2].run_time) // 2 if len(ended) >= 2 else job.requested,
}


def simulate(
    jobs: Sequence[Job],
    machine: int | Machine,
    rule: Rule,
    estimates: str | Sequence[int] = "requested",
    correction: str = "requested",
    kill: bool = True,
    ordering: str | Sequence[int] | None = None,
    running: str | Sequence[int] | None = None,
    candidates: str | Sequence[int] | None = None,
    site_type: type[Site] = Site,
    run_times: object = None,
    revised: object = None,
    house: House | None = None,
) -> Outcome:
    """Return the schedule of `jobs` on a machine, or on so many processors; result lists follow the order of `jobs`.

    `estimates` is a name of `ESTIMATES` or seconds by row; `ordering`, `running` and `candidates` replace it for that
    use. `site_type` is for tests that break a rule on purpose. The machine is used up.

    >>> jobs = [Job(1, 0, 6, 10, 10), Job(2, 1, 8, 10, 10), Job(3, 2, 2, 8, 8), Job(4, 3, 2, 9, 9)]
    >>> simulate(jobs, 8, Rule(depth=1)).start, simulate(jobs, 8, Rule()).start
    ([0, 10, 2, 20], [0, 10, 20, 20])
    """
    machine = Counts(procs=machine) if isinstance(machine, int) else machine
    first_submit = min((j.submit for j in jobs), default=0)
    site = site_type if house is None else Cobalt
    site = site(rule, machine, correction, kill, first_submit, run_times, revised)
    site.set_out(jobs, house)
    arrivals = sorted(range(len(jobs)), key=lambda row: (jobs[row].submit, jobs[row].job_id), reverse=True)
    entries: dict[int, Entry] = {}

    def expected(source: str | Sequence[int] | None, row: int) -> int:
        if source is None:
            source = estimates
        job = jobs[row]
        value = ESTIMATES[source](job, site.ended_of[job.user]) if isinstance(source, str) else source[row]
        return max(1, min(int(value), job.requested))

    def entry_of(row: int) -> Entry:
        job, first = jobs[row], expected(running, row)
        run_time = min(job.run_time, job.requested) if kill else job.run_time
        entries[row] = Entry(
            row, job.job_id, job.submit, job.procs, job.requested, run_time, job.user,
            ordering=expected(ordering, row), candidate=expected(candidates, row), first=first, running=first, job=job,
            since=job.submit, growth=growth(job.procs, job.requested, machine.procs, 1.0),
        )  # fmt: skip
        return entries[row]

    while (second := site.next_second([jobs[row].submit for row in arrivals[-1:]])) is not None:
        site.now = second
        ending, arriving = [], []
        while site.ends and site.ends[0][0] == site.now:
            ending.append(heappop(site.ends)[-1])
        while arrivals and jobs[arrivals[-1]].submit == site.now:
            arriving.append(arrivals.pop())
        site.to_come = bool(arrivals)
        site.instant(ending, (entry_of(row) for row in arriving))

    rows = range(len(jobs))
    return Outcome(
        start=[entries[row].start for row in rows],
        estimate=[entries[row].first for row in rows],
        last_estimate=[entries[row].running for row in rows],
        started_by=[site.started_by.get(row, "never") for row in rows],
        first_booked=site.first_booked,
        promises=site.promises,
        end=[entries[row].end for row in rows],
        place=[entries[row].place for row in rows],
        stuck=[entry.job_id for entry in entries.values() if entry.start < 0],
        site=site,
    )


def rule_named(name: str, **more) -> Rule:
    """Return the rule of a policy's name.

    >>> rule_named("easy-sjbf+promise") == Rule(backfill_order="sjf", depth=1, promise=True)
    True
    """
    if name == "careful":
        return Rule(backfill_order="sjf", depth=1, promise=True, slack=24 * HOUR, **more)
    if name == "balanced":
        slack = {"slack": 24 * HOUR, "growth": -0.15, "least": 6 * HOUR, "most": 24 * HOUR, "kept": True}
        return Rule(
            order="priority", depth=1, promise=True, priority=(1200.0, 1.0, 0.1, 24 * HOUR, 0.35), **slack, **more
        )
    if name.endswith("+ceil") or name == "ceil":
        ceil = {"ceiling": Fraction(95, 100), "postpones": True}
        return rule_named("wfp3-easy" if name == "ceil" else name.removesuffix("+ceil"), **ceil, **more)
    base, _, option = name.partition("+")
    promise = option == "promise"
    if base in ("binpacking", "random"):
        return Rule(order="widest" if base == "binpacking" else base, greedy=True, **more)
    if base.startswith("knapsack"):
        return Rule(greedy=True, knapsack="capability", **more)
    if base == "conservative-replan":
        return Rule(depth=None, **more)
    if base == "conservative-compress":
        return Rule(depth=None, keeps=True, **more)
    if base.startswith("cobalt"):
        return Rule(
            order="score", depth=int(base.removeprefix("cobalt").removeprefix("-") or 1), promise=promise, **more
        )
    if base.startswith("hybrid-"):
        return Rule(depth=int(base.removeprefix("hybrid-")), promise=promise, **more)
    if base == "easy-sjbf":
        return Rule(backfill_order="sjf", depth=1, promise=promise, **more)
    if base == "easy":
        return Rule(depth=1, promise=promise, **more)
    order = base.removesuffix("-easy")
    return Rule(order=order, depth=1 if base.endswith("-easy") else 0, promise=promise, **more)
