"""The table of closed loops on a real Slurm, from what `bench_closed_loop` wrote.

    python -m tests.bench.closed_loop_table FILE…

Runs with submissions that were late by more than five minutes of the cluster (95th percentile) are left out, and named.
"""

import json
import sys
from pathlib import Path

import numpy as np

from experiments.studies.closed_loop import CASES, REQUEST
from tests.bench.bench_closed_loop import is_late

WHO = ("real", "easy", "conservative-replan")
FIGURES = {"mean wait": "mean_wait_s", "wide jobs": "wide_s", "by area": "area_weighted_mean_wait_s"}


def cell(rows, rule, seed):
    """Return the runs of a rule and workload."""
    return [row for row in rows if (row["rule"], row["seed"]) == (rule, seed)]


def each(rows, rules, seeds):
    """Yield a line of the table for each rule and workload."""
    for rule in rules:
        for seed in seeds:
            own, before, parts = cell(rows, rule, seed), cell(rows, REQUEST, seed), []
            for figure in ("mean_wait_s", "wide_s"):
                for who in WHO:
                    waits = [row[who][figure] / 60 for row in own]
                    part = f"{np.median(waits):.0f}"
                    part += f" [{min(waits):.0f}, {max(waits):.0f}]" if who == "real" else ""
                    base = np.median([row[who][figure] / 60 for row in before])
                    parts.append(part + ("" if rule == REQUEST else f" ({100 * (np.median(waits) / base - 1):+.0f})"))
            short = 100 * np.median([row["soft_too_short"] for row in own])
            yield f"| {rule} | {seed} | {len(own)} | {' | '.join(parts)} | {short:.0f} |"


def change(rows, rule, seeds, who, figure, random=None):
    """Return the geometric mean over workloads of the ratio of means to the limits as asked, less 1 [%]."""
    logs = []
    for seed in seeds:
        own, base = ([row[who][figure] for row in cell(rows, one, seed)] for one in (rule, REQUEST))
        if random is not None:
            own, base = random.choice(own, len(own)), random.choice(base, len(base))
        logs.append(np.log(np.mean(own) / np.mean(base)))
    return 100 * (np.exp(np.mean(logs)) - 1)


def total(rows, rules, seeds):
    """Yield a line for each rule and figure, over the workloads."""
    for title, figure in FIGURES.items():
        for rule in rules[1:]:
            parts = []
            for who in WHO:
                random = np.random.default_rng(0)
                drawn = [change(rows, rule, random.choice(seeds, len(seeds)), who, figure, random) for _ in range(1000)]
                low, high = np.percentile(drawn, [2.5, 97.5])
                parts.append(f"{change(rows, rule, seeds, who, figure):+.0f} ({low:+.0f}…{high:+.0f})")
            yield f"| {title} | {rule} | {' | '.join(parts)} |"


def main():
    """Print both tables, and how far simulated waits lie from real ones."""
    lines = [line for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    rows, say = [], sys.stdout.write
    for row in map(json.loads, lines):
        if is_late(row):
            say(f"left out: {row['rule']}, workload {row['seed']}, late by {row['late_s'][1]:.0f} s\n")
        else:
            rows.append(row)
    seeds = sorted({row["seed"] for row in rows})
    rules = [case.name for case in CASES if all(cell(rows, case.name, seed) for seed in seeds)]
    if REQUEST not in rules:
        sys.exit(f"every workload needs a run of the rule {REQUEST}: the others are told beside it")
    heads = " | ".join(f"{figure}: {who}" for figure in ("mean wait", "wide") for who in ("Slurm", *WHO[1:]))
    say(f"| rule | workload | runs | {heads} | too short [%] |\n|{'---|' * 10}\n")
    say("\n".join(each(rows, rules, seeds)))
    say(f"\n\n| figure | rule | Slurm | EASY | conservative-replan |\n|{'---|' * 5}\n")
    say("\n".join(total(rows, rules, seeds)) + "\n\n")
    for title, figure in FIGURES.items():
        for who in WHO[1:]:
            off = 100 * np.array([row[who][figure] / row["real"][figure] - 1 for row in rows])
            say(f"{title}, {who}: off by {np.abs(off).mean():.0f} % ({off.min():+.0f} to {off.max():+.0f})\n")


if __name__ == "__main__":
    main()
