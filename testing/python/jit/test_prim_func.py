"""The program of a kernel: kept where the kernel was traced, traced when asked where it was found before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.jit import programs
from tilelang.errors import ExecutionError
from tilelang.frontend.program_object import is_program

ROOT = Path(__file__).resolve().parents[3]

LATER = """
import sys, torch
from testing.python.jit import programs
from tilelang.errors import ExecutionError
kernels = programs.scaled_add(44), programs.eager_add.compile(torch.ones(16, 12), torch.ones(16, 12))
origins = [kernel.entry.origin for kernel in kernels]
print(*origins, "tvm" in sys.modules)
print(*(kernel.prim_func.attrs["global_symbol"] for kernel in kernels))
programs.SCALE = 7.0
try:
    kernels[0].prim_func
except ExecutionError as error:
    print(str(error).splitlines()[0])
"""


@T.prim_func
def doubled(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] * 2


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_a_compiled_kernel_has_its_program(target):
    assert tilelang.compile(doubled, target=target).prim_func.same_as(doubled)


def test_a_kernel_of_a_function_has_its_program():
    assert is_program(programs.scaled_add(43).prim_func)
    assert is_program(programs.eager_add.compile(torch.ones(4, 8), torch.ones(4, 8)).prim_func)


def test_a_kernel_that_was_found_before_tracing_is_traced_when_asked():
    lines = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", LATER], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines())
    assert lines[1][0] in ("disk disk False", "disk memory False")
    assert lines[0][1] == lines[1][1]
    assert "what it reads has changed since its kernel was found" in lines[1][2]


def test_a_kernel_without_its_function_has_no_program():
    kernel = pickle.loads(pickle.dumps(tilelang.compile(doubled, target="cpu")))
    with pytest.raises(ExecutionError, match="doubled was loaded without its program"):
        kernel.prim_func  # noqa: B018
