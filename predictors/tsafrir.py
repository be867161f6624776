"""The prediction of EASY++: the whole-second mean of the user's last two ended run times."""

from predictors.base import REQUESTED_TIME
from predictors.column import ColumnMean, ColumnPredictor


class Tsafrir(ColumnPredictor):
    """Integer mean of the user's last two ended run times; fewer than two: the requested time.

    Parameters
    ----------
    cap, as_of
        As in `Predictor`.

    References
    ----------
    .. [1] D. Tsafrir, Y. Etsion, D. G. Feitelson. Backfilling using system-generated predictions rather than user
       runtime estimates. IEEE Transactions on Parallel and Distributed Systems 18(6), 2007. doi:10.1109/TPDS.2007.70606

    Examples
    --------
    >>> import numpy as np
    >>> Tsafrir().predict_rows(np.array([[600.0, 75.0, 76.0], [600.0, 75.0, np.nan]])).tolist()
    [75.0, 600.0]
    """

    name = "tsafrir"
    features = (REQUESTED_TIME, "last_run_time", "second_last_run_time")
    estimator = ColumnMean(first=1, whole=True)
