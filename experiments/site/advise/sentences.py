"""Advice in plain words: what to do, what it gains, who would wait longer, what a predictor adds; none by chance."""

from collections.abc import Iterator, Sequence
from typing import Final

from experiments.compare.compare import WAIT
from experiments.compare.measures import MEASURES
from experiments.compare.result import COST, TOLERATED, Comparison, Price
from experiments.compare.sentences import MANIFOLD, allowed, by_words, in_percent, listed, short
from experiments.compare.sentences import users as users_worse_off
from experiments.site.advise.advice import CLASSES, FEWEST, UNTESTED, Advice, Change, Option
from predictors.core.errors import counted
from predictors.data.summary import Lack
from schedsim.results.metrics import RUN_TIME_CLASSES

FIRST: Final = 2  # how many classes are named, and users; the tables have them all
FREE: Final = f"no figure of the waits is certainly more than {allowed(TOLERATED)} worse"
"""The second condition on a winner; the notes of the page say which figures."""
RUN_TIMES: Final = dict(  # classes of run time in a sentence
    zip(
        RUN_TIME_CLASSES,
        ("under 1 min", "1 to 10 min", "10 min to 1 h", "1 to 4 h", "4 to 12 h", "12 to 24 h", "24 h or longer"),
        strict=True,
    )
)


def verdict(advice: Advice) -> list[str]:
    """Return the advice, a sentence each: what to do, what becomes of all jobs, what predictors add."""
    if advice.forbidden:
        cautions = (lack.sentence() for lack in advice.lacks if not lack.forbids_verdict)
        return [refusal(advice), *cautions]
    lines = [f"{option.case} instead of {advice.current}: {_effect(option.comparison)}." for option in advice.options]
    return [sentence(advice), *lines, *_predictors(advice)]


def sentence(advice: Advice) -> str:
    """Return what to do, or in short why the log carries no verdict."""
    if advice.forbidden:
        return f"{_no_verdict(advice)} {_reasons(advice)[0].text.partition('. ')[0].rstrip('.')}."
    lead, current = advice.lead, advice.current
    measure = MEASURES[lead.comparison.measure].title
    better = [option.case for option in advice.options if option.comparison.outcome == "better"]
    by_lead = by_words(lead.comparison.ratio.value)
    if advice.choice.case == current:
        return f"Keep {current}: each other way tried has a certainly higher {measure}."
    if advice.choice.case is not None:
        return f"Change from {current} to {lead.case}: the {measure} falls {by_lead}, and {FREE}."
    if better:
        which = f", {lead.case} {by_lead}" if len(better) > 1 else f", {by_lead}"
        return f"{listed(better)} instead of {current} would certainly lower the {measure} without certain cost{which}."
    if lead.comparison.outcome == COST:
        return short(lead.comparison)
    return f"No reason to leave {current}: of the ways tried none has a certainly lower {measure}."


def remedy(advice: Advice) -> str:
    """Return what would make a verdict possible, where there is none; else nothing."""
    return _reasons(advice)[0].remedy if advice.forbidden else ""


def _no_verdict(advice: Advice) -> str:
    return "Nothing could be tested:" if advice.untested else "No verdict:"


def _reasons(advice: Advice) -> list[Lack]:
    """Return why there is no verdict, what tests nothing first."""
    return sorted(advice.forbidden, key=lambda lack: lack.name not in UNTESTED)


def refusal(advice: Advice) -> str:
    """Return that the log carries no verdict, and why."""
    reasons = " ".join(f"{lack.text[0].upper()}{lack.text[1:]} {lack.remedy}" for lack in _reasons(advice))
    carries = "" if advice.untested else " this log carries none."
    return f"{_no_verdict(advice)}{carries} {reasons} So no way is recommended or compared."


def who(option: Option, current: str) -> str:
    """Return who would wait longer, and who less, under one way: the classes that change most, and how many users."""
    return f"Under {option.case} instead of {current}: {_who(option)}"


def _effect(comparison: Comparison) -> str:
    """Return what becomes of the figure that decides, and of the waits: gained, paid, or perhaps paid."""
    noise = ", inside the noise" if comparison.outcome == "open" else ""
    gained = [price for price in comparison.prices if price.measure == WAIT and price.ratio.below]
    perhaps = [
        price
        for price in comparison.prices
        if not price.paid and price.ratio.value > 1 and price.ratio.high > comparison.tolerated
    ]
    also = "but" if comparison.outcome == COST else "and"
    return (
        f"{MEASURES[comparison.measure].title} {in_percent(comparison.ratio)}{noise}"
        + (f", {_prices(gained)}" if gained else "")
        + (f", {also} {_prices(comparison.paid)}" if comparison.paid else "")
        + (f"; perhaps more than {allowed(comparison.tolerated)} worse: {_prices(perhaps)}" if perhaps else "")
    )


def _prices(found: Sequence[Price]) -> str:
    return listed([f"{MEASURES[price.measure].title} {in_percent(price.ratio)}" for price in found])


def _who(option: Option) -> str:
    if not any(option.compared(kind) for kind in CLASSES):
        return f"too few jobs to tell who would wait longer; {FEWEST} of a class are needed."
    worse, better = option.who("worse", *CLASSES), option.who("better", *CLASSES)
    sentences = [
        f"Longer waits for {_several(worse, 'class')}." if worse else "No class of jobs would certainly wait longer."
    ]
    if better:
        sentences.append(f"Shorter waits for {_several(better, 'class')}.")
    users = option.compared("user")
    if users:
        lost, won = option.who("worse", "user"), len(option.who("better", "user"))
        named = f": {_several(lost, 'user')}" if lost else ""
        sentences.append(
            f"Of {counted(users, 'user')} with {FEWEST} jobs or more {won:,} would certainly wait less and "
            f"{len(lost):,} longer{named}."
        )
    if option.comparison.worse_off is not None:
        sentences.append(users_worse_off(option.comparison.worse_off))
    return " ".join(sentences)


def _several(found: Sequence[Change], kind: str) -> str:
    """Return the first few, with what becomes of their mean wait, and how many more there are."""
    named = [
        f"{_name(change)} ({by(change.ratio.value)}, {span(change.before_s)} to {span(change.after_s)})"
        for change in found[:FIRST]
    ]
    more = len(found) - FIRST
    plural = {"class": "classes", "user": "users"}[kind]
    return listed([*named, f"{more} more {kind if more == 1 else plural}"] if more > 0 else named)


def by(ratio: float) -> str:
    """Return a change in few words.

    >>> by(0.4), by(1.001), by(8.73), by(99.2)
    ('-60 %', '0 %', '8.7 times', '99 times')
    """
    if ratio >= MANIFOLD:
        return f"{ratio:.1f} times" if ratio < 10 else f"{ratio:,.0f} times"
    change = round(100 * (ratio - 1))
    return f"{change:+d} %" if change else "0 %"


def processors(size: str) -> str:
    return f"{size} processor{'' if size == '1' else 's'}"


def _name(change: Change) -> str:
    if change.by == "user":
        return f"user {change.group}"
    if change.by == "size":
        return f"jobs of {processors(change.group)}"
    return f"jobs that run {RUN_TIMES[change.group]}"


def _predictors(advice: Advice) -> Iterator[str]:
    for comparison in advice.adds:
        case, beside = comparison.case, comparison.beside
        yield f"What the prediction alone adds, {case} instead of {beside}: {_effect(comparison)}."
    if advice.most is not None:
        yield (
            f"For comparison, {advice.most.case} in advance, instead of {advice.current}: {_effect(advice.most)}. That "
            "is what perfect predictions would bring to that policy."
        )


def span(seconds: float) -> str:
    """Return a wait in words.

    >>> span(42.3), span(600), span(9000), span(300_000)
    ('42 s', '10 min', '2.5 h', '3.5 days')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86400:.1f} days"


def in_words(measure: str, value: float) -> str:
    """Return a figure as a director reads it.

    >>> in_words("mean_wait_s", 9000.0), in_words("mean_bounded_slowdown", 76.04)
    ('2.5 h', '76')
    """
    return span(value) if MEASURES[measure].unit == "s" else f"{value:,.3g}" if value < 999.5 else f"{value:,.0f}"
