"""The index's tables.

SQLAlchemy is the one description of the schema: queries, migrations and the shared tier use it directly. Importing it takes
160 ms, more than a whole cold compile may take, so that a compiling process uses ``statements.py`` instead, which
:mod:`tilelang.cache.database.hot_path` makes from here. See docs/design/cache-index.md.
"""

from __future__ import annotations

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
)

VERSION = 3
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
    Column("shortcut", Text, nullable=False),  # why it cannot be found before tracing; empty where it can
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

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),  # an event of the journal, or ``since``: when they were set to zero
    Column("count", BigInteger, nullable=False),
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
