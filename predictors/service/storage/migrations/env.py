"""Alembic's entry: it migrates over the connection that `predictors.service.storage.database` hands it."""

from alembic import context

from predictors.service.storage.database import METADATA

if hasattr(context, "config"):  # not so when the module is merely imported
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=METADATA, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()
