"""Which buffers of a block are on the stack, and which in the workspace."""

from __future__ import annotations

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run


def _on_stack(func):
    """The names of the buffers that stay on the stack, and of those in the workspace."""
    request = CompileRequest(parse_target("c"), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    statements = list(walk(run(pipeline.C, func, context, stop_after="place_buffers").value.func.body))
    stack = [str(stmt.buffer.name) for stmt in statements if isinstance(stmt, ir.AllocBuffer)]
    return stack, [str(stmt.buffer.name) for stmt in statements if isinstance(stmt, ir.DeclBuffer)]


def test_accumulators_are_never_in_the_workspace():
    """Small buffers have the stack before large ones: what is meant to be a register could not be one elsewhere."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32"), B: T.Tensor((128, 96), "float32"), C: T.Tensor((64, 96), "float32")):
        with T.Kernel(1, threads=128) as _:
            large = T.alloc_shared((4, 96, 96), "float32")
            A_shared = T.alloc_shared((64, 128), "float32")
            B_shared = T.alloc_shared((128, 96), "float32")
            total = T.alloc_fragment((64, 96), "float32")
            T.clear(large)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            for i, j in T.Parallel(64, 128):
                A_shared[i, j] = A_shared[i, j] + large[0, i, 0]
            for i, j in T.Parallel(128, 96):
                B_shared[i, j] = B_shared[i, j] + large[1, 0, j]
            T.clear(total)
            T.gemm(A_shared, B_shared, total)
            T.copy(total, C)

    stack, workspace = _on_stack(main)
    assert "acc" in stack and "acc" not in workspace
    assert "large" in workspace and "B_shared" in workspace
