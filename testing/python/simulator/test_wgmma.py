"""wgmma: descriptors, swizzles, transpositions, types, register operands, sparsity, groups and fences."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, formats, fragments, kernels, wgmma
from testing.python.simulator.models.products import INTEGERS, ordered_sum, random_codes, values_of

SEED = 20240620
BITS = fragments.BITS
DEPTH = {16: 16, 32: 8, 8: 32}


def raw(codes, fmt):
    """Codes as the bytes they take in memory."""
    return codes.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS[fmt]])


def place(codes, fmt, swizzle, transposed):
    """An operand [majors, k] in shared memory."""
    depth = DEPTH[BITS[fmt]]
    if transposed:
        return wgmma.major_contiguous(raw(codes, fmt).T, swizzle, depth)
    return wgmma.k_major(raw(codes, fmt), swizzle, 32)


def run(
    a,
    b,
    n,
    k,
    fmt,
    *,
    d_type="f32",
    b_fmt=None,
    scale=1,
    c=None,
    signs=(1, 1),
    registers=None,
    steps=1,
    sparse=None,
    variant="",
    ending="",
    **options,
):
    """Launches `steps` instructions; a is an Operand (or None with `registers`), b an Operand. Returns (D words, report)."""
    image = np.concatenate([x.image for x in (a, b) if x is not None]).view(np.uint32)
    start_b = a.image.size if a is not None else 0
    count = n // 4 if d_type == "f16" else n // 2
    out = np.zeros((128, count), np.uint32) if c is None else c
    tail = "" if d_type == "s32" else f", {signs[0]}, {signs[1]}"
    if BITS[fmt] == 16:
        trans = [int(options.pop("trans_a", False))] if a is not None else []
        tail += "".join(f", {t}" for t in [*trans, int(options.pop("trans_b", False))])
    a_words = np.zeros((1, 1), np.uint32) if registers is None else registers
    metadata = np.zeros(128, np.uint32) if sparse is None else sparse[0]
    name = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}k{k}{variant}.{d_type}.{fmt}.{b_fmt or fmt}"
    name += ending
    text = wgmma.source(
        name,
        d_count=count,
        a_count=0 if registers is None else registers.shape[-1],
        steps=steps,
        a_step=a.step if a is not None else 0,
        b_step=b.step,
        tail=tail,
        metadata=sparse[1] if sparse else False,
        **{key: options.pop(key) for key in ("fence", "wait", "meanwhile") if key in options},
    )
    scalars = {"desc_a": a.descriptor(0) if a is not None else 0, "desc_b": b.descriptor(start_b)}
    function = cuda.function(text)
    report = function.launch(
        (1, 1, 1),
        (128, 1, 1),
        [
            kernels.to_torch(image),
            image.size,
            kernels.to_torch(a_words.reshape(-1)),
            kernels.to_torch(metadata),
            kernels.to_torch(out),
            scalars["desc_a"],
            scalars["desc_b"],
            scale,
        ],
        shared_bytes=image.nbytes,
        checks="all",
        **options,
    )
    return out, report


def matrices(fmt, n, k, rng, b_fmt=None):
    a, b = random_codes(rng, (64, k), fmt), random_codes(rng, (n, k), b_fmt or fmt)
    return a, b, values_of(a, fmt), values_of(b, b_fmt or fmt).T


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("fmt", ["f16", "bf16"])
def test_layouts(fmt, trans_a, trans_b, swizzle):
    """All of one span of k (or 64 of k for the others), n of 128, every layout."""
    rng = np.random.default_rng(SEED)
    k = swizzle // 2 if swizzle else 64
    a, b, x, y = matrices(fmt, 128, k, rng)
    out, report = run(
        place(a, fmt, swizzle, trans_a),
        place(b, fmt, swizzle, trans_b),
        128,
        16,
        fmt,
        steps=k // 16,
        scale=0,
        trans_a=trans_a,
        trans_b=trans_b,
    )
    kernels.clean(report)
    want = ordered_sum(x, y, np.zeros((64, 128)))
    assert np.array_equal(wgmma.unpack_d(out, 128, np.float32), want)


TYPES = [
    ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"),
    ("e5m2", "e4m3", "f32"),
    ("e4m3", "e5m2", "f16"),
    ("f16", "f16", "f16"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("u8", "u8", "s32"),
]


@pytest.mark.parametrize("a_fmt,b_fmt,d_type", TYPES)
@pytest.mark.parametrize("n", [8, 32, 256])
@pytest.mark.parametrize("from_registers", [False, True])
def test_types(a_fmt, b_fmt, d_type, n, from_registers):
    rng = np.random.default_rng(SEED)
    k = DEPTH[BITS[a_fmt]]
    a, b, x, y = matrices(a_fmt, n, k, rng, b_fmt)
    registers = wgmma.a_registers(a, BITS[a_fmt])[None] if from_registers else None
    operand = None if from_registers else place(a, a_fmt, 32, False)
    c = rng.integers(-8, 8, (64, n))
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[d_type]
    words = pack_d(c.astype(dtype), n)
    out, report = run(
        operand,
        place(b, b_fmt, 32, False),
        n,
        k,
        a_fmt,
        b_fmt=b_fmt,
        d_type=d_type,
        c=words,
        registers=registers,
    )
    kernels.clean(report)
    got = wgmma.unpack_d(out, n, dtype)
    if a_fmt in INTEGERS:
        assert np.array_equal(got, c + x @ y)
    else:
        want = ordered_sum(x, y, c.astype(np.float32))
        if d_type == "f16":
            want = formats.encode(want.astype(np.float64), "f16", "rn", False).astype(np.uint16).view(np.float16)
        assert np.array_equal(got, want)


def pack_d(c, n):
    values = np.zeros((128, n // 2), c.dtype)
    for thread, i in np.ndindex(128, n // 2):
        values[thread, i] = c[wgmma.d_place(thread, i)]
    return values.view(np.uint32)


@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (-1, -1)])
def test_signs_and_scale(signs):
    rng = np.random.default_rng(SEED)
    a, b, x, y = matrices("f16", 16, 16, rng)
    c = rng.normal(0, 1, (64, 16)).astype(np.float32)
    for scale in (0, 1):
        out, report = run(
            place(a, "f16", 32, False),
            place(b, "f16", 32, False),
            16,
            16,
            "f16",
            signs=signs,
            scale=scale,
            c=pack_d(c, 16),
        )
        kernels.clean(report)
        want = ordered_sum(x * signs[0] * signs[1], y, c * scale)
        assert np.array_equal(wgmma.unpack_d(out, 16, np.float32), want)


def test_register_operand_over_several_steps():
    rng = np.random.default_rng(SEED)
    a, b, x, y = matrices("bf16", 64, 64, rng)
    registers = np.stack([wgmma.a_registers(a[:, 16 * s : 16 * s + 16], 16) for s in range(4)])
    out, report = run(None, place(b, "bf16", 128, False), 64, 16, "bf16", registers=registers, steps=4, scale=0)
    kernels.clean(report)
    assert np.array_equal(wgmma.unpack_d(out, 64, np.float32), ordered_sum(x, y, np.zeros((64, 64))))


SPARSE = [("f16", 32, 2), ("bf16", 32, 2), ("tf32", 16, 2), ("e4m3", 64, 1), ("s8", 64, 1)]


@pytest.mark.parametrize("fmt,k,selectors", SPARSE)
@pytest.mark.parametrize("from_registers", [False, True])
def test_sparse(fmt, k, selectors, from_registers):
    rng = np.random.default_rng(SEED)
    n = 32
    keep, codes = fragments.random_sparse(rng, 64, k, fmt)
    a, b, x, y = matrices(fmt, n, k, rng)
    compressed = a[keep].reshape(64, k // 2)
    d_type = "s32" if fmt in INTEGERS else "f32"
    for selector in range(selectors):
        metadata = np.concatenate([fragments.pack_metadata(codes[16 * w : 16 * w + 16], fmt, selector) for w in range(4)])
        registers = wgmma.a_registers(compressed, BITS[fmt])[None] if from_registers else None
        operand = None if from_registers else wgmma.k_major(raw(compressed, fmt), 32, 32)
        out, report = run(
            operand,
            wgmma.k_major(raw(b, fmt), 64, 64),
            n,
            k,
            fmt,
            d_type=d_type,
            scale=0,
            registers=registers,
            sparse=(metadata, selector),
        )
        kernels.clean(report)
        if fmt in INTEGERS:
            assert np.array_equal(wgmma.unpack_d(out, n, np.int32), np.where(keep, x, 0) @ y)
        else:
            want = ordered_sum(np.where(keep, x, 0), y, np.zeros((64, n)))
            assert np.array_equal(wgmma.unpack_d(out, n, np.float32), want)


def test_integer_saturation():
    a, b = np.full((64, 32), 0x7F, np.uint64), np.full((8, 32), 0x7F, np.uint64)
    c = np.full((64, 8), 2**31 - 5, np.int32)
    operands = place(a, "s8", 32, False), place(b, "s8", 32, False)
    out, report = run(*operands, 8, 32, "s8", d_type="s32", c=pack_d(c, 8), variant=".satfinite")
    kernels.clean(report)
    assert np.all(wgmma.unpack_d(out, 8, np.int32) == 2**31 - 1)


@pytest.mark.parametrize("from_registers", [False, True])
def test_bits(from_registers):
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(0, 256, (64, 32)).astype(np.uint64), rng.integers(0, 256, (16, 32)).astype(np.uint64)
    registers = wgmma.a_registers(a, 8)[None] if from_registers else None
    operand = None if from_registers else place(a, "u8", 32, False)
    image = place(b, "u8", 32, False)
    out, report = run(operand, image, 16, 256, "b1", d_type="s32", scale=0, registers=registers, ending=".and.popc")
    kernels.clean(report)
    common = np.unpackbits((a[:, None] & b[None]).astype(np.uint8), axis=-1).sum(axis=-1)
    assert np.array_equal(wgmma.unpack_d(out, 16, np.int32), common)


def small(**options):
    a, b, x, y = matrices("f16", 16, 16, np.random.default_rng(SEED))
    out, report = run(place(a, "f16", 32, False), place(b, "f16", 32, False), 16, 16, "f16", scale=0, **options)
    return out, report, ordered_sum(x, y, np.zeros((64, 16)))


def test_results_before_the_wait_are_poison():
    out, _, _ = small(wait=False)
    assert np.all(out == 0xFFFFFFFF)


def test_overwriting_an_operand_before_the_wait_is_found():
    out, report, want = small(meanwhile="memory[t] = 0x3c003c00;")
    assert "race" in cuda.kinds(report)
    assert not np.array_equal(wgmma.unpack_d(out, 16, np.float32), want)


def test_missing_fence_is_reported():
    out, report, want = small(fence=False)
    assert cuda.kinds(report) == {"async"}
    assert np.array_equal(wgmma.unpack_d(out, 16, np.float32), want)


def test_unsound_descriptors_are_reported():
    a, b, _, _ = matrices("f16", 16, 16, np.random.default_rng(SEED))
    a, b = place(a, "f16", 32, False), place(b, "f16", 32, False)
    flat = wgmma.Operand(b.image, 0, 0, 32, 0)
    assert cuda.kinds(run(a, flat, 16, 16, "f16")[1]) == {"descriptor"}
    far = wgmma.Operand(b.image, 0, 65536, 32, 0)
    out, report = run(a, far, 16, 16, "f16")
    assert cuda.kinds(report) == {"out-of-bounds"}
    assert np.all(out == 0xFFFFFFFF)
