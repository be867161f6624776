"""Which partitions does a machine have? Read from a TOML file.

```toml
nodes = 12
[[level]]
size = 2                # one every 2 nodes
[[level]]
size = 8
starts = [0, 4]         # where they begin, if not at every multiple of the size
[[level]]
size = 4
starts = [0, 2]
skip = 2                # half, 2 nodes left out, half
[[level]]
size = 12               # the whole machine
```
"""

import os
import tomllib
from typing import Any, Final

from predictors.data.errors import JobcastError, counted, unknown_name
from predictors.data.sources import read_text
from schedsim.hierarchy import MOST_PARTS, Hierarchy, Level
from schedsim.topology import MOST_NODES

KEYS: Final = ("size", "starts", "skip")


def read_hierarchy(path: str | os.PathLike[str]) -> Hierarchy:
    """Return the partitions that a TOML file tells.

    Raises
    ------
    JobcastError
        If the file cannot be read or a partition cannot lie so; the message names file and level.
    """
    try:
        table = tomllib.loads(read_text(path, "partitions, a TOML file"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise JobcastError(f"{path}: is not TOML: {error}.") from None
    for key in table:
        if key not in ("nodes", "level"):
            raise JobcastError(f"{path}: {unknown_name('key', key, ('nodes', 'level'))}")
    nodes, levels = table.get("nodes"), table.get("level")
    sections = isinstance(levels, list) and all(isinstance(level, dict) for level in levels)
    if not isinstance(nodes, int) or nodes < 1 or not levels or not sections:
        raise JobcastError(f"{path}: needs `nodes = N` and a `[[level]]` for each size of partition.")
    if nodes > MOST_NODES:
        raise JobcastError(f"{path}: a machine has at most {MOST_NODES:,} nodes; got {nodes:,}.")
    found = []
    for number, level in enumerate(levels, start=1):
        try:
            found.append(_level(level, nodes))
        except JobcastError as error:
            raise JobcastError(f"{path}: level {number}: {error}") from None
    try:
        return Hierarchy(nodes, tuple(sorted(found, key=lambda level: (level.size, level.skip))))
    except JobcastError as error:
        raise JobcastError(f"{path}: {error}") from None


def _level(level: dict[str, Any], nodes: int) -> Level:
    for key in level:
        if key not in KEYS:
            raise unknown_name("key", key, KEYS)
    size, skip = level.get("size"), level.get("skip", 0)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise JobcastError(f"needs `size = N`, the nodes of each partition; got {size!r}.")
    if size > nodes:
        raise JobcastError(f"partitions of {size} nodes do not fit into the machine of {nodes}.")
    if "starts" not in level and nodes // size > MOST_PARTS:
        raise JobcastError(
            f"{nodes // size:,} partitions of {counted(size, 'node')} are more than {MOST_PARTS:,}; take larger ones."
        )
    starts = level.get("starts", list(range(0, nodes - size + 1, size)))
    if not isinstance(starts, list) or not all(isinstance(start, int) for start in starts):
        raise JobcastError(f"starts is a list of nodes; got {starts!r}.")
    if not isinstance(skip, int):
        raise JobcastError(f"skip is a number of nodes; got {skip!r}.")
    return Level(size, tuple(starts), skip)
