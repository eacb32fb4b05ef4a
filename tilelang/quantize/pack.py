"""Packing of weights of few bits, with torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

STRIDES = {"float16": 16, "int8": 8}
"""Element type that is decoded to -> bits between the parts of a word that one instruction decodes together."""

_NIBBLES = {
    # (bits of an element, stride) -> where each four bits of a word go afterwards, so that the first half of the elements, or the
    # first quarter, lies in the first half of the word
    (2, 16): (0, 1, 4, 5, 2, 3, 6, 7),
    (1, 16): (0, 2, 4, 6, 1, 3, 5, 7),
    (1, 8): (0, 4, 2, 6, 1, 5, 3, 7),
}


def places(nbits: int, stride: int) -> list[int]:
    """The lowest bit of each element of an interleaved word of 32 bits: neighbours are ``stride`` bits apart."""
    groups = 32 // stride
    # Four bits, a stride of 16: elements 0 and 1 lie at bits 0 and 16, 2 and 3 at 4 and 20. One `word >> 4 * i & 0x000f000f` then
    # takes two neighbours, which become the halves of a register.
    plain = [element % groups * stride + element // groups * nbits for element in range(32 // nbits)]
    moved = _NIBBLES.get((nbits, stride), range(8))
    return [moved[bit // 4] * 4 + bit % 4 for bit in plain]


def interleave_weight(qweight: torch.Tensor, nbits: int = 4, target_dtype: str = "float16") -> torch.Tensor:
    """Packed weights in the order of elements that :func:`tilelang.quantize.get_lop3_intrin_group`'s functions decode.

    Args:
        qweight: int8, shape ``(…, bytes)``, the first element of a byte in its lowest bits; rows are multiples of four bytes.
        nbits: of an element: 1, 2 or 4.
        target_dtype: ``"float16"`` or ``"int8"``, to which they are decoded.

    Returns:
        int8, of the same shape.

    Raises:
        ValueError: for another ``nbits`` or ``target_dtype``.
    """
    import torch

    if nbits not in (1, 2, 4) or str(target_dtype) not in STRIDES:
        raise ValueError(f"interleave_weight: elements have 1, 2 or 4 bits, for float16 or int8; not {nbits} for {target_dtype}")
    words = qweight.contiguous().view(torch.int32)
    result = torch.zeros_like(words)
    for element, place in enumerate(places(nbits, STRIDES[str(target_dtype)])):
        result |= ((words >> nbits * element) & ((1 << nbits) - 1)) << place
    return result.view(torch.int8)


def general_compress(lowprecision_weight: torch.Tensor, source_bits: int = 4, storage_dtype: Any = None) -> torch.Tensor:
    """Numbers of few bits packed into bytes, the first in the lowest bits.

    Args:
        lowprecision_weight: integers (or float16 with such values), ``(…, n)``; of each the lowest ``source_bits`` are kept.
        source_bits: 1, 2, 4 or 8.
        storage_dtype: the result's; ``torch.int8`` if None.

    Returns:
        Shape ``(…, n * source_bits // 8)``.
    """
    import torch

    each = 8 // source_bits
    elements = lowprecision_weight.to(torch.int32).unflatten(-1, (-1, each)) & ((1 << source_bits) - 1)
    shifts = torch.arange(each, dtype=torch.int32, device=elements.device) * source_bits
    packed = (elements << shifts).sum(-1).to(torch.uint8).view(torch.int8)
    return packed.to(torch.int8 if storage_dtype is None else storage_dtype)


def gen_quant4(k: int, n: int, groupsize: int = -1) -> tuple[torch.Tensor, Any, torch.Tensor, torch.Tensor]:
    """Random weights and their quantisation to 4 bits.

    Args:
        k: inputs.
        n: outputs.
        groupsize: how many inputs share a scale; -1 for all.

    Returns:
        The weights (float16, ``(k, n)``), a linear layer of the quantised ones, the scales ``(groups, n)``, and the integers.
    """
    import torch

    weights = torch.randn((k, n), dtype=torch.half)
    groups = weights.reshape(-1, k if groupsize == -1 else groupsize, n)
    scales = groups.abs().amax(1, keepdim=True) / 8
    integers = (groups / scales).round().int().clamp(-8, 8)
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = (integers.half() * scales).reshape(k, n).t()
    return weights, linear, scales.reshape(-1, n), integers.reshape(k, n)
