"""Mistakes in loops, conditions and assertions, and values that are used outside of them."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import interpreter
from tilelang.errors import (
    CarriedValueError,
    ChangedContainerError,
    CompileError,
    DeclarationError,
    MisplacedError,
    OutOfScopeError,
    StaleValueError,
    TraceError,
    UnsupportedSyntaxError,
)

from .support import error_at_mark


def test_tiles_that_change_places_in_a_run_time_loop():
    with error_at_mark(CarriedValueError, "'a' is read and reassigned in a run-time loop, but the memory that it names"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                a, b = T.alloc_shared((8,), "float32"), T.alloc_shared((8,), "float32")
                for i in range(8):  # <- error
                    a[0] = i
                    a, b = b, a


def test_a_row_that_a_run_time_loop_replaces():
    with error_at_mark(CarriedValueError, "'row' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                row = A[0]
                for i in range(7):  # <- error
                    row[0] = i
                    row = A[i + 1]


@pytest.mark.parametrize("in_both", [True, False])
def test_a_tile_that_depends_on_a_run_time_condition(in_both):
    with error_at_mark(StaleValueError, "'tile' was assigned inside a run-time condition"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), n: T.int32):
            with T.Kernel(1):
                a, b = T.alloc_shared((8,), "float32"), T.alloc_shared((8,), "float32")
                if not in_both:
                    tile = b
                if n > 3:
                    tile = a
                elif in_both:
                    tile = b
                tile[0] = 1.0  # <- error


def test_a_tile_that_each_pass_or_side_names_anew():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1):
            for i in range(8):
                tile = T.alloc_shared((8,), "float32")
                tile[0] = i
            for i in range(8):
                if n > 3:
                    tile = T.alloc_shared((8,), "float32")
                    tile[0] = i
                else:
                    tile = A
                    tile[0] = i
            tile = A
            tile[0] = 1.0

    assert main is not None


def test_argument_of_a_macro_that_is_missing():
    @T.macro
    def store(tile, value):
        tile[0] = value

    with error_at_mark(CompileError, r"macro store\(tile, value\): missing a required argument: 'value'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                store(A)  # <- error


def test_unsupported_construct():
    with error_at_mark(UnsupportedSyntaxError, "try is not supported inside a kernel"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                try:  # <- error
                    A[0] = 1.0
                finally:
                    pass


def test_yield_is_unsupported():
    with error_at_mark(UnsupportedSyntaxError, "yield"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                yield A  # <- error


def test_carried_value():
    with error_at_mark(CarriedValueError, "'total' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                total = 0.0
                for i in range(8):  # <- error
                    total = total + A[i]
                A[0] = total


def test_carried_value_of_a_branch_at_run_time():
    with error_at_mark(CarriedValueError, "'total' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                total = 0.0
                for i in range(8):  # <- error
                    if A[i] > 0:
                        total = total + A[i]


@pytest.mark.parametrize("reads", ["after", "test", "both", "use"])
def test_carried_value_that_other_branches_read(reads):
    """Only reads in arms before those that assign are certainly not meant to see what an iteration before has assigned."""
    with error_at_mark(CarriedValueError if reads != "use" else StaleValueError, "'seen' "):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                seen = A[0]
                if reads == "after":
                    for i in range(8):  # <- error
                        if A[i] > 0:
                            seen = A[i]
                        else:
                            A[i] = seen
                elif reads == "test":
                    for i in range(8):  # <- error
                        if A[i] > seen:
                            A[i] = 0
                        else:
                            seen = A[i]
                elif reads == "both":
                    for i in range(8):  # <- error
                        if A[i] > 0:
                            A[i] = seen
                        else:
                            seen = seen + A[i]
                else:
                    for i in range(8):
                        if A[i] > 0:
                            A[i] = seen
                        else:
                            seen = A[i]
                        A[i] = seen  # <- error


def test_carried_values_that_are_swapped():
    with error_at_mark(CarriedValueError, "'first' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                first, second = 0.0, 1.0
                for i in range(8):  # <- error
                    A[i] = first
                    first, second = second, first


def test_stale_value_after_a_branch():
    with error_at_mark(StaleValueError, "'value' was assigned inside a run-time condition"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1) as bx:
                value = 1
                if bx > 0:
                    value = 2
                A[0] = value + 1  # <- error


def test_stale_value_after_a_loop():
    with error_at_mark(StaleValueError, "'last' was assigned inside a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in range(8):
                    last = A[i] * 2
                A[0] = last + 1  # <- error


def test_loop_variable_outside_of_its_loop():
    with error_at_mark(OutOfScopeError, "'i'"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in range(8):
                    A[i] = 0.0
                A[0] = i  # <- error


def test_dynamic_size_that_no_argument_has():
    n = T.dynamic("n")
    with error_at_mark(DeclarationError, "the dynamic size 'n' is in the shape of no argument"):

        @T.prim_func
        def main(a: T.ptr):
            with T.Kernel(n):  # <- error
                T.evaluate(0)


def test_assertion_outside_of_a_kernel():
    with error_at_mark(MisplacedError, "an assert before a kernel is over sizes and integer arguments"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            assert A[0] == 0, "a zero"  # <- error


def test_break_of_a_compile_time_loop():
    with error_at_mark(CompileError, "break of a compile-time loop depends on a run-time condition"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for index in [0, 1, 2]:
                    if A[index] > 0:
                        break  # <- error


def test_compile_time_assertion():
    with error_at_mark(TraceError, "AssertionError: too narrow"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            assert len(A.shape) == 2, "too narrow"  # <- error


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_80"}], ids=["cpu", "cuda"])
def test_return_from_an_iteration_of_parallel(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                if A[i] < 0:
                    return  # <- error

    with error_at_mark(match="return inside of T.Parallel"):
        tilelang.lower(main, target=target)


def test_a_loop_outside_of_a_for_statement():
    with error_at_mark(CompileError, "a loop that no `for` statement goes through"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.serial(5)  # <- error


def test_indices_of_a_kernel_that_do_not_fit_its_axes():
    with error_at_mark(CompileError, "1 value is unpacked into 2 names: bx, by"):

        @T.prim_func
        def one(A: T.Tensor((8,), "float32")):
            with T.Kernel(2) as (bx, by):  # <- error
                A[bx] = 0

    with error_at_mark(CompileError, "3 values are unpacked into 2 names: bx, by"):

        @T.prim_func
        def three(A: T.Tensor((8,), "float32")):
            with T.Kernel(2, 2, 2) as (bx, by):  # <- error
                A[bx] = 0


@pytest.mark.parametrize(("loop", "said"), [(lambda: T.Parallel(8), "1 value is"), (lambda: T.grid(2, 2, 2), "3 values are")])
def test_variables_of_a_loop_that_do_not_fit_its_axes(loop, said):
    with error_at_mark(CompileError, f"{said} unpacked into 2 names: i, j"):

        @T.prim_func
        def main(A: T.Tensor((8, 8), "float32")):
            with T.Kernel(1):
                for i, j in loop():  # <- error
                    A[i, j] = 0


def test_a_python_list_that_a_loop_appends_to():
    with error_at_mark(ChangedContainerError, "'places' is a Python list, which a run-time loop changes once") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                places = []
                for i in T.serial(4):  # <- error
                    places.append(i)
                A[0] = A[places[2]]

    assert "T.alloc_local" in caught.value.hint


def test_a_python_list_whose_items_a_while_loop_replaces():
    with error_at_mark(ChangedContainerError, "'sums' is a Python list, which a run-time loop changes once"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                sums = [[0.0, 0.0], [0.0]]
                while A[0] < 3:  # <- error
                    sums[0][1] += 1.0
                    A[0] = sums[0][1]


def test_a_python_dict_that_a_condition_changes():
    with error_at_mark(ChangedContainerError, "'found' is a Python dict, which a run-time condition changes once"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                found = {}
                if A[0] > 0:  # <- error
                    found["count"] = 1
                A[1] = len(found)


def test_a_python_list_of_tiles_or_of_the_loop_itself_may_grow():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            tiles = []
            for i in T.serial(4):
                if i == 0:
                    tiles.append(T.alloc_local((8,), "float32"))
                values = []
                for x in (1.0, 2.0):
                    values.append(A[i] * x)
                A[i] = values[0] + values[1]
            tiles[0][0] = 1.0


class Stage:
    """State in Python, as a program may keep it."""

    turns = 0

    def __init__(self):
        self.phase, self.ring = 0, [0]

    def advance(self):
        """A plain method, which nothing rewrites."""
        self.phase ^= 1

    def turn(self):
        """The same for a variable of the class and of the module."""
        Stage.turns += 1


CALLS = {"count": 0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda stage, places: places.append(1), "'places' is a Python list"),
        (lambda stage, places: stage.advance(), "'stage.phase' is a Python attribute"),
        (lambda stage, places: stage.ring.append(1), "'stage.ring' is a Python list"),
        (lambda stage, places: stage.turn(), "'stage.turns' is a Python attribute"),
        (lambda stage, places: CALLS.update(count=CALLS["count"] + 1), "'CALLS' is a Python dict"),
        (lambda stage, places: setattr(stage, "phase", stage.phase + 1), "'stage.phase' is a Python attribute"),
    ],
)
def test_state_outside_of_the_program_that_a_loop_changes(change, said):
    stage, places = Stage(), []
    places.append(places)
    with error_at_mark(ChangedContainerError, f"{said}, which a run-time loop changes once"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.serial(4):  # <- error
                    A[i] = stage.phase + len(places) + Stage.turns + CALLS["count"]
                    change(stage, places)


def test_an_attribute_that_a_condition_changes():
    stage = Stage()
    with error_at_mark(ChangedContainerError, "'stage.phase' is a Python attribute, which a run-time condition changes once"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                if A[0] > 0:  # <- error
                    stage.phase = 1
                A[0] = stage.phase


def test_state_that_is_the_same_after_each_pass_may_be_used_in_a_loop():
    stage, steps = Stage(), []

    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.serial(4):
                for _ in (0, 1):
                    stage.advance()
                    A[2 * i + stage.phase] = stage.phase
                stage.last = i
                steps.append(A)

    assert len(steps) == 1


def test_a_variable_of_an_enclosing_function_that_a_loop_counts():
    n = 0
    with error_at_mark(CarriedValueError, "'n' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            nonlocal n
            with T.Kernel(1):
                for _ in T.serial(4):  # <- error
                    n += 1
                A[0] = n


def test_a_variable_of_an_enclosing_function_that_a_macro_counts():
    with error_at_mark(ChangedContainerError, "'n' is a Python variable, which a run-time loop changes once"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            n = 0

            @T.macro
            def count():
                nonlocal n
                n += 1  # <- error

            with T.Kernel(1):
                for _ in T.serial(4):
                    count()
                A[0] = n


def test_a_value_that_a_loop_put_into_a_new_attribute():
    stage = Stage()
    with error_at_mark(OutOfScopeError, "a value that a run-time loop or condition put into a Python list or attribute"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                for i in T.serial(4):
                    stage.seen = A[i]
                A[0] = stage.seen  # <- error


def test_a_scalar_in_the_place_of_a_row_that_a_run_time_loop_reads():
    """A row and a scalar may both be stored to a row."""
    with error_at_mark(CarriedValueError, "'row' is read and reassigned in a run-time loop"):

        @T.prim_func
        def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
            with T.Kernel(1, threads=32):
                row = A[0]
                for i in range(4):  # <- error
                    B[i, :] = row
                    row = A[i, 0] * 2


def test_a_scalar_in_the_place_of_memory_of_which_a_run_time_loop_reads_elements():
    """A scalar has none, so that each pass means the memory."""

    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            row = A[0]
            for i in range(4):
                for j in T.Parallel(8):
                    if j < 6:
                        total = row[j] + i
                        row = total * 2
                        B[i, j] = row

    a, b = torch.arange(32.0).view(4, 8), torch.zeros(4, 8)
    interpreter.run(main, a, b)
    assert torch.equal(b[:, :6], (a[:1, :6] + torch.arange(4.0)[:, None]) * 2)
