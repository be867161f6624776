"""Estimates from similar runs, by the definition in docs/backfilling.md: computed again whenever they are asked for."""

from dataclasses import dataclass, field
from math import exp, floor, inf, log

from predictors.core.events import ENDED, STARTED, SUBMITTED

UP = 1 + 1e-12


@dataclass
class SimilarRuns:
    """A source of revised estimates on the oracle's jobs; `about` has the free numbers."""

    jobs: list
    about: object
    waiting: list = field(default_factory=list)
    ended: list = field(default_factory=list)  # in the order of the ends

    @property
    def n_steps(self):
        """At most one for each run of the sample."""
        return self.about.runs

    def advance(self, events, answers):
        """Take in what happened, and answer on every waiting job."""
        rows = {what: [row for _, kind, row in events.tolist() if kind == what] for what in (SUBMITTED, STARTED, ENDED)}
        self.waiting = [row for row in self.waiting + rows[SUBMITTED] if row not in rows[STARTED]]
        self.ended += [self.jobs[row] for row in rows[ENDED]]
        for place, row in enumerate(self.waiting):
            answers[place] = (row, *self.answer(self.jobs[row]))
        return len(self.waiting)

    def sample(self, job):
        """Return [(seconds, weight)], ascending."""
        own = [other for other in self.ended if other.user == job.user >= 0]
        same = [other.run_time for other in own if other.requested == job.requested][-self.about.runs :]
        scaled = [max(1, other.run_time * job.requested // other.requested) for other in own][-self.about.runs :]
        values = sorted(min(seconds, job.requested) for seconds in same or scaled)
        weight = self.about.request_weight if values else 1.0
        return [(seconds, 1.0) for seconds in values] + [(job.requested, weight)]

    def answer(self, job):
        """Return the running estimate, the candidate one, that of the order, and the steps."""
        sample = self.sample(job)
        total = sum(w for _, w in sample)
        low = exp(sum(w * log(v) for v, w in sample) / total)
        chosen = sum(w * v for v, w in sample) / total if self.about.candidate == "mean" else low
        whole = [max(1, min(floor(seconds * UP), job.requested)) for seconds in (self.about.factor * chosen, low)]
        passed = sorted({v for v, _ in sample if v < job.requested})
        steps = [number for v in passed for number in (v, self.beyond(v, sample))]
        return self.beyond(0, sample), *whole, *steps, *[inf, 1.0] * (self.n_steps - len(passed))

    def beyond(self, elapsed, sample):
        """Return the weighted quantile of what is longer than the elapsed time [s]."""
        left = [(v, w) for v, w in sample if v > elapsed]
        need = self.about.quantile * sum(w for _, w in left) - 1e-9
        return next(v for place, (v, _) in enumerate(left, 1) if sum(w for _, w in left[:place]) >= need)
