"""Step ``lower_random``: ``T.rng_*`` draw from one Philox4x32-10 sequence a block.

Before: loops over blocks whose bodies call ``tl.rng_init`` and ``tl.rng_rand*``. After: each such block has a state of three
words (seed, sequence, position), and the draws are calls to a helper that advances it. The numbers are those of cuRAND's
generator of the same name for the same seed, sequence and offset. The sequence is the block's index where the user chose none.
"""

from __future__ import annotations

import math
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import extern_call, local, seq
from tilelang.target.cpu.functions import let, unary
from tilelang.target.cpu.lower import BLOCK_LOOP
from tilelang.target.cpu.rewriter import StmtRewriter

_NEXT = "tl_rng_next"


def lower_random(func: Any, context: Any) -> Any:
    """The program with explicit generator states."""
    return func.with_body(_Blocks().stmt(func.body)) if draws(func.body) else func


def draws(body: Any) -> bool:
    """Whether a statement draws random numbers, which depend on how the blocks are numbered."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, [(ir.Call, lambda call: found.append(call) if _is_draw(call) else None)])
    return bool(found)


def _is_draw(call: Any) -> bool:
    return isinstance(call.op, ir.Op) and call.op.name.startswith("tl.rng_")


class _Blocks(StmtRewriter):
    def visit_For(self, node: Any) -> Any:
        if BLOCK_LOOP not in node.annotations or not draws(node.body):
            return super().visit_For(node)
        state = local("rng_state", (3,), "uint64")
        body = tvm_ffi.structural_mutate(node.body, [(ir.Evaluate, _Starter(state, node.loop_var)), (ir.Call, _Drawer(state))])
        body = seq(ir.AllocBuffer(state), [_set(state, place, ir.IntImm("uint64", 0)) for place in range(3)], body)
        return ir.For(node.loop_var, node.min, node.extent, node.kind, body, annotations=node.annotations, span=node.span)


def _set(state: Any, place: int, value: Any) -> Any:
    return ir.BufferStore(state, value, [place])


class _Starter:
    """Rewrites ``rng_init`` statements."""

    def __init__(self, state: Any, block: Any):
        self.state = state
        self.block = block

    def __call__(self, node: Any, mutator: Any) -> Any:
        call = node.value
        if not isinstance(call, ir.Call) or not isinstance(call.op, ir.Op) or call.op.name != "tl.rng_init":
            return mutator.default_mutate(node)
        seed, sequence, offset = call.args
        own = call.attrs is not None and "own_sequence" in call.attrs and bool(call.attrs["own_sequence"])
        sequence = ir.Cast("uint64", self.block) if own else sequence
        return seq(*(_set(self.state, place, value) for place, value in enumerate((seed, sequence, offset))))


class _Drawer:
    """Rewrites draws."""

    def __init__(self, state: Any):
        self.state = state

    def __call__(self, node: Any, mutator: Any) -> Any:
        if not _is_draw(node):
            return mutator.default_mutate(node)
        if node.op.name == "tl.rng_rand":
            return self._next()
        dtype = str(node.ty)
        normal = node.attrs is not None and "dist" in node.attrs and str(node.attrs["dist"]) == "normal"
        return self._normal(dtype) if normal else self._uniform(dtype)

    def _next(self) -> Any:
        return extern_call(_NEXT, [ir.buffer_data(self.state)], "uint32", pure=False)

    def _uniform(self, dtype: str) -> Any:
        """In (0, 1]."""
        if dtype == "float32":
            # The middle of the interval that the bits stand for, so that 0, whose logarithm `_normal` would take, is never drawn.
            return ir.Cast(dtype, self._next()) * ir.FloatImm(dtype, 2.0**-32) + ir.FloatImm(dtype, 2.0**-33)
        # 32 bits above 21: with the next draw XORed into the lower part, 53 bits are used, which is a float64's precision.
        high = ir.Cast("uint64", self._next()) << ir.IntImm("uint64", 21)
        mixed = high ^ ir.Cast("uint64", self._next())
        return ir.Cast(dtype, mixed) * ir.FloatImm(dtype, 2.0**-53) + ir.FloatImm(dtype, 2.0**-54)

    def _normal(self, dtype: str) -> Any:
        """Box and Muller's method, of which only one result is used."""

        def polar(u: Any) -> Any:
            radius = unary("sqrt", unary("log", u) * ir.FloatImm(dtype, -2.0))
            return radius * unary("cos", self._uniform(dtype) * ir.FloatImm(dtype, 2.0 * math.pi))

        return let(self._uniform(dtype), polar, "u")


def _philox_llvm() -> str:
    lines = [
        f"define i32 @{_NEXT}(ptr %state) alwaysinline {{",
        "  %seed = load i64, ptr %state",
        "  %sequence.p = getelementptr i64, ptr %state, i32 1",
        "  %sequence = load i64, ptr %sequence.p",
        "  %position.p = getelementptr i64, ptr %state, i32 2",
        "  %position = load i64, ptr %position.p",
        "  %following = add i64 %position, 1",
        "  store i64 %following, ptr %position.p",
        "  %block = lshr i64 %position, 2",
    ]
    for name, source in (("k", "seed"), ("c", "block"), ("d", "sequence")):
        lines += [
            f"  %{name}0.lo = trunc i64 %{source} to i32",
            f"  %{name}0.h = lshr i64 %{source}, 32",
            f"  %{name}0.hi = trunc i64 %{name}0.h to i32",
        ]
    # Philox4x32-10 (Salmon et al., SC 2011): the counter is (position / 4, sequence), the key the seed. Each draw computes its
    # block of four numbers anew, so that the state is three words and a program can begin at any position.
    counter, key = ["%c0.lo", "%c0.hi", "%d0.lo", "%d0.hi"], ["%k0.lo", "%k0.hi"]
    # A round multiplies two words of the counter to 64 bits and mixes the halves with the others and with the key, which then
    # grows by the constants of Weyl's sequence.
    for turn in range(10):
        for name, word, factor in (("a", counter[0], 0xD2511F53), ("b", counter[2], 0xCD9E8D57)):
            lines += [
                f"  %{name}{turn}.w = zext i32 {word} to i64",
                f"  %{name}{turn}.m = mul i64 %{name}{turn}.w, {factor}",
                f"  %{name}{turn}.lo = trunc i64 %{name}{turn}.m to i32",
                f"  %{name}{turn}.s = lshr i64 %{name}{turn}.m, 32",
                f"  %{name}{turn}.hi = trunc i64 %{name}{turn}.s to i32",
            ]
        lines += [
            f"  %x{turn}.0 = xor i32 %b{turn}.hi, {counter[1]}",
            f"  %x{turn}.1 = xor i32 %x{turn}.0, {key[0]}",
            f"  %y{turn}.0 = xor i32 %a{turn}.hi, {counter[3]}",
            f"  %y{turn}.1 = xor i32 %y{turn}.0, {key[1]}",
            f"  %kl{turn} = add i32 {key[0]}, {0x9E3779B9}",
            f"  %kh{turn} = add i32 {key[1]}, {0xBB67AE85}",
        ]
        counter = [f"%x{turn}.1", f"%b{turn}.lo", f"%y{turn}.1", f"%a{turn}.lo"]
        key = [f"%kl{turn}", f"%kh{turn}"]
    lines += [
        "  %lane = and i64 %position, 3",
        "  %is3 = icmp eq i64 %lane, 3",
        "  %is2 = icmp eq i64 %lane, 2",
        "  %is1 = icmp eq i64 %lane, 1",
        f"  %r1 = select i1 %is1, i32 {counter[1]}, i32 {counter[0]}",
        f"  %r2 = select i1 %is2, i32 {counter[2]}, i32 %r1",
        f"  %r3 = select i1 %is3, i32 {counter[3]}, i32 %r2",
        "  ret i32 %r3",
        "}",
    ]
    return "\n".join(lines)


_PHILOX_C = f"""static inline uint32_t {_NEXT}(uint64_t* state) {{
  uint64_t block = state[2] >> 2;
  uint32_t lane = (uint32_t)(state[2]++ & 3), k0 = (uint32_t)state[0], k1 = (uint32_t)(state[0] >> 32);
  uint32_t c[4] = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)state[1], (uint32_t)(state[1] >> 32)}};
  for (int turn = 0; turn < 10; ++turn) {{
    uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    uint32_t x = (uint32_t)(b >> 32) ^ c[1] ^ k0, y = (uint32_t)(a >> 32) ^ c[3] ^ k1;
    c[0] = x; c[1] = (uint32_t)b; c[2] = y; c[3] = (uint32_t)a;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }}
  return c[lane];
}}"""

helpers.register(_NEXT, _philox_llvm(), _PHILOX_C)
