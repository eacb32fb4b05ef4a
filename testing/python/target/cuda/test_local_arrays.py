"""An array of ``T.alloc_local`` is each thread's own; whatever nests do with it, the result is that of the program in order."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import UnsupportedError

ARCHS = pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
ROWS = torch.arange(1024, dtype=torch.float32)


def vector_program(body, size=1024, threads=128):
    """A program over two vectors, ``body(A, B)`` in one block."""

    @T.prim_func
    def program(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=threads):
            body(A, B)

    return program


def on_all(program, *tensors, arch):
    """What the CPU and the simulator make of the tensors, which must be the same."""
    expected, found = [tensor.clone() for tensor in tensors], [tensor.clone() for tensor in tensors]
    tilelang.compile(program, target="cpu")(*expected)
    simulate(program, *found, arch=arch)
    for ours, wanted in zip(found, expected):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0)
    return found


@T.macro
def reversed_by_another_nest(A, B):
    local = T.alloc_local((1024,), "float32")
    for i in T.Parallel(1024):
        local[i] = A[i] * 2
    for i in T.Parallel(1024):
        B[i] = local[1023 - i]


@T.macro
def read_one_by_one(A, B):
    local = T.alloc_local((8,), "float32")
    T.copy(A[0:8], local)
    for i in T.serial(8):
        B[i] = local[7 - i]


@T.macro
def filled_by_a_nest_and_read_one_by_one(A, B):
    local, total = T.alloc_local((8,), "float32"), T.alloc_var("float32", init=0)
    for i in T.Parallel(8):
        local[i] = A[i] + 1
    for i in T.serial(8):
        total += local[i]
    B[0] = total


@T.macro
def filled_from_a_fragment(A, B):
    fragment, local = T.alloc_fragment((1024,), "float32"), T.alloc_local((4,), "float32")
    T.copy(A, fragment)
    for i in T.Parallel(4):
        local[i] = fragment[i * 256 + 1]
    for i in T.Parallel(1024):
        B[i] = fragment[i] + local[i // 256]
    B[0] = local[3]


@T.macro
def taken_out_of_a_tile(A, B):
    tile, local = T.alloc_shared((1024,), "float32"), T.alloc_local((4,), "float32")
    T.copy(A, tile)
    for i in T.Parallel(4):
        local[i] = tile[i]
        tile[i] = tile[i] + 100
    T.copy(tile, B)
    B[5] = local[3]


@T.macro
def counted_once(A, B):
    local = T.alloc_local((4,), "float32")
    for i in T.Parallel(4):
        local[i] = A[i]
        T.atomic_add(B[i], 1)
    B[5] = local[3]


@T.macro
def part_by_part(A, B):
    local = T.alloc_local((2, 8), "float32")
    T.clear(local)
    for k in T.serial(2):
        T.copy(A[k * 8 : k * 8 + 8], local[k, :])
    T.copy(local[1, :], B[0:8])
    for i in T.serial(8):
        B[16 + i] = local[0, i] - local[1, 7 - i]


PROGRAMS = [
    reversed_by_another_nest, read_one_by_one, filled_by_a_nest_and_read_one_by_one, filled_from_a_fragment, taken_out_of_a_tile,
    counted_once, part_by_part,
]  # fmt: skip


@ARCHS
@pytest.mark.parametrize("body", PROGRAMS, ids=lambda body: body.__name__)
def test_all_threads_see_what_a_nest_stored(body, arch):
    on_all(vector_program(body), ROWS, torch.zeros(1024), arch=arch)


@ARCHS
def test_each_thread_copies_its_own_part(arch):
    @T.prim_func
    def program(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32"), sums: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            own, twice, total = T.alloc_local((8,), "float32"), T.alloc_local((8,), "float32"), T.alloc_local((1,), "float32")
            T.clear(total)
            T.copy(A[tx * 8 : tx * 8 + 8], own)
            for i in T.Parallel(8):
                twice[i] = own[i] * 2
            for i in T.serial(8):
                total[0] += own[i]
            T.copy(twice, B[tx * 8 : tx * 8 + 8])
            sums[tx] = total[0]

    doubled, sums = torch.zeros(1024), torch.zeros(128)
    simulate(program, ROWS, doubled, sums, arch=arch)
    assert torch.equal(doubled, ROWS * 2) and torch.equal(sums, ROWS.reshape(128, 8).sum(1))


@ARCHS
def test_all_accumulators_of_a_thread_are_cleared(arch):
    @T.prim_func
    def program(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            sums = T.alloc_local((4,), "float32")
            T.clear(sums)
            for row in T.serial(4):
                for step in T.serial(3):
                    sums[row] += A[row, (tx + step) % 64]
            for row in T.serial(4):
                B[row, tx] = sums[row]

    a, b = torch.arange(256, dtype=torch.float32).reshape(4, 64), torch.zeros(4, 64)
    simulate(program, a, b, arch=arch)
    assert torch.equal(b, a + a.roll(-1, 1) + a.roll(-2, 1))


@ARCHS
def test_a_reduction_of_a_thread_local_array_is_per_thread(arch):
    @T.prim_func
    def program(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            own, highest = T.alloc_local((8,), "float32"), T.alloc_local((1,), "float32")
            for i in T.serial(8):
                own[i] = A[tx, i]
            T.reduce_max(own, highest, dim=0)
            B[tx] = highest[0]

    a, b = torch.randn(64, 8), torch.zeros(64)
    simulate(program, a, b, arch=arch)
    assert torch.equal(b, a.max(1).values)


@ARCHS
def test_threads_of_a_branch_fill_arrays(arch):
    @T.prim_func
    def program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            local = T.alloc_local((4,), "float32")
            if tx < 64:
                T.copy(A[0:4], local)
                for i in T.Parallel(4):
                    local[i] = local[i] + 1
                B[tx] = local[tx % 4]

    b = torch.zeros(64)
    simulate(program, ROWS[:64], b, arch=arch)
    assert torch.equal(b, (ROWS[:4] + 1).repeat(16))


def test_scratch_of_an_iteration_is_shared_out():
    @T.prim_func
    def program(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64):
            local = T.alloc_local((8,), "float32")
            for i, j in T.Parallel(64, 8):
                local[j] = A[i, j]
                B[i, j] = local[j] + 1

    assert "const int j = (tid & 1) * 4" in source(program)
    on_all(program, ROWS[:512].reshape(64, 8), torch.zeros(64, 8), arch="sm_80")


def test_scratch_filled_by_every_iteration_may_be_used_by_several_nests():
    @T.prim_func
    def program(A: T.Tensor((4, 64), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=64):
            local, tile = T.alloc_local((4,), "float32"), T.alloc_fragment((64, 4), "float32")
            T.clear(tile)
            for k in range(2):
                for i, j in T.Parallel(64, 2):
                    for q in T.unroll(4):
                        local[q] = A[q, i] + j
                    tile[(i + 5) % 64, 2 * k + j] = local[0] + local[3 - k]
            T.copy(tile, B)

    on_all(program, ROWS[:256].reshape(4, 64), torch.zeros(64, 4), arch="sm_80")


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1 << 17), ("int8", 1 << 19)])
def test_an_array_has_at_most_the_local_memory_of_a_thread(dtype, most):
    def program(count):
        @T.prim_func
        def main(B: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                tx, w = T.get_thread_binding(), T.alloc_local((count,), dtype)
                w[tx] = 3
                B[tx] = w[tx]

        return main

    simulate(program(most), b := torch.zeros(32))
    assert (b == 3).all()
    with pytest.raises(UnsupportedError, match=r"w has 52\d{4} bytes in each thread, and a thread 524288 bytes") as caught:
        tilelang.compile(program(most + 1), target="cuda -arch=sm_80")
    assert "T.alloc_local((count,), dtype)" in str(caught.value)
