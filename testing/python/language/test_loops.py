"""Loops and control flow, executed on the CPU and compared with plain Python."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError

from .support import random, run


def visits(make_loop, size):
    """How often, and in which order, a loop visits each index: a program that writes a running count."""

    @T.prim_func
    def main(order: T.Tensor((size,), "int32")):
        with T.Kernel(1, threads=1):
            count = T.alloc_var("int32", init=0)
            for i in make_loop():
                count += 1
                order[i] = count

    out = torch.zeros(size, dtype=torch.int32)
    run(main, out)
    return out.tolist()


@pytest.mark.parametrize(
    "make_loop",
    [
        lambda: T.serial(8),
        lambda: T.serial(2, 8),
        lambda: T.serial(1, 8, 3),
        lambda: T.serial(7, 0, -2),
        lambda: T.unroll(8),
        lambda: T.unroll(0, 8, 2),
        lambda: T.unroll(2, 6, explicit=True),
        lambda: T.Pipelined(8, num_stages=3),
        lambda: T.Pipelined(3, 7, num_stages=2),
        lambda: T.Serial(4),
    ],
)
def test_order_of_a_loop(make_loop):
    spec = make_loop()
    ((first, extent, step),) = spec.ranges
    expected = [0] * 8
    for position in range(extent):
        expected[first + position * step] = position + 1
    assert visits(make_loop, 8) == expected


@pytest.mark.property
@settings(max_examples=15, deadline=None)
@given(st.integers(-5, 5), st.integers(0, 12), st.integers(-4, 4).filter(bool))
def test_range_is_pythons_range(start, stop, step):
    @T.prim_func
    def main(out: T.Tensor((32,), "int32"), offset: T.int32):
        with T.Kernel(1, threads=1):
            count = T.alloc_var("int32", init=0)
            for i in range(offset + start, offset + stop, step):
                out[count] = i
                count += 1
            out[31] = count

    out = torch.zeros(32, dtype=torch.int32)
    run(main, out, 3)
    expected = list(range(start + 3, stop + 3, step))
    assert out.tolist()[: len(expected)] == expected and out[31] == len(expected)


def test_dynamic_bounds_and_grid():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 5), "int32")):
        with T.Kernel(1, threads=1):
            for i, j in T.grid(n, 5):
                A[i, j] = i * 10 + j

    a = torch.zeros(7, 5, dtype=torch.int32)
    run(main, a)
    assert torch.equal(a, torch.arange(7)[:, None].int() * 10 + torch.arange(5).int())


def test_vectorized():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                for v in T.vectorized(8):
                    B[i * 8 + v] = A[i * 8 + v] * 2

    a = random((64,), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a * 2)
    with pytest.raises(CompileError, match="the length of T.vectorized must be known"):
        T.vectorized(T.dynamic("n"))


def test_nested_parallel_with_dynamic_extents():
    m, n = T.dynamic("m, n")

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), B: T.Tensor((n, m), "float32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(m, n):
                B[j, i] = A[i, j]

    a = random((6, 11), torch.float32)
    b = torch.empty(11, 6)
    run(main, a, b)
    assert torch.equal(b, a.T)


def test_break_continue_and_while():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), out: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            total = T.alloc_var("int32", init=0)
            for i in T.serial(16):
                if A[i] < 0:
                    continue
                if A[i] > 50:
                    T.loop_break()
                for j in range(4):
                    if j == 2:
                        break
                    total += A[i]
            out[0] = total
            steps = T.alloc_var("int32", init=0)
            number = T.alloc_var("int32", init=27)
            while number != 1:
                number = T.if_then_else(number % 2 == 0, number // 2, 3 * number + 1)
                steps += 1
                if steps > 1000:
                    break
            out[1] = steps
            while True:
                steps -= 1
                if steps < 5 or number > 3:
                    break
            out[2] = steps

    a = torch.tensor([1, 2, -3, 4, 60, 5, *[0] * 10], dtype=torch.int32)
    out = torch.zeros(4, dtype=torch.int32)
    run(main, a, out)
    assert out.tolist()[:3] == [2 * (1 + 2 + 4), 111, 4]


def test_conditions():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32"), limit: T.int32, flag: T.bool):
        with T.Kernel(1, threads=1):
            for i in T.serial(16):
                if 2 < A[i] <= limit and not flag:
                    B[i] = 1
                elif A[i] == 0 or A[i] == limit + 1:
                    B[i] = 2
                else:
                    B[i] = 3 if A[i] % 2 == 0 else 4

    a = torch.arange(16, dtype=torch.int32)
    for flag in (False, True):
        b = torch.zeros(16, dtype=torch.int32)
        run(main, a, b, 9, flag)
        expected = [1 if 2 < x <= 9 and not flag else 2 if x in (0, 10) else 3 if x % 2 == 0 else 4 for x in range(16)]
        assert b.tolist() == expected


@pytest.mark.parametrize("waves", [1, 3, 5, 16])
def test_persistent_visits_every_tile_once(waves):
    @T.prim_func
    def main(counts: T.Tensor((4, 8), "int32")):
        with T.Kernel(waves, threads=32) as block:
            for x, y in T.Persistent([4, 8], waves, block):
                T.atomic_add(counts[x, y], 1)

    counts = torch.zeros(4, 8, dtype=torch.int32)
    run(main, counts)
    assert (counts == 1).all()


def test_several_grid_axes():
    @T.prim_func
    def main(A: T.Tensor((3, 4, 5), "int32")):
        with T.Kernel(5, 4, 3, threads=32) as (x, y, z):
            A[z, y, x] = z * 100 + y * 10 + x

    a = torch.zeros(3, 4, 5, dtype=torch.int32)
    run(main, a)
    assert a[2, 3, 4] == 234 and a[1, 0, 3] == 103


def test_pipelined_schedule_of_the_user():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            for k in T.Pipelined(8, num_stages=2, order=[0, 1], stage=[0, 1], group=[[0], [1]]):
                T.copy(A[k * 8], tile)
                for i in T.Parallel(8):
                    B[k * 8 + i] = tile[i] + k

    a = random((64,), torch.float32)
    assert torch.equal(run(main, a, out_idx=-1), a + torch.arange(8).repeat_interleave(8))


def test_empty_loops():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), out: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_var("int32", init=5)
            for i in T.serial(n):
                total += A[i]
            for _ in T.serial(4, 2):
                total += 100
            out[0] = total

    out = torch.zeros(1, dtype=torch.int32)
    run(main, torch.ones(0, dtype=torch.int32), out)
    assert out[0] == 5


def test_steps_of_the_run_time():
    starts, steps = [1, 40, 40, 5, 0, -3], [3, -4, -7, 0, 50, 1]

    @T.prim_func
    def main(S: T.Tensor((6,), "int64"), U: T.Tensor((6,), "uint32"), out: T.Tensor((6, 16), "int32")):
        with T.Kernel(6, threads=32) as b:
            count = T.alloc_var("int32", init=0)
            step = T.alloc_var("int64", init=S[b])
            for i in range(starts[b], 8, step):
                step = T.int64(99)  # the loop has read it
                out[b, count] = i
                count += 1
            for i in T.serial(b, 6, U[b]):
                out[b, 15] += i

    unsigned = [1, 2, 3, 4, 5, 6]
    wanted = torch.zeros((6, 16), dtype=torch.int32)
    for b, (start, step) in enumerate(zip(starts, steps)):
        visited = range(start, 8, step) if step else ()
        wanted[b, : len(visited)] = torch.tensor(visited, dtype=torch.int32)
        wanted[b, 15] = sum(range(b, 6, unsigned[b]))
    given = torch.tensor(steps), torch.tensor(unsigned, dtype=torch.uint32), torch.zeros_like(wanted)
    assert torch.equal(check_meaning(main, *given)[2], wanted)


def test_bad_loops():
    with pytest.raises(CompileError, match="the step of a loop is zero"):
        T.serial(0, 8, 0)
    with pytest.raises(CompileError, match="the step of a loop must be an integer"):
        T.serial(0, 8, 1.5)
    with pytest.raises(CompileError, match="T.Parallel needs at least one extent"):
        T.Parallel()
    with pytest.raises(CompileError, match="a run-time loop in a plain Python function"):
        list(T.serial(4))


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_bounds_of_a_loop_are_computed_once(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            n = T.alloc_var("int32", init=3)
            for i in range(n):
                n = n - 1
                B[i] = 1
            for i in range(A[0], A[1]):
                A[0] = 7
                A[1] = 7
                B[i] = 2

    b = torch.zeros(8, dtype=torch.int32)
    run(main, torch.tensor([4, 6] + [0] * 6, dtype=torch.int32), b, target=target)
    assert b.tolist() == [1, 1, 1, 0, 2, 2, 0, 0]


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_condition_on_memory_is_no_fact_once_memory_changes(target):
    """The guard of the store stays, although the branch tested the variable before it changed."""

    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            x = T.alloc_var("int32", init=A[0])
            if 0 <= x < 8:
                x = x + A[1]
                B[x] = 1

    memory = torch.zeros(64, dtype=torch.int32)
    run(main, torch.tensor([3, 40], dtype=torch.int32), memory[:8], target=target)
    assert not memory.any()


def test_what_a_branch_that_is_not_taken_assigns_is_not_carried():
    is_circular = False

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            slot = 0
            for i in range(4):
                if is_circular:
                    slot = (slot + 1) % 4
                B[i] = A[slot]

    out = torch.zeros(4, dtype=torch.int32)
    run(main, torch.tensor([5, 6, 7, 8], dtype=torch.int32), out)
    assert out.tolist() == [5, 5, 5, 5]


def test_loops_that_with_enters():
    """TVM's scripts write a loop as a context manager, too."""

    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((4,), "int32")
            T.clear(total)
            with T.serial(8) as j:
                with T.Parallel(4) as i:
                    total[i] += A[i, j]
            with T.serial(2):
                with T.Parallel(4) as i:
                    total[i] *= 3
            with T.grid(2, 2) as (k, m):
                B[k * 2 + m] = 0
            T.copy(total, B)

    a, b = torch.arange(32, dtype=torch.int32).reshape(4, 8), torch.zeros(4, dtype=torch.int32)
    for target in ("cpu", "interpret"):
        tilelang.compile(main, target=target)(a, b)
        assert torch.equal(b, a.sum(1, dtype=torch.int32) * 9)


def test_loops_that_with_enters_in_a_plain_function():
    def add_rows(total, A):
        with T.serial(8) as j, T.grid(2, 2) as (k, m):
            with T.If(j % 2 == 0), T.Then():
                T.buffer_store(total, total[k, m] + A[j, k * 2 + m], [k, m])

    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_shared((2, 2), "int32")
            T.clear(total)
            add_rows(total, A)
            for i in T.serial(4):
                B[i] = total[i // 2, i % 2]

    a, b = torch.arange(32, dtype=torch.int32).reshape(8, 4), torch.zeros(4, dtype=torch.int32)
    for target in ("cpu", "interpret"):
        tilelang.compile(main, target=target)(a, b)
        assert torch.equal(b, a[::2].sum(0, dtype=torch.int32))


def test_a_value_carried_through_a_loop_that_with_enters():
    with pytest.raises(CompileError, match="'largest' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=32):
                largest = T.min_value("float32")
                with T.serial(8) as i:
                    largest = T.max(largest, A[i])
                B[0] = largest


def test_memory_of_a_loop_keeps_its_content_and_init_is_a_store():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64):
            for k in T.serial(4):
                total, turns = T.alloc_fragment((64,), "int32"), T.alloc_var("int32", init=10)
                if k == 0:
                    T.clear(total)
                for i in T.Parallel(64):
                    total[i] += A[k, i] + turns
                turns += 5
                T.copy(total, B[k, :])

    a = torch.arange(256, dtype=torch.int32).reshape(4, 64)
    (_, b) = check_meaning(main, a, torch.zeros_like(a))
    assert torch.equal(b, (a + 10).cumsum(0, dtype=torch.int32))
