"""What is known of integer expressions."""

from __future__ import annotations

from testing.python.target.cuda.support import source
from tilelang import language as T
from tilelang.ir import nodes as ir
from tilelang.ir.facts import Facts


def test_a_range_may_be_narrowed_by_a_second_fact():
    facts, size, var = Facts(), ir.Var("size", "int32"), ir.Var("j", "int32")
    facts.bind_range(var, size)
    facts.bind_value(size, ir.IntImm("int32", 4))
    facts.bind_range(var, size)
    assert facts.bounds(var) == (0, 3)


def test_a_loop_whose_length_a_bound_value_gives():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(3):
                size = 1 << (i + 1)
                for j in T.serial(8 // size):
                    A[T.get_thread_binding(), j * size] = 0

    assert "for (int j" in source(main)
