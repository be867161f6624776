"""Job logs as commands read them."""

from pathlib import Path

from experiments.console import working
from predictors.data.cleaning import RequestsFrom
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog
from predictors.data.report import ReadingReport


def read(
    log: Path, requests_from: str | None = None, *, strict: bool = False, time_zone: str | None = None
) -> tuple[JobLog, ReadingReport]:
    """Return a log and the account of its reading; a rule for requested times that is none is refused first."""
    if requests_from is not None:
        RequestsFrom(requests_from)
    with working(f"Reading {log}"):
        return read_log(log, strict, time_zone)
