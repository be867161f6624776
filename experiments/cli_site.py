"""Options of `jobcast simulate` about the site: its queues, score, dependencies, accounts, and commands on jobs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from predictors.data.account import Account
    from predictors.data.joblog import JobLog
    from schedsim.allocators import Allocator
    from schedsim.rules import Rules

SiteName = Annotated[
    str | None,
    typer.Option(
        "--site",
        help="The site's rules: a TOML file, mira, or none; by default mira with the policy cobalt.",
        metavar="FILE",
    ),
]
CommandFile = Annotated[
    Path | None,
    typer.Option("--commands", help="A CSV file of holds, releases, alterations and big runs.", metavar="FILE"),
]


@dataclass(frozen=True)
class SiteOptions:
    """What the command line says of the site."""

    site: str | None = None
    commands: Path | None = None

    def built(self, cleaned: "JobLog", policy: str) -> "tuple[Rules | None, JobLog, Account]":
        """Return the rules, the jobs that can start under them, and an account of the others.

        Raises
        ------
        JobcastError
            If the rules cannot be used.
        """
        from predictors.data.account import Account
        from schedsim.site_files import rules_of_log

        site = self.site
        defaulted = site is None and policy.startswith("cobalt")
        if defaulted:
            site = "mira"
        if site in (None, "none") and self.commands is None:
            return None, cleaned, Account(cleaned.name)
        rules, left, account = rules_of_log(cleaned, None if site == "none" else site, self.commands)
        if defaulted and policy != "cobalt":  # several reservations know no shares
            rules = replace(rules, router=rules.router.without_shares())
        return rules, left, account


def placed(allocator: "Allocator", rules: "Rules", cleaned: "JobLog") -> "Allocator":
    """Return an allocator that keeps queues with a share to nodes of their own, where nodes are told apart."""
    from schedsim.partitions import widened
    from schedsim.rules import within_shares
    from schedsim.workload import Workload

    return within_shares(allocator, rules, widened(Workload.from_log(cleaned), allocator))


def ignored_note(found: dict[str, Any]) -> str | None:
    """Return a sentence about commands that came too late, if there are any."""
    late = found.get("commands_too_late", 0)
    return f"{late:,} commands came when their job did not wait any more; they did nothing." if late else None
