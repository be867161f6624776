"""Schema of requests and answers (msgspec), strict: an unknown field or a float for a whole number is refused.

A request is checked while it is decoded, and the first fault ends that: rubbish costs as little as a good body.
"""

import re
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from predictors.service.event import KINDS, UNKNOWN, Event
from predictors.service.pseudonyms import FIRST_NAME, Pseudonymiser

MOST_SECONDS: Final = 2**40
MOST_NUMBER: Final = 2**31
MOST_AT_ONCE: Final = 10_000  # events, or jobs, in one request
MOST_NODES: Final = 20_000
MOST_STARTS: Final = 1000
N_COUNTERS: Final = 90
MOST_FLOAT: Final = 3.4e38  # what single precision holds


def _about(text: str) -> Any:
    return Meta(description=text)


Seconds: TypeAlias = Annotated[int, Meta(ge=0, lt=MOST_SECONDS)]
Number: TypeAlias = Annotated[int, Meta(ge=0, lt=MOST_NUMBER)]
Name: TypeAlias = Annotated[int, Meta(ge=0, lt=FIRST_NAME)] | Annotated[str, Meta(min_length=1, max_length=256)]
Sequence: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]
Rate: TypeAlias = Annotated[float, Meta(ge=0, lt=MOST_FLOAT)]
Moment: TypeAlias = Annotated[float, Meta(ge=0, lt=MOST_SECONDS)]
Nodes: TypeAlias = Annotated[list[Number], Meta(min_length=1, max_length=MOST_NODES)]


class Strict(Struct, forbid_unknown_fields=True, gc=False):
    """Base of what clients send."""


class JobKeyIn(Strict, kw_only=True):
    """A job by its id, the cluster that gave the id, and its submission: ids that start again are other jobs."""

    job_id: Annotated[Name, _about("Without a submission: never used again.")]
    cluster: Annotated[Name | None, _about("The cluster that gave the id, where one service serves several.")] = None
    submission: Annotated[
        Seconds | None, _about("When this job was submitted, or requeued: the same in all its events.")
    ] = None

    def code(self, key: Pseudonymiser) -> int:
        """Return the number of the job."""
        return key.job(self.job_id, self.cluster, self.submission)


class JobIn(Strict, kw_only=True):
    """A job as its submission describes it. Users, groups … may be numbers or names; of a name only a hash is kept."""

    procs: Annotated[Number | None, _about("Processors asked for.")] = None
    requested_time: Annotated[Number | None, _about("Walltime asked for [s].")] = None
    user: Name | None = None
    group: Name | None = None
    executable: Name | None = None
    queue: Name | None = None
    partition: Name | None = None

    def codes(self, key: Pseudonymiser) -> tuple[int, ...]:
        """Return the numbers in the order of an event's fields; -1 is unknown."""
        procs, requested, code = self.procs, self.requested_time, key.code
        return (
            UNKNOWN if procs is None else procs,
            UNKNOWN if requested is None else requested,
            code(self.user),
            code(self.group),
            code(self.executable),
            code(self.queue),
            code(self.partition),
        )


class EventIn(JobIn, kw_only=True):
    """Something that happened to a job. A second event of the same job and kind changes nothing."""

    kind: Literal["submitted", "started", "ended", "cancelled"]
    job_id: Annotated[Name, _about("Without a submission: never used again; rename a requeued job, such as 123#2.")]
    time: Annotated[Seconds, _about("When it happened [s]; Unix time, unless the service has another clock.")]
    status: Annotated[
        Annotated[int, Meta(ge=0, le=5)] | None,
        _about("Of an end: 0 failed, 1 completed, 2 to 4 partial, 5 cancelled."),
    ] = None
    cluster: Annotated[Name | None, _about("The cluster that gave the id, where one service serves several.")] = None
    submission: Annotated[
        Seconds | None,
        _about("When the job was submitted, as sacct tells it: the same id with another submission is another job."),
    ] = None

    def __post_init__(self) -> None:
        for name in (*JobIn.__struct_fields__, "status"):
            value = getattr(self, name)
            if value is not None and self.kind != ("ended" if name == "status" else "submitted"):
                raise ValueError(f".{name}: does not belong to an event of the kind {self.kind}; got {value!r:.40}")

    def event(self, key: Pseudonymiser) -> Event:
        """Return it as it is kept."""
        job = key.job(self.job_id, self.cluster, self.submission)
        status = UNKNOWN if self.status is None else self.status
        return Event(job, KINDS[self.kind], self.time, status, *self.codes(key))


class EventsIn(Strict, kw_only=True):
    """Many events, taken in in this order."""

    events: Annotated[list[EventIn], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class EventOut(Struct):
    """What became of an event."""

    sequence: Annotated[int, _about("Its number; of a duplicate or a conflict: that of the event that stands.")]
    status: Annotated[
        Literal["applied", "held", "refused", "duplicate", "conflict"],
        _about(
            "held: waits for an earlier event of its job; refused: contradicts those before, kept but without effect; "
            "duplicate: was there; conflict: another event of this job and kind was there, and stands."
        ),
    ]


class EventsOut(Struct):
    """Receipts in the order of the events, which are durable by now."""

    sequence: Annotated[int, _about("The greatest number among them, to be asked for by as_of.")]
    events: list[EventOut]


class RuntimeIn(Strict, kw_only=True):
    """Jobs to predict: as they would be submitted now, or ids of submitted jobs."""

    jobs: Annotated[list[JobIn], Meta(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    job_ids: Annotated[list[Name | JobKeyIn], Meta(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    as_of: Annotated[Sequence | None, _about("Answer only when every event up to this one has been learnt.")] = None
    now: Annotated[Seconds | None, _about("The second to ask about; default: the present one.")] = None

    def __post_init__(self) -> None:
        if (self.jobs is None) == (self.job_ids is None):
            raise ValueError(f"give either jobs or job_ids; got {'neither' if self.jobs is None else 'both'}")


class ModelOut(Struct):
    """Who answered."""

    name: str
    version: int | None
    alias: str
    predictor: str
    trained_until: Annotated[str | None, _about("Last end that it learnt from before it came here.")]
    learnt_sequence: Annotated[int | None, _about("Newest event that it had learnt.")]


class QuantilesOut(Struct):
    """By how long the newest jobs ran of what was predicted for them [s]."""

    p10: float
    p50: float
    p90: float


class PredictionOut(Struct):
    """The answer for one job."""

    seconds: Annotated[float | None, _about("Predicted run time; null for a job id that was never submitted.")]
    lower: Annotated[float | None, _about("The model's own interval, where it gives one [s].")]
    upper: float | None
    quantiles: QuantilesOut | None
    answered_by: str | None
    fallback: bool
    why: Annotated[str | None, _about("Why it is a fallback.")]


class RuntimeOut(Struct):
    """Answers in the order of the jobs."""

    sequence: Annotated[int, _about("Newest event that the answers know of.")]
    model: ModelOut
    predictions: list[PredictionOut]


class ForgetIn(Strict, kw_only=True):
    """Which live jobs to give up: those of which nothing was heard for so long."""

    older_than: Annotated[
        Annotated[int, Meta(ge=3600, lt=MOST_SECONDS)],
        _about("Seconds beyond a waiting job's submission, or a running job's requested end."),
    ]
    dry_run: Annotated[bool, _about("Only count them.")] = False


class ForgetOut(Struct):
    """How many live jobs there were, and how many were given up or would be."""

    live: int
    jobs: int
    forgotten: bool


class TelemetryIn(Strict, kw_only=True):
    """One sample of the counters of some nodes; the first one tells which nodes there are."""

    time: Annotated[Moment, _about("When [s on the service's clock], after the sample before.")]
    nodes: Nodes
    rates: Annotated[
        list[Annotated[list[Rate | None], Meta(min_length=N_COUNTERS, max_length=N_COUNTERS)]],
        Meta(min_length=1, max_length=MOST_NODES, description="Per second, of each node 90; null where not known."),
    ]


class StartIn(Strict, kw_only=True):
    """A start that is being considered."""

    application: Annotated[str, Meta(max_length=256)] = ""
    workload: Literal["compute", "network", "io", ""] = ""
    nodes: Annotated[
        Nodes | None, _about("Where it would run; needed by classifiers that judge by the job's own nodes.")
    ] = None
    probes: Annotated[
        Annotated[list[Rate | None], Meta(min_length=9, max_length=9)] | None,
        _about("Last known waits of the probes [s]: min, max, mean of send, receive, all-reduce."),
    ] = None


class VariabilityIn(Strict, kw_only=True):
    """Starts of which is asked whether now is a bad moment for them."""

    starts: Annotated[list[StartIn], Meta(min_length=1, max_length=MOST_STARTS)]
    now: Annotated[Moment | None, _about("The second to ask about; default: just after the newest sample.")] = None


class VerdictOut(Struct):
    """The answer for one start."""

    label: str
    probability: Annotated[float | None, _about("Of variation; null where the classifier abstains.")]
    abstained: bool
    why: str | None
    filled: Annotated[int, _about("Inputs for which the training part's median stood in.")]


class VariabilityOut(Struct):
    """Answers in the order of the starts."""

    classifier: str
    version: int | None
    newest_sample: float | None
    predictions: list[VerdictOut]


class TelemetryOut(Struct):
    """The newest sample that is known."""

    newest_sample: float | None


class RecordOut(PredictionOut, kw_only=True):
    """What one model predicted for a job at its submission."""

    role: str
    name: str
    version: int | None


JobPhase: TypeAlias = Literal["held", "queued", "running", "over", "cancelled", "forgotten"]


class JobOut(Struct):
    """What happened to a job, and what was predicted for it."""

    sequences: Annotated[dict[str, int], _about("Number of the event of each kind that took effect or waits.")]
    state: JobPhase
    submitted: int | None
    started: int | None
    ended: int | None
    cancelled: int | None
    run_time: int | None
    status: int | None
    requested_time: int | None
    refused: Annotated[int, _about("Events that had no effect.")]
    predictions: list[RecordOut]


class StartTimeOut(Struct):
    """The seconds by which a waiting job has started with a chance of 10, 50 and 90 %."""

    now: int
    p10: int
    p50: int
    p90: int


class RoleOut(ModelOut, kw_only=True):
    """A model in a role."""

    role: str
    learns: bool
    codes: Annotated[dict[str, str], _about("Whether it learnt names or numbers, by column.")]
    recent: Annotated[dict[str, float], _about("Figures over the newest jobs that ended.")]
    beside_last_two: dict[str, Any] | None
    drift: Annotated[dict[str, Any], _about("Whether the model has become worse than last-two, since when; the rate.")]
    failures: dict[str, int]
    trouble: Annotated[str | None, _about("Why the role's newest model is not in use.")]


class ModelsOut(Struct):
    """Who is in which role, and the history of roles."""

    models: list[RoleOut]
    history: list[dict[str, Any]]
    clock: str
    time_zone: str | None
    as_of: str
    machine_procs: int | None
    began: dict[str, Any] | None
    sequence: int


class ReloadOut(Struct):
    """What changed, and what could not be loaded."""

    changed: list[dict[str, Any]]
    trouble: dict[str, str]


class HealthOut(Struct):
    """The process answers."""

    alive: bool


class ReadyOut(Struct):
    """Whether events and questions are answered."""

    ready: bool
    trouble: list[str]
    worse_than_last_two: list[str]


class ErrorOut(Struct):
    """What was wrong, in a few words: the field, the rule, the value (40 characters of it at most)."""

    error: str


EXAMPLES: Final[dict[str, list[dict[str, Any]]]] = {
    "EventIn": [
        {"kind": "submitted", "job_id": 4711, "time": 1_700_000_000, "procs": 64, "requested_time": 3600,
         "user": "alice", "queue": "batch"},
        {"kind": "started", "job_id": 4711, "time": 1_700_000_120},
        {"kind": "ended", "job_id": 4711, "time": 1_700_002_000, "status": 1},
    ],
    "RuntimeIn": [
        {"jobs": [{"procs": 64, "requested_time": 3600, "user": "alice", "queue": "batch"}]},
        {"job_ids": [4711], "as_of": 3},
    ],
    "VariabilityIn": [{"starts": [{"application": "AMG", "workload": "network", "nodes": [0, 1, 2]}]}],
}  # fmt: skip


def described(error: msgspec.ValidationError, body: bytes) -> str:
    """Return a validation error in one line: the field, the rule, the value.

    >>> body = b'{"jobs": [{}, {"procs": -1}]}'
    >>> try:
    ...     msgspec.json.decode(body, type=RuntimeIn)
    ... except msgspec.ValidationError as error:
    ...     described(error, body)
    'jobs.1.procs: expected a whole number >= 0; got -1'
    """
    told, _, where = str(error).partition(" - at `$")
    keys = re.findall(r"\w+", where)
    for rule, words in _RULES:
        told = rule.sub(words, told)
    value = msgspec.Raw(body)
    for key in keys:
        value = msgspec.json.decode(value, type=list[msgspec.Raw])[int(key)] if key.isdigit() else _fields(value)[key]
    if told.startswith("Expected"):
        told = f"{told[:1].lower()}{told[1:]}; got {_shown(value)}"
    elif told == "Invalid enum value":
        told = f"expected one of {', '.join(filter(None, CHOICES[keys[-1]]))}; got {_shown(value)}"
    place = ".".join(keys)
    return (place + told).lstrip(".") if told.startswith(".") or not place else f"{place}: {told}"


def _fields(value: msgspec.Raw) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(value, type=dict[str, msgspec.Raw])


def _shown(value: msgspec.Raw) -> str:
    text = bytes(memoryview(value)[:200]).decode(errors="replace")
    return text if len(text) <= 40 else text[:40] + "…"


CHOICES: Final = {name: get_args(one.__annotations__[name]) for one, name in ((EventIn, "kind"), (StartIn, "workload"))}
"""What a field of a closed list may have."""
_WORDS: Final = {
    "int": "a whole number", "float": "a number", "str": "text", "array": "a list", "null": "nothing",
    "bool": "true or false", "object": "an object",
}  # fmt: skip
_RULES: Final = tuple(
    (re.compile(rule), words)
    for rule, words in (
        (r"^Object contains unknown field `(.{,40}).*`$", r".\1: unknown field"),
        (r"^Object missing required field `(\w+)`", r".\1: is missing"),
        (r"^Invalid enum value.*", "Invalid enum value"),
        (r"^Number out of range", "Expected a number in range"),
        (r", got `.*", ""),
        (r"`([a-z| ]*)`", lambda found: " or ".join(_WORDS.get(kind, kind) for kind in found[1].split(" | "))),
    )
)
