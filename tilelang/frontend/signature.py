"""The signature of an eager program as plain data, so that a call can be matched to a kernel without tracing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilelang.artifact import Dim, evaluate_dim
from tilelang.errors import ArgumentError
from tilelang.storage import logical_shape


@dataclass(frozen=True, slots=True)
class SignatureParam:
    """One run-time argument: ``kind`` is ``"tensor"``, ``"scalar"`` or ``"pointer"``."""

    name: str
    kind: str
    dtype: str
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] | None = None


@dataclass(frozen=True, slots=True)
class EagerSignature:
    """Run-time arguments in call order, and the names of ``T.const`` sizes."""

    params: tuple[SignatureParam, ...]
    consts: tuple[str, ...]

    def bind(self, shapes: Mapping[str, Sequence[int]], strides: Mapping[str, Sequence[int]] | None = None) -> dict[str, int]:
        """The value of each ``T.const`` that the shapes (and strides) of the tensor arguments give.

        Raises:
            ArgumentError: two arguments disagree about a size, or an argument has the wrong rank.
        """
        values: dict[str, int] = {}
        origin: dict[str, str] = {}
        for param in self.params:
            if param.kind != "tensor":
                continue
            shape = logical_shape(param.dtype, shapes[param.name])
            if len(shape) != len(param.shape):
                raise ArgumentError(f"{param.name}: expected {len(param.shape)} axes, got shape {tuple(shape)}")
            actual = [*shape, *((strides or {}).get(param.name, ()) if param.strides else ())]
            for axis, (dim, size) in enumerate(zip([*param.shape, *(param.strides or ())], actual)):
                if not (isinstance(dim, str) and dim in self.consts):
                    continue
                if values.setdefault(dim, size) != size:
                    raise ArgumentError(f"{param.name}: axis {axis} is {size}, but {dim} is {values[dim]} in {origin[dim]}")
                origin.setdefault(dim, param.name)
        self._check(shapes, values)
        return values

    def _check(self, shapes: Mapping[str, Sequence[int]], values: Mapping[str, int]) -> None:
        """Sizes that are arithmetic of constants must agree too."""
        for param in self.params:
            for axis, (dim, size) in enumerate(zip(param.shape, logical_shape(param.dtype, shapes.get(param.name, ())))):
                try:
                    want = evaluate_dim(dim, values)
                except KeyError:
                    continue
                if want != size:
                    raise ArgumentError(f"{param.name}: axis {axis} is {size}, expected {want}")
