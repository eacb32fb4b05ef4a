"""Where an error points, and what a terminal shows of it: file, line, column, and few lines."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import tilelang.language as T
from tilelang.errors import (
    CompileError,
    GemmShapeError,
    TraceError,
)

from .support import error_at_mark


def test_undefined_name():
    with error_at_mark(TraceError, "NameError: name 'undefined_name' is not defined") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0] = undefined_name  # noqa: F821  # <- error

    assert "undefined_name" in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 keeps the lines of instructions, not their columns")
def test_column_of_the_statement():
    with pytest.raises(GemmShapeError) as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a = T.alloc_shared((16, 16), "float16")
                c = T.alloc_fragment((16, 32), "float32")
                T.gemm(a, a, c)

    location = caught.value.location
    assert location.column == 17
    assert location.end_column == location.column + len("T.gemm(a, a, c)")


PROGRAM = """
import tilelang.language as T


def make(M, N):
    @T.prim_func
    def gemm(A: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 32), "float16")
            b = T.alloc_shared((64, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            {statement}

    return gemm


make(64, 64)
"""


@pytest.mark.parametrize(
    "statement",
    ["T.gemm(a, b, c)", "undefined_name + 1", "T.copy(a, b)", "a[64, 0] = 0.0", "T.gemm(a, c, c, transpose_A=True)"],
)
def test_terminal_output_is_short(tmp_path, statement):
    script = tmp_path / "kernel.py"
    script.write_text(textwrap.dedent(PROGRAM).format(statement=statement))
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    lines = run.stderr.rstrip().splitlines()
    assert run.returncode == 1
    assert len(lines) < 15, run.stderr
    assert f"{script}:12" in run.stderr
    assert statement in run.stderr
    assert "tvm" not in run.stderr


MISTAKES = {
    "x = A[0] << 1": r"<< takes integers, and A\[0\] is a float32",
    "x = math.sqrt(A[0])": r"TensorLoad\n.*(\n.*)*hint: functions of other libraries do not take run-time values",
    "A += 1": r"unsupported operand.*(\n.*)*hint: operators take elements",
    "A @= A": r"tiles are not multiplied by @(.*\n)*.*hint: T.gemm",
    "A[T.Kernel(2) * 4] = 0": r"context manager(.*\n)*.*hint: write `with T.Kernel",
    "bx, by = T.Kernel(2, 2)": "context manager",
    "for i in T.Parallel(2, 4): A[0] = i": r"got tuple \(i, \w+\)\n(.*\n)*.*hint: .*gives a tuple: for i, j in",
    "for i in T.Parallel(2, 4): A[i + 1] = 0": r"a tuple is used as a number\n(.*\n)*.*hint: .*gives a tuple",
    "for i in T.Parallel(2, 4): A[2 - i] = 0": r"a tuple is used as a number\n(.*\n)*.*hint: .*gives a tuple",
    "for i in T.Parallel(2, 4): A[-i] = 0": r"a tuple is used as a number\n(.*\n)*.*hint: .*gives a tuple",
    "for i in T.Parallel(2, 4): A[i * 0.5] = 0": r"a tuple is used as a number\n(.*\n)*.*hint: .*gives a tuple",
    "for i in T.Parallel(2, 4): A[0] = i * 99": r"got tuple \(i, .{,120} …\n",
    "i = T.program_id(0)": "no 'program_id': T.Kernel gives",
    "x = A(0)": "a buffer is called like a function",
    "x = (A[0] + 1)(2)": "a scalar of a kernel is called like a function",
    "x = A[0] + 1; A[1] = x(2)": "a scalar of a kernel is called like a function",
    "x = (A[0] + 1)[2]": r"a scalar of a kernel has no elements(.*\n)*.*hint: T.alloc_local",
    "x = -A[0]; x[2] = 1.0": "a scalar of a kernel has no elements",
    "x = -A[0]; A[1] = x[2]": "a scalar of a kernel has no elements",
    "x = len(A[0] + 1)": r"a scalar of a kernel has no len\(\)",
    "x = (A[0] + 1).sum()": "tensors and scalars of a kernel have no attribute 'sum'",
    "x = T.GemmWarpPolicy.FullRows": r"FullRows\n(.*\n)*.*hint: did you mean 'FullRow'\?",
    "x = random.choice([])": "Cannot choose from an empty sequence" if sys.version_info >= (3, 11) else "list index out of range",
    "T.coppy(A, A)": "no 'coppy'; did you mean 'copy'?",
    "s = T.alloc_shared((8 / 2,), 'float32')": r"T.alloc_shared: a size must be an integer(.*\n)*.*hint: .*use n // m",
    "for i in range(8 / 2): A[i] = 0": "the bound of a loop must be an integer, got .*4.0",
    "pass\n    with T.Kernel(8 / 2): A[0] = 0": "T.Kernel: a grid size must be an integer, got .*4.0",
    "for i in T.Parallel(8 / 2): A[i] = 0": "use n // m or T.ceildiv",
    "for i in T.Pipelined(4, num_stages=-1): A[i] = 0": "num_stages must be a compile-time integer from 0 on, got -1",
    "for i in T.Pipelined(4, num_stages='2'): A[i] = 0": "expected a scalar, got str '2'",
    "A[0] = A[2:6]": r"a slice of 4 elements is used as a scalar(.*\n)*.*hint: name an element",
    "x = T.cast(A[0], 'int32') / 3": r"/ between two run-time integers\n(.*\n)*.*hint: use //",
    "A[0] = A[2:6] + 1": "a slice of 4 elements is used as a scalar",
}


@pytest.mark.parametrize("statement", MISTAKES)
def test_common_mistakes_name_the_users_line(statement, tmp_path, monkeypatch):
    (tmp_path / "mistaken.py").write_text(
        "import math, random\nimport tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n"
        f"    with T.Kernel(1):\n        {statement}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mistaken", raising=False)
    with pytest.raises(CompileError, match=MISTAKES[statement]) as caught:
        importlib.import_module("mistaken")
    line = 6 + statement.count("\n")
    assert (caught.value.location.file, caught.value.location.line) == (str(tmp_path / "mistaken.py"), line)


def test_an_allocation_outside_of_programs_takes_few_lines(tmp_path):
    script = tmp_path / "outside.py"
    script.write_text('import tilelang.language as T\ntile = T.alloc_shared((4,), "float32")\n')
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
    assert "T.alloc_shared only works inside a kernel" in said and f"{script}:2" in said
    assert len(said.splitlines()) < 15, said
