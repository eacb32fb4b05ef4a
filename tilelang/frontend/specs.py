"""What parameters of programs are annotated with: plain values, whose classes load no TVM."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import DType
from tilelang.records import Record


class TensorSpec(Record, eq=False):
    """The declaration of a tensor argument.

    Attributes:
        shape: sizes; ints, ``T.dynamic``/``T.const`` sizes, or arithmetic of them.
        dtype: element type.
        strides: element strides, or None for a compact row-major tensor.
        scope: storage scope, ``global`` for arguments.
    """

    shape: tuple[Any, ...]
    dtype: DType
    strides: tuple[Any, ...] | None = None
    scope: str = "global"


class PointerSpec(Record, eq=False):
    """The declaration of a raw pointer argument; see :func:`~tilelang.language.customize.make_tensor`."""

    dtype: DType
