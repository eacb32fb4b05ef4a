"""What the body of an eager program declares: sizes that select a kernel (``T.const``), and outputs (``T.empty``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.attributes import attributes
from tilelang.dtypes import canonical, is_dtype
from tilelang.frontend.declare import const_value, empty_tensor
from tilelang.frontend.specs import TensorSpec
from tilelang.language.tensors import as_shape, size_names

if TYPE_CHECKING:
    import torch

__getattr__ = attributes(
    __name__, {"tilelang.language": "JITFunc Ref annotate_compile_flags annotate_pass_configs macro prim_func"}
)


def const(name: str, dtype: Any = "int32") -> Any:
    """A size (or several) that an eager program takes from its tensors when it is compiled: one kernel for each value."""
    values = tuple(const_value(each, canonical(dtype)) for each in size_names(name))
    return values[0] if len(values) == 1 else values


def empty(*shape: Any, dtype: Any = "float32") -> torch.Tensor:
    """A tensor that an eager program allocates; return it to give it to the caller (its type is what the caller gets).

    ``T.empty((m, n), "float16")`` and ``T.empty(m, n, dtype="float16")`` are the same.
    """
    if len(shape) == 2 and is_dtype(shape[1]):
        shape, dtype = shape
    elif len(shape) == 1:
        shape = shape[0]
    return empty_tensor(TensorSpec(as_shape(shape), canonical(dtype)))
