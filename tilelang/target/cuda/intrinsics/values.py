"""Calls of scalar intrinsics as values of the device IR: the rules that the rows of ``table.py`` name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import RunTimeValueError
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.expr import as_int
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.cpp_types import product_types
from tilelang.target.cuda.ir.instructions import DeclareGlobal, Define, SetRegisters, WaitBulk
from tilelang.target.cuda.ir.values import Binary, Call, Convert, Field, Literal, Name, Number, Type, Value, Word, async_copy
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


def _attribute(call: Any, name: str, default: str) -> str:
    return str(call.attrs[name]) if call.attrs is not None and name in call.attrs else default


def place_of(call: Any, at: int, emitter: Any, kind: str) -> Value:
    """A pointer to the element that an argument is."""
    load = call.args[at]
    return emitter.places.address(load.source, list(load.indices), kind)


def _values(call: Any, emitter: Any, first: int = 0) -> tuple[Value, ...]:
    return tuple(map(emitter.value, call.args[first:]))


def constant_argument(call: Any, at: int) -> int:
    """An argument of an intrinsic that must be known at compile time.

    Raises:
        RunTimeValueError: it is not.
    """
    value = as_int(call.args[at])
    if not isinstance(value, int):
        name = intrinsic_name(call)
        assert name is not None
        raise RunTimeValueError(f"{INTRINSICS[name].spelling} needs an argument that is known at compile time")
    return value


def call(
    function: str, places: tuple[int, ...] = (), constants: tuple[int, ...] = (), template: str | None = None, kind: str = READ
) -> Rule:
    """An intrinsic that is one device function of its arguments.

    Args:
        places: positions of arguments that are elements in memory, and go by address.
        constants: positions of arguments that must be known at compile time, and are template arguments.
        template: a template argument before those.
        kind: what happens to the memory at its places.
    """

    def rule(call: Any, emitter: Any) -> Value:
        arguments = (
            place_of(call, at, emitter, kind) if at in places else emitter.value(arg)
            for at, arg in enumerate(call.args)
            if at not in constants
        )
        templates = () if template is None else (template,)
        return Call(function, tuple(arguments), (*templates, *(constant_argument(call, at) for at in constants)))

    return rule


def memory_order(call: Any) -> int:
    """The number of the memory order of an atomic access, as ``atomic.h`` has them."""
    return MEMORY_ORDERS[_attribute(call, "memory_order", "relaxed")]


def atomic(operation: str) -> Rule:
    """An atomic access of one element, in the memory order of its attribute."""

    def rule(call: Any, emitter: Any) -> Value:
        arguments = (place_of(call, 0, emitter, UPDATE), *_values(call, emitter, 1))
        return Call(f"tl::atomic_{operation}", arguments, (memory_order(call),))

    return rule


def atomic_vector(lanes: int) -> Rule:
    """An atomic sum of neighbours with neighbours, or with a vector of them."""

    def rule(call: Any, emitter: Any) -> Value:
        places = (place_of(call, 0, emitter, UPDATE), place_of(call, 1, emitter, READ))
        # With a result the old values are wanted, as a vector.
        if canonical(str(call.ty)).lanes > 1:
            word = Type("", lanes * canonical(call.args[0].source.dtype).bytes)
            return Call("tl::atomic_add_vector", places, (lanes, word))
        return Call(f"tl::atomic_add_x{lanes}", places)

    return rule


def _through_float(function: str, call: Any, emitter: Any) -> Value:
    """A function of float32: other types go through it."""
    arguments = (converted(emitter.value(arg), str(arg.ty), "float32") for arg in call.args)
    return converted(Call(function, tuple(arguments)), "float32", str(call.ty))


def single(function: str) -> Rule:
    """A float function: other float types go through it, float64 has the plain function of the same name."""

    def rule(call: Any, emitter: Any) -> Value:
        if canonical(str(call.ty)) == "float64":
            return Call(function.removeprefix("tl::fast_"), _values(call, emitter))
        return _through_float(function, call, emitter)

    return rule


def reciprocal(call: Any, emitter: Any) -> Value:
    if canonical(str(call.ty)) == "float64":
        return Binary("/", Literal(1.0, "float64"), emitter.value(call.args[0]))
    return _through_float("tl::fast_rcp", call, emitter)


def ieee(operation: str) -> Rule:
    """A function of floats that is rounded in the direction of its attribute."""

    def rule(call: Any, emitter: Any) -> Value:
        mode = ROUNDINGS[_attribute(call, "rounding", "rn")]
        # CUDA has __frsqrt_rn for float32 alone, and no other rounding mode of it.
        if operation == "rsqrt" and str(call.ty) == "float64":
            return Call("rsqrt", _values(call, emitter))
        templates = () if operation == "rsqrt" or mode == 0 else (mode,)
        return Call(f"tl::ieee_{operation}", _values(call, emitter), templates)

    return rule


def fma(call: Any, emitter: Any) -> Value:
    function = {"float64": "fma", "float32": "fmaf", "float16": "__hfma", "bfloat16": "tl::fma_bf16"}.get(str(call.ty))
    if function is not None:
        return Call(function, _values(call, emitter))
    return _through_float("fmaf", call, emitter)


def limited(function: str) -> Rule:
    """A choice between numbers of one type; those of eight bits and less go through float32, which holds them all."""

    def rule(call: Any, emitter: Any) -> Value:
        if canonical(str(call.ty)).bits <= 8:
            return _through_float(function, call, emitter)
        return Call(function, _values(call, emitter))

    return rule


def dot_of_bytes(call: Any, emitter: Any) -> Value:
    a, b = (Word(place_of(call, at, emitter, READ), 4, "int") for at in range(2))
    total = call.args[2]
    place = emitter.places.place(total.source, list(total.indices))
    return Binary("=", place, Call("tl::dp4a", (a, b, place)))


def vote(function: str, mask_first: bool = True) -> Rule:
    """A vote of the lanes of a mask, by default of the whole warp; CUDA's own take the mask first."""

    def rule(call: Any, emitter: Any) -> Value:
        mask = emitter.value(call.args[1]) if len(call.args) > 1 else _WHOLE_WARP
        arguments = (mask, emitter.value(call.args[0]))
        return Call(function, arguments if mask_first else arguments[::-1])

    return rule


_RANK = Call("tl::thread_rank")


def warp_reduction(functor: str) -> Rule:
    """A reduction by a device functor over the lanes of a warp; the last one of a block may have fewer than 32."""
    whole = call("tl::warp_reduce", template=functor)

    def rule(call: Any, emitter: Any) -> Value:
        threads = emitter.kernel.thread_count
        if threads % WARP == 0:
            return whole(call, emitter)
        lanes = Number(threads) - _RANK // WARP * WARP
        return Call("tl::warp_reduce_first", (*_values(call, emitter), lanes), (functor,))

    return rule


def part_of_rank(low: int, extent: int) -> Value:
    """A digit of the thread's number, computed by each lane: a program may ask for it where its warp has diverged."""
    return _RANK // low % extent if extent else _RANK // low


def rng_init(call: Any, emitter: Any) -> Value:
    seed, sequence, offset = _values(call, emitter)
    if call.attrs is not None and "own_sequence" in call.attrs and bool(call.attrs["own_sequence"]):
        threads = Field(_BLOCK_SIZE, "x") * Field(_BLOCK_SIZE, "y") * Field(_BLOCK_SIZE, "z")
        sequence = Convert("uint64", Call("tl::block_rank")) * threads + _RANK
    return Binary("=", RNG_STATE, Call("tl::philox_init", (seed, sequence, offset)))


def rng_float(call: Any, emitter: Any) -> Value:
    wide = "_double" if str(call.ty) == "float64" else ""
    return Call(f"tl::philox_{_attribute(call, 'dist', 'uniform')}{wide}", (RNG_STATE,))


def barrier_arrival(call: Any, emitter: Any) -> Value:
    """At a barrier of this block, or with a second argument at that of another block of the cluster."""
    remote = "_remote" if len(call.args) == 2 else ""
    return Call(f"tl::mbarrier_arrive{remote}", (place_of(call, 0, emitter, READ), *_values(call, emitter, 1)))


def matrix(function: str, target: int, source: int) -> Rule:
    """``ldmatrix`` or ``stmatrix``, of as many matrices as the second argument says; the first one says whether transposed.

    ``target`` and ``source`` are the positions of the places that are written and read."""

    def rule(call: Any, emitter: Any) -> Value:
        suffix = "_trans" if as_int(call.args[0]) else ""
        places = (place_of(call, target, emitter, WRITE), place_of(call, source, emitter, READ))
        return Call(f"tl::{function}_x{as_int(call.args[1])}{suffix}", places)

    return rule


def copy_async(call: Any, emitter: Any) -> Value:
    _, _, size, *predicate = call.args
    target, source = place_of(call, 0, emitter, ADDRESS), place_of(call, 1, emitter, READ)
    return async_copy(as_int(size), target, source, *map(emitter.value, predicate))


def matrix_product(call: Any, emitter: Any) -> Value:
    shape, *types = (str(arg.value) for arg in call.args[:4])
    left, right, accumulator = (place_of(call, at, emitter, kind) for at, kind in ((4, READ), (5, READ), (6, UPDATE)))
    return Call(f"tl::mma_{shape}_{product_types(*types)}", (accumulator, left, right))


_SWIZZLES = (0, 128, 64, 32)
"""Bytes of a panel by the layout type of a descriptor."""


def tile_descriptor(call: Any, emitter: Any) -> Value:
    kind, leading, stride = map(as_int, call.args[1:])
    # The program gives offsets in units of 16 bytes, as the hardware's descriptor holds them (PTX ISA, "Matrix Descriptor
    # Format"); the function takes bytes.
    return Call(
        "tl::wgmma_desc", (place_of(call, 0, emitter, READ), Number(leading * 16), Number(stride * 16)), (_SWIZZLES[kind],)
    )


def named_barrier(call: Any, emitter: Any) -> Value:
    """``T.sync_threads(barrier, threads)``."""
    count = () if len(call.args) > 1 else (emitter.value(emitter.kernel.thread_count),)
    return Call("tl::named_barrier_sync", (*_values(call, emitter), *count))


def wait_for_stores(call: Any) -> list[WaitBulk]:
    """``T.tma_store_wait(pending, read)``: by default for all stores, until they have read their source."""
    pending, read = (constant_argument(call, at) if at < len(call.args) else default for at, default in enumerate((0, 1)))
    return [WaitBulk(pending, complete=not read)]


def register_move(call: Any) -> list[SetRegisters]:
    """What a role's threads do with their registers: ``"inc"`` or ``"dec"``, and how many they have then."""
    return [SetRegisters(str(call.args[0].value), constant_argument(call, 1))]
