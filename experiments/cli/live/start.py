"""`jobcast start` and `jobcast why`: when a waiting job will start, and what keeps it now."""

from pathlib import Path
from typing import Any

from experiments.cli.options import live as options
from experiments.console import print_json, print_table, say, working
from experiments.site.advise.sentences import span
from experiments.site.live.queue import LiveQueue
from experiments.site.live.starts import Past, Present, actual_starts, scored, starts_of
from predictors.data.formats.detect import read_log
from predictors.data.joblog import JobLog


def start(args: options.Start) -> None:
    now, ended = _read(args.queue, args.past)
    if args.save is not None:
        now.write(args.save)
    asked = [now.job(args.job)] if args.job is not None else [one for one in now.jobs if one.state == "PENDING"]
    if args.job is not None:
        _refuse_unanswerable(now, ended, asked[0])
    found = starts_of(now, ended, asked, args.draws, args.seed)
    held = scored(found, actual_starts(_log(args.score))) if args.score is not None else None
    if args.as_json:
        more: dict[str, Any] = {} if held is None else {"score": held}
        print_json({"now": now.now, "starts": [one.to_dict() for one in found], **more})
        return
    if not found:
        say("No job waits for processors.")
    else:
        rows = [
            (one.job, *(in_words(second - now.now) for second in (one.p10, one.p50, one.p90, one.by_requests)),
             "-" if one.by_scheduler is None else in_words(one.by_scheduler - now.now), one.ahead)
            for one in found
        ]  # fmt: skip
        note = f"Run times as of {found[0].learnt_from:,} ended jobs; later jobs and priorities are not foreseen."
        print_table("Starts in", ("job", "P10", "P50", "P90", "by requests", "scheduler", "ahead"), rows, note=note)
    if held is not None:
        say(_told(held))


def why(args: options.Why) -> None:
    now, ended = _read(args.queue, args.past)
    asked = now.job(args.job)
    present = Present(now, asked.partition, ended)
    reasons, expected = present.why(asked), present.start(asked, present.simulation())
    if args.as_json:
        print_json({"now": now.now, "reasons": reasons, "start": expected.to_dict()})
        return
    for sentence in reasons:
        say(sentence)
    low, middle, high = (in_words(second - now.now) for second in (expected.p10, expected.p50, expected.p90))
    say(f"It starts in {middle} (P50), {low} (P10) to {high} (P90); {expected.ahead:,} jobs wait in front of it.")


def _read(queue: Path | None, past: Path | None) -> tuple[LiveQueue, Past]:
    return queue_now(queue), Past(None if past is None else _log(past))


def queue_now(path: Path | None) -> LiveQueue:
    """Return the queue of a file, else that of Slurm."""
    if path is not None:
        return LiveQueue.read(path)
    with working("Asking Slurm"):
        return LiveQueue.from_slurm()


def _log(path: Path) -> JobLog:
    with working(f"Reading {path}"):
        log: JobLog = read_log(path)[0]
    return log


def _refuse_unanswerable(now: LiveQueue, ended: Past, job: Any) -> None:
    Present(now, job.partition, ended).row(job)


def in_words(seconds: int) -> str:
    """Return a span in words.

    >>> in_words(0), in_words(50), in_words(5000), in_words(90_000)
    ('now', '50 s', '83 min', '25.0 h')
    """
    return "now" if seconds <= 0 else span(seconds)


def _told(held: dict[str, Any]) -> str:
    """Return in words how well forecasts held."""
    if not held["started"]:
        return "None of these jobs has a start in the later log, so nothing can be scored."
    own = (
        f" The scheduler's own expectation of {held['answered_by_scheduler']:,} of them was off by "
        f"{in_words(round(held['scheduler_mean_error_s']))}, P50 of the same by "
        f"{in_words(round(held['p50_mean_error_of_these_s']))}."
        if held["answered_by_scheduler"]
        else " The scheduler expected nothing of them."
    )
    return (
        f"Of {held['started']:,} jobs {100 * held['p10_to_p90_holds']:.0f} % started within P10 to P90 (80 % should), "
        f"{100 * held['later_than_p90']:.0f} % later. P50 was off by {in_words(round(held['p50_mean_error_s']))} in "
        f"the mean, the requested times by {in_words(round(held['by_requests_mean_error_s']))}.{own}"
    )
