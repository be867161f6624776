"""Which waiting job comes first? The keys of the orders, one formula each; smaller first.

Carastan-Santos & de Camargo, SC'17, doi:10.1145/3126908.3126955 (F1-F4, and WFP3 and UNICEP as given there).
Keys that are not whole numbers are IEEE doubles computed in the order of the written formula, by multiplication,
division, square root and logarithm alone (a cube is q * q * q).
"""

from collections.abc import Callable
from math import log2, log10, sqrt


def _wfp3(n, p, r, wait, submit, age):
    share = wait / r
    return -(share * share * share * n)


# n processors; p estimate, r requested, wait, submit and age (submit after the first submission, >= 1) in seconds
ORDERS: dict[str, Callable[[int, int, int, int, int, int], float]] = {
    "fcfs": lambda n, p, r, wait, submit, age: submit,
    "sjf": lambda n, p, r, wait, submit, age: p,
    "ljf": lambda n, p, r, wait, submit, age: -p,
    "saf": lambda n, p, r, wait, submit, age: p * n,
    "laf": lambda n, p, r, wait, submit, age: -p * n,
    "wfp3": _wfp3,
    "unicep": lambda n, p, r, wait, submit, age: -(wait / (max(1.0, log2(n)) * r)),
    "widest": lambda n, p, r, wait, submit, age: -n,
    "f1": lambda n, p, r, wait, submit, age: log10(p) * n + 870 * log10(age),
    "f2": lambda n, p, r, wait, submit, age: sqrt(p) * n + 25_600 * log10(age),
    "f3": lambda n, p, r, wait, submit, age: p * n + 6_860_000 * log10(age),
    "f4": lambda n, p, r, wait, submit, age: p * sqrt(n) + 530_000 * log10(age),
    "own": lambda n, p, r, wait, submit, age: -n * (wait + 10),  # a user's function, see `tests.support.features`
}

TICK, FLOOR, CEILING = 15, 60.0, 720.0  # seconds; minutes


def growth(procs, requested, machine, weight):
    """Gain of Cobalt's score at a tick, for each squared second; minutes in the formula."""
    minutes = min(max(requested / 60, FLOOR), CEILING)
    return (procs / machine) * weight / (minutes * minutes * minutes * 3600)


MOVING = ("wfp3", "unicep", "own", "score", "priority")
"""Orders whose keys change while a job waits."""
