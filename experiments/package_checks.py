"""The checks that jobcast's own predictors, policies and orders pass, run on those that an installed package adds."""

import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

from predictors.core.errors import JobcastError, printable, unknown_name
from predictors.entry_points import GROUPS, Registry, declared, package_of
from predictors.evaluation.checks import PREDICTOR_CHECKS, log_to_check
from predictors.registry import PREDICTORS, make_predictor
from schedsim.policies.backfilling import Easy
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import POLICIES, Policy
from schedsim.validate.checks import ORDER_CHECKS, POLICY_CHECKS, busy_workload, jobs_that_wait

Check = tuple[str, Callable[[], object]]  # what is checked, and a function that raises what it finds


class Row(NamedTuple):
    """One check of one name."""

    name: str
    check: str
    counterexample: str | None  # the first thing that breaks it; None if it passes


def check_package(package: str) -> Iterator[Row]:
    """Yield the checks of all that a package adds; where something cannot be loaded, nothing more of it is checked."""
    try:
        installed = distribution(package).metadata["Name"]
    except (PackageNotFoundError, ValueError) as error:
        raise unknown_name("installed package", package, map(package_of, declared())) from error
    entries = [entry for entry in declared() if package_of(entry) == installed]
    if not entries:
        groups = ", ".join(GROUPS.values())
        raise JobcastError(f"The package {installed} adds nothing: its pyproject.toml has no entry points in {groups}.")
    for entry in entries:
        kind = next(kind for kind, group in GROUPS.items() if group == entry.group)
        registry, checks = _KINDS[kind]
        loaded = Row(entry.name, f"{kind} loads", _counterexample(partial(registry.loaded, entry)))
        yield loaded
        if loaded.counterexample is None:
            for what, run in checks(entry.name):
                yield Row(entry.name, what, _counterexample(run))


def _of_predictor(name: str) -> Iterator[Check]:
    log = log_to_check()
    for one in PREDICTOR_CHECKS:
        yield _in_words(one), partial(one, partial(make_predictor, name), log)


def _of_policy(name: str) -> Iterator[Check]:
    return _checks_of(POLICIES[name])


def _checks_of(policy: Policy) -> Iterator[Check]:
    workload = busy_workload()
    for one in POLICY_CHECKS:
        yield _in_words(one), partial(one, policy, workload)


def _of_order(name: str) -> Iterator[Check]:
    order, waiting = ORDERS[name], jobs_that_wait()
    for one in ORDER_CHECKS:
        yield _in_words(one), partial(one, order, waiting)
    for policy_name, policy in ((name, Policy(order)), (f"{name}-easy", Policy(order, Easy()))):
        yield from ((f"as {policy_name}: {what}", run) for what, run in _checks_of(policy))


_KINDS: Final[dict[str, tuple[Registry[object], Callable[[str], Iterator[Check]]]]] = {
    "predictor": (PREDICTORS, _of_predictor),
    "policy": (POLICIES, _of_policy),
    "order": (ORDERS, _of_order),
}


def _in_words(check: Callable[..., object]) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")


def _counterexample(run: Callable[[], object]) -> str | None:
    try:
        run()
    except (AssertionError, JobcastError) as error:
        return printable(" ".join(str(error).split())) or "it does not hold"
    except Exception as error:
        last = traceback.extract_tb(sys.exc_info()[2])[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return printable(f"{said} ({Path(last.filename).name}, line {last.lineno})")
    return None
