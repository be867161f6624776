"""The oracle with estimates that are revised while jobs wait, and with estimate steps.

The source of estimates itself is a client of the engine's protocol (`schedsim.workload.estimates.RevisedEstimates`);
what is written twice is what the scheduler does with its answers. Readings: it is asked after the ends and submissions
of an instant, if anything was submitted, or if anything ended while jobs waited. A step is taken at the first instant
that is not before it, before expired estimates are corrected. Corrections know the estimate at the start as the first
one.
"""

from math import floor, isinf

import numpy as np

from predictors.core.events import ENDED, STARTED, SUBMITTED
from tests.oracle.site import Site


def site_with(revised):
    """Return a kind of site whose estimates come from revised estimates."""

    class RevisedSite(Site):
        def instant(self, ending, arriving):
            ending, waited = list(ending), bool(self.queue)
            self.news = getattr(self, "news", [])
            for entry in ending:
                self.ended(entry)
            newcomers = list(arriving)
            self.news += [(self.now, SUBMITTED, entry.row) for entry in newcomers]
            if newcomers or (ending and waited):
                self.ask({entry.row: entry for entry in (*self.queue, *newcomers)})
            self.queue = []
            for entry in sorted(self.known, key=lambda entry: (entry.submit, entry.job_id)):
                if entry.start < 0:
                    self.submitted(entry)
            self.something_ended = bool(ending)
            for entry in self.running:
                while entry.ladder and entry.start + entry.ladder[0][0] <= self.now:
                    entry.running, entry.overdue = entry.ladder.pop(0)[1], False
            self.correct_expired()
            self.one_pass()

        def ask(self, waiting):
            """Take in what the revised estimates say of newcomers and, where it has changed its mind, of others."""
            answers = np.full((len(waiting) + 1, 4 + 2 * revised.n_steps), np.nan)
            count = revised.advance(np.array(self.news, dtype=np.int64).reshape(-1, 3), answers)
            self.news = []
            self.known = getattr(self, "known", [])
            for answer in answers[:count].tolist():
                entry = waiting[int(answer[0])]
                most = entry.requested

                def cut(seconds, most=most):
                    return max(1, min(floor(seconds), most))

                entry.first = entry.running = cut(answer[1])
                entry.candidate, entry.ordering = cut(answer[2]), cut(answer[3])
                pairs = zip(answer[4::2], answer[5::2], strict=True)
                entry.ladder = []
                for elapsed, seconds in pairs:
                    if isinf(elapsed):
                        break
                    entry.ladder.append((elapsed, cut(seconds)))
                if entry not in self.known:
                    self.known.append(entry)

        def start(self, entry, past=None):
            self.news.append((self.now, STARTED, entry.row))
            super().start(entry, past)

        def ended(self, entry):
            self.news.append((self.now, ENDED, entry.row))
            super().ended(entry)

    return RevisedSite
