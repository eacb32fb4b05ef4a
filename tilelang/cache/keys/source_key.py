"""The source key: is this call of a kernel factory one that was compiled before? Answered without tracing.

The key covers the factory's code, everything that it can read, its arguments, the options of the decorator, Python and the
compiler. Within a process the answer is remembered and revalidated by identity in about a microsecond; in a new process
the key leads to the kernel through one small file.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from tilelang import env
from tilelang.cache import warn
from tilelang.cache.keys import header_watch
from tilelang.cache.keys.fingerprint import Fingerprint, compiler_fingerprint
from tilelang.cache.keys.versions import variables_of_tools
from tilelang.cache.locks import forks
from tilelang.cache.places import location
from tilelang.fingerprint import Describer, Unfaithful, source_text, watch
from tilelang.fingerprint.cached import gave_earlier_results, results_are_current
from tilelang.fingerprint.canonical import canonical, digest
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.plain import NotPlain, containers
from tilelang.fingerprint.watch import Recall, Watch
from tilelang.records import Record

if TYPE_CHECKING:
    from tilelang.fingerprint.recorder import Touched

FORMAT = "tilelang-source-2"
_PATIENCE = 3
"""So many traces in a row that did not do what their key says turn the shortcut off: looking for it takes longer than a trace."""


class SourceKey(Record):
    """The key of one call, or why it has none.

    Attributes:
        digest: 64 hexadecimal digits, or None where the shortcut is off.
        function: the factory's name, for messages and lists.
        reason: why the shortcut is off; empty where it is on.
        here: the same for this process alone, where more can be told; None where nothing can.
        problem: tells after the trace, given what the trace touched, why the key does not stand for it, empty where it does, and
            whether it does so in this process.
        state: the function as it was described for the key.
    """

    digest: str | None
    function: str = ""
    reason: str = ""
    here: str | None = field(default=None, repr=False, compare=False)
    problem: Callable[[Touched | None], tuple[str, bool]] | None = field(default=None, repr=False, compare=False)
    state: Any = field(default=None, repr=False, compare=False)

    def traced(self, touched: Touched | None) -> SourceKey:
        """This key after the trace, when it is about to be recorded: still the same, made from the text that the front end
        read, and of everything that the trace touched. Whatever is not covered turns the shortcut off."""
        if self.here is None or self.problem is None:
            return self
        problem, holds_here = self.problem(touched)
        if holds_here:
            return (
                SourceKey(None, self.function, self.reason or problem, self.here, self.problem, self.state) if problem else self
            )
        return SourceKey(None, self.function, problem)


@dataclass(eq=False, repr=False)
class _Known:
    """The function's part of the key, valid while ``recall.holds()``."""

    digest: str
    description: Describer
    recall: Any


class FunctionTracker:
    """Source keys and remembered results of one function under one set of options.

    Args:
        function: the kernel factory as the user wrote it.
        extra: gives whatever else decides the kernel, as plain values: target, backend, out_idx, pass configurations, flags,
            versions of the toolchain. Asked for again after a trace: a tool that was replaced meanwhile made another kernel.
        kind: the kind of target, whose tools may read environment variables.

    Attributes:
        remembered: the look-up by plain arguments, which gives None, or raises, for what :meth:`recall` has to look closer at.
    """

    def __init__(self, function: FunctionType, extra: Callable[[], tuple[Any, ...]] = tuple, kind: str = ""):
        self.function = function
        self.extra = extra
        self._plain_extra = canonical(extra())
        self.kind = kind
        self._known: _Known | None = None
        self._refused: tuple[str, Any] | None = None
        self._problems: list[str] = []
        self._has_containers = False
        self._here_only: set[bytes] = set()
        self.remembered: Callable[[tuple[Any, ...], dict[Any, Any]], Any] | None = None

    def recall(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What :meth:`remember` was given for these arguments, if nothing that it depends on has changed; else None."""
        get, known = self.remembered, self._known
        if get is None or known is None:
            return None
        try:
            try:
                found = get(args, kwargs)
            except NotPlain:
                return self._recall_by_content(args, kwargs)
            if found is None and not known.recall.holds():
                return self._recall_by_content(args, kwargs)
            return found
        except Exception as error:  # user objects may do anything when they are looked at
            self.forget()
            warn.once("recall", f"a kernel is not looked up in memory: {warn.describe(error)}")
            return None

    def remember(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, source: SourceKey) -> None:
        """Lets :meth:`recall` return a result; does nothing where a change of what it depends on could go unnoticed.

        Args:
            args, kwargs: of the call.
            result: its kernel.
            source: the key under which it was made; one without a digest remembers nothing.
        """
        # Where the function has changed since its key was made, the result belongs to no key that a later call would have.
        if source.here is None or not (self._is_as_in(source) or self.source_key(args, kwargs).here == source.here):
            return
        known = self._known
        if known is None:
            return
        try:
            row = self._row(args, kwargs)
            known.recall.rows()[row] = result
            (self._here_only.discard if source.digest is not None else self._here_only.add)(row)
            self._has_containers = self._has_containers or bool(containers((*args, *kwargs.values())))
        except Exception as error:  # as in recall
            warn.once("remember", f"a kernel is not kept in memory: {warn.describe(error)}")
            return
        self.remembered = self._getter(known)

    def _is_as_in(self, source: SourceKey) -> bool:
        known = self._known
        return known is not None and source.state is known and known.recall.holds()

    def forget(self) -> None:
        """Empties the memory."""
        self._known = self.remembered = None

    def source_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SourceKey:
        """The key of the call ``function(*args, **kwargs)``."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        try:
            return self._key(name, args, kwargs)
        except Unfaithful as error:
            return SourceKey(None, name, str(error))
        except Exception as error:  # as in recall
            return SourceKey(None, name, f"looking at what it reads raises {warn.describe(error)}")

    def _key(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SourceKey:
        if sys.gettrace() is not None:
            raise Unfaithful("a debugger, or another function that sys.settrace sets, may change what runs")
        # A refusal holds as long as nothing that the walk saw until then has changed, which is cheaper to ask than to walk again.
        if self._refused is not None and self._refused[1].holds():
            raise Unfaithful(self._refused[0])
        # So many traces in a row touched what no key covers: another one would, too.
        if len(self._problems) >= _PATIENCE:
            raise Unfaithful(self._problems[-1])
        headers = header_watch.records()  # from before the headers are read
        compiler = header_watch.steady(compiler_fingerprint, location.memo_file())
        known = self._function_part(compiler, headers)
        arguments = _describe_arguments(args, kwargs, known.description)
        arguments.finish(known.description)
        known.description.finish(arguments)
        # The key would describe the files as they are now, and the kernel would be made by the code that was loaded before they
        # changed.
        if not compiler.loaded_is_on_disk:
            return SourceKey(None, name, "tilelang's own files changed after this process had started")
        # What each part guards against: another format; other byte code for the same text; the function and all that it reads;
        # its arguments; target and options; the environment. The compiler comes on top.
        parts = (
            FORMAT,
            python_tag(),
            known.digest,
            arguments.digest(),
            self._plain_extra,
            self._variables(),
        )
        key = digest(*parts, canonical(compiler.parts))
        # A digest that holds in this process alone still finds kernels in memory (`here`), and never one on disk.
        local = known.description.local or arguments.local
        problem = functools.partial(self._problem, args, kwargs, key, (known.description, arguments))
        return SourceKey(None if local else key, name, local, key, problem, known)

    def _problem(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], key: str, described: tuple[Describer, ...], touched: Touched | None
    ) -> tuple[str, bool]:
        """Why what was traced is not what ``key`` says, empty where it is; whether it is in this process."""
        cached = [each for describer in described for each in describer.cached]
        try:
            has_earlier_results = gave_earlier_results(cached)
            problem = self._difference(args, kwargs, key, described, touched)
        except Exception as error:  # as in recall
            has_earlier_results, problem = False, f"looking at what it read raises {warn.describe(error)}"
        self._problems = [*self._problems, problem] if problem else []
        if has_earlier_results and not problem:
            return "it takes results of earlier calls from a cache", True
        return problem, not problem

    def _difference(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], key: str, described: tuple[Describer, ...], touched: Touched | None
    ) -> str:
        codes: list[CodeType] = [code for describer in described for code in describer.codes]
        # From here on the trace is over, and each check asks whether the key describes what was really traced. The file first:
        # the front end read its text while the code ran from memory.
        changed = source_text.changed_file(codes)
        if changed is not None:
            return f"{changed} is not the text that the running code came from"
        uncovered = touched.uncovered(described) if touched is not None else ""
        if uncovered:
            return uncovered
        if canonical(self.extra()) != self._plain_extra:
            return "a tool that compiles the kernel was replaced while this process ran"
        results_are_current([cached for describer in described for cached in describer.cached])
        # A key made anew, without what this tracker remembers, shows whether tracing itself changed something that it reads.
        now = FunctionTracker(self.function, self.extra, self.kind).source_key(args, kwargs)
        return "" if now.here == key else now.reason or "the function changes what it reads"

    def _function_part(self, compiler: Fingerprint, headers: list[Any]) -> _Known:
        known = self._known
        if known is not None and known.recall.holds():
            return known
        fresh = self._describe(compiler, headers)
        if known is not None and fresh.digest == known.digest:
            # Other objects with the same content: what is remembered stays right, if the digest says all of it.
            rows = known.recall.rows()
            # Not the rows of this process alone: their digest does not say all, so that other objects may mean other kernels.
            fresh.recall.rows().update({row: rows[row] for row in rows.keys() - self._here_only})
        known = self._known = fresh
        self.remembered = self._getter(fresh) if fresh.recall.rows() else None
        return known

    def _describe(self, compiler: Fingerprint, headers: list[Any]) -> _Known:
        self._plain_extra = canonical(self.extra())  # a tool may have been replaced
        describer = Describer()
        describer.records += [*headers, *self._variable_records(), (watch.UNTRACED, sys.gettrace, None, None)]
        try:
            describer.value(self.function, is_given=False)
            describer.finish()
        except Unfaithful as error:
            self._refused = str(error), Watch(describer.records)
            raise
        # What is remembered must not be carried over a change of the environment, of a tool or of a device header either.
        content = digest(describer.digest(), self._plain_extra, self._variables(), str(dict(compiler.parts).get("headers")))
        return _Known(content, describer, Recall(Watch(describer.records)))

    def _variables(self) -> str:
        return canonical((env.code_changing(), env.of_tools(self.kind)))

    def _variable_records(self) -> list[tuple[int, Any, Any, Any]]:
        table = env.raw_table()
        keys = (*env.code_changing_keys(self.kind), *variables_of_tools())
        return [(watch.ITEM, table, key, table.get(key, MISSING)) for key in keys]

    def _getter(self, known: _Known) -> Callable[[tuple[Any, ...], dict[Any, Any]], Any]:
        if not self._has_containers:
            return known.recall.get

        def get(args: tuple[Any, ...], kwargs: dict[Any, Any]) -> Any:
            _expect_unshared(args, kwargs, known)
            return known.recall.get(args, kwargs)

        return get

    def _row(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        try:
            _expect_unshared(args, kwargs, self._known)
            return watch.plain_key((args, kwargs))
        except NotPlain:
            return _describe_arguments(args, kwargs, self._known and self._known.description).digest().encode()

    def _recall_by_content(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        here, known = self.source_key(args, kwargs).here, self._known
        if here is None or known is None:
            self.forget()
            return None
        return known.recall.rows().get(self._row(args, kwargs))


def _expect_unshared(args: tuple[Any, ...], kwargs: dict[Any, Any], known: _Known | None) -> None:
    """Checks that each list and dictionary is in one place: tracing may change it, which changes it wherever else it is.

    Raises:
        NotPlain: one is in several places of the arguments, or is one that the function reads.
    """
    found = containers((*args, *kwargs.values()))
    if found and (len(set(found)) < len(found) or (known is not None and any(map(known.description.has_met, found)))):
        raise NotPlain("a list or dictionary in several places")


def trace(source: SourceKey, work: Callable[[], Any]) -> tuple[Any, SourceKey]:
    """What ``work`` traces, and the source key as far as it covers what the trace touched."""
    if source.here is None:
        return work(), source
    with forks.native:
        from tilelang.fingerprint.recorder import recording  # only a miss needs it

    with recording() as touched:
        result = work()
    return result, source.traced(touched)


def _describe_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], function: Describer | None) -> Describer:
    """Describes arguments; an object that the function reads too is not the same as one with equal content.

    Args:
        args, kwargs: of the call.
        function: what the function reads.
    """
    describer = Describer(before=function)
    with describer.at("an argument"):
        for name, value in (*enumerate(args), *kwargs.items()):
            describer.text(f"argument {name!r}")
            describer.value(value)
    return describer


def python_tag() -> str:
    """What decides the byte code and how it runs."""
    return f"{sys.implementation.cache_tag} {sys.version_info[:2]} -O{sys.flags.optimize} -b{sys.flags.bytes_warning}"
