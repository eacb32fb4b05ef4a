"""Declarations of kernel parameters: tensors, pointers, and sizes that each call gives (``T.dynamic``).

They are plain values: declaring a program loads neither the front end nor TVM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import DType, canonical, is_dtype
from tilelang.errors import DeclarationError, UnsupportedError
from tilelang.frontend.specs import PointerSpec, TensorSpec
from tilelang.ignored import ignored, unless


def as_shape(shape: Any) -> tuple[Any, ...]:
    """A shape given as one size, a tuple, a list, or the shape of a buffer."""
    return tuple(shape) if isinstance(shape, Sequence) else (shape,)


def strided(shape: tuple[Any, ...], dtype: DType, strides: tuple[Any, ...] | None, scope: str) -> TensorSpec:
    """The declaration of a tensor.

    Args:
        shape: its sizes.
        dtype: type of the elements.
        strides: element strides; None for a compact row-major tensor.
        scope: storage scope.

    Returns:
        What a parameter of a program is annotated with.

    Raises:
        DeclarationError: more or fewer strides than axes, or strides under which rows of 4-bit elements begin within a byte.
    """
    if strides is not None and len(strides) != len(shape):
        raise DeclarationError(f"a tensor of {len(shape)} axes has {len(strides)} strides", hint="give one stride an axis")
    if dtype.bits == 4 and strides is not None:
        strides = None if _is_compact(shape, strides) else _whole_bytes(strides, str(dtype))
    return TensorSpec(shape, dtype, strides, scope)


def _whole_bytes(strides: tuple[Any, ...], dtype: str) -> tuple[Any, ...]:
    """Strides of elements of which two share a byte, if rows begin with a byte."""
    from tilelang.ir.span import user_location

    if (type(strides[-1]) is int and strides[-1] == 1) and not any(type(each) is int and each % 2 for each in strides[:-1]):
        return strides
    raise DeclarationError(
        f"a tensor of {dtype}, of which two elements share a byte, with the strides {strides}",
        user_location(),
        "the last stride must be 1 and the others even; they count elements, twice what the torch tensor of bytes has",
    )


def _is_compact(shape: tuple[Any, ...], strides: tuple[Any, ...]) -> bool:
    """Whether constant ``strides`` are those of a row-major tensor without gaps; its first size may be dynamic."""
    inner = shape[1:]
    return all(isinstance(each, int) for each in (*inner, *strides)) and all(
        stride == math.prod(inner[axis:]) for axis, stride in enumerate(strides)
    )


def without_effect(name: str, elem_offset: Any, align: int, offset_factor: int, buffer_type: str, axis_separators: Any) -> None:
    """Warns of parameters of TVM's buffers that are set to something else than TVM's defaults.

    Args:
        name: the function that takes them.
        elem_offset: where a buffer starts in its memory; it must start there.
        align, offset_factor, buffer_type, axis_separators: what has no effect.

    Raises:
        UnsupportedError: an ``elem_offset`` but 0.
    """
    if elem_offset is not None and not (isinstance(elem_offset, int) and elem_offset == 0):
        raise UnsupportedError(f"T.{name}: elem_offset={elem_offset} is not supported", hint="index the buffer from there on")
    ignored(
        f"T.{name}", align=None if align == -1 else unless(0, align), offset_factor=unless(0, offset_factor),
        buffer_type=None if buffer_type == "default" else buffer_type, axis_separators=axis_separators,
    )  # fmt: skip


class _TensorFactory:
    """``T.Tensor(shape, dtype)`` and ``T.Tensor[shape, dtype]``."""

    def __init__(self, name: str, scope: str):
        self.name, self.scope = name, scope

    def __repr__(self) -> str:
        return f"T.{self.name}"

    def __call__(
        self, shape: Any, dtype: Any = "float32", data: Any = None, scope: str | None = None, strides: Any = None
    ) -> Any:
        """A compact (or, with ``strides``, a strided) tensor of ``shape`` and ``dtype``.

        Args:
            shape: a size or a sequence of sizes, compile-time or dynamic.
            dtype: type of the elements.
            data: inside a program, what the tensor is a view of: ``tensor.data``, or an argument declared ``T.ptr``.
            scope: memory of the elements.
            strides: element strides.
        """
        if isinstance(data, (tuple, list)):
            data, strides = None, data
        if data is not None:
            from tilelang.language.customize import make_tensor

            return make_tensor(data, shape, dtype, strides)
        return strided(as_shape(shape), canonical(dtype), None if strides is None else as_shape(strides), scope or self.scope)

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if len(items) >= 2 and (is_dtype(items[-1]) or declared_pointer(items[-1]) is not None):
            shape = items[0] if len(items) == 2 else items[:-1]
            return self(shape, items[-1])
        return self(items[0] if len(items) == 1 else items)


class _BufferFactory(_TensorFactory):
    """``T.Buffer(shape, dtype)``: a tensor by the parameters of TVM's buffers."""

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
        scope: str | None = None, align: int = 0, offset_factor: int = 0, buffer_type: str = "", axis_separators: Any = None,
    ) -> Any:  # fmt: skip
        """A compact (or, with ``strides``, a strided) tensor of ``shape`` and ``dtype``.

        Args:
            shape, dtype, data, scope, strides: as for ``T.Tensor``.
            elem_offset: 0 or None.
            align, offset_factor, buffer_type, axis_separators: have no effect; a value but TVM's default warns.
        """
        without_effect("Buffer", elem_offset, align, offset_factor, buffer_type, axis_separators)
        return super().__call__(shape, dtype, data, scope, strides)


class _StridedTensorFactory(_TensorFactory):
    """``T.StridedTensor(shape, strides, dtype)``."""

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, shape: Any, strides: Any, dtype: Any = "float32", scope: str | None = None, *, data: Any = None
    ) -> Any:
        """A tensor of ``shape`` whose axes are ``strides`` elements apart; each stride an int or a ``T.dynamic``.

        Args:
            shape, dtype, scope, data: as for ``T.Tensor``.
            strides: one an axis.
        """
        return super().__call__(shape, dtype, data, scope, as_shape(strides))

    def __getitem__(self, key: Any) -> Any:
        return self(*key)


Tensor = _TensorFactory("Tensor", "global")
"""A compact row-major tensor: ``T.Tensor(shape, dtype)`` or ``T.Tensor[shape, dtype]``.

With ``data=`` (``tensor.data``, or an argument declared ``T.ptr``) inside of a program: that memory under this shape."""

Buffer = _BufferFactory("Buffer", "global")
"""A tensor by the parameters of TVM's buffers; ``T.Buffer(shape, dtype)`` is ``T.Tensor(shape, dtype)``."""

StridedTensor = _StridedTensorFactory("StridedTensor", "global")
"""A tensor whose axes are ``strides`` elements apart: ``T.StridedTensor(shape, strides, dtype)``; strides are ints or dynamic."""

SharedBuffer = _BufferFactory("SharedBuffer", "shared.dyn")
"""Annotation of a macro's parameter that is a shared tile."""

FragmentBuffer = _BufferFactory("FragmentBuffer", "local.fragment")
"""Annotation of a macro's parameter that is a fragment."""

LocalBuffer = _BufferFactory("LocalBuffer", "local")
"""Annotation of a macro's parameter that is an array of each thread."""


def ptr(dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> PointerSpec:
    """A raw device pointer argument to elements of ``dtype``.

    Args:
        dtype: type of the elements, float32 by default; ``T.make_tensor`` may say another.
        storage_scope, is_size_var: have no effect; a value but the default warns.

    Returns:
        What a parameter of a program is annotated with.
    """
    ignored("T.ptr", storage_scope=unless("global", storage_scope), is_size_var=is_size_var)
    return PointerSpec(canonical("float32" if dtype is None else dtype))


class _PointerFactory:
    """``T.Ptr``, TVM's older name of ``T.ptr``: ``T.Ptr["float16"]`` or ``T.Ptr("float16")``."""

    def __repr__(self) -> str:
        return "T.Ptr"

    def __call__(self, dtype: Any = None, storage_scope: str = "global") -> PointerSpec:
        return ptr(dtype, storage_scope)

    def __getitem__(self, key: Any) -> PointerSpec:
        return self(*key) if isinstance(key, tuple) else self(key)


Ptr = _PointerFactory()
"""TVM's older name of ``T.ptr``: ``T.Ptr["float16"]`` or ``T.Ptr("float16")``."""


def declared_pointer(annotation: Any) -> PointerSpec | None:
    """The pointer that an annotation declares: ``T.ptr("float16")``, plain ``T.ptr`` or ``T.handle``; None where it is something
    else."""
    untyped = annotation is ptr or annotation is Ptr or (isinstance(annotation, DType) and annotation == "handle")
    return annotation if isinstance(annotation, PointerSpec) else ptr() if untyped else None


def size_names(text: str) -> list[str]:
    """The names in ``"m"`` or ``"m, n"``.

    Raises:
        DeclarationError: something else.
    """
    names = text.replace(",", " ").split()
    bad = [name for name in names if not name.isidentifier()]
    if bad or not names:
        raise DeclarationError(f"{text!r} does not name sizes", hint='write T.dynamic("m") or T.dynamic("m, n")')
    return names


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """A size (or several, ``T.dynamic("m, n")``) that the arguments of each call give.

    Args:
        name: one name, or several separated by commas.
        dtype: ``int32``, or ``int64`` where the size may pass 2**31 - 1.
    """
    from tilelang.frontend.values import DynamicSize

    sizes = tuple(DynamicSize(each, canonical(dtype)) for each in size_names(name))
    return sizes[0] if len(sizes) == 1 else sizes


symbolic = dynamic


def contiguous(tensor: Any) -> Any:
    """Accepted for compatibility: arguments declared ``T.Tensor`` are contiguous already."""
    return tensor
