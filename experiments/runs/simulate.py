"""A simulation by names of policy and estimates; explanation and validation of one."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from experiments.runs.policies import NamedPolicy, demands_by
from experiments.runs.soft_limits import GivenBounds, LearntBounds
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.data.summary import Lack, Prepared, lacks_for_schedules, prepare
from predictors.models.baselines import Requested
from predictors.models.conformal import WithBudget
from predictors.models.similar_jobs import REVISED_ESTIMATES, SimilarRuns, estimates_name
from predictors.models.stream import LearningForecast, forecast
from predictors.registry import PREDICTORS, make_predictor
from predictors.tracking.client import load_model
from schedsim.engine.simulation import Simulation
from schedsim.explain.explain import Explanation, explain
from schedsim.kernels.corrections import correction_code
from schedsim.machine.allocators import Allocator
from schedsim.machine.node_groups import Machine, NodeGroup
from schedsim.machine.outages import Outages
from schedsim.machine.partitions import widened
from schedsim.machine.run_times import RunTimes
from schedsim.machine.topology import Switch
from schedsim.policies.policy import Policy, policy_name
from schedsim.policies.traits import NODES, REVISED, clash, refuse
from schedsim.results.metrics import by_run_time, by_size, by_user, figures, how_started
from schedsim.results.resource_metrics import resource_figures
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import by_queue, disturbed_figures, preemption_figures
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.slurm.files import SlurmFiles
from schedsim.sites.slurm.loops import Loops
from schedsim.validate.validate import check
from schedsim.workload.demands import Demands
from schedsim.workload.estimates import Estimates, RevisedEstimates, Separate, clairvoyant, requested
from schedsim.workload.soft_limits import USUAL, Looks, PolledLimits, soft_limits_named
from schedsim.workload.workload import Workload, row_of

if TYPE_CHECKING:
    from predictors.tracking.describe import LoadedModel

GIVEN = {"requested": requested, "clairvoyant": clairvoyant}
"""Estimates that need no predictor: what the users asked for, and the truth."""

ROLES: Final = ("running", "candidates", "order")
"""What estimates are used for: planning with running jobs, testing candidates for backfilling, the order and features.

`ROLE=NAME+ROLE=NAME` names the estimates of each; roles that are not named have the requested times."""
BY_ROLE: Final[Mapping[str, str]] = MappingProxyType(
    {"cqsim": "running=requested+candidates=clairvoyant+order=requested"}
)
"""Short names of estimates by role.

`cqsim` is how the simulator CQSim plans: it tests waiting jobs by their true run times, so that its results look ahead.
"""
_ROLE: Final = re.compile(rf"({'|'.join(ROLES)})=([^+]*)")


def roles_of(name: str) -> dict[str, str] | None:
    """Return the estimates' name of each role; None where one name stands for all roles.

    >>> roles_of("order=last-two")
    {'running': 'requested', 'candidates': 'requested', 'order': 'last-two'}
    >>> roles_of("cqsim")
    {'running': 'requested', 'candidates': 'clairvoyant', 'order': 'requested'}
    >>> roles_of("last-two") is None
    True
    """
    name = BY_ROLE.get(name, name)
    if _ROLE.match(name) is None:
        return None
    found: dict[str, str] = {}
    for part in name.split("+"):
        match = _ROLE.fullmatch(part)
        if match is None or match[1] in found:
            raise JobcastError(f"Estimates {name!r}: write each role once, as ROLE=NAME; roles: {', '.join(ROLES)}.")
        if match[2] not in GIVEN and match[2] not in PREDICTORS:
            raise unknown_name(f"estimates for the role {match[1]}", match[2], (*GIVEN, *PREDICTORS))
        found[match[1]] = match[2]
    return {role: found.get(role, "requested") for role in ROLES}


def _unknown(name: str) -> JobcastError:
    return unknown_name("estimates", name, (*GIVEN, *BY_ROLE, *REVISED_ESTIMATES, *PREDICTORS, "models:/NAME@ALIAS"))


def usual_correction(soft_limits: str | None) -> str:
    """Return the correction where none is named: that of the scheduler with these soft limits.

    >>> usual_correction(None), usual_correction("slurm-23.11")
    ('requested', 'slurm')
    """
    return "requested" if soft_limits is None else soft_limits_named(soft_limits).correction


def loaded(name: str) -> "str | LoadedModel":
    """Return the kept model, if the name is a model's address, else the name as it stands."""
    if "/" not in name or roles_of(name) is not None:
        return name

    return load_model(name)


def learnt_from(given: "str | LoadedModel", *logs: JobLog) -> bool:
    """Return whether a kept model has learnt from one of these logs: in their loop it would know the future."""
    return not isinstance(given, str) and given.origin.log_sha256 in [log.digest() for log in logs]


def check_names(
    policy: NamedPolicy,
    estimates: "str | SimilarRuns",
    correction: str = "requested",
    budget: float | None = None,
    soft_limits: str | None = None,
) -> None:
    """Raise what `run_by_name` would raise for these names, before a log is read; a model's address is looked up."""
    correction_code(correction)
    estimates = estimates_name(estimates) if isinstance(estimates, str) else estimates
    roles = roles_of(estimates) if isinstance(estimates, str) else None
    if soft_limits is not None:
        soft_limits_named(soft_limits)
        if roles is not None or not isinstance(estimates, str) or estimates in REVISED_ESTIMATES:
            raise JobcastError(
                f"A scheduler has one soft limit per job; the estimates {estimates} are several: name one predictor."
            )
    if budget is not None:
        _within(str(estimates), budget)
    elif roles is not None:
        return
    elif isinstance(estimates, str) and "/" in estimates:
        loaded(estimates)
    elif isinstance(estimates, str) and estimates not in (*GIVEN, *REVISED_ESTIMATES, *PREDICTORS):
        raise _unknown(estimates)
    if soft_limits is not None or not isinstance(estimates, str) or estimates in REVISED_ESTIMATES:
        refuse({*policy.passes.traits, REVISED}, f"{policy.name} on {estimates}: ")


def estimates_by_name(
    # `requested`, `clairvoyant`, revised estimates (`careful`, `bold`), a registered predictor (both start knowing
    # nothing and learn as jobs end), or a model's address (`models:/NAME@ALIAS`, `models:/NAME/VERSION`, `runs:/…`, a
    # folder) or the model itself: that is served as it is; or the rule of revised estimates; or names by role, see
    # `ROLES`
    name: "str | LoadedModel | SimilarRuns",
    log: JobLog,  # the cleaned log, rows as in `workload`
    workload: Workload,  # the jobs to be simulated
    # share of the jobs that may run longer than estimated: a registered predictor is moved until that is so, as jobs
    # end (`predictors.models.conformal`)
    budget: float | None = None,
) -> Estimates | Separate | RevisedEstimates:
    """Return the estimates that the scheduler plans by."""
    name = estimates_name(name) if isinstance(name, str) else name
    if budget is not None:
        return forecast(_within(_called(name), budget), log)
    roles = roles_of(name) if isinstance(name, str) else None
    if roles is not None:
        return Separate(**{role: _of_role(one, log, workload) for role, one in roles.items()})
    given = loaded(name) if isinstance(name, str) else name
    if isinstance(given, SimilarRuns):
        return given.forecast(log)
    if not isinstance(given, str):
        return forecast(given.predictor, log)
    if given in GIVEN:
        return GIVEN[given](workload)

    if given in REVISED_ESTIMATES:
        return REVISED_ESTIMATES[given].forecast(log)
    if given in PREDICTORS:
        return forecast(make_predictor(given), log)
    raise _unknown(given)


def soft_limits_by_name(
    name: "str | LoadedModel | SimilarRuns",  # as of `estimates_by_name`, where that is one estimate of a job
    log: JobLog,
    workload: Workload,
    held_as: str,  # see `schedsim.workload.soft_limits.SOFT_LIMITS`
    budget: float | None = None,
    looks: Looks = USUAL,
) -> PolledLimits:
    """Return the soft limits that the adapter sets by a model, while a simulation goes on.

    A kept model learns as it does next to a scheduler.
    """
    given = loaded(name) if isinstance(name, str) and budget is None else name
    if isinstance(given, str) and given in GIVEN and budget is None:
        bounds = GivenBounds(log, GIVEN[given](workload))
    elif budget is not None:
        bounds = LearntBounds(log, _within(_called(name), budget))
    elif isinstance(given, str):
        bounds = LearntBounds(log, make_predictor(given))
    else:
        assert not isinstance(given, SimilarRuns)  # refused before
        bounds = LearntBounds(log, given.predictor)
    return PolledLimits(bounds, workload.requested, soft_limits_named(held_as), looks)


def _of_role(name: str, log: JobLog, workload: Workload) -> Estimates:
    return GIVEN[name](workload) if name in GIVEN else forecast(make_predictor(name), log)


def _called(name: "str | LoadedModel | SimilarRuns") -> str:
    if isinstance(name, SimilarRuns):
        return repr(name)
    return estimates_name(name) if isinstance(name, str) else name.uri


def _within(name: str, budget: float) -> "WithBudget":
    fixed = {
        **dict.fromkeys(GIVEN, "these estimates are given, not learnt"),
        **({} if roles_of(name) is None else {name: "a budget is kept by one predictor for all roles"}),
        Requested.name: "no estimate may be above the request, so there is nowhere to move it",
        **dict.fromkeys(REVISED_ESTIMATES, "it plans by many estimates of a job, not by one"),
        WithBudget.name: "it keeps a budget of its own already; name the predictor inside",
    }
    if name in fixed:
        raise JobcastError(f"A budget cannot go with the estimates {name}: {fixed[name]}. Name a predictor: similar.")
    if name not in PREDICTORS and "/" in name:
        raise JobcastError(
            f"A budget cannot go with {name}: a kept model is served as it is. Name a predictor: similar."
        )
    if name not in PREDICTORS:
        raise unknown_name("predictor", name, PREDICTORS)
    found = WithBudget(predictor=make_predictor(name), budget=budget)
    found.check()
    return found


TABLES: dict[str, Callable[[Schedule], Mapping[Any, Mapping[str, float]]]] = {
    "user": by_user,
    "size": by_size,
    "run-time": by_run_time,
    "start": how_started,
}
"""What a schedule's figures can be split by: user, class of width, class of run time, how the jobs came to start."""


def check_table(what: str, queues: bool) -> None:
    """Refuse a table that there is not, or that needs queues where there are none."""
    if what not in (*TABLES, "queue"):
        raise unknown_name("table by", what, (*TABLES, "queue"))
    if what == "queue" and not queues:
        raise JobcastError("A table by queue needs queues: name a --site, or take the policy cobalt.")


def table_by(schedule: Schedule, what: str, rules: Rules | None = None, log: JobLog | None = None) -> dict[str, Any]:
    """Return a schedule's figures by group, under the groups' names.

    By queue, the mean wait that the log itself records, over jobs with a known wait, stands next to it.
    """
    check_table(what, rules is not None)
    if what == "queue" and rules is not None:
        table = {name: dict(row) for name, row in by_queue(schedule, rules).items()}
        return table if log is None else _beside_logged(table, schedule, rules, log)
    return {str(group): dict(row) for group, row in TABLES[what](schedule).items()}


def _beside_logged(
    table: dict[str, dict[str, Any]], schedule: Schedule, rules: Rules, log: JobLog
) -> dict[str, dict[str, Any]]:
    """Return a table by queue with the log's own mean waits [s]; without them where it has none."""
    if not log.known("wait").any():
        return table
    queue = rules.serves(schedule.workload)
    for number, one in enumerate(rules.router.queues):
        if one.name in table:
            known = log["wait"][queue == number].compressed()
            table[one.name]["mean_wait_in_the_log_s"] = float(known.mean()) if len(known) else None
    return table


def _refused(policy: Policy, schedule: Schedule) -> dict[str, int]:
    """Return how many jobs Slurm would refuse at their submission; empty without limits on submissions."""
    limits = policy.backfill.limits if isinstance(policy.backfill, Loops) else None
    if limits is None or not limits.submissions:
        return {}
    return {"refused_submissions": int(limits.refused(schedule.workload.submit, schedule.end).sum())}


@dataclass(frozen=True, eq=False)
class NamedSimulation:
    """A simulation of a cleaned log by names of policy and estimates, and what is asked of its schedule."""

    log: JobLog
    policy: NamedPolicy
    # as of `jobcast simulate`; `estimates` may be what `estimates_by_name` takes
    estimates: "str | LoadedModel | SimilarRuns" = "requested"
    correction: str = "requested"
    budget: float | None = None
    soft_limits: str | None = None
    looks: Looks = USUAL  # of the adapter that sets them
    # kill, allocator, run times, rules and outages as of `schedsim.engine.simulation.simulate`
    kill: bool = True
    workload: Workload | None = None  # the log's jobs, for those who made them already
    rule: Policy | None = None  # what the policy's name stands for, where options have changed it
    deadline: Ints | None = None  # by when jobs that may be postponed must start
    allocator: Allocator | None = None
    run_times: RunTimes | None = None
    rules: Rules | None = None
    outages: Outages | None = None
    demands: Demands | None = None  # what the log's jobs ask of nodes, where these have GPUs and memory too

    def _rule(self) -> Policy:
        return self.policy.of_log(self.log)[0] if self.rule is None else self.rule

    def _estimated(self, workload: Workload) -> Estimates | Separate | RevisedEstimates:
        if self.soft_limits is None:
            return estimates_by_name(self.estimates, self.log, workload, self.budget)
        return soft_limits_by_name(self.estimates, self.log, workload, self.soft_limits, self.budget, self.looks)

    def run(self) -> tuple[Schedule, dict[str, Any]]:
        """Return the schedule and its figures under the names of `jobcast simulate --json`."""
        workload = widened(self.workload or Workload.from_log(self.log, self.demands), self.allocator)
        if self.deadline is not None:
            workload = replace(workload, deadline=self.deadline)
        estimated = self._estimated(workload)
        simulation = Simulation(
            workload, self._rule(), estimated, self.correction, self.kill, self.allocator,
            self.run_times, self.rules, self.outages,
        )  # fmt: skip
        simulation.run()
        schedule = simulation.schedule()
        late = {"commands_too_late": len(simulation.ignored)} if self.rules is not None and self.rules.commands else {}
        return schedule, {
            "log": self.log.name,
            "policy": policy_name(self.policy.name),
            "estimates": _called(self.estimates),
            "budget": self.budget,
            "correction": self.correction,
            "procs": workload.machine_procs,
            **figures(schedule),
            **disturbed_figures(schedule),
            **preemption_figures(schedule),
            **_refused(simulation.policy, schedule),
            **resource_figures(schedule),
            "engine_seconds": schedule.engine_seconds,
            "jobs_per_second": len(workload) / schedule.engine_seconds,
            **({"n_fallback": estimated.n_fallback} if isinstance(estimated, LearningForecast) else {}),
            **(
                {"soft_limits": self.soft_limits, **estimated.figures(schedule.run_time)}
                if isinstance(estimated, PolledLimits)
                else {}
            ),
            **late,
        }

    def explain(self, schedule: Schedule, job_id: int) -> Explanation:
        asked = schedule.workload
        if self.rules is not None and self.rules.commands:  # the schedule's jobs are as altered, these as submitted
            as_submitted = widened(Workload.from_log(self.log), self.allocator)
            asked = replace(asked, procs=as_submitted.procs, requested=as_submitted.requested)
        return explain(
            schedule, job_id, self._rule(), self._estimated(schedule.workload), self.correction, self.kill,
            allocator=self.allocator, run_times=self.run_times, rules=self.rules, workload=asked, outages=self.outages,
        )  # fmt: skip

    def check(self, schedule: Schedule) -> dict[str, Any]:
        """Check the laws of the schedule of this simulation; return those kept, and those left out with the reason."""
        checked = check(schedule, self._rule(), self._estimated(schedule.workload), self.kill, self.rules)
        return {"kept": list(checked.kept), "left_out": dict(checked.left_out)}


def run_by_name(
    log: JobLog,
    policy: str | NamedPolicy,
    estimates: "str | LoadedModel | SimilarRuns" = "requested",
    correction: str = "requested",
    **options: Any,
) -> tuple[Schedule, dict[str, Any]]:
    """Simulate a cleaned log; return the schedule and its figures. Options are fields of `NamedSimulation`."""
    named = NamedPolicy.of(policy) if isinstance(policy, str) else policy
    return NamedSimulation(log, named, estimates, correction, **options).run()


def refuse_unknown_job(log: JobLog, job_id: int) -> None:
    """Raise JobcastError if a cleaned log has no such job."""
    row_of(Workload.from_log(log), job_id)


def processors(procs: int | None, nodes: Machine | None) -> int | None:
    """Return the processors of the machine: as its nodes have, else as asked for.

    >>> from schedsim.machine.node_groups import NodeGroup
    >>> processors(None, Machine((NodeGroup("thin", 2, 8),))), processors(7, None)
    (16, 7)
    """
    if nodes is None or procs == nodes.procs:
        return procs
    if procs is not None:
        raise JobcastError(
            f"--procs {procs}, but the nodes of {nodes.source} have {nodes.procs:,} processors; leave --procs out."
        )
    return nodes.procs


def without_no_queue(lacks: Iterable[Lack], nodes: Machine | None) -> tuple[Lack, ...]:
    """Return what a log lacks; on nodes jobs may wait for GPUs or memory though all processors together suffice."""
    return tuple(lack for lack in lacks if nodes is None or lack.name != "no-queue")


@dataclass(frozen=True, eq=False)
class Ready:
    """A log's jobs that can be simulated on a machine."""

    prepared: Prepared  # the log as it is for processors alone
    used: JobLog  # the jobs that have a place
    account: ReadingReport  # what was left out or made, without what reading left out
    left_out: ReadingReport  # the part of it that the nodes make
    nodes: Machine | None  # the machine; None: its processors count alone

    def lacks(self, kill: bool = True) -> tuple[Lack, ...]:
        if self.nodes is None:
            return self.prepared.lacks(kill)
        found = lacks_for_schedules(self.prepared.log, self.used, self.prepared.cleaning + self.left_out, kill)
        return without_no_queue((*self.prepared.unread, *found), self.nodes)


def ready_for(
    nodes: Machine | None,
    log: JobLog,
    procs: int | None = None,
    drop_wide: bool = False,
    partition: str | int | None = None,
    requests_from: str | None = None,
    reading: ReadingReport | None = None,
    sites: Sequence[SlurmFiles | None] = (None,),
) -> Ready:
    """Return a log's jobs that can be simulated on nodes, or on as many processors; parameters as of `prepare`.

    On nodes these are the jobs that have a place by each of some `sites`' files; None: as the log tells.
    """
    prepared = prepare(log, processors(procs, nodes), drop_wide, partition, requests_from, reading)
    if nodes is None:
        return Ready(prepared, prepared.used, prepared.account, ReadingReport(log.name), None)
    used, _, left = demands_by(sites[0], prepared.used, nodes, drop_wide)
    for files in sites[1:]:
        used, _, more = demands_by(files, used, nodes, drop_wide)
        left += replace(more, findings=tuple(one for one in more.findings if one not in left.findings))
    return Ready(prepared, used, (prepared.account + left).using(len(used)), left, nodes)


def nodes_told(logs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the fact of a page on which nodes the logs of a sweep have, from what is kept of them; {} if none has.

    >>> thin = {"name": "thin", "count": 2, "processors": 8, "partitions": []}
    >>> nodes_told([{"name": "site", "machine": {"nodes": [thin]}}, {"name": "other"}])
    {'nodes': 'site: thin: count 2, processors 8'}
    """
    found = []
    for log in logs:
        machine = log.get("machine", {})
        told = [NodeGroup(**group).words for group in machine.get("nodes", ())]
        told += [Switch(**switch).words for switch in machine.get("switches", ())]
        found += [f"{log['name']}: {'; '.join(told)}"] if told else []
    return {"nodes": ", ".join(found)} if found else {}


def goes_on(nodes: Machine | None, rule: Policy) -> bool:
    """Return whether a policy can plan on this machine: on nodes some count processors alone.

    >>> from schedsim.machine.node_groups import NodeGroup
    >>> from schedsim.policies.policy import make_policy
    >>> machine = Machine((NodeGroup("thin", 2, 8),))
    >>> [goes_on(machine, make_policy(name)) for name in ("easy", "knapsack")], goes_on(None, make_policy("knapsack"))
    ([True, False], True)
    """
    return nodes is None or clash({*rule.traits, NODES}) is None


def check_goes_on(nodes: Machine | None, case: str, rule: Policy) -> None:
    """Refuse a case with a policy that cannot plan on this machine."""
    if nodes is not None:
        refuse({*rule.traits, NODES}, f"Case {case!r}: ")
