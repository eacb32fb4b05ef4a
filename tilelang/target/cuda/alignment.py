"""How far the addresses of tensors must be aligned: read from the PTX, which has every access that the compiler chose."""

from __future__ import annotations

import re

from tilelang.artifact import KernelParam
from tilelang.dtypes import canonical

_VECTOR = re.compile(r"\b(?:ld|st|red|atom)\.(?:\w+(?:::\w+)*\.)*global(?:\.\w+(?:::\w+)*)*?\.v([248])\.\w(\d+)\s")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared(?:::\w+)?\.global[^;]*?\],\s*(4|8|16)\b")
_BULK_BYTES = 16


def tensor_alignment(ptx: bytes | str, params: tuple[KernelParam, ...]) -> dict[str, int]:
    """Bytes that the address of each tensor parameter must be a multiple of, where that is more than an element.

    The widest access to global memory counts for all of them: PTX does not say which parameter an address comes from.
    """
    text = ptx.decode(errors="replace") if isinstance(ptx, bytes) else ptx
    widths = [int(lanes) * int(bits) // 8 for lanes, bits in _VECTOR.findall(text)]
    widths += [int(size) for size in _COPY.findall(text)]
    if "cp.async.bulk" in text:
        widths.append(_BULK_BYTES)
    widest = max(widths, default=1)
    tensors = (param for param in params if param.kind == "tensor")
    return {param.name: widest for param in tensors if widest > canonical(param.dtype).bytes}
