"""Slices as values: rows, steps and arithmetic, on every target."""

import pytest
import torch

import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from testing.python.target.every_target import TARGETS, every_target, run
from tilelang.errors import ShapeError

X = torch.arange(64).float().reshape(8, 8)


@every_target
def test_rows_are_views(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 3), "float32")):
        with T.Kernel(8, threads=32) as b:
            row, out = A[b], B[b, :]
            part = row[2:6]
            out[0] = row[2] + row[-1]
            out[1] = part[0] + part[-1]
            out[2] = A[:, 1][b]

    want = torch.stack([X[:, 2] + X[:, 7], X[:, 2] + X[:, 5], X[:, 1]], 1)
    assert torch.equal(run(main, target, X), want)


@every_target
def test_builtins_of_slices(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((5, 64), "float32")):
        with T.Kernel(1, threads=32):
            B[0, :] = max(A[:] - 3, 1, A[8:9])
            B[1, :] = min(9, A[:])
            B[2, :] = abs(A[:] - 40)
            B[3, :] = round(A[:] / 4)
            B[4, :] = pow(A[:], 2)

    a = X.flatten()
    want = torch.stack([(a - 3).clamp(min=8), a.clamp(max=9), (a - 40).abs(), (a / 4).round(), a * a])
    assert torch.equal(run(main, target, a), want)


@every_target
def test_expressions_on_the_left_of_slices(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((10, 8), "int32")):
        with T.Kernel(1, threads=32):
            n = T.alloc_var("int32", init=100)
            B[0, :] = A[7] // A[:]
            B[1, :] = n % A[:]
            B[2, :] = A[5] & A[:] | A[1] ^ A[:]
            B[3, :] = (A[2] << A[:]) + (n >> A[:])
            B[4, :] = T.where((A[3] == A[:]) | (A[3] < A[:]), 1, 0)
            B[5, :] = T.where((A[3] != A[:]) & (A[6] >= A[:]), 1, 0)
            B[6, :] = T.truncdiv(-A[:], 3) + T.ceildiv(A[:], 4) + T.popcount(A[:])
            B[7, :] = T.shift_left(1, A[:])
            B[8, :] = T.where(T.isnan(T.fmul(T.float32(A[:]), T.infinity("float32"))), 1, 0)
            B[9, :] = T.cast(T.ieee_add(T.fma(T.cast(A[:], "float32"), 2.0, 1.0), 1.0, "rz"), "int32")

    a = torch.tensor([3, 1, 2, 5, 4, 6, 7, 9])
    ones = torch.tensor([int(x).bit_count() for x in a])
    want = [
        9 // a,
        100 % a,
        6 & a | 1 ^ a,
        (2 << a) + (100 >> a),
        a >= 5,
        (a != 5) & (a <= 7),
        -(a // 3) + -(-a // 4) + ones,
        1 << a,
    ]
    assert torch.equal(run(main, target, a.int()), torch.stack([*(row.int() for row in want), a.int() * 0, 2 * a.int() + 2]))


@every_target
def test_slices_with_steps(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            T.copy(A[::2], B[0, :])
            T.copy(A[1::2], tile)
            T.copy(tile, B[1, :])
            T.copy(A[:16], B[2, 0:32:2])
            B[2, 1::2] = 7
            B[3, :11] = A[3:34:3] * 2
            B[3, 11:] = -1

    flat = X.flatten()
    mixed = torch.stack([flat[:16], torch.full((16,), 7.0)], 1).flatten()
    want = torch.stack([flat[::2], flat[1::2], mixed, torch.cat([flat[3:34:3] * 2, torch.full((21,), -1.0)])])
    assert torch.equal(run(main, target, flat), want)


@every_target
def test_whole_tile_arithmetic(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), C: T.Tensor((8,), "float32"), B: T.Tensor((4, 8, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8, 8), "float32")
            total = T.alloc_fragment((8,), "float32")
            B[0, :, :] = A[:] * 2 + A[:]
            tile[:] = T.if_then_else(A[:] > 20, T.sqrt(A[:]), -1.0)
            tile[:, :] += T.cast(A[:], "int32") // 3
            T.copy(tile, B[1, :, :])
            T.reduce_sum(tile, total, dim=1)
            B[2, :, :] = A[:] + C[:]
            B[3, :, :] = T.max(A[:], A[:, 3:4], 30) - total[:]

    c = torch.arange(8).float() * 100
    tile = torch.where(X > 20, X.sqrt(), -1.0) + (X.int() // 3)
    last = torch.maximum(torch.maximum(X, X[:, 3:4]), torch.tensor(30.0)) - tile.sum(1)
    torch.testing.assert_close(run(main, target, X, c), torch.stack([X * 3, tile, X + c, last]))


@every_target
def test_slices_and_tensors_are_repeated_along_axes(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), C: T.Tensor((8,), "float32"), B: T.Tensor((4, 8, 8), "float32")):
        with T.Kernel(1, threads=32):
            B[0, :, :] = A[3, :]
            B[1, :, :] = A[:, 2:3]
            B[2, :, :] = C
            B[3, 1:2, :] = A[5, :]  # as long: a copy
            B[3, 0, :] = C[:]
            B[3, 2:, :] = A[2:, :]

    c = torch.arange(8).float() * 100
    want = torch.stack([X[3].expand(8, 8), X[:, 2:3].expand(8, 8), c.expand(8, 8), torch.cat([c[None], X[5:6], X[2:]])])
    assert torch.equal(run(main, target, X, c), want)


@every_target
def test_a_range_as_parallel_loop(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(0, 64, 2):
                B[i] = A[i + 1]
            for i in T.Parallel(0, 32):
                B[2 * i + 1] = A[2 * i]

    flat = X.flatten()
    assert torch.equal(run(main, target, flat), flat.reshape(32, 2).flip(1).flatten())


@every_target
def test_an_index_of_a_narrow_type_names_the_same_row_twice(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32) as bx:
            B[:] = A[:]
            B[(T.cast(bx + 7, "int16") >> T.int16(1)) % T.int16(8), :] *= -1
            B[T.cast(bx, "uint32") * T.uint32(3) + T.uint32(5), 2:] += 1

    want = X.clone()
    want[3] *= -1
    want[5, 2:] += 1
    assert torch.equal(run(main, target, X), want)


def test_mistakes():
    with error_at_mark(match="reads A elsewhere than it writes it"):

        @T.prim_func
        def overlapping(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                A[1:, :] = A[:-1, :] * 2  # <- error

    with error_at_mark(match=r"do not broadcast"):

        @T.prim_func
        def unequal(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                A[:] = A[:] + A[:, :5]  # <- error

    with error_at_mark(match=r"shape \(8,\) is assigned to a slice of \(5,\)"):

        @T.prim_func
        def short(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[:5] = B[:] * 2  # <- error

    with error_at_mark(match="doubled is arithmetic on slices, which has no memory"):

        @T.prim_func
        def named(A: T.Tensor((12,), "float32")):
            with T.Kernel(1):
                doubled = A[:] * 2  # <- error
                A[:] = doubled

    with error_at_mark(match="T.reduce_sum takes memory, got arithmetic on slices"):

        @T.prim_func
        def reduced(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                total = T.alloc_fragment((8,), "float32")
                T.reduce_sum(A[:] * 2, total)  # <- error

    with error_at_mark(match="a slice has no truth value"):

        @T.prim_func
        def chosen(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[:] = A[:] if A[:] > 0 else 1  # <- error

    with error_at_mark(match="a slice has no truth value"):

        @T.prim_func
        def between(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[:] = 0 < A[:] < 5  # <- error


@every_target
def test_an_iteration_assigns_a_slice(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((8, 2, 4), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i, 0, :] = A[i, 2:6]
                B[i, 1, :] = A[i, ::2] * 2 + A[i, 0]

    assert torch.equal(run(main, target, X), torch.stack([X[:, 2:6], X[:, ::2] * 2 + X[:, :1]], 1))


@every_target
def test_an_iteration_sets_its_array_of_a_thread(target):
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_local((2,), "float32")
            factor = T.alloc_local((2, 2), "float32")
            for i in T.Parallel(32):
                T.clear(total)
                T.fill(factor[0, :], 2)
                factor[1, :] = 3
                for j in range(8):
                    total[0] += A[i, j]
                total[:] = total[0] + 1
                B[i] = total[1] * factor[0, 1] + factor[1, 0]

    a = torch.arange(256).float().reshape(32, 8)
    assert torch.equal(run(main, target, a), (a.sum(1) + 1) * 2 + 3)


@every_target
def test_a_value_that_reads_the_assigned_slice_is_computed_once(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            B[:] = A[:]
            B[::2] = B[0] + 1

    want = torch.arange(8).float()
    want[::2] = 1
    assert torch.equal(run(main, target, torch.arange(8).float()), want)


@every_target
def test_short_slices_are_vectors(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((5, 4), "float32")):
        with T.Kernel(1, threads=32):
            part = A[3, 2:6]
            squares = part * part - 1
            B[0, :] = squares
            B[1, :] = T.cast(A[1, 0:4], "int32x4")
            B[2, :] = T.max(A[0, 0:4], T.Broadcast(T.float32(2), 4))
            B[3, 0:2] = T.fma2(A[1, 0:2], A[2, 0:2], part[0:2])
            B[3, 2:4] = T.max2(part[2:4] - 40, T.abs2(A[0, 0:2]))
            B[4, :] = squares * 2 - T.Ramp(0, 1, 4)

    squares = X[3, 2:6] ** 2 - 1
    packed = torch.cat([X[1, :2] * X[2, :2] + X[3, 2:4], torch.maximum(X[3, 4:6] - 40, X[0, :2])])
    want = torch.stack([squares, X[1, :4], X[0, :4].clamp(min=2), packed, squares * 2 - torch.arange(4)])
    assert torch.equal(run(main, target, X), want)


@every_target
def test_types_of_slices(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((3, 4), "float32")):
        with T.Kernel(1, threads=32):
            bits = T.alloc_local((4,), "uint8")
            part = A[3, 2:6]
            B[0, :] = part.astype("int32x4")
            B[1, :] = (part / 4).astype("int32") * 2
            bits[0:4] = T.reinterpret(A[1, 0], "uint8x4")
            B[2, 0] = T.reinterpret(bits[0:4], "float32")
            B[2, 1:4] = 0

    want = torch.stack([X[3, 2:6], (X[3, 2:6] / 4).int() * 2, torch.tensor([X[1, 0], 0, 0, 0])])
    assert torch.equal(run(main, target, X), want)


def test_a_slice_that_is_no_vector():
    with error_at_mark(ShapeError, r"a slice of shape \(2, 4\) is no vector"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32"), B: T.Tensor((2, 4), "float32")):
            with T.Kernel(1):
                B[0, :] = T.cast(A[0:2, 0:4], "float32x4")  # <- error


@every_target
def test_ends_of_slices_that_are_certainly_negative_count_from_the_end(target):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
            for i in range(1, 4):
                B[i, -i:] = 50
                B[i, : -i - 1] *= 2
                T.copy(A[0, -i - 1 : -i], B[0, i : i + 1])

    want = X[:4].clone()
    for i in range(1, 4):
        want[i, -i:] = 50
        want[i, : -i - 1] *= 2
        want[0, i] = X[0, -i - 1]
    assert torch.equal(run(main, target, X[:4].clone()), want)


@pytest.mark.parametrize("target", [*TARGETS.values(), "interpret"], ids=[*TARGETS, "interpret"])
def test_slices_that_end_before_they_begin_are_empty(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
            B[5:2] = 1
            B[5:2] = A[5:2] * 2
            B[7:2:2] += 1
            T.copy(A[5:2], B[5:2])

    assert torch.equal(run(main, target, X[0].clone()), X[0])


@every_target
def test_an_assignment_may_read_parts_of_its_buffer_that_it_does_not_write(target):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)
            B[0, ::2] = B[0, 1::2]
            B[1, :] = B[0, :] * 2
            for i in range(3):
                B[i + 1, 0:4] = B[i, 4:8] + 1
            B[3, 0:4] = B[3, 0:4]

    want = X[:4].clone()
    want[0, ::2] = want[0, 1::2]
    want[1] = want[0] * 2
    for i in range(3):
        want[i + 1, 0:4] = want[i, 4:8] + 1
    assert torch.equal(run(main, target, X[:4].clone()), want)


def test_assignments_between_overlapping_parts():
    with error_at_mark(match="reads A elsewhere than it writes it"):

        @T.prim_func
        def copied(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[1:5] = A[0:4]  # <- error

    with error_at_mark(match="reads A elsewhere than it writes it"):

        @T.prim_func
        def unknown(A: T.Tensor((4, 8), "float32"), n: T.int32):
            with T.Kernel(1):
                A[n, 0:4] = A[0, 3:7] + 1  # <- error


def test_arithmetic_on_slices_that_is_kept_past_a_change_of_them():
    @T.macro
    def change(A):
        A[0] = A[0] + 100
        return A[0]

    with error_at_mark(match="arithmetic on slices of A is used where A may have changed since"):

        @T.prim_func
        def exchanged(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                A[0:4], A[4:8] = A[4:8] + 0, A[0:4] + 0  # <- error

    with error_at_mark(match="arithmetic on slices of A is used where A may have changed since"):

        @T.prim_func
        def before_a_call(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                B[:] = A[:] * 2 + change(A)  # <- error

    with error_at_mark(match="arithmetic on slices of A is used where A may have changed since"):

        @T.prim_func
        def in_a_list(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                kept = [A[0:3] * 2]
                T.fill(B, 1)
                B[0:3] = kept[0]
                T.fill(A, 1)
                B[3:6] = kept[0]  # <- error
