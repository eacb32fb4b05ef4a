"""Groups of threads that give registers away, and branches of the other groups after them."""

from __future__ import annotations

import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source


def loaded_by_a_group():
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            tile, own = T.alloc_shared((128, 128), "float32"), T.alloc_fragment((128, 128), "float32")
            full = T.alloc_barrier([128])
            with T.ws(1):
                T.clear(own)
                T.mbarrier_wait_parity(full, 0)
                for i, j in T.Parallel(128, 128):
                    own[i, j] += tile[i, j] * 2
            with T.ws(0):
                T.set_max_nreg(24, 0)
                T.tma_copy(A, tile, barrier=full)
                T.mbarrier_arrive(full)
            with T.ws(1):
                T.copy(own, B)

    return main


def test_no_branch_of_another_group_follows_one_that_gives_registers_away():
    """What stood after it was reached with 24 registers, and ptxas found none for the tile in the others'."""
    text = source(loaded_by_a_group(), arch="sm_90a")
    assert text.count("if (warp_group_id >= 1)") == 1 and text.count("if (warp_group_id == 0)") == 1
    a, b = torch.randint(-8, 8, (128, 128)).float(), torch.zeros(128, 128)
    simulate(loaded_by_a_group(), a, b, arch="sm_90a")
    assert torch.equal(b, a * 2)
