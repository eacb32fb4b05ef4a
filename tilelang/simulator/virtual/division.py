"""Quotients of a tensor and a number.

torch's kernels for CUDA multiply by the reciprocal, formed in the type that they compute in (float32, or float64 of float64
results; ``div_true_kernel_cuda``), where those for the CPU divide: the last bit of a result may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_PRODUCTS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.div: torch.mul,
    torch.true_divide: torch.mul,
    torch.Tensor.div: torch.Tensor.mul,
    torch.Tensor.div_: torch.Tensor.mul_,
    torch.Tensor.true_divide: torch.Tensor.mul,
    torch.Tensor.true_divide_: torch.Tensor.mul_,
    torch.Tensor.__truediv__: torch.Tensor.mul,
    torch.Tensor.__itruediv__: torch.Tensor.mul_,
}
"""Quotient -> the product that has its result."""


def as_on_gpu(func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> tuple[Callable[..., Any], tuple]:
    """A function of torch and its positional arguments such that kernels for the CPU give the result of those for CUDA.

    Args:
        func: the function that the program calls.
        args, kwargs: its arguments.
    """
    product = _PRODUCTS.get(func)
    if product is None or len(args) != 2 or "rounding_mode" in kwargs or not isinstance(args[0], torch.Tensor):
        return func, args
    tensor, divisor = args
    if not isinstance(divisor, (int, float)) or tensor.is_complex():
        return func, args
    wide = torch.promote_types(torch.result_type(tensor, 1.0), torch.float32)
    return product, (tensor, torch.tensor(divisor, dtype=wide).reciprocal().item())
