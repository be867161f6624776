"""What a simulation is given by the options of `jobcast simulate` on the machine, the site and CEIL."""

from dataclasses import replace
from typing import Any

from experiments.cli.options.shared import LooksOptions
from experiments.cli.options.simulate import CeilOptions, MachineOptions, SiteOptions
from experiments.compare.measures import titled
from experiments.console import print_table
from experiments.runs.policies import NamedPolicy, demands_by, machine_at
from predictors.core.arrays import Ints
from predictors.core.errors import JobcastError, percent, unknown_name
from predictors.data.cleaning import within_requests
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from predictors.schedulers.rules import read_rules
from predictors.schedulers.soft_limit import SiteRules
from schedsim.kernels.keys import SCORE
from schedsim.machine.allocators import Allocator
from schedsim.machine.dilation import Dilation
from schedsim.machine.node_groups import Machine
from schedsim.machine.outage_files import read_outages
from schedsim.machine.outages import RULES, Outages
from schedsim.machine.partitions import allocator_named, read_hierarchy, widened
from schedsim.machine.run_times import RunTimes
from schedsim.policies.policy import Policy, with_limits
from schedsim.results.schedule import Schedule
from schedsim.results.site_metrics import user_figures
from schedsim.sites.cobalt import big_run
from schedsim.sites.cobalt.files import rules_of_log
from schedsim.sites.cobalt.rules import Rules, within_shares
from schedsim.workload.deadlines import deadlines_by, is_share
from schedsim.workload.soft_limits import Looks
from schedsim.workload.workload import Workload


def nodes_of(machine: MachineOptions) -> Machine | None:
    """Return the nodes that the machine file declares."""
    if machine.machine is None:
        return None
    if machine.allocator is not None:
        raise JobcastError(
            f"--allocator is for nodes that are alike, --machine {machine.machine} declares nodes with GPUs and "
            "memory; leave one of them out."
        )
    return machine_at(machine.machine)


def _machine_arguments(machine: MachineOptions, cleaned: JobLog) -> dict[str, Any]:
    allocator, outages = _allocator(machine, cleaned), _outages(machine, cleaned)
    if machine.machine_seed is not None and machine.allocator != "scattered" and (outages is None or not outages.draws):
        raise JobcastError(
            "--machine-seed is for --allocator scattered, or for --outages that tell how many nodes fail, not "
            "which; here nothing is drawn."
        )
    return {"allocator": allocator, "outages": outages}


def _outages(machine: MachineOptions, cleaned: JobLog) -> Outages | None:
    if machine.outages is None:
        if machine.interrupted is not None:
            raise JobcastError("--interrupted is about jobs on failed nodes; tell what fails with --outages.")
        return None
    found = read_outages(machine.outages, cleaned.origin, cleaned.epoch)
    found = found if machine.machine_seed is None else replace(found, seed=machine.machine_seed)
    if machine.interrupted is None:
        return found
    if not found.changes:
        raise JobcastError(f"--interrupted is about jobs on failed nodes; {machine.outages} tells of no failure.")
    for rule in RULES:
        if rule == machine.interrupted:
            return replace(found, interrupted=rule)
    raise unknown_name("rule for interrupted jobs", machine.interrupted, RULES)


def _allocator(machine: MachineOptions, cleaned: JobLog) -> Allocator | None:
    if machine.allocator is None:
        for option, value in (("--per-leaf", machine.per_leaf), ("--partitions", machine.partitions)):
            if value is not None:
                raise JobcastError(f"{option} says where nodes lie; name an --allocator too.")
        return None

    hierarchy = None if machine.partitions is None else read_hierarchy(machine.partitions)
    return allocator_named(
        machine.allocator, int(cleaned.max_procs or 0), machine.per_leaf, machine.machine_seed or 0, hierarchy
    )


def _with_big_runs(
    machine: MachineOptions, rule: Policy, rules: Rules | None, outages: Outages | None, procs: int
) -> tuple[Policy, Rules | None]:
    """Return a policy and a site's rules with which big runs follow maintenance, if that is asked for."""
    if not machine.big_runs:
        return rule, rules
    if outages is None:
        raise JobcastError("--big-runs come after maintenance of the whole machine; tell of it with --outages.")
    if rule.order.code != SCORE:
        return big_run.with_big_runs(rule, outages, procs), rules
    site = Rules() if rules is None else rules
    return rule, replace(site, commands=(*site.commands, *big_run.big_run_commands(outages, procs)))


def _site_rules(
    at_site: SiteOptions, cleaned: JobLog, policy: str, kill: bool
) -> tuple[Rules | None, JobLog, ReadingReport]:
    """Return the rules, the jobs that can start under them, and an account of the others."""
    site = at_site.site
    defaulted = site is None and policy.startswith("cobalt")
    if defaulted:
        site = "mira"
    if site in (None, "none") and at_site.commands is None:
        return None, cleaned, ReadingReport(cleaned.name)
    rules, left, account = rules_of_log(cleaned, None if site == "none" else site, at_site.commands, kill)
    if defaulted and policy != "cobalt":  # several reservations know no shares
        rules = replace(rules, router=rules.router.without_shares())
    return rules, left, account


def check_ceil(ceil: CeilOptions) -> None:
    postponed = {"--release-below": ceil.release_below is not None, "--queue-only": ceil.queue_only}
    for option, given in postponed.items():
        if given and ceil.postponable is None:
            raise JobcastError(f"{option} is about postponed jobs; say which may be, with --postponable 0.3.")
    if ceil.postpone_seed is not None and not (ceil.postponable and is_share(ceil.postponable)):
        raise JobcastError("--postpone-seed draws a share of the jobs; give that share, --postponable 0.3.")
    if ceil.dilation_seed is not None and ceil.dilation is None:
        raise JobcastError("--dilation-seed draws by how much runs take longer; ask for that, --dilation start.")


def _ceil_arguments(ceil: CeilOptions, cleaned: JobLog, policy: Policy, kill: bool) -> dict[str, Any]:
    """Return the arguments of a simulation of a cleaned log: `rule`, `run_times`, `deadline`, `kill`."""
    seed = ceil.postpone_seed or 0
    deadline = None if ceil.postponable is None else deadlines_by(ceil.postponable, cleaned, seed)
    rule = with_limits(policy, ceil.ceiling, ceil.release_below, ceil.queue_only)
    run_times = _run_times(ceil)
    return {"rule": rule, "run_times": run_times, "deadline": deadline, "kill": kill and run_times is None}


def _ceil_account(ceil: CeilOptions, cleaned: JobLog, deadline: Ints | None) -> ReadingReport:
    """Return a note where no job at all may be postponed though some should."""
    if deadline is None or (deadline >= 0).any():
        return ReadingReport(cleaned.name)
    text = f"--postponable {ceil.postponable} marks no job of this log: none is postponed"
    return ReadingReport(cleaned.name, (Finding("postponable", "noted", text),))


def _run_times(ceil: CeilOptions) -> RunTimes | None:
    if ceil.dilation is None:
        return None

    if ceil.dilation == "start":
        return Dilation(seed=ceil.dilation_seed or 0)
    if ceil.dilation == "mean":
        return Dilation(by="mean", seed=ceil.dilation_seed or 0)
    raise unknown_name("dilation", ceil.dilation, ("start", "mean"))


def user_waits(ceil: CeilOptions, schedule: Schedule, rule: Policy) -> dict[str, Any]:
    """Return the figures of users' waits and of full hours, under one name; nothing where nothing is asked."""
    if not rule.is_ceil and ceil.postponable is None and ceil.dilation is None:
        return {}

    return {"users": user_figures(schedule)}


def set_up(
    log: JobLog,
    policy: NamedPolicy,
    kill: bool,
    machine: MachineOptions,
    ceil: CeilOptions,
    at_site: SiteOptions,
    nodes: Machine | None = None,
    drop_wide: bool = False,
) -> tuple[dict[str, Any], ReadingReport]:
    """Return what a simulation of a cleaned log is given, by the fields of `NamedSimulation`; and what was left out.

    `nodes` are those of a machine file; `drop_wide` leaves out the jobs that fit on none.
    """
    if ceil.dilation is not None and kill:  # what is dilated are the runs that the requests left; dilated they run on
        log = within_requests(log)
    rules, log, account = _site_rules(at_site, log, policy.name, kill)
    demands = None
    if nodes is not None:
        log, demands, left = demands_by(policy.files, log, nodes, drop_wide)
        account += left
    options = _machine_arguments(machine, log)
    rule, of_files = policy.of_log(log)
    account += of_files
    options |= _ceil_arguments(ceil, log, rule, kill)
    allocator = options["allocator"]
    if rules is not None and allocator is not None:  # queues with a share keep to nodes of their own
        options["allocator"] = within_shares(allocator, rules, widened(Workload.from_log(log), allocator))
    procs = int(log.max_procs or 0)
    options["rule"], rules = _with_big_runs(machine, options["rule"], rules, options["outages"], procs)
    return options | {"log": log, "rules": rules, "demands": demands}, account + _ceil_account(
        ceil, log, options["deadline"]
    )


def print_resources(found: dict[str, Any]) -> None:
    """Print the figures by resource, where jobs take GPUs and memory of nodes."""
    if "resources" not in found:
        return
    names = {"processors": "processors", "gpus": "GPUs", "memory_kb": "memory [GB]"}
    rows = []
    for name, title in names.items():
        have, waits = found["resources"].get(name), found["by_dominant"].get(name, {})
        if have is not None:
            shares = (percent(have[key], 1) for key in ("utilisation", "held"))
            total = have["total"] >> 20 if name == "memory_kb" else have["total"]
            rows.append((title, total, *shares, waits.get("jobs", 0), waits.get("mean_wait_s")))
    columns = ("", "of the machine", "asked for", "held", "jobs it is dominant for", "their mean wait [s]")
    print_table("By resource", columns, rows)


USERS = (
    "time_above_share", "mean_user_wait_s", "mean_user_wait_regular_s", "mean_user_wait_postponable_s",
    "mean_user_slowdown", "mean_user_slowdown_undilated", "postponable", "late", "dilated",
)  # fmt: skip
"""Figures of a full machine that are printed."""


def widths_note(cleaned: JobLog, procs: Any) -> str | None:
    """Return a sentence about jobs that get more nodes than they ask for, if there are any."""
    more = int((procs > cleaned.procs).sum())
    if not more:
        return None
    return (
        f"{more:,} of {len(cleaned):,} jobs get a larger partition than they ask for, and are counted with all of it."
    )


def outages_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about what reservations and failures took, if there were any."""
    if "available" not in found:
        return None

    available, used = (percent(found[name], 1) for name in ("available", "utilisation_of_available"))
    return (
        f"Of the machine, {available} was available, of which {used} was used; "
        f"{found['interrupted']:,} runs were stopped by failures, {found['lost_processor_hours']:,.0f} processor "
        f"hours lost, {found['dropped']:,} jobs gone."
    )


def preemption_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about the jobs that were stopped for others, if jobs may be."""
    if "preemptions" not in found:
        return None
    return (
        f"{found['preempted_jobs']:,} jobs were preempted, {found['preemptions']:,} times in all: "
        f"{found['preempted_processor_seconds']:,.0f} processor seconds lost, {found['cancelled']:,} jobs cancelled."
    )


def submissions_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about the jobs that limits on submissions would refuse, if there are such limits."""
    if "refused_submissions" not in found:
        return None
    return f"{found['refused_submissions']:,} jobs ran that Slurm would refuse at their submission, by its limits."


def ignored_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about commands that came too late, if there are any."""
    late = found.get("commands_too_late", 0)
    return f"{late:,} commands came when their job did not wait any more; they did nothing." if late else None


def fallback_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about the jobs for which the estimator had no estimate, if there are any."""
    count = found.get("n_fallback", 0)
    return f"{count:,} jobs were answered by their request, since there was no estimate." if count else None


def looks_of(looks: LooksOptions, soft_limits: str | None) -> Looks:
    """Return how the adapter looks at the queue; refuse options on it where it sets nothing."""
    if soft_limits is None and looks != LooksOptions():
        raise JobcastError("--rules and --every are for --soft-limits; leave them out, or add --soft-limits slurm.")
    return Looks(SiteRules() if looks.rules is None else read_rules(looks.rules), looks.every)


def soft_limits_note(found: dict[str, Any]) -> str | None:
    """Return how many jobs had a soft limit, how many of these were too short, and by how much."""
    if found.get("soft_limits") is None:
        return None
    if not found["soft_set"]:
        return "No job had a soft limit when it started."
    if not found["soft_too_short"]:
        return f"{100 * found['soft_set']:.1f} % of the jobs had a soft limit; none was too short."
    return (
        f"{100 * found['soft_set']:.1f} % of the jobs had a soft limit when they started; "
        f"{100 * found['soft_too_short']:.1f} % of these were too short, by "
        f"{found['soft_short_by_median_s'] / 60:,.0f} min in the median; no job is stopped by one."
    )


def print_users(users: dict[str, Any]) -> None:
    print_table("On a full machine", ("", "value", "unit"), titled(users, USERS))
