"""The smallest programs of faults that random programs have shown: every target does what the interpreter does."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.definition import check_meaning
from tilelang import interpreter

BITS = {
    "a row": lambda i, j: (i >> 1, j),
    "of both axes": lambda i, j: ((i * 32 + j) >> 6, j ^ 1),
    "columns": lambda i, j: (i & 3, j >> 1),
}
TARGETS = {"cpu": "cpu", "c": "c", "sm_80": cuda("sm_80"), "sm_90a": cuda("sm_90a")}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def check(program: Any, target: Any, *tensors: torch.Tensor) -> None:
    """Runs a program on ``target`` and in the interpreter, on tensors that it reads and writes."""
    expected = [tensor.clone() for tensor in tensors]
    assert interpreter.run(program, *expected) == []
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target=target)(*tensors)
    for found, wanted in zip(tensors, expected):
        assert torch.equal(found, wanted)


@every_target
@pytest.mark.parametrize("memory", ["shared", "fragment", "view"])
def test_a_place_in_the_tile_that_is_written(memory, target):
    @T.prim_func
    def main(A: T.Tensor((2, 64), "int32"), B: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((2, 64), "int32") if memory == "fragment" else T.alloc_shared((2, 64), "int32")
            T.copy(A, tile)
            row = T.reshape(tile, (128,))[0] if memory == "view" else tile[0, 0]
            T.copy(A[0, :], tile[row, :])
            T.copy(A[1, :], tile[tile[0, 0], :])
            T.fill(tile[0, :], tile[0, 3] + tile[1, 3])
            T.copy(tile, B)

    check(main, target, torch.full((2, 64), 1, dtype=torch.int32), torch.zeros((2, 64), dtype=torch.int32))


@every_target
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_an_element_of_four_bits_beside_one_that_another_iteration_stores(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), dtype), B: T.Tensor((8, 8), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), dtype)
            T.copy(A, tile)
            for i, j in T.Parallel(8, 8):
                x = T.cast(tile[i, (j + 3) % 8], "int32")
                tile[i, (j + 3) % 8] = T.cast(T.max(T.cast(tile[i, (j + 3) % 8], "int32"), x - 1), dtype)
            T.copy(tile, B)

    check(main, target, torch.randint(0, 255, (8, 4), dtype=torch.uint8), torch.zeros((8, 4), dtype=torch.uint8))


@every_target
@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5])
def test_powers_of_an_expression(exponent, target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.abs(A[i]) ** exponent + A[i] ** 1

    check(main, target, torch.arange(8).float() + 1, torch.zeros(8))


@every_target
@pytest.mark.parametrize("size", [1, 2])
def test_a_slice_of_one_element_computed_in_place(size, target):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((size,), "float32")
            T.copy(A, tile)
            tile[:] *= -1
            T.copy(tile, B)

    check(main, target, torch.arange(size).float() + 1, torch.zeros(size))


@every_target
def test_a_condition_that_is_likely(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A, tile)
            if T.likely(tile[3] > 2):
                for i in T.Parallel(8):
                    tile[i] = T.if_then_else(T.likely(tile[i] > 4), 1, tile[i])
            T.copy(tile, B)

    check(main, target, torch.arange(8).float(), torch.zeros(8))


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("stages", [0, 2])
def test_a_copy_from_outside_of_a_tensor_with_a_safe_value(stages, dtype, target):
    @T.prim_func
    def main(A: T.Tensor((3, 64), dtype), B: T.Tensor((4, 64), dtype)):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: 3})
            tile = T.alloc_shared((2, 64), dtype)
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[2 * k, 0], tile)
                T.copy(tile, B[2 * k, 0])

    ones, result = (make((rows, 64), dtype=getattr(torch, dtype)) for make, rows in ((torch.ones, 3), (torch.zeros, 4)))
    check(main, target, ones, result)
    assert torch.equal(result[3], ones[0] * 3)


@every_target
def test_a_safe_value_holds_for_what_follows_it_in_its_block(target):
    @T.prim_func
    def main(A: T.Tensor((3,), "float32"), N: T.Tensor((1,), "int32"), B: T.Tensor((6, 4), "float32")):
        with T.Kernel(1, threads=32):
            n = N[0]
            tile = T.alloc_shared((4,), "float32")
            T.copy(A[0], B[0, :])
            T.annotate_safe_value({A: 1})
            T.copy(A[0], B[1, :])
            T.annotate_safe_value({A: n})
            T.copy(A[0], tile)
            T.copy(tile, B[2, :])
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0], tile)
                T.annotate_safe_value({A: 3 + k})
                for i in T.Parallel(4):
                    B[3 + k, i] = tile[i] + A[i]
            if n > 1:
                T.annotate_safe_value({A: 5})
            T.copy(A[0], B[5, :])

    result = torch.zeros(6, 4)
    check(main, target, torch.zeros(3), torch.tensor([2], dtype=torch.int32), result)
    assert result[:, 3].tolist() == [0, 1, 2, 2 + 3, 2 + 4, 2]


@every_target
def test_a_directed_rounding_of_constants(target):
    @T.prim_func
    def main(B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2):
                B[i] = T.ieee_fmaf(T.float32(-2), T.float32(0.1), T.float32(1), "ru") + i

    check(main, target, torch.zeros(2))


@every_target
def test_a_tile_of_three_elements_read_one_by_one(target):
    @T.prim_func
    def main(A: T.Tensor((3,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((3,), "float32")
            T.copy(A, tile)
            B[0] = tile[0] + tile[1] + tile[2]

    check(main, target, torch.arange(3).float(), torch.zeros(1))


@every_target
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [0, 1], ids=["aligned", "odd rows"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_neighbours_in_a_tile_that_are_added_to_a_tensor(lanes, width, dtype, target):
    """The rows of a tensor of odd width begin where no instruction can add two elements at once."""
    name, width = str(dtype).removeprefix("torch."), lanes + width

    @T.prim_func
    def main(A: T.Tensor((32, lanes), name), B: T.Tensor((32, width), name)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, lanes), name)
            T.copy(A, tile)
            for i in T.Parallel(32):
                (T.atomic_addx2 if lanes == 2 else T.atomic_addx4)(B[i, 0], tile[i, 0])

    check(main, target, torch.arange(32 * lanes).reshape(32, lanes).to(dtype), torch.zeros(32, width, dtype=dtype))


@pytest.mark.parametrize("first", [-1, 1])
@every_target
def test_a_copy_of_a_fragment_is_not_kept_beyond_a_store_to_its_view(first, target):
    """The branch stores by another name of the fragment whose element decides it, and is read after it."""

    @T.prim_func
    def main(A: T.Tensor((1, 1), "float16"), B: T.Tensor((4, 1), "float32")):
        with T.Kernel(1, threads=32) as bx:
            held = T.alloc_fragment((4, 1), "float32")
            T.copy(B[bx * 4, 0], held)
            tile = T.alloc_shared((1,), "float16")
            T.copy(A[bx, 0], tile)
            if held[0, 0] > 0:
                view = T.reshape(held, (1, 4))
                spread = T.Fragment((1, 4), forward_fn=lambda i, j: (i % 16 * 2 + j // 2, i // 16 * 2 + j % 2))
                for i, j in T.Parallel(1, 4, loop_layout=spread):
                    view[i, j] = 7
            for i in T.Parallel(0, 1, 2):
                tile[i] = held[bx % 4, 0]
            T.copy(tile, A[bx, 0])

    check(main, target, torch.zeros(1, 1).half(), torch.full((4, 1), float(first)))


@every_target
def test_an_absolute_value_of_a_clamped_number_among_narrow_ones(target):
    """Of a comparison and a negation that stand for it LLVM made wrong machine code, in this kernel."""

    @T.prim_func
    def main(A: T.Tensor((2, 7, 4), "uint32"), B: T.Tensor((2, 4), "float32"), C: T.Tensor((4, 8, 7), "float32"),
             D: T.Tensor((2, 4, 8, 7), "float32"), E: T.Tensor((2, 4), "uint16")):  # fmt: skip
        with T.Kernel(2, threads=32) as bx:
            narrow = T.alloc_fragment((4,), "uint16")
            tile = T.alloc_shared((7, 4), "uint32")
            T.copy(A[bx, 0, 0], tile)
            total = T.alloc_fragment((8, 7), "float32")
            T.fill(total, 1)
            T.copy(tile[bx % 7, :], narrow)
            for i in T.Parallel(0, 4, 2):
                narrow[i] = T.cast(T.abs(T.clamp(2 + T.cast(B[0, i], "int32"), -4, 4)), "uint16")
            for _ in T.serial(bx + 1):
                image = T.alloc_shared((8, 7), "float32")
                for k in T.serial(4):
                    T.copy(C[k, 0, 0], image)
                    for i, j in T.Parallel(8, 7):
                        total[i, j] += image[i, 6 - j]
                    T.copy(total, D[bx, k, 0, 0])
            T.copy(narrow, E[bx, 0])

    a, e = torch.arange(56, dtype=torch.int32).reshape(2, 7, 4).view(torch.uint32), torch.zeros(2, 4, dtype=torch.uint16)
    check(main, target, a, torch.full((2, 4), -4.0), torch.ones(4, 8, 7), torch.zeros(2, 4, 8, 7), e)


@every_target
def test_remainders_whose_signs_go_to_a_general_register(target):
    """LLVM reads the mask of two signs by an instruction that cannot name the register that they are in."""

    @T.prim_func
    def main(
        A: T.Tensor((32, 4), "float16"), B: T.Tensor((4,), "float16"), C: T.Tensor((32, 4), "float16"),
        D: T.Tensor((32, 4), "float16"), E: T.Tensor((4, 32), "float16"), F: T.Tensor((32, 4), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32, 4), "float16")
            t = T.alloc_shared((32, 4), "float16")
            u = T.alloc_shared((4, 32), "float16")
            w = T.alloc_shared((4,), "float16")
            f = T.alloc_fragment((32, 4), "float16")
            T.copy(A, s)
            T.copy(A, t)
            T.copy(B, w)
            T.copy(A, f)
            for i, j in T.Parallel(32, 4):
                t[i, j] = T.cast(T.cast(T.cast((i + j) % 3, "float16"), "int32") % 7, "float16")
                u[j, i] = T.cast(T.cast(B[j] - f[i, j], "int32") % 7, "float16")
                if i < j:
                    s[i, j] = T.cast(T.cast(w[j] + u[j, i], "int32") % 7, "float16")
            for j, i in T.Parallel(4, 32):
                if w[j] > 1:
                    s[i, j] = T.cast(T.cast(u[j, i], "int32") % 7, "float16")
                f[i, j] = T.cast(T.cast(T.cast(3, "float16") - A[i, j], "int32") % 7, "float16")
            T.copy(s, D)
            T.copy(f, F)
            T.copy(u, E)
            for i, j in T.Parallel(32, 4):
                C[i, j] = C[i, j] + t[i, j]

    generator = torch.Generator().manual_seed(93)
    a, b, c = (torch.randint(0, 5, shape, generator=generator).half() for shape in ((32, 4), (4,), (32, 4)))
    check(main, target, a, b, c, torch.zeros(32, 4).half(), torch.zeros(4, 32).half(), torch.zeros(32, 4).half())


@every_target
def test_a_condition_around_a_kernel_reads_what_an_atomic_update_adds(target):
    """An atomic update writes the element that it is given, not those that its value is read from."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((8,), "int32")):
        if A[0] <= 3:
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8):
                    T.atomic_add(B[i], A[i % 4])

    check(main, target, torch.tensor([3, 5, 7, 9], dtype=torch.int32), torch.ones(8, dtype=torch.int32))


@every_target
def test_an_update_of_a_reducer_by_zero(target):
    """``r[i] + 0`` is simplified to ``r[i]`` while the program is traced, and is a step of the sum all the same."""

    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((8,), "int32")
            r = T.alloc_reducer((8,), "int32", op="sum")
            T.reducer_init(r, init=-1)
            for i, _ in T.Parallel(8, 4):
                T.reducer_update(r[i], 0)
            T.finalize_reducer(r, f)
            T.copy(f, B)
            T.reducer_init(r)
            for i, j in T.Parallel(8, 4):
                T.reducer_update(r[i], A[i, j])
                r[i] += 0
            T.finalize_reducer(r, f)
            T.copy(f, C)

    a = torch.arange(32, dtype=torch.int32).reshape(8, 4)
    check(main, target, a, torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32))


@pytest.mark.parametrize(("channels", "rows", "columns", "step"), [(1, 16, 16, 0), (16, 16, 80, 1), (4, 1, 24, 1), (3, 8, 1, 2)])
@every_target
def test_what_lies_right_of_a_matrix_of_patches_is_zero(channels, rows, columns, step, target):
    """The tile is wider than what is left of the matrix: its last columns belong to no tap. It may be one row or column."""

    @T.prim_func
    def main(A: T.Tensor((2, 5, 6, channels), "float16"), B: T.Tensor((rows, columns), "float16")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((rows, columns), "float16")
            T.c2d_im2col(A, s, 0, step, 3, 1, 1, 1)
            T.copy(s, B)

    a = torch.randint(1, 9, (2, 5, 6, channels), generator=torch.Generator().manual_seed(1)).half()
    check(main, target, a, torch.ones(rows, columns).half())


@every_target
def test_a_fact_about_a_variable_of_the_block(target):
    """On CUDA T.assume was taken to store to the variables that it names, and every thread ran the loop that reads one."""

    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((2, 2), "float16")):
        with T.Kernel(1, threads=64) as bx:
            s = T.alloc_shared((2, 2), "float16")
            f = T.alloc_fragment((2,), "int32")
            v = T.alloc_var("int32", init=1)
            T.clear(s)
            T.copy(A, f)
            for i in T.Parallel(2):
                s[v - 1 + bx, i] = s[v - 1 + bx, i] + 1
            T.assume(f[v % 2] >= 0)
            T.copy(s, B)

    check(main, target, torch.ones(2, dtype=torch.int32), torch.zeros(2, 2).half())


@every_target
def test_rows_of_a_fragment_in_descending_order(target):
    """TVM writes (6 - k) % 3 as -(k % -3); NVRTC took rows at twice its negative for others, so that a store was not seen."""

    @T.prim_func
    def main(A: T.Tensor((2, 12, 3), "uint16"), B: T.Tensor((2, 12, 3), "uint16")):
        with T.Kernel(2, threads=32) as bx:
            rows, tile = T.alloc_fragment((3, 2), "int8"), T.alloc_fragment((12, 3), "uint16")
            T.clear(rows)
            T.copy(A[bx, 0, 0], tile)
            for k in range(2, -1, -1):
                for i, j in T.Parallel(1, 2):
                    rows[i + 2, j] = 1
                for i in T.Parallel(3):
                    if bx == i:
                        continue
                    tile[5, i] = T.cast(T.max(T.cast(rows[(k + 4) % 3, 0], "int32"), T.cast(tile[5, i], "int32")), "uint16")
            T.copy(tile, B[bx, 0, 0])

    check(main, target, torch.zeros((2, 12, 3), dtype=torch.uint16), torch.zeros((2, 12, 3), dtype=torch.uint16))


@every_target
def test_a_loop_whose_extent_turns_out_to_be_zero(target):
    @T.prim_func
    def main(A: T.Tensor((4, 2), "int32"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 2), "int32")
            T.copy(A, tile)
            n = 0
            for i, j in T.Parallel(4, T.min(T.min(n, 3), 2)):
                tile[i, j] = 7
            T.copy(tile, B)

    check(main, target, torch.arange(8, dtype=torch.int32).reshape(4, 2), torch.zeros((4, 2), dtype=torch.int32))


@every_target
def test_blocks_that_store_the_same_tile(target):
    """Stores of the tensor memory accelerator were called a race, whatever they stored."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.copy(tile, B)

    tile = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).half()
    check(main, target, tile, torch.zeros(64, 64).half())
    # A worker may be stopped between the record of a row and its data: now and then, so here are many launches.
    kernel = tilelang.compile(main, target=target)
    with tilelang.simulator(strict=True):
        for _ in range(50):
            kernel(tile, torch.zeros(64, 64).half())


@every_target
def test_an_element_loaded_before_a_loop_by_threads_that_do_not_hold_it(target):
    """NVRTC loads it above the condition of the loop's body; the simulator called that a fault."""

    @T.prim_func
    def main(sums: T.Tensor((5,), "float32"), n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_fragment((2, 2, 2), "uint16")
            T.clear(tile)
            T.fill(tile[bx % 2, :, :], 2)
            for _ in T.serial(n):
                for _ in T.Parallel(5):
                    T.atomic_add(sums[0], T.cast(tile[0, 0, 0], "float32"))

    expected, found = torch.zeros(5), torch.zeros(5)
    assert interpreter.run(main, expected, 2) == []
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(found, 2)
    assert torch.equal(found, expected)


@every_target
def test_a_serial_loop_over_rows_of_a_fragment_that_never_runs(target):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 8), "float32")
            T.copy(A, tile)
            for k in range(2):
                for row in T.serial(T.min(k, 3)):
                    for i in T.Parallel(8):
                        tile[row, i] += 1
            for row in T.serial(0):
                T.fill(tile[row, :], 5)
            T.copy(tile, B)

    check(main, target, torch.ones(4, 8), torch.zeros(4, 8))


@every_target
@pytest.mark.parametrize("rows", [2, 4])
def test_a_slice_and_its_sums_whose_indices_name_different_axes(rows, target):
    @T.prim_func
    def main(A: T.Tensor((3, 2, rows, 4), "float32"), B: T.Tensor((3, 2, 4), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((3, 2, rows, 4), "float32"), T.alloc_shared((2, 3, 4), "float32")
            T.copy(A, a)
            for k in T.serial(2):
                T.reduce_sum(a[:, k, :, :], b[k, :, :], dim=1)
                T.copy(b[k, :, :], B[:, k, :])

    a, b = torch.randint(-4, 5, (3, 2, rows, 4)).float(), torch.zeros(3, 2, 4)
    check(main, target, a, b)
    assert torch.equal(b, a.sum(2))


@every_target
def test_an_extent_that_a_tensor_of_int64_has(target):
    @T.prim_func
    def main(A: T.Tensor((2, 2), "int32"), N: T.Tensor((2,), "int64"), B: T.Tensor((2, 2), "int32")):
        with T.Kernel(2, threads=32) as bx:
            for i, j in T.Parallel(2, T.min(N[bx], 2)):
                B[i, j] = A[T.cast(i, "uint32") % T.uint32(2), j % 2]

    check(
        main, target, torch.arange(4, dtype=torch.int32).view(2, 2), torch.tensor([2, 2]), torch.zeros((2, 2), dtype=torch.int32)
    )


@every_target
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_memory_that_has_a_view_of_vectors(reverse, target):
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            tile, sums = T.alloc_shared((4, 4), "float32"), T.alloc_shared((4, 4), "float32")
            T.copy(A, tile)
            vectors = T.view(tile, (4, 1), "float32x4")
            for i, j in T.Parallel(4, 1):
                vectors[i, j] = vectors[i, j] + vectors[i, j]
            T.cumsum(tile, sums, dim=1, reverse=reverse)
            T.copy(sums, B)

    check(main, target, torch.arange(16.0).view(4, 4), torch.zeros(4, 4))


@every_target
@pytest.mark.parametrize("outside", [False, True])
def test_a_view_of_a_tensor_at_an_address(outside, target):
    @T.prim_func
    def main(at: T.ptr("int32"), B: T.Tensor((2,), "int32")):
        A = T.make_tensor(at, (4,), "int32")
        if outside:
            V = T.Tensor((2, 2), "int32", A.data)
        with T.Kernel(1, threads=32):
            W = V if outside else T.Tensor((2, 2), "int32", A.data)
            T.copy(W[1, 0:2], B)
            B[0] += A[0]

    check(main, target, torch.arange(4, dtype=torch.int32), torch.zeros(2, dtype=torch.int32))


@every_target
@pytest.mark.parametrize("place", BITS.values(), ids=BITS)
def test_places_in_a_fragment_by_bits(place, target):
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((8, 32), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(8, 32):
                B[i, j] = tile[place(i, j)]

    check(main, target, torch.randn(8, 32), torch.zeros(8, 32))


@every_target
def test_shifts_of_two_tiles_that_cancel_in_the_number_of_the_thread(target):
    # `row[i, 8 + j]` lies in thread 4 i + 2 + j / 4 of its layout, and so does `tile[i, 1, j]`, from other digits.
    @T.prim_func
    def main(A: T.Tensor((8, 16), "int32"), B: T.Tensor((8, 2, 8), "float16")):
        with T.Kernel(1, threads=32):
            row = T.alloc_fragment((8, 16), "int32")
            tile = T.alloc_fragment((8, 2, 8), "float16")
            T.copy(A, row)
            T.copy(B, tile)
            T.copy(tile[:, 1, :], row[:, 8:16])
            T.copy(row, A)

    A = torch.arange(128, dtype=torch.int32).reshape(8, 16)
    check(main, target, A, torch.arange(128, dtype=torch.float16).reshape(8, 2, 8))


@every_target
def test_a_nest_of_extrema_is_as_long_as_it_has_terms(target):
    @T.prim_func
    def main(A: T.Tensor((32, 24), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = reduce(T.max, [T.clamp(A[i, k], -k, 90) for k in range(24)])

    A = torch.randint(-99, 99, (32, 24), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    check(main, target, A, torch.zeros(32, dtype=torch.int32))


@pytest.mark.parametrize("by_threads", [False, True])
def test_neighbours_of_a_tile_that_one_atomic_update_adds(by_threads):
    """Rows of the tile are also read across, for which its words would be swizzled."""

    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((8, 64), "float32"), C: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64, 8), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(8, 64):
                B[i, j] = tile[j, i]
            if by_threads:
                tx = T.get_thread_binding()
                T.atomic_addx4(C[tx, 0], tile[tx, 0])
                T.atomic_addx2(C[tx, 4], tile[tx, 4])
            else:
                for i in T.Parallel(64):
                    T.atomic_addx4(C[i, 0], tile[i, 0])
                    T.atomic_addx2(C[i, 4], tile[i, 4])

    a = torch.arange(512.0).reshape(64, 8)
    (_, b, c) = check_meaning(main, a, torch.zeros(8, 64), torch.ones(64, 8))
    assert torch.equal(b, a.T) and torch.equal(c[:, :6], a[:, :6] + 1) and (c[:, 6:] == 1).all()


def test_neighbours_of_a_tile_without_another_use():
    """The layout of such a tile is the cheapest one for its nests."""

    @T.prim_func
    def main(A: T.Tensor((16, 4), "float32"), C: T.Tensor((16, 4), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 4), "float32")
            for j, i in T.Parallel(4, 16):
                tile[i, j] = A[i, j]
            for i in T.Parallel(16):
                T.atomic_addx4(C[i, 0], tile[i, 0])

    a = torch.arange(64.0).reshape(16, 4)
    assert torch.equal(check_meaning(main, a, torch.ones(16, 4))[1], a + 1)


@every_target
def test_fewer_iterations_than_threads_beside_a_fragment_of_their_remainders(target):
    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            held = T.alloc_fragment((2,), "int32")
            bits = T.alloc_fragment((2,), "int32")
            T.copy(A, held)
            reducer = T.alloc_reducer((2,), "int32", op="bitor", replication="all")
            T.reducer_init(reducer)
            for i, j in T.Parallel(2, 12):
                T.reducer_update(reducer[i], held[j % 2] << i)
            T.finalize_reducer(reducer, bits)
            T.copy(bits, B)

    check(main, target, torch.tensor([5, 9], dtype=torch.int32), torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_an_atomic_update_of_a_tile_at_a_place_that_threads_below_a_branch_count_up(arch):
    """``position`` is a variable of each of the 64 threads, which hold the same: they make the update together, once."""

    @T.prim_func
    def main(sums: T.Tensor((8, 8), "float32"), n: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((8, 8), "float32")
            position = T.alloc_var("int32", init=0)
            if T.get_thread_binding() < 64:
                while position < n[0]:
                    T.fill(tile, position + 1)
                    T.atomic_add(sums[position // 5, 0], tile)
                    position = position + 1

    sums = torch.zeros(8, 8)
    check(main, cuda(arch), sums, torch.tensor([2], dtype=torch.int32))
    assert torch.equal(sums, torch.full((8, 8), 3.0))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("changes", [False, True])
def test_some_threads_reduce_a_fragment_whose_layout_is_that_of_all(changes, arch):
    """The 64 threads have a copy of it; where they change it, the others get what they made."""

    @T.prim_func
    def main(A: T.Tensor((8, 128), "float32"), sums: T.Tensor((8,), "float32"), B: T.Tensor((8, 128), "float32")):
        with T.Kernel(1, threads=128):
            x, total = T.alloc_fragment((8, 128), "float32"), T.alloc_fragment((8,), "float32")
            T.annotate_layout({x: T.Fragment(x.shape, lambda i, j: (i // 2 * 32 + j // 4, i % 2 * 4 + j % 4))})
            T.copy(A, x)
            if T.get_thread_binding() < 64:
                if changes:
                    for i, j in T.Parallel(8, 128):
                        x[i, j] += T.cast(i, "float32")
                T.reduce_sum(x, total, dim=1)
                T.copy(total, sums)
            T.copy(x, B)

    check(main, cuda(arch), torch.arange(1024.0).reshape(8, 128), torch.zeros(8), torch.zeros(8, 128))
