"""Python's own constructs in programs: builtins, macros, mutable scalars, assignments, containers."""

import functools

import torch

import tilelang
import tilelang.language as T

from .support import random, run

SCALE = 3


def test_compile_time_python():
    factors = {"low": 1, "high": 10}
    table = [functools.reduce(lambda a, b: a * b, range(1, n + 1), 1) for n in range(5)]

    def pick(name):
        return factors[name] * SCALE

    @T.prim_func
    def main(A: T.Tensor((len(table), 2), "int32")):
        with T.Kernel(1, threads=1):
            for i, value in enumerate(table):
                A[i, 0] = value * pick("low")
                if value > 2:
                    A[i, 1] = sum([pick(name) for name in factors])
                else:
                    A[i, 1] = max(pick("low"), pick("high"), value)
            assert isinstance(table, list) and len(table) == 5

    a = torch.zeros(5, 2, dtype=torch.int32)
    run(main, a)
    assert a[:, 0].tolist() == [3, 3, 6, 18, 72] and a[:, 1].tolist() == [30, 30, 30, 33, 33]


def test_builtins_of_typed_constants():
    @T.prim_func
    def main(B: T.Tensor((3,), "float32")):
        with T.Kernel(1):
            B[0] = abs(T.int8(-3))
            B[1] = abs(T.float32(-0.5))
            B[2] = round(T.float32(2.5))

    b = torch.zeros(3)
    tilelang.compile(main, target="cpu")(b)
    assert b.tolist() == [3, 0.5, 2]


def test_numbers_of_typed_constants():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=1):
            A[0] = int(T.float32(2.5) * 4)
            A[1] = [1, 2, 3][int(T.float16(1.5))]
            A[2] = 1 if bool(T.float32(0.0)) else 7
            A[3] = float(T.int8(-3)) * 2
            A[4] = T.cast(4, "bool") + T.bool(2) + T.cast(0, "bool")
            A[5] = 1 if T.cast(4, "bool") else 2

    a = torch.zeros(6, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [10, 2, 7, -6, 2, 1]


def test_a_condition_beside_a_static_operand_is_a_condition():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            if ~((n > 2) or True):
                A[0] = 1
            if ~((n > 2) and False):
                A[1] = 1
            if ~any([n > 2, True]):
                A[2] = 1
            A[3] = ((n > 2) or True) + 1

    a = torch.zeros(4, dtype=torch.int32)
    run(main, a, 5)
    assert a.tolist() == [0, 1, 0, 2]


def test_a_class_of_the_program_takes_run_time_indices():
    class Doubled:
        def __getitem__(self, index):
            return index * 2

    doubled = Doubled()

    @T.prim_func
    def main(A: T.Tensor((1,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            A[0] = doubled[n] + doubled[1]

    a = torch.zeros(1, dtype=torch.int32)
    run(main, a, 5)
    assert a.tolist() == [12]


def test_numbers_that_the_type_of_the_memory_does_not_hold():
    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "uint8"), C: T.Tensor((2,), "bool")):
        with T.Kernel(1, threads=1):
            T.fill(A, 0xFF)
            A[1] = 300
            value = T.alloc_var("int8", init=200)
            A[2] = value
            A[3] += 65537
            T.fill(B, -1)
            B[1] = 257
            C[0], C[1] = 2, 0

    a, b, c = torch.zeros(4, dtype=torch.int8), torch.zeros(4, dtype=torch.uint8), torch.zeros(2, dtype=torch.bool)
    run(main, a, b, c)
    assert a.tolist() == [-1, 44, -56, 0] and b.tolist() == [255, 1, 255, 255] and c.tolist() == [True, False]


def test_builtins_of_run_time_values():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((12,), "float32")):
        with T.Kernel(1, threads=1):
            x, y, z = A[0], A[1], A[2]
            B[0] = max(x, y, z)
            B[1] = min(x, y, 0)
            B[2] = abs(y)
            B[3] = round(x)
            B[4] = int(x)
            B[5] = sum([x, y, z])
            B[6] = pow(x, 2)
            B[7] = float(int(z))
            B[8] = bool(y)
            B[9] = any([x > 0, y > 0])
            B[10] = all([x > 0, y > 0])
            B[11] = max([x, y])

    b = run(main, torch.tensor([2.6, -1.5, 7.9, 0.0]), out_idx=-1)
    expected = [7.9, -1.5, 1.5, 3, 2, 9.0, 6.76, 7, 1, 1, 0, 2.6]
    torch.testing.assert_close(b, torch.tensor(expected), rtol=1e-6, atol=1e-5)


def test_isinstance_of_builtin_types():
    def described(value):
        return "int" if isinstance(value, int) else "other"

    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            size = 4
            A[0] = 1 if isinstance(size, int) else 2
            A[1] = 3 if described(size) == "int" else 4

    a = torch.zeros(2, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [1, 3]


def test_macros():
    @T.macro
    def clamp_to(values, low, high):
        for i in T.Parallel(8):
            values[i] = T.clamp(values[i], low, high)

    @T.macro
    def total_of(values):
        total = T.alloc_var("float32", init=0)
        for i in T.serial(8):
            total += values[i]
        return total

    class Holder:
        @T.macro
        def store(self, target, value):
            target[0] = value * SCALE

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), out: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A, tile)
            clamp_to(tile, -1.0, high=1.0)
            result = total_of(tile)
            Holder().store(out, result)

    a = random((8,), torch.float32)
    torch.testing.assert_close(run(main, a, out_idx=-1), a.clamp(-1, 1).sum().reshape(1) * 3, rtol=1e-5, atol=1e-5)


def test_mutable_scalars():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_var("int32", init=1)
            y = T.alloc_var("int32", 10)
            x, y = y, x
            x, y = x + 0 * y, y + 0 * x
            A[0] = x
            A[1] = y
            before = x
            x = x + 5
            A[2] = before
            A[3] = x
            x *= 2
            x -= 1
            x //= 3
            A[4] = x
            if A[0] > 0:
                y = 77
            A[5] = y
            flag = T.alloc_var("bool", init=False)
            flag = x > 3
            A[6] = T.if_then_else(flag, 1, 0)
            z = T.alloc_var("float32")
            z = 2.75
            A[7] = T.cast(z, "int32")

    a = torch.zeros(8, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [10, 1, 10, 15, 9, 77, 1, 2]


def test_assignments_to_several_targets():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=1):
            A[0], A[1] = A[1], A[0]
            first, A[2] = A[0] + A[1], A[0] - A[1]
            A[3] = A[4] = first
            (p, q), r = (A[0], A[1]), 9
            A[0] = 0
            A[5] = p * 100 + q * 10 + r

    a = torch.tensor([1, 2, 0, 0, 0, 0], dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [0, 1, 1, 3, 3, 219]


def test_what_a_statement_of_several_targets_allocates_has_their_names():
    @T.prim_func
    def program(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            rows, (left, *_) = T.alloc_shared((8,), "float32"), [T.alloc_fragment((8,), "float32")]
            first, second = [T.alloc_shared((8,), "float32"), T.alloc_fragment((8,), "float32")]
            T.copy(A, rows)
            T.copy(rows, left)
            T.copy(left, first)
            T.copy(first, second)
            T.copy(second, A)

    text = str(program)
    assert all(f"{name} = T.alloc" in text for name in ("rows", "first", "second")), text
    a = torch.arange(8.0)
    tilelang.compile(program, target="cpu")(a)
    assert a.tolist() == list(range(8))


def test_values_are_immutable_snapshots():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            old = A[0]
            A[0] = A[0] + 1
            A[1] = old
            old2 = A[0] * 2
            A[0] = 0
            A[2] = old2

    a = torch.tensor([5, 0, 0, 0], dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [0, 5, 12, 0]


def test_a_name_of_slices_and_tiles_may_be_assigned_in_several_loops():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            one, two = T.alloc_shared((4, 8), "float32"), T.alloc_shared((4, 8), "float32")
            T.copy(A, one)
            T.copy(A, two)
            for i in T.serial(4):
                row = one[i, :]
                for j in T.Parallel(8):
                    B[i, j] = row[j]
            for i in T.serial(4):
                row = two[i, :]
                for j in T.Parallel(8):
                    B[i, j] += 10 * row[j]
            tile = one
            for i in T.serial(4):  # which runs for certain
                tile = two
                for j in T.Parallel(8):
                    tile[i, j] += 1
            for i, j in T.Parallel(4, 8):
                B[i, j] += 100 * tile[i, j]

    a, b = torch.arange(32.0).reshape(4, 8), torch.zeros(4, 8)
    run(main, a, b)
    assert torch.equal(b, 111 * a + 100)


def test_a_name_may_be_assigned_in_several_loops():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            for row in T.serial(2):
                for j in T.Parallel(8):
                    twice = A[row, j] * 2
                    B[row, j] = twice
            for row in T.serial(2):
                for j in T.Parallel(8):
                    twice = A[row + 2, j] * 2
                    B[row + 2, j] = twice

    a = random((4, 8), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a * 2)


def test_containers_hold_values():
    class Box:
        content = None

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), out: T.Tensor((12,), "int32")):
        with T.Kernel(1, threads=1):
            box = Box()
            listed = [A[0], A[1] + 1]
            pair = (A[0], (A[2], 5))
            table = {"x": A[0]}
            grown = []
            for k in [0, 1]:
                grown.append(A[k])
            table["y"] = A[1]
            box.content = A[0] * 10
            head, *rest, tail = [A[0], A[1], A[2], A[3]]
            if (walrus := A[0]) > 0:
                for i in T.serial(8):
                    A[i] = 100
                out[0] = walrus
            out[1] = listed[0] + listed[1]
            out[2] = pair[0] + pair[1][0] + pair[1][1]
            out[3] = table["x"] + table["y"]
            out[4] = grown[0] + grown[1]
            out[5] = box.content
            out[6] = head + rest[0] + rest[1] + tail
            out[7] = A[0]

    a, out = torch.arange(1, 9, dtype=torch.int32), torch.zeros(12, dtype=torch.int32)
    run(main, a, out)
    assert out.tolist()[:8] == [1, 1 + 3, 1 + 3 + 5, 1 + 2, 1 + 2, 10, 1 + 2 + 3 + 4, 100]


def test_membership():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=1) as bx:
            if bx in (1, 3, 5):
                A[bx] = 1
            elif bx not in [0, 7]:
                A[bx] = 2
            if 3 in [1, 2, 3] and "x" not in {"y": 1}:
                A[bx] += 10

    a = torch.zeros(8, dtype=torch.int32)
    run(main, a)
    assert a.tolist() == [10, 11, 12, 11, 12, 11, 12, 10]


def test_known_comparisons_in_plain_helpers():
    def kind(buffer):
        return "wide" if buffer.shape[1] == 8 else "narrow"

    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(1, threads=1):
            A[0, 0] = 1 if kind(A) == "wide" else 2
            B[0, 0] = 1 if kind(B) == "wide" else 2

    a, b = torch.zeros(4, 8, dtype=torch.int32), torch.zeros(4, 2, dtype=torch.int32)
    run(main, a, b)
    assert a[0, 0] == 1 and b[0, 0] == 2


def test_augmented_elements():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] += 1
                A[i] *= 2
                A[i] -= 0.5
                A[i] /= 4
                A[i] **= 2
                C[i] %= 3
                C[i] <<= 2
                C[i] |= 1
                C[i] ^= 2
                C[i] &= 14

    a, c = random((8,), torch.float32), torch.arange(8, dtype=torch.int32)
    expected, counts = (((a + 1) * 2 - 0.5) / 4) ** 2, [(((x % 3) << 2 | 1) ^ 2) & 14 for x in range(8)]
    run(main, a, c)
    torch.testing.assert_close(a, expected)
    assert c.tolist() == counts


def test_tiles_are_keys_of_a_dict_and_a_class_is_given_expressions():
    class Shifted:
        def __init__(self, tile):
            self.tile = tile

        @T.macro
        def __setitem__(self, place, value):
            self.tile[place + 1] = value

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            near, far = T.alloc_shared((8,), "int32"), T.alloc_shared((8,), "int32")
            factors = {near: 2}
            factors[far] = 3
            factors[far] += 1
            shifted = Shifted(B)
            T.copy(A, near)
            T.copy(A, far)
            for i in T.serial(7):
                shifted[i] = near[i] * factors[near] + far[i] * factors[far]

    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    run(main, a, b)
    assert b.tolist() == [0, *(6 * i for i in range(7))]
