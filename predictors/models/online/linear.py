"""A linear model that learns from each job when it ends, in microseconds."""

from dataclasses import dataclass
from typing import Final

from predictors.core.params import Positive
from predictors.models.online import _linear as kernel
from predictors.models.online.base import Kernels, OnlinePredictor

FEATURES: Final = (  # columns, in the order that the kernel knows
    "requested_time", "last_two_mean", "last_run_time", "second_last_run_time", "ended_mean", "longest_running",
    "running_mean", "procs", "running_sum", "running_count", "think_time", "procs_held", "pending_count", "hour",
    "weekday", "user", "group", "executable",
)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineLinear(OnlinePredictor):
    """Linear model of squared loss, learnt job by job by the normalised adaptive gradient.

    Inputs are the request, the user's past and running jobs, the time, and all products of two of them; run times of
    the past count at most as the job's own request. In addition each combination that a job shares with others (its
    user; group; executable; user and request; user and processors; all three; processors and request) has a weight of
    its own in a table of 65,536, found by a hash. Unknown users and categories never seen before mark weights that are
    still 0: they are predicted by the rest of the model.

    Steps follow [1]_, in units of the root mean square of the errors so far, so that neither the units nor the size of
    the run times need tuning. A request above 30 days counts as 30 days. Estimates lie between 0 and the longest run
    time learnt from.

    .. [1] S. Ross, P. Mineiro, J. Langford. Normalized online learning. UAI 2013. arXiv:1305.6646
    .. [2] K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg. Feature hashing for large scale multitask
       learning. ICML 2009. doi:10.1145/1553374.1553516

    >>> from predictors.data.synthetic.generate import generate_log
    >>> log = generate_log(300, seed=1)
    >>> model = OnlineLinear().fit(log)
    >>> bool((model.predict(log) <= log.filled("requested_time")).all())
    True
    """

    name = "online-linear"
    features = FEATURES

    rate: Positive = 0.5  # length of the steps; the default suits all logs tried

    kernels = Kernels(
        kernel.estimate, kernel.estimates, kernel.learn_rows, kernel.advance, kernel.N_DENSE, kernel.TABLE
    )

    @property
    def settings(self) -> tuple[float, ...]:
        return (float(self.rate),)
