"""The user's function over generated code (``register_cuda_postproc``, ``register_c_postproc``).

Each registration is another tool: kernels that are made under it are found again in this process, as long as it is in force and
what it reads is what it was (:mod:`tilelang.jit.rewrites`), and compiled anew in others.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.errors import OperandError, OptionError

Rewrite = Callable[[str, Any], str]

_rewrites: Mapping[str, tuple[str, Rewrite]] = {}
tokens: tuple[str, ...] = ()
"""Of the registrations in force; every change makes another tuple, which lookups compare by identity."""


def register(kind: str, function: Rewrite | None, override: bool = True) -> None:
    """Has ``function(code, target)`` give the code of all kernels of a kind of target (``"cuda"``, ``"c"``) from now on.

    Args:
        kind: of target.
        function: gets the generated code and the target (``kind``, ``arch``); None ends the last registration.
        override: whether it may replace another one.

    Raises:
        OptionError: it is no function, or there is another one that it may not replace.
    """
    global _rewrites, tokens
    if function is not None and not callable(function):
        raise OptionError(f"a function of (code, target) is expected, got {function!r}")
    if kind in _rewrites and function is not None and not override:
        raise OptionError(f"there is a function over generated {kind} code already", hint="override=True replaces it")
    kept = {name: entry for name, entry in _rewrites.items() if name != kind}
    _rewrites = kept if function is None else {**kept, kind: (uuid.uuid4().hex, function)}
    tokens = tuple(token for token, _ in _rewrites.values())
    _publish(f"tilelang_callback_{kind}_postproc", function)


def _publish(name: str, function: Rewrite | None) -> None:
    """Gives TVM's table of functions the registered one: a program that adds another asks there for what it has to call first."""
    import tvm_ffi  # a process that registers no function finds its kernels without it

    if function is not None:
        tvm_ffi.register_global_func(name, function, override=True)
    elif tvm_ffi.get_global_func(name, allow_missing=True) is not None:
        tvm_ffi.remove_global_func(name)


def token(kind: str) -> str:
    """The text by which a kernel's key identifies the present registration; empty without one."""
    return _rewrites[kind][0] if kind in _rewrites else ""


def function(kind: str) -> Rewrite:
    """The function that is registered for a kind of target."""
    return _rewrites[kind][1]


def kinds() -> tuple[str, ...]:
    """The kinds of target that have one."""
    return tuple(_rewrites)


def rewritten(kind: str, code: str, target: Any) -> str:
    """The generated code after the user's function for it, or as it is without one.

    Args:
        kind: ``"cuda"`` or ``"c"``.
        code: the generated code.
        target: handed to the function.

    Raises:
        OperandError: it gives something else than text.
    """
    if kind not in _rewrites:
        return code
    found = function(kind)(code, target)
    if not isinstance(found, str):
        raise OperandError(f"the function over generated {kind} code returned {type(found).__name__}, not text")
    return found
