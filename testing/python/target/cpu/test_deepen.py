"""Loops of shallow products become deep products, exactly where the sums stay the same."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.forward_copies import record_of
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.tileop.gemm import Gemm
from tilelang.transform.pipeline import run

from .support import build

BYTES_BY_FOURS = {"kind": "llvm", "features": ["avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16"]}


def products(func, target="cpu"):
    """The turns of the loop around each product (1 where there is none), and the product's depth."""
    request = CompileRequest(parse_target(target), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    body = run(pipeline.LLVM, func, context, stop_after="deepen").value.body
    return _depths(body, 1)


def _depths(stmt, turns):
    if isinstance(stmt, ir.SeqStmt):
        return [found for child in stmt.seq for found in _depths(child, turns)]
    if isinstance(stmt, ir.For):
        return _depths(stmt.body, turns * as_int(stmt.extent))
    if isinstance(stmt, ir.AttrStmt):
        return _depths(stmt.body, turns)
    record = record_of(stmt)
    return [(turns, record.k)] if isinstance(record, Gemm) else []


def program(kind="", dtype="float32", accumulator="float32", M=32, N=48, K=320, bk=16):
    """A product by steps of ``bk``; ``kind`` names what is unusual."""
    trans_a, trans_b = kind == "transposed a", kind == "transposed b"

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if trans_a else (M, K), dtype),
        B: T.Tensor((N, K) if trans_b else (K, N), dtype),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((bk, M) if trans_a else (M, bk), dtype)
            b = T.alloc_shared((N, bk) if trans_b else (bk, N), dtype)
            c = T.alloc_fragment((M, N), accumulator)
            if kind != "cleared":
                T.clear(c)
            for k in T.Pipelined(1 if kind == "from one" else 0, K // bk, num_stages=2):
                if trans_a:
                    T.copy(A[k * bk, 0], a)
                elif kind == "same a":
                    T.copy(A[0, 0], a)
                elif kind == "overlapping":
                    T.copy(A[0, k * (bk // 2)], a)
                else:
                    T.copy(A[0, k * bk], a)
                if trans_b:
                    T.copy(B[0, k * bk], b)
                elif kind == "backwards":
                    T.copy(B[K - bk - k * bk, 0], b)
                else:
                    T.copy(B[k * bk, 0], b)
                if kind == "cleared":
                    T.gemm(a, b, c, clear_accum=(k == 0))
                elif kind == "cleared often":
                    T.gemm(a, b, c, clear_accum=True)
                elif kind == "cleared later":
                    T.gemm(a, b, c, clear_accum=(k == 3))
                else:
                    T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
                if kind == "scaled":
                    for i, j in T.Parallel(M, N):
                        c[i, j] = c[i, j] * 0.5
            T.copy(c, C)

    return main


def reference(kind, a, b, K=320, bk=16):
    """The same product in float64, by the same steps."""
    c = torch.zeros(b.shape[0] if kind == "transposed b" else 32, 48, dtype=torch.float64)[:32]
    a, b = a.double().T if kind == "transposed a" else a.double(), b.double().T if kind == "transposed b" else b.double()
    for k in range(1 if kind == "from one" else 0, K // bk):
        first = {"same a": 0, "overlapping": k * (bk // 2)}.get(kind, k * bk)
        row = K - bk - k * bk if kind == "backwards" else k * bk
        if kind == "cleared often" or kind == "cleared later" and k == 3:
            c = torch.zeros_like(c)
        c = c + a[:, first : first + bk] @ b[row : row + bk]
        if kind == "scaled":
            c = c * 0.5
    return c


DEEP = {"": [(2, 160)], "cleared": [(2, 160)], "transposed b": [(2, 160)], "from one": [(1, 160), (1, 144)]}
SHALLOW = ["transposed a", "same a", "overlapping", "backwards", "cleared often", "cleared later", "scaled"]


@pytest.mark.parametrize("kind", [*DEEP, *SHALLOW])
def test_which_loops(kind):
    assert products(program(kind)) == DEEP.get(kind, [(20, 16)])


@pytest.mark.parametrize("kind", [*DEEP, *SHALLOW])
def test_exact(kind):
    torch.manual_seed(4)
    draw = lambda *shape: torch.randint(-2, 3, shape).float()  # noqa: E731
    a = draw(320, 32) if kind == "transposed a" else draw(32, 320)
    b = draw(48, 320) if kind == "transposed b" else draw(320, 48)
    c = torch.full((32, 48), 99.0)
    build(program(kind))(a, b, c)
    torch.testing.assert_close(c.double(), reference(kind, a, b), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("types", "want"),
    [
        (("float32", "float32"), [(2, 160)]),
        (("bfloat16", "float32"), [(1, 320)]),  # two products a step
        (("int8", "int32"), [(1, 320)]),
        (("float16", "float16"), [(20, 16)]),  # rounded after each product
        (("bfloat16", "bfloat16"), [(20, 16)]),
        (("float64", "float64"), [(2, 160)]),
    ],
)
def test_types(types, want):
    assert products(program("", *types), BYTES_BY_FOURS) == want


@pytest.mark.parametrize("turns", [1, 2, 16, 17, 31, 48])
def test_any_number_of_turns(turns):
    torch.manual_seed(5)
    a, b = torch.randint(-99, 100, (32, 16 * turns)), torch.randint(-99, 100, (16 * turns, 48))
    c = torch.zeros(32, 48, dtype=torch.int32)
    build(program("", "int8", "int32", K=16 * turns))(a.to(torch.int8), b.to(torch.int8), c)
    assert torch.equal(c.long(), a @ b)


def test_a_result_in_a_tensor_may_be_an_operand():
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            for k in T.serial(2):
                T.gemm(A[0:16, k * 16 : k * 16 + 16], B[k * 16 : k * 16 + 16, 0:16], C[0:16, 0:16])

    assert products(main) == [(2, 16)]
