"""Slurm's lists of hosts, such as `n[01-03,7],gpu1`."""

import re
from collections.abc import Iterator, Sequence
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


def host_list(names: Sequence[str]) -> str:
    """Return names as one of Slurm's lists of hosts, which gives them in this order.

    >>> host_list(["n08", "n09", "n10", "gpu1", "n1", "n3"]), host_list(["r1c1", "r1c2"])
    ('n[08-10],gpu1,n[1,3]', 'r1c[1-2]')
    """
    parts: list[tuple[str, list[list[str]]]] = []  # what the names begin with, and ranges of the numbers behind it
    for name in names:
        begin, number = re.split(r"(?=\d{0,12}\Z)", name, maxsplit=1)
        if not number or not parts or parts[-1][0] != begin or not parts[-1][1]:
            parts.append((begin, [[number, number]] if number else []))
        elif number == str(int(parts[-1][1][-1][1]) + 1).zfill(len(parts[-1][1][-1][0])):
            parts[-1][1][-1][1] = number
        else:
            parts[-1][1].append([number, number])
    words = []
    for begin, ranges in parts:
        told = ",".join(first if first == last else f"{first}-{last}" for first, last in ranges)
        words.append(f"{begin}[{told}]" if re.search("[-,]", told) else f"{begin}{told}")
    return ",".join(words)


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
