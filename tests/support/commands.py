"""Commands, run in this process; their words may be a line, or words of any type."""

from typer.testing import CliRunner

from experiments.cli.main import app


def invoke(*words, env=None):
    """Run a command; return what it printed, its exit status and what it raised."""
    words = words[0].split() if len(words) == 1 and isinstance(words[0], str) else map(str, words)
    return CliRunner().invoke(app, list(words), env=env)


def printed(*words, env=None):
    """Return what a command prints to standard output; what it raises is raised."""
    found = invoke(*words, env=env)
    if found.exception is not None:
        raise found.exception
    return found.stdout
