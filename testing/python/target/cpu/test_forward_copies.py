"""Products read global tensors without the copy before them, exactly where that changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

F32 = "float32"


def kept(func):
    """The names of the on-chip buffers that are left."""
    request = CompileRequest(parse_target("cpu"), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    body = run(pipeline.LLVM, func, context, stop_after="forward_copies").value.body
    return {str(stmt.buffer.name) for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer)}


def product(between="", transpose_a=False, dtype=F32, M=64, N=64, K=64, bk=32):
    """A product of tiles; ``between`` names what stands between the copies and ``T.gemm``, or follows it."""

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if transpose_a else (M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), F32),
        at: T.Tensor((4,), "int32"),
    ):
        with T.Kernel(N // 32, M // 32, threads=128) as (bx, by):
            a = T.alloc_shared((bk, 32) if transpose_a else (32, bk), dtype)
            b = T.alloc_shared((bk, 32), dtype)
            c = T.alloc_fragment((32, 32), F32)
            shift = T.alloc_var("int32", init=0)
            T.clear(c)
            if between == "annotated":
                T.annotate_layout({a: T.Layout((32, bk), lambda i, j: (i, j))})
            if between == "view":
                flat = T.reshape(a, (32 * bk,))
            for k in T.serial(K // bk):
                if between == "before":
                    T.gemm(a, b, c)
                if transpose_a:
                    T.copy(A[k * bk, by * 32], a)
                elif between == "variable":
                    T.copy(A[by * 32 + shift, k * bk], a)
                elif between == "gathered":
                    T.copy(A[by * 32, at[k] * bk], a)
                elif between == "part":
                    T.copy(A[by * 32, k * bk], a[0:32, 0:bk])
                else:
                    T.copy(A[by * 32, k * bk], a)
                T.copy(B[k * bk, bx * 32], b)
                if between == "stored":
                    a[0, 0] = 0.0
                elif between == "written":
                    C[by * 32, bx * 32] = 1.0
                elif between == "copied out":
                    T.copy(c, C[by * 32, bx * 32])
                elif between == "atomic":
                    T.atomic_add(C[by * 32, bx * 32], 1.0)
                elif between == "scaled":
                    for i, j in T.Parallel(bk, 32):
                        b[i, j] = b[i, j] * 2.0
                elif between == "view":
                    flat[0] = 0.0
                elif between == "read":
                    shift = T.if_then_else(a[0, 0] > 0, 0, 0)
                T.gemm(a, b, c, transpose_A=transpose_a)
                if between == "after":
                    c[0, 0] += a[0, 0]
                elif between == "twice":
                    T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return main


@pytest.mark.parametrize(
    ("between", "left"),
    [
        ("", set()),
        ("annotated", set()),
        ("twice", set()),
        ("part", set()),
        ("scaled", {"b"}),
        ("view", {"a"}),
        ("stored", {"a"}),
        ("read", {"a"}),
        ("after", {"a"}),
        ("before", {"a", "b"}),
        ("variable", {"a"}),
        ("gathered", {"a"}),
        ("written", {"a", "b"}),
        ("copied out", {"a", "b"}),
        ("atomic", {"a", "b"}),
    ],
)
def test_tiles_that_are_kept(between, left):
    assert kept(product(between)) - {"c", "shift"} == left


def test_edges_columns_of_a_and_conversions_are_copied():
    assert "a" in kept(product(transpose_a=True))
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), F32), B: T.Tensor((64, 48), F32), D: T.Tensor((64, 64), "float16"), C: T.Tensor((n, 48), F32)):
        with T.Kernel(T.ceildiv(n, 32), threads=128) as by:
            a = T.alloc_shared((32, 64), F32)
            b = T.alloc_shared((64, 64), F32)
            d = T.alloc_shared((64, 64), F32)
            inside = T.alloc_shared((64, 48), F32)
            c = T.alloc_fragment((32, 64), F32)
            e = T.alloc_fragment((32, 48), F32)
            T.clear(c)
            T.copy(A[by * 32, 0], a)
            T.copy(B, b[0:64, 0:48])
            T.copy(D, d)
            T.copy(B, inside)
            T.gemm(a, b, c)
            T.gemm(a, d, c)
            T.gemm(a, inside, e, clear_accum=True)
            T.copy(e, C[by * 32, 0])

    assert kept(main) == {"a", "b", "d", "c", "e"}


@settings(max_examples=20)
@given(
    st.tuples(*[st.sampled_from([32, 48, 50, 64, 96])] * 3),
    st.tuples(*[st.sampled_from([16, 24, 32])] * 3),
    st.sampled_from([(F32, F32), ("bfloat16", F32), ("float16", F32), ("int8", "int32"), ("uint8", "int32"),
                     ("float8_e4m3fn", F32)]),
    st.sampled_from(["plain", "batched", "halves", "square"]),
    st.booleans(),
    st.sampled_from(["cpu", "cpu", "c"]),
)  # fmt: skip
def test_products_of_every_kind(shape, tile, types, kind, transpose_b, target):
    """Whole and ragged tiles, a leading index, parts of a tile, both operands one tile."""
    (M, N, K), (bm, bn, bk), (dtype, accumulator) = shape, tile, types
    heads, half = 3 if kind == "batched" else 1, bk // 2
    steps = [slice(0, half), slice(half, 2 * half)] if kind == "halves" else [slice(0, bk)]

    @T.prim_func
    def main(
        A: T.Tensor((heads, M, K), dtype),
        B: T.Tensor((heads, N, K) if transpose_b else (heads, K, N), dtype),
        C: T.Tensor((heads, M, N), accumulator),
        S: T.Tensor((M, M), accumulator),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), heads, threads=128) as (bx, by, bz):
            a = T.alloc_shared((1, bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if transpose_b else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), accumulator)
            square = T.alloc_fragment((bm, bm), accumulator)
            T.clear(c)
            T.clear(square)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                T.copy(A[bz, by * bm, k * bk], a)
                if transpose_b:
                    T.copy(B[bz, bx * bn, k * bk], b)
                else:
                    T.copy(B[bz, k * bk, bx * bn], b)
                if kind == "square":
                    T.gemm(a, a, square, transpose_B=True)
                for part in [*steps]:
                    T.gemm(a[0, :, part], b[:, part] if transpose_b else b[part, :], c, transpose_B=transpose_b)
            T.copy(c, C[bz, by * bm, bx * bn])
            if kind == "square" and M == bm:
                T.copy(square, S)

    torch_type = getattr(torch, dtype)
    low = 0 if dtype.startswith("u") else -2
    a = torch.randint(low, 3, (heads, M, K)).to(torch_type)
    b = torch.randint(low, 3, (heads, K, N)).to(torch_type)
    c = torch.zeros(heads, M, N, dtype=getattr(torch, accumulator))
    s = torch.zeros(M, M, dtype=getattr(torch, accumulator))
    build(main, target)(a, b.transpose(1, 2).contiguous() if transpose_b else b, c, s)
    assert torch.equal(c.double(), a.double() @ b.double())
    if kind == "square" and M == bm:
        assert torch.equal(s.double(), (a.double() @ a.double().transpose(1, 2))[0])


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("where", ["end", "each step", "before the product"])
def test_results_over_an_operand(where, target):
    """One tensor is operand and result: what a step reads was written by the steps before it, as on one block of a GPU."""

    @T.prim_func
    def main(A: T.Tensor((32, 96), F32), B: T.Tensor((32, 32), F32)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.clear(c)
            for k in T.serial(3):
                T.copy(A[0, k * 32], a)
                T.copy(B, b)
                if where == "before the product":
                    for i, j in T.Parallel(32, 32):
                        A[i, k * 32 + j] = 0.0
                T.gemm(a, b, c)
                if where == "each step":
                    T.copy(c, A[0, ((k + 1) % 3) * 32])
            if where == "end":
                T.copy(c, A[0, 32])

    x, y = torch.randint(-2, 3, (32, 96)).float(), torch.randint(-1, 2, (32, 32)).float()
    given_x, want, c = x.clone(), x.clone(), torch.zeros(32, 32)
    for k in range(3):
        tile = want[:, k * 32 : k * 32 + 32].clone()
        if where == "before the product":
            want[:, k * 32 : k * 32 + 32] = 0
        c = c + tile @ y
        if where == "each step":
            at = (k + 1) % 3 * 32
            want[:, at : at + 32] = c
    if where == "end":
        want[:, 32:64] = c
    build(main, target)(given_x, y)
    assert torch.equal(given_x, want)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_one_tensor_given_for_two_parameters(target):
    """The result overlaps an operand by the caller's choice: each block has read its tiles before it writes."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((64, 32), F32)):
        with T.Kernel(2, threads=128) as by:
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.copy(A[by * 32, 0], a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C[by * 32, 0])

    x, y = torch.randint(-2, 3, (64, 32)).float(), torch.randint(-2, 3, (32, 32)).float()
    want = x @ y
    build(main, target)(x, y, x)
    assert torch.equal(x, want)


def of_tiles(between=""):
    """Two products; the second one reads a copy of what the first one and a loop have made."""

    @T.prim_func
    def main(A: T.Tensor((32, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((32, 32), F32)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            made, copied = T.alloc_fragment((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(made)
            T.clear(c)
            view = T.reshape(made, (1024,)) if between == "view" else None
            for _ in T.serial(2):
                T.gemm(a, b, made)
                T.copy(made, copied)
                if between == "changed":
                    for i, j in T.Parallel(32, 32):
                        made[i, j] += 1
                if between == "view":
                    for i in T.Parallel(1024):
                        view[i] += 1
                if between == "its own sum":
                    T.gemm(copied, b, made)
                else:
                    T.gemm(copied, b, c)
                if between == "read":
                    for i, j in T.Parallel(32, 32):
                        c[i, j] += copied[i, j]
            T.copy(made if between == "its own sum" else c, C)

    return main


TILES = {"": False, "changed": True, "view": True, "its own sum": True, "read": True}
"""What happens to a tile -> whether its copy is kept."""


@pytest.mark.parametrize("between", TILES)
def test_copies_of_tiles(between):
    func = of_tiles(between)
    assert ("copied" in kept(func)) == TILES[between]
    a, b = torch.randint(-1, 2, (32, 32)).float(), torch.randint(-1, 2, (32, 32)).float()
    results = []
    for target in ("cpu", "interpret"):
        c = torch.zeros(32, 32)
        build(func, target)(a, b, c)
        results.append(c)
    assert torch.equal(*results)
