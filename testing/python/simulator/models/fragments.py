"""Where the elements of mma fragments live, element by element as the PTX ISA states it.

For each operand a function gives (row, column) of element `i` of a lane's fragment; elements are
numbered from the low bits of the first register up.
"""

import numpy as np

BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "f64": 64,
    "b1": 1,
}


def a_place(lane: int, i: int, m: int, bits: int) -> tuple[int, int]:
    """Element i of operand A: 8-row blocks alternate fastest, then steps of four registers' columns."""
    group, member = lane >> 2, lane % 4
    if bits in (32, 64):
        # m16n8k4/k8/k16 of tf32 and f64: one element a register.
        if m == 8:
            return group, member + 4 * i
        return group + 8 * (i % 2), member + 4 * (i // 2)
    per = 32 // bits
    register, inside = divmod(i, per)
    if m == 8:
        return group, member * per + inside + register * 4 * per
    return group + (8 if register in (1, 3) else 0), member * per + inside + (4 * per if register >= 2 else 0)


def b_place(lane: int, i: int, bits: int) -> tuple[int, int]:
    """Element i of operand B: (row along k, column)."""
    group, member = lane >> 2, lane % 4
    if bits in (32, 64):
        return member + 4 * i, group
    per = 32 // bits
    return member * per + i % per + i // per * 4 * per, group


def c_place(lane: int, i: int) -> tuple[int, int]:
    """Accumulator i of a lane (m16n8; m8n8 has only the first two)."""
    group, member = lane >> 2, lane % 4
    return group + (8 if i >= 2 else 0), member * 2 + (i & 1)


def pack(codes: np.ndarray, place, bits: int, count: int) -> np.ndarray:
    """Registers [lane, register] (uint32, or uint64 for 64-bit elements) of a matrix of element codes."""
    width = 64 if bits == 64 else 32
    per = width // bits
    words = np.zeros((32, max(count // per, 1)), dtype=np.uint64)
    for lane in range(32):
        for i in range(count):
            words[lane, i // per] |= np.uint64(int(codes[place(lane, i)])) << np.uint64(i % per * bits)
    return words.astype(np.uint64 if width == 64 else np.uint32)


def unpack(words: np.ndarray, place, bits: int, count: int, shape: tuple[int, int]) -> np.ndarray:
    """The matrix of element codes that registers [lane, register] hold."""
    per = (64 if bits == 64 else 32) // bits
    mask = np.uint64(2**bits - 1) if bits < 64 else np.uint64(2**64 - 1)
    out = np.zeros(shape, dtype=np.uint64)
    for lane in range(32):
        for i in range(count):
            out[place(lane, i)] = np.uint64(words[lane, i // per]) >> np.uint64(i % per * bits) & mask
    return out


# ----------------------------------------------------------------------------------------------------
# m8n8k4 of f16: four products, one for each pair of quads


def quad_pair_lanes(product: int) -> list[int]:
    """The eight lanes of a product, in the order of their rows."""
    return [4 * product + i for i in range(4)] + [16 + 4 * product + i for i in range(4)]


def quad_pair_a(lane: int, i: int, column_major: bool) -> tuple[int, int]:
    upper = 0 if lane < 16 else 4
    return (i % 4 + upper, lane % 4) if column_major else (lane % 4 + upper, i)


def quad_pair_b(lane: int, i: int, row_major: bool) -> tuple[int, int]:
    upper = 0 if lane < 16 else 4
    return (lane % 4, i + upper) if row_major else (i, lane % 4 + upper)


def quad_pair_c(lane: int, i: int, bits: int) -> tuple[int, int]:
    upper = 0 if lane < 16 else 4
    if bits == 16:
        return lane % 4 + upper, i
    return (lane & 1) + upper + (i & 2), (i & 4) + (lane & 2) + (i & 1)


# ----------------------------------------------------------------------------------------------------
# 2:4 sparsity


def random_sparse(rng: np.random.Generator, rows: int, k: int, fmt: str) -> tuple[np.ndarray, np.ndarray]:
    """(keep mask [rows, k], group codes [rows, groups]) of a structured sparse matrix."""
    keep = np.zeros((rows, k), dtype=bool)
    if fmt == "tf32":
        picked = rng.integers(0, 2, (rows, k // 2))
        for r, g in np.ndindex(*picked.shape):
            keep[r, 2 * g + picked[r, g]] = True
        return keep, np.where(picked == 1, 0xE, 0x4)
    unit = 2 if fmt in ("s4", "u4") else 1
    groups = k // (4 * unit)
    codes = np.zeros((rows, groups), dtype=np.int64)
    for r, g in np.ndindex(rows, groups):
        first, second = sorted(rng.choice(4, 2, replace=False))
        codes[r, g] = first | second << 2
        for index in (first, second):
            start = (4 * g + index) * unit
            keep[r, start : start + unit] = True
    return keep, codes


def pack_metadata(codes: np.ndarray, fmt: str, selector: int) -> np.ndarray:
    """Metadata registers of the 32 lanes; lanes that supply none hold noise.

    16- and 32-bit elements: the contributing lanes of a quad hold 4 groups of row g (low half) and of
    row g + 8 (high half) each. 8- and 4-bit elements: 8 groups of one row each, rows g and g + 8 in turn.
    """
    words = np.full(32, 0xDEADBEEF, dtype=np.uint64)
    groups = codes.shape[1]
    halves = BITS[fmt] >= 16
    contributing = groups // 4 if halves else groups // 8 * 2
    for row in range(16):
        for group in range(groups):
            if halves:
                member, shift = group // 4, 16 * (row // 8) + 4 * (group % 4)
            else:
                member, shift = group // 8 * 2 + row // 8, 4 * (group % 8)
            lane = row % 8 * 4 + selector * contributing + member
            clear = np.uint64(~(0xF << shift) & 0xFFFFFFFF)
            words[lane] = words[lane] & clear | np.uint64(int(codes[row, group]) << shift)
    return words.astype(np.uint32)
