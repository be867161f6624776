"""Figure 3 of the paper on RUSH, and how F1 falls with the inputs: drawn from a selection."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.reports.figures import COLOURS, MARKERS, Axes, bar_lengths, draw, write_table
from predictors.variability.features import SCOPES
from predictors.variability.selection.compare import NEVER, ORACLE, PAPER_F1

if TYPE_CHECKING:
    import pandas as pd

    from predictors.variability.selection.select import Selection


def draw_selection(folder: Path, found: "Selection") -> list[Path]:
    """Draw what a selection found and write its tables; return the files written."""
    summary = found.comparison.summary()
    files = [
        *draw(folder, "figure3_f1", of_figure_3(summary), paint_f1),
        write_table(summary, folder / "models.csv"),
        write_table(found.comparison.folds(), folder / "folds.csv"),
        write_table(found.three, folder / "three_classes.csv"),
    ]
    if found.elimination is not None:
        files += draw(folder, "elimination", found.elimination.table(), paint_elimination)
    return files


def of_figure_3(summary: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of the summary that Figure 3 shows: one application left out."""
    columns = ["scope", "model", "f1", "f1_low", "f1_high", "f1_paper", "pr_auc", "base_rate"]
    return summary.loc[summary["split"] == "applications", columns].reset_index(drop=True)


def paint_f1(axes: Axes, table: "pd.DataFrame") -> None:
    """Draw a bar a model and node scope, intervals on it, the paper's best as a line, the base rates below."""
    models = [name for name in dict.fromkeys(table["model"]) if name != NEVER]
    scopes = list(dict.fromkeys(table["scope"]))
    width = 0.8 / len(scopes)
    for k, scope in enumerate(scopes):
        own = table[table["scope"] == scope].set_index("model").reindex(models)
        place = np.arange(len(models)) + (k - (len(scopes) - 1) / 2) * width
        error = bar_lengths(own, "f1", "f1_low", "f1_high")
        axes.bar(place, own["f1"], width * 0.95, yerr=error, capsize=3, label=f"counters of {SCOPES[scope]}",
                 color=COLOURS[k], hatch=("", "//")[k % 2], edgecolor="white")  # fmt: skip
    best = max(PAPER_F1.values())
    axes.axhline(best, color=COLOURS[7], linestyle="--", linewidth=1)
    axes.annotate(f"the paper's AdaBoost, {best}", (len(models) - 0.4, best), ha="right", va="bottom", fontsize=9)
    base = float(table["base_rate"].mean())
    axes.axhline(base, color=COLOURS[6], linestyle=":", linewidth=1)
    axes.annotate(f"base rate {base:.2f}", (-0.55, base), va="bottom", fontsize=9,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    names = [
        f"{name}\n(true loads)" if name == ORACLE else name.replace("-", " ").replace(" ", "\n") for name in models
    ]
    axes.set_xticks(np.arange(len(models)), names)
    axes.set_xlim(-0.6, len(models) - 0.1)
    axes.set(
        title="F1 with one application left out (95 % intervals); always saying none has 0",
        ylabel="mean F1",
        ylim=(0, 1.05),
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)


def paint_elimination(axes: Axes, table: "pd.DataFrame") -> None:
    """Draw F1 over the number of inputs, ranked within each fold and on all runs."""
    for k, (column, label) in enumerate(
        (("f1_ranked_in_fold", "inputs ranked within each fold"), ("f1_optimistic", "ranked on all runs (optimistic)"))
    ):
        axes.plot(table["n_inputs"], table[column], marker=MARKERS[k], color=COLOURS[k], linestyle=("-", "--")[k],
                  label=label)  # fmt: skip
    axes.set_xscale("log")
    ticks = table["n_inputs"].tolist()
    axes.set_xticks(ticks, [str(n) for n in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set(title="Recursive elimination of inputs", xlabel="inputs kept", ylabel="mean F1, one application left out")
    axes.set_ylim(bottom=0)
    axes.legend()
