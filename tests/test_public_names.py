"""The public interface: what it consists of, that pages keep to it, and how its values are shown."""

import re
import typing
from dataclasses import fields, is_dataclass
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import experiments
import predictors
import schedsim
from docs.generate.interfaces import further_names, python_pages
from predictors import clean, evaluate, generate_log, make_predictor
from schedsim import Workload, make_policy, simulate
from schedsim.policies.networks import Shared
from tests.support.places import ROOT

DEEPER = re.compile(r"from (?:predictors|schedsim|experiments)\.[\w.]+ import .*")
PACKAGES = (predictors, schedsim, experiments)


def public():
    """Return every public object: what the packages export, and what pages import from their modules."""
    exported = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    return exported + [
        getattr(import_module(home), name) for package in PACKAGES for home, name in further_names(package)
    ]


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
        if id(thing) in seen or getattr(thing, "__module__", "").split(".")[0] not in (
            "predictors",
            "schedsim",
            "experiments",
        ):
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


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_pages_import_is_public_and_stands_in_the_references(package):
    shown = python_pages()[f"reference/python/{package.__name__}.md"]
    further = further_names(package)
    assert [name for home, name in further if name.startswith("_") or "._" in home] == []
    assert [name for home, name in further if f"::: {home}.{name}\n" not in shown] == []
    assert further and "page imports from a module" in " ".join(package.__doc__.split())


def test_first_pages_import_from_the_packages_alone():
    first = [ROOT / "README.md", ROOT / "docs" / "index.md", *(ROOT / "docs" / "tutorials").glob("*.md")]
    deeper = [f"{path.name}: {line}" for path in first for line in DEEPER.findall(path.read_text(encoding="utf-8"))]
    assert deeper == []
