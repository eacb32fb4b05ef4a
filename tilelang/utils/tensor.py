"""Tensors for trying kernels: making inputs of a parameter's shape and dtype, and comparing results."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tilelang.artifact import KernelParam, evaluate_dim
from tilelang.dtypes import canonical, to_torch
from tilelang.errors import ExecutionError
from tilelang.storage import PACKED_DTYPES, storage_dtypes, storage_shape, storage_strides
from tilelang.unknown import NearMembers


class TensorSupplyType(enum.Enum, metaclass=NearMembers):
    """What inputs hold: ``Auto`` is numbers between -1 and 1 for floating-point types and small integers for integer types."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def map_torch_type(intype: Any) -> torch.dtype:
    """torch's type for an element type, given by its name or as a type of the language."""
    return to_torch(canonical(intype))


def is_float8_dtype(dtype: torch.dtype) -> bool:
    """Whether ``dtype`` is one of torch's 8-bit floating-point types."""
    return dtype.is_floating_point and dtype.itemsize == 1


def fp8_remove_negative_zeros_(tensor: torch.Tensor) -> None:
    """Replaces -0.0 by 0.0 in an 8-bit floating-point tensor, in place."""
    bits = tensor.view(torch.uint8)
    bits[bits == 0x80] = 0


def _integers(shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, device=device).bool()
    # Small numbers: long sums of their products are exact in every type, so that results can be compared bit by bit.
    low, high = (0, 3) if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else (-2, 3)
    return torch.randint(low, high, shape, device=device).to(dtype)


def _floats(make: Callable[..., torch.Tensor]) -> Callable[[tuple[int, ...], torch.dtype, Any], torch.Tensor]:
    def supply(shape: tuple[int, ...], dtype: torch.dtype, device: Any) -> torch.Tensor:
        if not dtype.is_floating_point:
            return _integers(shape, dtype, device)
        # torch draws no random numbers in its 8-bit formats.
        return make(shape, device=device, dtype=torch.float64 if dtype == torch.float64 else torch.float32).to(dtype)

    return supply


def _uniform(shape: tuple[int, ...], **options: Any) -> torch.Tensor:
    return torch.rand(shape, **options) * 2 - 1


_SUPPLIES: Mapping[TensorSupplyType, Callable[[tuple[int, ...], torch.dtype, Any], torch.Tensor]] = {
    TensorSupplyType.Integer: _integers,
    TensorSupplyType.Uniform: _floats(_uniform),
    TensorSupplyType.Normal: _floats(torch.randn),
    TensorSupplyType.Randn: _floats(torch.randn),
    TensorSupplyType.Zero: lambda shape, dtype, device: torch.zeros(shape, device=device).to(dtype),
    TensorSupplyType.One: lambda shape, dtype, device: torch.ones(shape, device=device).to(dtype),
    TensorSupplyType.Auto: _floats(_uniform),
}


def _elements(param: KernelParam, supply_type: TensorSupplyType, shape: tuple[int, ...], device: Any) -> torch.Tensor:
    """A contiguous tensor for a parameter, of a shape as it is stored."""
    make = _SUPPLIES[supply_type]
    dtype = getattr(torch, storage_dtypes(param)[0])
    if param.dtype not in PACKED_DTYPES:
        return make(shape, dtype, device)
    # torch computes nothing in types of half a byte: whole numbers, as their bits.
    numbers = make((*shape, 2), torch.uint8 if param.is_unsigned() else torch.int8, device).to(torch.int16)
    # Of float4_e2m1fn the highest bit is the sign; 1 has the bits 2, and 2 has the bits 4.
    bits = 2 * numbers.abs() + 8 * (numbers < 0) if param.is_float4() else numbers & 15
    return (bits[..., 0] | bits[..., 1] << 4).to(torch.uint8).view(dtype)


def get_tensor_supply(
    supply_type: TensorSupplyType = TensorSupplyType.Integer,
    device: Any = "cpu",
    sizes: Mapping[str, int] | None = None,
) -> Callable[[KernelParam], Any]:
    """A function that makes an argument for a kernel parameter.

    Args:
        supply_type: what tensors hold.
        device: where they are.
        sizes: the value of each dynamic variable that shapes name.

    Returns:
        The function; it raises a :class:`CompileError` of a parameter with a size that is not in ``sizes``.
    """

    def supply(param: KernelParam) -> Any:
        if param.kind != "tensor":
            return 1.0 if canonical(param.dtype).is_float else (sizes or {}).get(param.name, 1)
        try:
            shape, strides = (
                None if dims is None else tuple(evaluate_dim(dim, sizes or {}) for dim in dims)
                for dims in (storage_shape(param), storage_strides(param))
            )
        except KeyError as missing:
            raise ExecutionError(
                f"{param.name}: the dynamic size {missing.args[0]!r} is not known",
                hint="pass input tensors, or dynamic_symbolic_constraints={'m': 1024}",
            ) from None
        assert shape is not None
        memory = _elements(param, supply_type, shape if strides is None else (extent(shape, strides),), device)
        return memory if strides is None else memory.as_strided(shape, strides)

    return supply


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a tensor takes, from its first element to its last."""
    return 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def torch_assert_close(
    tensor_a: torch.Tensor,
    tensor_b: torch.Tensor,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """Asserts that two tensors agree but for a small share of their elements.

    Args:
        tensor_a, tensor_b: the tensor under test and the reference.
        rtol, atol: an element agrees where ``|a - b| <= atol + rtol * |b|``.
        max_mismatched_ratio: share of elements that may disagree.
        verbose: print how many disagree, whether or not these are too many.
        equal_nan: whether two NaN agree.
        check_device, check_dtype, check_layout, check_stride: whether these must be the same.
        base_name, ref_name: what the message calls the tensors.

    Returns:
        True.

    Raises:
        AssertionError: shapes, dtypes or devices differ, or too many elements do; names the worst one.
    """
    checks = (
        (True, "shape", tuple(tensor_a.shape), tuple(tensor_b.shape)),
        (check_dtype, "dtype", tensor_a.dtype, tensor_b.dtype),
        (check_device, "device", tensor_a.device, tensor_b.device),
        (check_layout, "layout", tensor_a.layout, tensor_b.layout),
        (check_stride, "strides", tensor_a.stride(), tensor_b.stride()),
    )
    for wanted, what, left, right in checks:
        if wanted and left != right:
            raise AssertionError(f"{what} differs: {base_name} is {left}, {ref_name} is {right}")
    # float64 holds the values of all other types exactly, apart from integers beyond 2**53.
    left, right = tensor_a.detach().double(), tensor_b.detach().double()
    close = torch.isclose(left, right, rtol=rtol, atol=atol, equal_nan=equal_nan)
    wrong = int((~close).sum())
    if verbose:
        print(f"{wrong} of {close.numel()} elements differ")
    if wrong <= max_mismatched_ratio * close.numel():
        return True
    difference = torch.where(close, torch.zeros_like(left), (left - right).abs().nan_to_num(float("inf")))
    worst = int(difference.flatten().argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), left.shape)) if left.dim() else ()
    raise AssertionError(
        f"{wrong} of {close.numel()} elements differ ({wrong / close.numel():.2%}, {max_mismatched_ratio:.2%} allowed); "
        f"the worst is at {index}: {base_name} {left[index].item():.6g}, {ref_name} {right[index].item():.6g} "
        f"(rtol={rtol}, atol={atol})"
    )
