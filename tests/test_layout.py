"""The shape of the source: sizes of modules and folders, imports without circles, words of the field."""

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.places import ROOT

PACKAGES = ("jobcast", "predictors", "schedsim", "experiments")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MOST_MODULES, MOST_LINES = 16, 800

# Names of modules that say nothing, or say it in a word which is not the field's.
RETIRED_MODULES = re.compile(
    r"""
    _kernels_.* | cli_.* | verdicts_.* | .*_words | barred | beginning | beside | chain | clamped | codes | crew
    | desk | doors? | finding | given | growing | guard | habits | handling | heard | helpers | hiring | house |
    judgement | judging | keeper | ledger | lessons | misc | moments | oddities | outlook | own_folder |
    own_rows | paranoid | parts | pauses | postponing | put_off | remembering | seats | second_look | shortcut |
    similar_runs | sparing | surroundings | told | turns | utils | verdicts | with_budget | words | world
    """,
    re.VERBOSE,
)
# Identifiers that have a name of the field now. Plain English words are not among them.
RETIRED_NAMES = re.compile(
    r"""
    BESIDE | Desk | FATE | FOR_CANDIDATES | FOR_ORDER | FOR_RUNNING | Failing | HEIRS_SHARE | Habits |
    Hired | Judgement | KIN | LADDER | Ledger | Lessons | NameKey | Oddities | OnLog | Outlook |
    PROMISED | Seats | Told | World | believed | desk | heirs | kids | kin | line_up | made_by | oddities |
    own_folder | own_rows | put_off | rungs? | second_look | similar_runs | step_out | told_by | with_budget
    """,
    re.VERBOSE,
)
# Turns of phrase that stood for a term of the field, or for the usual word.
RETIRED_PHRASES = re.compile(
    r"\b(?:at the desk|own folder|second look|who is asked|are seated|the crew|the ladder|nobody passes|not told apart"
    r"|(?:is|are|was|jobs) put off|surely|nobody's|nobody (?:pays|answers)|gone on with|dares least|who may pass"
    r"|for the site to say|no sure cost|looked at for ever|whose it is|drawn anew|(?:held|judged) beside)\b",
    re.IGNORECASE,
)
# Words that pages, comments, docstrings and messages do without; `beside : str` documents a parameter.
RETIRED_WORDS = re.compile(r"\b(?:anew|beside(?! :)|nobody|for ever|(?:is|are) told|looked at)\b", re.IGNORECASE)
# Modules with such words in tables that `tests/digests` pins.
NOT_REWRITTEN = {"experiments/papers/ceil/cases.py", "experiments/papers/logstudy/observations.py"}

# Modules of commands with a part that loads on its own.
LATE = {
    "experiments/cli/__main__.py",  # all: Ctrl-C ends the command while it is being loaded
    "experiments/cli/main.py",  # a warning of predictors
    "experiments/cli/advise.py",  # networks that are tuned need Gymnasium
    "experiments/cli/outputs.py",  # files of Slurm that a policy names
    "experiments/cli/simulate.py",  # figures
    "experiments/cli/live/slurm.py",  # a model in this process
    "jobcast/__main__.py",  # all: it names a file that hides one of our packages
    "experiments/cli/service/serve.py",  # all that follows once hang-ups are remembered and the log is set up
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def statements_of(path: Path) -> list[ast.AST]:
    """Return a module and all its statements, wherever they stand: definitions and imports are nothing else."""
    found: list[ast.AST] = [tree_of(path)]
    for node in found:
        inside = ast.iter_child_nodes(node)
        found += [one for one in inside if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case)]
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def own_imports(path: Path) -> list[tuple[ast.stmt, list[str]]]:
    """Return each import of our own modules, wherever it stands, with the modules that it names."""
    found: list[tuple[ast.stmt, list[str]]] = []
    for node in statements_of(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in full]
        if names:
            found.append((node, names))
    return found


def test_no_folder_holds_too_many_modules():
    count = Counter(name_of(path.parent) for path in SOURCES if path.name != "__init__.py")
    assert {folder: n for folder, n in count.items() if n > MOST_MODULES} == {}


def test_every_folder_stands_in_the_tree_of_contributing():
    """But the papers' own folders, and what the database's tables have been."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    parents: dict[int, str] = {}
    shown = set()
    for line in text.splitlines():
        names = re.match(r"( *)((?:[\w./]+, )*[\w.]+/?)", line)
        depth = len(names.group(1)) // 2
        for name in names.group(2).split(", "):
            parents[depth] = name.removesuffix("/")
            shown.add("/".join(parents[level] for level in range(depth + 1)))
    folders = {name_of(path.parent) for path in SOURCES if path.name != "__init__.py"}
    left = re.compile(r"experiments/papers/.*|predictors/service/storage/migrations.*")
    assert sorted(folder for folder in folders - shown if not left.fullmatch(folder)) == []


def test_no_module_is_too_long():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def test_the_first_sentence_of_a_docstring_is_a_statement():
    questions = []
    for path in SOURCES:
        for node in statements_of(path):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = re.split(r"\n\s*\n", ast.get_docstring(node) or "")[0]
                sentence = re.match(r"[^.!?]*(?:[.!](?!\s|$)[^.!?]*)*[.!?]?", " ".join(first.split()))
                if sentence and sentence.group().endswith("?"):
                    questions.append(f"{name_of(path)}:{getattr(node, 'lineno', 1)}")
    assert questions == []


def test_our_own_modules_are_imported_at_the_top():
    """A function may import a heavy library late, never ours, but in the modules of `LATE`, which say why."""
    late = []
    for path in SOURCES:
        if name_of(path) not in LATE:
            functions = [n for n in statements_of(path) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
            lines = {line for one in functions for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
            late += [f"{name_of(path)}:{node.lineno}" for node, _ in own_imports(path) if node.lineno in lines]
    assert late == []


def test_modules_import_one_another_without_circles():
    """Imports inside functions and for type checkers count."""
    imports = {
        module: {name for _, names in own_imports(path) for name in names} - {module}
        for module, path in MODULES.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail("circle: " + " <- ".join(error.args[1]))


def test_no_module_has_a_retired_name():
    assert [name_of(path) for path in SOURCES if RETIRED_MODULES.fullmatch(path.stem.lstrip("_"))] == []


def test_no_retired_identifier_is_left():
    """Neither in code, nor between backquotes in a docstring, a comment or a page."""
    left = Counter()
    for path in (*SOURCES, *PAGES):
        text = path.read_text(encoding="utf-8")
        if not re.search(rf"\b(?:{RETIRED_NAMES.pattern})\b", text, re.VERBOSE):
            continue  # also where one stands in a string: taking a module to pieces is slow
        names = re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", text)))
        if path.suffix == ".py":
            names += [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME]
        left.update(f"{name_of(path)}: {name}" for name in names if RETIRED_NAMES.fullmatch(name))
    assert sorted(left) == []


def test_no_retired_phrase_is_left():
    left = []
    for path in (*SOURCES, *PAGES):
        text = " ".join(path.read_text(encoding="utf-8").split())
        left += [f"{name_of(path)}: {phrase}" for phrase in RETIRED_PHRASES.findall(text)]
    assert left == []


def prose_of(path: Path) -> str:
    """Return the comments and texts of a module, or a page without its code; names between backquotes do not count."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and RETIRED_WORDS.search(text):
        kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        text = "\n".join(token.string for token in tokens if token.type in kinds and " " in token.string)
    return " ".join(re.sub(r"```.*?```|`[^`]*`|\{[^{}]*\}", "", text, flags=re.DOTALL).split())


def test_no_retired_word_is_left():
    left = []
    for path in (*SOURCES, *PAGES):
        if name_of(path) not in NOT_REWRITTEN:
            left += [f"{name_of(path)}: {word}" for word in RETIRED_WORDS.findall(prose_of(path))]
    assert left == []


def test_modules_and_files_named_in_text_are_there():
    """Dotted names of our modules, and paths of our files, wherever a docstring or a page names them."""
    packages, gone = "|".join(PACKAGES[1:]), []  # jobcast.service and the like are files of a site
    for path in (*SOURCES, *PAGES):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(rf"(?<![\w./@-])(?:{packages})(?:\.\w+)+", text):
            parts = name.split(".")
            module = next(known for n in range(len(parts), 0, -1) if (known := ".".join(parts[:n])) in MODULES)
            rest = parts[module.count(".") + 1 :]
            if rest and not re.search(rf"\b{rest[0]}\b", MODULES[module].read_text(encoding="utf-8")):
                gone.append(f"{name_of(path)}: {name}")
        for name in re.findall(rf"(?<![\w./-])(?:{packages}|tests|docs)(?:/\w+)+\.(?:py|md|json|toml)\b", text):
            if not (ROOT / name).exists() and "NAME" not in name:
                gone.append(f"{name_of(path)}: {name}")
    assert gone == []
