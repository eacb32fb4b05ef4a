"""Running small programs on the CPU and comparing with torch."""

from __future__ import annotations

from typing import Any

import torch

import tilelang

TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.float8_e4m3fn: (7e-2, 2e-2),
    torch.float8_e5m2: (1.3e-1, 4e-2),
}
"""Relative and absolute tolerance of a result of each type; integers must be exact."""


def run(program: Any, *args: Any, out_idx: Any = None, **options: Any) -> Any:
    """Compiles ``program`` for the CPU and calls it."""
    options.setdefault("target", "cpu")
    return tilelang.compile(program, out_idx=out_idx, **options)(*args)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, factor: float = 1.0) -> None:
    """Equality for integers; for floats, the tolerance of the actual's type times ``factor``."""
    assert actual.shape == expected.shape
    if actual.dtype not in TOLERANCE:
        assert torch.equal(actual, expected.to(actual.dtype))
        return
    rtol, atol = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual.double(), expected.double(), rtol=rtol * factor, atol=atol * factor, equal_nan=True)


def name_of(dtype: torch.dtype) -> str:
    """The language's name of a torch dtype."""
    return str(dtype).removeprefix("torch.")


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Values of moderate size that every type holds; integers in the type's range up to 100."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator) * 2).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    low = 0 if not dtype.is_signed else -100
    return torch.randint(low, 100, shape, generator=generator, dtype=torch.int64).to(dtype)
