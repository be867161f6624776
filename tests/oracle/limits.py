"""Slurm's limits: which of them hold a job now, from all that ran and runs (see slurm-priorities.md)."""

from dataclasses import dataclass
from math import floor


@dataclass(frozen=True)
class Cap:
    """A limit on the jobs of some users: at a time, planned, spent, or safe, which is both of the latter."""

    kind: str
    most: int  # jobs or processors at a time; processor minutes
    users: frozenset
    counts_jobs: bool = False
    decays: bool = True
    factor: float = 1.0  # of what the jobs use

    def of(self, entry) -> int:
        """Return how much a job takes, as it was submitted, whatever a command makes of it."""
        return 1 if self.counts_jobs else entry.job.procs

    def asked(self, entry) -> int:
        """Return how much a job may use in all."""
        return self.of(entry) * (1 if self.kind == "at a time" else minutes(entry.job.requested))

    def may_start(self, entry) -> bool:
        """Whether a job could start on an empty machine before which nothing ran."""
        left = self.most > 0 or self.kind in ("planned", "at a time")
        return left and (self.kind == "spent" or self.asked(entry) <= self.most)


@dataclass(frozen=True)
class Caps:
    """The limits, and how usage counts; `follows`: it is followed at all, as with the multifactor priority."""

    caps: tuple[Cap, ...] = ()
    period: int = 0
    half_life: int = 0
    resets: tuple[int, ...] = ()
    follows: bool = True


NO_CAPS = Caps()


def minutes(seconds) -> int:
    """Return a job's limit in whole minutes."""
    return max(1, -(-seconds // 60))


def hold(site, entry) -> bool:
    """Whether some limit holds a job now."""
    rule = site.rule.limits
    return any(
        entry.user in cap.users and cap.may_start(entry) and is_beyond(site, rule, cap, entry) for cap in rule.caps
    )


def is_beyond(site, rule, cap, entry) -> bool:
    """Whether a job would exceed a limit now."""
    running = [e for e in site.running if e.user in cap.users]
    if cap.kind == "at a time":
        return sum(cap.of(e) for e in running) + cap.of(entry) > cap.most
    planned = sum(floor(cap.of(e) * cap.factor * to_come(site, rule, e)) for e in running) // 60
    used = floor(spent(site, rule, cap) / 60) if cap.kind != "planned" else 0
    if cap.factor == 0:
        planned = used = 0
    if cap.kind != "planned" and used >= cap.most:
        return True
    return cap.kind != "spent" and cap.asked(entry) + planned > cap.most - used


def to_come(site, rule, entry) -> int:
    """Return how long a running job may still run, as of the last tick."""
    tick = site.now - site.now % rule.period if rule.period else 0
    return max(0, entry.start + 60 * minutes(entry.requested) - max(entry.start, tick))


def spent(site, rule, cap) -> float:
    """Return what has been used as of the last tick, and by jobs that have ended since."""
    if not rule.follows:
        return 0.0
    period, total = rule.period, 0.0
    left = 1 - 0.693 / rule.half_life if rule.half_life and cap.decays else 1.0
    tick = site.now - site.now % period
    reset = max((-(-second // period) * period for second in rule.resets if second <= tick), default=-1)
    runs = [(e, start, end, False) for e, start, end in site.past] + [(e, e.start, tick, True) for e in site.running]
    for entry, start, end, runs_on in runs:
        if entry.user not in cap.users:
            continue
        begin = start
        while begin < end:
            piece_end = min(end, begin - begin % period + period)
            at_tick = piece_end < end or runs_on
            later = tick // period - (piece_end if at_tick else piece_end - 1) // period
            is_gone = piece_end < reset or (piece_end == reset and not at_tick)
            if not is_gone:
                seconds = piece_end - begin
                total += cap.of(entry) * cap.factor * seconds * left**seconds * left ** (period * later)
            begin = piece_end
    return total


def fall(site) -> bool:
    """Whether something is spent that a later tick makes less."""
    rule = site.rule.limits
    tick = site.now - site.now % rule.period
    resets = any(second > tick for second in rule.resets)
    return any(
        cap.kind in ("spent", "safe")
        and spent(site, rule, cap) >= 60
        and (resets or (rule.half_life > 0 and cap.decays))
        for cap in rule.caps
    )
