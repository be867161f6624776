"""Slurm's preemption: whom a job that does not fit may stop, and whom of these it stops (see slurm-priorities.md).

Readings, where the page leaves something open
----------------------------------------------
1. Where only processors count, a job takes all processors of each job that is gone but the last.
"""

from dataclasses import dataclass, field
from heapq import heapify
from itertools import count

from predictors.core.events import ENDED
from tests.oracle.machine import Nodes


@dataclass(frozen=True)
class Preempts:
    """Who may stop whom, by users."""

    may: frozenset
    rank: dict = field(default_factory=dict)
    exempt: dict = field(default_factory=dict)
    gone: frozenset = frozenset()  # users of jobs that do not start again
    delay: int = 121
    reorders: int = 1
    strict: bool = False
    youngest: bool = False


def candidates(site, entry) -> tuple[list, list]:
    """Return the running jobs that a job may stop, in order; and when the exempt times end of those that it may not."""
    rule, found, later = site.rule.preempts, [], []
    for other in site.running if rule else []:
        on_nodes = type(site.machine) is Nodes
        if (entry.user, other.user) not in rule.may or (on_nodes and not set(other.place) & set(entry.job.ask.nodes)):
            continue
        since = other.start + max(1, rule.exempt.get(other.user, 0))
        if since <= site.now:
            nodes = min(0xFFFF, len(other.place) if on_nodes else other.procs)
            rank = -other.start if rule.youngest else rule.rank.get(other.user, 0) * 65536 + nodes
            found.append((rank, other.row, other))
        else:
            later.append(since)
    return [other for *_, other in sorted(found, key=lambda one: one[:2])], later


def make_way(site, entry, place_without, taken) -> bool:
    """Stop jobs so that a job has a place, if that is possible; else note when it may be."""
    found, later = candidates(site, entry)
    chosen = victims(site.rule.preempts, found, place_without, taken) if found else None
    if chosen is None:
        site.retry_at += later
        return False
    for other in chosen:
        stop(site, other, entry)
    return True


def victims(rule, found, place_without, taken) -> list | None:
    """Return whom to stop of those found; None: all of them do not suffice."""
    order = list(found)
    for turn in count():
        place = None
        for n in range(1, len(order) + 1):
            place = place_without(order[:n])
            if place is not None:
                break
        if place is None:
            return None
        if turn > rule.reorders or len(order) <= turn + 1:
            return [other for other in order[:n] if taken(other, place)]
        others = order[: n - 1] if rule.strict else sorted(order[: n - 1], key=lambda other: -taken(other, place))
        order = [order[n - 1], *others, *order[n:]]
    return None


def stop(site, other, entry) -> None:
    """Stop a job for another one."""
    site.preempted.append((other.row, other.start, site.now, entry.row))
    site.past.append((other, other.start, site.now))
    site.changed = True
    site.running.remove(other)
    site.in_use -= other.procs
    site.ends = [end for end in site.ends if end[-1] is not other]
    heapify(site.ends)
    if other.user in site.rule.preempts.gone:
        site.cancelled.add(other.row)
        site.news.append((site.now, ENDED, other.row))
        other.end = site.now
        return
    other.start, other.running, other.overdue, other.place = -1, other.first, False, None
    site.held.discard(other)
    site.timers.append((site.now + site.rule.preempts.delay, back, site, other))


def back(site, other) -> None:
    """Let a job wait again."""
    site.enqueue(other)
    site.changed = True


def set_retry(site, all_tried) -> None:
    """Wake up when the first exempt time ends, or when an earlier pass has found, if this one has not tried all."""
    kept = [timer[0] for timer in site.timers if timer[1] is retry and timer[0] > site.now and not all_tried]
    site.timers = [timer for timer in site.timers if timer[1] is not retry]
    site.timers += [(first, retry, site) for first in sorted(site.retry_at + kept)[:1]]
    site.retry_at = []


def retry(site) -> None:
    """The next cycle is due."""
    site.changed = True


class Without:
    """A site without some running jobs, for as long as one asks."""

    def __init__(self, site, others) -> None:
        self.site, self.others, self.kept = site, others, None

    def __enter__(self):
        site = self.site
        self.kept = site.running, site.in_use
        site.running = [e for e in site.running if e not in self.others]
        site.in_use = sum(e.procs for e in site.running)
        return site

    def __exit__(self, *_) -> None:
        self.site.running, self.site.in_use = self.kept
