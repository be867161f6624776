"""How a real Slurm 26.05 behaves beside soft limits: what the adapter's rules and the how-to page rest on.

`make test-slurm` runs these tests. Where a later version behaves otherwise, one fails, and its rule can go. More stand
in `test_real_slurm.py` and `test_real_accounting.py`.
"""

import subprocess
import time

import pytest

from predictors.schedulers.slurm import Slurm
from tests.predictors.schedulers.conftest import Forecasts
from tests.predictors.schedulers.test_real_slurm import BF, beside, seconds, slurm
from tests.support.waiting import until

__all__ = ["slurm"]

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SOFT = f"time_min_as_soft_limit,{BF}"
ONE_NODE = ("-w", "n1", "-N1")


@pytest.mark.parametrize("more", ["", ",bf_running_job_reserve"])
def test_finding_a_soft_end_that_has_passed_becomes_half_of_what_is_left(more, slurm):
    """The start that is planned behind a running job: its soft end first, then now + half the rest, ever anew.

    bf_running_job_reserve, which earlier versions needed, makes no difference.
    """
    cluster = slurm(speed=60, parameters=SOFT + more)
    running = cluster.submit(*ONE_NODE, "-n8", "-t", 60, "--time-min=5", seconds=60)
    cluster.wait_for(running, "RUNNING")
    start, hard = map(seconds, cluster.show(running, "StartTime", "EndTime"))
    head = cluster.submit(*ONE_NODE, "-n8", "-t", 60)
    assert hard - start == 3600 and cluster.show(running, "TimeLimit", "TimeMin") == ["01:00:00", "00:05:00"]

    def planned():
        told = cluster.show(head, "StartTime")
        return None if told == "Unknown" else seconds(told) - start

    end, seen = time.monotonic() + 20, []
    while time.monotonic() < end and (not seen or seen[-1][0] < 1200):
        now, plan = Slurm().config().now - start, planned()
        if plan is not None:
            seen.append((now, plan))
        time.sleep(0.2)
    before = [plan for now, plan in seen if now < 240]
    after = [(now, plan) for now, plan in seen if now > 480]
    assert before and max(abs(plan - 300) for plan in before) <= 60  # whole minutes, bf_resolution
    assert len(after) > 5
    for now, plan in after:  # planned at the last cycle, some seconds ago
        assert abs(plan - (now + (3600 - now) / 2)) <= 150, (now, plan)
    assert after[-1][1] > after[0][1]


def test_finding_before_25_05_running_jobs_are_planned_by_their_hard_limit(slurm):
    """Of which the adapter warns: the option is there, and waiting jobs alone are planned by soft limits."""
    cluster = slurm("24.11", speed=60, parameters=SOFT)
    running = cluster.submit(*ONE_NODE, "-n8", "-t", 60, "--time-min=5", seconds=60)
    cluster.wait_for(running, "RUNNING")
    head = cluster.submit(*ONE_NODE, "-n8", "-t", 60)
    until(lambda: cluster.show(head, "StartTime") != "Unknown", 20)
    planned, hard = seconds(cluster.show(head, "StartTime")), seconds(cluster.show(running, "EndTime"))
    assert abs(planned - hard) <= 60


def test_finding_a_soft_limit_lets_a_job_begin_that_its_deadline_forbids(slurm):
    """It fits by its soft limit, and its hard one, which alone ends it, lies behind the deadline."""
    cluster = slurm()
    words = ("sbatch", "--parsable", "-D", f"{cluster.place}/jobs", "-o", "/dev/null", "-n1", "-t", "10")
    words += ("--deadline=now+4minutes", "--wrap", "exec sleep 60")
    assert "error" in cluster.run(*words, user="alice", check=False)  # without a soft limit it is refused
    job = int(cluster.run(*words, "--time-min=2", user="alice"))
    cluster.wait_for(job, "RUNNING")
    end, deadline = map(seconds, cluster.show(job, "EndTime", "Deadline"))
    assert end - deadline >= 300


def test_finding_the_option_taken_away_first_ends_jobs_at_their_soft_limit(slurm):
    """The dangerous order of rolling back: the soft limit was harmless when it was set, and lowers the hard one now."""
    cluster = slurm(speed=60, parameters=SOFT)
    blocker = cluster.submit(*ONE_NODE, "-n4", "-t", 60, seconds=60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit(*ONE_NODE, "-n8", "-t", 200, "--hold", seconds=60)
    cluster.run("scontrol", "update", f"JobId={job}", "TimeMin=10")
    cluster.configure(BF)
    cluster.run("scontrol", "reconfigure")
    alone = cluster.submit("-w", "n2", "-N1", "-n1", "-t", 200, "--time-min=10")
    cluster.wait_for(alone, "RUNNING")
    assert cluster.show(alone, "TimeLimit") == "03:20:00"  # nobody else wants its node
    cluster.submit(*ONE_NODE, "-n8", "-t", 60)  # the head, before which it may be backfilled
    cluster.run("scontrol", "update", f"JobId={job}", "NumCPUs=4", "NumTasks=4")
    cluster.run("scontrol", "release", str(job))
    cluster.wait_for(job, "RUNNING")
    hours, minutes, _ = map(int, cluster.show(job, "TimeLimit").split(":"))
    assert hours * 60 + minutes < 120


def test_finding_which_values_of_time_min_slurm_takes(slurm):
    """Seconds are rounded up to minutes; a user's own may not exceed his limit; without a limit any will do."""
    cluster = slurm()
    blocker = cluster.submit("-N4", "-n32", "-t", 60)
    cluster.wait_for(blocker, "RUNNING")
    job = cluster.submit("-n1", "-t", 60)
    for given, shown in (("0:30", "00:01:00"), ("1:29", "00:02:00"), ("60", "01:00:00")):
        assert cluster.run("scontrol", "update", f"JobId={job}", f"TimeMin={given}") == ""
        assert cluster.show(job, "TimeMin", "TimeLimit") == [shown, "01:00:00"]
    for given in ("UNLIMITED", "61"):
        assert cluster.run("scontrol", "update", f"JobId={job}", f"TimeMin={given}", check=False) != ""
        assert cluster.show(job, "TimeMin") == "01:00:00"
    longer = cluster.run("sbatch", "-t", "10", "--time-min=11", "--wrap", "true", user="alice", check=False)
    assert "error" in longer
    free = cluster.submit("-n1", "--time-min=5")
    assert cluster.show(free, "TimeMin", "TimeLimit") == ["00:05:00", "UNLIMITED"]
    ended = cluster.submit("-n1", "--hold", "-t", 10)
    cluster.run("scancel", str(ended))
    refused = cluster.run("scontrol", "update", f"JobId={ended}", "TimeMin=5", check=False)
    assert refused != ""


def test_finding_a_signal_before_the_end_keeps_to_the_hard_limit(slurm):
    cluster = slurm(speed=60, parameters=SOFT)
    script = "trap 'exit 0' USR1; sleep 30 & wait"
    words = ["sbatch", "--parsable", "-D", f"{cluster.place}/jobs", "-o", "/dev/null", "-n1", "-t", "4", "--time-min=1"]
    job = int(cluster.run(*words, "--signal=B:USR1@60", "--wrap", script, user="alice"))
    cluster.wait_for(job, "COMPLETED", 30)
    start, end = map(seconds, cluster.show(job, "StartTime", "EndTime"))
    assert 110 <= end - start <= 260  # four minutes less one, looked at every half a minute


def test_finding_a_job_that_starts_at_once_is_reached_at_submission_alone(slurm, tmp_path):
    cluster = slurm()
    job = cluster.submit("-n1", "-t", 60)
    own = cluster.submit("-n1", "-t", 60, "--time-min=5")  # as job_submit.lua would
    cluster.wait_for(job, "RUNNING"), cluster.wait_for(own, "RUNNING")
    with beside(tmp_path / "j", Forecasts()) as one:
        assert one.cycle().changed == {}
    assert [cluster.show(one, "TimeMin") for one in (job, own)] == ["N/A", "00:05:00"]


def test_finding_what_a_broken_plug_in_does(slurm):
    """job_submit.lua breaks while slurmctld runs: the script before is used, until it is reconfigured: then it ends.

    scontrol has status 0 all the same (slurmctld -D). With a cli_filter.lua that is broken, or gone, no sbatch works.
    """
    cluster = slurm(more="JobSubmitPlugins=lua\nCliFilterPlugins=lua", up=False)
    done = "  return slurm.SUCCESS\nend\n"
    heads = ("setup_defaults(options, early)", "pre_submit(options, offset)", "post_submit(offset, job, step)")
    good = {
        "job_submit": f"function slurm_job_submit(job, parts, uid)\n  job.time_min = 7\n{done}"
        f"function slurm_job_modify(job, record, parts, uid)\n{done}",
        "cli_filter": "".join(f"function slurm_cli_{head}\n{done}" for head in heads),
    }
    for name, text in good.items():
        (cluster.home / f"{name}.lua").write_text(text)
    cluster.up()
    submit = ("sbatch", "--parsable", "-o", "/dev/null", "-D", f"{cluster.place}/jobs", "-t", "60", "--wrap", "true")
    assert cluster.show(int(cluster.run(*submit, user="alice")), "TimeMin") == "00:07:00"
    (cluster.home / "job_submit.lua").write_text("function (\n")
    assert cluster.show(int(cluster.run(*submit, user="alice")), "TimeMin") == "00:07:00"
    assert cluster.run("scontrol", "reconfigure") == ""
    until(lambda: not cluster.is_running("slurmctld"), 15)
    (cluster.home / "job_submit.lua").write_text(good["job_submit"])
    cluster.up()
    for broken in ("function (\n", None):
        (cluster.home / "cli_filter.lua").unlink()
        if broken is not None:
            (cluster.home / "cli_filter.lua").write_text(broken)
        words = ["chroot", str(cluster.root), "/usr/bin/env", "-i", "PATH=/usr/bin:/bin",
                 f"SLURM_CONF={cluster.place}/slurm.conf", *submit]  # fmt: skip
        assert subprocess.run(words, capture_output=True).returncode != 0
        (cluster.home / "cli_filter.lua").write_text(good["cli_filter"])
    cluster.run(*submit, user="alice")
