"""Events, models, predictions, snapshots, in databases that are there; new ones are made whole (`database.migrate`)."""

revision = "0001"
down_revision = None
