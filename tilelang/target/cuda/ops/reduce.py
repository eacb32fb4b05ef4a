"""Reductions as code: registers first, then lanes by shuffles, then warps through shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.layout.fragment import THREAD, FragmentLayout, Mode, merge_modes, on_thread
from tilelang.target.cuda.codegen.code import Code, leaf_of
from tilelang.target.cuda.codegen.element_types import c_type, converted, float_literal, integer_literal
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.expr import extremum
from tilelang.target.cuda.codegen.nest_loops import thread_digit
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.reading.tiles import nest_of
from tilelang.target.cuda.reading.tree import Parallel
from tilelang.tileop.copy import Copy
from tilelang.tileop.reduce import FinalizeReducer, Reduce

_WARP = 32


@dataclass(frozen=True, slots=True)
class Combine:
    """How a kind of reduction combines two values.

    Attributes:
        functor: the device header's operation.
        infix: C++ operator, or ``"max"``/``"min"``.
        absolute: whether elements count by magnitude.
    """

    functor: str
    infix: str
    absolute: bool = False


KINDS: Mapping[str, Combine] = {
    "sum": Combine("Sum", "+"),
    "abssum": Combine("Sum", "+", True),
    "max": Combine("Max", "max"),
    "min": Combine("Min", "min"),
    "absmax": Combine("Max", "max", True),
    "bitand": Combine("BitAnd", "&"),
    "bitor": Combine("BitOr", "|"),
    "bitxor": Combine("BitXor", "^"),
}


class Reduction:
    """Combining values of one kind in one type.

    Args:
        kind: a name of :data:`KINDS`.
        dtype: of the result; 16-bit floats are summed in float32.
        propagate: whether NaN wins in max and min.
    """

    def __init__(self, kind: str, dtype: str, propagate: bool = False):
        self.combine_kind = KINDS[kind]
        self.dtype = canonical(dtype)
        narrow = self.dtype.is_float and self.dtype.bits < 32
        self.wide = canonical("float32") if narrow else self.dtype
        self.propagate = propagate and self.combine_kind.infix in ("max", "min")

    @property
    def functor(self) -> str:
        """The device header's operation."""
        return f"tl::{self.combine_kind.functor}{'Nan' if self.propagate else ''}"

    def combine(self, left: str, right: str) -> str:
        """C++ text of two values combined."""
        infix = self.combine_kind.infix
        if self.propagate:
            return f"{self.functor}::apply<{c_type(self.wide)}>({left}, {right})"
        if infix in ("max", "min"):
            return extremum(infix, left, right, self.wide)
        return f"{left} {infix} {right}"

    def element(self, text: str, dtype: str) -> str:
        """An element of the source, ready to be combined."""
        value = converted(text, dtype, self.wide)
        if not self.combine_kind.absolute or self.wide.kind in ("uint", "bool"):
            return value
        return f"fabsf({value})" if self.wide == "float32" else f"fabs({value})" if self.wide.is_float else f"abs({value})"

    def identity(self) -> str:
        """C++ text of the value that changes nothing."""
        infix = self.combine_kind.infix
        if infix == "+" and self.wide.is_float:
            return float_literal(-0.0, self.wide)  # compilers may not leave out the addition of +0, which changes -0
        if infix in ("+", "|", "^") or self.combine_kind.absolute:
            return f"{c_type(self.wide)}(0)"
        if infix == "&":
            return f"{c_type(self.wide)}(~{c_type(self.wide)}(0))" if self.wide != "bool" else "true"
        if self.wide.is_float:
            return float_literal(float("-inf") if infix == "max" else float("inf"), self.wide)
        signed = self.wide.kind == "int"
        low = -(1 << (self.wide.bits - 1)) if signed else 0
        high = (1 << (self.wide.bits - signed)) - 1
        return integer_literal(low if infix == "max" else high, self.wide)


def split_lanes(modes: Sequence[Mode]) -> tuple[list[Mode], list[Mode]]:
    """Thread modes inside a warp that shuffles can serve, and the others."""
    lanes, across = [], []
    for mode in merge_modes(modes):
        inside = _WARP // mode.stride if mode.stride < _WARP else 1
        common = min(mode.extent & -mode.extent, inside)
        if inside > 1 and not mode.stride & (mode.stride - 1) and common > 1:
            lanes.append(on_thread(common, mode.stride))
            if mode.extent > common:
                across.append(on_thread(mode.extent // common, mode.stride * common))
        else:
            across.append(mode)
    return lanes, across


def emit_reduce(emitter: Emitter, op: Any, source: FragmentLayout, target: FragmentLayout) -> list[Code]:
    """``dst = kind(src over dim)``, where ``target`` is the source's layout without the axis."""
    reduction = Reduction(op.kind, op.dst.dtype, op.nan_propagate)
    outer = [mode for axis, modes in enumerate(source.modes) if axis != op.dim for mode in modes if mode.unit != THREAD]
    kept_axes = [axis for axis in range(len(source.modes)) if axis != op.dim]
    inner = [mode for mode in source.modes[op.dim] if mode.unit != THREAD]
    threads = [mode for mode in source.modes[op.dim] if mode.unit == THREAD]
    results = _result_strides(source, target, op.dim, kept_axes)
    padded = any(source.padded(axis) != extent for axis, extent in enumerate(source.shape))
    if padded or source.threads < emitter.scope.count:
        emitter.padded.add(emitter.root(op.src.buffer))
    with emitter.names.scope():
        return _ReduceText(emitter, reduction, op).emit(outer, results, inner, threads, source)


def _result_strides(source: FragmentLayout, target: FragmentLayout, dim: int, kept: list[int]) -> list[int]:
    """Register stride in the result of each kept register mode of the source, in order."""
    kept_axis = dim if len(target.modes) == len(source.modes) else None
    target_modes = [modes for axis, modes in enumerate(target.modes) if axis != kept_axis]
    if len(target_modes) != len(kept):
        return []
    strides = []
    for axis, modes in zip(kept, target_modes):
        own = [mode for mode in source.modes[axis] if mode.unit != THREAD]
        theirs = [mode for mode in modes if mode.unit != THREAD]
        strides += [mode.stride for mode in theirs][: len(own)]
    return strides


class _ReduceText:
    def __init__(self, emitter: Emitter, reduction: Reduction, op: Any):
        self.e, self.r, self.op = emitter, reduction, op
        self.type = c_type(reduction.wide)

    def emit(
        self, outer: list[Mode], results: list[int], inner: list[Mode], threads: list[Mode], source: FragmentLayout
    ) -> list[Code]:
        lanes, across = split_lanes(threads)
        self.holders = source.threads
        e, r = self.e, self.r
        total = e.names.take("total")
        names = [e.names.take("o") for _ in outer]
        src, dst = e.name(self.op.src.buffer), e.name(self.op.dst.buffer)
        place = f"{dst}[{_sum(names, results)}]"
        self.continues = not across and self._may_continue(source)
        first = place if self.continues else r.identity()
        partial = [f"{self.type} {total} = {first};", *self._registers(src, names, outer, inner, total, source)]
        partial += [f"{total} = tl::warp_reduce<{r.functor}, {m.extent}, {m.stride}>({total});" for m in lanes]
        if not across:
            return [leaf_of(_loops(names, outer, [*partial, self._finish(place, total)]))]
        return self._across(outer, names, lanes, across, partial, total, place)

    def _may_continue(self, source: FragmentLayout) -> bool:
        """Whether each thread may begin with the old result, which then counts several times."""
        idempotent = not self.r.combine_kind.absolute and self.r.combine_kind.infix in ("max", "min", "&", "|")
        return idempotent and not self.op.clear and self.r.wide == self.r.dtype and source.threads >= self.e.scope.count

    def _registers(
        self, src: str, names: list[str], outer: list[Mode], inner: list[Mode], total: str, source: FragmentLayout
    ) -> list[str]:
        e = self.e
        inner_names = [e.names.take("r") for _ in inner]
        index = _sum([*names, *inner_names], [m.stride for m in (*outer, *inner)])
        value = self.r.element(f"{src}[{index}]", self.op.src.dtype)
        line = f"{total} = {self.r.combine(total, value)};"
        guard = self._padding(source, inner, inner_names)
        return _loops(inner_names, inner, [f"if ({guard}) {line}" if guard else line])

    def _padding(self, source: FragmentLayout, inner: list[Mode], names: list[str]) -> str | None:
        """Condition under which a position along the reduced axis exists."""
        dim = self.op.dim
        if source.padded(dim) == source.shape[dim] and source.threads >= self.e.scope.count:
            return None
        tests, parts, weight = [], [], 1
        registers = dict(zip(inner, names))
        for mode in source.modes[dim]:
            text = (
                registers.get(mode)
                if mode.unit != THREAD
                else thread_digit(self.e.thread, mode.extent, mode.stride, self.e.scope.count)
            )
            parts.append(f"{text} * {weight}")
            weight *= mode.extent
        if source.padded(dim) != source.shape[dim]:
            tests.append(f"{' + '.join(parts)} < {source.shape[dim]}")
        return " && ".join(tests) if tests else None

    def _finish(self, place: str, total: str) -> str:
        value = total
        if not self.op.clear and not self.continues:
            value = self.r.combine(converted(place, self.r.dtype, self.r.wide), total)
        return f"{place} = {converted(f'({value})' if value != total else value, self.r.wide, self.r.dtype)};"

    def _across(
        self,
        outer: list[Mode],
        names: list[str],
        lanes: list[Mode],
        across: list[Mode],
        partial: list[str],
        total: str,
        place: str,
    ) -> list[Code]:
        """The parts of several warps, combined through shared memory; neighbours that hold the same part have one slot."""
        e, same = self.e, _neighbours(lanes, across)
        count = 1
        for mode in outer:
            count *= mode.extent
        threads = e.scope.count
        slots = -(-threads // same)
        scratch = ir.decl_buffer((count * slots,), str(self.r.wide), "reduce_scratch", scope="shared.dyn", layout=None)
        scratch_name = e.names.declare("reduce_scratch")
        e.buffer_text[scratch] = scratch_name
        e.scratch[scratch] = (count * slots * max(1, self.r.wide.bits // 8), 16)
        strides, step = [], slots
        for mode in reversed(outer):
            strides.insert(0, step)
            step *= mode.extent
        slot = _sum(names, strides)
        slot = f"{slot} + " if slot != "0" else ""
        one = f"if ({e.thread} % {same} == 0) " if same > 1 else ""
        stores = [*partial, f"{one}{scratch_name}[{slot}{_divided(e.thread, same)}] = {total};"]
        write = leaf_of(_loops(names, outer, stores), writes=[scratch], fills=[scratch])
        digits = [(thread_digit(e.thread, m.extent, m.stride, threads), m) for m in across]
        base = " - ".join([e.thread, *(f"{text} * {mode.stride}" for text, mode in digits)])
        parts = [e.names.take("p") for _ in across]
        offset = _sum(parts, [m.stride // same for m in across])
        first = e.names.take("first")
        combined = f"{total} = {self.r.combine(total, f'{scratch_name}[{slot}{first} + {offset}]')};"
        read = [
            f"{self.type} {total} = {self.r.identity()};",
            f"const int {first} = {_divided(base, same)};",
            *_loops(parts, across, [combined]),
            self._finish(place, total),
        ]
        lines = _loops(names, outer, read)
        if self.holders < threads:
            lines = [f"if ({e.thread} < {self.holders}) {{", *("  " + line for line in lines), "}"]
        return [write, leaf_of(lines, reads=[scratch])]


def _neighbours(lanes: Sequence[Mode], across: Sequence[Mode]) -> int:
    """How many threads beside each other hold the same part once ``lanes`` are combined."""
    count = 1
    for mode in sorted(lanes, key=lambda mode: mode.stride):
        if mode.stride != count:
            break
        count *= mode.extent
    return count if all(mode.stride % count == 0 for mode in across) else 1


def _divided(text: str, divisor: int) -> str:
    return text if divisor == 1 else f"({text}) / {divisor}"


def emit_finalize(emitter: Emitter, op: Any, layout: FragmentLayout) -> list[Code]:
    """Combines what all threads of the scope hold of a reducer."""
    whole = [mode for modes in layout.modes for mode in modes]
    view = _Finalized(op.buffer, op.op)
    text = _ReduceText(emitter, Reduction(op.op, op.buffer.dtype), view)
    threads = [on_thread(emitter.scope.count, 1)] if emitter.scope.count > 1 else []
    return text.emit(whole, [mode.stride for mode in whole], [], threads, layout)


@dataclass(frozen=True, eq=False)
class _Finalized:
    """A reducer seen as a reduction of itself."""

    buffer: Any
    kind: str
    clear: bool = True
    dim: int = 0

    @property
    def src(self) -> Any:
        return self.buffer

    @property
    def dst(self) -> Any:
        return self.buffer


def _loops(names: Sequence[str], modes: Sequence[Mode], body: list[str]) -> list[str]:
    lines, depth = [], 0
    for name, mode in zip(names, modes):
        lines += ["  " * depth + "#pragma unroll", "  " * depth + f"for (int {name} = 0; {name} < {mode.extent}; ++{name}) {{"]
        depth += 1
    if not names:
        return ["{", *("  " + line for line in body), "}"] if any(" = " in line for line in body[:1]) else body
    lines += ["  " * depth + line for line in body]
    return lines + ["  " * level + "}" for level in range(depth - 1, -1, -1)]


def _sum(names: Sequence[str], strides: Sequence[int]) -> str:
    parts = [name if stride == 1 else f"{name} * {stride}" for name, stride in zip(names, strides)]
    return " + ".join(parts) or "0"


# The operators --------------------------------------------------------------------------------------------------------


@implements(Reduce)
class ReduceRule(OperatorRule):
    """``T.reduce_*`` from a fragment to a fragment."""

    in_warps = True

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        source, target = e.layouts.fragments[op.src.buffer], e.layouts.fragments[op.dst.buffer]
        keep = len(op.dst.buffer.shape) == len(op.src.buffer.shape)
        expected = source.project(op.dim, keep)
        if expected.shape == target.shape and _stays(expected, target, e.scope.count):
            return emit_reduce(e, op, source, target)
        name = f"{op.dst.buffer.name}_part"
        temporary = ir.decl_buffer(list(target.shape), op.dst.dtype, name, scope="local.fragment", layout=None)
        e.layouts.fragments[temporary] = expected if expected.shape == target.shape else _reshaped(expected, target.shape)
        e.declare_local(temporary)
        view = op.replace(dst=Region.whole(temporary))
        code: list[Code] = []
        if not op.clear:
            code += generator.exchange(_fragment_copy(op.dst, view.dst, node.span))
        code += emit_reduce(e, view, source, e.layouts.fragments[temporary])
        return code + generator.exchange(_fragment_copy(view.dst, op.dst, node.span))


@implements(FinalizeReducer)
class FinalizeRule(OperatorRule):
    """``T.finalize_reducer``."""

    def lower(self, node: Any, generator: Any) -> list[Code]:
        layout = generator.emitter.layouts.fragments[node.op.buffer.buffer]
        return emit_finalize(generator.emitter, node.op, layout)


def _fragment_copy(source: Region, target: Region, span: Any) -> Parallel:
    copy = Copy(source, target)
    return Parallel(nest_of(copy, span), copy)


def _stays(expected: Any, target: Any, threads: int) -> bool:
    """Whether a reduction's result is where its destination wants it (registers may be numbered differently)."""
    if not expected.same_threads(target):
        return False
    counts = [[m.extent for m in axis if m.unit == "register"] for axis in expected.modes]
    return counts == [[m.extent for m in axis if m.unit == "register"] for axis in target.modes]


def _reshaped(layout: Any, shape: tuple[int, ...]) -> Any:
    """The layout with axes of extent 1 where ``shape`` has them."""
    modes = iter(axis for axis, extent in zip(layout.modes, layout.shape) if extent != 1)
    axes = tuple(() if extent == 1 else next(modes) for extent in shape)
    return FragmentLayout(tuple(shape), axes, layout.replicas)
