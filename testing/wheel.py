"""Uses an installed wheel: `python dev.py package` runs this in an environment that has the wheel and none of the source tree."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import tilelang
import tilelang.language as T

FILES = ("py.typed", "__init__.pyi", "language/__init__.pyi")
SM80 = {"kind": "cuda", "arch": "sm_80"}


@T.prim_func
def add_one(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = A[i] + 1


def main() -> None:
    package = Path(tilelang.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package} is not that of the wheel"
    assert not [name for name in FILES if not (package / name).exists()]
    for target, backend in (("cpu", "tvm_ffi"), ("c", "cython"), (SM80, "tvm_ffi")):
        with tilelang.simulator():
            kernel = tilelang.compile(add_one, out_idx=[-1], target=target, execution_backend=backend)
            assert torch.equal(kernel(torch.ones(64)), torch.full((64,), 2.0)), (target, backend)
    command = subprocess.run([Path(sys.executable).with_name("tilelang"), "cache", "stats"], capture_output=True, text=True)
    assert command.returncode == 0, command.stderr
    print(f"tilelang {tilelang.__version__} of the wheel: CPU, C and the simulator agree, the command line answers")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        tilelang.option.cache_dir(directory)
        main()
