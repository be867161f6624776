"""Schema of requests and answers (pydantic), strict: an unknown field or a float for a whole number is refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from predictors.service.event import KINDS, UNKNOWN, Event
from predictors.service.pseudonyms import FIRST_NAME, Pseudonymiser

MOST_SECONDS = 2**40
MOST_NUMBER = 2**31
MOST_AT_ONCE = 10_000
"""Events, or jobs, in one request."""

Seconds = Annotated[StrictInt, Field(ge=0, lt=MOST_SECONDS)]
Number = Annotated[StrictInt, Field(ge=0, lt=MOST_NUMBER)]
Name = Annotated[StrictInt, Field(ge=0, lt=FIRST_NAME)] | Annotated[StrictStr, Field(min_length=1, max_length=256)]
Sequence = Annotated[StrictInt, Field(ge=0, lt=2**53)]


class Strict(BaseModel):
    """Base of what clients send."""

    model_config = ConfigDict(extra="forbid")


class JobIn(Strict):
    """A job as its submission describes it. Users, groups … may be numbers or names; of a name only a hash is kept."""

    procs: Number | None = Field(None, description="Processors asked for.")
    requested_time: Number | None = Field(None, description="Walltime asked for [s].")
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


class EventIn(JobIn):
    """Something that happened to a job. A second event of the same job and kind changes nothing."""

    kind: Literal["submitted", "started", "ended", "cancelled"]
    job_id: Name = Field(description="Never used again: name a requeued job anew, such as 123#2.")
    time: Seconds = Field(description="When it happened [s]; Unix time, if the service was not told other.")
    status: Annotated[StrictInt, Field(ge=0, le=5)] | None = Field(
        None, description="Of an end: 0 failed, 1 completed, 2 to 4 partial, 5 cancelled."
    )

    @model_validator(mode="after")
    def _belongs(self) -> "EventIn":
        given = self.model_fields_set - {"kind", "job_id", "time"}
        allowed = {"submitted": JobIn.model_fields.keys(), "ended": {"status"}}.get(self.kind, set())
        if given - set(allowed):
            raise ValueError(f"{min(given - set(allowed))} does not belong to an event of the kind {self.kind}")
        return self

    def event(self, key: Pseudonymiser) -> Event:
        """Return it as it is kept."""
        status = UNKNOWN if self.status is None else self.status
        return Event(key.code(self.job_id), KINDS[self.kind], self.time, status, *self.codes(key))

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"kind": "submitted", "job_id": 4711, "time": 1_700_000_000, "procs": 64, "requested_time": 3600,
                 "user": "alice", "queue": "batch"},
                {"kind": "started", "job_id": 4711, "time": 1_700_000_120},
                {"kind": "ended", "job_id": 4711, "time": 1_700_002_000, "status": 1},
            ]
        },
    )  # fmt: skip


class EventsIn(Strict):
    """Many events, taken in in this order."""

    events: Annotated[list[EventIn], Field(min_length=1, max_length=MOST_AT_ONCE)]


class EventOut(BaseModel):
    """What became of an event."""

    sequence: int = Field(description="Its number; of a duplicate: that of the first.")
    status: Literal["applied", "held", "refused", "duplicate", "conflict"] = Field(
        description="held: waits for an earlier event of its job; refused: contradicts those before, kept but without "
        "effect; duplicate: was there; conflict: another event of this job and kind was there, and stands."
    )


class EventsOut(BaseModel):
    """Receipts in the order of the events, which are durable by now."""

    sequence: int = Field(description="The greatest number among them, to be asked for by as_of.")
    events: list[EventOut]


class RuntimeIn(Strict):
    """Jobs whose run time is asked for: as they would be submitted now, or ids of jobs that were."""

    jobs: Annotated[list[JobIn], Field(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    job_ids: Annotated[list[Name], Field(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    as_of: Sequence | None = Field(None, description="Answer only when every event up to this one has been learnt.")
    now: Seconds | None = Field(None, description="The second to ask about; default: the present one.")

    @model_validator(mode="after")
    def _one_of_both(self) -> "RuntimeIn":
        if (self.jobs is None) == (self.job_ids is None):
            raise ValueError("give either jobs or job_ids")
        return self

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"jobs": [{"procs": 64, "requested_time": 3600, "user": "alice", "queue": "batch"}]},
                {"job_ids": [4711], "as_of": 3},
            ]
        },
    )


class ModelOut(BaseModel):
    """Who answered."""

    name: str
    version: int | None
    alias: str
    predictor: str
    trained_until: str | None = Field(description="Last end that it learnt from before it came here.")
    learnt_sequence: int | None = Field(description="Newest event that it had learnt.")


class QuantilesOut(BaseModel):
    """By how long the newest jobs ran of what was predicted for them [s]."""

    p10: float
    p50: float
    p90: float


class PredictionOut(BaseModel):
    """The answer for one job."""

    seconds: float | None = Field(description="Predicted run time; null for a job id that was never submitted.")
    lower: float | None = Field(description="The model's own interval, where it gives one [s].")
    upper: float | None
    quantiles: QuantilesOut | None
    answered_by: str | None
    fallback: bool
    why: str | None = Field(description="Why it is a fallback.")


class RuntimeOut(BaseModel):
    """Answers in the order of the jobs."""

    sequence: int = Field(description="Newest event that the answers know of.")
    model: ModelOut
    predictions: list[PredictionOut]


NodeId = Annotated[StrictInt, Field(ge=0, lt=2**31)]
Rate = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Probe = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, lt=MOST_SECONDS, strict=True, allow_inf_nan=False)]
MOST_NODES = 20_000
MOST_STARTS = 1000


class TelemetryIn(Strict):
    """One sample of the counters of some nodes; the first one tells which nodes there are."""

    time: Moment = Field(description="When [s on the service's clock], after the sample before.")
    nodes: Annotated[list[NodeId], Field(min_length=1, max_length=MOST_NODES)]
    rates: Annotated[
        list[Annotated[list[Rate | None], Field(min_length=90, max_length=90)]],
        Field(min_length=1, max_length=MOST_NODES, description="Per second, of each node 90; null where not known."),
    ]


class StartIn(Strict):
    """A start that is being considered."""

    application: Annotated[StrictStr, Field(max_length=256)] = ""
    workload: Literal["compute", "network", "io", ""] = ""
    nodes: Annotated[list[NodeId], Field(min_length=1, max_length=MOST_NODES)] | None = Field(
        None, description="Where it would run; needed by classifiers that judge by the job's own nodes."
    )
    probes: Annotated[list[Probe | None], Field(min_length=9, max_length=9)] | None = Field(
        None, description="Last known waits of the probes [s]: min, max, mean of send, receive, all-reduce."
    )


class VariabilityIn(Strict):
    """Starts of which is asked whether now is a bad moment for them."""

    starts: Annotated[list[StartIn], Field(min_length=1, max_length=MOST_STARTS)]
    now: Moment | None = Field(None, description="The second to ask about; default: just after the newest sample.")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"starts": [{"application": "AMG", "workload": "network", "nodes": [0, 1, 2]}]}]
        },
    )


class VerdictOut(BaseModel):
    """The answer for one start."""

    label: str
    probability: float | None = Field(description="Of variation; null where the classifier abstains.")
    abstained: bool
    why: str | None
    filled: int = Field(description="Inputs for which the training part's median stood in.")


class VariabilityOut(BaseModel):
    """Answers in the order of the starts."""

    classifier: str
    version: int | None
    newest_sample: float | None
    predictions: list[VerdictOut]


class ErrorOut(BaseModel):
    """What was wrong, in a few words, without any value that was sent."""

    error: str


def described(error: Any) -> str:
    """Return a validation error in one line: where, and the rule; never the value.

    Parameters
    ----------
    error : pydantic.ValidationError
        The first of its findings is told.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in found["loc"] if isinstance(part, int) or part in _FIELDS)
    return f"{place}: {found['msg']}" if place else str(found["msg"])


_FIELDS = {
    *EventIn.model_fields,
    *RuntimeIn.model_fields,
    *TelemetryIn.model_fields,
    *VariabilityIn.model_fields,
    *StartIn.model_fields,
    "events",
}
