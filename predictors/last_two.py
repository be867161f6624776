"""The baseline of the literature: a job runs as long as its user's last two ended jobs, on average."""

from predictors.base import REQUESTED_TIME
from predictors.column import ColumnMean, ColumnPredictor


class LastTwo(ColumnPredictor):
    """Mean run time of the user's last two ended jobs.

    One ended job only: by the rule `strict` that one, by the rule `reis` the requested time. None: the requested time.

    Parameters
    ----------
    cap : bool
        Keep predictions within [1 s, requested time].
    as_of : {"strict", "reis"}
        What counts as ended: `strict`, also what ends in the second of the submission; `reis`, only what ended before.

    References
    ----------
    .. [1] D. Tsafrir, Y. Etsion, D. G. Feitelson. Backfilling using system-generated predictions rather than user
       runtime estimates. IEEE Transactions on Parallel and Distributed Systems 18(6), 2007. doi:10.1109/TPDS.2007.70606

    Examples
    --------
    >>> import numpy as np
    >>> LastTwo().predict_rows(np.array([[600.0, 75.5], [600.0, np.nan], [60.0, 75.5]])).tolist()
    [75.5, 600.0, 60.0]
    """

    name = "last-two"
    features = (REQUESTED_TIME, "last_two_mean")
    estimator = ColumnMean(first=1)
