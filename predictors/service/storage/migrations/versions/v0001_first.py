"""Events, models, predictions, snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "events",
        sa.Column("sequence", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("job", NUMBER, nullable=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        sa.Column("time", NUMBER, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("procs", NUMBER, nullable=False),
        sa.Column("requested_time", NUMBER, nullable=False),
        sa.Column("user", NUMBER, nullable=False),
        sa.Column("group", NUMBER, nullable=False),
        sa.Column("executable", NUMBER, nullable=False),
        sa.Column("queue", NUMBER, nullable=False),
        sa.Column("partition", NUMBER, nullable=False),
    )
    op.create_index("events_of_job", "events", ["job", "kind"], unique=True)
    op.create_table(
        "models",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("since", NUMBER, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("why", sa.String(200), nullable=False),
        sa.Column("uri", sa.String(500), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer),
        sa.Column("predictor", sa.String(100), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("learns_since", NUMBER, nullable=False),
    )
    op.create_table(
        "predictions",
        sa.Column("job", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(16), primary_key=True),
        sa.Column("model", NUMBER, nullable=False),
        sa.Column("sequence", NUMBER, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("lower", sa.Float),
        sa.Column("upper", sa.Float),
        sa.Column("answered_by", sa.String(100), nullable=False),
        sa.Column("fallback", sa.Boolean, nullable=False),
    )
    op.create_index("predictions_by_sequence", "predictions", ["sequence"])
    op.create_table(
        "snapshots",
        sa.Column("sequence", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("arrays", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("snapshots", "predictions", "models", "events"):
        op.drop_table(table)
