"""Indices that fall with a loop variable reach the same elements on every buffer shape."""

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_falling_indices(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            for i in range(6, 0, -2):
                A[(i + 6) % 8] = 100 + i
            for i in T.serial(3):
                B[(20 - i * 2) // 8] += 1
                B[(2 - i) % 8] += A[(7 - i) // 2]

    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    want_a, want_b = list(range(8)), [0] * 8
    for i in range(6, 0, -2):
        want_a[(i + 6) % 8] = 100 + i
    for i in range(3):
        want_b[(20 - i * 2) // 8] += 1
        want_b[(2 - i) % 8] += want_a[(7 - i) // 2]
    tilelang.compile(main, target=target)(a, b)
    assert a.tolist() == want_a and b.tolist() == want_b


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("rows, depth", [(16, 5), (16, 4), (32, 5)])
def test_rows_that_wrap_around(target, rows, depth):
    @T.prim_func
    def main(B: T.Tensor((5, rows, depth), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((5, rows, depth), "float32")
            ones = T.alloc_fragment((2, 5), "float32")
            T.fill(ones, 1)
            for i, j, k in T.Parallel(5, rows, depth):
                own = T.alloc_local((4,), "float32")
                for q in T.serial(4):
                    own[q] = ones[j % 2, i] + q
                tile[i, (j + 1) % rows, k] = own[1]
            T.copy(tile, B)

    b = torch.zeros(5, rows, depth)
    tilelang.compile(main, target=target)(b)
    assert (b == 2).all()


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("kind", ["remainder", "mask", "cast", "held"])
def test_a_constant_stored_to_rows_that_wrap_around(target, kind):
    @T.prim_func
    def main(B: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64, 64), "int32")
            T.fill(tile, 7)
            for i, j in T.Parallel(64, 64):
                if kind == "remainder":
                    tile[i, (j + 2) % 64] = 1
                elif kind == "mask":
                    tile[i, (j + 2) & 63] = 1
                elif kind == "cast":
                    tile[i, T.cast(T.cast(j + 250, "uint8"), "int32") // 4 * 4 % 64 + j % 4] = 1
                else:
                    held = (j + 2) % 64
                    tile[i, held] = 1
            T.copy(tile, B)

    b = torch.zeros(64, 64, dtype=torch.int32)
    tilelang.compile(main, target=target)(b)
    if kind == "cast":
        columns = {((j + 250) % 256 // 4 * 4 % 64 + j % 4) for j in range(64)}
        assert torch.equal(b == 1, torch.tensor([j in columns for j in range(64)]).expand(64, 64))
    else:
        assert (b == 1).all()
