"""Loop objects: the values that ``T.serial``, ``T.Parallel``, ``T.Pipelined`` … return, and how a loop is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi

from tilelang.errors import DtypeError, MisplacedError, RunTimeValueError
from tilelang.frontend.barriers import split_at_barriers
from tilelang.frontend.builder import Builder, current, read_now, sequence
from tilelang.frontend.values import as_expr
from tilelang.frontend.warp_loops import may_be_of_threads
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import Interval, interval_of
from tilelang.ir.visit import reads_memory


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """A nest of loops that a ``for`` statement opens.

    Attributes:
        kind: a member name of TVM's ``ForKind``: ``SERIAL``, ``PARALLEL``, ``VECTORIZED`` or ``UNROLLED``.
        ranges: (first, extent, step) of each loop, outermost first.
        annotations: of the outermost loop.
        many: whether the target is a tuple of indices even for one loop.
    """

    kind: str
    ranges: tuple[tuple[Any, Any, Any], ...]
    annotations: Mapping[str, Any] = field(default_factory=dict)
    many: bool = False

    def __iter__(self) -> Any:
        raise MisplacedError(
            "a run-time loop in a plain Python function",
            hint="decorate the function with @T.macro to trace its loops; enumerate and zip are such, too: use range;"
            " a comprehension takes a range of constant length",
        )

    def __enter__(self) -> Any:
        """``with T.serial(n) as i`` in a plain Python function; where control flow is traced it is a ``for``."""
        builder = current("a loop")
        frame, value = self.open(builder, ())
        body = builder.in_loop(self.kind)
        body.__enter__()
        builder.entered.append((frame, body))
        return value

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        builder = current("a loop")
        frame, body = builder.entered.pop()
        body.__exit__(kind, error, trace)
        if kind is None:
            builder.close(frame)

    def open(self, builder: Builder, names: tuple[str, ...]) -> tuple[Any, Any]:
        """Opens the nest; returns its frame and the value of the ``for`` target."""
        span = builder.span()
        loops, values = [], []
        for position, (first, extent, step) in enumerate(self.ranges):
            first, extent = _read_once(builder, "first", first), _read_once(builder, "extent", extent)
            name = names[position] if position < len(names) else f"i{position}"
            var = ir.Var(builder.unique(name), _index_type(first, extent))
            # Loops of the IR have step 1. Another step becomes arithmetic on an index from 0, whose number of values is the
            # extent.
            stride = as_int(step)
            if not isinstance(stride, int):
                stride = _read_once(builder, "step", stride)
            if isinstance(count := as_int(extent), int) and count < 0:
                extent = ir.IntImm(extent.ty, 0)
            builder.ranges[var] = _index_interval(builder, first if stride == 1 else 0, extent)
            loops.append((var, first if stride == 1 else ir.IntImm(var.ty, 0), extent))
            values.append(var if stride == 1 else first + var * stride)

        def wrap(body: Any) -> Any:
            if self.kind != "PARALLEL":
                return self._nest(loops, body, span)
            # Barriers of a loop over the threads may stand anywhere in it, as it becomes the threads' code.
            as_threads = may_be_of_threads([extent for _, _, extent in loops], body, builder.kernel)
            parts = [(body, False)] if as_threads else split_at_barriers(body)
            # A variable is defined by one loop only, so each nest after the first has variables of its own.
            nests = (part if is_barrier else self._nest(*_renamed(loops, part), span) for part, is_barrier in parts[1:])
            first, is_barrier = parts[0]
            return sequence([first if is_barrier else self._nest(loops, first, span), *nests])

        always = all(isinstance(n := as_int(extent), int) and n > 0 for _, _, extent in loops)
        # Iterations of the others change nothing that another one reads.
        frame = builder.open("loop", wrap, always, repeats=self.kind in ("SERIAL", "UNROLLED"))
        return frame, values[0] if len(values) == 1 and not self.many else tuple(values)

    def _nest(self, loops: Sequence[tuple[Any, Any, Any]], body: Any, span: Any) -> Any:
        """The loops around a body.

        Args:
            loops: variable of the body, first index and extent of each loop, outermost first.
            body: what an iteration does.
            span: of the ``for`` statement.
        """
        for depth, (var, first, extent) in reversed(list(enumerate(loops))):
            notes = dict(self.annotations) if depth == 0 else None
            kind = getattr(ir.ForKind, self.kind)
            body = ir.For(var, _cast_like(first, var), _cast_like(extent, var), kind, body, annotations=notes, span=span)
        return body


@contextmanager
def each_element(
    builder: Builder, extents: Sequence[Any], kind: str = "PARALLEL", prefix: str = "i"
) -> Iterator[tuple[Any, ...]]:
    """A nest of loops over a box around the body of a ``with``; gives the index along each axis.

    Args:
        builder: of the program.
        extents: length of each loop, from 0 on.
        kind: a member name of TVM's ``ForKind``.
        prefix: what the names of the loops' variables begin with.
    """
    notes = {"tl.parallel": len(extents)} if kind == "PARALLEL" else {}
    spec = LoopSpec(kind, tuple((0, extent, 1) for extent in extents), notes, many=True)
    frame, indices = spec.open(builder, tuple(f"{prefix}{axis}" for axis in range(len(extents))))
    yield indices
    builder.close(frame)


def _renamed(loops: Sequence[tuple[Any, Any, Any]], body: Any) -> tuple[Sequence[tuple[Any, Any, Any]], Any]:
    """The loops with new variables, and the body with these in place of the old ones."""
    fresh = {var: ir.Var(var.name, var.ty) for var, _, _ in loops}
    body = tvm_ffi.structural_map(body, [(ir.Var, lambda var: fresh.get(var, var))])
    return [(fresh[var], first, extent) for var, first, extent in loops], body


def _read_once(builder: Builder, name: str, bound: Any) -> Any:
    """A loop bound; one that reads memory is evaluated before the loop, since the body may change that memory."""
    bound = as_expr(bound)
    return builder.bind(name, bound) if reads_memory(bound) else bound


def _index_interval(builder: Builder, first: Any, extent: Any) -> Interval:
    """The least and the largest value of a loop's variable, as far as they are known."""
    low = interval_of(first, builder.ranges)
    length = interval_of(extent, builder.ranges)[1]
    return low[0], None if low[1] is None or length is None else low[1] + length - 1


def _index_type(first: Any, extent: Any) -> Any:
    """The type of a loop's variable: int64 where one of the bounds needs it."""
    return first.ty if str(first.ty) == "int64" else extent.ty


def _cast_like(value: Any, var: Any) -> Any:
    """``value`` in the type of ``var``."""
    if str(value.ty) == str(var.ty):
        return value
    return ir.IntImm(var.ty, int(value.value)) if isinstance(value, ir.IntImm) else ir.Cast(var.ty, value)


def bound(value: Any, what: str = "the bound of a loop") -> Any:
    """The expression of a loop's first index, end or extent, or of another size.

    Raises:
        DtypeError: it is no integer.
    """
    expr = read_now(as_expr(value))
    if str(expr.ty).startswith(("float", "bfloat", "tfloat")):
        raise DtypeError(
            f"{what} must be an integer, got {expr.ty} {value}",
            hint="n / m is a float in Python too: use n // m or T.ceildiv(n, m)",
        )
    return expr


def range_bounds(start: Any, stop: Any = None, step: Any = None) -> tuple[Any, Any, Any]:
    """(first, extent, step) of ``range(start, stop, step)``.

    Args:
        start: the first index; where ``stop`` is None the end, the first index being 0.
        stop: the end, which is not included.
        step: 1 by default. One of the run time may have either sign; where it is zero there are no iterations.

    Raises:
        DtypeError: a bound or step that is no integer.
        RunTimeValueError: a step that is the constant zero.
    """
    first, end = (0, start) if stop is None else (start, stop)
    stride = as_int(bound(1 if step is None else step, "the step of a loop"))
    if isinstance(stride, int) and stride == 0:
        raise RunTimeValueError("the step of a loop is zero")
    ends = bound(first), bound(end)
    if not isinstance(stride, int):
        stride = ir.Cast("int64", stride) if str(stride.ty).startswith("uint") else stride
        # Rounded up: floor division of the negated distance, whatever the signs. By zero it gives zero.
        return first, as_int(-((ends[0] - ends[1]) // stride)), stride
    low, high = map(as_int, ends)
    if stride != 1 and isinstance(low, int) and isinstance(high, int):
        return first, len(range(low, high, stride)), stride
    distance = ends[1] - ends[0]
    if stride == 1:
        return first, as_int(distance), 1
    if stride < 0:
        distance, magnitude = ends[0] - ends[1], -stride
    else:
        magnitude = stride
    return first, as_int((distance + (magnitude - 1)) // magnitude), stride
