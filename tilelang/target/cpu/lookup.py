"""Loops that unpack numbers of four bits: what they store is looked up among the sixteen values that it can have.

In a row, ``W[i, j] = cast((B[i, j] & 15) - 8, "float32") * scale[i]`` stores only sixteen different values. They are computed
once a row by the same expression, and kept in a register: one permutation by the bytes of ``B`` then replaces the mask, the
subtraction, the conversion and the product of each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ffi import structural_equal

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import rebuilt, variables, walk_expr
from tilelang.target.cpu import helpers
from tilelang.target.cpu.elementwise import Elementwise, elementwise, runs_along
from tilelang.target.cpu.emit import address_of, alloc, extern_call, local, loop, nest, seq, span, splat
from tilelang.target.cpu.vectors import AS_VECTOR
from tilelang.transform.substitute import substitute

_CODES = 16
_REGISTER = 512

# Element bits -> LLVM's permutation, which looks at the bits of each lane that number the lanes of a register.
_PERMUTATIONS = {32: "llvm.x86.avx512.permvar.si.512", 16: "llvm.x86.avx512.permvar.hi.512"}

_ROUNDED = "tl_rounded_table"


def _look_up(bits: int) -> str:
    lanes, intrinsic = f"<{_REGISTER // bits} x i{bits}>", f"@{_PERMUTATIONS[bits]}"
    return f"""
declare {lanes} {intrinsic}({lanes}, {lanes})
define i32 @tl_look_up_{bits}(ptr %target, ptr %table, {lanes} %codes) alwaysinline {{
  %values = load {lanes}, ptr %table, align {bits // 8}
  %chosen = call {lanes} {intrinsic}({lanes} %values, {lanes} %codes)
  store {lanes} %chosen, ptr %target, align {bits // 8}
  ret i32 0
}}"""


def _shift_down(bits: int) -> str:
    """A shift by an amount that is hidden from LLVM, which would otherwise shift and mask the bytes first and then widen them."""
    lanes = f"<{_REGISTER // bits} x i{bits}>"
    return f"""
define {lanes} @tl_shift_down_{bits}({lanes} %words, {lanes} %amounts) alwaysinline {{
  %hidden = call {lanes} asm "", "=v,0"({lanes} %amounts) nounwind memory(none)
  %r = lshr {lanes} %words, %hidden
  ret {lanes} %r
}}"""


def _rounded_table() -> str:
    """The table of sixteen float32 rounded to bfloat16, twice.

    Rounded as in ``formats.py``, but the upper halves of the words are left where they are, and the permutation that fills the
    register twice takes them from there: a shift, two steps of narrowing and an insertion are one instruction.
    """
    floats, words, table = "<16 x float>", "<16 x i32>", "<32 x i16>"
    halves = ", ".join(f"i32 {2 * code + 1}" for _ in range(2) for code in range(_CODES))
    return f"""
define i32 @{_ROUNDED}(ptr %target, {floats} %values) alwaysinline {{
  %bits = bitcast {floats} %values to {words}
  %high = lshr {words} %bits, splat (i32 16)
  %odd = and {words} %high, splat (i32 1)
  %half = add {words} %bits, splat (i32 {0x7FFF})
  %up = add {words} %half, %odd
  %nan = fcmp uno {floats} %values, zeroinitializer
  %rounded = select <16 x i1> %nan, {words} splat (i32 {0x7FC00000}), {words} %up
  %parts = bitcast {words} %rounded to {table}
  %r = shufflevector {table} %parts, {table} poison, <32 x i32> <{halves}>
  store {table} %r, ptr %target, align 2
  ret i32 0
}}"""


helpers.register(_ROUNDED, _rounded_table())
for _bits in _PERMUTATIONS:
    helpers.register(f"tl_look_up_{_bits}", _look_up(_bits))
    helpers.register(f"tl_shift_down_{_bits}", _shift_down(_bits))


@dataclass(frozen=True)
class _Lookup:
    """What an iteration stores, as a function of four bits.

    Attributes:
        store: the statement.
        load: where the bits come from.
        shift: how far up they lie in that element.
        code: a variable from 0 to 15.
        value: what is stored for it.
    """

    store: Any
    load: Any
    shift: int
    code: Any
    value: Any


def looked_up(stmt: Any, lowering: Any) -> Any | None:
    """The loop nest, with a table for each line; None where iterations store nothing, or anything but functions of four bits."""
    context = lowering.scope.context
    permutes = context.vectors.bits == _REGISTER and context.request.target.has("avx512bw")
    if context.emits_c or not permutes or lowering.guards is None:
        return None
    made = elementwise(stmt, lowering.scope, lowering.own)
    # A line that is not much longer than its table does not repay it.
    if made is None or made.extents[-1] < 2 * _CODES or not _is_independent(made, lowering.own):
        return None
    code = ir.Var("code", "int32")
    found = [_of_store(store, made.variables[-1], code) for store in made.stores]
    lookups = [lookup for lookup in found if lookup is not None]
    lowering.scope.bind_ranges(made.variables, made.extents)
    if not found or len(lookups) < len(found) or not all(_is_plain(lookup, made, lowering) for lookup in lookups):
        return None
    return nest(made.extents[:-1], lambda outer: _line(made, lookups, outer, lowering))


def _is_independent(made: Elementwise, own: frozenset[int]) -> bool:
    """Whether no iteration reads what one stores."""
    exprs = [expr for store in made.stores for expr in (store.value, *store.indices)]
    read = {hash(node.source) for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.TensorLoad)}
    return made.stored <= own and not made.stored & read


def _of_store(store: Any, inner: Any, code: Any) -> _Lookup | None:
    """A store as a function of four bits, if iterations along a line differ in these alone."""
    found: list[tuple[Any, Any, int]] = []

    def replaced(node: Any) -> Any:
        bits = _four_bits(node)
        if bits is None:
            return rebuilt(node, replaced)
        if not found:
            found.append((node, *bits))
        # Only one source of four bits: values of two would need a table of 256 entries.
        return ir.Cast(node.ty, code) if structural_equal(node, found[0][0]) else node

    value = replaced(store.value)
    if not found or _bits_of(store.buffer) not in _PERMUTATIONS or any(var.same_as(inner) for var in variables(value)):
        return None
    return _Lookup(store, *found[0][1:], code, value)


def _four_bits(node: Any) -> tuple[Any, int] | None:
    """The load and the shift, where an expression is four bits of an integer in memory: ``x & 15``, ``x >> 4`` of a byte."""
    if isinstance(node, ir.BitwiseAnd) and as_int(node.b) == _CODES - 1:
        return _shifted(node.a)
    if isinstance(node, ir.FloorMod) and as_int(node.b) == _CODES:
        return _shifted(node.a)
    found = _shifted(node) if isinstance(node, (ir.tirx.RShift, ir.FloorDiv)) else None
    if found is None or found[1] != 4 or str(found[0].ty) != "uint8":
        return None
    # A byte that is a signed one on the way brings copies of its sign down.
    return found if all(str(part.ty) != "int8" for part in walk_expr(node)) else None


def _shifted(node: Any) -> tuple[Any, int] | None:
    """The load of an integer and how far it is shifted down: by 4 at most, so that four of its lowest eight bits are left."""
    if isinstance(node, ir.TensorLoad):
        dtype = canonical(str(node.ty))
        return (node, 0) if dtype.is_integer and dtype.bits >= 8 and dtype.lanes == 1 else None
    if isinstance(node, ir.Cast):
        dtype = canonical(str(node.ty))
        return _shifted(node.value) if dtype.is_integer and dtype.bits >= 8 else None
    amount = _amount(node)
    found = _shifted(node.a) if amount is not None else None
    return (found[0], found[1] + amount) if found is not None and amount is not None and found[1] + amount <= 4 else None


def _amount(node: Any) -> int | None:
    """By how many bits an operation shifts down."""
    if not isinstance(node, (ir.tirx.RShift, ir.FloorDiv)):
        return None
    number = as_int(node.b)
    if not isinstance(number, int):
        return None
    if isinstance(node, ir.FloorDiv):
        number = {1 << bits: bits for bits in range(5)}.get(number, -1)
    return number if 0 <= number <= 4 else None


def _is_plain(found: _Lookup, made: Elementwise, lowering: Any) -> bool:
    """Whether neighbouring iterations load from and store to neighbouring elements, which are certainly there."""
    places = ((found.load.source, found.load.indices), (found.store.buffer, found.store.indices))
    inside = all(lowering.guards.condition(*place) is None for place in places)
    plain = not any(len(buffer.strides) for buffer, _ in places)
    return inside and plain and all(runs_along(indices, made.variables[-1], lowering.scope) for _, indices in places)


def _bits_of(buffer: Any) -> int:
    return canonical(str(buffer.dtype)).bits


def _line(made: Elementwise, lookups: Sequence[_Lookup], outer: Sequence[Any], lowering: Any) -> Any:
    """One line of the nest: the tables, whole registers, and the rest."""
    step = max(_REGISTER // _bits_of(found.store.buffer) for found in lookups)
    whole, rest = divmod(made.extents[-1], step)
    lowering.scope.bind_ranges(outer, made.extents)
    at = dict(zip(made.variables, map(constant, outer)))
    tables = [_table(found, at, lowering) for found in lookups]

    def register(s: Any) -> list[Any]:
        place = {**at, made.variables[-1]: constant(s * step)}
        return [_stored(found, table, place, step) for found, (table, _) in zip(lookups, tables)]

    end = lowering.stmt(made.piece(outer, constant(whole * step), rest)) if rest else None
    return seq([stmts for _, stmts in tables], loop("s", whole, lambda s: seq(register(s))), end)


def _table(found: _Lookup, at: dict[Any, Any], lowering: Any) -> tuple[Any, Any]:
    """A register of all values, again and again, and the statements that compute it."""
    dtype = str(found.store.buffer.dtype)
    table = local("table", (_REGISTER // canonical(dtype).bits,), dtype)
    value = substitute(found.value, at)
    if dtype == "bfloat16" and isinstance(value, ir.Cast) and str(value.value.ty) == "float32":
        wide = local("wide_table", (_CODES,), "float32")
        operands = [address_of(ir.BufferLoad(table, [constant(0)])), ir.BufferLoad(wide, [span(0, _CODES)])]
        rounded = ir.Evaluate(extern_call(_ROUNDED, operands, "int32", pure=False))
        return table, seq(alloc(table, wide), _filled(wide, found.code, value.value, lowering), rounded)
    return table, seq(alloc(table), _filled(table, found.code, value, lowering))


def _filled(table: Any, variable: Any, value: Any, lowering: Any) -> Any:
    """The statement that stores what ``value`` is for each code, again and again up to the table's end.

    Args:
        table: the array.
        variable: the code's, from 0 to 15.
        value: an expression of it.
        lowering: of the loop that the table is for.
    """
    code, length = ir.Var("code", "int32"), int(table.shape[0])
    lowering.scope.bind_ranges([code], [_CODES])
    entry = substitute(value, {variable: code})
    stores = [lowering.stmt(ir.BufferStore(table, entry, [code + first])) for first in range(0, length, _CODES)]
    return ir.For(code, constant(0), constant(_CODES), ir.ForKind.SERIAL, seq(stores), annotations={AS_VECTOR: constant(1)})


def _stored(found: _Lookup, table: Any, place: dict[Any, Any], count: int) -> list[Any]:
    """The stores of ``count`` elements, a register at a time, from where ``place`` says."""
    bits = _bits_of(found.store.buffer)
    lanes = _REGISTER // bits

    def along(indices: Sequence[Any], first: int) -> list[Any]:
        *outer, last = (substitute(constant(index), place) for index in indices)
        return [*outer, last + first]

    def register(first: int) -> Any:
        *outer, last = along(found.load.indices, first)
        # No mask: the permutation looks at the bits that number its lanes alone, and where those are more than four, the table
        # repeats every sixteen entries.
        dtype = f"uint{bits}x{lanes}"
        codes = ir.Cast(dtype, ir.BufferLoad(found.load.source, [*outer, span(last, lanes)]))
        if found.shift:
            amounts = splat(ir.IntImm(f"uint{bits}", found.shift), lanes)
            codes = extern_call(f"tl_shift_down_{bits}", [codes, amounts], dtype)
        target = ir.BufferLoad(found.store.buffer, along(found.store.indices, first))
        operands = [address_of(target), address_of(ir.BufferLoad(table, [constant(0)])), codes]
        return ir.Evaluate(extern_call(f"tl_look_up_{bits}", operands, "int32", pure=False))

    return [register(first) for first in range(0, count, lanes)]
