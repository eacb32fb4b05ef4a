"""On a machine without a C compiler and without a linker: what still works, and what the error of the rest says."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
import torch, tilelang, tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] + 1

os.environ["PATH"] = "/nonexistent"
os.environ.pop("TILELANG_CC", None)
SM80 = {"kind": "cuda", "arch": "sm_80"}
for target, backend in ((SM80, "nvrtc"), (SM80, "tvm_ffi"), ("c", "ctypes"), ("cpu", "tvm_ffi")):
    try:
        with tilelang.simulator():
            kernel = tilelang.compile(main, out_idx=[-1], target=target, execution_backend=backend)
            print(kernel(torch.ones(64)).sum().item())
    except tilelang.errors.ToolchainError as error:
        print(error)
os.environ["TILELANG_CC"] = "/nonexistent/gcc"
try:
    tilelang.compile(main, target="c")
except tilelang.errors.ToolchainError as error:
    print(error)
"""

NO_COMPILER = (
    "no C compiler: install gcc or clang, or set TILELANG_CC; "
    'without one, target="cpu" compiles for CPUs and execution_backend="nvrtc" for CUDA'
)
NO_SUCH_COMPILER = (
    "TILELANG_CC=/nonexistent/gcc is no program: unset it, or name another; "
    'without one, target="cpu" compiles for CPUs and execution_backend="nvrtc" for CUDA'
)
NO_LINKER = (
    "no linker: install binutils (ld) or a C compiler (gcc or clang); "
    'without one, execution_backend="nvrtc" compiles for CUDA, and target="interpret" runs programs as they are'
)


def test_kernels_with_a_host_in_python_need_no_c_compiler_and_others_say_so(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["128.0", NO_COMPILER, NO_COMPILER, NO_LINKER, NO_SUCH_COMPILER]
