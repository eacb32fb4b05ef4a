"""Views that nothing uses: a tensor that only they name may be None when the kernel is called."""

from __future__ import annotations

from collections import deque
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, variables, walk


def without_unused_views(body: Any) -> Any:
    """``body`` without the ``T.reshape`` and ``T.view`` of buffers that are neither read nor written through them."""
    statements = list(walk(body))
    sources = {stmt.buffer: stmt.data for stmt in statements if isinstance(stmt, ir.DeclBuffer)}
    used = {var for stmt in statements for expr in statement_exprs(stmt) for var in variables(expr)}
    pending = deque(used & sources.keys())
    while pending:
        found = set(variables(sources[pending.popleft()])) - used
        used |= found
        pending.extend(found & sources.keys())
    if sources.keys() <= used:
        return body
    nothing = ir.Evaluate(ir.IntImm("int32", 0))
    return tvm_ffi.structural_map(body, [(ir.DeclBuffer, lambda stmt: stmt if stmt.buffer in used else nothing)])
