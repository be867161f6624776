"""Many independent runs of an experiment: done by whoever works, and kept as they are done.

While an experiment goes on, what is done lies in a folder `unfinished-…` of its report folder, a Parquet file a run.
That name is a digest of all that results depend on: the same command goes on there, another one (other options, log,
versions, code) begins anew in a folder of its own. The folder goes when the report has been written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final, TypeVar

from experiments.crew import each
from experiments.experiment import WITHOUT_LOG, Setting
from experiments.output import progress
from experiments.own_folder import claim, identity_of, made_by, owned, told_by
from experiments.sweep_run import JOB_BYTES
from predictors.data.errors import JobcastError, counted
from predictors.data.files import whole_file

if TYPE_CHECKING:
    import pandas as pd

Task = TypeVar("Task")

PARTS: Final = "parts"
NEEDS: Final = 700e6
"""Memory without which a worker cannot do them [bytes]; half a year of RUSH's control jobs takes most."""


def all_done(
    setting: Setting,
    what: str,
    function: "Callable[[Any, Task], pd.DataFrame]",
    shared: Any,
    tasks: Sequence[Task],
    about: Mapping[str, str] | None = None,
) -> "list[pd.DataFrame]":
    """Return `function(shared, task)` for each task, in order; whoever does them, and whether at once or not.

    Parameters
    ----------
    setting : Setting
        Who works, and where to keep what is done.
    what : str
        What is being done, a word or two for the progress; no two calls of an experiment have the same.
    function : callable
        Of a module's top level; draws nothing by chance but by seeds in its task.
    shared : object
        What tasks have in common; goes to each worker once.
    tasks : sequence
        Small; their `repr` tells all of them.
    about : mapping of str to str, optional
        What else results hang on, beside the setting.

    Raises
    ------
    JobcastError
        If a task raised one, or workers fail (CrewError); what is done stays kept.
    """
    files = [None if setting.unfinished is None else _file(setting.unfinished, what, task, about) for task in tasks]
    found = {number: _read(file) for number, file in enumerate(files) if file is not None and file.is_file()}
    missing = [number for number in range(len(tasks)) if number not in found]
    needs = NEEDS + JOB_BYTES * len(setting.log)
    try:
        with progress(what, len(tasks)) as advance:
            advance(len(found))
            work = [("", tasks[number]) for number in missing]
            for place, table in each(function, {"": shared}, work, setting.crew, needs=needs):
                file = files[missing[place]]
                found[missing[place]] = table if file is None else _kept(table, file)
                advance(1)
    except JobcastError as error:
        if not found or setting.unfinished is None:
            raise
        kept = f"{len(found)} of {counted(len(tasks), 'run')} are kept in {setting.unfinished}"
        raise type(error)(f"{error} {kept}: the same command goes on there.") from error
    return [found[number] for number in range(len(tasks))]


@contextmanager
def unfinished(name: str, setting: Setting) -> Iterator[Setting]:
    """Yield the setting with a folder for what is done, of this very experiment; it goes if the block succeeds.

    Raises
    ------
    JobcastError
        If another process is at work on the same.
    """
    log = setting.log
    about = {
        "experiment": name,
        "seed": setting.seed,
        "quick": setting.quick,
        "partition": setting.partition,
        "procs": setting.procs,
        "predictors": list(setting.predictors),
        "log": {} if name in WITHOUT_LOG else told_by(log),
        **made_by(),
    }
    identity = identity_of(about)
    folder = setting.folder / f"unfinished-{identity[:12]}"
    with owned(folder, "experiment"):
        claim(folder, "experiment", identity, about)
        try:
            yield replace(setting, unfinished=folder)
        except BaseException:
            if not any(entry.is_dir() for entry in folder.iterdir()):  # nothing is kept
                rmtree(folder, ignore_errors=True)
            raise
        rmtree(folder, ignore_errors=True)


def _file(folder: Path, what: str, task: Any, about: Mapping[str, str] | None) -> Path:
    return folder / PARTS / f"{identity_of([what, repr(task), dict(about or {})])[:24]}.parquet"


def _kept(table: "pd.DataFrame", file: Path) -> "pd.DataFrame":
    """Write a table down, and return it as it will be read: the same whether anything was killed in between."""
    file.parent.mkdir(exist_ok=True)
    with whole_file(file) as part:
        table.to_parquet(part, index=False, compression="zstd", write_page_checksum=True)
    return _read(file)


def _read(file: Path) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_parquet(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise JobcastError(f"{file}: is damaged ({reason}); delete it, and it is done again.") from error
