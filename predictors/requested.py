"""The requested time as a prediction: what schedulers without predictions plan with."""

from predictors.base import REQUESTED_TIME
from predictors.column import ColumnMean, ColumnPredictor


class Requested(ColumnPredictor):
    """A job runs as long as its user asked for; one hour where the log does not tell.

    Parameters
    ----------
    cap, as_of
        As in `Predictor`; neither changes a prediction.

    Examples
    --------
    >>> import numpy as np
    >>> Requested().predict_one(np.array([600.0])).seconds
    600.0
    """

    name = "requested"
    features = (REQUESTED_TIME,)
    estimator = ColumnMean(first=0)
