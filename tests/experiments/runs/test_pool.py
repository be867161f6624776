"""Workers: the same results from any number of them, killed ones replaced, and a clear line when it cannot go on."""

import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from types import SimpleNamespace

import cloudpickle
import distributed
import psutil
import pytest
from distributed import LocalCluster

from experiments.runs import clusters as hiring
from experiments.runs import pool as pool_module
from experiments.runs.pool import each
from experiments.sweeps import plan as sweep_plan
from experiments.sweeps.results import TIMES
from jobcast import Case, JobcastError, Pool, Sweep, generate_log, run_sweep
from predictors.data.formats.swf import write_swf
from tests.support.places import ROOT

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

needs_jobqueue = pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed")

LOG = generate_log(300, seed=3)
SWEEP = Sweep(
    cases=(Case("EASY", "easy"), Case("careful", "careful", "careful"), Case("last-two", "easy-sjbf", "last-two")),
    seeds=tuple(range(1, 13)),
    by=("size",),
)


@pytest.fixture(scope="module")
def alone():
    return run_sweep(SWEEP, [LOG])


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(sweep_plan, "LEAST", 1.0)


def same(found, alone):
    times = [name for name in TIMES if name in alone.runs]
    return found.runs.drop(columns=times).equals(alone.runs.drop(columns=times)) and found.groups.equals(alone.groups)


def own_workers():
    """Worker processes started by this process: those that a nanny watches over."""
    return {one.pid for one in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(one.cmdline())}


def test_workers_of_a_running_scheduler_give_the_same_table(scheduler, alone, small_batches):
    found = run_sweep(SWEEP, [LOG], pool=Pool(scheduler=scheduler.scheduler_address))
    assert same(found, alone)


@pytest.mark.slow
def test_a_killed_workers_work_is_done_again(alone, tmp_path, small_batches):
    """One of two started workers dies in the middle, and all that it was at or held is made again."""
    killed = []

    def kill():
        while not list(tmp_path.glob("parts/[!.]*.parquet")):
            time.sleep(0.01)
        killed.append(min(own_workers() - before))
        os.kill(killed[0], signal.SIGKILL)

    before = own_workers()
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    long = Sweep(cases=SWEEP.cases, seeds=tuple(range(1, 121)), by=("size",))
    found = run_sweep(long, [LOG], pool=Pool(workers=2), folder=tmp_path)
    thread.join()
    assert len(killed) == 1
    assert len(found.runs) == 3 * 121
    first = found.runs[found.runs["seed"].isin((-1, *SWEEP.seeds))].reset_index(drop=True)
    times = [name for name in TIMES if name in first]
    assert first.drop(columns=times).equals(alone.runs.drop(columns=times))
    assert own_workers() == before  # none is left behind


def always_dies(shared, number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.slow
def test_a_task_that_ends_every_worker_is_given_up_and_says_how_to_go_on():
    """The scheduler is started here, since the deaths allowed are its own setting; three workers, to wait for none."""
    with pytest.raises(JobcastError, match=r"A task ended three workers, .* give each more \(--memory"):
        list(each(always_dies, {"": None}, [("", k) for k in range(4)], Pool(workers=3)))


def asks_too_much(shared, number):
    raise MemoryError


def odd(shared, number):
    raise JobcastError(f"task {number} is odd.")


def test_errors_of_tasks_come_back_as_they_are(scheduler):
    pool = Pool(scheduler=scheduler.scheduler_address)
    with pytest.raises(JobcastError, match=r"task 0 is odd\."):
        list(each(odd, {"": None}, [("", 0)], pool))
    with pytest.raises(JobcastError, match=r"ran out of memory: .* now 1\.86 GiB"):
        list(each(asks_too_much, {"": None}, [("", 0)], pool))


def counts(shared, number):
    """Tell in which process this is, and how often a shared value was unpacked there."""
    return os.getpid(), Heavy.unpacked


class Heavy:
    """Counts in each process how often it was unpacked."""

    unpacked = 0

    def __setstate__(self, state):
        Heavy.unpacked += 1


def test_what_is_shared_travels_once_to_each_worker(scheduler):
    pool = Pool(scheduler=scheduler.scheduler_address)
    found = [told for _, told in each(counts, {"a": Heavy()}, [("a", k) for k in range(40)], pool)]
    for pid in {pid for pid, _ in found}:
        assert max(times for who, times in found if who == pid) <= 1


def compiles(shared, number):
    logging.getLogger("predictors.core.jit").info("compiling %s.%s", "easy", "run")
    time.sleep(0.5)
    return number


def test_what_a_worker_compiles_is_told_by_who_hired_it(scheduler, caplog):
    pool, logger = Pool(scheduler=scheduler.scheduler_address), logging.getLogger("predictors.core.jit")
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger.name):
            list(each(compiles, {"": None}, [("", 0)], pool))
    finally:
        logger.removeHandler(caplog.handler)
    assert "compiling easy.run" in caplog.messages


@pytest.mark.parametrize("what", ["numpy", "jobcast's source"])
def test_workers_of_other_versions_are_refused(scheduler, monkeypatch, what):
    theirs = pool_module.build()
    monkeypatch.setattr(pool_module, "build", lambda: theirs)
    told = {**theirs, what: "1.0"}
    monkeypatch.setattr(pool_module, "_versions_there", lambda client: {"tcp://a:1": told})
    with pytest.raises(JobcastError, match=rf"Worker tcp://a:1 has {what} 1\.0, here it is"):
        list(each(odd, {"": None}, [("", 0)], Pool(scheduler=scheduler.scheduler_address)))


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(hiring, "PATIENCE", 0.3)
    with pytest.raises(JobcastError, match=r"The scheduler at tcp://127\.0\.0\.1:9 does not answer"):
        run_sweep(SWEEP, [LOG], pool=Pool(scheduler="tcp://127.0.0.1:9"), folder=tmp_path)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_leaves_what_is_done(tmp_path, small_batches, monkeypatch):
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", protocol="tcp"
    )
    address = cluster.scheduler_address

    def close():
        while not list(tmp_path.glob("parts/[!.]*.parquet")):
            time.sleep(0.01)
        cluster.close()

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    long = Sweep(cases=SWEEP.cases, seeds=tuple(range(1, 121)))
    with pytest.raises(JobcastError, match=rf"{address} is gone\. [\d,]+ of 363 runs are kept"):
        run_sweep(long, [LOG], pool=Pool(scheduler=address), folder=tmp_path)
    thread.join()
    monkeypatch.undo()
    assert len(run_sweep(long, [LOG], folder=tmp_path).runs) == 363


def test_a_scheduler_without_workers_is_told(monkeypatch):
    monkeypatch.setattr(hiring, "ON_THE_WAY", 0.6)
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", protocol="tcp") as cluster,
        pytest.raises(JobcastError, match="has had no worker for 1 s; start some"),
    ):
        run_sweep(SWEEP, [LOG], pool=Pool(scheduler=cluster.scheduler_address))


def test_workers_with_too_little_memory_are_told_before_they_start():
    with pytest.raises(JobcastError, match=r"A worker has .* and these runs need about"):
        run_sweep(Sweep(cases=SWEEP.cases[:1]), [LOG], pool=Pool(workers=2, memory="300MB"))


HOARD = []


def hoards(shared, number):
    """Keep more than a worker may have before it is to rest, and less than it is killed for."""
    limit = distributed.get_worker().memory_manager.memory_limit
    while psutil.Process().memory_info().rss < 0.86 * limit:
        HOARD.append(os.urandom(2**20))
    return number


@pytest.mark.slow
def test_workers_that_have_no_memory_left_to_go_on_are_told(monkeypatch):
    monkeypatch.setattr(hiring, "ON_THE_WAY", 2.0)
    pool = Pool(workers=2, memory="400MB")
    with pytest.raises(JobcastError, match=r"No worker has memory left to go on with: .*\(--memory; now 381\.47 MiB\)"):
        list(each(hoards, {"": None}, [("", k) for k in range(6)], pool))


def malloc_threshold():
    return os.environ["MALLOC_TRIM_THRESHOLD_"]


def test_hired_workers_are_by_themselves_and_keep_freed_memory(monkeypatch):
    """Who reaches a scheduler can run code as its owner: on a shared machine that must not be just anybody.

    Dask's 64 KiB would have every run fetch its memory anew, a quarter of its time.
    """
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # of the user's choice, else
    with hiring.cluster_of(Pool(workers=1, memory="1GB"), 1) as cluster:
        assert cluster.client.scheduler.address.startswith("tls://127.0.0.1:")
        cluster.client.wait_for_workers(1, timeout=60)
        assert set(cluster.client.run(malloc_threshold).values()) == {str(128 << 20)}


SBATCH = """#!/bin/sh
cp "$1" {folder}/job.sh
sh {folder}/job.sh > {folder}/job.log 2>&1 &
echo "Submitted batch job 7"
"""


@needs_jobqueue
@pytest.mark.slow
def test_workers_are_asked_of_a_batch_system(tmp_path, monkeypatch, alone):
    """A stand-in for Slurm that starts what it is given: script, memory, walltime and keys are dask-jobqueue's."""
    for name, text in {"sbatch": SBATCH.format(folder=tmp_path), "scancel": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    pool = Pool(workers=1, queue="slurm", memory="2GB", walltime="00:10:00")
    found = run_sweep(SWEEP, [LOG], pool=pool)
    script = (tmp_path / "job.sh").read_text()
    assert "#SBATCH -t 00:10:00" in script
    assert "#SBATCH --mem=2G" in script
    assert "tls://" in script
    assert "export MALLOC_TRIM_THRESHOLD_=134217728\n" in script
    assert same(found, alone)
    assert not list(tmp_path.glob(".jobcast-*"))  # the keys are gone


@needs_jobqueue
def test_a_batch_system_that_is_not_there_or_refuses_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    pool = Pool(queue="slurm", memory="1GB")
    with pytest.raises(JobcastError, match="there is no command sbatch"):
        run_sweep(SWEEP, [LOG], pool=pool)
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho invalid partition specified >&2\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(JobcastError, match=r"slurm refuses to start workers: .*invalid partition"):
        run_sweep(SWEEP, [LOG], pool=pool)


def test_something_else_at_the_address_is_one_line(monkeypatch):
    """A web server takes the connection and answers in its own way: a client would wait for ever."""
    monkeypatch.setattr(hiring, "PATIENCE", 0.5)
    with socketserver.TCPServer(("127.0.0.1", 0), WebServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        with pytest.raises(JobcastError, match=rf"The scheduler at {address} does not answer"):
            run_sweep(SWEEP, [LOG], pool=Pool(scheduler=address))
        server.shutdown()
    with pytest.raises(JobcastError, match="is no address of a scheduler"):
        Pool(scheduler=f"ws://{address}")
    with pytest.raises(JobcastError, match="must be a size"):
        Pool(workers=2, memory="0")


class WebServer(socketserver.BaseRequestHandler):
    """Says what a web server says of a request that it does not understand."""

    def handle(self):
        """Answer."""
        self.request.sendall(b"HTTP/1.0 400 Bad Request\r\nServer: any\r\n\r\n<html>what?</html>")


def test_more_processes_than_a_machine_can_bear_are_refused():
    with pytest.raises(JobcastError, match=r"5,000 workers are too many for the .* of this machine"):
        list(each(odd, {"": None}, [("", k) for k in range(5000)], Pool(workers=5000)))


@needs_jobqueue
def test_asking_a_batch_system_leaves_ctrl_c_as_it_is():
    code = (
        "import signal; from experiments.runs import clusters; clusters._jobqueue(); signal.raise_signal(signal.SIGINT)"
    )
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert "KeyboardInterrupt" in ended.stderr  # and no success
    assert ended.returncode


def test_new_jobs_that_are_refused_while_a_sweep_runs_are_told(monkeypatch):
    """All workers have reached their walltime, and the partition takes no more jobs."""
    monkeypatch.setattr(pool_module, "GLANCE", 0.0)
    nobody = SimpleNamespace(status="running", scheduler_info=lambda n_workers: {"workers": {}})
    pool = Pool(queue="slurm", memory="1GB")
    with pytest.raises(JobcastError, match=r"slurm refuses to start workers: Invalid partition; see"):
        pool_module._idle_since(hiring.Cluster(nobody, ["Invalid partition"]), pool, 0.0)
    one = SimpleNamespace(status="running", scheduler_info=lambda n_workers: {"workers": {"a": {"status": "running"}}})
    refused = ["Invalid partition"]
    pool_module._idle_since(hiring.Cluster(one, refused), pool, 0.0)
    assert not refused  # of one job, while others work
    more = pool_module._more(nobody, Pool(queue="slurm", memory="1GB", walltime="00:01:00"))
    assert more == "give each job more (--memory, now 1GB; --walltime, now 00:01:00)"


def test_signals_are_held_back_while_workers_are_hired():
    """One that came meanwhile takes effect at the end, with the handler of before."""
    steps = []
    with pytest.raises(KeyboardInterrupt), hiring.HeldBack() as held:
        signal.raise_signal(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("hired")
        held.end()
        steps.append("not reached")
    assert steps == ["hired"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def bears_ctrl_c(shared, number):
    """Return whether an interruption of this very worker leaves it at work."""
    os.kill(os.getpid(), signal.SIGINT)
    return True


@pytest.mark.slow
def test_workers_do_not_hear_ctrl_c():
    """A terminal sends it to them too; their tracebacks would be all that the user sees."""
    assert all(done for _, done in each(bears_ctrl_c, {"": None}, [("", k) for k in range(2)], Pool(workers=2)))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 4.0, 6.0])
def test_ctrl_c_at_a_terminal_while_workers_come_is_one_line(seconds, tmp_path):
    """Sent to the whole group of processes, as a terminal does."""
    write_swf(generate_log(2000, seed=1), tmp_path / "log.swf")
    line = ["sweep", "log.swf", "--policies", "easy,fcfs", "--seeds", "40", "--workers", "2", "--out", "results"]
    command = [sys.executable, "-m", "experiments.cli", *line]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    time.sleep(seconds)
    os.killpg(running.pid, signal.SIGINT)
    said = [line for line in running.communicate(timeout=90)[1].splitlines() if "compiling" not in line]
    assert running.returncode in (130, -2)  # -2: Python itself was still being loaded
    assert said in ([], ["jobcast: stopped; the same command goes on where it was."]) or running.returncode == -2
