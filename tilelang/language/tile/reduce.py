"""Reductions and scans of tiles."""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.tiles import own_axes
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored, unless
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.language.signatures import parameters, taking
from tilelang.tileop.reduce import REDUCE_KINDS, Reduce, fits
from tilelang.tileop.scan import Scan


def axis_number(what: str, dim: Any) -> int:
    """The number that a program gives for an axis.

    Raises:
        OptionError: the kernel computes it.
    """
    axis = as_int(as_expr(dim))
    if not isinstance(axis, int):
        raise OptionError(f"{what}: dim={dim!s} is no compile-time integer")
    return axis


def _readings(what: str, dim: int, region: Region) -> list[tuple[int, tuple[int, ...]]]:
    """The axes that ``dim`` may mean, each with the axes that it counts.

    Of ``x[k, :, :]``, ``dim=1`` is the second axis of ``x`` if all axes count, and the third if those count that the slice has as
    a value, from which the index ``k`` has removed the first.
    """
    rank = len(region.extents)
    axes = [each for each in (tuple(range(rank)), own_axes(region)) if -len(each) <= dim < len(each)]
    if not axes:
        raise OptionError(f"{what}: dim={dim} is out of range for {rank} axes")
    return [(each[dim], each) for each in axes]


def _is_rest(target: Region, source: Region, reduced: int) -> bool:
    """Whether ``target`` has the axes of ``source`` without ``reduced``, an index naming the same of them in both."""
    rest = [axis in own_axes(source) for axis in range(len(source.extents)) if axis != reduced]
    return rest == [axis in own_axes(target) for axis in range(len(target.extents))]


def reduced_axis(what: str, dim: int, source: Region, target: Region) -> int:
    """The axis that ``dim`` means: the reading that fits the destination's axes, else the axis of the slice as a value.

    Args:
        what: the operator's name.
        dim: as the program gives it.
        source, target: what is reduced, and where the result goes.

    Returns:
        The number of the axis, counted among all of ``source``.

    Raises:
        OptionError: it would be another axis if two sizes were equal.
    """
    found = _readings(what, dim, source)
    shapes = (target.extents, tuple(target.extents[axis] for axis in own_axes(target)))
    for axis, axes in found:
        kept = [source.extents[each] for each in axes if each != axis]
        with_one = [1 if each == axis else source.extents[each] for each in axes]
        if any(fits(want, shape) for want in (kept or [1], with_one) for shape in shapes):
            if axis != found[0][0] and len(shapes[1]) < len(target.extents) and _is_rest(target, source, found[0][0]):
                both = f"{source.buffer.name}, as {target.buffer.name} has the axis that an index names"
                raise OptionError(f"{what}: dim={dim} counts all axes of {both}", hint=f"write dim={axis}")
            return axis
    return found[-1][0]


def _scanned_axis(what: str, dim: int, source: Region, target: Region) -> int:
    """The axis of a region that ``dim`` means: never one that an index names, along which there is nothing to scan.

    Args:
        what: the operator's name.
        dim: counts all axes of ``source`` where ``target`` has as many, else those of the slice as a value.
        source, target: what is scanned, and where the result goes.

    Raises:
        CompileError: ``dim`` is out of range.
    """
    found = _readings(what, dim, source)
    if len(target.extents) != len(source.extents):
        found.reverse()
    return next((axis for axis, _ in found if axis in own_axes(source)), 0)


def reduce(
    buffer: Any, out: Any, reduce_type: str, dim: int, clear: bool, batch: int = 1, annotations: Any = None,
    nan_propagate: bool = False,
) -> None:  # fmt: skip
    """Reduces one axis of a tile by a reduction that is given by name.

    Args:
        buffer, out, dim, clear, nan_propagate: as for :func:`reduce_sum` and its like.
        reduce_type: ``"sum"``, ``"max"``, ``"min"``, ``"abssum"``, ``"absmax"``, ``"bitand"``, ``"bitor"`` or ``"bitxor"``.
        batch, annotations: have no effect; a value (but 1 for ``batch``) warns.

    Raises:
        ReduceShapeError: the shapes do not fit.
        OptionError: another ``reduce_type``.
    """
    ignored("T.reduce", batch=unless(1, batch), annotations=annotations)
    if reduce_type not in REDUCE_KINDS:
        raise OptionError(f"T.reduce: {reduce_type!r} is none of {', '.join(REDUCE_KINDS)}")
    what = f"T.reduce_{reduce_type}"
    source, target = as_region(buffer, what), as_region(out, what)
    axis = reduced_axis(what, axis_number(what, dim), source, target)
    require_kernel(what).perform(Reduce(source, target, reduce_type, axis, bool(clear), bool(nan_propagate)))


_DEFAULTS = {"dim": -1, "clear": True, "batch": 1, "nan_propagate": False, "annotations": None}

_ORDER = {
    # kind -> the parameters behind buffer and out, where they are not those of reduce_sum
    "max": "dim clear batch nan_propagate annotations",
    "min": "dim clear batch nan_propagate annotations",
    "absmax": "dim clear batch nan_propagate annotations",
    "abssum": "dim batch annotations clear nan_propagate",
}


def _reducer(kind: str, meaning: str) -> Any:
    names = _ORDER.get(kind, "dim clear batch annotations nan_propagate").split()
    signature = parameters("buffer out", **{name: _DEFAULTS[name] for name in names})
    doc = f"""{meaning} along one axis of a tile.

    Args:
        buffer: the tile, a fragment or shared memory.
        out: a tile with the axes of ``buffer`` less ``dim`` (or 1 in its place).
        dim: the axis; negative counts from the end. Of a slice, axes that an index names count where ``out`` has them too.
        clear: start afresh; otherwise the old value of ``out`` takes part.
        nan_propagate: for max and min, whether a NaN wins (it is ignored otherwise).
        batch, annotations: have no effect; a value warns.

    Raises:
        ReduceShapeError: the shapes do not fit.
    """

    @taking(signature, f"reduce_{kind}", doc)
    def function(*values: Any) -> None:
        buffer, out, *options = values
        given = dict(zip(names, options))
        ignored(f"T.reduce_{kind}", batch=unless(1, given["batch"]), annotations=given["annotations"])
        reduce(buffer, out, kind, given["dim"], given["clear"], nan_propagate=given["nan_propagate"])

    return function


reduce_sum = _reducer("sum", "The sum")
reduce_max = _reducer("max", "The maximum")
reduce_min = _reducer("min", "The minimum")
reduce_abssum = _reducer("abssum", "The sum of absolute values")
reduce_absmax = _reducer("absmax", "The largest absolute value")
reduce_bitand = _reducer("bitand", "The bitwise and")
reduce_bitor = _reducer("bitor", "The bitwise or")
reduce_bitxor = _reducer("bitxor", "The bitwise exclusive or")


def _scan(kind: str, src: Any, dst: Any, dim: int, reverse: bool) -> None:
    what = f"T.cum{kind}"
    source = as_region(src, what)
    target = source if dst is None else as_region(dst, what)
    axis = _scanned_axis(what, axis_number(what, dim), source, target)
    require_kernel(what).perform(Scan(source, target, kind, axis, bool(reverse)))


def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Inclusive running sums along an axis: ``dst[i] = src[0] + … + src[i]``.

    Args:
        src: a tile in shared memory or a fragment.
        dst: a tile of the same shape; ``src`` itself without.
        dim: the axis; negative counts from the end.
        reverse: sum from the end: ``dst[i] = src[i] + … + src[-1]``.
        annotations: has no effect; a value warns.

    Raises:
        ReduceShapeError: the shapes differ.
        CompileError: ``dim`` is no axis of ``src``.
    """
    ignored("T.cumsum", annotations=annotations)
    _scan("sum", src, dst, dim, reverse)


def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Inclusive running maxima along an axis: ``dst[i] = max(src[0], …, src[i])``, which is NaN up to the first number.

    Args:
        src, dst, dim, reverse, annotations: as for :func:`cumsum`.

    Raises:
        ReduceShapeError: the shapes differ.
        CompileError: ``dim`` is no axis of ``src``.
    """
    ignored("T.cummax", annotations=annotations)
    _scan("max", src, dst, dim, reverse)
