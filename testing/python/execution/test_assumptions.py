"""``T.assume`` over sizes and integer arguments is checked before anything runs, with every backend."""

from __future__ import annotations

import ctypes

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import interpreter
from tilelang.assumptions import assumptions_of
from tilelang.errors import ArgumentError

CUDA = {"kind": "cuda", "arch": "sm_80"}
EVERYWHERE = [
    ("interpret", "auto"),
    *(("cpu", backend) for backend in ("tvm_ffi", "ctypes", "cython", "torch")),
    *(("c", backend) for backend in ("tvm_ffi", "ctypes")),
    *((CUDA, backend) for backend in ("tvm_ffi", "ctypes", "cython", "nvrtc", "torch")),
]


def scaled():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), m: T.uint32, k: T.int32, B: T.Tensor((n,), "float32")):
        T.assume(n % 8 == 0)
        assert n != 136, "an odd number of tiles"
        T.Assert(n != 152)
        size = n * 4 + k
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            T.assume(n <= 256 and not (m == 7) and A[0] < 100)
            T.assume(size > 0)
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    B[bx * 64 + i] = tile[bx * 64 + i] + k

    return main


BROKEN = {
    (60, 0, 0): r"main: T\.assume\(\(n % 8\) == 0\) does not hold: n is 60\n  --> .*test_assumptions\.py:\d+\n .*n % 8 == 0",
    (136, 0, 0): r"main: an odd number of tiles: n != 136 does not hold: n is 136\n  --> .*\n .*assert n != 136",
    (152, 0, 0): r"main: n != 152 does not hold: n is 152\n",
    (264, 0, 0): r"main: T\.assume\(n <= 256\) does not hold: n is 264\n",
    (64, 7, 0): r"main: T\.assume\(not \(.*m.* == 7\)\) does not hold: m is 7\n",
    (64, 0, -256): r"main: T\.assume\(\(\(n \* 4\) \+ k\) > 0\) does not hold: k is -256, n is 64\n",
}


@pytest.mark.parametrize(("target", "backend"), EVERYWHERE, ids=str)
def test_a_call_that_breaks_an_assumption_is_an_error_before_anything_runs(target, backend):
    with tilelang.simulator():
        kernel = tilelang.compile(scaled(), target=target, execution_backend=backend)
        for (size, m, k), message in BROKEN.items():
            b = torch.full((size,), 7.0)
            with pytest.raises(ArgumentError, match=message):
                kernel(torch.ones(size), m, k, b)
            assert (b == 7).all()
        b = torch.zeros(64)
        kernel(torch.ones(64), 2**32 - 1, 2, b)
        assert (b == 3).all()


def test_assumptions_in_wide_numbers():
    """A product that int32 does not hold is not taken for a small one."""

    @T.prim_func
    def main(m: T.int32, B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            T.assume(m * 65536 <= 1024)
            B[0] = m

    kernel = tilelang.compile(main, target="cpu")
    with pytest.raises(ArgumentError, match="m is 65536"):
        kernel(65536, torch.zeros(1, dtype=torch.int32))


def test_assumptions_that_may_be_skipped_are_not_checked_by_the_call():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), m: T.int32, x: T.float32):
        if m > 100:
            with T.Kernel(1, threads=32):
                T.assume(m <= 4)
        with T.Kernel(1, threads=32):
            for i in T.serial(m):
                T.assume(m <= 4)
                A[i] = i
            if m > 4:
                T.assume(m <= 3)
            T.assume(A[0] < 2 and x < 1.0)
            if m == 3:
                return
            T.assume(m != 3)

    kernel = tilelang.compile(main, target="cpu")
    assert assumptions_of(kernel.artifact) == ()
    kernel(torch.zeros(4, dtype=torch.int32), 3, 0.5)


def test_the_entry_for_programs_in_c_checks_too(tmp_path):
    @T.prim_func
    def main(m: T.int32, B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            T.assume(m <= 4)
            B[0] = m

    kernel = tilelang.compile(main, target="cpu", execution_backend="ctypes")
    kernel.export_library(tmp_path / "main.so")
    library = ctypes.CDLL(str(tmp_path / "main.so"))
    library.tilelang_last_error.restype = ctypes.c_char_p
    b = torch.zeros(1, dtype=torch.int32)
    assert library.main_call(ctypes.c_int64(5), ctypes.c_void_p(b.data_ptr()), None) != 0
    assert library.tilelang_last_error().decode().endswith("T.assume(m <= 4) does not hold")
    assert library.main_call(ctypes.c_int64(4), ctypes.c_void_p(b.data_ptr()), None) == 0 and b.item() == 4


def test_assumptions_about_data_are_the_interpreters():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                T.assume(A[bx * 32 + i] < 50)
                B[bx * 32 + i] = A[bx * 32 + i]

    a = torch.arange(64, dtype=torch.int32)
    (finding,) = interpreter.run(main, a, torch.zeros_like(a))
    assert str(finding).startswith("assumption: T.assume(A[((bx * 32) + i)] < 50) does not hold, block (1)")
    assert finding.location.excerpt().splitlines()[1].endswith("T.assume(A[bx * 32 + i] < 50)")
    assert interpreter.run(main, a.clamp(max=49), torch.zeros_like(a)) == []


@pytest.mark.parametrize(("target", "backend"), EVERYWHERE, ids=str)
def test_assumptions_over_arguments_of_uint64(target, backend):
    """Hosts hold these as 64 bits, of which the highest is no sign."""

    @T.prim_func
    def main(x: T.uint64, y: T.uint64, B: T.Tensor((1,), "uint64")):
        T.assume(x < y)
        T.assume(x >= 4)
        T.assume(y != 7)
        with T.Kernel(1, threads=32):
            B[0] = x

    large = 2**63
    with tilelang.simulator():
        kernel = tilelang.compile(main, target=target, execution_backend=backend, out_idx=-1)
        for x, y in ((4, 5), (6, large), (large, large + 1), (large - 1, 2 * large - 1)):
            assert kernel(x, y).tolist() == [x]
        for x, y in ((3, 9), (6, 6), (6, 7), (large, 9), (large + 1, large), (large, large - 1)):
            with pytest.raises(ArgumentError, match="does not hold"):
                kernel(x, y)
