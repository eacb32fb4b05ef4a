"""Threads, warps, barriers and the asynchronous units of a GPU, as one table.

These speak of hardware that a CPU does not have: a program that uses them is refused there by name. Each row of :data:`_ROWS` is
one function: its signature, the intrinsic that it emits (:data:`tilelang.tileop.thread.INTRINSICS`), and what it means.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, OperandError, OptionError, RunTimeValueError, ShapeError, UnsupportedError
from tilelang.frontend.conversion import convert, dtype_of
from tilelang.frontend.positions import index_to_coordinates, linear_index
from tilelang.frontend.values import as_expr, as_operand, is_symbolic
from tilelang.ir.expr import as_int
from tilelang.language import calls
from tilelang.language.barriers import is_number, named_barrier, numbered, threads_of_warps
from tilelang.language.math import condition
from tilelang.language.signatures import parameters, taking
from tilelang.tileop.thread import FULL_MASK, INTRINSICS

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions that are made from the table of rows."""


def _barrier(value: Any, name: str) -> Any:
    if is_number(value):
        value = numbered(value, f"T.{name}")
    load = calls.element(value, f"T.{name}")
    scope = load.source.scope()
    if not scope.endswith("barrier"):
        raise OperandError(f"T.{name} takes a barrier of T.alloc_barrier, {load.source.name} is in {scope or 'global memory'}")
    return load


def _integer(value: Any, name: str) -> Any:
    expr = as_expr(value)
    if "float" in dtype_of(expr):
        raise DtypeError(f"T.{name} takes integers, got {dtype_of(expr)}")
    return expr


def _index(value: Any, name: str) -> Any:
    return convert(_integer(value, name), "int32")


def _mask(value: Any, name: str) -> Any:
    expr = _integer(value, name)
    if dtype_of(expr) == "bool":  # CUDA's functions take the mask first
        raise DtypeError(f"the mask of T.{name} is an integer, got bool", hint=f"the mask is the last argument of T.{name}")
    return convert(expr, "uint32")


def _constant(value: Any, name: str) -> Any:
    if is_symbolic(value):
        raise RunTimeValueError(f"T.{name} needs an argument that is known at compile time")
    return as_expr(int(value))


def _width(value: Any, name: str) -> Any:
    """How many lanes form a group."""
    width = _constant(value, name)
    if int(width.value) not in (1, 2, 4, 8, 16, 32):
        raise OptionError(f"the width of T.{name} is a power of two up to 32, got {width}")
    return width


def _refuse_mask_first(signature: inspect.Signature, given: Sequence[Any], name: str) -> None:
    """Refuses the order of CUDA's functions, whose first argument is the mask: the mask of a warp as what lanes exchange.

    Raises:
        OperandError: the first argument is such a mask.
    """
    if as_int(as_operand(given[0])) in (FULL_MASK, -1):
        raise OperandError(
            f"the first argument of T.{name} is what lanes exchange, not their mask, which is the last",
            hint=f"T.{name}({', '.join(signature.parameters)})",
        )


_ARGUMENTS: dict[str, Callable[[Any, str], Any]] = {
    "value": lambda value, name: as_expr(value),
    "integer": _integer,
    "index": _index,
    "named": lambda value, name: named_barrier(_index(value, name), f"T.{name}"),
    "threads": lambda value, name: threads_of_warps(_index(value, name), f"T.{name}"),
    "mask": _mask,
    "predicate": lambda value, name: convert(condition(value), "int32"),
    "constant": _constant,
    "width": _width,
    "barrier": _barrier,
    "address": lambda value, name: calls.address(value, f"T.{name}"),
}
"""How an argument of each kind becomes an operand of the call."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One function.

    Attributes:
        signature: ``"name(argument: kind = default, …)"``; an argument whose value is None is left out of the call.
        intrinsic: what it emits; its result, if any, is the function's.
        meaning: its documentation.
        older: what older releases called the first argument.
    """

    signature: str
    intrinsic: str
    meaning: str
    older: str = ""

    def function(self) -> Callable[..., Any]:
        """The public function."""
        name, _, rest = self.signature.partition("(")
        signature, kinds = _declared(rest[:-1])
        emit = calls.effect if INTRINSICS[self.intrinsic].result == "void" else calls.value
        intrinsic = self.intrinsic

        exchanges = kinds[:1] in (["value"], ["predicate"]) and "mask" in kinds
        renamed = {self.older: next(iter(signature.parameters))} if self.older else {}

        @taking(signature, name, self.meaning, renamed)
        def call(*args: Any) -> Any:
            if exchanges:
                _refuse_mask_first(signature, args, name)
            try:
                given = [_ARGUMENTS[kind](value, name) for kind, value in zip(kinds, args) if value is not None]
            except DtypeError as error:
                error.hint = error.hint or f"its arguments are {', '.join(signature.parameters)}"
                raise
            return emit(intrinsic, *given)

        return call


def _declared(text: str) -> tuple[inspect.Signature, list[str]]:
    """The parameters that a row's text declares, and the kind of each."""
    required, defaults, kinds = [], {}, []
    for part in filter(None, text.split(", ")):
        declaration, _, default = part.partition(" = ")
        name, kind = declaration.split(": ")
        kinds.append(kind)
        if default:
            defaults[name] = _DEFAULTS[default]
        else:
            required.append(name)
    return parameters(" ".join(required), **defaults), kinds


_DEFAULTS = {"None": None, "0": 0, "True": 1, "32": 32, "FULL": FULL_MASK}

_ROWS = [
    # Threads of a block, blocks of a grid -----------------------------------------------------------------------------
    _Row(
        "sync_threads(barrier_id: named = None, arrive_count: threads = None)",
        "sync_threads",
        "Waits for every thread of the block, or for ``arrive_count`` threads at named barrier ``barrier_id``.",
    ),
    _Row(
        "named_barrier_arrive(barrier_id: named, thread_count: threads)",
        "named_barrier_arrive",
        "Arrives at a named barrier that ``thread_count`` threads complete, without waiting.",
    ),
    _Row("sync_warp(mask: mask = None)", "sync_warp", "Waits for the lanes of ``mask``, or for the whole warp."),
    _Row("sync_grid()", "sync_grid", "Waits for every thread of the grid; all blocks must be resident at once."),
    _Row(
        "syncthreads_count(predicate: predicate)",
        "syncthreads_count",
        "Waits for the block; gives how many of its threads have a true ``predicate``.",
    ),
    _Row(
        "syncthreads_and(predicate: predicate)",
        "syncthreads_and",
        "Waits for the block; non-zero where every thread has a true ``predicate``.",
    ),
    _Row(
        "syncthreads_or(predicate: predicate)",
        "syncthreads_or",
        "Waits for the block; non-zero where some thread has a true ``predicate``.",
    ),
    _Row("thread_return()", "thread_return", "Ends the thread, as ``return`` does."),
    # Lanes of a warp --------------------------------------------------------------------------------------------------
    _Row(
        "shfl_sync(value: value, srcLane: index, width: width = 32, mask: mask = FULL)",
        "shfl_sync",
        "The ``value`` of lane ``srcLane`` of the thread's group of ``width`` lanes.",
    ),
    _Row(
        "shfl_xor(value: value, delta: index, width: width = 32, mask: mask = FULL)",
        "shfl_xor",
        "The ``value`` of the lane whose number differs in the bits ``delta``.",
    ),
    _Row(
        "shfl_up(value: value, delta: index, width: width = 32, mask: mask = FULL)",
        "shfl_up",
        "The ``value`` of the lane ``delta`` below; the first lanes of a group keep their own.",
    ),
    _Row(
        "shfl_down(value: value, delta: index, width: width = 32, mask: mask = FULL)",
        "shfl_down",
        "The ``value`` of the lane ``delta`` above; the last lanes of a group keep their own.",
    ),
    _Row(
        "any_sync(predicate: predicate, mask: mask = FULL)",
        "any_sync",
        "Non-zero where a lane of ``mask`` has a true ``predicate``.",
    ),
    _Row(
        "all_sync(predicate: predicate, mask: mask = FULL)",
        "all_sync",
        "Non-zero where all lanes of ``mask`` have a true ``predicate``.",
    ),
    _Row(
        "ballot_sync(predicate: predicate, mask: mask = FULL)",
        "ballot_sync",
        "The lanes of ``mask`` with a true ``predicate``, as the low bits of a uint64.",
    ),
    _Row("ballot(predicate: predicate)", "ballot_sync", "The lanes of the warp with a true ``predicate``, as bits of a uint64."),
    _Row("activemask()", "activemask", "The lanes that run this instruction now, as the low bits of a uint64."),
    _Row(
        "__fns(mask: mask, base: mask, offset: index)",
        "fns",
        "The position of the ``offset``-th set bit of ``mask`` from bit ``base`` on (backwards for a negative one); 2**32 - 1 "
        "where there is none.",
    ),
    _Row(
        "match_any_sync(value: value, mask: mask = FULL)",
        "match_any_sync",
        "The lanes of ``mask`` that hold the same ``value``, as uint32 bits.",
    ),
    _Row(
        "match_all_sync(value: value, mask: mask = FULL)",
        "match_all_sync",
        "``mask`` where all its lanes hold the same ``value``, else 0.",
    ),
    _Row(
        "shuffle_elect(thread_extent: constant)",
        "shuffle_elect",
        "True in one thread of each group of ``thread_extent`` threads; 0 elects one of the block.",
    ),
    _Row("get_lane_idx(warp_size: constant = None)", "lane_idx", "The thread's number in its warp."),
    _Row("get_warp_idx(warp_size: constant = None)", "warp_idx", "The warp's number in its block."),
    _Row(
        "get_warp_idx_sync(warp_size: constant = None)",
        "warp_idx_sync",
        "The warp's number in its block, the same register in every lane.",
    ),
    _Row(
        "get_warp_group_idx(warp_size: constant = None, warps_per_group: constant = None)",
        "warp_group_idx",
        "The number in its block of the thread's group of four warps.",
    ),
    _Row("warp_reduce_sum(value: value)", "warp_reduce_sum", "The sum of ``value`` over the warp, in every lane."),
    _Row("warp_reduce_max(value: value)", "warp_reduce_max", "The largest ``value`` of the warp, in every lane."),
    _Row("warp_reduce_min(value: value)", "warp_reduce_min", "The smallest ``value`` of the warp, in every lane."),
    _Row(
        "warp_reduce_bitand(value: integer)", "warp_reduce_bitand", "The bitwise and of ``value`` over the warp, in every lane."
    ),
    _Row("warp_reduce_bitor(value: integer)", "warp_reduce_bitor", "The bitwise or of ``value`` over the warp, in every lane."),
    # mbarriers --------------------------------------------------------------------------------------------------------
    _Row(
        "mbarrier_wait_parity(mbarrier: barrier, parity: index)",
        "mbarrier_wait_parity",
        "Waits until the phase of ``parity`` (0 or 1) of a barrier is complete.",
    ),
    _Row(
        "mbarrier_arrive(mbarrier: barrier, cta_id: index = None)",
        "mbarrier_arrive",
        "Arrives at a barrier; at that of block ``cta_id`` of the cluster where one is given.",
    ),
    _Row(
        "mbarrier_expect_tx(mbarrier: barrier, tx: index)", "mbarrier_expect_tx", "Adds ``tx`` bytes to what the phase waits for."
    ),
    _Row(
        "mbarrier_arrive_expect_tx(mbarrier: barrier, tx: index)",
        "mbarrier_arrive_expect_tx",
        "Adds ``tx`` bytes to what the phase waits for, and arrives.",
    ),
    _Row(
        "ptx_init_barrier_thread_count(barrier_id: barrier, thread_count: index)",
        "init_barrier",
        "Starts a barrier anew: phase 0, completed by ``thread_count`` arrivals. One thread calls it while no other uses the "
        "barrier, with a barrier of the block (or cluster) behind it.",
    ),
    _Row("ptx_arrive_barrier(barrier_id: barrier)", "mbarrier_arrive", "Like ``T.mbarrier_arrive``."),
    _Row(
        "ptx_arrive_barrier_expect_tx(barrier_id: barrier, byte_count: index)",
        "mbarrier_arrive_expect_tx",
        "Like ``T.mbarrier_arrive_expect_tx``.",
    ),
    _Row("barrier_wait(mbarrier: barrier, parity: index = 0)", "barrier_wait", "Like ``T.mbarrier_wait_parity``.", "barrier_id"),
    _Row("barrier_arrive(mbarrier: barrier)", "barrier_arrive", "Like ``T.mbarrier_arrive``.", "barrier_id"),
    _Row(
        "ptx_arrive_cluster_barrier(mbarrier: barrier, cta_id: index)",
        "arrive_cluster_barrier",
        "Arrives at the barrier of block ``cta_id`` of the cluster.",
    ),
    _Row(
        "cp_async_barrier_noinc(barrier: barrier)",
        "cp_async_barrier_noinc",
        "Makes the thread's earlier ``cp.async`` copies arrive at a barrier when they are complete.",
    ),
    # Asynchronous copies ----------------------------------------------------------------------------------------------
    _Row("ptx_commit_group()", "ptx_commit_group", "Closes the group of the thread's ``cp.async`` copies so far."),
    _Row(
        "ptx_wait_group(num: constant)",
        "ptx_wait_group",
        "Waits until at most ``num`` groups of ``cp.async`` copies are in flight.",
    ),
    _Row("fence_proxy_async()", "fence_proxy_async", "Makes earlier writes to shared memory visible to asynchronous units."),
    _Row("ptx_fence_barrier_init()", "fence_barrier_init", "Makes the initialisation of barriers visible to the cluster."),
    _Row("tma_store_arrive()", "tma_store_arrive", "Closes the group of the thread's TMA stores so far."),
    _Row(
        "tma_store_wait(count: constant = 0, read: constant = True)",
        "tma_store_wait",
        "Waits until at most ``count`` groups of TMA stores are in flight; with ``read``, only until their source may be reused.",
    ),
    # Warp-group products ----------------------------------------------------------------------------------------------
    _Row("warpgroup_arrive()", "warpgroup_arrive", "Orders register accesses before the warp-group products that follow."),
    _Row("warpgroup_commit_batch()", "warpgroup_commit_batch", "Closes the group of warp-group products so far."),
    _Row(
        "warpgroup_wait(num_mma: constant)",
        "warpgroup_wait",
        "Waits until at most ``num_mma`` groups of warp-group products are in flight.",
    ),
    _Row("wait_wgmma(id: constant)", "wait_wgmma", "Waits until at most ``id`` groups of warp-group products are in flight."),
    # Clusters and dependent launches ----------------------------------------------------------------------------------
    _Row("cluster_arrive()", "cluster_arrive", "Arrives at the cluster's barrier."),
    _Row("cluster_arrive_relaxed()", "cluster_arrive_relaxed", "Arrives at the cluster's barrier without ordering memory."),
    _Row("cluster_wait()", "cluster_wait", "Waits at the cluster's barrier."),
    _Row("cluster_sync()", "cluster_sync", "Arrives at the cluster's barrier and waits."),
    _Row("block_rank_in_cluster()", "block_rank_in_cluster", "The block's number in its cluster."),
    _Row("pdl_trigger()", "pdl_trigger", "Lets the kernel that depends on this one start."),
    _Row("pdl_sync()", "pdl_sync", "Waits until the kernel that this one depends on is complete."),
]

for _row in _ROWS:
    globals()[_row.signature.partition("(")[0]] = _row.function()


def tvm_storage_sync(storage_scope: str) -> None:
    """Waits for the threads that share memory of a scope: ``"shared"`` the block, ``"warp"`` the warp, ``"global"`` the grid."""
    barriers = {"shared": "sync_threads", "shared.dyn": "sync_threads", "warp": "sync_warp", "global": "sync_grid"}
    if storage_scope not in barriers:
        raise OptionError(f"T.tvm_storage_sync({storage_scope!r}): expected one of {', '.join(barriers)}")
    calls.effect(barriers[storage_scope])


def __ldg(load_or_buf: Any, index: Any = None) -> Any:
    """An element of global memory that nothing writes while the kernel runs, read through the read-only cache.

    Args:
        load_or_buf: the element; or a buffer, with ``index``.
    """
    target = load_or_buf if index is None else load_or_buf[index]
    return calls.value("ldg", calls.element(target, "T.__ldg"))


def _raw(name: str, names: str, meaning: str, check: Callable[..., None] | None = None) -> Callable[..., Any]:
    """A function that passes its arguments on: buffers and regions as the address of their first element.

    Args:
        name: the intrinsic.
        names: its parameters.
        meaning: its docstring.
        check: raises an error for arguments that the instruction does not take; gets the name before them.
    """
    emit = calls.effect if INTRINSICS[name].result == "void" else calls.value

    @taking(parameters(names), name, meaning)
    def call(*args: Any) -> Any:
        if check is not None:
            check(name, *args)
        return emit(name, *(_raw_argument(arg, name) for arg in args))

    return call


def ptx_cp_async(dst_access_ptr: Any, src_access_ptr: Any, num_elems: Any, predicate: Any = None) -> None:
    """Copies elements from global to shared memory asynchronously, zeros where ``predicate`` is false.

    Args:
        dst_access_ptr, src_access_ptr: the first element of each, or its ``T.access_ptr``.
        num_elems: how many elements of the destination's type; 4, 8 or 16 bytes in all.
        predicate: a condition of the thread; None always copies.

    Raises:
        OptionError: another size.
    """
    target, source = (calls.address(each, "T.ptx_cp_async") for each in (dst_access_ptr, src_access_ptr))
    count, kind = int(_constant(num_elems, "ptx_cp_async").value), canonical(str(target.source.dtype))
    if count * kind.bits not in (32, 64, 128):
        raise OptionError(
            f"T.ptx_cp_async copies 4, 8 or 16 bytes; {count} elements of {kind} are {count * kind.bits / 8:g}",
            hint="the third argument counts elements",
        )
    zeros = () if predicate is None else (_ARGUMENTS["predicate"](predicate, "ptx_cp_async"),)
    calls.effect("ptx_cp_async", target, source, as_expr(count * kind.bits // 8), *zeros)


def _raw_argument(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value
    return calls.address(value, f"T.{name}") if calls.is_tile(value) or calls.is_address(value) else as_expr(value)


def ptx_mma(
    dtype: Any, shape: str, A_layout: str, B_layout: str, A_dtype: str, B_dtype: str, C_dtype: str, multiplicand_a: Any,
    a_index: Any, multiplicand_b: Any, b_index: Any, accumulator: Any, c_index: Any, saturate: Any, operator: Any = None,
) -> None:  # fmt: skip
    """One tensor-core product of a warp, ``C += A @ B``.

    Args:
        dtype: of C; that of its elements.
        shape: ``"m16n8k16"``.
        A_layout, B_layout: ``"row"`` and ``"col"``.
        A_dtype, B_dtype, C_dtype: ``"fp16"``, ``"bf16"``, ``"fp32"``, ``"tf32"``, ``"e4m3"``, ``"int8"``, or other dtypes.
        multiplicand_a, multiplicand_b, accumulator: the ``.data`` of ``T.alloc_local`` arrays of one axis.
        a_index, b_index, c_index: the first register of each, in elements.
        saturate: False.
        operator: None, as only products of bits have one.

    Raises:
        UnsupportedError: another layout, saturation, an operator, or registers of several axes.
    """
    if (A_layout, B_layout) != ("row", "col") or not (saturate is False or str(saturate) in ("0", "T.bool(False)")) or operator:
        raise UnsupportedError('T.ptx_mma multiplies "row" by "col", does not saturate and has no operator')
    types = (TYPES_OF_PTX.get(str(each)) or str(canonical(each)) for each in (A_dtype, B_dtype, C_dtype))
    places = ((multiplicand_a, a_index), (multiplicand_b, b_index), (accumulator, c_index))
    calls.effect("ptx_mma", shape, *types, *(_register(*place, "T.ptx_mma") for place in places))


TYPES_OF_PTX = {
    "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32", "f32": "float32", "tf32": "float32",
    "fp64": "float64", "f64": "float64", "s8": "int8", "u8": "uint8", "s4": "int4", "u4": "uint4", "s32": "int32",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
}  # fmt: skip
"""Names of types in PTX, and those of the reference package's programs."""


def _register(pointer: Any, offset: Any, what: str) -> Any:
    """The element ``offset`` of the array whose ``.data`` is ``pointer``."""
    array = calls.pointed(pointer, what)
    if len(array.shape) != 1:
        raise ShapeError(f"{what}: {array.name} has {len(array.shape)} axes", hint="registers are T.alloc_local((n,), ...)")
    return array[offset]


def ptx_ldmatrix(trans: Any, num: Any, src_access_ptr: Any, dst_access_ptr: Any, *others: Any) -> None:
    """Loads ``num`` (1, 2 or 4) 8x8 matrices, of 16-bit elements also transposed.

    Args:
        trans: whether they are transposed.
        num: how many.
        src_access_ptr: the row of 16 bytes that the lane names.
        dst_access_ptr: its first register.
        others: the last four of ``dtype, trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset``, as TVM has all of
            them. These are the ``.data`` of a ``T.alloc_local`` array and an address of shared memory, each with an offset in
            elements, of a tile in row-major order.

    Raises:
        OperandError: other arguments.
        OptionError: another number of matrices.
    """
    if len(others) == _POINTERS_OF_TVM:
        what, (local, local_offset, shared, shared_offset) = "T.ptx_ldmatrix", others
        trans, num, others = int(_constant(num, "ptx_ldmatrix").value), src_access_ptr, ()
        src_access_ptr = _moved(calls.address(shared, what), shared_offset)
        dst_access_ptr = _register(local, local_offset, what)
    _load_matrices(trans, num, src_access_ptr, dst_access_ptr, *others)


_POINTERS_OF_TVM = 4


def _check_matrices(name: str, trans: Any, num: Any, *_: Any) -> None:
    if as_int(as_operand(num)) not in (1, 2, 4):
        raise OptionError(f"T.{name} moves 1, 2 or 4 matrices, not {num}", hint="num says how many")


_load_matrices = _raw(
    "ptx_ldmatrix",
    "trans num src_access_ptr dst_access_ptr",
    "Loads ``num`` 8x8 matrices, of 16-bit elements also transposed.",
    _check_matrices,
)


def _moved(load: Any, offset: Any) -> Any:
    """The element ``offset`` elements after another one, in the row-major order of their tile."""
    tile = load.source
    place = linear_index(*map(as_operand, load.indices), *tile.shape[1:]) + offset
    return tile[tuple(index_to_coordinates(place, tuple(tile.shape)))]


ptx_stmatrix = _raw(
    "ptx_stmatrix",
    "trans num dst_access_ptr src_access_ptr",
    "Stores 8x8 matrices: ``(transposed, 1 | 2 | 4, shared destination, registers)``.",
    _check_matrices,
)
create_tma_descriptor = _raw(
    "create_tma_descriptor",
    "*args",
    "A tensor map: ``(type, rank, tensor, sizes…, strides…, box…, steps…, interleave, swizzle, promotion, fill)``.",
)
tma_load = _raw("tma_load", "*args", "A TMA load: ``(descriptor, barrier, shared destination, coordinates…)``.")
tma_store = _raw("tma_store", "*args", "A TMA store: ``(descriptor, shared source, coordinates…)``.")
