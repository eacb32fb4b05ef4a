"""``T.atomic_*``: one hardware atomic instruction an element, or a compare-and-swap loop where there is none.

An atomic helper takes the address of the element and the operand, and returns the old value. Narrow floats are updated by
comparing and swapping their 16 stored bits around float32 arithmetic. A block's own buffers belong to the one thread that runs
it: an update of their elements is a load, the operation, and a store.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.target.cpu import formats, helpers
from tilelang.target.cpu.copy import element_condition
from tilelang.target.cpu.emit import cast, nest, seq, when
from tilelang.target.cpu.guards import Guards
from tilelang.target.cpu.lower import Scope, rule
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.thread import intrinsic_call

_LLVM_TYPES = {
    "float64": "double", "float32": "float", "int64": "i64", "uint64": "i64", "int32": "i32", "uint32": "i32", "int16": "i16",
    "uint16": "i16", "int8": "i8", "uint8": "i8",
}  # fmt: skip
_C_TYPES = {
    "float64": "double", "float32": "float", "int64": "int64_t", "uint64": "uint64_t", "int32": "int32_t", "uint32": "uint32_t",
    "int16": "int16_t", "uint16": "uint16_t", "int8": "int8_t", "uint8": "uint8_t",
}  # fmt: skip
_ORDERS = {
    # the user's word -> suffix of the helper, LLVM's ordering, C's
    "relaxed": ("", "monotonic", "__ATOMIC_RELAXED"),
    # Stronger than these ask for, so that each operation has two helpers and not five.
    "acquire": ("_sc", "seq_cst", "__ATOMIC_SEQ_CST"),
    "release": ("_sc", "seq_cst", "__ATOMIC_SEQ_CST"),
    "acq_rel": ("_sc", "seq_cst", "__ATOMIC_SEQ_CST"),
    "seq_cst": ("_sc", "seq_cst", "__ATOMIC_SEQ_CST"),
}
_INSTRUCTIONS = {
    # operation -> atomicrmw operation for floats, signed and unsigned integers
    "add": ("fadd", "add", "add"),
    "max": ("fmax", "max", "umax"),
    "min": ("fmin", "min", "umin"),
    "or": ("", "or", "or"),
}
_OWN = "_own"
"""Suffix of the helpers for elements that no other thread sees."""

_C_COMBINE = {"add": "old + value", "max": "value > old ? value : old", "min": "value < old ? value : old", "or": "old | value"}
# A comparison with NaN is false: a value that is NaN leaves the old number, and an old NaN needs a test of its own.
_C_COMBINE_FLOATS = {
    **_C_COMBINE, "max": "value > old || old != old ? value : old", "min": "value < old || old != old ? value : old",
}  # fmt: skip
_EXTREMES = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}
"""Operation of ``atomicrmw`` on integers -> the intrinsic of the same meaning, where there is no instruction."""

_NARROW = ("float16", "bfloat16")
_COMPARISONS = {"max": "ogt", "min": "olt"}
_FLOAT_EXTREME = """  %better = fcmp {compare} {llvm} %v, %f
  %missing = fcmp uno {llvm} %f, %f
  %c = or i1 %better, %missing
  %new = select i1 %c, {llvm} %v, {llvm} %f
"""
"""The larger or smaller of two floats, of a number and NaN the number."""


def _c_combined(op: str, dtype: str) -> str:
    return (_C_COMBINE_FLOATS if canonical(dtype).is_float else _C_COMBINE)[op]


def _register(op: str, dtype: str, suffix: str, llvm_order: str, c_order: str) -> None:
    kind = canonical(dtype).kind
    instruction = _INSTRUCTIONS[op][{"float": 0, "int": 1, "uint": 2}[kind]]
    if not instruction:
        return
    name, llvm, c = f"tl_atomic_{op}_{dtype}{suffix}", _LLVM_TYPES[dtype], _C_TYPES[dtype]
    helpers.register(
        name,
        f"define {llvm} @{name}(ptr %p, {llvm} %v) alwaysinline {{\n"
        f"  %old = atomicrmw {instruction} ptr %p, {llvm} %v {llvm_order}\n  ret {llvm} %old\n}}",
        f"static inline {c} {name}({c}* place, {c} value) {{\n"
        # C's fetch-and-add takes no floats, and it has no maximum: all operations are loops around a compare-and-swap. A failed
        # one puts the value that it found into `old`.
        f"  {c} old, fresh;\n  __atomic_load(place, &old, __ATOMIC_RELAXED);\n"
        f"  do fresh = {_c_combined(op, dtype)};\n"
        f"  while (!__atomic_compare_exchange(place, &old, &fresh, 1, {c_order}, __ATOMIC_RELAXED));\n  return old;\n}}",
    )


def _register_own(op: str, dtype: str) -> None:
    kind = canonical(dtype).kind
    instruction = _INSTRUCTIONS[op][{"float": 0, "int": 1, "uint": 2}[kind]]
    if not instruction:
        return
    name, llvm, c = f"tl_atomic_{op}_{dtype}{_OWN}", _LLVM_TYPES[dtype], _C_TYPES[dtype]
    if kind == "float" and op in _COMPARISONS:
        # LLVM 22 takes this for `maxnum`, and of a loop over it that it vectorises it loses the last iterations. It does not look
        # through a fence.
        called, operands = f"llvm.arithmetic.fence.f{canonical(dtype).bits}", llvm
        combine = f"  %f = call {llvm} @{called}({llvm} %old)\n" + _FLOAT_EXTREME.format(compare=_COMPARISONS[op], llvm=llvm)
    elif instruction in _EXTREMES:
        called, operands = f"llvm.{_EXTREMES[instruction]}.i{canonical(dtype).bits}", f"{llvm}, {llvm}"
        combine = f"  %new = call {llvm} @{called}({llvm} %old, {llvm} %v)\n"
    else:
        called, operands = "", ""
        combine = f"  %new = {instruction} {llvm} %old, %v\n"
    declared = f"declare {llvm} @{called}({operands})\n" if called else ""
    helpers.register(
        name,
        f"{declared}define {llvm} @{name}(ptr %p, {llvm} %v) alwaysinline {{\n"
        f"  %old = load {llvm}, ptr %p\n{combine}  store {llvm} %new, ptr %p\n  ret {llvm} %old\n}}",
        f"static inline {c} {name}({c}* place, {c} value) {{\n"
        f"  const {c} old = *place;\n  *place = {_c_combined(op, dtype)};\n  return old;\n}}",
    )


def _register_narrow(op: str, dtype: str, suffix: str, llvm_order: str, c_order: str) -> None:
    """A compare-and-swap loop over 16 bits; takes and returns float32."""
    name = f"tl_atomic_{op}_{dtype}{suffix}"
    combine = {
        "add": "  %new = fadd float %f, %v\n",
        **{extreme: _FLOAT_EXTREME.format(compare=compare, llvm="float") for extreme, compare in _COMPARISONS.items()},
    }[op]
    if dtype == "float16":
        widen = "  %h = bitcast i16 %old to half\n  %f = fpext half %h to float\n"
        narrow = "  %n = fptrunc float %new to half\n  %bits = bitcast half %n to i16\n"
    else:
        widen = "  %w = zext i16 %old to i32\n  %s = shl i32 %w, 16\n  %f = bitcast i32 %s to float\n"
        narrow = (
            # Rounds to the nearest bfloat16, ties to even: adds just less than half of the last kept bit, and one more where that
            # bit is odd. 32704 is 0x7fc0, a NaN: of a NaN's bits the sum could be an infinity.
            "  %b = bitcast float %new to i32\n  %l = lshr i32 %b, 16\n  %odd = and i32 %l, 1\n  %r0 = add i32 %b, 32767\n"
            "  %r1 = add i32 %r0, %odd\n  %t = lshr i32 %r1, 16\n  %nan = fcmp uno float %new, %new\n"
            "  %u = select i1 %nan, i32 32704, i32 %t\n  %bits = trunc i32 %u to i16\n"
        )
    llvm = (
        f"define float @{name}(ptr %p, float %v) alwaysinline {{\nentry:\n"
        f"  %first = load atomic i16, ptr %p monotonic, align 2\n  br label %again\nagain:\n"
        f"  %old = phi i16 [ %first, %entry ], [ %seen, %again ]\n{widen}{combine}{narrow}"
        f"  %pair = cmpxchg ptr %p, i16 %old, i16 %bits {llvm_order} monotonic\n"
        f"  %seen = extractvalue {{ i16, i1 }} %pair, 0\n  %ok = extractvalue {{ i16, i1 }} %pair, 1\n"
        f"  br i1 %ok, label %done, label %again\ndone:\n  ret float %f\n}}"
    )
    c = (
        f"static inline float {name}(uint16_t* place, float value) {{\n"
        f"  uint16_t bits = __atomic_load_n(place, __ATOMIC_RELAXED), fresh;\n  float old;\n"
        f"  do {{ old = {formats.WIDEN[dtype]}(bits); fresh = {formats.NARROW[dtype]}({_c_combined(op, dtype)}); }}\n"
        f"  while (!__atomic_compare_exchange_n(place, &bits, fresh, 1, {c_order}, __ATOMIC_RELAXED));\n  return old;\n}}"
    )
    helpers.register(name, llvm, c)


def _register_access(dtype: str, suffix: str, llvm_order: str, c_order: str) -> None:
    """Atomic loads and stores of the stored bits."""
    llvm, c, size = _LLVM_TYPES[dtype], _C_TYPES[dtype], canonical(dtype).bytes
    load, store = f"tl_atomic_load_{dtype}{suffix}", f"tl_atomic_store_{dtype}{suffix}"
    helpers.register(
        load,
        f"define {llvm} @{load}(ptr %p) alwaysinline {{\n"
        f"  %v = load atomic {llvm}, ptr %p {llvm_order}, align {size}\n  ret {llvm} %v\n}}",
        f"static inline {c} {load}({c}* place) {{ {c} value; __atomic_load(place, &value, {c_order}); return value; }}",
    )
    helpers.register(
        store,
        f"define i32 @{store}(ptr %p, {llvm} %v) alwaysinline {{\n"
        f"  store atomic {llvm} %v, ptr %p {llvm_order}, align {size}\n  ret i32 0\n}}",
        f"static inline int32_t {store}({c}* place, {c} value) {{ __atomic_store(place, &value, {c_order}); return 0; }}",
    )


for _ordered, _llvm_order, _c_order in dict.fromkeys(_ORDERS.values()):
    for _dtype in _LLVM_TYPES:
        _register_access(_dtype, _ordered, _llvm_order, _c_order)
        for _op in _INSTRUCTIONS:
            _register(_op, _dtype, _ordered, _llvm_order, _c_order)
    for _dtype in _NARROW:
        for _op in ("add", "max", "min"):
            _register_narrow(_op, _dtype, _ordered, _llvm_order, _c_order)
for _dtype in _LLVM_TYPES:
    for _op in _INSTRUCTIONS:
        _register_own(_op, _dtype)


def _address(legalizer: Any, load: Any) -> Any:
    if canonical(str(load.source.dtype)).bits < 8:
        raise UnsupportedOnCpuError(f"an atomic access of {load.source.dtype}", "use a type of a byte or more")
    return ir.Call(ir.Op.get("tirx.address_of"), [legalizer.place(load)], ret_ty="handle")


def _order_of(node: Any) -> str:
    """The suffix of the helpers with the memory order that was asked for."""
    order = str(node.attrs["memory_order"]) if node.attrs is not None and "memory_order" in node.attrs else "relaxed"
    return _ORDERS[order][0]


def _helper(op: str, dtype: str, suffix: str) -> str:
    name = f"tl_atomic_{op}_{dtype}{suffix}"
    if name not in helpers.HELPERS:
        raise UnsupportedOnCpuError(f"T.atomic_{op} on {dtype}", "use an integer type, float16, bfloat16, float32 or float64")
    return name


def atomic_update(op: str) -> Any:
    """The legalisation of ``tl.atomic_<op>(element, value)``; its value is the old one."""

    def entry(legalizer: Any, node: Any) -> Any:
        load, value = node.args
        dtype = str(load.source.dtype)
        # Narrow floats have no helper for a thread's own elements: an atomic one is right, too.
        shared = is_global(load.source) or dtype in _NARROW
        name = _helper(op, dtype, _order_of(node) if shared else _OWN)
        if dtype in _NARROW:
            if legalizer.context.emits_c:
                legalizer.functions.update({formats.WIDEN[dtype]: None, formats.NARROW[dtype]: None})
            return legalizer.helper(name, [_address(legalizer, load), legalizer.to_f32(value)], "float32")
        return legalizer.helper(name, [_address(legalizer, load), cast(legalizer.expr(value), dtype)], dtype)

    return entry


def atomic_load(legalizer: Any, node: Any) -> Any:
    """The legalisation of ``tl.atomic_load(element)``."""
    (load,) = node.args
    dtype = str(load.source.dtype)
    storage = formats.STORAGE.get(dtype, dtype)
    name = _helper("load", storage, _order_of(node))
    value = legalizer.helper(name, [_address(legalizer, load)], storage)
    return legalizer.widen(value, dtype) if dtype in formats.STORAGE else value


def atomic_store(legalizer: Any, node: Any) -> Any:
    """The legalisation of ``tl.atomic_store(element, value)``."""
    load, value = node.args
    dtype = str(load.source.dtype)
    name = _helper("store", formats.STORAGE.get(dtype, dtype), _order_of(node))
    return legalizer.helper(name, [_address(legalizer, load), legalizer.stored(value, dtype)], "int32")


@rule(AtomicTile)
def lower_atomic_tile(record: AtomicTile, scope: Scope) -> Any:
    """One atomic update an element, in the order of memory."""
    src, dst, guards = record.src, record.dst, Guards(scope)

    def update(offsets: list[Any]) -> Any:
        source, target = src.index(offsets), dst.index(offsets)
        value = cast(guards.loads(ir.BufferLoad(src.buffer, source)), dst.dtype)
        place = ir.BufferLoad(dst.buffer, target)
        call = intrinsic_call(f"atomic_{record.op}", place, value, attrs={"memory_order": record.memory_order})
        return when(element_condition(dst, target, scope), ir.Evaluate(call))

    return nest(dst.shape, update)


def consecutive_update(lanes: int, node: Any) -> Any:
    """The statement of ``tl.atomic_addx<lanes>(element, element)``."""
    target, source = node.args

    def shifted(load: Any, lane: int) -> Any:
        return ir.BufferLoad(load.source, [*list(load.indices)[:-1], load.indices[len(load.indices) - 1] + lane])

    calls = [
        intrinsic_call("atomic_add", shifted(target, lane), shifted(source, lane), attrs={"memory_order": "relaxed"})
        for lane in range(lanes)
    ]
    return seq([ir.Evaluate(call) for call in calls])
