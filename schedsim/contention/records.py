"""What is known of the jobs that ran? Records as a table of runs, and what only the world can know beside them."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from predictors.data.runs import PROBES, Runs

if TYPE_CHECKING:
    from schedsim.contention.live import Slowdown
    from schedsim.contention.world import World
    from schedsim.workload import Workload

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Record(NamedTuple):
    """A running job: its row and start [s], its place in the world's arrays, its nodes, and how things stood then."""

    row: int
    start: int
    place: int
    nodes: Ints
    probes: Floats
    present: "Slowdown"


Ended = tuple[Record, int, float, Any] | None
"""Jobs that have ended, the last first: (record, end [s], time at work [s], those before); shared between forks."""


def to_runs(ended: Ended, world: "World", workload: "Workload") -> Runs:
    """Return the jobs that have ended, in the order of their ends, by the world's clock."""
    records: list[tuple[Record, int, float]] = []
    while ended is not None:
        records.append(ended[:3])
        ended = ended[3]
    records.reverse()
    rows = [record.row for record, _, _ in records]
    apps = [world.apps[world.applications[row]] for row in rows]
    region = np.array([region for _, _, region in records], dtype=np.float64)
    alone = world.work(workload)[rows] if rows else np.empty(0)
    present = [record.present for record, _, _ in records]
    return Runs.of(
        job_id=workload.job_id[rows],
        application=[app.name for app in apps],
        nodes=[record.nodes for record, _, _ in records],
        start=[world.origin + record.start for record, _, _ in records],
        end=[world.origin + end for _, end, _ in records],
        workload=[app.workload for app in apps],
        region_time=region,
        probes=np.array([record.probes for record, _, _ in records]).reshape(len(rows), len(PROBES)),
        truth={
            "true_alone": alone,
            "true_slowdown": region / np.maximum(alone, 1e-9),
            "true_slowdown_at_start": np.array([p.total for p in present]),
            "true_uplink_at_start": np.array([p.uplink for p in present]),
            "true_files_at_start": np.array([p.files for p in present]),
            "true_calls_at_start": np.array([p.calls for p in present]),
        },
    )
