"""Control jobs on a real Slurm 26.05 with accounts: submitted, run on its nodes, and made into rows."""

import time

import pytest

from predictors.data.runs import read_runs
from tests.predictors.probes.test_campaign import control_file, jobcast, until
from tests.predictors.schedulers.test_real_slurm import slurm

__all__ = ["slurm"]

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_control_jobs_run_on_a_real_slurm_and_become_rows(slurm):
    """The nodes are Slurm's own. The chroot has neither Python nor MPI: that the probes fail is said, and rows stay."""
    cluster = slurm(accounting=True)
    folder = cluster.shared_folder() / "control"
    folder.mkdir()
    before, command = time.time(), "srun --ntasks=2 --nodes=2 hostname && sleep 1 && echo Solve time: 1.5"
    path = control_file(folder, apps=("AMG", "LBANN"), command=command)
    out, err, code = jobcast("control", path, "--once")
    assert code == 0, out + err
    assert "probes failed" in out + err
    runs, _ = read_runs(folder / "runs.csv", strict=True)
    assert sorted(runs.application.tolist()) == ["AMG", "LBANN"] and runs.region_time.tolist() == [1.5, 1.5]
    shown = cluster.run("sacct", "-n", "-X", "-P", "-a", "-o", "JobIDRaw,NNodes,State,JobName,Start,End")
    told = {row.split("|")[0]: row.split("|")[1:4] for row in shown.splitlines()}
    for row, job in enumerate(runs.job_id.tolist()):
        assert told[str(job)] == ["2", "COMPLETED", f"jobcast-{runs.application[row]}"]
        assert len(set(runs.nodes(row).tolist())) == 2 and set(runs.nodes(row).tolist()) <= {1, 2, 3, 4}
        assert before <= runs.start[row] <= runs.end[row] - 1 and runs.end[row] <= time.time()


def test_what_fails_or_is_cancelled_on_a_real_slurm_gives_no_row(slurm):
    cluster = slurm(accounting=True, more="MinJobAge=2")
    folder = cluster.shared_folder() / "control"
    folder.mkdir()
    path = control_file(folder, apps=("AMG",), command="echo broken; exit 3")
    out, err, _ = jobcast("control", path, "--once")
    assert "AMG ended with status 3; its last line: broken" in " ".join((out + err).split()), out + err
    path = control_file(folder, apps=("AMG",), command="sleep 60")
    process = jobcast("control", path, "--once", wait=False)
    until(lambda: cluster.run("squeue", "-h", "-t", "running"))
    (job,) = cluster.run("squeue", "-h", "-t", "running", "-o", "%i").split()
    cluster.run("scancel", job)
    out, err = process.communicate(timeout=60)
    assert "Slurm says CANCELLED" in " ".join((out + err).split()), out + err
    assert not (folder / "runs.csv").exists()
