"""Grades of twins that are planted: right, too long, wrong for a group, on too few weeks or jobs; and a whole run."""

import json

import numpy as np
import pytest

from experiments.runs.policies import NamedPolicy, demands_by, machine_at
from experiments.runs.simulate import NamedSimulation, ready_for
from experiments.site.grade.grade import Graded, Grading
from experiments.site.grade.grades import criteria, refusals
from experiments.site.grade.kept import kept_grade
from experiments.site.grade.report import sentences
from experiments.site.grade.sides import Side, shaken_slightly
from experiments.site.grade.statistics import WEEK
from experiments.site.inventory.gaps import lacking_partitions
from jobcast import JobcastError, JobLog, Workload
from predictors.data.formats.detect import read_log
from predictors.data.slurm.conf import SlurmConf
from predictors.data.slurm.site import Site, Source
from schedsim.machine.outage_files import read_outages
from schedsim.sites.slurm.files import SlurmFiles
from tests.support.commands import invoke, printed
from tests.support.slurm.site_folder import CONF, RESERVATIONS, sacct, site_folder

FILES = SlurmFiles(SlurmConf.of_lines("slurm.conf", [("slurm.conf:1", "ClusterName=big")]), None)


def planted(change=lambda twin, gpu: twin, n=4000, weeks=14, procs=4000, files=FILES, lacking=(), lost=0, more=None):
    """Return the grade of a twin that `change` makes of the logged waits, which it gets with who asks for GPUs."""
    random = np.random.default_rng(7)
    submit = np.sort(random.integers(0, weeks * WEEK, n))
    submit[0], submit[-1] = 0, weeks * WEEK - 1
    level = 1 + np.arange(n) * weeks // n % 5
    wait = np.rint(random.lognormal(8, 0.7, n) * level)
    columns = {
        "job_id": np.arange(n), "submit": submit, "wait": wait.astype(int), "run_time": random.integers(600, 20_000, n),
        "requested_time": np.full(n, 30_000), "requested_procs": random.choice([4, 16, 64], n),
        "user": random.integers(0, 9, n), "partition": random.choice([0, 1], n, p=[0.8, 0.2]),
    }  # fmt: skip
    columns |= {} if more is None else more(columns)
    log = JobLog.from_columns(columns, {}, max_procs=procs, categories={"partition": ("batch", "gpu")})
    side = Side(Site("big"), "big.site", files, None, NamedPolicy.of("easy"))
    asked = Grading(ready_for(None, log), side, lacking=lacking, lost=lost)
    noise = [wait * random.normal(1, 0.02, n) for _ in range(11)]
    twin = change(noise.pop(), columns["partition"] == 1)
    others = {"easy": wait * random.normal(1.4, 0.3, n), "conservative-replan": wait * random.normal(1.2, 0.3, n)}
    logged = columns["wait"].astype(float)
    return Graded(asked, np.where(logged < 0, np.nan, logged), twin, others, noise)


def test_a_right_twin_has_an_a():
    found = planted()
    figures = found.figures
    assert found.grade == "A" and figures.agreement.value > 0.99 and abs(figures.ratio.value - 1) < 0.01
    assert figures.blocks == 12 and figures.correlation > 0.95 and figures.spread.ratio < 0.01
    assert figures.better_than == {"easy": True, "conservative-replan": True}
    assert {one.name.split()[-1] for one in figures.groups} >= {"batch", "gpu", "users"} and figures.unread == 0
    assert all(one.holds for one in criteria(figures))
    assert sum(one.jobs for one in figures.groups if one.name.startswith("width")) == figures.jobs


def test_one_that_is_15_percent_long_shows_directions():
    found = planted(lambda twin, gpu: 1.15 * twin)
    assert found.grade == "C" and found.figures.ratio.value == pytest.approx(1.15, abs=0.01)
    assert [one.text for one in criteria(found.figures) if one.grade == "B" and not one.holds] == [
        "interval of P / P_S above 0.5"
    ]


def test_one_with_a_quarter_of_its_waits_half_too_long_is_a_b():
    assert planted(lambda twin, gpu: np.where(np.arange(len(twin)) % 4, twin, 1.5 * twin)).grade == "B"


def test_one_that_is_wrong_for_a_group_names_it():
    found = planted(lambda twin, gpu: np.where(gpu, 1.5 * twin, twin))
    worst = found.figures.worst
    assert found.grade == "C" and worst.name == "partition gpu" and worst.error_share > 0.8
    assert "Worst group: partition gpu" in " ".join(sentences(found, "nothing"))


def some_unknown(name, known=-1):
    """Return a maker of a column that every tenth job has otherwise than the rest."""
    return lambda columns: {name: np.where(np.arange(len(columns["job_id"])) % 10, columns.get(name, -1), known)}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"weeks": 9}, "7 blocks of weeks behind the warm-up, and 8 are needed"),
        ({"n": 400}, "jobs that waited, and 500 are needed"),
        ({"procs": 64}, "the logged load is"),
        ({"lacking": ("gpu",)}, "of the work is unread or under rules that the twin lacks"),
        ({"lost": 400}, "9.1 % of the work is unread"),
        ({"more": some_unknown("wait")}, "% of the work is unread"),
        ({"more": some_unknown("licenses", 0)}, "% of the work is unread"),
        ({"change": lambda twin, gpu: 3 * twin}, "R within 1 ± 0.50 does not hold"),
        ({"change": lambda twin, gpu: twin[::-1]}, "ρ at least 0.4 does not hold"),
        ({"change": lambda twin, gpu: 0 * twin + 9}, "ρ at least 0.4 does not hold, unknown"),
    ],
)
def test_others_are_refused_with_the_reason(given, words):
    found = planted(**given)
    assert found.grade == "refused" and words in sentences(found, "nothing")[0]
    assert not refusals(found.figures) or words in "; ".join(refusals(found.figures))


def test_a_group_that_waits_in_the_twin_alone_is_the_worst():
    gone = planted(more=lambda columns: {"wait": np.where(columns["partition"] == 1, 0, columns["wait"])})
    found = gone.figures
    assert found.worst.name == "partition gpu" and gone.grade == "C" and np.isnan(found.worst.ratio.value)
    assert "Worst group: partition gpu, which waits in the twin alone; it has 94 %" in " ".join(sentences(gone, ""))


def test_rules_on_who_may_come_into_a_partition_lack_nothing_in_the_log_of_those_that_came():
    text = "PartitionName=a AllowGroups=x State=DOWN MaxCPUsPerNode=UNLIMITED\nPartitionName=b OverSubscribe=FORCE:2"
    assert lacking_partitions(Site("big", (Source("slurm.conf", "slurm.conf", text),))) == ("b",)


def test_without_a_slurm_conf_there_is_no_grade():
    assert planted(files=None).grade == "ungraded"


def test_shakes_move_by_a_second_and_change_the_phase_of_the_backfill_clock():
    log = JobLog.from_columns({"job_id": np.arange(50), "submit": 100 * np.arange(50)}, {})
    phases = set()
    for seed in range(1, 11):
        moved = shaken_slightly(log, seed, 30)
        own = moved.values["submit"] + moved.origin
        assert set((own - log.values["submit"])[1:].tolist()) == {-1, 0, 1}
        phases.add(-int(own[0]) // 3)
    assert shaken_slightly(log, 0, 30) is log and len(phases) > 4


def busy_jobs(n=1500, weeks=11, load=0.85):
    """Return jobs that wait on the site's 80 processors."""
    random = np.random.default_rng(5)
    nodes = random.choice([1, 2, 4, 6], n, p=[0.5, 0.3, 0.15, 0.05])
    run = random.exponential(1, n)
    run = np.clip(run * load * 10 * weeks * WEEK / (nodes * run).sum(), 60, 80_000).astype(int)
    limit = np.minimum(86_400, 60 * (run * random.uniform(1.05, 4, n) // 60 + 1)).astype(int)
    rows = zip(
        np.sort(random.integers(0, weeks * WEEK, n)), run, limit, nodes, random.choice(["ann", "bob"], n), strict=True
    )
    return [{"submit": int(s), "run": int(r), "limit": int(t), "nodes": int(k), "procs": 8 * int(k), "user": str(u)}
            for s, r, t, k, u in rows]  # fmt: skip


def test_the_log_of_a_twin_is_graded_a_by_the_command_and_goes_on_where_it_was(tmp_path, monkeypatch):
    """With a reservation, and jobs that are eligible some time after their submission."""
    monkeypatch.chdir(tmp_path)
    rows, conf = busy_jobs(), CONF.replace("State=DRAIN", "").replace("PriorityWeightFairshare=1000\n", "")
    maintenance = RESERVATIONS.replace("2026-01-01", "2026-02-05").replace("T10:", "T22:")
    folder = site_folder(tmp_path / "big", rows, slurm_conf=conf, reservations_txt=maintenance, nodes_txt=None)
    printed("site import big")
    named, machine = NamedPolicy.of("slurm:big.site"), machine_at("big.site")
    used = ready_for(machine, read_log(folder / "jobs.txt")[0], sites=(named.files,)).used
    workload = Workload.from_log(used, demands_by(named.files, used, machine)[1])
    outages = read_outages("big.site", 0, used.epoch)
    schedule, _ = NamedSimulation(used, named, workload=workload, outages=outages).run()
    for number, (row, wait) in enumerate(zip(rows, schedule.wait.tolist(), strict=True)):
        held = 300 * (number % 3 == 0)
        row |= {"wait": wait + held, "held": held, "submit": row["submit"] - held}
    (folder / "jobs.txt").write_text(sacct(rows))
    printed("site import big")
    (folder / "jobs.txt").write_text(sacct([*rows, rows[-1] | {"partition": "removed"}]))
    printed("site import big")
    found = json.loads(printed("site grade big.site --json"))
    assert [one["count"] for one in found["account"]["findings"] if one["rule"] == "removed-partition"] == [1]
    assert found["grade"] == "A" and found["sentence"].startswith("Grade A")
    assert kept_grade(tmp_path / "big.site").grade == "A", "what-ifs give figures now"
    figures = {row["figure"]: row for row in found["tables"]["figures"]}
    assert figures["M: mean error_s"]["value"] == 0 and figures["M_S_s"]["value"] > 0
    page = (tmp_path / "reports" / "grade-big" / "report.html").read_text()
    assert "Grade A" in page and "data:image" in page
    assert json.loads(printed("site grade big.site --json"))["tables"] == found["tables"]
    (tmp_path / "big" / "slurm.conf").unlink()
    for name in ("nodes.conf", "gres.conf", "topology.conf", "site.dump", "qos.txt", "reservations.txt"):
        (tmp_path / "big" / name).unlink()
    printed("site import big")
    assert json.loads(printed("site grade big.site --procs 80 --json"))["grade"] == "ungraded"


def test_a_log_without_waits_is_refused_in_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = "-dt {}.0 -e submit_batch_job | -sim-walltime 60 --uid=ann -n 8 -t 60 -p batch pseudo.job\n"
    site_folder(tmp_path / "big", jobs_txt="".join(map(line.format, range(9))), reservations_txt=None)
    printed("site import big")
    error = invoke("site grade big.site").exception
    assert isinstance(error, JobcastError) and "records no waits" in str(error)
