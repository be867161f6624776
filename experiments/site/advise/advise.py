"""Simulations behind an advice: a short list of policies and predictors, run on the site's log.

The short list of ways to backfill, on its own log, compared with what it runs today.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.compare.measures import COMPARED
from experiments.compare.result import LEAST, PRICES
from experiments.runs.clusters import Pool
from experiments.runs.policies import NamedPolicy
from experiments.runs.pool import HERE
from experiments.runs.simulate import check_goes_on, usual_correction
from experiments.site.advise.advice import CLASSES, MEASURE, Advice, advise
from experiments.site.advise.validity import lacks_of_twin, lacks_of_ways
from experiments.sweeps.plan import Plan, plan
from experiments.sweeps.results import Results
from experiments.sweeps.run import run_plan
from experiments.sweeps.sweep import Case, Sweep, first_seeds
from predictors.core.errors import JobcastError, unknown_name
from predictors.data.joblog import JobLog
from predictors.data.summary import Lack
from predictors.models.similar_jobs import estimates_name
from schedsim.agents.files import PREFIX, is_agent
from schedsim.machine.node_groups import Machine
from schedsim.policies.policy import policy_name
from schedsim.sites.slurm.files import files_of_policy, is_slurm
from schedsim.workload.soft_limits import soft_limits_named

if TYPE_CHECKING:
    import pandas as pd

PREDICTED: Final = (("last-two", None), ("cesnet", None), ("metastack", None), ("similar", 0.1))
"""Predictors that give the soft limits, and their budgets: all learn as jobs end, without training."""
KNOWN: Final = "run times known"


def cases_of_scheduler(today: Case, soft_limits: str) -> tuple[Case, ...]:
    """Return today's way, the same policy with soft limits by each predictor, and by the true run times last.

    >>> [case.name for case in cases_of_scheduler(Case("EASY", "easy"), "slurm")]
    ['EASY', 'last-two', 'cesnet', 'metastack', 'similar within 0.1', 'run times known']
    """
    soft_limits_named(soft_limits)
    if today.estimates != "requested":
        raise JobcastError(
            f"--soft-limits {soft_limits} is for a site that plans by requested times today; {today.name} plans by "
            f"{today.estimates}. Name the --current policy, such as easy."
        )
    known = ((name if budget is None else f"{name} within {budget:g}", name, budget) for name, budget in PREDICTED)
    correction = usual_correction(soft_limits)
    return (
        today,
        *(
            Case(title, today.policy, name, correction, budget=budget, soft_limits=soft_limits)
            for title, name, budget in (*known, (KNOWN, "clairvoyant", None))
        ),
    )


HELD: Final = {  # what a scheduler does with soft limits
    "slurm": "Slurm from 25.05.4 on holds soft limits in whole minutes (TimeMin, with time_min_as_soft_limit), plans "
    "waiting and running jobs by them, and expects half of what is left to the hard limit once one has passed.",
    "slurm-23.11": "Slurm 23.11 to 25.05.3 holds soft limits in whole minutes (TimeMin, with time_min_as_soft_limit), "
    "but plans running jobs by their hard limits.",
    "pbs": "PBS holds soft limits in seconds (soft_walltime), plans waiting and running jobs by them, and adds the "
    "first one again each time it has passed.",
}
WAYS: Final = (
    "last-two: the mean of the user's last two run times. cesnet: the request times the worst run time / request of "
    "the user's last 15 jobs, + 15 min. metastack: the mean of alike jobs, else half the request. similar within 0.1: "
    "the median of similar jobs, moved until one job in ten runs longer. run times known: what no predictor can beat."
)


def what_it_can_do(soft_limits: str) -> tuple[str, ...]:
    """Return what of `balanced`, `careful` and RUSH's gate a scheduler can do and what not, a sentence or two each."""
    soft_limits_named(soft_limits)
    name = "PBS" if soft_limits == "pbs" else "Slurm"
    by_slurm = "by multifactor priority, and by a nice value that a daemon sets"
    priority = "by its job_sort_formula" if name == "PBS" else by_slurm
    return (
        HELD[soft_limits],
        f"Of balanced: {name} can order the queue by time waited, width and an estimate, {priority}. It has no due "
        "dates: a daemon would have to raise the priority of overdue jobs itself, and nothing bounds a wait.",
        f"Of careful: {name} has one soft limit of a job. So a job cannot have one estimate as a candidate, another "
        "in the order and a third one once it runs, and the limit of a running job stays as it was set. The first job "
        "that waits gets no promise by hard limits: its reservation is planned again by soft limits, and can slip.",
        f"Of RUSH's gate: {name} can hold a job that would run slowly, and a daemon can release it. It does not ask at "
        "the moment of the start, and does not count how often a job was passed over: the daemon has to bound that.",
    )


SHORT_LIST: Final = (  # what centres run or could run tomorrow
    Case("EASY", "easy"),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("careful", "careful", "careful"),
    Case("balanced", "balanced", "balanced"),
    Case("conservative", "conservative-compress"),
    Case("WFP", "wfp3-easy"),
)
PERFECT: Final = Case("EASY-SJBF with run times known", "easy-sjbf", "clairvoyant")
BARE: Final = "EASY-SJBF"  # what predictors are added to
ADDS: Final = (("EASY++", BARE),)  # a case with a predictor, and the same policy without
BY_ESTIMATES: Final = ("EASY", BARE, "EASY++")  # ways that differ by what they know of run times alone
MEASURES_OF_SCHEDULES: Final = tuple(name for name in COMPARED if name in (MEASURE, *PRICES["simulate"]))
"""What can decide."""


def case_with(predictor: str) -> Case:
    """Return EASY-SJBF with a predictor of one's own choice: a registered one, or a kept model."""
    for case in (*SHORT_LIST, PERFECT):
        if estimates_name(predictor) == case.estimates:
            raise JobcastError(f"{predictor} is in the short list already, as {case.name}; name another predictor.")
    own = Case(f"{BARE} by {predictor}", "easy-sjbf", predictor)
    own.check()
    return own


def case_of(agent: str) -> Case:
    """Return an agent file as a way to schedule, by the estimates that it names.

    >>> case_of("random-kept").name
    'agent random-kept'
    """
    policy = agent if is_agent(agent) else f"{PREFIX}{agent}"
    case = Case(f"agent {Path(policy.removeprefix(PREFIX)).stem}", policy, NamedPolicy.of(policy).estimates)
    case.check()
    return case


def cases_with(current: str, *more: Case) -> tuple[Case, tuple[Case, ...]]:
    """Return what the site runs today, and all cases, that one first and perfect knowledge last.

    >>> cases_with("easy")[0].name, cases_with("sjf-easy")[1][0].name, len(cases_with("sjf-easy")[1])
    ('EASY', 'sjf-easy', 9)
    """
    current = policy_name(current)
    if not current.strip():
        raise JobcastError("--current names no policy; name what the site runs today, such as easy.")
    for case in SHORT_LIST:
        if current.lower() in (case.name.lower(), case.policy if case.estimates in ("requested", case.policy) else ""):
            return case, (case, *(other for other in SHORT_LIST if other is not case), *more, PERFECT)
    name = Path(files_of_policy(current)[0]).name if is_slurm(current) else current
    own = Case(name, current)
    own.check()
    return own, (own, *SHORT_LIST, *more, PERFECT)


@dataclass(frozen=True, eq=False)
class Question:
    """The question to a cleaned log: the runs of the short list, as logged and shaken, and what they decide."""

    log: JobLog  # cleaned by `predictors.data.cleaning.clean`
    current: str = "easy"  # what the site runs today: a name of the short list, or any policy by requested times
    seeds: int = 20  # how many shakes
    measure: str = MEASURE
    predictor: str | None = None  # one more way: EASY-SJBF by this predictor, or kept model
    agent: str | None = None  # one more way: an agent file
    lacks: tuple[Lack, ...] = ()  # what the log lacks; it may carry no verdict
    # ask instead what the site's own scheduler would gain by soft limits, see `experiments.site.advise.advise`
    soft_limits: str | None = None
    # the nodes with the processors, GPUs and memory that jobs take; without it processors count alone
    machine: Machine | None = None
    kill: bool = True  # whether jobs are stopped at their requested time

    def __post_init__(self) -> None:
        if self.measure not in MEASURES_OF_SCHEDULES:
            raise unknown_name("measure", self.measure, MEASURES_OF_SCHEDULES)
        if self.seeds < LEAST:
            raise JobcastError(
                f"Of {self.seeds} shaken copies of a log nothing can be said; take --seeds {LEAST} or more."
            )
        for case in self.cases:  # unknown names are refused before anything is run, and what cannot plan on nodes
            check_goes_on(self.machine, case.name, case.passes)
            case.check(self.kill)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        if self.soft_limits is not None:
            if self.predictor or self.agent:
                raise JobcastError("--soft-limits has a list of its own; leave --predictor and --agent out.")
            return cases_of_scheduler(cases_with(self.current)[0], self.soft_limits)
        agents = (case_of(self.agent),) if self.agent else ()
        return cases_with(self.current, *self._own, *agents)[1]

    @cached_property
    def _own(self) -> tuple[Case, ...]:
        return (case_with(self.predictor),) if self.predictor else ()

    @cached_property
    def plan(self) -> Plan:
        return self._plan(self.cases, first_seeds(self.seeds))

    @cached_property
    def trial(self) -> Plan:
        """The runs that tell whether anything can be judged: few, on the log as it is."""
        return self._plan([case for case in self.cases if case is self.cases[0] or case.name in self._alike])

    def _plan(self, cases: Sequence[Case], seeds: tuple[int, ...] = ()) -> Plan:
        by = (*CLASSES, "user")
        sweep = Sweep(cases=tuple(cases), seeds=seeds, by=by, beside=self.cases[0].name, kill=self.kill)
        return plan(sweep, [self.log], self.machine)

    @property
    def _alike(self) -> tuple[str, ...]:
        if self.soft_limits is None:
            return BY_ESTIMATES
        return tuple(case.name for case in self.cases if case.name != KNOWN)

    def run(self, folder: Path, pool: Pool = HERE) -> Results:
        """Do the trial, and if the log carries a verdict all runs; started again it goes on where it was."""
        tried = run_plan(self.trial, pool, folder / f"trial-{self.trial.identity()[:12]}")
        if any(lack.forbids_verdict for lack in self._lacks(tried)):
            return tried
        return run_plan(self.plan, pool, folder / f"runs-{self.plan.identity()[:12]}")

    def _lacks(self, found: Results) -> tuple[Lack, ...]:
        today = self.cases[0].name
        ways = lacks_of_ways(found.runs, self._alike)
        return (*self.lacks, *ways, *lacks_of_twin(found.runs, today, self.log))

    def advice(self, found: Results) -> Advice:
        """Say what the runs say; nothing where they cannot judge."""
        lacks = self._lacks(found)
        if any(lack.forbids_verdict for lack in lacks):
            return Advice.none(self.cases[0].name, lacks)
        adds = (*ADDS, *((case.name, BARE) for case in self._own))
        today = self.cases[0].name
        groups = named(found.groups, self.log.names("user"))
        perfect = PERFECT.name if self.soft_limits is None else KNOWN
        return advise(found.runs, groups, today, perfect=perfect, adds=adds, measure=self.measure, lacks=lacks)


def named(groups: "pd.DataFrame", names: Sequence[str]) -> "pd.DataFrame":
    """Return figures by group with the users' names in place of their codes, where the log has names.

    >>> import pandas as pd
    >>> groups = pd.DataFrame({"by": ["user", "user", "size"], "group": ["1", "-1", "1"]})
    >>> named(groups, ("ann", "bob"))["group"].tolist()
    ['bob', '-1', '1']
    """
    codes = {str(code): name for code, name in enumerate(names)}
    return groups.assign(group=groups["group"].where(groups["by"] != "user", groups["group"].replace(codes)))
