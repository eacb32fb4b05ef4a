"""Artifacts made by hand, so that backends are tested without the compiler.

The program is ``C = A * scale + B`` over ``(n, 64)`` float32, as a plain C library and as a packed function built by TVM.
"""

from __future__ import annotations

import subprocess
from functools import lru_cache
from pathlib import Path

from tilelang.artifact import KernelArtifact, KernelLaunch, KernelParam

C_SOURCE = """
#include <stdint.h>
int32_t axpy_call(void* a, void* b, void* c, int64_t scale, int64_t n, void* stream) {
  const float *A = a, *B = b; float* C = c;
  if (scale == 13) return 7;
  for (int64_t i = 0; i < n * 64; ++i) C[i] = A[i] * (float)(int32_t)scale + B[i];
  return 0;
}
const char* tilelang_last_error(void) { return "thirteen is unlucky"; }
"""

TENSOR = ("n", 64)
PARAMS = (
    KernelParam("A", "tensor", "float32", TENSOR),
    KernelParam("B", "tensor", "float32", TENSOR),
    KernelParam("C", "tensor", "float32", TENSOR),
    KernelParam("scale", "scalar", "int32"),
)


def compile_c(source: str, path: Path) -> bytes:
    """A shared library from C text."""
    command = ["cc", "-x", "c", "-O2", "-shared", "-fPIC", "-o", str(path), "-"]
    subprocess.run(command, input=source.encode(), check=True, timeout=60)
    return path.read_bytes()


@lru_cache(maxsize=1)
def _packed_module():
    import tvm
    from tvm import tirx as T

    n = T.Var("n", "int32")
    a, b, c = (T.decl_buffer((n, 64), "float32", name=x, layout=None, data_alignment=4) for x in "ABC")
    scale, i, j = T.Var("scale", "int32"), T.Var("i", "int32"), T.Var("j", "int32")
    value = T.BufferLoad(a, [i, j]) * T.Cast("float32", scale) + T.BufferLoad(b, [i, j])
    body = T.For(i, 0, n, T.ForKind.SERIAL, T.For(j, 0, 64, T.ForKind.SERIAL, T.BufferStore(c, value, [i, j])))
    lucky = T.AssertStmt(scale != 13, tvm.ir.StringImm("RuntimeError"), [tvm.ir.StringImm("thirteen is unlucky")])
    func = T.PrimFunc([a, b, c, scale], T.SeqStmt([lucky, body])).with_attr("global_symbol", "axpy")
    return tvm.compile(func, target=tvm.target.Target("llvm"))


CUDA_SOURCE = """
extern "C" __global__ void axpy_kernel(const float* a, const float* b, float* c, int scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (scale == 13) __trap();
  if (i < n * 64) c[i] = a[i] * (float)scale + b[i];
}
"""

LAUNCH = KernelLaunch(
    "axpy_kernel",
    (("tensor", "A"), ("tensor", "B"), ("tensor", "C"), ("scalar", "scale"), ("dim", "n")),
    ("handle", "handle", "handle", "int32", "int32"),
    (("ceildiv", ("mul", "n", 64), 128), 1, 1),
    (128, 1, 1),
)


@lru_cache(maxsize=1)
def _device_code():
    from tilelang.target.cuda.toolchain.compile import compile_device

    return compile_device(CUDA_SOURCE, "sm_80")


def cuda_artifact(
    backend: str, directory: Path, out_idx: tuple[int, ...] = (), params=PARAMS, launches=(LAUNCH,), code=None, **metadata
) -> KernelArtifact:
    """The artifact of the program for a backend on a CUDA device, its files written to ``directory``."""
    from tilelang.target.hosts.files import host_files
    from tilelang.target.hosts.text import HostProgram
    from tilelang.target.params import dynamic_names

    binary = code or _device_code()
    files = {"kernel.cubin": binary.cubin, "kernel.ptx": binary.ptx if isinstance(binary.ptx, bytes) else binary.ptx.encode()}
    with host_files(HostProgram("axpy", params, dynamic_names(params), launches), backend) as hosts:
        files |= hosts()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    metadata = {"dynamic": dynamic_names(params), **metadata}
    return KernelArtifact("axpy", '{"arch":"sm_80","kind":"cuda"}', backend, params, out_idx, {}, launches, metadata)


def artifact(backend: str, directory: Path, out_idx: tuple[int, ...] = (), **metadata) -> KernelArtifact:
    """The artifact of the program for a backend on the CPU, its files written to ``directory``."""
    if backend == "tvm_ffi":
        _packed_module().export_library(str(directory / "executable.so"))
    else:
        compile_c(C_SOURCE, directory / "kernel_lib.so")
    return KernelArtifact("axpy", '{"kind":"cpu"}', backend, PARAMS, out_idx, {}, (), {"dynamic": ("n",), **metadata})
