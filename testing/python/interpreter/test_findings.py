"""Each finding by a planted fault, and the same program without it."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import interpreter
from tilelang.errors import InterpreterError

from .support import kinds

X, Y = torch.arange(64, dtype=torch.float32), torch.zeros(64)


def neighbours(distance):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            T.copy(A, S)
            for i in T.Parallel(64):
                S[i] = S[(i + distance) % 64] + 1
            T.copy(S, B)

    return main


@pytest.mark.parametrize(("distance", "found"), [(0, []), (1, ["race"])])
def test_an_iteration_that_reads_what_another_writes(distance, found):
    assert kinds(neighbours(distance), X, Y.clone()) == found


def halves(width):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i // width] = A[i]

    return main


@pytest.mark.parametrize(("width", "found"), [(1, []), (2, ["race"])])
def test_two_iterations_that_write_one_element(width, found):
    assert kinds(halves(width), X, Y.clone()) == found


@pytest.mark.parametrize("where", ["shared", "global"])
@pytest.mark.parametrize("distance, found", [(0, []), (1, ["race"]), (4, [])])
def test_a_copy_between_overlapping_parts(where, distance, found):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "int32")
            T.copy(A, tile)
            memory = tile if where == "shared" else A
            T.copy(memory[0:4], memory[distance : distance + 4])

    assert kinds(main, torch.arange(8, dtype=torch.int32)) == found


@pytest.mark.parametrize("distance, found", [(0, []), (1, ["race"]), (4, [])])
def test_a_scan_between_overlapping_parts(distance, found):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "int32")
            T.copy(A, tile)
            T.cumsum(tile[0:4], tile[distance : distance + 4])

    assert kinds(main, torch.arange(8, dtype=torch.int32)) == found


@pytest.mark.parametrize("column, found", [(1, ["race"]), (4, [])])
def test_a_transpose_between_overlapping_parts(column, found):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "int32")
            T.copy(A, tile)
            T.transpose(tile[:, 0:4], tile[:, column : column + 4])

    assert kinds(main, torch.arange(32, dtype=torch.int32).reshape(4, 8)) == found


def test_an_element_of_a_column_major_tensor_is_named_by_its_indices():
    @T.prim_func
    def main(A: T.StridedTensor((8, 4), (1, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i, j, k in T.Parallel(8, 4, 2):
                if i == 3 and j == 2:
                    A[i, j] = T.float32(k)

    (finding,) = interpreter.run(main, torch.zeros(4, 8).T)
    assert "writes A[3, 2]" in str(finding)


def partly_filled(count):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            F = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(count):
                F[i] = A[i]
            for i in T.Parallel(64):
                B[i] = F[i] * 2

    return main


@pytest.mark.parametrize(("count", "found"), [(64, []), (63, ["uninitialised"])])
def test_an_element_that_nothing_wrote(count, found):
    assert kinds(partly_filled(count), X, Y.clone()) == found


@pytest.mark.parametrize("value, found", [(2, ["uninitialised"]), (5, [])])
def test_an_element_that_groups_store_to(value, found):
    """All threads of a group store to the copy that they have."""

    @T.prim_func
    def main(B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=256):
            c = T.alloc_fragment((4,), "int32")
            T.fill(c, 1)
            with T.ws(0):
                c[0] = 5
            with T.ws(1):
                c[0] = value
                c[1] = c[0] + 1
            T.copy(c, B)

    result = torch.zeros(4, dtype=torch.int32)
    assert kinds(main, result) == found
    assert result[1:].tolist() == [value + 1, 1, 1]


def test_an_element_that_iterations_left_different_values_in():
    @T.prim_func
    def main(B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            last = T.alloc_var("int32", init=0)
            for i in T.Parallel(64):
                last = i
            B[0] = last

    (finding,) = interpreter.run(main, torch.zeros(64, dtype=torch.int32))
    assert "several threads or iterations have left different values in it" in str(finding)


def beyond(offset):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), n: T.int32, B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            T.copy(A, S)
            for i in T.Parallel(63):
                B[i] = S[i + n]

    return main


@pytest.mark.parametrize(("offset", "found"), [(1, []), (2, ["out-of-bounds"])])
def test_an_index_outside_of_a_tile(offset, found):
    assert kinds(beyond(offset), X, offset, Y.clone()) == found


@pytest.mark.parametrize(
    "number, threads, found", [(15, 64, []), (16, 64, ["barrier"]), (-1, 64, ["barrier"]), (1, 40, ["barrier"])]
)
def test_a_barrier_that_the_hardware_does_not_have(number, threads, found):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), number: T.int32, threads: T.int32):
        with T.Kernel(1, threads=64):
            T.sync_threads(number, threads)
            A[T.get_thread_binding()] = 1

    assert kinds(main, torch.zeros(64, dtype=torch.int32), number, threads) == found


def test_a_finding_names_the_line_the_block_and_the_iterations():
    (finding,) = interpreter.run(neighbours(1), X, Y.clone())
    assert finding.block == (0,)
    assert str(finding).startswith("race: iteration 0 writes S[0], which iteration 63 reads, block (0)\n  --> ")
    assert "S[i] = S[(i + distance) % 64] + 1" in str(finding) and "^^^^" in str(finding)


def test_a_call_raises_what_was_found():
    kernel = tilelang.compile(neighbours(1), target="interpret")
    with pytest.raises(InterpreterError, match="race: iteration 0 writes"):
        kernel(X, Y.clone())
    with tilelang.interpret(strict=False) as session:
        kernel(X, Y.clone())
    assert [finding.kind for finding in session.findings] == ["race"]
