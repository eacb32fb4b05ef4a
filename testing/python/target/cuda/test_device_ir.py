"""The device IR: values fold and print, instructions say what they touch, and names are defined."""

from __future__ import annotations

import pytest

from testing.cuda_walkthrough import program
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import cuda
from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.target.cuda.codegen.verify import names_are_defined
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.code import Block, BranchCode, accesses, counted, leaf
from tilelang.target.cuda.ir.instructions import (
    Assign,
    BulkLoad,
    CopyAsync,
    DeclareArray,
    DeclareGlobal,
    DeclarePool,
    Define,
    DefineSharedArray,
    Evaluate,
    LoadMatrix,
    PointerParameter,
    Signature,
    TensorMapParameter,
    ValueParameter,
)
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Array, Call, Name, Number, Select, Unary, both, total
from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

X, Y = Name("x"), Name("y")
TILE, TENSOR, REGISTERS = Array("tile", "float16", "the tile"), Array("tensor", "float16", "the tensor"), Array("r", "float16")
PACKED = Array("p", "uint4")


@pytest.mark.parametrize(("value", "text"), [
    (X * 4 + Y * 1 + 0, "x * 4 + y"),
    ((X + Y) * 2, "(x + y) * 2"),
    (X - (Y - 1), "x - (y - 1)"),
    (X & 31 & Y, "x & 31 & y"),
    ((X >> 2) + 1, "(x >> 2) + 1"),
    (X ^ (Y + 1), "x ^ (y + 1)"),
    (X + Number(-5), "x + (-5)"),
    (both([X.is_("<", 4), None, Y.is_(">=", 0)]), "x < 4 && y >= 0"),
    (Select(X.is_("==", 2), Number(0), X + 1) * 3, "(x == 2 ? 0 : x + 1) * 3"),
    (Unary("!", X.is_("<", Y)), "!(x < y)"),
    (total([]), "0"),
    (TILE.to(X + 1) + Y, "tile + (x + 1) + y"),
    (PACKED.at(X), "tl::nibble_u(p, x)"),
    (PACKED.to(X * 8), "p + x * 8 / 2"),
])  # fmt: skip
def test_values_print_with_the_parentheses_that_they_need(value, text):
    assert Printer().value(value) == text


@pytest.mark.parametrize(("instruction", "text"), [
    (Define(X, "dim3", Call("tl::rasterize_row", (), (8,))), "const dim3 x = tl::rasterize_row<8>();"),
    (DeclareArray(REGISTERS, 4, 16, zero=True), "alignas(16) half r[4] = {};"),
    (DeclarePool(Array("pool", "uint8"), 1024), "extern __shared__ __align__(1024) uchar pool[];"),
    (DefineSharedArray(TILE, Array("pool", "uint8").to(64)), "half* const tile = reinterpret_cast<half*>(pool + 64);"),
    (DeclareGlobal(X, "uint32"), "__device__ uint x;"),
])  # fmt: skip
def test_declarations_print(instruction, text):
    assert Printer().instruction(instruction) == [text]


def test_the_head_of_a_kernel_prints():
    parameters = (
        PointerParameter("a", "float16", constant=True, restrict=True),
        PointerParameter("b", "float32"),
        ValueParameter("n", "int32"),
        TensorMapParameter("m"),
    )
    assert Printer().head(Signature("f", parameters, 128, 2)) == (
        'extern "C" __global__ void __launch_bounds__(128, 2) '
        "f(const half* __restrict__ a, float* b, int n, const __grid_constant__ CUtensorMap m) {"
    )


def test_headers_of_printed_calls_are_recorded():
    printer = Printer()
    printer.instruction(Evaluate(Call("tl::f", (TILE.to(X), Y))))
    assert printer.names == {"tile", "x", "y"} and printer.functions == {"tl::f"}


@pytest.mark.parametrize(("instruction", "touched"), [
    (Assign(TILE.at(X), TENSOR.at(Y)), {Access("the tile", WRITE), Access("the tensor", READ)}),
    (CopyAsync(16, TILE.to(X), TENSOR.to(Y)), {
        Access("the tile", WRITE, Agent.CP_ASYNC), Access("the tensor", READ, Agent.CP_ASYNC),
    }),
    (LoadMatrix("x4", REGISTERS.to(0), TILE.to(X)), {Access("the tile", READ)}),
    (BulkLoad(Name("map"), TILE.to(0), Name("bar"), (X, Y)), {Access("the tile", WRITE, Agent.BULK)}),
    (Evaluate(Call("f", (TENSOR.to(X, UPDATE), TILE.at(Y)))), {Access("the tensor", UPDATE), Access("the tile", READ)}),
])  # fmt: skip
def test_an_instruction_says_what_it_touches(instruction, touched):
    assert set(accesses(leaf([instruction]))) == touched


def test_a_name_must_be_defined_in_the_braces_around_its_use():
    use = Assign(REGISTERS.at(0), X)
    names_are_defined(leaf([Define(X, "int32", Y), use]), {"y", "r"})
    names_are_defined(leaf([counted(X, 4, [use])]), {"r"})
    for wrong in ([use], [counted(X, 4, []), use], [BranchCode(Y, Block([Define(X, "int32", Y)])), use]):
        with pytest.raises(AssertionError, match="x is not defined"):
            names_are_defined(leaf(wrong), {"y", "r"})


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("make", [program, lambda: matmul(1000, 1000, 1000, (128, 128, 32), stages=3, transpose_b=True)])
def test_postconditions_of_every_step_hold_for_a_product(make, arch):
    request = CompileRequest(parse_target(cuda(arch)))
    run(PIPELINE, make(), CudaContext(request, options_of(request)), verify=True)
