"""What the name of a policy stands for: its file is read once, and all who need it are handed what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from predictors.core.errors import JobcastError
from predictors.data.joblog import JobLog
from predictors.data.report import Finding, ReadingReport
from predictors.data.slurm.site import is_site, read_site
from predictors.tracking.client import stored_agent
from schedsim.agents.files import PREFIX, NamedAgent, agent_of_file, is_agent, read_agent
from schedsim.machine.node_groups import Machine, demands_of, read_machine
from schedsim.machine.slurm_nodes import machine_of
from schedsim.policies.policy import Policy, make_policy
from schedsim.sites.slurm.files import ANY_LOG, SlurmFiles, is_slurm
from schedsim.workload.demands import Demands

STORED: Final = ("models:/", "runs:/")  # begin the address of an agent in MLflow


@dataclass(frozen=True, eq=False)
class NamedPolicy:
    """A policy by its name, as of `jobcast simulate`, and what the name stands for."""

    name: str
    read: Policy | NamedAgent | SlurmFiles
    site: SlurmFiles | None = None  # what a site's jobs ask of nodes, where the name stands for none of its files

    @classmethod
    def of(cls, name: str) -> Self:
        """Read what a name stands for.

        `agent:FILE`, a shipped `agent:NAME` and `agent:models:/NAME@ALIAS` are agents; `slurm:FILE` is the policy of a
        slurm.conf (see `schedsim.sites.slurm.files`); the others are those of `schedsim.policies.policy.make_policy`.

        >>> NamedPolicy.of("agent:random-kept").estimates, NamedPolicy.of("easy").passes.kind
        ('requested', 'counts')
        """
        if is_slurm(name):
            return cls(name, SlurmFiles.read(name))
        return cls(name, agent_named(name) if is_agent(name) else make_policy(name))

    @property
    def passes(self) -> Policy:
        """The policy, or one with the same passes where each log has its own."""
        if isinstance(self.read, SlurmFiles):
            return ANY_LOG
        return self.read.policy if isinstance(self.read, NamedAgent) else self.read

    @property
    def estimates(self) -> str:
        """The estimates that it has where none are named: an agent's are those of its file."""
        return self.read.estimates if isinstance(self.read, NamedAgent) else "requested"

    @property
    def files(self) -> SlurmFiles | None:
        """The site's files, by which jobs ask of nodes what the log does not tell."""
        return self.read if isinstance(self.read, SlurmFiles) else self.site

    @property
    def digest(self) -> str | None:
        """SHA-256 of what its file says; None where its name says all."""
        return None if isinstance(self.read, Policy) else self.read.digest

    def of_log(self, log: JobLog) -> tuple[Policy, ReadingReport]:
        """Return the policy for the jobs of a cleaned log, and what it does not use of its files."""
        if isinstance(self.read, SlurmFiles):
            return self.read.policy(log)
        return self.passes, ReadingReport(log.name)

    def tuned_on(self, *logs: JobLog) -> bool:
        """Return whether this is an agent that was tuned on a part of one of these logs."""
        origin = self.read.origin if isinstance(self.read, NamedAgent) else {}
        return origin.get("log_sha256") in [log.digest() for log in logs]


def at_site(policies: Mapping[str, NamedPolicy]) -> dict[str, NamedPolicy]:
    """Return policies that are compared: jobs ask of nodes the same under all, by the first slurm.conf among them.

    Another slurm.conf has rules of its own.
    """
    site = next((one.read for one in policies.values() if isinstance(one.read, SlurmFiles)), None)
    return {name: replace(one, site=site) for name, one in policies.items()}


def machine_at(path: str | Path) -> Machine:
    """Return the machine that a TOML file declares, or that of a site's file, on which jobs ask by the site's rules."""
    if not is_site(path):
        return read_machine(path)
    site = read_site(path)
    made = machine_of(site, str(path))
    if made is None:
        raise JobcastError(f"{path}: names no nodes; name a --machine, or --procs.")
    return made.machine if site.conf is None else replace(made.machine, asks=SlurmFiles.of_site(site, path))


def demands_by(
    files: SlurmFiles | None, log: JobLog, machine: Machine, drop: bool = False
) -> tuple[JobLog, Demands, ReadingReport]:
    """Return what the jobs of a cleaned log ask of a machine's nodes by a site's files, else by those of the machine.

    By these jobs have memory that they do not ask for, or take none of the nodes', and keep others off their nodes. The
    rest is as of `schedsim.machine.node_groups.demands_of`.
    """
    files = machine.asks if files is None else files
    if files is None:
        return demands_of(log, machine, drop)
    asking = files.asking(log)
    if files.places_memory:
        return demands_of(log, machine, drop, asking)
    without = replace(machine, nodes=tuple(replace(group, memory_gb=None) for group in machine.nodes))
    used, demands, account = demands_of(log, without, drop, asking)
    if without != machine:
        told = files.conf.settings["selecttypeparameters"]
        text = f"memory of nodes does not count, by {told.name}={told.value}"
        account += ReadingReport(log.name, (Finding("slurm-no-memory", "noted", text),))
    return used, demands, account


def agent_named(policy: str) -> NamedAgent:
    """Return the agent of a policy's name: `agent:FILE`, a shipped `agent:NAME`, or `agent:models:/NAME@ALIAS`."""
    uri = policy.removeprefix(PREFIX)
    if not uri.startswith(STORED):
        return agent_of_file(uri)
    with stored_agent(uri) as file:
        return read_agent(file)
