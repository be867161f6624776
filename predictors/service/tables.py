"""What stands in the service's database? Four tables; the migrations make them."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
)

from predictors.service.events import FIELDS

METADATA: Final = MetaData()
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by INTEGER only

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    *(
        Column(name, SmallInteger if name in ("kind", "status") else _NUMBER, nullable=False)
        for name in FIELDS
        if name != "sequence"
    ),
    Index("events_of_job", "job", "kind", unique=True),
)
"""Every event that was acknowledged, for ever; the state is a function of them."""

MODELS: Final = Table(
    "models",
    METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),
    Column("role", String(16), nullable=False),
    Column("since", _NUMBER, nullable=False),
    Column("at", Float, nullable=False),
    Column("why", String(200), nullable=False),
    Column("uri", String(500), nullable=False),
    Column("name", String(200), nullable=False),
    Column("version", Integer),
    Column("predictor", String(100), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("learns_since", _NUMBER, nullable=False),
)
"""Which model took which role from which sequence number on, and why: a history that is only added to."""

PREDICTIONS: Final = Table(
    "predictions",
    METADATA,
    Column("job", _NUMBER, primary_key=True, autoincrement=False),
    Column("role", String(16), primary_key=True),
    Column("model", _NUMBER, nullable=False),
    Column("sequence", _NUMBER, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("lower", Float),
    Column("upper", Float),
    Column("answered_by", String(100), nullable=False),
    Column("fallback", Boolean, nullable=False),
    Index("predictions_by_sequence", "sequence"),
)
"""What each model said of each job at its submission."""

SNAPSHOTS: Final = Table(
    "snapshots",
    METADATA,
    Column("sequence", _NUMBER, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("arrays", LargeBinary, nullable=False),
)
"""The state after an event, to begin from when the service starts again."""
