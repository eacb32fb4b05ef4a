"""The program after the steps that decide its shape, and the C that comes out, as text."""

import tilelang.language as T
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.pipeline import LLVM, C
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

FIXED = {"arch": "x86-64-v3", "triple": "x86_64-unknown-linux-gnu", "features": ["avx2", "fma"]}


def after(program, step, kind="cpu"):
    """The printed program after a step, for a machine that is the same everywhere."""
    request = CompileRequest(parse_target({"kind": kind, **FIXED}))
    context = CpuContext(request, str(program.attrs["global_symbol"]), vector_unit(request.target))
    return run(C if kind == "c" else LLVM, program, context, stop_after=step, verify=True).value.script()


@T.prim_func
def ragged(X: T.Tensor((500, 64), "float16"), Y: T.Tensor((500,), "float32")):
    with T.Kernel(T.ceildiv(500, 32), threads=128) as bx:
        tile = T.alloc_shared((32, 64), "float16")
        total = T.alloc_fragment((32,), "float32")
        T.copy(X[bx * 32, 0], tile)
        T.reduce_sum(tile, total, dim=1)
        for i in T.Parallel(32):
            Y[bx * 32 + i] = total[i] * 0.1


@T.prim_func
def product(A: T.Tensor((64, 32), "float32"), B: T.Tensor((32, 48), "float32"), C: T.Tensor((64, 48), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float32")
        b = T.alloc_shared((32, 48), "float32")
        c = T.alloc_fragment((64, 48), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        T.copy(c, C)


@T.prim_func
def leaving(X: T.Tensor((16,), "int32"), Y: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=128):
        for i in T.serial(16):
            if X[i] == 0:
                continue
            if X[i] < 0:
                break
            Y[0] = Y[0] + X[i]


def test_edges_are_guarded_once(golden):
    golden(after(ragged, "lower_tiles"))


def test_register_tiles(golden):
    golden(after(product, "lower_tiles"))


def test_early_exits(golden):
    golden(after(leaving, "lower_exits"))


def test_narrow_formats(golden):
    golden(after(ragged, "legalize"))


def test_c_text(golden):
    golden(after(ragged, "emit_c", kind="c"))


def test_c_text_of_a_product(golden):
    golden(after(product, "emit_c", kind="c"))
