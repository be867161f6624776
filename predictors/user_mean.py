"""The plainest locality: a job runs as long as all its user's ended jobs, on average."""

from predictors.base import REQUESTED_TIME
from predictors.column import ColumnMean, ColumnPredictor


class UserMean(ColumnPredictor):
    """Mean run time of all the user's ended jobs; none: the requested time.

    Parameters
    ----------
    cap, as_of
        As in `Predictor`.

    Examples
    --------
    >>> import numpy as np
    >>> UserMean().predict_rows(np.array([[600.0, 40.0], [600.0, np.nan]])).tolist()
    [40.0, 600.0]
    """

    name = "user-mean"
    features = (REQUESTED_TIME, "ended_mean")
    estimator = ColumnMean(first=1)
