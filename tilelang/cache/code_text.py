"""Byte code as a text that is the same wherever the source file lies and whatever lines the function is on."""

from __future__ import annotations

from types import CodeType
from typing import Any

from tilelang.cache.canonical import canonical


def code_text(code: CodeType) -> str:
    """Code as a text without paths and line numbers."""
    parts = [
        code.co_code.hex(),
        repr((code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)),
        getattr(code, "co_exceptiontable", b"").hex(),
    ]
    for constant in code.co_consts:
        parts.append(code_text(constant) if isinstance(constant, CodeType) else _constant_text(constant))
    return "\0".join(parts)


def _constant_text(constant: Any) -> str:
    return "ellipsis" if constant is ... else canonical(constant)
