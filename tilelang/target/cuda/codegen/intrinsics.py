"""Scalar intrinsics of the language (``tl.*`` calls) as values: one rule an intrinsic, in one table.

Barriers and asynchronous instructions are in :mod:`tilelang.target.cuda.codegen.async_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.expr import as_int
from tilelang.target.cuda.arch import Feature
from tilelang.target.cuda.codegen import async_calls, tensor_maps
from tilelang.target.cuda.codegen.conversions import converted
from tilelang.target.cuda.ir.cpp_types import ptx_operand, ptx_type
from tilelang.target.cuda.ir.instructions import DeclareGlobal, Define
from tilelang.target.cuda.ir.values import AddressOf, Binary, Call, Convert, Field, Literal, Name, Number, Type, Value, Word
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

RNG_STATE = Name("rng_state")
"""The thread's random generator; a kernel that names it has :data:`RNG_DEFINITION`."""

RNG_DEFINITION = Define(RNG_STATE, "tl::Philox", Call("tl::philox_init", (Number(0),) * 3), constant=False)

GRID_STATE = Name("tl_grid_state")
"""The word of global memory at which blocks meet; a source that names it has :data:`GRID_DECLARATION`."""

GRID_DECLARATION = DeclareGlobal(GRID_STATE, "uint32")

_BLOCK_SIZE = Name("blockDim")
_WHOLE_WARP = Literal(0xFFFFFFFF, "uint32")

MEMORY_ORDERS: Mapping[str, int] = {"relaxed": 0, "consume": 2, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}
ROUNDINGS: Mapping[str, int] = {"rn": 0, "rz": 1, "ru": 2, "rd": 3}

Rule = Callable[[Any, Any], Value]
"""``(call, emitter) -> value``."""


def lower_intrinsic(emitter: Any, call: Any) -> Value | None:
    """The value of an intrinsic; None for calls that are not in the table.

    Args:
        emitter: lowers expressions and the addresses of elements, and has the target.
        call: a call expression.

    Raises:
        CompileError: the architecture has no such instruction, or an argument must be a constant.
    """
    name = intrinsic_name(call)
    rule = _RULES.get(name) if name is not None else None
    if rule is None:
        return async_calls.lower_call(emitter, call)
    return rule(call, emitter)


def _attribute(call: Any, name: str, default: str) -> str:
    return str(call.attrs[name]) if call.attrs is not None and name in call.attrs else default


def _place(call: Any, at: int, emitter: Any, kind: str) -> Value:
    """A pointer to the element that an argument is; ``kind`` is what is done there."""
    load = call.args[at]
    return emitter.places.address(load.source, list(load.indices), kind)


def _values(call: Any, emitter: Any, first: int = 0) -> tuple[Value, ...]:
    return tuple(map(emitter.value, call.args[first:]))


def _function(function: str, *templates: Any) -> Rule:
    """All arguments are values."""
    return lambda call, emitter: Call(function, _values(call, emitter), templates)


def _atomic(operation: str) -> Rule:
    def rule(call: Any, emitter: Any) -> Value:
        order = MEMORY_ORDERS[_attribute(call, "memory_order", "relaxed")]
        arguments = (_place(call, 0, emitter, UPDATE), *_values(call, emitter, 1))
        return Call(f"tl::atomic_{operation}", arguments, (order,))

    return rule


def _atomic_vector(lanes: int) -> Rule:
    def rule(call: Any, emitter: Any) -> Value:
        places = (_place(call, 0, emitter, UPDATE), _place(call, 1, emitter, READ))
        if canonical(str(call.ty)).lanes > 1:
            word = Type("", lanes * canonical(call.args[0].source.dtype).bytes)
            return Call("tl::atomic_add_vector", places, (lanes, word))
        return Call(f"tl::atomic_add_x{lanes}", places)

    return rule


def _through_float(function: str, call: Any, emitter: Any) -> Value:
    """A function of float32: other types go through it."""
    arguments = (converted(emitter.value(arg), str(arg.ty), "float32") for arg in call.args)
    return converted(Call(function, tuple(arguments)), "float32", str(call.ty))


def _single(function: str) -> Rule:
    """A float function: other float types go through it, float64 has the plain function of the same name."""

    def rule(call: Any, emitter: Any) -> Value:
        if canonical(str(call.ty)) == "float64":
            return Call(function.removeprefix("tl::fast_"), _values(call, emitter))
        return _through_float(function, call, emitter)

    return rule


def _reciprocal(call: Any, emitter: Any) -> Value:
    if canonical(str(call.ty)) == "float64":
        return Binary("/", Literal(1.0, "float64"), emitter.value(call.args[0]))
    return _through_float("tl::fast_rcp", call, emitter)


def _ieee(operation: str) -> Rule:
    def rule(call: Any, emitter: Any) -> Value:
        mode = ROUNDINGS[_attribute(call, "rounding", "rn")]
        if operation == "rsqrt" and str(call.ty) == "float64":
            return Call("rsqrt", _values(call, emitter))
        templates = () if operation == "rsqrt" or mode == 0 else (mode,)
        return Call(f"tl::ieee_{operation}", _values(call, emitter), templates)

    return rule


def _fma(call: Any, emitter: Any) -> Value:
    function = {"float64": "fma", "float32": "fmaf", "float16": "__hfma", "bfloat16": "__hfma"}.get(str(call.ty))
    if function is not None:
        return Call(function, _values(call, emitter))
    return _through_float("fmaf", call, emitter)


def _dot_of_bytes(call: Any, emitter: Any) -> Value:
    a, b = (Word(_place(call, at, emitter, READ), 4, "int") for at in range(2))
    total = call.args[2]
    place = emitter.places.place(total.source, list(total.indices))
    return Binary("=", place, Call("tl::dp4a", (a, b, place)))


def _vote(function: str, mask_first: bool = True) -> Rule:
    """A vote of the lanes of a mask, by default of the whole warp; CUDA's own take the mask first."""

    def rule(call: Any, emitter: Any) -> Value:
        mask = emitter.value(call.args[1]) if len(call.args) > 1 else _WHOLE_WARP
        arguments = (mask, emitter.value(call.args[0]))
        return Call(function, arguments if mask_first else arguments[::-1])

    return rule


_RANK = Call("tl::thread_rank")


def _warp_index(call: Any, emitter: Any) -> Value:
    return Binary("/", _RANK, emitter.value(as_int(call.args[0]) if call.args else 32))


def _lane(call: Any, emitter: Any) -> Value:
    return _RANK % (as_int(call.args[0]) if call.args else 32)


def _group_index(call: Any, emitter: Any) -> Value:
    """The number of the thread's warp group, computed by each lane: a program may ask for it where its warp has diverged."""
    sizes = [as_int(arg) for arg in call.args] + [32, 4][len(call.args) :]
    return _RANK // (sizes[0] * sizes[1])


def _elect(call: Any, emitter: Any) -> Value:
    return Call("tl::elect_thread", (), (as_int(call.args[0]),))


def _rng_init(call: Any, emitter: Any) -> Value:
    seed, sequence, offset = _values(call, emitter)
    if call.attrs is not None and "own_sequence" in call.attrs and bool(call.attrs["own_sequence"]):
        threads = Field(_BLOCK_SIZE, "x") * Field(_BLOCK_SIZE, "y") * Field(_BLOCK_SIZE, "z")
        sequence = Convert("uint64", Call("tl::block_rank")) * threads + _RANK
    return Binary("=", RNG_STATE, Call("tl::philox_init", (seed, sequence, offset)))


def _rng_float(call: Any, emitter: Any) -> Value:
    wide = "_double" if str(call.ty) == "float64" else ""
    return Call(f"tl::philox_{_attribute(call, 'dist', 'uniform')}{wide}", (RNG_STATE,))


def _matrix(function: str, target: int, source: int) -> Rule:
    def rule(call: Any, emitter: Any) -> Value:
        suffix = "_trans" if as_int(call.args[0]) else ""
        places = (_place(call, target, emitter, WRITE), _place(call, source, emitter, READ))
        return Call(f"tl::{function}_x{as_int(call.args[1])}{suffix}", places)

    return rule


def _cp_async(call: Any, emitter: Any) -> Value:
    async_calls.require(emitter.target, Feature.CP_ASYNC, INTRINSICS["ptx_cp_async"].spelling)
    _, _, size, *predicate = call.args
    places = (_place(call, 0, emitter, ADDRESS), _place(call, 1, emitter, READ))
    return Call(f"tl::cp_async_{as_int(size)}{'_zfill' if predicate else ''}", (*places, *map(emitter.value, predicate)))


def _matrix_product(call: Any, emitter: Any) -> Value:
    shape, *types = (str(arg.value) for arg in call.args[:4])
    a, b, c = types
    a, b, c = ptx_operand(a), ptx_operand(b), ptx_type(c)
    left, right, accumulator = (_place(call, at, emitter, kind) for at, kind in ((4, READ), (5, READ), (6, UPDATE)))
    pair = a if a == b else f"{a}_{b}"
    name = f"mma_{shape}_f64" if c == "f64" else f"mma_{shape}_{c}_{pair}"
    return Call(f"tl::{name}", (accumulator, left, right))


_SWIZZLES = (0, 128, 64, 32)
"""Bytes of a panel by the layout type of a descriptor."""


def _tile_descriptor(call: Any, emitter: Any) -> Value:
    async_calls.require(emitter.target, Feature.WGMMA, INTRINSICS["wgmma_descriptor"].spelling)
    kind, leading, stride = map(as_int, call.args[1:])
    return Call("tl::wgmma_desc", (_place(call, 0, emitter, READ), Number(leading * 16), Number(stride * 16)), (_SWIZZLES[kind],))


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
    "ldg": lambda call, emitter: Call("__ldg", (_place(call, 0, emitter, READ),)),
    "sync_warp": _function("__syncwarp"),
    "named_barrier_arrive": _function("tl::named_barrier_arrive"),
    "shfl_sync": _function("tl::shfl_idx"),
    "shfl_xor": _function("tl::shfl_xor"),
    "shfl_up": _function("tl::shfl_up"),
    "shfl_down": _function("tl::shfl_down"),
    "any_sync": _vote("__any_sync"),
    "all_sync": _vote("__all_sync"),
    "ballot_sync": _vote("__ballot_sync"),
    "match_any_sync": _vote("__match_any_sync"),
    "match_all_sync": _vote("tl::match_all", mask_first=False),
    "activemask": _function("__activemask"),
    "fns": _function("tl::nth_set_bit"),
    "sync_grid": lambda call, emitter: Call("tl::grid_sync", (AddressOf(GRID_STATE),)),
    **{f"syncthreads_{kind}": _function(f"__syncthreads_{kind}") for kind in ("count", "and", "or")},
    **{
        f"warp_reduce_{name}": _function("tl::warp_reduce", f"tl::{operation}")
        for name, operation in (("sum", "Sum"), ("max", "Max"), ("min", "Min"), ("bitand", "BitAnd"), ("bitor", "BitOr"))
    },
    "lane_idx": _lane,
    "warp_idx": _warp_index,
    "warp_idx_sync": _warp_index,
    "warp_group_idx": _group_index,
    "shuffle_elect": _elect,
    "rng_init": _rng_init,
    "rng_rand": lambda call, emitter: Call("tl::philox_next", (RNG_STATE,)),
    "rng_rand_float": _rng_float,
    "ptx_cp_async": _cp_async,
    "ptx_ldmatrix": _matrix("ldmatrix", 3, 2),
    "ptx_stmatrix": _matrix("stmatrix", 2, 3),
    "ptx_mma": _matrix_product,
    "wgmma_descriptor": _tile_descriptor,
    **tensor_maps.RULES,
}
"""Intrinsics by name; ``sync_threads`` and ``thread_return`` depend on where they stand and are written with the statements."""


def named_barrier(call: Any, emitter: Any) -> Value:
    """``T.sync_threads(barrier, threads)``."""
    count = () if len(call.args) > 1 else (emitter.value(emitter.kernel.thread_count),)
    return Call("tl::named_barrier_sync", (*_values(call, emitter), *count))
