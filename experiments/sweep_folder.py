"""What of a sweep is done already? Batches as they came back, whole files in a folder that belongs to one sweep."""

import json
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from experiments.own_folder import claim
from experiments.sweep_plan import Plan
from experiments.sweep_results import TABLE
from experiments.sweep_work import Done
from predictors.data.errors import JobcastError
from predictors.data.files import drop_unfinished, whole_file

PARTS: Final = "parts"
MODELS: Final = "models"


class SweepFolder:
    """A folder that keeps a sweep's runs while it goes on.

    Parameters
    ----------
    path : Path
        `owned`; empty, or of this very sweep.
    plan : Plan
        The sweep.

    Raises
    ------
    JobcastError
        If the folder holds something else.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.cells = {cell.key for cell in plan.cells}
        claim(path, "sweep", plan.identity(), plan.about())
        for inside in (PARTS, MODELS):
            drop_unfinished(path / inside)

    @property
    def finished(self) -> bool:
        """Whether the table has been written."""
        return (self.path / TABLE).is_file()

    def kept(self) -> Done:
        """Return what is done already, models left out: they lie in their folders."""
        found, seen = Done(), set[tuple[Any, ...]]()
        for path in sorted((self.path / PARTS).glob("*.json")):
            content = path.read_bytes()
            if _name(content) != path.name:
                raise JobcastError(f"{path}: is damaged; delete it, and its runs are done again.")
            part = json.loads(content)
            keys = {(row["log_sha256"], row["case"], row["seed"]) for row in part["rows"]}
            if keys - self.cells or keys & seen:
                raise JobcastError(f"{path}: holds runs of another sweep, or runs twice; take it out of this folder.")
            seen |= keys
            found.rows.extend(part["rows"])
            found.groups.extend(part["groups"])
        return found

    def keep(self, done: Done) -> None:
        """Write down what came back, the models first."""
        for name, files in done.models.items():
            for file, content in files.items():
                target = self.model(name) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(target) as part:
                    part.write_bytes(content)
        if done.rows:
            content = json.dumps({"rows": done.rows, "groups": done.groups}).encode()
            (self.path / PARTS).mkdir(exist_ok=True)
            with whole_file(self.path / PARTS / _name(content)) as part:
                part.write_bytes(content)

    def model(self, name: str) -> Path:
        """Return the folder of a trained model."""
        return self.path / MODELS / name

    def drop_parts(self) -> None:
        """Remove what the table holds now."""
        rmtree(self.path / PARTS, ignore_errors=True)


def _name(content: bytes) -> str:
    """Return what a part is called: whether it is damaged can be told from its name."""
    return f"{sha256(content).hexdigest()[:24]}.json"
