"""A folder's report: one page that needs nothing else, says what it must, and is never made of broken pieces."""

import io
import json
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.registry import EXPERIMENTS, perform
from experiments.reports.figures import draw
from experiments.reports.manifest import MANIFEST, MAX_ROWS, keep, read_manifest
from experiments.reports.page import PAGE, write_page
from experiments.reports.report import FirstScreen, Report
from experiments.runs.setting import Setting
from jobcast import JobcastError, generate_log
from tests.support.places import ROOT

HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\x00\u202e&amp;"
VOID = {"meta", "img", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements with their attributes and text; open and closing tags must match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.stack, self.text, self.problems = [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"never closed: {name}" for name in self.stack]

    def handle_starttag(self, tag, attrs):
        """Keep an element."""
        self.elements.append((tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.problems.append(f"{tag} has an attribute twice")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        """Close an element, which must be the last one opened."""
        if not self.stack or self.stack.pop() != tag:
            self.problems.append(f"{tag} closed where it was not open, line {self.getpos()[0]}")

    def handle_data(self, data):
        """Keep what a reader sees."""
        if not self.stack or self.stack[-1] not in ("script", "style"):
            self.text.append(data)

    def all(self, tag):
        """Return the attributes of each element of a name."""
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def words(self):
        """All text, in one line."""
        return " ".join(" ".join(self.text).split())


def paint(axes, table):
    axes.plot(table["x"], table["y"], label="ours")
    axes.set(title=f"Waits of {HOSTILE[:20]}", xlabel="wait [h]", ylabel="share of jobs")
    axes.legend()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a finished report whose every name means harm."""
    folder = tmp_path_factory.mktemp("finished")
    table = pd.DataFrame({"user": [HOSTILE, "b10", "b9"], "mean_wait_s": [2.5, np.nan, 10_000.25], "jobs": [7, 8, 9]})
    curve = pd.DataFrame({"x": [1, 2], "y": [0.5, 1.0]})
    report = Report(
        experiment="study", log=HOSTILE, seeds=(1, 2, 3), tables={"by user": table, "no rows": table.head(0)},
        figures=tuple(draw(folder, "curve", curve, paint)), seconds=75.0, notes=(HOSTILE,),
        verdict=("A beats B by 10 % [5, 15].",), question="Who pays?", facts={"jobs": 28481, "host": HOSTILE},
        details=("Under B: users wait longer.",),
    )  # fmt: skip
    keep(folder, report)
    write_page(folder)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of it: drawing takes half a second."""
    return shutil.copytree(finished, tmp_path / "report")


def page_in(folder):
    return Page((folder / PAGE).read_text(encoding="utf-8"))


def test_names_from_outside_stay_text(folder):
    text = (folder / PAGE).read_text(encoding="utf-8")
    page = Page(text)
    assert page.problems == []
    assert len(page.all("script")) == 1 and len(page.all("img")) == 1 and len(page.all("title")) == 1
    assert not any(name.startswith("on") or name == "style" for _, attrs in page.elements for name in attrs)
    assert "<script>alert(1)</script>" in page.words and "{{ 7*7 }}" in page.words
    assert "\x00" not in text and "\u202e" not in text
    assert "&amp;" in page.words, "an escape that was in the name is shown as it was"


def test_the_page_needs_nothing_else(folder):
    page = page_in(folder)
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy
    assert all(image["src"].startswith("data:image/") for image in page.all("img"))
    assert not page.all("link") and not page.all("iframe")
    links = [a["href"] for a in page.all("a")]
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    for link in links:
        assert link.startswith("#") or (folder / link).is_file(), link
    assert len(ids) == len([1 for _, attrs in page.elements if "id" in attrs]), "an id stands once"


def test_the_policy_allows_just_the_style_and_the_script_that_are_there(folder):
    import base64
    import hashlib

    text = (folder / PAGE).read_text(encoding="utf-8")
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in text.replace("&#39;", "'")


def test_the_verdict_comes_first_and_what_was_run_is_told(folder):
    words = page_in(folder).words
    order = [
        "Verdict", "A beats B by 10 % [5, 15].", "What was run", "28,481", "1-3", "1 min 15 s", "Under B:", "Figures",
        "Tables",
    ]  # fmt: skip
    places = [words.index(what) for what in order]
    assert places == sorted(places)
    assert "numpy" in words and np.__version__ in words


def test_a_page_with_a_first_screen_answers_there_and_folds_the_rest(tmp_path):
    """One sentence, one picture, one table; then everything else, folded, and nothing of it twice."""
    curve = pd.DataFrame({"x": [1, 2], "y": [0.5, 1.0]})
    table = pd.DataFrame({"": ["mean wait"], "EASY": ["2.5 h"], "careful": ["1.4 h"], "change": ["-44 %"]})
    runs = pd.DataFrame({"case": ["EASY"], **{f"f{k}": [1.5] for k in range(9)}, "command": ["jobcast simulate " * 9]})
    first = FirstScreen("Change from EASY to careful.", "five", "who", "Do this.")
    report = Report(
        experiment="advise", log=HOSTILE, seeds=(1,), tables={"five": table, "with commands": runs},
        figures=(*draw(tmp_path, "who", curve, paint), *draw(tmp_path, "more", curve, paint)), seconds=1.0,
        notes=("A note.",), verdict=("The verdict: at length.",), question="Who pays?",
        details=("Under B: users wait longer.",), first=first,
    )  # fmt: skip
    keep(tmp_path, report)
    write_page(tmp_path)
    page = page_in(tmp_path)
    assert page.problems == []
    order = ["Change from EASY to careful.", "Do this.", "Waits of", "2.5 h", "The verdict in full", "at length."]
    places = [page.words.index(what) for what in order]
    assert places == sorted(places)
    tags = [tag for tag, attrs in page.elements if tag in ("h1", "img", "table", "details")]
    assert tags[:4] == ["h1", "img", "table", "details"] and (tags.count("img"), tags.count("table")) == (2, 2)
    assert page.all("details") and not any("open" in attrs for attrs in page.all("details"))
    (command,) = page.all("code")[:1]
    assert command == {"class": "command"}, "a command stands below its row's name, not in a column of its own"


def test_a_page_without_a_first_screen_folds_nothing(folder):
    parts = [attrs for attrs in page_in(folder).all("details") if attrs.get("class") == "part"]
    assert parts and all("open" in attrs for attrs in parts)


def test_pictures_are_told_in_words(folder):
    (image,) = page_in(folder).all("img")
    assert "Waits of" in image["alt"] and "wait [h]" in image["alt"] and "ours" in image["alt"]


def test_cells_carry_what_they_are_sorted_by(folder):
    page = page_in(folder)
    cells = [attrs for tag, attrs in page.elements if tag in ("td", "th") and "scope" not in attrs]
    assert [attrs.get("data-v") for attrs in cells] == ["2.5", "7", None, "8", "10000.25", "9"]
    assert "mean wait [s]" in page.words and "10,000" in page.words
    assert (folder / "by_user.csv").read_text(encoding="utf-8").count("\n") == 4


def test_a_long_table_is_cut_and_says_so(tmp_path):
    table = pd.DataFrame({"row": range(MAX_ROWS + 234)})
    keep(tmp_path, Report(experiment="study", log="log", seeds=(0,), tables={"all": table}, figures=(), seconds=1.0))
    write_page(tmp_path)
    assert f"The first {MAX_ROWS:,} of {MAX_ROWS + 234:,} rows" in page_in(tmp_path).words
    assert len(page_in(tmp_path).all("tr")) == MAX_ROWS + 1


def test_the_same_report_gives_the_same_page(folder):
    before = (folder / PAGE).read_bytes()
    write_page(folder)
    assert (folder / PAGE).read_bytes() == before


def spoil(name, change):
    def spoiled(folder):
        document = json.loads((folder / MANIFEST).read_text())
        change(document)
        (folder / MANIFEST).write_text(json.dumps(document))

    return name, spoiled


def write(folder, text, name=MANIFEST):
    (folder / name).write_text(text)


def _told(folder, seconds):
    write(folder, re.sub(r'"seconds": [\d.e-]+', seconds, (folder / MANIFEST).read_text()))


def _also(document, name):
    document["files"].append({**document["files"][0], "name": name})


def _outside(document):
    for file in document["files"]:
        if file["name"].endswith(".svg"):
            file["name"] = "../../etc/passwd"
    document["pictures"][0]["svg"] = "../../etc/passwd"


BAD = {
    "no report": ("no report.json", lambda folder: (folder / MANIFEST).unlink()),
    "cut short": ("no whole JSON", lambda folder: write(folder, (folder / MANIFEST).read_text()[:500])),
    "not text": ("no whole JSON", lambda folder: (folder / MANIFEST).write_bytes(bytes(range(256)))),
    "deep": ("no whole JSON", lambda folder: write(folder, "[" * 200_000)),
    "another document": ("not a report", lambda folder: write(folder, '{"experiment": "x"}')),
    "a list": ("not a report", lambda folder: write(folder, "[]")),
    "another version": spoil("version 2", lambda document: document.update(version=2)),
    "a part missing": spoil("'tables' is missing", lambda document: document.pop("tables")),
    "a part of another kind": spoil("verdict 1 must be a text; got 3", lambda document: document.update(verdict=[3])),
    "a ragged table": spoil("other lengths", lambda document: document["tables"][0]["rows"][0].pop()),
    "a table in a cell": spoil("tables 1: rows 1 1", lambda d: d["tables"][0]["rows"][0].__setitem__(0, [1])),
    "a file outside": spoil("not the name of a file in its folder", _outside),
    "a file it does not list": spoil("not among its files", lambda d: d["tables"][0].update(file="x.csv")),
    "a picture gone": ("curve.svg: is missing", lambda folder: (folder / "curve.svg").unlink()),
    "no number": ("no whole JSON document (NaN", lambda folder: _told(folder, '"seconds": NaN')),
    "no time": ("seconds must be", lambda folder: _told(folder, '"seconds": 1e999')),
    "a time of many digits": ("seconds must be", lambda folder: _told(folder, '"seconds": ' + "9" * 400)),
    "a picture of no name": spoil("uses '', which is not among its files", lambda d: d["pictures"][0].update(svg="")),
    "a name too long": spoil("not the name of a file", lambda document: _also(document, "x" * 300)),
    "a name in two lines": spoil("not the name of a file", lambda document: _also(document, "a\nb")),
    "a run begun anew": ("not the file that report.json was", lambda folder: write(folder, "a", "by_user.csv")),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_folder_that_cannot_be_used_is_told_and_the_page_that_was_stays(case, folder):
    told, harm = BAD[case]
    before = (folder / PAGE).read_bytes()
    harm(folder)
    with pytest.raises(JobcastError) as error:
        write_page(folder)
    assert told in str(error.value) and str(folder) in str(error.value)
    assert (folder / PAGE).read_bytes() == before
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_names_in_a_picture_are_no_formulas_and_leave_room_for_it(tmp_path):
    """A log may be called by what reads like a formula, and by 250 letters."""
    names = [r"$\frac{$", "y" * 250]

    def paint(axes, table):
        axes.barh([0, 1], table["wait"], label=names[1])
        axes.set_yticks([0, 1], names)
        axes.set(title=names[0], xlabel="wait [s]")
        axes.legend()

    paths = draw(tmp_path, "names", pd.DataFrame({"wait": [1.0, 2.0]}), paint)
    assert all(path.stat().st_size for path in paths)
    drawn = paths[1].read_text(encoding="utf-8")
    assert "<dc:title>$\\frac{$</dc:title>" in drawn
    assert "y" * 29 + "…" in drawn
    assert "y" * 61 not in drawn


def test_a_title_ends_within_its_picture(tmp_path):
    drawn = []

    def paint(axes, table):
        drawn.append(axes)
        axes.barh([0], table["wait"])
        axes.set_yticks([0], ["mean wait of the widest 5 %"])
        axes.set(title="Mean wait under conservative-replan instead of requests")

    draw(tmp_path, "title", pd.DataFrame({"wait": [1.0]}), paint, width=5.0)
    title, picture = drawn[0].title.get_window_extent(), drawn[0].figure.bbox
    assert picture.x0 <= title.x0 and title.x1 <= picture.x1 and title.y1 <= picture.y1


def test_the_first_screen_says_what_its_marks_mean(tmp_path):
    table = pd.DataFrame({"": ["mean wait"], "today": ["2 h"], "then": ["3 h"], "change": ["+50 % ▲"]})
    picture = draw(tmp_path, "who", pd.DataFrame({"wait": [1.0]}), lambda axes, _: axes.plot([1.0]))
    first = FirstScreen("Keep EASY.", "five figures", "who")
    report = Report(experiment="advise", log="a", seeds=(1,), tables={"five figures": table}, figures=tuple(picture),
                    seconds=1.0, first=first)  # fmt: skip
    keep(tmp_path, report)
    assert "▼ lower, ▲ higher, outside the noise" in write_page(tmp_path).read_text(encoding="utf-8")


def test_no_folder_and_a_document_that_is_too_big(folder, monkeypatch):
    with pytest.raises(JobcastError, match="is no folder"):
        write_page(folder / "nowhere")
    monkeypatch.setattr("experiments.reports.manifest.MAX_BYTES", 1000)
    with pytest.raises(JobcastError, match="too big"):
        write_page(folder)


def test_a_file_that_the_report_names_must_be_there(tmp_path):
    with pytest.raises(JobcastError, match=r"gone\.csv"):
        keep(
            tmp_path,
            Report(experiment="study", log="log", seeds=(0,), tables={}, figures=(tmp_path / "gone.csv",), seconds=1.0),
        )
    assert not (tmp_path / MANIFEST).exists()


def test_an_experiment_leaves_its_page(tmp_path):
    log = replace(generate_log(300, seed=2, procs=32, load=1.0), name=HOSTILE[8:40])
    report = perform("start-times", Setting(log, tmp_path, quick=True))
    page = page_in(tmp_path)
    assert page.problems == [] and report.verdict[0] in page.words
    assert "Can the start of a waiting job be forecast?" in page.words
    assert log.digest() in page.words
    assert {table["title"] for table in read_manifest(tmp_path)["tables"]} == {"start_times"}
    assert len(page.all("img")) == 2


def test_every_experiment_says_what_it_asks():
    """Read as text, since importing them all takes seconds."""
    for name in EXPERIMENTS.values():
        text = (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        (question,) = re.findall(r"^QUESTION: Final = \(?\s*(.*)$", text, re.MULTILINE)
        assert len(question) > 20, name


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian's package chromium) to look at the page")
def test_in_a_browser_tables_sort_by_keyboard_and_a_phone_does_not_scroll_sideways(folder, tmp_path_factory):
    """A frame as wide as a phone holds the page; what its script finds is read from the outer page."""
    text = (folder / PAGE).read_text(encoding="utf-8")
    probe = """
    const said = [];
    const frame = document.documentElement;
    said.push(frame.scrollWidth <= frame.clientWidth);
    const buttons = [...document.querySelectorAll("thead button")];
    buttons[1].focus(); said.push(document.activeElement === buttons[1]);
    const names = () => [...document.querySelectorAll("tbody")][0].querySelectorAll("tr");
    const column = (k) => [...names()].map((row) => row.cells[k].textContent);
    buttons[1].click(); said.push(column(2).join());
    buttons[1].click(); said.push(column(2).join());
    said.push(buttons[1].parentElement.getAttribute("aria-sort"));
    buttons[0].click(); said.push(column(2).slice(-2).join());
    parent.postMessage(JSON.stringify(said), "*");
    """
    open_page = re.sub(r"<meta http-equiv=[^>]*>", "", text)  # the policy would, rightly, forbid the probe
    place = tmp_path_factory.mktemp("look")
    (place / "page.html").write_text(open_page.replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    (place / "phone.html").write_text(
        "<title></title><script>addEventListener('message', (said) => { document.title = said.data; })</script>"
        "<iframe width=360 height=700 src=page.html></iframe>"
    )
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}",
         "--window-size=900,900", "--dump-dom", (place / "phone.html").as_uri()],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr
    found = json.loads(title.group(1).replace("&quot;", '"'))
    assert found == [True, True, "7,9,8", "9,7,8", "descending", "9,8"]


def test_the_wheel_holds_the_template(tmp_path):
    hatchling = pytest.importorskip("hatchling.builders.wheel", reason="needs hatchling to build the wheel")
    (built,) = hatchling.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(io.BytesIO(Path(built).read_bytes())).namelist()
    for name in ("report.html.jinja", "report.css", "report.js"):
        assert f"experiments/reports/templates/{name}" in names
