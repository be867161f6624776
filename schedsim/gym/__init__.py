"""Gymnasium environments of the simulator: `gymnasium.make("schedsim.gym:jobcast/Pick-v0", workload=…)`.

One step is one pick: which job of the window starts, is reserved, or is backfilled next. Importing this package
registers the environment, which needs the extra `rl`.
"""

from predictors.core.errors import JobcastError, missing

try:
    from gymnasium.envs.registration import register, registry
except ModuleNotFoundError as error:
    raise JobcastError(missing(error)) from error

PICK = "jobcast/Pick-v0"

if PICK not in registry:
    register(
        id=PICK,
        entry_point="schedsim.gym.pick:PickEnv",
        vector_entry_point="schedsim.gym.vector:PickVectorEnv",
    )
