"""What the front end keeps beside a traced program."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
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
