"""Step ``hold_partial_results``: what each thread of a block holds after a ``T.Parallel`` that carries sums, maxima, counts.

Before: tile IR in which loops carry variables and arrays (``tileop/carried.py``), of which each thread then has its own result.
After: those loops are serial, and nothing differs between threads. The first thread runs all iterations. The others keep what
they had, so all of them hold the same: each variable that differs has a twin, which stands for theirs, and a statement over such
variables is executed for the others, and then for the first thread, whose value remains where threads store to one element:

    for i in T.Parallel(n):             for i in range(n):
        total += x[i]             =>        total += x[i]
    T.atomic_add(c, total)              for _ in range(threads - 1):
                                            T.atomic_add(c, total_of_others)
                                        T.atomic_add(c, total)
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tilelang.errors import UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_local
from tilelang.ir.span import location_of
from tilelang.ir.visit import is_parallel, own_expressions, parallel_loops, walk, walk_expr
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.carried import carried_by, flows, has_effect, is_run_by_each_thread
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.substitute import copied


def hold_partial_results(func: Any, context: Any) -> Any:
    """The program with the results of the first thread, and those of the others."""
    views = {stmt.buffer for stmt in walk(func.body) if isinstance(stmt, ir.DeclBuffer)}
    views |= {stmt.data.args[0] for stmt in walk(func.body) if isinstance(stmt, ir.DeclBuffer) and isinstance(stmt.data, ir.Call)}
    carried = {loop: carried_by(loop, views) for loop in walk(func.body) if is_parallel(loop)}
    if not any(carried.values()):
        return func
    return func.with_body(_Threads(func.body, carried).stmt(func.body))


def _divergent(body: Any, first: set[Any]) -> set[Any]:
    """Variables and memory of threads whose values come from some that differ between threads."""
    found = set(first)
    given = list(flows(body, set())) if first else []
    before = -1
    # A statement of a loop may use what a later one has made different in the iteration before, so one pass is not enough.
    while before != len(found):
        before = len(found)
        for sources, target in given:
            of_threads = isinstance(target, ir.Var) and (not ir.is_buffer_var(target) or is_local(target))
            if of_threads and not found.isdisjoint(sources):
                found.add(target)
    return found


class _Threads(StmtRewriter):
    """Rewrites statements for the first thread and the others.

    Attributes:
        divergent: what the first thread and the others hold different values of.
        shared_out: for each ``T.Parallel``, what it carries of which each thread has the result of its own iterations.
        twins: of these, what stands for the value of the others.
        threads: of the kernel's block.
    """

    def __init__(self, body: Any, carried: dict[Any, set[Any]]):
        self.carried = carried
        self.shared_out = {loop: found - _of_each_thread(loop, found) for loop, found in carried.items()}
        self.divergent = _divergent(body, {buffer for found in self.shared_out.values() for buffer in found})
        self.twins = {var: _twin(var) for var in self.divergent}
        self.threads = 1

    def stmt(self, node: Any) -> Any:
        if isinstance(node, (ir.SeqStmt, ir.AttrStmt)):
            return super().stmt(node)
        if is_parallel(node):
            return self._parallel(node)
        if self._named(node).isdisjoint(self.divergent):
            return super().stmt(node)
        return seq(self._of_others(node), node)

    def visit_AttrStmt(self, node: Any) -> Any:
        # The axes of threads of a kernel begin with x: a program may hold several kernels.
        if node.attr_key == "thread_extent" and node.node.thread_tag == "threadIdx.x":
            self.threads = 1
        if node.attr_key == "thread_extent" and node.node.thread_tag.startswith("threadIdx"):
            self.threads *= as_int(node.value)
        return super().visit_AttrStmt(node)

    def _parallel(self, loop: Any) -> Any:
        """A ``T.Parallel``: what adds to partial results is the first thread's, what uses them each thread's."""
        carried = self.carried[loop]
        inside = set().union(*map(self._named, walk(loop)))
        code = _serial(loop) if carried else loop
        return code if inside.isdisjoint(self.divergent - self.shared_out[loop]) else seq(self._of_others(code), code)

    def _named(self, stmt: Any) -> set[Any]:
        """The variables and buffers that a statement itself names."""
        found = {part for part in own_expressions(stmt) if isinstance(part, ir.Var)}
        return found | ({stmt.buffer} if isinstance(stmt, (ir.AllocBuffer, ir.BufferStore)) else set())

    def _of_others(self, stmt: Any) -> Any:
        """A statement as the other threads execute it."""
        self._check(stmt)
        if isinstance(stmt, ir.AllocBuffer):
            return ir.AllocBuffer(self.twins[stmt.buffer], {}, stmt.span)
        if isinstance(stmt, ir.Bind):
            return ir.Bind(self.twins[stmt.var], copied(stmt, self.twins).value, stmt.span)
        return tvm_ffi.structural_map(copied(stmt, self.twins), [(ir.Evaluate, self._by_each)])

    def _by_each(self, stmt: Any) -> Any:
        """A call with an effect, once for each of the other threads, which hold the same."""
        if not has_effect(stmt.value):
            return stmt
        return ir.For(ir.Var("thread", "int32"), constant(0), constant(self.threads - 1), ir.ForKind.SERIAL, stmt, span=stmt.span)

    def _check(self, stmt: Any) -> None:
        """Refuses what the other threads cannot do alike, or what only some of them would do together."""
        below = isinstance(stmt, (ir.IfThenElse, ir.While, ir.For)) and not is_parallel(stmt)
        for each in walk(stmt):
            together = is_parallel(each) or (isinstance(each, ir.Evaluate) and is_tile_op(each.value))
            leaves = isinstance(each, (ir.Break, ir.Continue))
            leaves |= isinstance(each, ir.Evaluate) and intrinsic_name(each.value) == "thread_return"
            returns = isinstance(each, ir.Bind) and any(map(has_effect, walk_expr(each.value)))
            reads = isinstance(each, ir.Evaluate) and is_tile_op(each.value) and not self._fills(each.value)
            if (below and (together or leaves)) or returns or reads:
                construct = "a statement over the partial results that threads hold after a T.Parallel"
                remedy = "combine them by atomics, or reduce a fragment (T.reduce_sum)"
                raise UnsupportedOnCpuError(construct, remedy).at(location_of(each.span or stmt.span))

    def _fills(self, call: Any) -> bool:
        """Whether a tile operator uses memory that differs only to overwrite it."""
        return all(access == "w" for region, access in decode(call).regions() if region.buffer in self.divergent)


def _of_each_thread(loop: Any, carried: set[Any]) -> set[Any]:
    """What a loop carries, where every thread runs all of its iterations."""
    return carried if is_run_by_each_thread(parallel_loops(loop)[-1].body, carried) else set()


def _twin(var: Any) -> Any:
    name = f"{var.name}_of_others"
    if not ir.is_buffer_var(var):
        return ir.Var(name, var.ty)
    return ir.decl_buffer(list(var.shape), str(var.dtype), name, scope=var.scope(), layout=None, data_alignment=1)


def _serial(loop: Any) -> Any:
    """A ``T.Parallel`` as serial loops."""
    loops = parallel_loops(loop)
    body = loops[-1].body
    for each in reversed(loops):
        body = ir.For(each.loop_var, each.min, each.extent, ir.ForKind.SERIAL, body, step=each.step, span=each.span)
    return body
