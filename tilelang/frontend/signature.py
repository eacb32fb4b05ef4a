"""The signature of an eager program as plain data, so that a call can be matched to a kernel without tracing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilelang.artifact import Dim, evaluate_dim
from tilelang.errors import ArgumentError, axes_text
from tilelang.records import Record
from tilelang.sizes import solved
from tilelang.storage import logical_shape, logical_strides


class SignatureParam(Record):
    """One run-time argument: ``kind`` is ``"tensor"``, ``"scalar"`` or ``"pointer"``."""

    name: str
    kind: str
    dtype: str
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] | None = None


class EagerSignature(Record):
    """Run-time arguments in call order, and the names of ``T.const`` sizes."""

    params: tuple[SignatureParam, ...]
    consts: tuple[str, ...]

    def bind(
        self,
        shapes: Mapping[str, Sequence[int]],
        strides: Mapping[str, Sequence[int]] | None = None,
        given: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """The value of each ``T.const`` that the shapes (and strides) of the tensor arguments give.

        Args:
            shapes: of each tensor argument by name; of those left out nothing is concluded.
            strides: of the tensor arguments that are declared with strides.
            given: values that the caller fixes.

        Returns:
            The value of each name of ``T.const``.

        Raises:
            ArgumentError: two arguments disagree about a size, an argument has the wrong rank, or no argument gives a size.
        """
        axes = list(self._axes(shapes, strides or {}))
        values = dict(given or {})
        origin = dict.fromkeys(values, "the call")
        for param, axis, dim, size in axes:
            if dim in self.consts:
                if values.setdefault(dim, size) != size:
                    raise ArgumentError(f"{param}: axis {axis} is {size}, but {dim} is {values[dim]} in {origin[dim]}")
                origin.setdefault(dim, param)
        self._solve(axes, values)
        self._check(axes, values)
        missing = [name for name in self.consts if name not in values]
        if missing:
            raise ArgumentError(f"no argument gives the size {missing[0]}", hint=f"pass {missing[0]}=... by name")
        return values

    def _axes(
        self, shapes: Mapping[str, Sequence[int]], strides: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[str, int, Dim, int]]:
        """Each axis of the arguments (strides count on after the shape): argument, number, declared and actual size."""
        for param in self.params:
            if param.kind != "tensor" or param.name not in shapes:
                continue
            shape = logical_shape(param.dtype, shapes[param.name])
            if len(shape) != len(param.shape):
                raise ArgumentError(f"{param.name}: expected {axes_text(len(param.shape))}, got shape {tuple(shape)}")
            actual = [*shape, *(logical_strides(param.dtype, strides.get(param.name, ())) if param.strides else ())]
            for axis, (dim, size) in enumerate(zip([*param.shape, *(param.strides or ())], actual)):
                yield param.name, axis, dim, size

    def _solve(self, axes: Sequence[tuple[str, int, Dim, int]], values: dict[str, int]) -> None:
        """Adds the sizes that stand inside arithmetic only."""
        while set(self.consts) - values.keys():
            found = [pair for _, _, dim, size in axes for pair in [solved(dim, size, values)] if pair]
            if not found:
                return
            values.update(found[:1])

    def _check(self, axes: Sequence[tuple[str, int, Dim, int]], values: Mapping[str, int]) -> None:
        """Sizes that are arithmetic of constants must agree too."""
        for param, axis, dim, size in axes:
            try:
                want = evaluate_dim(dim, values)
            except KeyError:
                continue
            if want != size:
                raise ArgumentError(f"{param}: {self._place(param, axis)} is {size}, expected {want}")

    def _place(self, name: str, axis: int) -> str:
        """What a number of :meth:`_axes` counts."""
        rank = next(len(param.shape) for param in self.params if param.name == name)
        return f"axis {axis}" if axis < rank else f"the stride of axis {axis - rank}"
