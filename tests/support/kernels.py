"""Kernels that take long to compile, each compiled by one of the workers that share the tests.

Two workers that meet a kernel at the same time would both compile it: with a cold cache that was a sixth of all that
the fast tests cost. So each takes from this list what nobody has taken, before its first test; what is in the cache
already is loaded in no time.
"""

from collections.abc import Callable
from pathlib import Path

from predictors.data.synthetic.generate import generate_log
from predictors.evaluation.evaluate import evaluate
from schedsim.engine.simulation import Simulation
from schedsim.policies.policy import make_policy
from tests.support.engine_runs import busy_workload

MANY_TESTS = 1000
"""Fewer tests than these may need none of the kernels."""


def _noting(policy: str) -> None:
    Simulation(busy_workload(20), make_policy(policy)).run_noting(10)


def _running(policy: str) -> None:
    Simulation(busy_workload(20), make_policy(policy)).run(until=10)


def _stepping() -> None:
    from schedsim.gym.pick import PickEnv

    PickEnv(busy_workload(20))


def _predicting(name: str) -> None:
    evaluate(generate_log(100, seed=1), [name])


KERNELS: dict[str, Callable[[], None]] = {
    "easy": lambda: _running("easy"),
    "easy, noting": lambda: _noting("easy"),
    "replan": lambda: _running("conservative-replan"),
    "replan, noting": lambda: _noting("conservative-replan"),
    "environment": _stepping,
    "history": lambda: _predicting("last-two"),
    "knapsack": lambda: _running("knapsack"),
    "compress": lambda: _running("conservative-compress"),
    "online-linear": lambda: _predicting("online-linear"),
}
"""What compiles them, the longest first."""


def compile_in_turn(claims: Path) -> None:
    """Compile the kernels that no other worker has claimed in a folder that all of them see."""
    claims.mkdir(parents=True, exist_ok=True)
    for name, compile_it in KERNELS.items():
        try:
            (claims / name).mkdir()
        except FileExistsError:
            continue
        compile_it()
