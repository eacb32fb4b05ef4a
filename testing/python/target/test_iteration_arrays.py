"""Local arrays in ``T.Parallel``: iterations have their own elements; what they agree on is there after the loop."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import source
from testing.python.target.definition import EVERY, check_meaning
from tilelang.errors import CompileError

X = torch.randint(-9, 9, (100,)).float()


def test_an_iteration_begins_with_what_the_elements_held():
    @T.prim_func
    def main(Y: T.Tensor((100,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((4,), "float32")
            for k in T.serial(4):
                own[k] = k
            for i in T.Parallel(100):
                own[1] = own[1] + 2
                Y[i] = own[1]

    assert check_meaning(main, torch.zeros(100))[0].tolist() == [3.0] * 100


@pytest.mark.parametrize("extent", [3, 33, 100])
def test_what_iterations_agree_on_is_there_afterwards(extent):
    @T.prim_func
    def main(Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((4,), "float32")
            T.clear(own)
            for i in T.Parallel(extent):
                own[1] = 3
                if i == 2:
                    own[2] = 4
            Y[0] = own[1]
            T.atomic_add(Y[1], own[2])
            for i in T.Parallel(6):
                Y[2 + i] = own[i % 3] + i

    assert check_meaning(main, torch.zeros(8))[0].tolist() == [3, 4, 0, 4, 6, 3, 7, 9]


def test_an_iteration_reads_what_was_there_and_not_what_another_one_stored():
    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((8,), "float32")
            T.copy(X, own)
            for i in T.Parallel(8):
                own[i] = own[(i + 7) % 8] + 1
            for i in T.serial(8):
                Y[i] = own[i]

    assert torch.equal(check_meaning(main, X[:8], torch.zeros(8))[1], X[:8].roll(1) + 1)


def test_sums_in_loops_of_an_iteration():
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((100,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((2, 4), "float32")
            for k in T.serial(3):
                T.fill(own, k)
                for i in T.Parallel(100):
                    for q in T.serial(4):
                        own[0, q] = own[0, q] + X[i] * q
                    for q in T.unroll(4):
                        if k == q:
                            continue
                        Y[i] += own[0, q] + own[1, q]

    expected = sum(sum(X * q + 2 * k for q in range(4) if q != k) for k in range(3))
    assert torch.equal(check_meaning(main, X, torch.zeros(100))[1], expected)


def test_elements_chosen_by_data():
    @T.prim_func
    def main(C: T.Tensor((100,), "int32"), Y: T.Tensor((100,), "int32"), Z: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((4,), "int32")
            for k in T.serial(4):
                own[k] = 10 * k
            for i in T.Parallel(100):
                own[C[i]] = own[C[i]] + 1
                Y[i] = own[0] + own[1] + own[2] + own[3]
            for k in T.serial(4):
                Z[k] = own[k]

    chosen = torch.arange(100, dtype=torch.int32) % 3
    _, y, z = check_meaning(main, chosen, torch.zeros(100, dtype=torch.int32), torch.zeros(4, dtype=torch.int32))
    assert set(y.tolist()) == {61} and z.tolist() == [1, 11, 21, 30]


def test_values_go_on_into_the_next_round_of_a_loop_around():
    @T.prim_func
    def main(Y: T.Tensor((100,), "int32")):
        with T.Kernel(1, threads=32):
            own, n = T.alloc_local((2,), "int32"), T.alloc_var("int32")
            for k in T.serial(3):
                for i in T.Parallel(100):
                    if k == 0:
                        own[0] = 5
                        n = 1
                    own[0] = own[0] + 1
                    n = n + 2
                    Y[i] += own[0] * n

    assert set(check_meaning(main, torch.zeros(100, dtype=torch.int32))[0].tolist()) == {6 * 3 + 7 * 5 + 8 * 7}


def test_iterations_that_are_left_early():
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((2,), "float32")
            for _ in T.Parallel(100):
                own[0] = 1
                own[1] = 5
            for i in T.Parallel(100):
                if X[i] < 100:
                    continue
                own[1] = 7
            Y[0] = own[0]
            Y[1] = own[1]

    assert check_meaning(main, X, torch.zeros(2))[1].tolist() == [1, 5]


@pytest.mark.parametrize("dtype", ["float16", "int8", "float16x2", "int4"])
def test_arrays_of_every_kind_of_element(dtype):
    @T.prim_func
    def main(Y: T.Tensor((64,), "float32"), Z: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            own, last = T.alloc_local((3,), dtype), T.alloc_local((3,), dtype)
            for k in T.serial(3):
                own[k] = T.cast(k, dtype) if "x" not in dtype else T.Broadcast(T.Cast("float16", k), 2)
                last[k] = own[k]
            for i in T.Parallel(64):
                own[1] = own[1] + own[2]
                last[1] = own[1]
                last[0] = last[1] + last[2]
                Y[i] = T.cast(own[1] if "x" not in dtype else T.Shuffle([own[1]], [1]), "float32")
            Z[0] = T.cast(last[0] if "x" not in dtype else T.Shuffle([last[0]], [0]), "float32")

    y, z = check_meaning(main, torch.zeros(64), torch.zeros(4))
    assert set(y.tolist()) == {3} and z[0] == 5


@T.macro
def bytes_of_words(X, Y):
    words = T.alloc_local((2,), "uint32")
    parts = T.view(words, (8,), "uint8")
    T.clear(words)
    for i in T.Parallel(50):
        words[1] = words[1] + T.cast(X[i], "uint32")
        for q in T.serial(4):
            parts[q] = parts[q] + parts[4 + q]
        Y[i] = T.cast(parts[0], "float32")


def test_views_of_an_array_are_the_iterations_own_too():
    @T.prim_func
    def main(X: T.Tensor((50,), "int32"), Y: T.Tensor((50,), "float32")):
        with T.Kernel(1, threads=32):
            bytes_of_words(X, Y)

    x = torch.randint(0, 200, (50,), dtype=torch.int32)
    assert torch.equal(check_meaning(main, x, torch.zeros(50))[1], x.float())


@pytest.mark.parametrize("target", EVERY.values(), ids=EVERY)
def test_values_left_in_a_view_are_refused(target):
    @T.prim_func
    def main(Y: T.Tensor((50,), "uint32")):
        with T.Kernel(1, threads=32):
            words = T.alloc_local((2,), "uint32")
            parts = T.view(words, (8,), "uint8")
            T.clear(words)
            for i in T.Parallel(50):
                parts[i % 2] = parts[1] + 1
            Y[0] = words[0]

    with pytest.raises(CompileError, match="store to 'parts', a view of 'words', which is read after the loop") as caught:
        tilelang.compile(main, target=target)
    assert caught.value.location is not None


def test_threads_that_replicate_a_loop_keep_its_results():
    @T.prim_func
    def main(Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            own = T.alloc_local((2,), "int32")
            T.clear(own)
            for i in T.Parallel(4):
                if i == tx % 5:
                    own[1] = own[1] + tx
            Y[tx] = own[1]

    tx = torch.arange(64, dtype=torch.int32)
    assert torch.equal(check_meaning(main, torch.zeros(64, dtype=torch.int32))[0], torch.where(tx % 5 < 4, tx, 0))


@pytest.mark.parametrize("index", [lambda i, k: i, lambda i, k: 63 - i, lambda i, k: k * 32 + i % 32])
def test_disjoint_iterations_are_not_privatised(index):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_local((64,), "float32")
            T.clear(own)
            for k in T.serial(2):
                for i in T.Parallel(32):
                    own[index(i, k)] = own[index(i, k)] + X[i]
            T.copy(own, Y)

    check_meaning(main, torch.arange(64.0), torch.zeros(64))
    assert "own_last" not in source(main)


@T.macro
def to_the_next_element(X, Y, own):
    for i in T.Parallel(15):
        own[i + 1] = own[i] * 2 + i
        Y[i] = own[i + 1] + own[0]


@T.macro
def across(X, Y, own):
    for i in T.Parallel(16):
        own[15 - i] = own[i] + i
        Y[i] = own[i]


@T.macro
def by_a_while(X, Y, own):
    n = T.alloc_var("int32", init=0)
    while n < 3:
        for i in T.Parallel(64):
            own[n] = own[n] + 1
            Y[i] += own[n] + own[0]
        n += 1


@T.macro
def by_loops_one_after_the_other(X, Y, own):
    for i in T.Parallel(16):
        own[i] = X[i]
    for i in T.Parallel(64):
        own[0] = own[i % 16] + 1
        Y[i] = own[0]
        own[0] = 11
    for i in T.Parallel(16):
        Y[i] += own[i]


@T.macro
def by_a_loop_that_is_left(X, Y, own):
    for i in T.Parallel(64):
        for q in T.serial(16):
            if X[i] < q - 3:
                break
            own[q] = own[q] + X[i]
        Y[i] = own[0] + own[3] + own[5]
    T.fill(own, 4)


@T.macro
def of_a_loop_around(X, Y, own):
    for k in T.serial(3):
        inner = T.alloc_local((2,), "float32")
        inner[0] = k
        inner[1] = 1
        for i in T.Parallel(64):
            inner[1] = inner[1] + inner[0]
            Y[i] += inner[1]
            inner[0] = 5
        own[k] = inner[0]


@T.macro
def in_a_pipeline(X, Y, own):
    tile = T.alloc_shared((16,), "float32")
    for k in T.Pipelined(4, num_stages=3):
        T.copy(X[k * 16], tile)
        for i in T.Parallel(16):
            own[k] = own[k] + 1
            Y[k * 16 + i] = tile[i] * own[k]
            if tile[i] > 100:
                own[7] = 50
        for i in T.Parallel(16):
            Y[k * 16 + i] += own[7] + own[k]


WAYS = [
    to_the_next_element, across, by_a_while, by_loops_one_after_the_other, by_a_loop_that_is_left, of_a_loop_around,
    in_a_pipeline,
]  # fmt: skip


@pytest.mark.parametrize("body", WAYS, ids=lambda body: body.__name__)
def test_elements_go_on(body):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), Z: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((16,), "float32")
            T.fill(own, 1)
            body(X, Y, own)
            T.copy(own, Z)

    check_meaning(main, X[:64], torch.zeros(64), torch.zeros(16))


@pytest.mark.parametrize("wide", [False, True])
def test_arrays_in_both_sides_of_a_branch_on_the_thread(wide):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx, own = T.get_thread_binding(), T.alloc_local((16,), "float32")
            T.fill(own, 1)
            if tx < 32:
                for i in T.Parallel(16):
                    own[i] = X[i] + own[(i + 1) % 16]
            else:
                for i in T.Parallel(16):
                    own[i if wide else 3] = X[i + 16 if wide else 5] * 2 + own[5]
            Y[tx] = own[tx % 16]

    check_meaning(main, X[:64], torch.zeros(64))


@pytest.mark.parametrize("dtype", ["int32", "float16", "int8", "bool", "float64"])
def test_elements_in_which_iterations_differ_need_not_be_read(dtype):
    @T.prim_func
    def main(X: T.Tensor((1,), "int32"), Y: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((4,), dtype)
            for k in T.serial(4):
                own[k] = T.cast(k, dtype)
            for j in T.Parallel(64):
                own[X[0]] = T.cast(j, dtype)
            for k in T.serial(4):
                if k != X[0]:
                    Y[k] = T.cast(own[k], "int32")

    y = check_meaning(main, torch.tensor([2], dtype=torch.int32), torch.zeros(4, dtype=torch.int32))[1]
    assert y.tolist() == [0, 1, 0, 1 if dtype == "bool" else 3]
