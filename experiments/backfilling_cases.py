"""Which ways to backfill are compared? The published ones, the default and its parts, and each predictor by option."""

from dataclasses import dataclass
from typing import Final

from predictors.similar_runs import SimilarRuns


@dataclass(frozen=True)
class Case:
    """A way to schedule: names as of `jobcast simulate`, or the rule of an outlook that has no name."""

    name: str
    policy: str
    estimates: str | SimilarRuns = "requested"
    correction: str = "requested"


EASY: Final = "EASY"
CLAIRVOYANT: Final = "clairvoyant EASY-SJBF"
CASES: Final = (
    Case(EASY, "easy"),
    Case(CLAIRVOYANT, "easy-sjbf", "clairvoyant"),
    Case("clairvoyant EASY", "easy", "clairvoyant"),
    Case("EASY-SJBF", "easy-sjbf"),
    Case("EASY++", "easy-sjbf", "tsafrir"),
    Case("EASY++, incremental", "easy-sjbf", "tsafrir", "incremental"),
    Case("EASY++, doubling", "easy-sjbf", "tsafrir", "doubling"),
    Case("EASY++ + promise", "easy-sjbf+promise", "tsafrir"),
    Case("clairvoyant + promise", "easy-sjbf+promise", "clairvoyant"),
    Case("default", "default", "default"),
    Case("default, no promise", "easy-sjbf", "default"),
    Case("default, promise without slack", "easy-sjbf+promise", "default"),
    Case("default, factor 0.7", "default", SimilarRuns(factor=0.7)),
    Case("default, factor 1", "default", SimilarRuns(factor=1.0)),
    Case("bold", "default", "bold"),
    Case("bold, no promise", "easy-sjbf", "bold"),
    *(
        Case(f"{name}{told}", policy, name, correction)
        for name in ("last-two", "user-mean", "similar", "similar-mean", "similar-low", "online-linear", "gaussier")
        for told, policy, correction in (
            ("", "easy-sjbf", "requested"),
            (", incremental", "easy-sjbf", "incremental"),
            (", promise with slack", "default", "requested"),
        )
    ),
)
"""The published ways, the default and what it is made of, and each predictor that needs no refits, by option.

Those that are fitted again and again take minutes a schedule: `jobcast experiment runtime` has them, unshaken.
"""
QUICK: Final = (EASY, CLAIRVOYANT, "EASY-SJBF", "EASY++", "default", "bold")
