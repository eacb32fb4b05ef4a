"""The steps of the CUDA target are functions between records: each makes a new one and leaves what it was given as it was."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import cuda
from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import printed

ROOT = Path(__file__).parents[4]


@T.prim_func
def _conversions(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), n: T.int32):
    """Conversions between layouts, threads that leave early, and branches that barriers cut into several."""
    with T.Kernel(1, threads=128) as _:
        tx = T.get_thread_binding(0)
        x, y = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
        row = T.alloc_shared((128,), "float32")
        T.copy(A, x)
        for _k in T.serial(n):
            for i, j in T.Parallel(64, 64):
                y[i, j] = x[j, i]
            T.copy(y, x)
        T.copy(x, B)
        if A[0, tx % 64] > 0:
            row[tx] = A[1, tx % 64]
            B[2, tx % 64] = row[127 - tx]
        if tx >= 64:
            T.thread_return()
        B[3, tx] = A[3, tx]


PROGRAMS = {
    "gemm": lambda: matmul(256, 256, 256, (64, 64, 32), stages=3, through_shared=True),
    "conversions": lambda: _conversions,
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_changes_what_it_is_given(name, arch):
    request = CompileRequest(parse_target(cuda(arch)))
    context, value = CudaContext(request, options_of(request)), PROGRAMS[name]()
    records = []
    for step in PIPELINE:
        before = printed(value)
        records.append((step.name, value, before))
        value = step.run(value, context)
        for earlier, record, text in records:
            assert printed(record) == text, f"{step.name} changed what {earlier} was given"


def test_records_cannot_be_changed():
    request = CompileRequest(parse_target(cuda()))
    context, value = CudaContext(request, options_of(request)), PROGRAMS["gemm"]()
    for step in PIPELINE:
        value = step.run(value, context)
    (kernel,) = value.kernels
    for field in fields(kernel):
        with pytest.raises(FrozenInstanceError):
            setattr(kernel, field.name, None)


_UNUSED = """
import sys
import tilelang.language as T
from testing.python.target.cuda.programs import matmul
from tilelang.target.cuda.compile import lower
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest

program = matmul(256, 256, 256, (128, 128, 32), stages=3)
lower(program, CompileRequest(parse_target({"kind": "cuda", "arch": "sm_90a"})))
print(*(name for name in sys.modules if name.startswith("tilelang.target.cuda.")))
"""


def test_a_product_reads_no_module_that_it_has_no_use_for():
    """Conflicts between layouts, conversions, and schedules of pipelined loops: a process that has none does not load them."""
    ran = subprocess.run([sys.executable, "-c", _UNUSED], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.removeprefix("tilelang.target.cuda.") for name in ran.stdout.split()}
    assert "inference.solver" in loaded and "specialize.consumer" in loaded
    unused = {"inference.search", "inference.sections", "inference.conversion", "inference.warp_shuffle", "schedule.plan"}
    assert not loaded & {*unused, "schedule.dependence", "codegen.pipelined"}
