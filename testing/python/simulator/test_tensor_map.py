"""Tensor maps and cp.async.bulk.tensor against NumPy: boxes, fills, swizzles, strides, stores, reductions, im2col."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels, tensors
from tilelang.simulator import native

SEED = 20240619
BYTES = 16384
UNTOUCHED = 0x5A
NUMPY = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.uint16,
}


def asm_coordinates(rank, first):
    return "{" + ", ".join(f"%{first + i}" for i in range(rank)) + "}", ", ".join(f'"r"(c{i})' for i in range(rank))


def load_source(rank, expected, mode="", offsets=()):
    text, operands = asm_coordinates(rank, 3)
    tail = ", {" + ", ".join(f"%{3 + rank + i}" for i in range(len(offsets))) + "}" if offsets else ""
    extra = "".join(f', "h"((u16){o})' for o in offsets)
    arguments = ", ".join(f"int c{i}" for i in range(rank))
    return f"""
extern "C" __global__ void k(u8* out, const __grid_constant__ Map map, {arguments}) {{
  extern __shared__ __align__(1024) u8 tile[];
  __shared__ u64 barrier;
  for (int i = threadIdx.x; i < {BYTES}; i += 128) tile[i] = {UNTOUCHED};
  fence_async();
  if (threadIdx.x == 0) {{ barrier_init(&barrier, 1); fence_barrier_init(); }}
  __syncthreads();
  if (threadIdx.x == 0) {{
    barrier_expect(&barrier, {expected});
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes "
      "[%0], [%1, {text}], [%2]{tail};"
      :: "r"(shared_address(tile)), "l"(&map), "r"(shared_address(&barrier)), {operands}{extra} : "memory");
  }}
  barrier_wait(&barrier, 0);
  for (int i = threadIdx.x; i < {BYTES}; i += 128) out[i] = tile[i];
}}"""


def load(array, type_name, box, corner, **encoding):
    """Shared memory after loading one box, and what it should hold."""
    blob = tensors.encode(type_name, array, box, **encoding)
    fill = np.array(0, array.dtype)
    if encoding.get("fill"):
        pattern = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}[array.itemsize]
        fill = np.array(pattern, f"u{array.itemsize}").view(array.dtype)
    # Integers of the same width compare NaN fills bit for bit.
    bits = array.view(f"u{array.itemsize}")
    tile = tensors.read_box(bits, corner, box, fill.view(bits.dtype), encoding.get("element_strides"))
    out = np.zeros(BYTES, np.uint8)
    # The array comes along so that its memory is known to the launch.
    source = load_source(len(box), tile.nbytes).replace("k(u8* out,", "k(u8* out, const u8* array,")
    kernels.clean(cuda.run(source, [out, array.view(np.uint8).reshape(-1)], 128, scalars=[blob, *corner], shared_bytes=BYTES))
    return out, tensors.shared_image(tile, encoding.get("swizzle", 0), BYTES, UNTOUCHED)


def random_array(rng, shape, dtype):
    return rng.integers(0, 256, (*shape[:-1], shape[-1] * np.dtype(dtype).itemsize)).astype(np.uint8).view(dtype)


LOADS = [
    # type, shape (outermost first), box, corner (innermost first), encoding
    ("u8", (256,), (64,), (32,), {}),
    ("f32", (40,), (16,), (32,), {}),
    ("f16", (32, 64), (64, 16), (0, 8), {"swizzle": 128}),
    ("f16", (32, 64), (32, 16), (32, 8), {"swizzle": 64}),
    ("f16", (32, 64), (16, 16), (16, 3), {"swizzle": 32}),
    ("f16", (32, 64), (64, 32), (0, 0), {}),
    ("bf16", (20, 40), (64, 16), (-8, -5), {"swizzle": 128}),
    ("bf16", (20, 40), (64, 16), (24, 12), {"swizzle": 128, "fill": 1}),
    ("f32", (20, 40), (32, 8), (30, 18), {"swizzle": 128, "fill": 1}),
    ("f64", (9, 10), (16, 4), (4, 7), {"swizzle": 128, "fill": 1}),
    ("u8", (50, 112), (128, 8), (100, 45), {"swizzle": 128}),
    ("s32", (6, 7, 8), (8, 3, 2), (0, 5, 1), {"swizzle": 32}),
    ("u64", (3, 4, 5, 6), (6, 2, 2, 2), (0, 1, 4, 2), {}),
    ("f16", (2, 3, 4, 5, 8), (8, 2, 2, 2, 2), (0, 4, 1, -1, 1), {}),
    ("u16", (40, 16), (16, 12), (0, 3), {"element_strides": (1, 3)}),
    ("u32", (9, 20, 8), (8, 8, 4), (0, 2, 1), {"element_strides": (1, 4, 2), "swizzle": 32}),
    ("f16", (32, 64), (64, 4), (1000, 0), {"swizzle": 128}),
    ("f16", (32, 64), (32, 8), (8, 2), {"swizzle": 128}),
]


@pytest.mark.parametrize("case", LOADS, ids=lambda c: "-".join(map(str, c[:4])))
def test_load(case):
    type_name, shape, box, corner, encoding = case
    array = random_array(np.random.default_rng(SEED), shape, NUMPY[type_name])
    got, want = load(array, type_name, box, corner, **encoding)
    assert np.array_equal(got, want)


def test_padded_strides_and_a_narrower_view():
    rng = np.random.default_rng(SEED)
    whole = random_array(rng, (16, 96), np.float16)
    view = whole[:, :72]  # rows stay 192 bytes apart
    blob = tensors.encode("f16", view, (64, 8), swizzle=128)
    out = np.zeros(BYTES, np.uint8)
    source = load_source(2, 1024).replace("k(u8* out,", "k(u8* out, const u8* array,")
    kernels.clean(cuda.run(source, [out, whole.view(np.uint8).reshape(-1)], 128, scalars=[blob, 40, 4], shared_bytes=BYTES))
    tile = tensors.read_box(np.ascontiguousarray(view), (40, 4), (64, 8), 0)
    assert np.array_equal(out, tensors.shared_image(tile, 128, BYTES, UNTOUCHED))


def store_source(rank, operation):
    text, operands = asm_coordinates(rank, 2)
    arguments = ", ".join(f"int c{i}" for i in range(rank))
    head = f"cp.reduce.async.bulk.tensor.{rank}d" if operation else f"cp.async.bulk.tensor.{rank}d"
    return f"""
extern "C" __global__ void k(const u8* in, u8* array, const __grid_constant__ Map map, {arguments}) {{
  extern __shared__ __align__(1024) u8 tile[];
  for (int i = threadIdx.x; i < {BYTES}; i += 128) tile[i] = in[i];
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {{
    asm volatile("{head}.global.shared::cta{operation}.tile.bulk_group [%0, {text}], [%1];"
      :: "l"(&map), "r"(shared_address(tile)), {operands} : "memory");
    bulk_commit(); bulk_wait();
  }}
}}"""


STORES = [
    ("f16", (32, 64), (64, 16), (0, 8), 128),
    ("f16", (20, 40), (32, 16), (24, 12), 64),
    ("u8", (50, 112), (32, 8), (-16, -3), 32),
    ("f32", (6, 7, 8), (8, 3, 2), (4, 5, 1), 0),
    ("u16", (2, 3, 4, 5, 8), (8, 2, 2, 2, 2), (0, 4, 1, -1, 1), 0),
]


@pytest.mark.parametrize("case", STORES, ids=lambda c: "-".join(map(str, c[:4])))
def test_store_drops_what_lies_outside(case):
    type_name, shape, box, corner, span = case
    rng = np.random.default_rng(SEED)
    array = random_array(rng, shape, NUMPY[type_name])
    tile = random_array(rng, box[::-1], NUMPY[type_name])
    want = array.copy()
    for index in np.ndindex(*tile.shape):
        place = tuple(c + i for c, i in zip(corner[::-1], index, strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            want[place] = tile[index]
    image = tensors.shared_image(tile, span, BYTES, UNTOUCHED)
    blob = tensors.encode(type_name, array, box, swizzle=span)
    flat = array.view(np.uint8).reshape(-1)
    kernels.clean(cuda.run(store_source(len(box), ""), [image, flat], 128, scalars=[blob, *corner], shared_bytes=BYTES))
    assert np.array_equal(flat, want.view(np.uint8).reshape(-1))


REDUCTIONS = [
    ("add", "f32", np.add),
    ("add", "f16", np.add),
    ("min", "s32", np.minimum),
    ("max", "u32", np.maximum),
    ("and", "u32", np.bitwise_and),
    ("or", "u64", np.bitwise_or),
    ("xor", "u32", np.bitwise_xor),
]


@pytest.mark.parametrize("operation,type_name,function", REDUCTIONS, ids=[f"{o}-{t}" for o, t, _ in REDUCTIONS])
def test_reducing_store(operation, type_name, function):
    rng = np.random.default_rng(SEED)
    dtype = NUMPY[type_name]
    array = rng.integers(0, 100, (12, 32)).astype(dtype)
    tile = rng.integers(0, 100, (8, 16)).astype(dtype)
    want = array.copy()
    want[6:12, 24:32] = function(array[6:12, 24:32], tile[:6, :8])
    image = tensors.shared_image(tile, 0, BYTES, UNTOUCHED)
    blob = tensors.encode(type_name, array, (16, 8))
    flat = array.view(np.uint8).reshape(-1)
    source = store_source(2, "." + operation)
    kernels.clean(cuda.run(source, [image, flat], 128, scalars=[blob, 24, 6], shared_bytes=BYTES))
    assert np.array_equal(flat, want.view(np.uint8).reshape(-1))


def test_im2col():
    rng = np.random.default_rng(SEED)
    image = random_array(rng, (3, 7, 9, 32), np.float16)  # N, H, W, C
    lower, upper, steps = (-1, -1), (-1, -1), (1, 1)
    channels, pixels = 32, 64
    function = native.function("encode_tensor_map_im2col")
    address = image.__array_interface__["data"][0]
    strides = list(image.strides[::-1][1:])
    blob = function(
        6,
        address,
        [32, 9, 7, 3],
        strides,
        list(lower),
        list(upper),
        channels,
        pixels,
        [1, *steps, 1],
        0,
        2,
        0,
        0,
    )
    for offsets in [(0, 0), (1, 2), (2, 0)]:
        corner = (0, 3, 2, 0)
        tile = tensors.im2col_box(image, corner, offsets, lower, upper, channels, pixels, steps, 0)
        out = np.zeros(BYTES, np.uint8)
        source = load_source(4, tile.nbytes, ".im2col", offsets).replace("k(u8* out,", "k(u8* out, const u8* array,")
        flat = image.view(np.uint8).reshape(-1)
        kernels.clean(cuda.run(source, [out, flat], 128, scalars=[blob, *corner], shared_bytes=BYTES))
        assert np.array_equal(out, tensors.shared_image(tile, 64, BYTES, UNTOUCHED))


WRONG = [
    ("16-byte aligned", {"extents": (64, 32), "shift": 8}),
    ("multiple of 16 bytes", {"strides": (130,)}),
    ("must lie in 1..256", {"box": (64, 257)}),
    ("must lie in 1..256", {"box": (64, 0)}),
    ("no multiple of 16", {"box": (12, 8)}),
    ("more than the swizzle's 64", {"box": (64, 8), "swizzle": 64}),
    ("must lie in 1..8", {"element_strides": (1, 9)}),
    ("globalDim", {"extents": (64, 0)}),
    ("floating-point", {"type": "u16", "fill": 1}),
    ("boxDim needs 2 entries", {"box": (64,)}),
]


@pytest.mark.parametrize("message,change", WRONG, ids=[f"{m}-{i}" for i, (m, _) in enumerate(WRONG)])
def test_wrong_arguments_are_named(message, change):
    array = np.zeros((40, 64), np.float16)
    change = dict(change)
    type_name, box, shift = change.pop("type", "f16"), change.pop("box", (64, 8)), change.pop("shift", 0)
    if shift:
        array = array.reshape(-1)[shift // 2 : shift // 2 + 32 * 64].reshape(32, 64)
    with pytest.raises(ValueError, match=message):
        tensors.encode(type_name, array, box, **change)


def test_cache_hint_and_prefetch_change_nothing():
    array = random_array(np.random.default_rng(SEED), (32, 64), np.float16)
    blob = tensors.encode("f16", array, (64, 8), swizzle=128)
    source = load_source(2, 1024).replace("k(u8* out,", "k(u8* out, const u8* array,")
    source = source.replace("complete_tx::bytes ", "complete_tx::bytes.L2::cache_hint ").replace("[%2];", "[%2], %5;")
    source = source.replace('"r"(c0), "r"(c1)', '"r"(c0), "r"(c1), "l"(0x1000000000000000ull)')
    prefetch = """asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" :: "l"(&map), "r"(c0), "r"(c1));
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" :: "l"(array));
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map));
    barrier_expect"""
    out, flat = np.zeros(BYTES, np.uint8), array.view(np.uint8).reshape(-1)
    kernels.clean(
        cuda.run(source.replace("barrier_expect", prefetch), [out, flat], 128, scalars=[blob, 0, 4], shared_bytes=BYTES)
    )
    tile = tensors.read_box(array, (0, 4), (64, 8), 0)
    assert np.array_equal(out, tensors.shared_image(tile, 128, BYTES, UNTOUCHED))


def test_a_misaligned_tile_and_an_invalid_tensor_map_are_reported():
    array = np.zeros((32, 64), np.float16)
    source = load_source(2, 1024).replace("k(u8* out,", "k(u8* out, const u8* array,")
    blob = tensors.encode("f16", array, (64, 8), swizzle=128)
    arrays = [np.zeros(BYTES, np.uint8), array.view(np.uint8).reshape(-1)]
    moved = source.replace('"r"(shared_address(tile))', '"r"(shared_address(tile) + 64)')
    assert "misaligned" in cuda.kinds(cuda.run(moved, arrays, 128, scalars=[blob, 0, 0], shared_bytes=BYTES))
    waitless = source.replace("barrier_wait(&barrier, 0);", "__syncthreads();")
    assert "descriptor" in cuda.kinds(cuda.run(waitless, arrays, 128, scalars=[bytes(128), 0, 0], shared_bytes=BYTES))
