"""What-ifs whose answers are known: twice the nodes, a limit, a weight that swaps two users, nothing at all."""

import json
from pathlib import Path

import pytest

from experiments.site.grade.kept import caution_of, keep_grade, kept_grade, place_of
from experiments.site.whatif.changes import changed
from jobcast import JobcastError
from predictors.data.slurm.site import read_site
from schedsim.machine.slurm_nodes import machine_of
from tests.support.commands import invoke, printed
from tests.support.slurm.site_folder import CONF, QOS, SHOWN, site_folder

HOUR = 3600
PLAIN = CONF.replace("State=DRAIN", "").replace("PriorityWeightFairshare=1000\n", "")


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Import a site with some jobs, graded B."""
    monkeypatch.chdir(tmp_path)

    def made(rows, grade="B", **texts):
        qos = QOS.replace("|8|", "||")
        texts = {"slurm_conf": PLAIN, "qos_txt": qos, "reservations_txt": None, "nodes_txt": None} | texts
        folder = site_folder(tmp_path / "big", rows, **texts)
        printed("site", "import", folder)
        if grade:
            keep_grade(tmp_path / "big.site", grade, "partition gpu", "QOS: sacctmgr show qos", tmp_path / "page")
        return tmp_path / "big.site"

    return made


def asked(*words):
    found = json.loads(printed("site", "whatif", "big.site", "--json", *words))
    return found, {row["group"]: row for row in found["tables"]["by group"]}


def waves(n_waves=3, n_jobs=20, **about):
    """Return waves of jobs of an hour, which fill a node each; the ten nodes run a wave in two turns."""
    about = {"run": HOUR, "limit": HOUR, "procs": 8} | about
    return [{"submit": 86_400 * wave + number, **about} for wave in range(n_waves) for number in range(n_jobs)]


def test_with_twice_the_nodes_no_job_waits_for_the_first_half(make):
    make(waves())
    found, groups = asked("--nodes", "n+8", "--nodes", "g+2")
    row = groups["all jobs"]
    assert row["before_s"] == pytest.approx(HOUR / 2, abs=90) and row["holds"] == "yes"
    assert row["change_s"] == pytest.approx(-HOUR / 2, abs=90), "only the clock of the loops is waited for"
    assert found["caution"] == "" and "wait" in found["sentence"] and "shorter" not in found["sentence"]
    assert "data:image" in Path(found["page"]).read_text()


def test_nothing_changed_is_no_difference(make):
    make(waves())
    found, groups = asked("--set", "bf_interval=30")
    assert groups["all jobs"]["holds"] == "no" and groups["all jobs"]["change_s"] is None
    assert "no difference that the twin can tell" in found["sentence"]


def test_a_limit_sends_jobs_away_and_the_others_wait_less(make):
    """Jobs of three hours of limit are refused under a limit of two; those of an hour then have the machine."""
    make(waves(n_jobs=10, limit=3 * HOUR, user="bob") + waves(n_jobs=10))
    found, groups = asked("--set", "batch.MaxTime=2:00:00")
    gone = "30 jobs with 50.0 % of the work are gone, as their partition would not take them or no node fits them; the"
    assert f"{gone} others wait" in found["sentence"]
    assert groups["all jobs"]["jobs"] == 30 and groups["all jobs"]["after_s"] < 60


def test_weights_of_two_accounts_swap_their_users(make):
    """Ann and cy submit twenty jobs each onto ten nodes: ten of ann's start, then twenty of cy's before her others."""
    qos = "Name|Priority|MaxJobsPU|Flags\nlow|1||\nhigh|9||\n"
    rows = waves(qos="low") + waves(user="cy", account="chem", qos="high")
    for row in rows[60:]:
        row["submit"] += 30
    conf = PLAIN + "PriorityWeightQOS=0\n"
    make(rows, slurm_conf=conf, qos_txt=qos)
    found, groups = asked("--set", "PriorityWeightQOS=100000")
    ann, cy = groups["account phys"], groups["account chem"]
    assert ann["change_s"] == pytest.approx(HOUR, rel=0.1) and cy["change_s"] == pytest.approx(-HOUR, rel=0.1)
    assert "shorter: account chem" in found["sentence"] and "longer: account phys" in found["sentence"]
    assert groups["all jobs"]["holds"] == "no" or abs(groups["all jobs"]["change_s"]) < 120


def test_maintenance_and_fewer_nodes_make_jobs_wait(make):
    make(waves())
    _, groups = asked("--drain", "n[1-8],g[1-2] 2026-01-02T00:00..02:00")
    assert groups["all jobs"]["change_s"] == pytest.approx(2 * HOUR / 3, rel=0.05), "a wave of three waits for it"
    found, groups = asked("--nodes", "n-6")
    assert groups["all jobs"]["change_s"] > HOUR and "longer" not in found["sentence"].partition("mean")[0]


def test_the_smallest_number_that_meets_a_target_is_found(make):
    make(waves())
    found, _ = asked("--nodes", "n+?", "--target", "mean_wait=2m")
    assert found["sentence"].startswith("10 is the smallest number tried for a mean wait at most 2 min")
    tried = {row["number"]: row["target"] for row in found["tables"]["search"]}
    assert tried[9] == "missed" and tried[10] == "met"
    found, _ = asked("--nodes", "n+?", "--set", "QOS:normal.MaxJobsPU=1", "--target", "mean_wait=1m")
    assert found["sentence"].startswith("Target missed: with up to 32 the mean wait is")


def test_another_policy_and_soft_limits_are_compared_too(make):
    make(waves())
    found, _ = asked("--policy", "fcfs")
    assert "policy fcfs" in found["sentence"]
    found, _ = asked("--soft-limits", "slurm", "--estimates", "last-two")
    assert "estimates last-two, soft limits slurm" in found["sentence"]


def test_nodes_come_and_go_wherever_the_texts_name_them(make):
    shown = SHOWN.replace("Partitions=batch", "Partitions=batch,gpu")
    site = read_site(make([{}], nodes_txt=shown))

    def words(*nodes):
        return machine_of(changed(site, "big.site", (), nodes, ()), "big.site").machine.words

    more = words("g+2")
    assert "; g[1-4]: count 4, processors 8, gpus 2, gpu_type v100, memory_gb 16.0, partitions batch gpu, " in more
    assert "features v100, weight 20, switch s2;" in more
    assert words("n[1-8]+1").count("n[1-8]") == 1 and "n9: count 1" in words("n+1") and "switch s1" in words("n+1")
    fewer = words("n-8")
    assert "n" not in fewer.partition(":")[0] and words("n8+1", "n-1") == words()
    assert "g1: count 1" in words("g-1") and "n1" not in words("n-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "+1"), "is no one kind of node; write KIND+8"),
        (("--nodes", "n-9"), "takes more than 8 such nodes"),
        (("--nodes", "eight"), "--nodes is +8, KIND+8 or KIND-4"),
        (("--drain", "n1 2030-01-01..02"), "its time lies outside the log's"),
        (("--drain", "z1 2026-01-01..02"), "has no node 'z1'"),
        (("--drain", "n1 soon"), 'is "HOSTS FROM..UNTIL"'),
        (("--set", "bf_intervall=1"), "--set: the twin knows no parameter 'bf_intervall'; near: bf_interval"),
        (("--set", "PriorityWeightAge=x"), "--set: PriorityWeightAge is a whole number"),
        (("--set", "batch.Foo=1"), "the twin knows no parameter of partitions 'foo'"),
        (("--set", "bach.MaxTime=1"), "knows no partition 'bach'; near: batch"),
        (("--set", "QOS:gold.MaxWall=1"), "knows no qos 'gold'; near: normal"),
        (("--set", "QOS:normal.MaxWal=1"), "no parameter of qos 'maxwal'; near: maxwall"),
        (("--set", "a"), "--set is NAME=VALUE"),
        (("--nodes", "n+?"), "--target goes with one number of nodes"),
        (("--nodes", "n-?", "--target", "mean_wait=1h"), "--target goes with one number of nodes"),
        (("--nodes", "n+?", "--target", "mean=1h"), "did you mean 'mean_wait'"),
        ((), "Name a change"),
    ],
)
def test_what_cannot_be_changed_is_refused_in_a_line(make, words, message):
    make([{}] * 3)
    error = invoke("site", "whatif", "big.site", *words).exception
    assert isinstance(error, JobcastError) and message in str(error) and "\n" not in str(error)


def test_without_accounts_their_weights_do_not_count(make):
    make([{}], site_dump=None, qos_txt=None)
    error = invoke("site whatif big.site --set PriorityWeightFairshare=5").exception
    assert "counts with accounts alone" in str(error)


@pytest.mark.parametrize("command", ["site whatif big.site --set bf_interval=60", "advise --site big.site --seeds 5",
                                     "backtest --site big.site --predictor last-two --seeds 5"])  # fmt: skip
def test_figures_need_a_b_or_are_asked_for(make, command):
    path = make(waves(2), grade="")
    assert "is not graded as the file is now; figures need A or B: run jobcast site grade big.site" in str(
        invoke(command).exception
    )
    keep_grade(path, "C", "partition gpu", "QOS: sacctmgr show qos", path.with_name("page"))
    assert "the grade of its twin is C, worst partition gpu; figures need A or B: see" in str(invoke(command).exception)
    found = json.loads(printed(f"{command} --ungraded --json"))
    assert "only A or B allows figures" in Path(found["page"]).read_text()


def test_a_grade_is_kept_for_the_file_as_it_is(make):
    path = make([{}], grade="A")
    assert kept_grade(path).grade == "A" and caution_of(path, False) == ""
    path.write_text(path.read_text() + "\n# changed\n")
    assert kept_grade(path) is None
    for text, words in (("{}", "cannot be read"), ("[", "cannot be read"), ("", "cannot be read")):
        place_of(path).write_text(text)
        with pytest.raises(JobcastError, match=words):
            kept_grade(path)


def test_a_site_of_one_kind_needs_no_name_of_it_and_one_without_nodes_processors(make):
    nodes = "NodeName=n[1-8] CPUs=8 RealMemory=16384\n"
    conf = PLAIN.replace("n[1-8],gpus", "n[1-8]").partition("PartitionName=gpu")[0].replace("TopologyPlugin=", "#")
    texts = {"nodes_conf": nodes, "slurm_conf": conf, "gres_conf": None, "topology_conf": None}
    site = read_site(make(waves(), **texts))
    assert machine_of(changed(site, "big.site", (), ("+8",), ()), "big.site").machine.words.startswith("n[1-16]:")
    make(waves(), **texts | {"nodes_conf": "PriorityMaxAge=1-0\n", "slurm_conf": conf.replace(" Nodes=n[1-8]", "")})
    _, groups = asked("--procs", "80", "--policy", "fcfs")
    assert groups["all jobs"]["before_s"] == pytest.approx(HOUR / 2, abs=90)
    error = invoke("site whatif big.site --procs 80 --nodes +1").exception
    assert "its slurm.conf names no nodes" in str(error)
