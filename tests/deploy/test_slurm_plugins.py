"""Plug-ins of `deploy/slurm` and `deploy/pbs`: they read the table that the adapter writes, and fail open."""

import json
import runpy
import subprocess
import sys
import time
import types

import pytest

from predictors.schedulers.table import ExpectedStart, Row, parse, table_of
from tests.deploy.test_deploy import DEPLOY, needed

NOW = int(time.time())
ROWS = [
    Row("eve", "p", "8", 240, "fit", 25, 600, 14, "m@3"),
    Row("eve", "p", "8", 240, "ü fit|2", 40, 1500, 6, "m@3"),
    Row("eve", "p", "4", 60, "near", 60, 3500, 9, "m@3"),
    Row("bob", "q", "1", 60, "x", 20, 300, 2, "m@3"),
]
HARNESS = (
    f"os.time = function() return {NOW} end"
    + """
slurm = { NO_VAL = 4294967294, SUCCESS = 0, log_debug = function() end }
local job = { user_name = "eve", partition = "p", min_cpus = 8, time_limit = 240, name = "fit",
              time_min = slurm.NO_VAL, het_job_offset = slurm.NO_VAL }
local options = { type = "sbatch", time = "4:00:00", ["job-name"] = "fit", partition = "p", ntasks = "8",
                  ["cpus-per-task"] = "0", nodes = "1-0" }
"""
)


def table(reservation=None, sets=True, written=NOW, cluster="t", rows=ROWS, starts=()):
    return table_of(cluster, written, 7200, reservation, 600, rows, sets=sets, starts=starts).text()


@pytest.fixture
def lua(tmp_path):
    """Runs a plug-in with a table; lines of Lua come after it is loaded. Returns what it prints, and stderr."""
    program = needed("lua5.1", "lua5.1")

    def run(plug_in, text, lines):
        place = tmp_path / "table"
        place.unlink(missing_ok=True)
        if text is not None:
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
        source = (DEPLOY / "slurm" / plug_in).read_text().replace("/var/lib/jobcast/soft-limits", str(place))
        source = source.replace('local CLUSTER = ""', 'local CLUSTER = "t"')
        script = tmp_path / "script.lua"
        script.write_text(f"{HARNESS}\n{source}\n{lines}\n")
        done = subprocess.run([program, script], capture_output=True, text=True, env={"USER": "eve"}, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr.strip()

    return run


SUBMIT = (
    "local code = slurm_job_submit(job, {{ p = {{ flag_default = 1 }} }}, 1000)\n"
    'local minutes, comment = rawget(job, "time_min"), rawget(job, "admin_comment")\n'
    'print(code, minutes == slurm.NO_VAL and "-" or minutes, comment or "-")'
)


def submitted(lua, text, change=""):
    out, err = lua("job_submit.lua", text, f"{change}\n{SUBMIT.replace('{{', '{').replace('}}', '}')}")
    assert err == ""
    code, minutes, comment = out.split("\t")
    assert code == "0"  # whatever happens, the job is taken
    return minutes, comment


def test_the_plug_in_sets_what_the_table_has(lua):
    assert submitted(lua, table()) == ("25", "jobcast soft=25m asked=240m model=m@3")
    assert submitted(lua, table(), 'job.name = "ü fit|2"')[0] == "40"
    assert submitted(lua, table(), "job.partition = nil")[0] == "25"  # the default one
    assert submitted(lua, table(), "job.min_cpus = 64")[0] == "40"  # as the longest of the user's with this limit
    assert submitted(lua, table(reservation=NOW + 240 * 60 + 700))[0] == "25"


LEFT = {
    "the user's own": "job.time_min = 30", "unlimited": "job.time_limit = 4294967295",
    "no limit": "job.time_limit = slurm.NO_VAL", "heterogeneous": "job.het_job_offset = 0",
    "an array": 'job.array_inx = "1-10"', "in a reservation": 'job.reservation = "course"',
    "another user": 'job.user_name = "mallory"', "no gain": "job.time_limit, job.min_cpus, job.name = 60, 4, 'near'",
    "a comment of another plug-in": 'job.admin_comment = "billing=7"',
    "an error": "setmetatable(job, { __index = function() error('boom') end }) job.array_inx = nil",
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_the_plug_in_leaves_jobs_alone(what, lua):
    minutes, comment = submitted(lua, table(), LEFT[what])
    assert minutes in ("-", "30") and not comment.startswith("jobcast")


WHOLE = table()
BAD = {
    "missing": None, "empty": b"", "binary": bytes(range(256)) * 40, "half written": WHOLE[: len(WHOLE) // 2],
    "without its last line": WHOLE[: WHOLE.rindex("end ")], "without its last sign": WHOLE[:-1],
    "stale": table(written=NOW - 3 * 3600), "from the future": table(written=NOW + 3600),
    "of another cluster": table(cluster="other"),
    "of another version": WHOLE.replace("jobcast-table 1", "jobcast-table 2"),
    "with a row cut": WHOLE.replace("\t600\t", "\t"),
    "with a row too many": WHOLE.replace("\nend", "\nx\ty\tz\t1\tn\t1\t1\t1\tm\nend"),
    "near a reservation": table(reservation=NOW + 240 * 60 + 500), "for advice only": table(sets=False),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_table_that_is_none_changes_nothing(how, lua):
    assert submitted(lua, BAD[how]) == ("-", "-")
    advice = lua("cli_filter.lua", BAD[how], "slurm_cli_pre_submit(options, 0) slurm_cli_post_submit(0, 1, 0)")
    assert advice[0] == "" and (advice[1] == "" or how in ("near a reservation", "for advice only", "with a row cut",
                                                            "with a row too many"))  # fmt: skip
    if how not in ("near a reservation", "for advice only", "missing", "binary"):
        with pytest.raises(ValueError, match="table"):
            parse(BAD[how].decode() if isinstance(BAD[how], bytes) else BAD[how], "t", NOW)


def test_advice_is_one_line_and_silent_where_it_knows_little(lua):
    ask = "slurm_cli_pre_submit(options, 0) print(slurm_cli_post_submit(0, 1, 0))"
    assert lua("cli_filter.lua", table(sets=False), ask) == (
        "0", "sbatch: jobs like this ran at most 10 min (9 of 10, 14 jobs); you asked for 4 h 00.")  # fmt: skip
    for change in ('options.time = "0-04"', 'options.time = "240"', 'options.time = "240:00"'):
        assert "10 min" in lua("cli_filter.lua", table(), f"{change} {ask}")[1]
    for change in ('options.time = "soon"', "options.time = nil", 'options.type = "srun"', 'options.ntasks = "x"',
                   'options.time = "1:00:00"'):  # fmt: skip
        assert "ran at most 10 min" not in lua("cli_filter.lua", table(), f"{change} {ask}")[1]


def when(second):
    return time.strftime("%H:%M" if time.localtime(second)[:3] == time.localtime(NOW)[:3] else "%a %H:%M",
                         time.localtime(second))  # fmt: skip


ADVISE = "slurm_cli_pre_submit(options, 0) print(slurm_cli_post_submit(0, 1, 0))"


def test_the_line_says_when_a_job_submitted_now_would_start(lua):
    soon = ExpectedStart("p", 16, 240, NOW + 4000, NOW + 9000, NOW - 250)
    starts = [soon, ExpectedStart("q", 4, 60, NOW - 30, NOW + 20, NOW), ExpectedStart("", 16, 240, NOW, NOW, NOW)]
    text = table(starts=starts, written=NOW)
    assert parse(text, "t", NOW).starts == tuple(starts) and parse(text, "t", NOW).text() == text
    told = f"start expected {when(NOW + 4000)} (9 of 10 by {when(NOW + 9000)}, as of 4 min ago)."
    said = lua("cli_filter.lua", text, ADVISE)
    assert said == ("0", f"sbatch: jobs like this ran at most 10 min (9 of 10, 14 jobs); you asked for 4 h 00; {told}")
    assert lua("cli_filter.lua", text, f"options.time = '9:00:00' {ADVISE}")[1] == f"sbatch: {told}"
    changes = {
        "options.partition, options.ntasks = 'q', '2'": "start expected now (as of 0 min ago)",
        "options.partition = nil": "start expected now (as of 0 min ago)",  # the default one
        "options.ntasks, options['cpus-per-task'] = '2', '4'": "start expected",
        "options.ntasks, options.nodes = '1', '5-6'": "start expected",
        "options.ntasks = '4'": None, "options.ntasks = '17'": None, "options.partition = 'x'": None,
    }  # fmt: skip
    for change, expected in changes.items():
        said = lua("cli_filter.lua", text, f"{change} {ADVISE}")[1]
        assert expected in said if expected else "start" not in said, (change, said)
    assert submitted(lua, text)[0] == "25"  # soft limits are as before


@pytest.mark.parametrize("late", [901, -301])
def test_an_expected_start_that_is_old_or_from_the_future_is_not_said(late, lua):
    starts = [ExpectedStart("p", 16, 240, NOW + 4000, NOW + 9000, NOW - late)]
    for text in (table(starts=starts), table(starts=starts).replace("\tstart\t", "\tother\t")):
        assert "start" not in lua("cli_filter.lua", text, ADVISE)[1]


def test_a_start_whose_partition_cannot_stand_in_a_table_is_left_out():
    odd = ExpectedStart("p\tq", 4, 60, NOW, NOW, NOW)
    assert parse(table(starts=[odd]), "t", NOW).starts == ()
    with pytest.raises(ValueError, match="damaged"):
        parse(table(starts=[ExpectedStart("p", 4, 60, 1, 1, 1)]).replace("\tstart\t", "\tx\t"), "t", NOW)
    nobody = Row("*", "p", "4", 60, "f", 9, 9, 9, "m")
    assert parse(table(rows=[nobody]), "t", NOW).rows == {}


def test_both_plug_ins_take_fifty_milliseconds_at_most_with_five_thousand_rows(lua):
    rows = [Row(f"user{n % 300}", "p", "8", 240, f"job{n}", 25, 600, 9, "m@3") for n in range(5000)]
    starts = [ExpectedStart(f"p{n}", 16, 60, NOW + 900, NOW + 900, NOW) for n in range(200)]
    text = table(rows=[*rows, ROWS[0]], starts=[*starts, ExpectedStart("p", 16, 60, NOW, NOW, NOW)])
    clock = "local t = os.clock() {} print(math.floor(1000 * (os.clock() - t)))"
    submit, _ = lua("job_submit.lua", text, clock.format("slurm_job_submit(job, {}, 1)"))
    advise, said = lua("cli_filter.lua", text, clock.format("slurm_cli_pre_submit(options) slurm_cli_post_submit(0)"))
    assert "start expected now" in said and int(submit) <= 50 and int(advise) <= 50, (submit, advise)


def test_lua_and_python_find_the_same_rows(lua):
    lines, expected = [], []
    found = parse(table(), "t", NOW)
    for user in ("eve", "bob", "eve\t"):
        for partition in ("p", "q"):
            for procs, limit, name in ((8, 240, "fit"), (8, 240, "other"), (4, 60, "near"), (1, 60, "x"), (1, 61, "x")):
                row = found.find(user, partition, procs, limit, name)
                expected.append(row.minutes if row is not None and row.minutes < limit else None)
                lines.append(
                    f"job = {{ user_name = {json.dumps(user)}, partition = '{partition}', min_cpus = {procs}, "
                    f"time_limit = {limit}, name = '{name}' }} slurm_job_submit(job, {{}}, 1) print(job.time_min)"
                )
    out, _ = lua("job_submit.lua", table(), "\n".join(lines))
    assert [None if one == "nil" else int(one) for one in out.splitlines()] == expected
    assert sum(one is not None for one in expected) > 5


# --- PBS: no server of it is to be had, so the hook runs beside a stand-in for the module `pbs` -----------------------


class Resources(dict):
    """A job's Resource_List: what is not set is None."""

    def __missing__(self, name):
        return None


class Duration(int):
    """pbs.duration: shown as hh:mm:ss."""

    def __str__(self):
        return f"{self // 3600:02d}:{self // 60 % 60:02d}:{self % 60:02d}"


class Accepted(SystemExit):
    """What event.accept() raises."""


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """Runs the hook for a job; returns its resources and the line of the log."""
    library = tmp_path / "library"
    library.mkdir()
    for name in ("soft_limit", "table"):
        (library / f"{name}.py").write_text((DEPLOY.parent / "predictors" / "schedulers" / f"{name}.py").read_text())
    config = {"table": str(tmp_path / "table"), "cluster": "t", "library": str(library), "soft_limits": {}}

    def run(text, event="QUEUEJOB", rules=None, variables=None, **resources):
        (tmp_path / "table").write_bytes(text if isinstance(text, bytes) else text.encode())
        (tmp_path / "config").write_text(json.dumps(config | {"soft_limits": rules or {}}))
        said = []

        def accept():
            raise Accepted

        job = types.SimpleNamespace(Resource_List=Resources(resources), queue="p", Job_Name="fit",
                                    Job_Owner="eve@node1", resv=None,
                                    Variable_List=Resources() if variables is None else variables)  # fmt: skip
        of = types.SimpleNamespace(job=job, requestor="eve", type=event, accept=accept)
        pbs = types.ModuleType("pbs")
        pbs.__dict__.update(
            QUEUEJOB="QUEUEJOB",
            RUNJOB="RUNJOB",
            LOG_DEBUG=0,
            event=lambda: of,
            duration=Duration,
            hook_config_filename=str(tmp_path / "config"),
            logmsg=lambda _, line: said.append(line),
        )
        monkeypatch.setitem(sys.modules, "pbs", pbs)
        monkeypatch.setattr(time, "time", lambda: NOW)
        with pytest.raises(Accepted):
            runpy.run_path(str(DEPLOY / "pbs" / "jobcast_soft_walltime.py"))
        return job.Resource_List, said[0]

    return run


JOB = {"walltime": Duration(4 * 3600), "select": "2:ncpus=4:mem=4gb"}


def test_the_hook_takes_the_adapters_decision(hook):
    found, said = hook(table(), **JOB)
    assert str(found["soft_walltime"]) == "00:25:00" and "soft limit of 25 min" in said
    assert str(hook(table(), rules={"pad_minutes": 30}, **JOB)[0]["soft_walltime"]) == "00:40:00"
    own = Resources()
    hook(table(), variables=own, **JOB)
    assert own == {"JOBCAST_SOFT_WALLTIME": "25"}  # at runjob it is known as ours
    earlier = Resources(JOBCAST_SOFT_WALLTIME="50")
    found, said = hook(table(), "RUNJOB", variables=earlier, soft_walltime=Duration(50 * 60), **JOB)
    assert str(found["soft_walltime"]) == "00:25:00" and "after 50" in said
    earlier = Resources(JOBCAST_SOFT_WALLTIME="50")
    for begins in (NOW + 9000, NOW - 60):  # one that has begun may be followed by a second
        given = table(reservation=begins)
        found, said = hook(given, "RUNJOB", variables=earlier, soft_walltime=Duration(50 * 60), **JOB)
        assert found["soft_walltime"] is None and "reservation" in said  # cleared
        assert hook(given, **JOB)[0] == JOB
    for variables in (None, earlier):  # a manager's own, from the beginning or instead of ours
        managers = JOB | {"soft_walltime": Duration(70 * 60)}
        assert hook(table(reservation=NOW + 9000), "RUNJOB", variables=variables, **managers)[0] == managers
    for change in ({"walltime": None}, {"soft_walltime": Duration(600)}, {"min_walltime": Duration(60)}):
        given = JOB | change
        assert hook(table(), **given)[0] == given
    assert "user" in hook(table(), rules={"without_users": ["eve"]}, **JOB)[1]


@pytest.mark.parametrize("how", [one for one in BAD if BAD[one] is not None and one != "near a reservation"])
def test_the_hook_accepts_every_job_with_a_table_that_is_none(how, hook):
    found, said = hook(BAD[how], **JOB)
    assert found == JOB and "jobcast: " in said
    assert hook(table(), rules={"no_such_rule": 1}, **JOB)[0] == JOB
