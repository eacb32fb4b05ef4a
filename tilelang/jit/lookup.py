"""Kernels of a decorated function: looked up before anything is traced, else traced and compiled.

What factories (``function.py``) and eager programs (``eager.py``) have in common. Only a miss imports the front end and the
compiler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from tilelang import env
from tilelang.cache.kernel_cache import default_cache
from tilelang.cache.keys.source_key import FunctionTracker, SourceKey, trace
from tilelang.cache.keys.versions import variables_of_tools
from tilelang.errors import ExecutionError
from tilelang.fingerprint.missing import MISSING
from tilelang.fingerprint.watch import CALL, ITEM, Watch
from tilelang.jit import rewrites
from tilelang.jit.kernel import JITKernel, loaded
from tilelang.jit.options import CompileOptions, resolve_options
from tilelang.log import logger
from tilelang.option import debug
from tilelang.target import enclosing, postproc

_DISABLED = env.raw_key("TILELANG_DISABLE_CACHE")
_DEFAULTS = tuple(
    env.raw_key(name)
    for name in (
        "TILELANG_DEVICE", "TILELANG_CUDA_ARCH", "TILELANG_DEFAULT_TARGET", "TILELANG_EXECUTION_BACKEND", "TILELANG_VERBOSE",
        "TILELANG_INTERPRET",
    )
)  # fmt: skip
"""Variables that decide what an unnamed target, backend or verbosity means; looked at by every call."""

UNKEYED = SourceKey(None)
"""The source key of a call while the cache is off."""


class Lookup:
    """A function under its decorator's options, as they are in force at a call.

    Args:
        function: a factory or an eager program.
        options: keyword arguments of :func:`~tilelang.jit.options.resolve_options`.
    """

    def __init__(self, function: FunctionType, options: Mapping[str, Any]):
        self.function = function
        self.options = dict(options)
        self.follows = enclosing.is_open(self.options.get("target"))
        self._resolved: dict[tuple[Any, ...], tuple[CompileOptions, FunctionTracker]] = {}

    def resolved(self) -> tuple[CompileOptions, FunctionTracker]:
        """The options in force, and the tracker of kernels under them."""
        table = env.raw_table()
        state = (debug.dump_ir(), rewrites.state(), *map(table.get, _DEFAULTS), enclosing.text() if self.follows else None)
        # Whatever an option left open may be resolved from is in `state`: a changed variable gives other options, and another
        # tracker with kernels of its own.
        known = self._resolved.get(state)
        if known is None:
            options = resolve_options(**{**self.options, "target": enclosing.in_force(self.options.get("target"))})
            known = self._resolved[state] = (options, FunctionTracker(self.function, options.plain, options.target.kind))
        return known

    def clear(self) -> None:
        """Forgets the kernels of this process."""
        self._resolved = {}

    def repeater(self, tracker: FunctionTracker) -> Callable[[tuple[Any, ...], dict[Any, Any]], JITKernel | None]:
        """The shortest way to a remembered kernel: the options are what they were, by identity, and so is what the
        tracker watches. It gives None where :meth:`FunctionTracker.recall` has to look closer."""
        records = records_of_defaults((_DISABLED, *_DEFAULTS))
        records.append((ITEM, default_cache().__dict__, "_enabled", True))
        # Outside of any target scope one flag tells that there is still none, which is cheaper than asking TVM.
        if self.follows and enclosing.entered:
            records.append((CALL, enclosing.text, None, enclosing.text()))
        elif self.follows:
            records.append((ITEM, enclosing.__dict__, "entered", False))
        holds = Watch(records).holds

        def repeated(args: tuple[Any, ...], kwargs: dict[Any, Any]) -> JITKernel | None:
            get = tracker.remembered
            if get is None or not holds():
                return None
            try:
                return get(args, kwargs)
            except Exception:  # user objects may do anything when they are looked at
                return None

        return repeated


def records_of_defaults(variables: Iterable[bytes]) -> list[tuple[int, Any, Any, Any]]:
    """Watch records of everything that decides a kernel and is no option: environment variables, dumps, functions over code."""
    table = env.raw_table()
    records: list[tuple[int, Any, Any, Any]] = [(ITEM, table, key, table.get(key, MISSING)) for key in variables]
    records.append((ITEM, debug.__dict__, "_dump_ir", debug.dump_ir()))
    records.append((ITEM, postproc.__dict__, "tokens", postproc.tokens))
    if postproc.tokens:
        records.append((CALL, rewrites.state, None, rewrites.state()))
    return records


def records_of_all_tools() -> list[tuple[int, Any, Any, Any]]:
    """The same with the variables that the tools of any target read, for a look-up that knows no target."""
    of_kinds = (key for kind in env.TOOLS for key in env.code_changing_keys(kind))
    return records_of_defaults({*_DEFAULTS, *of_kinds, *variables_of_tools()})


def caching() -> bool:
    """Whether kernels are looked up at all; cheap enough for every call."""
    cache = default_cache()
    return cache.is_enabled_here and (_DISABLED not in env.raw_table() or not env.get("TILELANG_DISABLE_CACHE"))


def from_source(
    source: SourceKey, options: CompileOptions, key_now: Callable[[], SourceKey], make: Callable[[], Any]
) -> JITKernel | None:
    """The kernel that a source key finds on disk, or None; the compiler is not loaded.

    Args:
        source: the key of the call.
        options: how the kernel is compiled.
        key_now: gives the key that the same call has later.
        make: traces the program, when the kernel is asked for it.

    Returns:
        The loaded kernel.
    """
    cache = default_cache()
    entry = cache.lookup_source(source)
    if entry is None:
        return None
    kernel: JITKernel = cache.load(entry, functools.partial(loaded, verbose=options.verbose))
    if kernel.traced is None:
        kernel.traced = functools.partial(_traced_later, source, key_now, make)
    return kernel


def _traced_later(source: SourceKey, key_now: Callable[[], SourceKey], make: Callable[[], Any]) -> Any:
    """The program of a kernel that a source key found, if the function still reads what it read then."""
    if key_now().digest != source.digest:
        raise ExecutionError(
            f"{source.function}: what it reads has changed since its kernel was found",
            hint="call the function again for an up-to-date kernel",
        )
    return make()


def compiled(
    make: Callable[[], Any], options: CompileOptions, source: SourceKey, metadata: Mapping[str, Any] | None = None
) -> tuple[JITKernel, SourceKey]:
    """The kernel of a program that is traced now.

    Args:
        make: traces the program.
        options: how it is compiled.
        source: the key of the call.
        metadata: kept with the artifact and part of its key.

    Returns:
        The kernel, and the source key as far as it covers what the trace read.
    """
    from tilelang.jit.compiler import kernel_of, without_files

    program, source = trace(source, make)
    source = without_files(source, program, options)
    kernel = kernel_of(program, options, default_cache(), source, metadata)
    kernel.source_reason = source.reason
    return kernel, source


@functools.lru_cache(maxsize=1024)
def say_off(source: SourceKey) -> None:
    """Reports, once for each reason, that the kernels of a function cannot be found before it is traced."""
    how_often = "in every process" if source.here is not None else "at every call"
    logger.warning("%s is traced %s: %s", source.function, how_often, source.reason)
