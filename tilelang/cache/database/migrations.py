"""Brings an index of an older schema to the present one.

Tables are compared with the schema by name and column: what both have is copied, what is new takes a neutral value, and
the rows of entries are then made again from the manifests, which know everything but hits and pins. One rule serves every
older version, so that there is no chain of steps to keep.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import Table, create_engine, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.pool import StaticPool

from tilelang.cache.database import schema

_NEUTRAL = {str: "", int: 0, float: 0.0, bool: False}


def run(connection: sqlite3.Connection) -> None:
    """Migrates all tables in one transaction on ``connection``, which has none open."""
    engine = create_engine(
        "sqlite://",
        creator=lambda: connection,
        poolclass=StaticPool,
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
    )
    # Connecting rolls back once, to ask the database its version; so the transaction begins after it.
    with engine.connect() as bound:
        bound.execute(text("BEGIN IMMEDIATE"))
        try:
            _migrate_all(bound)
            bound.execute(text(f"PRAGMA user_version={schema.VERSION}"))
        except BaseException:
            bound.execute(text("ROLLBACK"))
            raise
        bound.execute(text("COMMIT"))


def _migrate_all(bound: Connection) -> None:
    present = set(inspect(bound).get_table_names())
    for index in [name for (name,) in bound.execute(text(_INDEXES))]:
        bound.execute(text(f'DROP INDEX "{index}"'))
    for table in schema.metadata.sorted_tables:
        if table.name in present:
            _migrate(bound, table)
        else:
            table.create(bound)
    _count(bound)


_INDEXES = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"


def _migrate(bound: Connection, table: Table) -> None:
    old = f"old_{table.name}"
    bound.execute(text(f'ALTER TABLE "{table.name}" RENAME TO "{old}"'))
    had = {column["name"] for column in inspect(bound).get_columns(old)}
    table.create(bound)
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    values = ", ".join(
        f'"{column.name}"' if column.name in had else _neutral(column.type.python_type) for column in table.columns
    )
    bound.execute(text(f'INSERT INTO "{table.name}" ({names}) SELECT {values} FROM "{old}"'))
    bound.execute(text(f'DROP TABLE "{old}"'))


def _neutral(kind: type) -> str:
    value = _NEUTRAL[kind]
    return "''" if value == "" else str(int(value) if isinstance(value, bool) else value)


def _count(bound: Connection) -> None:
    bound.execute(text("DELETE FROM totals"))
    bound.execute(text("INSERT INTO totals (id, bytes, entries) SELECT 1, coalesce(sum(bytes), 0), count(*) FROM kernels"))
