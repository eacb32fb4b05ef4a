"""Tiles that overhang their tensors become smaller ones at the edges, exactly where that changes no result."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.ir.memory import is_global
from tilelang.ir.visit import walk
from tilelang.target.cpu import edges, pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.tileop import record_of
from tilelang.tileop.gemm import Gemm
from tilelang.transform.pipeline import run

from .support import build, on_both

BLOCK = 16


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch):
    """Kernels of any size are changed."""
    monkeypatch.setattr(edges, "LEAST", 1)


def shape_of_c(kind, m, n):
    """The sizes of C; whole blocks where it takes their padding, too."""
    return tuple(-(-size // BLOCK) * BLOCK if kind.startswith("padded") else size for size in (m, n))


def program(kind, m, n, k, dtype="float32"):
    """``C = A B``, and ``S`` of one number for each row and block of columns; ``kind`` names what is unusual."""
    block, result = BLOCK, "int32" if dtype == "int8" else dtype
    batches = 2 if kind == "batches" else 1
    of_c = shape_of_c(kind, m, n)
    of_a, of_b = (k, m) if kind == "transposed A" else (m, k), (n, k) if kind == "transposed B" else (k, n)

    @T.prim_func
    def main(
        A: T.Tensor((batches, *of_a), dtype),
        B: T.Tensor((batches, *of_b), dtype),
        bias: T.Tensor((n,), result),
        C: T.Tensor((batches, *of_c), result),
        S: T.Tensor((T.ceildiv(n, block), m), result),
    ):
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), batches, threads=128) as (bx, by, bz):
            a = T.alloc_shared((block, block), dtype)
            b = T.alloc_shared((block, block), dtype)
            c = T.alloc_fragment((block, block), result)
            s = T.alloc_fragment((block,), result)
            staged = T.alloc_shared((block, block), result)
            if kind == "view":
                flat = T.reshape(staged, (block * block,))
                flat[0] = 0
            if kind == "annotated":
                T.annotate_layout({a: T.Layout((block, block), lambda i, j: (i, j))})
            if kind == "safe value":
                T.annotate_safe_value({A: 1.0})
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, block), num_stages=2):
                if kind == "left early" and step == 1:
                    T.loop_break()
                if kind == "carried":
                    if step > 0:
                        T.gemm(a, b, c)
                if kind == "transposed A":
                    T.copy(A[bz, step * block, by * block], a)
                else:
                    T.copy(A[bz, by * block, step * block], a)
                if kind == "transposed B":
                    T.copy(B[bz, bx * block, step * block], b)
                else:
                    T.copy(B[bz, step * block, bx * block], b)
                if kind == "one more":
                    for i, j in T.Parallel(block, block):
                        a[i, j] += 1
                    for i, j in T.Parallel(block, block):
                        b[i, j] += 1
                if kind != "carried":
                    T.gemm(a, b, c, transpose_A=kind == "transposed A", transpose_B=kind == "transposed B")
            if kind == "part":
                T.fill(c[0:block, 0:4], 1)
            if kind == "used later":
                T.gemm(a, b, c)
            if kind == "bias":
                for i, j in T.Parallel(block, block):
                    c[i, j] = T.max(c[i, j] + bias[bx * block + j], 0)
            if kind == "rows":
                for i, j in T.Parallel(block, block):
                    c[i, j] = c[i, j] + T.Cast(result, by * block + i)
            if kind == "greatest":
                T.reduce_max(c, s, dim=1)
                T.copy(s, S[bx, by * block])
            if kind == "neighbour":
                for i, j in T.Parallel(block, block):
                    staged[i, j] = c[i, T.min(j + 1, block - 1)]
                T.copy(staged, C[bz, by * block, bx * block])
            elif kind == "staged":
                T.copy(c, staged)
                T.copy(staged, C[bz, by * block, bx * block])
            elif kind.endswith("elements"):
                for i, j in T.Parallel(block, block):
                    C[bz, by * block + i, bx * block + j] = c[i, j] * 2
            elif kind == "sums":
                for i in T.Parallel(block):
                    s[i] = 0
                    for j in T.serial(block):
                        s[i] += c[i, j]
                T.copy(c, C[bz, by * block, bx * block])
                T.copy(s, S[bx, by * block])
            elif kind == "last":
                s[0] = c[block - 1, block - 1] + 5
                T.copy(c, C[bz, by * block, bx * block])
                S[bx, by * block] = s[0]
            else:
                T.copy(c, C[bz, by * block, bx * block])

    return main


def expected(kind, a, b, bias, c, s):
    """What C and S have to be."""
    m, n = s.shape[1], bias.shape[0]
    a = a.mT if kind == "transposed A" else a
    b = b.mT if kind == "transposed B" else b
    k = a.shape[-1]
    product = a.double() @ b.double()
    if kind == "carried":
        full = (k - 1) // BLOCK * BLOCK
        product = a[..., :full].double() @ b[..., :full, :].double()
    if kind == "used later":
        full = (k - 1) // BLOCK * BLOCK
        product = product + a[..., full:].double() @ b[..., full:, :].double()
    if kind == "left early":
        product = a[..., :BLOCK].double() @ b[..., :BLOCK, :].double()
    if kind == "one more":
        padded = -(-k // BLOCK) * BLOCK - k
        product = (a.double() + 1) @ (b.double() + 1) + padded
    if kind == "bias":
        product = (product + bias).clamp(min=0)
    if kind == "rows":
        product = product + torch.arange(m)[None, :, None]
    if kind.endswith("elements"):
        product = product * 2
    if kind.startswith("padded"):
        product = torch.nn.functional.pad(product, (0, -n % BLOCK, 0, -m % BLOCK))
        m, n = product.shape[1:]
    tail = -(-n // BLOCK) * BLOCK - n
    padded = torch.nn.functional.pad(product, (0, tail))
    blocks = padded.unflatten(-1, (-1, BLOCK))
    if kind == "part":
        blocks[..., :4] = 1
        product = blocks.flatten(-2)[..., :n]
    if kind == "neighbour":
        blocks = torch.cat([blocks[..., 1:], blocks[..., -1:]], -1)
        product = blocks.flatten(-2)[..., :n]
    sums = s.double()
    if kind == "greatest":
        sums = blocks[0].amax(-1).T
    if kind == "sums":
        sums = blocks[0].sum(-1).T
    if kind == "last":
        rows = torch.nn.functional.pad(blocks[0, :, :, -1], (0, 0, 0, -m % BLOCK))
        sums[:, ::BLOCK] = 5 + rows[BLOCK - 1 :: BLOCK].T
    return product, sums


def after(func, step):
    """The statements of a program after a step."""
    request = CompileRequest(parse_target("cpu"), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    return list(walk(run(pipeline.LLVM, func, context, stop_after=step).value.body))


def products(func):
    """The extents of the products after the step."""
    found = [record for record in map(record_of, after(func, "cut_edges")) if isinstance(record, Gemm)]
    return {(record.m, record.n, record.k) for record in found}


def operands(kind, m, n, k, dtype):
    """Numbers of which all sums are exact."""
    batches = 2 if kind == "batches" else 1
    shapes = [
        (batches, *((k, m) if kind == "transposed A" else (m, k))),
        (batches, *((n, k) if kind == "transposed B" else (k, n))),
    ]
    a, b = (torch.randint(-4, 5, shape).to(getattr(torch, dtype)) for shape in shapes)
    result = torch.int32 if dtype == "int8" else a.dtype
    return (
        a,
        b,
        torch.randint(-4, 5, (n,)).to(result),
        torch.zeros(batches, *shape_of_c(kind, m, n), dtype=result),
        torch.zeros(-(-n // BLOCK), m, dtype=result),
    )


def check(kind, m, n, k, dtype="float32", target="cpu"):
    """Runs a kind of program."""
    given = operands(kind, m, n, k, dtype)
    want = expected(kind, *given)
    build(program(kind, m, n, k, dtype), target, execution_backend="ctypes", compile_flags=["-O0"])(*given)
    torch.testing.assert_close(given[3].double(), want[0])
    if kind in ("greatest", "sums", "last"):
        torch.testing.assert_close(given[4].double(), want[1])


CUT = ("", "view", "transposed A", "transposed B", "annotated", "bias", "rows", "staged", "elements", "batches")


@on_both
@pytest.mark.parametrize("kind", CUT)
def test_tiles_end_with_their_tensors(kind, target):
    m, n, k = 37, 43, 39
    sizes = products(program(kind, m, n, k))
    assert sizes == {(rows, columns, depth) for rows in (16, 5) for columns in (16, 11) for depth in (16, 7)}
    check(kind, m, n, k, target=target)


_ROWS, _COLUMNS, _DEPTHS = {16, 5}, {16, 11}, {16, 7}
_ALL = {16}


@pytest.mark.parametrize(
    "kind, rows, columns, depths",
    [
        ("greatest", _ROWS, _ALL, _DEPTHS),
        ("last", _ALL, _ALL, _DEPTHS),
        ("padded", _ALL, _ALL, _DEPTHS),
        ("padded elements", _ALL, _ALL, _DEPTHS),
        ("sums", _ROWS, _ALL, _DEPTHS),
        ("part", _ROWS, _ALL, _DEPTHS),
        ("neighbour", _ROWS, _ALL, _DEPTHS),
        ("one more", _ROWS, _COLUMNS, _ALL),
        ("carried", _ROWS, _COLUMNS, _ALL),
        ("used later", _ROWS, _COLUMNS, _ALL),
        ("left early", _ROWS, _COLUMNS, _ALL),
        ("safe value", _ALL, _ALL, _ALL),
    ],
)
def test_axes_that_are_needed_as_they_are_stay(kind, rows, columns, depths):
    m, n, k = 37, 43, 39
    assert products(program(kind, m, n, k)) == set(itertools.product(rows, columns, depths))
    check(kind, m, n, k)


def test_axes_are_cut_one_by_one():
    assert products(program("", 32, 48, 39)) == {(16, 16, 16), (16, 16, 7)}
    assert products(program("", 37, 48, 32)) == {(16, 16, 16), (5, 16, 16)}
    assert products(program("", 32, 43, 32)) == {(16, 16, 16), (16, 11, 16)}
    assert products(program("", 32, 48, 32)) == {(16, 16, 16)}


def test_products_read_the_tensors_in_every_block():
    operands = [record for record in map(record_of, after(program("", 37, 43, 39), "forward_copies")) if isinstance(record, Gemm)]
    assert operands and all(is_global(product.a) and is_global(product.b) for product in operands)


def test_tiles_that_are_larger_than_their_tensors():
    assert products(program("", 13, 9, 48)) == {(13, 9, 16)}
    assert products(program("", 13, 9, 7)) == {(13, 9, 7)}
    assert products(program("", 7, 7, 7)) == {(7, 7, 7)}
    assert products(program("greatest", 7, 9, 7)) == {(7, 16, 7)}


def through_views(m, n, k):
    """``C = A B``, of tensors that the kernel sees as matrices."""

    @T.prim_func
    def main(A: T.Tensor((m, k), "float32"), B: T.Tensor((k * n,), "float32"), C: T.Tensor((m * n,), "float32")):
        with T.Kernel(T.ceildiv(n, BLOCK), T.ceildiv(m, BLOCK), threads=128) as (bx, by):
            a, b = T.alloc_shared((BLOCK, BLOCK), "float32"), T.alloc_shared((BLOCK, BLOCK), "float32")
            c = T.alloc_fragment((BLOCK, BLOCK), "float32")
            weights, result = T.reshape(B, (k, n)), T.reshape(C, (m, n))
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, BLOCK), num_stages=2):
                T.copy(A[by * BLOCK, step * BLOCK], a)
                T.copy(weights[step * BLOCK, bx * BLOCK], b)
                T.gemm(a, b, c)
            T.copy(c, result[by * BLOCK, bx * BLOCK])

    return main


@on_both
@pytest.mark.parametrize("m, n, k", [(37, 43, 39), (9, 43, 32), (9, 13, 7)])
def test_tensors_seen_as_matrices(m, n, k, target):
    a, b, c = torch.randint(-4, 5, (m, k)).float(), torch.randint(-4, 5, (k, n)).float(), torch.empty(m * n)
    build(through_views(m, n, k), target, execution_backend="ctypes", compile_flags=["-O0"])(a, b.flatten(), c)
    assert torch.equal(c.view(m, n), a @ b)


def test_small_kernels_stay(monkeypatch):
    monkeypatch.setattr(edges, "LEAST", 48 * 48 * 48 + 1)
    assert products(program("", 37, 43, 39)) == {(16, 16, 16)}
    monkeypatch.setattr(edges, "LEAST", 48 * 48 * 48)
    assert (5, 11, 7) in products(program("", 37, 43, 39))


def test_the_only_tile_is_cut_in_small_kernels(monkeypatch):
    monkeypatch.setattr(edges, "LEAST", 2**60)
    assert products(program("", 13, 43, 7)) == {(13, 16, 7)}
    check("", 13, 43, 7)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from((*CUT, "greatest")),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["float32", "int8", "float64"]),
)
def test_any_size(kind, m, n, k, dtype):
    check(kind, m, n, k, dtype)


def attention(queries, length, dim):
    """Attention of some queries to all keys, by tiles that overhang the queries alone, and the greatest score of each key."""

    @T.prim_func
    def main(
        Q: T.Tensor((queries, dim), "float32"),
        K: T.Tensor((length, dim), "float32"),
        V: T.Tensor((length, dim), "float32"),
        Out: T.Tensor((queries, dim), "float32"),
        total: T.Tensor((T.ceildiv(queries, BLOCK), length), "float32"),
    ):
        with T.Kernel(T.ceildiv(queries, BLOCK), threads=128) as bx:
            q, k = T.alloc_shared((BLOCK, dim), "float32"), T.alloc_shared((BLOCK, dim), "float32")
            v = T.alloc_shared((BLOCK, dim), "float32")
            scores, acc = T.alloc_fragment((BLOCK, BLOCK), "float32"), T.alloc_fragment((BLOCK, dim), "float32")
            greatest, before = T.alloc_fragment((BLOCK,), "float32"), T.alloc_fragment((BLOCK,), "float32")
            weights, column = T.alloc_fragment((BLOCK,), "float32"), T.alloc_fragment((BLOCK,), "float32")
            T.copy(Q[bx * BLOCK, 0], q)
            T.clear(acc)
            T.clear(weights)
            T.fill(greatest, -T.infinity("float32"))
            for step in T.Pipelined(length // BLOCK):
                T.copy(K[step * BLOCK, 0], k)
                T.copy(V[step * BLOCK, 0], v)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                T.copy(greatest, before)
                T.reduce_max(scores, greatest, dim=1, clear=False)
                for i, j in T.Parallel(BLOCK, BLOCK):
                    scores[i, j] = T.exp(scores[i, j] - greatest[i])
                for i in T.Parallel(BLOCK):
                    weights[i] *= T.exp(before[i] - greatest[i])
                for i, j in T.Parallel(BLOCK, dim):
                    acc[i, j] *= T.exp(before[i] - greatest[i])
                T.reduce_sum(scores, weights, dim=1, clear=False)
                T.reduce_max(k, column, dim=1)
                T.copy(column, total[bx, step * BLOCK])
                T.gemm(scores, v, acc)
            for i, j in T.Parallel(BLOCK, dim):
                acc[i, j] /= weights[i]
            T.copy(acc, Out[bx * BLOCK, 0])

    return main


@on_both
@pytest.mark.parametrize("queries, rows", [(5, {5}), (17, {1, 16}), (29, {13, 16})])
def test_reductions_keep_what_they_do_not_reduce(queries, rows, target):
    program = attention(queries, 48, 32)
    assert {m for m, _, _ in products(program)} == rows
    q, k, v, out = (torch.randn(size, 32) for size in (queries, 48, 48, queries))
    total = torch.empty(-(-queries // BLOCK), 48)
    build(program, target, execution_backend="ctypes", compile_flags=["-O0"])(q, k, v, out, total)
    torch.testing.assert_close(out, torch.softmax(q @ k.T, -1) @ v)
    torch.testing.assert_close(total, k.amax(1).expand_as(total))


def sums_of_columns(m, n):
    """The sum of each tile's columns, of a product with ones."""

    @T.prim_func
    def main(
        A: T.Tensor((m, BLOCK), "float32"),
        B: T.Tensor((BLOCK, n), "float32"),
        S: T.Tensor((T.ceildiv(m, BLOCK), n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, BLOCK), T.ceildiv(m, BLOCK), threads=128) as (bx, by):
            a, b = T.alloc_shared((BLOCK, BLOCK), "float32"), T.alloc_shared((BLOCK, BLOCK), "float32")
            c, s = T.alloc_fragment((BLOCK, BLOCK), "float32"), T.alloc_fragment((BLOCK,), "float32")
            T.copy(A[by * BLOCK, 0], a)
            T.copy(B[0, bx * BLOCK], b)
            T.gemm(a, b, c, clear_accum=True)
            T.reduce_sum(c, s, dim=0)
            T.copy(s, S[by, bx * BLOCK])

    return main


@on_both
def test_what_is_reduced_stays(target):
    program = sums_of_columns(21, 43)
    assert products(program) == {(16, 16, 16), (16, 11, 16)}
    a, b, s = torch.randint(-4, 5, (21, 16)).float(), torch.randint(-4, 5, (16, 43)).float(), torch.empty(2, 43)
    build(program, target, execution_backend="ctypes", compile_flags=["-O0"])(a, b, s)
    torch.testing.assert_close(s, torch.stack([(a[:16] @ b).sum(0), (a[16:] @ b).sum(0)]))


def causal(length, dim):
    """A product for each tile of keys up to the block's own."""

    @T.prim_func
    def main(
        Q: T.Tensor((length, dim), "float32"), K: T.Tensor((length, dim), "float32"), Out: T.Tensor((length, BLOCK), "float32")
    ):
        with T.Kernel(T.ceildiv(length, BLOCK), threads=128) as bx:
            q, k = T.alloc_shared((BLOCK, dim), "float32"), T.alloc_shared((BLOCK, dim), "float32")
            acc = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.copy(Q[bx * BLOCK, 0], q)
            T.clear(acc)
            for step in T.serial(bx + 1):
                T.copy(K[step * BLOCK, 0], k)
                T.gemm(q, k, acc, transpose_B=True)
            T.copy(acc, Out[bx * BLOCK, 0])

    return main


def test_turns_that_depend_on_the_block_are_counted(monkeypatch):
    work = 5 * 3 * BLOCK * BLOCK * 32  # five blocks of three turns
    monkeypatch.setattr(edges, "LEAST", work + 1)
    assert products(causal(75, 32)) == {(16, 16, 32)}
    monkeypatch.setattr(edges, "LEAST", work)
    assert (11, 16, 32) in products(causal(75, 32))


def rows_of_blocks(m, n, k):
    """Most of ``C = A B``, whose sum leaves out turns, the first column of each tile in whole, and a count of iterations."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float32"),
        B: T.Tensor((k, n), "float32"),
        end: T.Tensor((1,), "int32"),
        C: T.Tensor((m, n), "float32"),
        first: T.Tensor((T.ceildiv(m, BLOCK), BLOCK), "float32"),
        count: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(T.ceildiv(m, BLOCK), threads=128) as by:
            a = T.alloc_shared((BLOCK, BLOCK), "float32")
            b = T.alloc_shared((BLOCK, n), "float32")
            c = T.alloc_fragment((BLOCK, n), "float32")
            T.clear(c)
            for step in T.serial(T.ceildiv(k, BLOCK)):
                if step == end[0]:
                    break
                if step == end[0] - 2:
                    continue
                T.copy(A[by * BLOCK, step * BLOCK], a)
                T.copy(B[step * BLOCK, 0], b)
                T.gemm(a, b, c)
            for i in T.Parallel(BLOCK):
                first[by, i] = c[i, 0] + 1
            for i in T.Parallel(BLOCK):
                before = T.atomic_add(count[0], 1, return_prev=True)
                C[by * BLOCK + i, 1] = T.min(before, 0) + c[i, 1]
            T.copy(c[:, 2:], C[by * BLOCK, 2])

    return main


@pytest.mark.parametrize("end", [1, 2, 3, 4])
def test_all_of_a_tile_is_stored_and_loops_end_early(end):
    m, n, k = 37, 8, 39
    a, b = torch.randint(-4, 5, (m, k)).float(), torch.randint(-4, 5, (k, n)).float()
    c, first, count = torch.zeros(m, n), torch.zeros(3, BLOCK), torch.zeros(1).int()
    build(rows_of_blocks(m, n, k))(a, b, torch.tensor([end]).int(), c, first, count)
    steps = [step for step in range(min(end, 3)) if step != end - 2]
    want = sum(a[:, at : at + BLOCK] @ b[at : at + BLOCK] for at in (step * BLOCK for step in steps))
    torch.testing.assert_close(c[:, 1:], want[:, 1:])
    assert first.flatten().tolist() == [*(want[:, 0] + 1).tolist(), *[1.0] * (3 * BLOCK - m)]
    assert count.item() == 3 * BLOCK
