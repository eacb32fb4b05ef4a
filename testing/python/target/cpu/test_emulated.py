"""Machine code for Arm, compiled here and run by an emulator where there is one: the results are those of this machine.

It takes ``qemu-user`` and ``gcc-aarch64-linux-gnu`` of Debian. Without them ``test_cross.py`` still compiles for Arm, and reads
what came out.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.codegen_llvm import KERNEL_LEVEL, llvm_target, runtime_object
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

COMPILER, EMULATOR = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
pytestmark = pytest.mark.skipif(not (COMPILER and EMULATOR), reason="takes qemu-aarch64 and aarch64-linux-gnu-gcc")

TRIPLE = "aarch64-unknown-linux-gnu"
FEATURES = {"neon": ["neon"], "dotprod": ["neon", "dotprod"]}

DRIVER = """
#include <stdio.h>
#include <stdlib.h>
int main_call(void*, void*, void*, void*, void*);
int main(int count, char** sizes) {
  void* tensors[5] = {0};
  for (int i = 1; i < count; ++i) {
    size_t size = atol(sizes[i]);
    tensors[i - 1] = aligned_alloc(64, (size + 63) / 64 * 64);
    if (fread(tensors[i - 1], 1, size, stdin) != size) return 2;
  }
  if (main_call(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4])) return 3;
  for (int i = 1; i < count; ++i) fwrite(tensors[i - 1], 1, atol(sizes[i]), stdout);
  return 0;
}
"""


def emulated(func, features, folder, *tensors):
    """What a program leaves in its tensors, of which it takes up to four."""
    target = {"kind": "llvm", "arch": "generic", "triple": TRIPLE, "features": FEATURES[features]}
    request = CompileRequest(parse_target(target), backend="ctypes")
    context = CpuContext(request, "main", vector_unit(request.target))
    host = run(pipeline.LLVM, func, context, stop_after="lower_host").value
    info = request.target
    machine = llvm_target(info.arch, info.triple, info.instruction_sets, KERNEL_LEVEL)
    built = ir.tvm.get_global_func("target.build.llvm")(host.kernel, machine)
    built.write_to_file(str(folder / "kernel.o"), "o")
    (folder / "runtime.o").write_bytes(runtime_object(TRIPLE, False))
    (folder / "driver.c").write_text(DRIVER)
    files = [str(folder / name) for name in ("driver.c", "kernel.o", "runtime.o")]
    subprocess.run([COMPILER, "-static", *files, "-o", str(folder / "program"), "-lm"], check=True)
    images = [tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors]
    command = [EMULATOR, str(folder / "program"), *(str(len(image)) for image in images)]
    left = subprocess.run(command, input=b"".join(images), stdout=subprocess.PIPE, check=True).stdout
    results, begin = [], 0
    for tensor, image in zip(tensors, images):
        part = bytearray(left[begin : begin + len(image)])
        results.append(torch.frombuffer(part, dtype=tensor.dtype).view(tensor.shape))
        begin += len(image)
    return results


def product(rows, columns, depth, dtype, accumulator, transposed):
    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((columns, depth) if transposed else (depth, columns), dtype),
        C: T.Tensor((rows, columns), accumulator),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if transposed else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), accumulator)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=transposed, clear_accum=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    "types", [("float32", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("uint8", "int32")], ids="-".join
)
def test_products(types, features, tmp_path):
    dtype, accumulator = types
    torch.manual_seed(7)
    low, high = (-128, 128) if dtype == "int8" else (0, 256) if dtype == "uint8" else (-4, 5)
    for rows, columns, depth, transposed in ((9, 37, 32, False), (1, 21, 68, True)):
        a = torch.randint(low, high, (rows, depth)).to(getattr(torch, dtype))
        b = torch.randint(low, high, (columns, depth) if transposed else (depth, columns)).to(getattr(torch, dtype))
        c = torch.zeros(rows, columns, dtype=getattr(torch, accumulator))
        func = product(rows, columns, depth, dtype, accumulator, transposed)
        found = emulated(func, features, tmp_path, a, b, c)[-1]
        assert torch.equal(found.double(), a.double() @ (b.T if transposed else b).double())


def functions(length):
    """Elementary functions, a reduction of each row, and bfloat16 both ways."""

    @T.prim_func
    def main(X: T.Tensor((4, length), "float32"), H: T.Tensor((4, length), "bfloat16"), Y: T.Tensor((4, length), "float32")):
        with T.Kernel(4, threads=128) as row:
            x = T.alloc_fragment((1, length), "float32")
            most, total = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, length):
                x[i, j] = T.exp2(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, length):
                H[row, j] = T.cast(T.tanh(x[i, j]) + T.cast(H[row, j], "float32"), "bfloat16")
                Y[row, j] = x[i, j] / total[i] + T.log(1.0 + T.abs(X[row, j]))

    return main


def test_functions(tmp_path):
    torch.manual_seed(9)
    x, h = 3 * torch.randn(4, 75), torch.randn(4, 75).bfloat16()
    here = [x.clone(), h.clone(), torch.zeros(4, 75)]
    build(functions(75))(*here)
    found = emulated(functions(75), "neon", tmp_path, x, h, torch.zeros(4, 75))
    torch.testing.assert_close(found[2], here[2], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[1], here[1], rtol=2**-7, atol=0)
