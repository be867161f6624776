"""The reference of the command line, a page for each command, made from the commands themselves."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from typer.core import TyperArgument
from typer.main import get_command

from experiments.cli.main import app

HEAD = """# Command line

Made from the commands themselves. `jobcast COMMAND --help` prints the same.

Each command ends with status 0, or with one line on standard error and status 2 where the input is bad.
With `--json` a command prints one [JSON document](../json.md) on standard output, and nothing else there.

| command | what it does |
|---|---|
"""
INHERITED = {"help", "install_completion", "show_completion"}


def pages() -> dict[str, str]:
    """Return the pages by their place in the site."""
    root = get_command(app)
    rows, found = [], {}
    for path, command in _commands(root, ()):
        name = "-".join(path)
        rows.append(f"| [`jobcast {' '.join(path)}`]({name}.md) | {_first_sentence(command.help)} |")
        found[f"reference/command-line/{name}.md"] = _page(path, command)
    found["reference/command-line/index.md"] = HEAD + "\n".join(rows) + "\n"
    return found


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _page(path: tuple[str, ...], command: Any) -> str:
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if one not in arguments and one.name not in INHERITED and not one.hidden]
    line = " ".join(["jobcast", *path, *(["[OPTIONS]"] if options else []), *(_usage(one) for one in arguments)])
    lines = [f"# jobcast {' '.join(path)}", "", _paragraphs(command.help), "", "```text", line, "```", ""]
    if arguments:
        lines += ["## Arguments", "", *(_entry(one, _usage(one)) for one in arguments)]
    panels: dict[str, list[Any]] = {}
    for one in options:
        panels.setdefault(one.rich_help_panel or "Options", []).append(one)
    for title, members in panels.items():
        lines += [f"## {title}", "", *(_entry(one, _names(one)) for one in members)]
    return "\n".join(lines) + "\n"


def _usage(one: Any) -> str:
    name = one.metavar or one.name.upper()
    name = name if one.nargs == 1 else f"{name}…"
    return name if one.required else f"[{name}]"


def _names(one: Any) -> str:
    names = ", ".join([*one.opts, *one.secondary_opts])
    return names if getattr(one, "is_flag", False) else f"{names} {one.metavar or _kind(one)}"


def _kind(one: Any) -> str:
    annotation = one.type_descriptor.annotation
    return {"str": "TEXT", "int": "WHOLE", "float": "NUMBER", "Path": "PATH"}.get(
        getattr(annotation, "__name__", ""), "VALUE"
    )


def _entry(one: Any, heading: str) -> str:
    facts = []
    low, high = getattr(one, "min", None), getattr(one, "max", None)
    if low is not None or high is not None:
        facts.append(f"from {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}")
    if isinstance(one.default, (str, int, float, PurePath)) and not isinstance(one.default, bool) and one.default != "":
        facts.append(f"default `{one.default}`")
    if getattr(one, "multiple", False):
        facts.append("may be given again")
    if one.envvar:
        facts.append(f"or the environment's `{one.envvar}`")
    more = f" *({'; '.join(facts)})*" if facts else ""
    return f"`{heading}`\n:   {_plain(one.help)}{more}\n"


def _plain(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(_plain(part) for part in (text or "").split("\n\n"))


def _first_sentence(text: str | None) -> str:
    return _plain((text or "").split("\n\n")[0])
