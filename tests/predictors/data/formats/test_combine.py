"""Months of one machine make one log: by name, each job once; and one log makes a past and a future."""

import json

import numpy as np
import pytest

from jobcast import JobcastError, JobLog, make_predictor, read_log, write_log
from predictors.data.formats.combine import between, joined, read_logs
from predictors.data.names import codes_of, new_names
from predictors.history.replay import log_events
from tests.support.commands import printed
from tests.support.named_logs import EPOCH, HEADER, ends_of, line, made_log, read_text, sacct_text
from tests.support.places import DATA

NAMED = ("user", "group", "executable", "queue", "state")


def words(log):
    """A log as it reads: numbers, and names in the place of codes."""
    names = {column: log.names(column) for column in NAMED}
    plain = [column for column in log.values if column not in NAMED]
    told = [[None if v is None else names[c][v] for v in log[c].tolist()] for c in NAMED if c in log.values]
    return [[c, *log[c].tolist()] for c in plain], told, log.epoch, log.origin


def small(rows, name="log", **about):
    """A log of (job id, submission, wait or None, run time or None, user)."""
    job_id, submit, wait, run_time, user = (list(column) for column in zip(*rows, strict=True))
    missing = {"wait": [w is None for w in wait], "run_time": [r is None for r in run_time]}
    values = {"wait": [w or 0 for w in wait], "run_time": [r or 0 for r in run_time], "user": user}
    about.setdefault("epoch", EPOCH + min(submit))
    return JobLog.from_columns({"job_id": job_id, "submit": submit, **values}, missing, name=name, **about)


@pytest.mark.parametrize(("n_files", "seed"), [(2, 0), (3, 1), (4, 2), (2, 3)])
def test_a_log_in_pieces_is_the_log_again(n_files, seed):
    """However its jobs were shared out, in whatever order their lines and the files: the same words."""
    log, random = made_log(40), np.random.default_rng(seed)
    file = random.integers(0, n_files, len(log))
    parts = [np.flatnonzero(file == k) for k in range(n_files) if (file == k).any()]
    read = [read_text(sacct_text(log, rows, shuffle=seed), name=f"{k}.txt") for k, rows in enumerate(parts)]
    found, account = joined([read[k] for k in random.permutation(len(read))])
    assert words(found) == words(read_text(sacct_text(log, np.arange(len(log))))) and not account.findings


def test_months_as_sacct_exports_them_share_the_jobs_that_ran_over_midnight():
    """What stands in both files is one job, the one that has ended; codes are those of one file of both."""
    log = made_log()
    midnight = int(log.filled("submit")[120])
    before, ended = log.filled("submit") < midnight, ends_of(log) < midnight
    over = before & ~ended
    march = HEADER + "".join(line(log, row, ended[row]) for row in np.flatnonzero(before))
    april = sacct_text(log, np.flatnonzero(~before | over))
    logs = read_text(march, "march.txt"), read_text(april, "april.txt")
    found, account = joined(logs)
    assert account.count("not-ended-there") == over.sum() > 0 and account.dropped == over.sum()
    whole = read_text(sacct_text(log, np.arange(len(log))))
    assert words(found) == words(whole) and words(joined(logs[::-1])[0]) == words(whole)
    assert found.names("user") == tuple(dict.fromkeys((*logs[0].names("user"), *logs[1].names("user"))))
    twice, account = joined([found, logs[1]])
    assert words(twice) == words(whole) and account.count("in-two-files") == len(logs[1])


@pytest.mark.parametrize(("first", "second", "twice"), [(1 / 2, 1 / 2, 0), (2 / 3, 1 / 3, 16)])
def test_what_slurm_wrote_is_the_same_in_two_files(first, second, twice):
    """Arrays, requeued, heterogeneous and cancelled jobs: a run before the last, in the other file, is no job."""
    file = DATA / "sacct_steps.txt"
    head, *lines = file.read_text().splitlines(keepends=True)
    cuts = slice(int(first * len(lines))), slice(int(second * len(lines)), None)
    found, account = joined([read_text(head + "".join(lines[cut]), str(n)) for n, cut in enumerate(cuts)])
    whole = read_text(file.read_text())
    named = [*NAMED, "project", "qos", "label", "location", "directory", "command"]
    for column in whole.values:
        texts = [(log[column].tolist(), log.names(column)) for log in (found, whole)]
        told = [[n[v] if column in named and v is not None else v for v in values] for values, n in texts]
        assert told[0] == told[1], column
    assert account.count("earlier-attempt") == 1 and account.count("in-two-files") == twice


def test_pieces_of_an_swf_keep_its_numbers_and_its_clock(tmp_path):
    log = made_log(60)
    log = JobLog(log.values, log.unknown, origin=500, epoch=EPOCH + 500, max_procs=256, header=(("Computer", "C"),))
    write_log(log, tmp_path / "whole.swf")
    for name, rows in (("a", slice(30)), ("b", slice(30, None))):
        write_log(log.select(rows), tmp_path / f"{name}.swf")
    whole, _ = read_log(tmp_path / "whole.swf")
    found, account = read_logs([tmp_path / "b.swf", tmp_path / "a.swf"])
    assert found.digest() == whole.digest() and not account.findings
    assert (found.epoch, found.origin, found.max_procs) == (EPOCH + 500, 500, 256)
    assert dict(found.header)["Computer"] == "C" and read_logs([tmp_path / "a.swf"])[0].name == "a"


def test_ids_that_come_again_number_the_jobs_anew():
    """As in one file of both; the ids stay as labels, and a preceding job is still the one of its own month."""
    march = small([(1, 0, 0, 5, 7), (2, 10, 0, 5, 7)], "march")
    april = small([(1, 100, 0, 6, 7), (2, 110, 0, 6, 7)], "april").replaced({"preceding_job": np.array([-1, 1])})
    found, account = joined([april, march])
    assert found["job_id"].tolist() == [1, 2, 3, 4] and account.count("ids") == 1
    assert [found.names("label")[code] for code in found["label"].tolist()] == ["1", "2", "1", "2"]
    assert found["preceding_job"].tolist() == [None, None, None, 3] and found["run_time"].tolist() == [5, 5, 6, 6]
    more, _ = joined([found, small([(1, 200, 0, 7, 7)], "may")])
    assert [more.names("label")[code] for code in more["label"].tolist()] == ["1", "2", "1", "2", "1"]


def test_a_run_after_which_the_job_was_put_back_is_no_job_of_its_own():
    """By its state where it was submitted again; else where a later run of the same submission follows."""
    march = small([(1, 0, 0, 5, 7), (2, 10, 0, 5, 7)], "march")
    march = JobLog(
        {**march.values, "state": np.array([0, 1])}, march.unknown, epoch=march.epoch, name="march",
        categories={"state": ("NODE_FAIL", "COMPLETED")},
    )  # fmt: skip
    april = small([(1, 100, 0, 6, 7), (2, 10, 90, 8, 7)], "april")
    found, account = joined([march, april])
    assert found["job_id"].tolist() == [2, 1] and found["run_time"].tolist() == [8, 6]
    assert account.count("earlier-attempt") == 2 and account.findings[0].places == (1, 2)
    others, account = joined([march, small([(1, 100, 0, 6, 8)], "april")])  # the id came again, for another user
    assert others["user"].tolist() == [7, 7, 8] and not account.dropped


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (small([(1, 0, 0, 9, 7)], "b"), "Job 1: b has other times for it than a, but the same submission"),
        (small([(1, 0, 0, 5, 8)], "b"), "Job 1: b has another user for it than a"),
        (small([(9, 9, 0, 5, 8)], "b", max_procs=4), "b is of a machine of max_procs 4, a of max_procs 8"),
        (small([(9, 9, 0, 5, 8)], "b", epoch=None), "b has no date, and a has one"),
        (
            small([(9, 9, 0, 5, 0)], "b", categories={"user": ("ana",)}),
            "b: has names for its users where a goes by num",
        ),
    ],
)
def test_what_cannot_be_of_one_machine_is_refused(second, message):
    first = small([(1, 0, 0, 5, 7)], "a", max_procs=8)
    for logs in ([first, second], [second, first])[: 1 + ("machine" not in message and "Job" not in message)]:
        with pytest.raises(JobcastError, match="names" if logs[0] is second and "names" in message else message):
            joined(logs)


def test_logs_without_dates_are_taken_by_one_clock_and_say_so():
    found, account = joined([small([(k, 10 * k, 0, 5, 7)], str(k), epoch=None) for k in (2, 1)])
    assert found["submit"].tolist() == [0, 10] and account.count("clock") == 1 and found.epoch is None


def test_a_past_holds_nothing_of_the_future_and_its_future_can_be_predicted_warm():
    """All that the past tells happened before: a history of it never overlaps what is submitted from then on."""
    log = read_text(sacct_text(made_log(), np.arange(200)))
    now = int(log.filled("submit")[120])
    moment = str(log.epoch + now)
    past, account = between(log, None, moment)
    future, dropped = between(log, moment, None)
    events = log_events(past)
    assert events[:, 0].max() < now and len(events) == (log_events(log)[:, 0] < now).sum()
    assert account.count("not-ended-yet") == (past.known("run_time") < 1).sum() > 0
    assert len(past) + len(future) == len(log) and dropped.count("before") == len(past)
    unfinished = ~past.known("run_time")
    assert not past.known("status")[unfinished].any() and not past.known("state")[unfinished].any()
    model = make_predictor("last-two").fit(past)
    assert (model.predict(future, warm=True) != model.predict(future)).any()
    late = make_predictor("last-two").fit(log.select(slice(120)))
    with pytest.raises(JobcastError, match="before the newest event of the history"):
        late.predict(future, warm=True)


def test_a_part_of_a_log_names_nobody_else():
    """Who first submits later is no name of the past, and whoever is gone none of what came after; codes stay."""
    log = small([(1, 0, 0, 5, 0), (2, 10, 0, 5, 1), (3, 20, 0, 5, 2)], categories={"user": ("ana", "ben", "cem")})
    moment = str(EPOCH + 10)
    past, future = between(log, None, moment)[0], between(log, moment, None)[0]
    assert past.names("user") == ("ana",) and future.names("user") == ("", "ben", "cem")
    assert future["user"].tolist() == [1, 2] and joined([past, future])[0].names("user") == ("ana", "ben", "cem")
    assert new_names(log, codes_of(past, ["user"])) == {"user": (1, 2)}


def test_a_cut_log_does_not_tell_what_a_waiting_job_got():
    log = small([(1, 0, 0, 5, 0), (2, 5, 50, 5, 0)])
    codes = np.array([0, 1])
    log = JobLog.from_columns(
        {**log.values, "descriptor": codes},
        log.unknown,
        epoch=EPOCH,
        categories={"descriptor": ("m:excl:4x8", "m:-:2x8")},
    )
    past = between(log, None, str(EPOCH + 10))[0]
    assert past["descriptor"].tolist() == [0, None] and past.names("descriptor") == ("m:excl:4x8",)


def test_no_header_tells_of_jobs_of_the_other_part():
    """How many jobs there are, and until when, is so of the whole; what is so of the machine stays."""
    header = (("Computer", "C"), ("MaxJobs", "2"), ("MaxRecords", "2"), ("EndTime", "Fri Dec 31"), ("Note", "n"))
    log = small([(1, 0, 0, 5, 0), (2, 10, 0, 5, 1)], header=header)
    past, future = between(log, None, str(EPOCH + 10))[0], between(log, str(EPOCH + 10), None)[0]
    assert past.header == future.header == (("Computer", "C"), ("Note", "n"))
    assert between(log, None, None)[0].header == joined([log])[0].header == header
    assert joined([log, small([(3, 20, 0, 5, 0)])])[0].header == past.header


@pytest.mark.parametrize(
    ("when", "second"), [("2023-11-14T22:13:25", 5), ("2023-11-14T23:13:25+01:00", 5), (str(EPOCH + 5), 5)]
)
def test_moments_are_dates_or_unix_times(when, second):
    log = small([(1, 0, 0, 5, 7), (2, second, 0, 5, 7)])
    assert between(log, when, None)[0]["job_id"].tolist() == [2]


def test_moments_that_mean_nothing_are_refused():
    log = small([(1, 0, 0, 5, 7)])
    for begin, message in (("soon", "'soon' is no time"), ("2030-01-01", "no job was submitted from 2030-01-01")):
        with pytest.raises(JobcastError, match=message):
            between(log, begin, None)
    with pytest.raises(JobcastError, match="has no date"):
        between(small([(1, 0, 0, 5, 7)], epoch=None), None, "2030-01-01")


def run(*arguments):
    """Run `jobcast log`; its JSON."""
    return json.loads(printed("log", *arguments, "--json"))


def test_hashing_the_names_of_a_log_without_any_says_so(tmp_path):
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text("0123456789abcdef")
    write_log(small([(1, 0, 0, 5, 7)]), tmp_path / "a.parquet")
    said = run("convert", tmp_path / "a.parquet", tmp_path / "b.parquet", "--name-key", tmp_path / "key")
    assert [finding["rule"] for finding in said["account"]["findings"]] == ["no-names"]


def test_local_times_and_unix_times_are_not_joined(tmp_path):
    """The same job would count twice, hours apart; with the zone it is one job again."""
    columns = "JobID|User|AllocCPUS|Submit|Start|End|State|ExitCode\n"
    unix, local, parquet = tmp_path / "unix.txt", tmp_path / "local.txt", tmp_path / "old.parquet"
    unix.write_text(f"{columns}7|ana|4|1616835600|1616835660|1616835780|COMPLETED|0:0\n")
    local.write_text(f"{columns}7|ana|4|2021-03-27T10:00:00|2021-03-27T10:01:00|2021-03-27T10:03:00|COMPLETED|0:0\n")
    for paths in ((unix, local), (local, unix)):
        with pytest.raises(JobcastError, match=r"local\.txt writes local times without their zone, .*unix\.txt"):
            read_logs(paths)
    assert len(read_logs([unix, local], time_zone="Europe/Paris")[0]) == 1
    write_log(read_log(local)[0], parquet)
    assert len(read_logs([parquet, local])[0]) == 1  # what a kept log's times are is as it was read


def test_months_are_joined_and_cut_from_the_command_line(tmp_path):
    log = made_log(80)
    for name, rows in (("a", range(50)), ("b", range(40, 80))):
        (tmp_path / f"{name}.txt").write_text(sacct_text(log, rows))
    said = run("join", tmp_path / "all.parquet", tmp_path / "a.txt", tmp_path / "b.txt")
    assert said["jobs"] == 80 and said["account"]["dropped"] == 10
    moment = EPOCH + int(log.filled("submit")[30])
    past = run("convert", tmp_path / "all.parquet", tmp_path / "past.parquet", "--until", moment)
    later = run("convert", tmp_path / "all.parquet", tmp_path / "later.parquet", "--from", moment)
    assert (past["jobs"], later["jobs"]) == (30, 50)
    assert read_log(tmp_path / "past.parquet")[0].names("user") == read_log(tmp_path / "all.parquet")[0].names("user")
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text("0123456789abcdef")
    said = run("convert", tmp_path / "all.parquet", tmp_path / "hidden.parquet", "--name-key", tmp_path / "key")
    assert {"name-hashed"} == {finding["rule"] for finding in said["account"]["findings"]}
    assert all(name.startswith("~1") for name in read_log(tmp_path / "hidden.parquet")[0].names("user"))
    with pytest.raises(JobcastError, match=r"a\.txt"):
        printed("log", "join", tmp_path / "a.txt", tmp_path / "a.txt")


ARRAY = "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|State\n"


def array_file(path, *jobs):
    """Write records of (id, minute of the start); each ran for ten minutes."""
    clock = "2025-01-01T0{}:{:02}:00"
    rows = [
        "|".join((str(job), "u", clock.format(0, 0), *(clock.format(*divmod(m + more, 60)) for more in (0, 10)), "600"))
        + "|60|4|COMPLETED\n"
        for job, m in jobs
    ]
    path.write_text(ARRAY + "".join(rows))
    return path


def test_tasks_of_an_array_without_numbers_in_two_files(tmp_path):
    """In one file they stay several jobs; in two, which is which is not known, and that is what is said."""
    tasks = array_file(tmp_path / "a.txt", (100, 10), (100, 12), (101, 60))
    others = array_file(tmp_path / "b.txt", (102, 70))
    log, account = read_logs([tasks, others])
    assert sorted(log["wait"].tolist()) == [600, 720, 3600, 4200] and not account.dropped
    for more in ((100, 15),), ((100, 12), (100, 30)):
        with pytest.raises(JobcastError, match=r"Job 100: stands for several tasks .* in a and b:.*12_3"):
            read_logs([tasks, array_file(tmp_path / "b.txt", *more)])
