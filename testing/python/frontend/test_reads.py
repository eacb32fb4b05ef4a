"""Elements are read where Python reads them; those that name a place are not."""

import torch

import tilelang
import tilelang.language as T
from tilelang.errors import RunTimeValueError

from .support import error_at_mark


class Held:
    def __init__(self, value):
        self.value = value


def moved(A, value):
    T.copy(A[8:9], A[1:2])
    return value


@T.macro
def bump(variable: T.Ref):
    variable += 1


def results(program) -> list[int]:
    a, b = torch.arange(1, 17, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    tilelang.compile(program, target="interpret")(a, b)
    return b.tolist()


def test_a_helper_that_copies_gives_what_it_was_given():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            B[0] = moved(A, A[1])
            B[1] = A[1] * 10 + moved(A, A[8])

    assert results(main)[:2] == [2, 99]


def test_tiles_slices_and_elements_of_a_loop_of_python_are_places():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2,), "int32")
            n = T.alloc_var("int32", init=1)
            for src, dst in ((A[0:2], tile), (tile, B[0:2]), (A[4], tile), (tile, B[2])):
                T.copy(src, dst)
            for src, dst in ((A[6], B[4]), (B[4], B[5])):
                for _ in T.Parallel(1):
                    T.copy(src, dst)
            for place in (B[6], B[6]):
                T.atomic_add(place, A[2])
            for variable in (n, n):
                bump(variable)
                bump(variable)
            B[7] = n

    assert results(main) == [1, 2, 5, 6, 7, 7, 6, 5]


def test_an_element_read_in_a_block_that_has_ended():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            with T.attr(None, "pragma_note", 1):
                held = Held(A[0])
            B[0] = held.value

    assert results(main)[0] == 1

    with error_at_mark(RunTimeValueError, "an element of A was read in a block that has ended"):

        @T.prim_func
        def late(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                with T.attr(None, "pragma_note", 1):
                    held = Held(A[0])
                    A[0] = 5
                B[0] = held.value  # <- error


def test_what_a_condition_guards_stays_below_it():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4,), "int32")
            T.copy(A[0:4], tile)
            for i in T.serial(8):
                held = Held(tile[i] if i < 4 else 0)
                tile[i % 4] = 50
                B[i] = held.value

    assert results(main) == [1, 2, 3, 4, 0, 0, 0, 0]


def test_variables_among_operands_are_read_before_a_macro_changes_them():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            square = T.alloc_shared((4, 4), "int32")
            for i, j in T.Parallel(4, 4):
                square[i, j] = A[i * 4 + j]
            n = T.alloc_var("int32", init=0)
            B[0] = T.max(n, bumped(n) - 5)
            B[1] = square[n, bumped(n)]
            square[n - 2, bumped(n) - 3] = 100
            B[2] = square[0, 0]
            for _ in T.serial(n - 2, bumped(n)):
                B[3] += 1
            B[4] = T.int32(n) + T.cast(bumped(n), "int32") * 10

    assert results(main)[:5] == [0, 7, 100, 3, 54]


@T.macro
def bumped(variable: T.Ref):
    variable += 1
    return variable


@T.macro
def stored_after(B, vector):
    B[4] = 7
    B[0:2] = vector
    B[2] = vector[1]


def test_vectors_are_read_where_the_program_names_them():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            z = T.alloc_var("int32x2", init=0)
            pair, held, loaded = (z, 1), Held(z), Held(A[T.Ramp(0, 1, 2)])
            for vector in (z, z):
                z = z + 1
                B[0] += vector[0]
            A[0] = 40
            B[0:2] = held.value + B[0]
            B[2] = held.value[0] + loaded.value[0]
            B[4:6] = loaded.value
            z[0] = 9
            bump(z)
            B[6:8] = pair[0] + z
            B[3] = B[0] + B[1] + B[2] + B[4] * 10 + B[5] * 100
            stored_after(B, z)

    assert results(main) == [10, 3, 3, 211, 7, 2, 10, 3]
