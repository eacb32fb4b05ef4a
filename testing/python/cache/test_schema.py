"""The schema, the statements made from it, and databases of older versions."""

from __future__ import annotations

import sqlite3

from tilelang.cache.command.catalog import Catalog
from tilelang.cache.database import hot_path, schema, statements
from tilelang.cache.kernel_cache import KernelCache

from . import fakes


def test_the_statements_are_those_of_the_schema():
    assert statements.VERSION == schema.VERSION
    assert [hot_path.sql(statement) for statement in hot_path.creation()] == statements.CREATE
    for name, statement in hot_path.STATEMENTS.items():
        assert getattr(statements, name) == hot_path.sql(statement), "run python -m tilelang.cache.database.hot_path"


def test_the_tables_are_those_of_the_schema(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    with sqlite3.connect(cache.disk.index.path) as database:
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
        mode = database.execute("PRAGMA journal_mode").fetchone()
    assert tables == set(schema.metadata.tables) and mode == ("wal",)


def test_an_older_database_is_migrated(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    index = cache.disk.index
    Catalog(index).pin(fakes.key().digest, True)
    index.put_trial(TRIAL)
    index.close()
    with sqlite3.connect(index.path) as database:
        # What the first version did not have.
        database.execute("DROP INDEX kernels_by_use")
        database.execute("ALTER TABLE kernels DROP COLUMN space")
        database.execute("ALTER TABLE kernels DROP COLUMN reason")
        database.execute("DROP TABLE dispatch")
        database.execute("PRAGMA user_version=1")
    database.close()
    fresh = KernelCache()
    (row,) = Catalog(fresh.disk.index).kernels()
    assert (row["key"], row["pinned"], row["space"], row["reason"]) == (fakes.key().digest, True, 0, "")
    assert [trial[0] for trial in fresh.disk.index.trials("t")] == ["c"]
    assert fresh.disk.index.dispatch("t") == []
    assert fresh.disk.index.totals()[1] == 1
    with sqlite3.connect(index.path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert database.execute("select count(*) from sqlite_master where name = 'kernels_by_use'").fetchone() == (1,)


TRIAL = {
    "task": "t",
    "config": "c",
    "values": "{}",
    "state": "measured",
    "seconds": 1.0,
    "detail": "",
    "kernel_key": "",
    "recorded": 1.0,
}


def test_the_warm_path_imports_neither_sqlalchemy_nor_a_database(cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    code = """
import sys
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache
assert KernelCache().lookup(sys.argv[1]).origin == "disk"
print([name for name in ("sqlalchemy", "sqlite3", "tvm", "torch", "rich", "typer") if name in sys.modules])
"""
    assert fakes.run_python(code, fakes.key().digest).stdout.strip() == "[]"
