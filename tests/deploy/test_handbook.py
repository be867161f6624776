"""The operator's handbook: its commands are tried, its alerts and metrics are those that there are."""

import re
import shutil
import subprocess

import pytest

from tests.predictors.service import test_api as posted
from tests.support.places import ROOT
from tests.support.postgres import Postgres, programs
from tests.support.service_in_thread import running

PAGE = (ROOT / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
RULES = (ROOT / "deploy" / "prometheus" / "jobcast.rules.yml").read_text(encoding="utf-8")


def test_the_handbook_has_every_alert_and_no_other():
    assert set(re.findall(r"\bJobcast\w+", PAGE)) == set(re.findall(r"alert: (\w+)", RULES))


def test_the_metrics_of_the_objectives_are_there(tmp_path):
    with running(tmp_path) as one, one.client() as client:
        client.send([posted.SUBMITTED])
        page = one.api.metrics.page().decode()
    known = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    for name in set(re.findall(r"\bjobcast_\w+", PAGE)):
        assert re.sub(r"_(bucket|count|sum)$", "", name) in known, name


@pytest.mark.slow
def test_a_dump_of_postgresql_restores_every_acknowledged_event(tmp_path):
    """`pg_dump --format=custom` while it runs, `pg_restore` into an empty database, as the handbook has it."""
    server = Postgres()
    try:
        url, other = server.url("before"), server.url("after")
        tools = programs()
        if not (tools / "pg_dump").exists():
            pytest.skip("pg_dump is not installed: apt-get install postgresql-client")
        connect = ["--host=127.0.0.1", f"--port={server.port}", "--username=jobcast"]
        dump = tmp_path / "service.dump"
        with running(tmp_path, db=url) as one, one.client() as client:
            client.send([{**posted.SUBMITTED, "job_id": n} for n in range(50)])
            command = [tools / "pg_dump", *connect, "--format=custom", f"--file={dump}", "before"]
            assert "pg_dump --format=custom --file=" in PAGE
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        subprocess.run([tools / "pg_restore", *connect, "--dbname=after", dump], check=True, timeout=60)
        with running(tmp_path, db=other) as one, one.client() as client:
            assert client.models()["sequence"] == 50 and client.job(49)["state"] == "queued"
            assert client.send([{**posted.SUBMITTED, "job_id": 49}])[0]["status"] == "duplicate"
    finally:
        server.remove()


def test_the_files_that_the_handbook_lists_are_all_of_deploy():
    folder = ROOT / "deploy"
    listed = {name.rstrip("/") for name in re.findall(r"`deploy/([\w.]+)/?`", PAGE)}
    assert listed == {path.name for path in folder.iterdir()}
    assert shutil.which("sh") is None or (folder / "install.sh").stat().st_mode & 0o100
