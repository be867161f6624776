"""A database as version 0001 of the service's tables left it."""

import sqlite3

OLDER = [
    "pragma journal_mode=WAL",
    "create table alembic_version (version_num varchar(32) not null primary key)",
    "insert into alembic_version values ('0001')",
    "create table events (sequence integer not null primary key, job integer not null, kind smallint not null, "
    "time integer not null, status smallint not null, procs integer not null, requested_time integer not null, "
    "user integer not null, 'group' integer not null, executable integer not null, queue integer not null, "
    "partition integer not null)",
    "create unique index events_of_job on events (job, kind)",
    "create table models (id integer not null primary key, role varchar(16) not null, since integer not null, "
    "at float not null, why varchar(200) not null, uri varchar(500) not null, name varchar(200) not null, "
    "version integer, predictor varchar(100) not null, sha256 varchar(64) not null, learns_since integer not null)",
    "create table predictions (job integer not null, role varchar(16) not null, model integer not null, "
    "sequence integer not null, seconds float not null, lower float, upper float, answered_by varchar(100) not null, "
    "fallback boolean not null, primary key (job, role))",
    "create index predictions_by_sequence on predictions (sequence)",
    "create table snapshots (sequence integer not null primary key, at float not null, arrays blob not null)",
]
"""What version 0001 made."""


def older(path, events):
    """Make a database as version 0001 would have left it."""
    with sqlite3.connect(path) as raw:
        for statement in OLDER:
            raw.execute(statement)
        raw.executemany(
            f"insert into events values ({', '.join('?' * 12)})", [(i, *one[:-1]) for i, one in enumerate(events, 1)]
        )
    raw.close()
