"""What the name of a policy stands for: its file is read once, and all who need it are handed what it says."""

from dataclasses import dataclass
from typing import Final, Self

from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport
from predictors.tracking.client import stored_agent
from schedsim.agents.files import PREFIX, NamedAgent, agent_of_file, is_agent, read_agent
from schedsim.policies.policy import Policy, make_policy
from schedsim.sites.slurm.files import ANY_LOG, SlurmFiles, is_slurm

STORED: Final = ("models:/", "runs:/")  # begin the address of an agent in MLflow


@dataclass(frozen=True, eq=False)
class NamedPolicy:
    """A policy by its name, as of `jobcast simulate`, and what the name stands for."""

    name: str
    read: Policy | NamedAgent | SlurmFiles

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


def agent_named(policy: str) -> NamedAgent:
    """Return the agent of a policy's name: `agent:FILE`, a shipped `agent:NAME`, or `agent:models:/NAME@ALIAS`."""
    uri = policy.removeprefix(PREFIX)
    if not uri.startswith(STORED):
        return agent_of_file(uri)
    with stored_agent(uri) as file:
        return read_agent(file)
