"""Single-precision approximations within PTX's stated bounds, and arithmetic in directed rounding modes."""

from fractions import Fraction

import numpy as np
import pytest

from testing.python.simulator.models.native import call

SEED = 20240613


def approximation(name, values, flush=False):
    values = np.ascontiguousarray(values, dtype=np.float32)
    out = np.empty_like(values)
    call("approximation", name, flush, values, out)
    return out


# name, exact function, relative bound, absolute bound, input range (PTX ISA, floating-point instructions)
CASES = [
    ("ex2", np.exp2, 2.0**-22.5, 0, (-126, 127)),
    ("lg2", np.log2, 2.0**-22, 2.0**-22, (1e-30, 1e30)),
    ("rcp", lambda x: 1 / x, 2.0**-23, 0, (1e-30, 1e30)),
    ("sqrt", np.sqrt, 2.0**-23, 0, (0, 1e30)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 2.0**-22.9, 0, (1e-30, 1e30)),
    ("sin", np.sin, 0, 2.0**-20.5, (-3.14159, 3.14159)),
    ("cos", np.cos, 0, 2.0**-20.5, (-3.14159, 3.14159)),
    ("tanh", np.tanh, 2.0**-11, 0, (-20, 20)),
]


@pytest.mark.parametrize("name,function,relative,absolute,span", CASES, ids=[c[0] for c in CASES])
def test_error_bounds(name, function, relative, absolute, span):
    rng = np.random.default_rng(SEED)
    linear = rng.uniform(max(span[0], -1e3), min(span[1], 1e3), 5000)
    scaled = np.exp2(rng.uniform(-40, 20, 5000))
    values = np.concatenate([linear, scaled]).astype(np.float32)
    values = values[(values >= span[0]) & (values <= span[1])]
    want = function(values.astype(np.float64))
    error = np.abs(approximation(name, values).astype(np.float64) - want)
    assert np.all(error <= relative * np.abs(want) + absolute)


INF = float("inf")
NAN = float("nan")
# Results for -inf, -1, -0, +0, +inf, NaN; None where the result is an ordinary number.
SPECIAL_INPUTS = [-INF, -1.0, -0.0, 0.0, INF, NAN]
SPECIAL_RESULTS = {
    "ex2": [0.0, None, 1.0, 1.0, INF, NAN],
    "lg2": [NAN, NAN, -INF, -INF, INF, NAN],
    "rcp": [-0.0, -1.0, -INF, INF, 0.0, NAN],
    "sqrt": [NAN, NAN, -0.0, 0.0, INF, NAN],
    "rsqrt": [NAN, NAN, -INF, INF, 0.0, NAN],
    "sin": [NAN, None, -0.0, 0.0, NAN, NAN],
    "cos": [NAN, None, 1.0, 1.0, NAN, NAN],
    "tanh": [-1.0, None, -0.0, 0.0, 1.0, NAN],
}


@pytest.mark.parametrize("name", list(SPECIAL_RESULTS))
def test_special_values(name):
    got = approximation(name, SPECIAL_INPUTS).view(np.uint32)
    for value, bits, want in zip(SPECIAL_INPUTS, got, SPECIAL_RESULTS[name], strict=True):
        if want is None:
            continue
        want_bits = 0x7FFFFFFF if np.isnan(want) else int(np.float32(want).view(np.uint32))
        assert int(bits) == want_bits, (name, value)


def test_flushing_of_inputs_and_results():
    tiny = np.float32(1e-40)
    assert list(approximation("rcp", [tiny, -tiny], True)) == [np.inf, -np.inf]
    assert approximation("ex2", [-130], True)[0] == 0
    assert approximation("ex2", [-130])[0] == np.float32(2.0**-130)


def divide(name, a, b, flush=False):
    a, b = (np.ascontiguousarray(x, dtype=np.float32) for x in (a, b))
    out = np.empty_like(a)
    call("divide", name, flush, a, b, out)
    return out


def test_division():
    rng = np.random.default_rng(SEED)
    a, b = (rng.normal(0, 1, 5000).astype(np.float32) for _ in range(2))
    want = a.astype(np.float64) / b
    for name in ("approx", "full"):
        assert np.all(np.abs(divide(name, a, b) - want) <= 2.0**-22 * np.abs(want))
    huge = np.float32(2.0**127)
    assert divide("approx", [huge], [huge])[0] == 0  # outside the range where div.approx promises anything
    assert divide("full", [huge], [huge])[0] == 1
    assert np.isnan(divide("approx", [np.inf], [huge])[0])


def _directed(exact: Fraction, mode: str, dtype) -> float:
    """The neighbour of an exact value that a rounding mode picks."""
    near = dtype(float(exact)) if dtype is np.float32 else float(exact)
    value = Fraction(float(near))
    up = near if value >= exact else np.nextafter(dtype(near), dtype(np.inf))
    down = near if value <= exact else np.nextafter(dtype(near), dtype(-np.inf))
    return {"rp": up, "rm": down, "rz": down if exact > 0 else up}[mode]


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "fma"])
@pytest.mark.parametrize("width", [32, 64])
def test_directed_rounding(width, name, mode):
    rng = np.random.default_rng(SEED)
    dtype = {32: np.float32, 64: np.float64}[width]
    a, b, c = (rng.normal(0, 4, 400).astype(dtype) for _ in range(3))
    out = np.empty_like(a)
    call(f"f{width}_arithmetic", name, mode, a, b, c, out)
    operation = {
        "add": lambda x, y, z: x + y,
        "sub": lambda x, y, z: x - y,
        "mul": lambda x, y, z: x * y,
        "div": lambda x, y, z: x / y,
        "fma": lambda x, y, z: x * y + z,
    }[name]
    want = [_directed(operation(*(Fraction(float(v)) for v in triple)), mode, dtype) for triple in zip(a, b, c, strict=True)]
    assert np.array_equal(out, np.array(want, dtype=dtype))
