"""The public interface: what it consists of, that pages keep to it, and how its values are shown."""

import ast
import inspect
import re
import subprocess
import sys
import typing
from dataclasses import fields, is_dataclass
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import jobcast
from docs.generate.interfaces import PACKAGES, exported, further_names, python_pages
from jobcast import Workload, clean, evaluate, generate_log, make_policy, make_predictor, simulate
from schedsim.policies.networks import Shared
from tests.support.places import ROOT

OURS = tuple(package.__name__ for package in PACKAGES)
STUB = ROOT / "jobcast" / "__init__.pyi"
FIRST = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "how-to/write-your-own.md"))]
FIRST += [*(ROOT / "docs" / "tutorials").glob("*.md"), *(ROOT / "docs" / "notebooks").glob("*.ipynb")]
"""Pages that a newcomer reads."""


def public():
    """Return every public object: what `jobcast` exports, and what pages import from modules."""
    homes = [*exported(), *(one for package in PACKAGES for one in further_names(package))]
    return [getattr(import_module(home), name) for home, name in homes]


def types_in(annotation):
    """Yield the classes that an annotation names."""
    if isinstance(annotation, type):
        yield annotation
    for part in typing.get_args(annotation):
        yield from types_in(part)


def hints_of(thing):
    try:
        return typing.get_type_hints(thing)
    except NameError:  # imported for type checkers alone
        return {}


def value_types():
    """Return each dataclass that a public class or function takes, holds or returns, by walking their annotations."""
    left, seen = public(), {}
    while left:
        thing = left.pop()
        if id(thing) in seen or getattr(thing, "__module__", "").split(".")[0] not in OURS:
            continue
        seen[id(thing)] = thing
        inside = vars(thing).values() if isinstance(thing, type) else ()
        called = [
            getattr(one, "fget", None) or getattr(one, "func", None) or getattr(one, "__func__", one) for one in inside
        ]
        for one in (thing, *filter(callable, called)):
            left += [kind for hint in hints_of(one).values() for kind in types_in(hint)]
    return [one for one in seen.values() if isinstance(one, type) and is_dataclass(one)]


def test_no_value_of_the_public_interface_prints_its_arrays():
    """But arrays that a class leaves out of its `repr`."""
    kinds, long = value_types(), []
    for kind in kinds:
        hints = hints_of(kind)
        arrays = [
            one.name
            for one in fields(kind)
            if one.repr and any(issubclass(held, np.ndarray | pd.DataFrame) for held in types_in(hints.get(one.name)))
        ]
        generated = "__create_fn__" in kind.__repr__.__qualname__
        long += [f"{kind.__module__}.{kind.__qualname__}: {arrays}"] if arrays and generated else []
    assert len(kinds) > 80 and long == []


def test_what_users_call_has_a_docstring():
    """Methods that override have that of their base."""
    lacking = []
    for thing in public():
        own = vars(thing) if isinstance(thing, type) else {}
        lacking += [] if inspect.getdoc(thing) or not callable(thing) else [thing.__qualname__]
        lacking += [
            f"{thing.__qualname__}.{name}"
            for name, one in own.items()
            if not name.startswith("_") and (callable(one) or isinstance(one, property | classmethod | staticmethod))
            and not inspect.getdoc(getattr(thing, name))
        ]  # fmt: skip
    assert lacking == []


def test_values_with_many_jobs_print_a_line():
    log, _ = clean(generate_log(800, seed=1, procs=64))
    workload = Workload.from_log(log)
    schedule = simulate(workload, make_policy("easy"))
    found = evaluate(log, {"last-two": make_predictor("last-two")})
    shown = [repr(one) for one in (log, workload, schedule, found)]
    assert [one for one in shown if "\n" in one or len(one) > 2000] == []
    assert shown[0].startswith("JobLog('") and "800 jobs in" in shown[0] and "64 processors" in shown[0]
    assert shown[1].startswith("Workload('") and "64 processors" in shown[1]
    assert shown[2].startswith("Schedule('") and "days, 64 processors)" in shown[2]


def test_the_repr_of_an_agent_tells_its_weights_apart():
    """The rows of a sweep, and what is found again on disk, name policies by it."""
    weights = np.zeros(Shared.count((2,)))
    assert repr(Shared(weights, (2,))) != repr(Shared(weights + 1, (2,)))


def test_each_exported_name_resolves_is_documented_and_has_its_type():
    assert len(jobcast.__all__) <= 40 and jobcast.__all__ == sorted(jobcast.__all__)
    assert [name for name in jobcast.__all__ if not inspect.getdoc(getattr(jobcast, name))] == []
    assert {*jobcast.__all__} <= {*dir(jobcast)}
    typed = re.findall(r"^from ([\w.]+) import (.+)$", STUB.read_text(encoding="utf-8"), re.MULTILINE)
    assert {(home, name) for home, names in typed for name in re.findall(r"(\w+) as \1", names)} == {*exported()}
    with pytest.raises(AttributeError, match="'jobcast' has no attribute 'read_lgo'"):
        jobcast.read_lgo  # noqa: B018


@pytest.mark.parametrize("imported", ["jobcast", "jobcast.__main__"])
def test_importing_the_package_imports_nothing(imported):
    """So that it is quick, and Ctrl-C ends a command at once that is still being loaded."""
    code = f"import sys; before = {{*sys.modules}}; import {imported}; print({{*sys.modules}} - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == {"jobcast", imported}


def test_a_file_that_hides_a_package_is_named_at_the_first_use(tmp_path):
    (tmp_path / "predictors.py").touch()
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import jobcast; jobcast.read_log"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and f"{str(tmp_path / 'predictors.py')!r} hides the package" in last


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_pages_import_is_public_and_stands_in_the_references(package):
    shown = python_pages()[f"reference/python/{package.__name__}.md"]
    names = exported() if package is jobcast else further_names(package)
    assert [name for home, name in names if f"::: {home}.{name}\n" not in shown] == []
    assert [name for home, name in names if name.startswith("_") or "._" in home] == []
    assert "page imports from a module" in " ".join(package.__doc__.split())


def test_first_pages_import_from_jobcast_alone():
    line = re.compile(rf"(?:from|import) (?:{'|'.join(OURS)})\b.*")
    texts = {path.name: path.read_text(encoding="utf-8") for path in FIRST}
    found = [(name, one) for name, text in texts.items() for one in line.findall(text)]
    assert len(found) > 5
    assert [(name, one) for name, one in found if not one.startswith("from jobcast import ")] == []
