"""Scalar intrinsics of the language (``tl.*`` calls) as CUDA C++ text: one rule an intrinsic, in one table.

Barriers and asynchronous units are in :mod:`tilelang.target.cuda.codegen.async_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.target.cuda.codegen import async_calls
from tilelang.target.cuda.codegen.element_types import converted
from tilelang.target.cuda.hopper import tma_calls
from tilelang.tileop.thread import intrinsic_name

RNG_STATE = "rng_state"
"""The thread's random generator; a kernel whose text names it declares it (see :data:`RNG_DECLARATION`)."""

RNG_DECLARATION = f"tl::Philox {RNG_STATE} = tl::philox_init(0, 0, 0);"

GRID_STATE = "tl_grid_state"
"""The word of global memory at which blocks meet; a source that names it defines it (see :data:`GRID_DECLARATION`)."""

GRID_DECLARATION = f"__device__ uint32_t {GRID_STATE};"

MEMORY_ORDERS: Mapping[str, int] = {"relaxed": 0, "consume": 2, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}
ROUNDINGS: Mapping[str, int] = {"rn": 0, "rz": 1, "ru": 2, "rd": 3}

Rule = Callable[[Any, Any], str]
"""``(call, emitter) -> text``; the emitter prints expressions (``text``) and the addresses of elements (``address``)."""


def intrinsic_text(emitter: Any, call: Any) -> str | None:
    """The C++ text of an intrinsic; None for calls that are not in the table.

    Args:
        emitter: prints expressions and addresses, and has the target.
        call: a call expression.

    Raises:
        CompileError: the architecture has no such instruction, or an argument must be a constant.
    """
    name = intrinsic_name(call)
    rule = _RULES.get(name) if name is not None else None
    if rule is None:
        return async_calls.call_text(emitter, call)
    return rule(call, emitter)


def _attribute(call: Any, name: str, default: str) -> str:
    return str(call.attrs[name]) if call.attrs is not None and name in call.attrs else default


def address(load: Any, emitter: Any) -> str:
    """C++ text of a pointer to an element."""
    return f"({emitter.places.address(load.source, list(load.indices))})"


def _place(call: Any, at: int, emitter: Any) -> str:
    return address(call.args[at], emitter)


def _values(call: Any, emitter: Any, first: int = 0) -> str:
    return ", ".join(emitter.text(arg) for arg in call.args[first:])


def _function(function: str) -> Rule:
    """All arguments are values."""
    return lambda call, emitter: f"{function}({_values(call, emitter)})"


def _atomic(operation: str) -> Rule:
    def rule(call: Any, emitter: Any) -> str:
        order = MEMORY_ORDERS[_attribute(call, "memory_order", "relaxed")]
        rest = _values(call, emitter, 1)
        return f"tl::atomic_{operation}<{order}>({_place(call, 0, emitter)}{', ' + rest if rest else ''})"

    return rule


def _atomic_vector(lanes: int) -> Rule:
    def rule(call: Any, emitter: Any) -> str:
        places = f"{_place(call, 0, emitter)}, {_place(call, 1, emitter)}"
        if canonical(str(call.ty)).lanes > 1:
            word = {4: "uint", 8: "uint2", 16: "uint4"}[lanes * canonical(call.args[0].source.dtype).bytes]
            return f"tl::atomic_add_vector<{lanes}, {word}>({places})"
        return f"tl::atomic_add_x{lanes}({places})"

    return rule


def _single(function: str) -> Rule:
    """A float function: other float types go through it, float64 has the plain function of the same name."""

    def rule(call: Any, emitter: Any) -> str:
        dtype = canonical(str(call.ty))
        if dtype == "float64":
            return f"{function.removeprefix('tl::fast_')}({_values(call, emitter)})"
        arguments = ", ".join(converted(emitter.text(arg), canonical(str(arg.ty)), "float32") for arg in call.args)
        return converted(f"{function}({arguments})", "float32", dtype)

    return rule


def _reciprocal(call: Any, emitter: Any) -> str:
    dtype = canonical(str(call.ty))
    value = emitter.text(call.args[0])
    if dtype == "float64":
        return f"(1.0 / {value})"
    return converted(f"tl::fast_rcp({converted(value, dtype, 'float32')})", "float32", dtype)


def _ieee(operation: str) -> Rule:
    def rule(call: Any, emitter: Any) -> str:
        mode = ROUNDINGS[_attribute(call, "rounding", "rn")]
        template = "" if operation == "rsqrt" or mode == 0 else f"<{mode}>"
        if operation == "rsqrt" and str(call.ty) == "float64":
            return f"rsqrt({_values(call, emitter)})"
        return f"tl::ieee_{operation}{template}({_values(call, emitter)})"

    return rule


def _fma(call: Any, emitter: Any) -> str:
    function = {"float64": "fma", "float32": "fmaf", "float16": "__hfma", "bfloat16": "__hfma"}.get(str(call.ty))
    if function is not None:
        return f"{function}({_values(call, emitter)})"
    arguments = ", ".join(converted(emitter.text(arg), canonical(str(arg.ty)), "float32") for arg in call.args)
    return converted(f"fmaf({arguments})", "float32", canonical(str(call.ty)))


def _dot_of_bytes(call: Any, emitter: Any) -> str:
    a, b, c = (_place(call, at, emitter) for at in range(3))
    return f"*{c} = tl::dp4a(*reinterpret_cast<const int*>({a}), *reinterpret_cast<const int*>({b}), *{c})"


def _shuffle(function: str) -> Rule:
    return lambda call, emitter: f"tl::{function}({_values(call, emitter)})"


def _vote(function: str) -> Rule:
    """CUDA's votes take the mask first; without one, the whole warp votes."""

    def rule(call: Any, emitter: Any) -> str:
        mask = emitter.text(call.args[1]) if len(call.args) > 1 else "0xffffffffu"
        return f"{function}({mask}, {emitter.text(call.args[0])})"

    return rule


def _warp_reduce(operation: str) -> Rule:
    return lambda call, emitter: f"tl::warp_reduce<tl::{operation}>({_values(call, emitter)})"


def _match_all(call: Any, emitter: Any) -> str:
    mask = emitter.text(call.args[1]) if len(call.args) > 1 else "0xffffffffu"
    return f"tl::match_all({emitter.text(call.args[0])}, {mask})"


def _warp_index(call: Any, emitter: Any) -> str:
    width = as_int(call.args[0]) if call.args else 32
    return f"(tl::thread_rank() / {width})"


def _lane(call: Any, emitter: Any) -> str:
    width = as_int(call.args[0]) if call.args else 32
    return f"(tl::thread_rank() % {width})"


def _group_index(call: Any, emitter: Any) -> str:
    sizes = [as_int(arg) for arg in call.args] + [32, 4][len(call.args) :]
    return "tl::warp_group()" if sizes == [32, 4] else f"(tl::thread_rank() / {sizes[0] * sizes[1]})"


def _sync_warp(call: Any, emitter: Any) -> str:
    return f"__syncwarp({_values(call, emitter)})"


def _elect(call: Any, emitter: Any) -> str:
    return f"tl::elect_thread<{as_int(call.args[0])}>()"


def _load_read_only(call: Any, emitter: Any) -> str:
    return f"__ldg({_place(call, 0, emitter)})"


def _rng_init(call: Any, emitter: Any) -> str:
    seed, sequence, offset = (emitter.text(arg) for arg in call.args)
    if call.attrs is not None and "own_sequence" in call.attrs and bool(call.attrs["own_sequence"]):
        sequence = "static_cast<uint64_t>(tl::block_rank()) * (blockDim.x * blockDim.y * blockDim.z) + tl::thread_rank()"
    return f"{RNG_STATE} = tl::philox_init({seed}, {sequence}, {offset})"


def _rng_next(call: Any, emitter: Any) -> str:
    return f"tl::philox_next({RNG_STATE})"


def _rng_float(call: Any, emitter: Any) -> str:
    wide = "_double" if str(call.ty) == "float64" else ""
    return f"tl::philox_{_attribute(call, 'dist', 'uniform')}{wide}({RNG_STATE})"


def _matrix_load(call: Any, emitter: Any) -> str:
    transposed, count, source, registers = call.args
    suffix = "_trans" if as_int(transposed) else ""
    return f"tl::ldmatrix_x{as_int(count)}{suffix}({address(registers, emitter)}, {address(source, emitter)})"


def _matrix_store(call: Any, emitter: Any) -> str:
    transposed, count, target, registers = call.args
    suffix = "_trans" if as_int(transposed) else ""
    return f"tl::stmatrix_x{as_int(count)}{suffix}({address(target, emitter)}, {address(registers, emitter)})"


_PTX_TYPES: Mapping[str, str] = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "int8": "s8",
    "uint8": "u8", "int4": "s4", "uint4": "u4", "uint1": "b1", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip


def _matrix_product(call: Any, emitter: Any) -> str:
    shape, *types = (str(arg.value) for arg in call.args[:4])
    a, b, c = (_PTX_TYPES.get(canonical(dtype), dtype) for dtype in types)
    a, b = ("tf32" if operand == "f32" else operand for operand in (a, b))
    left, right, accumulator = (address(arg, emitter) for arg in call.args[4:7])
    pair = a if a == b else f"{a}_{b}"
    name = f"mma_{shape}_f64" if c == "f64" else f"mma_{shape}_{c}_{pair}"
    return f"tl::{name}({accumulator}, {left}, {right})"


def _fence_operand(call: Any, emitter: Any) -> str:
    count = as_int(call.args[2]) if len(call.args) > 2 else 1
    return f"tl::wgmma_fence_operand<{count}>({_place(call, 0, emitter)} + {emitter.text(call.args[1])})"


_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow")

_RULES: Mapping[str, Rule] = {
    **{f"atomic_{operation}": _atomic(operation) for operation in ("add", "max", "min", "or", "load", "store")},
    "atomic_addx2": _atomic_vector(2),
    "atomic_addx4": _atomic_vector(4),
    **{f"fast_{name}": _single(f"tl::fast_{name}") for name in _FAST},
    "fast_rcp": _reciprocal,
    **{f"ieee_{name}": _ieee(name) for name in ("add", "sub", "mul", "fma", "rcp", "sqrt", "rsqrt", "div")},
    "fma": _fma,
    "dp4a": _dot_of_bytes,
    "ldg": _load_read_only,
    "sync_warp": _sync_warp,
    "named_barrier_arrive": _function("tl::named_barrier_arrive"),
    "shfl_sync": _shuffle("shfl_idx"),
    "shfl_xor": _shuffle("shfl_xor"),
    "shfl_up": _shuffle("shfl_up"),
    "shfl_down": _shuffle("shfl_down"),
    "any_sync": _vote("__any_sync"),
    "all_sync": _vote("__all_sync"),
    "ballot_sync": _vote("__ballot_sync"),
    "match_any_sync": _vote("__match_any_sync"),
    "match_all_sync": _match_all,
    "activemask": _function("__activemask"),
    "fns": _function("tl::nth_set_bit"),
    "sync_grid": lambda call, emitter: f"tl::grid_sync(&{GRID_STATE})",
    **{f"syncthreads_{kind}": _function(f"__syncthreads_{kind}") for kind in ("count", "and", "or")},
    **{
        f"warp_reduce_{name}": _warp_reduce(operation)
        for name, operation in (("sum", "Sum"), ("max", "Max"), ("min", "Min"), ("bitand", "BitAnd"), ("bitor", "BitOr"))
    },
    "lane_idx": _lane,
    "warp_idx": _warp_index,
    "warp_idx_sync": _warp_index,
    "warp_group_idx": _group_index,
    "shuffle_elect": _elect,
    "warpgroup_fence_operand": _fence_operand,
    "rng_init": _rng_init,
    "rng_rand": _rng_next,
    "rng_rand_float": _rng_float,
    "ptx_ldmatrix": _matrix_load,
    "ptx_stmatrix": _matrix_store,
    "ptx_mma": _matrix_product,
    "source_kernel": lambda call, emitter: "",  # the kernel's text is the user's
    **tma_calls.RULES,
}
"""Intrinsics by name; ``sync_threads`` and ``thread_return`` depend on where they stand and are written with the statements."""


def named_barrier_text(call: Any, emitter: Any) -> str:
    """``T.sync_threads(barrier, threads)``."""
    count = "" if len(call.args) > 1 else f", {emitter.kernel.thread_count}"
    return f"tl::named_barrier_sync({_values(call, emitter)}{count})"
