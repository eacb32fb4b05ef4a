"""Arithmetic by vectors of each width that this machine has: products against sums in the order of k, and powers of two."""

import numpy as np
import pytest

from testing.python.simulator.models import fragments
from testing.python.simulator.models.native import call
from testing.python.simulator.models.products import ordered_sum, random_codes, values_of

SEED = 20261122
NAN = 0x7FFFFFFF


def product(bits, name, a_codes, b_codes, c):
    """D's bits [16, 8]; None where the machine has no such vectors."""
    depth = a_codes.shape[1]
    a = fragments.pack(a_codes, lambda lane, i: fragments.a_place(lane, i, 16, 16), 16, depth // 2)
    b = fragments.pack(b_codes, lambda lane, i: fragments.b_place(lane, i, 16), 16, depth // 4)
    accumulators = fragments.pack(c.view(np.uint32), fragments.c_place, 32, 4)
    words = [np.ascontiguousarray(w.T.astype(np.uint32)) for w in (a, b, accumulators)]
    d = np.zeros((4, 32), np.uint32)
    if not call("warp_product", bits, name == "bf16", *words, d):
        return None
    return fragments.unpack(np.ascontiguousarray(d.T), fragments.c_place, 32, 4, (16, 8)).astype(np.uint32)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_product(name, depth, bits):
    rng = np.random.default_rng(SEED)
    a, b = random_codes(rng, (16, depth), name), random_codes(rng, (depth, 8), name)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    got = product(bits, name, a, b, c)
    if got is None:
        assert bits == 512
        return
    want = ordered_sum(values_of(a, name), values_of(b, name), c)
    np.testing.assert_array_equal(got, want.view(np.uint32))


@pytest.mark.parametrize("bits", [256, 512])
def test_nan_results_are_canonical(bits):
    a, b = np.zeros((16, 8), np.uint64), np.zeros((8, 8), np.uint64)
    a[1, 1] = 0x7C00  # infinity
    a[2, 2] = 0x7C01  # NaN
    b[1, 1] = b[2, 2] = 0x3C00
    got = product(bits, "f16", a, b, np.zeros((16, 8), np.float32))
    if got is None:
        assert bits == 512
        return
    assert got[1, 1] == 0x7F800000
    assert got[1, 0] == NAN  # infinity times zero
    assert (got[2] == NAN).all()
    assert (got[3:] == 0).all()


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("columns", [8, 24, 72, 128])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_dense_product(name, columns, bits):
    rng = np.random.default_rng(SEED)
    a, b = (values_of(random_codes(rng, shape, name), name).astype(np.float32) for shape in ((16, 16), (16, columns)))
    c = rng.standard_normal((16, columns)).astype(np.float32)
    got = c.copy()
    if not call("dense_product", bits, name == "f16", a, b, got):
        assert bits == 512
        return
    np.testing.assert_array_equal(got.view(np.uint32), ordered_sum(a, b, c).view(np.uint32))


def test_powers_of_two_by_the_widest_vectors():
    rng = np.random.default_rng(SEED)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 127.99999, 128, -126, -126.5, -149, -149.5, -150, -151, 0.5, 1e-40, 1]
    for low, high in ((-1, 1), (-151, 129)):
        x = np.array([*special, *rng.uniform(low, high, 16)], np.float32)
        got = np.zeros(32, np.float32)
        if not call("exp2", 512, x, got):
            return
        with np.errstate(over="ignore", under="ignore"):
            want = np.exp2(x.astype(np.float64)).astype(np.float32)
        want.view(np.uint32)[np.isnan(want)] = NAN
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
