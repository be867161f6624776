"""Which ways to backfill are compared? The published ones, perfect knowledge, the default, and its parts."""

from typing import Final

from experiments.cases import Case
from predictors.similar_runs import SimilarRuns

EASY: Final = "EASY"
CLAIRVOYANT: Final = "clairvoyant EASY-SJBF"
CASES: Final = (
    Case(EASY, "easy"),
    Case(CLAIRVOYANT, "easy-sjbf", "clairvoyant"),
    Case("clairvoyant EASY", "easy", "clairvoyant", shaken=False),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("EASY++, incremental", "easy-sjbf", "tsafrir", "incremental"),
    Case("EASY++, doubling", "easy-sjbf", "tsafrir", "doubling", shaken=False),
    Case("EASY++ + promise", "easy-sjbf+promise", "tsafrir"),
    Case("clairvoyant + promise", "easy-sjbf+promise", "clairvoyant"),
    Case("default", "default", "default"),
    Case("default, no promise", "easy-sjbf", "default", shaken=False),
    Case("default, promise without slack", "easy-sjbf+promise", "default", shaken=False),
    Case("default, factor 0.7", "default", SimilarRuns(factor=0.7), shaken=False),
    Case("default, factor 1", "default", SimilarRuns(factor=1.0), shaken=False),
    Case("bold", "default", "bold"),
    Case("bold, no promise", "easy-sjbf", "bold", shaken=False),
    Case("last-two", "easy-sjbf", "last-two", shaken=False),
    Case("user-mean", "easy-sjbf", "user-mean", shaken=False),
)
"""The published ways, perfect knowledge, the default and what it is made of.

`jobcast experiment runtime` has every predictor by correction and promise, unshaken: some take minutes a schedule.
"""
QUICK: Final = (EASY, CLAIRVOYANT, "EASY-SJBF", "EASY++", "default", "bold")
