"""Tuning of linear agents on a site's own log: objective, search, test on the rest."""
