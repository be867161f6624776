"""A job runs as long as similar jobs did: those of the most specific group that has any, without training."""

from predictors.base import REQUESTED_TIME
from predictors.column import ColumnMean, ColumnPredictor


class Similar(ColumnPredictor):
    """Median of the last ten run times of the most specific group with history: the least absolute error.

    Groups, the most specific first: ended jobs of the same user, processors and requested time; of the same user and
    requested time; user and processors; user; all users' processors and requested time. None: the requested time.

    Parameters
    ----------
    cap, as_of
        As in `Predictor`.

    References
    ----------
    .. [1] W. Smith, I. Foster, V. Taylor. Predicting application run times using historical information. JSSPP 1998,
       LNCS 1459. doi:10.1007/BFb0053984

    Examples
    --------
    >>> import numpy as np
    >>> Similar().predict_rows(np.array([[600.0, 75.5], [600.0, np.nan], [60.0, 75.5]])).tolist()
    [75.5, 600.0, 60.0]
    """

    name = "similar"
    features = (REQUESTED_TIME, "similar_median")
    estimator = ColumnMean(first=1)


class SimilarMean(Similar):
    """Exponentially weighted mean run time of the same group as of `Similar`: less squared error than the median."""

    name = "similar-mean"
    features = (REQUESTED_TIME, "similar_weighted")


class SimilarLow(Similar):
    """Lower quartile of the run times of which `Similar` is the median: low on purpose, for backfilling.

    Three jobs of four run longer, so it serves only a scheduler with an honest answer to estimates that expire.
    """

    name = "similar-low"
    features = (REQUESTED_TIME, "similar_lower")
