"""What became of each event; fingerprints; corrections; snapshots that are kept as a base."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ACCEPTED, OTHERS = sa.text("effect < 2"), sa.text("effect >= 2")


def upgrade() -> None:
    """Let only events that took effect, or wait, take the place of (job, kind)."""
    op.add_column("events", sa.Column("effect", sa.SmallInteger, nullable=False, server_default="0"))
    op.drop_index("events_of_job", "events")
    once = ["job", "kind"]
    op.create_index("events_once", "events", once, unique=True, sqlite_where=ACCEPTED, postgresql_where=ACCEPTED)
    op.create_index("events_without_effect", "events", ["job"], sqlite_where=OTHERS, postgresql_where=OTHERS)
    op.create_table(
        "about",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.String(200), nullable=False),
    )
    op.create_table(
        "corrections",
        sa.Column("id", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("what", sa.String(200), nullable=False),
        sa.Column("why", sa.String(200), nullable=False),
        sa.Column("n_events", NUMBER, nullable=False),
    )
    op.add_column("snapshots", sa.Column("base", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Go back to a copy that was made before: events that were refused may have successors now."""
    raise NotImplementedError("put FILE.before-0002, or your own backup, in the place of the database")
