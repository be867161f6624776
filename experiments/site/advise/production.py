"""What a site's own scheduler would gain by soft limits, and what of jobcast's policies it can do with them."""

from typing import Final

from experiments.runs.simulate import usual_correction
from experiments.sweeps.sweep import Case
from predictors.core.errors import JobcastError
from schedsim.workload.soft_limits import soft_limits_named

PREDICTED: Final = (("last-two", None), ("cesnet", None), ("metastack", None), ("similar", 0.1))
"""Predictors that give the soft limits, and their budgets: all learn as jobs end, without training."""
KNOWN: Final = "run times known"


def cases_of_scheduler(today: Case, soft_limits: str) -> tuple[Case, ...]:
    """Return today's way, the same policy with soft limits by each predictor, and by the true run times last.

    Raises
    ------
    JobcastError
        If there is no such scheduler, or the site does not plan by requested times today.

    Examples
    --------
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


HELD: Final = {
    "slurm": "Slurm from 25.05.4 on holds soft limits in whole minutes (TimeMin, with time_min_as_soft_limit), plans "
    "waiting and running jobs by them, and expects half of what is left to the hard limit once one has passed.",
    "slurm-23.11": "Slurm 23.11 to 25.05.3 holds soft limits in whole minutes (TimeMin, with time_min_as_soft_limit), "
    "but plans running jobs by their hard limits.",
    "pbs": "PBS holds soft limits in seconds (soft_walltime), plans waiting and running jobs by them, and adds the "
    "first one again each time it has passed.",
}
"""What a scheduler does with soft limits."""
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
