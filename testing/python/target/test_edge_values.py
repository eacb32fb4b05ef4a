"""What C++ leaves open is defined, and the same on every target: casts out of range, division by zero, long shifts, overflow."""

from __future__ import annotations

import math
import operator

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import run
from testing.python.target.test_integers import DTYPES, bits_of, corner_values, each_language, elementwise, tensor, wrapped

EDGES = [
    0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.0, -1.0, 2.5, -2.5, 127.5, 128.0, -128.9, -129.0, 255.9, 256.0, 32767.0, 32768.0,
    -32769.0, 65535.0, 65536.0, 2147483520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0,
    4294967296.0, 1e10, 9223371487098961920.0, 2.0**63, -(2.0**63), 1.8446742974197924e19, 2.0**64, 1e30, -1e30, math.inf,
    -math.inf, math.nan,
]  # fmt: skip


def truncated(value: float, dtype: str) -> int:
    """The integer that a float becomes."""
    held = dtype if bits_of(dtype) >= 32 else "int32"
    bits, signed = bits_of(held), held.startswith("int")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return 0 if math.isnan(value) else wrapped(high if value > high else low if value < low else int(value), dtype)


@each_language
@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
def test_floats_out_of_range_saturate_in_32_bits_and_more(source, target):
    rows = 2 * len(DTYPES)

    @T.prim_func
    def main(A: T.Tensor((len(EDGES),), source), Y: T.Tensor((rows, len(EDGES)), "int64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(len(EDGES)):
                for row, dtype in enumerate(DTYPES):
                    Y[row, i] = T.cast(T.cast(A[i], dtype), "int64")
                    limited = T.clamp(A[i], T.cast(-100.0, source), T.cast(100.0, source))
                    Y[len(DTYPES) + row, i] = T.cast(T.cast(limited, dtype), "int64")

    values = torch.tensor(EDGES, dtype=torch.float64).to(getattr(torch, source))
    got = run(main, target, values)
    limited = values.clamp(-100, 100).tolist()
    for row, dtype in enumerate(DTYPES):
        for of, result in ((values.tolist(), got[row]), (limited, got[len(DTYPES) + row])):
            assert result.tolist() == [wrapped(truncated(value, dtype), "int64") for value in of], dtype


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_constants_become_the_same_integers(dtype):
    @T.prim_func
    def main(Y: T.Tensor((len(EDGES),), dtype)):
        with T.Kernel(1, threads=32):
            for place, value in enumerate(EDGES):
                Y[place] = T.cast(T.float64(value), dtype)

    assert torch.equal(run(main, "cpu"), tensor([truncated(value, dtype) for value in EDGES], dtype))


def truncated_quotient(a: int, b: int) -> int:
    """Division that rounds towards zero; by zero, zero."""
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


def shifted(a: int, b: int, bits: int) -> int:
    """``a`` to the left, or to the right where ``bits`` is negative; by that many bits or more, all bits leave."""
    inside = 0 <= b < abs(bits)
    if bits > 0:
        return a << b if inside else 0
    return a >> (b if inside else -bits)


DIVISIONS = {
    "a // b": (lambda a, b: a // b, lambda a, b, _: a // b if b else 0),
    "a % b": (lambda a, b: a % b, lambda a, b, _: a % b if b else 0),
    "truncdiv": (T.truncdiv, lambda a, b, _: truncated_quotient(a, b)),
    "truncmod": (T.truncmod, lambda a, b, _: a - b * truncated_quotient(a, b) if b else 0),
    "both sides of a Select": (lambda a, b: T.Select(b != 0, a // b, a), lambda a, b, _: a // b if b else a),
}
SHIFTS = {
    "a << b": (lambda a, b: a << b, lambda a, b, bits: shifted(a, b, bits)),
    "a >> b": (lambda a, b: a >> b, lambda a, b, bits: shifted(a, b, -bits)),
    "a << (b & 7)": (lambda a, b: a << (b & 7), lambda a, b, bits: shifted(a, b & 7, bits)),
}


@each_language
@pytest.mark.parametrize("dtype", DTYPES)
def test_divisions_by_zero_and_long_shifts(dtype, target):
    bits = bits_of(dtype)
    values = corner_values(dtype)
    amounts = [bits - 1, bits, bits + 1, 31, 32, 33, 63, 64]
    pairs = [(a, b) for a in values for b in values + amounts]
    table = {**DIVISIONS, **SHIFTS}
    program = elementwise([kernel for kernel, _ in table.values()], dtype, dtype, len(pairs))
    got = run(program, target, tensor([a for a, _ in pairs], dtype), tensor([b for _, b in pairs], dtype))
    for row, (name, (_, python)) in zip(got, table.items(), strict=True):
        assert torch.equal(row, tensor([wrapped(python(a, b, bits), dtype) for a, b in pairs], dtype)), name


class Wrapping(int):
    """An integer of a type; operations wrap around."""

    dtype = "int64"


def _wrapping(name: str):
    operation = getattr(operator, name)

    def apply(*operands: int) -> Wrapping:
        kind = type(operands[0])
        return kind(wrapped(operation(*map(int, operands)), kind.dtype))

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod", "rshift", "neg"):
    setattr(Wrapping, f"__{_name}__", _wrapping(_name))


class Wrapping32(Wrapping):
    """The same in 32 bits."""

    dtype = "int32"


OVERFLOWING = {
    "a + b > a": lambda a, b: (a + b) > a,
    "a - b < a": lambda a, b: (a - b) < a,
    "a * b // 2": lambda a, b: (a * b) // 2,
    "a * b % 7": lambda a, b: (a * b) % 7,
    "-a // 3": lambda a, b: (-a) // 3,
    "(a + b) >> 1": lambda a, b: (a + b) >> 1,
}


@each_language
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_wide_signed_integers_wrap_before_they_are_used(dtype, target):
    pairs = [(a, b) for a in corner_values(dtype) for b in corner_values(dtype)]
    kind = Wrapping32 if dtype == "int32" else Wrapping
    program = elementwise(list(OVERFLOWING.values()), dtype, dtype, len(pairs))
    got = run(program, target, tensor([a for a, _ in pairs], dtype), tensor([b for _, b in pairs], dtype))
    for row, (name, function) in zip(got, OVERFLOWING.items(), strict=True):
        expected = [int(function(kind(a), kind(b))) for a, b in pairs]
        assert torch.equal(row, tensor(expected, dtype)), name


@each_language
def test_hashes_of_loop_variables_wrap(target):
    @T.prim_func
    def main(Y: T.Tensor((2, 256), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                Y[0, i] = (i * 1103515245 + 12345) % 1000
                Y[1, i] = (i * 1103515245 + 12345) >> 16

    hashes = [wrapped(i * 1103515245 + 12345, "int32") for i in range(256)]
    assert run(main, target).tolist() == [[value % 1000 for value in hashes], [value >> 16 for value in hashes]]


ZEROS = {
    "0.0 - x": lambda x: 0.0 - x,
    "-x": lambda x: -x,
    "-x + 0.0": lambda x: -x + 0.0,
    "-x - -0.0": lambda x: -x - T.float32(-0.0),
    "x * -1.0": lambda x: x * -1.0,
    "x * 0.0 - x": lambda x: x * 0.0 - x,
    "0.0 - abs(x)": lambda x: 0.0 - T.abs(x),
    "0.0 - (x != 0.0)": lambda x: 0.0 - T.if_then_else(x != 0.0, T.float32(1.0), T.float32(0.0)),
}


@each_language
@pytest.mark.parametrize("source", ["int32", "uint8", "bool"])
def test_zeros_made_of_integers_have_their_sign(source, target):
    @T.prim_func
    def main(A: T.Tensor((2,), source), B: T.Tensor((len(ZEROS), 2), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2):
                for k, function in enumerate(ZEROS.values()):
                    B[k, i] = function(T.cast(A[i], "float32"))

    got = run(main, target, torch.tensor([0, 1]).to(getattr(torch, source)))
    signs = [1, -1, 1, 1, -1, 1, 1, 1]
    assert {name: math.copysign(1, value) for name, value in zip(ZEROS, got[:, 0])} == dict(zip(ZEROS, signs))


@each_language
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_larger_of_a_number_and_a_constant_nan_is_the_number(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((4,), dtype), B: T.Tensor((2, 4), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[0, i] = T.max(A[i], math.nan)
                B[1, i] = T.min(math.nan, A[i])

    numbers = torch.tensor([1.0, -2.0, -math.inf, math.nan], dtype=getattr(torch, dtype))
    assert torch.equal(run(main, target, numbers)[:, :3], numbers[:3].expand(2, 3))
    assert run(main, target, numbers)[:, 3].isnan().all()
