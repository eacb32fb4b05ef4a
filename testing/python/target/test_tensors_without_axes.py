"""Tensors without axes, as torch.tensor(2.0) is one: an element of them has no index."""

import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning


def test_a_factor_beside_vectors():
    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"), s: T.Tensor((), "float16"), C: T.Tensor((64, 128), "float16"), n: T.Tensor((), "int32")
    ):
        with T.Kernel(2, threads=64) as bx:
            for i, j in T.Parallel(32, 128):
                C[bx * 32 + i, j] = A[bx * 32 + i, j] * s[()]
            T.atomic_add(n[()], 1)

    values = torch.randn(64, 128).half()
    _, _, scaled, count = check_meaning(
        main, values, torch.tensor(2.0).half(), torch.zeros_like(values), torch.tensor(0, dtype=torch.int32)
    )
    assert torch.equal(scaled, values * 2) and count == 2


def test_a_shared_tile_and_an_output():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), s: T.Tensor((), "int32"), largest: T.Tensor((), "int32")):
        with T.Kernel(1, threads=64):
            values = T.alloc_fragment((64,), "int32")
            found = T.alloc_fragment((1,), "int32")
            kept = T.alloc_shared((), "int32")
            T.copy(A, values)
            T.reduce_max(values, found)
            kept[()] = found[0]
            largest[()] = kept[()] + s[()]

    *_, largest = check_meaning(
        main, torch.arange(64, dtype=torch.int32), torch.tensor(2, dtype=torch.int32), torch.tensor(0, dtype=torch.int32)
    )
    assert largest == 65
