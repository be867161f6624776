"""Slurm's lists of hosts, such as `n[01-03,7],gpu1`."""

import re
from collections.abc import Iterator
from itertools import product
from math import prod


def hostnames(text: str) -> list[str]:
    """Return the names in one of Slurm's lists of hosts.

    >>> hostnames("n[01-03,7],gpu1,r[1-2]c[1-2]")
    ['n01', 'n02', 'n03', 'n7', 'gpu1', 'r1c1', 'r1c2', 'r2c1', 'r2c2']
    """
    return [name for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text) for name in _expanded(part)]


def host_count(text: str) -> int:
    """Return how many names one of Slurm's lists of hosts has, without making them.

    >>> host_count("n[01-03,7],gpu1,r[1-2]c[1-2]"), host_count("n[1-3000000000]"), host_count("n[5-1]")
    (9, 3000000000, 0)
    """

    def counted(word: str) -> int:
        found = re.fullmatch(r"(\d{1,12})-(\d{1,12})", word)
        return 1 if found is None else max(0, int(found[2]) + 1 - int(found[1]))

    parts = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)
    ranges = (re.findall(r"\[([^\]]*)\]", part) for part in parts)
    return sum(prod(sum(map(counted, one.split(","))) for one in of_part) for of_part in ranges)


def _expanded(part: str) -> Iterator[str]:
    pieces = [
        [piece] if not piece.startswith("[") else [one for word in piece[1:-1].split(",") for one in _counted(word)]
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", part)
    ]
    return ("".join(chosen) for chosen in product(*pieces))


def _counted(word: str) -> list[str]:
    found = re.fullmatch(r"(\d+)-(\d+)", word)
    if found is None:
        return [word]
    return [str(number).zfill(len(found[1])) for number in range(int(found[1]), int(found[2]) + 1)]
