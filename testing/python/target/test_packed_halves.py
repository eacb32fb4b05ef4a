"""The operator ``tl.pack_b16``, which programs name: two values of 16 bits in one of 32."""

import pytest
import torch
from tvm import tirx

import tilelang.language as T
from testing.python.target.every_target import every_target, run


@every_target
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "uint16"])
def test_two_values_of_16_bits(target, dtype):
    pack = tirx.op.Op.get("tl.pack_b16")

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = tirx.call_intrin("int32", pack, A[2 * i], A[2 * i + 1])

    bits = torch.randint(-(2**15), 2**15, (64,), dtype=torch.int16, generator=torch.Generator().manual_seed(0))
    bits[:4] = torch.tensor([-1, 1, 0, -(2**15)])
    if dtype.endswith("float16"):
        bits &= ~0x7C00 | 0x3C00  # NaN has many bits, of which a register may change some
    assert torch.equal(run(main, target, bits.view(getattr(torch, dtype))), bits.view(torch.int32))
