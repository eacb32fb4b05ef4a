"""What a tensor copy moves, in NumPy: boxes, fills, and the layout of swizzled tiles."""

import itertools

import numpy as np

from tilelang.simulator import native

TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # span in bytes: the driver's number


def encode(type_name, array, box, *, swizzle=0, fill=0, element_strides=None, strides=None, extents=None) -> bytes:
    """A tiled map of a NumPy array; `box` and everything else is innermost dimension first."""
    extents = extents or array.shape[::-1]
    strides = strides or array.strides[::-1][1:]
    steps = element_strides or [1] * len(extents)
    function = native.function("encode_tensor_map_tiled")
    address = array.__array_interface__["data"][0]
    number, span = TYPES[type_name], SWIZZLES[swizzle]
    return bytes(function(number, address, list(extents), list(strides), list(box), list(steps), 0, span, 0, fill))


def read_box(array: np.ndarray, corner, box, fill, element_strides=None) -> np.ndarray:
    """The elements of a box (innermost first arguments, array order result); `fill` outside the array."""
    steps = element_strides or [1] * len(box)
    counts = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    out = np.full(counts[::-1], fill, dtype=array.dtype)
    for index in np.ndindex(*out.shape):
        place = [c + i * s for c, i, s in zip(corner, index[::-1], steps, strict=True)]
        if all(0 <= p < n for p, n in zip(place, array.shape[::-1], strict=True)):
            out[index] = array[tuple(place[::-1])]
    return out


def im2col_box(array, corner, offsets, lower, upper, channels, pixels, steps, fill) -> np.ndarray:
    """[pixels, channels] of an image batch [N, (D, H,) W, C]; arguments innermost first.

    Pixels run through the bounding box [lower, extent - 1 + upper] of every spatial dimension.
    """
    spatial = array.shape[1:-1][::-1]
    ranges = [range(lo, n + up, s) for lo, n, up, s in zip(lower, spatial, upper, steps, strict=True)]
    positions = [
        (*place[::-1], image) for image in range(corner[-1], array.shape[0] + 2) for place in itertools.product(*reversed(ranges))
    ]
    start = positions.index(tuple(corner[1:]))
    out = np.full((pixels, channels), fill, dtype=array.dtype)
    for row in range(pixels):
        if start + row >= len(positions):
            continue
        *place, image = positions[start + row]
        place = [p + o for p, o in zip(place, offsets, strict=True)]
        if image >= array.shape[0] or not all(0 <= p < n for p, n in zip(place, spatial, strict=True)):
            continue
        for c in range(channels):
            if 0 <= corner[0] + c < array.shape[-1]:
                out[row, c] = array[(image, *place[::-1], corner[0] + c)]
    return out


def swizzled_offset(offset: int, span: int) -> int:
    """Where a byte of the plain tile lies; the tile begins on a 1024-byte boundary."""
    if span == 0:
        return offset
    chunk, line = offset // 16 % (span // 16), offset // 128
    return offset // span * span + (chunk ^ line % (span // 16)) * 16 + offset % 16


def shared_image(tile: np.ndarray, span: int, total: int, untouched: int) -> np.ndarray:
    """Bytes of shared memory after a tile was loaded at its start; rows are at least a span apart."""
    rows = np.ascontiguousarray(tile).view(np.uint8).reshape(-1, tile.shape[-1] * tile.itemsize)
    image = np.full(total, untouched, np.uint8)
    pitch = span or rows.shape[1]
    for r, row in enumerate(rows):
        for b, value in enumerate(row):
            image[swizzled_offset(r * pitch + b, span)] = value
    return image
