"""Options of `jobcast simulate` on the machine, the site and CEIL: one dataclass each."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.options import MachineFile
from experiments.compare.measures import titled

if TYPE_CHECKING:
    from predictors.core.arrays import Ints
    from predictors.data.joblog import JobLog
    from predictors.data.report import ReadingReport
    from schedsim.machine.allocators import Allocator
    from schedsim.machine.node_groups import Machine
    from schedsim.machine.outages import Outages
    from schedsim.machine.run_times import RunTimes
    from schedsim.policies.policy import Policy
    from schedsim.results.schedule import Schedule
    from schedsim.sites.cobalt.rules import Rules


@dataclass(frozen=True)
class MachineOptions:
    """Options on the machine."""

    allocator: Annotated[
        str | None,
        typer.Option(
            help="Which nodes a job gets: scattered, first-fit, best-fit, contiguous or partitions; else processors "
            "count."
        ),
    ] = None
    per_leaf: Annotated[
        int | None, typer.Option(help="Nodes of a leaf switch, for --allocator; else all are on one.")
    ] = None
    partitions: Annotated[
        Path | None, typer.Option(help="A TOML file with the machine's partitions.", metavar="FILE")
    ] = None
    machine: MachineFile = None
    machine_seed: Annotated[
        int | None, typer.Option(help="Seed of what --allocator scattered, or chance in failures, draws.", min=0)
    ] = None
    outages: Annotated[
        Path | None, typer.Option(help="Reservations, maintenance and failures: a CSV or TOML file.", metavar="FILE")
    ] = None
    interrupted: Annotated[
        str | None, typer.Option(help="What becomes of a job on a node that fails: requeue or drop.")
    ] = None
    big_runs: Annotated[
        bool,
        typer.Option(
            "--big-runs", help="After each maintenance of the whole machine, the largest capability jobs first."
        ),
    ] = False

    def declared(self) -> "Machine | None":
        """Return the nodes that the machine file declares.

        Raises
        ------
        JobcastError
            If the file cannot be used, or another option says otherwise which nodes jobs get.
        """
        from predictors.core.errors import JobcastError
        from schedsim.machine.node_groups import read_machine

        if self.machine is None:
            return None
        if self.allocator is not None:
            raise JobcastError(
                f"--allocator is for nodes that are alike, --machine {self.machine} declares nodes with GPUs and "
                "memory; leave one of them out."
            )
        return read_machine(self.machine)

    def built(self, cleaned: "JobLog") -> dict[str, Any]:
        """Return the arguments that a simulation of a cleaned log takes for it.

        Raises
        ------
        JobcastError
            If the machine cannot be built so.
        """
        from predictors.core.errors import JobcastError

        allocator, outages = self._allocator(cleaned), self._outages(cleaned)
        if self.machine_seed is not None and self.allocator != "scattered" and (outages is None or not outages.draws):
            raise JobcastError(
                "--machine-seed is for --allocator scattered, or for --outages that tell how many nodes fail, not "
                "which; here nothing is drawn."
            )
        return {"allocator": allocator, "outages": outages}

    def _outages(self, cleaned: "JobLog") -> "Outages | None":
        from dataclasses import replace

        from predictors.core.errors import JobcastError, unknown_name
        from schedsim.machine.outage_files import read_outages
        from schedsim.machine.outages import RULES

        if self.outages is None:
            if self.interrupted is not None:
                raise JobcastError("--interrupted is about jobs on failed nodes; tell what fails with --outages.")
            return None
        found = read_outages(self.outages, cleaned.origin, cleaned.epoch)
        found = found if self.machine_seed is None else replace(found, seed=self.machine_seed)
        if self.interrupted is None:
            return found
        if not found.changes:
            raise JobcastError(f"--interrupted is about jobs on failed nodes; {self.outages} tells of no failure.")
        for rule in RULES:
            if rule == self.interrupted:
                return replace(found, interrupted=rule)
        raise unknown_name("rule for interrupted jobs", self.interrupted, RULES)

    def _allocator(self, cleaned: "JobLog") -> "Allocator | None":
        from predictors.core.errors import JobcastError

        if self.allocator is None:
            for option, value in (("--per-leaf", self.per_leaf), ("--partitions", self.partitions)):
                if value is not None:
                    raise JobcastError(f"{option} says where nodes lie; name an --allocator too.")
            return None
        from schedsim.machine.partitions import allocator_named, read_hierarchy

        hierarchy = None if self.partitions is None else read_hierarchy(self.partitions)
        return allocator_named(
            self.allocator, int(cleaned.max_procs or 0), self.per_leaf, self.machine_seed or 0, hierarchy
        )

    def with_big_runs(
        self, rule: "Policy", rules: "Rules | None", outages: "Outages | None", procs: int
    ) -> "tuple[Policy, Rules | None]":
        """Return a policy and a site's rules with which big runs follow maintenance, if that is asked for.

        Raises
        ------
        JobcastError
            If there is no maintenance, or the order cannot be put behind them.
        """
        from dataclasses import replace

        from predictors.core.errors import JobcastError
        from schedsim.kernels.keys import SCORE
        from schedsim.sites.cobalt import big_run
        from schedsim.sites.cobalt.rules import Rules

        if not self.big_runs:
            return rule, rules
        if outages is None:
            raise JobcastError("--big-runs come after maintenance of the whole machine; tell of it with --outages.")
        if rule.order.code != SCORE:
            return big_run.with_big_runs(rule, outages, procs), rules
        site = Rules() if rules is None else rules
        return rule, replace(site, commands=(*site.commands, *big_run.big_run_commands(outages, procs)))


@dataclass(frozen=True)
class SiteOptions:
    """Options on the site."""

    site: Annotated[
        str | None,
        typer.Option(
            help="The site's rules: a TOML file, mira, or none; by default mira with the policy cobalt.", metavar="FILE"
        ),
    ] = None
    commands: Annotated[
        Path | None, typer.Option(help="A CSV file of holds, releases, alterations and big runs.", metavar="FILE")
    ] = None

    def built(self, cleaned: "JobLog", policy: str, kill: bool) -> "tuple[Rules | None, JobLog, ReadingReport]":
        """Return the rules, the jobs that can start under them, and an account of the others.

        Raises
        ------
        JobcastError
            If the rules cannot be used.
        """
        from predictors.data.report import ReadingReport
        from schedsim.sites.cobalt.files import rules_of_log

        site = self.site
        defaulted = site is None and policy.startswith("cobalt")
        if defaulted:
            site = "mira"
        if site in (None, "none") and self.commands is None:
            return None, cleaned, ReadingReport(cleaned.name)
        rules, left, account = rules_of_log(cleaned, None if site == "none" else site, self.commands, kill)
        if defaulted and policy != "cobalt":  # several reservations know no shares
            rules = replace(rules, router=rules.router.without_shares())
        return rules, left, account


@dataclass(frozen=True)
class CeilOptions:
    """Options on a full machine: ceilings, postponable jobs, dilated runs."""

    ceiling: Annotated[
        float | None,
        typer.Option(
            help="No start may lift utilisation above this share of the machine, but of a job that alone needs as "
            "much; 0.95 under the policies ceil and BASE+ceil."
        ),
    ] = None
    release_below: Annotated[
        float | None, typer.Option(help="CEIL: postponed jobs join the queue while less of the machine is in use: 0.6.")
    ] = None
    queue_only: Annotated[
        bool, typer.Option("--queue-only", help="CEIL: backfill from the queue alone, not from the postponed jobs.")
    ] = False
    postponable: Annotated[
        str | None,
        typer.Option(
            help="Which jobs may be postponed: a share drawn by seed (0.3), a rule on a column (queue=2, procs<=64, "
            "requested_time>=36000), or a CSV file with the columns job_id,deadline."
        ),
    ] = None
    postpone_seed: Annotated[int | None, typer.Option(help="Seed of a share that is drawn; 0 if absent.", min=0)] = None
    dilation: Annotated[
        str | None,
        typer.Option(
            help="Runs take 5.2 to 21.1 % longer above a utilisation of 95 %: that at their 'start', or its 'mean' "
            "over the run. They are not stopped at their requested time."
        ),
    ] = None
    dilation_seed: Annotated[
        int | None, typer.Option(help="Seed of by how much each takes longer; 0 if absent.", min=0)
    ] = None

    def __post_init__(self) -> None:
        from predictors.core.errors import JobcastError
        from schedsim.workload.deadlines import is_share

        postponed = {"--release-below": self.release_below is not None, "--queue-only": self.queue_only}
        for option, given in postponed.items():
            if given and self.postponable is None:
                raise JobcastError(f"{option} is about postponed jobs; say which may be, with --postponable 0.3.")
        if self.postpone_seed is not None and not (self.postponable and is_share(self.postponable)):
            raise JobcastError("--postpone-seed draws a share of the jobs; give that share, --postponable 0.3.")
        if self.dilation_seed is not None and self.dilation is None:
            raise JobcastError("--dilation-seed draws by how much runs take longer; ask for that, --dilation start.")

    def built(self, cleaned: "JobLog", policy: "Policy", kill: bool) -> dict[str, Any]:
        """Return the arguments of a simulation of a cleaned log: `rule`, `run_times`, `deadline`, `kill`.

        Raises
        ------
        JobcastError
            If options do not go with the policy or the log.
        """
        from schedsim.policies.policy import with_limits
        from schedsim.workload.deadlines import deadlines_by

        seed = self.postpone_seed or 0
        deadline = None if self.postponable is None else deadlines_by(self.postponable, cleaned, seed)
        rule = with_limits(policy, self.ceiling, self.release_below, self.queue_only)
        run_times = self._run_times()
        return {"rule": rule, "run_times": run_times, "deadline": deadline, "kill": kill and run_times is None}

    def account(self, cleaned: "JobLog", deadline: "Ints | None") -> "ReadingReport":
        """Return a note where no job at all may be postponed though some should."""
        from predictors.data.report import Finding, ReadingReport

        if deadline is None or (deadline >= 0).any():
            return ReadingReport(cleaned.name)
        text = f"--postponable {self.postponable} marks no job of this log: none is postponed"
        return ReadingReport(cleaned.name, (Finding("postponable", "noted", text),))

    def _run_times(self) -> "RunTimes | None":
        from predictors.core.errors import unknown_name

        if self.dilation is None:
            return None
        from schedsim.machine.dilation import Dilation

        if self.dilation == "start":
            return Dilation(seed=self.dilation_seed or 0)
        if self.dilation == "mean":
            return Dilation(by="mean", seed=self.dilation_seed or 0)
        raise unknown_name("dilation", self.dilation, ("start", "mean"))

    def figures(self, schedule: "Schedule", rule: "Policy") -> dict[str, Any]:
        """Return the figures of users' waits and of full hours, under one name; nothing where nothing is asked."""
        if not rule.is_ceil and self.postponable is None and self.dilation is None:
            return {}
        from schedsim.results.site_metrics import user_figures

        return {"users": user_figures(schedule)}


def set_up(
    log: "JobLog",
    policy: str,
    kill: bool,
    machine: MachineOptions,
    ceil: CeilOptions,
    at_site: SiteOptions,
    nodes: "Machine | None" = None,
    drop_wide: bool = False,
) -> "tuple[dict[str, Any], ReadingReport]":
    """Return what a simulation of a cleaned log is given, by the fields of `NamedSimulation`; and what was left out.

    `nodes` are those of a machine file; `drop_wide` leaves out the jobs that fit on none.
    """
    from experiments.runs.simulate import policy_named
    from predictors.data.cleaning import within_requests
    from schedsim.machine.node_groups import demands_of
    from schedsim.machine.partitions import widened
    from schedsim.sites.cobalt.rules import within_shares
    from schedsim.sites.slurm.files import is_slurm, slurm_policy_of
    from schedsim.workload.workload import Workload

    if ceil.dilation is not None and kill:  # what is dilated are the runs that the requests left; dilated they run on
        log = within_requests(log)
    rules, log, account = at_site.built(log, policy, kill)
    demands = None
    if nodes is not None:
        log, demands, left = demands_of(log, nodes, drop_wide)
        account += left
    options = machine.built(log)
    if is_slurm(policy):
        rule, of_files = slurm_policy_of(policy, log)
        account += of_files
    else:
        rule = policy_named(policy)
    options |= ceil.built(log, rule, kill)
    allocator = options["allocator"]
    if rules is not None and allocator is not None:  # queues with a share keep to nodes of their own
        options["allocator"] = within_shares(allocator, rules, widened(Workload.from_log(log), allocator))
    procs = int(log.max_procs or 0)
    options["rule"], rules = machine.with_big_runs(options["rule"], rules, options["outages"], procs)
    return options | {"log": log, "rules": rules, "demands": demands}, account + ceil.account(log, options["deadline"])


def print_resources(found: dict[str, Any]) -> None:
    """Print the figures by resource, where jobs take GPUs and memory of nodes."""
    from experiments.console import print_table
    from predictors.core.errors import percent

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


def widths_note(cleaned: "JobLog", procs: "Any") -> str | None:
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
    from predictors.core.errors import percent

    available, used = (percent(found[name], 1) for name in ("available", "utilisation_of_available"))
    return (
        f"Of the machine, {available} was available, of which {used} was used; "
        f"{found['interrupted']:,} runs were stopped by failures, {found['lost_processor_hours']:,.0f} processor "
        f"hours lost, {found['dropped']:,} jobs gone."
    )


def ignored_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about commands that came too late, if there are any."""
    late = found.get("commands_too_late", 0)
    return f"{late:,} commands came when their job did not wait any more; they did nothing." if late else None


def fallback_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about the jobs for which the estimator had no estimate, if there are any."""
    count = found.get("n_fallback", 0)
    return f"{count:,} jobs were answered by their request, since there was no estimate." if count else None


def soft_limits_note(found: dict[str, Any]) -> str | None:
    """Return how many soft limits were too short, and by how much, if there were any."""
    if found.get("soft_limits") is None:
        return None
    if not found["soft_too_short"]:
        return "No soft limit was too short."
    return (
        f"{100 * found['soft_too_short']:.1f} % of the soft limits were too short, by "
        f"{found['soft_short_by_median_s'] / 60:,.0f} min in the median; no job is stopped by one."
    )


def print_users(users: dict[str, Any]) -> None:
    """Print the table of users' waits and full hours."""
    from experiments.console import print_table

    print_table("On a full machine", ("", "value", "unit"), titled(users, USERS))
