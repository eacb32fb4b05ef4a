"""The statements that a compiling process needs: written here over the schema, compiled into ``statements.py``.

``python -m tilelang.cache.database.hot_path`` does that; a test holds the two together. The standard library's driver then
runs them without SQLAlchemy, see docs/design/cache-index.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, Table, bindparam, delete, func, select, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from tilelang.cache.database import schema
from tilelang.cache.database.schema import artifact_files, counters, dispatch, kernels, sources, totals, trials

_DIALECT = sqlite.dialect(paramstyle="named")


def _upsert(table: Table, kept: tuple[str, ...] = ()) -> Any:
    """Inserts a row, or replaces that of the same primary key but for the columns ``kept``."""
    insert = sqlite.insert(table)
    names = {column.name for column in table.primary_key}
    changed = {c.name: insert.excluded[c.name] for c in table.columns if c.name not in names and c.name not in kept}
    return insert.on_conflict_do_update(index_elements=sorted(names), set_=changed)


def _add(table: Table) -> Any:
    """Inserts a row, or adds its count to that of the same primary key."""
    insert = sqlite.insert(table)
    names = [column.name for column in table.primary_key]
    return insert.on_conflict_do_update(index_elements=names, set_={"count": table.c.count + insert.excluded["count"]})


_KEY: BindParameter[str] = bindparam("key")

STATEMENTS: Mapping[str, Any] = {
    # A kernel that is compiled again, as its files were damaged or the index was lost, keeps what users did with it.
    "PUT_KERNEL": _upsert(kernels, kept=("hits", "pinned", "created")),
    "PUT_FILE": _upsert(artifact_files),
    "PUT_SOURCE": _upsert(sources),
    "PUT_TRIAL": _upsert(trials),
    "PUT_DISPATCH": _upsert(dispatch),
    "BYTES_OF": select(kernels.c.bytes).where(kernels.c.key == _KEY),
    "KEYS": select(kernels.c.key),
    "TOTALS": select(totals.c.bytes, totals.c.entries),
    "ADD_TOTALS": (
        update(totals).values(
            bytes=totals.c.bytes + bindparam("more_bytes"),
            entries=totals.c.entries + bindparam("more_entries"),
        )
    ),
    "ADD_COUNT": _add(counters),
    "SET_COUNT": _upsert(counters),
    "COUNTS": select(counters.c.name, counters.c["count"]),
    "DROP_COUNTS": delete(counters),
    "NOTE_USE": (
        update(kernels)
        .where(kernels.c.key == _KEY)
        .values(
            hits=kernels.c.hits + bindparam("more_hits"),
            # Processes note their uses in batches, so that an earlier use may be written after a later one.
            last_used=func.max(kernels.c.last_used, bindparam("used_at")),
        )
    ),
    "SET_SPACE": (
        update(kernels).where(kernels.c.key == _KEY, kernels.c.space < bindparam("searched")).values(space=bindparam("searched"))
    ),
    "LEAST_USED": (
        select(kernels.c.key, kernels.c.bytes, kernels.c.last_used)
        .where(kernels.c.pinned == bindparam("pin"))
        .order_by(kernels.c.last_used)
        .limit(bindparam("count"))
        .offset(bindparam("start"))
    ),
    "SAME_NAME": (
        select(kernels.c.key, kernels.c.inputs)
        .where(kernels.c.name == bindparam("program_name"))
        .order_by(kernels.c.created.desc())
        .limit(bindparam("count"))
        .offset(bindparam("start"))
    ),
    "DROP_KERNEL": delete(kernels).where(kernels.c.key == _KEY),
    "DROP_FILES": delete(artifact_files).where(artifact_files.c.key == _KEY),
    "DROP_SOURCES": delete(sources).where(sources.c.kernel_key == _KEY),
    "SOURCES_OF": select(sources.c.source_key).where(sources.c.kernel_key == _KEY),
    "TRIALS": (
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
    "DISPATCH": (
        select(dispatch.c.sizes, dispatch.c.kernel_key, dispatch.c.config, dispatch.c.seconds)
        .where(dispatch.c.task == bindparam("of_task"))
        .order_by(dispatch.c.sizes)
    ),
}
"""Name in ``statements.py`` -> statement."""


_NOTHING_YET = "INSERT INTO totals (id, bytes, entries) VALUES (1, 0, 0)"


def creation() -> list[Any]:
    """The statements that make an empty index."""
    tables = schema.metadata.sorted_tables
    indexes = [index for table in tables for index in sorted(table.indexes, key=lambda index: str(index.name))]
    return [*map(CreateTable, tables), *map(CreateIndex, indexes), text(_NOTHING_YET)]


def sql(statement: Any) -> str:
    """A statement's text in SQLite's dialect, with named parameters."""
    return " ".join(str(statement.compile(dialect=_DIALECT)).split())


STATEMENTS_HEADER = (
    '"""SQL of the hot path, made by ``python -m tilelang.cache.database.hot_path``; edit hot_path.py."""\n\n'
    "from __future__ import annotations\n\n"
)


def statements_source() -> str:
    """The text of ``statements.py``."""
    lines = [f"VERSION = {schema.VERSION}", "CREATE = [", *(f"    {_literal(sql(one), '    ')}," for one in creation()), "]"]
    lines += [f"{name} = {_literal(sql(statement), '')}" for name, statement in STATEMENTS.items()]
    return STATEMENTS_HEADER + "\n".join(lines) + "\n"


def _literal(line: str, indent: str) -> str:
    """A string literal in parentheses, in pieces that fit a line."""
    *pieces, last = textwrap.wrap(line, 96, break_long_words=False)
    quoted = ['"' + piece.replace('"', '\\"') + '"' for piece in (*(f"{piece} " for piece in pieces), last)]
    return "\n".join(["(", *(f"{indent}    {piece}" for piece in quoted), f"{indent})"])


if __name__ == "__main__":
    Path(__file__).with_name("statements.py").write_text(statements_source())
