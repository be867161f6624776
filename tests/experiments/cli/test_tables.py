"""What commands print for people: lines that fit, whole words, one line of account; and the same in `--json`."""

import json
import re
import shlex
from functools import partial

import numpy as np
import pytest

from experiments.console import print_table, say
from predictors.data.formats.swf import write_swf
from predictors.data.synthetic.generate import generate_log
from tests.support import commands

ROOM = 80
PRINT = {"COLUMNS": str(ROOM), "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture(scope="module")
def place(tmp_path_factory, empty_store):
    """A folder with a small log, one with a lossy row, and a store."""
    import shutil

    folder = tmp_path_factory.mktemp("tables")
    shutil.copytree(empty_store, folder / "mlruns")
    write_swf(generate_log(200, seed=1, procs=64, users=8), folder / "log.swf")
    lines = (folder / "log.swf").read_text().splitlines()
    fields = lines[-1].split()
    (folder / "lossy.swf").write_text("\n".join([*lines, " ".join(["999", *fields[1:3], "x", *fields[4:]])]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("JOBCAST_HOME", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


printed = partial(commands.printed, env=PRINT)

LINES = {
    "log info log.swf": ("jobs", "utilisation", "quantiles"),
    "evaluate log.swf --predictors requested,tsafrir,user-mean,similar-mean --details": (
        "name", "sse_ratio_to_last_two", "sse_ratio_interval", "mae_s", "median_ae_s", "underestimation_rate",
        "fit_seconds", "predict_us_per_job",
    ),
    "train log.swf --predictor last-two": ("sse_ratio_to_last_two", "mae_s", "r2", "mean_accuracy"),
    "predict models:/runtime/1 log.swf --out p.csv": ("n_jobs", "n_fallback"),
    "simulate log.swf --by user --explain 50 --paranoid": ("mean_wait_s", "killed", "by", "max_wait_s"),
    "simulate log.swf --policy cobalt --by queue": ("median_wait_s", "node_hours", "mean_run_time_s"),
    "simulate log.swf --policy ceil --postponable 0.3 --dilation start --by size": ("users", "time_above_share"),
    "sweep log.swf --policies fcfs,easy,careful --seeds 2 --out swept": ("killed", "widest5_mean_wait_s", "case"),
    "sweep log.swf --kind evaluate --predictors requested,user-mean --seeds 2 --out scored": ("r2", "mae_s"),
}  # fmt: skip
"""Commands that print tables, with keys that hold the columns in `--json`."""


def keys_of(value):
    """Return every key of a document, however deep."""
    if isinstance(value, dict):
        yield from value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(entry)


DEAR_LINES = {
    "advise log.swf --seeds 5 --out advised": ("advice", "choice"),
    "experiment start-times --log log.swf --quick --out reports": ("tables", "notes"),
    "experiment reis --log log.swf --quick --out reports": ("tables", "notes"),
}


def fits(wide, narrow):
    """Fail if what was printed for a narrow terminal is wider than it, or breaks a word."""
    assert max(map(len, narrow.splitlines())) <= ROOM
    words, shown = ({one for one in text.split() if one.isalpha()} for text in (wide, narrow))
    assert words and shown <= words, "a word is broken"  # figures are left aside: times differ between two runs


@pytest.mark.parametrize("line", [*LINES, *(pytest.param(line, marks=pytest.mark.slow) for line in DEAR_LINES)])
def test_tables_fit_on_80_columns_and_json_has_their_columns(place, line):
    fits(printed(line, env=PRINT | {"COLUMNS": "400"}), printed(line))
    assert set((LINES | DEAR_LINES)[line]) <= set(keys_of(json.loads(printed(f"{line} --json"))))


@pytest.mark.slow
def test_the_tables_of_a_replay_fit(place, tmp_path):
    from tests.support.service_in_thread import running

    texts = []
    for number, (env, more) in enumerate(((PRINT | {"COLUMNS": "400"}, ""), (PRINT, ""), (PRINT, " --json"))):
        with running(tmp_path / str(number), "last-two", machine_procs=64) as one:
            texts.append(printed(f"replay log.swf --batch 50 --check last-two --url {one.url}{more}", env=env))
    fits(*texts[:2])
    assert {"n_events", "check", "equal", "account"} <= set(keys_of(json.loads(texts[2])))


@pytest.mark.slow
def test_the_tables_of_the_demo_fit(place):
    """Of its commands, which it prints as they are to be typed, one may be longer than a line."""
    wide, narrow = (
        printed("demo --jobs 300 --out shown", env=PRINT | {"COLUMNS": width}) for width in ("400", str(ROOM))
    )
    fits(*("\n".join(one for one in text.splitlines() if "jobcast " not in one) for text in (wide, narrow)))


def test_a_wide_table_is_split_and_no_figure_is_lost(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    columns = ("case", *(f"figure number {k}" for k in range(9)))
    rows = [(f"case-{j}", *(1000.0 * k + j for k in range(9))) for j in range(3)]
    print_table("Many figures", columns, rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    blocks = "\n".join(lines).split("\n\n")
    assert len([block for block in blocks if "case-0" in block]) > 1
    for k in range(9):
        for j in range(3):
            assert sum(f"{1000.0 * k + j:,.0f}" in line.split() and line.startswith(f"case-{j}") for line in lines) == 1


def test_long_texts_end_between_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    text = "the run time is negative, or longer than what was asked for by the user"
    print_table("Rules", ("rule", "times", "how"), [("negative", 3, text)])
    out = capsys.readouterr().out
    assert set(text.split()) <= set(out.split())
    assert max(map(len, out.splitlines())) <= 50


def test_sentences_stay_whole_in_a_pipe(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    say("word " * 60)
    assert capsys.readouterr().out.count("\n") == 1


def test_what_a_log_lacks_ends_between_words_and_the_next_command_stays_whole(place):
    """A command that is cut into lines would be run in part by whoever copies it into a shell."""
    folder = place / "logs of all our machines" / "of the past year"
    folder.mkdir(parents=True)
    write_swf(generate_log(60, seed=2, procs=64, users=1), folder / "one.swf")
    lines = printed("log", "info", folder / "one.swf").splitlines()
    assert lines[0].startswith("Caution: ")
    assert [line for line in lines if len(line) > ROOM and not line.startswith("Next: ")] == []
    assert shlex.split(lines[-1])[-1] == str(folder / "one.swf")


def test_the_account_is_one_line_unless_asked_for(place):
    short, full = (printed(f"simulate lossy.swf{more}") for more in ("", " --account"))
    assert "--account lists it by rule" in short and "What was dropped or changed" not in short
    assert "What was dropped or changed" in full and "--account" not in full
    assert "What was dropped or changed" in printed("log info lossy.swf")


def test_no_interval_has_the_width_zero(place, tmp_path):
    log = generate_log(60, seed=2, procs=64, users=1)
    write_swf(log, tmp_path / "one.swf")
    out = printed(f"evaluate {tmp_path / 'one.swf'} --predictors requested,user-mean")
    assert len(re.findall("(?<!of )one user", out)) == 2  # the caution says that all jobs are of one user
    assert not [ends for ends in re.findall(r"([\d.]+) to ([\d.]+)", out) if ends[0] == ends[1]]
    found = json.loads(printed(f"evaluate {tmp_path / 'one.swf'} --predictors user-mean --json"))
    assert [one["sse_ratio_interval"] for one in found["predictors"]] == [[None, None]] * 2


def test_an_explanation_has_dates_where_the_log_has(place, tmp_path):
    assert re.search(r"was\s+submitted\s+at\s+2024-01-0\d \d\d:\d\d:\d\d", printed("simulate log.swf --explain 50"))
    undated = (place / "log.swf").read_text()
    (tmp_path / "undated.swf").write_text(re.sub(r"; (UnixStartTime|StartTime).*\n", "", undated))
    assert re.search(r"was\s+submitted\s+at\s+t=\d+", printed(f"simulate {tmp_path / 'undated.swf'} --explain 50"))


def test_no_picture_is_empty(tmp_path):
    import pandas as pd

    from experiments.reports.figures import draw

    def paint(axes, table):
        raise AssertionError("there is nothing to paint")

    for table in (pd.DataFrame({"case": [], "ratio": []}), pd.DataFrame({"case": ["a"], "ratio": [np.nan]})):
        assert draw(tmp_path, "nothing", table, paint) == [tmp_path / "nothing.csv"]
        assert not (tmp_path / "nothing.png").exists()


def test_the_time_to_fit_is_that_of_the_processor(monkeypatch):
    """A machine that does other things meanwhile does not make a predictor dearer."""
    from time import sleep

    from predictors.evaluation.evaluate import evaluate
    from predictors.models.baselines import UserMean

    class Waiting(UserMean):
        def fit(self, rows, run_time):
            sleep(0.3)
            return super().fit(rows, run_time)

    assert evaluate(generate_log(60, seed=1, procs=64), {"waiting": Waiting()})["waiting"].fit_seconds < 0.25


def rewritten(place, name, changed):
    """Write the log under another name with each job's fields changed; return its path."""
    lines = [line.split() for line in (place / "log.swf").read_text().splitlines()]
    rows = [line if line[0].startswith(";") else changed(line, i) for i, line in enumerate(lines)]
    (place / name).write_text("".join(" ".join(row) + "\n" for row in rows))
    return name


def test_two_users_have_no_interval_in_the_table_either(place):
    """The table resamples what the sentences resample: users, else weeks, and nothing of which there are too few."""
    few = rewritten(place, "few_users.swf", lambda job, i: [*job[:11], str(1 + i % 2), *job[12:]])
    out = printed(f"evaluate {few} --predictors requested,user-mean")
    assert out.count("2 users only") == 2 and "no interval: the scored jobs have only 2 users" in " ".join(out.split())
    assert "with its interval over" not in out
    spread = rewritten(place, "weeks.swf", lambda job, i: [job[0], str(604_800 * i), *job[2:11], "1", *job[12:]])
    out = " ".join(printed(f"evaluate {spread} --predictors user-mean").split())
    assert "with its interval over weeks" in out and "one user only" not in out


def test_words_that_name_the_rows_stand_to_the_left_and_figures_to_the_right(capsys):
    rows = [("KTH", "easy", "0.4 to 0.6", 1.0), ("SDSC-SP2", "careful", "12 to 13", 22.0)]
    print_table("Cases", ("log", "case", "interval", "wait"), rows)
    lines = capsys.readouterr().out.splitlines()
    short, long = (next(line for line in lines if line.startswith(log)) for log in ("KTH", "SDSC"))
    assert short.index("easy") == long.index("careful")
    assert short.index("0.6") + 3 == long.index("13") + 2


def test_jobs_that_overran_are_told_of_with_the_way_out(place):
    over = rewritten(place, "over.swf", lambda job, i: [*job[:8], "60", *job[9:]])
    command = f"evaluate {over} --predictors user-mean"
    out, free = (" ".join(printed(f"{command}{more}").split()) for more in ("", " --no-kill"))
    assert "ran past the requested time; no prediction lies beyond it; with --no-kill they may" in out
    assert "predictions may lie beyond it" in free and "with --no-kill" not in free


def test_a_percentage_is_written_in_one_way(place):
    out = printed("evaluate log.swf --predictors requested --intervals") + printed("log info log.swf")
    assert re.findall(r"\d+(?:\.\d+)? %", out) and not re.findall(r"\d%", out)


@pytest.mark.filterwarnings("ignore::predictors.models.warnings.TrainingDataWarning")
def test_why_there_is_no_interval_is_said_as_it_is(place):
    nobody = rewritten(place, "nobody.swf", lambda job, i: [*job[:11], "-1", *job[12:]])
    alike = rewritten(place, "alike.swf", lambda job, i: [*job[:3], "100", *job[4:8], "100", *job[9:]])
    out = printed(f"evaluate {nobody} --predictors requested")
    assert out.count("no users") == 1 and "no known user" in out and "one user" not in out
    assert printed(f"evaluate {alike} --predictors requested").count("no error") == 1


def test_quantiles_that_were_never_issued_are_said_to_be_missing(place):
    write_swf(generate_log(20, seed=3, procs=64, users=4), place / "few.swf")
    out = printed("evaluate few.swf --predictors requested --intervals")
    assert "nan" not in out and out.count("has no P10 to P90 here") == 2
    assert "There are no P10 to P90 yet" in printed("train few.swf --predictor requested --register few --intervals")


READERS = (
    "log info {}",
    "evaluate {} --predictors requested",
    "train {} --predictor requested --register torn",
    "predict models:/runtime/1 {} --out t.csv",
    "simulate {}",
    pytest.param("advise {} --seeds 5 --out torn", marks=pytest.mark.slow),
    "sweep {} --policies easy --seeds 1 --out torn-sweep",
    "sweep {} --kind evaluate --predictors requested --seeds 1 --out torn-scores",
)


@pytest.mark.parametrize("line", READERS)
def test_rows_that_cannot_be_read_are_told_first_where_they_are_many(place, line):
    if line.startswith("predict"):
        printed("train log.swf --predictor last-two")
    half = rewritten(place, "half.swf", lambda job, i: job if i % 2 else job[:9])
    told = printed(line.format(half)).split("\n\n")[0]
    assert "100 of 200 rows (50 %) could not be read, most by the rule too-few-fields" in " ".join(told.split())
