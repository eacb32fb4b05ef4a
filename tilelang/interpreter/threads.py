"""Intrinsics that name threads: a thread's indices, shuffles and votes of a warp, votes of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.choices import NUMBERS, arguments_of
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import Evaluate, compiled, intrinsic, type_of
from tilelang.interpreter.reductions import combination
from tilelang.interpreter.state import WARP, Lanes

_FULL = 0xFFFFFFFF


def everyone(x: Lanes, mask: Any = None) -> np.ndarray:
    """The active lanes, as an array."""
    if x.nest is not None:
        x.find("divergence", "an iteration of T.Parallel asks which thread it is, which is not specified")
    mask = x.mask if mask is None else mask
    return np.ones(x.lanes, bool) if mask is True else mask


# Indices -------------------------------------------------------------------------------------------------------------


def _number(name: str) -> None:
    compute, defaults = NUMBERS[name]

    @intrinsic(name)
    def make(c: Compiler, call: Any) -> Evaluate:
        sizes = arguments_of(call, defaults)
        return lambda x: compute(np.arange(everyone(x).size, dtype=np.int32), sizes)


for _name in NUMBERS:
    _number(_name)


# Shuffles ------------------------------------------------------------------------------------------------------------


def _shuffle(name: str, source: Callable[[np.ndarray, Any, np.ndarray, int], np.ndarray]) -> None:
    """``source(lane, argument, first lane of the group, width)`` is the lane that a lane reads; outside of its group its own."""

    @intrinsic(name)
    def make(c: Compiler, call: Any) -> Evaluate:
        value, argument = compiled(c, call.args[0]), compiled(c, call.args[1])
        width = int(call.args[2].value) if len(call.args) > 2 else WARP

        def evaluate(x: Lanes) -> Any:
            active = everyone(x)
            lane = np.arange(x.lanes)
            first = lane // width * width
            wanted = source(lane, np.broadcast_to(argument(x), (x.lanes,)).astype(np.int64), first, width)
            outside = (wanted < first) | (wanted >= first + width)
            wanted = np.where(outside | (wanted >= x.lanes), lane, wanted)
            if not active[wanted][active].all():
                x.find("divergence", f"T.{name} reads a lane that does not take part")
            return np.broadcast_to(value(x), (x.lanes,))[wanted]

        return evaluate


_shuffle("shfl_sync", lambda lane, index, first, width: first + index % width)
_shuffle("shfl_xor", lambda lane, delta, first, width: lane ^ delta)
_shuffle("shfl_up", lambda lane, delta, first, width: lane - delta)
_shuffle("shfl_down", lambda lane, delta, first, width: lane + delta)


# Votes ---------------------------------------------------------------------------------------------------------------


def by_warp(x: Lanes, value: Any, fill: Any) -> np.ndarray:
    """A value of each thread as (warps, 32).

    Args:
        x: the state, whose lanes are the block's threads.
        value: a number, or an array over the threads.
        fill: stands for the threads that the last warp lacks.
    """
    value = np.broadcast_to(value, (x.lanes,))
    missing = -x.lanes % WARP
    return np.concatenate([value, np.full(missing, fill, value.dtype)]).reshape(-1, WARP)


def _to_threads(x: Lanes, warps: np.ndarray) -> np.ndarray:
    """A value of each warp, given to its threads."""
    return np.repeat(warps, WARP)[: x.lanes]


def _bits(warps: np.ndarray) -> np.ndarray:
    """(warps, 32) bools as 32 bits a warp."""
    return (warps.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1, dtype=np.uint64)


def _voters(x: Lanes, name: str, mask: Any) -> np.ndarray:
    """The lanes that vote, as (warps, 32): those that are active and in the mask, which must have all that are active.

    Args:
        x: the state.
        name: of the intrinsic.
        mask: of each lane.
    """
    chosen = (np.broadcast_to(mask, (x.lanes,)).astype(np.uint64) >> (x.lane_ids % WARP).astype(np.uint64)) & np.uint64(1)
    active, included = everyone(x), chosen == 1
    if x.run.checks and (active & ~included).any():
        x.find("divergence", f"T.{name}: its mask leaves out {x.lane_text(int(np.argmax(active & ~included)))}, which calls it")
    return by_warp(x, active & included, False)


def _vote(name: str, decide: Callable[[np.ndarray, np.ndarray], np.ndarray], dtype: type) -> None:
    """``decide(voters, ballots)``, both (warps, 32), gives a value a warp."""

    @intrinsic(name)
    def make(c: Compiler, call: Any) -> Evaluate:
        predicate = compiled(c, call.args[0])
        mask = compiled(c, call.args[1]) if len(call.args) > 1 else lambda x: np.uint32(_FULL)

        def evaluate(x: Lanes) -> Any:
            ballots = by_warp(x, np.not_equal(predicate(x), 0), False)
            return _to_threads(x, decide(_voters(x, name, mask(x)), ballots)).astype(dtype)

        return evaluate


_vote("any_sync", lambda voters, ballots: np.any(voters & ballots, axis=1), np.int32)
_vote("all_sync", lambda voters, ballots: np.all(~voters | ballots, axis=1), np.int32)
_vote("ballot_sync", lambda voters, ballots: _bits(voters & ballots), np.uint64)


@intrinsic("activemask")
def _activemask(c: Compiler, call: Any) -> Evaluate:
    return lambda x: _to_threads(x, _bits(by_warp(x, everyone(x), False)))


@intrinsic("match_any_sync", "match_all_sync")
def _match(c: Compiler, call: Any) -> Evaluate:
    value = compiled(c, call.args[0])
    mask = compiled(c, call.args[1]) if len(call.args) > 1 else lambda x: np.uint32(_FULL)
    name = str(call.op.name).rpartition(".")[2]
    every = name == "match_all_sync"

    def evaluate(x: Lanes) -> Any:
        voters, values = _voters(x, name, mask(x)), by_warp(x, value(x), 0)
        # (warps, 32, 32): for each thread, which voters of its warp have its value.
        alike = (values[:, :, None] == values[:, None, :]) & voters[:, None, :]
        found = (alike.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(2, dtype=np.uint64)
        if every:
            # match_all gives the whole mask if all agree, and nothing otherwise.
            found = np.where(found == _bits(voters)[:, None], found, np.uint64(0))
        return found.reshape(-1)[: x.lanes].astype(np.uint32)

    return evaluate


@intrinsic("fns")
def _nth_set(c: Compiler, call: Any) -> Evaluate:
    """The position of the ``offset``-th set bit from ``base`` on."""
    parts = [compiled(c, arg) for arg in call.args]

    def find(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else _FULL
        places = range(base, WARP) if offset > 0 else range(base, -1, -1)
        found = [bit for bit in places if mask >> bit & 1]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else _FULL

    search = np.vectorize(lambda mask, base, offset: find(int(mask), int(base), int(offset)), otypes=[np.uint32])
    return lambda x: search(*(part(x) for part in parts))[()]


def _warp_reduce(op: str) -> None:
    @intrinsic(f"warp_reduce_{op}")
    def make(c: Compiler, call: Any) -> Evaluate:
        value, kind = compiled(c, call.args[0]), type_of(call.args[0])

        def evaluate(x: Lanes) -> Any:
            given = np.broadcast_to(value(x), (x.lanes,))
            active, result = everyone(x), given.copy()
            fold = combination(op, kind).reduce
            for first in range(0, x.lanes, WARP):
                warp = slice(first, min(first + WARP, x.lanes))
                if active[warp].any():
                    result[warp] = fold(given[warp][active[warp]])
            return result

        return evaluate


for _op in ("sum", "max", "min", "bitand", "bitor"):
    _warp_reduce(_op)


def _block_vote(name: str, decide: Callable[[np.ndarray], Any]) -> None:
    @intrinsic(name)
    def make(c: Compiler, call: Any) -> Evaluate:
        predicate = compiled(c, call.args[0])

        def evaluate(x: Lanes) -> Any:
            active = everyone(x)
            if not (active | x.block.exited).all():
                x.find("divergence", f"T.{name} is run by some threads of the block only")
            return np.int32(decide(np.broadcast_to(np.not_equal(predicate(x), 0), (x.lanes,))[active]))

        return evaluate


_block_vote("syncthreads_count", np.sum)
_block_vote("syncthreads_and", np.all)
_block_vote("syncthreads_or", np.any)


@intrinsic("block_rank_in_cluster")
def _block_rank(c: Compiler, call: Any) -> Evaluate:
    return lambda x: np.int32(x.block.rank)


def _nothing(c: Compiler, call: Any) -> Evaluate:
    """A no-op here: a fence between accesses that are already ordered, or a hint."""
    return lambda x: None


for _name in (
    "fence_proxy_async", "fence_barrier_init", "warpgroup_arrive", "pdl_trigger", "pdl_sync",
):  # fmt: skip
    intrinsic(_name)(_nothing)
