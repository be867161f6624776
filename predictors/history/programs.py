"""Which program a job's command line runs: lines of sbatch, salloc, srun, aprun, mpirun and their like, and bare ones.

A submit line often names the batch script alone. The script then stands for the program, and the answer says so.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename
from types import MappingProxyType
from typing import Final

from predictors.data.formats.slurm import ALONE, ALONE_SHORT, split_options, words_of
from predictors.history.names import PSEUDONYM, stem

LAUNCHER, SCRIPT, LINE = "launcher", "batch script", "command line"
"""Where a program was read: after srun, aprun or mpirun; it is the script of a submission; it begins the line."""
_DEEPEST: Final = 8  # commands within commands that are followed (`salloc srun env bash -c …`)


@dataclass(frozen=True)
class Program:
    """What a command line runs."""

    executable: str  # the program, without its folder
    arguments: str  # the stem of its arguments: without digits, ids and the marks between words
    source: str  # `LAUNCHER`, `SCRIPT` or `LINE`


def program_of(line: str) -> Program | None:
    """Return the program that a command line runs; None where the line does not tell it.

    Left out are the launcher's own options with their values, assignments of variables, `--`, redirections, wrappers
    (`env`, `time`, `numactl` and so on), and shells and interpreters, of which the script or module counts. A line
    does not tell its program if that is a variable, a file of several programs, a shell without a script, a keyed
    hash, or if it stands after an option of aprun, mpirun or numactl that is not known here. Lines of several commands
    count by the first launcher, else by the only command that is not the shell's own.

    Slurm writes submit lines without quotes. A job name with blanks can thus be taken for a script.

    >>> program_of("sbatch -N 2 -J run17 relax.sh case_17")
    Program(executable='relax.sh', arguments='case', source='batch script')
    >>> program_of("srun -n 64 --cpu-bind=cores env A=1 /opt/bin/lmp -in in.0012")
    Program(executable='lmp', arguments='in in', source='launcher')
    >>> program_of("aprun -n 64 -N 4 -cc depth ./nek5000").executable, program_of("mpirun -np 4 $APP")
    ('nek5000', None)
    """
    if not line.strip() or PSEUDONYM.match(line.lstrip()):
        return None
    try:
        return _of_line(line, LINE, 0)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """A line does not tell its program."""


_SHELLS: Final = frozenset(("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh"))
_INTERPRETER: Final = re.compile(r"python[0-9.]*|perl|ruby|Rscript|julia")
_SHELL_VALUES: Final = frozenset(("-o", "-O", "--rcfile", "--init-file"))
_INTERPRETER_VALUES: Final = frozenset(("-W", "-X", "-t"))
_BUILT_IN: Final = frozenset(  # what prepares a run in a line of several commands
    (
        ".", ":", "[", "alias", "cd", "chmod", "cp", "date", "echo", "exit", "export", "hostname", "ln", "ls", "mkdir",
        "ml", "module", "mv", "printf", "pwd", "rm", "set", "setenv", "sleep", "source", "spack", "test", "touch",
        "true", "ulimit", "umask", "unset", "wait",
    )
)  # fmt: skip
_CONTROL: Final = frozenset(
    ("case", "do", "done", "else", "esac", "fi", "for", "function", "if", "then", "until", "while")
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_BREAK: Final = re.compile(r"[;&|()\n]+")
_REDIRECTION: Final = re.compile(r"[0-9&]*[<>]+")
_DUPLICATED: Final = re.compile(r"[0-9]*[<>]&[0-9-]")
_QSUB_ALONE: Final = frozenset("hIVXzf")
_SLURM: Final = frozenset(("sbatch", "srun", "salloc"))

_SRUN_VALUES: Final = frozenset(("wait", "W"))  # options of srun that have a value, and that have none of sbatch


@dataclass(frozen=True)
class _Options:
    """Options of a launcher, without their dashes, by how many of the next words are theirs."""

    none: frozenset[str]
    one: frozenset[str]
    two: frozenset[str] = frozenset()

    def after(self, words: Sequence[str]) -> list[str]:
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] != "--":
            name, joined, _ = words[at].lstrip("-").partition("=")
            if name in self.two:
                at += 3
            elif joined or name in self.none:
                at += 1
            elif name in self.one:
                at += 2
            elif name[:1] in self.one and name[1:].isdigit():  # -n64
                at += 1
            else:
                raise _UnknownError
        return list(words[at:])


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_APRUN: Final = _Options(
    _names(
        "b B C h q T v V z ss bypass-app-transfer batch-args help quiet reconnect strict-memory-containment "
        "sync-output version zone-sort"
    ),
    _names(
        "a cc cp d D e F j L m n N p P r R S sl sn t access-mode architecture cpu-binding cpu-binding-file "
        "cpu-time-limit cpus-per-cu debug depth environment-override memory-per-pe node-list pes pes-per-node "
        "pes-per-numa-node protection-domain relaunch specialized-cpus sl-nodes"
    ),
)
_MPIRUN: Final = _Options(
    _names(
        "allow-run-as-root bind-to-core bind-to-none bind-to-socket bycore bynode bysocket byslot "
        "check_mpi disable-recovery display-allocation display-devel-map display-map do-not-launch enable-recovery "
        "envall envnone genvall genvnone h help info l merge-stderr-to-stdout no-oversubscribe nolocal nooversubscribe "
        "nousize noprefix oversubscribe overload-allowed pernode prepend-rank print-all-exitcodes print-rank-map q "
        "quiet report-bindings rr tag-output timestamp-output use-hwthread-cpus usize v V verbose version xml"
    ),
    _names(
        "am bind-to bootstrap bootstrap-exec c configfile cpu-bind cpu-list cpu-set cpus-per-proc cpus-per-rank "
        "d depth disable-hostname-propagation envlist errfile-pattern f genvlist grr H host hostfile hosts hosts-group "
        "iface launcher launcher-exec line-buffer machinefile map-by mem-bind N n np npernode npersocket "
        "ofi-provider outfile-pattern output-filename path perhost ppn pin-mode prefix preload-files rank-by "
        "ranks-per-proc report-events rf rankfile report-pid rmk s stdin tmpdir timeout tune wd wdir x"
    ),
    _names("mca gmca env genv omca pmixmca prtemca"),
)
_NUMACTL: Final = _Options(
    _names("l localalloc a all"), _names("i interleave m membind N cpunodebind C physcpubind p preferred P")
)
_LAUNCHERS: Final[Mapping[str, _Options]] = MappingProxyType(
    {
        "aprun": _APRUN,
        **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "mpirun_rsh"), _MPIRUN),
    }
)


def _of_line(line: str, source: str, depth: int) -> Program:
    words = words_of(line)
    if (
        not _BREAK.search(line) or basename(words[0]) in _SLURM
    ):  # lines that have lost their quotes: no shell reads them
        return _of_words(words, source, depth)
    line = _DUPLICATED.sub(" ", line).replace("&>", ">")
    commands = [found for words in _commands(line) if (found := _without_assignments(words))]
    if any(basename(words[0]) in _CONTROL for words in commands):
        raise _UnknownError
    started = [words for words in commands if basename(words[0]) in _LAUNCHERS or basename(words[0]) == "srun"]
    others = [words for words in commands if basename(words[0]) not in _BUILT_IN]
    if started:
        return _of_words(started[0], source, depth)
    if len(others) != 1:
        raise _UnknownError
    return _of_words(others[0], source, depth)


def _commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line of a shell, without those that another's output goes to."""
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = [[]]
    piped = False
    try:
        for word in lexer:
            if _BREAK.fullmatch(word):
                piped = word in ("|", "|&")
                found.append([])
            elif not piped:
                found[-1].append(word)
    except ValueError as error:
        raise _UnknownError from error
    return found


def _without_assignments(words: Sequence[str]) -> list[str]:
    at = 0
    while at < len(words) and _ASSIGNMENT.match(words[at]):
        at += 1
    return list(words[at:])


def _of_words(words: Sequence[str], source: str, depth: int) -> Program:
    words = _without_assignments(words)
    while words[:1] == ["--"]:
        words = _without_assignments(words[1:])
    if not words or depth > _DEEPEST:
        raise _UnknownError
    name, rest, deeper = basename(words[0]), words[1:], depth + 1
    if name in ("sbatch", "qsub"):
        return _submitted(name, rest, deeper)
    if name in ("srun", "salloc"):
        alone, short = (ALONE, ALONE_SHORT) if name == "salloc" else (ALONE - _SRUN_VALUES, ALONE_SHORT - _SRUN_VALUES)
        options, rest = split_options(rest, alone, short)
        if any(option == "multi-prog" for option, _ in options):
            raise _UnknownError
        return _of_words(_first_of(rest), LAUNCHER if name == "srun" else source, deeper)
    if name in _LAUNCHERS:
        return _of_words(_first_of(_LAUNCHERS[name].after(rest)), LAUNCHER, deeper)
    if name == "numactl":
        return _of_words(_NUMACTL.after(rest), source, deeper)
    if name in ("env", "exec", "nohup", "time", "command"):
        while rest and rest[0].startswith("-") and rest[0] != "--":
            if rest[0] not in ("-i", "-p", "-v", "-"):
                raise _UnknownError
            rest = rest[1:]
        return _of_words(rest, source, deeper)
    if name in _SHELLS or _INTERPRETER.fullmatch(name):
        return _interpreted(rest, name in _SHELLS, source, deeper)
    if not _is_program(name):
        raise _UnknownError
    return Program(name, stem(" ".join(_arguments(rest))), source)


def _is_program(name: str) -> bool:
    """Return whether a word can name a program: it has letters or digits, and is no variable, option or redirection."""
    named = re.search(r"\w", name) and not name.startswith("-") and not _REDIRECTION.match(name)
    return bool(named) and "$" not in name and "`" not in name


def _first_of(words: Sequence[str]) -> list[str]:
    """Return the first of several programs that one launcher starts side by side."""
    return list(words[: words.index(":")]) if ":" in words else list(words)


def _submitted(name: str, words: Sequence[str], depth: int) -> Program:
    if name == "qsub":
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] != "--":
            word = words[at]
            alone = "=" in word if word.startswith("--") else len(word) > 2 or word[1:] in _QSUB_ALONE
            at += 1 if alone else 2
        return _of_words(words[at:], SCRIPT, depth)
    for place, word in enumerate(words):
        if word != "--wrap" and not word.startswith("--wrap="):
            continue
        _, joined, value = word.partition("=")
        after = place + (1 if joined else 2)
        value = value if joined else " ".join(words[place + 1 : after])
        # Without quotes, as Slurm writes it, the rest of the line belongs to what is wrapped.
        if split_options(words[after:])[1] and not re.search(r"\s", value):
            value = " ".join((value, *words[after:]))
        return _of_line(value, LINE, depth) if value.strip() else _of_words([], LINE, depth)
    _, script = split_options(words)
    while script[:1] == [":"]:  # options of the next component of a heterogeneous job
        _, script = split_options(script[1:])
    return _of_words(script, SCRIPT, depth)


def _interpreted(words: Sequence[str], shell: bool, source: str, depth: int) -> Program:
    """Return the script or module that an interpreter runs."""
    valued, at = _SHELL_VALUES if shell else _INTERPRETER_VALUES, 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "--":
            at += 1
            break
        if (not word.startswith("--") and word.endswith("c")) or (word == "-e" and not shell):
            if not shell or at + 1 >= len(words):
                raise _UnknownError
            return _of_line(words[at + 1], source, depth)
        if word == "-m" and not shell and at + 1 < len(words):
            return Program(words[at + 1], stem(" ".join(_arguments(words[at + 2 :]))), source)
        at += 2 if word in valued else 1
    name = basename(words[at]) if at < len(words) else ""
    if not _is_program(name):
        raise _UnknownError
    return Program(name, stem(" ".join(_arguments(words[at + 1 :]))), source)


def _arguments(words: Sequence[str]) -> list[str]:
    """Return a program's arguments without redirections, the files that these name, and further commands."""
    kept, named = list[str](), False
    for word in words:
        if _BREAK.fullmatch(word):
            break
        mark = _REDIRECTION.match(word)
        if not named and not mark:
            kept.append(word)
        named = mark is not None and mark.end() == len(word)
    return kept
