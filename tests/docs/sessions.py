"""Pages whose commands are run: in a fresh folder, one after the other, and what they print is what the page shows.

A page of `docs/tutorials` holds blocks of two kinds, which are done in their order:

- ```` ```console ```` holds a command after `$ ` (further lines of it after `> `), and what it prints, errors included;
- ```` ```python title="NAME" ````, or of another language, holds a file, which is written under that name.

A comment before a block of a command says what else holds: `<!-- status 2 -->` how it ends (else 0),
`<!-- 8 lines from "Job" -->` that of its output eight lines are shown, from the first that holds that text on (or
`all lines`, or `2 paragraphs`), `<!-- not shown -->` that none is. Figures of time that no two runs share are left out
of the comparison, and stay as they are in the page.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT

BLOCK = re.compile(
    r"(?:<!-- (?P<says>[^\n]*?) -->\n)?```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
HOME, PORT = "/home/me", "8571"
"""What a page shows for the folder that the commands run in, and for the port of a service."""

ONCE = (
    (re.compile(r"\b(in|took|after) \d[\d,.]* s\b"), r"\1 # s"),
    (re.compile(r"\(\d[\d,.]* s\)"), "(# s)"),
    (re.compile(r"\d[\d,.]* jobs/s"), "# jobs/s"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "#"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:\+00:00|Z)?"), "#"),
)
"""What differs between two runs of one command: times of computing, digests of code, the moment of a run."""
FIRST_RUN = re.compile(r"^jobcast: compiling .*\n", re.MULTILINE)
"""What only the first run on a machine says."""
TIMES = ("fit [s]", "[CPU s]", "µs/job")
"""Columns of tables that hold times of computing; their figures end where these titles end."""


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes
    ----------
    start, end : int
        Where its body is in the page.
    says : str
        The comment before it.
    title : str or None
        Name of the file that it holds; None: it holds a command.
    body : str
        What stands in it.
    """

    start: int
    end: int
    says: str
    title: str | None
    body: str

    @property
    def command(self) -> str:
        """The command, its further lines included."""
        head = re.match(r"\$ .*\n(?:> .*\n)*", self.body)
        assert head, f"a block of the console begins with '$ ': {self.body[:60]!r}"
        return "\n".join(line[2:] for line in head[0].splitlines())

    @property
    def shown(self) -> str:
        """What the page shows of its output."""
        return "".join(self.body.splitlines(keepends=True)[len(self.command.splitlines()) :])

    @property
    def status(self) -> int:
        """How the command must end."""
        told = re.search(r"status (\d+)", self.says)
        return int(told[1]) if told else 0

    def part(self, output: str) -> str | None:
        """Return the part of an output that the page shows; None where it shows none."""
        if "not shown" in self.says:
            return None
        lines = [f"{line.rstrip()}\n" for line in output.splitlines()]
        told = re.search(r"(\d+|all) (line|paragraph)s? from \"([^\"]+)\"", self.says)
        if told:
            begin = next((number for number, line in enumerate(lines) if told[3] in line), len(lines))
            rest = "".join(lines[begin:]) if told[2] == "line" else re.sub("\n\n+", "\n\n", "".join(lines[begin:]))
            pieces = re.split(r"(?<=\n)" if told[2] == "line" else r"(?<=\n\n)", rest)
            lines = "".join(pieces[: None if told[1] == "all" else int(told[1])]).splitlines(keepends=True)
        while lines and lines[-1] == "\n":
            lines.pop()
        return "".join(lines)


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page that hold a command or a file, in their order."""
    found = []
    for match in BLOCK.finditer(page):
        if match["language"] == "console" or match["title"]:
            title = None if match["language"] == "console" else match["title"]
            found.append(Block(*match.span("body"), match["says"] or "", title, match["body"]))
    return found


def run_page(page: str, folder: Path) -> tuple[str, list[str]]:
    """Run a page's commands, and return it with what they print now, and what of that differs from what it shows."""
    blocks, port = blocks_of(page), _free_port()
    outputs = _run(blocks, folder, port)
    differences, pieces, done = [], [], 0
    for number, block in enumerate(blocks):
        if block.title:
            continue
        output, status = outputs[number]
        output = FIRST_RUN.sub("", output.replace(str(folder), HOME).replace(port, PORT))
        if status != block.status:
            differences.append(f"$ {block.command}\nended with {status}, not {block.status}:\n{output[-3000:]}")
        part = block.part(output)
        if part is None or same(part, block.shown):
            continue
        differences.append(f"$ {block.command}\n--- the page\n{block.shown}--- now\n{part}")
        head = block.body[: len(block.body) - len(block.shown)]
        pieces += [page[done : block.start], head, part]
        done = block.end
    return "".join([*pieces, page[done:]]), differences


def _free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def _run(blocks: list[Block], folder: Path, port: str) -> dict[int, tuple[str, int]]:
    """Return the output and the status of each command; all run in one shell, so that a service stays up."""
    stored, work = folder.with_name(f"{folder.name}.outputs"), folder
    work.mkdir(exist_ok=True)
    stored.mkdir(exist_ok=True)
    script = []
    for number, block in enumerate(blocks):
        if block.title:
            (stored / f"{number}.file").write_text(block.body, encoding="utf-8")
            script.append(f"cp {stored}/{number}.file {block.title}")
        else:
            (stored / f"{number}.sh").write_text(block.command.replace(PORT, port) + "\n", encoding="utf-8")
            script.append(f". {stored}/{number}.sh > {stored}/{number}.out 2>&1; echo $? > {stored}/{number}.status")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder), "JOBCAST_HOME": str(folder),
        "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8",
        "USER": "me", "LOGNAME": "me",
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", ""), "PYTHONPATH": f"{ROOT}:{folder}.installed",
        # What a page installs stays in a folder of its own, and needs no network.
        "PIP_TARGET": f"{folder}.installed", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",
    }  # fmt: skip
    environment = {name: value for name, value in environment.items() if value}
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)], cwd=work, env=environment, start_new_session=True, stdin=subprocess.DEVNULL
    )
    try:
        shell.wait(900)
    finally:
        _end_all(shell)
    return {
        number: (
            (stored / f"{number}.out").read_text(encoding="utf-8", errors="replace"),
            int((stored / f"{number}.status").read_text()),
        )
        for number, block in enumerate(blocks)
        if not block.title
    }


def _end_all(shell: subprocess.Popen[bytes]) -> None:
    """End what the page's shell has started and left running: its own session, nobody else's."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


def same(one: str, other: str) -> bool:
    """Return whether two outputs are the same but for times of computing and the width of lines."""
    return _compared(one) == _compared(other)


def _compared(text: str) -> list[str]:
    lines: list[str] = []
    columns: list[int] = []
    for line in text.rstrip().splitlines():
        ends = [match.end() for title in TIMES for match in re.finditer(re.escape(title), line)]
        columns = ends or columns
        for end in () if ends else sorted(columns, reverse=True):
            number = re.search(r"[\d,.]+$", line[:end])
            line = f"{line[: number.start()]}#{line[end:]}" if number else line
        for pattern, instead in ONCE:
            line = pattern.sub(instead, line)
        lines.append(re.sub(r"[\s─━]+", " ", line).strip())
    return lines
