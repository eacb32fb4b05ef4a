"""``T.print`` and assertions."""

import inspect
import re
import subprocess
import sys
import textwrap

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang.errors import CompileError, TileLangError

from .support import run


def test_print(capfd):
    @T.prim_func
    def main(A: T.Tensor((2, 2), "int32"), x: T.float32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2, 2), "int32")
            T.copy(A, tile)
            T.print("only text")
            T.print(x, msg="scalar")
            T.print(tile, "tile")
            print("python", A[1, 0])
            print("while compiling")

    run(main, torch.tensor([[1, 2], [3, 40]], dtype=torch.int32), 2.5)
    out = capfd.readouterr().out
    assert "only text" in out and "scalar" in out and "2.5" in out
    assert "tile" in out and "40" in out
    assert "python" in out and "while compiling" in out


def what_debugging_reads():
    @T.prim_func
    def line(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.print(A[0])
            A[0] = 1

    @T.prim_func
    def tensor(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.print(A)
            for i in T.Parallel(64):
                A[i] = 1

    @T.prim_func
    def condition(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.device_assert(A[3] == 0, "not yet")
            for i in T.Parallel(64):
                A[63 - i] = 1
            T.device_assert(A[3] == 1, "changed")

    return line, tensor, condition


@pytest.mark.parametrize("program", what_debugging_reads(), ids=lambda program: program.attrs["global_symbol"])
def test_stores_wait_for_debugging(program):
    """Every thread reads what a line shows and what an assertion checks, so a barrier stands before another's store."""
    a = torch.zeros(64, dtype=torch.int32)
    assert not simulate(program, a)
    assert a[0] == 1


ASSERTING = """
import tilelang, torch
import tilelang
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((4,), "int32")):
    with T.Kernel(4, threads=1) as bx:
        T.device_assert(A[bx] >= 0, "negative input")


kernel = tilelang.compile(main, target="cpu")
kernel(torch.arange(4, dtype=torch.int32))
print("first call passed", flush=True)
kernel(-torch.arange(4, dtype=torch.int32))
"""


def test_device_assert(tmp_path):
    script = tmp_path / "asserting.py"
    script.write_text(textwrap.dedent(ASSERTING))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert "first call passed" in done.stdout, done.stderr
    assert done.returncode != 0
    assert "negative input" in done.stdout + done.stderr


@pytest.mark.parametrize("target", ["cpu", "c", "interpret", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_a_failed_assertion_names_its_line_first(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                T.device_assert(A[i] < 20, "too large")

    line = main_line("T.device_assert(")
    with tilelang.simulator(), pytest.raises(TileLangError) as failed:
        tilelang.compile(main, target=target)(torch.arange(32, dtype=torch.int32))
    assert f"test_debug.py:{line}: T.device_assert failed: too large" in str(failed.value) + capfd.readouterr().out


@pytest.mark.parametrize("target", ["cpu", "interpret", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_an_assertion_may_leave_out_its_line(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                T.device_assert(A[i] < 20, "too large", no_stack_info=True)

    with tilelang.simulator(), pytest.raises(TileLangError) as failed:
        tilelang.compile(main, target=target)(torch.arange(32, dtype=torch.int32))
    said = str(failed.value) + capfd.readouterr().out
    assert "T.device_assert failed: too large" in said and not re.search(r"\.py:\d+: T\.device_assert", said)


def main_line(text):
    """The first line of the test above that has ``text``."""
    lines, first = inspect.getsourcelines(test_a_failed_assertion_names_its_line_first)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_assert_statement_is_a_device_assert():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=1) as bx:
            assert A[bx] < 10, "too large"

    run(main, torch.arange(4, dtype=torch.int32))
    with pytest.raises((TileLangError, RuntimeError), match="too large"):
        run(main, torch.arange(4, dtype=torch.int32) * 5)


def test_an_assertion_that_is_always_false():
    with pytest.raises(CompileError, match="the assertion is false for all arguments: tile too small"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                T.device_assert(2 > 3, "tile too small")


@pytest.mark.parametrize("target", ["cpu", "c", "interpret", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_a_print_is_a_line_of_its_texts_and_values(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), H: T.Tensor((2,), "float16"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1) as bx:
            width = 3
            print(f"block {bx} of {width:02d}: {A[1]!r}")
            T.print(f"a={A[2]}, 100%")
            print(f"{A[1]} {H[0]}")
            T.print("two", A[3], bx)
            print("x", A[2] + 1, "y", A[3] > 3)
            print(A[1], "of A")
            begin = "sum: " + f"{A[1]}"
            print(begin + f" + {A[2]}" + ".", f"[{begin}]")
            print("a row:", H)
            T.print(H, "tile")
            T.print(A[1], H, "after", A[2])
            T.print(T.uint64(2**64 - 1), T.float64(0.1))
            name = f"{width}"
            assert name == "3"
            print(", ".join(str(A[i]) for i in (1, 2)) + repr(A[3]) + format(bx))
            B[0] = 0

    with tilelang.simulator():
        kernel = tilelang.compile(main, out_idx=-1, target=target)
        kernel(torch.arange(4, dtype=torch.int32) * 10, torch.tensor([0.5, 2], dtype=torch.float16))
    where = ": block=(0, 0, 0) thread=(0, 0, 0)"
    said = [line.removesuffix(where) for line in capfd.readouterr().out.splitlines() if "H[" not in line]
    assert said == [
        "block 0 of 03: 10", "a=20, 100%", "10 0.5", "two 30 0", "x 21 y 1", "10 of A", "sum: 10 + 20. [sum: 10]", "10 ",
        "after 20", "18446744073709551615 0.1", "10, 20300",
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "interpret", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_a_block_prints_once_what_its_threads_agree_on(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), x: T.int32):
        with T.Kernel(2, threads=64) as bx:
            held = T.alloc_fragment((4,), "int32")  # each element in sixteen threads
            wide = T.alloc_shared((2, 2), "float64")
            T.copy(A, held)
            T.fill(wide, 1e300)
            T.print(wide[1, 0:2], "100%")
            T.print(bx, "block")
            T.print(held)
            if x > 0:
                print("told", x)
            T.device_assert(x < 7, "too large")

    kernel = tilelang.compile(main, target=target)
    with tilelang.simulator(strict=True):
        kernel(torch.arange(4, dtype=torch.int32), 5)
    said = [line.split(": block=")[0] for line in capfd.readouterr().out.splitlines()]
    assert sorted(said) == sorted(
        [
            "block 0",
            "block 1",
            *["told 5"] * 2,
            *[f"held[{i}] = {i}" for i in range(4)] * 2,
            *[f"100% wide[1, {i}] = 1e+300" for i in (0, 1)] * 2,
        ]
    )
    with tilelang.simulator(), pytest.raises(TileLangError):
        kernel(torch.arange(4, dtype=torch.int32), 8)
    assert capfd.readouterr().out.count("too large") <= 2  # in each block


def test_a_program_of_the_command_line_has_its_source():
    program = (
        "import tilelang, tilelang.language as T\n\n"
        "@T.prim_func\ndef main(A: T.Tensor((8,), 'float32')):\n    with T.Kernel(1):\n        A[9] = 0\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert "index 9 is out of range for axis 0 of A" in said and "6 |         A[9] = 0" in said


@pytest.mark.parametrize("target", ["interpret", {"kind": "cuda", "arch": "sm_80"}], ids=str)
def test_threads_between_others_print_and_assert(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), x: T.int32):
        with T.Kernel(1, threads=64):
            thread = T.get_thread_binding()
            if thread % 16 == 3:
                T.print(x, "chosen")
                T.device_assert(A[thread] < x, "too large")

    kernel = tilelang.compile(main, target=target)
    with tilelang.simulator(strict=True):
        kernel(torch.arange(64, dtype=torch.int32), 60)
    assert capfd.readouterr().out.count("chosen") == 4
    with tilelang.simulator(), pytest.raises(TileLangError):
        kernel(torch.arange(64, dtype=torch.int32), 40)
