"""``cached()`` in memory: the same program object and the same options give the same kernel at once.

Programs are immutable, so that their identity is enough; they are held weakly. Options are compared by value with their
types, because 1, 1.0 and True may lower differently.
"""

from __future__ import annotations

import weakref
from typing import Any

from tilelang.cache.keys.versions import variables_of_tools
from tilelang.fingerprint.plain import NotPlain, plain_key
from tilelang.fingerprint.watch import Watch
from tilelang.provided import provided


class CallMemo:
    """(program object, options) -> kernel."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[weakref.ref[Any], dict[bytes, Any]]] = {}
        self._around = Watch([])
        self._variables: list[bytes] = []

    def get(self, func: Any, options: tuple[Any, ...]) -> Any:
        """The kernel, or None."""
        row = self._rows.get(id(func))
        # The number of an object that is gone may be another's now.
        if row is None or row[0]() is not func:
            return None
        if not self._around.holds():
            self.clear()
            return None
        try:
            return row[1].get(plain_key(options))
        except NotPlain:
            return None

    def put(self, func: Any, options: tuple[Any, ...], kernel: Any, files: list[Any]) -> None:
        """Remembers a kernel, where its program can be referred to weakly and the options are plain values.

        Args:
            func: the program, compared by identity.
            options: compared by value and type.
            kernel: what :meth:`get` will give.
            files: records of the headers and tools from before the kernel was made.
        """
        identity = id(func)
        if not self._rows or self._variables != variables_of_tools():
            self.clear()
            self._variables = variables_of_tools()
            self._around = Watch([*files, *provided("records_of_all_tools")()])
        try:
            key = plain_key(options)
            row = self._rows.get(identity)
            if row is None or row[0]() is not func:
                rows = self._rows
                # The row goes when the program does. `gone` is compared, since a new program with the same number may have a row
                # by then.
                reference = weakref.ref(func, lambda gone: _forget(rows, identity, gone))
                row = rows[identity] = (reference, {})
        except (NotPlain, TypeError):
            return
        row[1][key] = kernel

    def clear(self) -> None:
        """Forgets everything."""
        self._rows.clear()


def _forget(rows: dict[int, tuple[weakref.ref[Any], dict[bytes, Any]]], identity: int, gone: weakref.ref[Any]) -> None:
    row = rows.get(identity)
    if row is not None and row[0] is gone:
        del rows[identity]
