"""What of a sweep is done already? Batches as they came back, whole files in a folder that belongs to one sweep."""

import json
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Final

from experiments.own_folder import claim
from experiments.sweep_plan import Plan
from experiments.sweep_results import TABLE
from experiments.sweep_work import Done
from predictors.data.errors import JobcastError
from predictors.data.files import whole_file

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
        claim(path, "sweep", plan.identity(), plan.about())
        (path / PARTS).mkdir(exist_ok=True)

    @property
    def finished(self) -> bool:
        """Whether the table has been written."""
        return (self.path / TABLE).is_file()

    def kept(self) -> Done:
        """Return what is done already, models left out: they lie in their folders."""
        found = Done()
        for path in sorted((self.path / PARTS).glob("[!.]*.json")):  # what a kill cut short is hidden
            try:
                part = json.loads(path.read_text(encoding="utf-8"))
                rows, groups = part["rows"], part["groups"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise JobcastError(f"{path}: is damaged ({error}); delete it, and its runs are done again.") from error
            found.rows.extend(rows)
            found.groups.extend(groups)
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
            text = json.dumps({"rows": done.rows, "groups": done.groups})
            with whole_file(self.path / PARTS / f"{sha256(text.encode()).hexdigest()[:24]}.json") as part:
                part.write_text(text, encoding="utf-8")

    def model(self, name: str) -> Path:
        """Return the folder of a trained model."""
        return self.path / MODELS / name

    def drop_parts(self) -> None:
        """Remove what the table holds now."""
        rmtree(self.path / PARTS, ignore_errors=True)
