"""A figure on disk is three files: PNG, SVG and the CSV that it was drawn from."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from predictors.core.errors import JobcastError, missing
from predictors.core.files import refuse_unwritable, whole_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure

    from predictors.core.arrays import Floats
else:
    Axes = Any  # matplotlib is loaded where something is drawn

Paint = Callable[[Axes, "pd.DataFrame"], None]  # draws a table on axes, and sets title, labels with units, and legend

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
"""Okabe and Ito's palette: distinct without full colour vision; markers and dashes are distinct without any."""

MARKERS = "osD^vPX*"

HATCHES = ("", "//", "..", "xx", "\\\\", "--")  # of bars side by side, drawn in white upon the colours

LONGEST_NAME = 60
LONGEST_TITLE = 100  # letters of a line: next to an axis or in a legend, and above a picture

_STYLE: dict[Any, Any] = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.titlesize": 11, "font.size": 10,
    "grid.alpha": 0.25, "hatch.linewidth": 0.8, "legend.frameon": False,
}  # fmt: skip


def report_folder(out: Path, name: str) -> Path:
    """Return the folder `out/name`, made where it is missing."""
    folder = out / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobcastError(f"{folder}: cannot be made ({error.strerror}); choose another folder.") from error
    return folder


def refuse_report_folder(out: Path, name: str) -> None:
    """Refuse a folder `out/name` that could not be made in the end; what is made to try it is taken away."""
    folder = out / name
    refuse_unwritable(folder, is_folder=True)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        report_folder(out, name)
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


def write_table(table: "pd.DataFrame", path: Path) -> Path:
    """Write `table` as CSV, whole or not at all, and return the path."""
    with whole_file(path) as part:
        table.to_csv(part, index=False, lineterminator="\n")
    return path


@dataclass(frozen=True, eq=False)
class Picture:
    """A table, and how it is drawn."""

    name: str  # stem of its files
    table: "pd.DataFrame"  # written as it is
    paint: Paint
    # size in inches
    width: float = 7.0
    height: float = 4.2


def draw(
    folder: Path, name: str, table: "pd.DataFrame", paint: Paint, *, width: float = 7.0, height: float = 4.2
) -> list[Path]:
    """Draw a `Picture`'s table into a folder; return the files: PNG, SVG and CSV, the CSV alone if it has no number."""
    numbers = table.select_dtypes("number")
    if table.empty or (len(numbers.columns) and not np.isfinite(numbers.to_numpy(dtype=float)).any()):
        return [write_table(table, folder / f"{name}.csv")]
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        _tell(f"jobcast: no pictures are drawn, their tables are written. {missing(error)}")
        return [write_table(table, folder / f"{name}.csv")]
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure.add_subplot(), table)
        _as_written(figure)
        metadata = {"Title": _title(figure, name), "Description": in_words(figure)}
        pictures = []
        for suffix in (".png", ".svg"):
            path = folder / f"{name}{suffix}"
            with whole_file(path) as part:
                figure.savefig(part, dpi=150, metadata=metadata | ({"Date": None} if suffix == ".svg" else {}))
            pictures.append(path)
    return [*pictures, write_table(table, folder / f"{name}.csv")]


@cache
def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _as_written(figure: "Figure") -> None:
    """Let names from outside be no formulas, and leave room for the picture however long they are."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FuncFormatter

    for axes in figure.axes:
        legend = axes.get_legend()
        axes.title.set_wrap(True)  # at the picture's edges
        named = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts, *(legend.get_texts() if legend else ())]
        for axis in (axes.xaxis, axes.yaxis):
            name = axis.get_major_formatter()
            if isinstance(name, FuncFormatter | StrCategoryFormatter):  # numbers have others
                axis.set_major_formatter(FuncFormatter(lambda x, place, name=name: _shortened(name(x, place))))
                named += axis.get_ticklabels()
        for text in named:
            text.set_parse_math(False)
            text.set_text(_shortened(text.get_text(), LONGEST_TITLE if text is axes.title else LONGEST_NAME))


def _shortened(text: str, longest: int = LONGEST_NAME) -> str:
    r"""Return text with lines of at most this length, their middle left out.

    >>> _shortened("easy, requested"), _shortened("a-log-of-a-machine\nof 1996", 9)
    ('easy, requested', 'a-lo…hine\nof 1996')
    """
    half = (longest - 1) // 2
    lines = text.split("\n")
    return "\n".join(line if len(line) <= longest else f"{line[:half]}…{line[-half:]}" for line in lines)


def number_beside(axes: "Axes", number: int, x: float, y: float) -> None:
    """Write next to a point which entry of the legend it is, where colours alone would not do."""
    axes.annotate(str(number), (x, y), (6, 5), textcoords="offset points", fontsize=8)


def legend_beside(axes: "Axes", **options: Any) -> None:
    """Put the legend to the right of a picture."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **options)


def look_of(number: int) -> dict[str, Any]:
    """Return a colour; from the ninth on the same colours, hollow, and from the seventeenth on filled with grey."""
    colour, turn = COLOURS[number % len(COLOURS)], number // len(COLOURS)
    return {"color": colour, "markerfacecolor": {0: colour, 1: "white"}.get(turn, "#dddddd")}


def legend_of_points(axes: "Axes", names: Sequence[str], markers: Mapping[str, str]) -> None:
    """Explain points: colour and number are a name, the marker is a label of `markers`."""
    from matplotlib.lines import Line2D

    kinds = [
        Line2D([], [], marker="o", linestyle="none", label=f"{number + 1}  {name}", **look_of(number))
        for number, name in enumerate(names)
    ]
    signs = [Line2D([], [], marker=m, linestyle="none", color="#444444", label=label) for label, m in markers.items()]
    legend_beside(axes, handles=[*kinds, *signs], fontsize=8)


def bar_lengths(table: "pd.DataFrame", middle: str, low: str = "low", high: str = "high") -> "Floats":
    """Return the lengths of error bars below and above the middle, shape (2, n_rows)."""
    values = table[[low, high]].to_numpy(dtype=np.float64).T - table[middle].to_numpy(dtype=np.float64)
    lengths: Floats = np.abs(values)
    return lengths


def paint_ratios(axes: Axes, table: "pd.DataFrame", rows: str, figure: str) -> int:
    """Draw the columns ratio, low and high, logarithmic, a marker a value of `figure`; return how many rows."""
    names, kinds = (list(dict.fromkeys(table[column])) for column in (rows, figure))
    axes.axvline(1.0, color="#555555", linewidth=1)
    for number, kind in enumerate(kinds):
        part = table[table[figure] == kind].set_index(rows).reindex(names)
        place = np.arange(len(names)) + (number - (len(kinds) - 1) / 2) * 0.15
        axes.errorbar(
            part["ratio"], place, xerr=np.nan_to_num(bar_lengths(part, "ratio")), fmt=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)], markersize=5 if number else 8, elinewidth=1, capsize=2, label=kind,
        )  # fmt: skip
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    ticks = ticks_between(min(0.9, float(table["low"].min())), max(1.1, float(table["high"].max())))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    return len(names)


def in_words(figure: "Figure") -> str:
    """Return what a picture shows, for those who cannot see it: titles, axes with units, and the legend's entries."""
    sentences = []
    for axes in figure.axes:
        names = {"across": axes.get_xlabel(), "upwards": axes.get_ylabel()}
        legend = axes.get_legend()
        entries = [text.get_text() for text in legend.get_texts()] if legend else []
        parts = [axes.get_title(), *(f"{where}: {name}" for where, name in names.items() if name)]
        parts += [f"shown: {', '.join(entries)}"] if entries else []
        sentences += [_one_line(part) for part in parts if part]
    return ". ".join(sentences)


def _title(figure: "Figure", name: str) -> str:
    titles = [_one_line(axes.get_title()) for axes in figure.axes]
    return next(filter(None, titles), name.replace("_", " "))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def ticks_between(low: float, high: float) -> list[float]:
    """Return ratios to name on a logarithmic axis, 1 among them, none so near to another that they would overlap.

    >>> ticks_between(0.8, 1.3)
    [0.8, 0.9, 1.0, 1.1, 1.2]
    >>> ticks_between(0.1, 34.0)
    [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    gap = np.log(high / low) / 12
    chosen = [1.0]
    for tick in sorted(TICKS, key=lambda tick: (TICKS[tick], tick)):
        if low <= tick <= high and min(abs(np.log(tick / other)) for other in chosen) >= gap:
            chosen.append(tick)
    return sorted(chosen)


TICKS: Final = {  # what may be named on an axis of ratios; the lower number first
    **{tick * ten: 0 for ten in (0.01, 0.1, 1.0, 10.0, 100.0) for tick in (1.0, 2.0, 5.0)},
    **dict.fromkeys((0.3, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5, 3.0, 7.0, 30.0, 70.0), 1),
}
