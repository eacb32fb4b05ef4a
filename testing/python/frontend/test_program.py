"""What the front end keeps beside a traced program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ShadowedNameWarning
from tilelang.frontend.program_object import factory_of


@T.prim_func
def alone(A: T.Tensor((4,), "float32")):
    with T.Kernel(1):
        A[0] = 1.0


def factory() -> Any:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[0] = 1.0

    return main


def test_a_program_knows_the_function_that_it_was_written_in():
    assert factory_of(factory()) == f"{__name__}.factory"


def test_a_program_of_a_module_has_no_factory_and_keeps_its_own_name_in_the_cache():
    assert factory_of(alone) == ""


def test_a_macro_may_annotate_the_memory_that_it_is_given():
    @T.macro
    def double(values, n):
        values: T.SharedBuffer((n,), "float32")
        for i in T.Parallel(n):
            values[i] = values[i] * 2

    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A, tile)
            double(tile, 8)
            T.copy(tile, A)

    values = torch.arange(8, dtype=torch.float32)
    tilelang.compile(main, target="interpret")(values)
    assert torch.equal(values, 2 * torch.arange(8))


def element(values: Any, row: Any, column: Any) -> Any:
    return values[row, column]


def part(values: Any, *bounds: Any) -> Any:
    return values[slice(*bounds)]


def test_a_helper_subscripts_by_variables_and_dynamic_sizes():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 8), "float32"), B: T.Tensor((n, 8), "float32"), C: T.Tensor((2, 8), "float32")):
        with T.Kernel(1, threads=32):
            row = T.alloc_var("int32")
            row = 2
            for i, j in T.Parallel(n - 2, 8):
                B[i, j] = element(A, row, j)
            row = n - 2
            T.copy(part(A, row, n), C)

    a, b, c = torch.arange(32.0).view(4, 8), torch.zeros(4, 8), torch.zeros(2, 8)
    for target in ("cpu", "interpret"):
        tilelang.compile(main, target=target)(a, b, c)
        assert torch.equal(b[:2], a[2].expand(2, 8)) and torch.equal(c, a[2:])


def test_a_variable_takes_the_value_of_a_dynamic_size():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            rest = T.alloc_var("int32", init=0)
            bits = T.alloc_var("int32", init=0)
            rest = n
            while rest > 0:
                rest = rest // 2
                bits += 1
            for _ in T.serial(2):
                rest = n
            A[0], A[1] = bits, rest

    a = torch.zeros(9, dtype=torch.int32)
    tilelang.compile(main, target="cpu")(a)
    assert a[:2].tolist() == [4, 9]


def test_a_branch_may_give_a_name_a_value_of_its_own():
    with pytest.warns(ShadowedNameWarning, match="'first' is assigned in one branch of a run-time loop and read in another"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                first = A[0]
                for i in range(8):
                    if A[i] > 3:
                        B[i] = first
                    elif A[i] > 1:
                        B[i] = -first
                    else:
                        first = A[i] + 1
                        B[i] = first

    a, b = torch.tensor([5.0, 0.0, 2.0, 4.0, 1.0, 7.0, 2.0, 0.5]), torch.zeros(8)
    for target in ("cpu", "interpret"):
        tilelang.compile(main, target=target)(a, b)
        assert b.tolist() == [5, 1, -5, 5, 2, 5, -5, 1.5]
