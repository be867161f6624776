"""What `deploy/` holds: checked by each program's own means, and run as an unprivileged user. What is missing skips."""

import contextlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from predictors.service.client import Client
from tests.support.certificates import self_signed
from tests.support.killing import free_port
from tests.support.places import ROOT
from tests.support.service_in_thread import running

DEPLOY = ROOT / "deploy"
EVENT = {"kind": "submitted", "job_id": 1, "time": 100, "requested_time": 600, "user": "alice"}


def needed(program, package):
    """Return a program's path; skip the test if it is not installed."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install {package}")
    return found


def done(*command, seconds=300, **options):
    """Run a command; fail with what it said if it failed."""
    found = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds, **options)
    assert found.returncode == 0, f"{command}: {found.stdout[-3000:]}{found.stderr[-3000:]}"
    return found.stdout + found.stderr


def until(url, server, seconds=240):
    """Wait until a service is ready; fail with what it said if it ends."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, server.communicate()[1]
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


# --- Prometheus, Grafana ----------------------------------------------------------------------------------------------


def test_rules_and_configuration_pass_promtool():
    promtool, folder = needed("promtool", "prometheus"), DEPLOY / "prometheus"
    assert "SUCCESS" in done(promtool, "check", "rules", "jobcast.rules.yml", cwd=folder)
    assert "SUCCESS" in done(promtool, "test", "rules", "jobcast.rules.test.yml", cwd=folder)
    done(promtool, "check", "config", "--syntax-only", "prometheus.yml", cwd=folder)


def test_every_metric_that_rules_and_dashboard_name_is_there(tmp_path):
    with running(tmp_path) as one, one.client() as client:
        client.send([EVENT])
        client.runtime([{}])
        families = {}
        for metric in one.api.metrics._registry.collect():
            families[metric.name] = metric.type
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    names = {name + suffix for name, kind in families.items() for suffix in suffixes.get(kind, ("",))}
    rules = (DEPLOY / "prometheus" / "jobcast.rules.yml").read_text()
    dashboard = json.loads((DEPLOY / "grafana" / "jobcast.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    asked += re.findall(r"expr: (.*)", rules)
    assert len(asked) > 40
    found = {name for one in asked for name in re.findall(r"\b(?:jobcast|process)_\w+", one)}
    assert found - names == set()


def test_the_panels_of_the_dashboard_do_not_overlap():
    places = set()
    for panel in json.loads((DEPLOY / "grafana" / "jobcast.json").read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places and at["x"] + at["w"] <= 24, panel["title"]
        places |= cells


def test_the_queries_of_the_dashboard_are_promql(tmp_path):
    promtool = needed("promtool", "prometheus")
    dashboard = json.loads((DEPLOY / "grafana" / "jobcast.json").read_text())
    asked = [
        target["expr"].replace("$job", ".*") for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    rules = [{"record": f"x:{n}", "expr": one} for n, one in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    assert f"{len(asked)} rules found" in done(promtool, "check", "rules", tmp_path / "rules.yml")


# --- proxies ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path):
    return self_signed(tmp_path)


@contextlib.contextmanager
def started(*command):
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def through(url, context=None):
    """Ask through a proxy until it answers."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5, context=context) as answer:
                return answer.status, answer.headers
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.1)
    raise AssertionError("the proxy does not answer")


def test_nginx_serves_by_tls_what_the_service_answers(tmp_path, certificate):
    nginx, port, (crt, key) = needed("nginx", "nginx-light"), free_port(), certificate
    with running(tmp_path) as one:
        text = (DEPLOY / "nginx" / "jobcast.conf").read_text()
        for old, new in (
            ("/etc/jobcast/certificate.pem", str(crt)), ("/etc/jobcast/key.pem", str(key)),
            ("listen 8443", f"listen 127.0.0.1:{port}"), ("127.0.0.1:8571", one.url.removeprefix("http://")),
        ):  # fmt: skip
            assert old in text
            text = text.replace(old, new)
        temporary = " ".join(
            f"{name}_temp_path {tmp_path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = tmp_path / "nginx.conf"
        whole.write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
            f"http {{ access_log off; {temporary}\n{text}\n}}\n"
        )
        assert "test is successful" in done(nginx, "-t", "-c", whole)
        with started(nginx, "-c", whole):
            context = ssl.create_default_context(cafile=crt)
            status, headers = through(f"https://127.0.0.1:{port}", context)
            assert status == 200 and len(headers["X-Request-ID"]) == 32
            with Client(f"https://127.0.0.1:{port}", tls=context) as client:
                assert client.send([EVENT])[0]["status"] == "applied"


def test_haproxy_passes_on_what_the_service_answers(tmp_path):
    haproxy, port = needed("haproxy", "haproxy"), free_port()
    done(haproxy, "-c", "-f", DEPLOY / "haproxy" / "haproxy.cfg")
    with running(tmp_path) as one:
        text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text().replace("bind :8443", f"bind 127.0.0.1:{port}")
        (tmp_path / "haproxy.cfg").write_text(text.replace("127.0.0.1:8571", one.url.removeprefix("http://")))
        with started(haproxy, "-db", "-f", tmp_path / "haproxy.cfg"):
            status, headers = through(f"http://127.0.0.1:{port}")
            assert status == 200 and len(headers["X-Request-ID"]) == 36
            with Client(f"http://127.0.0.1:{port}") as client:
                assert client.send([EVENT])[0]["status"] == "applied"


# --- systemd, installation -------------------------------------------------------------------------------------------


def test_the_units_pass_systemds_own_check(tmp_path):
    analyze = needed("systemd-analyze", "systemd")
    units = []
    for unit in sorted((DEPLOY / "systemd").iterdir()):
        text = (
            unit.read_text().replace("/opt/jobcast/bin/jobcast", "/bin/true").replace("/usr/bin/sqlite3", "/bin/true")
        )
        (tmp_path / unit.name).write_text(text)
        units.append(tmp_path / unit.name)
    found = subprocess.run([analyze, "verify", *map(str, units)], capture_output=True, text=True)
    told = [line for line in (found.stdout + found.stderr).splitlines() if "jobcast" in line]
    assert found.returncode == 0 and told == []


def test_the_unit_is_as_safe_as_it_can_be(tmp_path):
    analyze = needed("systemd-analyze", "systemd")
    shutil.copy(DEPLOY / "systemd" / "jobcast.service", tmp_path)
    found = subprocess.run(
        [analyze, "security", "--offline=yes", "--threshold=30", str(tmp_path / "jobcast.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-300:] + found.stderr


UNPRIVILEGED = ["setpriv", "--reuid=nobody", f"--regid={pwd.getpwnam('nobody').pw_gid}", "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]  # fmt: skip


def python_for_others():
    """Return a Python of this version that another user can run; skip if there is none."""
    for one in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with contextlib.suppress(OSError):
            words = [*UNPRIVILEGED, "sh", "-c", f"exec {one} -c 0"]  # setpriv itself runs with what root may
            if subprocess.run(words, cwd="/", capture_output=True).returncode == 0:
                return one
    pytest.skip(f"another user cannot run {sys.executable}, and there is no Python of this version in /usr/bin")


@pytest.fixture
def installed():
    """A root into which `install.sh` has put everything, for the user nobody, to whom pytest's folders are closed."""
    if os.geteuid() != 0:
        pytest.skip("only root installs")
    needed("setpriv", "util-linux")
    tmp_path = Path(tempfile.mkdtemp(prefix="jobcast-deploy-", dir="/tmp"))
    tmp_path.chmod(0o755)
    command = tmp_path / "jobcast"
    libraries = ":".join([str(ROOT), *(path for path in sys.path if path.endswith("-packages"))])
    command.write_text(f'#!/bin/sh\nPYTHONPATH={libraries} exec {python_for_others()} -m experiments.cli "$@"\n')
    command.chmod(0o755)
    about = {**os.environ, "DESTDIR": str(tmp_path), "OWNER": "nobody", "JOBCAST": str(command)}
    try:
        done("sh", DEPLOY / "install.sh", env=about)
        yield tmp_path, about
    finally:
        shutil.rmtree(tmp_path)


def unit_values(unit, key):
    text = (DEPLOY / "systemd" / unit).read_text().replace("\\\n", " ")
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@pytest.mark.slow
def test_what_is_installed_starts_as_its_user_reloads_and_is_private(installed):
    """The unit's own command, with its own umask and environment, as a user who may do nothing else."""
    root, about = installed
    etc = root / "etc" / "jobcast"
    before = (etc / "name-key").read_bytes(), (etc / "slurmctld.token").read_text()
    done("sh", DEPLOY / "install.sh", env=about)
    assert ((etc / "name-key").read_bytes(), (etc / "slurmctld.token").read_text()) == before
    assert len([line for line in (etc / "tokens").read_text().splitlines() if line]) == 2
    modes = {path.name: path.stat().st_mode & 0o777 for path in etc.iterdir()}
    assert modes == {"name-key": 0o640, "tokens": 0o640, "slurmctld.token": 0o600, "monitoring.token": 0o600}

    port, lib, log = free_port(), root / "var/lib/jobcast", root / "var/log/jobcast"
    environment = dict(
        pair.split("=", 1) for line in unit_values("jobcast.service", "Environment") for pair in line.split()
    )
    environment |= {"JOBCAST_MODEL": "last-two"}

    def here(text):
        for old, new in (("/opt/jobcast/bin/jobcast", root / "jobcast"), ("/etc/jobcast", etc), ("8571", port),
                         ("/var/lib/jobcast", lib), ("/var/log/jobcast", log)):  # fmt: skip
            text = text.replace(old, str(new))
        return text

    environment = {name: here(value) for name, value in environment.items()}
    (exec_start,) = unit_values("jobcast.service", "ExecStart")
    line = here(exec_start).replace("${JOBCAST_MODEL}", environment["JOBCAST_MODEL"]).replace("$JOBCAST_OPTIONS", "")
    command = [*UNPRIVILEGED, "sh", "-c", f"umask 0077; exec {line}"]
    given = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment}
    server = subprocess.Popen(command, env=given, cwd=lib, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        until(url, server)
        writer = Client(url, token=(etc / "slurmctld.token").read_text().strip())
        assert writer.send([EVENT])[0]["status"] == "applied"
        tokens = (etc / "tokens").read_text()
        (etc / "tokens").write_text("".join(line + "\n" for line in tokens.splitlines() if "slurmctld" not in line))
        (reload,) = unit_values("jobcast.service", "ExecReload")
        done(*shlex.split(reload.replace("$MAINPID", str(server.pid))))
        for _ in range(600):
            try:
                writer.models()
            except Exception as error:
                assert "401" in str(error)
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the token is still good")
        server.send_signal(signal.SIGTERM)
        writer.close()
        told = server.communicate(timeout=120)[1]
    finally:
        server.kill()
        server.wait()
    assert all(json.loads(line) for line in told.splitlines()) and "Traceback" not in told
    private = [path for path in (*lib.rglob("*"), *log.rglob("*")) if path.is_file() and path.stat().st_mode & 0o077]
    assert private == [] and (lib / "service.db").exists() and (log / "audit.jsonl").exists()


@pytest.mark.slow
def test_the_adapters_unit_shadows_as_a_user_who_may_do_nothing_else(installed):
    """The command of jobcast-slurm.service with its umask and environment, beside a stand-in of Slurm."""
    root, _ = installed
    lib, slurm = root / "var/lib/jobcast", root / "slurm"
    slurm.mkdir()
    for name in ("squeue", "scontrol", "sacct", "sinfo"):
        text = (ROOT / "tests" / "support" / "slurm" / "fake.py").read_text()
        (slurm / name).write_text(text.replace("#!/usr/bin/env python3", f"#!{python_for_others()}", 1))
        (slurm / name).chmod(0o755)
    config = {"SLURM_VERSION": "26.05.5", "SchedulerParameters": "time_min_as_soft_limit", "ClusterName": "t",
              "SchedulerType": "sched/backfill"}  # fmt: skip
    state = {"now": int(time.time()), "jobs": {"1": {}}, "ended": None, "reservations": [], "partitions": {"p": ["n1"]},
             "config": config, "faults": {}}  # fmt: skip
    (slurm / "cluster.json").write_text(json.dumps(state))
    (slurm / "calls").touch()
    (slurm / "calls").chmod(0o666)
    values = {key: unit_values("jobcast-slurm.service", key) for key in ("Environment", "ExecStart", "UMask", "User")}
    assert values["User"] == ["jobcast"]  # the user of the service: whom install.sh makes
    environment = dict(pair.split("=", 1) for line in values["Environment"] for pair in line.split())
    (line,) = values["ExecStart"]
    for old, new in (("/opt/jobcast/bin/jobcast", root / "jobcast"), ("/var/lib/jobcast", lib), ("8571", free_port())):
        line = line.replace(old, str(new))
        environment = {name: value.replace(old, str(new)) for name, value in environment.items()}
    environment |= {"JOBCAST_SLURM_OPTIONS": f"--cycles 2 --every 1 --table {lib}/soft-limits"}
    given = {"PATH": f"{slurm}:/usr/bin:/bin", "FAKE_SLURM": str(slurm / "cluster.json"),
             "PYTHONDONTWRITEBYTECODE": "1", **environment}  # fmt: skip
    command = [*UNPRIVILEGED, "sh", "-c", f"umask {values['UMask'][0]}; exec {line}"]  # its words, as systemd's
    found = subprocess.run(command, env=given, cwd=lib, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 2 and "Traceback" not in found.stderr
    assert "the service did not receive the events" in found.stderr  # it looks on where the service is not there yet
    modes = {path.name: path.stat().st_mode & 0o777 for path in (lib / "slurm").iterdir()}
    assert set(modes.values()) == {0o600} and "journal.db" in modes
    assert (lib / "soft-limits").stat().st_mode & 0o777 == 0o644  # slurmctld and cli_filter read it
    assert "scontrol " not in (slurm / "calls").read_text().splitlines()  # nothing was written
    assert pwd.getpwuid((lib / "slurm").stat().st_uid).pw_name == "nobody"


def test_the_installation_needs_root_and_the_command(tmp_path):
    about = {"PATH": os.environ["PATH"], "JOBCAST": "/nowhere", "DESTDIR": str(tmp_path)}
    found = subprocess.run(["sh", DEPLOY / "install.sh"], env=about, capture_output=True, text=True)
    assert found.returncode == 2 and ("/nowhere is not there" in found.stderr or "as root" in found.stderr)
    assert list(tmp_path.iterdir()) == []


def test_logrotate_moves_the_audit_log(tmp_path):
    logrotate = needed("logrotate", "logrotate")
    log = tmp_path / "log"
    log.mkdir()
    (log / "audit.jsonl").write_text("{}\n")
    text = (DEPLOY / "logrotate" / "jobcast").read_text()
    assert "systemctl kill --signal=HUP" in text
    text = re.sub(r"postrotate.*endscript", f"postrotate\n touch {tmp_path}/told\n endscript", text, flags=re.DOTALL)
    user = pwd.getpwuid(os.geteuid()).pw_name
    group = __import__("grp").getgrgid(os.getegid()).gr_name
    text = text.replace("su jobcast jobcast", f"su {user} {group}").replace("/var/log/jobcast", str(log))
    (tmp_path / "conf").write_text(text)
    (tmp_path / "conf").chmod(0o644)
    done(logrotate, "--force", "--state", tmp_path / "state", tmp_path / "conf")
    assert not (log / "audit.jsonl").exists() and (log / "audit.jsonl.1").exists() and (tmp_path / "told").exists()


# --- backup and restore ----------------------------------------------------------------------------------------------


def test_a_copy_made_while_it_runs_restores_every_acknowledged_event(tmp_path):
    """The commands of the unit of backups, where sqlite3 is installed; else SQLite by Python."""
    shell = shutil.which("sqlite3")
    copies = tmp_path / "backups"
    copies.mkdir()
    with running(tmp_path) as one, one.client() as client:
        client.send([{**EVENT, "job_id": n} for n in range(500)])
        for line in unit_values("jobcast-backup.service", "ExecStart"):
            words = [word.replace("/var/lib/jobcast", str(tmp_path)) for word in shlex.split(line)]
            if words[0] != "/usr/bin/sqlite3" or shell is not None:
                done(*words) if words[0] != "/usr/bin/sqlite3" else done(shell, *words[1:])
            else:
                with contextlib.closing(sqlite3.connect(words[1])) as base:
                    for statement in words[2:]:
                        if not statement.startswith("."):
                            base.execute(statement).fetchall()
        last = client.send([{**EVENT, "job_id": 1000}])[0]["sequence"]
    restored = tmp_path / "restored"
    restored.mkdir()
    shutil.copy(copies / "service.db", restored / "service.db")
    with running(restored) as one, one.client() as client:
        assert client.models()["sequence"] == last - 1 == 500
        assert client.job(499)["state"] == "queued"
        assert client.send([{**EVENT, "job_id": 1000}])[0] == {"sequence": last, "status": "applied"}


# --- container -------------------------------------------------------------------------------------------------------


def test_the_containerfile_takes_its_base_and_runs_as_a_user():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert sum(line.startswith("FROM ${BASE}") for line in lines) == 2
    assert lines.index("USER 10001:10001") > max(n for n, line in enumerate(lines) if line.startswith("RUN"))
    left_out = (ROOT / ".containerignore").read_text().split()
    assert {".git", ".venv", "mlruns"} <= set(left_out)


@pytest.mark.slow
def test_the_container_is_built_and_serves(tmp_path):
    """From a root made by mmdebstrap: no registry is asked. Where there is no network, it skips."""
    given = os.environ.get("JOBCAST_CONTAINER")
    if not given:
        pytest.skip("it downloads a system and takes many minutes: set JOBCAST_CONTAINER=1, or to a root's tar file")
    buildah, root = needed("buildah", "buildah"), Path(given)
    if not root.is_file():
        root, debstrap = tmp_path / "root.tar", needed("mmdebstrap", "mmdebstrap")
        packages = "python3,python3-venv,python3-dev,gcc,libc6-dev,ca-certificates"
        done(debstrap, "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={packages}", "bookworm", root,
             seconds=1800)  # fmt: skip
    store = ["--root", tmp_path / "store", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    base = done(buildah, *store, "from", "scratch").strip()
    done(buildah, *store, "add", base, root, "/")
    done(buildah, *store, "commit", base, "localhost/base")
    done(buildah, *store, "bud", "--isolation=chroot", "--build-arg=BASE=localhost/base", "--pull-never",
         "--volume=/etc/ssl/certs:/etc/ssl/certs:ro", "-f", DEPLOY / "Containerfile", "-t", "localhost/jobcast", ROOT,
         seconds=3000)  # fmt: skip
    one = done(buildah, *store, "from", "--pull-never", "localhost/jobcast", seconds=1800).strip()
    run = [buildah, *store, "run", "--isolation=chroot", one, "--"]
    assert done(*run, "/opt/jobcast/bin/jobcast", "--version").startswith("jobcast ")
    assert done(*run, "id", "-u").strip() == "10001"
    port = free_port()
    server = subprocess.Popen([*map(str, run), "/opt/jobcast/bin/jobcast", "serve", "last-two", "--port", str(port)],
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)  # fmt: skip
    try:
        until(f"http://127.0.0.1:{port}", server)
        with Client(f"http://127.0.0.1:{port}") as client:
            assert client.send([EVENT])[0]["status"] == "applied"
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_what_deploy_names_is_there():
    """Paths of our own files, in comments too."""
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix != ".json":
            for name in re.findall(r"\b(?:deploy|docs)/[\w/.-]+\w", path.read_text()):
                assert Path(ROOT / name).exists(), f"{path.name}: {name}"
