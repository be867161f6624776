"""`jobcast demo`: the whole story on a seeded synthetic log, by the same commands that a user would type."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import pandas as pd
import typer

from experiments.cli import evaluate as cli_evaluate
from experiments.cli import log as cli_log
from experiments.cli.options import demo as options
from experiments.cli.options import evaluate as evaluate_options
from experiments.cli.options import log as log_options
from experiments.compare.measures import MEASURES
from experiments.console import print_table, say, working
from experiments.reports.figures import COLOURS, HATCHES, Axes, Picture, report_folder
from experiments.reports.page import PAGE, write_report
from experiments.reports.report import Report
from experiments.runs.simulate import run_by_name
from predictors.data.cleaning import clean
from predictors.data.formats.detect import read_log

RUNS: Final = (  # what the demo simulates: label, policy, estimates
    ("EASY, requested times", "easy", "requested"),
    ("EASY-SJBF, requested times", "easy-sjbf", "requested"),
    ("EASY-SJBF, user's last two (EASY++)", "easy-sjbf", "tsafrir"),
    ("EASY-SJBF, random forest", "easy-sjbf", "forest"),
    ("careful, nothing to train", "careful", "careful"),
    ("balanced, nothing to train", "balanced", "balanced"),
    ("EASY-SJBF, true run times", "easy-sjbf", "clairvoyant"),
)

QUESTION: Final = "What would a scheduler gain from predicted run times, and who would pay?"
NOTES: Final = (
    "Figures are relative to EASY on requested times: below 1 is better.",
    "One log, made up, not shaken: it shows what jobcast does, not what your machine would gain. "
    "For that: jobcast advise YOUR_LOG.",
)

FIGURES: Final = ("mean_wait_s", "mean_bounded_slowdown", "p99_wait_s", "widest5_mean_wait_s")
TITLES: Final = tuple(MEASURES[name].title for name in FIGURES)


def demo(args: options.Demo) -> None:
    begin = perf_counter()
    folder = report_folder(args.out, "demo")
    log = folder / "log.swf.gz"

    _step(1, "A job log", f"jobcast log generate {log} --jobs {args.jobs} --seed {args.seed}")
    cli_log.generate(log_options.Generate(out=log, jobs=args.jobs, seed=args.seed))
    _step(2, "Does a learned prediction beat the user's last two jobs?", f"jobcast evaluate {log} --seed {args.seed}")
    cli_evaluate.evaluate(evaluate_options.Evaluate(log=log, seed=args.seed))
    _step(3, "Keep the forest", f"jobcast train {log} --predictor forest --register runtime --alias champion")
    cli_evaluate.train(
        evaluate_options.Train(logs=[log], predictor="forest", register="runtime", alias="champion", seed=args.seed)
    )
    _step(
        4,
        "What would the scheduler gain?",
        f"jobcast simulate {log} --policy easy-sjbf --estimates forest  # and so on",
    )
    table = _simulate(log)
    print_table(
        "Relative to EASY on requested times: below 1 is better",
        ("", *TITLES),
        table.itertuples(index=False),
        note="Predicted at submission, learnt as jobs end. Averages hide who pays: see the last columns.",
    )
    report = Report(
        experiment="demo", log="a synthetic log", seeds=(args.seed,), tables={"relative to EASY": table},
        pictures=(Picture("gain", table, paint),), figures=(log,), notes=NOTES, verdict=tuple(sentences(table)),
        question=QUESTION, facts={"jobs in the log": args.jobs},
    )  # fmt: skip
    report = write_report(folder, report, begin)
    names = ", ".join(path.name for path in report.figures)
    say(f"\nWrote {names} to {folder} in {report.seconds:.0f} s; read {folder / PAGE}.")
    say("Next: jobcast advise YOUR_LOG, where YOUR_LOG is a job log of your own centre.")


def sentences(table: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence a schedule: what it changes, and who pays, compared with EASY."""
    for row in table.iloc[1:].to_dict(orient="records"):
        ratios = [f"{title} x {row[title]:.2f}" for title in TITLES]
        worse = [title for title in TITLES if row[title] > 1.0]
        paid = f" Worse than EASY: {', '.join(worse)}." if worse else ""
        yield f"{row['schedule']}: {', '.join(ratios)}.{paid}"


def _step(number: int, title: str, command: str) -> None:
    typer.secho(f"\n{number}. {title}", bold=True)
    typer.echo(f"   $ {command}\n")


def _simulate(log: Path) -> pd.DataFrame:
    """Return the figures of each run relative to the first run's."""
    jobs, _ = read_log(log)
    cleaned, _ = clean(jobs)
    runs = {}
    for label, policy, estimates in RUNS:
        with working(f"Simulating {label}"):
            runs[label] = run_by_name(cleaned, policy, estimates)[1]
    table = pd.DataFrame(runs).T[list(FIGURES)].astype(float)
    table = (table / table.iloc[0]).set_axis(TITLES, axis="columns")
    return table.rename_axis("schedule").reset_index()


def paint(axes: Axes, table: pd.DataFrame) -> None:
    """Draw who gains and who pays, relative to EASY."""
    place, height = np.arange(len(TITLES)), 0.8 / (len(table) - 1)
    for number, row in enumerate(table.iloc[1:].itertuples(index=False)):
        offset = (number - (len(table) - 2) / 2) * height
        axes.barh(place + offset, row[1:], height, label=row[0], color=COLOURS[number], hatch=HATCHES[number],
                  edgecolor="white")  # fmt: skip
    axes.axvline(1, color="black", linewidth=1)
    right = max(1.3, axes.get_xlim()[1])
    axes.axvspan(1, right, color=COLOURS[5], alpha=0.08, linewidth=0, zorder=0)
    axes.set_xlim(0, right)
    for x, side, text in ((0.985, "right", "gain"), (1.015, "left", "somebody pays")):
        axes.text(x, -0.5, text, ha=side, va="center", style="italic", fontsize=9)
    axes.set_yticks(place, TITLES)
    axes.invert_yaxis()
    axes.set(title="Who gains and who pays, against EASY on requested times", xlabel="relative to EASY (1 = the same)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=2, fontsize=9)
