"""What stands around the code of a kernel: its signature, and the arrays that it declares in shared memory and on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tilelang.target.cuda.ir.instructions import Instruction
from tilelang.target.cuda.ir.values import Array, Name, Value


@dataclass(frozen=True, slots=True)
class ValueParameter:
    """A number that the kernel gets."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class PointerParameter:
    """A tensor, or another address.

    Attributes:
        dtype: of what it points to.
        constant: whether the kernel only reads there.
        restrict: whether nothing else that the kernel gets points there.
    """

    name: str
    dtype: str
    constant: bool = False
    restrict: bool = False


@dataclass(frozen=True, slots=True)
class TensorMapParameter:
    """A descriptor for the tensor memory accelerator."""

    name: str


Parameter = Union[ValueParameter, PointerParameter, TensorMapParameter]


@dataclass(frozen=True, slots=True)
class Signature:
    """The head of a kernel.

    Attributes:
        threads: of a block, at most.
        blocks: that a multiprocessor must have room for; None leaves that to the device compiler.
    """

    name: str
    parameters: tuple[Parameter, ...]
    threads: int
    blocks: int | None = None


@dataclass(frozen=True, slots=True)
class DeclarePool(Instruction):
    """The shared memory of a block, as bytes."""

    pool: Array
    alignment: int


@dataclass(frozen=True, slots=True)
class DefineSharedArray(Instruction):
    """A name for a part of it, for the whole kernel."""

    array: Array
    start: Value


@dataclass(frozen=True, slots=True)
class DeclareGlobal(Instruction):
    """A variable in global memory, outside of all kernels; it is zero when the module is loaded."""

    name: Name
    dtype: str
