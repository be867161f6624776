"""A comparison in words: which case is better, by how much, on how many logs, and who pays."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from experiments.compare.measures import MEASURES
from experiments.compare.result import COST, LEAST, Choice, Comparison, Price, Ratio, WorseOff, of_each
from predictors.core.errors import counted
from schedsim.results.metrics import WORSE_BY_RATIO, WORSE_BY_SECONDS

MANIFOLD: Final = 3.0  # ratio from which on no one thinks in percent


def of(found: Comparison | Choice) -> str:
    """Return a comparison, or a choice among several cases, as a sentence.

    >>> from experiments.compare.result import LogResult
    >>> ratio = Ratio(0.8, 0.75, 0.9)
    >>> print(of(Comparison("sjbf", "easy", "mean_bounded_slowdown", ratio, (LogResult("kth", ratio, 10, "better"),),
    ...                          (Price("max_wait_s", Ratio(1.5, 1.2, 1.9), True),), "at others' cost")))
    sjbf has a lower mean bounded slowdown than easy, -20.0 % [-25.0, -10.0] over 10 samples of kth, but makes others
    wait: longest wait +50.0 % [+20.0, +90.0]. No winner is named.
    """
    if isinstance(found, Choice):
        return _choice(found)
    return _outcome(found) + ("" if found.worse_off is None else f" {users(found.worse_off)}")


def short(found: Comparison) -> str:
    """Return a comparison as one sentence without intervals, as a page begins.

    >>> ratio, longest = Ratio(0.8, 0.75, 0.9), Price("max_wait_s", Ratio(1.5, 1.2, 1.9), True)
    >>> short(Comparison("agent", "EASY", "mean_wait_s", ratio, (), (longest,), "at others' cost"))
    'No winner: agent instead of EASY lowers the mean wait by 20 %, but the longest wait grows by 50 %.'
    >>> short(Comparison("agent", "EASY", "mean_wait_s", ratio, (), (), "better"))
    'agent is better than EASY: it lowers the mean wait by 20 %, and no wait certainly grows by more than 5 %.'
    >>> short(Comparison("agent", "EASY", "mean_wait_s", Ratio(4.0, 2.0, 8.0), (), (), "worse"))
    'agent is worse than EASY: the mean wait grows to 4.0 times.'
    """
    measure = f"the {MEASURES[found.measure].title}"
    pair, lowered = f"{found.case} instead of {found.beside}", f"lowers {measure} {by_words(found.ratio.value)}"
    if found.outcome == COST:
        paid = listed([f"the {MEASURES[one.measure].title} grows {by_words(one.ratio.value)}" for one in found.paid])
        return f"No winner: {pair} {lowered}, but {paid}."
    if found.outcome == "better":
        free = f"no wait certainly grows by more than {allowed(found.tolerated)}"
        return f"{found.case} is better than {found.beside}: it {lowered}, and {free}."
    if found.outcome == "worse":
        return f"{found.case} is worse than {found.beside}: {measure} grows {by_words(found.ratio.value)}."
    return f"No winner between {found.case} and {found.beside}: the difference in {measure} is inside the noise."


def by_words(ratio: float) -> str:
    """Return by how much a figure falls or grows.

    >>> by_words(0.54), by_words(1.12), by_words(4)
    ('by 46 %', 'by 12 %', 'to 4.0 times')
    """
    return f"to {ratio:,.1f} times" if ratio >= MANIFOLD else f"by {100 * abs(ratio - 1):.0f} %"


def users(found: WorseOff) -> str:
    """Return how many users are worse off, as a sentence.

    >>> users(WorseOff(0.125, 0.1, 0.15))
    'Of the users 12 % [10, 15] wait longer in the mean, by more than 5 % and 10 min.'
    """
    ends = "" if found.low != found.low else f" [{100 * found.low:.0f}, {100 * found.high:.0f}]"
    return (
        f"Of the users {100 * found.share:.0f} %{ends} wait longer in the mean, by more than {allowed(WORSE_BY_RATIO)} "
        f"and {WORSE_BY_SECONDS / 60:.0f} min."
    )


def _outcome(found: Comparison) -> str:
    measure, change = MEASURES[found.measure].title, in_percent(found.ratio)
    if found.outcome == "open":
        why = "too little to tell" if _few(found) else "inside the noise"
        return f"No winner between {found.case} and {found.beside}: {measure} {change} {_where(found)}, {why}."
    if found.outcome == "worse":
        return f"{found.case} is worse than {found.beside}: {measure} {change} {_where(found)}."
    if found.outcome == "better":
        return f"{found.case} is better than {found.beside}: {measure} {change} {_where(found)}{_free(found)}."
    who = "makes others wait" if any(price.measure.endswith("wait_s") for price in found.paid) else "is paid for"
    return (
        f"{found.case} has a lower {measure} than {found.beside}, {change} {_where(found)}, but {who}: "
        f"{', '.join(_price(price, found.tolerated) for price in found.paid)}. No winner is named."
    )


def document(found: Comparison | Choice) -> dict[str, Any]:
    """Return a comparison or a choice as plain values, its sentence among them."""
    if isinstance(found, Choice):
        against = [document(one) for one in found.against]
        return {"case": found.case, "first": found.first, "against": against, "sentence": of(found)}
    return {**asdict(found), "sentence": of(found)}


def _choice(found: Choice) -> str:
    others = len(found.against)
    if found.case is not None:
        return f"{found.case} is better than {'the other' if others == 1 else f'each of the other {others}'} cases."
    lacking = "; ".join(_lacking(one) for one in found.against if one.outcome != "better")
    return f"No winner: {found.first} has the lowest figure, but is not certainly better without cost than {lacking}."


def in_percent(ratio: Ratio) -> str:
    """Return a ratio as a change with its interval; threefold and more as how many times.

    >>> in_percent(Ratio(0.8, 0.75, 0.9)), in_percent(Ratio(1.1, float("nan"), float("nan")))
    ('-20.0 % [-25.0, -10.0]', '+10.0 %')
    >>> in_percent(Ratio(30.27, 25.6, 37.6))
    '30.3 times [25.6, 37.6]'
    """
    if ratio.value >= MANIFOLD:
        ends = "" if ratio.low != ratio.low else f" [{ratio.low:,.1f}, {ratio.high:,.1f}]"
        return f"{ratio.value:,.1f} times{ends}"
    ends = "" if ratio.low != ratio.low else f" [{100 * (ratio.low - 1):+.1f}, {100 * (ratio.high - 1):+.1f}]"
    return f"{100 * (ratio.value - 1):+.1f} %{ends}"


def allowed(tolerated: float) -> str:
    """Return how much worse a figure may be before it is a price.

    >>> allowed(1.05), allowed(1.125), allowed(1.0)
    ('5 %', '12.5 %', '0 %')
    """
    return f"{100 * (tolerated - 1):.3g} %"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def together(level: float, several: int) -> str:
    """Return how sure the intervals of several comparisons are.

    >>> together(0.95, 1)
    'Intervals are of 95 %.'
    >>> together(0.95, 5)
    'The 5 intervals are so wide that all of them hold together in 95 % of cases (each of 99 %).'
    """
    if several < 2:
        return f"Intervals are of {100 * level:.3g} %."
    each = 100 * of_each(level, several)
    return (
        f"The {several} intervals are so wide that all of them hold together in {100 * level:.3g} % of cases (each of "
        f"{each:.3g} %)."
    )


def _price(price: Price, tolerated: float) -> str:
    where = f" (certainly on {', '.join(price.on)})" if price.on and not price.ratio.above(tolerated) else ""
    return f"{MEASURES[price.measure].title} {in_percent(price.ratio)}{where}"


def _free(found: Comparison) -> str:
    if not found.prices:
        return ""
    some = [f"{MEASURES[price.measure].title} is higher on {', '.join(price.on)}" for price in found.prices if price.on]
    return f"; no group certainly pays more than {allowed(found.tolerated)} over all" + (
        f", but {'; '.join(some)}" if some else ""
    )


def _lacking(found: Comparison) -> str:
    cost = ", ".join(MEASURES[price.measure].title for price in found.paid)
    return f"{found.beside} ({'at the cost of ' + cost if found.outcome == COST else 'inside the noise'})"


def _few(found: Comparison) -> bool:
    return len(found.logs) < LEAST and any(log.samples < LEAST for log in found.logs)


def _where(found: Comparison) -> str:
    if len(found.logs) == 1:
        return f"over {counted(found.logs[0].samples, 'sample')} of {found.logs[0].log}"
    worse = f", worse on {found.on('worse')}" if found.on("worse") else ""
    return f"(better on {found.on('better')} of {counted(len(found.logs), 'log')}{worse})"
