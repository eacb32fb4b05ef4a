"""Where the tensors of a call give its sizes, and sizes that stand only inside arithmetic: the value of ``n`` where an axis of
``n * 4 + 1`` elements has 33.

Plain data, as :data:`tilelang.artifact.Dim`: the front end, the hosts of the targets and the execution backends solve alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilelang.artifact import Dim, KernelParam, dim_names, evaluate_dim
from tilelang.records import Record
from tilelang.storage import PACKED_DTYPES, storage_shape, storage_strides

AXIS = ""
"""Stands in :attr:`Binding.value` for the size of the axis itself."""


class Binding(Record):
    """A dynamic size that an axis of a tensor gives.

    Attributes:
        name: of the size.
        tensor: name of the tensor parameter.
        axis: of the tensor as it is stored; strides count on after the shape.
        value: the size, over :data:`AXIS` and the sizes that come before it; where it is not :data:`AXIS` itself, a call must
            find it non-negative and compare the declared size of the axis with the actual one, as divisions round down.
    """

    name: str
    tensor: str
    axis: int
    value: Dim = AXIS

    @property
    def solved(self) -> bool:
        """Whether the size stands inside arithmetic, so that its value must be computed."""
        return self.value != AXIS


def stored_dims(param: KernelParam) -> tuple[Dim, ...]:
    """Sizes and declared strides of the tensor that holds ``param``, in the order of :attr:`Binding.axis`."""
    return (*storage_shape(param), *(storage_strides(param) or ()))


def bindings(params: Iterable[KernelParam], known: Iterable[str]) -> tuple[Binding, ...]:
    """How the tensors among ``params`` give their dynamic sizes, each in order of need; sizes that they cannot give are missing.

    Args:
        params: parameters that a caller passes.
        known: sizes that are given otherwise.
    """
    axes = [axis for param in params if param.kind == "tensor" for axis in _axes(param)]
    found: dict[str, Binding] = {}
    for tensor, axis, dim, size in axes:
        # Axes that are the size itself come first: nothing has to be divided, and an error can name one axis.
        if isinstance(dim, str) and size == AXIS and dim not in known:
            found.setdefault(dim, Binding(dim, tensor, axis))
    have = {*known, *found}
    # A size that one axis gives may make another axis solvable: first m, and then n of an axis of m * n elements.
    while (step := next(_solvable(axes, have), None)) is not None:
        found[step.name] = step
        have.add(step.name)
    return tuple(found.values())


def _axes(param: KernelParam) -> Iterator[tuple[str, int, Dim, Dim]]:
    """The axes of a tensor and its declared strides: tensor, axis as stored, declared size, and that size over :data:`AXIS`.

    Where two elements share a byte, a row of ``n`` bytes has ``2 * n``, and strides count bytes but for the last.
    """
    rank, dims = len(param.shape), (*param.shape, *(param.strides or ()))
    packed = range(rank - 1, 2 * rank - 1) if param.dtype in PACKED_DTYPES else ()
    for axis, dim in enumerate(dims):
        yield param.name, axis, dim, ("mul", AXIS, 2) if axis in packed else AXIS


def _solvable(axes: Iterable[tuple[str, int, Dim, Dim]], known: set[str]) -> Iterator[Binding]:
    for tensor, axis, dim, size in axes:
        step = inverse(dim, known, size)
        if step is not None:
            yield Binding(step[0], tensor, axis, step[1])


def inverse(dim: Dim, known: Iterable[str], size: Dim = AXIS) -> tuple[str, Dim] | None:
    """The only unknown variable of ``dim``, and its value as a size over the known ones and :data:`AXIS`.

    Args:
        dim: a declared size.
        known: the known variables.
        size: what ``dim`` is.

    Returns:
        None where ``dim`` has no unknown variable or several, or uses it otherwise than in sums, differences and products. A
        product is turned around by a division that rounds down: the caller compares ``dim`` with the axis afterwards.
    """
    unknown = [name for name in dim_names((dim,)) if name not in known]
    if len(unknown) != 1:
        return None
    value: Dim | None = size
    while isinstance(dim, tuple) and value is not None:
        name, left, right = dim
        # From the outside in: `n * 4 + 1` of size s gives `n * 4` of size s - 1, and that n of size (s - 1) // 4.
        on_left = unknown[0] in dim_names((left,))
        value = _turned(name, value, right if on_left else left, on_left)
        dim = left if on_left else right
    return None if value is None else (unknown[0], value)


def _turned(operator: str, value: Dim, other: Dim, on_left: bool) -> Dim | None:
    """``x`` where ``x operator other`` (or ``other operator x``) is ``value``."""
    if operator == "add":
        return ("sub", value, other)
    if operator == "sub":
        return ("add", value, other) if on_left else ("sub", other, value)
    return ("floordiv", value, other) if operator == "mul" else None


def divisors(value: Dim) -> Iterator[Dim]:
    """What a :attr:`Binding.value` divides by, without the numbers: the value exists where none of them is zero."""
    if isinstance(value, tuple):
        yield from divisors(value[1])
        if value[0] == "floordiv" and not isinstance(value[2], int):
            yield value[2]


def solved(dim: Dim, size: int, known: Mapping[str, int]) -> tuple[str, int] | None:
    """The unknown variable of a size and its value.

    Args:
        dim: the declared size.
        size: how many elements the axis has.
        known: values of the other variables.

    Returns:
        None as :func:`inverse`, or where no value of the variable gives ``size``.
    """
    found = inverse(dim, known.keys())
    number = None if found is None else solution(Binding(found[0], "", 0, found[1]), dim, size, known)
    return None if found is None or number is None else (found[0], number)


def solution(binding: Binding, dim: Dim, size: int, known: Mapping[str, int]) -> int | None:
    """The value that an axis gives to a size.

    Args:
        binding: how.
        dim: the declared size of the axis, as it is stored.
        size: how many elements the axis has.
        known: values of the other variables.

    Returns:
        None where no value gives ``size``.
    """
    try:
        number = evaluate_dim(binding.value, {**known, AXIS: size})
    except ZeroDivisionError:
        return None
    # The division rounded down, and a negative number may satisfy the equation, too.
    return number if number >= 0 and evaluate_dim(dim, {**known, binding.name: number}) == size else None
