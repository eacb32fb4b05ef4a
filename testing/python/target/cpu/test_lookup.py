"""Four bits unpacked by a table of what they stand for: exactly the values of the program, and where that is done."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import TargetInfo
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

AVX512 = ("avx512f", "avx512bw")
ROWS, GROUPS = 3, 2

FORMS = {
    # form of the program -> the four bits of a byte
    "x & 15": lambda x: x & 15,
    "x % 16": lambda x: x % 16,
    "x >> 4": lambda x: x >> 4,
    "x // 16": lambda x: x // 16,
    "(x >> 3) & 15": lambda x: (x >> 3) & 15,
}


def lowered(func, features=AVX512, kind="cpu") -> str:
    """The program after its tiles are lowered, as text."""
    machine = TargetInfo(kind=kind, arch="generic", features=features, triple="x86_64-unknown-linux-gnu")
    context = CpuContext(CompileRequest(machine, backend="tvm_ffi"), "main", vector_unit(machine))
    return run(pipeline.LLVM, func, context, stop_after="lower_tiles").value.script()


def unpacked(form, dtype, length=48, source="uint8", offset=-3):
    """``(bits + offset) * scale`` of ``GROUPS`` parts of each row, which have a scale each."""

    @T.prim_func
    def main(
        B: T.Tensor((ROWS, GROUPS * length), source),
        scales: T.Tensor((ROWS, GROUPS), "float32"),
        Y: T.Tensor((ROWS, GROUPS * length), dtype),
    ):
        with T.Kernel(ROWS, threads=128) as row:
            y = T.alloc_shared((GROUPS, length), dtype)
            for i, j in T.Parallel(GROUPS, length):
                bits = FORMS[form](T.cast(B[row, i * length + j], "int32"))
                y[i, j] = T.cast(T.cast(bits + offset, "float32") * scales[row, i], dtype)
            for i, j in T.Parallel(GROUPS, length):
                Y[row, i * length + j] = y[i, j]

    return main


def same_as_interpreter(func, *tensors):
    """Runs a program on the CPU and in the interpreter; compares what is left in the last tensor."""
    results = []
    for target in ("cpu", "interpret"):
        own = [tensor.clone() for tensor in tensors]
        build(func, target)(*own)
        results.append(own[-1])
    assert torch.equal(*results)


def check(func, length, dtype, source="uint8"):
    torch.manual_seed(17)
    info = torch.iinfo(getattr(torch, source))
    codes = torch.randint(info.min, info.max + 1, (ROWS, GROUPS * length)).to(getattr(torch, source))
    scales = torch.tensor([[0.37, -2.5], [1e-39, 3e38], [0.0, float("nan")]])
    if not getattr(torch, dtype).is_floating_point:
        scales = torch.tensor([[0.37, -2.5], [100.0, 7.3], [0.0, 1.0]])
    y = torch.zeros(ROWS, GROUPS * length, dtype=getattr(torch, dtype))
    found = [y.clone(), y.clone()]
    for target, result in zip(("cpu", "interpret"), found):
        build(func, target)(codes, scales, result)
    torch.testing.assert_close(*found, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    func = unpacked(form, "float32")
    assert "tl_look_up_32" in lowered(func)
    check(func, 48, "float32")


@pytest.mark.parametrize("length", [32, 64, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int16"])
def test_elements(dtype, length):
    func = unpacked("x & 15", dtype, length)
    assert f"tl_look_up_{32 if dtype.endswith('32') else 16}" in lowered(func)
    check(func, length, dtype)


@pytest.mark.parametrize("source", ["int8", "int16", "int32"])
def test_sources(source):
    """Bits of wider and of signed integers; of a signed byte ``x >> 4`` is no number of four bits."""
    func = unpacked("x & 15", "float32", source=source)
    assert "tl_look_up_32" in lowered(func)
    check(func, 48, "float32", source)
    func = unpacked("x >> 4", "float32", source=source)
    assert "tl_look_up" not in lowered(func)
    check(func, 48, "float32", source)


@pytest.mark.parametrize("form", [lambda x: x >> 4, lambda x: x // 16, lambda x: (x >> 2) >> 2])
@pytest.mark.parametrize("wider", ["int8", "int16", "int32"])
def test_upper_bits_of_a_signed_byte(form, wider):
    """They are numbers from -8 to 7, also where the byte is stored as an unsigned one."""

    @T.prim_func
    def main(B: T.Tensor((2, 128), "uint8"), Y: T.Tensor((2, 128), "float32")):
        with T.Kernel(2, threads=128) as row:
            y = T.alloc_shared((128,), "float32")
            for j in T.Parallel(128):
                y[j] = T.cast(form(T.cast(T.cast(B[row, j], "int8"), wider)), "float32")
            T.copy(y, Y[row, 0])

    same_as_interpreter(main, torch.arange(256, dtype=torch.uint8).reshape(2, 128), torch.zeros(2, 128))


def test_a_code_book():
    @T.prim_func
    def main(B: T.Tensor((4, 64), "uint8"), book: T.Tensor((16,), "float32"), Y: T.Tensor((4, 128), "float32")):
        with T.Kernel(4, threads=128) as row:
            y = T.alloc_shared((128,), "float32")
            for j in T.Parallel(64):
                both = T.cast(B[row, j], "int32")
                y[j] = book[both & 15]
                y[64 + j] = book[both >> 4]
            T.copy(y, Y[row, 0])

    assert "tl_look_up_32" in lowered(main)
    torch.manual_seed(19)
    codes = torch.randint(0, 256, (4, 64), dtype=torch.uint8)
    same_as_interpreter(main, codes, torch.randn(16), torch.zeros(4, 128))


def varied(kind):
    """Loops that no table of sixteen values gives."""

    @T.prim_func
    def main(B: T.Tensor((4, 64), "uint8"), W: T.Tensor((64,), "float32"), Y: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=128) as row:
            y = T.alloc_shared((64,), "float32")
            b = T.alloc_shared((64,), "uint8")
            T.copy(B[row, 0], b)
            for j in T.Parallel(64):
                if kind == "more than four bits":
                    y[j] = T.cast(B[row, j] & 31, "float32")
                elif kind == "another operand":
                    y[j] = T.cast(B[row, j] & 15, "float32") * W[j]
                elif kind == "two operands":
                    y[j] = T.cast((B[row, j] & 15) + (B[row, 63 - j] & 15), "float32")
                elif kind == "falling":
                    y[j] = T.cast(B[row, 63 - j] & 15, "float32")
                elif kind == "outside":
                    y[j] = T.cast(B[row, j + 1] & 15, "float32")
                else:
                    b[j] = b[j] & 15
            for j in T.Parallel(64):
                Y[row, j] = y[j] if kind != "bytes" else T.cast(b[j], "float32")

    return main


@pytest.mark.parametrize("kind", ["more than four bits", "another operand", "two operands", "falling", "outside", "bytes"])
def test_decodings_that_do_not_become_table_lookups(kind):
    func = varied(kind)
    assert "tl_look_up" not in lowered(func)
    torch.manual_seed(23)
    codes = torch.randint(0, 256, (4, 64), dtype=torch.uint8)
    same_as_interpreter(func, codes, torch.randn(64), torch.zeros(4, 64))


def test_a_loop_that_stores_nothing():
    @T.prim_func
    def main(B: T.Tensor((64,), "uint8"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                unused = B[i] & 15  # noqa: F841
            T.clear(Y)

    same_as_interpreter(main, torch.arange(64, dtype=torch.uint8), torch.ones(64))


def test_targets_without_the_permutation_instruction():
    func = unpacked("x & 15", "bfloat16")
    for text in (lowered(func, ("avx512f",)), lowered(func, ("avx2",)), lowered(func, kind="c")):
        assert "tl_look_up" not in text
