"""Queries of a whole cache for the command line: lists, statistics, pins; SQLAlchemy over the index's tables."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, create_engine, func, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

from tilelang.cache.database import schema
from tilelang.cache.database.index import BUSY_SECONDS, Index, differing
from tilelang.errors import CacheError

kernels, files, sources = schema.kernels, schema.artifact_files, schema.sources

LISTED = tuple(column for column in kernels.c if column.name != "inputs")
"""Columns of a list: the inputs are the most of a row."""

SORT_ORDERS = {
    "age": kernels.c.created.desc(),
    "size": kernels.c.bytes.desc(),
    "used": kernels.c.last_used.desc(),
    "hits": kernels.c.hits.desc(),
    "time": kernels.c.compile_seconds.desc(),
    "name": kernels.c.name,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which kernels to list; an empty field does not restrict.

    Attributes:
        name: part of the program's name.
        target: part of the target's text, or the architecture.
        backend: the execution backend.
        key: how the key begins.
        older, younger: seconds since 1970: created before, created after.
        larger: bytes.
        pinned: pinned ones only.
        space: the tuning space.
        exactly: ``name`` is the whole name.
    """

    name: str = ""
    target: str = ""
    backend: str = ""
    key: str = ""
    older: float | None = None
    younger: float | None = None
    larger: int | None = None
    pinned: bool = False
    space: int | None = None
    exactly: bool = False


class Catalog:
    """The rows of one cache.

    Args:
        index: the index; it is created, migrated and brought up to date first.
    """

    def __init__(self, index: Index):
        self.index = index
        index.take_journal()
        # A path may hold what has a meaning in a URL.
        connect = functools.partial(sqlite3.connect, index.path, timeout=BUSY_SECONDS)
        self._engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    def kernels(
        self, which: Filter = Filter(), sort: str = "age", limit: int | None = None, columns: Sequence[Column[Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Rows of ``kernels`` as dictionaries.

        Args:
            which: restricts the rows.
            sort: a key of :data:`SORT_ORDERS`.
            limit: at most this many rows; None for all.
            columns: what each row has; all columns without.
        """
        query = select(*(columns or kernels.c)).order_by(SORT_ORDERS[sort], kernels.c.key).limit(limit)
        for condition in _conditions(which):
            query = query.where(condition)
        with self._connected() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def resolve(self, text: str) -> dict[str, Any]:
        """The row whose key begins with ``text``, or the newest whose name is ``text``.

        Raises:
            CacheError: there is none, or several keys begin so.
        """
        if not text:
            raise CacheError("an empty key", hint="`tilelang cache ls` lists the keys")
        found = self.kernels(Filter(key=text.lower()), limit=2)
        if len(found) > 1 and found[0]["key"] != text:
            raise CacheError(f"several keys begin with {text!r}", hint="give more digits")
        found = found or self.kernels(Filter(name=text, exactly=True), limit=1)
        if not found:
            raise CacheError(f"no kernel with key or name {text!r}", hint="`tilelang cache ls` lists what there is")
        return found[0]

    def files(self, key: str) -> list[dict[str, Any]]:
        """(name, bytes, sha256) of an entry's files."""
        query = select(files.c.name, files.c.bytes, files.c.sha256).where(files.c.key == key).order_by(files.c.name)
        with self._connected() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def functions(self, key: str) -> list[str]:
        """The functions whose source keys lead to a kernel."""
        query = select(sources.c.function).where(sources.c.kernel_key == key).distinct().order_by(sources.c.function)
        with self._connected() as connection:
            return [name for (name,) in connection.execute(query) if name]

    def all_functions(self) -> dict[str, list[str]]:
        """As :meth:`functions`, of every kernel that has one."""
        found: dict[str, list[str]] = {}
        query = select(sources.c.kernel_key, sources.c.function).distinct().order_by(sources.c.function)
        with self._connected() as connection:
            for key, name in connection.execute(query):
                if name:
                    found.setdefault(key, []).append(name)
        return found

    def statistics(self) -> dict[str, Any]:
        """Sums over all kernels: ``entries, bytes, hits, compile_seconds, saved_seconds``, the same by name, ``sources``, and how
        many are ``without_shortcut``."""
        sums = (
            func.count().label("entries"),
            func.coalesce(func.sum(kernels.c.bytes), 0).label("bytes"),
            func.coalesce(func.sum(kernels.c.hits), 0).label("hits"),
            func.coalesce(func.sum(kernels.c.compile_seconds), 0.0).label("compile_seconds"),
            func.coalesce(func.sum(kernels.c.compile_seconds * kernels.c.hits), 0.0).label("saved_seconds"),
        )
        with self._connected() as connection:
            total = dict(connection.execute(select(*sums)).mappings().one())
            by_name = connection.execute(select(kernels.c.name, *sums).group_by(kernels.c.name)).mappings().all()
            off = select(func.count()).select_from(kernels).where(kernels.c.shortcut != "")
            total["without_shortcut"] = connection.execute(off).scalar_one()
            total["sources"] = connection.execute(select(func.count()).select_from(sources)).scalar_one()
        requests = total["hits"] + total["entries"]
        total["hit_rate"] = total["hits"] / requests if requests else 0.0
        return {**total, "by_name": [dict(row) for row in by_name]}

    def pin(self, key: str, pinned: bool) -> None:
        """Pins an entry, which protects it from eviction, or unpins it."""
        with self._connected() as connection:
            connection.execute(update(kernels).where(kernels.c.key == key).values(pinned=pinned))

    def why(self, text: str) -> dict[str, Any]:
        """Which inputs of a kernel's key differ from the nearest other entry of the same name.

        Returns:
            ``key``, ``reason`` (why it was compiled), ``shortcut`` (why it cannot be found before tracing), ``nearest`` (a key,
            or None) and ``differences``: for each input its ``name``, the text ``here`` and ``there``.
        """
        row = self.resolve(text)
        ours = json.loads(row["inputs"])
        same_name = self.kernels(Filter(name=row["name"], exactly=True))
        others = [other for other in same_name if other["key"] != row["key"]]
        nearest = min(others, key=lambda other: len(differing(json.loads(other["inputs"]), ours)), default=None)
        theirs: dict[str, str] = json.loads(nearest["inputs"]) if nearest else {}
        names = differing(theirs, ours) if nearest else []
        return {
            "key": row["key"],
            "name": row["name"],
            "reason": row["reason"],
            "shortcut": row["shortcut"],
            "nearest": nearest["key"] if nearest else None,
            "differences": [{"name": name, "here": ours.get(name), "there": theirs.get(name)} for name in names],
        }

    @contextmanager
    def _connected(self) -> Generator[Connection]:
        with self._engine.begin() as connection:
            yield connection


def _conditions(which: Filter) -> Iterator[Any]:
    if which.exactly:
        yield kernels.c.name == which.name
    elif which.name:
        yield kernels.c.name.contains(which.name, autoescape=True)
    if which.target:
        yield or_(kernels.c.target.contains(which.target, autoescape=True), kernels.c.arch == which.target)
    if which.backend:
        yield kernels.c.backend == which.backend
    if which.key:
        yield kernels.c.key.startswith(which.key, autoescape=True)
    if which.older is not None:
        yield kernels.c.created < which.older
    if which.younger is not None:
        yield kernels.c.created > which.younger
    if which.larger is not None:
        yield kernels.c.bytes > which.larger
    if which.pinned:
        yield kernels.c.pinned.is_(True)
    if which.space is not None:
        yield kernels.c.space == which.space
