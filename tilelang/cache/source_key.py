"""The source key: is this call of a kernel factory one that was compiled before? Answered without tracing.

The key covers the factory's code, everything that it can read, its arguments, the options of the decorator, Python and the
compiler. Within a process the answer is remembered and revalidated by identity in about a microsecond; in a new process
the key leads to the kernel through one small file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from tilelang import env
from tilelang.cache import header_watch, location, source_text, warn, watch
from tilelang.cache.canonical import canonical, digest
from tilelang.cache.fingerprint import compiler_fingerprint
from tilelang.cache.missing import MISSING
from tilelang.cache.plain import NotPlain
from tilelang.cache.values import Describer, Unfaithful
from tilelang.cache.watch import Recall, Watch

FORMAT = "tilelang-source-1"


@dataclass(frozen=True, slots=True)
class SourceKey:
    """The key of one call, or why it has none.

    Attributes:
        digest: 64 hexadecimal digits, or None where the shortcut is off.
        function: the factory, for people.
        reason: why the shortcut is off; empty where it is on.
    """

    digest: str | None
    function: str = ""
    reason: str = ""
    again: Callable[[], SourceKey] | None = field(default=None, repr=False, compare=False)
    codes: tuple[CodeType, ...] = field(default=(), repr=False, compare=False)

    def confirmed(self) -> SourceKey:
        """This key after the trace, when it is about to be recorded: still the same, and made from the text that the front
        end read. A trace that changed what it reads, or a file that was edited after its import, turns the shortcut off."""
        if self.digest is None or self.again is None:
            return self
        changed = source_text.changed_file(self.codes)
        if changed is not None:
            return SourceKey(None, self.function, f"{changed} is not the text that the running code came from")
        now = self.again()
        if now.digest != self.digest:
            return SourceKey(None, self.function, now.reason or "the function changes what it reads")
        return self


@dataclass(slots=True)
class _Known:
    """The function's part of the key, valid while ``recall.holds()``."""

    digest: str
    codes: tuple[CodeType, ...]
    recall: Any


class FunctionTracker:
    """Source keys and remembered results of one function under one set of options.

    Args:
        function: the kernel factory as the user wrote it.
        extra: whatever else decides the kernel, as plain values: target, backend, out_idx, pass configurations, flags,
            versions of the toolchain.
    """

    def __init__(self, function: FunctionType, extra: tuple = ()):
        self.function = function
        self.extra = extra
        self._known: _Known | None = None
        self._get: Callable[[tuple, dict], Any] | None = None

    def recall(self, args: tuple, kwargs: dict) -> Any:
        """What :meth:`remember` was given for these arguments, if nothing that it depends on has changed; else None."""
        get = self._get
        if get is None:
            return None
        try:
            try:
                found = get(args, kwargs)
            except NotPlain:
                return self._recall_by_content(args, kwargs)
            if found is None and not self._known.recall.holds():
                return self._recall_after_change(args, kwargs)
            return found
        except Exception as error:  # user objects may do anything when they are looked at
            self.forget()
            warn.once("recall", f"a kernel is not looked up in memory: {warn.describe(error)}")
            return None

    def remember(self, args: tuple, kwargs: dict, result: Any) -> None:
        """Lets :meth:`recall` return ``result``; does nothing where a change could go unnoticed."""
        try:
            known = self._function_part()
            known.recall.rows()[self._row(args, kwargs)] = result
        except Unfaithful:
            return
        except Exception as error:  # as in recall
            warn.once("remember", f"a kernel is not kept in memory: {warn.describe(error)}")
            return
        self._get = known.recall.get

    def forget(self) -> None:
        """Empties the memory."""
        self._known = self._get = None

    def source_key(self, args: tuple, kwargs: dict) -> SourceKey:
        """The key of the call ``function(*args, **kwargs)``."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        try:
            return self._key(name, args, kwargs)
        except Exception as error:  # as in recall
            return SourceKey(None, name, f"looking at what it reads raises {warn.describe(error)}")

    def _key(self, name: str, args: tuple, kwargs: dict) -> SourceKey:
        try:
            known = self._function_part()
            arguments, codes = _arguments_digest(args, kwargs)
        except Unfaithful as error:
            return SourceKey(None, name, str(error))
        compiler = compiler_fingerprint(location.memo_file())
        if not compiler.loaded_is_on_disk:
            return SourceKey(None, name, "tilelang's own files changed after this process had started")
        parts = (
            FORMAT,
            python_tag(),
            known.digest,
            arguments,
            canonical(self.extra),
            canonical(env.code_changing()),
        )
        key = digest(*parts, canonical(compiler.parts))
        return SourceKey(key, name, "", lambda: self._afresh(args, kwargs), known.codes + codes)

    def _afresh(self, args: tuple, kwargs: dict) -> SourceKey:
        return FunctionTracker(self.function, self.extra).source_key(args, kwargs)

    def _function_part(self) -> _Known:
        known = self._known
        if known is None or not known.recall.holds():
            fresh = self._describe()
            if known is not None and fresh.digest == known.digest:
                # Other objects with the same content: what is remembered stays right.
                fresh.recall.rows().update(known.recall.rows())
            known = self._known = fresh
            self._get = fresh.recall.get if fresh.recall.rows() else None
        return known

    def _describe(self) -> _Known:
        describer = Describer()
        describer.records += header_watch.records()
        describer.function(self.function)
        describer.records += _environment_records()
        # What is remembered must not be carried over a change of the environment or of a device header either.
        headers = dict(compiler_fingerprint(location.memo_file()).parts).get("headers")
        content = digest(describer.digest(), canonical(env.code_changing()), str(headers))
        return _Known(content, tuple(describer.codes), Recall(Watch(describer.records)))

    def _row(self, args: tuple, kwargs: dict) -> bytes:
        try:
            return watch.plain_key((args, kwargs))
        except NotPlain:
            return _arguments_digest(args, kwargs)[0].encode()

    def _recall_by_content(self, args: tuple, kwargs: dict) -> Any:
        try:
            return self._function_part().recall.rows().get(_arguments_digest(args, kwargs)[0].encode())
        except Unfaithful:
            return None

    def _recall_after_change(self, args: tuple, kwargs: dict) -> Any:
        try:
            return self._function_part().recall.rows().get(self._row(args, kwargs))
        except Unfaithful:
            self.forget()
            return None


def _arguments_digest(args: tuple, kwargs: dict) -> tuple[str, tuple[CodeType, ...]]:
    describer = Describer()
    with describer.at("an argument"):
        for name, value in (*enumerate(args), *kwargs.items()):
            describer.text(f"argument {name}")
            describer.value(value)
    return describer.digest(), tuple(describer.codes)


def _environment_records() -> list[tuple[int, Any, Any, Any]]:
    table = env.raw_table()
    return [(watch.ITEM, table, key, table.get(key, MISSING)) for key in env.code_changing_keys()]


def python_tag() -> str:
    """What decides the byte code and how it runs."""
    return f"{sys.implementation.cache_tag} {sys.version_info[:2]} -O{sys.flags.optimize}"
