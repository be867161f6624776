"""A tuned agent as a report: verdict, ratios to EASY on the test part, training next to test, weights."""

from pathlib import Path
from typing import Final

import pandas as pd

from experiments.compare.measures import MEASURES
from experiments.compare.result import LEVEL
from experiments.compare.sentences import allowed, short, together
from experiments.reports.figures import Axes, Picture, paint_ratios
from experiments.reports.report import FirstScreen, Report
from experiments.site.tune.judge import AGENT, EASY, Judged, overfit, verdict
from experiments.site.tune.search import FIVE
from experiments.site.tune.tune import Tuned, Tuning
from predictors.core.errors import counted
from schedsim.kernels.agents.picks import FEATURES
from schedsim.policies.agents import Linear

QUESTION: Final = "Does an agent that was tuned on the first part of this log schedule its rest better, and who pays?"
BOTH: Final = "training and test"  # title of the table on the first screen
RULES: Final = {
    "kept": "the job picked that does not fit is reserved until it starts",
    "oldest": "the first job of the queue is reserved until it starts",
    "again": "the agent picks again at each instant, and no reservation lasts",
}


def report_on(tuning: Tuning, tuned: Tuned, judged: Judged, file: Path) -> Report:
    agent, log = tuned.agent, tuning.split.log
    ratios = ratios_of(judged)
    columns = [name for name in judged.found.runs if name not in ("log_sha256", "budget", "look_ahead", "seconds")]
    tables = {
        "test part, relative to EASY": wide(ratios),
        BOTH: _both_parts(tuned, judged),
    }
    if isinstance(agent.agent, Linear):
        tables["weights"] = pd.DataFrame({"feature": FEATURES, "weight": agent.agent.weights})
    if tuned.choices:
        tables["reservation rules"] = pd.DataFrame(
            [
                {"rule": name, "meaning": RULES[name], "objective": value, "taken": name == agent.reserve}
                for name, value in tuned.choices.items()
            ]
        )
    seeds = tuple(judged.found.about["seeds"])
    return Report(
        experiment="tune",
        log=log.name,
        seeds=seeds,
        tables=tables,
        data={"runs": judged.found.runs[columns]},
        pictures=(Picture("ratios", ratios, paint, 5.0, 4.0),),
        notes=_notes(tuning, len(judged.agent_beside), len(seeds)),
        first=FirstScreen(
            short(judged.agent_beside[EASY]), BOTH, "ratios", overfit(judged, tuned, tuning.objective) or ""
        ),
        verdict=tuple(verdict(judged, tuned, tuning.objective)),
        question=QUESTION,
        facts={
            "agent file": str(file), "digest of the agent": agent.digest,
            "reservation rule": f"{agent.reserve}: {RULES[agent.reserve]}", "window": counted(agent.window, "job"),
            "estimates": agent.estimates, "objective": tuning.objective.name, "tolerance": tuning.objective.tolerance,
            "jobs tuned on": len(tuning.split.first), "jobs tested on": len(tuning.split.rest),
            "processors": log.max_procs or 0, "generations": tuning.generations, "seed": tuning.seed,
            "SHA-256 of the log's values": log.digest(),
        },
    )  # fmt: skip


def ratios_of(judged: Judged) -> pd.DataFrame:
    """Return each case's figures on the test part relative to EASY's, a row a case and figure."""
    rows = []
    for case in judged.beside_easy:
        for name in FIVE:
            value, low, high = judged.ratio(case, name)
            rows.append({"case": case, "measure": MEASURES[name].title, "ratio": value, "low": low, "high": high})
    return pd.DataFrame(rows)


def wide(ratios: pd.DataFrame) -> pd.DataFrame:
    """Return ratios with a row a case and a column a figure, intervals in brackets.

    >>> wide(pd.DataFrame([{"case": "agent", "measure": "mean wait", "ratio": 0.5, "low": 0.45, "high": 0.6}]))
        case          mean wait
    0  agent  0.50 [0.45, 0.60]
    """
    text = [f"{row.ratio:,.2f} [{row.low:,.2f}, {row.high:,.2f}]" for row in ratios.itertuples()]
    table = ratios.assign(text=text).pivot(index="case", columns="measure", values="text")
    table = table.loc[list(dict.fromkeys(ratios["case"])), list(dict.fromkeys(ratios["measure"]))]
    return table.reset_index().rename_axis(columns=None)


def _both_parts(tuned: Tuned, judged: Judged) -> pd.DataFrame:
    rows = [
        {"": MEASURES[name].title, "training / EASY": tuned.train[name], "test / EASY": judged.ratio(AGENT, name)[0]}
        for name in FIVE
    ]
    return pd.DataFrame(rows)


def _notes(tuning: Tuning, several: int, seeds: int) -> tuple[str, ...]:
    return (
        "EASY and EASY-SJBF plan by the requested times, careful by its own "
        "estimates. Random in the same frame picks any job of the same window with equal chances, under the same "
        "reservation rule and estimates: what it gains is the frame's gain, not the agent's.",
        f"The test part begins on an idle machine, for all cases. Each case scheduled the same {seeds} shaken copies "
        "of it (submissions moved by up to 60 s, run times by up to 3 %); ratios are geometric means over them.",
        f"{together(LEVEL, several)} A figure other than the deciding one is a price where it is certainly above "
        f"EASY's by more than {allowed(1.05)}.",
        "The search met only the training part: each generation another shaken copy of it, arriving up to a tenth "
        "faster or slower. Of several rules one was chosen in it: by a shorter search on its first two thirds, judged "
        "there and on its last third.",
        "One split of one log shows what the agent would have done in these months, not in the next ones.",
    )


def paint(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the ratios as points with intervals, a group a figure."""
    paint_ratios(axes, table, "measure", "case")
    axes.set(title="Test part, relative to EASY\n(below 1 is better)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.06), ncols=2, fontsize=9)
