"""mma.sync and mma.sp: every shape and type against NumPy, through fragments packed by the PTX ISA's formulas."""

import numpy as np
import pytest

from testing.python.simulator.models import formats, fragments, kernels
from testing.python.simulator.models.products import INTEGERS, ordered_sum, random_codes, values_of

SEED = 20240614
DENSE = [
    *[((16, 8, k), t, t) for k in (8, 16) for t in ("f16", "bf16")],
    *[((16, 8, k), "tf32", "tf32") for k in (4, 8)],
    *[((16, 8, k), a, b) for k in (16, 32) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")],
    *[((m, 8, k), a, b) for m, k in ((8, 16), (16, 16), (16, 32)) for a in ("s8", "u8") for b in ("s8", "u8")],
    *[((m, 8, k), a, b) for m, k in ((8, 32), (16, 32), (16, 64)) for a in ("s4", "u4") for b in ("s4", "u4")],
]
SPARSE = [
    *[((16, 8, k), t, t) for k in (16, 32) for t in ("f16", "bf16")],
    *[((16, 8, k), "tf32", "tf32") for k in (8, 16)],
    *[((16, 8, 64), a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")],
    *[((16, 8, k), a, "u8") for k in (32, 64) for a in ("s8", "u8")],
    *[((16, 8, k), a, "s4") for k in (64, 128) for a in ("s4", "u4")],
]


def name_of(case):
    (m, n, k), a, b = case
    return f"m{m}n{n}k{k}-{a}-{b}"


def run(instruction, words, d_count, d_bytes=4):
    """Launches one mma on packed operands (name -> [32, registers]); returns D's registers."""
    out = np.zeros((32, d_count), dtype=f"u{d_bytes}")
    inputs = {name: (w.shape[1], w.itemsize) for name, w in words.items()}
    body = instruction.format(d=kernels.vector("d", d_count), **{n: kernels.vector(n, w.shape[1]) for n, w in words.items()})
    ptx = kernels.register_kernel(inputs, {"d": (d_count, d_bytes)}, body)
    kernels.clean(kernels.launch(ptx, "k", [*words.values(), out]))
    return out


def pack_operands(shape, a, b, a_codes, b_codes, stored_k=None):
    m, n, k = shape
    stored_k = stored_k or k
    bits = fragments.BITS[a]
    a_words = fragments.pack(a_codes, lambda lane, i: fragments.a_place(lane, i, m, bits), bits, m * stored_k // 32)
    b_words = fragments.pack(b_codes, lambda lane, i: fragments.b_place(lane, i, bits), bits, k * n // 32)
    return {"a": a_words, "b": b_words}


@pytest.mark.parametrize("case", DENSE, ids=name_of)
def test_dense(case):
    shape, a, b = case
    m, n, k = shape
    rng = np.random.default_rng(SEED)
    a_codes, b_codes = random_codes(rng, (m, k), a), random_codes(rng, (k, n), b)
    words = pack_operands(shape, a, b, a_codes, b_codes)
    x, y = values_of(a_codes, a), values_of(b_codes, b)
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col"
    if a in INTEGERS:
        c = rng.integers(-1000, 1000, (m, n)).astype(np.int32)
        want = (c + x @ y).astype(np.int32).view(np.uint32)
        instruction = f"{name}.s32.{a}.{b}.s32 {{d}}, {{a}}, {{b}}, {{c}};"
    else:
        c = rng.normal(0, 1, (m, n)).astype(np.float32)
        want = ordered_sum(x, y, c).view(np.uint32)
        instruction = f"{name}.f32.{a}.{b}.f32 {{d}}, {{a}}, {{b}}, {{c}};"
    count = m * n // 32
    words["c"] = fragments.pack(c.view(np.uint32), fragments.c_place, 32, count)
    got = fragments.unpack(run(instruction, words, count), fragments.c_place, 32, count, (m, n))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("shape,a", [((16, 8, 8), "f16"), ((16, 8, 16), "f16"), ((16, 8, 32), "e4m3")])
def test_half_accumulators(shape, a):
    m, n, k = shape
    rng = np.random.default_rng(SEED)
    a_codes, b_codes, c_codes = (random_codes(rng, s, t) for s, t in (((m, k), a), ((k, n), a), ((m, n), "f16")))
    words = pack_operands(shape, a, a, a_codes, b_codes)
    words["c"] = fragments.pack(c_codes, fragments.c_place, 16, 4)
    total = ordered_sum(values_of(a_codes, a), values_of(b_codes, a), formats.decode(c_codes, "f16"))
    instruction = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.f16.{a}.{a}.f16 {{d}}, {{a}}, {{b}}, {{c}};"
    got = fragments.unpack(run(instruction, words, 2), fragments.c_place, 16, 4, (m, n))
    assert np.array_equal(got, formats.encode(total.astype(np.float64), "f16", "rn", False))


@pytest.mark.parametrize("case", SPARSE, ids=name_of)
@pytest.mark.parametrize("variant", ["sp", "sp::ordered_metadata"])
def test_sparse(case, variant):
    shape, a, b = case
    m, n, k = shape
    rng = np.random.default_rng(SEED)
    keep, codes = fragments.random_sparse(rng, m, k, a)
    a_codes, b_codes = random_codes(rng, (m, k), a), random_codes(rng, (k, n), b)
    compressed = a_codes[keep].reshape(m, k // 2)
    words = pack_operands(shape, a, b, compressed, b_codes, stored_k=k // 2)
    x, y = np.where(keep, values_of(a_codes, a), 0), values_of(b_codes, b)
    lanes = codes.shape[1] // 4 if fragments.BITS[a] >= 16 else codes.shape[1] // 8 * 2
    for selector in range(4 // lanes):
        words["e"] = fragments.pack_metadata(codes, a, selector).reshape(32, 1)
        if a in INTEGERS:
            c = rng.integers(-1000, 1000, (m, n)).astype(np.int32)
            want, types = (c + x @ y).astype(np.int32).view(np.uint32), f"s32.{a}.{b}.s32"
        else:
            c = rng.normal(0, 1, (m, n)).astype(np.float32)
            want, types = ordered_sum(x, y, c).view(np.uint32), f"f32.{a}.{b}.f32"
        words["c"] = fragments.pack(c.view(np.uint32), fragments.c_place, 32, 4)
        instruction = f"mma.{variant}.sync.aligned.m{m}n{n}k{k}.row.col.{types} {{d}}, {{a}}, {{b}}, {{c}}, %e0, {selector:#x};"
        got = fragments.unpack(run(instruction, words, 4), fragments.c_place, 32, 4, (m, n))
        assert np.array_equal(got, want)


@pytest.mark.parametrize("m,k", [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_double(m, k):
    rng = np.random.default_rng(SEED)
    # Integers: every order of summation, fused or not, gives the same sums.
    a, b, c = (rng.integers(-99, 99, s).astype(np.float64) for s in ((m, k), (k, 8), (m, 8)))
    words = {
        "a": fragments.pack(a.view(np.uint64), lambda lane, i: fragments.a_place(lane, i, m, 64), 64, m * k // 32),
        "b": fragments.pack(b.view(np.uint64), lambda lane, i: fragments.b_place(lane, i, 64), 64, k * 8 // 32),
        "c": fragments.pack(c.view(np.uint64), fragments.c_place, 64, m // 4),
    }
    instruction = f"mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 {{d}}, {{a}}, {{b}}, {{c}};"
    got = fragments.unpack(run(instruction, words, m // 4, 8), fragments.c_place, 64, m // 4, (m, 8))
    assert np.array_equal(got.view(np.float64), a @ b + c)


@pytest.mark.parametrize("operation", ["xor", "and"])
@pytest.mark.parametrize("m,k", [(8, 128), (16, 128), (16, 256)])
def test_bits(m, k, operation):
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(0, 2, (m, k)), rng.integers(0, 2, (k, 8))
    c = rng.integers(0, 100, (m, 8)).astype(np.uint32)
    count = m * 8 // 32
    words = pack_operands((m, 8, k), "b1", "b1", a, b)
    words["c"] = fragments.pack(c, fragments.c_place, 32, count)
    combined = a[:, :, None] ^ b[None] if operation == "xor" else a[:, :, None] & b[None]
    instruction = f"mma.sync.aligned.m{m}n8k{k}.row.col.s32.b1.b1.s32.{operation}.popc {{d}}, {{a}}, {{b}}, {{c}};"
    got = fragments.unpack(run(instruction, words, count), fragments.c_place, 32, count, (m, 8))
    assert np.array_equal(got, c + combined.sum(axis=1))


def test_integer_saturation():
    a, b = np.full((16, 16), 0x7F, np.uint64), np.full((16, 8), 0x7F, np.uint64)
    words = pack_operands((16, 8, 16), "s8", "s8", a, b)
    c = np.full((16, 8), 2**31 - 100, np.int32)
    words["c"] = fragments.pack(c.view(np.uint32), fragments.c_place, 32, 4)
    name = "mma.sync.aligned.m16n8k16.row.col{}.s32.s8.s8.s32 {{d}}, {{a}}, {{b}}, {{c}};"
    wrapped = (int(c[0, 0]) + 16 * 127 * 127) % 2**32
    assert np.all(run(name.format(""), words, 4) == wrapped)
    assert np.all(run(name.format(".satfinite"), words, 4) == 2**31 - 1)


@pytest.mark.parametrize("c_type,d_type", [("f16", "f16"), ("f32", "f32"), ("f16", "f32"), ("f32", "f16")])
@pytest.mark.parametrize("a_layout", ["row", "col"])
@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_quad_pairs(a_layout, b_layout, c_type, d_type):
    rng = np.random.default_rng(SEED)
    a, b = (
        rng.integers(-8, 8, (4, 8, 4)).astype(np.float16),
        rng.integers(-8, 8, (4, 4, 8)).astype(np.float16),
    )
    c = rng.integers(-8, 8, (4, 8, 8)).astype({"f16": np.float16, "f32": np.float32}[c_type])
    counts = {t: 4 if t == "f16" else 8 for t in ("f16", "f32")}
    words = {"a": np.zeros((32, 2), np.uint32), "b": np.zeros((32, 2), np.uint32)}
    words["c"] = np.zeros((32, counts[c_type]), np.uint32)
    for product in range(4):
        for lane in fragments.quad_pair_lanes(product):
            for i in range(4):
                a_code = a[product][fragments.quad_pair_a(lane, i, a_layout == "col")].view(np.uint16)
                b_code = b[product][fragments.quad_pair_b(lane, i, b_layout == "row")].view(np.uint16)
                words["a"][lane, i // 2] |= np.uint32(int(a_code) << (i % 2 * 16))
                words["b"][lane, i // 2] |= np.uint32(int(b_code) << (i % 2 * 16))
            for i in range(8):
                value = c[product][fragments.quad_pair_c(lane, i, 16 if c_type == "f16" else 32)]
                if c_type == "f16":
                    words["c"][lane, i // 2] |= np.uint32(int(value.view(np.uint16)) << (i % 2 * 16))
                else:
                    words["c"][lane, i] = value.view(np.uint32)
    instruction = f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{c_type} {{d}}, {{a}}, {{b}}, {{c}};"
    out = run(instruction, words, counts[d_type])
    want = a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)
    for product in range(4):
        for lane in fragments.quad_pair_lanes(product):
            row = out[lane].view(np.float16 if d_type == "f16" else np.float32)
            for i in range(8):
                assert row[i] == want[product][fragments.quad_pair_c(lane, i, 16 if d_type == "f16" else 32)]


def test_special_values():
    """Infinities and NaN go through; tf32 operands lose their low 13 bits."""
    one, tiny_above = np.float32(1), np.uint32(0x3F801FFF)
    a = np.zeros((16, 8), np.uint64)
    b = np.zeros((8, 8), np.uint64)
    a[0, 0], b[0, 0] = tiny_above, one.view(np.uint32)
    a[1, 1], b[1, 1] = np.float32(np.inf).view(np.uint32), one.view(np.uint32)
    a[2, 2], b[2, 2] = np.float32(np.nan).view(np.uint32), one.view(np.uint32)
    words = pack_operands((16, 8, 8), "tf32", "tf32", a, b)
    words["c"] = np.zeros((32, 4), np.uint32)
    instruction = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d}, {a}, {b}, {c};"
    got = fragments.unpack(run(instruction, words, 4), fragments.c_place, 32, 4, (16, 8))
    assert got[0, 0] == 0x3F800000
    assert got[1, 1] == 0x7F800000
    assert got[1, 0] == 0x7FFFFFFF  # inf * 0
    assert got[2, 2] == 0x7FFFFFFF


WRONG = [
    (
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3};",
        "shape",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3};",
        "types",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%d0,%d1}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1};",
        "accumulator",
    ),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1}, {%b0,%b1}, {%c0,%c1,%c2,%c3};",
        "registers",
    ),
    (
        "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3};",
        "row.col",
    ),
]


@pytest.mark.parametrize("text,message", WRONG, ids=[m for _, m in WRONG])
def test_malformed_instructions_are_refused(text, message):
    ptx = kernels.register_kernel({"a": (4, 4), "b": (2, 4), "c": (4, 4)}, {"d": (4, 4)}, text)
    with pytest.raises(Exception, match=message):
        kernels.launch(ptx, "k", [np.zeros((32, 4), np.uint32)] * 4)
