"""The page at `/`: what it shows, to whom, and that nothing foreign runs in it; in a browser, where there is one."""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.requests import ClientDisconnect, Request

from predictors.core.errors import JobcastError
from predictors.evaluation.monitoring import Monitor
from predictors.evaluation.weekly import MOST_WEEKS, WEEK, WeeklyErrors
from predictors.service.api.admission import add_token, read_tokens
from predictors.service.api.lifecycle import Listening
from predictors.service.page.overview import Collector, JobRow
from predictors.service.page.render import Renderer
from predictors.service.page.routes import MOST_WATCHING
from predictors.service.pseudonyms import Pseudonymiser
from tests.predictors.service.test_operation import until
from tests.support.service_in_thread import running

HOSTILE = "<script>alert('x')</script>\"&"


class Starts:
    """Forecasts that every job starts in a minute, or that none can be forecast."""

    def __init__(self, trouble=None):
        self.trouble = trouble

    def forecast(self, live, now, job):
        """Return P10, P50 and P90 of the start."""
        if self.trouble:
            raise JobcastError(self.trouble)
        return now + 30, now + 60, now + 90


def got(url, headers=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def jobs(n, now, running_from=0, user="alice"):
    """Return the events of n jobs, of which those from a number on run."""
    events = []
    for job in range(1, n + 1):
        about = {"job_id": job, "time": now - 2 * n + job}
        events.append({**about, "kind": "submitted", "procs": 4, "requested_time": 3600 + job, "user": user})
        if job > running_from:
            events.append({"job_id": job, "time": now - n + job, "kind": "started"})
    return events


def send(client, events):
    for i in range(0, len(events), 5000):
        client.send(events[i : i + 5000])


# --- weeks -----------------------------------------------------------------------------------------------------------


def test_weeks_are_those_of_a_slow_count_and_survive_a_restart():
    chance = np.random.default_rng(3)
    monitor, told = Monitor(), []
    times = np.sort(chance.integers(1_600_000_000, 1_600_000_000 + 10 * WEEK, 600)).tolist()
    for job, time_ in enumerate(times):
        predicted, baseline, ran = (float(one) for one in chance.integers(10, 1000, 3))
        monitor.submitted(job, predicted, baseline, 2000.0)
        monitor.ended(job, time_, ran)
        monitor.catch_up(time_ + 1)
        told.append((time_, predicted, baseline, ran))
    weeks = list(monitor.weeks)
    assert all(week.begin % (7 * 86400) == 4 * 86400 for week in weeks)  # Mondays
    for week in weeks:
        mine = [one for one in told if week.begin <= one[0] < week.begin + WEEK]
        ours, theirs = (np.array([abs(one[k] - one[3]) for one in mine]) for k in (1, 2))
        assert week.n_jobs == len(mine) and week.error == pytest.approx(ours.mean())
        assert week.last_two_error == pytest.approx(theirs.mean())
        assert week.squared_ratio == pytest.approx((ours**2).sum() / (theirs**2).sum())
    assert sum(week.n_jobs for week in weeks) == 600
    held = monitor.errors()[3]
    shares = [(week.covered, week.n_jobs) for week in weeks if week.covered == week.covered]
    assert shares and not np.isnan(held).all()
    other = Monitor()
    other.set_state(monitor.get_state())
    assert str(list(other.weeks)) == str(weeks)


def test_only_the_newest_weeks_are_kept():
    errors = WeeklyErrors()
    for number in range(40):
        errors.add(number * WEEK, 1.0, 2.0, 3.0, float("nan"))
    assert len(list(errors)) == MOST_WEEKS and list(errors)[-1].begin > 38 * WEEK


# --- what it shows ---------------------------------------------------------------------------------------------------


def test_the_page_shows_jobs_models_weeks_and_health(tmp_path):
    now = int(time.time())
    with running(tmp_path, starts=Starts()) as one, one.client() as client:
        send(client, jobs(5, now, running_from=2))
        send(client, [{"job_id": 5, "kind": "ended", "time": now + 1, "status": 1}])
        send(client, [{"job_id": 6, "kind": "submitted", "time": now + 5, "procs": 1, "requested_time": 10}])
        one.learnt()
        got(one.url + "/")
        until(lambda: "forecast at" in got(one.url + "/")[2])
        status, headers, page = got(one.url + "/")
        assert status == 200 and headers["Content-Type"].startswith("text/html")
    rows = re.findall(r'<tr data-job="(\w+)".*?</tr>', page)
    assert rows == ["1", "2", "6", "3", "4"]  # waiting, then running
    waiting = re.search(r'<tr data-job="1".*?</tr>', page).group()
    assert (
        "1 h" in waiting
        and re.search(r"\d\d:\d\d \(\S", waiting)
        and re.search(r"~[0-9a-f]{14}", waiting)
        and "alice" not in page
    )
    for text in ("Ready", "last-two", "the service was started with it", "champion"):
        assert text in page, text
    week = re.search(r"by the week of the end.*?</table>", page, re.DOTALL).group()
    assert re.search(r'<th scope="row">\d{4}-\d\d-\d\d</th>.*<td data-is="Jobs">1</td></tr>', week, re.DOTALL)
    assert "<dd>2</dd>" in page and "<dd>3</dd>" in page


def test_troubles_drift_and_everything_foreign_are_shown_escaped(tmp_path):
    with running(tmp_path, starts=Starts(HOSTILE)) as one, one.client() as client:
        send(client, jobs(2, int(time.time()), running_from=1))
        one.service.roles.trouble["champion"] = HOSTILE
        one.service.learner.champion.identity.__dict__["name"] = HOSTILE
        one.service.learner.champion.identity.__dict__["trained_until"] = HOSTILE
        got(one.url + "/")

        def troubled():
            one.service.writer.trouble = HOSTILE  # the writer clears it when it has nothing to write
            text = got(one.url + "/")[2]
            return "cannot be forecast" in text and "Not ready" in text and text

        page = until(troubled)
        one.service.writer.trouble = HOSTILE
        events = next_event(one.url)
    assert "Not ready" in page and "&lt;script&gt;alert" in page and "<script>alert" not in page
    assert page.count("<script") == 1
    assert "<script>alert" not in "".join(events["sections"].values()) and "&lt;script" in events["sections"]["health"]


def test_rows_of_jobs_are_escaped_whatever_they_hold(tmp_path):
    """Today they hold numbers and hashes alone."""
    with running(tmp_path) as one:
        found = Collector(one.service, None).overview()
    job = JobRow(HOSTILE, 1, 2, 3, HOSTILE, 4.0, None)
    rows = Renderer().state(replace(found, waiting=(job,))).tables["waiting"][HOSTILE]
    assert "<script" not in rows and rows.count("&lt;script&gt;") == 3 and 'data-job="&lt;' in rows


def test_the_page_says_how_old_the_newest_event_is_and_what_empty_tables_hold(tmp_path):
    def shown():
        page = got(one.url + "/")[2]
        health = re.search(r'id="health".*?</div>', page, re.DOTALL).group()
        return page, " ".join(re.sub("<[^>]+>", "", health).split())

    with running(tmp_path) as one, one.client() as client:
        page, health = shown()
        assert "No event has come yet." in health and "Ready:" in health
        assert "No job waits. A job stands here" in page and "No job runs. A job stands here" in page
        assert "week by week, from the first that does" in page
        client.send([{"job_id": 1, "kind": "submitted", "time": int(time.time()) - 33 * 30 * 86_400}])
        time.sleep(1.1)
        page, health = shown()
        assert "Ready, but stale" in health and "990 d old" in health and "<title>jobcast: ready, but stale" in page
        assert 'class="state warn"' in page and 'class="state good"' not in page
        client.send([{"job_id": 2, "kind": "submitted", "time": int(time.time())}])
        time.sleep(1.1)
        page, health = shown()
        assert "stale" not in page and "less than a minute old" in health and 'class="state good"' in page
        plot = re.search(r'class="plot".*?</div>\n</div>', page, re.DOTALL).group()
        assert re.fullmatch("1?2?,0", ",".join(re.findall(r"<span>(\d*)</span>", plot)))  # in one minute, or in two
        assert len(re.findall(r"<span>\d\d:\d\d(?: UTC)?</span>", plot)) == 3


def test_a_log_clock_shows_seconds(tmp_path):
    with running(tmp_path, clock="log") as one, one.client() as client:
        client.send([{"job_id": 1, "kind": "submitted", "time": 1_234_567, "procs": 1, "requested_time": 60}])
        assert "1,234,567 s" in got(one.url + "/")[2]


def test_the_page_while_the_state_is_rebuilt_and_when_the_database_is_gone(tmp_path, monkeypatch):
    with running(tmp_path) as one, one.client() as client:
        client.send(jobs(1, int(time.time()))[:1])
        assert "the service was started" in got(one.url + "/")[2]
        one.service._ready.clear()
        time.sleep(1.1)
        assert "Not ready" in got(one.url + "/")[2]
        one.service._ready.set()
        (tmp_path / "service.db").rename(tmp_path / "away")
        time.sleep(1.1)
        status, _, page = got(one.url + "/")
        assert status == 200 and "the service was started" in page  # as it was read before
        (tmp_path / "away").rename(tmp_path / "service.db")


# --- who may look ----------------------------------------------------------------------------------------------------


def test_where_there_are_tokens_one_is_the_password_on_the_page_alone(tmp_path):
    token = add_token(tmp_path / "tokens", "read", "people")
    with running(tmp_path, listening=Listening(port=0, tokens=read_tokens(tmp_path / "tokens"))) as one:
        basic = {"Authorization": "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()}
        for path in ("/", "/status/page.css", "/status/page.js", "/status/events"):
            status, headers, _ = got(one.url + path)
            assert status == 401 and headers["WWW-Authenticate"].startswith("Basic"), path
        assert got(one.url + "/", basic)[0] == 200 and got(one.url + "/status/page.js", basic)[0] == 200
        assert got(one.url + "/", {"Authorization": f"Bearer {token}"})[0] == 200
        for wrong in ("Basic ???", "Basic " + base64.b64encode(b"anyone:wrong").decode(), "Basic"):
            assert got(one.url + "/", {"Authorization": wrong})[0] == 401
        status, headers, _ = got(one.url + "/v1/models", basic)
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"


def test_the_page_may_load_nothing_from_elsewhere_and_changes_nothing(tmp_path):
    with running(tmp_path) as one:
        for path in ("/", "/status/page.css", "/status/page.js", "/status/icon.svg"):
            status, headers, body = got(one.url + path)
            assert status == 200 and headers["X-Content-Type-Options"] == "nosniff"
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "*" not in policy
            for address in re.findall(r"https?://[^\"')\s]+", body):
                assert address == "http://www.w3.org/2000/svg"
            assert not re.search(r'\sstyle="|\son\w+="|<style', body)
        assert got(one.url + "/status/nothing")[0] == 404 and got(one.url + "/status/..%2Fauth.py")[0] == 404
        request = urllib.request.Request(one.url + "/", b"", {"Content-Type": "application/json"}, method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request, timeout=5)


# --- updates ---------------------------------------------------------------------------------------------------------


def test_a_page_of_the_process_before_is_told_everything(tmp_path):
    """The states of a process bear numbers that no earlier one gave."""
    with running(tmp_path) as one:
        overview = Collector(one.service, None).overview()
        before = Renderer().state(overview).number
        time.sleep(1.1)
        again = Renderer()
        assert again.state(overview).number > before and again.kept(before) is None


def stream(url, number=""):
    return urllib.request.urlopen(f"{url}/status/events?from={number}", timeout=60)


def next_of(opened):
    """Return the next update of an open stream."""
    while line := opened.readline():
        if line.startswith(b"data: "):
            return json.loads(line[6:])
    return None


def next_event(url, number=""):
    with stream(url, number) as opened:
        return next_of(opened)


def test_a_page_is_told_what_changed_since_it_was_made(tmp_path):
    now = int(time.time())
    with running(tmp_path) as one, one.client() as client:
        send(client, jobs(3, now, running_from=2))
        one.learnt()
        page = got(one.url + "/")[2]
        with stream(one.url, re.search(r'data-from="(\d+)"', page).group(1)) as opened:
            send(
                client, [{"job_id": 1, "kind": "started", "time": now}, {"job_id": 3, "kind": "ended", "time": now + 1}]
            )
            rows, gone = {"waiting": [], "running": []}, {"waiting": [], "running": []}
            while not (gone["running"] and rows["running"]):
                told = next_of(opened)
                for name, change in told["tables"].items():
                    assert not change["whole"]
                    rows[name] += [job for job, _ in change["rows"]]
                    gone[name] += change["gone"]
        assert rows == {"waiting": [], "running": ["1"]} and gone == {"waiting": ["1"], "running": ["3"]}
        whole = next_event(one.url, "999999")["tables"]
        assert whole["waiting"]["whole"] and [job for job, _ in whole["waiting"]["rows"]] == ["2"]


def test_few_pages_watch_at_once_and_the_end_of_the_server_does_not_wait_for_them(tmp_path):
    opened = []
    begin = None
    with running(tmp_path) as one:
        try:
            for _ in range(MOST_WATCHING):
                opened.append(stream(one.url))
                opened[-1].readline()
            with pytest.raises(urllib.error.HTTPError, match="503"):
                stream(one.url)
            opened.pop().close()
            until(lambda: one.api.page._watching < MOST_WATCHING)
            begin = time.monotonic()
        except BaseException:
            for one_stream in opened:
                one_stream.close()
            raise
    assert time.monotonic() - begin < 25
    for one_stream in opened:
        one_stream.close()


def test_five_thousand_live_jobs_are_shown_within_a_second(tmp_path):
    now = int(time.time())
    with running(tmp_path) as one, one.client() as client:
        send(client, jobs(5000, now, running_from=2500))
        one.learnt()
        got(one.url + "/")
        collector, renderer = Collector(one.service, None), Renderer()
        begin = time.process_time()
        page = renderer.page(renderer.state(collector.overview()))
        assert time.process_time() - begin < 1.0
        assert page.count("<tr data-job") == 5000


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def axe_source():
    """Return axe-core's script; skip if it is not there."""
    places = [Path(os.environ["JOBCAST_AXE"])] if os.environ.get("JOBCAST_AXE") else []
    if shutil.which("npm"):
        root = subprocess.run(["npm", "root", "--global"], capture_output=True, text=True).stdout.strip()
        places.append(Path(root) / "axe-core" / "axe.min.js")
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    pytest.skip("axe-core is not there: npm install --global axe-core, or JOBCAST_AXE=…/axe.min.js")


@pytest.fixture
def busy(tmp_path):
    """A service with jobs, ended ones of some weeks among them, and a drift alarm."""
    now = int(time.time())
    key = Pseudonymiser(b"0123456789abcdef")
    with (
        running(tmp_path, "online-linear", starts=Starts(), challenger="last-two", key=key) as one,
        one.client() as client,
    ):
        past = []
        for job in range(600):
            begin = now - 6 * WEEK + job * 6000
            about = {"job_id": f"old-{job}"}
            past += [
                {**about, "kind": "submitted", "time": begin, "procs": 2, "requested_time": 7200, "user": job % 7},
                {**about, "kind": "started", "time": begin + 60},
                {**about, "kind": "ended", "time": begin + 60 + 100 * (1 + job % 13), "status": 1},
            ]
        send(client, past)
        send(client, jobs(60, now, running_from=25))
        one.learnt()
        yield one, client


@pytest.mark.slow
def test_the_page_in_a_browser_is_accessible_in_every_look(browser, busy, tmp_path):
    one, _ = busy
    one.service.learner.champion.identity.__dict__["trained_until"] = "2026-01-01 00:00:00 UTC"
    axe = axe_source()
    cut = "one => one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1"
    parts = "document.querySelectorAll('html, .wide, td, th[scope=row], dd, p')"
    pictures = Path(os.environ.get("JOBCAST_PICTURES") or tmp_path)
    got(one.url + "/")
    until(lambda: "forecast at" in got(one.url + "/")[2])
    for name, options in (
        ("light", {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}),
        ("dark", {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}}),
        ("phone", {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}),
    ):
        context = browser.new_context(**options)
        page = context.new_page()
        faults = []
        page.on("pageerror", lambda error, faults=faults: faults.append(str(error)))
        page.on("console", lambda told, faults=faults: told.type == "error" and faults.append(told.text))
        page.goto(one.url, wait_until="load")
        page.get_by_text("Updates itself.").wait_for(timeout=20000)
        page.screenshot(path=pictures / f"{name}.png", full_page=True)
        page.evaluate(axe)
        found = page.evaluate("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))")
        assert found == [] and faults == [], name
        assert page.evaluate(f"[...{parts}].filter({cut}).map(one => one.outerHTML.slice(0, 200))") == [], name
        context.close()


@pytest.mark.slow
def test_the_page_changes_by_itself_and_can_be_read_without_javascript(browser, busy):
    one, client = busy
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(one.url)
    assert plain.locator("tbody#waiting tr").count() == 25 and plain.locator("#models").inner_text()
    context.close()
    page = browser.new_page()
    page.goto(one.url)
    assert page.locator("tbody#waiting tr").count() == 25
    client.send([{"job_id": 7777, "kind": "submitted", "time": int(time.time()), "procs": 9, "requested_time": 60}])
    page.wait_for_selector('tbody#waiting tr[data-job="7777"]', timeout=20000)
    client.send([{"job_id": 7777, "kind": "started", "time": int(time.time())}])
    page.wait_for_selector('tbody#running tr[data-job="7777"]', timeout=20000)
    assert page.locator('tbody#waiting tr[data-job="7777"]').count() == 0
    page.close()


def test_pages_that_watch_are_counted_before_their_streams_begin(tmp_path):
    """However many ask at once; one whose stream never began is counted no more when it has gone."""
    sent = []

    async def gone(message):
        sent.append(message)
        raise OSError

    async def receive():
        return {"type": "http.disconnect"}

    async def ask(page):
        scope = {"type": "http", "headers": [], "query_string": b"", "asgi": {"spec_version": "2.4"}}
        answers = [await page.events(Request(scope)) for _ in range(MOST_WATCHING + 3)]
        assert [one.status_code for one in answers].count(503) == 3 and page._watching == MOST_WATCHING
        for one in answers[:MOST_WATCHING]:
            with pytest.raises(ClientDisconnect):
                await one(scope, receive, gone)
        assert page._watching == 0

    with running(tmp_path) as one:
        asyncio.run(ask(one.api.page))
    assert len(sent) == MOST_WATCHING
