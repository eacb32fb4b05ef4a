"""Offsets into tensors of more elements than 32 bits count."""

from __future__ import annotations

import pytest

import tilelang.language as T
from testing.python.target.cuda.support import source


def _first_elements(rows):
    @T.prim_func
    def program(A: T.Tensor((rows, 2**30), "int8"), B: T.Tensor((rows, 32), "int8")):
        with T.Kernel(rows, threads=32) as bx:
            for i in T.Parallel(32):
                B[bx, i] = A[bx, i]

    return source(program)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_offsets_beyond_31_bits_are_computed_in_64(rows):
    assert "int64_t(bx) * 1073741824" in _first_elements(rows)


def test_others_are_computed_in_32():
    assert "int64_t(" not in _first_elements(1)


def test_steps_of_a_thread_beyond_31_bits():
    @T.prim_func
    def program(A: T.Tensor((8, 2**30), "int8"), B: T.Tensor((8, 32), "int8")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(8, 32):
                B[i, j] = A[i, j]

    text = source(program)
    assert "int64_t(" in text and "1073741824" in text
