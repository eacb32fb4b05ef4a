"""Step ``refuse_threads``: a CPU block has no threads, so a program that names them cannot run.

Before: tile IR. After: the same program, in which no intrinsic asks for a thread, no expression reads a thread index, and no
copy completes at a barrier that only a GPU has. Waits of the whole block are left to :mod:`tilelang.target.cpu.waits`.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang.errors import CompileError, ThreadsOnCpuError, UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.memory import BARRIER, CLUSTER_BARRIER, TENSOR_MEMORY
from tilelang.ir.span import location_of
from tilelang.ir.visit import is_parallel
from tilelang.target.cpu.waits import WAITS
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_GPU_SCOPES = {BARRIER: "T.alloc_barrier", CLUSTER_BARRIER: "T.alloc_cluster_barrier", TENSOR_MEMORY: "T.alloc_tmem"}
"""Scopes of memory that only a GPU has -> the functions that allocate it."""
_BARRIERS = frozenset({"sync_threads", "sync_warp"})
"""Waits that name threads where they say which, or stand in an iteration of a ``T.Parallel``: some thread runs it."""


def refuse_threads(func: Any, context: Any) -> Any:
    """The program itself, or :class:`~tilelang.errors.ThreadsOnCpuError` at the first construct that names threads."""
    _Refusal().stmt(func.body)
    return func


class _Refusal:
    """Walks statements in program order so that the first offender is the one reported.

    A thread's index is reported where nothing else is: iterations of a ``T.Parallel`` that exchange values have it, too.
    An exception that crosses TVM's walk comes out as another one, so the first is kept and raised after the walk.
    """

    def __init__(self) -> None:
        self.error: CompileError | None = None
        self.index_error: CompileError | None = None
        self.span: Any = None
        self.thread_vars: dict[Any, int] = {}

    def stmt(self, root: Any) -> None:
        tvm_ffi.structural_walk(
            root,
            [(ir.Stmt, self._enter), (ir.Call, self._call), (ir.Var, self._var)],
            order="pre",
        )
        found = self.error or self.index_error
        if found is not None:
            raise found

    def _refuse(self, spelling: str, span: Any) -> None:
        if self.error is None:
            self.error = ThreadsOnCpuError(spelling).at(location_of(span))

    def _enter(self, node: Any) -> None:
        if node.span is not None:
            self.span = node.span
        if isinstance(node, ir.AttrStmt):
            if isinstance(node.node, ir.IterVar) and node.node.thread_tag.startswith("threadIdx"):
                self.thread_vars[node.node.var] = 0
            elif node.attr_key == "tl.warp_group":
                self._refuse("T.ws", node.span)
        if is_parallel(node) and self.error is None:
            self._refuse_in_iterations(node)
        if isinstance(node, ir.AllocBuffer) and node.buffer.scope() in _GPU_SCOPES:
            self._refuse(_GPU_SCOPES[node.buffer.scope()], node.span)

    def _refuse_in_iterations(self, loop: Any) -> None:
        """Refuses what one iteration of ``T.Parallel`` cannot do: on a GPU its thread returns or waits, whichever that is."""

        def leaf(node: Any) -> None:
            name = intrinsic_name(node.value)
            if self.error is None and name == "thread_return":
                self.error = UnsupportedOnCpuError("return inside of T.Parallel", "put what it skips under an if")
                self.error.at(location_of(node.span))
            if name in _BARRIERS:
                self._refuse(f"{INTRINSICS[name].spelling} inside of T.Parallel", node.span)

        tvm_ffi.structural_walk(loop.body, [(ir.Evaluate, leaf)])

    def _call(self, node: Any) -> None:
        name = intrinsic_name(node)
        if name is None or not INTRINSICS[name].threads or name == "thread_return":
            return
        if name not in WAITS or (name in _BARRIERS and node.args):
            self._refuse(INTRINSICS[name].spelling, node.span or self.span)

    def _var(self, node: Any) -> None:
        if node not in self.thread_vars:
            return
        self.thread_vars[node] += 1  # the first visit is the definition
        if self.thread_vars[node] > 1 and self.index_error is None:
            self.index_error = ThreadsOnCpuError("T.get_thread_binding").at(location_of(self.span))
