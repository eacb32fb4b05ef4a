"""One instruction over arrays of operands, and exact Python models of PTX arithmetic."""

import itertools

import numpy as np

from . import kernels

#: PTX type -> NumPy type of its bits as the models see them.
DTYPES = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64, "f32": np.float32, "f64": np.float64,
    "f16": np.float16, "pred": np.uint32,
}  # fmt: skip
CORNERS = {
    "i": [0, 1, 2, 3, 7, 31, 32, 33, -1, -2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
          0x7FFFFFFFFFFFFFFF, 0x8000000000000000],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.75, 1e-40, -1e-40, 1e30, -1e30, 65504.0, np.inf, -np.inf, np.nan, 2.0**31,
          -(2.0**31), 2.0**32, 1e10, 0.1],
}  # fmt: skip
LANES = 256


def operands(types, seed: int) -> list[np.ndarray]:
    """LANES values per operand: pairs of corner values first, then random ones."""
    rng = np.random.default_rng(seed)
    columns = [_values(t, rng) for t in types]
    heads = list(itertools.islice(itertools.product(*[c[: len(c) // 12] for c in columns]), LANES // 2))
    out = []
    for i, column in enumerate(columns):
        head = np.array([h[i] for h in heads], column.dtype)
        out.append(np.concatenate([head, rng.permutation(column)[: LANES - len(head)]]))
    return out


def _values(type_name: str, rng) -> np.ndarray:
    dtype = np.dtype(DTYPES[type_name])
    count = 12 * len(CORNERS["i"])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            corners = np.array(CORNERS["f"], np.float64).astype(dtype)
            random = (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 7, count)).astype(dtype)
        return np.concatenate([rng.permutation(corners), random])
    bits = np.array([v & 0xFFFFFFFFFFFFFFFF for v in CORNERS["i"]], np.uint64)
    random = rng.integers(0, 2**64, count, dtype=np.uint64) >> rng.integers(0, 64, count, dtype=np.uint64)
    unsigned = np.concatenate([rng.permutation(bits), random]).astype(f"u{dtype.itemsize}")
    return unsigned.view(dtype)


def run(instruction: str, result: str, types, arrays, target="sm_90a") -> np.ndarray:
    """Executes `instruction` (operands {d}, {a}, {b}, {c}) for every element; a `pred` result comes as 0 or 1."""
    names = "abcd"[: len(types)]
    body = [".visible .entry k(" + ", ".join(f".param .u64 p{i}" for i in range(len(types) + 1)) + ") {"]
    body.append(".reg .b32 %t; .reg .b64 %p, %o; .reg .pred %q; .reg .b32 %r;")
    body.append("mov.u32 %t, %tid.x;")
    widths = [DTYPES[t]().itemsize for t in types]
    for name, width, index in zip(names, widths, range(len(types)), strict=True):
        body.append(f".reg .b{max(width, 2) * 8} %{name};" if width > 1 else f".reg .b16 %{name};")
        body += _address(index, width)
        body.append(f"ld.global.{'b' if width > 1 else 'u'}{width * 8} %{name}, [%p];")
    width = DTYPES[result]().itemsize
    if result == "pred":
        body.append(".reg .pred %d;")
    else:
        body.append(f".reg .b{max(width, 2) * 8} %d;")
    body.append(instruction.format(d="%d", **{n: "%" + n for n in names}))
    body += _address(len(types), width)
    body.append("selp.u32 %r, 1, 0, %d;\nst.global.u32 [%p], %r;" if result == "pred" else f"st.global.b{width * 8} [%p], %d;")
    body.append("ret; }")
    out = np.zeros(LANES, DTYPES[result])
    kernels.clean(kernels.launch("\n".join(body), "k", [*arrays, out], LANES, target=target))
    return out


def _address(parameter: int, width: int) -> list[str]:
    return [f"ld.param.u64 %p, [p{parameter}];", f"mul.wide.u32 %o, %t, {width};", "add.u64 %p, %p, %o;"]


def wrap(value: int, type_name: str) -> int:
    """An exact integer reduced into the type."""
    dtype = np.dtype(DTYPES[type_name])
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal bit for bit, except that all NaNs are alike."""
    if got.dtype.kind == "f":
        nan = np.isnan(want)
        bits = f"u{got.itemsize}"
        return bool(np.array_equal(np.isnan(got), nan) and np.array_equal(got[~nan].view(bits), want[~nan].view(bits)))
    return bool(np.array_equal(got, want))


def explain(got: np.ndarray, want: np.ndarray, arrays) -> str:
    """The first elements that differ."""
    bad = [i for i in range(len(got)) if not same(got[i : i + 1], want[i : i + 1])][:4]
    return "; ".join(f"{[a[i] for a in arrays]} -> {got[i]!r}, expected {want[i]!r}" for i in bad)
