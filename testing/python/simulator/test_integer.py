"""Integer arithmetic against exact Python integers."""

import zlib

import numpy as np
import pytest

from testing.python.simulator.models import scalar
from testing.python.simulator.models.scalar import wrap

WIDTHS = {"u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}
TYPES = list(WIDTHS)
NARROW = TYPES[:4]


def trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamp32(value):
    return max(-(2**31), min(2**31 - 1, value))


def signed24(value, signed):
    value &= 0xFFFFFF
    return value - 0x1000000 if signed and value >> 23 else value


def wide(t):
    return t[0] + str(2 * WIDTHS[t])


CASES = []
for t in TYPES:
    CASES += [
        (f"add.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a + b),
        (f"sub.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a - b),
        (f"mul.lo.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a * b),
        (f"mul.hi.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b, n=WIDTHS[t]: (a * b) >> n),
        (f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, [t, t, t], lambda a, b, c: a * b + c),
        (f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, [t, t, t], lambda a, b, c, n=WIDTHS[t]: ((a * b) >> n) + c),
        (f"min.{t} {{d}}, {{a}}, {{b}};", t, [t, t], min),
        (f"max.{t} {{d}}, {{a}}, {{b}};", t, [t, t], max),
        (f"div.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: trunc_div(a, b) if b else -1),
        (f"rem.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a - trunc_div(a, b) * b if b else a),
        (f"sad.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, [t, t, t], lambda a, b, c: abs(a - b) + c),
    ]
    if t[0] == "s":
        CASES += [
            (f"abs.{t} {{d}}, {{a}};", t, [t], abs),
            (f"neg.{t} {{d}}, {{a}};", t, [t], lambda a: -a),
        ]
for t in NARROW:
    CASES += [
        (f"mul.wide.{t} {{d}}, {{a}}, {{b}};", wide(t), [t, t], lambda a, b: a * b),
        (f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}};", wide(t), [t, t, wide(t)], lambda a, b, c: a * b + c),
    ]
for t, signed in (("u32", False), ("s32", True)):
    CASES += [
        (f"mul24.lo.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b, s=signed: signed24(a, s) * signed24(b, s)),
        (f"mul24.hi.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b, s=signed: (signed24(a, s) * signed24(b, s)) >> 16),
        (f"mad24.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, [t] * 3, lambda a, b, c, s=signed: signed24(a, s) * signed24(b, s) + c),
    ]
CASES += [
    ("add.sat.s32 {d}, {a}, {b};", "s32", ["s32", "s32"], lambda a, b: clamp32(a + b)),
    ("sub.sat.s32 {d}, {a}, {b};", "s32", ["s32", "s32"], lambda a, b: clamp32(a - b)),
    ("mad.hi.sat.s32 {d}, {a}, {b}, {c};", "s32", ["s32"] * 3, lambda a, b, c: clamp32(((a * b) >> 32) + c)),
    ("min.relu.s32 {d}, {a}, {b};", "s32", ["s32", "s32"], lambda a, b: max(min(a, b), 0)),
]


def byte(word, i, signed):
    value = word >> 8 * i & 255
    return value - 256 if signed and value > 127 else value


def half(word, i, signed):
    value = word >> 16 * i & 0xFFFF
    return value - 65536 if signed and value > 0x7FFF else value


for a_type, b_type in (("u32", "u32"), ("s32", "s32"), ("u32", "s32"), ("s32", "u32")):
    sa, sb = a_type == "s32", b_type == "s32"
    CASES += [
        (f"dp4a.{a_type}.{b_type} {{d}}, {{a}}, {{b}}, {{c}};", "u32", ["u32"] * 3,
         lambda a, b, c, sa=sa, sb=sb: c + sum(byte(a, i, sa) * byte(b, i, sb) for i in range(4))),
        (f"dp2a.lo.{a_type}.{b_type} {{d}}, {{a}}, {{b}}, {{c}};", "u32", ["u32"] * 3,
         lambda a, b, c, sa=sa, sb=sb: c + sum(half(a, i, sa) * byte(b, i, sb) for i in range(2))),
        (f"dp2a.hi.{a_type}.{b_type} {{d}}, {{a}}, {{b}}, {{c}};", "u32", ["u32"] * 3,
         lambda a, b, c, sa=sa, sb=sb: c + sum(half(a, i, sa) * byte(b, i + 2, sb) for i in range(2))),
    ]  # fmt: skip
PACKED = [("add", lambda a, b: a + b), ("min", min), ("max", max)]
for name, f in PACKED:
    for t in ("u16", "s16"):
        CASES.append((f"{name}.{t}x2 {{d}}, {{a}}, {{b}};", "b32", ["b32", "b32"], lambda a, b, f=f, s=t == "s16": sum(
            (f(half(a, i, s), half(b, i, s)) & 0xFFFF) << 16 * i for i in range(2))))  # fmt: skip


@pytest.mark.parametrize("text,result,types,model", CASES, ids=[c[0].split(" ")[0] for c in CASES])
def test_instruction(text, result, types, model):
    seed = zlib.crc32(text.encode())
    arrays = scalar.operands(types, seed)
    got = scalar.run(text, result, types, arrays)
    want = np.array([wrap(model(*(int(a[i]) for a in arrays)), result) for i in range(scalar.LANES)], got.dtype)
    assert scalar.same(got, want), f"seed {seed}: " + scalar.explain(got, want, arrays)


def test_carry_chain_adds_and_subtracts_128_bits():
    low = scalar.operands(["u64", "u64"], 1)
    high = scalar.operands(["u64", "u64"], 2)
    for first, second, sign in (("add.cc", "addc", 1), ("sub.cc", "subc", -1)):
        text = f"{{{{.reg .b64 lo; {first}.u64 lo, {{a}}, {{b}}; {second}.u64 {{d}}, {{c}}, {{e}}; }}}}".replace("{e}", "{c}")
        got = scalar.run(text, "u64", ["u64", "u64", "u64"], [*low, high[0]])
        for i in range(scalar.LANES):
            a, b, c = int(low[0][i]), int(low[1][i]), int(high[0][i])
            total = ((c << 64) + a) + sign * ((c << 64) + b)
            assert int(got[i]) == total >> 64 & (2**64 - 1)


def test_multiply_with_carry():
    a, b, c = scalar.operands(["u32", "u32", "u32"], 3)
    text = "{{.reg .b32 lo; mad.lo.cc.u32 lo, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0; }}"
    got = scalar.run(text, "u32", ["u32"] * 3, [a, b, c])
    want = [(int(x) * int(y) + int(z)) >> 32 & 0xFFFFFFFF for x, y, z in zip(a, b, c, strict=True)]
    assert np.array_equal(got, np.array(want, np.uint32))


PACKS = {"u16": (16, 0, 65535), "s16": (16, -32768, 32767), "u8": (8, 0, 255), "s8": (8, -128, 127)}


@pytest.mark.parametrize("t", PACKS)
def test_saturating_pack(t):
    bits, low, high = PACKS[t]
    a, b, c = scalar.operands(["s32", "s32", "b32"], 19)
    pair = [(max(low, min(high, int(x))) & (1 << bits) - 1) << bits | max(low, min(high, int(y))) & (1 << bits) - 1
            for x, y in zip(a, b, strict=True)]  # fmt: skip
    if bits == 16:
        got = scalar.run(f"cvt.pack.sat.{t}.s32 {{d}}, {{a}}, {{b}};", "b32", ["s32", "s32"], [a, b])
    else:
        got = scalar.run(f"cvt.pack.sat.{t}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};", "b32", ["s32", "s32", "b32"], [a, b, c])
        pair = [(int(z) << 16 | p) & 0xFFFFFFFF for z, p in zip(c, pair, strict=True)]
    assert np.array_equal(got, np.array(pair, np.uint32))
