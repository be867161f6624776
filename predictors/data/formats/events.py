"""Workloads of slurm_sim_tools, `.events`: a line for each job that its simulator submits, as sbatch would have it.

    -dt 10.50 -e submit_batch_job | -sim-walltime 84805.00 --uid=user001 -N 1 -n 32 -t 3-00:00:00 --mem=500G pseudo.job

`-dt` is when it is submitted [s], and `-sim-walltime` how long it runs. There are no dates, and no starts.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from predictors.core.arrays import Ints
from predictors.core.compressed import log_name
from predictors.data.formats.columns import MISSING, by_name, names, numbers, spans_of
from predictors.data.formats.parquet import text_array
from predictors.data.formats.records import RULES, Draft, finish
from predictors.data.formats.slurm import NO_LIMIT, gpu_type_of, memory_of_jobs, named_by, split_options, words_of
from predictors.data.joblog import NODES_OF_USER, OWN_NODES, JobLog
from predictors.data.report import ReadingReport, ReportBuilder

_LINE: Final = re.compile(r"\s*-dt\s+(\S+)\s+-e\s+(\w+)\s*\|\s*(.*)")
_GPUS: Final = re.compile(r"(?:^|,)gpu(?::(?!\d+(?:,|$))[\w.-]+)?(?::(\d{1,9}))?(?=,|$)")
_LETTERS: Final = {
    "J": "job-name", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "t": "time", "q": "qos", "p": "partition",
    "A": "account", "C": "constraint", "G": "gpus", "L": "licenses",
}  # fmt: skip
_TEXTS: Final = {
    "user": "uid", "project": "account", "queue": "partition", "qos": "qos", "constraint": "constraint",
    "licenses": "licenses",
}  # fmt: skip


def is_events(data: bytes) -> bool:
    """Return whether a text begins with a line of slurm_sim_tools' events."""
    lines = (line for line in data[:4000].decode("utf-8", "replace").splitlines() if line.strip())
    return _LINE.match(next((line for line in lines if not line.startswith("#")), "")) is not None


def parse_events(data: bytes, source: str, strict: bool = False) -> tuple[JobLog, ReadingReport]:
    """Return the job log that a workload holds, and the account; what is no submission is left out."""
    ledger = ReportBuilder(source, RULES)
    rows, lines, other = list[dict[str, str]](), list[int](), list[int]()
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        found = _LINE.fullmatch(line.rstrip())
        if found is not None and found[2] == "submit_batch_job":
            rows.append({"submit": found[1]} | _options(found[3]))
            lines.append(number)
        elif line.strip() and not line.startswith("#"):
            other.append(number)
    ledger.add("not-a-record", other)
    at = np.array(lines, dtype=np.int64)
    told = [row.get("job-name", "") for row in rows]
    ids = told if len(set(told)) == len(told) and all(told) else [str(number) for number in range(1, len(rows) + 1)]
    draft = Draft(source, ids, lambda picked: at[picked], ledger)
    _fill(draft, rows)
    return finish(draft, log_name(source).removesuffix(".events"), strict, epoch_known=False)


def _options(text: str) -> dict[str, str]:
    """Return the options of a submission by their long names, of two equal ones the last.

    >>> _options("-sim-walltime 9.00 -N 2 --gres=gpu:1 --exclusive pseudo.job")
    {'sim-walltime': '9.00', 'nodes': '2', 'gres': 'gpu:1', 'exclusive': 'yes'}
    """
    words = [f"-{word}" if re.match(r"-sim-\w", word) else word for word in words_of(text)]
    return {_LETTERS.get(name, name): value or "yes" for name, value in split_options(words)[0]}


def _fill(draft: Draft, rows: list[dict[str, str]]) -> None:
    """Fill a draft with the columns of submissions; memory and GRES are those of a node, as sbatch takes them."""
    of = draft.numbers

    def column(key: str) -> Any:
        return text_array([row.get(key, "") for row in rows])

    def counted(key: str, name: str) -> Ints:
        return numbers(column(key), name, draft.report)

    def read(key: str, value: Callable[[str], int], unknown: int) -> Ints:
        found: Ints = by_name(names(column(key)), value, unknown).astype(np.int64)
        return found

    of["submit"], of["run_time"] = counted("submit", "submit"), counted("sim-walltime", "run_time")
    of["requested_time"] = spans_of(column("time"), "requested_time", draft.report, 60, NO_LIMIT)
    draft.report("no-limit", of["requested_time"] == MISSING, "requested_time")
    of["requested_nodes"] = read("nodes", _least, MISSING)
    nodes, tasks = np.maximum(of["requested_nodes"], 1), counted("ntasks", "requested_procs")
    each = np.maximum(counted("cpus-per-task", "requested_procs"), 1)
    of["requested_procs"] = np.where(tasks > 0, tasks, nodes) * each
    of["requested_job_memory"] = memory_of_jobs(column("mem"), nodes, nodes, draft, "requested_job_memory", "n")
    of["requested_memory"] = memory_of_jobs(column("mem-per-cpu"), nodes, nodes, draft, "requested_memory")
    in_all = read("gpus", lambda text: _gpus(f"gpu:{text}"), 0)
    of["requested_gpus"] = np.where(in_all > 0, in_all, nodes * read("gres", _gpus, 0))
    of["exclusive"] = read("exclusive", lambda text: NODES_OF_USER if text.lower() == "user" else OWN_NODES, MISSING)
    draft.names = {name: names(column(key)) for name, key in _TEXTS.items()}
    draft.names["gpu_type"] = named_by(names(column("gres")), gpu_type_of)


def _least(text: str) -> int:
    """Return the fewest nodes that `-N` asks for."""
    found = re.match(r"\d{1,9}", text)
    return MISSING if found is None else int(found[0])


def _gpus(text: str) -> int:
    """Return the GPUs that a list of GRES asks for.

    >>> [_gpus(text) for text in ("gpu:2", "gpu:a100:4,nvme:1", "gpu", "nvme:2")]
    [2, 4, 1, 0]
    """
    return sum(int(count or 1) for count in _GPUS.findall(text))
