"""The index's tables, and the statements of its hot path.

SQLAlchemy is the one description of the schema: queries, migrations and the shared tier use it directly. Importing it takes
160 ms, more than a whole cold compile may take, so the few statements that a compiling process needs are compiled from here
into ``statements.py`` (``python -m tilelang.cache.schema``; a test holds the two together) and run by the standard
library's driver. See docs/design/cache-index.md.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

VERSION = 2
"""The schema's version, kept in SQLite's ``user_version``."""

metadata = MetaData()

kernels = Table(
    "kernels",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("arch", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("space", Integer, nullable=False),  # 0: the program's own schedule; 1, 2: searched
    Column("bytes", BigInteger, nullable=False),
    Column("created", Float, nullable=False),
    Column("compile_seconds", Float, nullable=False),
    Column("hits", Integer, nullable=False),
    Column("last_used", Float, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("inputs", Text, nullable=False),  # JSON: name of each input of the key -> text
    Column("reason", Text, nullable=False),  # why it was compiled
    Index("kernels_by_use", "pinned", "last_used"),
    Index("kernels_by_name", "name", "created"),
)

artifact_files = Table(
    "artifact_files",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("name", String(240), primary_key=True),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
)

sources = Table(
    "sources",
    metadata,
    Column("source_key", String(64), primary_key=True),
    Column("kernel_key", String(64), nullable=False),
    Column("function", Text, nullable=False),
    Column("recorded", Float, nullable=False),
    Index("sources_by_kernel", "kernel_key"),
)

dispatch = Table(
    "dispatch",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("sizes", String(240), primary_key=True),  # JSON list of the dynamic sizes
    Column("name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("kernel_key", String(64), nullable=False),
    Column("config", Text, nullable=False),  # JSON
    Column("seconds", Float, nullable=False),
    Column("recorded", Float, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("task", String(64), primary_key=True),
    Column("config", String(64), primary_key=True),  # digest of the configuration
    Column("values", Text, nullable=False),  # JSON: the configuration
    Column("state", String(16), nullable=False),  # measured, failed, wrong or timeout
    Column("seconds", Float),
    Column("detail", Text, nullable=False),
    Column("kernel_key", String(64), nullable=False),
    Column("recorded", Float, nullable=False),
)

totals = Table(
    "totals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("bytes", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
)

shared_metadata = MetaData()
"""The tables of the tier that hosts share; see shared_tier.py."""

shared_kernels = Table(
    "tilelang_kernels",
    shared_metadata,
    Column("key", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("sent", Float, nullable=False),
)

shared_sources = Table(
    "tilelang_sources",
    shared_metadata,
    Column("source_key", String(64), primary_key=True),
    Column("kernel_key", String(64), nullable=False),
    Column("function", Text, nullable=False),
)

blobs = Table(
    "tilelang_files",
    shared_metadata,
    Column("key", String(64), primary_key=True),
    Column("name", String(240), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)


def _upsert(table: Table, kept: tuple[str, ...] = ()):
    insert = sqlite.insert(table)
    names = {column.name for column in table.primary_key}
    changed = {c.name: insert.excluded[c.name] for c in table.columns if c.name not in names and c.name not in kept}
    return insert.on_conflict_do_update(index_elements=sorted(names), set_=changed)


def hot_statements() -> dict[str, str | list[str]]:
    """Name -> SQL, in SQLite's dialect with named parameters."""
    dialect = sqlite.dialect(paramstyle="named")
    key = bindparam("key")

    def text(statement) -> str:
        return " ".join(str(statement.compile(dialect=dialect)).split())

    tables = metadata.sorted_tables
    return {
        "CREATE": [text(CreateTable(table)) for table in tables]
        + [text(CreateIndex(index)) for table in tables for index in sorted(table.indexes, key=lambda i: i.name)]
        + ["INSERT INTO totals (id, bytes, entries) VALUES (1, 0, 0)"],
        "PUT_KERNEL": text(_upsert(kernels, kept=("hits", "pinned", "created"))),
        "PUT_FILE": text(_upsert(artifact_files)),
        "PUT_SOURCE": text(_upsert(sources)),
        "PUT_TRIAL": text(_upsert(trials)),
        "PUT_DISPATCH": text(_upsert(dispatch)),
        "BYTES_OF": text(select(kernels.c.bytes).where(kernels.c.key == key)),
        "KEYS": text(select(kernels.c.key)),
        "TOTALS": text(select(totals.c.bytes, totals.c.entries)),
        "ADD_TOTALS": text(
            update(totals).values(
                bytes=totals.c.bytes + bindparam("more_bytes"),
                entries=totals.c.entries + bindparam("more_entries"),
            )
        ),
        "NOTE_USE": text(
            update(kernels)
            .where(kernels.c.key == key)
            .values(
                hits=kernels.c.hits + bindparam("more_hits"),
                last_used=func.max(kernels.c.last_used, bindparam("used_at")),
            )
        ),
        "SET_SPACE": text(
            update(kernels)
            .where(kernels.c.key == key, kernels.c.space < bindparam("searched"))
            .values(space=bindparam("searched"))
        ),
        "LEAST_USED": text(
            select(kernels.c.key, kernels.c.bytes, kernels.c.last_used)
            .where(kernels.c.pinned == bindparam("pin"))
            .order_by(kernels.c.last_used)
            .limit(bindparam("count"))
            .offset(bindparam("start"))
        ),
        "SAME_NAME": text(
            select(kernels.c.key, kernels.c.inputs)
            .where(kernels.c.name == bindparam("program_name"))
            .order_by(kernels.c.created.desc())
            .limit(bindparam("count"))
            .offset(bindparam("start"))
        ),
        "DROP_KERNEL": text(delete(kernels).where(kernels.c.key == key)),
        "DROP_FILES": text(delete(artifact_files).where(artifact_files.c.key == key)),
        "DROP_SOURCES": text(delete(sources).where(sources.c.kernel_key == key)),
        "SOURCES_OF": text(select(sources.c.source_key).where(sources.c.kernel_key == key)),
        "TRIALS": text(
            select(
                trials.c.config,
                trials.c["values"],
                trials.c.state,
                trials.c.seconds,
                trials.c.detail,
                trials.c.kernel_key,
            )
            .where(trials.c.task == bindparam("of_task"))
            .order_by(trials.c.recorded)
        ),
        "DISPATCH": text(
            select(dispatch.c.sizes, dispatch.c.kernel_key, dispatch.c.config, dispatch.c.seconds)
            .where(dispatch.c.task == bindparam("of_task"))
            .order_by(dispatch.c.sizes)
        ),
    }


STATEMENTS_HEADER = (
    '"""SQL of the hot path, made from schema.py by ``python -m tilelang.cache.schema``; edit that file."""\n\n'
    "from __future__ import annotations\n\n"
)


def statements_source() -> str:
    """The text of ``statements.py``."""
    lines = [f"VERSION = {VERSION}"]
    for name, sql in hot_statements().items():
        if isinstance(sql, str):
            lines.append(f"{name} = {_literal(sql, '')}")
        else:
            lines += [f"{name} = [", *(f"    {_literal(one, '    ')}," for one in sql), "]"]
    return STATEMENTS_HEADER + "\n".join(lines) + "\n"


def _literal(sql: str, indent: str) -> str:
    pieces = textwrap.wrap(sql, 96, break_long_words=False)
    texts = [f'{indent}    "{piece.replace(chr(34), chr(92) + chr(34))}{end}"' for piece, end in _spaced(pieces)]
    return "(\n" + "\n".join(texts) + f"\n{indent})"


def _spaced(pieces: list[str]) -> list[tuple[str, str]]:
    return [(piece, " " if position < len(pieces) - 1 else "") for position, piece in enumerate(pieces)]


if __name__ == "__main__":
    Path(__file__).with_name("statements.py").write_text(statements_source())
