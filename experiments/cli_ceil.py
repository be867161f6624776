"""Options of `jobcast simulate` about a full machine: a ceiling on utilisation, jobs put off, runs that take longer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from experiments.postponable import Ints
    from predictors.data.account import Account
    from predictors.data.joblog import JobLog
    from schedsim.policy import Policy
    from schedsim.run_times import RunTimes
    from schedsim.schedule import Schedule

Ceiling = Annotated[
    float | None,
    typer.Option(
        help="No start may lift utilisation above this share of the machine, but of a job that alone needs as much; "
        "0.95 under the policies ceil and BASE+ceil."
    ),
]
ReleaseBelow = Annotated[
    float | None, typer.Option(help="CEIL: jobs put off join the queue while less of the machine is in use: 0.6.")
]
QueueOnly = Annotated[
    bool, typer.Option("--queue-only", help="CEIL: backfill from the queue alone, not from the jobs put off.")
]
Postponable = Annotated[
    str | None,
    typer.Option(
        help="Which jobs may be postponed: a share drawn by seed (0.3), a rule on a column (queue=2, procs<=64, "
        "requested_time>=36000), or a CSV file with the columns job_id,deadline."
    ),
]
PostponeSeed = Annotated[
    int | None, typer.Option("--postpone-seed", help="Seed of a share that is drawn; 0 if absent.", min=0)
]
DilationBy = Annotated[
    str | None,
    typer.Option(
        "--dilation",
        help="Runs take 5.2 to 21.1 % longer above a utilisation of 95 %: that at their 'start', or its 'mean' over "
        "the run. They are not stopped at their requested time.",
    ),
]
DilationSeed = Annotated[
    int | None, typer.Option("--dilation-seed", help="Seed of by how much each takes longer; 0 if absent.", min=0)
]

ROWS = (
    ("time above 95 % utilisation", "time_above_share", "of makespan"),
    ("mean user wait", "mean_user_wait_s", "s"),
    ("of regular jobs", "mean_user_wait_regular_s", "s"),
    ("of postponable jobs", "mean_user_wait_postponable_s", "s"),
    ("mean slowdown on user wait", "mean_user_slowdown", ""),
    ("with undilated runs", "mean_user_slowdown_undilated", ""),
    ("postponable", "postponable", "jobs"),
    ("that ended late", "late", "jobs"),
    ("took longer than alone", "dilated", "jobs"),
)


@dataclass(frozen=True)
class CeilOptions:
    """What the command line says of a full machine."""

    ceiling: float | None = None
    release_below: float | None = None
    queue_only: bool = False
    postponable: str | None = None
    postpone_seed: int | None = None
    dilation: str | None = None
    dilation_seed: int | None = None

    def __post_init__(self) -> None:
        from experiments.postponable import is_share
        from predictors.data.errors import JobcastError

        put_off = {"--release-below": self.release_below is not None, "--queue-only": self.queue_only}
        for option, given in put_off.items():
            if given and self.postponable is None:
                raise JobcastError(f"{option} is about jobs put off; say which may be, with --postponable 0.3.")
        if self.postpone_seed is not None and not (self.postponable and is_share(self.postponable)):
            raise JobcastError("--postpone-seed draws a share of the jobs; give that share, --postponable 0.3.")
        if self.dilation_seed is not None and self.dilation is None:
            raise JobcastError("--dilation-seed draws by how much runs take longer; ask for that, --dilation start.")

    def built(self, cleaned: "JobLog", policy: str, kill: bool) -> dict[str, Any]:
        """Return the arguments that a simulation of a cleaned log takes for it: `rule`, `world`, `deadline`, `kill`.

        Raises
        ------
        JobcastError
            If options do not go with the policy or the log.
        """
        from experiments.postponable import deadlines_by
        from schedsim.policy import make_policy, with_limits

        seed = self.postpone_seed or 0
        deadline = None if self.postponable is None else deadlines_by(self.postponable, cleaned, seed)
        rule = with_limits(make_policy(policy), self.ceiling, self.release_below, self.queue_only)
        world = self._world()
        return {"rule": rule, "world": world, "deadline": deadline, "kill": kill and world is None}

    def account(self, cleaned: "JobLog", deadline: "Ints | None") -> "Account":
        """Return a note where no job at all may be postponed though some should."""
        from predictors.data.account import Account, Finding

        if deadline is None or (deadline >= 0).any():
            return Account(cleaned.name)
        text = f"--postponable {self.postponable} marks no job of this log: none is put off"
        return Account(cleaned.name, (Finding("postponable", "noted", text),))

    def _world(self) -> "RunTimes | None":
        from predictors.data.errors import unknown_name

        if self.dilation is None:
            return None
        from schedsim.dilation import Dilation

        if self.dilation == "start":
            return Dilation(seed=self.dilation_seed or 0)
        if self.dilation == "mean":
            return Dilation(by="mean", seed=self.dilation_seed or 0)
        raise unknown_name("dilation", self.dilation, ("start", "mean"))

    def figures(self, schedule: "Schedule", rule: "Policy") -> dict[str, Any]:
        """Return the figures of users' waits and of full hours, under one name; nothing where nothing is asked."""
        if not rule.is_ceil and self.postponable is None and self.dilation is None:
            return {}
        from schedsim.user_metrics import user_figures

        return {"users": user_figures(schedule)}


def print_users(users: dict[str, Any]) -> None:
    """Print the table of users' waits and full hours."""
    from experiments.output import print_table

    print_table("On a full machine", ("", "value", "unit"), [(name, users[key], unit) for name, key, unit in ROWS])
