"""Intrinsics over values alone: approximations, operations with a rounding mode, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.access import load, store
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.elementary import FUNCTIONS, fma
from tilelang.interpreter.expressions import Evaluate, compiled, compiled_element, intrinsic, type_of
from tilelang.interpreter.numbers import element
from tilelang.interpreter.rounding import EXACT, rounded
from tilelang.interpreter.state import Lanes
from tilelang.tileop.base import plain
from tilelang.tileop.thread import packed_halves


def _fast(name: str) -> Callable[[Compiler, Any], Evaluate]:
    """An approximation: the interpreter computes the function itself, of which each target may approximate in its own way."""

    def make(c: Compiler, call: Any) -> Evaluate:
        arguments, kind, kinds = [compiled(c, a) for a in call.args], type_of(call), [type_of(a) for a in call.args]
        return lambda x: FUNCTIONS[name](kind, kinds, *(argument(x) for argument in arguments))

    return make


for _name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow"):
    intrinsic(f"fast_{_name}")(_fast(_name))


@intrinsic("fast_rcp")
def _reciprocal(c: Compiler, call: Any) -> Evaluate:
    value, kind = compiled(c, call.args[0]), type_of(call)
    return lambda x: np.divide(kind.value.type(1), value(x))


@intrinsic("fma")
def _fma(c: Compiler, call: Any) -> Evaluate:
    parts, kind = [compiled(c, arg) for arg in call.args], type_of(call)
    return lambda x: fma(kind, *(part(x) for part in parts))


@intrinsic("clamp")
def _clamp(c: Compiler, call: Any) -> Evaluate:
    value, low, high = (compiled(c, arg) for arg in call.args)
    return lambda x: np.minimum(np.maximum(value(x), low(x)), high(x))


def _extremum(choose: np.ufunc) -> Callable[[Compiler, Any], Evaluate]:
    def make(c: Compiler, call: Any) -> Evaluate:
        a, b = (compiled(c, arg) for arg in call.args)
        return lambda x: choose(a(x), b(x))

    return make


# NaN where either operand is; T.max and T.min prefer the number.
intrinsic("max_nan")(_extremum(np.maximum))
intrinsic("min_nan")(_extremum(np.minimum))


@intrinsic("pack_b16")
def _packed(c: Compiler, call: Any) -> Evaluate:
    return compiled(c, packed_halves(call))


@intrinsic("ldg")
def _read_only_load(c: Compiler, call: Any) -> Evaluate:
    return compiled(c, call.args[0])


def _ieee(operation: str) -> Callable[[Compiler, Any], Evaluate]:
    def make(c: Compiler, call: Any) -> Evaluate:
        parts, kind = [compiled(c, arg) for arg in call.args], type_of(call)
        mode = str(plain(call.attrs["rounding"])) if call.attrs is not None and "rounding" in call.attrs else "rn"
        compute = rounded(operation, mode, kind)
        return lambda x: compute(*(part(x) for part in parts))

    return make


for _name in EXACT:
    intrinsic(f"ieee_{_name}")(_ieee(_name))


@intrinsic("dp4a")
def _dp4a(c: Compiler, call: Any) -> Evaluate:
    """``c += a[0] * b[0] + … + a[3] * b[3]``."""
    places = [compiled_element(c, arg) for arg in call.args]

    def evaluate(x: Lanes) -> None:
        (a, a_at), (b, b_at), (target, c_at) = ((x.views[slot], [index(x) for index in at]) for slot, at in places)
        total = load(x, target, c_at)
        for lane in range(4):
            left = load(x, a, [*a_at[:-1], a_at[-1] + np.int32(lane)])
            right = load(x, b, [*b_at[:-1], b_at[-1] + np.int32(lane)])
            total = total + np.asarray(left, np.int32) * np.asarray(right, np.int32)
        store(x, target, c_at, total)

    return evaluate


# Random numbers ------------------------------------------------------------------------------------------------------


def philox(seed: Any, sequence: Any, position: Any) -> Any:
    """32 random bits of Philox4x32-10 (Salmon and others, "Parallel Random Numbers: As Easy as 1, 2, 3", 2011; cuRAND's default).

    Args:
        seed: selects the generator's key.
        sequence: selects an independent sequence.
        position: counts the numbers of the sequence. All three are uint64, numbers or arrays.
    """
    seed, sequence, position = np.broadcast_arrays(*(np.asarray(v, np.uint64) for v in (seed, sequence, position)))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    # A block of the generator is four numbers of 32 bits.
    block = position >> np.uint64(2)
    counter = [block & low, block >> half, sequence & low, sequence >> half]
    key = [seed & low, seed >> half]
    for _ in range(10):
        # A round: two words are multiplied to 64 bits; low halves become words, high halves are mixed into the other two words.
        a, b = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [(b >> half) ^ counter[1] ^ key[0], b & low, (a >> half) ^ counter[3] ^ key[1], a & low]
        # The key grows by the Weyl constants of the paper: the golden ratio, and the square root of 3 less 1.
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return np.choose((position & np.uint64(3)).astype(np.int64), counter).astype(np.uint32)


class Generator:
    """The place of each thread in its sequence of random numbers."""

    def __init__(self, seed: Any = 0, sequence: Any = 0, position: Any = 0):
        self.seed, self.sequence = np.uint64(seed), np.asarray(sequence, np.uint64)
        self.position = np.asarray(position, np.uint64)

    def draw(self, x: Lanes) -> Any:
        """The next random number of each active lane; iterations share out those of the first thread, one each."""
        if x.nest is not None:
            active = np.broadcast_to(x.mask, x.lanes).astype(np.uint64)
            taken = np.cumsum(active, dtype=np.uint64)
            first, self.position = self.position.max(), self.position + taken[-1]
            return philox(self.seed, self.sequence.flat[0], first + taken - active)
        value = philox(self.seed, self.sequence, self.position)
        step = np.uint64(1) if x.mask is True else x.mask.astype(np.uint64)
        self.position = self.position + step
        return value[()]


@intrinsic("rng_init")
def _rng_init(c: Compiler, call: Any) -> Evaluate:
    seed, sequence, offset = (compiled(c, arg) for arg in call.args)
    own = call.attrs is not None and bool(plain(call.attrs["own_sequence"]))

    def evaluate(x: Lanes) -> None:
        x.block.generator = Generator(seed(x), x.block.number * x.lanes + x.lane_ids if own else sequence(x), offset(x))

    return evaluate


def _generator(x: Lanes) -> Generator:
    if x.block.generator is None:
        x.block.generator = Generator()
    return x.block.generator


@intrinsic("rng_rand")
def _rng_rand(c: Compiler, call: Any) -> Evaluate:
    return lambda x: _generator(x).draw(x)


@intrinsic("rng_rand_float")
def _rng_rand_float(c: Compiler, call: Any) -> Evaluate:
    kind = element(str(call.ty)).value.type
    normal = call.attrs is not None and "dist" in call.attrs and str(plain(call.attrs["dist"])) == "normal"

    def uniform(x: Lanes) -> Any:
        """In (0, 1]."""
        first = _generator(x).draw(x)
        # The middle of the interval that the bits stand for, so that 0 is never drawn: a logarithm follows.
        if kind is np.float32:
            return first.astype(kind) * kind(2.0**-32) + kind(2.0**-33)
        mixed = (first.astype(np.uint64) << np.uint64(21)) ^ _generator(x).draw(x).astype(np.uint64)
        return mixed.astype(kind) * kind(2.0**-53) + kind(2.0**-54)

    def gaussian(x: Lanes) -> Any:
        """Box and Muller's method, of which one result is used."""
        radius = np.sqrt(np.log(uniform(x)) * kind(-2.0))
        return radius * np.cos(uniform(x) * kind(2.0 * math.pi))

    return gaussian if normal else uniform
