"""Divisions of numbers whose bits are masked, in unrolled loops inside of each other: NVRTC 13.5 drops some of them."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate

X = torch.arange(2)[:, None, None] + torch.arange(5)[:, None] * 16 + torch.arange(64) % 4 * 4
"""The number that is divided, for both loops and each thread."""

DIVISIONS = {
    "a mask and a shift": (lambda x: (x & 127) >> 1, X >> 1),
    "a remainder and a quotient": (lambda x: x * 3 % 1024 // 3, X),
    "a sum of a remainder": (lambda x: (x % 128 + 4) // 6 * 7, (X + 4) // 6 * 7),
    "a mask of a mask": (lambda x: ((x & 255) & 127) >> 2, X >> 2),
    "digits": (lambda x: (x & 255) // 8 % 4, X // 8 % 4),
    "uint16": (lambda x: T.cast(T.cast(x, "uint16") // T.uint16(2), "int32") * 80, X // 2 * 80),
    "uint8": (lambda x: T.cast((T.cast(x, "uint8") + T.uint8(2)) >> T.uint8(2), "int32"), (X + 2) >> 2),
    "uint32": (lambda x: T.cast((T.cast(x, "uint32") & T.uint32(127)) // T.uint32(3), "int32"), X // 3),
    "int64": (lambda x: T.cast((T.cast(x, "int64") & 127) >> 1, "int32"), X >> 1),
    "uint64": (lambda x: T.cast((T.cast(x, "uint64") % T.uint64(128)) // T.uint64(3), "int32"), X // 3),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_masked_number_is_divided(name):
    divided, expected = DIVISIONS[name]

    @T.prim_func
    def main(C: T.Tensor((2, 5, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for i in T.unroll(2):
                for j in T.unroll(5):
                    C[i, j, tx] = divided(i + j * 16 + tx % 4 * 4)

    for arch in ("sm_80", "sm_90a"):
        c = torch.zeros(2, 5, 64, dtype=torch.int32)
        simulate(main, c, arch=arch)
        assert torch.equal(c, expected.int())
