"""Bits, shifts and fields against Python models written from the PTX ISA's pseudo code."""

import zlib

import numpy as np
import pytest

from testing.python.simulator.models import scalar
from testing.python.simulator.models.scalar import wrap

BITS = {"b16": 16, "b32": 32, "b64": 64}
CASES = []
for t, n in BITS.items():
    ones = (1 << n) - 1
    CASES += [
        (f"and.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a & b),
        (f"or.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a | b),
        (f"xor.{t} {{d}}, {{a}}, {{b}};", t, [t, t], lambda a, b: a ^ b),
        (f"not.{t} {{d}}, {{a}};", t, [t], lambda a: ~a),
        (f"cnot.{t} {{d}}, {{a}};", t, [t], lambda a: int(a == 0)),
        (f"shl.{t} {{d}}, {{a}}, {{b}};", t, [t, "u32"], lambda a, b, n=n: a << b if b < n else 0),
    ]
for t, n in (("u16", 16), ("s16", 16), ("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)):
    CASES.append((f"shr.{t} {{d}}, {{a}}, {{b}};", t, [t, "u32"], lambda a, b, n=n: a >> min(b, n)))


def funnel(left, wrapping):
    def model(a, b, c):
        n = c & 31 if wrapping else min(c, 32)
        pair = b << 32 | a
        return pair << n >> 32 if left else pair >> n

    return model


for side in "lr":
    for mode in ("wrap", "clamp"):
        model = funnel(side == "l", mode == "wrap")
        CASES.append((f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", "b32", ["b32"] * 3, model))


def lop3(table):
    def model(a, b, c):
        result = 0
        for i in range(32):
            index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
            result |= (table >> index & 1) << i
        return result

    return model


for table in (0x00, 0x01, 0x1E, 0x2D, 0x80, 0x96, 0xB4, 0xE8, 0xFE, 0xFF):
    CASES.append((f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "b32", ["b32"] * 3, lop3(table)))


def permute(selectors):
    def model(a, b, c):
        pair, control = b << 32 | a, selectors(c)
        result = 0
        for i in range(4):
            s = control >> 4 * i & 15
            value = pair >> 8 * (s & 7) & 255
            result |= (0xFF if value & 0x80 else 0) << 8 * i if s & 8 else value << 8 * i
        return result

    return model


MODES = {
    "": lambda c: c,
    ".f4e": lambda c: sum(((c & 3) + i) << 4 * i for i in range(4)),
    ".b4e": lambda c: sum((((c & 3) - i) & 7) << 4 * i for i in range(4)),
    ".rc8": lambda c: (c & 3) * 0x1111,
    ".ecl": lambda c: sum(max(c & 3, i) << 4 * i for i in range(4)),
    ".ecr": lambda c: sum(min(c & 3, i) << 4 * i for i in range(4)),
    ".rc16": lambda c: 0x3232 if c & 1 else 0x1010,
}
for mode, selectors in MODES.items():
    CASES.append((f"prmt.b32{mode} {{d}}, {{a}}, {{b}}, {{c}};", "b32", ["b32"] * 3, permute(selectors)))


def extract(n, signed):
    def model(a, b, c):
        position, length = b & 255, c & 255
        last = n - 1
        sign = (a >> min(position + length - 1, last) & 1) if signed and length else 0
        result = 0
        for i in range(n):
            bit = a >> position + i & 1 if i < length and position + i <= last else sign
            result |= bit << i
        return result

    return model


for t, n in (("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)):
    CASES.append((f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, [t, "u32", "u32"], extract(n, t[0] == "s")))


def insert(n):
    def model(a, b, c, e):
        position, length = c & 255, e & 255
        for i in range(length):
            if position + i < n and i < n:
                b = b & ~(1 << position + i) | (a >> i & 1) << position + i
        return b

    return model


def find(n, signed, shift):
    def model(a):
        if signed and a < 0:
            a = ~a
        if a == 0:
            return -1
        position = a.bit_length() - 1
        return n - 1 - position if shift else position

    return model


for t, n in (("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)):
    CASES.append((f"bfind.{t} {{d}}, {{a}};", "u32", [t], find(n, t[0] == "s", False)))
    CASES.append((f"bfind.shiftamt.{t} {{d}}, {{a}};", "u32", [t], find(n, t[0] == "s", True)))
for t, n in (("b32", 32), ("b64", 64)):
    CASES += [
        (f"popc.{t} {{d}}, {{a}};", "u32", [t], lambda a: bin(a).count("1")),
        (f"clz.{t} {{d}}, {{a}};", "u32", [t], lambda a, n=n: n - a.bit_length()),
        (f"brev.{t} {{d}}, {{a}};", t, [t], lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2)),
    ]


def signed(a, bits):
    value = a & (1 << bits) - 1
    return value - (1 << bits) if bits and value >> bits - 1 else value


def find_nth_set(mask, base, offset):
    """PTX leaves a base beyond the word open; here it finds nothing."""
    if base > 31:
        return -1
    positions = range(base, 32) if offset >= 0 else range(base, -1, -1)
    found = [bit for bit in positions if mask >> bit & 1]
    if offset == 0:
        return base if mask >> base & 1 else -1
    return found[abs(offset) - 1] if abs(offset) <= len(found) else -1


CASES += [
    ("bmsk.clamp.b32 {d}, {a}, {b};", "b32", ["b32", "b32"], lambda a, b: (1 << min(b, 32)) - 1 << min(a, 32)),
    ("bmsk.wrap.b32 {d}, {a}, {b};", "b32", ["b32", "b32"], lambda a, b: (1 << (b & 31)) - 1 << (a & 31)),
    ("szext.clamp.u32 {d}, {a}, {b};", "u32", ["b32", "u32"], lambda a, b: a & (1 << min(b, 32)) - 1),
    ("szext.wrap.u32 {d}, {a}, {b};", "u32", ["b32", "u32"], lambda a, b: a & (1 << (b & 31)) - 1),
    ("szext.clamp.s32 {d}, {a}, {b};", "s32", ["b32", "u32"], lambda a, b: signed(a, min(b, 32))),
    ("szext.wrap.s32 {d}, {a}, {b};", "s32", ["b32", "u32"], lambda a, b: signed(a, b & 31)),
    ("fns.b32 {d}, {a}, {b}, {c};", "b32", ["b32", "b32", "s32"], find_nth_set),
    ("and.b32 {c}, {c}, 7; and.b32 {b}, {b}, 31; fns.b32 {d}, {a}, {b}, {c};", "b32", ["b32", "b32", "s32"],
     lambda a, b, c: find_nth_set(a, b & 31, c & 7)),
    ("or.b32 {c}, {c}, -8; and.b32 {b}, {b}, 31; fns.b32 {d}, {a}, {b}, {c};", "b32", ["b32", "b32", "s32"],
     lambda a, b, c: find_nth_set(a, b & 31, c | -8)),
]  # fmt: skip


@pytest.mark.parametrize("text,result,types,model", CASES, ids=[f"{c[0].split(' ')[0]}-{i}" for i, c in enumerate(CASES)])
def test_instruction(text, result, types, model):
    seed = zlib.crc32(text.encode())
    arrays = scalar.operands(types, seed)
    got = scalar.run(text, result, types, arrays)
    want = np.array([wrap(model(*(int(a[i]) for a in arrays)), result) for i in range(scalar.LANES)], got.dtype)
    assert scalar.same(got, want), f"seed {seed}: " + scalar.explain(got, want, arrays)


@pytest.mark.parametrize("t,n", [("b32", 32), ("b64", 64)])
def test_field_insert(t, n):
    a, b, c = scalar.operands([t, t, "u32"], 4)
    for length in (0, 1, 5, 31, 32, 63, 64, 255, 256):
        got = scalar.run(f"bfi.{t} {{d}}, {{a}}, {{b}}, {{c}}, {length};", t, [t, t, "u32"], [a, b, c])
        want = [wrap(insert(n)(int(x), int(y), int(z), length), t) for x, y, z in zip(a, b, c, strict=True)]
        assert np.array_equal(got, np.array(want, got.dtype))


def test_lop3_with_predicate():
    a, b = scalar.operands(["b32", "b32"], 5)
    text = "{{.reg .pred q; .reg .b32 x; setp.ne.u32 q, {a}, 0; lop3.and.b32 x|{d}, {a}, {b}, {b}, 0xC0, q; }}"
    got = scalar.run(text, "pred", ["b32", "b32"], [a, b])
    assert np.array_equal(got, ((a & b) != 0) & (a != 0))


def test_predicate_logic():
    a, b = scalar.operands(["u32", "u32"], 6)
    a, b = a & 1, b & 1
    for operation, want in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        text = f"{{{{.reg .pred p, q; setp.ne.u32 p, {{a}}, 0; setp.ne.u32 q, {{b}}, 0; {operation}.pred {{d}}, p, q; }}}}"
        assert np.array_equal(scalar.run(text, "pred", ["u32", "u32"], [a, b]), want)
    text = "{{.reg .pred p, q; setp.ne.u32 p, {a}, 0; setp.ne.u32 q, {b}, 0; and.pred {d}, !p, q; }}"
    assert np.array_equal(scalar.run(text, "pred", ["u32", "u32"], [a, b]), (1 - a) & b)
