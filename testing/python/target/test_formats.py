"""Number formats that no machine computes in are stored and converted as torch does, on every target."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import every_target, run

FORMATS = [torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
each_format = pytest.mark.parametrize("kind", FORMATS, ids=str)


def name_of(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Equality in which a NaN is a NaN."""
    return bool(((got == want) | (got.isnan() & want.isnan())).all())


def bytes_of(tensor: torch.Tensor) -> list[int]:
    return tensor.view(torch.uint8).flatten().tolist()


@every_target
@each_format
def test_every_code_widens(kind, target):
    dtype = name_of(kind)

    @T.prim_func
    def main(A: T.Tensor((256,), dtype), B: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=64) as block:
            tile = T.alloc_shared((128,), dtype)
            T.copy(A[block * 128], tile)
            T.copy(tile, B[block * 128])

    a = torch.arange(256, dtype=torch.uint8).view(kind)
    assert same(run(main, target, a), a.float())


@every_target
@each_format
def test_rounding(kind, target):
    dtype = name_of(kind)
    codes = torch.arange(256, dtype=torch.uint8).view(kind).float()
    codes = codes[codes.isfinite()].sort().values
    halves = (codes[1:].double() + codes[:-1].double()) / 2
    near = torch.cat([halves, halves * (1 + 2**-20), halves * (1 - 2**-20)]).float()
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-45, 3e38, -3e38, 1e-20])
    values = torch.cat([codes, near, special])
    size = len(values)

    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, 128), threads=128) as block:
            for i in T.Parallel(128):
                B[block * 128 + i] = A[block * 128 + i]

    assert bytes_of(run(main, target, values)) == bytes_of(values.to(kind))


@every_target
@each_format
def test_constants_and_arithmetic(kind, target):
    dtype = name_of(kind)
    constants = [0.0, -0.0, 1.0, -2.0, 0.7, 1.5, 300.0, float("inf")]

    @T.prim_func
    def main(A: T.Tensor((8,), dtype), B: T.Tensor((8,), dtype), C: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=32):
            for position, value in enumerate(constants):
                B[position] = T.cast(value, dtype)
            for i in T.Parallel(8):
                C[i] = T.cast(T.cast(A[i], "float32") * 4, dtype)

    a, b, c = torch.tensor([0.25, 0.5, 1, 2, 4, 8, 16, 32]).to(kind), torch.empty(8, dtype=kind), torch.empty(8, dtype=kind)
    import tilelang

    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, b, c)
    assert bytes_of(b) == bytes_of(torch.tensor(constants).to(kind))
    assert bytes_of(c) == bytes_of((a.float() * 4).to(kind))


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes", "cython", "torch"])
def test_a_scaled_product_through_every_backend(backend):
    import tilelang

    @T.prim_func
    def main(A: T.Tensor((16, 64), "float8_e4m3fn"), S: T.Tensor((16, 2), "float8_e8m0fnu"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(16, 64):
                B[i, j] = T.float32(A[i, j]) * T.float32(S[i, j // 32])

    a, s = (
        torch.randn(16, 64).to(torch.float8_e4m3fn),
        torch.randint(120, 135, (16, 2), dtype=torch.uint8).view(torch.float8_e8m0fnu),
    )
    got = tilelang.compile(main, out_idx=-1, target="cpu", execution_backend=backend)(a, s)
    assert torch.equal(got, a.float() * s.float().repeat_interleave(32, dim=1))


def test_limits():
    assert (T.max_value("float8_e8m0fnu"), T.min_value("float8_e8m0fnu")) == (2.0**127, 2.0**-127)
    assert (T.max_value("float8_e4m3fnuz"), T.min_value("float8_e5m2fnuz")) == (240.0, -57344.0)


@every_target
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_a_conversion_may_leave_the_range(kind, target):
    """As torch's, except that it rounds e4m3 to 448 as far as that is nearer than 480 would be."""
    dtype = name_of(kind)

    @T.prim_func
    def main(A: T.Tensor((12,), "float32"), B: T.Tensor((12,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(12):
                B[i] = T.cast(A[i], dtype, sat=False)

    edges = [448.0, 464.0, 464.0001, -464.0, -464.0001, 61439.0, 61440.0, -61439.0, -61440.0]
    a = torch.tensor([*edges, float("inf"), -float("inf"), float("nan")])
    want = a.to(kind).float() if kind is torch.float8_e5m2 else torch.where(a.abs() <= 464, a.clamp(-448, 448), torch.nan)
    assert same(run(main, target, a).float(), want)
