"""Iterations of a ``T.Parallel`` that update one element of a fragment do so one after another."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.errors import InterpreterError
from tilelang.transform.accumulations import WITHIN_THREAD, accumulate_in_order


def over_rows(guarded=False, by_fragment=False):
    @T.prim_func
    def main(A: T.Tensor((64, 40), "float32"), total: T.Tensor((64,), "float32"), largest: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 40), "float32") if by_fragment else T.alloc_shared((64, 40), "float32")
            own = T.alloc_fragment((64,), "float32")
            most = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            T.clear(own)
            T.clear(most)
            for i, j in T.Parallel(64, 40):
                if not guarded or j < 30:
                    square = tile[i, j] * tile[i, j]
                    own[i] += square
                    most[i] = T.max(most[i], square)
            T.copy(own, total)
            T.copy(most, largest)

    return main


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("by_fragment", [False, True])
def test_rows_are_summed(arch, guarded, by_fragment):
    a = torch.randint(-8, 8, (64, 40)).float()
    total, largest = torch.zeros(64), torch.zeros(64)
    simulate(over_rows(guarded, by_fragment), a, total, largest, arch=arch)
    squares = a[:, : 30 if guarded else 40] ** 2
    assert torch.equal(total, squares.sum(1)) and torch.equal(largest, squares.max(1).values)


def test_the_interpreter_sums_rows():
    a = torch.randint(-8, 8, (64, 40)).float()
    total, largest = torch.zeros(64), torch.zeros(64)
    tilelang.compile(over_rows(), target="interpret")(a, total, largest)
    assert torch.equal(total, (a**2).sum(1)) and torch.equal(largest, (a**2).max(1).values)


@pytest.mark.parametrize("other", ["read", "written", "shared"])
def test_the_interpreter_reports_other_accesses_of_an_updated_element(other):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_shared((8,), "float32") if other == "shared" else T.alloc_fragment((8,), "float32")
            T.clear(own)
            for i, j in T.Parallel(8, 4):
                if other == "written" and j == 3:
                    own[i] = A[i, j]
                own[i] += A[i, j]
                if other == "read":
                    B[i, j] = own[i]

    with pytest.raises(InterpreterError, match="race"):
        tilelang.compile(main, target="interpret")(torch.ones(8, 4), torch.zeros(8, 4))


PLACES = {
    "diagonals": lambda i, j, A: i + j,
    "no quotient": lambda i, j, A: (i // 4 + j) % 16,
    "loaded": lambda i, j, A: A[j, i] % 16,
    "rows": lambda i, j, A: i,
}


@pytest.mark.parametrize("target", ["interpret", "cpu", "sm_80", "sm_90a"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("condition", ["none", "remainder", "diagonal"])
def test_any_iterations_may_update_one_element(target, place, condition):
    taken = {"none": lambda i, j: i >= 0, "remainder": lambda i, j: j % 3 == 0, "diagonal": lambda i, j: i == j}[condition]
    at = PLACES[place]

    @T.prim_func
    def main(A: T.Tensor((16, 16), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((32,), "int32")
            T.fill(own, 1)
            for i, j in T.Parallel(16, 16):
                if taken(i, j):
                    own[at(i, j, A)] += A[i, j]
                else:
                    own[at(i, j, A)] -= A[i, j]
            T.copy(own, B)

    a, b, expected = torch.randint(0, 99, (16, 16)).int(), torch.zeros(32).int(), [1] * 32
    for i in range(16):
        for j in range(16):
            expected[int(at(i, j, a))] += int(a[i, j]) if taken(i, j) else -int(a[i, j])
    if target.startswith("sm"):
        simulate(main, a, b, arch=target)
    else:
        tilelang.compile(main, target=target)(a, b)
    assert b.tolist() == expected


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_condition_on_what_a_launch_gives_may_hold_in_several_iterations(arch):
    """None or one for most ``n``: the iterations that the condition lets through are not known before the launch."""

    @T.prim_func
    def main(B: T.Tensor((16,), "int32"), n: T.int32):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((16,), "int32")
            T.clear(own)
            for i, j in T.Parallel(8, 8):
                if i + j <= n and i + j > n - 3:
                    own[i + j] += 1
            T.copy(own, B)

    b = torch.zeros(16).int()
    simulate(main, b, 7, arch=arch)
    assert b.tolist() == [0] * 5 + [6, 7, 8] + [0] * 8


@pytest.mark.parametrize("target", ["interpret", "cpu", "sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["places", "one place", "online sum"])
def test_several_statements_update_one_element(target, kind):
    @T.prim_func
    def main(A: T.Tensor((32, 24), "float32"), B: T.Tensor((2, 32), "float32")):
        with T.Kernel(1, threads=64):
            most, other = T.alloc_fragment((32,), "float32"), T.alloc_fragment((32,), "float32")
            T.fill(most, -99)
            T.clear(other)
            if kind == "places":
                for i, j in T.Parallel(32, 24):
                    if A[i, j] > most[i]:
                        most[i] = A[i, j]
                        other[i] = j
            elif kind == "one place":
                for i in T.Parallel(32):
                    if A[i, 0] > most[0]:
                        most[0] = A[i, 0]
                        other[0] = i
            else:
                for i, j in T.Parallel(32, 24):
                    larger = T.max(most[i], A[i, j])
                    other[i] = other[i] * T.exp(most[i] - larger) + T.exp(A[i, j] - larger)
                    most[i] = larger
            T.copy(most, B[0, :])
            T.copy(other, B[1, :])

    a, b = torch.randperm(768).view(32, 24).float() / 100, torch.zeros(2, 32)
    if target.startswith("sm"):
        simulate(main, a, b, arch=target)
    else:
        tilelang.compile(main, target=target)(a, b)
    expected = torch.full((2, 32), -99.0)
    expected[1] = 0
    if kind == "one place":
        expected[:, 0] = torch.stack([a[:, 0].max(), a[:, 0].argmax().float()])
    else:
        expected[0] = a.max(1).values
        expected[1] = a.argmax(1) if kind == "places" else (a - a.max(1, keepdim=True).values).exp().sum(1)
    torch.testing.assert_close(b, expected)


ELSEWHERE = {
    # what an iteration does to elements of two fragments
    "shifted": lambda own, other, x, i: [add(own, i, x), add(own, (i + 5) % 48, -2 * x)],
    "one for all": lambda own, other, x, i: [add(own, i, x), add(own, 10, x)],
    "by branches": lambda own, other, x, i: [raise_to(own, 3, x), raise_to(other, i // 2, -x)],
}


@T.macro
def add(values, at, x):
    values[at] += x


@T.macro
def raise_to(values, at, x):
    if x > values[at]:
        values[at] = x


@pytest.mark.parametrize("target", ["interpret", "cpu", "sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_an_iteration_updates_several_elements(target, kind):
    update = ELSEWHERE[kind]

    @T.prim_func
    def main(A: T.Tensor((48,), "int32"), B: T.Tensor((2, 48), "int32")):
        with T.Kernel(1, threads=64):
            own, other = T.alloc_fragment((48,), "int32"), T.alloc_fragment((48,), "int32")
            T.clear(own)
            T.clear(other)
            for i in T.Parallel(48):
                update(own, other, A[i], i)
            T.copy(own, B[0, :])
            T.copy(other, B[1, :])

    a, b = torch.randint(-99, 99, (48,)).int(), torch.zeros(2, 48).int()
    if target.startswith("sm"):
        simulate(main, a, b, arch=target)
    else:
        tilelang.compile(main, target=target)(a, b)
    expected = torch.zeros(2, 48).int()
    for i, x in enumerate(a.tolist()):
        if kind == "by branches":
            expected[0, 3] = max(expected[0, 3], x)
            expected[1, i // 2] = max(expected[1, i // 2], -x)
        else:
            place, factor = ((i + 5) % 48, -2) if kind == "shifted" else (10, 1)
            expected[0, i] += x
            expected[0, place] += factor * x
    assert torch.equal(b, expected)


def test_values_of_one_fragment_update_another_at_the_same_indices_only():
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            most, place = T.alloc_fragment((8,), "float32"), T.alloc_fragment((8,), "float32")
            T.clear(most)
            T.clear(place)
            for i, j in T.Parallel(8, 4):
                if A[i, j] > most[i]:
                    most[i] = A[i, j]
                    place[j] = i
            T.copy(place, B)

    with pytest.raises(InterpreterError, match="race"):
        tilelang.compile(main, target="interpret")(torch.rand(8, 4), torch.zeros(8))


LAYOUTS = {
    # which thread runs iteration (i, j), and its register
    "a row in a thread": lambda i, j: (i, j),
    "a row in 16 threads": lambda i, j: ((i * 16 + j) % 64, i // 4),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_that_spreads_an_element_over_threads_has_no_effect(arch, axis, layout):
    @T.prim_func
    def main(A: T.Tensor((64, 16), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((64,), "int32")
            T.clear(own)
            for i, j in T.Parallel(64, 16, loop_layout=T.Fragment((64, 16), forward_fn=LAYOUTS[layout])):
                own[i if axis == "rows" else j] += A[i, j]
            T.copy(own, B)

    a, b = torch.randint(-99, 99, (64, 16)).int(), torch.zeros(64).int()
    simulate(main, a, b, arch=arch)
    expected = a.sum(1) if axis == "rows" else torch.nn.functional.pad(a.sum(0), (0, 48))
    assert torch.equal(b, expected.int())


def test_a_product_over_a_third_axis():
    @T.prim_func
    def main(A: T.Tensor((32, 24), "float32"), B: T.Tensor((24, 16), "float32"), C: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 24), "float32")
            b = T.alloc_shared((24, 16), "float32")
            c = T.alloc_fragment((32, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i, j, k in T.Parallel(32, 16, 24):
                c[i, j] += a[i, k] * b[k, j]
            T.copy(c, C)

    a, b, c = torch.randint(-8, 8, (32, 24)).float(), torch.randint(-8, 8, (24, 16)).float(), torch.zeros(32, 16)
    simulate(main, a, b, c)
    assert torch.equal(c, a @ b)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_groups_of_a_row_are_summed(arch):
    @T.prim_func
    def main(A: T.Tensor((16, 96), "int32"), total: T.Tensor((16, 6), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((16, 6), "int32")
            T.clear(own)
            for i, j in T.Parallel(16, 96):
                own[i, j // 16] += A[i, j]
            T.copy(own, total)

    a, total = torch.randint(-8, 8, (16, 96)).int(), torch.zeros(16, 6, dtype=torch.int32)
    simulate(main, a, total, arch=arch)
    assert torch.equal(total, a.view(16, 6, 16).sum(2).int())


@pytest.mark.parametrize("place", [lambda i, j: i % 4 * 8 + j, lambda i, j: i % 4 * 8 + j % 8, lambda i, j: (i % 6 * 8 + j) % 32])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_that_come_round_again_are_summed(arch, place):
    """Iterations along ``i`` that lie a multiple of a distance apart store to one element, neighbours do not."""

    @T.prim_func
    def main(A: T.Tensor((12, 8), "int32"), largest: T.Tensor((48,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((48,), "int32")
            T.clear(own)
            for i, j in T.Parallel(12, 8):
                own[place(i, j)] = T.max(own[place(i, j)], A[i, j])
            T.copy(own, largest)

    a, largest, expected = torch.arange(96).view(12, 8).int(), torch.zeros(48).int(), [0] * 48
    for i in range(12):
        for j in range(8):
            expected[place(i, j)] = max(expected[place(i, j)], int(a[i, j]))
    simulate(main, a, largest, arch=arch)
    assert largest.tolist() == expected


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_each_thread_has_of_an_accumulator_is_summed_in_its_registers(arch):
    """Of each index a digit between two others accumulates: those on both sides of it are the thread's number."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((128, 2), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            acc, part = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((128, 2), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            T.clear(part)
            for i, j in T.Parallel(64, 64):
                part[i // 16 * 32 + i % 8 * 4 + j % 8 // 2, j % 2] += acc[i, j]
            T.copy(part, C)

    a, b, c = torch.randint(-4, 4, (64, 32)).half(), torch.randint(-4, 4, (32, 64)).half(), torch.zeros(128, 2)
    simulate(main, a, b, c, arch=arch)
    # rows are (warp, half, row), columns are (group, pair, element)
    expected = (a.float() @ b.float()).view(4, 2, 8, 8, 4, 2).sum((1, 3)).view(128, 2)
    assert torch.equal(c, expected)
    assert "acc_shared" not in source(main, arch=arch)


def test_a_quotient_beside_its_remainder_stays_shared_out():
    """``[i // 8, i % 8]`` is another element in each iteration."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_fragment((8, 8), "float32")
            T.copy(B, own)
            for half, i in T.Parallel(2, 32):
                own[half * 4 + i // 8, i % 8] += A[half * 32 + i]
            T.copy(own, B)

    a, b = torch.randint(-8, 8, (64,)).float(), torch.randint(-8, 8, (8, 8)).float()
    expected = b + a.view(8, 8)
    simulate(main, a, b)
    assert torch.equal(b, expected)
    assert "< 32;" not in source(main)


def test_one_iteration_of_an_axis_stays_parallel():
    """Under ``i == j`` no two iterations store to one element: the program has a meaning, and its threads share the axis."""

    def diagonal(parallel):
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                own = T.alloc_fragment((64,), "float32")
                T.copy(B, own)
                for i, j in T.Parallel(64, 64):
                    if (i == j) if parallel else (i <= j):
                        own[i] += A[i, j]
                T.copy(own, B)

        return main

    a, b = torch.randint(-8, 8, (64, 64)).float(), torch.arange(64.0)
    expected = b + a.diagonal()
    simulate(diagonal(parallel=True), a, b)
    assert torch.equal(b, expected)
    assert source(diagonal(parallel=True)) != source(diagonal(parallel=False))


def test_reducers_stay_shared_out():
    @T.prim_func
    def main(A: T.Tensor((64, 40), "float32"), total: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 40), "float32")
            own = T.alloc_reducer((64,), "float32", replication="all")
            T.copy(A, tile)
            T.clear(own)
            for i, j in T.Parallel(64, 40):
                own[i] += tile[i, j]
            T.finalize_reducer(own)
            T.copy(own, total)

    a, total = torch.randint(-8, 8, (64, 40)).float(), torch.zeros(64)
    simulate(main, a, total)
    assert torch.equal(total, a.sum(1))


def over_all(kind):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=96):
            total, tile = T.alloc_fragment((4,), "float32"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            T.fill(total, 1)
            if kind == "sum":
                for i in T.Parallel(64):
                    if A[0, i] > 0:
                        total[0] += A[0, i]
                for k in T.serial(4):
                    for i, j in T.Parallel(16, 64):
                        total[k] = total[k] - tile[16 * k + i, j]
            if kind == "max":
                for i, j in T.Parallel(64, 64):
                    total[3] = T.max(total[3], tile[i, j])
            if kind == "quotient":
                for i in T.Parallel(64):
                    total[i // 16] += A[3, i]
            T.copy(total, B)

    return main


def whole_sums(kind, a):
    expected = torch.ones(4)
    if kind == "sum":
        expected[0] += a[0][a[0] > 0].sum()
        return expected - a.reshape(4, -1).sum(1)
    if kind == "max":
        expected[3] = max(1, a.max())
        return expected
    return expected + a[3].reshape(4, 16).sum(1)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ["sum", "max", "quotient"])
def test_all_iterations_accumulate_into_one_element(arch, kind):
    a, b = torch.randint(-8, 8, (64, 64)).float(), torch.zeros(4)
    simulate(over_all(kind), a, b, arch=arch)
    assert torch.equal(b, whole_sums(kind, a))


def test_a_sum_over_all_iterations_is_shared_out():
    assert "total_part" in source(over_all("sum"))


def moved_by_more(kind):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), n: T.int32, m: T.int32):
        with T.Kernel(1, threads=64):
            x, f = T.alloc_fragment((8,), "float32"), T.alloc_fragment((8,), "float32")
            T.copy(A, x)
            T.clear(f)
            for i in T.Parallel(8):
                if kind == "loop":
                    for k in T.serial(4):
                        f[(i + k) % 8] += x[i]
                elif kind == "loop of n":
                    for k in T.serial(n):
                        f[(i + k) % 8] += x[i]
                elif kind == "two numbers":
                    f[(i + n) % 8] += x[i]
                    f[(i + m) % 8] += 10 * x[i]
                elif kind == "bits of a number":
                    f[i] += x[i]
                    f[(i + (n & 4)) % 8] += 10 * x[i]
                elif kind == "one iteration":
                    if i == n:
                        f[(i + 1) % 8] += x[i]
                    if i == 7:
                        f[m - 1] += x[i]
                elif kind == "conditions on numbers":
                    if n == 4:
                        f[i] += x[i]
                    if m == 6:
                        f[(i + 1) % 8] += x[i]
                elif kind == "values of a condition":
                    if T.min(i, 4) == n:
                        f[0] += x[i]
                elif kind == "narrow":
                    f[T.cast(T.cast(i, "uint8") * T.uint8(64), "int32") // 64] += x[i]
                elif kind == "unsigned":
                    f[(T.cast(i, "uint32") - T.uint32(6)) % T.uint32(5)] += x[i]
            T.copy(f, B)

    return main


def moved_sums(kind, x, n, m):
    f = torch.zeros(8)
    for i in range(8):
        steps = {
            "loop": [(i + k, 1) for k in range(4)],
            "loop of n": [(i + k, 1) for k in range(n)],
            "two numbers": [(i + n, 1), (i + m, 10)],
            "bits of a number": [(i, 1), (i + (n & 4), 10)],
            "one iteration": [(i + 1, int(i == n)), (m - 1, int(i == 7))],
            "conditions on numbers": [(i, int(n == 4)), (i + 1, int(m == 6))],
            "values of a condition": [(0, int(min(i, 4) == n))],
            "narrow": [(i % 4, 1)],
            "unsigned": [((i - 6) % 2**32 % 5, 1)],
        }
        for place, factor in steps[kind]:
            f[place % 8] += factor * x[i]
    return f


MOVED = [
    "loop",
    "loop of n",
    "two numbers",
    "bits of a number",
    "one iteration",
    "conditions on numbers",
    "values of a condition",
    "narrow",
]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "interpret"])
@pytest.mark.parametrize("kind", MOVED)
def test_elements_that_loops_and_numbers_move(arch, kind):
    x, b = torch.arange(1.0, 9.0), torch.zeros(8)
    if arch == "interpret":
        tilelang.compile(moved_by_more(kind), target=arch)(x, b, 4, 6)
    else:
        simulate(moved_by_more(kind), x, b, 4, 6, arch=arch)
    assert torch.equal(b, moved_sums(kind, x, 4, 6))


def apart_by_more(kind):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((8, 4), "float32")
            T.clear(f)
            for i in T.Parallel(8):
                if kind == "columns":
                    f[i, n] += A[i, 0]
                    f[i, n + 1] += A[i, 1]
                elif kind == "loop":
                    for k in T.serial(4):
                        f[(i * 4 + k) // 4, (i * 4 + k) % 4] += A[i, k]
                elif kind == "shifted":
                    f[(i + n) % 8, 0] += A[i, 0]
                elif kind == "shifted by a product":
                    f[(i + n * n) % 8, 0] += A[i, 0]
                elif kind == "halves":
                    f[(2 * i + n % 2) // 2 % 8, 0] += A[i, 0]
                elif kind == "one iteration":
                    if i == n:
                        f[0, 0] += A[i, 0]
            T.copy(f, B)

    return main


def in_one_thread(func):
    return WITHIN_THREAD in str(accumulate_in_order(func.body))


@pytest.mark.parametrize("kind", ["columns", "loop", "shifted", "shifted by a product", "halves", "one iteration"])
def test_updates_of_different_elements_are_shared_out(kind):
    assert not in_one_thread(apart_by_more(kind))


@pytest.mark.parametrize("kind", [kind for kind in MOVED if kind != "values of a condition"])  # a sum over all iterations
def test_updates_that_may_meet_are_one_threads(kind):
    assert in_one_thread(moved_by_more(kind))


@pytest.mark.parametrize("kind", ["product", "sevenths"])
@pytest.mark.parametrize("n", [3, 4])
def test_updates_that_meet_for_one_value_of_a_number(kind, n):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), "float32")
            T.clear(f)
            if kind == "product":
                for i in T.Parallel(64):
                    f[i * (n - 3)] += A[i]
            else:
                for i in T.Parallel(2):
                    f[(4 + i * 6 + n) // 7] += A[i]
            T.copy(f, B)

    a, b, expected = torch.arange(1.0, 65), torch.zeros(64), torch.zeros(64)
    for i in range(64 if kind == "product" else 2):
        expected[i * (n - 3) if kind == "product" else (4 + i * 6 + n) // 7] += a[i]
    simulate(main, a, b, n)
    assert torch.equal(b, expected)


@pytest.mark.parametrize(
    ("dtype", "begin", "update", "expected"),
    [
        ("int32", 100, lambda total: total - 0.5, 36),  # 0.5 each time, and the fraction dropped
        ("float32", 0.5, lambda total: T.cast(total, "int32") + 1, 64),
        ("int32", 200, lambda total: T.cast(total, "int8") + T.int8(1), 8),
        ("int8", 100, lambda total: total + 1, -92),
        ("float16", 0.5, lambda total: T.cast(total, "float32") + 1.0, 64.5),
    ],
)
def test_sums_in_parts_where_conversions_allow_it(dtype, begin, update, expected):
    """What each step drops of the sum so far is not what it would drop of a part of the sum."""

    @T.prim_func
    def main(B: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((1,), dtype)
            T.fill(total, begin)
            for _ in T.Parallel(64):
                total[0] = update(total[0])
            T.copy(total, B)

    b = torch.zeros(1, dtype=getattr(torch, dtype))
    simulate(main, b)
    assert b.item() == expected
