"""Small programs whose result must be the same on the CPU, through C, and on the simulator of two architectures."""

from __future__ import annotations

import pytest
import torch
from tvm import tirx

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.every_target import every_target, run


@every_target
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint32, torch.uint64])
@pytest.mark.parametrize("kind", ["absmax", "abssum"])
def test_magnitudes_of_unsigned_values(kind, dtype, target):
    name = str(dtype).removeprefix("torch.")

    @T.prim_func
    def main(A: T.Tensor((8,), name), B: T.Tensor((1,), name)):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_fragment((8,), name), T.alloc_fragment((1,), name)
            T.copy(A, a)
            getattr(T, f"reduce_{kind}")(a, b, dim=0)
            T.copy(b, B)

    a = torch.tensor([100, 10, 20, 30, 0, 1, 2, 3]).to(dtype)
    assert run(main, target, a).item() == (100 if kind == "absmax" else 166)


@every_target
@pytest.mark.parametrize("threads", [32, 128])
def test_negated_booleans(threads, target):
    @T.prim_func
    def main(A: T.Tensor((256,), "bool"), B: T.Tensor((256,), "bool")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(256):
                B[i] = T.Not(A[i])

    a = torch.arange(256) % 3 == 0
    assert torch.equal(run(main, target, a), ~a)


@every_target
def test_negative_indices_count_from_the_end(target):
    @T.prim_func
    def main(A: T.Tensor((8, 16), "int32"), B: T.Tensor((2, 16), "int32")):
        with T.Kernel(1, threads=32):
            T.copy(A[-1, -4:], B[0, -4:])
            T.copy(A[-2, :-4], B[0, :-4])
            for i in T.serial(1, 17):
                B[-1, -i] = A[0, -i] * 10

    a = torch.arange(128, dtype=torch.int32).reshape(8, 16)
    b = run(main, target, a)
    assert torch.equal(b[0], torch.cat([a[-2, :-4], a[-1, -4:]])) and torch.equal(b[1], a[0] * 10)


@every_target
def test_vector_indices_that_cross_the_start(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=1):
            for t in T.serial(4):
                B[t, T.Ramp(0, 1, 4)] = A[T.Ramp(t - 2, 1, 4)]

    a = torch.arange(32.0)
    assert torch.equal(run(main, target, a), torch.stack([torch.roll(a, 2 - t)[:4] for t in range(4)]))


@every_target
def test_vectors_are_values(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float16"), B: T.Tensor((64,), "float16")):
        with T.Kernel(4, threads=32) as bx:
            for t in T.serial(2):
                at = T.Ramp(bx * 16 + t * 8, 1, 8)
                v = A[at]
                B[at] = T.max(v * v + T.Broadcast(T.float16(1), 8), T.cast(A[at], "float16x8") / 2)
            first = bx * 16
            B[first : first + 2] = T.Shuffle([B[T.Ramp(first, 1, 4)]], [3, 2])

    a = torch.arange(64).half() / 8
    expected = a * a + 1
    expected[0::16], expected[1::16] = (a * a + 1)[3::16], (a * a + 1)[2::16]
    assert torch.equal(run(main, target, a), expected)


@every_target
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
def test_accesses_of_many_bits(dtype, target):
    name = str(dtype).removeprefix("torch.")
    count = 16 // dtype.itemsize

    @T.prim_func
    def main(A: T.Tensor((4, count), name), B: T.Tensor((4, count), name)):
        with T.Kernel(4, threads=32) as bx:
            loaded = T.ldg128(A[bx, 0], pred=bx < 3)
            halves = T.reinterpret(loaded, "uint64x2")
            T.stg64(B[bx, 0], T.Shuffle([halves], [1]))
            T.stg64(B[bx, count // 2 : count], T.Shuffle([halves], [0]), pred=bx < 4)

    a = torch.arange(1, 4 * count + 1).reshape(4, count).to(dtype)
    expected = torch.roll(a, count // 2, dims=1)
    expected[3] = 0
    assert torch.equal(run(main, target, a), expected)


@every_target
def test_the_bits_of_zero_as_another_type(target):
    @T.prim_func
    def main(A: T.Tensor((3,), "float32"), B: T.Tensor((2,), "int32"), C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            table = T.alloc_shared((8,), "int32")
            T.clear(table)
            A[2] = T.reinterpret(T.int32(0), "float32") + 1
            for k in T.unroll(2):
                A[k] = T.reinterpret(k, "float32") + 1
                B[k] = T.reinterpret(T.cast(k, "float32"), "int32")
                C[k] = table[(T.cast(k, "int16") - T.int16(1)) % 8]

    a, b, c = torch.zeros(3), torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, b, c)
    assert torch.equal(a, torch.ones(3)) and b.tolist() == [0, 0x3F800000] and c.tolist() == [0, 0]


@every_target
def test_an_atomic_load_outside_of_a_tensor_is_its_safe_value(target):
    @T.prim_func
    def main(X: T.Tensor((5,), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({X: 7})
            for i in T.Parallel(8):
                Y[i] = T.atomic_load(X[i])

    # A part of a larger tensor: what is behind it is neither zero nor the safe value.
    x = torch.arange(1, 9, dtype=torch.int32)[:5]
    assert run(main, target, x).tolist() == [1, 2, 3, 4, 5, 7, 7, 7]


@every_target
@pytest.mark.filterwarnings("ignore::tilelang.errors.UninitialisedWarning")
@pytest.mark.parametrize("dtype", ["int32", "float16", "bool"])
def test_a_variable_without_a_first_value_begins_as_zero(dtype, target):
    @T.prim_func
    def main(Y: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            total = T.alloc_var(dtype)
            for i in T.serial(10):
                total += i > 8
            Y[0] = total

    assert run(main, target).item() == 1


@every_target
@pytest.mark.parametrize("dim", [0, 1])
def test_the_index_of_the_largest_element(dim, target):
    @T.prim_func
    def main(X: T.Tensor((33, 7), "float32"), Y: T.Tensor((7, 33)[dim : dim + 1], "int64")):
        with T.Kernel(1, threads=64):
            x, y = T.alloc_fragment((33, 7), "float32"), T.alloc_shared((7, 33)[dim : dim + 1], "int64")
            T.copy(X, x)
            T.reduce_argmax(x, y, dim=dim)
            T.copy(y, Y)

    x = torch.arange(33 * 7).reshape(33, 7).remainder(5).float()
    x[3, 2] = float("nan")
    assert torch.equal(run(main, target, x), x.argmax(dim))


@every_target
@pytest.mark.parametrize("lanes", [2, 4])
def test_vector_atomics_convert_their_values(lanes, target):
    @T.prim_func
    def main(X: T.Tensor((32,), "float32"), Y: T.Tensor((32,), "float16")):
        with T.Kernel(1, threads=32):
            T.fill(Y, 1)
            for i in T.Parallel(32 // lanes):
                getattr(T, f"atomic_addx{lanes}")(Y[i * lanes], X[i * lanes])

    assert torch.equal(run(main, target, torch.arange(32).float()), torch.arange(1, 33).half())


@every_target
def test_tiles_without_axes(target):
    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), Y: T.Tensor((), "float32")):
        with T.Kernel(1, threads=32):
            x, total = T.alloc_fragment((8,), "float32"), T.alloc_shared((), "float32")
            T.copy(X, x)
            T.reduce_sum(x, total)
            T.copy(total, Y)

    assert run(main, target, torch.arange(8).float()).item() == 28


@every_target
def test_a_safe_value_holds_until_the_end_of_its_block(target):
    @T.prim_func
    def main(X: T.Tensor((5,), "int32"), Y: T.Tensor((2, 8), "int32")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({X: 7})
            with T.sblock("inner"):
                T.annotate_safe_value({X: 9})
                T.copy(X[0:8], Y[0, :])
            T.copy(X[0:8], Y[1, :])

    y = run(main, target, torch.zeros(5, dtype=torch.int32))
    assert y[:, 5:].tolist() == [[9] * 3, [7] * 3]


@every_target
def test_a_safe_value_ends_with_its_kernel(target):
    @T.prim_func
    def main(X: T.Tensor((5,), "int32"), Y: T.Tensor((2, 8), "int32")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({X: 7})
            T.copy(X[0:8], Y[0, :])
        with T.Kernel(1, threads=32):
            T.copy(X[0:8], Y[1, :])

    y = run(main, target, torch.zeros(5, dtype=torch.int32))
    assert y[:, 5:].tolist() == [[7] * 3, [0] * 3]


@every_target
def test_a_tile_of_a_workspace_without_elements_is_zero(target):
    n, m = T.dynamic("n, m")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Y: T.Tensor((m,), "int32")):
        W = T.alloc_global((n,), "int32")
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8,), "int32")
            T.copy(W[0:8], tile)
            T.copy(tile, Y)

    y = torch.ones(8, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(torch.zeros(0, dtype=torch.int32), y)
    assert not y.any()


@every_target
def test_an_unsigned_loop_whose_bound_is_the_least_of_constants(target):
    """The bound of an unrolled loop becomes the bits of ``min(0, 3)``."""

    @T.prim_func
    def main(A: T.Tensor((1,), "uint32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            for k in T.unroll(2):
                for _ in T.serial(A[0], A[0] + T.min(k, 3)):
                    B[k] = 5

    b = torch.zeros(2, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(torch.tensor([7], dtype=torch.uint32), b)
    assert b.tolist() == [0, 5]


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_four_bit_integers_wrap_around(dtype, arch):
    signed = dtype == "int4"

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), dtype), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                B[i] = T.cast(A[i], dtype) * T.cast(A[i] + 1, dtype)
            for i in T.Parallel(64):
                C[i] = T.cast(T.cast(A[i], dtype), "int32")

    a = torch.arange(-32, 32, dtype=torch.int32) * 16777217
    b, c = torch.zeros(32, dtype=torch.int8 if signed else torch.uint8), torch.empty_like(a)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=cuda(arch))(a, b, c)
    nibbles = torch.stack([b.view(torch.uint8) & 15, b.view(torch.uint8) >> 4], 1).reshape(-1)
    assert torch.equal(nibbles, ((a * (a + 1)) & 15).to(torch.uint8))
    assert torch.equal(c, ((a & 15) ^ 8) - 8 if signed else a & 15)


@every_target
@pytest.mark.parametrize("scope", ["global", "shared", "fragment"])
def test_one_element_stored_to_a_row(scope, target):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            tile = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}.get(scope, T.alloc_shared)((16,), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(16, 16):
                B[i, j] = A[i] if scope == "global" else tile[i]

    a = torch.arange(16.0)
    assert torch.equal(run(main, target, a), a[:, None].expand(16, 16))


@every_target
@pytest.mark.parametrize("length", [0, 5, 64])
def test_slices_of_run_time_length(length, target):
    total = T.dynamic("total")

    @T.prim_func
    def main(A: T.Tensor((total, 8), "float32"), ends: T.Tensor((1,), "int32"), B: T.Tensor((80, 8), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64, 8), "float32")
            T.fill(B, -1.0)
            T.copy(A[2 : 2 + ends[0], :], tile)
            T.copy(tile, B[0:64, :])
            T.copy(tile, B[64 : 64 + T.min(ends[0], 6), :])

    a = torch.arange(70 * 8.0).reshape(70, 8)
    expected = torch.full((80, 8), -1.0)
    expected[:64] = 0
    expected[:length] = a[2 : 2 + length]
    expected[64 : 64 + min(length, 6)] = expected[: min(length, 6)]
    got = run(main, target, a, torch.tensor([length], dtype=torch.int32))
    assert torch.equal(got, expected.half())


@every_target
def test_copies_of_shared_tiles_convert(target):
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "bfloat16")):
        with T.Kernel(2, threads=128) as bx:
            half, single = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float32")
            for _ in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * 64, 0], single)
                T.copy(single, half)
            T.copy(half, B[bx * 64, 0])

    a = torch.arange(128 * 64.0).reshape(128, 64).half() / 8
    assert torch.equal(run(main, target, a), a.bfloat16())


@every_target
def test_tiles_copied_over_what_other_statements_wrote(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile)
            T.clear(B)
            T.copy(tile, B)
            B[63, 63] = 5.0

    a = torch.arange(64 * 64.0).reshape(64, 64).half()
    expected = a.clone()
    expected[63, 63] = 5
    assert torch.equal(run(main, target, a), expected)


@every_target
@pytest.mark.parametrize("period", [2, 3, 4, 8, 12])
@pytest.mark.parametrize("scope", ["global", "shared"])
def test_elements_that_repeat_along_a_row(period, scope, target):
    @T.prim_func
    def main(A: T.Tensor((16, 48), "float16"), B: T.Tensor((16, 48), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((16, 48), "float16")
            T.copy(A, tile)
            for i, j in T.Parallel(16, 48):
                B[i, j] = A[i, j % period] if scope == "global" else tile[i, j % period]

    a = torch.arange(16 * 48.0).reshape(16, 48).half()
    assert torch.equal(run(main, target, a), a[:, torch.arange(48) % period])


@every_target
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_vector_variables(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((32,), dtype), B: T.Tensor((32,), dtype)):
        with T.Kernel(1, threads=32):
            total, piece = T.alloc_var(f"{dtype}x4", init=0), T.alloc_var(f"{dtype}x4")
            for i in T.serial(8):
                piece = A[i * 4 : i * 4 + 4]
                total += piece * 2
                piece[3] = piece[0]
                B[i * 4 : i * 4 + 4] = total + piece

    a = (torch.arange(32) % 7).to(getattr(torch, dtype))
    pieces = a.reshape(8, 4)
    want = (pieces * 2).cumsum(0) + pieces[:, [0, 1, 2, 0]]
    assert torch.equal(run(main, target, a), want.flatten().to(a.dtype))


@every_target
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8"])
def test_an_index_of_any_integer_type(dtype, target):
    """The largest indices of the type that the table holds: an unsigned one has the sign bit of its type set."""

    @T.prim_func
    def main(Codes: T.Tensor((8,), dtype), Table: T.Tensor((256, 256), "int32"), Out: T.Tensor((3, 8), "int32")):
        with T.Kernel(1, threads=32):
            table = T.alloc_shared((256,), "int32")
            for i in T.Parallel(256):
                table[i] = Table[1, i]
            for i in T.serial(8):
                Out[0, i] = table[Codes[i] % 256]
            for i in T.Parallel(8):
                Out[1, i] = Table[Codes[i], Codes[i]]
            for i in T.Parallel(8):
                Out[2, Codes[i] % 8] = i

    last = min(torch.iinfo(getattr(torch, dtype)).max, 255)
    codes = torch.arange(last - 7, last + 1)
    table = torch.arange(256 * 256, dtype=torch.int32).reshape(256, 256)
    out = run(main, target, codes.to(getattr(torch, dtype)), table)
    assert torch.equal(out[:2], torch.stack([table[1, codes], table[codes, codes]])) and out[2].tolist() == list(range(8))


@every_target
def test_odd_functions_keep_the_sign_of_zero(target):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[0, i] = T.tanh(A[i])
                B[1, i] = T.erf(A[i])
                B[2, i] = T.sin(A[i])
                B[3, i] = T.atan(A[i])

    a = torch.tensor([-0.0, 0.0, -1e-30, torch.nan])
    out = run(main, target, a)
    assert out[:, 3].isnan().all()
    assert torch.equal(out[:, :3].signbit(), a[:3].signbit().expand(4, 3))


@every_target
def test_and_and_or_read_a_tile_only_where_python_would(target):
    @T.prim_func
    def main(X: T.Tensor((8, 6), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32) as b:
            a = T.alloc_local((6,), "int32")
            n = T.alloc_var("int32", init=0)
            for k in T.serial(6):
                a[k] = X[b, k]
            for k in T.serial(6):
                far = a[k] * 10000000
                if far < 6 and far >= 0 and a[far] == 0:
                    n = n + 10
                if k == 0 or a[k - 1] == a[k]:
                    n = n + 1
            Y[b] = n

    x = torch.arange(48, dtype=torch.int32).reshape(8, 6) // 2 % 3
    found = (x == 0).sum(1) * (x[:, 0] == 0)
    assert torch.equal(run(main, target, x), (found * 10 + 1 + (x[:, 1:] == x[:, :-1]).sum(1)).int())


@every_target
def test_arrays_of_vectors(target):
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float16"), B: T.Tensor((8, 8), "float16")):
        with T.Kernel(8, threads=32) as b:
            pairs = T.alloc_local((3,), "float16x2")
            fours = T.alloc_local((2,), "float16x4")
            flat = T.view(fours, (8,), "float16")
            T.clear(pairs)
            for j in range(8):
                flat[j] = A[b, j]
            for j in T.unroll(2):
                pairs[j] = T.add2(T.float16x2(fours[j][0], fours[j][1]), pairs[2])
                pairs[j] += T.float16x2(fours[j][2], fours[j][3])
            as_fours = T.view(flat, (2,), "float16x4")
            assert fours.dtype == "float16x4" and list(fours.shape) == [2] and as_fours.dtype == "float16x4"
            for j in T.unroll(2):
                B[b, 4 * j] = T.extract_lane(pairs[j], 0)
                B[b, 4 * j + 1] = T.extract_lane(pairs[j], 1)
                B[b, 4 * j + 2] = as_fours[j][2]
                B[b, 4 * j + 3] = flat[4 * j + 3]

    a = torch.arange(64).reshape(8, 8).half()
    want = a.clone().reshape(8, 2, 4)
    want[..., :2] += want[..., 2:].clone()
    assert torch.equal(run(main, target, a), want.reshape(8, 8))


@every_target
def test_a_persistent_loop_over_one_axis_gives_the_index(target):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n, 64), "float32"), Y: T.Tensor((n, 64), "float32")):
        with T.Kernel(3, threads=64) as b:
            for t in T.Persistent([n], 3, b, group_size=1):
                for i in T.Parallel(64):
                    Y[t, i] = X[t, i] * 2

    x = torch.arange(640).float().reshape(10, 64)
    assert torch.equal(run(main, target, x), x * 2)


@every_target
def test_a_tensor_that_only_an_unused_view_names_may_be_none(target):
    n, k = T.dynamic("n, k")

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), W: T.Tensor((n, k), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            flat = T.reshape(W, (n * k,))
            T.view(flat, (n, k))
            for i in T.Parallel(64):
                B[i] = A[i] * 2

    a = torch.arange(64).float()
    assert torch.equal(run(main, target, a, None), a * 2)


@every_target
def test_rows_as_operands_of_reductions_and_scans(target):
    @T.prim_func
    def main(A: T.Tensor((2, 4, 8), "float32"), B: T.Tensor((2, 3, 8), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((2, 4, 8), "float32"), T.alloc_fragment((2, 3, 8), "float32")
            row, keeps_ones = T.alloc_fragment((8,), "float32"), T.alloc_fragment((1, 1, 8), "float32")
            T.copy(A, a)
            for k in T.serial(2):
                T.reduce_sum(a[k, :, :], row, dim=0)  # axes of the slice as a value
                T.copy(row, b[k, 0, :])
                T.reduce_max(a[k, :, :], b[k, 1, :], dim=-2)
                T.reduce_max(a[k, :, :], keeps_ones, dim=1)  # axes of the tile, as the destination has them
                T.reduce_min(keeps_ones, b[k, 1, :], dim=1, clear=False)
                T.cumsum(a[k, 3, :], b[k, 2, :], dim=0)
            T.copy(b, B)

    a = torch.randint(-4, 5, (2, 4, 8)).float()
    expected = torch.stack([a.sum(1), a.amax(1), a[:, 3].cumsum(1)], dim=1)
    assert torch.equal(run(main, target, a), expected)


@every_target
def test_indices_that_leave_a_tensor_by_one(target):
    """The last read and the last write are just past the end, the first ones just before the beginning."""

    @T.prim_func
    def main(
        A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32"), D: T.Tensor((64,), "float32")
    ):  # fmt: skip
        with T.Kernel(1, threads=64) as bx:
            for i in T.Parallel(64):
                B[i] = A[i + 1]
            for i in T.Parallel(64):
                C[i + 1] = A[i]
            for i in T.Parallel(64):
                D[i] = A[i - 1 + bx]

    a = torch.arange(1.0, 65.0)
    b, c, d = (torch.full((64,), -1.0) for _ in range(3))
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, b, c, d)
    assert b.tolist() == [*a[1:].tolist(), 0]
    assert c.tolist() == [-1, *a[:-1].tolist()]
    assert d.tolist() == [0, *a[:-1].tolist()]


@every_target
def test_values_named_inside_of_an_expression(target):
    def with_square(x):
        value = tirx.Var("value", x.dtype)
        return tirx.Let(value, x, value * value + value)

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                place = T.int32()
                twice = with_square(with_square(A[i]) + 1)
                B[T.Let(place, (i + 1) % 64, place)] = T.if_then_else(i < 40, twice, with_square(A[i]))

    a = torch.randint(-3, 4, (64,)).float()
    once, twice = a * a + a, (a * a + a + 1) * (a * a + a + 2)
    assert torch.equal(run(main, target, a), torch.where(torch.arange(64) < 40, twice, once).roll(1))
