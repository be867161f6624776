"""RUSH once more, slowly: EASY by requested times with the Start() of its Algorithm 2. Shares no code with the gate."""

from tests.oracle.easy import Rule, Site, simulate


def rush(jobs, procs, varies, threshold=10, recheck=60, everywhere=False):
    """Return the starts by row, and who was asked about when: (second, row).

    `varies` says of a row and a second whether the job would vary; `everywhere`: jobs are asked about at every pass.
    """
    calls, ticks = [], set()

    class Asking(Site):
        """A job that was skipped before is looked at again on news only: an end, or new counters."""

        def is_held(self, entry):
            """Skip a job, as Algorithm 2 does."""
            if entry.holds >= threshold:
                return False
            if not entry.holds or everywhere or self.something_ended or self.now in ticks:
                calls.append((self.now, entry.row))
                if not varies(entry.row, self.now):
                    return False
                entry.holds += 1
                tick = (self.now // recheck + 1) * recheck
                ticks.add(tick)
                self.timers.append((tick, None))
            self.refused.add(entry)
            return True

    return simulate(jobs, procs, Rule(depth=1), site_type=Asking).start, calls
