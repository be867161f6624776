"""The estimate that replaces one which expired while its job runs on."""

from typing import Final

from predictors.data.compiled import lean

REQUESTED_TIME: Final = 0
INCREMENTAL: Final = 1
DOUBLING: Final = 2

# Tsafrir, Etsion, Feitelson (IEEE TPDS 18(6), 2007, doi:10.1109/TPDS.2007.70606), seconds
RUNGS: Final = (60, 300, 900, 1800, 3600, 7200, 18000, 36000, 72000, 180000, 360000)


@lean
def corrected(code: int, estimate: int, first: int, limit: int, elapsed: int) -> int:
    """Return the first correction of `estimate` that lies beyond `elapsed`; all in seconds.

    `first` is the estimate at submission, `limit` the requested time: no correction exceeds it while it lies beyond
    `elapsed` itself. A job that outruns its request (it is not killed) has its estimate doubled.
    """
    if limit > elapsed:
        if code == INCREMENTAL:
            for rung in RUNGS:
                if first + rung > elapsed:
                    return min(first + rung, limit)
        if code == DOUBLING:
            while estimate <= elapsed:
                estimate *= 2
            return min(estimate, limit)
        return limit
    estimate = max(estimate, limit)
    while estimate <= elapsed:
        estimate *= 2
    return estimate
